"""Concatenate, stack and split tensors."""

from itertools import accumulate

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments, under_name
from ..tensor import Tensor
from .cast import cast
from .plumbing.axes import axis_of, sizes_of, too_many_axes
from .plumbing.promotion import result_type
from .plumbing.tensor_arguments import as_operand, as_operands
from .reshape import at_least_1d, reshape

__all__ = [
    "atleast_1d", "atleast_2d", "cat", "chunk", "concat", "concatenate", "hsplit", "hstack",
    "split", "stack", "tensor_split", "unbind", "vsplit", "vstack",
]  # fmt: skip

_MOST_SECTIONS = 1_000_000


class Cat(Function):
    """Concatenation along an existing axis.

    Forward:  y = the inputs one after the other
    Backward: each input receives its piece of grad_y
    Derivation: every element of y is a copy of one input element, so the derivative is 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, *xs, dim):
        ctx.dim = dim
        return array_module(*xs).concatenate(xs, axis=dim)

    @staticmethod
    def backward(ctx, grad_y):
        before = (slice(None),) * ctx.dim
        start, grads = 0, []
        for shape, needed in zip(ctx.shapes, ctx.needs_grad, strict=True):
            stop = start + shape[ctx.dim]
            grads.append(grad_y[(*before, slice(start, stop))] if needed else None)
            start = stop
        return tuple(grads)


class Stack(Function):
    """Stacking along a new axis.

    Forward:  y = the inputs along a new axis
    Backward: each input receives its slice of grad_y
    Derivation: every element of y is a copy of one input element, so the derivative is 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, *xs, dim):
        ctx.dim = dim
        return array_module(*xs).stack(xs, axis=dim)

    @staticmethod
    def backward(ctx, grad_y):
        before = (slice(None),) * ctx.dim
        return tuple([
            grad_y[(*before, i)] if needed else None for i, needed in enumerate(ctx.needs_grad)
        ])  # fmt: skip


class Split(Function):
    """Split into consecutive pieces along an axis, each a view.

    Forward:  y_1, y_2, ... = pieces of x
    Backward: grad_x = the gradients of the pieces, concatenated
    Derivation: every element of x is an element of one piece, with derivative 1.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, sizes, dim):
        ctx.dim = dim
        before = (slice(None),) * dim
        stops = accumulate(sizes)
        return tuple([
            x[(*before, slice(stop - size, stop))]
            for size, stop in zip(sizes, stops, strict=True)
        ])  # fmt: skip

    @staticmethod
    def backward(ctx, *grad_ys):
        return Cat.call(*grad_ys, dim=ctx.dim)


class Unbind(Function):
    """Slices along an axis, without that axis; each slice is a view.

    Forward:  y_1, y_2, ... = slices of x
    Backward: grad_x = the gradients of the slices, stacked
    Derivation: every element of x is an element of one slice, with derivative 1.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, dim):
        ctx.dim = dim
        before = (slice(None),) * dim
        return tuple([x[(*before, i, ...)] for i in range(x.shape[dim])])

    @staticmethod
    def backward(ctx, *grad_ys):
        return Stack.call(*grad_ys, dim=ctx.dim)


def _listed(tensors, where):
    try:
        return list(tensors)
    except TypeError:
        raise ArgumentError(
            f"{where}: tensors must be a sequence", got=f"{tensors!r:.60}", hint=f"{where}([x, y])"
        ) from None


def _joined(tensors, where):
    """Return the tensors as a list, converted to one dtype."""
    tensors = _listed(tensors, where)
    if not tensors:
        raise ArgumentError(
            f"{where}: the list of tensors must not be empty", got="[]", hint=f"{where}([x, y])"
        )
    if isinstance(tensors[0], Tensor):
        first = tensors[0].array.dtype
        if all(isinstance(x, Tensor) and x.array.dtype == first for x in tensors):
            return tensors
    tensors = as_operands(tensors, where)
    dtype = result_type(*tensors)
    return [cast(x, dtype) for x in tensors]


