"""Losses between numbers: squared, absolute and Huber errors, binary cross-entropy, KL divergence.

Each is a line of elementwise operations, which carry the derivatives, and a reduction.
"""

import warnings

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor
from .activation import hardtanh
from .broadcast import broadcast_tensors
from .exponential import Log
from .given import as_operand
from .loss import reduction_of
from .selection import Maximum, where
from .sigmoid import logsigmoid

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss",
]  # fmt: skip


class BinaryCrossEntropy(Function):
    r"""y = -(t log x + (1 - t) log(1 - x)), each logarithm at least -100.

    Derivative: dy/dx = -t / x + (1 - t) / (1 - x) = (x - t) / (x (1 - x)),
        where the divisor is at least 1e-12, so that no x in [0, 1] gives infinity;
        dy/dt = log(1 - x) - log x.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, x, t):
        ctx.save(x, t)
        return -(t * log_from_minus_100(x) + (1.0 - t) * log_from_minus_100(1.0 - x))

    @staticmethod
    def backward(ctx, grad_y):
        x, t = ctx.saved
        need_x, need_t = ctx.needs_grad
        return (
            grad_y * (x - t) / Maximum.call(x * (1.0 - x), 1e-12) if need_x else None,
            grad_y * (Log.call(1.0 - x) - Log.call(x)) if need_t else None,
        )


def log_from_minus_100(x):
    """log x, but never less than -100; the inner bound, which is smaller, avoids log 0."""
    xp = array_module(x)
    return xp.maximum(xp.log(xp.maximum(x, 1e-45)), -100.0)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The squared error, (input - target)^2.

    Parameters
    ----------
    input, target : Tensor of one shape
    size_average, reduce : bool, optional
        PyTorch's old names for `reduction`.
    reduction : {"mean", "sum", "none"}
    weight : Tensor of the same shape, optional
        How much each element counts; the mean is then weighted.

    Returns
    -------
    Tensor
        A 0-d loss, or with "none" one loss per element.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mse_loss(mt.tensor([1.0, 2.0]), mt.tensor([0.0, 4.0]))
    tensor(2.5)
    """
    reduction = reduction_of(reduction, size_average, reduce, "mse_loss")
    difference = _difference(input, target, "mse_loss")
    return _weighted(difference * difference, weight, reduction, "mse_loss")


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The absolute error, |input - target|; arguments as for `mse_loss`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> l1_loss(mt.tensor([1.0, 2.0]), mt.tensor([0.0, 4.0]))
    tensor(1.5)
    """
    reduction = reduction_of(reduction, size_average, reduce, "l1_loss")
    difference = _difference(input, target, "l1_loss")
    return _weighted(difference.abs(), weight, reduction, "l1_loss")


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """A squared error that goes on as a straight line beyond `delta`.

    With d = input - target: d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2).

    Parameters
    ----------
    input, target : Tensor of one shape
    reduction : {"mean", "sum", "none"}
    delta : float, default 1
        Where the parabola ends.
    weight : Tensor of the same shape, optional
        Factor of each element; unlike in `mse_loss` the mean divides by the number of elements.

    Returns
    -------
    Tensor

    Notes
    -----
    Both pieces are c (d - c / 2) with c = d limited to [-delta, delta]. Its derivative is c.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> huber_loss(mt.tensor([1.0, 3.0]), mt.zeros(2), reduction="none")
    tensor([0.5, 2.5])
    """
    reduction = reduction_of(reduction, None, None, "huber_loss")
    if not delta > 0:
        raise ArgumentError("huber_loss: delta is positive.", got=f"delta={delta}")
    loss = _huber(_difference(input, target, "huber_loss"), delta)
    if weight is not None:
        _check_weight(weight, input, "huber_loss")
        loss = loss * weight
    return _reduced(loss, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """The absolute error with a rounded tip: `huber_loss` with `delta=beta`, divided by `beta`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> smooth_l1_loss(mt.tensor([1.0, 3.0]), mt.zeros(2), reduction="none", beta=2.0)
    tensor([0.25, 2.  ])
    """
    reduction = reduction_of(reduction, size_average, reduce, "smooth_l1_loss")
    if beta < 0:
        raise ArgumentError("smooth_l1_loss: beta is not negative.", got=f"beta={beta}")
    difference = _difference(input, target, "smooth_l1_loss")
    return _reduced(_huber(difference, beta) / beta if beta else difference.abs(), reduction)


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """How surprised a yes-or-no classifier is: -(t log p + (1 - t) log(1 - p)).

    Parameters
    ----------
    input : Tensor
        Probabilities p of "yes", in [0, 1].
    target : Tensor of the same shape and dtype
        1 for "yes", 0 for "no", or a probability t.
    weight : Tensor that broadcasts to `input`, optional
        Factor of each element.
    reduction, size_average, reduce
        As in `mse_loss`; the mean divides by the number of elements.

    Returns
    -------
    Tensor

    Notes
    -----
    Derivative in `BinaryCrossEntropy`. After a sigmoid use `binary_cross_entropy_with_logits`,
    which loses no digits.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> binary_cross_entropy(mt.tensor([0.5, 0.0]), mt.tensor([1.0, 1.0]), reduction="none")
    tensor([  0.6931, 100.    ])
    """
    here = "binary_cross_entropy"
    reduction = reduction_of(reduction, size_average, reduce, here)
    _check_pair(input, target, here)
    if input.shape != target.shape or input.dtype != target.dtype:
        raise ShapeError(
            f"{here}: input and target differ in shape or dtype.",
            got=f"input {input.shape} {input.dtype} and target {target.shape} {target.dtype}",
            hint="target.to(input.dtype).reshape(input.shape)",
        )
    loss = BinaryCrossEntropy.apply(input, target)
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """`binary_cross_entropy` of sigmoid(input), exact for logits of any size.

    Parameters
    ----------
    input : Tensor
        Logits x of "yes".
    target : Tensor of the same shape
        1 for "yes", 0 for "no", or a probability t.
    weight : Tensor that broadcasts to `input`, optional
        Factor of each element.
    reduction, size_average, reduce
        As in `mse_loss`; the mean divides by the number of elements.
    pos_weight : Tensor that broadcasts to `input`, optional
        Factor w of the "yes" term.

    Returns
    -------
    Tensor

    Notes
    -----
    With log(1 - sigmoid(x)) = log sigmoid(x) - x the loss -(w t log s + (1 - t) log(1 - s)) is
    (1 - t) x - (1 + (w - 1) t) log s.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> binary_cross_entropy_with_logits(mt.tensor([0.0, 90.0]), mt.tensor([1.0, 0.0]))
    tensor(45.3466)
    """
    here = "binary_cross_entropy_with_logits"
    reduction = reduction_of(reduction, size_average, reduce, here)
    _check_pair(input, target, here)
    if input.shape != target.shape:
        raise ShapeError(
            f"{here}: there is not one target per logit.",
            got=f"input {input.shape} and target {target.shape}",
            hint="logits.squeeze(-1) if they carry an axis of size 1",
        )
    log_sigmoid = logsigmoid(input)
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * (target * (pos_weight - 1.0) + 1.0)
    loss = (1.0 - target) * input - log_sigmoid
    return _reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence of `target` from a model: t (log t - input).

    Parameters
    ----------
    input : Tensor
        Log-probabilities of the model.
    target : Tensor of the same shape
        Probabilities t, or their logarithms with `log_target`.
    size_average, reduce : bool, optional
        PyTorch's old names for `reduction`.
    reduction : {"mean", "batchmean", "sum", "none"}
        "batchmean", the sum over the size of axis 0, is the divergence by its definition; "mean"
        also divides by the number of classes.
    log_target : bool, default False
        `target` holds logarithms.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> kl_div(mt.tensor([[0.5, 0.5]]).log(), mt.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    per_batch = reduction == "batchmean"
    reduction = reduction_of("sum" if per_batch else reduction, size_average, reduce, "kl_div")
    _check_pair(input, target, "kl_div")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        log_t = where(target == 0, 1.0, target).log()  # 0 log 0 = 0, the limit
        loss = target * (log_t - input)
    result = _reduced(loss, reduction)
    return result / input.shape[0] if per_batch and input.ndim else result


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors, x1 . x2 / (|x1| |x2|).

    Parameters
    ----------
    x1, x2 : Tensor
        They broadcast.
    dim : int, default 1
        The axis that holds the vectors.
    eps : float, default 1e-8
        Lengths count as at least this.

    Returns
    -------
    Tensor without the axis `dim`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cosine_similarity(mt.tensor([3.0, 4.0]), mt.tensor([5.0, 0.0]), dim=0)
    tensor(0.6)
    """
    x1 = as_operand(x1, "cosine_similarity", "x1")
    x2 = as_operand(x2, "cosine_similarity", "x2")
    if x1.shape != x2.shape:  # else a length would leave out the copies of an element
        x1, x2 = broadcast_tensors(x1, x2)
    # The bound goes under the root, whose derivative is infinite at 0.
    x1 = x1 / (x1 * x1).sum(dim, keepdim=True).clamp(min=eps * eps).sqrt()
    x2 = x2 / (x2 * x2).sum(dim, keepdim=True).clamp(min=eps * eps).sqrt()
    return (x1 * x2).sum(dim)


