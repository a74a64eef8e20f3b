"""Transformer layers and stacks with PyTorch's names, arguments and masks (True = blocked)."""

import copy

from ..computes import computes
from ..named_errors import names_arguments
from . import init
from .activation import activation_function
from .checks import check_layers
from .containers import ModuleList
from .dropout import Dropout
from .feed_forward import two_layers
from .layer_norm import LayerNorm
from .linear import Linear
from .masks import causal
from .module import Module
from .multihead_attention import MultiheadAttention

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


class TransformerEncoderLayer(Module):
    """Encoder layer: self-attention and a feed-forward network, with residuals and LayerNorms.

    Post-norm, as in the paper:  x = norm1(x + attention(x));  x = norm2(x + feed_forward(x)).
    Pre-norm (`norm_first`):     x = x + attention(norm1(x));  x = x + feed_forward(norm2(x)).

    Parameters
    ----------
    d_model : int
        Size of the embeddings.
    nhead : int
        Number of heads.
    dim_feedforward : int, default 2048
        Hidden size of the feed-forward network.
    dropout : float, default 0.1
        Dropout probability for the attention weights, the hidden features of the feed-forward
        network, and the output of both branches.
    activation : str or callable, default "relu"
        Nonlinearity of the feed-forward network.
    layer_norm_eps : float, default 1e-5
        Small number added to the variance in the LayerNorms.
    batch_first : bool, default False
        Whether inputs are (batch, token, embed) instead of (token, batch, embed).
    norm_first : bool, default False
        Whether to use pre-norm instead of post-norm.
    bias : bool, default True
        Whether the linear layers and the LayerNorms have a bias.
    device, dtype : optional
        Device and dtype of the parameters.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, section 3.1. Pre-norm is from Xiong et al. 2020,
    arXiv:2002.04745v1.

    A token that cannot attend to any key gets a context of zeros, in training and in eval mode.
    In PyTorch, the fast path for inference may give NaN or zeros where the training path does not.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.TransformerEncoderLayer(d_model=6, nhead=2, batch_first=True)
    >>> layer(mt.zeros(3, 5, 6), src_mask=mt.masks.causal(5)).shape
    (3, 5, 6)
    """

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu",
        layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation_function(activation)

    @computes("encoder layer", reveals=("pre-norm block",))
    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """Return the output of the encoder layer.

        Parameters
        ----------
        src : Tensor of shape (batch, token, embed), (token, batch, embed) or (token, embed)
        src_mask, src_key_padding_mask, is_causal
            Arguments `attn_mask`, `key_padding_mask` and `is_causal` of `MultiheadAttention`. Bool
            tensors are True where attention is blocked.

        Returns
        -------
        Tensor of the same shape as `src`
        """
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            src = src + self._attend(self.norm1(src), *masks)
            return src + self._feed_forward(self.norm2(src))
        src = self.norm1(src + self._attend(src, *masks))
        return self.norm2(src + self._feed_forward(src))

    def _attend(self, x, mask, key_padding_mask, is_causal):
        return self.dropout1(_attend(self.self_attn, x, x, mask, key_padding_mask, is_causal))

    @computes("feed-forward network")
    def _feed_forward(self, x):
        return self.dropout2(
            two_layers(x, self.linear1, self.activation, self.dropout, self.linear2)
        )


class TransformerDecoderLayer(Module):
    """Decoder layer: self-attention, cross-attention and a feed-forward network.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, \
    norm_first, bias, device, dtype
        See `TransformerEncoderLayer`.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, section 3.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.TransformerDecoderLayer(d_model=6, nhead=2, batch_first=True)
    >>> layer(mt.zeros(3, 5, 6), memory=mt.zeros(3, 7, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu",
        layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        place = {"device": device, "dtype": dtype}
        attention = (d_model, nhead, dropout, bias)
        self.self_attn = MultiheadAttention(*attention, batch_first=batch_first, **place)
        self.multihead_attn = MultiheadAttention(*attention, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation_function(activation)

    @computes("decoder layer")
    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False,
    ):  # fmt: skip
        """Return the output of the decoder layer.

        Parameters
        ----------
        tgt : Tensor of shape (batch, token, embed), (token, batch, embed) or (token, embed)
        memory : Tensor with the axes in the order of `tgt`
            The encoder's output.
        tgt_mask, tgt_key_padding_mask, tgt_is_causal
            Masks of the self-attention; see `MultiheadAttention`.
        memory_mask, memory_key_padding_mask, memory_is_causal
            Masks of the cross-attention to `memory`.

        Returns
        -------
        Tensor of the same shape as `tgt`
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        cross = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *own)
            x = x + self._attend_memory(self.norm2(x), memory, *cross)
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(x + self._attend(x, *own))
        x = self.norm2(x + self._attend_memory(x, memory, *cross))
        return self.norm3(x + self._feed_forward(x))

    def _attend(self, x, mask, key_padding_mask, is_causal):
        return self.dropout1(_attend(self.self_attn, x, x, mask, key_padding_mask, is_causal))

    def _attend_memory(self, x, memory, mask, key_padding_mask, is_causal):
        context = _attend(self.multihead_attn, x, memory, mask, key_padding_mask, is_causal)
        return self.dropout2(context)

    @computes("feed-forward network")
    def _feed_forward(self, x):
        return self.dropout3(
            two_layers(x, self.linear1, self.activation, self.dropout, self.linear2)
        )


