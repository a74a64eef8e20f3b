"""Gather and scatter: read, write and add along one axis, with one index per element."""

from ..autograd.autocast import autocasts
from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend import array_module
from ..backend import scatter_add as add_into
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .broadcast import BroadcastTo
from .cast import clone
from .indexing import LookUp, Slice
from .plumbing.axes import axis_of
from .plumbing.range_check import check_range
from .plumbing.tensor_arguments import not_tensors
from .reshape import Reshape, at_least_1d, ravel

__all__ = ["gather", "scatter", "scatter_add", "take_along_dim"]


class Gather(Function):
    """Gather along one axis; with 3 axes and dim = 1, `y[i, j, k] = x[i, index[i, j, k], k]`.

    Forward:  y = x at index along one axis
    Backward: grad_x = zeros with grad_y added at index along one axis
    Derivation: each element receives the sum of the gradients of its uses.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, index, *, dim):
        ctx.dim = dim
        ctx.save(index)
        return x[index_grid(index, dim)]

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        return GatherBack.call(grad_y, index, shape=ctx.shapes[0], dim=ctx.dim), None


class GatherBack(Function):
    """Zeros with x added at the positions in `index`; the adjoint of Gather.

    Forward:  y = zeros with x added at index along one axis
    Backward: grad_x = grad_y at index
    Derivation: every element of x is added to one element of y and receives its gradient.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, index, *, shape, dim):
        ctx.dim = dim
        ctx.save(index)
        y = array_module(x).zeros(shape, dtype=x.dtype)
        return add_into(y, index_grid(index, dim), x)

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        return Gather.call(grad_y, index, dim=ctx.dim), None


class Scatter(Function):
    """Scatter along one axis; with 3 axes and dim = 1, `y[i, index[i, j, k], k] = src[i, j, k]`.

    Forward:  y = x with src written at index
    Backward: grad_x = grad_y with zeros at index, grad_src = grad_y at index
    Derivation: a replaced element no longer depends on x, and each element of src receives the
    gradient at its index. If two elements of src have the same index, it is undefined which of them
    is written.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, src, index, *, dim):
        ctx.dim = dim
        ctx.save(index)
        y = x.copy()
        y[index_grid(index, dim)] = src
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        need_x, need_src, _ = ctx.needs_grad
        grad_x = Scatter.call(grad_y, 0.0, index, dim=ctx.dim) if need_x else None
        grad_src = Gather.call(grad_y, index, dim=ctx.dim) if need_src else None
        return grad_x, grad_src, None


class ScatterAdd(Function):
    """Scatter with addition: `Scatter`, but elements of src are added instead of written.

    Forward:  y = x with src added at index
    Backward: grad_x = grad_y, grad_src = grad_y at index
    Derivation: dy/dx = 1, and each element of src receives the gradient at its index. If several
    elements of src have the same index, they add up.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, src, index, *, dim):
        ctx.dim = dim
        ctx.save(index)
        return add_into(x.copy(), index_grid(index, dim), src)

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        grad_src = Gather.call(grad_y, index, dim=ctx.dim) if ctx.needs_grad[1] else None
        return grad_y, grad_src, None


def index_grid(index, dim):
    """Return one index array per axis: `index` for axis `dim`, and 0, 1, 2, ... for the others."""
    xp = array_module(index)
    key = []
    for axis, size in enumerate(index.shape):
        shape = [1] * index.ndim
        shape[axis] = size
        key.append(index if axis == dim else xp.arange(size).reshape(shape))
    return tuple(key)


def _checked_axis(input, dim, index, where):
    """Check `index`, and return `dim` as a non-negative axis. A 0-d tensor counts as 1-d."""
    dim = axis_of(dim, input.ndim, where)
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise ShapeError(
            f"{where}(input, dim, index): index must have the same number of axes as input",
            got=f"input {input.shape} and index {index.shape}",
            expected=f"{input.ndim} axes",
            hint="use index.unsqueeze(-1) to add an axis, or index_select for whole slices",
        )
    pairs = enumerate(zip(index.shape, input.shape, strict=False))
    if any(n > size for i, (n, size) in pairs if i != dim):
        raise ShapeError(
            f"{where}(input, dim, index): index must not be larger than input",
            got=f"input {input.shape} and index {index.shape}",
            expected=f"at most the size of input on every axis except dim={dim}",
            hint="use take_along_dim, which broadcasts input and index",
        )
    size = input.shape[dim] if input.ndim else 1
    check_range(index.array, size, where=where, name="index")
    return dim


