"""word2vec: word vectors that predict neighboring words (skip-gram, CBOW).

Mikolov et al. 2013, "Efficient Estimation of Word Representations in Vector Space",
arXiv:1301.3781v3, defines the two models: skip-gram predicts the words around a word, and CBOW
(continuous bag of words) predicts a word from the mean of the words around it. Mikolov et al. 2013,
"Distributed Representations of Words and Phrases and their Compositionality", arXiv:1310.4546v1,
replaces the softmax over the vocabulary with a binary tree (section 2.1) or a few negative samples
(section 2.2), and discards frequent words at random (section 2.3). Where the papers leave a choice,
this file follows the authors' program, word2vec.c. `word2vec_samples.py` creates the pairs of words
and the negative samples for training. Equation numbers refer to arXiv:1310.4546v1.
"""

import math
from collections import deque

from .. import nn, ops
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import tensor

__all__ = [
    "CBOW",
    "HierarchicalSoftmax",
    "SkipGram",
    "discard_probability",
    "huffman_codes",
    "negative_sampling_loss",
    "noise_distribution",
]


def negative_sampling_loss(vectors, output, positives, negatives):
    """Negative sampling loss: distinguishes the word that occurred from randomly drawn words.

    Parameters
    ----------
    vectors : Tensor of shape (batch, embed)
        Vectors from which the words are predicted, v_I in Eq. 4.
    output : Embedding
        Output vectors v' of all words.
    positives : int64 Tensor of shape (batch,)
        Words that occurred in the text, w_O in Eq. 4.
    negatives : int64 Tensor of shape (batch, negative)
        Words drawn from the noise distribution.

    Returns
    -------
    Tensor of shape ()
        Mean over the batch of minus Eq. 4:
        -log sigmoid(v'_O . v_I) - sum_i log sigmoid(-v'_i . v_I)
    """
    _check_words("negative_sampling_loss", vectors.shape[:-1], positives, negatives)
    positive = (output(positives) * vectors).sum(-1)  # (batch,)
    negative = (output(negatives) * vectors.unsqueeze(-2)).sum(-1)  # (batch, negative)
    log_likelihood = ops.logsigmoid(positive) + ops.logsigmoid(-negative).sum(-1)  # Eq. 4
    return -log_likelihood.mean()


class SkipGram(nn.Module):
    """Skip-gram model with negative sampling: each word predicts its neighbors.

    Parameters
    ----------
    vocab_size : int
        Number of words.
    embed_dim : int
        Length of each word vector.

    Attributes
    ----------
    input : Embedding
        Vectors v of words that predict other words. Initially uniform in [-1/2, 1/2] / embed_dim.
    output : Embedding
        Vectors v' of words that are predicted. Initially 0.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = SkipGram(vocab_size=7, embed_dim=3)
    >>> center, context = mt.tensor([4, 0]), mt.tensor([2, 6])
    >>> negatives = mt.tensor([[1, 3, 5], [1, 1, 2]])
    >>> model.negative_sampling_loss(center, context, negatives)  # 4 log 2 at the start
    tensor(2.7726, grad_fn=<Neg>)
    """

    def __init__(self, vocab_size, embed_dim):
        super().__init__()
        self.input = _input_vectors(vocab_size, embed_dim)
        self.output = _zero_vectors(vocab_size, embed_dim)

    def forward(self, center):
        """Return the vectors (..., embed) of the words with ids `center`, of any shape (...)."""
        return self.input(center)

    def negative_sampling_loss(self, center, context, negatives):
        """Return the negative sampling loss for predicting each `context` word from its center.

        Parameters
        ----------
        center, context : int64 Tensor of shape (batch,)
            Center words, and one neighbor of each, which is predicted from it.
        negatives : int64 Tensor of shape (batch, negative)
        """
        return negative_sampling_loss(self.input(center), self.output, context, negatives)


class CBOW(nn.Module):
    """Continuous bag of words: predicts a word from the mean of the surrounding words' vectors.

    arXiv:1301.3781v3, section 3.1. The order of the surrounding words does not matter.

    Parameters
    ----------
    vocab_size, embed_dim : int
        See `SkipGram`, which also describes the attributes `input` and `output`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = CBOW(vocab_size=7, embed_dim=3)
    >>> model(mt.tensor([[4, 0, 2, 6], [1, 1, 5, 0]])).shape
    (2, 3)
    """

    def __init__(self, vocab_size, embed_dim):
        super().__init__()
        self.input = _input_vectors(vocab_size, embed_dim)
        self.output = _zero_vectors(vocab_size, embed_dim)

    def forward(self, context, padding_mask=None):
        """Return the mean (batch, embed) of the vectors of the words in each row of `context`.

        Parameters
        ----------
        context : int64 Tensor of shape (batch, context)
        padding_mask : bool Tensor of shape (batch, context), optional
            True where there is no word. A row without words has mean 0.
        """
        vectors = self.input(context)  # (batch, context, embed)
        if padding_mask is None:
            return vectors.mean(-2)
        real = padding_mask.logical_not().to(vectors.dtype).unsqueeze(-1)  # (batch, context, 1)
        return (vectors * real).sum(-2) / ops.clamp(real.sum(-2), min=1)

    def negative_sampling_loss(self, context, center, negatives, padding_mask=None):
        """Return the negative sampling loss for predicting `center` from the words around it.

        Parameters
        ----------
        context, padding_mask
            See `forward`.
        center : int64 Tensor of shape (batch,)
        negatives : int64 Tensor of shape (batch, negative)
        """
        vectors = self(context, padding_mask)
        return negative_sampling_loss(vectors, self.output, center, negatives)


