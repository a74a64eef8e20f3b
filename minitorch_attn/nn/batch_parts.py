"""Batch parts: split a batch into parts along its batch axis, and join the results."""

from ..autograd.nested import tensors_in
from ..errors import ArgumentError, ShapeError
from ..ops import allclose, cat, split
from ..tensor import Tensor
from .masks import Mask

__all__ = ["batch_sizes", "join_batch", "split_batch"]


def batch_sizes(batch, dim=0):
    """Return the size of axis `dim` of every tensor in a batch. Skip tensors without this axis."""
    return [tensor.shape[dim] for tensor in tensors_in(batch) if tensor.ndim > dim]


def split_batch(batch, parts, dim=0):
    """Split a batch into at most `parts` parts of almost equal size.

    Parameters
    ----------
    batch : Tensor, or tuple, list or dict of tensors and masks
        Tensors with the same size along axis `dim`. Other values, 0-d tensors, and masks that all
        examples share are not split. Every part gets them unchanged.
    parts : int, or list of int
        Number of parts, or list of their sizes.
    dim : int, default 0
        The batch axis.

    Returns
    -------
    list

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [part["x"].shape for part in split_batch({"x": mt.zeros(5, 3)}, 2)]
    [(3, 3), (2, 3)]
    """
    sizes = set(batch_sizes(batch, dim))
    if len(sizes) != 1:
        raise ShapeError(
            f"split_batch: the batch must contain tensors, all of the same size along axis {dim}",
            got=f"sizes {sorted(sizes)}" if sizes else "no tensor",
            expected=f"axis {dim} of every tensor to be the batch axis",
        )
    (size,) = sizes
    if isinstance(parts, int):
        parts = part_sizes(size, parts)
    return _split(batch, parts, size, dim)


def part_sizes(size, parts):
    """Divide `size` examples into at most `parts` parts. Return the sizes, largest first.

    Examples
    --------
    >>> part_sizes(7, 3), part_sizes(2, 3), part_sizes(0, 3)
    ([3, 2, 2], [1, 1], [0])
    """
    parts = max(1, min(parts, size))
    return [size // parts + (k < size % parts) for k in range(parts)]


def _split(value, sizes, size, dim):
    """Split a batch, or a value in it, into parts with the given sizes. Return a list of the parts.

    `size` is the number of examples in the batch.
    """
    if isinstance(value, Tensor):
        return list(split(value, sizes, dim)) if value.ndim > dim else [value] * len(sizes)
    if isinstance(value, Mask):  # a mask shared by all examples is passed to each part
        if len(value.shape) != 4 or value.shape[0] != size:
            return [value] * len(sizes)
        return [Mask(attend, value.is_causal) for attend in split(value.attend, sizes, 0)]
    if isinstance(value, dict):
        items = zip(*(_split(item, sizes, size, dim) for item in value.values()), strict=True)
        return [dict(zip(value, part, strict=True)) for part in items] or [{}] * len(sizes)
    if isinstance(value, (tuple, list)):
        made = type(value) if type(value) in (tuple, list) else lambda part: type(value)(*part)
        items = zip(*(_split(item, sizes, size, dim) for item in value), strict=True)
        return [made(part) for part in items] or [value] * len(sizes)
    return [value] * len(sizes)


def join_batch(results, dim=0):
    """Concatenate the results of the parts along the batch axis.

    Parameters
    ----------
    results : list
        Results of the parts. Each is a tensor, or tensors in nested tuples, lists and dicts. None
        stays None.
    dim : int, default 0
        The batch axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> join_batch([(mt.zeros(3, 7), None), (mt.zeros(2, 7), None)])[0].shape
    (5, 7)
    """
    first = results[0]
    if isinstance(first, Tensor):
        return cat(results, dim)
    if isinstance(first, dict):
        joined = {name: join_batch([r[name] for r in results], dim) for name in first}
        return type(first)(**joined)
    if isinstance(first, (tuple, list)):
        items = [join_batch(list(items), dim) for items in zip(*results, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if first is None:
        return None
    raise ArgumentError(
        "DataParallel: the results of the parts cannot be joined",
        got=f"a {type(first).__name__}",
        expected="tensors, or tensors in tuples, lists and dicts",
    )


def check_separate(whole, alone, size, dim):
    """Raise an error if a module's results for the last example depend on other examples.

    Parameters
    ----------
    whole : results of the module for a batch
    alone : results of the module for the last example of the batch alone
    size : int
        Number of examples in the batch, at least 2.
    dim : int
        The batch axis.
    """
    for together, single in zip(tensors_in(whole), tensors_in(alone), strict=True):
        if single.ndim <= dim or together.shape != _times(single.shape, size, dim):
            raise ShapeError(
                f"DataParallel: axis {dim} of each result of the module must be the batch axis",
                got=f"shape {together.shape} for {size} examples, and {single.shape} for one",
                hint="return values for each example, and compute the loss outside",
            )
        count = single.shape[dim]
        rows = (slice(None),) * dim + (slice(together.shape[dim] - count, None),)
        a, b = (x.detach().double() for x in (together[rows], single))
        largest = a.abs().max().item() if a.numel() else 0.0
        if not allclose(a, b, rtol=1e-2, atol=1e-3 * largest, equal_nan=True):
            difference = (a - b).abs().max().item()
            raise ArgumentError(
                "DataParallel: the result for an example depends on the other examples",
                got=f"a difference of up to {difference:.3g} between two results for the last of "
                f"{size} examples: one computed in the batch, and one computed alone",
                hint="use a module that processes each example separately, with the batch on axis "
                f"{dim}",
            )


def _times(shape, size, dim):
    """Return `shape` with the size of axis `dim` multiplied by `size`."""
    return (*shape[:dim], shape[dim] * size, *shape[dim + 1 :])
