"""Cross-entropy and negative log-likelihood: the losses of classifiers."""

import math
import warnings

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, as_array, matmul
from ..backend.row_reductions import row_max, row_sum
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .cast import cast
from .plumbing.range_check import check_range
from .plumbing.tensor_arguments import not_tensors
from .softmax import log_softmax

__all__ = ["cross_entropy", "nll_loss"]


@computes("cross-entropy")
class CrossEntropy(Function):
    r"""Cross-entropy between logits and labels, with class weights and label smoothing.

    Forward:  loss = mean over rows of -log softmax(logits)[label]
    Backward: grad_logits = grad_loss * (softmax(logits) - onehot(label)) / rows

    In general, with a row x_i of logits for each label t_i and p_i = softmax(x_i),
        loss_i = -sum_c q_ic log p_ic.
    With label smoothing e and class weights w (1 by default), the target over the C classes is
        q_ic = w_(t_i) (1 - e) [c = t_i] + w_c e / C,   or q_i = 0 if the label is ignored,
    where [c = t_i] is 1 for the label and 0 for the other classes. The mean over the rows that are
    not ignored is weighted: L = sum_i loss_i / sum_i w_(t_i).

    Derivation: log p_ic = x_ic - log sum_k exp(x_ik), so d loss_i / dx_ic = p_ic sum_k q_ik - q_ic.
    For labels without class weights or smoothing, this is p - onehot. Each row is multiplied by
    dL/dloss_i.
    Saved: logits, labels, weights; each row's maximum and log-sum-exp as intermediates. `backward`
    computes the probabilities again instead of storing a second array of the logits' size.
    """

    @staticmethod
    def forward(ctx, logits, labels, weight, *, ignore_index, label_smoothing, reduction):
        # logits (row, class)   labels (row,)   weight (class,)
        xp = array_module(logits)
        valid = labels != ignore_index
        labels_or_0 = xp.where(valid, labels, 0)
        x_max = row_max(logits)
        shifted = logits - x_max
        loss = -shifted[xp.arange(len(labels)), labels_or_0]
        smooth = -_class_sum(shifted, weight) if label_smoothing else None
        log_total = xp.log(row_sum(xp.exp(shifted, out=shifted)))[:, 0]
        loss += log_total  # -log p of the label
        label_weight = valid.astype(logits.dtype)
        if weight is not None:
            weight_of_label = weight.take(labels_or_0)
            loss *= weight_of_label
            label_weight *= weight_of_label
        if label_smoothing:
            smooth += log_total * _total_weight(logits, weight)  # -sum_c w_c log p_c
            loss *= 1.0 - label_smoothing
            loss += smooth * (label_smoothing / logits.shape[1])
        loss = xp.where(valid, loss, 0.0)
        total_weight = label_weight.sum()
        ctx.save(logits, labels, weight)
        ctx.save_intermediate(valid, labels_or_0, label_weight, total_weight, x_max, log_total)
        if reduction == "none":
            return loss
        return loss.sum() / total_weight if reduction == "mean" else loss.sum()

    @staticmethod
    def backward(ctx, grad_loss):
        logits, labels, weight = ctx.saved
        valid, labels_or_0, label_weight, total_weight, x_max, log_total = ctx.intermediate
        smoothing = ctx.settings["label_smoothing"]
        xp = array_module(logits)
        if ctx.settings["reduction"] == "mean":
            grad_loss = grad_loss / total_weight
        grad_loss = xp.where(valid, grad_loss, 0.0)  # (row,) dL/dloss_i
        grad_label = grad_loss * label_weight * (1.0 - smoothing)  # dL/dloss_i w_t (1 - e)
        grad_class = grad_loss * (smoothing / logits.shape[1])  # dL/dloss_i e / C
        grad_all = grad_label + grad_class * _total_weight(logits, weight)  # dL/dloss_i sum_k q_ik
        grad_x = logits - x_max
        grad_x -= log_total[:, None]
        xp.exp(grad_x, out=grad_x)  # p
        grad_x *= grad_all[:, None]
        grad_x[xp.arange(len(labels)), labels_or_0] -= grad_label
        if smoothing:
            grad_class = grad_class[:, None]
            grad_x -= grad_class if weight is None else grad_class * weight
        return grad_x, None, None

    @staticmethod
    def composed(ctx, logits, labels, weight, *, ignore_index, label_smoothing, reduction):
        """Compute the loss step by step: `log_softmax`, then -sum_c q_c log p_c for each row."""
        log_p = log_softmax(logits, 1)
        valid, labels_or_0, label_weight, total_weight, _, _ = ctx.intermediate
        ignored = wrap(~valid)  # ignored losses are set to 0; multiplying by 0 would keep a NaN
        of_label = log_p.gather(1, wrap(labels_or_0[:, None])).reshape(-1)
        loss = -of_label.masked_fill(ignored, 0.0) * wrap(label_weight)
        if label_smoothing:
            smooth = -(log_p if weight is None else log_p * weight).sum(1)
            smooth = smooth.masked_fill(ignored, 0.0)
            loss = loss * (1.0 - label_smoothing) + smooth * (label_smoothing / logits.shape[1])
        if reduction == "none":
            return loss
        return loss.sum() / wrap(as_array(total_weight)) if reduction == "mean" else loss.sum()


