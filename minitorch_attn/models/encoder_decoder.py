"""Encoder and decoder stacks: the layers of the Transformer, and what enters them.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762v7, section 3 and Figure 1. BART
and Marian kept this architecture and are made of the same layers.
"""

from .. import nn
from ..backend import random
from ..errors import ShapeError

__all__ = ["Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "SequenceEmbedding"]


class Residual(nn.Module):
    """The path around a sub-layer: norm(x + f(x)), or x + f(norm(x)) with `norm_first`.

    The first is the paper's (section 3.1). With the second the path from the embeddings to the
    output is a plain sum, and training needs no warm-up (Xiong et al. 2020, arXiv:2002.04745v2,
    Figure 1).

    Parameters
    ----------
    embed_dim : int
    dropout : float
        On what the sub-layer adds (section 5.4).
    norm_first : bool
    eps : float
        Of the LayerNorm.
    """

    def __init__(self, embed_dim, dropout, norm_first, eps):
        super().__init__()
        self.norm = nn.LayerNorm(embed_dim, eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x, sublayer):
        # x: (batch, token, embed)
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))

    def extra_repr(self):
        return f"norm_first={self.norm_first}"


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network (section 3.1, left half of Figure 1).

    Parameters
    ----------
    embed_dim, num_heads, ff_dim : int
    dropout : float, default 0.1
        On the output of each sub-layer.
    attention_dropout : float, default 0
        On the attention weights.
    ff_dropout : float, default 0
        Inside the feed-forward network.
    activation : str or callable, default "relu"
    norm_first : bool, default False
        Normalise the input of each sub-layer instead of the sum after it.
    eps : float, default 1e-5
        Of the LayerNorms.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = EncoderLayer(embed_dim=6, num_heads=2, ff_dim=8)
    >>> layer(mt.zeros(3, 5, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, embed_dim, num_heads, ff_dim, *, dropout=0.1, attention_dropout=0.0, ff_dropout=0.0,
        activation="relu", norm_first=False, eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        around = (embed_dim, dropout, norm_first, eps)
        self.attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_attention = Residual(*around)
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation, ff_dropout)
        self.around_feed_forward = Residual(*around)

    def forward(self, x, mask=None):
        """One layer of the encoder.

        Parameters
        ----------
        x : Tensor of shape (batch, source, embed)
        mask : Mask or bool Tensor, optional
            True = may attend; broadcasts to (batch, heads, source, source).
        """
        x = self.around_attention(x, lambda y: self.attention(y, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, a feed-forward network.

    The right half of Figure 1. Parameters as for `EncoderLayer`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = DecoderLayer(embed_dim=6, num_heads=2, ff_dim=8)
    >>> layer(mt.zeros(3, 5, 6), memory=mt.zeros(3, 7, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, embed_dim, num_heads, ff_dim, *, dropout=0.1, attention_dropout=0.0, ff_dropout=0.0,
        activation="relu", norm_first=False, eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        around = (embed_dim, dropout, norm_first, eps)
        self.attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_attention = Residual(*around)
        self.cross_attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_cross_attention = Residual(*around)
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation, ff_dropout)
        self.around_feed_forward = Residual(*around)

    def forward(self, x, memory=None, mask=None, memory_mask=None, cache=None, cross_cache=None):
        """One layer of the decoder.

        Parameters
        ----------
        x : Tensor of shape (batch, target, embed)
        memory : Tensor of shape (batch, source, embed), optional
            The encoder's output; without it there is no attention to it.
        mask : Mask or bool Tensor, optional
            True = may attend, in addition to the causal mask; broadcasts to (batch, heads,
            target, key).
        memory_mask : Mask or bool Tensor, optional
            Broadcasts to (batch, heads, target, source).
        cache, cross_cache : layers of a KVCache, optional
            Keys and values of earlier tokens, and of the memory.
        """

        def attend(y):
            return self.attention(y, mask=mask, is_causal=True, cache=cache)

        def attend_memory(y):
            return self.cross_attention(y, memory, mask=memory_mask, cache=cross_cache)

        x = self.around_attention(x, attend)
        if memory is not None:
            x = self.around_cross_attention(x, attend_memory)
        return self.around_feed_forward(x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of `EncoderLayer`; with pre-norm layers a last LayerNorm ends the sum.

    Parameters
    ----------
    num_layers : int
    embed_dim, num_heads, ff_dim, **options
        Of each layer.
    layer_drop : float, default 0
        How likely a layer is skipped while training (Fan et al. 2019, arXiv:1909.11556v1).
    """

    def __init__(self, num_layers, embed_dim, num_heads, ff_dim, *, layer_drop=0.0, **options):
        super().__init__()
        self.layers = nn.ModuleList(
            [EncoderLayer(embed_dim, num_heads, ff_dim, **options) for _ in range(num_layers)]
        )
        self.norm = _last_norm(embed_dim, **options)
        self.layer_drop = layer_drop

    def forward(self, x, mask=None):
        # x: (batch, source, embed)
        for layer in self.layers:
            if not _skipped(self):
                x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """A stack of `DecoderLayer`. Parameters as for `Encoder`."""

    def __init__(self, num_layers, embed_dim, num_heads, ff_dim, *, layer_drop=0.0, **options):
        super().__init__()
        self.layers = nn.ModuleList(
            [DecoderLayer(embed_dim, num_heads, ff_dim, **options) for _ in range(num_layers)]
        )
        self.norm = _last_norm(embed_dim, **options)
        self.layer_drop = layer_drop

    def forward(self, x, memory=None, mask=None, memory_mask=None, cache=None):
        """All layers in turn; arguments as for `DecoderLayer.forward`, `cache` a KVCache."""
        for i, layer in enumerate(self.layers):
            if _skipped(self):
                continue
            own = None if cache is None else cache.layer(i)
            cross = None if cache is None or memory is None else cache.cross(i)
            x = layer(x, memory, mask, memory_mask, own, cross)
        return x if self.norm is None else self.norm(x)


def _last_norm(embed_dim, norm_first=False, eps=1e-5, **_):
    return nn.LayerNorm(embed_dim, eps) if norm_first else None


def _skipped(stack):
    """Whether LayerDrop leaves out the next layer."""
    if not stack.training or stack.layer_drop == 0:
        return False
    return random.host_generator().random() < stack.layer_drop


class SequenceEmbedding(nn.Module):
    """What enters a stack: dropout(norm(scale * token vector + position)).

    Parameters
    ----------
    tokens : nn.Embedding
    positions : Module
        `positions(x, offset)` adds its vectors to x, whose first token stands at `offset`.
    scale : float, default 1
        The paper's is sqrt(embed_dim) (section 3.4), so that token vectors of length about 1,
        which suit the output layer, weigh as much as the positions.
    norm : Module, optional
    dropout : float, default 0
    """

    def __init__(self, tokens, positions, scale=1.0, norm=None, dropout=0.0):
        super().__init__()
        self.tokens, self.positions, self.scale = tokens, positions, scale
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids, offset=0):
        # ids: (batch, token) -> (batch, token, embed)
        return self.place(self.look_up(ids), offset)

    def look_up(self, ids):
        """The scaled vectors of the tokens: (batch, token, embed)."""
        if ids.ndim != 2:
            raise ShapeError(
                "these are not token ids of a batch.", got=f"{ids.shape}", expected="(batch, token)"
            )
        x = self.tokens(ids)
        return x if self.scale == 1 else x * self.scale

    def place(self, x, offset=0):
        """`x`, (batch, token, embed), with its positions from `offset` on."""
        x = self.positions(x, offset)
        return self.dropout(x if self.norm is None else self.norm(x))

    def extra_repr(self):
        return f"scale={self.scale:g}"
