"""The Transformer: an encoder that reads a sentence, a decoder that writes another.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762v7. The layers of Figure 1 are in
`encoder_decoder.py`.
"""

import math

from .. import nn
from .encoder_decoder import Decoder, Encoder, SequenceEmbedding

__all__ = ["Transformer", "transformer_base", "transformer_big"]


class Transformer(nn.Module):
    """Token ids of two languages in, logits of the second language's next token out.

    Parameters
    ----------
    vocab_size : int
        Of the source language, or of both.
    target_vocab_size : int, optional
        None: one vocabulary, and one matrix that embeds source and target and predicts (section
        3.4). A number: the target language has its own vocabulary and matrix.
    embed_dim : int, default 512
        The paper's d_model.
    num_heads : int, default 8
    num_encoder_layers, num_decoder_layers : int, default 6
    ff_dim : int, default 2048
    dropout : float, default 0.1
        On the embeddings and on the output of each sub-layer.
    attention_dropout, ff_dropout : float, default 0
        On the attention weights; inside the feed-forward networks.
    activation : str or callable, default "relu"
    norm_first : bool, default False
        Pre-norm layers; see `Residual`.
    tie_weights : bool, default True
        Whether the matrix that embeds the target also predicts it.
    pad_id : int, optional
        The id that fills up short sources: no token attends to it.
    max_len : int, default 2048
        The most tokens of a sequence.
    eps : float, default 1e-5
        Of the LayerNorms.

    Notes
    -----
    Attention and output layers: the paper leaves biases and the first values open. Here the
    projections have biases, as in PyTorch; matrices start by Glorot's rule and embeddings from
    N(0, 1/embed_dim).

    The loss of the paper is `nn.CrossEntropyLoss(label_smoothing=0.1)` (section 5.4), its
    schedule `optim.lr_scheduler.NoamLR` (section 5.3).

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

    The maps of who attended to whom:

    >>> with mt.nn.collect_attention(model.decoder) as found:
    ...     logits = model(source, target)
    >>> [weights.shape for _, weights in found]  # to the target so far, to the source
    [(2, 2, 4, 4), (2, 2, 4, 4)]
    """

    def __init__(
        self, vocab_size, target_vocab_size=None, *, embed_dim=512, num_heads=8,
        num_encoder_layers=6, num_decoder_layers=6, ff_dim=2048, dropout=0.1,
        attention_dropout=0.0, ff_dropout=0.0, activation="relu", norm_first=False,
        tie_weights=True, pad_id=None, max_len=2048, eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        options = dict(
            dropout=dropout, attention_dropout=attention_dropout, ff_dropout=ff_dropout,
            activation=activation, norm_first=norm_first, eps=eps,
        )  # fmt: skip
        positions = nn.SinusoidalPositionalEncoding(embed_dim, max_len)

        def embedding(size):
            tokens = nn.Embedding(size, embed_dim)
            return SequenceEmbedding(tokens, positions, math.sqrt(embed_dim), dropout=dropout)

        target_size = vocab_size if target_vocab_size is None else target_vocab_size
        self.pad_id = pad_id
        self.source_embedding = embedding(vocab_size)
        self.encoder = Encoder(num_encoder_layers, embed_dim, num_heads, ff_dim, **options)
        self.target_embedding = embedding(target_size)
        self.decoder = Decoder(num_decoder_layers, embed_dim, num_heads, ff_dim, **options)
        self.head = nn.Linear(embed_dim, target_size, bias=False)
        self.reset_parameters()
        if target_vocab_size is None:
            self.target_embedding.tokens.weight = self.source_embedding.tokens.weight
        if tie_weights:
            self.head.weight = self.target_embedding.tokens.weight

    def reset_parameters(self):
        """Draw the matrices anew; biases become 0."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, source, target, source_mask=None, target_mask=None):
        """Logits of the next target token, at every position (teacher forcing).

        Parameters
        ----------
        source : int64 Tensor of shape (batch, source)
        target : int64 Tensor of shape (batch, target)
            Begins with the start token; padding at its end needs no mask, as no earlier token
            sees it.
        source_mask : Mask or bool Tensor, optional
            True = may attend; broadcasts to (batch, heads, query, source). By default all but
            `pad_id`.
        target_mask : Mask or bool Tensor, optional
            In addition to the causal mask; broadcasts to (batch, heads, target, target).

        Returns
        -------
        Tensor of shape (batch, target, vocabulary)
            Position t has seen the whole source and the target's tokens 0 to t.
        """
        source_mask = self.padding_mask(source) if source_mask is None else source_mask
        memory = self.encode(source, source_mask)
        return self.decode(target, memory, source_mask, target_mask)

    def padding_mask(self, source):
        """The Mask that hides `pad_id`, (batch, 1, 1, source); None if no id is padding."""
        if self.pad_id is None:
            return None
        return nn.masks.from_key_padding(source == self.pad_id)

    def encode(self, source, source_mask=None):
        """The encoder's output, (batch, source, embed)."""
        return self.encoder(self.source_embedding(source), source_mask)

    def decode(self, target, memory, source_mask=None, target_mask=None, cache=None):
        """Logits of the next token, (batch, target, vocabulary).

        Parameters
        ----------
        target : int64 Tensor of shape (batch, target)
            With a cache, the tokens after those that it holds.
        memory : Tensor of shape (batch, source, embed)
            From `encode`.
        source_mask, target_mask : as in `forward`
        cache : KVCache, optional
        """
        x = self.target_embedding(target, 0 if cache is None else cache.length)
        return self.head(self.decoder(x, memory, target_mask, source_mask, cache))


def transformer_base(vocab_size=37000, **changes):
    """The base model: 6 + 6 layers, 512 wide, 8 heads.

    Parameters
    ----------
    vocab_size : int, default 37000
        The paper's vocabulary for English and German has "about 37000" entries (section 5.1).
    **changes
        Further arguments of `Transformer`.

    Notes
    -----
    63,082,496 parameters: 44,138,496 in the layers and 512 for each entry of the vocabulary.
    Table 3 says 65 million, which would be a vocabulary of 41,000; so do its rows with other
    depths and widths. The big model's 213 million would be one of 36,000.
    """
    return Transformer(vocab_size, **changes)


def transformer_big(vocab_size=37000, **changes):
    """The big model: 6 + 6 layers, 1024 wide, 16 heads, dropout 0.3.

    214,245,376 parameters, of which 176,357,376 in the layers; Table 3 says 213 million. See
    `transformer_base`.

    Parameters
    ----------
    vocab_size : int, default 37000
    **changes
        Further arguments of `Transformer`.
    """
    big = dict(embed_dim=1024, num_heads=16, ff_dim=4096, dropout=0.3)
    return Transformer(vocab_size, **{**big, **changes})