def _class_sum(rows, weight):
    """Return sum_c w_c x_c for each row x."""
    return (row_sum(rows) if weight is None else matmul(rows, weight[:, None]))[:, 0]


def _total_weight(logits, weight):
    """Return the sum of the class weights, sum_c w_c."""
    return float(logits.shape[1]) if weight is None else weight.sum()


@names_arguments
@autocasts
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
    label_smoothing=0.0,
):  # fmt: skip
    """Cross-entropy of a classifier: `-log(softmax(input)[target])`.

    Parameters
    ----------
    input : Tensor of shape (class,), (batch, class) or (batch, class, ...)
        Logits.
    target : Tensor
        Labels: integers of shape (), (batch,) or (batch, ...). Or class probabilities: floats with
        the shape of `input`.
    weight : Tensor of shape (class,), optional
        Weight of each class in the loss.
    ignore_index : int, default -100
        Label that marks rows to ignore; these rows do not receive a gradient.
    reduction : {"mean", "sum", "none"}
        How the losses are combined. For labels, the mean is weighted by `weight`; it is NaN if all
        labels are ignored.
    label_smoothing : float in [0, 1], default 0
        Fraction of the target probability that is spread evenly over all classes.
    size_average, reduce : bool, optional
        Deprecated PyTorch arguments, replaced by `reduction`.

    Returns
    -------
    Tensor
        A 0-d loss, or one loss per label if `reduction` is "none".

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If shapes or dtypes do not match, or another argument is invalid.
    IndexRangeError
        If a label is out of range. On a GPU, the error is raised when the host next reads a result.

    Notes
    -----
    The derivative is in `CrossEntropy`. If the target holds labels, the perplexity is the
    exponential of the mean loss.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cross_entropy(mt.zeros(2, 4), mt.tensor([3, 0]))  # log 4
    tensor(1.3863)
    """
    reduction = reduction_of(reduction, size_average, reduce, "cross_entropy")
    _check_logits(input, target, weight, "cross_entropy")
    if input.dtype.itemsize == 2:  # float16 cannot count beyond 2048 rows
        input, weight = cast(input, "float32"), weight if weight is None else weight.float()
        target = target.float() if target.dtype.kind == "f" else target
        loss = cross_entropy(
            input, target, weight, None, ignore_index, None, reduction, label_smoothing
        )
        return cast(loss, "float16")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            "cross_entropy: label_smoothing must be between 0 and 1",
            got=f"label_smoothing={label_smoothing}",
            hint="use label_smoothing=0.1, or 0 to turn it off",
        )
    if target.dtype.kind == "f":
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    _check_labels(input, target, ignore_index, "cross_entropy")
    loss = CrossEntropy.apply(
        class_rows(input), target.reshape(-1), weight, ignore_index=ignore_index,
        label_smoothing=float(label_smoothing), reduction=reduction,
    )  # fmt: skip
    return loss.reshape(_loss_shape(input)) if reduction == "none" else loss


@computes("cross-entropy")
def _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing):
    """Cross-entropy with class probabilities q as the target: -sum_c w_c q_c log p_c."""
    if target.shape != input.shape:
        raise ShapeError(
            "cross_entropy: target probabilities must have the same shape as the input",
            got=f"target {target.shape} and input {input.shape}",
            hint="use target.long() if target holds labels",
        )
    if ignore_index >= 0:
        raise ArgumentError(
            "cross_entropy: ignore_index must not be set if the target holds probabilities",
            got=f"ignore_index={ignore_index} and target {target.dtype}",
            hint="use target.long() if target holds labels",
        )
    class_axis = 0 if input.ndim == 1 else 1
    classes = input.shape[class_axis]
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    log_p = log_softmax(input, class_axis)
    if weight is not None:
        log_p = log_p * weight.reshape(-1, *[1] * (input.ndim - class_axis - 1))
    loss = -(log_p * target).sum(class_axis)
    if reduction == "mean":
        return (
            loss.sum() / math.prod(loss.shape) if math.prod(loss.shape) else loss.sum() * math.nan
        )
    return loss.sum() if reduction == "sum" else loss


