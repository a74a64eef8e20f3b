"""Logits warpers: processors that change the distribution to sample from.

Each warper takes the scores of one step (row, vocabulary). It either scales all scores or sets the
scores of unlikely tokens to -inf.
"""

import math

import numpy as np

from .. import ops
from ..errors import ArgumentError
from .processors import LogitsProcessor, positive, whole

__all__ = [
    "EpsilonLogitsWarper", "EtaLogitsWarper", "LogitNormalization", "MinPLogitsWarper",
    "TemperatureLogitsWarper", "TopHLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper",
    "TypicalLogitsWarper",
]  # fmt: skip


def _share(value, name, where, *, zero=True, one=True):
    """Return `value` as a float. Raise an ArgumentError if it is not between 0 and 1.

    `zero` and `one` say whether the bounds 0 and 1 are allowed.
    """
    value = float(value)
    low, high = (value >= 0 if zero else value > 0), (value <= 1 if one else value < 1)
    if not (low and high):
        raise ArgumentError(
            f"{where}: {name} is out of range",
            got=f"{name}={value}",
            expected=f"{'0 <=' if zero else '0 <'} {name} {'<= 1' if one else '< 1'}",
        )
    return value


def _smallest_of_best(scores, k):
    """Return the k-th largest score in each row, with shape (row, 1)."""
    return ops.topk(scores, min(k, scores.shape[-1])).values[:, -1:]


def _terms(scores):
    """Return p log p for each token's probability p (row, vocabulary), with 0 log 0 = 0."""
    log_weights = scores.log_softmax(-1)
    smallest = float(np.finfo(scores.dtype).min)
    return log_weights.clamp(min=smallest) * log_weights.exp()


class TemperatureLogitsWarper(LogitsProcessor):
    """Divide the scores by a temperature. Values below 1 favor likely tokens.

    Parameters
    ----------
    temperature : float
        Positive number by which the scores are divided.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> TemperatureLogitsWarper(0.5)(mt.tensor([[0]]), mt.tensor([[1.0, 2.0]]))
    tensor([[2., 4.]])
    """

    def __init__(self, temperature):
        self.temperature = positive(temperature, "temperature", type(self).__name__)

    def __call__(self, input_ids, scores):
        return scores / self.temperature


class TopKLogitsWarper(LogitsProcessor):
    """Keep the `top_k` most likely tokens, and tokens as likely as the last of these.

    Fan et al. 2018, arXiv:1805.04833v1.

    Parameters
    ----------
    top_k : int
        Number of tokens to keep.
    filter_value : float, default -inf
        Score of the tokens that are not kept.
    min_tokens_to_keep : int, default 1
        Minimum number of tokens to keep.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> TopKLogitsWarper(2)(mt.tensor([[0]]), mt.tensor([[1.0, 3.0, 2.0]]))
    tensor([[-inf,   3.,   2.]])
    """

    def __init__(self, top_k, filter_value=-math.inf, min_tokens_to_keep=1):
        where = type(self).__name__
        self.top_k = max(whole(top_k, "top_k", where), min_tokens_to_keep)
        self.filter_value = filter_value

    def __call__(self, input_ids, scores):
        return scores.masked_fill(scores < _smallest_of_best(scores, self.top_k), self.filter_value)


class TopPLogitsWarper(LogitsProcessor):
    """Nucleus sampling: keep the fewest tokens whose total probability is at least `top_p`.

    Holtzman et al. 2019, arXiv:1904.09751v2, section 3.1.

    Parameters
    ----------
    top_p : float
        Minimum total probability of the tokens to keep, from 0 to 1.
    filter_value : float, default -inf
        Score of the tokens that are not kept.
    min_tokens_to_keep : int, default 1
        Minimum number of tokens to keep.
    """

    def __init__(self, top_p, filter_value=-math.inf, min_tokens_to_keep=1):
        where = type(self).__name__
        self.top_p = _share(top_p, "top_p", where)
        self.filter_value = filter_value
        self.min_tokens_to_keep = whole(min_tokens_to_keep, "min_tokens_to_keep", where)

    def __call__(self, input_ids, scores):
        ascending, order = ops.sort(scores)
        unlikely = ascending.softmax(-1).cumsum(-1) <= 1 - self.top_p  # (row, vocabulary)
        unlikely[:, -self.min_tokens_to_keep :] = False
        remove = unlikely.scatter(1, order, unlikely)
        return scores.masked_fill(remove, self.filter_value)


