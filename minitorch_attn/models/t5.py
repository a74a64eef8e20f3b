"""T5: an encoder-decoder that treats every language task as text-to-text.

Raffel et al. 2019, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", arXiv:1910.10683v4. Section 2.1 lists the differences from the original Transformer:
RMS norms before each sub-block, linear layers without biases, and relative position biases. Each
head adds a learned number to each score. The number depends on the distance between query and key,
and all layers share the same numbers. The scores are not divided by sqrt(head_dim), because the
initial query projections include this factor. The published sizes are in `t5_sizes.py`.
"""

import math

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError
from ..nn.checks import check_layers
from ..nn.dropout import add_residual

__all__ = ["T5", "relative_position_bucket", "shift_right"]


def relative_position_bucket(
    relative_position, bidirectional=True, num_buckets=32, max_distance=128
):
    """Return the bucket index of each relative position.

    Each small distance has its own bucket. For larger distances, the bucket index grows with the
    logarithm of the distance. All distances of `max_distance` or more share the last bucket. If
    `bidirectional` is True, each direction has its own buckets.

    Parameters
    ----------
    relative_position : int64 Tensor of any shape
        Position of the key minus position of the query, in tokens.
    bidirectional : bool, default True
        Whether half of the buckets are for keys after the query. If False, as in decoders, the
        distance to such keys counts as 0.
    num_buckets : int, default 32
        Number of buckets.
    max_distance : int, default 128
        Distance from which all positions share the last bucket.

    Returns
    -------
    int64 Tensor of the same shape
        Bucket indices from 0 to num_buckets - 1.

    Notes
    -----
    arXiv:1910.10683v4, section 2.1. The logarithm is computed in float32, as in the published code.
    At a boundary between two buckets, rounding therefore determines the bucket of a distance.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> relative_position_bucket(mt.tensor([-200, -20, -3, 0, 3, 200]))
    tensor([15, 10,  3,  0, 19, 31])
    """
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2  # number of small distances with separate buckets
    if exact < 1 or max_distance <= exact:
        raise ArgumentError(
            "relative_position_bucket: num_buckets or max_distance is too small",
            got=f"num_buckets={num_buckets}, max_distance={max_distance}, "
            f"bidirectional={bidirectional}",
            expected=f"at least {4 if bidirectional else 2} buckets, and max_distance > {exact}",
        )
    if bidirectional:
        first = (relative_position > 0).to(dtype="int64") * per_side
        distance = relative_position.abs()
    else:
        first, distance = 0, (-relative_position).clamp(min=0)
    far = distance.clamp(min=exact).to(dtype="float32") / exact
    steps = far.log() / math.log(max_distance / exact) * (per_side - exact)
    far = (exact + steps.to(dtype="int64")).clamp(max=per_side - 1)
    return first + ops.where(distance < exact, distance, far)


class RelativePositionBias(nn.Module):
    """Relative position bias: a learned number for each head and bucket, added to the scores.

    Parameters
    ----------
    num_heads : int
    bidirectional : bool
    num_buckets, max_distance : int
        See `relative_position_bucket`.
    """

    def __init__(self, num_heads, bidirectional, num_buckets, max_distance):
        super().__init__()
        self.buckets = {
            "bidirectional": bidirectional,
            "num_buckets": num_buckets,
            "max_distance": max_distance,
        }
        self.embedding = nn.Embedding(num_buckets, num_heads)

    def forward(self, query_len, key_len):
        """Return the bias (1, heads, query, key). The last query is at the last key's position."""
        device = self.embedding.weight.device
        key = ops.arange(key_len, device=device)
        query = key[key_len - query_len :].unsqueeze(1)
        buckets = relative_position_bucket(key - query, **self.buckets)  # (query, key)
        return self.embedding(buckets).permute(2, 0, 1).unsqueeze(0)


class EncoderLayer(nn.Module):
    """Encoder layer: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.

    Parameters
    ----------
    settings : dict
        Arguments passed to `T5`.
    """

    def __init__(self, settings):
        super().__init__()
        embed_dim, eps = settings["embed_dim"], settings["eps"]
        self.norm1 = nn.RMSNorm(embed_dim, eps)
        self.attention = _attention(settings)
        self.norm2 = nn.RMSNorm(embed_dim, eps)
        self.feed_forward = _feed_forward(settings)
        self.dropout = nn.Dropout(settings["dropout"])

    @computes("encoder layer")
    def forward(self, x, bias, mask=None):
        # x: (batch, token, embed)   bias: (1, heads, query, key)
        attended = self.attention(self.norm1(x), mask=mask, bias=bias)
        x = add_residual(x, attended, self.dropout)
        return add_residual(x, self.feed_forward(self.norm2(x)), self.dropout)


