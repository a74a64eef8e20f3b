"""ViT recipe: a Vision Transformer learns to read handwritten digits."""

from ...models.vit import VisionTransformer
from .digits import DigitClassifier
from .options import Option, common_options

__all__ = ["ViT"]


class ViT(DigitClassifier):
    """Train a Vision Transformer on handwritten digits.

    Images of 8 x 8 pixels are split into patches of 2 x 2 pixels, with learned position embeddings
    for rows and columns. The head reads the mean of the patches. The data are scikit-learn's
    digits, split 80/20 with a fixed seed and stratified by digit.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Dosovitskiy et al. 2020, arXiv:2010.11929v2.
    """

    name = "vit"
    summary = "a Vision Transformer classifies handwritten digits"
    headline = "A Vision Transformer learns to read handwritten digits."
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(
            steps=1000, lr=3e-3, batch=64, layers=2, dim=64, dropout=0.1, weight_decay=0.05
        ),
        Option("patch", 2, "Height and width of a patch in pixels."),
        Option("noise", 0.1, "Standard deviation of noise in training images.", "from_zero"),
        Option("smoothing", 0.1, "Label smoothing.", "share"),
    )

    def build(self):
        """Create a ViT of the requested size."""
        options = self.options
        return VisionTransformer(
            image_size=8, patch_size=options["patch"], num_classes=10, embed_dim=options["dim"],
            num_layers=options["layers"], num_heads=options["heads"], mlp_dim=2 * options["dim"],
            in_channels=1, positions="2d", pooling="mean", dropout=options["dropout"],
        )  # fmt: skip