class HierarchicalSoftmax(nn.Module):
    """Hierarchical softmax: predicts the turns on the path to a word in a Huffman tree.

    The probability of a word requires one sigmoid for each inner node on its path instead of a
    softmax over all words. A path has about log2(vocab_size) nodes. Frequent words have short
    paths.

    Parameters
    ----------
    counts : sequence of int, or Tensor of shape (word,)
        Number of occurrences of each word.
    embed_dim : int
        Length of each vector.

    Attributes
    ----------
    input : Embedding of shape (word, embed)
        Vectors v of words that predict other words.
    nodes : Embedding of shape (word - 1, embed)
        Vectors v' of the inner nodes. Initially 0.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = HierarchicalSoftmax([40, 21, 11, 6], embed_dim=3)
    >>> model.loss(mt.tensor([2]), mt.tensor([0]))  # one turn: log 2 at the start
    tensor(0.6931, grad_fn=<Neg>)
    """

    def __init__(self, counts, embed_dim):
        super().__init__()
        codes, points, lengths = huffman_codes(counts)
        self.input = _input_vectors(len(codes), embed_dim)
        self.nodes = _zero_vectors(len(codes) - 1, embed_dim)
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("points", points, persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)

    def forward(self, center):
        """Return log p(word | center) for all words, of shape (batch, word)."""
        scores = self.input(center) @ self.nodes.weight.T  # (batch, node)
        return self._log_path(scores[:, self.points], self.codes, self.lengths)

    def loss(self, center, context):
        """Return the mean of -log p(context | center).

        Parameters
        ----------
        center, context : int64 Tensor of shape (batch,)
            Center words, and one neighbor of each, which is predicted from it.
        """
        return self.loss_of(self.input(center), context)

    def loss_of(self, vectors, words):
        """Return the mean of -log p(word | vector), for example for CBOW's mean vectors.

        Parameters
        ----------
        vectors : Tensor of shape (batch, embed)
        words : int64 Tensor of shape (batch,)
        """
        _check_words("HierarchicalSoftmax.loss", vectors.shape[:-1], words)
        points = ops.embedding(words, self.points)  # (batch, turn)
        scores = (self.nodes(points) * vectors.unsqueeze(-2)).sum(-1)  # (batch, turn)
        codes, lengths = ops.embedding(words, self.codes), self.lengths[words]
        return -self._log_path(scores, codes, lengths).mean()

    @staticmethod
    def _log_path(scores, codes, lengths):
        """Return log p of each word, summed over the turns on its path (Eq. 3).

        A turn with code 0 adds log sigmoid(score). A turn with code 1 adds log sigmoid(-score).
        """
        sign = (1 - 2 * codes).to(scores.dtype)  # [[n(w, j+1) = ch(n(w, j))]] of Eq. 3
        on_path = ops.arange(codes.shape[-1], device=codes.device) < lengths.unsqueeze(-1)
        return ops.where(on_path, ops.logsigmoid(sign * scores), 0.0).sum(-1)


def huffman_codes(counts):
    """Return each word's path from the root: its inner nodes (points) and the turns there (codes).

    Parameters
    ----------
    counts : sequence of int, or Tensor of shape (word,)
        Number of occurrences of each word.

    Returns
    -------
    codes : int64 Tensor of shape (word, turn)
        Turns on the path, beginning at the root: 0 or 1, padded with 0.
    points : int64 Tensor of shape (word, turn)
        Inner nodes where the turns are taken, padded with 0. The root is node `word - 2`.
    lengths : int64 Tensor of shape (word,)
        Number of turns on the path to each word.

    Notes
    -----
    Each step joins the two nodes with the smallest counts, until one node is left. The smaller of
    the two is chosen first and gets code 0, and the other gets code 1. Inner nodes are numbered in
    the order of their creation. If counts are equal, an inner node is chosen before a word, and a
    later word before an earlier word, as in `CreateBinaryTree` of word2vec.c.

    Examples
    --------
    >>> codes, points, lengths = huffman_codes([4, 2, 1])
    >>> codes, points
    (tensor([[1, 0],
            [0, 1],
            [0, 0]]), tensor([[1, 0],
            [1, 0],
            [1, 0]]))
    >>> lengths
    tensor([1, 2, 2])
    """
    counts = _as_counts(counts, "huffman_codes")
    parent, turn = _join(counts)
    paths = [_path(word, parent, turn, len(counts)) for word in range(len(counts))]
    longest = max(map(len, paths))
    shape = (len(counts), longest)
    padded = [path + [(0, 0)] * (longest - len(path)) for path in paths]
    codes = tensor([code for path in padded for code, _ in path], dtype="int64").reshape(shape)
    points = tensor([node for path in padded for _, node in path], dtype="int64").reshape(shape)
    return codes, points, tensor([len(path) for path in paths], dtype="int64")


