"""Inference in several threads, each of which processes part of the batch."""

from functools import partial

from ..autograd.modes import no_grad
from ..backend.random import own_offsets, reserve_offsets
from ..backend.threads import together
from ..errors import ArgumentError
from ..ops import cat
from ..tensor import Tensor
from .parallel import split_batch

__all__ = ["forward_in_threads"]


def forward_in_threads(function, batch, threads=2):
    """Compute `function(batch)` without a graph, with the batch split among threads.

    Parameters
    ----------
    function : callable
        Function, such as a model in eval mode, that takes a part of the batch and returns a tensor,
        or a tuple, list or dict of tensors, whose first axis is the batch.
    batch : Tensor, or tuple, list or dict of tensors and masks
        Input. A tuple is passed as one argument; `lambda pair: model(*pair)` unpacks it.
    threads : int, default 2

    Returns
    -------
    Tensor, or tuple, list or dict of tensors
        Result of `function` for the whole batch.

    Notes
    -----
    While this runs, each matrix product uses one thread. For random numbers, see `ThreadSplit`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 5).eval()
    >>> forward_in_threads(model, mt.zeros(7, 3), threads=2).shape
    (7, 5)
    """
    if threads < 1:
        raise ArgumentError("forward_in_threads: threads must be at least 1", got=f"{threads}")
    parts = split_batch(batch, threads)
    if len(parts) == 1:
        with no_grad():
            return function(batch)
    work = list(zip(parts, reserve_offsets(len(parts)), strict=True))
    return _joined(together([partial(_part, function, *item) for item in work]))


def _part(function, part, first_offset):
    with no_grad(), own_offsets(first_offset):
        return function(part)


def _joined(results):
    """Concatenate the parts' results along the first axis."""
    first = results[0]
    if isinstance(first, Tensor):
        return cat(results, 0)
    if isinstance(first, dict):
        return type(first)(**{name: _joined([r[name] for r in results]) for name in first})
    if isinstance(first, (tuple, list)):
        return type(first)(_joined(list(items)) for items in zip(*results, strict=True))
    raise ArgumentError(
        "forward_in_threads: the results of the parts cannot be joined",
        got=f"a {type(first).__name__}",
        expected="tensors with the batch as their first axis, or tuples and dicts of them",
    )
