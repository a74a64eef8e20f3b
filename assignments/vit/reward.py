"""The reward: your ViT learns to tell pictures apart. About half a minute."""

import sys

from training import tell_pictures_apart

import minitorch_attn as mt


def make_model(classes):
    """A small one, for pictures of 8 x 8 pixels."""
    return mt.models.VisionTransformer(
        image_size=8, patch_size=2, num_classes=classes, embed_dim=64, num_layers=2, num_heads=4,
        mlp_dim=128, in_channels=1,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(tell_pictures_apart(make_model, steps=240, rate=2e-3))
