"""Looking up and adding along one axis, with one index per element or per slice."""

from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend import array_module, as_array
from ..backend import scatter_add as add_into
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor, wrap
from .axes import axis_of
from .cast import cast
from .creation import tensor_like
from .elementwise import mul
from .index import AddAt, Assign, LookUp, Slice
from .range_check import check_range
from .shape import BroadcastTo, Reshape, broadcast_tensors, flatten

__all__ = [
    "argwhere", "bucketize", "gather", "index_add", "index_copy", "index_fill", "index_select",
    "masked_select", "nonzero", "scatter", "scatter_add", "searchsorted", "take_along_dim",
]  # fmt: skip


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


def _index_of(input, dim, index, where):
    """The axis and the index of gather and scatter, checked; 0-d tensors counted as 1-d."""
    dim = axis_of(dim, input.ndim, where)
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise ShapeError(
            f"{where}(input, dim, index): index has another number of axes.",
            got=f"input {input.shape} and index {index.shape}",
            expected=f"{input.ndim} axes",
        )
    if index.array.size and any(
        n > size for i, (n, size) in enumerate(zip(index.shape, input.shape, strict=False))
        if i != dim
    ):  # fmt: skip
        raise ShapeError(
            f"{where}(input, dim, index): index is larger than input.",
            got=f"input {input.shape} and index {index.shape}",
            expected=f"no larger size on any axis but dim={dim}",
        )
    size = input.shape[dim] if input.ndim else 1
    check_range(index.array, size, where=where, name="index")
    return dim


def _at_least_1d(x):
    return x if x.ndim else Reshape.apply(x, shape=(1,))


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
    dim = _index_of(input, dim, index, "gather")
    result = Gather.apply(_at_least_1d(input), _at_least_1d(index), dim=dim)
    return result if index.ndim else Reshape.apply(result, shape=())


def _source(input, index, src, where):
    """The source of a scatter, cut to the shape of `index`, in the dtype of `input`."""
    if not isinstance(src, Tensor):
        return src
    src = _at_least_1d(src)
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
    dim = _index_of(input, dim, index, "scatter")
    src = _source(input, index, src, "scatter")
    function = Scatter if reduce is None else ScatterAdd
    result = function.apply(_at_least_1d(input), src, _at_least_1d(index), dim=dim)
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
    if dim is None:
        return gather(flatten(input), 0, flatten(indices))
    dim = axis_of(dim, input.ndim, "take_along_dim")
    if input.ndim != indices.ndim:
        raise ShapeError(
            "take_along_dim(input, indices): the numbers of axes differ.",
            got=f"input {input.shape} and indices {indices.shape}",
        )
    rest = [x.shape[:dim] + (1,) + x.shape[dim + 1 :] for x in (input, indices)]
    shape = broadcast_shapes(*rest, names=("input", "indices"), where="take_along_dim")
    input, indices = (
        BroadcastTo.apply(x, shape=shape[:dim] + (x.shape[dim],) + shape[dim + 1 :])
        for x in (input, indices)
    )
    return gather(input, dim, indices)


def _slices(input, dim, index, where):
    """The axis and a checked 1-d index of slices along it."""
    dim = axis_of(dim, input.ndim, where)
    if index.ndim > 1:
        raise ShapeError(
            f"{where}: index has more than one axis.", got=f"index {index.shape}", expected="(n,)"
        )
    check_range(index.array, input.shape[dim] if input.ndim else 1, where=where, name="index")
    return dim, _at_least_1d(index)


