"""One launch for many arrays: gathering gradients, their norm, clipping, and Adam's update.

A typical model has a hundred parameters, most of them small. Launching a kernel for each of them
would take longer than all the arithmetic. Each kernel here therefore receives a table of addresses
and treats the arrays as one vector:

    element i of the vector is element i - start[a] of array a,   start[a] <= i < start[a + 1]

The table is an argument of the launch, so it is not copied from the host to the device first.
Arguments are limited to 4 KB, which is enough for 128 arrays. Longer lists take several launches.
For up to 128 arrays, the kernels take 1 launch to gather, 2 for a norm, 1 to scale, 1 to undo a
loss scale, and 1 for the update of `optim.Adam` or `optim.AdamW`. The formulas of the update are in
`optim.adam`.
"""

import math

import numpy as np

from ..amp.unscale import unscale_all
from ..backend import array_module
from ..backend.graph_capture import live_numbers
from ..backend.kernel_table import register
from ..nn.utils.clip_grad import scale_all, square_root_of_sum_of_squares
from ..optim.adam import Adam, AdamW
from ..optim.flat_buffer import join
from .source import FLOATS, Source

__all__ = [
    "AdamKernel", "AdamWKernel", "GatherKernel", "NormKernel", "ScaleKernel", "UnscaleKernel",
]  # fmt: skip

AT_ONCE = 128  # arrays in a table
THREADS, BLOCKS = 256, 512  # BLOCKS: largest number of blocks (partial sums) of `many_squares`
TABLE = np.dtype([("at", "u8", AT_ONCE), ("start", "i8", AT_ONCE + 1), ("arrays", "i8")])

SOURCE = Source(
    r"""
template <typename T> struct Table {
    T* at[128];            // address of each array
    long long start[129];  // where it starts in the vector
    long long arrays;
    __device__ T& operator[](long long i) const {
        int low = 0, high = (int)arrays;  // the last array with start <= i, by bisection
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (start[middle] <= i) low = middle; else high = middle;
        }
        return at[low][i - start[low]];
    }
};

template <typename T, typename A> __global__ void many_gather(
    const Table<T> arrays, T* out, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = arrays[i];
}

// Multiply every element by one number, which is on the device.
template <typename T, typename A> __global__ void many_scale(
    const Table<T> arrays, const T* factor, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) arrays[i] = T(A(arrays[i]) * A(*factor));
}

// Multiply every element by a number. Write 1 to `found` if an element is infinite or NaN.
template <typename T, typename A> __global__ void many_unscale(
    const Table<T> arrays, float* found, long long n, double factor)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    A value = A(arrays[i]);
    if (!(value - value == 0)) *found = 1;  // inf - inf and NaN - NaN are NaN
    arrays[i] = T(value * A(factor));
}

// Each block writes one partial sum of squares, over every gridDim.x-th piece of the vector.
template <typename T, typename A> __global__ void many_squares(
    const Table<T> arrays, A* partial, long long n)
{
    A sum = 0;
    long long stride = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) {
        A value = A(arrays[i]);
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: the square root of the sum of n partial sums.
template <typename T, typename A> __global__ void root_of_sum(
    const A* partial, T* norm, long long n)
{
    A sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *norm = T(sqrt(sum));
}

// One thread for each element of the parameters p, with gradient g and running averages m and v.
// With AMSGrad, `largest` is the largest v so far; otherwise it is null.
template <typename T, typename A> __global__ void adam(
    const Table<T> grads, T* p, T* m, T* v, T* largest, long long n,
    double lr, double beta1, double beta2, double eps, double decay,
    double root, double rate, long long decoupled, long long maximize, const double* live)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (live) {  // in a CUDA graph
        lr = live[0]; beta1 = live[1]; beta2 = live[2]; eps = live[3]; decay = live[4];
        root = live[5]; rate = live[6];
    }
    A value = A(p[i]), g = A(grads[i]);
    if (maximize) g = -g;
    if (decay != 0 && decoupled) value *= A(1 - lr * decay);
    else if (decay != 0) g += value * A(decay);
    A mean = A(m[i]) + (g - A(m[i])) * A(1 - beta1);  // beta1 m + (1 - beta1) g
    A square = A(v[i]) * A(beta2) + g * g * A(1 - beta2);
    m[i] = T(mean);
    v[i] = T(square);
    if (largest) {
        A before = A(largest[i]);
        square = before > square || before != before ? before : square;
        largest[i] = T(square);
    }
    p[i] = T(value - mean / (sqrt(square) + A(eps * root)) * A(rate));
}
""",
    "many_gather",
    "many_scale",
    "many_unscale",
    "many_squares",
    "root_of_sum",
    "adam",
)


