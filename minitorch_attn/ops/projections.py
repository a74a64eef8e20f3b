"""Several linear layers with the same input, as one operation: query, key and value projections."""

from ..autograd.function import Function
from ..backend import matmul
from ..backend.row_reductions import column_sum
from ..computes import computes
from .feed_forward import affine
from .linear import Linear
from .matmul import rows_of

__all__ = ["Projections", "fit", "pairs"]


@computes("linear")
class Projections(Function):
    r"""Several linear layers with the same input: the query, key and value projections.

    Forward:  y_i = x @ weight_i^T + bias_i
    Backward: with g_i = dL/dy_i, grad_x = sum over i of g_i @ weight_i; weight_i receives
        g_i^T @ x, and bias_i the sum of g_i over rows
    Derivation: each layer has the derivative of `Linear`. All layers read x, so dL/dx is the sum of
    their gradients, which is accumulated in place.
    Saved: the inputs x, weight_1, bias_1, weight_2, bias_2, ...
    """

    @staticmethod
    def forward(ctx, x, *parameters):
        # x (..., in)   parameters: weight_1 (out_1, in), bias_1 (out_1,) or None, weight_2, ...
        ctx.save(x, *parameters)
        ctx.save_intermediate()  # no intermediates; the call marks the op as fused
        rows, lead = rows_of(x), x.shape[:-1]
        return tuple([
            affine(rows, weight, bias).reshape((*lead, weight.shape[0]))
            for weight, bias in pairs(parameters)
        ])  # fmt: skip

    @staticmethod
    def backward(ctx, *grad_ys):
        x, *parameters = ctx.saved
        need_x, *needs = ctx.needs_grad
        rows, grad_x, grads = rows_of(x), None, []
        for grad_y, (weight, _), (need_weight, need_bias) in zip(
            grad_ys, pairs(parameters), pairs(needs), strict=True
        ):
            g = rows_of(grad_y)
            if need_x:
                part = matmul(g, weight)  # (rows, out) @ (out, in)
                if grad_x is None:
                    grad_x = part
                else:
                    grad_x += part
            grads.append(matmul(g.swapaxes(0, 1), rows) if need_weight else None)
            grads.append(column_sum(g) if need_bias else None)
        return None if grad_x is None else grad_x.reshape(x.shape), *grads

    @staticmethod
    def composed(ctx, x, *parameters):
        """Reference implementation: apply the linear layers one by one."""
        return tuple([Linear.apply(x, weight, bias) for weight, bias in pairs(parameters)])


def pairs(parameters):
    """Group [weight_1, bias_1, ...] into [(weight_1, bias_1), ...]. Entries can be any values."""
    return list(zip(parameters[::2], parameters[1::2], strict=True))


def fit(x, parameters):
    """Return True if all arguments are tensors of one floating-point dtype with matching sizes.

    Parameters
    ----------
    x : Tensor of shape (..., in)
    parameters : sequence of Tensor
        weight_1 (out_1, in), bias_1 (out_1,) or None, weight_2, ...
    """
    try:
        dtype, width = x.array.dtype, x.array.shape[-1]
        return dtype.kind == "f" and all(
            weight.array.dtype == dtype
            and weight.array.shape[1:] == (width,)
            and (bias is None or _is_bias(bias.array, weight.array))
            for weight, bias in pairs(parameters)
        )
    except (AttributeError, IndexError):  # not a tensor, or without axes
        return False


def _is_bias(bias, weight):
    return bias.dtype == weight.dtype and bias.shape == weight.shape[:1]
