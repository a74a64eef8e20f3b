"""Sampling a token on a GPU: from scores to an index in one launch, one block for each row.

    w_j = exp((s_j - max s) / temperature)
    index = the first j with w_0 + ... + w_j > level * (w_0 + ... + w_(n-1))

The level is a random number from 0 to 1. The kernel makes three passes over the row. They compute
the maximum, then the sum of all weights, then the cumulative sums until one exceeds level times the
sum of all weights. The cumulative sums of a tile of 256 weights take five steps within each warp:
each thread adds the current sum of the thread that is 1 place before it, then 2, 4, 8 and 16
places. Each warp then adds the sums of the warps before it. The weights and sums are in float64, as
in the array operations of `ops.draw_tokens`, which take about 12 launches.
"""

import numpy as np

from ..backend import array_module, device_of, from_host
from ..backend.kernel_table import register
from ..ops.draw_tokens import draw_tokens
from .source import FLOATS, Source, all_contiguous

__all__ = ["DrawKernel"]

THREADS = 256

SOURCE = Source(
    r"""
// A score divided by the temperature, rounded to T as in NumPy.
template <typename T, typename A> __device__ A scaled(A score, double temperature) {
    return A(T(score / A(T(A(temperature)))));
}

// The weight of a score; `largest` is the largest score divided by the temperature.
template <typename T, typename A> __device__ double weight(A score, A largest, double temperature) {
    return exp((double)A(T(scaled<T>(score, temperature) - largest)));
}

// The sum of the values of all threads up to and including this thread. `total` receives the sum of
// the whole block.
__device__ double sum_so_far(double value, double& total) {
    __shared__ double of_warp[8];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 1; step < 32; step *= 2) {
        double left = __shfl_up_sync(0xffffffff, value, step);
        if (lane >= step) value += left;
    }
    __syncthreads();  // all threads have read the result of the previous call
    if (lane == 31) of_warp[warp] = value;
    __syncthreads();
    double before = 0;
    total = 0;
    for (int other = 0; other < 8; ++other) {
        if (other < warp) before += of_warp[other];
        total += of_warp[other];
    }
    return before + value;
}

// One block of 256 threads for each row of scores (rows, n). `level` is used if `levels` is null.
template <typename T, typename A> __global__ void draw_tokens(
    const T* scores, const double* levels, long long* ids, long long n,
    double level, double temperature)
{
    __shared__ int first;
    scores += blockIdx.x * n;
    if (levels) level = levels[blockIdx.x];
    A largest = A(scores[0]);
    for (long long j = threadIdx.x; j < n; j += 256) {
        A s = A(scores[j]);
        largest = s > largest || s != s ? s : largest;
    }
    largest = scaled<T>(block_max(largest), temperature);
    double whole = 0, so_far = 0, of_tile;
    for (long long j = threadIdx.x; j - threadIdx.x < n; j += 256) {
        sum_so_far(j < n ? weight<T>(A(scores[j]), largest, temperature) : 0.0, of_tile);
        whole += of_tile;
    }
    if (threadIdx.x == 0) first = 0x7fffffff;
    for (long long j = threadIdx.x; j - threadIdx.x < n; j += 256) {
        double w = j < n ? weight<T>(A(scores[j]), largest, temperature) : 0.0;
        double sum = so_far + sum_so_far(w, of_tile);
        if (j < n && (sum > level * whole || sum >= whole)) atomicMin(&first, (int)j);
        so_far += of_tile;
        __syncthreads();
        if (first < 0x7fffffff) break;
    }
    if (threadIdx.x == 0) ids[blockIdx.x] = first < 0x7fffffff ? first : 0;  // 0: NaN
}
""",
    "draw_tokens",
)


@register(draw_tokens)
class DrawKernel:
    """CUDA kernel of `ops.draw_tokens`: one launch.

    If there are several rows, their levels (random numbers) are first copied to the device.
    """

    @staticmethod
    def accepts(scores, levels, temperature):
        return scores.dtype.name in FLOATS and 0 < scores.shape[1] < 2**31 - THREADS

    @staticmethod
    def run(scores, levels, temperature):
        (scores,) = all_contiguous(scores)
        rows, n = scores.shape
        ids = array_module(scores).empty(rows, "int64")
        level, on_device = float(levels[0, 0]) if rows == 1 else 0.0, None
        if rows > 1:
            on_device = from_host(np.ascontiguousarray(levels), device_of(scores))
        SOURCE.launch(
            "draw_tokens", scores.dtype, rows, THREADS,
            scores, on_device, ids, n, level, float(temperature),
        )  # fmt: skip
        return ids
