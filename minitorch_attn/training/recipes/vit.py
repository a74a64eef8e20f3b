"""A Vision Transformer learns to read handwritten digits."""

from ...models.vit import VisionTransformer
from .digits import DigitClassifier
from .options import Option, common_options

__all__ = ["ViT"]


class ViT(DigitClassifier):
    """Train a Vision Transformer on handwritten digits.

    Images of 8 x 8 pixels are cut into patches of 2 x 2, with one position for the row and one for
    the column; the head reads the mean of the patches. The data are scikit-learn's digits, split
    80/20 by a fixed seed with the same share of every digit.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`; what is missing has its default.

    References
    ----------
    .. [1] Dosovitskiy et al. 2020, arXiv:2010.11929v2.
    """

    name = "vit"
    summary = "a Vision Transformer reads handwritten digits"
    headline = "A Vision Transformer learns to read handwritten digits."
    OPTIONS = (
        *common_options(
            steps=1000, lr=3e-3, batch=64, layers=2, dim=64, dropout=0.1, weight_decay=0.05
        ),
        Option("patch", 2, "Pixels of a patch, in either direction."),
        Option("noise", 0.1, "Of the training images: standard deviation of pixels.", "from_zero"),
        Option("smoothing", 0.1, "Label smoothing.", "share"),
    )

    def build(self):
        """A ViT of the size that was asked for."""
        options = self.options
        return VisionTransformer(
            image_size=8,
            patch_size=options["patch"],
            num_classes=10,
            embed_dim=options["dim"],
            num_layers=options["layers"],
            num_heads=options["heads"],
            mlp_dim=2 * options["dim"],
            in_channels=1,
            positions="2d",
            pooling="mean",
            dropout=options["dropout"],
        )
