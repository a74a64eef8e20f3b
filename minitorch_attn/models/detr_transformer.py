"""Transformer of DETR: positions are added to queries and keys in every attention layer.

Carion et al. 2020, arXiv:2005.12872v3, section 3.2 and Figure 10. The encoder's input is a feature
map, with one token per position. The decoder processes its input, a set of object queries, in
parallel.
"""

from .. import nn, ops
from ..computes import computes
from ..nn.checks import check_layers
from .encoder_decoder import Residual

__all__ = [
    "DetrDecoder", "DetrDecoderLayer", "DetrEncoder", "DetrEncoderLayer", "PositionedAttention",
]  # fmt: skip


class PositionedAttention(nn.Attention):
    """Attention in which positions are added to the queries and keys, but not to the values.

    The attention weights depend on the positions, but the averaged values do not. The parameters
    are the same as those of `nn.Attention`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = PositionedAttention(embed_dim=6, num_heads=2)
    >>> x, memory = mt.zeros(3, 5, 6), mt.zeros(3, 7, 6)
    >>> attention(x, memory, positions=mt.ones(5, 6), memory_positions=mt.ones(7, 6)).shape
    (3, 5, 6)
    """

    @computes("attention layer")
    def forward(self, x, memory=None, *, positions=None, memory_positions=None, mask=None):
        """Attend from each token of `x` to the tokens of `memory`, or to those of `x` by default.

        Parameters
        ----------
        x : Tensor of shape (batch, query, embed)
        memory : Tensor of shape (batch, key, embed), optional
        positions, memory_positions : Tensor, optional
            Positions of the tokens, with shapes that broadcast to those of `x` and `memory`. If
            memory is omitted, `positions` is used for queries and keys.
        mask : Mask or bool Tensor, optional
            True where the query may attend to the key; broadcasts to (batch, heads, query, key).

        Returns
        -------
        Tensor of shape (batch, query, embed)
        """
        if memory is None:
            place = x if positions is None else x + positions
            query, key = nn.linear.project(place, self.q_proj, self.k_proj)
            memory = x
        else:
            query = self.q_proj(x if positions is None else x + positions)
            key = memory if memory_positions is None else memory + memory_positions
            key = self.k_proj(key)
        query = self._split(query, self.num_heads)  # (batch, heads, query, head_dim)
        key = self._split(key, self.num_kv_heads)  # (batch, heads, key, head_dim)
        value = self._split(self.v_proj(memory), self.num_kv_heads)
        return self.out_proj(self._merge(self.attend(query, key, value, mask)))


