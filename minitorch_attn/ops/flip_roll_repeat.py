"""Flip, roll, repeat and tile: reorder or repeat the elements of a tensor."""

from ..autograd.function import Function
from ..backend import array_module, to_host
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .broadcast import BroadcastTo
from .indexing import LookUp, Slice
from .plumbing.axes import axes_of, axis_of, sizes_of
from .plumbing.tensor_arguments import as_operand, as_operands
from .reshape import Reshape, flatten, ravel, unsqueeze

__all__ = [
    "flip", "fliplr", "flipud", "meshgrid", "narrow", "repeat", "repeat_interleave", "roll",
    "rot90", "select", "tile",
]  # fmt: skip


class Flip(Function):
    """Reverse the order of elements along some axes.

    Forward:  y = x reversed along the axes
    Backward: grad_x = grad_y reversed along the axes
    Derivation: every element of y is one element of x, with derivative 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dims):
        ctx.dims = dims
        return array_module(x).flip(x, dims).copy()

    @staticmethod
    def backward(ctx, grad_y):
        return Flip.call(grad_y, dims=ctx.dims)


class Roll(Function):
    """Cyclic shift along some axes; elements shifted past one end reappear at the other.

    Forward:  y = x shifted cyclically
    Backward: grad_x = grad_y shifted back
    Derivation: every element of y is one element of x, with derivative 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, shifts, dims):
        ctx.shifts, ctx.dims = shifts, dims
        return array_module(x).roll(x, shifts, dims)

    @staticmethod
    def backward(ctx, grad_y):
        return Roll.call(grad_y, shifts=tuple([-n for n in ctx.shifts]), dims=ctx.dims)


