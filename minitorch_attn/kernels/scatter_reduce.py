"""Scatter with a maximum or minimum on a GPU: y[index[i]] = max(y[index[i]], src[i]).

The order of the comparisons does not change the result, so they may be atomic. CuPy's `maximum.at`
rounds float64 to float32 (its `atomicMax` for double calls `fmaxf`) and loses NaN. This kernel does
not round, and NaN wins, as in NumPy. A thread replaces an element by compare-and-swap on its bits.
If another thread was faster, the swap fails and the thread tries again.
"""

import numpy as np

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.scatter_reduce import extreme_at
from .source import Source, all_contiguous

__all__ = ["ExtremeKernel"]

THREADS = 256
FLOATS = {"float32": ("float", "int"), "float64": ("double", "unsigned long long")}

SOURCE = Source(
    r"""
// Should v replace the present value?
template <typename T> __device__ bool wins(T v, T present, bool largest) {
    if (present != present) return false;  // NaN stays
    return v != v || (largest ? v > present : v < present);
}

__device__ bool swap(float* place, float& present, float v) {
    int before = __float_as_int(present);
    int found = atomicCAS(reinterpret_cast<int*>(place), before, __float_as_int(v));
    present = __int_as_float(found);
    return found == before;
}

__device__ bool swap(double* place, double& present, double v) {
    unsigned long long before = __double_as_longlong(present);
    unsigned long long found = atomicCAS(
        reinterpret_cast<unsigned long long*>(place), before,
        (unsigned long long)__double_as_longlong(v));
    present = __longlong_as_double((long long)found);
    return found == before;
}

// One thread for each i: y[place[i]] and src[i].
template <typename T, typename A> __global__ void extreme_at(
    T* y, const long long* place, const T* src, long long n, long long largest)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    T* here = y + place[i];
    T present = *here;
    while (wins(src[i], present, largest != 0) && !swap(here, present, src[i])) {}
}
""",
    "extreme_at",
    types=FLOATS,
)


@register(extreme_at)
class ExtremeKernel:
    """CUDA kernel of `ops.scatter_reduce.extreme_at`: one launch.

    The indices are first prepared by array operations, which take a few more launches.
    """

    @staticmethod
    def accepts(y, grid, src, largest):
        return y.dtype == src.dtype and y.dtype.kind == "f" and y.flags.c_contiguous

    @staticmethod
    def run(y, grid, src, largest):
        xp = array_module(y)
        place = xp.arange(y.size).reshape(y.shape)[grid]
        src, wide = xp.broadcast_to(src, place.shape), y
        if y.dtype == np.float16:
            wide, src = y.astype("float32"), src.astype("float32")
        place, src = all_contiguous(place, src)
        blocks = -(-place.size // THREADS)
        SOURCE.launch(
            "extreme_at", wide.dtype, blocks, THREADS, wide, place, src, place.size, int(largest)
        )
        if wide is not y:
            y[...] = wide.astype(y.dtype)
