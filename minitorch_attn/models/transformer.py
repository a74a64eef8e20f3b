"""The Transformer: an encoder reads a sentence, and a decoder generates its translation.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762v7. This file contains the model's
embeddings, initialization and sizes. The layers of Figure 1 are in `encoder_decoder.py`.
"""

import math

from .. import nn
from .encoder_decoder import Decoder, Encoder, EncoderDecoder, SequenceEmbedding

__all__ = ["Transformer", "transformer_base", "transformer_big"]


class Transformer(EncoderDecoder):
    """Transformer for translation: maps source and target ids to logits of the next target token.

    Parameters
    ----------
    vocab_size : int
        Size of the vocabulary of the source language, or of both languages.
    target_vocab_size : int, optional
        Size of the vocabulary of the target language. By default both languages share a vocabulary,
        and both embeddings and the output layer share one matrix (section 3.4).
    embed_dim : int, default 512
        Size of the embeddings, d_model in the paper.
    num_heads : int, default 8
        Number of heads.
    num_encoder_layers, num_decoder_layers : int, default 6
        Number of layers in each stack.
    ff_dim : int, default 2048
        Hidden size of the feed-forward networks.
    dropout : float, default 0.1
        Dropout probability applied to the embeddings and to each sub-layer's output.
    attention_dropout, ff_dropout : float, default 0
        Dropout probabilities of the attention weights and inside the feed-forward networks.
    activation : str or callable, default "relu"
        Nonlinearity of the feed-forward networks.
    norm_first : bool, default False
        Whether the layers are pre-norm. See `Residual`.
    tie_weights : bool, default True
        Whether the embeddings and the output layer share matrices. See `EncoderDecoder`.
    pad_id : int, optional
        Id of the token that pads short source sentences. No token attends to padding.
    max_len : int, default 2048
        Maximum number of tokens in a sequence.
    eps : float, default 1e-5
        Epsilon added to the variance in the LayerNorms.

    Notes
    -----
    The paper does not specify biases and initialization. Here the projections have biases, as in
    PyTorch. Matrices use Glorot initialization, and embeddings are drawn from N(0, 1/embed_dim).
    The paper's loss is `nn.CrossEntropyLoss(label_smoothing=0.1)` (section 5.4), and its schedule
    is `optim.lr_scheduler.NoamLR` (section 5.3).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Transformer(
    ...     vocab_size=11, embed_dim=6, num_heads=2, ff_dim=8, num_encoder_layers=1,
    ...     num_decoder_layers=1, pad_id=0,
    ... )
    >>> source = mt.tensor([[4, 7, 5, 9], [3, 8, 0, 0]])
    >>> target = mt.tensor([[1, 6, 10, 2], [1, 4, 2, 0]])  # 1 starts and 2 ends a sentence
    >>> logits = model(source, target[:, :-1])
    >>> loss_fn = mt.nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    >>> loss = loss_fn(logits.flatten(0, 1), target[:, 1:].flatten())

    The attention weights of the decoder:

    >>> with mt.nn.collect_attention(model.decoder) as found:
    ...     logits = model(source, target)
    >>> [weights.shape for _, weights in found]  # self-attention, cross-attention
    [(2, 2, 4, 4), (2, 2, 4, 4)]
    """

    def __init__(
        self, vocab_size, target_vocab_size=None, *, embed_dim=512, num_heads=8,
        num_encoder_layers=6, num_decoder_layers=6, ff_dim=2048, dropout=0.1,
        attention_dropout=0.0, ff_dropout=0.0, activation="relu", norm_first=False,
        tie_weights=True, pad_id=None, max_len=2048, eps=1e-5,
    ):  # fmt: skip
        options = dict(
            dropout=dropout, attention_dropout=attention_dropout, ff_dropout=ff_dropout,
            activation=activation, norm_first=norm_first, eps=eps,
        )  # fmt: skip
        positions = nn.SinusoidalPositionalEncoding(embed_dim, max_len)

        def embedding(size):
            tokens = nn.Embedding(size, embed_dim)
            return SequenceEmbedding(tokens, positions, math.sqrt(embed_dim), dropout=dropout)

        super().__init__(
            embedding(vocab_size),
            Encoder(num_encoder_layers, embed_dim, num_heads, ff_dim, **options),
            embedding(vocab_size if target_vocab_size is None else target_vocab_size),
            Decoder(num_decoder_layers, embed_dim, num_heads, ff_dim, **options),
            one_vocabulary=target_vocab_size is None, tie_weights=tie_weights, pad_id=pad_id,
        )  # fmt: skip

    def reset_parameters(self):
        """Initialize the parameters again: random matrices, and biases of 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():  # last, because the head may share one of these matrices
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def transformer_base(vocab_size=37000, **changes):
    """Build the base model of the Transformer: 6 + 6 layers, embed_dim 512, 8 heads.

    Parameters
    ----------
    vocab_size : int, default 37000
        The paper's vocabulary for English and German has "about 37000" entries (section 5.1).
    **changes
        Further arguments passed to `Transformer`.

    Notes
    -----
    The model has 63,082,496 parameters: 44,138,496 in the layers and 512 for each vocabulary entry.
    Table 3 reports 65 million, which implies a vocabulary of 41,000. The rows of Table 3 for other
    depths and widths imply the same vocabulary. The 213 million parameters reported for the big
    model imply a vocabulary of 36,000.
    """
    return Transformer(vocab_size, **changes)


def transformer_big(vocab_size=37000, **changes):
    """Build the big model of the Transformer: 6 + 6 layers, embed_dim 1024, 16 heads, dropout 0.3.

    The model has 214,245,376 parameters, of which 176,357,376 are in the layers. Table 3 reports
    213 million. See `transformer_base`.

    Parameters
    ----------
    vocab_size : int, default 37000
    **changes
        Further arguments passed to `Transformer`.
    """
    big = dict(embed_dim=1024, num_heads=16, ff_dim=4096, dropout=0.3)
    return Transformer(vocab_size, **{**big, **changes})
