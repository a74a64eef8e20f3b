"""The reward: your Swin learns to tell pictures apart. About half a minute."""

import sys

from training import tell_pictures_apart

import minitorch_attn as mt


def make_model(classes):
    """A small one, for pictures of 8 x 8 pixels."""
    return mt.models.Swin(
        image_size=8, patch_size=2, in_channels=1, num_classes=classes, embed_dim=48,
        depths=(2, 2), num_heads=(2, 4), window_size=2,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(tell_pictures_apart(make_model, steps=320, rate=1e-3))