def _attend(attention, x, memory, mask, key_padding_mask, is_causal):
    """Apply an attention layer without returning the weights, so fused kernels can be used."""
    context, _ = attention(
        x, memory, memory, key_padding_mask=key_padding_mask, need_weights=False,
        attn_mask=mask, is_causal=bool(is_causal),
    )  # fmt: skip
    return context


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        Layer to copy `num_layers` times. The copies have the same parameter values.
    num_layers : int
        Number of layers.
    norm : Module, optional
        Normalization to apply after the last layer. A pre-norm stack needs this normalization.
    enable_nested_tensor, mask_check : bool
        Accepted for compatibility with PyTorch, but ignored.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.TransformerEncoderLayer(d_model=6, nhead=2, batch_first=True)
    >>> mt.nn.TransformerEncoder(layer, num_layers=2)(mt.zeros(3, 5, 6)).shape
    (3, 5, 6)
    """

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """Return the output of the stack. See `TransformerEncoderLayer.forward`."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers. It takes the same arguments as `TransformerEncoder`."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False,
    ):  # fmt: skip
        """Return the output of the stack. See `TransformerDecoderLayer.forward`."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                memory_key_padding_mask, bool(tgt_is_causal), bool(memory_is_causal),
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


def _copies(layer, num_layers):
    check_layers("Transformer", num_layers=num_layers)
    return ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])


class Transformer(Module):
    """Transformer encoder and decoder, without embeddings and without an output layer.

    Parameters
    ----------
    num_encoder_layers, num_decoder_layers : int, default 6
        Number of layers of each stack.
    custom_encoder, custom_decoder : Module, optional
        Stacks to use instead of the default ones.
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, \
    norm_first, bias, device, dtype
        See `TransformerEncoderLayer`.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, section 3. As in PyTorch, and unlike in the paper,
    both stacks end with a LayerNorm even if their layers are post-norm.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Transformer(6, 2, 1, 1, dim_feedforward=8, batch_first=True)
    >>> model(mt.zeros(3, 7, 6), mt.zeros(3, 5, 6), tgt_mask=mt.masks.causal(5)).shape
    (3, 5, 6)
    """

    def __init__(
        self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6,
        dim_feedforward=2048, dropout=0.1, activation="relu", custom_encoder=None,
        custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False,
        bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        layer = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    @names_arguments
    def generate_square_subsequent_mask(sz, device=None, dtype="float32"):
        """Return the causal mask as floats: 0 where a query may attend, -inf elsewhere."""
        return causal(sz, device=device).additive(dtype)

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None,
        src_key_padding_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        src_is_causal=None, tgt_is_causal=None, memory_is_causal=False,
    ):  # fmt: skip
        """Compute `decoder(tgt, encoder(src))`.

        Parameters
        ----------
        src, tgt : Tensor of shape (batch, token, embed), (token, batch, embed) or (token, embed)
        src_mask, src_key_padding_mask, src_is_causal
            Masks of the encoder; see `MultiheadAttention`.
        tgt_mask, tgt_key_padding_mask, tgt_is_causal
            Masks of the decoder's self-attention.
        memory_mask, memory_key_padding_mask, memory_is_causal
            Masks of the decoder's attention to the encoder's output.

        Returns
        -------
        Tensor of the same shape as `tgt`
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
            memory_key_padding_mask, tgt_is_causal, memory_is_causal,
        )  # fmt: skip
