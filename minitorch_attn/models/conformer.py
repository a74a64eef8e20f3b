"""Conformer: Transformer blocks with a convolution module and two half-step feed-forward modules.

Gulati et al. 2020, "Conformer: Convolution-augmented Transformer for Speech Recognition",
arXiv:2005.08100v1. Attention mixes distant frames, and the convolution mixes neighboring ones.
`speech_recognition.py` contains recognizers with this encoder.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..nn.activation import activation_function
from ..nn.checks import check_layers, check_sizes
from ..nn.feed_forward import two_layers
from .relative_attention import RelativeAttention, relative_positions

__all__ = [
    "ConformerBlock", "ConformerEncoder", "ConvSubsampling", "ConvolutionModule",
    "RelativeAttention", "conformer_l", "conformer_m", "conformer_s",
]  # fmt: skip

SMALLEST_INPUT = 7  # frames or features, for two convolutions with kernel 3 and stride 2


class ConformerFeedForward(nn.Module):
    """Feed-forward module: norm, linear, Swish, dropout, linear, dropout (section 2.3, Figure 4).

    Parameters
    ----------
    embed_dim, hidden_dim : int
    activation : str or callable, default "silu"
    inner_dropout, dropout : float
        Dropout probabilities after the activation and after the second linear layer.
    """

    def __init__(self, embed_dim, hidden_dim, activation="silu", inner_dropout=0.1, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(embed_dim)
        self.linear1 = nn.Linear(embed_dim, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, embed_dim)
        self.activation = activation_function(activation)
        self.inner_dropout, self.dropout = nn.Dropout(inner_dropout), nn.Dropout(dropout)

    def forward(self, x):
        # x: (batch, frame, embed)
        layers = self.linear1, self.activation, self.inner_dropout, self.linear2
        return self.dropout(two_layers(self.norm(x), *layers))


class ConvolutionModule(nn.Module):
    """Convolution module of the Conformer (section 2.2, Figure 2).

    It applies, in this order: LayerNorm, a pointwise convolution to twice the channels, a gated
    linear unit, a depthwise convolution over time, BatchNorm, Swish, a pointwise convolution and
    dropout.

    Parameters
    ----------
    embed_dim : int
    kernel_size : int, default 31
        Number of frames that the depthwise convolution sees, which must be odd.
    activation : str or callable, default "silu"
    dropout : float, default 0.1
    bias : bool, default True
        Whether the convolutions have a bias.

    Notes
    -----
    The paper's kernel of size 32 cannot be centered, so implementations use 31, as here.
    BatchNorm computes the mean and variance over all frames of the batch, including padding.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> ConvolutionModule(6, kernel_size=3)(mt.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(self, embed_dim, kernel_size=31, activation="silu", dropout=0.1, bias=True):
        super().__init__()
        check_sizes("ConvolutionModule", embed_dim=embed_dim, kernel_size=kernel_size)
        if kernel_size % 2 == 0:
            raise ArgumentError(
                "ConvolutionModule: kernel_size must be odd to preserve the number of frames",
                got=f"kernel_size={kernel_size}",
                hint=f"use kernel_size={kernel_size + 1}",
            )
        self.norm = nn.LayerNorm(embed_dim)
        self.pointwise1 = nn.Conv1d(embed_dim, 2 * embed_dim, 1, bias=bias)
        self.depthwise = nn.Conv1d(
            embed_dim, embed_dim, kernel_size, padding=kernel_size // 2, groups=embed_dim, bias=bias
        )
        self.batch_norm = nn.BatchNorm1d(embed_dim)
        self.activation = activation_function(activation)
        self.pointwise2 = nn.Conv1d(embed_dim, embed_dim, 1, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, key_padding_mask=None):
        """Apply the module.

        Parameters
        ----------
        x : Tensor of shape (batch, frame, embed)
        key_padding_mask : bool Tensor of shape (batch, frame), optional
            True for padding frames. They are set to 0 before the depthwise convolution, so
            that the neighboring frames see the same zeros as at the end of a sequence without
            padding.
        """
        x = self.norm(x).transpose(1, 2)  # (batch, embed, frame)
        x = F.glu(self.pointwise1(x), 1)
        if key_padding_mask is not None:
            x = x.masked_fill(key_padding_mask.unsqueeze(1), 0.0)
        x = self.activation(self.batch_norm(self.depthwise(x)))
        return self.dropout(self.pointwise2(x).transpose(1, 2))  # (batch, frame, embed)


class ConformerBlock(nn.Module):
    """Conformer block: half-step feed-forward, attention, convolution, half-step feed-forward.

    x' = x + FFN(x) / 2, x'' = x' + MHSA(x'), x''' = x'' + Conv(x''), and the output is
    LayerNorm(x''' + FFN(x''') / 2) (Eq. 1). The half steps come from Macaron-Net.

    Parameters
    ----------
    embed_dim, num_heads : int
    kernel_size : int, default 31
        Number of frames that the convolution module sees.
    expansion : number, default 4
        Hidden size of the feed-forward modules as a multiple of `embed_dim`.
    dropout : float, default 0.1
        Dropout probability in all modules.
    activation : str or callable, default "silu"
    inner_dropout, attention_dropout, convolution_dropout : float, optional
        Dropout probabilities inside the feed-forward modules, after the attention layer and
        in the convolution module. Default: `dropout`.
    hidden_dim : int, optional
        Hidden size of the feed-forward modules, which overrides `expansion`.
    bias : bool, default True
        Whether the convolutions have a bias.
    attention : Module, optional
        Attention layer. Default: `RelativeAttention`.

    Notes
    -----
    Gulati et al. 2020, arXiv:2005.08100v1, section 2.4, Eq. 1 and Figure 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> block = ConformerBlock(6, 2, kernel_size=3)
    >>> block(mt.zeros(5, 7, 6)).shape
    (5, 7, 6)
    """

    def __init__(
        self, embed_dim, num_heads, kernel_size=31, expansion=4, dropout=0.1, *,
        activation="silu", inner_dropout=None, attention_dropout=None, convolution_dropout=None,
        hidden_dim=None, bias=True, attention=None,
    ):  # fmt: skip
        super().__init__()
        hidden_dim = int(expansion * embed_dim) if hidden_dim is None else hidden_dim
        inner = dropout if inner_dropout is None else inner_dropout
        convolution = dropout if convolution_dropout is None else convolution_dropout
        feed_forward = (embed_dim, hidden_dim, activation, inner, dropout)
        self.feed_forward1 = ConformerFeedForward(*feed_forward)
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.attention = RelativeAttention(embed_dim, num_heads) if attention is None else attention
        self.dropout = nn.Dropout(dropout if attention_dropout is None else attention_dropout)
        self.convolution = ConvolutionModule(embed_dim, kernel_size, activation, convolution, bias)
        self.feed_forward2 = ConformerFeedForward(*feed_forward)
        self.norm = nn.LayerNorm(embed_dim)

    @computes("Conformer block")
    def forward(self, x, key_padding_mask=None, *, mask=None, positions=None):
        """Apply the block.

        Parameters
        ----------
        x : Tensor of shape (batch, frame, embed)
        key_padding_mask : bool Tensor of shape (batch, frame), optional
            True for padding frames, which attention and convolution ignore.
        mask : Mask or Tensor, optional
            Mask for the attention layer, used instead of `key_padding_mask`.
        positions : optional
            Positions for the attention layer; see `RelativeAttention`.
        """
        x = x + 0.5 * self.feed_forward1(x)
        n = self.attention_norm(x)
        x = x + self.dropout(self.attention(n, key_padding_mask, mask=mask, positions=positions))
        x = x + self.convolution(x, key_padding_mask)
        x = x + 0.5 * self.feed_forward2(x)
        return self.norm(x)


class ConvSubsampling(nn.Module):
    """Convolutional subsampling: two convolutions reduce four frames to one (section 2).

    Both convolutions have a 3 x 3 kernel over time and frequency, stride 2 and no padding, and
    are followed by a ReLU. A linear layer maps the channels and frequencies of each remaining
    frame to `embed_dim` features.

    Parameters
    ----------
    input_dim : int
        Number of features of an input frame, for example the number of mel bands.
    embed_dim : int
    channels : int, optional
        Channels of the convolutions. Default: `embed_dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> subsampling = ConvSubsampling(input_dim=11, embed_dim=6)
    >>> subsampling(mt.zeros(2, 15, 11)).shape, subsampling.output_lengths(15)
    ((2, 3, 6), 3)
    """

    def __init__(self, input_dim, embed_dim, channels=None):
        super().__init__()
        channels = embed_dim if channels is None else channels
        check_sizes("ConvSubsampling", input_dim=input_dim, channels=channels)
        if input_dim < SMALLEST_INPUT:
            raise ArgumentError(
                f"ConvSubsampling: input_dim must be at least {SMALLEST_INPUT}",
                got=f"input_dim={input_dim}",
            )
        self.input_dim = input_dim
        self.conv1 = nn.Conv2d(1, channels, 3, stride=2)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=2)
        self.linear = nn.Linear(channels * _two_convolutions(input_dim), embed_dim)

    def forward(self, features):
        """Reduce the number of frames.

        Parameters
        ----------
        features : Tensor of shape (batch, time, input_dim)

        Returns
        -------
        Tensor of shape (batch, ((time - 1) // 2 - 1) // 2, embed)
        """
        if features.ndim != 3 or features.shape[2] != self.input_dim:
            raise ShapeError(
                "ConvSubsampling: the shape of the features does not match the layer",
                got=f"features {features.shape}", expected=f"(batch, time, {self.input_dim})",
                hint="pass features[None] for one sequence",
            )  # fmt: skip
        if features.shape[1] < SMALLEST_INPUT:
            raise ShapeError(
                f"ConvSubsampling: the features must have at least {SMALLEST_INPUT} frames",
                got=f"features {features.shape}",
            )
        x = F.relu(self.conv1(features.unsqueeze(1)))  # (batch, channel, time / 2, frequency / 2)
        x = F.relu(self.conv2(x))
        return self.linear(x.transpose(1, 2).flatten(2))  # (batch, frame, channel * frequency)

    def output_lengths(self, lengths):
        """Return the number of frames left after subsampling sequences of `lengths` frames.

        Parameters
        ----------
        lengths : int Tensor or int

        Returns
        -------
        Tensor or int
            Number of frames; 0 for sequences that are too short.
        """
        left = _two_convolutions(lengths)
        return max(left, 0) if isinstance(left, int) else left.clamp(min=0)


