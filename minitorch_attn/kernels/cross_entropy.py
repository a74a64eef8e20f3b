"""Cross-entropy of labels on a GPU: one block of threads for each row of logits.

With m = max(x), s = sum_c exp(x_c - m), label t, C classes, class weights w and label smoothing e,

    loss = w_t (1 - e) (log s - (x_t - m)) + e / C sum_c w_c (log s - (x_c - m))
    grad_x_c = p_c g sum_k q_k - g q_c,   p_c = exp(x_c - m - log s),

where g is dL/dloss and q is the target distribution, as in `ops.cross_entropy`.

Launches: 2 forward and 1 backward. The array operations need 18 and 19. The first launch computes
the loss of each row, and the second adds up the losses and divides by the total weight. The sums
are computed in the same order in every run.
"""

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.cross_entropy import CrossEntropy
from .softmax import LOWEST, MAX_AND_SUM
from .source import FLOATS, Source, all_contiguous, threads_for_row

__all__ = ["CrossEntropyKernel"]

SUM_THREADS = 1024  # threads of the block that adds up all rows

SOURCE = Source(
    MAX_AND_SUM
    + r"""
// One block for each row of logits (rows, n) computes the loss, and the numbers that the backward
// pass needs.
template <typename T, typename A> __global__ void cross_entropy_rows(
    const T* logits, const long long* labels, const T* weight, T* loss, bool* valid,
    long long* labels_or_0, T* label_weight, T* x_max, T* log_total,
    long long n, long long ignore_index, double smoothing, double lowest)
{
    long long row = blockIdx.x;
    const T* x = logits + row * n;
    A m, s;
    max_and_sum<T, A>(x, 0, 0, n, A(lowest), m, s);
    A log_s = log(s), sum = 0, weights = 0;  // sum of w_c (x_c - m), and of w_c
    if (smoothing != 0) {
        for (long long j = threadIdx.x; j < n; j += blockDim.x) {
            A w = weight ? A(weight[j]) : A(1);
            sum += w * (A(x[j]) - m);
            weights += w;
        }
        sum = block_sum(sum);
        weights = block_sum(weights);
    }
    if (threadIdx.x != 0) return;
    bool counts = labels[row] != ignore_index;
    long long t = counts ? labels[row] : 0;
    if (t < 0 || t >= n) t = 0;  // out of range: the next read from the device raises the error
    A w = weight ? A(weight[t]) : A(1), e = A(smoothing);
    A value = w * (log_s - (A(x[t]) - m));
    if (smoothing != 0) value = value * (1 - e) + (log_s * weights - sum) * (e / n);
    loss[row] = T(counts ? value : A(0));
    valid[row] = counts;
    labels_or_0[row] = t;
    label_weight[row] = T(counts ? w : A(0));
    x_max[row] = T(m);
    log_total[row] = T(log_s);
}

// A single block computes the sum or the mean of the losses of all rows.
template <typename T, typename A> __global__ void __launch_bounds__(1024) cross_entropy_sum(
    const T* loss, const T* label_weight, T* result, T* total_weight,
    long long rows, long long mean)
{
    A sum = 0, weights = 0;
    for (long long row = threadIdx.x; row < rows; row += blockDim.x) {
        sum += A(loss[row]);
        weights += A(label_weight[row]);
    }
    sum = block_sum(sum);
    weights = block_sum(weights);
    if (threadIdx.x != 0) return;
    *result = T(mean ? sum / weights : sum);
    *total_weight = T(weights);
}

// One block for each row computes the gradient of the logits. grad_step is 0 if grad_loss is one
// number for all rows. total_weight is null unless the loss is a mean.
template <typename T, typename A> __global__ void cross_entropy_backward(
    const T* grad_loss, const T* logits, const T* weight, const bool* valid,
    const long long* labels_or_0, const T* label_weight, const T* total_weight,
    const T* x_max, const T* log_total, T* grad_x,
    long long n, long long grad_step, double smoothing)
{
    long long row = blockIdx.x, t = labels_or_0[row];
    const T* x = logits + row * n;
    grad_x += row * n;
    A g = A(grad_loss[row * grad_step]);  // dL/dloss of this row
    if (total_weight) g /= A(*total_weight);
    if (!valid[row]) g = 0;
    A weights = A(n);  // sum of w_c
    if (weight && smoothing != 0) {
        weights = 0;
        for (long long j = threadIdx.x; j < n; j += blockDim.x) weights += A(weight[j]);
        weights = block_sum(weights);
    }
    A of_label = g * A(label_weight[row]) * (1 - A(smoothing));  // g w_t (1 - e)
    A of_class = g * A(smoothing) / n;  // g e / C
    A of_all = of_label + of_class * weights;  // g times the sum of q
    A m = A(x_max[row]), log_s = A(log_total[row]);
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        A grad = exp(A(x[j]) - m - log_s) * of_all;
        if (j == t) grad -= of_label;
        if (smoothing != 0) grad -= of_class * (weight ? A(weight[j]) : A(1));
        grad_x[j] = T(grad);
    }
}
""",
    "cross_entropy_rows",
    "cross_entropy_sum",
    "cross_entropy_backward",
)


