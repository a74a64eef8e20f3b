"""Feed-forward network on a GPU: matrix products, with one kernel launch between them.

    u = x W1^T + b1,   h = f(u),   y = h W2^T + b2
    dL/du = dL/dh * f'(u)
    dL/db1 = sum of dL/du over the rows,   dL/db2 = sum of dL/dy over the rows

`backend.matmul` computes the products. In the forward pass, one kernel adds b1 to the product, and
computes h and the slope f'(u) from the sum u. h overwrites u in memory. In the backward pass, one
kernel multiplies dL/dh by the slope, in place, and sums each column of the result for dL/db1.

Launches besides the products: 2 forward and 2 backward. With GELU, the array operations need 13 and
3. The slope of ReLU is not stored: it is 1 where h > 0. For a few rows that do not need a gradient,
as in generation, `few_rows` computes each layer, including its matrix product, in one launch.

On a GPU, `FeedForwardInBlocks` runs the same kernels. Dividing the rows into blocks helps only a
CPU, and recomputing the hidden layer in the backward pass would add a matrix product to the six of
a training step (2 forward, 4 backward). The kernels keep two arrays of the hidden layer's size
instead: h and the slope. If there is not enough memory for them, use `checkpoint`.
"""

from ..backend import array_module, matmul
from ..backend.kernel_table import register
from ..ops.feed_forward import FeedForward, FeedForwardInBlocks
from ..ops.matmul import rows_of
from .columns import OVER_STRIPES, TILES, column_grid, column_sum, tile_grid
from .few_rows import are_few, few_rows
from .gelu import ACTIVATE, NUMBER
from .linear import add_bias
from .source import FLOATS, Source, all_contiguous

__all__ = ["FeedForwardKernel"]

SOURCE = Source(
    OVER_STRIPES
    + TILES
    + ACTIVATE
    + r"""
// h = f(u + bias), in the memory of u (rows, n), and slope = f'(u + bias) unless it is null.
template <typename T, typename A> __global__ void bias_and_activation(
    T* u, const T* bias, T* slope, long long rows, long long n, long long f)
{
    Tile tile(rows, n);
    if (tile.j >= n) return;
    A b = bias ? A(bias[tile.j]) : A(0);
    for (long long row = tile.first_row; row < tile.end_row; row += 8) {
        long long i = row * n + tile.j;
        A s;
        u[i] = T(activate(f, A(u[i]) + b, s));
        if (slope) slope[i] = T(s);
    }
}

// grad (rows, n) *= slope, in place; its column sums go to grad_bias, unless that is null. If slope
// is null (ReLU), it is 1 where the hidden layer is positive, else 0. The threads divide the work
// as in `column_sum`.
template <typename T, typename A> __global__ void __launch_bounds__(1024) through_activation(
    T* grad, const T* hidden, const T* slope, T* grad_bias, long long rows, long long n)
{
    long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    A sum = 0;
    if (j < n) {
        for (long long row = threadIdx.y; row < rows; row += blockDim.y) {
            long long i = row * n + j;
            T g = slope ? T(A(grad[i]) * A(slope[i])) : A(hidden[i]) <= 0 ? T(A(0)) : grad[i];
            grad[i] = g;
            sum += A(g);
        }
    }
    sum = sum_over_stripes(sum);
    if (grad_bias && threadIdx.y == 0 && j < n) grad_bias[j] = T(sum);
}
""",
    "bias_and_activation",
    "through_activation",
)


def bias_and_activation(u, bias, activation, with_slope):
    """Return h = f(u + bias), which overwrites u, and the slope f'(u + bias).

    Parameters
    ----------
    u : CuPy array of shape (rows, hidden)
        Matrix product, which is overwritten. Nothing else may refer to it.
    bias : CuPy array of shape (hidden,), or None
    activation : str
    with_slope : bool
        Whether to compute the slope. Otherwise, and for ReLU, the slope is None.
    """
    u, bias = all_contiguous(u, bias)
    slope = array_module(u).empty_like(u) if with_slope and activation != "relu" else None
    SOURCE.launch(
        "bias_and_activation", u.dtype, *tile_grid(*u.shape),
        u, bias, slope, *u.shape, NUMBER[activation],
    )  # fmt: skip
    return u, slope


def through_activation(grad_h, h, slope, need_bias):
    """Return dL/du = dL/dh * slope and, with `need_bias`, the column sums of dL/du (else None).

    dL/du overwrites `grad_h`.
    """
    xp = array_module(grad_h)
    (grad_h,) = all_contiguous(grad_h)
    grad_bias = xp.empty(grad_h.shape[1], grad_h.dtype) if need_bias else None
    SOURCE.launch(
        "through_activation", grad_h.dtype, *column_grid(*grad_h.shape),
        grad_h, h, slope, grad_bias, *grad_h.shape,
    )  # fmt: skip
    return grad_h, grad_bias


@register(FeedForwardInBlocks)
@register(FeedForward)
class FeedForwardKernel:
    """CUDA kernels of the feed-forward network: two launches forward and two backward."""

    @staticmethod
    def accepts(x, *parameters, activation):
        same = all(a is None or a.dtype == x.dtype for a in parameters)
        return same and x.dtype.name in FLOATS

    @staticmethod
    def forward(ctx, x, weight1, bias1, weight2, bias2, *, activation):
        # x (..., in)   weight1 (hidden, in)   weight2 (out, hidden)
        rows, needs_grad = rows_of(x), any(ctx.needs_grad)
        ctx.save(x, weight1, bias1, weight2, bias2)
        if not needs_grad and are_few(rows, weight1, weight2):
            (h,) = few_rows(rows, ((weight1, bias1),), activation)
            (y,) = few_rows(h, ((weight2, bias2),))
        else:
            u = matmul(rows, weight1.T)  # (rows, in) @ (in, hidden)
            h, slope = bias_and_activation(u, bias1, activation, needs_grad)
            if needs_grad:
                ctx.save_intermediate(h, slope)
            y = add_bias(matmul(h, weight2.T), bias2)  # (rows, hidden) @ (hidden, out)
        return y.reshape((*x.shape[:-1], weight2.shape[0]))

    @staticmethod
    def backward(ctx, grad_y):
        x, weight1, _, weight2, _ = ctx.saved
        h, slope = ctx.intermediate
        need_x, need_weight1, need_bias1, need_weight2, need_bias2 = ctx.needs_grad
        g = rows_of(grad_y)
        grad_x = grad_weight1 = grad_bias1 = grad_weight2 = grad_bias2 = None
        if need_bias2:
            grad_bias2 = column_sum(g)
        if need_weight2:
            grad_weight2 = matmul(g.swapaxes(0, 1), h)  # (out, rows) @ (rows, hidden)
        if need_x or need_weight1 or need_bias1:
            grad_h = matmul(g, weight2)  # (rows, out) @ (out, hidden)
            grad_u, grad_bias1 = through_activation(grad_h, h, slope, need_bias1)
        if need_weight1:
            grad_weight1 = matmul(grad_u.swapaxes(0, 1), rows_of(x))  # (hidden, rows) @ (rows, in)
        if need_x:
            grad_x = matmul(grad_u, weight1).reshape(x.shape)  # (rows, hidden) @ (hidden, in)
        return grad_x, grad_weight1, grad_bias1, grad_weight2, grad_bias2