def _join(counts):
    """Build the Huffman tree. Return {node: parent} and {node: code}.

    Nodes 0 to len(counts) - 1 are the words. Inner nodes follow, in the order of their creation.
    """
    size = len(counts)
    weight = list(counts)
    # The smallest word is last in `words`, and the smallest inner node is first in `inner`.
    words = sorted(range(size), key=lambda word: -counts[word])
    inner, parent, turn = deque(), {}, {}
    for node in range(size, 2 * size - 1):
        pair = []
        for _ in range(2):
            from_words = words and not (inner and weight[inner[0]] <= weight[words[-1]])
            pair.append(words.pop() if from_words else inner.popleft())
        weight.append(weight[pair[0]] + weight[pair[1]])
        inner.append(node)
        parent |= dict.fromkeys(pair, node)
        turn |= {pair[0]: 0, pair[1]: 1}
    return parent, turn


def _path(word, parent, turn, size):
    """Return the path from the root to a word, as a list of pairs (code, inner node)."""
    steps, node = [], word
    while node in parent:
        steps.append((turn[node], parent[node] - size))
        node = parent[node]
    return steps[::-1]


def discard_probability(counts, threshold=1e-5):
    """Return the probability of discarding each word, `max(0, 1 - sqrt(t / f))` (Eq. 5).

    Parameters
    ----------
    counts : sequence of int, or Tensor of shape (word,)
        Number of occurrences of each word. The share f of a word is its count, divided by the sum
        of all counts.
    threshold : float, default 1e-5
        Threshold t. Words whose share f is at most t are never discarded.

    Returns
    -------
    float64 Tensor of shape (word,)

    Examples
    --------
    >>> discard_probability([64, 32, 4], threshold=0.16)
    tensor([0.5   , 0.2929, 0.    ], dtype=float64)
    """
    counts = _as_counts(counts, "discard_probability")
    total = sum(counts)
    shares = [count / total if total else 0.0 for count in counts]
    kept = [math.sqrt(threshold / share) if share else 1.0 for share in shares]
    return tensor([max(0.0, 1.0 - p) for p in kept], dtype="float64")


def noise_distribution(counts, power=0.75):
    """Return the noise distribution of negative samples: normalized powers of word counts.

    Parameters
    ----------
    counts : sequence of int, or Tensor of shape (word,)
        Number of occurrences of each word.
    power : float, default 0.75
        Exponent (section 2.2). With 1, words are drawn in proportion to their counts. With 0, all
        words are equally likely.

    Returns
    -------
    float64 Tensor of shape (word,)

    Examples
    --------
    >>> noise_distribution([81, 16])
    tensor([0.7714, 0.2286], dtype=float64)
    """
    weights = [float(count) ** power for count in _as_counts(counts, "noise_distribution")]
    total = math.fsum(weights)
    return tensor([weight / total for weight in weights], dtype="float64")


def _input_vectors(count, embed_dim):
    table = _zero_vectors(count, embed_dim)
    bound = 0.5 / max(embed_dim, 1)  # as in word2vec.c
    nn.init.uniform_(table.weight, -bound, bound)
    return table


def _zero_vectors(count, embed_dim):
    return nn.Embedding(count, embed_dim, _weight=ops.zeros(count, embed_dim))


def _as_counts(counts, where):
    """Return the counts of the words as a list of numbers."""
    counts = counts.tolist() if hasattr(counts, "tolist") else counts  # a tensor or an array
    try:
        counts = list(counts)
        valid = all(count >= 0 for count in counts)  # False for NaN
    except TypeError:
        raise DTypeError(
            f"{where}: counts must be a sequence of numbers", got=f"{counts!r:.60}"
        ) from None
    if not counts or not valid:
        raise ArgumentError(
            f"{where}: counts must not be empty or contain negative numbers or NaN",
            got=f"{counts!r:.60}",
        )
    return counts


def _check_words(where, batch, words, negatives=None):
    """Raise an error unless there are one word and one row of `negatives` for each example.

    `batch` is the shape that `words` must have. If `negatives` is None, only `words` is checked.
    """
    if words.shape != batch:
        raise ShapeError(
            f"{where}: the words must have one entry for each vector",
            got=f"{words.shape}",
            expected=f"{tuple(batch)}",
        )
    if negatives is not None and negatives.shape[:-1] != batch:
        raise ShapeError(
            f"{where}: negatives must have one row for each example",
            got=f"{negatives.shape}",
            expected=f"{(*batch, 'negative')}",
        )