def forward_rows(logits, labels, weight, ignore_index, smoothing):
    """Launch the kernel that computes the loss of each row.

    Returns
    -------
    loss : array of shape (rows,)
    valid, labels_or_0, label_weight, x_max, log_total
        The intermediate results of `CrossEntropy.forward`, except the total weight.
    """
    xp = array_module(logits)
    labels = labels.astype("int64", copy=False)
    logits, labels, weight = all_contiguous(logits, labels, weight)
    rows, n = logits.shape
    loss, label_weight, log_total = [xp.empty(rows, logits.dtype) for _ in range(3)]
    valid, labels_or_0 = xp.empty(rows, "bool"), xp.empty(rows, "int64")
    x_max = xp.empty((rows, 1), logits.dtype)
    SOURCE.launch(
        "cross_entropy_rows", logits.dtype, rows, threads_for_row(n),
        logits, labels, weight, loss, valid, labels_or_0, label_weight, x_max, log_total,
        n, int(ignore_index), float(smoothing), LOWEST[logits.dtype.name],
    )  # fmt: skip
    return loss, valid, labels_or_0, label_weight, x_max, log_total


def sum_of_rows(loss, label_weight, mean):
    """Launch the kernel that adds up the losses of all rows.

    Return the sum or mean of the losses, and the total weight, as 0-d arrays.
    """
    xp = array_module(loss)
    result, total_weight = xp.empty((), loss.dtype), xp.empty((), loss.dtype)
    SOURCE.launch(
        "cross_entropy_sum", loss.dtype, 1, SUM_THREADS,
        loss, label_weight, result, total_weight, len(loss), int(mean),
    )  # fmt: skip
    return result, total_weight


@register(CrossEntropy)
class CrossEntropyKernel:
    """CUDA kernels of cross-entropy: two launches forward and one backward."""

    @staticmethod
    def accepts(logits, labels, weight, **settings):
        return (
            logits.dtype.name in FLOATS
            and logits.shape[1] > 0
            and (weight is None or weight.dtype == logits.dtype)
        )

    @staticmethod
    def forward(ctx, logits, labels, weight, *, ignore_index, label_smoothing, reduction):
        found = forward_rows(logits, labels, weight, ignore_index, label_smoothing)
        loss, valid, labels_or_0, label_weight, x_max, log_total = found
        total_weight = None  # only the mean divides by it
        if reduction != "none":
            loss, total_weight = sum_of_rows(loss, label_weight, reduction == "mean")
        ctx.save(logits, labels, weight)
        ctx.save_intermediate(valid, labels_or_0, label_weight, total_weight, x_max, log_total)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        logits, _, weight = ctx.saved
        valid, labels_or_0, label_weight, total_weight, x_max, log_total = ctx.intermediate
        logits, weight = all_contiguous(logits, weight)
        rows, n = logits.shape
        grad_x = array_module(logits).empty_like(logits)
        grad_step = grad_loss.strides[0] // grad_loss.itemsize if grad_loss.ndim else 0
        is_mean = ctx.settings["reduction"] == "mean"
        SOURCE.launch(
            "cross_entropy_backward", logits.dtype, rows, threads_for_row(n),
            grad_loss, logits, weight, valid, labels_or_0, label_weight,
            total_weight if is_mean else None, x_max, log_total, grad_x,
            n, grad_step, float(ctx.settings["label_smoothing"]),
        )  # fmt: skip
        return grad_x, None, None
