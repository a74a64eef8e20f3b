"""LayerNorm and RMSNorm on a GPU: one block of threads for each row.

    y = (x - m) r * weight + bias,   m = mean(x),   r = 1 / sqrt(mean((x - m)^2) + eps)

RMSNorm is the same formula without m and bias. With h = grad_y * weight and x_hat = (x - m) r,

    grad_x = r (h - mean(h) - x_hat mean(h x_hat)),   for RMSNorm without mean(h)
    grad_weight = sum over rows of grad_y x_hat,   grad_bias = sum over rows of grad_y

as derived in `ops.layer_norm`. The sums over rows are computed as in `columns`. All sums are added
up in the same order in every run, so the gradients are bitwise reproducible. Launches: 1 forward
and 2 backward. The array operations need 12 and 17.
"""

import math

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.layer_norm import LayerNorm, RMSNorm, as_rows
from .columns import OVER_STRIPES, column_grid
from .source import Source, all_contiguous, threads_for_row

__all__ = ["LayerNormKernel", "RMSNormKernel"]

SOURCE = Source(
    OVER_STRIPES
    + r"""
// One block for each row of x (rows, n). With centre = 0, m is 0 (RMSNorm).
template <typename T, typename A> __global__ void norm_forward(
    const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd,
    long long n, long long centre, double eps)
{
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    A m = 0, squares = 0;
    if (centre) {
        for (long long j = threadIdx.x; j < n; j += blockDim.x) m += A(x[j]);
        m = block_sum(m) / n;
    }
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        A c = A(x[j]) - m;
        squares += c * c;
    }
    A r = 1 / sqrt(block_sum(squares) / n + A(eps));
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        A value = (A(x[j]) - m) * r;
        if (weight) value *= A(weight[j]);
        if (bias) value += A(bias[j]);
        y[j] = T(value);
    }
    if (threadIdx.x == 0) {
        if (centre) mean[blockIdx.x] = T(m);
        rstd[blockIdx.x] = T(r);
    }
}

// One block for each row: grad_x from grad_y.
template <typename T, typename A> __global__ void norm_backward(
    const T* grad_y, const T* x, const T* weight, const T* mean, const T* rstd, T* grad_x,
    long long n)
{
    grad_y += blockIdx.x * n;
    x += blockIdx.x * n;
    grad_x += blockIdx.x * n;
    A m = mean ? A(mean[blockIdx.x]) : A(0), r = A(rstd[blockIdx.x]);
    A along_ones = 0, along_x_hat = 0;  // sums of h and of h * x_hat
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        A h = A(grad_y[j]) * (weight ? A(weight[j]) : A(1));
        along_ones += h;
        along_x_hat += h * (A(x[j]) - m) * r;
    }
    along_ones = mean ? block_sum(along_ones) / n : A(0);
    along_x_hat = block_sum(along_x_hat) / n;
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        A h = A(grad_y[j]) * (weight ? A(weight[j]) : A(1));
        grad_x[j] = T(r * (h - along_ones - (A(x[j]) - m) * r * along_x_hat));
    }
}

// Sums over the rows, in blocks of a few columns and many stripes of rows, as in `column_sum`.
template <typename T, typename A> __global__ void __launch_bounds__(1024) norm_columns(
    const T* grad_y, const T* x, const T* mean, const T* rstd, T* grad_weight, T* grad_bias,
    long long rows, long long n)
{
    long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    A weight_sum = 0, bias_sum = 0;
    if (j < n) {
        for (long long row = threadIdx.y; row < rows; row += blockDim.y) {
            A g = A(grad_y[row * n + j]), m = mean ? A(mean[row]) : A(0);
            bias_sum += g;
            if (grad_weight) weight_sum += g * (A(x[row * n + j]) - m) * A(rstd[row]);
        }
    }
    if (grad_weight) weight_sum = sum_over_stripes(weight_sum);
    if (grad_bias) bias_sum = sum_over_stripes(bias_sum);
    if (threadIdx.y == 0 && j < n) {
        if (grad_weight) grad_weight[j] = T(weight_sum);
        if (grad_bias) grad_bias[j] = T(bias_sum);
    }
}
""",
    "norm_forward",
    "norm_backward",
    "norm_columns",
)