class Tile(Function):
    """Copies of x side by side, `repeats[i]` of them along axis i.

    Forward:  y = copies of x side by side
    Backward: grad_x = the sum over the copies
    Derivation: each element of x is used once in every copy, so its gradient is the sum over the
    copies.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, repeats):
        # Each axis n becomes the two axes (repeats, n), which are then merged.
        ctx.pairs = tuple([k for pair in zip(repeats, x.shape, strict=True) for k in pair])
        ones = tuple([k for n in x.shape for k in (1, n)])
        copies = array_module(x).broadcast_to(x.reshape(ones), ctx.pairs).copy()
        return copies.reshape(tuple([r * n for r, n in zip(repeats, x.shape, strict=True)]))

    @staticmethod
    def backward(ctx, grad_y):
        copies = grad_y.reshape(ctx.pairs)
        return copies.sum(axis=tuple(range(0, copies.ndim, 2)))


@names_arguments
def flip(input, dims):
    """Reverse `input` along the axes `dims`, as a copy.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> flip(mt.tensor([[1, 2], [3, 4]]), (1,))
    tensor([[2, 1],
            [4, 3]])
    """
    input = as_operand(input, "flip")
    dims = axes_of(dims, input.ndim, "flip", "dims")
    return Flip.apply(input, dims=dims if input.ndim else ())


@names_arguments
def fliplr(input):
    """Reverse `input` along axis 1, left to right.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> fliplr(mt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    _needs_axes(input, 2, "fliplr")
    return flip(input, (1,))


@names_arguments
def flipud(input):
    """Reverse `input` along axis 0, top to bottom.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> flipud(mt.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    _needs_axes(input, 1, "flipud")
    return flip(input, (0,))


def _needs_axes(input, count, where):
    if as_operand(input, where).ndim < count:
        raise ShapeError(
            f"{where}: input has too few axes",
            got=f"input {input.shape}",
            expected=f"ndim of at least {count}",
            hint="use input.unsqueeze(0) to add an axis",
        )


@names_arguments
def rot90(input, k=1, dims=(0, 1)):
    """Rotate `input` k times by 90 degrees, from axis `dims[0]` toward axis `dims[1]`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> rot90(mt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    input = as_operand(input, "rot90")
    first, second = axes_of(dims, input.ndim, "rot90", "dims")
    k %= 4
    if k == 2:
        return flip(input, (first, second))
    if k == 1:
        return flip(input, (second,)).swapaxes(first, second)
    return flip(input.swapaxes(first, second), (second,)) if k else input.clone()


@names_arguments
def roll(input, shifts, dims=None):
    """Shift `input` cyclically; elements shifted past one end of an axis reappear at the other.

    Parameters
    ----------
    input : Tensor
    shifts : int or tuple of int
        Number of positions by which to shift along each axis in `dims`.
    dims : int or tuple of int, optional
        Axes along which to shift. None flattens the tensor, shifts its elements, and restores the
        shape.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> roll(mt.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])
    """
    input = as_operand(input, "roll")
    shifts = sizes_of(shifts, "roll", "shifts")
    if dims is None or dims == ():
        if len(shifts) != 1:
            raise ArgumentError(
                "roll: shifts must be an int if dims is not given", got=f"shifts={shifts}"
            )
        flat = Roll.apply(ravel(input), shifts=shifts, dims=(0,))
        return Reshape.apply(flat, shape=input.shape)
    dims = tuple([axis_of(d, input.ndim, "roll", "dims") for d in sizes_of(dims, "roll", "dims")])
    if len(shifts) != len(dims):
        raise ArgumentError(
            "roll: shifts and dims must have the same length",
            got=f"shifts={shifts} and dims={dims}",
            hint="pass one shift for each axis in dims",
        )
    _needs_axes(input, 1, "roll with dims")
    return Roll.apply(input, shifts=shifts, dims=dims)


@names_arguments
def repeat(input, sizes):
    """Repeat `input` along each axis: the result has `sizes[i]` copies along axis i.

    Parameters
    ----------
    input : Tensor
    sizes : tuple of int
        Number of copies along each axis; extra numbers in front add new axes.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> repeat(mt.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    input = as_operand(input, "repeat")
    sizes = sizes_of(sizes, "repeat", "sizes")
    if len(sizes) < input.ndim:
        raise ShapeError(
            "repeat(input, sizes): sizes must have at least one number per axis",
            got=f"sizes={sizes} for input {input.shape}",
            hint="use tile(), which adds ones in front of sizes",
        )
    if min(sizes, default=0) < 0:
        raise ArgumentError("repeat: sizes must not be negative", got=f"sizes={sizes}")
    lead = len(sizes) - input.ndim
    if lead:
        input = Reshape.apply(input, shape=(1,) * lead + input.shape)
    return Tile.apply(input, repeats=sizes)


@names_arguments
def tile(input, dims):
    """Repeat `input` like `repeat`; if `dims` is too short, ones are added in front.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tile(mt.tensor([[1, 2], [3, 4]]), (2,))
    tensor([[1, 2, 1, 2],
            [3, 4, 3, 4]])
    """
    input = as_operand(input, "tile")
    dims = sizes_of(dims, "tile", "dims")
    return repeat(input, (1,) * (input.ndim - len(dims)) + dims)


@names_arguments
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Repeat each slice of `input` along `dim` several times in a row.

    Parameters
    ----------
    input : Tensor
        Tensor whose slices are repeated. Without `repeats`, `input[i]` is instead the number of
        times that i appears in the result.
    repeats : int or integer Tensor
        Number of repeats, or a tensor with one number per slice (on a GPU, this synchronizes).
    dim : int, optional
        Axis of the slices; None flattens `input`.
    output_size : int, optional
        Ignored; for compatibility with PyTorch.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> repeat_interleave(mt.tensor([5, 6]), 2), repeat_interleave(mt.tensor([1, 2]))
    (tensor([5, 5, 6, 6]), tensor([0, 1, 1]))
    """
    input = as_operand(input, "repeat_interleave")
    if repeats is None:
        return wrap(_counted(input.array, input.array))
    if dim is None:
        input, dim = flatten(input), 0
    _needs_axes(input, 1, "repeat_interleave with dim")
    dim = axis_of(dim, input.ndim, "repeat_interleave")
    size = input.shape[dim]
    if isinstance(repeats, Tensor):
        repeats = repeats.item() if repeats.array.size == 1 else repeats
    if isinstance(repeats, Tensor):
        if repeats.shape != (size,):
            raise ShapeError(
                "repeat_interleave: repeats must have one number per slice",
                got=f"repeats {repeats.shape}",
                expected=f"({size},), the size of axis {dim} of input {input.shape}",
                hint="pass an int to repeat every slice the same number of times",
            )
        index = wrap(_counted(repeats.array, input.array))
        return LookUp.apply(input, index, axes=(dim,))
    if repeats < 0:
        raise ArgumentError("repeat_interleave: repeats must not be negative", got=f"{repeats}")
    pairs = unsqueeze(input, dim + 1)
    pairs = Tile.apply(pairs, repeats=tuple([repeats if i == dim + 1 else 1
                                             for i in range(pairs.ndim)]))  # fmt: skip
    return Reshape.apply(pairs, shape=(*input.shape[:dim], size * repeats, *input.shape[dim + 1 :]))


def _counted(repeats, array):
    """Return repeats[0] zeros, repeats[1] ones, and so on, as an index on the device of `array`."""
    counts = to_host(repeats).tolist()
    xp = array_module(array)
    return xp.repeat(xp.arange(len(counts)), counts) if counts else xp.arange(0)


@names_arguments
def narrow(input, dim, start, length):
    """Return positions start to start + length - 1 of `input` along `dim`, as a view.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> narrow(mt.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    input = as_operand(input, "narrow")
    if input.ndim == 0:
        raise ShapeError("narrow: input must have at least 1 axis", got="shape ()")
    dim = axis_of(dim, input.ndim, "narrow")
    start, size = int(start), input.shape[dim]
    first = start + size if start < 0 else start
    if length < 0 or not 0 <= first <= size - length:
        raise ShapeError(
            "narrow(input, dim, start, length): start or length is out of range",
            got=f"start={start} and length={length} for axis {dim} of input {input.shape}",
            expected=f"start and start + length from 0 to {size}, the size of the axis",
            hint="use a negative start to count from the end",
        )
    return Slice.apply(input, index=(slice(None),) * dim + (slice(first, first + length), ...))


@names_arguments
def select(input, dim, index):
    """Select position `index` along `dim`; return a view without that axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> select(mt.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    input = as_operand(input, "select")
    if input.ndim == 0:
        raise ShapeError("select: input must have at least 1 axis", got="shape ()")
    dim = axis_of(dim, input.ndim, "select")
    return input[(slice(None),) * dim + (int(index),)]


@names_arguments
def meshgrid(*tensors, indexing="ij"):
    """Coordinates of every point of a grid, one tensor per axis, as views.

    Parameters
    ----------
    *tensors : Tensor of shape (n,) or ()
        The coordinates along each axis.
    indexing : {"ij", "xy"}
        Order of the axes: "xy" exchanges the first two axes of the results.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> meshgrid(mt.tensor([1, 2]), mt.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
    if indexing not in ("ij", "xy"):
        raise ArgumentError("meshgrid: indexing must be 'ij' or 'xy'", got=repr(indexing))
    tensors = as_operands(tensors, "meshgrid")
    if any(x.ndim > 1 for x in tensors):
        raise ShapeError(
            "meshgrid: tensors must have at most 1 axis",
            got=" and ".join(str(x.shape) for x in tensors),
            hint="x.ravel()",
        )
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[:2] = 1, 0
    shape = tuple([tensors[i].array.size for i in order])
    made = []
    for i, x in enumerate(tensors):
        along = tuple([-1 if j == i else 1 for j in order])
        alone = tuple([x.array.size if n == -1 else 1 for n in along])
        made.append(BroadcastTo.apply(Reshape.apply(x, shape=alone), shape=shape))
    return tuple(made)
