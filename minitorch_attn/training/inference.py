"""A forward pass in several threads, each with a part of the batch."""

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
    """`function(batch)` without a graph, the batch shared out over threads.

    Parameters
    ----------
    function : callable
        From a part of the batch to a tensor, or a tuple, list or dict of tensors, with the batch
        as their first axis; a model in eval mode, for instance.
    batch : Tensor, or tuple, list or dict of tensors and masks
        A tuple is handed over as it is: `lambda pair: model(*pair)` takes it apart.
    threads : int, default 2

    Returns
    -------
    What `function` returns, for the whole batch.

    Notes
    -----
    While it runs, each matrix product has one thread; the setting before is put back. See
    `ThreadSplit` for what a part may draw at random.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 5).eval()
    >>> forward_in_threads(model, mt.zeros(7, 3), threads=2).shape
    (7, 5)
    """
    if threads < 1:
        raise ArgumentError("forward_in_threads(threads=): no thread.", got=f"{threads}")
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
    """Results of the parts as one, along the first axis."""
    first = results[0]
    if isinstance(first, Tensor):
        return cat(results, 0)
    if isinstance(first, dict):
        return type(first)(**{name: _joined([r[name] for r in results]) for name in first})
    if isinstance(first, (tuple, list)):
        return type(first)(_joined(list(items)) for items in zip(*results, strict=True))
    raise ArgumentError(
        "forward_in_threads: the results of the parts cannot be joined.",
        got=f"a {type(first).__name__}",
        expected="tensors with the batch as their first axis, or tuples and dicts of them",
    )