def index_select(input, dim, index):
    """The slices of `input` along `dim` with the numbers `index`, as a copy.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_select(mt.tensor([[1, 2, 3], [4, 5, 6]]), 1, mt.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    dim, index = _slices(input, dim, index, "index_select")
    result = LookUp.apply(_at_least_1d(input), index, axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


def index_add(input, dim, index, source, *, alpha=1):
    """A copy of `input` with the slices of `source` added to its slices `index` along `dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_add(mt.zeros(3), 0, mt.tensor([1, 1]), mt.tensor([1.0, 2.0]), alpha=10)
    tensor([ 0., 30.,  0.])
    """
    dim, index = _slices(input, dim, index, "index_add")
    source = _slices_of(input, dim, index, source, "index_add")
    if alpha != 1:
        source = mul(source, alpha)
    result = AddAt.apply(_at_least_1d(input), source, index, axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


def index_copy(input, dim, index, source):
    """A copy of `input` whose slices `index` along `dim` are those of `source`."""
    dim, index = _slices(input, dim, index, "index_copy")
    source = _slices_of(input, dim, index, source, "index_copy")
    result = Assign.apply(_at_least_1d(input), source, index, basic=(...,), axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


def index_fill(input, dim, index, value):
    """A copy of `input` whose slices `index` along `dim` are filled with a number."""
    dim, index = _slices(input, dim, index, "index_fill")
    if isinstance(value, Tensor):
        value = cast(value, input.dtype)
    result = Assign.apply(_at_least_1d(input), value, index, basic=(...,), axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


def _slices_of(input, dim, index, source, where):
    """`source` in the shape of the slices that it goes to."""
    count = index.shape[0]
    expected = (input.shape[:dim] + (count,) + input.shape[dim + 1 :]) if input.ndim else (count,)
    if source.ndim == 0 and input.ndim <= 1:
        source = Reshape.apply(source, shape=(1,))
    if source.shape != expected:
        raise ShapeError(
            f"{where}(input, dim, index, source): source has another shape than input[index].",
            got=f"source {source.shape}",
            expected=f"{expected}",
        )
    return cast(source, input.dtype)


def masked_select(input, mask):
    """The elements where a boolean mask is True, in one axis; both broadcast.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> masked_select(mt.tensor([1, 2, 3]), mt.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask.dtype.kind != "b":
        raise DTypeError(
            "masked_select: the mask holds booleans.",
            got=f"{mask.dtype}",
            hint="a comparison such as x > 0, or mask.bool()",
        )
    input, mask = broadcast_tensors(input, mask)
    return _at_least_1d(input)[_at_least_1d(mask)]


def nonzero(input, *, as_tuple=False):
    """The places of the elements that are not zero; a device has to be waited for.

    Returns
    -------
    Tensor of shape (count, axes), or with `as_tuple` one Tensor of shape (count,) per axis

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> nonzero(mt.tensor([[0, 5], [6, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    array = input.array
    xp = array_module(array)
    if array.ndim == 0:
        (found,) = array.reshape(1).nonzero()
        return (wrap(found),) if as_tuple else wrap(found.reshape(-1, 1)[:, :0])
    found = array.nonzero()
    return tuple([wrap(f) for f in found]) if as_tuple else wrap(xp.stack(found, axis=1))


def argwhere(input):
    """The places of the elements that are not zero, one per row."""
    return nonzero(input)


def searchsorted(sorted_sequence, input, *, out_int32=False, right=False):
    """Where each entry of `input` would go in a sorted vector, before equals or after them.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> searchsorted(mt.tensor([1, 3, 5]), mt.tensor([3, 4]))
    tensor([1, 2])
    """
    if sorted_sequence.ndim != 1:
        raise ShapeError(
            "searchsorted: the boundaries are one sorted vector.", got=f"{sorted_sequence.shape}"
        )
    xp = array_module(sorted_sequence.array)
    values = input if isinstance(input, Tensor) else tensor_like(input, sorted_sequence)
    side = "right" if right else "left"
    found = xp.searchsorted(sorted_sequence.array, values.array, side=side)
    return wrap(as_array(found)).to("int32" if out_int32 else "int64")


def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The number of the bucket of each entry: i where boundaries[i-1] < x <= boundaries[i].

    With `right` the equal sign is on the other side.
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
