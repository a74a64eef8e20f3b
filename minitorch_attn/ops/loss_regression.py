"""Regression losses and other elementwise losses: squared error, Huber, cross-entropy, KL.

Each loss is an elementwise expression followed by a reduction; autograd differentiates both.
"""

import warnings

from ..autograd.autocast import autocasts
from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .broadcast import broadcast_tensors
from .cross_entropy import reduction_of
from .exp_log import Log
from .plumbing.range_check import InvalidValue, check_values
from .plumbing.tensor_arguments import as_operand
from .relu import hardtanh
from .sigmoid import logsigmoid
from .where import Maximum, where

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss",
]  # fmt: skip


class BinaryCrossEntropy(Function):
    r"""Binary cross-entropy of probabilities x and targets t, with logarithms clamped to >= -100.

    Forward:  y = -(t * log(x) + (1 - t) * log(1 - x))
    Backward: grad_x = grad_y * (x - t) / (x * (1 - x)), grad_t = grad_y * (log(1 - x) - log(x))
    Derivation: dy/dx = -t / x + (1 - t) / (1 - x) = (x - t) / (x (1 - x)). `backward`
    clamps the denominator to at least 1e-12, so that grad_x is finite for every x in [0, 1].
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
    """Compute max(log x, -100); x is first clamped to at least 1e-45, to avoid log 0."""
    xp = array_module(x)
    return xp.maximum(xp.log(xp.maximum(x, 1e-45)), -100.0)


@names_arguments
@autocasts
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Mean squared error, the mean of `(input - target)^2`.

    Parameters
    ----------
    input, target : Tensor, both of the same shape
    size_average, reduce : bool, optional
        Deprecated PyTorch arguments, replaced by `reduction`.
    reduction : {"mean", "sum", "none"}
    weight : Tensor of the same shape, optional
        Weight of each element; the mean then divides by the sum of the weights.

    Returns
    -------
    Tensor
        A 0-d loss, or one loss per element if `reduction` is "none".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mse_loss(mt.tensor([1.0, 2.0]), mt.tensor([0.0, 4.0]))
    tensor(2.5)
    """
    reduction = reduction_of(reduction, size_average, reduce, "mse_loss")
    difference = _difference(input, target, "mse_loss")
    return _weighted(difference * difference, weight, reduction, "mse_loss")


@names_arguments
@autocasts
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Mean absolute error, the mean of `|input - target|`; arguments as for `mse_loss`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> l1_loss(mt.tensor([1.0, 2.0]), mt.tensor([0.0, 4.0]))
    tensor(1.5)
    """
    reduction = reduction_of(reduction, size_average, reduce, "l1_loss")
    difference = _difference(input, target, "l1_loss")
    return _weighted(difference.abs(), weight, reduction, "l1_loss")


@names_arguments
@autocasts
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Huber loss: quadratic for errors up to `delta`, linear for larger ones.

    With d = input - target, the loss is d^2 / 2 if |d| <= delta, else delta (|d| - delta / 2).

    Parameters
    ----------
    input, target : Tensor, both of the same shape
    reduction : {"mean", "sum", "none"}
    delta : float, default 1
        Absolute error at which the loss changes from quadratic to linear.
    weight : Tensor of the same shape, optional
        Weight of each element; unlike in `mse_loss`, the mean divides by the number of elements.

    Returns
    -------
    Tensor

    Notes
    -----
    In both cases, the loss is c (d - c / 2), where c is d clipped to [-delta, delta]. The
    derivative is c.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> huber_loss(mt.tensor([1.0, 3.0]), mt.zeros(2), reduction="none")
    tensor([0.5, 2.5])
    """
    reduction = reduction_of(reduction, None, None, "huber_loss")
    if not delta > 0:
        raise ArgumentError(
            "huber_loss: delta must be positive",
            got=f"delta={delta}",
            hint="use l1_loss() for the absolute error",
        )
    loss = _huber(_difference(input, target, "huber_loss"), delta)
    if weight is not None:
        _check_weight(weight, input, "huber_loss")
        loss = loss * weight
    return _reduced(loss, reduction)


