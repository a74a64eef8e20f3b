"""Additions to ViT in timm: norms in attention, scaled blocks and attention pooling."""

from types import SimpleNamespace

from ... import nn, ops
from ...computes import computes
from ...errors import ArgumentError
from ...nn import init
from .timm_interface import timm_activation

__all__ = ["AttentionPool", "NormedAttention", "ScaledBlock", "norm_maker"]

_NORMS = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


def norm_maker(norm_layer):
    """Return a function that creates a normalization layer of a given width.

    Parameters
    ----------
    norm_layer : str, (str, float) or None
        timm's name for the layer, with eps if it is not 1e-6. None selects a layer norm.
    """
    name, eps = norm_layer if isinstance(norm_layer, tuple) else (norm_layer, 1e-6)
    name = (name or "layernorm").replace("_", "").lower()
    if name not in _NORMS:
        raise ArgumentError(
            "norm_layer in the configuration is not supported",
            got=repr(norm_layer), expected=f"one of {', '.join(_NORMS)}",
        )  # fmt: skip
    return lambda width: _NORMS[name](width, eps=eps)


class NormedAttention(nn.Attention):
    """Attention with optional normalization of the queries and keys, and of the context.

    The context is the weighted mean of the values.

    Parameters
    ----------
    embed_dim, num_heads : int
    make_norm : callable
        Function that creates a normalization layer of a given width.
    qk_norm, scale_norm : bool
        `qk_norm` normalizes the queries and keys of each head. `scale_norm` normalizes the context.
    **options
        Further arguments passed to `nn.Attention`.

    References
    ----------
    .. [1] Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters",
       arXiv:2302.05442v1, section 2: queries and keys.
    .. [2] Wang et al. 2022, "Foundation Transformers", arXiv:2210.06423v2, section 2: the context.
    """

    def __init__(self, embed_dim, num_heads, make_norm, qk_norm=False, scale_norm=False, **options):
        super().__init__(embed_dim, num_heads, **options)
        self.q_norm = make_norm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = make_norm(self.head_dim) if qk_norm else nn.Identity()
        self.norm = make_norm(embed_dim) if scale_norm else None

    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        # query: (batch, heads, token, head_dim)
        query, key = self.q_norm(query), self.k_norm(key)
        context = super().attend(query, key, value, mask, bias, is_causal)
        if self.norm is None:
            return context
        whole = self.norm(context.transpose(1, 2).flatten(2))  # (batch, token, embed)
        return self._split(whole, self.num_heads)


class NormedFeedForward(nn.FeedForward):
    """Feed-forward network with an optional norm after the activation f: `W2 norm(f(W1 x))`."""

    def __init__(self, embed_dim, hidden_dim, activation, dropout, bias, norm):
        super().__init__(embed_dim, hidden_dim, activation, dropout, bias)
        self.norm = norm

    def forward(self, x):
        # x: (batch, token, embed) -> (batch, token, hidden) -> (batch, token, embed)
        if self.norm is None:
            return super().forward(x)
        return self.linear2(self.norm(self.dropout(self.activation(self.linear1(x)))))


class ScaledBlock(nn.Module):
    """Pre-norm Transformer block that scales each branch by learned factors (LayerScale).

    The block computes `x + scale1 attention(norm(x))`, then `x + scale2 feed_forward(norm(x))`.

    Parameters
    ----------
    args : namespace
        Arguments of the timm model.
    drop_path : float
        DropPath probability of this block.

    Attributes
    ----------
    scale1, scale2 : Parameter of shape (embed,), or None
        Learned factor for each feature.

    References
    ----------
    .. [1] Touvron et al. 2021, "Going deeper with Image Transformers", arXiv:2103.17239v2,
       section 2: LayerScale.
    """

    def __init__(self, args, drop_path):
        super().__init__()
        width, make_norm = args.embed_dim, norm_maker(args.norm_layer)
        self.norm1, self.norm2 = make_norm(width), make_norm(width)
        self.attention = NormedAttention(
            width, args.num_heads, make_norm, args.qk_norm, args.scale_attn_norm,
            bias=args.qkv_bias, out_bias=args.proj_bias, dropout=args.attn_drop_rate,
        )  # fmt: skip
        self.feed_forward = _feed_forward(args, make_norm)
        self.scale1 = self.scale2 = None
        if args.init_values:
            self.scale1, self.scale2 = (_factors(width, args.init_values) for _ in range(2))
        self.dropout = nn.Dropout(args.proj_drop_rate)
        self.drop_path = nn.DropPath(drop_path)

    @computes("pre-norm block")
    def forward(self, x, mask=None, bias=None, is_causal=False):
        # x: (batch, token, embed)
        y = self.attention(self.norm1(x), mask=mask, bias=bias, is_causal=is_causal)
        x = x + self._scaled(y, self.scale1)
        return x + self._scaled(self.feed_forward(self.norm2(x)), self.scale2)

    def _scaled(self, y, scale):
        y = self.dropout(y)
        return self.drop_path(y if scale is None else y * scale)


def _feed_forward(args, make_norm):
    hidden, bias = int(args.embed_dim * args.mlp_ratio), args.proj_bias
    activation = timm_activation(args.act_layer or "gelu")
    if args.mlp_layer == "SwiGLUPacked":
        return nn.GatedFeedForward(
            args.embed_dim, hidden // 2, activation, args.proj_drop_rate, bias
        )
    norm = make_norm(hidden) if args.scale_mlp_norm else None
    return NormedFeedForward(args.embed_dim, hidden, activation, args.proj_drop_rate, bias, norm)


def _factors(width, value):
    factors = nn.Parameter(ops.empty(width))
    init.constant_(factors, value)
    return factors


class AttentionPool(nn.Module):
    """Attention pooling: a learned query attends to the patches; a feed-forward network follows.

    Parameters
    ----------
    args : namespace
        Arguments of the timm model.

    References
    ----------
    .. [1] Zhai et al. 2021, "Scaling Vision Transformers", arXiv:2106.04560v2, section 3.2: the
       "multihead attention pooling" head.
    """

    def __init__(self, args):
        super().__init__()
        width, make_norm = args.embed_dim, norm_maker(args.norm_layer)
        self.latent = nn.Parameter(ops.zeros(1, 1, width))
        init.trunc_normal_(self.latent, std=width**-0.5)
        self.attention = nn.Attention(width, args.num_heads)
        self.norm = make_norm(width)
        plain = dict(scale_mlp_norm=False, mlp_layer=None, proj_drop_rate=0.0, proj_bias=True)
        self.feed_forward = _feed_forward(SimpleNamespace(**{**vars(args), **plain}), make_norm)

    def forward(self, x):
        # x: (batch, token, embed) -> (batch, embed)
        latent = self.latent.expand(x.shape[0], 1, x.shape[2])
        pooled = self.attention(latent, x)  # (batch, 1, embed)
        return (pooled + self.feed_forward(self.norm(pooled)))[:, 0]
