"""wav2vec 2.0 with a Conformer encoder: maps a waveform to one vector for every 20 ms.

Baevski et al. 2020, "wav2vec 2.0", arXiv:2006.11477v3, sections 2 and 4.2. A convolutional feature
encoder is followed by a context network. In this model, the context network consists of Conformer
blocks (Gulati et al. 2020, arXiv:2005.08100v1). The published weights are from fairseq S2T (Wang et
al. 2020, arXiv:2010.05171v2).
"""

from .. import nn, ops
from ..backend import random
from ..computes import computes
from ..errors import ArgumentError
from ..nn import functional as F
from ..nn.activation import activation_function
from .conformer import ConformerBlock
from .relative_attention import RelativeAttention, attention_mask, relative_positions

__all__ = ["Wav2Vec2Conformer"]


class FeatureLayer(nn.Module):
    """Layer of the feature encoder: convolution over time, norm, activation (section 2).

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride : int
    bias : bool
    norm : {"group", "layer", None}
        "group": normalize each channel over time. "layer": normalize each frame over the channels.
        None: do not normalize.
    activation : callable
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride, bias, norm, activation):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride, bias=bias)
        norms = {"group": lambda n: nn.GroupNorm(n, n), "layer": nn.LayerNorm}
        self.norm = norms[norm](out_channels) if norm else None
        self.activation = activation

    def forward(self, x):
        # x: (batch, channel, time)
        x = self.conv(x)
        if isinstance(self.norm, nn.LayerNorm):
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        elif self.norm is not None:
            x = self.norm(x)
        return self.activation(x)


class FeatureEncoder(nn.Module):
    """Feature encoder: strided convolutions that map the samples of a waveform to frames.

    Parameters
    ----------
    channels, kernels, strides : sequence of int
        Output channels, kernel size and stride of each layer.
    bias : bool, default False
    norm : {"group", "layer"}, default "group"
        "group": the first layer normalizes each channel, the others do not normalize. "layer":
        every layer normalizes each frame.
    activation : str or callable, default "gelu"
    """

    def __init__(self, channels, kernels, strides, bias=False, norm="group", activation="gelu"):
        super().__init__()
        if norm not in ("group", "layer"):
            raise ArgumentError(
                "FeatureEncoder: the kind of norm is invalid",
                got=repr(norm), expected='"group" or "layer"',
            )  # fmt: skip
        if not len(channels) == len(kernels) == len(strides):
            raise ArgumentError(
                "FeatureEncoder: channels, kernels and strides must have the same length",
                got=f"lengths {len(channels)}, {len(kernels)} and {len(strides)}",
            )
        self.kernels, self.strides = tuple(kernels), tuple(strides)
        inputs, function = (1, *channels[:-1]), activation_function(activation)
        self.layers = nn.ModuleList(
            FeatureLayer(*sizes, bias, norm if i == 0 or norm == "layer" else None, function)
            for i, sizes in enumerate(zip(inputs, channels, kernels, strides, strict=True))
        )

    def forward(self, samples):
        # samples: (batch, sample) -> (batch, frame, channel)
        x = samples.unsqueeze(1)
        for layer in self.layers:
            x = layer(x)
        return x.transpose(1, 2)

    def output_lengths(self, lengths):
        """Return the number of frames for waveforms of `lengths` samples (int or Tensor)."""
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            lengths = (lengths - kernel) // stride + 1
        return lengths


class PlainAttention(nn.Attention):
    """Self-attention without positions, called in the same way as `RelativeAttention`."""

    @computes("attention layer")
    def forward(self, x, key_padding_mask=None, *, mask=None, positions=None):
        return super().forward(x, mask=attention_mask(key_padding_mask, mask))


class RotaryAttention(nn.Attention):
    """Self-attention with rotary positions, called in the same way as `RelativeAttention`.

    The input is split into heads and rotated, and then projected to queries and keys. RoFormer
    (arXiv:2104.09864v5) rotates the queries and keys instead. The published weights require the
    order used here.
    """

    @computes("attention layer")
    def forward(self, x, key_padding_mask=None, *, mask=None, positions=None):
        # x: (batch, token, embed)   positions: (cos, sin), each (token, head_dim / 2)
        rotated = self._merge(ops.apply_rotary(self._split(x, self.num_heads), *positions))
        query = self._split(self.q_proj(rotated), self.num_heads)
        key = self._split(self.k_proj(rotated), self.num_heads)
        value = self._split(self.v_proj(x), self.num_heads)
        context = self.attend(query, key, value, attention_mask(key_padding_mask, mask))
        return self.out_proj(self._merge(context))


class Adapter(nn.Module):
    """Adapter after the encoder: gated strided convolutions that shorten the sequence.

    Parameters
    ----------
    embed_dim, output_dim : int
        Size of the input and output frames. If the sizes differ, the adapter begins with a linear
        layer and a norm.
    num_layers, kernel_size, stride : int
    layer_drop : float, default 0
        Probability that a layer is skipped during training.
    """

    def __init__(self, embed_dim, output_dim, num_layers, kernel_size, stride, layer_drop=0.0):
        super().__init__()
        widens = embed_dim != output_dim
        self.proj = nn.Linear(embed_dim, output_dim) if widens else None
        self.norm = nn.LayerNorm(output_dim) if widens else None
        self.layers = nn.ModuleList(
            nn.Conv1d(output_dim, 2 * output_dim, kernel_size, stride, padding=1)
            for _ in range(num_layers)
        )
        self.layer_drop = layer_drop

    def forward(self, x):
        # x: (batch, frame, embed)
        if self.proj is not None:
            x = self.norm(self.proj(x))
        channels = x.transpose(1, 2)  # (batch, channel, frame), for the convolutions
        for layer in self.layers:
            if not is_skipped(self):
                channels = F.glu(layer(channels), 1)
        return channels.transpose(1, 2)


class Wav2Vec2Conformer(nn.Module):
    """wav2vec 2.0 encoder with Conformer blocks: maps waveforms to frame vectors.

    Parameters
    ----------
    channels, kernels, strides : sequence of int
        Layers of the feature encoder. The defaults produce one frame for every 320 samples.
    embed_dim, num_heads, hidden_dim, num_layers, kernel_size : int
        Sizes of the Conformer blocks.
    positions : {"relative", "rotary", None}, default "relative"
    rotary_base : float, default 10000
        Base of the rotary frequencies.
    feature_bias, feature_norm, feature_activation
        Arguments of `FeatureEncoder`.
    activation : str or callable, default "gelu"
        Activation in the blocks.
    eps : float, default 1e-5
        Epsilon of the norms before and after the blocks.
    feature_dropout, dropout, inner_dropout, attention_dropout, convolution_dropout : float
        Dropout probabilities. `feature_dropout` applies to the projected features, `dropout` to the
        input of the blocks and to the feed-forward outputs, `inner_dropout` inside the feed-forward
        modules, `attention_dropout` to the attention weights and outputs, and
        `convolution_dropout` to the outputs of the convolution modules.
    layer_drop : float, default 0
        Probability that a block is skipped during training.
    adapter : dict, optional
        Arguments of `Adapter`, except `embed_dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Wav2Vec2Conformer((4, 6), (5, 3), (3, 2), embed_dim=6, num_heads=3, hidden_dim=8,
    ...     num_layers=2, kernel_size=3)
    >>> frames, features = model(mt.zeros(2, 50))
    >>> frames.shape, features.shape
    ((2, 7, 6), (2, 7, 6))
    """

    def __init__(
        self, channels=(512,) * 7, kernels=(10, 3, 3, 3, 3, 2, 2), strides=(5, 2, 2, 2, 2, 2, 2),
        embed_dim=768, num_heads=12, hidden_dim=3072, num_layers=12, kernel_size=31, *,
        positions="relative", rotary_base=10000.0, feature_bias=False, feature_norm="group",
        feature_activation="gelu", activation="gelu", eps=1e-5, feature_dropout=0.0, dropout=0.0,
        inner_dropout=0.0, attention_dropout=0.0, convolution_dropout=0.0, layer_drop=0.0,
        adapter=None,
    ):  # fmt: skip
        super().__init__()
        self.features = FeatureEncoder(
            channels, kernels, strides, feature_bias, feature_norm, feature_activation
        )
        self.feature_norm = nn.LayerNorm(channels[-1], eps)
        self.projection = nn.Linear(channels[-1], embed_dim)
        self.feature_dropout, self.dropout = nn.Dropout(feature_dropout), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            ConformerBlock(
                embed_dim, num_heads, kernel_size, dropout=dropout, activation=activation,
                inner_dropout=inner_dropout, attention_dropout=attention_dropout,
                convolution_dropout=convolution_dropout, hidden_dim=hidden_dim, bias=False,
                attention=make_attention(positions, embed_dim, num_heads, attention_dropout),
            )
            for _ in range(num_layers)
        )  # fmt: skip
        if positions == "rotary":
            steps = ops.arange(0, embed_dim // num_heads, 2, dtype="float32")
            frequencies = 1.0 / rotary_base ** (steps / (embed_dim // num_heads))
            self.register_buffer("frequencies", frequencies)  # in published files
        self.norm = nn.LayerNorm(embed_dim, eps)
        self.adapter = None if adapter is None else Adapter(embed_dim, **adapter)
        self.positions, self.layer_drop = positions, layer_drop

    def forward(self, samples, padding=None):
        """Return the frame vectors and the convolutional features of waveforms.

        Parameters
        ----------
        samples : Tensor of shape (batch, sample)
            Waveforms, usually normalized to mean 0 and variance 1.
        padding : bool Tensor of shape (batch, frame), optional
            True for padding frames.

        Returns
        -------
        frames : Tensor of shape (batch, frame, embed)
            Output of the adapter or, if there is none, of the final norm after the blocks.
        features : Tensor of shape (batch, frame, channel)
            Normalized output of the feature encoder.
        """
        x, features = self.embed(samples)
        x = self.encode(self.enter(x, padding), padding)
        return (x if self.adapter is None else self.adapter(x)), features

    def embed(self, samples):
        """Return (projected frames (batch, frame, embed), normalized features)."""
        features = self.feature_norm(self.features(samples))
        return self.feature_dropout(self.projection(features)), features

    def enter(self, x, padding=None):
        """Return the input of the first block. Padding frames are set to 0."""
        x = x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.dropout(x)

    def encode(self, x, padding=None):
        """Apply the blocks and the final norm. No frame attends to padding frames."""
        mask = attention_mask(padding, None)
        positions = self.positions_of(x)
        for block in self.blocks:
            if not is_skipped(self):
                x = block(x, mask=mask, positions=positions)
        return self.norm(x)

    def positions_of(self, x):
        """Return the positions to pass to the attention layers for an input `x`.

        They are encodings of all distances for relative positions, (cosines, sines) for rotary
        embeddings, and None for other models.
        """
        if self.positions == "relative":
            return relative_positions(
                x.shape[1], x.shape[2], interleaved=True, dtype=x.dtype, device=x.device
            )
        if self.positions == "rotary":
            places = ops.arange(x.shape[1], dtype=self.frequencies.dtype, device=x.device)
            angles = places.unsqueeze(-1) * self.frequencies  # (frame, head_dim / 2)
            return ops.cos(angles).to(x.dtype), ops.sin(angles).to(x.dtype)
        return None


def make_attention(positions, embed_dim, num_heads, dropout):
    """Return the attention layer for `positions`: "relative", "rotary" or None."""
    if positions == "relative":
        return RelativeAttention(embed_dim, num_heads, dropout, interleaved=True)
    classes = {"rotary": RotaryAttention, None: PlainAttention}
    if positions not in classes:
        raise ArgumentError(
            "Wav2Vec2Conformer: the kind of positions is invalid",
            got=repr(positions), expected='"relative", "rotary" or None',
        )  # fmt: skip
    return classes[positions](embed_dim, num_heads, dropout=dropout)


def is_skipped(module):
    """LayerDrop: during training, decide at random whether `module` skips its next layer.

    Fan et al. 2019, arXiv:1909.11556v1. The probability is `module.layer_drop`.
    """
    if not module.training or module.layer_drop == 0:
        return False
    return random.host_generator().random() < module.layer_drop
