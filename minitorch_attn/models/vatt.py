"""VATT: Transformers for video, audio and text, trained together on unlabeled clips.

Akbari et al. 2021, "VATT: Transformers for Multimodal Self-Supervised Learning from Raw Video,
Audio and Text", arXiv:2104.11178v3. Each modality is converted to tokens (`vatt_tokens.py`).
Either each modality has its own Transformer, or all modalities share one Transformer. The outputs
are projected to two common spaces: one for video and audio, and one for video and text. Two
contrastive losses (`vatt_losses.py`) pull the vectors of the same clip together.
"""

from typing import NamedTuple

from .. import nn
from ..computes import computes
from ..errors import ArgumentError
from ..nn import functional as F
from ..nn.checks import check_layers
from ..tensor import Tensor
from .vatt_losses import mil_nce_loss, nce_loss
from .vatt_tokens import AudioTokens, TextTokens, VideoTokens, drop_token
from .vit import Block, initialize

__all__ = [
    "SIZES", "VATT", "Embeddings", "drop_token", "mil_nce_loss", "nce_loss", "vatt_bbs", "vatt_lbs",
    "vatt_ma_medium", "vatt_mbs",
]  # fmt: skip

# name -> (embed_dim, num_layers, num_heads, mlp_dim)
SIZES = {
    "small": (512, 6, 8, 2048), "base": (768, 12, 12, 3072), "medium": (1024, 12, 16, 4096),
    "large": (1024, 24, 16, 4096),
}  # fmt: skip
_SENSES = ("video", "audio", "text")


class Embeddings(NamedTuple):
    """Outputs of VATT: unit vectors, or None for a modality that was not given.

    Attributes
    ----------
    video_audio, audio : Tensor of shape (batch, common)
        Video and audio in their common space.
    video_text : Tensor of shape (batch, text common)
        Video in the common space of video and text.
    text : Tensor of shape (batch, text common) or (batch, sentence, text common)
        Text in the common space of video and text.
    """

    video_audio: Tensor
    audio: Tensor
    video_text: Tensor
    text: Tensor


class Transformer(nn.Module):
    """Pre-norm Transformer encoder with a final norm, as in ViT.

    Parameters
    ----------
    embed_dim, num_layers, num_heads, mlp_dim : int
    **options
        Arguments of `vit.Block`.
    """

    def __init__(self, embed_dim, num_layers, num_heads, mlp_dim, *, eps=1e-6, **options):
        super().__init__()
        check_layers("VATT", num_layers=num_layers)
        self.blocks = nn.ModuleList(
            [Block(embed_dim, num_heads, mlp_dim, eps=eps, **options) for _ in range(num_layers)]
        )
        self.norm = nn.LayerNorm(embed_dim, eps=eps)
        self.apply(initialize)

    @computes("stack of layers")
    def forward(self, tokens, mask=None):
        # tokens: (batch, token, embed)   mask: broadcasts to (batch, heads, token, token)
        for block in self.blocks:
            tokens = block(tokens, mask)
        return self.norm(tokens)


