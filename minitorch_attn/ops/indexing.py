"""Indexing: reading and writing parts of a tensor, `x[...]` and `x[...] = value`.

An index is applied in two steps. The basic part (integers, slices, None, `...`) gives a view. The
advanced part (integer arrays) then copies elements of that view. A boolean mask is converted to
integer arrays, the positions of its True entries. A single integer is basic, as in PyTorch.
"""

import builtins

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..autograd.inplace import change, check_writable, is_tracked
from ..backend import array_module, new_array, scatter_add
from ..errors import MiniTorchError, ShapeError
from ..named_errors import names_arguments, under
from ..tensor import Tensor, wrap
from .cast import cast
from .plumbing.index_parsing import index_error, select_parts
from .plumbing.tensor_arguments import as_operand, not_tensors

__all__ = ["getitem", "index_assign", "index_put", "setitem"]


class Slice(Function):
    """Basic indexing with integers, slices, None and `...`, which gives a view.

    Forward:  y = x[index]
    Backward: grad_x = zeros with grad_y at [index], or grad_y if the index selects all of x
    Derivation: the derivative is 1 for the selected elements and 0 for the others.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, index):
        ctx.index, y = index, x[index]
        ctx.is_whole = y.shape == x.shape and not _has_steps_back(index)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        if ctx.is_whole:
            return grad_y
        return Place.call(grad_y, shape=ctx.shapes[0], index=ctx.index)


def _has_steps_back(index):
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, builtins.slice) and (part.step or 1) < 0 for part in parts)


class Place(Function):
    """Zeros with x written at `[index]`; the adjoint of Slice.

    Forward:  y = zeros with x at [index]
    Backward: grad_x = grad_y[index]
    Derivation: every element of x becomes one element of y, with derivative 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, shape, index):
        ctx.index = index
        y = array_module(x).zeros(shape, dtype=x.dtype)
        y[index] = x
        return y

    @staticmethod
    def backward(ctx, grad_y):
        return Slice.call(grad_y, index=ctx.index)


class LookUp(Function):
    """Advanced indexing with integer arrays on some of the axes, such as `x[:, i_1, i_2]`.

    Forward:  y = x[indices]
    Backward: grad_x = zeros with grad_y added at the indices
    Derivation: the derivative is 1 for each use of an element; the gradients of its uses add up.
    Saved: the indices.
    """

    @staticmethod
    def forward(ctx, x, *indices, axes, distinct=False):
        ctx.axes, ctx.distinct = axes, distinct
        ctx.save(*indices)
        return x[_key(indices, axes)]

    @staticmethod
    def backward(ctx, grad_y):
        indices = ctx.saved
        grad_x = PlaceAt.call(
            grad_y, *indices, shape=ctx.shapes[0], axes=ctx.axes, distinct=ctx.distinct
        )
        return (grad_x, *(None for _ in indices))


class PlaceAt(Function):
    """Zeros with x added at the indices; the adjoint of LookUp.

    Forward:  y = zeros with x added at the indices
    Backward: grad_x = grad_y[indices]
    Derivation: every element of x is added to one element of y, with derivative 1.
    Saved: the indices.
    """

    @staticmethod
    def forward(ctx, x, *indices, shape, axes, distinct):
        ctx.axes, ctx.distinct = axes, distinct
        ctx.save(*indices)
        y = array_module(x).zeros(shape, dtype=x.dtype)
        if distinct:
            y[_key(indices, axes)] = x
            return y
        return scatter_add(y, _key(indices, axes), x)

    @staticmethod
    def backward(ctx, grad_y):
        indices = ctx.saved
        grad_x = LookUp.call(grad_y, *indices, axes=ctx.axes, distinct=ctx.distinct)
        return (grad_x, *(None for _ in indices))