def _two_convolutions(size):
    return ((size - 1) // 2 - 1) // 2


class ConformerEncoder(nn.Module):
    """Conformer encoder: subsampling, dropout and a stack of blocks (Figure 1).

    Parameters
    ----------
    input_dim : int, default 80
        Number of features of an input frame, for example the number of mel bands.
    embed_dim, num_heads, num_layers : int
    kernel_size, expansion, dropout
        See `ConformerBlock`.
    channels : int, optional
        Channels of the subsampling convolutions. Default: `embed_dim`.

    Attributes
    ----------
    output_dim : int
        Size of an output frame.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = ConformerEncoder(12, embed_dim=6, num_heads=2, num_layers=2, kernel_size=3)
    >>> frames, padding = encoder(mt.zeros(2, 31, 12), lengths=mt.tensor([31, 19]))
    >>> frames.shape, padding.sum(1)
    ((2, 7, 6), tensor([0, 3]))
    """

    def __init__(
        self, input_dim=80, embed_dim=256, num_heads=4, num_layers=16, kernel_size=31, expansion=4,
        dropout=0.1, channels=None,
    ):  # fmt: skip
        super().__init__()
        check_layers("ConformerEncoder", num_layers=num_layers)
        self.output_dim = embed_dim
        self.subsampling = ConvSubsampling(input_dim, embed_dim, channels)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            ConformerBlock(embed_dim, num_heads, kernel_size, expansion, dropout)
            for _ in range(num_layers)
        )

    def forward(self, features, lengths=None):
        """Encode sequences of frames.

        Parameters
        ----------
        features : Tensor of shape (batch, time, input_dim)
        lengths : int64 Tensor of shape (batch,), optional
            Number of frames of each sequence. The frames after them are padding.

        Returns
        -------
        frames : Tensor of shape (batch, frame, embed)
        padding : bool Tensor of shape (batch, frame), or None if `lengths` is None
            True for padding frames.
        """
        frames = self.subsampling.output_lengths(features.shape[1])
        padding = padding_of(self.subsampling, lengths, frames)
        return self.encode(features, padding), padding

    def encode(self, features, padding=None):
        """Encode sequences of frames, given the padding mask of the frames after subsampling."""
        x = self.dropout(self.subsampling(features))
        positions = relative_positions(
            x.shape[1], self.output_dim, dtype=x.dtype, device=x.device
        )  # the same for all blocks
        for block in self.blocks:
            x = block(x, padding, positions=positions)
        return x


