"""Draw tokens at random by their probabilities."""

import numpy as np

from ..backend.random import host_generator
from ..tensor import tensor

__all__ = ["Draw", "draw", "draw_several"]


def draw(weights, generator):
    """One token for each row, by inversion of the cumulative distribution.

    Parameters
    ----------
    weights : Tensor of shape (row, vocabulary)
        Not negative; they need not sum to 1.
    generator : numpy.random.Generator
        One number per row is taken from it, on the host, so that every device draws alike.

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
    # Rounding of level * whole up to whole would choose a token behind the last possible one.
    return chosen.minimum((total < whole).sum(-1))


def draw_several(scores, count, generator):
    """`count` different candidates of each row, one after the other without putting back.

    The largest of score + Gumbel noise is a draw by softmax(scores), the two largest are two
    draws without putting back, and so on (Kool et al. 2019, arXiv:1903.06059v2, section 2.3).

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
    """The random choice of `generate`: callable on the scores of a step.

    Parameters
    ----------
    seed : int, optional
        The same seed gives the same tokens and touches no other random numbers; without one, the
        numbers come from the library's generator, that of `mt.manual_seed`.
    """

    def __init__(self, seed=None):
        self.generator = host_generator() if seed is None else np.random.default_rng(seed % 2**64)

    def __call__(self, scores):
        """One token for each row of scores, (row, vocabulary)."""
        weights = (scores - scores.amax(-1, keepdim=True)).double().exp()
        return draw(weights, self.generator)

    def several(self, scores, count):
        """`count` different candidates for each row of accumulated scores."""
        return draw_several(scores, count, self.generator)
