"""Encoder and decoder of the Transformer: the layers, stacks, embeddings and the full model.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762v7, section 3 and Figure 1. The
Transformer, BART and Marian use this architecture with different embeddings and sizes.
"""

from .. import nn
from ..autograd.modes import no_grad
from ..backend import random
from ..computes import computes
from ..errors import ShapeError
from ..nn.checks import check_layers
from .initialize import draw_normal

__all__ = [
    "Decoder", "DecoderLayer", "Encoder", "EncoderDecoder", "EncoderLayer", "SequenceEmbedding",
]  # fmt: skip


class Residual(nn.Module):
    """Residual connection: `norm(x + f(x))`, or `x + f(norm(x))` with `norm_first`.

    Here f is a sub-layer with dropout. Vaswani et al. use the first form (section 3.1). In the
    second form, the path from the embeddings to the final norm contains only additions, and
    training does not need warm-up (Xiong et al. 2020, arXiv:2002.04745v2, Figure 1).

    Parameters
    ----------
    embed_dim : int
        Size of the embeddings.
    dropout : float
        Dropout probability of the sub-layer's output (section 5.4).
    norm_first : bool
        Whether to normalize the sub-layer's input instead of the sum after it.
    eps : float
        Epsilon added to the variance in the LayerNorm.
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
    """Encoder layer: self-attention and feed-forward network (Vaswani et al. 2017, Figure 1, left).

    Parameters
    ----------
    embed_dim, num_heads, ff_dim : int
        Size of the embeddings, number of heads and hidden size of the feed-forward network.
    dropout : float, default 0.1
        Dropout probability of the output of each sub-layer.
    attention_dropout : float, default 0
        Dropout probability of the attention weights.
    ff_dropout : float, default 0
        Dropout probability inside the feed-forward network.
    activation : str or callable, default "relu"
        Nonlinearity of the feed-forward network.
    norm_first : bool, default False
        Whether to normalize the input of each sub-layer instead of the sum after it.
    eps : float, default 1e-5
        Epsilon added to the variance in the LayerNorms.

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

    @computes("encoder layer")
    def forward(self, x, mask=None):
        """Apply the encoder layer.

        Parameters
        ----------
        x : Tensor of shape (batch, source, embed)
        mask : Mask or bool Tensor, optional
            True where attention is allowed; broadcasts to (batch, heads, source, source).
        """
        x = self.around_attention(x, lambda y: self.attention(y, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Decoder layer: causal self-attention, cross-attention and a feed-forward network.

    Vaswani et al. 2017, Figure 1, right. The parameters are the same as those of `EncoderLayer`,
    plus `causal`.

    Parameters
    ----------
    causal : bool, default True
        Whether a token attends only to itself and to earlier tokens. If False, it also attends to
        later ones, as in Mask-Predict (arXiv:1904.09324v2, section 2.1).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = DecoderLayer(embed_dim=6, num_heads=2, ff_dim=8)
    >>> layer(mt.zeros(3, 5, 6), memory=mt.zeros(3, 7, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, embed_dim, num_heads, ff_dim, *, dropout=0.1, attention_dropout=0.0, ff_dropout=0.0,
        activation="relu", norm_first=False, eps=1e-5, causal=True,
    ):  # fmt: skip
        super().__init__()
        self.causal = causal
        around = (embed_dim, dropout, norm_first, eps)
        self.attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_attention = Residual(*around)
        self.cross_attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
        self.around_cross_attention = Residual(*around)
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation, ff_dropout)
        self.around_feed_forward = Residual(*around)

    @computes("decoder layer")
    def forward(self, x, memory=None, mask=None, memory_mask=None, cache=None, cross_cache=None):
        """Apply the decoder layer.

        Parameters
        ----------
        x : Tensor of shape (batch, target, embed)
        memory : Tensor of shape (batch, source, embed), optional
            The encoder's output. If omitted, the layer applies self-attention only.
        mask : Mask or bool Tensor, optional
            True where attention is allowed, in addition to a causal mask; broadcasts to
            (batch, heads, target, key).
        memory_mask : Mask or bool Tensor, optional
            True where a token may attend to the memory. Broadcasts to (batch, heads, target,
            source).
        cache, cross_cache : layers of a KVCache, optional
            Keys and values of earlier tokens (`cache`) and of the memory (`cross_cache`).
        """

        def attend(y):
            return self.attention(y, mask=mask, is_causal=self.causal, cache=cache)

        def attend_memory(y):
            return self.cross_attention(y, memory, mask=memory_mask, cache=cross_cache)

        x = self.around_attention(x, attend)
        if memory is not None:
            x = self.around_cross_attention(x, attend_memory)
        return self.around_feed_forward(x, self.feed_forward)


class Encoder(nn.Module):
    """Encoder: a stack of `EncoderLayer`, with a final LayerNorm if its layers are pre-norm.

    Parameters
    ----------
    num_layers : int
        Number of layers.
    embed_dim, num_heads, ff_dim, **options
        Arguments passed to each `EncoderLayer`.
    layer_drop : float, default 0
        Probability that a layer is skipped during training (Fan et al. 2019, arXiv:1909.11556v1).
    """

    def __init__(self, num_layers, embed_dim, num_heads, ff_dim, *, layer_drop=0.0, **options):
        super().__init__()
        check_layers("Encoder", num_layers=num_layers)
        self.layers = nn.ModuleList(
            [EncoderLayer(embed_dim, num_heads, ff_dim, **options) for _ in range(num_layers)]
        )
        self.norm = _last_norm(embed_dim, **options)
        self.layer_drop = layer_drop

    @computes("stack of layers")
    def forward(self, x, mask=None):
        # x: (batch, source, embed)
        for layer in self.layers:
            if not _skipped(self):
                x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """Decoder: a stack of `DecoderLayer`. The parameters are as for `Encoder`, plus `causal`."""

    def __init__(self, num_layers, embed_dim, num_heads, ff_dim, *, layer_drop=0.0, **options):
        super().__init__()
        check_layers("Decoder", num_layers=num_layers)
        self.layers = nn.ModuleList(
            [DecoderLayer(embed_dim, num_heads, ff_dim, **options) for _ in range(num_layers)]
        )
        self.norm = _last_norm(embed_dim, **options)
        self.layer_drop = layer_drop

    def forward(self, x, memory=None, mask=None, memory_mask=None, cache=None):
        """Run all layers in order. See `DecoderLayer.forward` for the arguments."""
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
    """Decide at random whether LayerDrop skips the next layer of `stack`; False in eval mode."""
    if not stack.training or stack.layer_drop == 0:
        return False
    return random.host_generator().random() < stack.layer_drop


class SequenceEmbedding(nn.Module):
    """Embedding of a sequence: `dropout(norm(scale * token embedding + position embedding))`.

    Parameters
    ----------
    tokens : nn.Embedding
    positions : Module
        Module whose call `positions(x, offset)` adds position embeddings to x. `offset` is the
        position of the first token.
    scale : float, default 1
        Factor that multiplies the token embeddings: sqrt(embed_dim) in Vaswani et al., section
        3.4. It brings token embeddings of norm about 1 to the magnitude of the position embeddings.
    norm : Module, optional
        Normalization layer applied to the sum.
    dropout : float, default 0
        Dropout probability applied to the result.
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
        """Return the scaled token embeddings, with shape (batch, token, embed)."""
        if ids.ndim != 2:
            raise ShapeError(
                "SequenceEmbedding: ids must have two axes",
                got=f"{ids.shape}", expected="(batch, token)",
                hint="pass ids.unsqueeze(0) for one sequence",
            )  # fmt: skip
        x = self.tokens(ids)
        return x if self.scale == 1 else x * self.scale

    def place(self, x, offset=0):
        """Add positions starting at `offset` to x (batch, token, embed); apply norm and dropout."""
        x = self.positions(x, offset)
        return self.dropout(x if self.norm is None else self.norm(x))

    def extra_repr(self):
        return f"scale={self.scale:g}"


class EncoderDecoder(nn.Module):
    """Encoder-decoder: an encoder for the source, a decoder for the target, and the output layer.

    Parameters
    ----------
    source_embedding, target_embedding : SequenceEmbedding
    encoder : Encoder
    decoder : Decoder
    one_vocabulary : bool
        Whether source and target have the same vocabulary.
    tie_weights : bool
        Whether the output layer and the target embedding share one matrix (Press and Wolf 2017,
        arXiv:1608.05859v3). If source and target have the same vocabulary, the source embedding
        also shares it.
    pad_id : int, optional
        Id of the token that pads short source sentences.
    """

    named_methods = None  # all public methods

    def __init__(
        self, source_embedding, encoder, target_embedding, decoder, one_vocabulary, tie_weights,
        pad_id=None,
    ):  # fmt: skip
        super().__init__()
        self.pad_id = pad_id
        self.source_embedding, self.encoder = source_embedding, encoder
        self.target_embedding, self.decoder = target_embedding, decoder
        size, embed_dim = target_embedding.tokens.weight.shape
        self.head = nn.Linear(embed_dim, size, bias=False)
        self.reset_parameters()
        if tie_weights:
            if one_vocabulary:
                target_embedding.tokens.weight = source_embedding.tokens.weight
            self.head.weight = target_embedding.tokens.weight

    def reset_parameters(self, std=0.02):
        """Draw all matrices from N(0, std^2); set biases and the padding embedding to 0."""
        draw_normal(self, std)
        for embedding in (self.source_embedding, self.target_embedding):
            if embedding.tokens.padding_idx is not None:
                with no_grad():
                    embedding.tokens.weight[embedding.tokens.padding_idx] = 0.0

    def forward(self, source, target, source_mask=None, target_mask=None):
        """Compute the logits of the next target token at every position (teacher forcing).

        Parameters
        ----------
        source : int64 Tensor of shape (batch, source)
        target : int64 Tensor of shape (batch, target)
            Target, beginning with the start token. Padding at the end does not need a mask, because
            earlier tokens do not attend to it.
        source_mask : Mask or bool Tensor, optional
            True where attention is allowed. Broadcasts to (batch, heads, query, source). By
            default, `pad_id` is masked.
        target_mask : Mask or bool Tensor, optional
            Mask in addition to the causal mask. Broadcasts to (batch, heads, target, target).

        Returns
        -------
        Tensor of shape (batch, target, vocabulary)
            Logits. At position t, they depend on the whole source and on target tokens 0 to t.
        """
        source_mask = self.padding_mask(source) if source_mask is None else source_mask
        memory = self.encode(source, source_mask)
        return self.decode(target, memory, source_mask, target_mask)

    def padding_mask(self, source):
        """Return the padding mask (batch, 1, 1, source), or None if `pad_id` is None."""
        if self.pad_id is None:
            return None
        return nn.masks.from_key_padding(source == self.pad_id)

    def encode(self, source, source_mask=None):
        """Return the encoder's output, with shape (batch, source, embed)."""
        return self.encoder(self.source_embedding(source), source_mask)

    def decode(self, target, memory, source_mask=None, target_mask=None, cache=None):
        """Compute the logits of the next token, with shape (batch, target, vocabulary).

        Parameters
        ----------
        target : int64 Tensor of shape (batch, target)
            Target token ids. With a cache, pass only the ids after the cached tokens.
        memory : Tensor of shape (batch, source, embed)
            Output of `encode`.
        source_mask, target_mask : as in `forward`
        cache : KVCache, optional
        """
        x = self.target_embedding(target, 0 if cache is None else cache.length)
        return self.head(self.decoder(x, memory, target_mask, source_mask, cache))