def cat(tensors, dim=0):
    """Concatenate tensors along the axis `dim`, one after the other.

    Parameters
    ----------
    tensors : sequence of Tensor
        Tensors of the same shape, except along `dim`. Empty 1-d tensors are skipped.
    dim : int, default 0
        Axis along which the tensors are joined.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cat([mt.tensor([1, 2]), mt.tensor([3])])
    tensor([1, 2, 3])
    """
    tensors = _joined(tensors, "cat")
    kept = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    ndim = kept[0].ndim
    if any(x.ndim == 0 for x in kept):
        raise ShapeError(
            "cat: a 0-d tensor cannot be concatenated",
            got=" and ".join(str(x.shape) for x in kept),
            hint="use stack() to join tensors along a new axis",
        )
    dim = axis_of(dim, ndim, "cat")
    rest = [x.shape[:dim] + x.shape[dim + 1 :] for x in kept]
    if any(x.ndim != ndim for x in kept) or any(r != rest[0] for r in rest):
        raise ShapeError(
            "cat(tensors, dim): the shapes do not match",
            got=" and ".join(str(x.shape) for x in kept) + f" with dim={dim}",
            expected=f"equal sizes on every axis except {dim}",
            hint="use stack() to join tensors along a new axis",
        )
    return Cat.apply(*kept, dim=dim)


concat, concatenate = under_name("concat", cat), under_name("concatenate", cat)


