"""BART: a Transformer that learned to restore texts from damaged ones.

Lewis et al. 2019, "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language
Generation, Translation, and Comprehension", arXiv:1910.13461v1. Section 2.1 says what it changed
in the Transformer: GELU instead of ReLU, and initial values from N(0, 0.02). As in BERT, positions
are learned, and a LayerNorm follows the embeddings.
"""

import math

from .. import nn
from .encoder_decoder import Decoder, Encoder, EncoderDecoder, SequenceEmbedding

__all__ = ["BART", "bart_base", "bart_large"]


class OffsetPositions(nn.LearnedPositionalEmbedding):
    """Learned positions whose table begins with two rows that no position uses.

    Position p has row p + 2: the table goes back to one in which the rows up to the padding id 1
    were kept for padding, and the published weights have it so.

    Parameters
    ----------
    max_len, embed_dim : int
    """

    first = 2

    def __init__(self, max_len, embed_dim):
        super().__init__(max_len + self.first, embed_dim)

    def forward(self, x, offset=0):
        # x: (batch, token, embed)
        return super().forward(x, offset + self.first)


class BART(EncoderDecoder):
    """Token ids of a damaged text in, logits of the whole text's next token out.

    Parameters
    ----------
    vocab_size : int
    embed_dim : int, default 768
    num_heads : int, default 12
    num_encoder_layers, num_decoder_layers : int, default 6
    ff_dim : int, default 3072
    decoder_num_heads, decoder_ff_dim : int, optional
        By default those of the encoder.
    dropout : float, default 0.1
        On the embeddings and on the output of each sub-layer.
    attention_dropout, ff_dropout : float, default 0
        On the attention weights; inside the feed-forward networks.
    encoder_layer_drop, decoder_layer_drop : float, default 0
        How likely a layer is skipped while training.
    activation : str or callable, default "gelu"
    scale_embedding : bool, default False
        Multiply the token vectors by sqrt(embed_dim), as the Transformer does.
    max_len : int, default 1024
        The most tokens of a text.
    tie_weights : bool, default True
        False: source, target and prediction have a matrix each.
    pad_id : int, default 1
        The id that fills up short texts; its vector starts as 0, and being read teaches it
        nothing.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = BART(vocab_size=11, embed_dim=6, num_heads=2, ff_dim=8)
    >>> damaged = mt.tensor([[0, 7, 3, 9, 2]])
    >>> shifted = mt.tensor([[2, 0, 7, 5, 6, 9]])  # the text itself, one to the right
    >>> model(damaged, shifted).shape
    (1, 6, 11)
    """

    def __init__(
        self, vocab_size, *, embed_dim=768, num_heads=12, num_encoder_layers=6,
        num_decoder_layers=6, ff_dim=3072, decoder_num_heads=None, decoder_ff_dim=None,
        dropout=0.1, attention_dropout=0.0, ff_dropout=0.0, encoder_layer_drop=0.0,
        decoder_layer_drop=0.0, activation="gelu", scale_embedding=False, max_len=1024,
        tie_weights=True, pad_id=1,
    ):  # fmt: skip
        options = dict(
            dropout=dropout, attention_dropout=attention_dropout, ff_dropout=ff_dropout,
            activation=activation,
        )  # fmt: skip
        decoder_sizes = (decoder_num_heads or num_heads, decoder_ff_dim or ff_dim)

        def embedding():
            return SequenceEmbedding(
                nn.Embedding(vocab_size, embed_dim, pad_id),
                OffsetPositions(max_len, embed_dim),
                math.sqrt(embed_dim) if scale_embedding else 1.0,
                nn.LayerNorm(embed_dim),
                dropout,
            )

        super().__init__(
            embedding(),
            Encoder(
                num_encoder_layers, embed_dim, num_heads, ff_dim, layer_drop=encoder_layer_drop,
                **options,
            ),
            embedding(),
            Decoder(
                num_decoder_layers, embed_dim, *decoder_sizes, layer_drop=decoder_layer_drop,
                **options,
            ),
            one_vocabulary=True, tie_weights=tie_weights, pad_id=pad_id,
        )  # fmt: skip


def bart_base(**changes):
    """The base model (section 2.1): 6 + 6 layers, 768 wide; 139,420,416 parameters.

    Parameters
    ----------
    **changes
        Further arguments of `BART`.

    Notes
    -----
    Drawing the initial values takes a second for every 100 million parameters; inside
    `nn.init.skip_init()` they are left undefined. Weights from a folder: `from_pretrained`.
    """
    return BART(**{"vocab_size": 50265, **changes})


def bart_large(**changes):
    """The large model (section 2.1): 12 + 12 layers, 1024 wide; 406,291,456 parameters.

    Parameters
    ----------
    **changes
        Further arguments of `BART`.
    """
    large = dict(
        vocab_size=50265, embed_dim=1024, num_heads=16, ff_dim=4096, num_encoder_layers=12,
        num_decoder_layers=12,
    )  # fmt: skip
    return BART(**{**large, **changes})