@names_arguments
def gather(input, dim, index):
    """Gather elements of `input` along `dim`, one for every element of `index`.

    With three axes and dim = 1, `result[i, j, k] = input[i, index[i, j, k], k]`.

    Parameters
    ----------
    input : Tensor
    dim : int
        Axis of `input` that `index` refers to.
    index : integer Tensor
        Positions along `dim`. `index` has as many axes as `input`, and may be larger than `input`
        only along `dim`.

    Returns
    -------
    Tensor of the same shape as `index`

    Raises
    ------
    IndexRangeError
        If an index is out of range. On a GPU, the error is raised when the host next reads a
        result.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> gather(mt.tensor([[1, 2], [3, 4]]), 1, mt.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    try:
        axis_of(dim, input.ndim, "gather")
        nothing = index.array.size == 0
    except AttributeError as error:
        raise not_tensors(error, "gather", input=input, index=index) from None
    if nothing:  # as in PyTorch, an empty index may have any number of axes
        return LookUp.apply(ravel(input), index, axes=(0,))
    dim = _checked_axis(input, dim, index, "gather")
    result = Gather.apply(at_least_1d(input), at_least_1d(index), dim=dim)
    return result if index.ndim else Reshape.apply(result, shape=())


def _source(input, index, src, where):
    """Check the dtype of `src`, and crop `src` to the shape of `index`."""
    if not isinstance(src, Tensor):
        return src
    src = at_least_1d(src)
    if src.dtype != input.dtype:
        raise DTypeError(
            f"{where}: src and input must have the same dtype",
            got=f"src {src.dtype} and input {input.dtype}",
            hint="src.to(input.dtype)",
        )
    shape = index.shape or (1,)
    if src.ndim != len(shape) or any(n > s for n, s in zip(shape, src.shape, strict=True)):
        raise ShapeError(
            f"{where}(input, dim, index, src): src must not be smaller than index",
            got=f"index {index.shape} and src {src.shape}",
            hint="use src.expand(index.shape) if src has axes of size 1",
        )
    return src if src.shape == shape else Slice.apply(src, index=tuple(slice(n) for n in shape))


@names_arguments
def checked_scatter(input, dim, index, src, where):
    """Check the arguments; return `dim` as a non-negative axis, and `src` cropped to `index`."""
    return _checked_axis(input, dim, index, where), _source(input, index, src, where)


@names_arguments
def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """Scatter: a copy of `input` with `src` written at the positions `index` along `dim`.

    With three axes and dim = 1, `result[i, index[i, j, k], k] = src[i, j, k]`.

    Parameters
    ----------
    input : Tensor
    dim : int
        Axis of `input` that `index` refers to.
    index : integer Tensor
        Positions along `dim`, with the same number of axes as `input`.
    src : Tensor or number
        Values to write; a tensor must be at least as large as `index` on every axis.
    value : number, optional
        A number to write instead of `src`.
    reduce : {"add"}, optional
        "add" adds to the elements instead of replacing them.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> scatter(mt.zeros(1, 3), 1, mt.tensor([[2, 0]]), mt.tensor([[5.0, 6.0]]))
    tensor([[6., 0., 5.]])
    """
    src = value if src is None else src
    if src is None or reduce not in (None, "add"):
        raise ArgumentError(
            "scatter: src is missing" if src is None else "scatter: reduce must be None or 'add'",
            got=f"src={src!r:.40} and reduce={reduce!r}",
            hint="pass src, or value= for a number; omit reduce to replace elements",
        )
    try:
        axis_of(dim, input.ndim, "scatter")
        nothing = index.array.size == 0
    except AttributeError as error:
        raise not_tensors(error, "scatter", input=input, index=index) from None
    if nothing:
        return clone(input)
    dim, src = checked_scatter(input, dim, index, src, "scatter")
    function = Scatter if reduce is None else ScatterAdd
    result = function.apply(at_least_1d(input), src, at_least_1d(index), dim=dim)
    return result if input.ndim else Reshape.apply(result, shape=())


@names_arguments
@autocasts
def scatter_add(input, dim, index, src):
    """Scatter with addition: a copy of `input` with `src` added at `index` along `dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> scatter_add(mt.zeros(3), 0, mt.tensor([2, 0, 2]), mt.tensor([1.0, 2.0, 3.0]))
    tensor([2., 0., 4.])
    """
    return scatter(input, dim, index, src, reduce="add")


@names_arguments
def take_along_dim(input, indices, dim=None):
    """Gather along `dim`; on the other axes `input` and `indices` broadcast against each other.

    Negative indices count from the end.

    Parameters
    ----------
    input : Tensor
    indices : integer Tensor
        Positions along `dim`.
    dim : int, optional
        Axis of `input` that `indices` refers to; None flattens both tensors.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[30.0, 10.0, 20.0]])
    >>> take_along_dim(x, mt.tensor([[1, 2, 0]]), dim=1)
    tensor([[10., 20., 30.]])
    """
    try:
        if dim is None:
            input, indices, dim = ravel(input), ravel(indices), 0
        dim = axis_of(dim, input.ndim, "take_along_dim")
        fit = input.ndim == indices.ndim > 0
    except AttributeError as error:
        raise not_tensors(error, "take_along_dim", input=input, indices=indices) from None
    if not fit:
        raise ShapeError(
            "take_along_dim: input and indices must have the same number of axes, at least 1",
            got=f"input {input.shape} and indices {indices.shape}",
            hint="use dim=None to flatten both tensors",
        )
    rest = [x.shape[:dim] + (1,) + x.shape[dim + 1 :] for x in (input, indices)]
    shape = broadcast_shapes(*rest, names=("input", "indices"), where="take_along_dim")
    input, indices = (
        BroadcastTo.apply(x, shape=shape[:dim] + (x.shape[dim],) + shape[dim + 1 :])
        for x in (input, indices)
    )
    size = input.shape[dim]
    check_range(indices.array, size, where="take_along_dim", name="indices", lowest=-size)
    return Gather.apply(input, indices, dim=dim)
