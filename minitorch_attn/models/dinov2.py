"""DINOv2: a Vision Transformer (ViT) with layer scale, SwiGLU and register tokens.

Oquab et al. 2023, "DINOv2: Learning Robust Visual Features without Supervision",
arXiv:2304.07193v2. Darcet et al. 2023, "Vision Transformers Need Registers", arXiv:2309.16588v2,
add register tokens. The model stores global information in these tokens rather than in the patches.
"""

from .. import nn, ops
from ..computes import computes
from .vit import Block, VisionTransformer

__all__ = ["DINOv2", "dinov2_b_14", "dinov2_g_14", "dinov2_l_14", "dinov2_s_14", "swiglu_dim"]


def swiglu_dim(hidden_dim):
    """Return a SwiGLU network's hidden size: 2/3 of `hidden_dim`, rounded up to a multiple of 8.

    With two thirds of the hidden size, SwiGLU's three matrices have as many weights as the two
    matrices of an ordinary feed-forward network.

    Examples
    --------
    >>> swiglu_dim(6144)
    4096
    """
    return (int(hidden_dim * 2 / 3) + 7) // 8 * 8


class ScaledBlock(Block):
    """Block of DINOv2: `x + scale1 attention(norm(x))`, then `x + scale2 feed_forward(norm(x))`.

    Parameters
    ----------
    embed_dim, num_heads, mlp_dim : int
    scale : float, default 1
        Initial value of the scales.
    swiglu : bool, default False
        Whether the feed-forward network is SwiGLU, of hidden size `swiglu_dim(mlp_dim)`.
    **options
        Arguments of `vit.Block`.

    Attributes
    ----------
    scale1, scale2 : Parameter of shape (embed,)
        Learned factor for each feature.

    References
    ----------
    .. [1] Touvron et al. 2021, "Going deeper with Image Transformers", arXiv:2103.17239v2,
       section 2: LayerScale.
    """

    def __init__(self, embed_dim, num_heads, mlp_dim, *, scale=1.0, swiglu=False, **options):
        super().__init__(embed_dim, num_heads, mlp_dim, **options)
        if swiglu:
            self.feed_forward = nn.GatedFeedForward(embed_dim, swiglu_dim(mlp_dim), bias=True)
        self.scale1, self.scale2 = (nn.Parameter(ops.full(embed_dim, scale)) for _ in range(2))

    @computes("pre-norm block")
    def forward(self, x, mask=None):
        # x: (batch, token, embed)
        attended = self.attention(self.norm1(x), mask=mask)
        x = x + self.drop_path(self.scale1 * self.dropout(attended))
        hidden = self.feed_forward(self.norm2(x))
        return x + self.drop_path(self.scale2 * self.dropout(hidden))


class DINOv2(VisionTransformer):
    """Vision Transformer of DINOv2, with optional register tokens. Returns the class token.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
    embed_dim, num_layers, num_heads, mlp_dim : int
    num_registers : int, default 0
        Number of register tokens. They are placed between the class token and the patches, without
        position embeddings.
    scale : float, default 1
        Initial value of the layer scales, 1e-5 in the authors' training.
    swiglu : bool, default False
    drop_path : float, default 0
        Probability of skipping a residual branch for a whole sample, the same in all blocks.
    dropout : float, default 0
        Dropout probability of the embeddings.
    in_channels, qkv_bias, attention_dropout, activation, eps
        As in `VisionTransformer`.

    Attributes
    ----------
    register_tokens : Parameter of shape (1, registers, embed)

    References
    ----------
    .. [1] Oquab et al. 2023, arXiv:2304.07193v2, section 5 and Table 17.
    .. [2] Darcet et al. 2023, arXiv:2309.16588v2, section 2.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = DINOv2(8, 2, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=7, num_registers=4)
    >>> model(mt.zeros(5, 3, 8, 8)).shape, model.embed(mt.zeros(5, 3, 8, 8)).shape
    ((5, 6), (5, 21, 6))
    """

    def __init__(
        self, image_size=518, patch_size=14, embed_dim=768, num_layers=12, num_heads=12,
        mlp_dim=3072, *, num_registers=0, scale=1.0, swiglu=False, drop_path=0.0, dropout=0.0,
        in_channels=3, qkv_bias=True, attention_dropout=0.0, activation="gelu", eps=1e-6,
    ):  # fmt: skip
        super().__init__(
            image_size, patch_size, 0, embed_dim, 0, num_heads, mlp_dim, in_channels=in_channels,
            dropout=dropout, eps=eps,
        )  # fmt: skip
        self.register_tokens = nn.Parameter(ops.zeros(1, num_registers, embed_dim))
        self.blocks = nn.ModuleList(
            ScaledBlock(
                embed_dim, num_heads, mlp_dim, scale=scale, swiglu=swiglu, drop_path=drop_path,
                qkv_bias=qkv_bias, attention_dropout=attention_dropout, activation=activation,
                eps=eps,
            )
            for _ in range(num_layers)
        )  # fmt: skip

    def embed(self, images):
        """Embed images (batch, channel, height, width). Returns (batch, token, embed)."""
        tokens = self.positions(self.with_prefix(self.patch_embedding(images)))
        return self.dropout(self.with_registers(tokens))

    def with_registers(self, tokens):
        """Insert the register tokens after the class token. Returns (batch, token, embed)."""
        batch, _, embed_dim = tokens.shape
        registers = self.register_tokens.expand(batch, self.register_tokens.shape[1], embed_dim)
        return ops.cat([tokens[:, :1], registers, tokens[:, 1:]], 1)


def _published(embed_dim, num_layers, num_heads, options):
    sizes = (embed_dim, num_layers, num_heads, 4 * embed_dim)
    return DINOv2(options.pop("image_size", 518), 14, *sizes, **options)


def dinov2_s_14(**options):
    """DINOv2 ViT-S/14: 22,056,192 parameters.

    Parameters
    ----------
    **options
        Arguments of `DINOv2` to override, such as num_registers=4.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.nn.init.skip_init():
    ...     model = dinov2_s_14()
    >>> sum(p.numel() for p in model.parameters())
    22056192
    """
    return _published(384, 12, 6, options)


def dinov2_b_14(**options):
    """DINOv2 ViT-B/14: 86,579,712 parameters. See `dinov2_s_14`."""
    return _published(768, 12, 12, options)


def dinov2_l_14(**options):
    """DINOv2 ViT-L/14: 304,367,616 parameters. See `dinov2_s_14`."""
    return _published(1024, 24, 16, options)


def dinov2_g_14(**options):
    """DINOv2 ViT-g/14, with SwiGLU: 1,136,479,232 parameters. See `dinov2_s_14`."""
    return _published(1536, 40, 24, {"swiglu": True, **options})