class VATT(nn.Module):
    """Video-audio-text Transformer with projections to the common spaces.

    Parameters
    ----------
    video_size, video_patch : (int, int, int)
        Number of frames, height and width of a clip and of a patch.
    audio_length, audio_patch : int
        Number of samples in the audio of a clip and in one segment. See `AudioTokens`.
    vocab_size, text_length : int
        Size of the vocabulary, and maximum number of words in a sentence.
    embed_dim, num_layers, num_heads, mlp_dim : int or (int, int, int)
        Sizes of the Transformers: one number for all, or one each for video, audio and text.
    in_channels, audio_channels : int, default 3 and 1
    shared : bool, default False
        Whether one Transformer reads all modalities (modality-agnostic). The token embeddings,
        positions and aggregation tokens are separate in either case.
    common_dim, text_common_dim : int, default 512 and 256
        Sizes of the common spaces of video and audio, and of video and text.
    drop_rate : float, default 0.5
        Fraction of the video and audio tokens that DropToken drops during training.
    temperature : float, default 0.07
    text_weight : float, default 1
        Weight of the video-text loss, lambda in Eq. 7.
    **options
        Arguments of the blocks, such as dropout, activation, eps.

    Attributes
    ----------
    tokens : ModuleDict of VideoTokens, AudioTokens and TextTokens
    transformers : ModuleList
        Three Transformers, or a shared one.
    projections : ModuleDict
        "video" and "audio" project to the common space of video and audio. "video_text" maps from
        that space to the common space of video and text. "text" also projects to the common space
        of video and text.

    Notes
    -----
    The vectors in the video-text space are computed from the vectors in the video-audio space.
    Section "Common Space Projection" of the paper gives the reason: the modalities differ in
    granularity. Video and audio are compared in fine detail, video and text more coarsely. The
    projections have the same layers and batch norms as the authors' code. The authors' code also
    normalizes the position vectors. The paper does not mention this normalization, and this class
    does not apply it.

    References
    ----------
    .. [1] Akbari et al. 2021, arXiv:2104.11178v3, Figure 1 and Eqs. 1 to 7.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = VATT((2, 8, 8), (2, 4, 4), 20, 5, vocab_size=11, text_length=7, embed_dim=6,
    ...     num_layers=1, num_heads=2, mlp_dim=8, in_channels=1, common_dim=5, text_common_dim=3)
    >>> ids = mt.tensor([[1, 2, 3], [4, 5, 0]])
    >>> found = model(mt.rand(2, 1, 2, 8, 8), mt.rand(2, 20), ids, padding=ids == 0)
    >>> found.audio.shape, found.text.shape, model.loss(found).shape
    ((2, 5), (2, 3), ())
    """

    named_methods = None  # all public methods

    def __init__(
        self, video_size=(32, 224, 224), video_patch=(4, 16, 16), audio_length=153_600,
        audio_patch=128, vocab_size=65_536, text_length=16, embed_dim=768, num_layers=12,
        num_heads=12, mlp_dim=3072, *, in_channels=3, audio_channels=1, shared=False,
        common_dim=512, text_common_dim=256, drop_rate=0.5, temperature=0.07, text_weight=1.0,
        **options,
    ):  # fmt: skip
        super().__init__()
        sizes = _per_sense(
            shared, embed_dim=embed_dim, num_layers=num_layers, num_heads=num_heads,
            mlp_dim=mlp_dim,
        )  # fmt: skip
        self.input_shape = (in_channels, *video_size)
        self.drop_rate, self.temperature = drop_rate, temperature
        self.text_weight, self.shared = text_weight, shared
        video_dim, audio_dim, text_dim = (size[0] for size in sizes)
        self.tokens = nn.ModuleDict({
            "video": VideoTokens(video_size, video_patch, video_dim, in_channels),
            "audio": AudioTokens(audio_length, audio_patch, audio_dim, audio_channels),
            "text": TextTokens(vocab_size, text_length, text_dim, sizes[2][2], not shared),
        })  # fmt: skip
        self.transformers = nn.ModuleList(
            [Transformer(*size, **options) for size in (sizes[:1] if shared else sizes)]
        )
        self.projections = _projections(video_dim, audio_dim, text_dim, common_dim, text_common_dim)

    def forward(self, video=None, audio=None, text=None, padding=None):
        """Compute the embeddings of a batch of clips in the common spaces.

        Parameters
        ----------
        video : Tensor of shape (batch, channel, frame, height, width), optional
        audio : Tensor of shape (batch, time) or (batch, time, channel), optional
        text : int64 Tensor of shape (batch, word) or (batch, sentence, word), optional
            Word ids of one sentence or of several sentences for each clip.
        padding : bool Tensor of the same shape as `text`, optional
            True for padding.

        Returns
        -------
        Embeddings
        """
        video_audio = audio_video = video_text = text_video = None
        if video is not None:
            hidden = self.projections["video"](self.encode("video", video))
            video_audio = F.normalize(hidden, dim=-1)
            video_text = F.normalize(self.projections["video_text"](hidden), dim=-1)
        if audio is not None:
            hidden = self.projections["audio"](self.encode("audio", audio))
            audio_video = F.normalize(hidden, dim=-1)
        if text is not None:
            rows = text.reshape(-1, text.shape[-1])  # (batch * sentence, word)
            padding = None if padding is None else padding.reshape(rows.shape)
            hidden = self.projections["text"](self.encode("text", rows, padding))
            text_video = F.normalize(hidden, dim=-1).unflatten(0, text.shape[:-1])
        return Embeddings(video_audio, audio_video, video_text, text_video)

    def encode(self, sense, x, padding=None):
        """Return the Transformer's output (batch, embed) at the aggregation token.

        Parameters
        ----------
        sense : {"video", "audio", "text"}
            Modality of `x`.
        x : Tensor
            Input, as for `forward`. Text must have shape (batch, word).
        padding : bool Tensor of shape (batch, word), optional
            True for padding in text.
        """
        if sense not in _SENSES:
            raise ArgumentError(
                "VATT.encode: unknown modality", got=repr(sense), expected=f"{_SENSES}"
            )
        tokens = self.tokens[sense]
        transformer = self.transformers[0 if self.shared else _SENSES.index(sense)]
        if sense == "text":
            return transformer(tokens(x), tokens.mask(x, padding))[:, 0]
        return transformer(tokens(x, self.drop_rate if self.training else 0.0))[:, 0]

    def loss(self, found, valid=None):
        """Return the training loss of a batch (Eq. 7).

        Parameters
        ----------
        found : Embeddings
            Embeddings of all three modalities.
        valid : bool Tensor of shape (batch, sentence), optional
            False for missing sentences.

        Returns
        -------
        0-d Tensor
            NCE between video and audio in both directions, plus `text_weight` times MIL-NCE
            between video and text.
        """
        texts = found.text if found.text.ndim == 3 else found.text.unsqueeze(1)
        by_sound = nce_loss(found.video_audio, found.audio, self.temperature, symmetric=True)
        by_text = mil_nce_loss(found.video_text, texts, self.temperature, valid)
        return by_sound + self.text_weight * by_text


