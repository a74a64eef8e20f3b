"""VATT's video, audio and text tokens, and DropToken, which drops random tokens.

Akbari et al. 2021, arXiv:2104.11178v3, sections "Tokenization and Positional Encoding" and
"DropToken". Each modality has its own patches, projection and positions. The resulting tokens
have the same format, so one Transformer can read all of them.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..nn import init
from .mae import pick
from .t5 import RelativePositionBias
from .vit import initialize

__all__ = ["AudioTokens", "TextTokens", "VideoTokens", "drop_token"]


@names_arguments
def drop_token(tokens, noise, rate):
    """DropToken: keep a random subset of the tokens, in their original order.

    Parameters
    ----------
    tokens : Tensor of shape (batch, token, embed)
    noise : Tensor of shape (batch, token)
        Random numbers. The tokens with the smallest numbers are kept. If numbers are equal, earlier
        tokens are kept first.
    rate : float
        Fraction of the tokens to drop, between 0 and 1. `int(token * (1 - rate))` tokens are
        kept, but at least one.

    Returns
    -------
    kept : Tensor of shape (batch, kept, embed)
    index : int64 Tensor of shape (batch, kept)
        Index of each kept token, in ascending order.

    Raises
    ------
    ArgumentError
        If `rate` is not between 0 and 1.
    ShapeError
        If the shapes do not match.

    References
    ----------
    .. [1] Akbari et al. 2021, arXiv:2104.11178v3, section "DropToken".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> noise = mt.tensor([[0.3, 0.9, 0.1, 0.5]])
    >>> drop_token(mt.zeros(1, 4, 3), noise, rate=0.5)[1]
    tensor([[0, 2]])
    """
    if not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise ArgumentError("drop_token: rate must be at least 0 and at most 1", got=repr(rate))
    if tokens.ndim != 3 or noise.shape != tokens.shape[:2]:
        raise ShapeError(
            "drop_token: the shapes of tokens and noise do not match",
            got=f"tokens {tokens.shape}, noise {noise.shape}",
            expected="(batch, token, embed) and (batch, token)",
        )
    num_kept = max(1, int(tokens.shape[1] * (1 - rate)))
    order = noise.detach().argsort(dim=1, stable=True)
    index = order[:, :num_kept].sort(dim=1).values
    return pick(tokens, index), index


class Tokens(nn.Module):
    """Base class for the tokens of one modality, with an aggregation token in front (Eq. 2).

    Parameters
    ----------
    embed_dim : int

    Attributes
    ----------
    aggregation : Parameter of shape (1, 1, embed)
        The output at this token represents the whole input, as with ViT's class token.
    """

    def __init__(self, embed_dim):
        super().__init__()
        self.aggregation = nn.Parameter(ops.empty(1, 1, embed_dim))
        init.normal_(self.aggregation, std=0.02)

    def forward(self, x, drop_rate=0.0):
        """Return the aggregation token, followed by the tokens of `x`.

        Parameters
        ----------
        x : Tensor
            Video, audio or word ids, as for `embed`.
        drop_rate : float, default 0
            Fraction of the tokens to drop at random. The aggregation token is always kept.

        Returns
        -------
        Tensor of shape (batch, 1 + token, embed)
        """
        tokens = self.embed(x)  # (batch, token, embed)
        if drop_rate:
            noise = ops.rand(*tokens.shape[:2], device=tokens.device)
            tokens, _ = drop_token(tokens, noise, drop_rate)
        return self.with_aggregation(tokens)

    @computes("class token")
    def with_aggregation(self, tokens):
        """Prepend the aggregation token to the tokens (batch, token, embed)."""
        batch, _, embed_dim = tokens.shape
        return ops.cat([self.aggregation.expand(batch, 1, embed_dim), tokens], 1)


class VideoTokens(Tokens):
    """Video tokens: patches in space and time, with positions along three axes.

    Parameters
    ----------
    video_size, patch_size : (int, int, int)
        Number of frames, height and width of a clip and of a patch. The sizes of a clip must be
        multiples of the sizes of a patch.
    embed_dim : int
    in_channels : int, default 3

    Attributes
    ----------
    projection : Conv3d
        Projection of the patches: a convolution whose stride equals its kernel size.
    time_positions, row_positions, column_positions : LearnedPositionalEmbedding
        Each patch gets the sum of three vectors, so T + H + W vectors encode T * H * W positions.

    References
    ----------
    .. [1] Akbari et al. 2021, arXiv:2104.11178v3, Eq. 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tokens = VideoTokens((4, 8, 12), (2, 4, 4), embed_dim=6, in_channels=1)
    >>> tokens(mt.zeros(5, 1, 4, 8, 12)).shape
    (5, 13, 6)
    """

    def __init__(self, video_size, patch_size, embed_dim, in_channels=3):
        super().__init__(embed_dim)
        self.video_size, self.patch_size = tuple(video_size), tuple(patch_size)
        sizes = self.video_size, self.patch_size
        if [len(size) for size in sizes] != [3, 3] or any(
            n % k for n, k in zip(*sizes, strict=True)
        ):
            raise ArgumentError(
                "VideoTokens: the video size is not divisible by the patch size",
                got=f"video_size={video_size}, patch_size={patch_size}",
                expected="three sizes (frames, height, width), each a multiple of the patch's size",
            )
        self.grid = tuple(n // k for n, k in zip(*sizes, strict=True))
        self.projection = nn.Conv3d(in_channels, embed_dim, self.patch_size, stride=self.patch_size)
        self.time_positions, self.row_positions, self.column_positions = (
            nn.LearnedPositionalEmbedding(count, embed_dim) for count in self.grid
        )
        self.apply(initialize)

    @property
    def positions(self):
        """Return the sum of each patch's time, row and column position vectors, (patch, embed)."""
        time, row, column = (
            table.weight
            for table in (self.time_positions, self.row_positions, self.column_positions)
        )
        # (time, 1, 1, embed) + (row, 1, embed) + (column, embed)
        return (time[:, None, None] + row[:, None] + column).flatten(0, 2)

    @computes("patches with positions")
    def embed(self, video):
        """Return the patch plus position embeddings, ordered by time, then row, then column.

        Parameters
        ----------
        video : Tensor of shape (batch, channel, frame, height, width)

        Returns
        -------
        Tensor of shape (batch, patch, embed)
        """
        channels = self.projection.in_channels
        if video.ndim != 5 or video.shape[1:] != (channels, *self.video_size):
            raise ShapeError(
                "VideoTokens: the shape of the video does not match the model",
                got=f"shape {video.shape}",
                expected=f"(batch, {channels}, {', '.join(map(str, self.video_size))})",
                hint="pass video.transpose(1, 2) if frames are before channels",
            )
        return self.projection(video).flatten(2).transpose(1, 2) + self.positions