def stack(tensors, dim=0):
    """Stack tensors of the same shape along a new axis `dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> stack([mt.tensor([1, 2]), mt.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    tensors = _joined(tensors, "stack")
    dim = axis_of(dim, tensors[0].ndim + 1, "stack")
    if any(x.shape != tensors[0].shape for x in tensors):
        raise ShapeError(
            "stack(tensors): the shapes do not match",
            got=" and ".join(str(x.shape) for x in tensors),
            expected="tensors of the same shape",
            hint="use cat() to join along an existing axis, whose sizes may differ",
        )
    try:
        return Stack.apply(*tensors, dim=dim)
    except (ValueError, IndexError):
        raise too_many_axes("stack", "tensors", tensors[0].ndim + 1) from None


def _split_axis(input, dim, where):
    """Return `dim` as a non-negative axis. Reject 0-d tensors, which cannot be split."""
    if input.ndim == 0:
        raise ShapeError(
            f"{where}: a 0-d tensor cannot be split",
            got="shape ()",
            hint="use input.reshape(1) to add an axis",
        )
    return axis_of(dim, input.ndim, where)


def split(tensor, split_size_or_sections, dim=0):
    """Split `tensor` into consecutive pieces along `dim`, each a view.

    Parameters
    ----------
    tensor : Tensor
    split_size_or_sections : int or sequence of int
        Size of every piece (the last may be smaller), or a size for each piece.
    dim : int, default 0
        Axis along which the tensor is split.

    Returns
    -------
    tuple of Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [x.shape for x in split(mt.zeros(5, 2), 2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    tensor = as_operand(tensor, "split", "tensor")
    dim = _split_axis(tensor, dim, "split")
    size = tensor.shape[dim]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = sizes_of(split_size_or_sections, "split", "split_size_or_sections")
        if sum(sizes) != size or min(sizes, default=0) < 0:
            raise ShapeError(
                "split(tensor, sections, dim): the sections do not add up to the size of the axis",
                got=f"sections {sizes}, whose sum is {sum(sizes)}",
                expected=f"a sum of {size}, the size of axis {dim} of tensor {tensor.shape}",
                hint="use split(tensor, 2) for pieces of size 2",
            )
    else:
        (each,) = sizes_of(split_size_or_sections, "split", "split_size")
        if each < 0 or (each == 0 and size > 0):
            raise ArgumentError("split: split_size must be positive", got=f"split_size={each}")
        sizes = [min(each, size - start) for start in range(0, size, each or 1)] or [0]
    return Split.apply(tensor, sizes=tuple(sizes), dim=dim)


@names_arguments
def chunk(input, chunks, dim=0):
    """Split `input` into at most `chunks` pieces of equal size along `dim`, each a view.

    The last piece may be smaller.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [x.shape for x in chunk(mt.zeros(5, 2), 3)]
    [(2, 2), (2, 2), (1, 2)]
    """
    input = as_operand(input, "chunk")
    if chunks < 1:
        raise ArgumentError("chunk: chunks must be at least 1", got=f"chunks={chunks}")
    dim = _split_axis(input, dim, "chunk")
    size = input.shape[dim]
    if size == 0:
        return Split.apply(input, sizes=(0,) * chunks, dim=dim)
    return split(input, -(-size // chunks), dim)


@names_arguments
def tensor_split(input, indices_or_sections, dim=0):
    """Split `input` along `dim` into a number of nearly equal pieces, or at given indices.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [len(x) for x in tensor_split(mt.arange(7), 3)]
    [3, 2, 2]
    >>> [len(x) for x in tensor_split(mt.arange(7), (1, 5))]
    [1, 4, 2]
    """
    input = as_operand(input, "tensor_split")
    dim = _split_axis(input, dim, "tensor_split")
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections < 1:
            raise ArgumentError("tensor_split: sections must be at least 1", got=f"{sections}")
        if sections > _MOST_SECTIONS:  # a mistyped number would run for hours
            raise ArgumentError(
                "tensor_split: indices_or_sections is too large",
                got=f"{sections}",
                expected=f"at most {_MOST_SECTIONS:,} sections",
            )
        each, left = divmod(size, sections)
        sizes = (each + 1,) * left + (each,) * (sections - left)
        return Split.apply(input, sizes=sizes, dim=dim)
    cuts = [0, *[slice(None, c).indices(size)[1] for c in indices_or_sections], size]
    before = (slice(None),) * dim
    return tuple([
        input[(*before, slice(a, b))] for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    ])  # fmt: skip


def unbind(input, dim=0):
    """Split `input` into its slices along `dim`; each slice is a view without that axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unbind(mt.tensor([[1, 2], [3, 4]]), 1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    input = as_operand(input, "unbind")
    return Unbind.apply(input, dim=_split_axis(input, dim, "unbind"))


def _series(tensors, where):
    """Return the tensors as a list, and whether the caller must return a tuple.

    `f(a, b)` and `f([a])` return a tuple, `f(a)` returns a tensor.
    """
    several = len(tensors) > 1
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors, several = tensors[0], True
    return as_operands(tensors, where), several


@names_arguments
def atleast_1d(*tensors):
    """Give 0-d tensors one axis; return others unchanged.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> atleast_1d(mt.tensor(3))
    tensor([3])
    """
    tensors, several = _series(tensors, "atleast_1d")
    made = tuple([at_least_1d(x) for x in tensors])
    return made if several else made[0]


@names_arguments
def atleast_2d(*tensors):
    """Turn 0-d and 1-d tensors into matrices with one row; return others unchanged.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> atleast_2d(mt.tensor([3, 4]))
    tensor([[3, 4]])
    """
    tensors, several = _series(tensors, "atleast_2d")
    made = tuple([x if x.ndim > 1 else reshape(x, (1, x.array.size)) for x in tensors])
    return made if several else made[0]


@names_arguments
def hstack(tensors):
    """Concatenate tensors along axis 1, or along axis 0 if they are 1-d.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> hstack([mt.tensor([1, 2]), mt.tensor([3])])
    tensor([1, 2, 3])
    """
    tensors = atleast_1d(_listed(tensors, "hstack"))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@names_arguments
def vstack(tensors):
    """Concatenate tensors along axis 0; 1-d tensors become rows.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> vstack([mt.tensor([1, 2]), mt.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat(atleast_2d(_listed(tensors, "vstack")), 0)


@names_arguments
def hsplit(input, indices_or_sections):
    """Split `input` with `tensor_split` along axis 1, or along axis 0 if `input` is 1-d.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [x.shape for x in hsplit(mt.zeros(2, 4), 2)]
    [(2, 2), (2, 2)]
    """
    input = as_operand(input, "hsplit")
    return _even_split(input, indices_or_sections, 0 if input.ndim == 1 else 1, 1, "hsplit")


@names_arguments
def vsplit(input, indices_or_sections):
    """Split `input` with `tensor_split` along axis 0.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [x.shape for x in vsplit(mt.zeros(3, 2), (1,))]
    [(1, 2), (2, 2)]
    """
    input = as_operand(input, "vsplit")
    return _even_split(input, indices_or_sections, 0, 2, "vsplit")


def _even_split(input, indices_or_sections, dim, least, where):
    """Apply `tensor_split`, after checking that there are enough axes and all parts are equal."""
    if input.ndim < least:
        raise ShapeError(
            f"{where}: input has too few axes",
            got=f"input {input.shape}",
            expected=f"ndim of at least {least}",
            hint="use input.unsqueeze(0) to add an axis",
        )
    parts = indices_or_sections
    if isinstance(parts, int) and parts > 0 and input.shape[dim] % parts:
        raise ShapeError(
            f"{where}: the size of the axis is not divisible by the number of parts",
            got=f"{parts} parts of axis {dim} of input {input.shape}",
            hint="use tensor_split(), whose parts may differ in size by one",
        )
    return tensor_split(input, parts, dim)
