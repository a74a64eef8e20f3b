"""Mask-Predict's model: an encoder-decoder that predicts all masked target tokens at once.

Ghazvininejad et al. 2019, "Mask-Predict: Parallel Decoding of Conditional Masked Language Models",
arXiv:1904.09324v2, section 2. `generation/mask_predict.py` contains the decoding algorithm.
"""

import math

from .. import nn, ops
from ..errors import ShapeError
from .encoder_decoder import Decoder, Encoder, EncoderDecoder, SequenceEmbedding

__all__ = ["ConditionalMaskedLM", "cmlm_loss", "mask_target"]


class ConditionalMaskedLM(EncoderDecoder):
    """Conditional masked language model: predicts the masked tokens of a target sequence.

    The model is a Transformer whose decoder does not have a causal mask. Its encoder reads an
    additional [LENGTH] token, from which the length of the target is predicted. The source and the
    target share one vocabulary.

    Parameters
    ----------
    vocab_size : int
        Size of the vocabulary, including padding and [MASK].
    embed_dim : int, default 512
    num_heads : int, default 8
    num_encoder_layers, num_decoder_layers : int, default 6
    ff_dim : int, default 2048
    dropout : float, default 0.3
        Dropout probability applied to the embeddings and to each sub-layer's output.
    activation : str or callable, default "relu"
    norm_first : bool, default False
        Whether the layers are pre-norm. See `Residual`.
    pad_id : int, default 0
        Id of the padding in the source and in the target. Other tokens do not attend to it.
    mask_id : int, default 1
        Id of [MASK].
    max_len : int, default 2048
        Maximum number of tokens in a sequence, including [LENGTH].
    max_target_len : int, default 256
        Length of the longest target that can be predicted. The classes of the length prediction are
        0, ..., max_target_len.
    eps : float, default 1e-5
        Epsilon added to the variance in the LayerNorms.

    Attributes
    ----------
    length_token : Parameter of shape (embed,)
        Embedding of [LENGTH], at position 0 of the encoder.
    length_head : Linear
        Layer that maps the encoder's output at [LENGTH] to the logits of the lengths.

    Notes
    -----
    Section 2.1 describes the decoder without a causal mask, section 2.2 describes the loss
    (`mask_target` and `cmlm_loss`), and section 2.3 describes how the length is predicted. Weights
    are drawn from N(0, 0.02^2), and biases start at 0 (section 4.1). As in the authors' code, the
    decoder does not attend to [LENGTH]. The positions are sinusoidal.

    References
    ----------
    .. [1] arXiv:1904.09324v2, sections 2 and 4.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ConditionalMaskedLM(
    ...     11, embed_dim=6, num_heads=2, ff_dim=8, num_encoder_layers=1, num_decoder_layers=1,
    ...     max_target_len=7,
    ... )
    >>> source, target = mt.tensor([[4, 7, 5], [3, 8, 0]]), mt.tensor([[6, 9, 2], [5, 0, 0]])
    >>> noise, share = mt.rand(2, 3), mt.rand(2)
    >>> read, masked = mask_target(target, noise, share, model.mask_id, model.pad_id)
    >>> logits, length_logits = model(source, read)
    >>> logits.shape, length_logits.shape
    ((2, 3, 11), (2, 8))
    >>> loss = cmlm_loss(logits, target, masked, length_logits, model.pad_id)
    """

    def __init__(
        self, vocab_size, *, embed_dim=512, num_heads=8, num_encoder_layers=6,
        num_decoder_layers=6, ff_dim=2048, dropout=0.3, activation="relu", norm_first=False,
        pad_id=0, mask_id=1, max_len=2048, max_target_len=256, eps=1e-5,
    ):  # fmt: skip
        options = dict(dropout=dropout, activation=activation, norm_first=norm_first, eps=eps)
        positions = nn.SinusoidalPositionalEncoding(embed_dim, max_len)

        def embedding():
            tokens = nn.Embedding(vocab_size, embed_dim)
            return SequenceEmbedding(tokens, positions, math.sqrt(embed_dim), dropout=dropout)

        super().__init__(
            embedding(),
            Encoder(num_encoder_layers, embed_dim, num_heads, ff_dim, **options),
            embedding(),
            Decoder(num_decoder_layers, embed_dim, num_heads, ff_dim, causal=False, **options),
            one_vocabulary=True, tie_weights=True, pad_id=pad_id,
        )  # fmt: skip
        self.mask_id = mask_id
        self.length_token = nn.Parameter(ops.zeros(embed_dim))
        self.length_head = nn.Linear(embed_dim, max_target_len + 1)
        for matrix in (self.length_token, self.length_head.weight):
            nn.init.normal_(matrix, std=0.02)
        nn.init.zeros_(self.length_head.bias)

    def forward(self, source, target, source_mask=None, target_mask=None):
        """Compute the logits of all target tokens and the logits of the target's length.

        Parameters
        ----------
        source : int64 Tensor of shape (batch, source)
        target : int64 Tensor of shape (batch, target)
            Target in which the tokens to predict are `mask_id`.
        source_mask, target_mask : Mask or bool Tensor, optional
            True where attention is allowed. By default, `pad_id` is masked.

        Returns
        -------
        logits : Tensor of shape (batch, target, vocabulary)
            The logits at every position depend on the source and on all observed target tokens.
        length_logits : Tensor of shape (batch, length)
        """
        source_mask = self.padding_mask(source) if source_mask is None else source_mask
        memory, length_logits = self.encode(source, source_mask)
        return self.decode(target, memory, source_mask, target_mask), length_logits

    def encode(self, source, source_mask=None):
        """Return the encoder's output (batch, source, embed) and the logits of the target's length.

        A linear layer computes the logits, of shape (batch, length), from the output at [LENGTH]
        (section 2.3).
        """
        x = self.source_embedding.look_up(source)  # (batch, source, embed)
        token = self.length_token * self.source_embedding.scale
        x = ops.cat([token.expand(x.shape[0], 1, -1), x], 1)
        x = self.encoder(self.source_embedding.place(x), _with_length(source_mask))
        return x[:, 1:], self.length_head(x[:, 0])

    def decode(self, target, memory, source_mask=None, target_mask=None):
        """Compute the logits of all target tokens, with shape (batch, target, vocabulary).

        Parameters
        ----------
        target : int64 Tensor of shape (batch, target)
        memory : Tensor of shape (batch, source, embed)
            First output of `encode`.
        source_mask, target_mask : as in `forward`
        """
        target_mask = self.padding_mask(target) if target_mask is None else target_mask
        return super().decode(target, memory, source_mask, target_mask)


