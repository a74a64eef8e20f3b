"""Embedding: look up rows of a table by index, and create one-hot vectors."""

import math

from ..autograd.function import Function
from ..backend import array_module, scatter_add
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .plumbing.range_check import check_range
from .plumbing.tensor_arguments import as_operand, not_tensors

__all__ = ["embedding", "one_hot"]


class Embedding(Function):
    """Embedding lookup: replace each id by the table row with that index.

    Forward:  y = weight[ids]
    Backward: grad_weight[r] = sum of grad_y over the positions where ids = r
    Derivation: each row receives the sum of the gradients of its uses; the padding row does not
    receive a gradient. With `by_frequency`, the sum is divided by the number of uses of the row in
    the batch.
    Saved: ids.
    """

    @staticmethod
    def forward(ctx, ids, weight, *, padding_idx, by_frequency):
        ctx.padding_idx, ctx.by_frequency = padding_idx, by_frequency
        ctx.save(ids)
        return weight[ids]

    @staticmethod
    def backward(ctx, grad_y):
        if not ctx.needs_grad[1]:
            return None, None
        (ids,) = ctx.saved
        grad_weight = RowSum.call(
            grad_y, ids, rows=ctx.shapes[1][0],
            padding_idx=ctx.padding_idx, by_frequency=ctx.by_frequency,
        )  # fmt: skip
        return None, grad_weight


class RowSum(Function):
    """Sum of the entries of x with the same id, for each table row; the adjoint of Embedding.

    Forward:  y[r] = sum of x over the positions where ids = r; 0 for the padding row
    Backward: grad_x = grad_y[ids]; 0 where ids = padding_idx
    Derivation: each entry of x receives the gradient of the row of y to which it is added. Entries
    with the padding id are not added, so their gradient is 0. With `by_frequency`, row r and its
    gradient are divided by the number of positions where ids = r.
    Saved: ids.
    """

    @staticmethod
    def forward(ctx, x, ids, *, rows, padding_idx, by_frequency):
        ctx.padding_idx, ctx.by_frequency = padding_idx, by_frequency
        ctx.save(ids)
        xp = array_module(x)
        y = xp.zeros((rows, *x.shape[ids.ndim :]), dtype=x.dtype)
        scatter_add(y, ids.reshape(-1), x.reshape(-1, *x.shape[ids.ndim :]))
        if padding_idx is not None:
            y[padding_idx] = 0
        if by_frequency:
            y /= _frequencies(ids, rows, x.dtype)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (ids,) = ctx.saved
        grad_x = RowTake.call(
            grad_y, ids, padding_idx=ctx.padding_idx, by_frequency=ctx.by_frequency
        )
        return grad_x, None


class RowTake(Function):
    """Embedding lookup that reads the padding row as zeros; the adjoint of RowSum.

    Forward:  y = weight[ids]; with `by_frequency`, y = weight[ids] / n[ids]
    Backward: grad_weight[r] = sum of grad_y over the positions where ids = r; with `by_frequency`,
        this sum is divided by n_r
    Derivation: n_r is the number of positions where ids = r. Each of these positions contains a
    copy of row r, or of row r divided by n_r, so the gradient of row r is the sum of their
    gradients, divided by n_r in the second case. This is the `RowSum` of grad_y, which sets the
    padding row to 0.
    Saved: ids.
    """

    @staticmethod
    def forward(ctx, weight, ids, *, padding_idx, by_frequency):
        ctx.padding_idx, ctx.by_frequency = padding_idx, by_frequency
        ctx.save(ids)
        if padding_idx is not None or by_frequency:
            weight = weight.copy()
        if padding_idx is not None:
            weight[padding_idx] = 0
        if by_frequency:
            weight /= _frequencies(ids, weight.shape[0], weight.dtype)
        return weight[ids]

    @staticmethod
    def backward(ctx, grad_y):
        (ids,) = ctx.saved
        grad_weight = RowSum.call(
            grad_y, ids, rows=ctx.shapes[0][0],
            padding_idx=ctx.padding_idx, by_frequency=ctx.by_frequency,
        )  # fmt: skip
        return grad_weight, None


