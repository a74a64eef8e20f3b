"""Linear layers for a few rows on a GPU: product, bias and activation in one launch.

    y_rj = f(sum over k of x_rk weight_jk + bias_j),   for at most 4 rows r

Generation computes one token at a time. Each product then reads the full weight matrix, but uses
each number in it only once or a few times. The time to read the weight therefore dominates in any
implementation. One warp of 32 threads processes one row of the weight, and reads 32 neighboring
numbers at once. Each thread keeps one partial sum for each row of x. At the end, the warp adds up
the 32 partial sums.

Several layers with the same input x share one launch. The query, key and value projections take
one launch instead of 3 products and 3 launches.
"""

import numpy as np

from ..backend import array_module
from .gelu import ACTIVATE, NUMBER
from .source import WARP, Source, all_contiguous

__all__ = ["are_few", "few_rows", "table_of_layers"]

THREADS, ROWS, LAYERS = 256, 4, 4
TABLE = np.dtype(
    [("x", "u8", LAYERS), ("weight", "u8", LAYERS), ("bias", "u8", LAYERS), ("n", "i8", LAYERS),
     ("layers", "i8")]
)  # fmt: skip

TABLE_SOURCE = r"""
// Up to four matrices (rows, n), each with the weight and the bias of its layer; bias may be null.
template <typename T> struct Table {
    T* x[4];
    const T* weight[4];
    T* bias[4];
    long long n[4];
    long long layers;
};
"""

SOURCE = Source(
    ACTIVATE
    + TABLE_SOURCE
    + r"""
// One warp for each row of the weights of all layers. The results go to table.x. f is -1
// without an activation.
template <typename T, typename A> __global__ void few_rows(
    const T* x, const Table<T> table, long long rows, long long width, long long f)
{
    long long j = blockIdx.x * (blockDim.x / 32LL) + threadIdx.x / 32;
    int layer = 0;
    while (layer < table.layers && j >= table.n[layer]) j -= table.n[layer++];
    if (layer == table.layers) return;
    const T* weight = table.weight[layer] + j * width;
    A sums[4] = {0, 0, 0, 0};
    for (long long k = threadIdx.x % 32; k < width; k += 32) {
        A w = A(weight[k]);
        #pragma unroll
        for (int row = 0; row < 4; ++row) {
            if (row < rows) sums[row] += w * A(x[row * width + k]);
        }
    }
    A bias = table.bias[layer] ? A(table.bias[layer][j]) : A(0);
    #pragma unroll
    for (int row = 0; row < 4; ++row) {
        if (row >= rows) break;
        A value = warp_sum(sums[row]) + bias, slope;
        if (f >= 0) value = activate(f, value, slope);
        if (threadIdx.x % 32 == 0) table.x[layer][row * table.n[layer] + j] = T(value);
    }
}
""",
    "few_rows",
)


def are_few(rows, *weights):
    """Return True if `few_rows` supports these rows and weights."""
    return 0 < len(rows) <= ROWS and all(w.flags.c_contiguous and w.size for w in weights)


def few_rows(rows, layers, activation=None):
    """Apply up to 4 linear layers to the same few rows, in one launch.

    Parameters
    ----------
    rows : CuPy array of shape (rows, in)
        At most 4 rows.
    layers : sequence of (weight, bias)
        At most 4 pairs of a contiguous weight (out, in) and a bias (out,) or None.
    activation : str, optional
        Activation function, a key of `gelu.NUMBER`. By default, none is applied.

    Returns
    -------
    list of CuPy arrays of shape (rows, out)
    """
    xp, (rows,) = array_module(rows), all_contiguous(rows)
    weights = [weight for weight, _ in layers]
    biases = all_contiguous(*[bias for _, bias in layers])
    ys = [xp.empty((len(rows), len(weight)), rows.dtype) for weight in weights]
    warps = sum(map(len, weights))
    SOURCE.launch(
        "few_rows", rows.dtype, -(-warps * WARP // THREADS), THREADS,
        rows, table_of_layers(ys, weights, biases), *rows.shape,
        -1 if activation is None else NUMBER[activation],
    )  # fmt: skip
    return ys


def table_of_layers(matrices, weights=(), biases=()):
    """Return the struct `Table` of up to 4 matrices that have the same number of rows."""
    table = np.zeros((), TABLE)
    for name, arrays in (("x", matrices), ("weight", weights), ("bias", biases)):
        table[name][: len(arrays)] = [0 if a is None else a.data.ptr for a in arrays]
    table["n"][: len(matrices)] = [matrix.shape[1] for matrix in matrices]
    table["layers"] = len(matrices)
    return table[()]
