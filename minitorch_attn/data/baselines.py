"""Baselines for language models: uniform, unigram and bigram cross-entropies of a text."""

import math

import numpy as np

from ..named_errors import names_arguments

__all__ = ["COUNTING", "baselines"]

# What each of the three models that count tokens knows about a text.
COUNTING = {
    "uniform": "every character is equally likely",
    "unigram": "how often each character occurs",
    "bigram": "how often each character follows the previous one",
}


@names_arguments
def baselines(training, validation, vocab_size):
    r"""Compute the validation cross-entropies of three models that only count tokens.

    * uniform: every token is equally likely, :math:`\log V`.
    * unigram: :math:`p(b) = (n_b + 1) / (N + V)`, the frequency of each token (add-one smoothing).
    * bigram: :math:`p(b \mid a) = (n_{ab} + p(b)) / (m_a + 1)`, the frequency of token b after
      token a (Dirichlet smoothing: one additional count, divided among the tokens in proportion
      to their unigram probabilities).

    V is the vocabulary size. `training` has N tokens. It contains token b :math:`n_b` times, the
    pair ab :math:`n_{ab}` times, and :math:`m_a` pairs whose first token is a. The loss is the mean
    of :math:`-\log p` over all tokens of `validation` but the first, in nats.

    Parameters
    ----------
    training, validation : array of int64 of shape (token,)
    vocab_size : int

    Returns
    -------
    dict of float
        Losses under the keys "uniform", "unigram" and "bigram".

    Examples
    --------
    >>> alternating = np.arange(1000) % 2
    >>> {name: round(loss, 3) for name, loss in baselines(alternating, alternating, 2).items()}
    {'uniform': 0.693, 'unigram': 0.693, 'bigram': 0.001}
    """
    counts = np.bincount(training, minlength=vocab_size)
    unigram = (counts + 1) / (len(training) + vocab_size)
    pairs = _pair_counts(training, vocab_size)
    before, after = validation[:-1], validation[1:]
    pair_counts = pairs(before, after)
    totals = np.bincount(training[:-1], minlength=vocab_size)
    bigram = (pair_counts + unigram[after]) / (totals[before] + 1)
    return {
        "uniform": math.log(vocab_size),
        "unigram": float(-np.log(unigram[after]).mean()),
        "bigram": float(-np.log(bigram).mean()),
    }


def _pair_counts(ids, vocab_size):
    """Return a function that counts how often each pair (first, second) occurs in `ids`.

    The function stores only pairs that occur, because the vocabulary may be large.
    """
    keys, counts = np.unique(ids[:-1] * vocab_size + ids[1:], return_counts=True)

    def lookup(first, second):
        wanted = first * vocab_size + second
        places = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        return np.where(keys[places] == wanted, counts[places], 0)

    return lookup
