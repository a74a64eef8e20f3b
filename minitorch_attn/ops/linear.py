"""Linear layer and matrix products with an added term: linear, addmm, addmv, baddbmm."""

from .. import backend
from ..autograd.autocast import autocasts
from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend.row_reductions import column_sum
from ..computes import computes
from ..errors import ShapeError
from ..named_errors import names_arguments
from .arithmetic import add, mul
from .broadcast import BroadcastTo, expand
from .matmul import MatMul, bmm, matmul, mm, mv, rows_of, same_dtype
from .plumbing.tensor_arguments import not_tensors

__all__ = ["addmm", "addmv", "baddbmm", "linear"]


@computes("linear")
class Linear(Function):
    r"""Linear layer: multiply every row of x by weight^T and add the bias.

    Forward:  y = x @ weight^T + bias
    Backward: grad_x = grad_y @ weight, grad_weight = grad_y^T @ x,
        grad_bias = grad_y summed over rows
    Derivation: y_ri = sum_j x_rj weight_ij + bias_i, with all leading axes flattened into rows r.
    Saved: x and weight.
    """

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save(x, weight)
        y = backend.matmul(rows_of(x), weight.T)  # (rows, in) @ (in, out)
        if bias is not None:
            y += bias
        return y.reshape((*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved
        need_x, need_weight, need_bias = ctx.needs_grad
        grad = rows_of(grad_y)
        grad_x = grad_weight = grad_bias = None
        if need_x:
            grad_x = MatMul.call(grad, weight).reshape(x.shape)  # (rows, out) @ (out, in)
        if need_weight:
            grad_weight = MatMul.call(grad.swapaxes(0, 1), rows_of(x))  # (out, rows) @ (rows, in)
        if need_bias:
            grad_bias = ColumnSum.call(grad)
        return grad_x, grad_weight, grad_bias


class ColumnSum(Function):
    """Sum of each column of a matrix.

    Forward:  y_j = sum over i of x_ij
    Backward: grad_x_ij = grad_y_j
    Derivation: dy_j/dx_ij = 1, so every row receives the gradient.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return column_sum(x)

    @staticmethod
    def backward(ctx, grad_y):
        return BroadcastTo.call(grad_y, shape=ctx.shapes[0])


def linear(input, weight, bias=None):
    """Linear layer: `input @ weight^T + bias`, as in `torch.nn.functional.linear`.

    Parameters
    ----------
    input : Tensor of shape (..., in)
    weight : Tensor of shape (out, in) or (in,)
        With shape (in,), the output does not have a last axis of size out.
    bias : Tensor of shape (out,), optional

    Returns
    -------
    Tensor of shape (..., out)

    Raises
    ------
    ShapeError
        If the sizes do not match.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> linear(mt.ones(1, 2), mt.tensor([[1.0, 2.0], [3.0, 4.0]]), mt.tensor([10.0, 20.0]))
    tensor([[13., 27.]])
    """
    try:
        x_shape, w_shape = input.shape, weight.shape
        fits = x_shape and 1 <= len(w_shape) <= 2 and x_shape[-1] == w_shape[-1]
    except (AttributeError, TypeError) as error:
        raise not_tensors(error, "linear", input=input, weight=weight) from None
    if not fits:
        raise ShapeError(
            "linear(input, weight, bias): the last axes of input and weight do not match",
            got=f"input {x_shape} and weight {w_shape}",
            expected="input (..., in) and weight (out, in)",
            hint=_fix(x_shape, w_shape),
        )
    same_dtype(input, weight, "linear", ("input", "weight"))
    if bias is not None:
        same_dtype(weight, bias, "linear", ("weight", "bias"))
        if bias.shape != w_shape[:-1] and bias.shape != ():
            raise ShapeError(
                "linear(input, weight, bias): the shape of bias does not match weight",
                got=f"weight {w_shape} and bias {bias.shape}",
                expected=f"bias {w_shape[:-1]}",
                hint="use bias.squeeze() to remove axes of size 1",
            )
    if len(w_shape) == 1:
        product = matmul(input, weight)
        return product if bias is None else add(product, bias)
    if bias is not None and bias.ndim == 0:
        bias = expand(bias, w_shape[:1])
    return Linear.apply(input, weight, bias)


def _fix(x_shape, w_shape):
    """Return the hint for an error message: how to make the last axes of input and weight match."""
    if not x_shape or len(w_shape) != 2:
        return "input must have an axis of features, and weight one row per output"
    hint = f"use in_features={x_shape[-1]} for this layer, or pass it {w_shape[-1]} features"
    transposed = x_shape[-1] == w_shape[0]
    return f"{hint}; use weight.T if weight has one column per output" if transposed else hint


@names_arguments
@autocasts
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """Add a matrix product: `beta * input + alpha * (mat1 @ mat2)`; if beta is 0, ignore `input`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> addmm(mt.ones(2), mt.eye(2), mt.eye(2), beta=10)
    tensor([[11., 10.],
            [10., 11.]])
    """
    return _added("addmm", input, mm(mat1, mat2), beta, alpha)


@names_arguments
@autocasts
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """Add a matrix-vector product: `beta * input + alpha * (mat @ vec)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> addmv(mt.tensor([10, 20]), mt.tensor([[1, 2], [3, 4]]), mt.tensor([1, -1]))
    tensor([ 9, 19])
    """
    return _added("addmv", input, mv(mat, vec), beta, alpha)


@names_arguments
@autocasts
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """Add a batched matrix product: `beta * input + alpha * (batch1 @ batch2)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> baddbmm(mt.ones(1), mt.ones(7, 2, 3), mt.ones(7, 3, 5), alpha=2)[0, 0, 0]
    tensor(7.)
    """
    return _added("baddbmm", input, bmm(batch1, batch2), beta, alpha)


def _added(where, input, product, beta, alpha):
    try:
        shape = input.shape
    except AttributeError as error:
        raise not_tensors(error, where, input=input) from None
    if broadcast_shapes(shape, product.shape, where=where) != product.shape:
        raise ShapeError(
            f"{where}: input does not broadcast to the shape of the product",
            got=f"input {shape} and a product of shape {product.shape}",
            hint="check the order of the factors, or reshape input",
        )
    if alpha != 1:
        product = mul(product, alpha)
    if beta == 0:
        return product
    return add(mul(input, beta) if beta != 1 else input, product)
