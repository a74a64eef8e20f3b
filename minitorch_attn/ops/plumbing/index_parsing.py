"""Index parsing: split `x[index]` into basic indexing (a view) and integer-array indexing."""

import builtins
from operator import index as as_int
from typing import NamedTuple

from ...autograd.broadcasting import broadcast_shapes
from ...backend import as_array, is_array, new_array, to_device
from ...errors import DTypeError, IndexRangeError, MiniTorchError, ShapeError
from ...named_errors import under
from ...tensor import Tensor, wrap
from .range_check import check_range

__all__ = ["Selection", "index_error", "select_parts"]


class Selection(NamedTuple):
    """A parsed index.

    `basic` selects a view. `indices` are integer Tensors that select elements along the axes
    `axes` of that view. `distinct` is True if no element can be selected twice.
    """

    basic: tuple
    axes: tuple = ()
    indices: tuple = ()
    distinct: bool = True


def select_parts(input, index):
    """Parse an index of `input` into a `Selection`.

    Parameters
    ----------
    input : Tensor
    index : int, slice, None, Ellipsis, bool, list, integer or boolean Tensor, or a tuple of these
        Index that the user wrote between the brackets.

    Returns
    -------
    Selection
    """
    entries = index if type(index) is tuple else (index,)
    for entry in entries:
        if type(entry) not in _PLAIN:
            entries = [_normalized(input, e) for e in entries]
            _check_places(input, entries)
            return _parted(input, entries)
    _check_places(input, entries)
    return Selection(_with_ellipsis(entries))


_PLAIN = frozenset({builtins.int, slice, type(None), type(Ellipsis)})


def index_error(error, index, value=None):
    """Return the error for an index or an assigned value that NumPy rejected."""
    if isinstance(error, MiniTorchError):
        return error
    given = "" if value is None else f" = {value!r:.60}"
    return DTypeError(
        "x[index]: the index or the value has an unsupported type or size",
        got=f"x[{index!r:.60}]{given}; {error}",
        hint="slices take integers or None; a value must fit the dtype of x",
    )


def _normalized(input, entry):
    """Convert an entry of an index to an int, slice, None, Ellipsis, bool or index Tensor."""
    if isinstance(entry, builtins.bool) or entry is None or entry is Ellipsis:
        return entry
    if isinstance(entry, slice):
        limits = (entry.start, entry.stop, entry.step)
        try:
            return slice(*[None if n is None else as_int(n) for n in limits])
        except TypeError:
            raise _unsupported(entry) from None
    if not isinstance(entry, Tensor):
        if not is_array(entry) and hasattr(type(entry), "__index__"):
            return as_int(entry)
        entry = wrap(_index_array(entry))
    if entry.dtype.kind not in "biu":
        raise DTypeError(
            "x[index]: an index tensor must hold integers or booleans",
            got=f"{entry.dtype}",
            hint="use index.long(), or a comparison such as index > 0 for a mask",
        )
    if entry.ndim == 0:
        return entry.item()
    if entry.device != input.device:
        entry = wrap(to_device(entry.array, input.device))
    return entry


def _index_array(entry):
    """Convert a list, a tuple or a range to an array."""
    if is_array(entry):
        return as_array(entry)
    if not isinstance(entry, (list, tuple, range)):
        raise _unsupported(entry)
    try:
        return new_array(list(entry), None if len(entry) else "int64")
    except MiniTorchError as error:
        raise under("x[index]", error) from None


def _unsupported(entry):
    return DTypeError(
        "x[index]: the index has an unsupported type",
        got=f"{entry!r:.60} of type {type(entry).__name__}",
        expected="an int, slice, None, ..., bool, list, or integer or boolean tensor",
        hint="convert a number such as 2.0 with int(...)",
    )


def _axes_used(entry):
    if isinstance(entry, Tensor):
        return entry.ndim if entry.dtype.kind == "b" else 1
    return 0 if entry is None or entry is Ellipsis or isinstance(entry, builtins.bool) else 1


