"""Sampling: draw tokens according to their probabilities. Top-k and top-p are in `warpers.py`."""

import numpy as np

from ..backend.graph_capture import refuse
from ..backend.random import host_generator
from ..ops.draw_tokens import draw_tokens
from ..tensor import tensor, wrap

__all__ = ["Draw", "draw_several"]


def draw_several(scores, count, generator):
    """Draw `count` distinct candidates from each row, without replacement.

    Gumbel noise is added to the scores. The candidate with the largest noisy score is then a sample
    from softmax(scores), and the `count` largest noisy scores are `count` samples without
    replacement (Kool et al. 2019, arXiv:1903.06059v2, section 2.3).

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
        Random seed of a separate generator for this sampler. Default: use the library's generator,
        which `mt.manual_seed` seeds.
    temperature : float, default 1
        Number by which the scores are divided.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> Draw(seed=0)(mt.tensor([[-100.0, 0.0], [0.0, -100.0]]))
    tensor([1, 0])
    """

    def __init__(self, seed=None, temperature=1.0):
        self.generator = host_generator() if seed is None else np.random.default_rng(seed % 2**64)
        self.temperature = temperature

    def __call__(self, scores):
        """Draw one token for each row of `scores` (row, vocabulary)."""
        refuse("draws a token with a random number from the host")
        levels = self.generator.random((len(scores), 1))  # drawn on the CPU for any device
        return wrap(draw_tokens(scores.array, levels, self.temperature))

    def several(self, scores, count):
        """Draw `count` distinct candidates for each row of scores, as `draw_several` does.

        In beam search, a candidate is a beam with a possible next token. Its score is the sum over
        all tokens that were generated so far.
        """
        return draw_several(scores, count, self.generator)