def padding_of(subsampling, lengths, frames):
    """Return the padding mask (batch, frame) after subsampling, or None if `lengths` is None."""
    if lengths is None:
        return None
    places = ops.arange(frames, device=lengths.device)
    return places >= subsampling.output_lengths(lengths).unsqueeze(1)


def conformer_s(**changes):
    """Conformer (S) encoder: 16 blocks, width 144, 4 heads (Table 1): 8,690,112 parameters.

    The paper counts 10.3 million parameters, including a decoder (an LSTM with 320 units).
    """
    return ConformerEncoder(**{"embed_dim": 144, "num_heads": 4, "num_layers": 16, **changes})


def conformer_m(**changes):
    """Conformer (M) encoder: 16 blocks, width 256, 4 heads (Table 1): 27,261,952 parameters.

    The paper counts 30.7 million parameters, including a decoder (an LSTM with 640 units).
    """
    return ConformerEncoder(**{"embed_dim": 256, "num_heads": 4, "num_layers": 16, **changes})


def conformer_l(**changes):
    """Conformer (L) encoder: 17 blocks, width 512, 8 heads (Table 1): 114,849,280 parameters.

    The paper counts 118.8 million parameters, including a decoder (an LSTM with 640 units).
    """
    return ConformerEncoder(**{"embed_dim": 512, "num_heads": 8, "num_layers": 17, **changes})
