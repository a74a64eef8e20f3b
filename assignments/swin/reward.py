"""The reward: your Swin learns to classify images, and shows its receptive field (10 seconds)."""

import sys

import numpy as np
from training import beside, panel, run, tell_pictures_apart

import minitorch_attn as mt


def make_model(classes):
    """Make a small Swin for images of 8 x 8 pixels."""
    return mt.models.Swin(
        image_size=8, patch_size=2, in_channels=1, num_classes=classes, embed_dim=48,
        depths=(2, 2), num_heads=(2, 4), window_size=2,
    )  # fmt: skip


def seen(model, image, blocks):
    """Return which pixels one patch depends on after the first `blocks` blocks."""
    pixels = mt.tensor(image, requires_grad=True)
    x = model.patch_embedding(pixels)  # (batch, row, column, embed)
    for block in model.stages[0].blocks[:blocks]:
        x = block(x)
    mt.manual_seed(0)
    (x[0, 1, 1] * mt.randn(x.shape[-1])).sum().backward()
    return np.abs(pixels.grad.numpy()[0, 0]) > 0


def look(model, image):
    """Draw the pixels on which the patch in the second row and column depends, block by block."""
    print("The pixels on which the patch in the second row and column depends:\n")
    titles = ("the patch", "its window", "shifted windows")
    beside(panel("the image", image[0, 0]),
           *(panel(title, seen(model, image, n)) for n, title in enumerate(titles)))  # fmt: skip
    print("\nWithout shifted windows, the patch would depend only on its own window.")


def main():
    """Train on digits."""
    return tell_pictures_apart(make_model, steps=400, rate=1.5e-3, look=look)


if __name__ == "__main__":
    sys.exit(run(main))
