"""Speech recognizers: an encoder of audio frames with CTC, or with a Transformer decoder.

A Conformer encoder can be trained alone, with the CTC loss, or together with a decoder. With CTC
(connectionist temporal classification; Graves et al., ICML 2006), the model predicts a label or a
blank for every frame, and the targets do not state which frames belong to which label. A decoder
(Vaswani et al. 2017, arXiv:1706.03762v7) predicts one label at a time, and its cross-attention
selects the frames.
"""

import math

from .. import nn
from ..nn import functional as F
from ..nn.utils import rnn
from .conformer import ConvSubsampling, padding_of
from .encoder_decoder import Decoder, SequenceEmbedding

__all__ = ["CTCRecognizer", "LSTMEncoder", "SpeechSeq2Seq"]


class CTCRecognizer(nn.Module):
    """Recognizer with CTC: an encoder, and a linear layer that labels each frame.

    Parameters
    ----------
    encoder : Module
        Maps features and lengths to (frames, padding), as `ConformerEncoder` does.
    vocab_size : int
        Number of classes, including the blank.
    blank : int, default 0
        Index of the blank, the class that means "no label".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = mt.models.ConformerEncoder(12, 6, num_heads=2, num_layers=1, kernel_size=3)
    >>> model = CTCRecognizer(encoder, vocab_size=5)
    >>> features, lengths = mt.randn(2, 31, 12), mt.tensor([31, 23])
    >>> log_probs, frames = model(features, lengths)
    >>> log_probs.shape, frames  # (frame, batch, class)
    ((7, 2, 5), tensor([7, 5]))
    >>> loss = model.loss(features, lengths, mt.tensor([[1, 1, 4], [2, 0, 0]]), mt.tensor([3, 1]))
    >>> labels = mt.ctc_decode(log_probs, frames)
    """

    named_methods = None  # all public methods

    def __init__(self, encoder, vocab_size, blank=0):
        super().__init__()
        self.encoder, self.blank = encoder, blank
        self.head = nn.Linear(encoder.output_dim, vocab_size)

    def forward(self, features, lengths=None):
        """Compute the log-probabilities of the labels at each frame.

        Parameters
        ----------
        features : Tensor of shape (batch, time, input)
        lengths : int64 Tensor of shape (batch,), optional
            Number of input frames of each sequence. The frames after them are padding.

        Returns
        -------
        log_probs : Tensor of shape (frame, batch, class)
        frames : int64 Tensor of shape (batch,), or None without `lengths`
            Number of frames of each sequence after subsampling.
        """
        x, padding = self.encoder(features, lengths)
        frames = None if padding is None else (~padding).sum(1)
        return F.log_softmax(self.head(x), -1).transpose(0, 1), frames

    def loss(self, features, lengths, targets, target_lengths):
        """Return the mean CTC loss for targets of shape (batch, label). See `F.ctc_loss`.

        Each sequence's loss is divided by its number of labels before the mean is taken.
        """
        log_probs, frames = self(features, lengths)
        return F.ctc_loss(
            log_probs, targets, frames, target_lengths, blank=self.blank, zero_infinity=True
        )


