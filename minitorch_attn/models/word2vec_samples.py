"""Training examples for word2vec: word pairs, windows, subsampling and negative samples.

The models, the noise distribution of the negative samples and the probabilities of discarding words
are in `word2vec.py`.
"""

from .. import ops
from ..tensor import tensor

__all__ = ["cbow_windows", "draw_negatives", "skip_gram_pairs", "subsample"]


def draw_negatives(noise, batch, count, generator=None):
    """Draw `count` negative samples for each of `batch` examples.

    Parameters
    ----------
    noise : Tensor of shape (word,)
        Probability of each word; see `word2vec.noise_distribution`.
    batch, count : int
    generator : Generator, optional

    Returns
    -------
    int64 Tensor of shape (batch, count)

    Notes
    -----
    arXiv:1310.4546v1, section 2.2. As in the paper, a negative sample can be equal to the
    word that occurred.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> draw_negatives(mt.tensor([0.0, 1.0]), batch=2, count=3)
    tensor([[1, 1, 1],
            [1, 1, 1]])
    """
    drawn = ops.multinomial(noise, batch * count, replacement=True, generator=generator)
    return drawn.reshape(batch, count)


def subsample(ids, discard, generator=None):
    """Discard random occurrences of frequent words from a text.

    Parameters
    ----------
    ids : int64 Tensor of shape (token,)
    discard : Tensor of shape (word,)
        See `word2vec.discard_probability`.
    generator : Generator, optional

    Returns
    -------
    int64 Tensor of shape (kept,)

    Notes
    -----
    arXiv:1310.4546v1, section 2.3. Subsample a text before you create pairs or windows from it.
    Discarded words do not leave gaps, so a window of the same size reaches more distant words of
    the text.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> subsample(mt.tensor([1, 0, 0, 1]), mt.tensor([0.0, 1.0]))
    tensor([0, 0])
    """
    drawn = ops.rand(len(ids), dtype="float64", device=ids.device, generator=generator)
    return ids[drawn >= discard[ids]]


def skip_gram_pairs(ids, window, sizes=None):
    """Return all pairs of a word and one of its neighbors, for skip-gram.

    Parameters
    ----------
    ids : int64 Tensor of shape (token,)
    window : int
        Maximum distance between the words of a pair, in tokens.
    sizes : int64 Tensor of shape (token,), optional
        Window size of each word, at most `window`. If the sizes are drawn at random from 1, ...,
        window, distant words have less weight (arXiv:1301.3781v3, section 3.2).

    Returns
    -------
    center, context : int64 Tensor of shape (pair,)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> skip_gram_pairs(mt.tensor([5, 3, 8]), window=1)
    (tensor([5, 3, 3, 8]), tensor([3, 5, 8, 3]))
    """
    context, blocked, center = cbow_windows(ids, window, sizes)
    real = blocked.logical_not()
    return center.unsqueeze(1).expand(*context.shape)[real], context[real]


def cbow_windows(ids, window, sizes=None):
    """Return the words around each word, as rows of 2 * window entries, for CBOW.

    Parameters
    ----------
    ids, window, sizes
        See `skip_gram_pairs`.

    Returns
    -------
    context : int64 Tensor of shape (token, 2 * window)
    padding_mask : bool Tensor of shape (token, 2 * window)
        True where there is no word: outside the text, or outside the word's own window.
    center : int64 Tensor of shape (token,)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cbow_windows(mt.tensor([5, 3]), window=1)[:2]
    (tensor([[5, 3],
            [5, 3]]), tensor([[ True, False],
            [False,  True]]))
    """
    offsets = [*range(-window, 0), *range(1, window + 1)]
    offsets = tensor(offsets, dtype="int64", device=ids.device)
    places = ops.arange(len(ids), device=ids.device).unsqueeze(1) + offsets  # (token, 2 * window)
    blocked = (places < 0) | (places >= len(ids))
    if sizes is not None:
        blocked = blocked | (offsets.abs() > sizes.unsqueeze(1))
    return ids[ops.clamp(places, 0, max(len(ids) - 1, 0))], blocked, ids
