"""BERT: a bidirectional encoder, pre-trained to predict masked tokens.

Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", arXiv:1810.04805v2. The encoder is `BERT`. Each task in the paper, for pre-training
(section 3.1) and for fine-tuning (Figure 4), adds a small head. The smaller sizes are from Turc et
al. 2019, arXiv:1908.08962v2, Table 1.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ShapeError
from ..nn.checks import check_layers
from ..nn.dropout import add_residual

__all__ = [
    "BERT", "BERTClassifier", "BERTMaskedLM", "BERTPreTraining", "BERTQuestionAnswering",
    "BERTTokenClassifier", "bert_base", "bert_large", "bert_medium", "bert_mini", "bert_small",
    "bert_tiny",
]  # fmt: skip


class Embeddings(nn.Module):
    """BERT's embeddings: the sum of token, position and segment embeddings (Figure 2).

    A layer norm and dropout are applied to the sum.

    Parameters
    ----------
    embed_dim, max_positions, num_segments : int
    dropout, eps : float
    """

    def __init__(self, embed_dim, max_positions, num_segments, dropout, eps):
        super().__init__()
        self.position_embedding = nn.Embedding(max_positions, embed_dim)
        self.segment_embedding = nn.Embedding(num_segments, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens, segments=None, positions=None):
        # tokens: (batch, token, embed)   segments, positions: (batch, token) of ids
        length, longest = tokens.shape[1], self.position_embedding.num_embeddings
        if positions is None:
            if length > longest:
                raise ShapeError(
                    "BERT: the text has more tokens than the model has positions",
                    got=f"{length} tokens", expected=f"at most {longest}",
                    hint="truncate the text, or create the model with a larger max_positions",
                )  # fmt: skip
            positions = ops.arange(length, device=tokens.device)
        first = self.segment_embedding.weight[0]  # default: all tokens are in sentence A
        segment = first if segments is None else self.segment_embedding(segments)
        x = tokens + segment + self.position_embedding(positions)
        return self.dropout(self.norm(x))  # (batch, token, embed)


class EncoderLayer(nn.Module):
    """Post-norm encoder layer: `norm(x + attention(x))`, then `norm(x + feed_forward(x))`.

    Parameters
    ----------
    embed_dim, num_heads, ff_dim : int
    dropout, attention_dropout : float
    activation : str or callable
    eps : float
    """

    def __init__(self, embed_dim, num_heads, ff_dim, dropout, attention_dropout, activation, eps):
        super().__init__()
        self.attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
        self.norm1 = nn.LayerNorm(embed_dim, eps)
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation)
        self.norm2 = nn.LayerNorm(embed_dim, eps)
        self.dropout = nn.Dropout(dropout)

    @computes("encoder layer")
    def forward(self, x, mask=None):
        # x: (batch, token, embed)   mask: broadcasts to (batch, heads, query, key)
        x = self.norm1(add_residual(x, self.attention(x, mask=mask), self.dropout))
        return self.norm2(add_residual(x, self.feed_forward(x), self.dropout))


class BERT(nn.Module):
    """BERT encoder: maps token ids to one vector for each token.

    Parameters
    ----------
    vocab_size : int
    embed_dim, num_heads, num_layers : int
        Size of each token's vector, number of heads and number of layers (H, A and L in the paper).
    ff_dim : int, optional
        Hidden size of the feed-forward networks. Default: 4 * embed_dim.
    max_positions : int, default 512
        Maximum number of tokens. Each position has a learned embedding.
    num_segments : int, default 2
        Number of segments, such as sentences A and B.
    dropout : float, default 0.1
        Dropout probability after the embeddings and before each residual sum.
    attention_dropout : float, optional
        Dropout probability of the attention weights. Default: `dropout`.
    activation : str or callable, default "gelu"
    eps : float, default 1e-12
        Epsilon added to the variance in the layer norms.
    padding_idx : int, optional
        Id of the padding token, whose embedding receives a zero gradient.

    Attributes
    ----------
    token_embedding : Embedding
    embeddings : Embeddings
    layers : ModuleList of EncoderLayer
    pooler : Linear
        Linear layer used by `pool`.

    References
    ----------
    .. [1] arXiv:1810.04805v2, section 3. As in the published code, initial values are drawn from a
       normal distribution with std 0.02, truncated at two standard deviations.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = BERT(vocab_size=31, embed_dim=6, num_heads=2, num_layers=1, max_positions=11)
    >>> hidden = model(mt.tensor([[1, 5, 3, 2]]))
    >>> hidden.shape, model.pool(hidden).shape
    ((1, 4, 6), (1, 6))
    """

    named_methods = None  # all public methods

    def __init__(
        self, vocab_size, embed_dim, num_heads, num_layers, ff_dim=None, max_positions=512,
        num_segments=2, dropout=0.1, attention_dropout=None, activation="gelu", eps=1e-12,
        padding_idx=None,
    ):  # fmt: skip
        super().__init__()
        self.vocab_size, self.embed_dim, self.eps = vocab_size, embed_dim, eps
        self.dropout, self.activation = dropout, activation
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        ff_dim = 4 * embed_dim if ff_dim is None else ff_dim
        self.token_embedding = nn.Embedding(vocab_size, embed_dim, padding_idx)
        self.embeddings = Embeddings(embed_dim, max_positions, num_segments, dropout, eps)
        layer = (embed_dim, num_heads, ff_dim, dropout, attention_dropout, activation, eps)
        check_layers("BERT", num_layers=num_layers)
        self.layers = nn.ModuleList([EncoderLayer(*layer) for _ in range(num_layers)])
        self.pooler = nn.Linear(embed_dim, embed_dim)
        self.apply(_initialize)

    def forward(self, ids, segments=None, mask=None):
        """Encode token ids to one vector for each token.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
            Token ids. In the paper, [CLS] is the first token and [SEP] follows each sentence.
        segments : int64 Tensor of shape (batch, token), optional
            Segment ids, 0 in sentence A and 1 in sentence B. Default: all 0.
        mask : Mask or bool Tensor, optional
            True where attention is allowed. Broadcasts to (batch, heads, query, key).
            `masks.padding(lengths)` masks padding at the end.

        Returns
        -------
        Tensor of shape (batch, token, embed)
        """
        x = self.embeddings(self.token_embedding(ids), segments)  # (batch, token, embed)
        return self.encode(x, mask)

    def encode(self, x, mask=None):
        """Run the layers on embeddings of shape (batch, token, embed)."""
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def pool(self, hidden):
        """Return one vector for each text: the first token's vector after a linear layer and tanh.

        Parameters
        ----------
        hidden : Tensor of shape (batch, token, embed)

        Returns
        -------
        Tensor of shape (batch, embed)
        """
        return ops.tanh(self.pooler(hidden[:, 0]))


class TokenPrediction(nn.Module):
    """Masked-language-model head: computes logits as dot products with the token embeddings.

    Parameters
    ----------
    bert : BERT
        Model whose token embeddings are used.
    tied : bool, default True
        Whether the output layer shares the token embedding matrix.
    """

    def __init__(self, bert, tied=True):
        super().__init__()
        self.dense = nn.Linear(bert.embed_dim, bert.embed_dim)
        self.activation = nn.activation_function(bert.activation)
        self.norm = nn.LayerNorm(bert.embed_dim, bert.eps)
        self.decoder = nn.Linear(bert.embed_dim, bert.vocab_size)
        self.apply(_initialize)
        if tied:
            self.decoder.weight = bert.token_embedding.weight

    def forward(self, hidden):
        # hidden: (batch, token, embed) -> (batch, token, vocabulary)
        return self.decoder(self.norm(self.activation(self.dense(hidden))))


class BERTMaskedLM(nn.Module):
    """BERT with a masked-language-model head (section 3.1, task 1).

    In the example, the label -100 marks tokens that the loss ignores.

    Parameters
    ----------
    bert : BERT

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bert = BERT(vocab_size=31, embed_dim=6, num_heads=2, num_layers=1)
    >>> ids, labels = mt.tensor([[1, 4, 5, 2]]), mt.tensor([[-100, 9, -100, -100]])
    >>> logits = BERTMaskedLM(bert)(ids)
    >>> logits.shape
    (1, 4, 31)
    >>> mt.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).shape
    ()
    """

    def __init__(self, bert):
        super().__init__()
        self.bert = bert
        self.head = TokenPrediction(bert)

    def forward(self, ids, segments=None, mask=None):
        """Return logits (batch, token, vocabulary). See `BERT.forward` for the arguments."""
        return self.head(self.bert(ids, segments, mask))


class BERTPreTraining(nn.Module):
    """BERT with both pre-training heads: masked tokens and next sentence (section 3.1).

    Class 0 of the next-sentence head means that sentence B follows sentence A.

    Parameters
    ----------
    bert : BERT
    """

    def __init__(self, bert):
        super().__init__()
        self.bert = bert
        self.head = TokenPrediction(bert)
        self.next_sentence = nn.Linear(bert.embed_dim, 2)
        _initialize(self.next_sentence)

    def forward(self, ids, segments=None, mask=None):
        """Return token logits (batch, token, vocabulary) and next-sentence logits (batch, 2)."""
        hidden = self.bert(ids, segments, mask)
        return self.head(hidden), self.next_sentence(self.bert.pool(hidden))


class BERTClassifier(nn.Module):
    """BERT classifier for a text or a pair of texts (Figure 4 (a) and (b)).

    Parameters
    ----------
    bert : BERT
        Pre-trained model. Fine-tuning also updates its parameters.
    num_classes : int
    dropout : float, optional
        Dropout probability before the last layer. Default: the dropout of `bert`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bert = BERT(vocab_size=31, embed_dim=6, num_heads=2, num_layers=1)
    >>> BERTClassifier(bert, num_classes=3)(mt.tensor([[1, 5, 3, 2]])).shape
    (1, 3)
    """

    def __init__(self, bert, num_classes, dropout=None):
        super().__init__()
        self.bert = bert
        self.dropout = nn.Dropout(bert.dropout if dropout is None else dropout)
        self.head = nn.Linear(bert.embed_dim, num_classes)
        _initialize(self.head)

    def forward(self, ids, segments=None, mask=None):
        """Return logits (batch, class). See `BERT.forward` for the arguments."""
        hidden = self.bert(ids, segments, mask)
        return self.head(self.dropout(self.bert.pool(hidden)))


class BERTTokenClassifier(nn.Module):
    """BERT token classifier, for example for named-entity recognition (Figure 4 (d)).

    Parameters
    ----------
    bert, num_classes, dropout
        See `BERTClassifier`.
    """

    def __init__(self, bert, num_classes, dropout=None):
        super().__init__()
        self.bert = bert
        self.dropout = nn.Dropout(bert.dropout if dropout is None else dropout)
        self.head = nn.Linear(bert.embed_dim, num_classes)
        _initialize(self.head)

    def forward(self, ids, segments=None, mask=None):
        """Return logits (batch, token, class). See `BERT.forward` for the arguments."""
        return self.head(self.dropout(self.bert(ids, segments, mask)))


class BERTQuestionAnswering(nn.Module):
    """BERT for extractive question answering (section 4.2, Figure 4 (c)).

    Parameters
    ----------
    bert : BERT
    """

    def __init__(self, bert):
        super().__init__()
        self.bert = bert
        self.head = nn.Linear(bert.embed_dim, 2)  # the two rows are S and E in the paper
        _initialize(self.head)

    def forward(self, ids, segments=None, mask=None):
        """Return logits (batch, 2, token) of the answer's start and end, in this order."""
        return self.head(self.bert(ids, segments, mask)).transpose(1, 2)