def _huber(difference, delta):
    limited = hardtanh(difference, -delta, delta)
    return limited * (difference - limited * 0.5)


def _difference(input, target, where):
    """input - target, with PyTorch's warning where broadcasting is probably a mistake."""
    _check_pair(input, target, where)
    if input.shape != target.shape:
        warnings.warn(
            f"{where}: input {input.shape} and target {target.shape} have different shapes and "
            "are broadcast, which is rarely what is meant.",
            stacklevel=3,
        )
    return input - target


def _check_pair(input, target, where):
    for name, value in (("input", input), ("target", target)):
        if not isinstance(value, Tensor):
            raise DTypeError(f"{where}: {name} is not a tensor.", got=type(value).__name__)
    if input.dtype.kind != "f":
        raise DTypeError(
            f"{where}: the input has to hold floats.", got=f"{input.dtype}", hint="input.float()"
        )


def _check_weight(weight, input, where):
    if weight.shape != input.shape:
        raise ShapeError(
            f"{where}: weight holds one number per element of the input.",
            got=f"weight {weight.shape} and input {input.shape}",
        )


def _weighted(loss, weight, reduction, where):
    """The reduction, by a weighted mean if there are weights."""
    if weight is None:
        return _reduced(loss, reduction)
    _check_weight(weight, loss, where)
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def _reduced(loss, reduction):
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