class SpeechSeq2Seq(nn.Module):
    """Speech recognizer: an encoder of audio frames and a Transformer decoder.

    To transcribe speech, call `generation.translate`, which uses greedy or beam search.

    Parameters
    ----------
    encoder : Module
        Maps features and lengths to (frames, padding), as `ConformerEncoder` does.
    vocab_size : int
        Number of different labels, including the start token and the end token.
    num_layers, num_heads, ff_dim : int
        Sizes of the decoder. The decoder has the same width as the encoder.
    dropout : float, default 0.1
    max_len : int, default 512
        Maximum length of a label sequence.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = mt.models.ConformerEncoder(12, 6, num_heads=2, num_layers=1, kernel_size=3)
    >>> model = SpeechSeq2Seq(encoder, vocab_size=11, num_layers=1, num_heads=2, ff_dim=8)
    >>> features, lengths = mt.randn(2, 31, 12), mt.tensor([31, 23])
    >>> model(features, mt.tensor([[1, 4, 9], [1, 5, 2]]), lengths).shape
    (2, 3, 11)
    >>> ids = mt.generation.translate(
    ...     model, features, start_id=1, end_id=2, max_new_tokens=6,
    ...     source_mask=model.source_mask(features, lengths),
    ... )
    >>> ids.shape[0], ids.shape[1] <= 6
    (2, True)
    """

    named_methods = None  # all public methods

    def __init__(
        self, encoder, vocab_size, num_layers=2, num_heads=4, ff_dim=256, dropout=0.1, max_len=512
    ):
        super().__init__()
        width = encoder.output_dim
        self.encoder = encoder
        tokens = nn.Embedding(vocab_size, width)
        nn.init.normal_(tokens.weight, std=width**-0.5)
        positions = nn.SinusoidalPositionalEncoding(width, max_len)
        self.embedding = SequenceEmbedding(tokens, positions, math.sqrt(width), dropout=dropout)
        self.decoder = Decoder(
            num_layers, width, num_heads, ff_dim, dropout=dropout, norm_first=True
        )
        self.head = nn.Linear(width, vocab_size)

    def forward(self, features, target, lengths=None):
        """Compute the logits of the next label at every position (teacher forcing).

        Parameters
        ----------
        features : Tensor of shape (batch, time, input)
        target : int64 Tensor of shape (batch, label)
            Labels, beginning with the start token.
        lengths : int64 Tensor of shape (batch,), optional
            Number of input frames of each sequence. The frames after them are padding.

        Returns
        -------
        Tensor of shape (batch, label, vocabulary)
        """
        memory, padding = self.encoder(features, lengths)
        mask = None if padding is None else nn.masks.from_key_padding(padding)
        return self.decode(target, memory, mask)

    def source_mask(self, features, lengths):
        """Return the mask (batch, 1, 1, frame) of the encoder's frames: False at padding."""
        subsampling = self.encoder.subsampling
        frames = subsampling.output_lengths(features.shape[1])
        return nn.masks.from_key_padding(padding_of(subsampling, lengths, frames))

    def padding_mask(self, features):
        """Return None, because the padding cannot be inferred from `features`.

        `translate` calls this method if it is not given a `source_mask`.
        """

    def encode(self, features, source_mask=None):
        """Return the encoder's output frames. `source_mask` is the result of `self.source_mask`."""
        padding = None if source_mask is None else ~source_mask.attend[:, 0, 0]
        return self.encoder.encode(features, padding)

    def decode(self, target, memory, source_mask=None, cache=None):
        """Compute the logits of the next label, with shape (batch, label, vocabulary).

        Parameters
        ----------
        target : int64 Tensor of shape (batch, label)
            Label ids. If a cache is given, only the labels that follow the cached ones.
        memory : Tensor of shape (batch, frame, embed)
            Output of `encode`.
        source_mask : Mask or bool Tensor, optional
        cache : KVCache, optional
        """
        x = self.embedding(target, 0 if cache is None else cache.length)
        return self.head(self.decoder(x, memory, None, source_mask, cache))


class LSTMEncoder(nn.Module):
    """Recurrent encoder of audio frames: subsampling as in the Conformer, then bidirectional LSTMs.

    This encoder is a baseline for `ConformerEncoder`. Both are called in the same way.

    Parameters
    ----------
    input_dim : int
        Number of features of an input frame.
    embed_dim : int
        Size of the frames after subsampling.
    hidden_dim, num_layers : int
        Number of units in each direction, and number of bidirectional layers.
    dropout : float, default 0.1
        Dropout probability of the input and between the layers.
    channels : int, optional
        Number of channels of the subsampling convolutions. Default: `embed_dim`.

    Attributes
    ----------
    output_dim : int
        Size of an output frame, twice `hidden_dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = LSTMEncoder(12, embed_dim=6, hidden_dim=5, num_layers=2)
    >>> frames, padding = encoder(mt.zeros(2, 31, 12), lengths=mt.tensor([31, 19]))
    >>> frames.shape
    (2, 7, 10)
    """

    def __init__(self, input_dim, embed_dim, hidden_dim, num_layers=2, dropout=0.1, channels=None):
        super().__init__()
        self.output_dim = 2 * hidden_dim
        self.subsampling = ConvSubsampling(input_dim, embed_dim, channels)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(
            embed_dim, hidden_dim, num_layers, batch_first=True, bidirectional=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )  # fmt: skip

    def forward(self, features, lengths=None):
        """Encode sequences of frames; see `ConformerEncoder.forward`."""
        frames = self.subsampling.output_lengths(features.shape[1])
        padding = padding_of(self.subsampling, lengths, frames)
        return self.encode(features, padding), padding

    def encode(self, features, padding=None):
        """Encode sequences of frames. `padding` marks padding among the subsampled frames.

        With this mask, the sequences are packed, so that the LSTMs do not read padding. The output
        is zero at padding.
        """
        x = self.dropout(self.subsampling(features))
        if padding is None:
            return self.lstm(x)[0]
        lengths = (~padding).sum(1).cpu()
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        return rnn.pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0]
