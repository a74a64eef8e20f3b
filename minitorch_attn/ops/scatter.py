"""Looking up, writing and adding along one axis, with one index per element."""

from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend import array_module
from ..backend import scatter_add as add_into
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor
from .axes import axis_of
from .broadcast import BroadcastTo
from .cast import clone
from .given import not_tensors
from .index import LookUp, Slice
from .range_check import check_range
from .shape import Reshape, at_least_1d, ravel

__all__ = ["gather", "scatter", "scatter_add", "take_along_dim"]


class Gather(Function):
    """y_ijk = x_i,index_ijk,k along one axis, and so for every number of axes.

    Derivative: each element receives the gradients of its uses.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, index, *, dim):
        ctx.dim = dim
        ctx.save(index)
        return x[_grid(index, dim)]

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        return GatherBack.call(grad_y, index, shape=ctx.shapes[0], dim=ctx.dim), None


class GatherBack(Function):
    """y = zeros of a shape with x added at the places that `index` names: the adjoint of Gather.

    Derivative: the gradient, gathered.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, index, *, shape, dim):
        ctx.dim = dim
        ctx.save(index)
        y = array_module(x).zeros(shape, dtype=x.dtype)
        return add_into(y, _grid(index, dim), x)

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        return Gather.call(grad_y, index, dim=ctx.dim), None


class Scatter(Function):
    """y = x with src_ijk written at y_i,index_ijk,k along one axis.

    Derivative: what was replaced no longer depends on x; src receives the gradient gathered.
    Where two sources go to one place, which of them stays is chance.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, src, index, *, dim):
        ctx.dim = dim
        ctx.save(index)
        y = x.copy()
        y[_grid(index, dim)] = src
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        need_x, need_src, _ = ctx.needs_grad
        grad_x = Scatter.call(grad_y, 0.0, index, dim=ctx.dim) if need_x else None
        grad_src = Gather.call(grad_y, index, dim=ctx.dim) if need_src else None
        return grad_x, grad_src, None


class ScatterAdd(Function):
    """y = x with src_ijk added at y_i,index_ijk,k along one axis; uses of a place add up.

    Derivative: 1 for x; src receives the gradient gathered.
    Saved: the index.
    """

    @staticmethod
    def forward(ctx, x, src, index, *, dim):
        ctx.dim = dim
        ctx.save(index)
        return add_into(x.copy(), _grid(index, dim), src)

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.saved
        grad_src = Gather.call(grad_y, index, dim=ctx.dim) if ctx.needs_grad[1] else None
        return grad_y, grad_src, None


def _grid(index, dim):
    """Index arrays, one per axis, that together name every place: `index` on axis dim."""
    xp = array_module(index)
    key = []
    for axis, size in enumerate(index.shape):
        shape = [1] * index.ndim
        shape[axis] = size
        key.append(index if axis == dim else xp.arange(size).reshape(shape))
    return tuple(key)


def _checked_axis(input, dim, index, where):
    """The axis of gather and scatter, with the index checked; 0-d tensors counted as 1-d."""
    dim = axis_of(dim, input.ndim, where)
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise ShapeError(
            f"{where}(input, dim, index): index has another number of axes.",
            got=f"input {input.shape} and index {index.shape}",
            expected=f"{input.ndim} axes",
        )
    pairs = enumerate(zip(index.shape, input.shape, strict=False))
    if any(n > size for i, (n, size) in pairs if i != dim):
        raise ShapeError(
            f"{where}(input, dim, index): index is larger than input.",
            got=f"input {input.shape} and index {index.shape}",
            expected=f"no larger size on any axis but dim={dim}",
        )
    size = input.shape[dim] if input.ndim else 1
    check_range(index.array, size, where=where, name="index")
    return dim


def gather(input, dim, index):
    """Elements of `input` picked along `dim`, one for every place of `index`.

    For dim = 1 of 3 axes: result[i, j, k] = input[i, index[i, j, k], k].

    Parameters
    ----------
    input : Tensor
    dim : int
    index : integer Tensor
        As many axes as `input`, and no larger on any axis but `dim`.

    Returns
    -------
    Tensor of the shape of `index`

    Raises
    ------
    IndexRangeError
        If an index is negative or too large; on a GPU at the next reading from it.

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
    if nothing:  # PyTorch lets an empty index have any number of axes
        return LookUp.apply(ravel(input), index, axes=(0,))
    dim = _checked_axis(input, dim, index, "gather")
    result = Gather.apply(at_least_1d(input), at_least_1d(index), dim=dim)
    return result if index.ndim else Reshape.apply(result, shape=())


def _source(input, index, src, where):
    """The source of a scatter, cut to the shape of `index`, in the dtype of `input`."""
    if not isinstance(src, Tensor):
        return src
    src = at_least_1d(src)
    if src.dtype != input.dtype:
        raise DTypeError(
            f"{where}: src has another dtype than input.",
            got=f"{src.dtype} and {input.dtype}",
            hint="src.to(input.dtype)",
        )
    shape = index.shape or (1,)
    if src.ndim != len(shape) or any(n > s for n, s in zip(shape, src.shape, strict=True)):
        raise ShapeError(
            f"{where}(input, dim, index, src): src is smaller than index.",
            got=f"index {index.shape} and src {src.shape}",
        )
    return src if src.shape == shape else Slice.apply(src, index=tuple(slice(n) for n in shape))


def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """A copy of `input` with `src` written along `dim` where `index` says.

    For dim = 1 of 3 axes: result[i, index[i, j, k], k] = src[i, j, k].

    Parameters
    ----------
    input : Tensor
    dim : int
    index : integer Tensor
        As many axes as `input`.
    src : Tensor or number
        At least as large as `index` on every axis.
    value : number
        Instead of `src`.
    reduce : {"add"}, optional
        Add instead of replacing.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> scatter(mt.zeros(1, 3), 1, mt.tensor([[2, 0]]), mt.tensor([[5.0, 6.0]]))
    tensor([[6., 0., 5.]])
    """
    src = value if src is None else src
    if src is None or reduce not in (None, "add"):
        raise ArgumentError(
            "scatter: src (or value) is needed, and reduce is None or 'add'.",
            got=f"src={src!r} and reduce={reduce!r}",
        )
    try:
        axis_of(dim, input.ndim, "scatter")
        nothing = index.array.size == 0
    except AttributeError as error:
        raise not_tensors(error, "scatter", input=input, index=index) from None
    if nothing:
        return clone(input)
    dim = _checked_axis(input, dim, index, "scatter")
    src = _source(input, index, src, "scatter")
    function = Scatter if reduce is None else ScatterAdd
    result = function.apply(at_least_1d(input), src, at_least_1d(index), dim=dim)
    return result if input.ndim else Reshape.apply(result, shape=())


def scatter_add(input, dim, index, src):
    """A copy of `input` with `src` added along `dim` where `index` says; uses add up.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> scatter_add(mt.zeros(3), 0, mt.tensor([2, 0, 2]), mt.tensor([1.0, 2.0, 3.0]))
    tensor([2., 0., 4.])
    """
    return scatter(input, dim, index, src, reduce="add")


def take_along_dim(input, indices, dim=None):
    """`gather` whose `input` and `indices` broadcast against each other on the other axes.

    Negative indices count from the end.

    Parameters
    ----------
    input : Tensor
    indices : integer Tensor
    dim : int, optional
        None looks up both flattened.

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
            "take_along_dim(input, indices): the numbers of axes differ, or are 0.",
            got=f"input {input.shape} and indices {indices.shape}",
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