@computes("cross-entropy")
@names_arguments
@autocasts
def nll_loss(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
):
    """Negative log-likelihood of the labels: the step of `cross_entropy` after `log_softmax`.

    Parameters
    ----------
    input : Tensor of shape (class,), (batch, class) or (batch, class, ...)
        Log-probabilities.
    target : integer Tensor of shape (), (batch,) or (batch, ...)
        Labels.
    weight, ignore_index, reduction, size_average, reduce
        See `cross_entropy`.

    Returns
    -------
    Tensor
        A 0-d loss, or one loss per label if `reduction` is "none".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> nll_loss(mt.tensor([[-0.5, -1.0]]), mt.tensor([1]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce, "nll_loss")
    _check_logits(input, target, weight, "nll_loss")
    _check_labels(input, target, ignore_index, "nll_loss")
    labels = target.array.reshape(-1)
    xp = array_module(labels)
    valid = labels != ignore_index
    labels = xp.where(valid, labels, 0)
    label_weight = valid.astype(input.dtype)
    if weight is not None:
        label_weight *= weight.array.take(labels)
    picked = class_rows(input).gather(1, wrap(labels[:, None])).reshape(-1)
    loss = -picked.masked_fill(wrap(~valid), 0.0) * wrap(label_weight)
    if reduction == "none":
        return loss.reshape(_loss_shape(input))
    return loss.sum() / wrap(as_array(label_weight.sum())) if reduction == "mean" else loss.sum()


def class_rows(input):
    """Reshape scores from (class,), (batch, class) or (batch, class, ...) to (row, class)."""
    if input.ndim == 1:
        return input.reshape(1, -1)
    if input.ndim == 2:
        return input
    classes = input.shape[1]
    return input.movedim(1, -1).reshape(math.prod(input.shape) // max(classes, 1), classes)


def reduction_of(reduction, size_average, reduce, where):
    """Return `reduction`, or its equivalent if PyTorch's deprecated arguments are given."""
    if size_average is not None or reduce is not None:
        warnings.warn(
            f"{where}: size_average and reduce are deprecated; use reduction=", stacklevel=4
        )
        if reduce is not None and not reduce:
            return "none"
        return "sum" if size_average is not None and not size_average else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(
            f"{where}: reduction must be 'mean', 'sum' or 'none'", got=f"reduction={reduction!r}"
        )
    return reduction


def _check_logits(input, target, weight, where):
    """Reject logits that are not floating-point tensors, and weights that do not match them."""
    for name, value in (("input", input), ("target", target)):
        if not isinstance(value, Tensor):
            raise DTypeError(
                f"{where}: {name} is not a tensor",
                got=type(value).__name__,
                hint=f"mt.tensor({name})",
            )
    if input.dtype.kind != "f":
        raise DTypeError(
            f"{where}: input must be a floating-point tensor",
            got=f"input {input.dtype}",
            hint="input.float()",
        )
    if input.ndim == 0:
        raise ShapeError(
            f"{where}: input does not have a class axis",
            got="input ()",
            expected="(class,), (batch, class) or (batch, class, ...)",
            hint="use input.unsqueeze(0) if there is only one class",
        )
    classes = input.shape[0 if input.ndim == 1 else 1]
    try:
        fits = weight is None or weight.shape == (classes,)
    except AttributeError as error:
        raise not_tensors(error, where, weight=weight) from None
    if not fits:
        raise ShapeError(
            f"{where}: weight must have one number per class",
            got=f"weight {weight.shape} for {classes} classes",
            hint="use weight=None to weight all classes equally",
        )
    if weight is not None and weight.dtype != input.dtype:
        raise DTypeError(
            f"{where}: weight and input have different dtypes",
            got=f"weight {weight.dtype} and input {input.dtype}",
            hint="weight.to(input.dtype)",
        )


def _loss_shape(input):
    """Return the shape of the logits without the class axis."""
    return () if input.ndim == 1 else (input.shape[0], *input.shape[2:])


def _check_labels(input, target, ignore_index, where):
    """Reject labels that are not integers, are out of range, or do not match the rows of logits."""
    if target.dtype.kind not in "iu":
        raise DTypeError(
            f"{where}: labels must be integers", got=f"target {target.dtype}", hint="target.long()"
        )
    class_axis = 0 if input.ndim == 1 else 1
    expected = _loss_shape(input)
    lone = input.ndim == 1 and target.shape == (1,)  # PyTorch accepts (1,) instead of ()
    if target.shape != expected and not lone:
        one_hot = "; class probabilities must be floats" if target.shape == input.shape else ""
        raise ShapeError(
            f"{where}: target must have one label per row of the input",
            got=f"input {input.shape} and target {target.shape}",
            expected=f"target {expected}{one_hot}",
            hint="use logits.reshape(-1, classes) and labels.reshape(-1)"
            if target.ndim > 1
            else "check that axis 1 of the input is the class axis",
        )
    check_range(
        target.array, input.shape[class_axis], where=where, name="target", allow=ignore_index
    )