class MinPLogitsWarper(LogitsProcessor):
    """Keep tokens that are at least `min_p` times as likely as the most likely token.

    Nguyen et al. 2024, arXiv:2407.01082v1.

    Parameters
    ----------
    min_p : float
        Minimum probability of a token, as a fraction (from 0 to 1) of the largest probability.
    filter_value : float, default -inf
        Score of the tokens that are not kept.
    min_tokens_to_keep : int, default 1
        Minimum number of tokens to keep.
    """

    def __init__(self, min_p, filter_value=-math.inf, min_tokens_to_keep=1):
        where = type(self).__name__
        self.min_p = _share(min_p, "min_p", where)
        self.filter_value = filter_value
        self.min_tokens_to_keep = whole(min_tokens_to_keep, "min_tokens_to_keep", where)

    def __call__(self, input_ids, scores):
        weights = scores.softmax(-1)
        remove = weights < self.min_p * weights.amax(-1, keepdim=True)
        best = ops.topk(weights, min(self.min_tokens_to_keep, weights.shape[-1])).indices
        return scores.masked_fill(remove.scatter(1, best, False), self.filter_value)


class TypicalLogitsWarper(LogitsProcessor):
    """Typical sampling: keep the tokens whose surprisal (-log p) is closest to the entropy.

    Meister et al. 2022, arXiv:2202.00666v1.

    Parameters
    ----------
    mass : float, default 0.9
        Minimum total probability of the tokens to keep, between 0 and 1.
    filter_value : float, default -inf
        Score of the tokens that are not kept.
    min_tokens_to_keep : int, default 1
        Minimum number of tokens to keep.
    """

    def __init__(self, mass=0.9, filter_value=-math.inf, min_tokens_to_keep=1):
        where = type(self).__name__
        self.mass = _share(mass, "typical_p", where, zero=False, one=False)
        self.filter_value = filter_value
        self.min_tokens_to_keep = whole(min_tokens_to_keep, "min_tokens_to_keep", where)

    def __call__(self, input_ids, scores):
        entropy = -_terms(scores).sum(-1, keepdim=True)  # (row, 1)
        distance, order = ops.sort((-scores.log_softmax(-1) - entropy).abs())
        total = scores.gather(1, order).softmax(-1).cumsum(-1)
        last = (total < self.mass).sum(-1, keepdim=True).clamp(max=scores.shape[-1] - 1)
        far = distance > distance.gather(1, last)
        far[:, : self.min_tokens_to_keep] = False
        return scores.masked_fill(far.scatter(1, order, far), self.filter_value)


class EpsilonLogitsWarper(LogitsProcessor):
    """Keep tokens with a probability of at least `epsilon`.

    Hewitt et al. 2022, arXiv:2210.15191v1.

    Parameters
    ----------
    epsilon : float
        Minimum probability, between 0 and 1.
    filter_value : float, default -inf
        Score of the tokens that are not kept.
    min_tokens_to_keep : int, default 1
        Minimum number of tokens to keep.
    """

    def __init__(self, epsilon, filter_value=-math.inf, min_tokens_to_keep=1):
        where = type(self).__name__
        self.epsilon = _share(epsilon, "epsilon", where, zero=False, one=False)
        self.filter_value = filter_value
        self.min_tokens_to_keep = whole(min_tokens_to_keep, "min_tokens_to_keep", where)

    def __call__(self, input_ids, scores):
        unlikely = scores.softmax(-1) < self._threshold(scores)
        not_best = scores < _smallest_of_best(scores, self.min_tokens_to_keep)
        return scores.masked_fill(unlikely & not_best, self.filter_value)

    def _threshold(self, scores):
        return self.epsilon


class EtaLogitsWarper(EpsilonLogitsWarper):
    """Keep tokens with a probability of at least `min(epsilon, sqrt(epsilon) * exp(-entropy))`.

    Hewitt et al. 2022, arXiv:2210.15191v1. A flatter distribution lowers this threshold.
    """

    def _threshold(self, scores):
        return (math.sqrt(self.epsilon) * _terms(scores).sum(-1, keepdim=True).exp()).clamp(
            max=self.epsilon
        )


class TopHLogitsWarper(LogitsProcessor):
    """Top-H sampling: limit the entropy of the tokens to keep.

    The probabilities p of the 100 most likely tokens are normalized to sum to 1. Their entropy is
    the sum of the terms -p log p. The most likely tokens are kept as long as their terms sum to at
    most `top_h` times this entropy. At least one token is kept.

    Parameters
    ----------
    top_h : float
        Maximum sum of the kept tokens' terms, as a fraction of the entropy of the 100 most likely
        tokens. Greater than 0 and at most 1.
    filter_value : float, default -inf
        Score of the tokens that are not kept.
    """

    def __init__(self, top_h, filter_value=-math.inf):
        self.top_h = _share(top_h, "top_h", type(self).__name__, zero=False)
        self.filter_value = filter_value

    def __call__(self, input_ids, scores):
        best, order = ops.topk(scores, min(100, scores.shape[-1]))  # (row, best)
        terms = -_terms(best)
        keep = terms.cumsum(-1) <= self.top_h * terms.sum(-1, keepdim=True)
        keep[:, 0] = True
        remove = ops.ones_like(scores).bool().scatter(1, order, ~keep)
        return scores.masked_fill(remove, self.filter_value)


class LogitNormalization(LogitsProcessor):
    """Normalize the scores to log probabilities."""

    def __call__(self, input_ids, scores):
        return scores.log_softmax(-1)
