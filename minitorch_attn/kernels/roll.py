"""Roll on a GPU: a cyclic shift along all axes in one launch, for Swin's shifted windows.

    y[i_1, ..., i_k] = x[(i_1 - shift_1) mod n_1, ..., (i_k - shift_k) mod n_k]

CuPy's `roll` along two axes copies four rectangles, with one launch each. The backward pass would
take four more launches.
"""

import numpy as np

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.flip_roll_repeat import Roll
from .source import FLOATS, Source, all_contiguous

__all__ = ["RollKernel"]

THREADS, AXES = 256, 8
SHAPE = np.dtype([("sizes", "i8", AXES), ("shifts", "i8", AXES), ("axes", "i8")])

SOURCE = Source(
    r"""
struct Shape { long long sizes[8], shifts[8], axes; };

// One thread for each element i of y; 0 <= shift < size on every axis.
template <typename T, typename A> __global__ void roll(
    const T* x, T* y, const Shape shape, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long rest = i, source = 0, stride = 1;
    for (int axis = (int)shape.axes - 1; axis >= 0; --axis) {
        long long size = shape.sizes[axis], place = rest % size - shape.shifts[axis];
        source += (place < 0 ? place + size : place) * stride;
        rest /= size;
        stride *= size;
    }
    y[i] = x[source];
}
""",
    "roll",
)


@register(Roll)
class RollKernel:
    """CUDA kernel of `Roll`: one launch. The backward pass rolls in the other direction."""

    @staticmethod
    def accepts(x, *, shifts, dims):
        return x.dtype.name in FLOATS and 0 < x.ndim <= AXES and dims is not None

    @staticmethod
    def forward(ctx, x, *, shifts, dims):
        ctx.shifts, ctx.dims = shifts, dims
        return _rolled(x, shifts, dims)

    @staticmethod
    def backward(ctx, grad_y):
        return _rolled(grad_y, [-shift for shift in ctx.shifts], ctx.dims)


def _rolled(x, shifts, dims):
    (x,) = all_contiguous(x)
    shape = np.zeros((), SHAPE)
    shape["axes"], shape["sizes"][: x.ndim] = x.ndim, x.shape
    for shift, axis in zip(shifts, dims, strict=True):
        size = max(x.shape[axis], 1)
        shape["shifts"][axis] = (int(shape["shifts"][axis]) + shift) % size
    y = array_module(x).empty_like(x)
    SOURCE.launch("roll", x.dtype, -(-x.size // THREADS), THREADS, x, y, shape[()], x.size)
    return y
