"""scatter_reduce: combine elements with the same index by a sum, product, mean, max or min."""

import math

from ..autograd.function import Function
from ..backend import array_module, iinfo
from ..backend.kernel_table import with_kernel
from ..errors import ArgumentError, GraphError
from ..named_errors import names_arguments
from .arithmetic import div
from .cast import cast
from .creation import ones_like
from .gather_scatter import Gather, checked_scatter, index_grid, scatter, scatter_add
from .plumbing.tensor_arguments import as_operand
from .reshape import Reshape, at_least_1d
from .where import keep_where

__all__ = ["scatter_reduce"]


class ScatterExtreme(Function):
    """Scatter with max or min: y_i is the largest (smallest) of x_i and the src elements sent to i.

    Forward:  y_i = the largest (or smallest) of x_i and the src elements whose index is i
    Backward: grad_x_i = grad_y_i / k_i where x_i = y_i, else 0;
        grad_src_j = grad_y_i / k_i where src_j = y_i, else 0, with i = index_j
    Derivation: the derivative is 1 for the element chosen. If k_i of these elements are equal to
    y_i, each receives 1 / k_i of the gradient.
    Saved: the index, k, and which elements are equal to y.
    """

    @staticmethod
    def forward(ctx, x, src, index, *, dim, largest):
        xp, grid = array_module(x), index_grid(index, dim)
        y = x.copy()
        extreme_at(y, grid, src, largest)
        same_x, same_src = x == y, src == y[grid]
        count = same_x.astype(x.dtype)
        xp.add.at(count, grid, same_src.astype(x.dtype))
        ctx.dim = dim
        ctx.constants(index, same_x, same_src, xp.maximum(count, 1))  # count is 0 if y is NaN
        return y

    @staticmethod
    def backward(ctx, grad_y):
        index, same_x, same_src, count = ctx.constant
        need_x, need_src, _ = ctx.needs_grad
        share = grad_y / count
        grad_src = None
        if need_src:
            grad_src = keep_where(same_src, Gather.call(share, index, dim=ctx.dim))
        return keep_where(same_x, share) if need_x else None, grad_src, None


@with_kernel
def extreme_at(y, grid, src, largest):
    """Replace y at the indices `grid`, in place, with the larger (or smaller) of y and src."""
    xp = array_module(y)
    (xp.maximum if largest else xp.minimum).at(y, grid, src)


class ScatterProduct(Function):
    """Scatter with a product: y_i is the product of x_i and the src elements sent to i.

    Forward:  y_i = x_i * (the product of the src elements whose index is i)
    Backward: grad_x_i = grad_y_i * (the product of these src elements);
        grad_src_j = grad_y_i * (the product of x_i and the other src elements), i = index_j
    Derivation: a product is linear in each factor, and its derivative is the product of the other
    factors.
    Saved: x, src and the index; which factors are 0, and how many in each product.

    The gradient of a factor contains the product of the other factors. Let y' be the product of all
    nonzero factors. If no factor is 0, the product of the others is y' / factor. If exactly one
    factor is 0, the product of the others is y' for this factor and 0 for every other factor. If
    several factors are 0, the product of the others is always 0.
    """

    @staticmethod
    def forward(ctx, x, src, index, *, dim):
        xp, grid = array_module(x), index_grid(index, dim)
        y, zero_x, zero_src = x.copy(), (x == 0).astype(x.dtype), (src == 0).astype(x.dtype)
        _multiply_at(y, index, src, dim)
        zeros = zero_x.copy()
        xp.add.at(zeros, grid, zero_src)
        ctx.dim = dim
        ctx.save(x, src, None)
        ctx.constants(index, zeros, zero_x, zero_src, zeros[grid])
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, src, _ = ctx.saved
        index, zeros, zero_x, zero_src, zeros_at = ctx.constant
        if ctx.as_tensors and bool(zeros.any()):
            raise GraphError(
                "scatter_reduce: the second derivative of a product requires nonzero factors",
                got=f"{int((zeros > 0).sum())} products with a factor of 0",
            )
        x_1, src_1 = x + zero_x, src + zero_src  # with 1 in place of 0
        share = grad_y * ScatterProduct.call(x_1, src_1, index, dim=ctx.dim)
        need_x, need_src, _ = ctx.needs_grad
        grad_x = grad_src = None
        if need_x:  # no other factor may be 0
            grad_x = keep_where(zeros == zero_x, share / x_1)
        if need_src:
            share = Gather.call(share, index, dim=ctx.dim)
            grad_src = keep_where(zeros_at == zero_src, share / src_1)
        return grad_x, grad_src, None