def _check_places(input, entries):
    """Raise IndexRangeError for too many indices, a second `...` or an integer out of range."""
    shape = input.array.shape
    axis = 0
    for number, entry in enumerate(entries):
        if type(entry) is builtins.int:
            if axis < len(shape) and not -shape[axis] <= entry < shape[axis]:
                _refuse_integer(entry, axis, shape)
            axis += 1
        elif entry is Ellipsis:
            rest = entries[number + 1 :]
            if any(e is Ellipsis for e in rest):
                raise IndexRangeError(
                    "x[index]: '...' must not occur twice", got=f"{tuple(entries)}"
                )
            axis = max(axis, len(shape) - builtins.sum([_axes_used(e) for e in rest]))
        else:
            axis += _axes_used(entry)
    if axis > len(shape):
        raise IndexRangeError(
            "x[index]: too many indices",
            got=f"{builtins.sum([_axes_used(e) for e in entries])} for a tensor of shape {shape}",
            expected=f"at most {len(shape)}",
            hint="a mask with n axes counts as n indices",
        )


def _refuse_integer(entry, axis, shape):
    size = shape[axis]
    raise IndexRangeError(
        "x[index]: the index is out of range",
        got=f"{entry} for axis {axis} of a tensor of shape {shape}",
        expected=f"from {-size} to {size - 1}" if size else "no index: the size is 0",
        hint="compare the index with x.shape[axis]; negative indices count from the end",
    )


def _with_ellipsis(entries):
    """Append `...` if it is missing, so that selecting one element also gives a (0-d) view."""
    for entry in entries:
        if entry is Ellipsis:
            return tuple(entries)
    return (*entries, ...)


def _parted(input, entries):
    """Separate basic indices from integer arrays, and convert masks to integer arrays."""
    basic, axes, indices = [], [], []
    skipped = input.ndim - builtins.sum([_axes_used(e) for e in entries])
    axis = place = 0  # axes of the input and of the view
    for entry in entries:
        found = ()
        if entry is Ellipsis:
            basic += [slice(None)] * skipped
            axis, place = axis + skipped, place + skipped
        elif isinstance(entry, builtins.bool):  # a new axis of size 1 or 0
            found = [wrap(to_device(new_array([0] * entry, "int64"), input.device))]
            basic.append(None)
        elif isinstance(entry, Tensor):
            found = _looked_up(entry, input.shape[axis:])
            basic += [slice(None)] * len(found)
            axis += len(found)
        else:
            basic.append(entry)
            axis += entry is not None
            place += type(entry) is not builtins.int
        axes += range(place, place + len(found))
        indices += found
        place += len(found)
    if len(indices) > 1:
        _check_together(indices)
    # The True elements of one mask are distinct; integers and combinations of indices may repeat.
    masks = [e for e in entries if isinstance(e, Tensor) and e.dtype.kind == "b"]
    distinct = len(masks) == 1 and masks[0].ndim == len(indices)
    if all(isinstance(e, slice) and e == slice(None) for e in basic):
        basic = ()
    return Selection(_with_ellipsis(basic), tuple(axes), tuple(indices), distinct)


def _check_together(indices):
    try:
        broadcast_shapes(*[index.shape for index in indices])
    except ShapeError:
        raise IndexRangeError(
            "x[index]: the shapes of the index tensors do not broadcast",
            got=" and ".join(str(index.shape) for index in indices),
            hint="give them the same shape; a mask with n True elements counts as shape (n,)",
        ) from None


def _looked_up(entry, sizes):
    """Check an index tensor against the axes' sizes, and return a list of integer Tensors.

    The list contains an integer tensor itself. For a mask, it contains one Tensor for each axis of
    the mask: the positions of the True elements along this axis.
    """
    if entry.dtype.kind != "b":
        check_range(entry.array, sizes[0], where="x[index]", name="index", lowest=-sizes[0])
        return [entry]
    if entry.shape != tuple(sizes[: entry.ndim]):
        raise IndexRangeError(
            "x[mask]: the shape of mask does not match the axes of x",
            got=f"mask {entry.shape}",
            expected=f"{tuple(sizes[: entry.ndim])}",
            hint="use mask.expand(x.shape) if mask has axes of size 1",
        )
    return [wrap(i) for i in entry.array.nonzero()]
