"""DINO's Transformer: a ViT for images of several sizes, and its last block's attention maps.

Caron et al. 2021, arXiv:2104.14294v2, section 3.2 and Figures 1 and 8.
"""

from .. import nn, ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..nn import init
from .vit import VisionTransformer
from .vit_positions import interpolate_positions

__all__ = ["DINOTransformer"]


class DINOTransformer(VisionTransformer):
    """ViT backbone that accepts images of any size and returns the class token's features.

    Small views have fewer patches than images of size `image_size`. The position embeddings are
    interpolated to the grid of each view.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
    embed_dim, num_layers, num_heads, mlp_dim : int
    **options
        Further arguments of `VisionTransformer`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = DINOTransformer(8, 2, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=7)
    >>> model(mt.zeros(5, 3, 8, 8)).shape, model(mt.zeros(5, 3, 4, 6)).shape
    ((5, 6), (5, 6))
    """

    def __init__(
        self, image_size=224, patch_size=16, embed_dim=384, num_layers=12, num_heads=6,
        mlp_dim=1536, **options,
    ):  # fmt: skip
        super().__init__(
            image_size, patch_size, 0, embed_dim, num_layers, num_heads, mlp_dim, **options
        )
        init.trunc_normal_(self.class_token, std=0.02)

    @computes("patches with positions")
    def embed(self, images):
        """Embed images of any size. Returns tokens plus positions, shape (batch, token, embed)."""
        tokens = self.with_prefix(self.patch_embedding(images))
        weight, prefix = self.positions.weight, self.num_prefix
        grid = self.patch_embedding.grid(*images.shape[-2:])
        patches = interpolate_positions(weight[prefix:], self.grid, grid)
        return self.dropout(tokens + ops.cat([weight[:prefix], patches], 0))

    def last_attention(self, images):
        """Return the attention weights of the last block.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        Tensor of shape (batch, heads, token, token)
            Row 0 contains the weights of the class token (Figure 1 of the paper). Row 1 + p
            contains the weights of patch p, which form the map of a reference point in that patch
            (Figure 8).
        """
        with nn.collect_attention(self.blocks[-1]) as found, no_grad():
            self.encode(self.embed(images))
        return found[0][1]

    def reference_maps(self, images, points):
        """Return the attention map of each reference point, with one pixel for each patch.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
        points : list of (int, int)
            Row and column of each point, in pixels.

        Returns
        -------
        Tensor of shape (batch, point, heads, patch row, patch column)
        """
        rows, columns = self.patch_embedding.grid(*images.shape[-2:])
        height, width = self.patch_embedding.patch_size
        patches = [(y // height) * columns + x // width for y, x in points]
        weights = self.last_attention(images)[:, :, self.num_prefix :, self.num_prefix :]
        maps = ops.stack([weights[:, :, patch] for patch in patches], 1)
        return maps.reshape(*maps.shape[:3], rows, columns)