def tables(arrays):
    """Divide arrays into groups of at most 128. Yield (table, n, start) for each group.

    Parameters
    ----------
    arrays : list of contiguous CuPy arrays of one dtype

    Yields
    ------
    table : numpy.void
        The struct `Table` of the group.
    n : int
        Number of elements of the group's arrays.
    start : int
        Number of elements of the preceding groups.
    """
    before = 0
    arrays = [array for array in arrays if array.size]
    for first in range(0, len(arrays), AT_ONCE):
        part = arrays[first : first + AT_ONCE]
        table = np.zeros((), TABLE)
        table["at"][: len(part)] = [array.data.ptr for array in part]
        ends = np.cumsum([array.size for array in part])
        table["start"][1 : len(part) + 1] = ends
        table["arrays"] = len(part)
        n = int(ends[-1])
        yield table[()], n, before
        before += n


def _blocks(n):
    return -(-n // THREADS)


def _same_kind(*arrays):
    """Return True for contiguous arrays of one dtype that the kernels support."""
    dtypes = {array.dtype for array in arrays}
    return len(dtypes) == 1 and dtypes.pop().name in FLOATS and all(
        array.flags.c_contiguous for array in arrays
    )  # fmt: skip


@register(join)
class GatherKernel:
    """CUDA kernel of `optim.flat_buffer.join`: one launch."""

    @staticmethod
    def accepts(pieces, out):
        return _same_kind(out, *pieces)

    @staticmethod
    def run(pieces, out):
        for table, n, start in tables(pieces):
            SOURCE.launch("many_gather", out.dtype, _blocks(n), THREADS, table, out[start:], n)


@register(square_root_of_sum_of_squares)
class NormKernel:
    """Compute the norm of all arrays together, in two launches."""

    @staticmethod
    def accepts(arrays):
        return _same_kind(*arrays)

    @staticmethod
    def run(arrays):
        xp, dtype = array_module(arrays[0]), arrays[0].dtype
        wide = "float32" if dtype.itemsize == 2 else dtype
        found = list(tables(arrays))
        counts = [min(_blocks(n), BLOCKS) for _, n, _ in found]
        partial, done = xp.empty(sum(counts), wide), 0
        for (table, n, _), count in zip(found, counts, strict=True):
            SOURCE.launch("many_squares", dtype, count, THREADS, table, partial[done:], n)
            done += count
        norm = xp.empty((), dtype)
        SOURCE.launch("root_of_sum", dtype, 1, THREADS, partial, norm, done)
        return norm


@register(scale_all)
class ScaleKernel:
    """Multiply all arrays by one number on the device, in one launch."""

    @staticmethod
    def accepts(arrays, factor):
        return _same_kind(factor, *arrays)

    @staticmethod
    def run(arrays, factor):
        for table, n, _ in tables(arrays):
            SOURCE.launch("many_scale", factor.dtype, _blocks(n), THREADS, table, factor, n)


@register(unscale_all)
class UnscaleKernel:
    """Divide all gradients by the loss scale and look for infinity and NaN, in one launch."""

    @staticmethod
    def accepts(arrays, factor):
        return _same_kind(*arrays)

    @staticmethod
    def run(arrays, factor):
        dtype, found = arrays[0].dtype, array_module(arrays[0]).zeros((), "float32")
        for table, n, _ in tables(arrays):
            SOURCE.launch("many_unscale", dtype, _blocks(n), THREADS, table, found, n, factor)
        return found


def _adam_numbers(group, step):
    """Return the kernel arguments that may change between updates: options and bias corrections."""
    lr, eps, decay = float(group["lr"]), float(group["eps"]), float(group["weight_decay"])
    beta1, beta2 = group["betas"]
    root = math.sqrt(1.0 - beta2**step)
    rate = lr * root / (1.0 - beta1**step)
    return [lr, float(beta1), float(beta2), eps, decay, root, rate]


@register(Adam)
class AdamKernel:
    """Update all parameters in a flat buffer as `optim.Adam` does, in one launch."""

    decoupled = False

    @staticmethod
    def accepts(values, *grads):
        return _same_kind(values, *grads)

    @classmethod
    def run(cls, group, updates, value, grads, m, v, largest=None):
        """Update one range of the flat parameter buffer, and of the buffers m and v, in place.

        Parameters
        ----------
        group : dict
            Options, as in `Optimizer.param_groups`.
        updates : callable
            `updates()` returns the number of the current update, counted from 1. In a CUDA graph,
            each replay calls it again.
        value, m, v, largest : arrays of shape (n,)
            The range in each flat buffer: parameters, m, v and, with AMSGrad, the largest v.
        grads : list of arrays
            Gradients of the parameters in this range, n elements in all.
        """
        live = live_numbers(lambda: _adam_numbers(group, updates()))
        numbers = _adam_numbers(group, updates())
        for table, n, start in tables(grads):
            here = [None if b is None else b[start:] for b in (value, m, v, largest)]
            SOURCE.launch(
                "adam", value.dtype, _blocks(n), THREADS, table, *here, n,
                *numbers, int(cls.decoupled), int(group["maximize"]), live,
            )  # fmt: skip


@register(AdamW)
class AdamWKernel(AdamKernel):
    """Update all parameters in a flat buffer as `optim.AdamW` does, in one launch."""

    decoupled = True
