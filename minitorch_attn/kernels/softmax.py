"""Softmax, masked softmax and log-softmax on a GPU: one block of threads for each row.

    y_j = exp(x_j - m) / s,   m = max(x),   s = sum_j exp(x_j - m)
    log-softmax: y_j = x_j - m - log(s)

m and s are computed in one pass over the row. Each thread keeps the maximum of the elements that it
has seen, and the sum of their exponentials. When it finds a new maximum, it rescales the sum
(Milakov and Gimelshein, arXiv:1805.02867v2, algorithm 3). The threads' pairs (m, s) are then
combined.

    softmax:     grad_x = y (grad_y - sum(grad_y y))
    log-softmax: grad_x = grad_y - exp(y) sum(grad_y)

Launches: 1 forward and 1 backward. The array operations need 5 to 8 forward and 4 backward. The
kernels support only the last axis; other axes use the array operations.
"""

import math

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.softmax import LogSoftmax, MaskedSoftmax, Softmax
from .source import FLOATS, Source, all_contiguous, threads_for_row

__all__ = ["LOWEST", "MAX_AND_SUM", "LogSoftmaxKernel", "MaskedSoftmaxKernel", "SoftmaxKernel"]

LEADING_AXES = 4  # the kernel finds a row of a mask from four indices
_FLOAT = -3.4028234663852886e38
LOWEST = {"float16": _FLOAT, "float32": _FLOAT, "float64": -1.7976931348623157e308}  # finite in A

MAX_AND_SUM = r"""
// m = max(x) and s = sum of exp(x - m), over the elements of a row that the mask allows (a null
// mask allows all). m is at least `lowest`, a finite number, so s is 0 if every x is -inf.
template <typename T, typename A> __device__ void max_and_sum(
    const T* x, const bool* mask, long long mask_step, long long n, A lowest, A& m, A& s)
{
    A own_m = lowest, own_s = 0;  // of this thread's elements
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        if (mask && !mask[j * mask_step]) continue;
        A value = A(x[j]);
        if (value > own_m) {
            own_s = own_s * exp(own_m - value) + 1;
            own_m = value;
        } else {
            own_s += exp(value - own_m);
        }
    }
    m = block_max(own_m);
    s = block_sum(own_s * exp(own_m - m));
}
"""

SOURCE = Source(
    MAX_AND_SUM
    + r"""
// One block for each row of x (rows, n).
template <typename T, typename A> __global__ void softmax_forward(
    const T* x, T* y, long long n, double lowest)
{
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    A m, s;
    max_and_sum<T, A>(x, 0, 0, n, A(lowest), m, s);
    for (long long j = threadIdx.x; j < n; j += blockDim.x) y[j] = T(exp(A(x[j]) - m) / s);
}

template <typename T, typename A> __global__ void log_softmax_forward(
    const T* x, T* y, long long n, double lowest)
{
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    A m, s;
    max_and_sum<T, A>(x, 0, 0, n, A(lowest), m, s);
    A log_s = log(s);
    for (long long j = threadIdx.x; j < n; j += blockDim.x) y[j] = T(A(x[j]) - m - log_s);
}

// The axes of x are (n0, n1, n2, n3, n). The mask has its own strides, the steps, which are 0
// along broadcast axes. If a row has no allowed element, the result is a row of zeros.
template <typename T, typename A> __global__ void masked_softmax_forward(
    const T* x, const bool* mask, T* y, long long n1, long long n2, long long n3, long long n,
    long long step0, long long step1, long long step2, long long step3, long long step,
    double lowest)
{
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    long long row = blockIdx.x;
    if (mask) {
        mask += row % n3 * step3 + row / n3 % n2 * step2 + row / n3 / n2 % n1 * step1
            + row / n3 / n2 / n1 * step0;
    }
    A m, s;
    max_and_sum<T, A>(x, mask, step, n, A(lowest), m, s);
    A total = s < 1 ? A(1) : s;  // s is at least exp(0), or 0 for an empty row
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        bool allowed = !mask || mask[j * step];
        y[j] = T((allowed ? exp(A(x[j]) - m) : A(0)) / total);
    }
}

template <typename T, typename A> __global__ void softmax_backward(
    const T* grad_y, const T* y, T* grad_x, long long n)
{
    grad_y += blockIdx.x * n;
    y += blockIdx.x * n;
    grad_x += blockIdx.x * n;
    A mean_grad = 0;  // y-weighted mean of grad_y
    for (long long j = threadIdx.x; j < n; j += blockDim.x) mean_grad += A(grad_y[j]) * A(y[j]);
    mean_grad = block_sum(mean_grad);
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        grad_x[j] = T(A(y[j]) * (A(grad_y[j]) - mean_grad));
    }
}

template <typename T, typename A> __global__ void log_softmax_backward(
    const T* grad_y, const T* y, T* grad_x, long long n)
{
    grad_y += blockIdx.x * n;
    y += blockIdx.x * n;
    grad_x += blockIdx.x * n;
    A total = 0;
    for (long long j = threadIdx.x; j < n; j += blockDim.x) total += A(grad_y[j]);
    total = block_sum(total);
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        grad_x[j] = T(A(grad_y[j]) - exp(A(y[j])) * total);
    }
}
""",
    "softmax_forward",
    "log_softmax_forward",
    "masked_softmax_forward",
    "softmax_backward",
    "log_softmax_backward",
)


