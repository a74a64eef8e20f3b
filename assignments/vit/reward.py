"""The reward: your ViT learns to classify images, and shows where it attends (10 seconds)."""

import sys

import numpy as np
from training import beside, panel, run, tell_pictures_apart

import minitorch_attn as mt


def make_model(classes):
    """Make a small ViT for images of 8 x 8 pixels."""
    return mt.models.VisionTransformer(
        image_size=8, patch_size=2, num_classes=classes, embed_dim=64, num_layers=2, num_heads=4,
        mlp_dim=128, in_channels=1,
    )  # fmt: skip


def look(model, image):
    """Draw where the class token attends, for each head and patch."""
    maps = mt.viz.attention_maps(model, mt.tensor(image))
    of_class = maps[-1][:, 0, 1:].reshape(-1, 4, 4)  # (head, row, column)
    pixels = np.kron(of_class, np.ones((2, 2)))
    print("Where the class token attends in the last block, for three of its heads:\n")
    beside(panel("the image", image[0, 0]),
           *(panel(f"head {i}", pixels[i]) for i in range(3)))  # fmt: skip


def main():
    """Train on digits."""
    return tell_pictures_apart(make_model, steps=400, rate=2e-3, look=look)


if __name__ == "__main__":
    sys.exit(run(main))