def _frequencies(ids, rows, dtype):
    """Count how often `ids` contains each row index. Return the counts in shape (rows, 1).

    A count of 0 is replaced by 1, so that the caller can divide by the counts.
    """
    xp = array_module(ids)
    counts = xp.bincount(ids.reshape(-1), minlength=rows)
    return xp.maximum(counts, 1).astype(dtype).reshape(rows, 1)


@names_arguments
def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
    scale_grad_by_freq=False, sparse=False,
):  # fmt: skip
    """Embedding lookup: replace each id in `input` by the row of `weight` with that index.

    Parameters
    ----------
    input : integer Tensor of any shape
        Row indices, such as token ids.
    weight : Tensor of shape (rows, embed)
        The table.
    padding_idx : int, optional
        Index of a row that does not receive a gradient.
    max_norm : float, optional
        Maximum norm of a row. Looked-up rows with a larger norm are first scaled down to
        `max_norm`, in `weight` itself.
    norm_type : float, default 2
        Order p of the norm that `max_norm` limits.
    scale_grad_by_freq : bool, default False
        Whether to divide the gradient of a row by the number of its uses.
    sparse : bool
        Ignored; for compatibility with PyTorch. Gradients are dense.

    Returns
    -------
    Tensor of shape (*input.shape, embed)

    Raises
    ------
    IndexRangeError
        If a row index is out of range. On a GPU, the error is raised when the host next reads a
        result.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> embedding(mt.tensor([1, 0, 1]), mt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    try:
        ids, is_table = input.array, weight.ndim == 2
    except AttributeError as error:
        raise not_tensors(error, "embedding", input=input, weight=weight) from None
    if not is_table:
        raise ShapeError(
            "embedding(input, weight): weight must have 2 axes",
            got=f"weight {weight.shape}",
            expected="(rows, embed)",
            hint="use weight.reshape(rows, -1)",
        )
    rows = weight.shape[0]
    check_range(ids, rows, where="embedding", name="input")
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ArgumentError(
                "embedding: padding_idx is out of range",
                got=f"padding_idx={padding_idx} and weight {weight.shape}",
                expected=f"from {-rows} to {rows - 1}",
                hint="use padding_idx=None if the table does not have a padding row",
            )
        padding_idx %= rows
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    return Embedding.apply(
        input, weight, padding_idx=padding_idx, by_frequency=bool(scale_grad_by_freq)
    )


def _limit_norms(weight, input, max_norm, norm_type):
    """Scale the looked-up rows of `weight` to a norm of at most `max_norm`, in place.

    Autograd does not record this change.
    """
    table = weight.array
    xp = array_module(table)
    if norm_type == math.inf:
        norms = abs(table).max(axis=1)
    else:
        norms = (abs(table) ** norm_type).sum(axis=1) ** (1.0 / norm_type)
    used = xp.zeros(table.shape[:1], dtype="bool")
    used[input.array.reshape(-1)] = True
    scale = xp.where(used & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    table *= scale.astype(table.dtype).reshape(-1, 1)
    weight.changed_in_place()


@names_arguments
def one_hot(tensor, num_classes=-1):
    """One-hot vectors of integers: 1 at the position given by `tensor`, 0 elsewhere.

    Parameters
    ----------
    tensor : integer Tensor
        The position of the 1 in each vector.
    num_classes : int, default -1
        Length of the vectors. -1 means the largest entry plus 1; on a GPU, finding this entry
        requires a synchronization.

    Returns
    -------
    Tensor of shape (*tensor.shape, num_classes), int64

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> one_hot(mt.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    tensor = as_operand(tensor, "one_hot", "tensor")
    classes = tensor.array
    if classes.dtype.kind not in "iu":
        raise DTypeError(
            "one_hot: tensor must hold integers", got=f"{tensor.dtype}", hint="use tensor.long()"
        )
    if num_classes == -1:
        if classes.size == 0:
            raise ArgumentError(
                "one_hot: num_classes is missing, and tensor is empty",
                got=f"shape {tensor.shape} and num_classes=-1",
                hint="pass num_classes",
            )
        num_classes = int(classes.max()) + 1
    elif num_classes < 1 and (classes.size or num_classes < 0):
        raise ArgumentError("one_hot: num_classes must be positive", got=f"{num_classes}")
    check_range(classes, num_classes, where="one_hot", name="tensor")
    places = array_module(classes).arange(num_classes)
    return wrap((classes.reshape(*classes.shape, 1) == places).astype("int64"))
