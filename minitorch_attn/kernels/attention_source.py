"""CUDA source of the attention kernels: tiles, the online softmax, and the gradients.

A block of 16 x 16 threads processes 64 rows of one head. The rows are queries and the columns are
keys, except in `attention_grad_key_value`, where the rows are keys and the columns are queries. The
block visits 64 columns at a time (32 in float64), and computes a tile of scores for its rows and
these columns. Thread (x, y) keeps rows y, y + 16, y + 32, y + 48 of its block and columns x, x +
16, ... of a tile in registers. The 16 threads with the same y, which share these rows, are half a
warp, so they compute sums and maxima over a row by warp shuffles.

Two functions compute all products of tiles: `dot_rows` computes dot products of rows (scores), and
`add_weighted_rows` computes weighted sums of rows (context, gradients). They copy 16 columns or
rows at a time to shared memory.
"""

from .philox import PHILOX
from .source import Source

__all__ = ["LARGEST_DIM", "OWN", "SIDE", "SOURCE"]

OWN = 64  # rows of a block
SIDE = 16  # threads along each of the two axes of a block
LARGEST_DIM = 128

SOURCE = Source(
    PHILOX
    + r"""
constexpr int OWN = 64, SIDE = 16, LARGEST_DIM = 128;
constexpr int PER_ROW = LARGEST_DIM / SIDE;  // features of one row that a thread sums up

// One head of an array: rows are tokens, columns are features. The strides count elements.
template <typename T> struct Matrix {
    T* data;
    long long rows, columns, row_stride, column_stride;
    __device__ T& operator()(long long row, long long column) const {
        return data[row * row_stride + column * column_stride];
    }
};

// An array of shape (batch, head, group, token, feature): its address and its strides.
template <typename T> struct Heads {
    T* data;
    long long batch, head, group, token, feature;
    __device__ Matrix<T> at(const long long (&place)[3], long long rows, long long columns) const {
        T* start = data + place[0] * batch + place[1] * head + place[2] * group;
        return {start, rows, columns, token, feature};
    }
};

// A mask: `bias` has numbers to add to the scores, or `allowed` is false for scores to leave out.
// Both are null without a mask. The strides are those of (batch, head, group, query, key), and 0
// along axes that broadcast.
template <typename T> struct Mask {
    const T* bias;
    const bool* allowed;
    long long batch, head, group, query, key;
    __device__ void move_to(const long long (&place)[3]) {
        long long start = place[0] * batch + place[1] * head + place[2] * group;
        if (bias) bias += start;
        if (allowed) allowed += start;
    }
};

struct Sizes {
    long long batch, heads, groups;  // groups: query heads that share one head of key and value
    long long queries, keys, dim, value_dim;
    long long causal;  // 1: query i attends to keys 0 to i
};

// Dropout draws a mask (batch, head, group, draw_rows, key) for every `draw_rows` queries.
struct Dropout {
    long long threshold;  // -1 without dropout
    long long seed, offset;
    const unsigned long long* live;  // argument of `keep_bits`
    long long draw_rows;
};

template <typename A> struct Shared {
    static constexpr int COLUMNS = sizeof(A) == 8 ? 32 : 64;  // tokens visited at a time
    static constexpr int PER_TILE = COLUMNS / SIDE;
    A left[OWN][SIDE + 1], right[COLUMNS][SIDE + 1];  // + 1 avoids bank conflicts
    A weights[OWN][COLUMNS + 1];
    A rows[SIDE][LARGEST_DIM];
    unsigned short kept[OWN * COLUMNS / 16];  // bits of the dropout mask: (query, 16 keys)
};

template <typename A> __device__ A infinity() { return A(__int_as_float(0x7f800000)); }

// The sum, or the maximum, over the 16 threads of a row.
template <typename A> __device__ A row_sum(A value) {
    for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}

template <typename A> __device__ A row_max(A value) {
    for (int step = 8; step > 0; step /= 2) {
        A other = __shfl_xor_sync(0xffffffff, value, step);
        value = other > value || other != other ? other : value;  // NaN wins
    }
    return value;
}

// Copy part of a matrix to shared memory, from (row, column) on. Elements outside become 0.
template <int HEIGHT, int PITCH, typename T, typename A> __device__ void load(
    A (&to)[HEIGHT][PITCH], long long width, const Matrix<T>& from, long long row, long long column)
{
    for (int r = threadIdx.y; r < HEIGHT; r += SIDE) {
        for (int c = threadIdx.x; c < width; c += SIDE) {
            bool inside = row + r < from.rows && column + c < from.columns;
            to[r][c] = inside ? A(from(row + r, column + c)) : A(0);
        }
    }
}

// Compute the tile (OWN, COLUMNS) of dot products left[row + r] . right[column + c] in `dots`.
template <typename T, typename A> __device__ void dot_rows(
    A (&dots)[4][Shared<A>::PER_TILE], Shared<A>& shared,
    const Matrix<T>& left, long long row, const Matrix<T>& right, long long column)
{
    constexpr int PER_TILE = Shared<A>::PER_TILE;
    int x = threadIdx.x, y = threadIdx.y;
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < PER_TILE; ++c) dots[r][c] = 0;
    for (long long start = 0; start < left.columns; start += SIDE) {
        __syncthreads();  // all threads have read what is overwritten now
        load(shared.left, SIDE, left, row, start);
        load(shared.right, SIDE, right, column, start);
        __syncthreads();
        for (int d = 0; d < SIDE; ++d) {
            A of_left[4], of_right[PER_TILE];
            for (int r = 0; r < 4; ++r) of_left[r] = shared.left[y + SIDE * r][d];
            for (int c = 0; c < PER_TILE; ++c) of_right[c] = shared.right[x + SIDE * c][d];
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < PER_TILE; ++c) dots[r][c] += of_left[r] * of_right[c];
        }
    }
}

// sums (OWN, features) += shared.weights (OWN, COLUMNS) @ from[first: first + COLUMNS].
template <typename T, typename A> __device__ void add_weighted_rows(
    A (&sums)[4][PER_ROW], Shared<A>& shared, const Matrix<T>& from, long long first)
{
    int x = threadIdx.x, y = threadIdx.y;
    for (int start = 0; start < Shared<A>::COLUMNS && first + start < from.rows; start += SIDE) {
        __syncthreads();
        load(shared.rows, from.columns, from, first + start, 0);
        __syncthreads();
        for (int j = 0; j < SIDE; ++j) {
            A weight[4];
            for (int r = 0; r < 4; ++r) weight[r] = shared.weights[y + SIDE * r][start + j];
#pragma unroll
            for (int c = 0; c < PER_ROW; ++c) {
                if (x + SIDE * c >= from.columns) break;
                A value = shared.rows[j][x + SIDE * c];
                for (int r = 0; r < 4; ++r) sums[r][c] += weight[r] * value;
            }
        }
    }
}

// Write factor * sums to rows first, first + 1, ... of a matrix.
template <typename T, typename A> __device__ void store(
    const Matrix<T>& to, long long first, const A (&sums)[4][PER_ROW], A factor)
{
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        long long row = first + threadIdx.y + SIDE * r;
#pragma unroll
        for (int c = 0; c < PER_ROW; ++c) {
            int column = threadIdx.x + SIDE * c;
            if (row < to.rows && column < to.columns) to(row, column) = T(factor * sums[r][c]);
        }
    }
}

// The score of query i and key j from their product: -inf where i does not attend to j.
template <typename T, typename A> __device__ A score(
    A product, A scale, long long i, long long j, const Sizes& n, const Mask<T>& mask)
{
    if (i >= n.queries || j >= n.keys || (n.causal && j > i)) return -infinity<A>();
    long long at = i * mask.query + j * mask.key;
    if (mask.allowed && !mask.allowed[at]) return -infinity<A>();
    return mask.bias ? scale * product + A(mask.bias[at]) : scale * product;
}

// Draw the dropout mask of a tile: queries i, i + 1, ... and keys j, j + 1, ... of head `lead`.
template <typename A, int QUERIES, int KEYS> __device__ void draw(
    Shared<A>& shared, const Dropout& dropout, const Sizes& n, long long lead,
    long long i, long long j)
{
    if (dropout.threshold < 0) return;
    __syncthreads();  // all threads have read the last mask
    int thread = threadIdx.y * SIDE + threadIdx.x;
    if (thread >= QUERIES * KEYS / 16) return;
    long long query = i + thread / (KEYS / 16), key = j + thread % (KEYS / 16) * 16;
    long long heads = n.batch * n.heads * n.groups, rows = dropout.draw_rows;
    long long number = query / rows, first_row = number * rows;
    long long counters = (heads * rows * n.keys + 15) / 16;  // of one draw
    if (n.queries - first_row < rows) rows = n.queries - first_row;  // the last draw has fewer rows
    long long entry = (lead * rows + query - first_row) * n.keys + key;
    shared.kept[thread] =
        keep_bits(dropout.seed, dropout.offset + number * counters, dropout.live, entry,
                  dropout.threshold);
}

// 1 if dropout keeps the weight of a query and a key, counted from the start of a tile.
template <typename A, int KEYS> __device__ A kept(
    const Shared<A>& shared, const Dropout& dropout, int query, int key)
{
    if (dropout.threshold < 0) return 1;
    return A(shared.kept[query * (KEYS / 16) + key / 16] >> key % 16 & 1);
}

// Set `place` to the (batch, head, group) of this block, and return the index of its first row.
__device__ inline long long block_place(long long rows, const Sizes& n, long long groups,
                                        long long (&place)[3])
{
    long long tiles = (rows + OWN - 1) / OWN, lead = blockIdx.x / tiles;
    place[0] = lead / (n.heads * groups);
    place[1] = lead / groups % n.heads;
    place[2] = lead % groups;
    return blockIdx.x % tiles * OWN;
}

__device__ inline long long index_of(const long long (&place)[3], const Sizes& n) {
    return (place[0] * n.heads + place[1]) * n.groups + place[2];
}

// Compute, in one block, the context of 64 queries, and log_sum, the log-sum-exp of each row. The
// launch bounds limit the registers, so that two blocks (in float64, one) fit on a multiprocessor.
template <typename T, typename A>
__global__ __launch_bounds__(SIDE * SIDE, sizeof(A) == 8 ? 1 : 2) void attention_forward(
    Heads<const T> query, Heads<const T> key, Heads<const T> value, Mask<T> mask, Heads<T> context,
    A* log_sum, Sizes n, Dropout dropout, double scale, double dropout_scale)
{
    constexpr int COLUMNS = Shared<A>::COLUMNS, PER_TILE = Shared<A>::PER_TILE;
    __shared__ Shared<A> shared;
    int x = threadIdx.x, y = threadIdx.y;
    long long place[3], i0 = block_place(n.queries, n, n.groups, place);
    long long lead = index_of(place, n);
    Matrix<const T> q = query.at(place, n.queries, n.dim), k = key.at(place, n.keys, n.dim);
    Matrix<const T> v = value.at(place, n.keys, n.value_dim);
    mask.move_to(place);
    A top[4], total[4] = {}, sums[4][PER_ROW] = {};  // maximum, sum of exp, weighted sum of v
    for (int r = 0; r < 4; ++r) top[r] = -infinity<A>();
    long long stop = n.causal && i0 + OWN < n.keys ? i0 + OWN : n.keys;
    for (long long j0 = 0; j0 < stop; j0 += COLUMNS) {
        A s[4][PER_TILE];
        draw<A, OWN, COLUMNS>(shared, dropout, n, lead, i0, j0);
        dot_rows(s, shared, q, i0, k, j0);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            int row = y + SIDE * r;
            A new_top = top[r];
#pragma unroll
            for (int c = 0; c < PER_TILE; ++c) {
                s[r][c] = score(s[r][c], A(scale), i0 + row, j0 + x + SIDE * c, n, mask);
                if (s[r][c] > new_top || s[r][c] != s[r][c]) new_top = s[r][c];
            }
            new_top = row_max(new_top);
            A shift = new_top == -infinity<A>() ? A(0) : new_top;  // -inf - 0 is -inf, not NaN
            A rescale = exp(top[r] - shift);
            top[r] = new_top;
            total[r] *= rescale;
            for (int c = 0; c < PER_ROW; ++c) sums[r][c] *= rescale;
#pragma unroll
            for (int c = 0; c < PER_TILE; ++c) {
                A e = exp(s[r][c] - shift);
                total[r] += e;
                e *= kept<A, COLUMNS>(shared, dropout, row, x + SIDE * c);
                shared.weights[row][x + SIDE * c] = e;
            }
        }
        add_weighted_rows(sums, shared, v, j0);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        long long i = i0 + y + SIDE * r;
        total[r] = row_sum(total[r]);
        A factor = total[r] == 0 ? A(0) : A(dropout_scale) / total[r];  // 0: i attends to no key
        for (int c = 0; c < PER_ROW; ++c) sums[r][c] *= factor;
        if (x == 0 && i < n.queries)
            log_sum[lead * n.queries + i] = total[r] == 0 ? infinity<A>() : top[r] + log(total[r]);
    }
    store(context.at(place, n.queries, n.value_dim), i0, sums, A(1));
}

// Compute, in one block, for 64 queries: mean_grad (a_i = g_i . o_i), grad_query and grad_scores.
// grad_query and grad_scores are skipped if null.
template <typename T, typename A> __global__ void attention_grad_query(
    Heads<const T> query, Heads<const T> key, Heads<const T> value, Mask<T> mask,
    Heads<const T> context, Heads<const T> grad_context, const A* log_sum,
    Heads<T> grad_query, A* mean_grad, T* grad_scores,
    Sizes n, Dropout dropout, double scale, double dropout_scale)
{
    constexpr int COLUMNS = Shared<A>::COLUMNS, PER_TILE = Shared<A>::PER_TILE;
    __shared__ Shared<A> shared;
    int x = threadIdx.x, y = threadIdx.y;
    long long place[3], i0 = block_place(n.queries, n, n.groups, place);
    long long lead = index_of(place, n);
    Matrix<const T> q = query.at(place, n.queries, n.dim), k = key.at(place, n.keys, n.dim);
    Matrix<const T> v = value.at(place, n.keys, n.value_dim);
    Matrix<const T> o = context.at(place, n.queries, n.value_dim);
    Matrix<const T> g = grad_context.at(place, n.queries, n.value_dim);
    mask.move_to(place);
    A mean[4] = {}, log_total[4] = {}, sums[4][PER_ROW] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        long long i = i0 + y + SIDE * r;
        if (i < n.queries) {
            log_total[r] = log_sum[lead * n.queries + i];
            for (int e = x; e < n.value_dim; e += SIDE) mean[r] += A(g(i, e)) * A(o(i, e));
        }
        mean[r] = row_sum(mean[r]);
        if (x == 0 && i < n.queries) mean_grad[lead * n.queries + i] = mean[r];
    }
    if (!grad_query.data && !grad_scores) return;
    long long stop = n.causal && i0 + OWN < n.keys ? i0 + OWN : n.keys;
    for (long long j0 = 0; j0 < stop; j0 += COLUMNS) {
        A s[4][PER_TILE], of_weights[4][PER_TILE];  // of_weights: g . v
        draw<A, OWN, COLUMNS>(shared, dropout, n, lead, i0, j0);
        dot_rows(s, shared, q, i0, k, j0);
        dot_rows(of_weights, shared, g, i0, v, j0);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int c = 0; c < PER_TILE; ++c) {
                int row = y + SIDE * r, column = x + SIDE * c;
                long long i = i0 + row, j = j0 + column;
                A p = exp(score(s[r][c], A(scale), i, j, n, mask) - log_total[r]);
                A z = A(dropout_scale) * kept<A, COLUMNS>(shared, dropout, row, column);
                A of_score = p * (z * of_weights[r][c] - mean[r]);
                shared.weights[row][column] = of_score;
                if (grad_scores && i < n.queries && j < n.keys)
                    grad_scores[(lead * n.queries + i) * n.keys + j] = T(of_score);
            }
        }
        if (grad_query.data) add_weighted_rows(sums, shared, k, j0);
    }
    if (grad_query.data) store(grad_query.at(place, n.queries, n.dim), i0, sums, A(scale));
}

// Compute, in one block, grad_key and grad_value for 64 keys, unless they are null. The block
// visits all query heads that share the keys (`sharing` heads) in turn. Rows are keys here, and
// columns are queries.
template <typename T, typename A> __global__ void attention_grad_key_value(
    Heads<const T> query, Heads<const T> key, Heads<const T> value, Mask<T> mask,
    Heads<const T> grad_context, const A* log_sum, const A* mean_grad,
    Heads<T> grad_key, Heads<T> grad_value,
    Sizes n, Dropout dropout, long long sharing, double scale, double dropout_scale)
{
    constexpr int COLUMNS = Shared<A>::COLUMNS, PER_TILE = Shared<A>::PER_TILE;
    __shared__ Shared<A> shared;
    int x = threadIdx.x, y = threadIdx.y;
    long long place[3], j0 = block_place(n.keys, n, n.groups / sharing, place);
    Matrix<const T> k = key.at(place, n.keys, n.dim), v = value.at(place, n.keys, n.value_dim);
    A of_key[4][PER_ROW] = {}, of_value[4][PER_ROW] = {};
    for (long long turn = 0; turn < sharing; ++turn) {
        long long at[3] = {place[0], place[1], place[2] + turn};
        long long lead = index_of(at, n);
        Matrix<const T> q = query.at(at, n.queries, n.dim);
        Matrix<const T> g = grad_context.at(at, n.queries, n.value_dim);
        Mask<T> own_mask = mask;
        own_mask.move_to(at);
        for (long long i0 = n.causal ? j0 : 0; i0 < n.queries; i0 += COLUMNS) {
            A p[4][PER_TILE], of_weights[4][PER_TILE];
            draw<A, COLUMNS, OWN>(shared, dropout, n, lead, i0, j0);
            dot_rows(p, shared, k, j0, q, i0);
#pragma unroll
            for (int c = 0; c < PER_TILE; ++c) {
                int column = x + SIDE * c;
                long long i = i0 + column;
                A log_total = i < n.queries ? log_sum[lead * n.queries + i] : A(0);
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    int row = y + SIDE * r;
                    p[r][c] = exp(score(p[r][c], A(scale), i, j0 + row, n, own_mask) - log_total);
                    shared.weights[row][column] =
                        p[r][c] * kept<A, OWN>(shared, dropout, column, row);
                }
            }
            if (grad_value.data) add_weighted_rows(of_value, shared, g, i0);
            if (!grad_key.data) continue;
            dot_rows(of_weights, shared, v, j0, g, i0);
#pragma unroll
            for (int c = 0; c < PER_TILE; ++c) {
                int column = x + SIDE * c;
                long long i = i0 + column;
                A mean = i < n.queries ? mean_grad[lead * n.queries + i] : A(0);
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    int row = y + SIDE * r;
                    A z = A(dropout_scale) * kept<A, OWN>(shared, dropout, column, row);
                    shared.weights[row][column] = p[r][c] * (z * of_weights[r][c] - mean);
                }
            }
            add_weighted_rows(of_key, shared, q, i0);
        }
    }
    if (grad_key.data) store(grad_key.at(place, n.keys, n.dim), j0, of_key, A(scale));
    if (grad_value.data)
        store(grad_value.at(place, n.keys, n.value_dim), j0, of_value, A(dropout_scale));
}
""",
    "attention_forward",
    "attention_grad_query",
    "attention_grad_key_value",
)