def _forward(name, x):
    """Launch `softmax_forward` or `log_softmax_forward` on the rows of x (..., n)."""
    xp = array_module(x)
    (x,) = all_contiguous(x)
    n = x.shape[-1]
    y = xp.empty_like(x)
    SOURCE.launch(name, x.dtype, x.size // n, threads_for_row(n), x, y, n, LOWEST[x.dtype.name])
    return y


def _masked_forward(x, mask):
    """Launch `masked_softmax_forward` on x (..., n). `mask` broadcasts to x, or is None."""
    xp = array_module(x)
    (x,) = all_contiguous(x)
    sizes, steps = (1,) * (LEADING_AXES + 1), (0,) * (LEADING_AXES + 1)
    if mask is not None:
        mask = xp.broadcast_to(mask, x.shape)  # a view; 1 byte each, so strides count elements
        sizes = (*sizes[x.ndim :], *x.shape)
        steps = (*steps[x.ndim :], *mask.strides)
    n = x.shape[-1]
    y = xp.empty_like(x)
    SOURCE.launch(
        "masked_softmax_forward", x.dtype, x.size // n, threads_for_row(n),
        x, mask, y, *sizes[1:-1], n, *steps, LOWEST[x.dtype.name],
    )  # fmt: skip
    return y


def _backward(name, grad_y, y):
    """Launch `softmax_backward` or `log_softmax_backward`."""
    xp = array_module(y)
    grad_y, y = all_contiguous(grad_y, y)
    n = y.shape[-1]
    grad_x = xp.empty_like(y)
    SOURCE.launch(name, y.dtype, y.size // n, threads_for_row(n), grad_y, y, grad_x, n)
    return grad_x


def _takes(x, axis):
    return x.dtype.name in FLOATS and axis in (-1, x.ndim - 1) and math.prod(x.shape[-1:]) > 0


@register(Softmax)
class SoftmaxKernel:
    """CUDA kernels of softmax along the last axis: one launch forward and one backward."""

    name = "softmax"

    @staticmethod
    def accepts(x, *, axis):
        return _takes(x, axis)

    @classmethod
    def forward(cls, ctx, x, *, axis):
        y = _forward(f"{cls.name}_forward", x)
        ctx.axis = axis
        ctx.save(y)
        return y

    @classmethod
    def backward(cls, ctx, grad_y):
        return _backward(f"{cls.name}_backward", grad_y, *ctx.saved)


@register(LogSoftmax)
class LogSoftmaxKernel(SoftmaxKernel):
    """CUDA kernels of log-softmax along the last axis: one launch forward and one backward."""

    name = "log_softmax"


@register(MaskedSoftmax)
class MaskedSoftmaxKernel:
    """CUDA kernels of masked softmax along the last axis: one launch forward and one backward."""

    @staticmethod
    def accepts(x, mask, *, axis):
        return _takes(x, axis) and x.ndim <= LEADING_AXES + 1

    @staticmethod
    def forward(ctx, x, mask, *, axis):
        y = _masked_forward(x, mask)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        return _backward("softmax_backward", grad_y, *ctx.saved), None
