"""Linear layer on a GPU: matrix products, and a kernel that adds the bias.

    y = x @ weight^T + bias,   grad_bias_j = sum over rows i of grad_y_ij

`backend.matmul` computes the products. The bias is added in place, and its gradient is a column
sum. Launches besides the products: 1 forward and 1 backward, both only if there is a bias. For
a few rows, as in generation, `few_rows` computes the product and adds the bias in one launch.
"""

from ..backend import matmul
from ..backend.kernel_table import register
from ..ops.linear import Linear
from ..ops.matmul import rows_of
from .columns import TILES, column_sum, tile_grid
from .few_rows import are_few, few_rows
from .source import FLOATS, Source, all_contiguous

__all__ = ["LinearKernel", "add_bias"]

SOURCE = Source(
    TILES
    + r"""
// y (rows, n) += bias (n), in place. Each thread reads its bias once.
template <typename T, typename A> __global__ void add_bias(
    T* y, const T* bias, long long rows, long long n)
{
    Tile tile(rows, n);
    if (tile.j >= n) return;
    A b = A(bias[tile.j]);
    for (long long row = tile.first_row; row < tile.end_row; row += 8) {
        long long i = row * n + tile.j;
        y[i] = T(A(y[i]) + b);
    }
}
""",
    "add_bias",
)


def add_bias(y, bias):
    """Return y + bias, computed in place in y. A bias of None counts as 0.

    Parameters
    ----------
    y : CuPy array of shape (rows, n)
        Matrix product, which is overwritten. Nothing else may refer to it.
    bias : CuPy array of shape (n,), or None
    """
    if bias is None:
        return y
    y, bias = all_contiguous(y, bias)
    SOURCE.launch("add_bias", y.dtype, *tile_grid(*y.shape), y, bias, *y.shape)
    return y


@register(Linear)
class LinearKernel:
    """CUDA kernels of a linear layer. The bias takes one launch forward and one backward."""

    @staticmethod
    def accepts(x, weight, bias):
        same = x.dtype == weight.dtype and (bias is None or x.dtype == bias.dtype)
        return same and x.dtype.name in FLOATS

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save(x, weight)
        rows = rows_of(x)
        if are_few(rows, weight):
            (y,) = few_rows(rows, ((weight, bias),))
        else:
            y = add_bias(matmul(rows, weight.T), bias)  # (rows, in) @ (in, out)
        return y.reshape((*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved
        need_x, need_weight, need_bias = ctx.needs_grad
        grad = rows_of(grad_y)
        return (
            matmul(grad, weight).reshape(x.shape) if need_x else None,  # (rows, out) @ (out, in)
            matmul(grad.swapaxes(0, 1), rows_of(x)) if need_weight else None,
            column_sum(grad) if need_bias else None,
        )
