"""Rotary position embedding on a GPU: one launch forward and one backward.

    y_a = a cos t - b sin t,   y_b = b cos t + a sin t

for each pair (a, b) of features of x, where t is the angle of the pair. The backward pass is the
same with -sin t. The array operations take 8 launches forward and 9 backward. The queries and keys
of an attention layer are transposed views, and the angles broadcast over batch and heads. The
kernel takes the strides of all arrays, so none of them is copied.
"""

import numpy as np

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.rotary import Rotary
from .source import FLOATS, Source

__all__ = ["RotaryKernel"]

THREADS, AXES = 256, 8
PAIRS = np.dtype(
    [("sizes", "i8", AXES), ("x_steps", "i8", AXES), ("cos_steps", "i8", AXES),
     ("sin_steps", "i8", AXES), ("axes", "i8")]
)  # fmt: skip

SOURCE = Source(
    r"""
// Sizes of (..., token, head_dim / 2), and the steps from one index to the next on each axis, which
// are 0 where cos or sin broadcast.
struct Pairs { long long sizes[8], x_steps[8], cos_steps[8], sin_steps[8], axes; };

// One thread for each pair of features (a, b). x_gap is the distance from a to b in x. In y, which
// is contiguous, y_step is the distance from one pair to the next, and y_gap that from a to b.
template <typename T, typename A> __global__ void rotary(
    const T* x, const T* cos, const T* sin, T* y, const Pairs pairs, long long n,
    long long x_gap, long long y_step, long long y_gap, double sign)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long rest = i;
    for (int axis = (int)pairs.axes - 1; axis >= 0; --axis) {
        long long place = rest % pairs.sizes[axis];
        x += place * pairs.x_steps[axis];
        cos += place * pairs.cos_steps[axis];
        sin += place * pairs.sin_steps[axis];
        rest /= pairs.sizes[axis];
    }
    long long half = pairs.sizes[pairs.axes - 1];
    y += i / half * 2 * half + i % half * y_step;
    A a = A(x[0]), b = A(x[x_gap]), c = A(*cos), s = A(*sin) * A(sign);
    y[0] = T(a * c - b * s);
    y[y_gap] = T(b * c + a * s);
}
""",
    "rotary",
)


@register(Rotary)
class RotaryKernel:
    """CUDA kernel of `Rotary`: one launch. The backward pass rotates by the opposite angle."""

    @staticmethod
    def accepts(x, cos, sin, *, interleaved):
        return x.dtype.name in FLOATS and x.dtype == cos.dtype == sin.dtype and x.ndim <= AXES

    @staticmethod
    def forward(ctx, x, cos, sin, *, interleaved):
        ctx.interleaved = interleaved
        ctx.constants(cos, sin)
        return rotated(x, cos, sin, interleaved, 1.0)

    @staticmethod
    def backward(ctx, grad_y):
        return rotated(grad_y, *ctx.constant, ctx.interleaved, -1.0), None, None


def rotated(x, cos, sin, interleaved, sign):
    """Return x rotated by the angle whose cosine is `cos` and whose sine is `sign * sin`.

    Parameters
    ----------
    x : CuPy array of shape (..., token, head_dim)
    cos, sin : CuPy arrays that broadcast to (..., token, head_dim / 2)
    interleaved : bool
    sign : float
        1, or -1 for the opposite rotation.
    """
    half = x.shape[-1] // 2
    y = array_module(x).empty(x.shape, x.dtype)
    step, gap = (2, 1) if interleaved else (1, half)
    pairs = np.zeros((), PAIRS)
    pairs["sizes"][: x.ndim], pairs["axes"] = (*x.shape[:-1], half), x.ndim
    x_steps = [s // x.itemsize for s in x.strides]
    pairs["x_steps"][: x.ndim] = [*x_steps[:-1], step * x_steps[-1]]
    pairs["cos_steps"][: x.ndim] = _steps(cos, x.ndim)
    pairs["sin_steps"][: x.ndim] = _steps(sin, x.ndim)
    SOURCE.launch(
        "rotary", x.dtype, -(-(x.size // 2) // THREADS), THREADS,
        x, cos, sin, y, pairs[()], x.size // 2, gap * x_steps[-1], step, gap, sign,
    )  # fmt: skip
    return y


def _steps(array, ndim):
    """Return strides in elements for `ndim` axes. Missing axes and axes of size 1 have stride 0."""
    pairs = zip(array.shape, array.strides, strict=True)
    return [0] * (ndim - array.ndim) + [0 if n == 1 else s // array.itemsize for n, s in pairs]
