"""Column sums on a GPU, for the gradients of biases and of the parameters of norms.

    sums_j = sum over rows i of x_ij

A block processes a few neighboring columns, and its threads divide the rows into stripes.
Thread (j, s) adds up the rows s, s + stripes, s + 2 stripes, ... of column j. Then the sums of the
stripes are added pairwise. Every block sums its columns over all rows, so one launch is enough.
Unlike with atomic additions, the order of the additions is the same in every run, so the sums are
bitwise reproducible.
"""

from ..backend import array_module
from .source import Source

__all__ = ["OVER_STRIPES", "TILES", "column_grid", "column_sum", "tile_grid"]

THREADS = 1024  # maximum number of threads of a block
NARROW, WIDE, MANY = 8, 32, 4096  # columns of a block: NARROW below MANY columns, else WIDE

OVER_STRIPES = r"""
// For each threadIdx.x, sum the values of the threads over threadIdx.y. Every thread of the block
// must call this function. The threads with threadIdx.y = 0 receive the sum. blockDim.y is a power
// of 2.
template <typename A> __device__ A sum_over_stripes(A value) {
    __shared__ A values[1024];
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    values[i] = value;
    for (int half = blockDim.y / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half) values[i] += values[i + half * blockDim.x];
    }
    value = values[i];
    __syncthreads();  // before the next call
    return value;
}
"""

TILES = r"""
// A block of 32 x 8 threads processes a tile of 32 columns and 64 rows of a matrix of n columns. A
// thread processes column j in the rows first_row, first_row + 8, ..., below end_row. If j >= n, it
// must do nothing.
struct Tile {
    long long j, first_row, end_row;
    __device__ Tile(long long rows, long long n) {
        long long across = (n + 31) / 32, row = blockIdx.x / across * 64;
        j = blockIdx.x % across * 32 + threadIdx.x;
        first_row = row + threadIdx.y;
        end_row = row + 64 < rows ? row + 64 : rows;
    }
};
"""

SOURCE = Source(
    OVER_STRIPES
    + r"""
// Sum the columns of x (rows, n), which may have any strides row_step and column_step.
template <typename T, typename A> __global__ void __launch_bounds__(1024) column_sum(
    const T* x, T* sums, long long rows, long long n, long long row_step, long long column_step)
{
    long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    A sum = 0;
    if (j < n) {
        for (long long row = threadIdx.y; row < rows; row += blockDim.y) {
            sum += A(x[row * row_step + j * column_step]);
        }
    }
    sum = sum_over_stripes(sum);
    if (threadIdx.y == 0 && j < n) sums[j] = T(sum);
}
""",
    "column_sum",
)


def column_sum(x):
    """Return the sum of each column, in one launch.

    Parameters
    ----------
    x : CuPy array of shape (rows, n)

    Returns
    -------
    CuPy array of shape (n,)
    """
    rows, n = x.shape
    sums = array_module(x).empty(n, x.dtype)
    row_step, column_step = [step // x.itemsize for step in x.strides]
    SOURCE.launch(
        "column_sum", x.dtype, *column_grid(rows, n), x, sums, rows, n, row_step, column_step
    )
    return sums


def column_grid(rows, n):
    """Return the number of blocks, and the shape of a block in threads: (columns, stripes).

    If there are few columns, blocks are narrow, so that more blocks run at once. A block has at
    least eight columns, because eight float32 numbers are 32 bytes, the smallest amount of memory
    that a GPU reads at once.
    """
    columns = NARROW if n < MANY else WIDE
    stripes = THREADS // columns
    while stripes > 1 and stripes >= 2 * rows:
        stripes //= 2
    return -(-n // columns), (columns, stripes)


def tile_grid(rows, n):
    """Return the number of blocks, and their shape in threads, for a kernel that uses `Tile`."""
    return -(-rows // 64) * -(-n // 32), (32, 8)
