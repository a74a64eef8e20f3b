"""ELMo: word vectors that depend on the sentence, from a bidirectional language model.

Peters et al. 2018, "Deep contextualized word representations", arXiv:1802.05365v2. Convolutions
over the characters of a word compute its vector without context. Two stacks of LSTMs read the
sentence, one from the left to predict the next word and one from the right to predict the
previous word (section 3.1). A task uses a learned mixture of all layers (section 3.2). Section
3.4 gives the sizes. Unlike the paper, this file does not clip the states of the LSTMs.
"""

from .. import nn, ops
from ..errors import ArgumentError, DTypeError, ShapeError
from ..nn.checks import check_layers, check_sizes
from ..nn.functional import cross_entropy, pad
from ..tensor import Tensor, tensor

__all__ = [
    "FILTERS",
    "BiLM",
    "CharacterEncoder",
    "ELMo",
    "Highway",
    "ScalarMix",
    "bilm_loss",
    "character_ids",
]

# (width, count) of the 2048 convolutions of section 3.4, from the authors' published options.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))

# A character is one of the 256 byte values of UTF-8 or one of these markers. The id of a character
# is its value plus 1, because id 0 is padding.
_SENTENCE_BEGIN, _SENTENCE_END, _WORD_BEGIN, _WORD_END, _PAD = range(256, 261)


class Highway(nn.Module):
    """Highway layers: `t * relu(W_H x + b_H) + (1 - t) * x` with gate `t = sigmoid(W_T x + b_T)`.

    Parameters
    ----------
    dim : int
        Size of input and output.
    num_layers : int

    Notes
    -----
    Srivastava et al. 2015, arXiv:1505.00387v2, Eqs. 2 and 3. The first linear map of each layer
    is W_H, the second is W_T. The biases of the gates start at -2, so the layers are close to
    the identity at first.
    """

    def __init__(self, dim, num_layers):
        super().__init__()
        check_layers("Highway", num_layers=num_layers)
        self.transforms = nn.ModuleList(nn.Linear(dim, dim) for _ in range(num_layers))
        self.gates = nn.ModuleList(nn.Linear(dim, dim) for _ in range(num_layers))
        for gate in self.gates:
            nn.init.constant_(gate.bias, -2.0)

    def forward(self, x):
        # x: (..., dim)
        for transform, gate in zip(self.transforms, self.gates, strict=True):
            t = ops.sigmoid(gate(x))
            x = t * ops.relu(transform(x)) + (1 - t) * x
        return x


class CharacterEncoder(nn.Module):
    """Word vectors from characters: convolutions, max pooling, highway layers and a projection.

    Parameters
    ----------
    num_characters : int
        Number of character ids; id 0 is padding.
    char_dim : int
        Length of each character's vector.
    filters : sequence of (int, int)
        Width and number of filters of each convolution.
    num_highway : int
        Number of highway layers.
    output_dim : int
        Length of each word vector.

    Notes
    -----
    See section 3.4 of the ELMo paper, which follows Kim et al. 2015, arXiv:1508.06615v4, section 2.
    """

    def __init__(self, num_characters, char_dim, filters, num_highway, output_dim):
        super().__init__()
        filters = _checked_filters(filters)
        self.widest = max(width for width, _ in filters)
        self.embedding = nn.Embedding(num_characters, char_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(char_dim, count, width) for width, count in filters
        )
        total = sum(count for _, count in filters)
        self.highway = Highway(total, num_highway)
        self.projection = nn.Linear(total, output_dim)

    def forward(self, characters):
        """Return word vectors (batch, token, output) for characters (batch, token, character)."""
        if characters.ndim != 3:
            raise ShapeError(
                "CharacterEncoder: characters must have 3 axes",
                got=f"{characters.shape}",
                expected="(batch, token, character)",
                hint="use character_ids(sentences)",
            )
        batch, tokens, length = characters.shape
        missing = max(self.widest - length, 0)
        characters = pad(characters.reshape(batch * tokens, length), (0, missing))
        x = self.embedding(characters).transpose(1, 2)  # (batch * token, char, character)
        found = [conv(x).amax(-1) for conv in self.convolutions]  # each (batch * token, count)
        words = self.highway(ops.relu(ops.cat(found, -1)))
        return self.projection(words).reshape(batch, tokens, -1)