class Assign(Function):
    """Assignment to part of a tensor, out of place.

    Forward:  y = x with value at [index]
    Backward: grad_x = grad_y with zeros at [index], grad_value = sum_to(grad_y[index], value)
    Derivation: a replaced element depends on value instead of x. The gradient of value is summed
    over the axes along which value was repeated. If the indices select an element twice, it is
    undefined which value is written.
    Saved: the indices.
    """

    @staticmethod
    def forward(ctx, x, value, *indices, basic, axes):
        ctx.basic, ctx.axes = basic, axes
        ctx.save(*indices)
        y = x.copy()
        _write_at(y, basic, _key(indices, axes), value)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        indices = ctx.saved
        need_x, need_value = ctx.needs_grad[:2]
        grad_x = grad_value = None
        if need_x:
            grad_x = Assign.call(grad_y, 0.0, *indices, basic=ctx.basic, axes=ctx.axes)
        if need_value:
            taken = Slice.call(grad_y, index=ctx.basic)
            if indices:
                taken = LookUp.call(taken, *indices, axes=ctx.axes)
            grad_value = sum_to_shape(taken, ctx.shapes[1])
        return (grad_x, grad_value, *(None for _ in indices))


class AddAt(Function):
    """Addition to part of a tensor, out of place; an element selected twice receives both values.

    Forward:  y = x with value added at the indices
    Backward: grad_x = grad_y, grad_value = sum_to(grad_y[indices], value)
    Derivation: dy/dx = 1; value receives the gradient at the same indices, summed over the
    axes along which value was repeated.
    Saved: the indices.
    """

    @staticmethod
    def forward(ctx, x, value, *indices, axes):
        ctx.axes = axes
        ctx.save(*indices)
        return scatter_add(x.copy(), _key(indices, axes), value)

    @staticmethod
    def backward(ctx, grad_y):
        indices = ctx.saved
        grad_value = None
        if ctx.needs_grad[1]:
            taken = LookUp.call(grad_y, *indices, axes=ctx.axes)
            grad_value = sum_to_shape(taken, ctx.shapes[1])
        return (grad_y, grad_value, *(None for _ in indices))


def _at_least_a_row(index):
    """Return a 0-d integer index as a 1-d index, and any other index unchanged."""
    single = isinstance(index, Tensor) and index.ndim == 0 and index.dtype.kind in "iu"
    return index.reshape(1) if single else index


def _key(indices, axes):
    """Return the index that applies the integer arrays to `axes` and keeps all other axes."""
    if not axes:
        return ...
    if axes == (0,):
        return indices[0]
    key = [slice(None)] * (max(axes) + 1)
    for axis, index in zip(axes, indices, strict=True):
        key[axis] = index
    return tuple(key)


def _write_at(array, basic, key, value):
    """Execute `array[basic][key] = value`, where `array[basic]` is a view."""
    part = array[basic]
    part[key] = value


def getitem(input, index):
    """Return `input[index]`: a view for integers, slices, None and `...`, otherwise a copy.

    Parameters
    ----------
    input : Tensor
    index : int, slice, None, Ellipsis, bool, list, integer or boolean Tensor, or a tuple of these
        The part to read.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexRangeError
        If there are too many indices, or one of them is out of range.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1, 2, 3], [4, 5, 6]])
    >>> getitem(x, (1, slice(None, None, -1))), x[:, [0, 2]], x[x > 4]
    (tensor([6, 5, 4]), tensor([[1, 3],
            [4, 6]]), tensor([5, 6]))
    """
    try:
        selection = select_parts(input, index)
    except AttributeError as error:
        raise not_tensors(error, "getitem", input=input) from None
    basic, axes, indices, distinct = selection
    try:
        if not indices:
            return Slice.apply(input, index=basic)
        viewed = input if basic == (...,) else Slice.apply(input, index=basic)
        return LookUp.apply(viewed, *indices, axes=axes, distinct=distinct)
    except (TypeError, ValueError, IndexError) as error:
        raise index_error(error, index) from None


