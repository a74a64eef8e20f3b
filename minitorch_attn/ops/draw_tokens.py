"""Sampling a token from scores: temperature, softmax and inverse transform sampling."""

from ..backend import array_module, device_of, from_host
from ..backend.kernel_table import with_kernel

__all__ = ["draw_tokens"]


@with_kernel
def draw_tokens(scores, levels, temperature):
    """Draw one index for each row of scores, from softmax(scores / temperature).

    With the weights w_j = exp((s_j - max s) / temperature), the index is the first one whose
    cumulative weight w_0 + ... + w_j is larger than level * (sum of all weights), where level is
    the row's random number in `levels`. The sums are computed in float64.

    Parameters
    ----------
    scores : array of shape (row, vocabulary)
    levels : NumPy array of float64, of shape (row, 1)
        Random numbers from 0 to 1, on the host.
    temperature : float

    Returns
    -------
    int64 array of shape (row,), on the device of the scores

    Examples
    --------
    >>> import numpy as np
    >>> draw_tokens(np.log([[1.0, 2.0, 1.0]]), np.array([[0.7]]), 1.0)
    array([1])
    """
    xp = array_module(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype("float32")
    if temperature != 1.0:
        scores = scores / temperature
    weights = xp.exp((scores - scores.max(-1, keepdims=True)).astype("float64"))
    total = weights.cumsum(-1)  # (row, vocabulary)
    whole = total[:, -1:]
    level = from_host(levels, device_of(scores))
    chosen = (total <= level * whole).sum(-1)
    # If level * whole is rounded up to whole, `chosen` is past the last token of positive weight.
    return xp.minimum(chosen, (total < whole).sum(-1))