class AudioTokens(Tokens):
    """Audio tokens: segments of the waveform, or of a spectrogram, with their positions.

    Parameters
    ----------
    length, patch_size : int
        Number of samples (or spectrogram frames) in the audio of a clip, and in a segment.
    embed_dim : int
    in_channels : int, default 1
        Number of values at each time step: 1 for a waveform, the number of bands for a spectrogram.

    Notes
    -----
    The paper uses waveforms. The authors' code also has a model for spectrograms. That model cuts
    spectrograms along the frequency axis too.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> AudioTokens(length=20, patch_size=5, embed_dim=6)(mt.zeros(3, 20)).shape
    (3, 5, 6)
    """

    def __init__(self, length, patch_size, embed_dim, in_channels=1):
        super().__init__(embed_dim)
        if length % patch_size:
            raise ArgumentError(
                "AudioTokens: length is not divisible by patch_size",
                got=f"length={length}, patch_size={patch_size}",
            )
        self.length, self.patch_size, self.in_channels = length, patch_size, in_channels
        self.projection = nn.Linear(patch_size * in_channels, embed_dim)
        self.positions = nn.LearnedPositionalEmbedding(length // patch_size, embed_dim)
        self.apply(initialize)

    @computes("patches with positions")
    def embed(self, audio):
        """Return the segment embeddings plus position embeddings.

        Parameters
        ----------
        audio : Tensor of shape (batch, time), or (batch, time, channel)

        Returns
        -------
        Tensor of shape (batch, segment, embed)
        """
        values = audio.unsqueeze(-1) if audio.ndim == 2 else audio
        if values.ndim != 3 or values.shape[1:] != (self.length, self.in_channels):
            raise ShapeError(
                "AudioTokens: the shape of the audio does not match the model",
                got=f"shape {audio.shape}",
                expected=f"(batch, {self.length}, {self.in_channels})",
                hint="truncate the audio, or pad it with silence, to the length the model expects",
            )
        segments = values.reshape(values.shape[0], -1, self.patch_size * self.in_channels)
        return self.positions(self.projection(segments))


class TextTokens(Tokens):
    """Text tokens: a vector for each word.

    Parameters
    ----------
    vocab_size, length, embed_dim : int
        Size of the vocabulary, maximum number of words in a sentence, and size of a vector.
    num_heads : int
        Number of attention heads in the Transformer that receives the tokens.
    relative : bool, default True
        Whether positions are encoded by a bias on the attention scores that depends on the
        distance between two words, as in T5. If False, each position has a vector.

    Notes
    -----
    As in the authors' code, the relative position bias has 32 buckets for distances up to 64, and
    all layers share the bias. If all three modalities share one Transformer, the authors' code does
    not use this bias. Instead, it adds a learned vector for each position to the word vectors.
    `VATT` does the same: it then passes `relative=False`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tokens = TextTokens(vocab_size=11, length=7, embed_dim=6, num_heads=2)
    >>> tokens(mt.zeros(3, 5, dtype="int64")).shape
    (3, 6, 6)
    """

    def __init__(self, vocab_size, length, embed_dim, num_heads, relative=True):
        super().__init__(embed_dim)
        self.length = length
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        init.normal_(self.embedding.weight, std=0.02)
        self.positions = None if relative else nn.LearnedPositionalEmbedding(length, embed_dim)
        self.bias = RelativePositionBias(num_heads, True, 32, 64) if relative else None
        if relative:
            init.normal_(self.bias.embedding.weight, std=0.02)

    def embed(self, ids):
        """Return the vectors (batch, word, embed) of word ids (batch, word)."""
        if ids.ndim != 2 or ids.shape[1] > self.length:
            raise ShapeError(
                "TextTokens: the shape of the word ids does not match the model",
                got=f"shape {ids.shape}", expected=f"(batch, at most {self.length} words)",
            )  # fmt: skip
        words = self.embedding(ids)
        return words if self.positions is None else self.positions(words)

    def mask(self, ids, padding=None):
        """Return the attention mask, combined with the position bias if there is one.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, word)
        padding : bool Tensor of shape (batch, word), optional
            True for padding.

        Returns
        -------
        Tensor that broadcasts to (batch, heads, 1 + word, 1 + word), or None
            Booleans (True where attention is allowed), or numbers that are added to the scores.
        """
        attend = None
        if padding is not None:
            attend = ops.pad(~padding, (1, 0), value=True)[:, None, None]  # (batch, 1, 1, key)
        if self.bias is None:
            return attend
        bias = self.bias(1 + ids.shape[1], 1 + ids.shape[1])  # (1, heads, query, key)
        return bias if attend is None else ops.where(attend, bias, float("-inf"))
