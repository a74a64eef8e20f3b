"""Triangles and diagonals of matrices."""

from ..autograd.function import Function
from ..backend import array_module, as_device, module_for
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .plumbing.axes import axis_of
from .plumbing.tensor_arguments import as_operand
from .sum_mean import sum as sum_over

__all__ = [
    "diag", "diag_embed", "diagonal", "trace", "tril", "tril_indices", "triu", "triu_indices",
]  # fmt: skip


class Triangle(Function):
    """Lower or upper triangle of the last two axes, including the diagonal at its edge.

    Forward:  y = x inside the triangle, else 0
    Backward: grad_x = grad_y inside the triangle, else 0
    Derivation: the derivative is 1 inside the triangle and 0 outside.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, diagonal, lower):
        ctx.diagonal, ctx.lower = diagonal, lower
        xp = array_module(x)
        return xp.tril(x, diagonal) if lower else xp.triu(x, diagonal)

    @staticmethod
    def backward(ctx, grad_y):
        return Triangle.call(grad_y, diagonal=ctx.diagonal, lower=ctx.lower)


class Diagonal(Function):
    """Diagonal over two axes, as the last axis of a view: `y[..., i] = x[..., i, i + offset]`.

    Forward:  y = a diagonal of x
    Backward: grad_x = zeros with grad_y on the diagonal
    Derivation: the derivative is 1 on the diagonal and 0 elsewhere.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, offset, dim1, dim2):
        ctx.offset, ctx.dims = offset, (dim1, dim2)
        start = [slice(None)] * x.ndim
        start[dim1], start[dim2] = slice(max(-offset, 0), None), slice(max(offset, 0), None)
        x = x[tuple(start)]
        rest = [i for i in range(x.ndim) if i not in (dim1, dim2)]
        shape = (*[x.shape[i] for i in rest], min(x.shape[dim1], x.shape[dim2]))
        strides = (*[x.strides[i] for i in rest], x.strides[dim1] + x.strides[dim2])
        # The result of NumPy's own diagonal() is read-only.
        return array_module(x).lib.stride_tricks.as_strided(x, shape, strides)

    @staticmethod
    def backward(ctx, grad_y):
        dim1, dim2 = ctx.dims
        return DiagonalPlace.call(
            grad_y, shape=ctx.shapes[0], offset=ctx.offset, dim1=dim1, dim2=dim2
        )


