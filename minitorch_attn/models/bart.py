"""BART: a Transformer pre-trained to reconstruct corrupted texts.

Lewis et al. 2019, "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language
Generation, Translation, and Comprehension", arXiv:1910.13461v1. Section 2.1 lists the changes to
the Transformer: GELU replaces ReLU, and weights start with mean 0 and standard deviation 0.02. As
in BERT, positions are learned, and a LayerNorm follows the embeddings.
"""

import math

from .. import nn
from .encoder_decoder import Decoder, Encoder, EncoderDecoder, SequenceEmbedding

__all__ = ["BART", "bart_base", "bart_large"]


class OffsetPositions(nn.LearnedPositionalEmbedding):
    """Learned position embeddings whose table starts with two unused rows.

    Position p uses row p + 2, as in the published weights. An earlier version of the published code
    used rows 0 and 1 for padding.

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
    """BART encoder-decoder: reads a corrupted text and predicts the original, token by token.

    Parameters
    ----------
    vocab_size : int
    embed_dim : int, default 768
    num_heads : int, default 12
    num_encoder_layers, num_decoder_layers : int, default 6
    ff_dim : int, default 3072
    decoder_num_heads, decoder_ff_dim : int, optional
        Default: the encoder's values.
    dropout : float, default 0.1
        Dropout probability applied to the embeddings and to each sub-layer's output.
    attention_dropout, ff_dropout : float, default 0
        Dropout probabilities of the attention weights and inside the feed-forward networks.
    encoder_layer_drop, decoder_layer_drop : float, default 0
        Probability of skipping a layer during training.
    activation : str or callable, default "gelu"
    scale_embedding : bool, default False
        Whether to multiply the token embeddings by sqrt(embed_dim), as in the Transformer.
    max_len : int, default 1024
        Maximum number of tokens in a text.
    tie_weights : bool, default True
        Whether the source embeddings, the target embeddings and the output layer share one matrix.
    pad_id : int, default 1
        Id of the padding token. Its embedding is initialized to 0 and receives a zero gradient.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = BART(vocab_size=11, embed_dim=6, num_heads=2, ff_dim=8)
    >>> damaged = mt.tensor([[0, 7, 3, 9, 2]])
    >>> shifted = mt.tensor([[2, 0, 7, 5, 6, 9]])  # the text, shifted right by one position
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
    """BART base (section 2.1): 6 + 6 layers of size 768, 139,420,416 parameters.

    The encoder and the decoder have 6 layers each.

    Parameters
    ----------
    **changes
        Arguments of `BART` to override.

    Notes
    -----
    Initialization takes about a second for every 100 million parameters. To skip it, build the
    model inside `nn.init.skip_init()`. `from_pretrained` loads weights from a folder.
    """
    return BART(**{"vocab_size": 50265, **changes})


def bart_large(**changes):
    """BART large (section 2.1): 12 + 12 layers of size 1024, 406,291,456 parameters.

    The encoder and the decoder have 12 layers each.

    Parameters
    ----------
    **changes
        Arguments of `BART` to override.
    """
    large = dict(
        vocab_size=50265, embed_dim=1024, num_heads=16, ff_dim=4096, num_encoder_layers=12,
        num_decoder_layers=12,
    )  # fmt: skip
    return BART(**{**large, **changes})