def _initialize(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def _build(embed_dim, num_layers, settings):
    """Build a BERT with head_dim 64, and the vocabulary size and [PAD] id (0) of uncased BERT."""
    size = {"embed_dim": embed_dim, "num_layers": num_layers, "num_heads": embed_dim // 64}
    return BERT(**{"vocab_size": 30522, "padding_idx": 0, **size, **settings})


def bert_tiny(**settings):
    """BERT tiny: 2 layers of size 128, 4,385,920 parameters. See `bert_base` for `settings`."""
    return _build(128, 2, settings)


def bert_mini(**settings):
    """BERT mini: 4 layers of size 256, 11,170,560 parameters. See `bert_base` for `settings`."""
    return _build(256, 4, settings)


def bert_small(**settings):
    """BERT small: 4 layers of size 512, 28,763,648 parameters. See `bert_base` for `settings`."""
    return _build(512, 4, settings)


def bert_medium(**settings):
    """BERT medium: 8 layers of size 512, 41,373,184 parameters. See `bert_base` for `settings`."""
    return _build(512, 8, settings)


def bert_base(**settings):
    """BERT base: 12 layers of size 768, 109,482,240 parameters.

    `settings` are arguments of `BERT` that override the published sizes.

    Examples
    --------
    >>> bert_base(vocab_size=7, num_layers=1).layers[0].attention.num_heads
    12
    """
    return _build(768, 12, settings)


def bert_large(**settings):
    """BERT large: 24 layers of size 1024, 335,141,888 parameters. See `bert_base`."""
    return _build(1024, 24, settings)