def _per_sense(shared, **sizes):
    """Return a list of (embed_dim, num_layers, num_heads, mlp_dim), one for each modality."""
    rows = []
    for name, value in sizes.items():
        row = tuple(value) if isinstance(value, (tuple, list)) else (value,) * 3
        if len(row) != 3 or (shared and len(set(row)) > 1):
            raise ArgumentError(
                f"VATT: {name} must be one number, or three if the Transformers are separate",
                got=f"{name}={value!r}, shared={shared}",
            )
        rows.append(row)
    return list(zip(*rows, strict=True))


def _projections(video_dim, audio_dim, text_dim, common_dim, text_common_dim):
    """Return the projections to the common spaces (Eqs. 3 and 4), as in the authors' code."""
    projections = nn.ModuleDict({
        "video": nn.Sequential(
            nn.Linear(video_dim, common_dim, bias=False), nn.BatchNorm1d(common_dim), nn.ReLU(),
            nn.Linear(common_dim, common_dim, bias=False), nn.BatchNorm1d(common_dim),
        ),
        "audio": nn.Linear(audio_dim, common_dim),
        "video_text": nn.Sequential(
            nn.ReLU(), nn.Linear(common_dim, text_common_dim, bias=False),
            nn.BatchNorm1d(text_common_dim),
        ),
        "text": nn.Linear(text_dim, text_common_dim),
    })  # fmt: skip
    return projections.apply(initialize)


def _sized(*names, **options):
    rows = zip(*(SIZES[name] for name in names), strict=True)
    sizes = zip(("embed_dim", "num_layers", "num_heads", "mlp_dim"), rows, strict=True)
    return VATT(**{**dict(sizes), **options})


def vatt_bbs(**options):
    """VATT-BBS: base size for video and audio, small for text. See `VATT` for `options`."""
    return _sized("base", "base", "small", **options)


def vatt_mbs(**options):
    """VATT-MBS: medium size for video, base for audio, small for text. See `VATT` for `options`."""
    return _sized("medium", "base", "small", **options)


def vatt_lbs(**options):
    """VATT-LBS: large size for video, base for audio, small for text. See `VATT` for `options`."""
    return _sized("large", "base", "small", **options)


def vatt_ma_medium(**options):
    """VATT-MA-Medium: one Transformer for all modalities. `options` override the defaults."""
    return _sized("medium", "medium", "medium", **{"shared": True, **options})