class DiagonalPlace(Function):
    """Tensor of zeros with x on a diagonal; the adjoint of Diagonal.

    Forward:  y = zeros with x on a diagonal
    Backward: grad_x = that diagonal of grad_y
    Derivation: y is linear in x, so the gradient is read from the same diagonal.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, shape, offset, dim1, dim2):
        ctx.offset, ctx.dims = offset, (dim1, dim2)
        xp = array_module(x)
        y = xp.zeros(shape, dtype=x.dtype)
        i = xp.arange(x.shape[-1])
        # With the two axes first, an index pair (i, i + offset) selects along both.
        y_first = xp.moveaxis(y, (dim1, dim2), (0, 1))
        y_first[i - min(offset, 0), i + max(offset, 0)] = xp.moveaxis(x, -1, 0)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        dim1, dim2 = ctx.dims
        return Diagonal.call(grad_y, offset=ctx.offset, dim1=dim1, dim2=dim2)


def _check_matrix(input, where):
    if as_operand(input, where).ndim < 2:
        raise ShapeError(
            f"{where}: input must have at least two axes",
            got=f"input {input.shape}",
            expected="(..., row, column)",
            hint="use input.unsqueeze(0) for one row, input.unsqueeze(-1) for one column",
        )


@names_arguments
def tril(input, diagonal=0):
    """The lower triangle of the last two axes, including a given diagonal, with zeros above it.

    Parameters
    ----------
    input : Tensor of shape (..., n, m)
    diagonal : int, default 0
        Diagonal that bounds the triangle: 0 is the main diagonal, and 1 is the diagonal above it.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tril(mt.ones(2, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """
    _check_matrix(input, "tril")
    return Triangle.apply(input, diagonal=int(diagonal), lower=True)


@names_arguments
def triu(input, diagonal=0):
    """The upper triangle of the last two axes: zeros below the given diagonal. See `tril`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> triu(mt.ones(2, 3), 1)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """
    _check_matrix(input, "triu")
    return Triangle.apply(input, diagonal=int(diagonal), lower=False)


@names_arguments
def diagonal(input, offset=0, dim1=0, dim2=1):
    """A diagonal over two axes, as a view; the axis along the diagonal comes last.

    Parameters
    ----------
    input : Tensor
    offset : int, default 0
        Offset from the main diagonal, positive above it and negative below it.
    dim1, dim2 : int
        Axes that form the matrices.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> diagonal(mt.tensor([[1, 2], [3, 4]])), diagonal(mt.tensor([[1, 2], [3, 4]]), 1)
    (tensor([1, 4]), tensor([2]))
    """
    input = as_operand(input, "diagonal")
    dim1, dim2 = _two_axes(dim1, dim2, input.ndim, "diagonal")
    return Diagonal.apply(input, offset=int(offset), dim1=dim1, dim2=dim2)


def _two_axes(dim1, dim2, ndim, where):
    dim1, dim2 = axis_of(dim1, ndim, where, "dim1"), axis_of(dim2, ndim, where, "dim2")
    if dim1 == dim2 or ndim < 2:
        raise ArgumentError(
            f"{where}: dim1 and dim2 must be two different axes",
            got=f"dim1={dim1} and dim2={dim2} for {ndim} axes",
            hint="pass dim1=-2, dim2=-1 for the matrices of a batch",
        )
    return dim1, dim2


@names_arguments
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices with the last axis of `input` on a diagonal and zeros elsewhere.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> diag_embed(mt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    input = as_operand(input, "diag_embed")
    if input.ndim == 0:
        raise ShapeError(
            "diag_embed: input must have at least one axis",
            got="input ()",
            hint="use input.reshape(1) for a 1 x 1 matrix",
        )
    dim1, dim2 = _two_axes(dim1, dim2, input.ndim + 1, "diag_embed")
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((dim1, dim2)):
        shape.insert(dim, size)
    return DiagonalPlace.apply(input, shape=tuple(shape), offset=int(offset), dim1=dim1, dim2=dim2)


@names_arguments
def diag(input, diagonal=0):
    """The diagonal of a matrix, or the matrix that has a vector on its diagonal.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> diag(mt.tensor([[1, 2], [3, 4]]), 1), diag(mt.tensor([1, 2]))
    (tensor([2]), tensor([[1, 0],
            [0, 2]]))
    """
    input = as_operand(input, "diag")
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ShapeError(
            "diag: input must have one or two axes",
            got=f"input {input.shape}",
            hint="use diagonal(input) or diag_embed(input) for a batch",
        )
    return Diagonal.apply(input, offset=int(diagonal), dim1=0, dim2=1)


@names_arguments
def trace(input):
    """The sum of the main diagonal of a matrix.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> trace(mt.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    input = as_operand(input, "trace")
    if input.ndim != 2:
        raise ShapeError(
            "trace: input must have two axes",
            got=f"input {input.shape}",
            hint="use diagonal(input, 0, -2, -1).sum(-1) for a batch of matrices",
        )
    return sum_over(diagonal(input))


def _indices(row, col, offset, lower, dtype, device):
    xp = module_for(as_device(device))
    kept = (xp.tril if lower else xp.triu)(xp.ones((row, col), dtype="int8"), offset)
    return wrap(xp.stack(kept.nonzero()).astype(dtype or "int64"))


@names_arguments
def tril_indices(row, col, offset=0, *, dtype=None, device=None):
    """Indices (rows, columns) of the lower triangle of a row x col matrix.

    Examples
    --------
    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _indices(row, col, offset, True, dtype, device)


@names_arguments
def triu_indices(row, col, offset=0, *, dtype=None, device=None):
    """Indices (rows, columns) of the upper triangle of a row x col matrix.

    Examples
    --------
    >>> triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _indices(row, col, offset, False, dtype, device)