def _multiply_at(y, index, src, dim):
    """Multiply the elements of y at `index` by `src`, in place; CuPy has no `multiply.at`."""
    for place in range(index.shape[dim]):
        part = (slice(None),) * dim + (slice(place, place + 1),)
        grid = index_grid(index[part], dim)  # without duplicates: one index along `dim`
        y[grid] = y[grid] * src[part]


@names_arguments
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """Combine each element of `input` with all elements of `src` whose index points to it.

    With three axes and dim = 1, `src[i, j, k]` goes to `input[i, index[i, j, k], k]`.

    Parameters
    ----------
    input : Tensor
    dim : int
        Axis of `input` that `index` refers to.
    index : integer Tensor
        Positions along `dim`, with the same number of axes as `input`.
    src : Tensor
        Elements to combine with those of `input`. Must be at least as large as `index` along every
        axis.
    reduce : {"sum", "prod", "mean", "amax", "amin"}
        How elements are combined. Tied maxima or minima share the gradient.
    include_self : bool, default True
        Whether to include the element of `input`. If False, that element is replaced, but only
        where an index points to it.

    Returns
    -------
    Tensor of the shape of `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> group, x = mt.tensor([0, 1, 0]), mt.tensor([5.0, 2.0, 3.0])
    >>> scatter_reduce(mt.zeros(2), 0, group, x, "amax"), scatter_reduce(mt.zeros(2), 0, group, x,
    ...     "mean", include_self=False)
    (tensor([5., 2.]), tensor([4., 2.]))
    """
    input, index = as_operand(input, "scatter_reduce"), as_operand(index, "scatter_reduce", "index")
    src = as_operand(src, "scatter_reduce", "src")
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ArgumentError(
            "scatter_reduce: reduce is unknown",
            got=f"reduce={reduce!r}",
            expected="'sum', 'prod', 'mean', 'amax' or 'amin'",
        )
    if not index.array.size:
        return scatter(input, dim, index, src)
    dtype = input.dtype
    if dtype.itemsize < 4 and src.dtype == dtype:  # GPUs have no atomic operations for these
        wide = "float32" if dtype.kind == "f" else "int32"
        settings = {"reduce": reduce, "include_self": include_self}
        return cast(
            scatter_reduce(cast(input, wide), dim, index, cast(src, wide), **settings), dtype
        )
    base = input
    if not include_self:
        base = scatter(input, dim, index, _neutral(input.dtype, reduce))
    if reduce == "sum":
        return scatter_add(base, dim, index, src)
    if reduce == "mean":
        counts = ones_like(input)
        counts = counts if include_self else scatter(counts, dim, index, 0)
        counts = scatter_add(counts, dim, index, ones_like(src))
        mode = None if input.dtype.kind == "f" else "floor"
        return div(scatter_add(base, dim, index, src), counts, rounding_mode=mode)
    axis, src = checked_scatter(base, dim, index, src, "scatter_reduce")
    given = (at_least_1d(base), src, at_least_1d(index))
    if reduce == "prod":
        result = ScatterProduct.apply(*given, dim=axis)
    else:
        result = ScatterExtreme.apply(*given, dim=axis, largest=reduce == "amax")
    return result if input.ndim else Reshape.apply(result, shape=())


def _neutral(dtype, reduce):
    """Return the identity element of a reduction, such as 1 for a product."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype.kind == "f":
        return -math.inf if reduce == "amax" else math.inf
    return iinfo(dtype).min if reduce == "amax" else iinfo(dtype).max
