"""Rows of a table by their number, and the table of unit vectors."""

import math

from ..autograd.function import Function
from ..backend import array_module, scatter_add
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import wrap
from .given import as_operand, not_tensors
from .range_check import check_range

__all__ = ["embedding", "one_hot"]


class Embedding(Function):
    """y = weight[ids]: row ids[...] of the table at every place.

    Derivative: each row receives the sum of the gradients of its uses; the padding row none.
    With `by_frequency` that sum is divided by the number of uses in the batch.
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
    """y[r] = sum of x over the places where ids = r: the adjoint of Embedding.

    Derivative: each place receives the gradient of its row; those of the padding row none.
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
    """y = weight[ids] with zeros for the padding row, divided by frequency: adjoint of RowSum.

    Derivative: RowSum of the gradient.
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
    """How often each row is used, at least 1, as a column."""
    xp = array_module(ids)
    counts = xp.bincount(ids.reshape(-1), minlength=rows)
    return xp.maximum(counts, 1).astype(dtype).reshape(rows, 1)


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
    scale_grad_by_freq=False, sparse=False,
):  # fmt: skip
    """Row `input[...]` of the table `weight` at every place: `torch.nn.functional.embedding`.

    Parameters
    ----------
    input : integer Tensor of any shape
        Row numbers, such as token ids.
    weight : Tensor of shape (rows, embed)
    padding_idx : int, optional
        This row receives no gradient.
    max_norm : float, optional
        Rows that are used and have a larger norm are first scaled down to it, in `weight` itself.
    norm_type : float
        The p of that norm.
    scale_grad_by_freq : bool
        Divide the gradient of a row by the number of its uses.
    sparse : bool
        Accepted for PyTorch's sake; gradients are dense.

    Returns
    -------
    Tensor of shape (*input.shape, embed)

    Raises
    ------
    IndexRangeError
        If a row number is negative or too large; on a GPU at the next reading from it.

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
            "embedding(input, weight): weight is a table.",
            got=f"weight {weight.shape}",
            expected="(rows, embed)",
        )
    rows = weight.shape[0]
    check_range(ids, rows, where="embedding", name="input")
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ArgumentError(
                "embedding: padding_idx is no row of weight.",
                got=f"padding_idx={padding_idx} and weight {weight.shape}",
            )
        padding_idx %= rows
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    return Embedding.apply(
        input, weight, padding_idx=padding_idx, by_frequency=bool(scale_grad_by_freq)
    )


def _limit_norms(weight, input, max_norm, norm_type):
    """Scale the rows in use down to `max_norm`, in place and outside the graph."""
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


def one_hot(tensor, num_classes=-1):
    """Unit vectors: 1 at the place that `tensor` gives, 0 elsewhere, as integers.

    Parameters
    ----------
    tensor : integer Tensor
    num_classes : int, default -1
        -1 takes one more than the largest entry, for which a device has to be waited for.

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
        raise DTypeError("one_hot: integers are needed.", got=f"{tensor.dtype}")
    if num_classes == -1:
        if classes.size == 0:
            raise ArgumentError(
                "one_hot: an empty tensor does not tell the number of classes.",
                got=f"shape {tensor.shape} and num_classes=-1",
            )
        num_classes = int(classes.max()) + 1
    elif num_classes < 1 and (classes.size or num_classes < 0):
        raise ArgumentError("one_hot: num_classes has to be positive.", got=f"{num_classes}")
    check_range(classes, num_classes, where="one_hot", name="tensor")
    places = array_module(classes).arange(num_classes)
    return wrap((classes.reshape(*classes.shape, 1) == places).astype("int64"))