@names_arguments
@autocasts
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Smooth absolute error: `huber_loss` with `delta=beta`, divided by `beta`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> smooth_l1_loss(mt.tensor([1.0, 3.0]), mt.zeros(2), reduction="none", beta=2.0)
    tensor([0.25, 2.  ])
    """
    reduction = reduction_of(reduction, size_average, reduce, "smooth_l1_loss")
    if beta < 0:
        raise ArgumentError(
            "smooth_l1_loss: beta must not be negative",
            got=f"beta={beta}",
            hint="use beta=0 for the absolute error",
        )
    difference = _difference(input, target, "smooth_l1_loss")
    return _reduced(_huber(difference, beta) / beta if beta else difference.abs(), reduction)


_NOT_A_PROBABILITY = InvalidValue(
    ArgumentError,
    "binary_cross_entropy: input must lie in [0, 1]",
    "binary_cross_entropy_with_logits(input, target), if input holds logits",
)


@names_arguments
def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Binary cross-entropy of probabilities, `-(t log(p) + (1 - t) log(1 - p))`.

    Parameters
    ----------
    input : Tensor
        Probabilities p of the positive class, in [0, 1].
    target : Tensor of the same shape and dtype
        Targets t: 1 for the positive class, 0 for the negative one, or a probability.
    weight : Tensor that broadcasts to `input`, optional
        Weight of each element.
    reduction, size_average, reduce
        See `mse_loss`; the mean divides by the number of elements.

    Returns
    -------
    Tensor

    Notes
    -----
    The derivative is in `BinaryCrossEntropy`. For logits, use `binary_cross_entropy_with_logits`,
    which is more accurate than a sigmoid followed by this function.

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
            f"{here}: the shapes or dtypes of input and target do not match",
            got=f"input {input.shape} {input.dtype} and target {target.shape} {target.dtype}",
            hint="target.to(input.dtype).reshape(input.shape)",
        )
    p = input.array
    check_values(p, ~((p >= 0) & (p <= 1)), _NOT_A_PROBABILITY)
    loss = BinaryCrossEntropy.apply(input, target)
    return _reduced(loss if weight is None else loss * weight, reduction)


@names_arguments
@autocasts
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """Binary cross-entropy of `sigmoid(input)`, accurate for logits of any size.

    Parameters
    ----------
    input : Tensor
        Logits x of the positive class.
    target : Tensor of the same shape
        Targets t: 1 for the positive class, 0 for the negative one, or a probability.
    weight : Tensor that broadcasts to `input`, optional
        Weight of each element.
    reduction, size_average, reduce
        See `mse_loss`; the mean divides by the number of elements.
    pos_weight : Tensor that broadcasts to `input`, optional
        Weight w of the term of the positive class.

    Returns
    -------
    Tensor

    Notes
    -----
    With s = sigmoid(x), log(1 - s) = log s - x. The loss -(w t log s + (1 - t) log(1 - s)), where w
    is `pos_weight`, is therefore equal to (1 - t) x - (1 + (w - 1) t) log s.

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
            f"{here}: the shapes of input and target do not match",
            got=f"input {input.shape} and target {target.shape}",
            hint="use input.squeeze(-1) if its last axis has size 1",
        )
    log_sigmoid = logsigmoid(input)
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * (target * (pos_weight - 1.0) + 1.0)
    loss = (1.0 - target) * input - log_sigmoid
    return _reduced(loss if weight is None else loss * weight, reduction)


@names_arguments
@autocasts
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Kullback-Leibler divergence of `target` from a model, `t * (log(t) - input)` per element.

    Here t is the target probability, and `input` is the model's log-probability.

    Parameters
    ----------
    input : Tensor
        Log-probabilities of the model.
    target : Tensor of the same shape
        Probabilities t, or their logarithms if `log_target` is True.
    size_average, reduce : bool, optional
        Deprecated PyTorch arguments, replaced by `reduction`.
    reduction : {"mean", "batchmean", "sum", "none"}
        "batchmean" divides the sum by the size of axis 0, which gives the mean divergence per row.
        "mean" divides the sum by the number of all elements, so it also divides by the number of
        classes.
    log_target : bool, default False
        Whether `target` holds log-probabilities.

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


@names_arguments
@autocasts
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Cosine similarity of vectors, `dot(x1, x2) / (|x1| |x2|)`.

    Parameters
    ----------
    x1, x2 : Tensor
        Vectors to compare; the shapes broadcast.
    dim : int, default 1
        Axis along which the components of each vector lie.
    eps : float, default 1e-8
        Lower bound of each norm, which avoids division by zero.

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
    if x1.shape != x2.shape:  # The norms must include the elements that broadcasting repeats.
        broadcast_shapes(x1.shape, x2.shape, names=["x1", "x2"], where="cosine_similarity")
        x1, x2 = broadcast_tensors(x1, x2)
    # Clamped before the square root, whose derivative is infinite at 0.
    x1 = x1 / (x1 * x1).sum(dim, keepdim=True).clamp(min=eps * eps).sqrt()
    x2 = x2 / (x2 * x2).sum(dim, keepdim=True).clamp(min=eps * eps).sqrt()
    return (x1 * x2).sum(dim)


def _huber(difference, delta):
    limited = hardtanh(difference, -delta, delta)
    return limited * (difference - limited * 0.5)


def _difference(input, target, where):
    """Return input - target. Warn, as PyTorch does, if their shapes differ."""
    _check_pair(input, target, where)
    if input.shape != target.shape:
        warnings.warn(
            f"{where}: input {input.shape} and target {target.shape} have different shapes and "
            "broadcast, which is probably a mistake; reshape one of them",
            stacklevel=5,
        )
    return input - target


def _check_pair(input, target, where):
    for name, value in (("input", input), ("target", target)):
        if not isinstance(value, Tensor):
            raise DTypeError(
                f"{where}: {name} is not a tensor",
                got=type(value).__name__,
                hint=f"mt.tensor({name})",
            )
    if input.dtype.kind != "f":
        raise DTypeError(
            f"{where}: input must be floating-point", got=f"{input.dtype}", hint="input.float()"
        )


def _check_weight(weight, input, where):
    if weight.shape != input.shape:
        raise ShapeError(
            f"{where}: the shapes of weight and input do not match",
            got=f"weight {weight.shape} and input {input.shape}",
            hint="weight.expand(input.shape)",
        )


def _weighted(loss, weight, reduction, where):
    """Multiply the losses by `weight`, then reduce them; "mean" gives the weighted mean."""
    if weight is None:
        return _reduced(loss, reduction)
    _check_weight(weight, loss, where)
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def _reduced(loss, reduction):
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