def norm_forward(x, weight, bias, row_axes, eps, centre):
    """Launch the forward kernel.

    Returns
    -------
    y : array of the shape of x
    mean, rstd : arrays of shape (rows, 1)
        `mean` is None if `centre` is False.
    """
    xp = array_module(x)
    x, weight, bias = all_contiguous(x, weight, bias)
    rows, n = as_rows(x, row_axes)
    y = xp.empty_like(x)
    mean = xp.empty((len(rows), 1), x.dtype) if centre else None
    rstd = xp.empty((len(rows), 1), x.dtype)
    SOURCE.launch(
        "norm_forward", x.dtype, len(rows), threads_for_row(n),
        x, weight, bias, y, mean, rstd, n, int(centre), float(eps),
    )  # fmt: skip
    return y, mean, rstd


def norm_backward(grad_y, x, weight, mean, rstd, row_axes, needs_grad):
    """Launch the backward kernels. Return grad_x, grad_weight, grad_bias; None if not needed."""
    xp = array_module(x)
    grad_y, x, weight = all_contiguous(grad_y, x, weight)
    need_x, need_weight, need_bias = needs_grad
    rows, n = as_rows(x, row_axes)
    row_shape = x.shape[x.ndim - row_axes :]
    grad_x = grad_weight = grad_bias = None
    if need_x:
        grad_x = xp.empty_like(x)
        SOURCE.launch(
            "norm_backward", x.dtype, len(rows), threads_for_row(n),
            grad_y, x, weight, mean, rstd, grad_x, n,
        )  # fmt: skip
    if need_weight or need_bias:
        grad_weight = xp.empty(row_shape, x.dtype) if need_weight else None
        grad_bias = xp.empty(row_shape, x.dtype) if need_bias else None
        SOURCE.launch(
            "norm_columns", x.dtype, *column_grid(len(rows), n),
            grad_y, x, mean, rstd, grad_weight, grad_bias, len(rows), n,
        )  # fmt: skip
    return grad_x, grad_weight, grad_bias


def _one_dtype(*arrays):
    return len({a.dtype for a in arrays if a is not None}) == 1


@register(LayerNorm)
class LayerNormKernel:
    """CUDA kernels of LayerNorm: one launch forward and two backward."""

    @staticmethod
    def accepts(x, weight, bias, *, eps, row_axes):
        return _one_dtype(x, weight, bias) and math.prod(x.shape[x.ndim - row_axes :]) > 0

    @staticmethod
    def forward(ctx, x, weight, bias, *, eps, row_axes):
        y, mean, rstd = norm_forward(x, weight, bias, row_axes, eps, centre=True)
        ctx.save(x, weight, bias)
        ctx.save_intermediate(mean, rstd)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, _ = ctx.saved
        mean, rstd = ctx.intermediate
        row_axes = ctx.settings["row_axes"]
        return norm_backward(grad_y, x, weight, mean, rstd, row_axes, ctx.needs_grad)


@register(RMSNorm)
class RMSNormKernel:
    """CUDA kernels of RMSNorm: one launch forward and two backward."""

    @staticmethod
    def accepts(x, weight, *, eps, row_axes):
        return LayerNormKernel.accepts(x, weight, None, eps=eps, row_axes=row_axes)

    @staticmethod
    def forward(ctx, x, weight, *, eps, row_axes):
        y, _, rstd = norm_forward(x, weight, None, row_axes, eps, centre=False)
        ctx.save(x, weight)
        ctx.save_intermediate(rstd)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved
        (rstd,) = ctx.intermediate
        needs = (*ctx.needs_grad, None)
        grads = norm_backward(grad_y, x, weight, None, rstd, ctx.settings["row_axes"], needs)
        return grads[:2]
