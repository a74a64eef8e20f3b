"""Several linear layers with the same input on a GPU, such as the projections of attention.

    y_i = x @ weight_i^T + bias_i
    grad_x = sum over i of g_i @ weight_i,   grad_bias_i = column sums of g_i,   with g_i = dL/dy_i

`backend.matmul` computes the products. If the weights lie side by side in memory, and so do the g_i
(see `side_by_side`), one batched product computes all layers. One launch adds all biases in place,
one computes the column sums of all g_i, and one adds up the products g_i @ weight_i for grad_x.

The three projections of attention take 1 product and 1 launch forward, and 2 products and 2
launches backward. Separate layers take 3 products and 3 launches forward, and 6 products and 5
launches backward. For a few rows, as in generation, `few_rows` computes the forward pass, including
the products, in one launch.
"""

from ..backend import array_module, matmul
from ..backend.kernel_table import register
from ..ops.matmul import rows_of
from ..ops.projections import Projections, pairs
from .columns import OVER_STRIPES, TILES, column_grid, tile_grid
from .few_rows import LAYERS, TABLE_SOURCE, are_few, few_rows, table_of_layers
from .side_by_side import as_one, parts_of
from .source import FLOATS, Source, all_contiguous

__all__ = ["ProjectionsKernel"]

THREADS = 256

SOURCE = Source(
    OVER_STRIPES
    + TILES
    + TABLE_SOURCE
    + r"""
// x (rows, n) += bias (n), in place; blockIdx.y is the layer. If a layer has fewer columns than the
// widest layer, its surplus blocks have tiles without rows.
template <typename T, typename A> __global__ void add_biases(const Table<T> table, long long rows) {
    T* x = table.x[blockIdx.y];
    const T* bias = table.bias[blockIdx.y];
    long long n = table.n[blockIdx.y];
    if (!bias || n == 0) return;
    Tile tile(rows, n);
    if (tile.j >= n) return;
    A b = A(bias[tile.j]);
    for (long long row = tile.first_row; row < tile.end_row; row += 8) {
        long long i = row * n + tile.j;
        x[i] = T(A(x[i]) + b);
    }
}

// Write the column sums of each x (rows, n) to its bias, unless the bias is null. See `column_sum`.
template <typename T, typename A> __global__ void __launch_bounds__(1024) column_sums(
    const Table<T> table, long long rows)
{
    const T* x = table.x[blockIdx.y];
    T* here = table.bias[blockIdx.y];
    long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x, n = table.n[blockIdx.y];
    A sum = 0;
    if (here && j < n) {
        for (long long row = threadIdx.y; row < rows; row += blockDim.y) sum += A(x[row * n + j]);
    }
    sum = sum_over_stripes(sum);
    if (here && threadIdx.y == 0 && j < n) here[j] = T(sum);
}

// Add the other arrays of the table to the first, in place. Each array has n numbers.
template <typename T, typename A> __global__ void add_all(const Table<T> table, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    A sum = A(table.x[0][i]);
    for (int layer = 1; layer < table.layers; ++layer) sum += A(table.x[layer][i]);
    table.x[0][i] = T(sum);
}
""",
    "add_biases",
    "column_sums",
    "add_all",
)


def products(lefts, rights):
    """Return the products of pairs of matrices, by one batched product if possible.

    Parameters
    ----------
    lefts, rights : list of CuPy arrays of shape (n, k) and (k, m)
        One batched product is enough if the matrices of each list lie side by side in memory,
        possibly as transposed views, or are one and the same matrix.
    """
    left, right = batch_of(lefts), batch_of(rights)
    if left is None or right is None or max(len(left), len(right)) < len(lefts):
        return [matmul(a, b) for a, b in zip(lefts, rights, strict=True)]
    return parts_of(matmul(left, right))


def batch_of(matrices):
    """Return the matrices as one 3-D array that shares their memory, or None if impossible."""
    first = matrices[0]
    if all(matrix is first for matrix in matrices):
        return first[None]
    whole = as_one(matrices)
    if whole is None:
        whole = as_one([matrix.T for matrix in matrices])
        whole = None if whole is None else whole.swapaxes(1, 2)
    return whole


def add_biases(ys, biases):
    """Add biases in place to matrices (rows, out_i). Return the matrices. A bias may be None."""
    ys, biases = all_contiguous(*ys), all_contiguous(*biases)
    rows, widest = len(ys[0]), max(y.shape[1] for y in ys)
    if any(bias is not None for bias in biases):
        blocks, threads = tile_grid(rows, widest)
        SOURCE.launch(
            "add_biases", ys[0].dtype, (blocks, len(ys)), threads,
            table_of_layers(ys, biases=biases), rows,
        )  # fmt: skip
    return ys


def column_sums(matrices, wanted):
    """Return column sums of contiguous matrices (rows, n_i), or None where `wanted` is False."""
    if not any(wanted):
        return [None] * len(matrices)
    xp, dtype, rows = array_module(*matrices), matrices[0].dtype, len(matrices[0])
    sums = [
        xp.empty(m.shape[1], dtype) if want else None
        for m, want in zip(matrices, wanted, strict=True)
    ]
    blocks, threads = column_grid(rows, max(m.shape[1] for m in matrices))
    SOURCE.launch(
        "column_sums", dtype, (blocks, len(matrices)), threads,
        table_of_layers(matrices, biases=sums), rows,
    )  # fmt: skip
    return sums


def add_all(products):
    """Add contiguous arrays of equal shape. Store the sum in the first array, and return it."""
    if len(products) > 1:
        n = products[0].size
        table = table_of_layers(products)
        SOURCE.launch("add_all", products[0].dtype, -(-n // THREADS), THREADS, table, n)
    return products[0]


@register(Projections)
class ProjectionsKernel:
    """CUDA kernels of linear layers with the same input: one launch forward and two backward."""

    @staticmethod
    def accepts(x, *parameters):
        same = all(a is None or a.dtype == x.dtype for a in parameters)
        return same and x.dtype.name in FLOATS and len(parameters) <= 2 * LAYERS

    @staticmethod
    def forward(ctx, x, *parameters):
        ctx.save(x, *parameters)
        ctx.save_intermediate()  # nothing to save; this marks the op as fused
        rows, layers = rows_of(x), pairs(parameters)
        if are_few(rows, *parameters[::2]):
            ys = few_rows(rows, layers)
        else:  # (rows, in) @ (in, out)
            weights = [weight.T for weight in parameters[::2]]
            ys = add_biases(products([rows] * len(layers), weights), parameters[1::2])
        return tuple([y.reshape((*x.shape[:-1], y.shape[1])) for y in ys])

    @staticmethod
    def backward(ctx, *grad_ys):
        x, *parameters = ctx.saved
        need_x, *needs = ctx.needs_grad
        rows, weights = rows_of(x), parameters[::2]
        grads = all_contiguous(*[rows_of(grad_y) for grad_y in grad_ys])
        grad_x = None
        if need_x:  # (rows, out) @ (out, in)
            grad_x = add_all(all_contiguous(*products(grads, weights))).reshape(x.shape)
        sums = column_sums(grads, needs[1::2])
        grad_weights = [None] * len(weights)
        if all(needs[::2]):  # (out, rows) @ (rows, in)
            grad_weights = products([g.T for g in grads], [rows] * len(grads))
        elif any(needs[::2]):
            pairs_needed = zip(grads, needs[::2], strict=True)
            grad_weights = [matmul(g.T, rows) if need else None for g, need in pairs_needed]
        return grad_x, *[g for pair in zip(grad_weights, sums, strict=True) for g in pair]
