"""Swin recipe: a Swin Transformer learns to read handwritten digits."""

from ...models.swin import Swin as SwinTransformer
from .base import start_by_width
from .digits import DigitClassifier
from .options import Option, common_options

__all__ = ["Swin"]


class Swin(DigitClassifier):
    """Train a Swin Transformer on handwritten digits.

    Images of 8 x 8 pixels are split into patches of 2 x 2 pixels. On this map of 4 x 4 tokens, the
    first stage attends within windows of 2 x 2, which are shifted in every other block. Then groups
    of 2 x 2 tokens are merged into one, and the second stage has a single window. The recipe
    `vit` uses the same data.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Liu et al. 2021, arXiv:2103.14030v2.
    """

    name = "swin"
    summary = "a Swin Transformer classifies handwritten digits"
    headline = "A Swin Transformer learns to read handwritten digits."
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(
            steps=1000, lr=3e-3, batch=64, layers=2, heads=2, dim=48, dropout=0.1,
            weight_decay=0.05,
        ),
        Option("patch", 2, "Height and width of a patch in pixels."),
        Option("window", 2, "Height and width of a window in tokens."),
        Option("noise", 0.1, "Standard deviation of noise in training images.", "from_zero"),
        Option("smoothing", 0.1, "Label smoothing.", "share"),
    )  # fmt: skip

    def build(self):
        """Create two stages. The second stage has twice the width and twice as many heads."""
        options = self.options
        model = SwinTransformer(
            image_size=8,
            patch_size=options["patch"],
            in_channels=1,
            num_classes=10,
            embed_dim=options["dim"],
            depths=(options["layers"], options["layers"]),
            num_heads=(options["heads"], 2 * options["heads"]),
            window_size=options["window"],
            mlp_ratio=2.0,
            dropout=options["dropout"],
            absolute_positions=True,
        )
        start_by_width(model)
        return model