def setitem(target, index, value):
    """Execute `target[index] = value`; all views of the same memory change, too.

    Parameters
    ----------
    target : Tensor
    index : int, slice or other index, as in `getitem`
    value : Tensor or number
        Values to write, broadcast to the shape of `target[index]`, in the dtype of `target`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.zeros(2, 3)
    >>> setitem(x, (slice(None), 1), mt.tensor([1.0, 2.0]))
    >>> x
    tensor([[0., 1., 0.],
            [0., 2., 0.]])
    """
    target = as_operand(target, "setitem", "target")
    try:
        selection = select_parts(target, index)
        value = _as_value(target, value)
        if is_tracked(target, (value,)):
            change(target, _assign, selection, value)
            return
        value = _fitted(target, selection, value)
        raw = value.array if isinstance(value, Tensor) else value
        key = _key([i.array for i in selection.indices], selection.axes)
        check_writable(target, "x[index] = value")
        _write_at(target.array, selection.basic, key, raw)
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise index_error(error, index, value) from None
    target.changed_in_place()


@names_arguments
def index_assign(input, index, value):
    """Return a copy of `input` with `value` at `[index]`: `input[index] = value`, out of place.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_assign(mt.zeros(3), slice(1, None), mt.tensor([1.0, 2.0]))
    tensor([0., 1., 2.])
    """
    input = as_operand(input, "index_assign")
    return _assign(input, select_parts(input, index), _as_value(input, value))


def _assign(input, selection, value):
    value = _fitted(input, selection, value)
    basic, axes = selection.basic, selection.axes
    return Assign.apply(input, value, *selection.indices, basic=basic, axes=axes)


_assign.__name__ = "x[index] = value"  # the name that errors of `change` show


def _as_value(target, value):
    """Return `value` as a number, or as a tensor with the dtype and device of `target`."""
    if isinstance(value, (builtins.bool, builtins.int, builtins.float)):
        return value
    if not isinstance(value, Tensor):
        try:
            value = wrap(new_array(value))
        except MiniTorchError as error:
            raise under("x[index] = value", error) from None
    if value.device != target.device and value.ndim == 0:
        value = value.to(target.device)
    return cast(value, target.dtype)


def _fitted(target, selection, value):
    """Return `value` without extra leading axes of size 1; check that it fits the selection."""
    if not isinstance(value, Tensor):
        return value
    place = _shape_of(target.array, selection)
    shape = value.shape
    while len(shape) > len(place) and shape[0] == 1:
        shape = shape[1:]
    lead = len(place) - len(shape)
    if lead < 0 or any(n not in (1, place[i + lead]) for i, n in enumerate(shape)):
        raise ShapeError(
            "x[index] = value: value does not broadcast to the shape of x[index]",
            got=f"value {value.shape}",
            expected=f"a shape that broadcasts to {place}",
            hint="use value.reshape(...), or value.unsqueeze(-1) for one value per row",
        )
    return value if shape == value.shape else value.reshape(shape)


def _shape_of(array, selection):
    """Return the shape of array[selection] without copying elements."""
    part = array[selection.basic]
    if not selection.indices:
        return part.shape
    xp = array_module(part)
    hollow = xp.broadcast_to(xp.zeros((), dtype=part.dtype), part.shape)
    return hollow[_key([i.array for i in selection.indices], selection.axes)].shape


@names_arguments
def index_put(input, indices, values, accumulate=False):
    """Copy `input`, and set the elements at `indices` to `values` or add `values` to them.

    Parameters
    ----------
    input : Tensor
    indices : tuple of integer or boolean Tensor
        One index for each leading axis; a mask with n axes covers n axes.
    values : Tensor
        Values to write, broadcast to the shape of `input[indices]`.
    accumulate : bool, default False
        Whether to add `values`; an element that is selected twice then receives both values.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> where = (mt.tensor([0, 2, 2]),)
    >>> index_put(mt.zeros(3), where, mt.tensor([1.0, 2.0, 3.0]), accumulate=True)
    tensor([1., 0., 5.])
    """
    input = as_operand(input, "index_put")
    entries = tuple([slice(None) if i is None else _at_least_a_row(i) for i in indices])
    selection = select_parts(input, entries)
    values = _as_value(input, values)
    if not accumulate:
        return _assign(input, selection, values)
    return AddAt.apply(
        input, _fitted(input, selection, values), *selection.indices, axes=selection.axes
    )
