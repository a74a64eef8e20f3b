"""Memory of attention weights: computed by formulas from lectures, and counted in models.

Each head has R^4 weights if every pixel of an R x R image attends to every pixel. With patches, the
number of weights is the square of the number of patches. With windows of M x M tokens on a map of
H x W tokens, it is M^2 H W instead of (H W)^2.
"""

import minitorch_attn as mt
from minitorch_attn.models.swin import Block

__all__ = ["sums"]

MIB = 2**20
LAYERS, HEADS, BYTES = 48, 16, 4  # of the model in the lecture, with float32 weights


def pixels(side):
    """Return how many attention weights one head has if every pixel is a token."""
    return side**4


def patches(side, patch):
    """Return how many attention weights one head has if each token is a square patch."""
    return (side // patch) ** 4


def windows(height, width, window):
    """Return how many attention weights one head has if tokens attend within windows."""
    return window**2 * height * width


def counted(model, x):
    """Count the attention weights that a forward pass of the model computes."""
    with mt.no_grad(), mt.nn.collect_attention(model) as found:
        model(x)
    return sum(weights.numel() for _, weights in found)


def small_vit(side, patch, layers, heads):
    """Build a ViT with head dimension 1, which does not change the number of attention weights."""
    return mt.models.VisionTransformer(
        image_size=side, patch_size=patch, num_classes=0, embed_dim=heads, num_layers=layers,
        num_heads=heads, mlp_dim=heads, pooling="mean",
    )  # fmt: skip


def sums():
    """Compute the memory of attention weights by formula and, in small models, by counting.

    Returns
    -------
    list of dict
        "what" (description), "formula" (bytes) and "counted" (bytes, or None if not counted).
    """
    all_heads = LAYERS * HEADS * BYTES
    rows = []

    def add(what, formula, found):
        rows.append({"what": what, "formula": formula, "counted": found and found * BYTES})

    add("pixels, 128 x 128, 48 layers of 16 heads", pixels(128) * all_heads, None)
    found = counted(small_vit(32, 1, 1, 1), mt.zeros(1, 3, 32, 32))
    add("pixels, 32 x 32, one head", pixels(32) * BYTES, found)
    for patch in (16, 14):
        found = counted(small_vit(224, patch, LAYERS, HEADS), mt.zeros(1, 3, 224, 224))
        what = f"ViT, 224 x 224 in patches of {patch}, 48 layers of 16 heads"
        add(what, patches(224, patch) * all_heads, found)
    add("a 56 x 56 map, one head, global attention", (56 * 56) ** 2 * BYTES, None)
    found = counted(Block(1, 1, (7, 7), (0, 0), 1), mt.zeros(1, 56, 56, 1))
    add("the same in windows of 7 x 7", windows(56, 56, 7) * BYTES, found)
    return rows