def _with_length(mask):
    """Return a source mask in which all tokens may also attend to [LENGTH], at position 0."""
    if mask is None:
        return None
    attend = mask.attend if isinstance(mask, nn.Mask) else mask
    return ops.cat([ops.ones_like(attend[..., :1]), attend], -1)


def mask_target(target, noise, share, mask_id, pad_id=0):
    """Mask a random number of tokens of each target: between one and all of them, uniformly.

    Parameters
    ----------
    target : int64 Tensor of shape (batch, target)
        Targets, padded at the end.
    noise : Tensor of shape (batch, target)
        Uniform random numbers. The tokens with the smallest noise are masked.
    share : Tensor of shape (batch,)
        Uniform random numbers in [0, 1). In a target of N tokens, 1 + floor(share * N) are masked.
    mask_id : int
    pad_id : int, default 0

    Returns
    -------
    read : int64 Tensor of shape (batch, target)
        Target with `mask_id` at the masked tokens.
    masked : bool Tensor of shape (batch, target)

    References
    ----------
    .. [1] arXiv:1904.09324v2, section 2.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> target, noise = mt.tensor([[7, 8, 9, 0]]), mt.tensor([[0.5, 0.1, 0.9, 0.2]])
    >>> read, masked = mask_target(target, noise, mt.tensor([0.4]), mask_id=1)
    >>> read.tolist()  # 1 + floor(0.4 * 3) = 2 tokens
    [[1, 1, 9, 0]]
    """
    if noise.shape != target.shape or share.shape != target.shape[:1]:
        raise ShapeError(
            "mask_target: the shapes of noise and share do not match target",
            got=f"target {target.shape}, noise {noise.shape} and share {share.shape}",
            expected="(batch, target), (batch, target) and (batch,)",
        )
    real = target != pad_id  # (batch, target)
    count = 1 + (share * real.sum(1)).long()  # (batch,)
    rank = ops.where(real, noise, float("inf")).argsort(1).argsort(1)
    masked = (rank < count.unsqueeze(1)) & real
    return ops.where(masked, mask_id, target), masked


def cmlm_loss(logits, target, masked, length_logits, pad_id=0, num_masked=None):
    """Return the loss of a conditional masked language model: masked-token loss plus length loss.

    Parameters
    ----------
    logits : Tensor of shape (batch, target, vocabulary)
    target : int64 Tensor of shape (batch, target)
        Target without masks.
    masked : bool Tensor of shape (batch, target)
        True at the tokens that were masked.
    length_logits : Tensor of shape (batch, length)
    pad_id : int, default 0
    num_masked : float, optional
        Number by which the sum of the masked tokens' losses is divided. Default: the number of
        masked tokens. If a batch is split among threads, each thread has a different number of
        masked tokens. In that case, pass the thread's number of rows times a constant, so that all
        rows have the same weight.

    Returns
    -------
    Tensor of shape ()
        Mean of -log P(y_i | X, Y_obs) over the masked tokens, plus mean of -log P(N | X).

    References
    ----------
    .. [1] arXiv:1904.09324v2, sections 2.2 and 2.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> target, masked = mt.tensor([[2, 3, 0]]), mt.tensor([[True, False, False]])
    >>> loss = cmlm_loss(mt.zeros(1, 3, 5), target, masked, mt.zeros(1, 4))
    >>> f"{loss.item():.4f}"  # log 5 + log 4
    '2.9957'
    """
    wanted = ops.where(masked, target, -100)  # -100: ignored by the loss
    tokens = nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=-100,
        reduction="mean" if num_masked is None else "sum",
    )  # fmt: skip
    lengths = (target != pad_id).sum(1)  # (batch,)
    lengths = nn.functional.cross_entropy(length_logits, lengths)
    return tokens / (1 if num_masked is None else num_masked) + lengths
