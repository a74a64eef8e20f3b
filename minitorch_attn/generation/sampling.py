"""Sampling: draw tokens according to their probabilities. Top-k and top-p are in `warpers.py`."""

import numpy as np

from ..backend.random import host_generator
from ..tensor import tensor

__all__ = ["Draw", "draw", "draw_several"]


def draw(weights, generator):
    """Draw one token for each row by inverting the cumulative distribution.

    Parameters
    ----------
    weights : Tensor of shape (row, vocabulary)
        Non-negative weights. Their sum may differ from 1.
    generator : numpy.random.Generator
        CPU generator of one number for each row, so that the tokens do not depend on the device.

    Returns
    -------
    int64 Tensor of shape (row,)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> draw(mt.tensor([[0.0, 1.0], [2.0, 0.0]]), np.random.default_rng(0))
    tensor([1, 0])
    """
    level = tensor(generator.random((weights.shape[0], 1)), device=weights.device)
    total = weights.double().cumsum(-1)  # (row, vocabulary)
    whole = total[:, -1:]
    chosen = (total <= level * whole).sum(-1)
    # If level * whole is rounded up to whole, `chosen` is past the last token of positive weight.
    return chosen.minimum((total < whole).sum(-1))


def draw_several(scores, count, generator):
    """Draw `count` distinct candidates from each row, without replacement.

    Gumbel noise is added to the scores. The candidate with the largest sum is then a sample from
    softmax(scores), and the `count` largest sums give `count` samples without replacement (Kool et
    al. 2019, arXiv:1903.06059v2, section 2.3).

    Parameters
    ----------
    scores : Tensor of shape (row, candidate)
    count : int
    generator : numpy.random.Generator

    Returns
    -------
    int64 Tensor of shape (row, count)
    """
    noise = -np.log(-np.log(generator.uniform(np.finfo(float).tiny, 1.0, scores.shape)))
    noise = tensor(noise.astype(scores.dtype), device=scores.device)
    return (scores + noise).topk(count).indices


class Draw:
    """Sampler for `generate`, called with the scores of each step.

    Parameters
    ----------
    seed : int, optional
        Random seed, which does not affect other random numbers. Default: the library's generator,
        seeded by `mt.manual_seed`.
    """

    def __init__(self, seed=None):
        self.generator = host_generator() if seed is None else np.random.default_rng(seed % 2**64)

    def __call__(self, scores):
        """Draw one token for each row of `scores` (row, vocabulary)."""
        weights = (scores - scores.amax(-1, keepdim=True)).double().exp()
        return draw(weights, self.generator)

    def several(self, scores, count):
        """Draw `count` distinct candidates for each row of accumulated scores."""
        return draw_several(scores, count, self.generator)