class DecoderLayer(nn.Module):
    """Decoder layer: causal self-attention, cross-attention and a feed-forward network.

    Parameters
    ----------
    settings : dict
        Arguments passed to `T5`.
    """

    def __init__(self, settings):
        super().__init__()
        embed_dim, eps = settings["embed_dim"], settings["eps"]
        self.norm1 = nn.RMSNorm(embed_dim, eps)
        self.attention = _attention(settings)
        self.norm2 = nn.RMSNorm(embed_dim, eps)
        self.cross_attention = _attention(settings)
        self.norm3 = nn.RMSNorm(embed_dim, eps)
        self.feed_forward = _feed_forward(settings)
        self.dropout = nn.Dropout(settings["dropout"])

    @computes("decoder layer")
    def forward(self, x, bias, memory, mask=None, memory_mask=None, cache=None, cross=None):
        # x: (batch, query, embed)   memory: (batch, key, embed)
        attended = self.attention(self.norm1(x), mask=mask, bias=bias, is_causal=True, cache=cache)
        x = add_residual(x, attended, self.dropout)
        found = self.cross_attention(self.norm2(x), memory, mask=memory_mask, cache=cross)
        x = add_residual(x, found, self.dropout)
        return add_residual(x, self.feed_forward(self.norm3(x)), self.dropout)


class Encoder(nn.Module):
    """Encoder: layers that share one relative position bias, and a final norm."""

    def __init__(self, settings):
        super().__init__()
        self.position_bias = _position_bias(settings, bidirectional=True)
        check_layers("T5", num_layers=settings["num_layers"])
        layers = range(settings["num_layers"])
        self.layers = nn.ModuleList([EncoderLayer(settings) for _ in layers])
        self.norm = nn.RMSNorm(settings["embed_dim"], settings["eps"])
        self.dropout = nn.Dropout(settings["dropout"])

    def forward(self, x, mask=None):
        # x: (batch, token, embed)   mask: broadcasts to (batch, heads, query, key)
        x = self.dropout(x)
        bias = self.position_bias(x.shape[1], x.shape[1])
        for layer in self.layers:
            x = layer(x, bias, mask)
        return self.dropout(self.norm(x))


class Decoder(nn.Module):
    """Decoder: layers that share one relative position bias, and a final norm."""

    def __init__(self, settings):
        super().__init__()
        self.position_bias = _position_bias(settings, bidirectional=False)
        check_layers("T5", num_decoder_layers=settings["num_decoder_layers"])
        layers = range(settings["num_decoder_layers"])
        self.layers = nn.ModuleList([DecoderLayer(settings) for _ in layers])
        self.norm = nn.RMSNorm(settings["embed_dim"], settings["eps"])
        self.dropout = nn.Dropout(settings["dropout"])

    def forward(self, x, memory, mask=None, memory_mask=None, cache=None):
        # x: (batch, query, embed)   memory: (batch, key, embed)   cache: KVCache
        x = self.dropout(x)
        past = 0 if cache is None else cache.length
        bias = self.position_bias(x.shape[1], past + x.shape[1])
        for i, layer in enumerate(self.layers):
            held = (None, None) if cache is None else (cache.layer(i), cache.cross(i))
            x = layer(x, bias, memory, mask, memory_mask, *held)
        return self.dropout(self.norm(x))