class DetrEncoderLayer(nn.Module):
    """Encoder layer: self-attention and a feed-forward network, each followed by a LayerNorm.

    Parameters
    ----------
    embed_dim, num_heads, ff_dim : int
    dropout : float, default 0.1
        Dropout probability of the output of each sub-layer.
    attention_dropout, ff_dropout : float, default 0
        Dropout probabilities of the attention weights, and inside the feed-forward network.
    activation : str or callable, default "relu"
    eps : float, default 1e-5
        Epsilon added to the variance in the LayerNorms.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = DetrEncoderLayer(embed_dim=6, num_heads=2, ff_dim=8)
    >>> layer(mt.zeros(3, 5, 6), positions=mt.ones(5, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, embed_dim, num_heads, ff_dim, *, dropout=0.1, attention_dropout=0.0, ff_dropout=0.0,
        activation="relu", eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        around = (embed_dim, dropout, False, eps)
        self.attention = PositionedAttention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_attention = Residual(*around)
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation, ff_dropout)
        self.around_feed_forward = Residual(*around)

    @computes("encoder layer")
    def forward(self, x, positions=None, mask=None):
        """Apply the layer.

        Parameters
        ----------
        x : Tensor of shape (batch, key, embed)
            Features of the image, one token per position.
        positions : Tensor of shape (batch or 1, key, embed), optional
        mask : bool Tensor of shape (batch, 1, 1, key), optional
            False at padding.
        """
        x = self.around_attention(x, lambda y: self.attention(y, positions=positions, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class DetrDecoderLayer(DetrEncoderLayer):
    """Decoder layer: self-attention of the object queries, cross-attention, feed-forward network.

    The parameters are the same as those of `DetrEncoderLayer`. There is no causal mask, because
    all objects are predicted at the same time.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = DetrDecoderLayer(embed_dim=6, num_heads=2, ff_dim=8)
    >>> layer(mt.zeros(3, 5, 6), mt.zeros(3, 7, 6), mt.ones(5, 6), mt.ones(7, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, embed_dim, num_heads, ff_dim, *, dropout=0.1, attention_dropout=0.0, ff_dropout=0.0,
        activation="relu", eps=1e-5,
    ):  # fmt: skip
        super().__init__(
            embed_dim, num_heads, ff_dim, dropout=dropout, attention_dropout=attention_dropout,
            ff_dropout=ff_dropout, activation=activation, eps=eps,
        )  # fmt: skip
        self.cross_attention = PositionedAttention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_cross_attention = Residual(embed_dim, dropout, False, eps)

    @computes("decoder layer")
    def forward(
        self, x, memory=None, positions=None, memory_positions=None, mask=None, memory_mask=None
    ):
        """Apply the layer.

        Parameters
        ----------
        x : Tensor of shape (batch, query, embed)
        memory : Tensor of shape (batch, key, embed)
            The encoder's output.
        positions : Tensor of shape (batch or 1, query, embed), optional
            Positions of the object queries.
        memory_positions : Tensor of shape (batch or 1, key, embed), optional
        mask : bool Tensor, optional
            True where one object query may attend to another; broadcasts to (batch, heads, query,
            query).
        memory_mask : bool Tensor of shape (batch, 1, 1, key), optional
            False at padding.
        """

        def attend(y):
            return self.attention(y, positions=positions, mask=mask)

        def attend_memory(y):
            return self.cross_attention(
                y, memory, positions=positions, memory_positions=memory_positions, mask=memory_mask
            )

        x = self.around_attention(x, attend)
        if memory is not None:
            x = self.around_cross_attention(x, attend_memory)
        return self.around_feed_forward(x, self.feed_forward)


class DetrEncoder(nn.Module):
    """Stack of `num_layers` layers. The other arguments are passed to each `DetrEncoderLayer`."""

    def __init__(self, num_layers, embed_dim, num_heads, ff_dim, **options):
        super().__init__()
        check_layers("DetrEncoder", num_layers=num_layers)
        self.layers = nn.ModuleList(
            [DetrEncoderLayer(embed_dim, num_heads, ff_dim, **options) for _ in range(num_layers)]
        )

    def forward(self, x, positions=None, mask=None):
        """Run all layers in order. See `DetrEncoderLayer.forward` for the arguments."""
        for layer in self.layers:
            x = layer(x, positions, mask)
        return x


class DetrDecoder(nn.Module):
    """Stack of `DetrDecoderLayer`, with one shared LayerNorm for the outputs of all layers.

    Parameters
    ----------
    num_layers : int
    embed_dim, num_heads, ff_dim, **options
        Arguments passed to each `DetrDecoderLayer`.
    """

    def __init__(self, num_layers, embed_dim, num_heads, ff_dim, **options):
        super().__init__()
        check_layers("DetrDecoder", num_layers=num_layers)
        self.layers = nn.ModuleList(
            [DetrDecoderLayer(embed_dim, num_heads, ff_dim, **options) for _ in range(num_layers)]
        )
        self.norm = nn.LayerNorm(embed_dim, options.get("eps", 1e-5))

    def forward(self, x, *arguments, **keywords):
        """Return the normalized outputs of all layers, (layer, batch, query, embed).

        See `DetrDecoderLayer.forward` for the arguments. Each layer reads the previous layer's
        output before normalization.
        """
        states = []
        for layer in self.layers:
            x = layer(x, *arguments, **keywords)
            states.append(self.norm(x))
        return ops.stack(states or [self.norm(x)])
