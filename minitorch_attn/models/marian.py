"""Marian: the Transformer of the translation toolkit used to train the OPUS-MT models.

Junczys-Dowmunt et al. 2018, "Marian: Fast Neural Machine Translation in C++", arXiv:1804.00344v3.
Marian differs from the original Transformer in the order of the features of the sinusoidal
positions. The OPUS-MT models also use swish instead of ReLU.
"""

import math

from .. import nn
from ..computes import computes
from ..nn.positional import position_rows
from ..ops import cat
from .encoder_decoder import Decoder, Encoder, EncoderDecoder, SequenceEmbedding

__all__ = ["Marian", "marian_base", "split_sinusoidal_positions"]


@computes("sinusoidal positions")
def split_sinusoidal_positions(num_positions, embed_dim):
    """Return sinusoidal positions with all sines before all cosines.

    PE[pos, i] = sin(a) and PE[pos, ceil(embed_dim / 2) + i] = cos(a), where
    a = pos / 10000^(2i / embed_dim).

    Parameters
    ----------
    num_positions, embed_dim : int
        Size of the table. If `embed_dim` is odd, the table has one more sine than cosine.

    Returns
    -------
    Tensor of shape (num_positions, embed_dim)

    Examples
    --------
    >>> split_sinusoidal_positions(2, 4)
    tensor([[0.    , 0.    , 1.    , 1.    ],
            [0.8415, 0.01  , 0.5403, 0.9999]])
    """
    even = embed_dim + embed_dim % 2
    base = 10000.0 ** (even / embed_dim)  # exponents 2i / embed_dim for odd embed_dim too
    table = nn.sinusoidal_positions(num_positions, even, base=base, dtype="float64")
    return cat((table[:, 0::2], table[:, 1::2]), 1)[:, :embed_dim].to(dtype="float32")


class SplitSinusoidalPositions(nn.Module):
    """Sinusoidal positions: adds the table of `split_sinusoidal_positions` to x.

    Parameters
    ----------
    max_len, embed_dim : int

    Attributes
    ----------
    weight : Tensor of shape (max_len, embed_dim)
        Table of positions: a buffer, which is saved with the model but not trained.
    """

    def __init__(self, max_len, embed_dim):
        super().__init__()
        self.register_buffer("weight", split_sinusoidal_positions(max_len, embed_dim))

    def forward(self, x, offset=0):
        # x: (batch, token, embed)
        return x + position_rows(self.weight, x, offset, type(self).__name__)


class Marian(EncoderDecoder):
    """Marian translation model: computes the logits of the translation's next token.

    Parameters
    ----------
    vocab_size : int
        Vocabulary size of the source language, or of both languages.
    target_vocab_size : int, optional
        Vocabulary size of the target language, which then has its own embedding matrix. By default,
        both languages share one vocabulary, and one matrix serves as both embeddings and as the
        output layer.
    embed_dim : int, default 512
    num_heads : int, default 8
    num_encoder_layers, num_decoder_layers : int, default 6
    ff_dim : int, default 2048
    decoder_num_heads, decoder_ff_dim : int, optional
        Default: the encoder's values.
    dropout : float, default 0.1
        Dropout probability applied to the embeddings and to each sub-layer's output.
    attention_dropout, ff_dropout : float, default 0
        Dropout probabilities of the attention weights and inside the feed-forward networks.
    encoder_layer_drop, decoder_layer_drop : float, default 0
        Probability of skipping a layer during training.
    activation : str or callable, default "swish"
    scale_embedding : bool, default True
        Whether to multiply the token embeddings by sqrt(embed_dim).
    max_len : int, default 512
        Maximum number of tokens in a sentence.
    tie_weights : bool, default True
        Whether the embeddings and the output layer share matrices.
    pad_id : int, optional
        Id of the padding token, which also starts every target. Its embedding is initialized to 0
        and receives a zero gradient.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Marian(vocab_size=11, embed_dim=6, num_heads=2, ff_dim=8, pad_id=10)
    >>> model(mt.tensor([[4, 7, 3, 0]]), mt.tensor([[10, 5, 8]])).shape
    (1, 3, 11)
    """

    def __init__(
        self, vocab_size, target_vocab_size=None, *, embed_dim=512, num_heads=8,
        num_encoder_layers=6, num_decoder_layers=6, ff_dim=2048, decoder_num_heads=None,
        decoder_ff_dim=None, dropout=0.1, attention_dropout=0.0, ff_dropout=0.0,
        encoder_layer_drop=0.0, decoder_layer_drop=0.0, activation="swish", scale_embedding=True,
        max_len=512, tie_weights=True, pad_id=None,
    ):  # fmt: skip
        options = dict(
            dropout=dropout, attention_dropout=attention_dropout, ff_dropout=ff_dropout,
            activation=activation,
        )  # fmt: skip
        decoder_sizes = (decoder_num_heads or num_heads, decoder_ff_dim or ff_dim)

        def embedding(size):
            return SequenceEmbedding(
                nn.Embedding(size, embed_dim, pad_id),
                SplitSinusoidalPositions(max_len, embed_dim),
                math.sqrt(embed_dim) if scale_embedding else 1.0,
                dropout=dropout,
            )

        super().__init__(
            embedding(vocab_size),
            Encoder(
                num_encoder_layers, embed_dim, num_heads, ff_dim, layer_drop=encoder_layer_drop,
                **options,
            ),
            embedding(vocab_size if target_vocab_size is None else target_vocab_size),
            Decoder(
                num_decoder_layers, embed_dim, *decoder_sizes, layer_drop=decoder_layer_drop,
                **options,
            ),
            one_vocabulary=target_vocab_size is None, tie_weights=tie_weights, pad_id=pad_id,
        )  # fmt: skip


def marian_base(**changes):
    """Build a Marian model with the sizes of the OPUS-MT models.

    These sizes are the same as in the base Transformer. With OPUS-MT's English-German vocabulary,
    the model has 73,886,208 parameters.

    Parameters
    ----------
    **changes
        Arguments of `Marian` to override.
    """
    return Marian(**{"vocab_size": 58101, "pad_id": 58100, **changes})
