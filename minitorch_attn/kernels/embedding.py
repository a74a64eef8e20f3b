"""Gradient of an embedding on a GPU: bitwise reproducible sums of the rows with the same id.

    y[r] = sum of x[i] over the positions i with ids[i] = r,   optionally divided by their number

The order of atomic additions changes from run to run, so a resumed run could differ from an
uninterrupted one. Here, one thread adds up each element of y in the order of the positions. For a
table with few rows, one launch is enough: each row of y has its own blocks, which compare all ids
with the number of the row. For a large table, comparing every row number with every id would take
too long. In this case, a stable sort of the ids comes first, and each segment of equal ids in the
sorted list has its own blocks.
"""

import math

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.embedding import RowSum
from .source import FLOATS, Source, all_contiguous

__all__ = ["RowSumKernel"]

THREADS = 128  # threads of a block, one for each column
FEW = 1 << 22  # up to this number of comparisons of a row with an id, do not sort

SOURCE = Source(
    r"""
// In block (r, part), thread t computes column 128 part + t of y[r], and visits all ids, 128 at a
// time.
template <typename T, typename A> __global__ void sum_by_looking(
    const T* x, const long long* ids, T* y, long long n, long long width,
    long long padding, long long by_frequency)
{
    __shared__ long long here[128];
    long long row = blockIdx.x, j = blockIdx.y * 128LL + threadIdx.x, count = 0;
    A sum = 0;
    for (long long start = 0; start < n; start += 128) {
        __syncthreads();
        if (start + threadIdx.x < n) here[threadIdx.x] = ids[start + threadIdx.x];
        __syncthreads();
        for (long long k = 0; k < 128 && start + k < n; ++k) {
            if (here[k] != row) continue;  // the same branch for the whole block
            ++count;
            if (j < width) sum += A(x[(start + k) * width + j]);
        }
    }
    if (by_frequency && count) sum /= count;
    if (j < width) y[row * width + j] = row == padding ? T(A(0)) : T(sum);
}

// Block (i, part) does nothing unless a segment of equal ids starts at index i of the sorted list.
// order[i] is the position of the i-th smallest id. y must contain zeros before the launch.
template <typename T, typename A> __global__ void sum_of_segment(
    const T* x, const long long* ids, const long long* order, T* y, long long n, long long width,
    long long padding, long long by_frequency)
{
    long long i = blockIdx.x, row = ids[order[i]], j = blockIdx.y * 128LL + threadIdx.x;
    if ((i > 0 && ids[order[i - 1]] == row) || row == padding || j >= width) return;
    long long end = i;
    A sum = 0;
    for (; end < n && ids[order[end]] == row; ++end) sum += A(x[order[end] * width + j]);
    if (by_frequency) sum /= end - i;
    y[row * width + j] = T(sum);
}
""",
    "sum_by_looking",
    "sum_of_segment",
)


@register(RowSum)
class RowSumKernel:
    """CUDA kernels of `RowSum`: one launch, after a sort if there are many rows and ids."""

    backward = RowSum.backward

    @staticmethod
    def accepts(x, ids, *, rows, padding_idx, by_frequency):
        return x.dtype.name in FLOATS

    @staticmethod
    def forward(ctx, x, ids, *, rows, padding_idx, by_frequency):
        ctx.padding_idx, ctx.by_frequency = padding_idx, by_frequency
        ctx.save(ids)
        xp, row = array_module(x), x.shape[ids.ndim :]
        n, width = ids.size, math.prod(row)
        x, ids = all_contiguous(x, ids.astype("int64", copy=False))
        padding = -1 if padding_idx is None else padding_idx % rows
        settings = (n, width, padding, int(by_frequency))
        parts = -(-width // THREADS)
        if rows * n <= FEW:
            y = xp.empty((rows, *row), x.dtype)
            SOURCE.launch("sum_by_looking", x.dtype, (rows, parts), THREADS, x, ids, y, *settings)
            return y
        y, order = xp.zeros((rows, *row), x.dtype), ids.reshape(-1).argsort()
        SOURCE.launch("sum_of_segment", x.dtype, (n, parts), THREADS, x, ids, order, y, *settings)
        return y