class T5(nn.Module):
    """T5 encoder-decoder: computes logits of the next target token.

    Parameters
    ----------
    vocab_size : int
        Vocabulary size, the same for encoder, decoder and output layer.
    embed_dim, num_heads, num_layers : int
        Embedding size (d_model), number of heads and number of encoder layers.
    head_dim : int, default 64
        Size of a head (d_kv). num_heads * head_dim may differ from embed_dim.
    ff_dim : int, optional
        Hidden size of the feed-forward networks (d_ff). Default: 4 * embed_dim.
    num_decoder_layers : int, optional
        Number of decoder layers. Default: num_layers.
    num_buckets : int, default 32
    max_distance : int, default 128
        See `relative_position_bucket`.
    dropout : float, default 0.1
    activation : str or callable, default "relu"
    gated : bool, default False
        Whether the feed-forward networks multiply the activations by the output of a second linear
        layer.
    tie_weights : bool, default True
        Whether the token embedding and the output layer share one matrix. If they do, the decoder's
        output is divided by sqrt(embed_dim) before the output layer.
    eps : float, default 1e-6
        Epsilon added to the mean square in the RMS norms.

    Notes
    -----
    T5 1.1 uses gated=True, activation="gelu_tanh" (GEGLU in arXiv:2002.05202v1) and
    tie_weights=False.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = T5(vocab_size=31, embed_dim=6, num_heads=2, num_layers=1, head_dim=5)
    >>> ids, labels = mt.tensor([[4, 8, 15, 1]]), mt.tensor([[16, 23, 1]])
    >>> model(ids, shift_right(labels)).shape
    (1, 3, 31)
    """

    named_methods = None  # all public methods

    def __init__(
        self, vocab_size, embed_dim, num_heads, num_layers, head_dim=64, ff_dim=None,
        num_decoder_layers=None, num_buckets=32, max_distance=128, dropout=0.1,
        activation="relu", gated=False, tie_weights=True, eps=1e-6,
    ):  # fmt: skip
        super().__init__()
        settings = {
            "embed_dim": embed_dim, "num_heads": num_heads, "num_layers": num_layers,
            "head_dim": head_dim, "ff_dim": 4 * embed_dim if ff_dim is None else ff_dim,
            "num_decoder_layers": num_layers if num_decoder_layers is None else num_decoder_layers,
            "num_buckets": num_buckets, "max_distance": max_distance, "dropout": dropout,
            "activation": activation, "gated": gated, "eps": eps,
        }  # fmt: skip
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.encoder = Encoder(settings)
        self.decoder = Decoder(settings)
        self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        nn.init.normal_(self.head.weight)
        if tie_weights:
            self.head.weight = self.token_embedding.weight
        self.scale = embed_dim**-0.5 if tie_weights else 1.0

    def forward(self, ids, decoder_ids, mask=None):
        """Compute the logits of the target tokens.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, key)
            Source text, including the task prefix.
        decoder_ids : int64 Tensor of shape (batch, query)
            Target, shifted one position to the right by `shift_right`.
        mask : Mask or bool Tensor, optional
            Mask of the source tokens, such as `masks.padding(lengths)`. True where attention is
            allowed. Broadcasts to (batch, heads, query, key) for any number of queries.

        Returns
        -------
        Tensor of shape (batch, query, vocabulary)
            Logits at position t depend on the source and tokens 0 to t of `decoder_ids`.
        """
        return self.decode(decoder_ids, self.encode(ids, mask), mask)

    def encode(self, ids, mask=None):
        """Return the encoder's output (batch, key, embed) for source ids."""
        return self.encoder(self.token_embedding(ids), mask)

    def decode(self, decoder_ids, memory, mask=None, cache=None):
        """Return the logits, given the encoder's output. With a cache, pass only new ids."""
        x = self.token_embedding(decoder_ids)
        return self.predict(self.decoder(x, memory, None, mask, cache))

    def predict(self, hidden):
        """Compute logits (batch, query, vocabulary) from the decoder's output."""
        return self.head(hidden if self.scale == 1.0 else hidden * self.scale)


def shift_right(labels, start_id=0, padding_id=0):
    """Return the decoder's input for training: the labels, shifted right by one position.

    Parameters
    ----------
    labels : int64 Tensor of shape (batch, token)
        Labels, with -100 at positions to ignore.
    start_id, padding_id : int, default 0
        Id of the start token, and id of the padding token, which replaces -100.

    Returns
    -------
    int64 Tensor of the same shape

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> shift_right(mt.tensor([[7, 8, 1, -100]]))
    tensor([[0, 7, 8, 1]])
    """
    start = ops.full_like(labels[:, :1], start_id)
    shifted = ops.cat((start, labels[:, :-1]), 1)
    return shifted.masked_fill(shifted == -100, padding_id)


def _attention(settings):
    """Create T5's attention: no biases, no scaling, initialized as in the published code."""
    embed_dim, num_heads, head_dim = (settings[k] for k in ("embed_dim", "num_heads", "head_dim"))
    attention = nn.Attention(
        embed_dim, num_heads, head_dim=head_dim, bias=False, scale=1.0, dropout=settings["dropout"]
    )
    nn.init.normal_(attention.q_proj.weight, std=(embed_dim * head_dim) ** -0.5)
    nn.init.normal_(attention.k_proj.weight, std=embed_dim**-0.5)
    nn.init.normal_(attention.v_proj.weight, std=embed_dim**-0.5)
    nn.init.normal_(attention.out_proj.weight, std=(num_heads * head_dim) ** -0.5)
    return attention


def _feed_forward(settings):
    kind = nn.GatedFeedForward if settings["gated"] else nn.FeedForward
    network = kind(
        settings["embed_dim"], settings["ff_dim"], settings["activation"], settings["dropout"],
        bias=False,
    )  # fmt: skip
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)  # (out, in)
    return network


def _position_bias(settings, bidirectional):
    bias = RelativePositionBias(
        settings["num_heads"], bidirectional, settings["num_buckets"], settings["max_distance"]
    )
    nn.init.normal_(bias.embedding.weight, std=settings["embed_dim"] ** -0.5)
    return bias