class ELMo(nn.Module):
    """ELMo: maps sentences to the outputs of all layers of a bidirectional language model.

    Parameters
    ----------
    num_characters, char_dim, filters, num_highway
        See `CharacterEncoder`.
    embed_dim : int
        Length of the word vectors, and of each direction's output.
    hidden_dim : int
        Size of the LSTM cells. Their outputs are projected to the smaller `embed_dim`.
    num_layers : int, default 2
        Number L of LSTM layers in each direction. From the second layer on, a layer's input is
        added to its output.
    dropout : float, default 0
        Dropout probability of the input of each LSTM layer.

    Notes
    -----
    The default sizes are the paper's (section 3.4), with 93.6 million parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> elmo = ELMo(filters=[(1, 4), (3, 5)], embed_dim=6, hidden_dim=11)
    >>> characters = character_ids([["the", "right", "class"]])
    >>> elmo(characters).shape  # 1 + 2 layers of 2 directions
    (3, 1, 3, 12)
    >>> mix = ScalarMix(3)
    >>> mix(elmo(characters)).shape
    (1, 3, 12)
    """

    def __init__(
        self, num_characters=262, char_dim=16, filters=FILTERS, num_highway=2, embed_dim=512,
        hidden_dim=4096, num_layers=2, dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        check_layers("ELMo", num_layers=num_layers)
        self.embed_dim = embed_dim
        self.encoder = CharacterEncoder(num_characters, char_dim, filters, num_highway, embed_dim)

        def stack():
            return nn.ModuleList(
                nn.LSTM(embed_dim, hidden_dim, batch_first=True, proj_size=embed_dim)
                for _ in range(num_layers)
            )

        self.forward_layers, self.backward_layers = stack(), stack()
        self.dropout = nn.Dropout(dropout)

    def forward(self, characters, padding_mask=None):
        """Return the outputs of all layers, (layer, batch, token, 2 * embed).

        Layer 0 contains the word vectors. Section 3.2 writes h_kj for word k and layer j.

        Parameters
        ----------
        characters : int64 Tensor of shape (batch, token, character)
        padding_mask : bool Tensor of shape (batch, token), optional
            True at padding, which must be at the end of each row.
        """
        x = self.encoder(characters)  # (batch, token, embed)
        order = _reversed_order(x, padding_mask)
        rows = ops.arange(x.shape[0], device=x.device).unsqueeze(1)
        from_left = self._read(self.forward_layers, x)
        from_right = [h[rows, order] for h in self._read(self.backward_layers, x[rows, order])]
        both = [ops.cat(pair, -1) for pair in zip(from_left, from_right, strict=True)]
        return ops.stack(both)  # layer 0 (h_k0): each word's vector, twice

    def _read(self, layers, x):
        """Return a list of x and the LSTM layers' outputs, each of shape (batch, token, embed)."""
        outputs = [x]
        for index, lstm in enumerate(layers):
            output = lstm(self.dropout(x))[0]
            x = output + x if index > 0 else output  # the residual connection of section 3.4
            outputs.append(x)
        return outputs


class BiLM(nn.Module):
    """Bidirectional language model for training ELMo: it predicts the next and previous words.

    Parameters
    ----------
    vocab_size : int
        Number of words that can be predicted.
    elmo : ELMo

    Notes
    -----
    Section 3.1: both directions share the word vectors and the output layer.

    Examples
    --------
    >>> model = BiLM(7, ELMo(filters=[(1, 4), (3, 5)], embed_dim=6, hidden_dim=11))
    >>> to_right, to_left = model(character_ids([["the", "right", "class"]]))
    >>> to_right.shape, to_left.shape
    ((1, 3, 7), (1, 3, 7))
    """

    def __init__(self, vocab_size, elmo):
        super().__init__()
        if not isinstance(elmo, ELMo):
            raise DTypeError("BiLM: elmo is not an ELMo model", got=type(elmo).__name__)
        self.elmo = elmo
        self.output = nn.Linear(elmo.embed_dim, vocab_size)

    def forward(self, characters, padding_mask=None):
        """Return the logits of both directions, each (batch, token, vocab); see `bilm_loss`.

        Parameters
        ----------
        characters, padding_mask
            See `ELMo.forward`.
        """
        top = self.elmo.dropout(self.elmo(characters, padding_mask)[-1])
        size = self.elmo.embed_dim
        return self.output(top[..., :size]), self.output(top[..., size:])


class ScalarMix(nn.Module):
    """Mixture of layers, `gamma * sum_j softmax(weight)_j h_j` (Eq. 1).

    Parameters
    ----------
    num_layers : int
        Number of layers to mix. In ELMo: L LSTM layers and the layer of word vectors.

    Attributes
    ----------
    weight : Parameter of shape (num_layers,)
        Starts at 0, so that all layers have equal weight.
    gamma : Parameter of shape ()
        Starts at 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> ScalarMix(2)(mt.tensor([[1.0, 2.0], [3.0, 8.0]])).detach()
    tensor([2., 5.])
    """

    def __init__(self, num_layers):
        super().__init__()
        check_sizes("ScalarMix", num_layers=num_layers)
        self.num_layers = num_layers
        self.weight = nn.Parameter(ops.zeros(num_layers))
        self.gamma = nn.Parameter(ops.ones(()))

    def forward(self, layers):
        """Mix layers, a tensor (layer, ...) or a list of tensors (...), into one tensor (...)."""
        if not isinstance(layers, Tensor):
            layers = ops.stack(layers)
        if layers.shape[:1] != (self.num_layers,):
            raise ShapeError(
                "ScalarMix: the number of layers is wrong",
                got=f"{layers.shape}",
                expected=f"{self.num_layers} layers on the first axis",
            )
        shares = ops.softmax(self.weight, 0).reshape(-1, *[1] * (layers.ndim - 1))
        return self.gamma * (shares * layers).sum(0)  # Eq. 1

    def extra_repr(self):
        return f"{self.num_layers}"


def bilm_loss(forward_logits, backward_logits, ids, padding_mask=None):
    """Return the loss of a bidirectional language model: the sum of both directions' mean losses.

    Parameters
    ----------
    forward_logits, backward_logits : Tensor of shape (batch, token, vocab)
        Logits at position k, which predict the word at k + 1 and the word at k - 1, respectively.
    ids : int64 Tensor of shape (batch, token)
        Word ids.
    padding_mask : bool Tensor of shape (batch, token), optional
        True at padding. A prediction counts if neither position k nor the predicted word is
        padding.

    Returns
    -------
    Tensor of shape ()
        The objective of section 3.1, negated, and with a mean over each direction's predictions
        instead of a sum.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bilm_loss(mt.zeros(1, 3, 7), mt.zeros(1, 3, 7), mt.tensor([[4, 0, 2]]))  # 2 log 7
    tensor(3.8918)
    """
    to_next, to_previous = losses_by_direction(forward_logits, backward_logits, ids, padding_mask)
    return to_next + to_previous


def losses_by_direction(forward_logits, backward_logits, ids, padding_mask=None):
    """Return the two terms of `bilm_loss`: for the next word, and for the previous word."""
    following, preceding = ids[:, 1:], ids[:, :-1]
    if padding_mask is not None:
        real = padding_mask.logical_not()
        both = real[:, 1:] & real[:, :-1]
        following, preceding = (ops.where(both, x, -100) for x in (following, preceding))
    return (
        _mean_loss(forward_logits[:, :-1], following),
        _mean_loss(backward_logits[:, 1:], preceding),
    )


def _mean_loss(logits, targets):
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def character_ids(sentences, max_characters=50):
    """Return the character ids of words, with markers for the start and end of words and sentences.

    Parameters
    ----------
    sentences : list of list of str
        Words of each sentence.
    max_characters : int, default 50
        Number of ids per word, including the markers. Longer words are cut off.

    Returns
    -------
    int64 Tensor of shape (batch, token, max_characters)
        Each word consists of a start marker, its UTF-8 bytes and an end marker, and is padded with
        the id 261. The id of a byte is its value plus 1. The words "<S>" and "</S>" mark the start
        and end of a sentence. Sentences are padded with words whose ids are all 0.

    Examples
    --------
    >>> character_ids([["a", "to"]], max_characters=5)
    tensor([[[259,  98, 260, 261, 261],
             [259, 117, 112, 260, 261]]])
    """
    if max_characters < 3:
        raise ArgumentError("character_ids: max_characters must be at least 3", got=max_characters)
    marks = {"<S>": [_SENTENCE_BEGIN], "</S>": [_SENTENCE_END]}
    longest = max(map(len, sentences), default=0)
    rows = []
    for sentence in sentences:
        row = []
        for word in sentence:
            inner = marks.get(word) or list(word.encode())[: max_characters - 2]
            ids = [_WORD_BEGIN, *inner, _WORD_END]
            row.append([x + 1 for x in ids + [_PAD] * (max_characters - len(ids))])
        rows.append(row + [[0] * max_characters] * (longest - len(sentence)))
    return tensor(rows, dtype="int64").reshape(len(sentences), longest, max_characters)


def _reversed_order(x, padding_mask):
    """Return indices (batch, token) that reverse each row's words and leave padding in place."""
    batch, tokens = x.shape[:2]
    places = ops.arange(tokens, device=x.device).expand(batch, tokens)
    if padding_mask is None:
        return tokens - 1 - places
    lengths = padding_mask.logical_not().sum(1, keepdim=True)  # (batch, 1)
    return ops.where(places < lengths, lengths - 1 - places, places)


def _checked_filters(filters):
    """Return the filters as a list of pairs (width, count), or raise an error."""
    try:
        pairs = [(width, count) for width, count in filters]
    except (TypeError, ValueError):
        pairs = []
    if not pairs:
        raise ArgumentError(
            "CharacterEncoder: filters must be pairs of a width and a count",
            got=f"{filters!r:.60}",
            expected="a sequence of pairs, such as [(1, 32), (3, 64)]",
        )
    for width, count in pairs:
        check_sizes("CharacterEncoder", width=width, count=count)
    return pairs
