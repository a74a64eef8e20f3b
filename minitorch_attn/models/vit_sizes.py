"""Published sizes of ViT, with one function for each size.

The sizes are from Dosovitskiy et al. 2020, arXiv:2010.11929v2, Table 1, and from Zhai et al.
2021, "Scaling Vision Transformers", arXiv:2106.04560v2, Table 2, which adds smaller and larger
sizes. The papers count the parameters without the head. The parameter counts in this file include a
head for 1000 classes.
"""

from ..errors import ArgumentError
from .vit import VisionTransformer

__all__ = [
    "vision_transformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32", "vit_s_16",
    "vit_s_32", "vit_ti_16",
]  # fmt: skip

# name -> (embed_dim, num_layers, mlp_dim, num_heads)
SIZES = {
    "s": (256, 6, 1024, 8), "Ti": (192, 12, 768, 3), "S": (384, 12, 1536, 6),
    "B": (768, 12, 3072, 12), "L": (1024, 24, 4096, 16), "H": (1280, 32, 5120, 16),
    "g": (1408, 40, 6144, 16), "G": (1664, 48, 8192, 16),
}  # fmt: skip


def vision_transformer(
    name, *, image_size=224, num_classes=1000, model=VisionTransformer, **options
):
    """Build a ViT of a published size.

    Parameters
    ----------
    name : str
        Model size and patch size, as the papers write them, such as "B/16" or "L/32".
    image_size : int, default 224
    num_classes : int, default 1000
    model : class, default VisionTransformer
        Class of the model to build.
    **options
        Further arguments passed to `model`.

    Examples
    --------
    >>> sum(p.array.size for p in vision_transformer("Ti/16").parameters())
    5717416
    """
    size, slash, patch = name.partition("/")
    if size not in SIZES or not slash or not patch.isdigit():
        raise ArgumentError(
            "vision_transformer: name is not a known model size",
            got=repr(name),
            expected=f"one of {', '.join(SIZES)}, followed by a patch size, as in 'B/16'",
        )
    embed_dim, num_layers, mlp_dim, num_heads = SIZES[size]
    return model(
        image_size, int(patch), num_classes, embed_dim, num_layers, num_heads, mlp_dim, **options
    )


def vit_ti_16(**options):
    """ViT-Ti/16: 5,717,416 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("Ti/16", **options)


def vit_s_16(**options):
    """ViT-S/16: 22,050,664 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("S/16", **options)


def vit_s_32(**options):
    """ViT-S/32: 22,878,952 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("S/32", **options)


def vit_b_16(**options):
    """ViT-B/16: 86,567,656 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("B/16", **options)


def vit_b_32(**options):
    """ViT-B/32: 88,224,232 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("B/32", **options)


def vit_l_16(**options):
    """ViT-L/16: 304,326,632 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("L/16", **options)


def vit_l_32(**options):
    """ViT-L/32: 306,535,400 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("L/32", **options)


def vit_h_14(**options):
    """ViT-H/14: 632,045,800 parameters. `options` are passed to `vision_transformer`."""
    return vision_transformer("H/14", **options)
