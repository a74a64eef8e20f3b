"""Softmax and related functions: turn scores into weights that sum to 1."""

import warnings
from functools import lru_cache

from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend import array_module
from ..backend.half import narrowed, widened
from ..backend.row_reductions import row_max, row_sum
from ..computes import computes
from ..errors import DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .cast import cast
from .exp_log import Exp
from .plumbing.axes import axes_of, axis_of
from .plumbing.operands import floating
from .plumbing.tensor_arguments import as_operand, not_tensors
from .reshape import reshape

__all__ = ["log_softmax", "logsumexp", "masked_softmax", "softmax", "softmin"]


@computes("softmax")
class Softmax(Function):
    r"""Softmax along one axis.

    Forward:  y = exp(x) / sum(exp(x))
    Backward: grad_x = y * (grad_y - sum(grad_y * y))
    Derivation: dy_i/dx_j = y_i (delta_ij - y_j).  With g = dL/dy,
        dL/dx_j = sum_i g_i y_i (delta_ij - y_j) = y_j (g_j - sum_i g_i y_i).
    Saved: the output y.  The (n, n) Jacobian is never built.
    """

    @staticmethod
    def forward(ctx, x, *, axis):
        xp, given, x = array_module(x), x, widened(x)
        y = x - max_along(x, axis)  # for numerical stability
        xp.exp(y, out=y)
        y /= sum_along(y, axis)
        y = narrowed(y, given)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        mean_grad = (grad_y * y).sum(axis=ctx.axis, keepdims=True)  # y-weighted mean of grad_y
        return y * (grad_y - mean_grad)


@computes("masked softmax")
class MaskedSoftmax(Function):
    r"""Softmax along one axis over the positions that a mask m of zeros and ones allows.

    Forward:  y = exp(x) / sum(exp(x)) over the allowed positions
    Backward: grad_x = y * (grad_y - sum(grad_y * y))
    Derivation: as in `Softmax`, with y_i = m_i exp(x_i) / sum_j m_j exp(x_j). The gradient of a
    blocked x_j is 0, because y_j = 0.
    Saved: the output y.

    If all positions are blocked, or all allowed x_i are -inf, y and dL/dx are 0.
    """

    @staticmethod
    def forward(ctx, x, mask, *, axis):
        xp, given, x = array_module(x), x, widened(x)
        y = x.copy() if mask is None else xp.where(mask, x, -xp.inf)
        softmax_in_place(y, axis)
        y = narrowed(y, given)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        mean_grad = (grad_y * y).sum(axis=ctx.axis, keepdims=True)
        return y * (grad_y - mean_grad), None


@computes("log softmax", reveals=("softmax",))
class LogSoftmax(Function):
    r"""Logarithm of the softmax along one axis.

    Forward:  y = x - log(sum(exp(x)))
    Backward: grad_x = grad_y - exp(y) * sum(grad_y)
    Derivation: dy_i/dx_j = delta_ij - exp(y_j).  With g = dL/dy,
        dL/dx_j = g_j - exp(y_j) sum_i g_i.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x, *, axis):
        xp, given, x = array_module(x), x, widened(x)
        y = x - max_along(x, axis)
        y -= xp.log(sum_along(xp.exp(y), axis))
        y = narrowed(y, given)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y - Exp.call(y) * grad_y.sum(axis=ctx.axis, keepdims=True)


@computes("log-sum-exp", reveals=("softmax", "log softmax"))
class LogSumExp(Function):
    r"""Log-sum-exp over some axes.

    Forward:  y = log(sum(exp(x)))
    Backward: grad_x = grad_y * exp(x - y)
    Derivation: dy/dx_i = exp(x_i) / sum_j exp(x_j) = exp(x_i - y), the softmax of x.
    Saved: the input x and the output y.
    """

    @staticmethod
    def forward(ctx, x, *, axes, keepdims):
        xp = array_module(x)
        ctx.kept_shape = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
        if x.size:
            x_max = x.max(axis=axes, keepdims=True)
            shift = xp.where(xp.isfinite(x_max), x_max, 0.0)  # inf - inf would be NaN
            total = xp.exp(x - shift).sum(axis=axes, keepdims=True)
            y = xp.log(xp.maximum(total, 0.5)) + x_max  # the total is 0, or at least exp(0)
        else:
            y = xp.full(ctx.kept_shape, -xp.inf, dtype=x.dtype)
        if not keepdims:
            y = y.reshape([n for i, n in enumerate(x.shape) if i not in axes])
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        grad_y, y = grad_y.reshape(ctx.kept_shape), y.reshape(ctx.kept_shape)
        return grad_y * Exp.call(x - y)


@computes("softmax in place", reveals=("softmax", "masked softmax"))
def softmax_in_place(x, axis):
    """Overwrite x with its softmax, and return x. A row with only -inf entries becomes zeros."""
    xp = array_module(x)
    x_max = max_along(x, axis)
    x -= xp.maximum(x_max, _lowest(x.dtype, xp))  # -inf minus a finite number is -inf
    xp.exp(x, out=x)
    total = sum_along(x, axis)
    x /= xp.maximum(total, 1.0)  # total >= exp(0) = 1, or 0 where every entry is -inf
    return x


@lru_cache(maxsize=8)
def _lowest(dtype, xp):
    return float(xp.finfo(dtype).min)


def max_along(x, axis):
    """Return the maximum along one axis, which is kept with size 1."""
    if not x.size:
        return array_module(x).zeros_like(x)  # without entries, any value works
    return row_max(x) if axis in (-1, x.ndim - 1) else x.max(axis=axis, keepdims=True)


def sum_along(x, axis):
    """Return the sum along one axis, which is kept with size 1."""
    return row_sum(x) if axis in (-1, x.ndim - 1) else x.sum(axis=axis, keepdims=True)


def softmax(input, dim=None, dtype=None):
    """Softmax along one axis: exponentials, normalized to sum to 1.

    Parameters
    ----------
    input : Tensor of shape (..., n, ...)
        Scores, also called logits.
    dim : int
        Axis along which the weights sum to 1.
    dtype : dtype, optional
        Dtype to convert the input to first.

    Returns
    -------
    Tensor of the same shape as `input`
        Weights in [0, 1] that sum to 1 along `dim`. They are NaN where every score is -inf;
        `masked_softmax` returns zeros there.

    Notes
    -----
    The derivative is in `Softmax`. Vaswani et al. 2017 [1]_, Eq. 1, apply it over the key axis.
    As in PyTorch, `dim=None` warns and selects axis 0 for 0, 1 or 3 axes, else axis 1.

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, sec. 3.2.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> softmax(mt.tensor([[0.0, 0.0], [0.0, 1000.0]]), dim=-1)
    tensor([[0.5, 0.5],
            [0. , 1. ]])
    """
    return _along_one_axis(Softmax, "softmax", input, dim, dtype)


@names_arguments
def softmin(input, dim=None, dtype=None):
    """`softmax(-input)`, which gives the smallest score the largest weight."""
    return softmax(-as_operand(input, "softmin"), dim, dtype)


def log_softmax(input, dim=None, dtype=None):
    """The logarithm of `softmax`, accurate even where the softmax itself would round to 0.

    Parameters
    ----------
    input : Tensor of shape (..., n, ...)
    dim : int
        Axis along which the exponentials sum to 1.
    dtype : dtype, optional
        Dtype to convert the input to first.

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> log_softmax(mt.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    return _along_one_axis(LogSoftmax, "log_softmax", input, dim, dtype)


@names_arguments
def masked_softmax(input, mask=None, dim=-1):
    """Softmax over the entries that a mask allows; the others get weight 0.

    Parameters
    ----------
    input : Tensor of shape (..., n, ...)
        Scores; -inf blocks an entry as well.
    mask : bool Tensor that broadcasts to `input`, or Mask, optional
        True for the entries to include.
    dim : int, default -1
        Axis along which the weights sum to 1.

    Returns
    -------
    Tensor of the same shape as `input`
        A row in which every entry is blocked is all zeros, with a zero gradient.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> masked_softmax(mt.zeros(2, 2), mt.tensor([[True, True], [False, False]]))
    tensor([[0.5, 0.5],
            [0. , 0. ]])
    """
    input = _real(input, "masked_softmax")
    mask = getattr(mask, "attend", mask)
    if mask is not None:
        check_mask(mask, input.shape)
    if input.ndim == 0:
        return reshape(masked_softmax(reshape(input, (1,)), mask, dim), ())
    axis = axis_of(dim, input.ndim, "masked_softmax")
    return MaskedSoftmax.apply(input, mask, axis=axis)


def check_mask(mask, shape, where="masked_softmax", scores="input"):
    """Check that a mask is boolean and broadcasts to the shape of the scores."""
    if not isinstance(mask, Tensor) or mask.dtype.kind != "b":
        raise DTypeError(
            f"{where}: mask must be a boolean tensor",
            got=f"{getattr(mask, 'dtype', type(mask).__name__)}",
            expected="bool, True for the entries to include",
            hint="add a float mask to the scores instead",
        )
    together = broadcast_shapes(shape, mask.shape, names=(scores, "mask"), where=where)
    if together != shape:
        raise ShapeError(
            f"{where}: mask does not broadcast to the shape of {scores}",
            got=f"mask {mask.shape} and {scores} {shape}",
            expected=f"axes of size 1, or of the same size as in {scores}",
            hint="use mask[:, None, None, :] for a key mask of shape (batch, key)",
        )


def _along_one_axis(function, name, input, dim, dtype):
    if dtype is not None:
        input = cast(as_operand(input, name), dtype)
    input = _real(input, name)
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
        warnings.warn(f"{name}: dim is missing; dim={dim} is used", stacklevel=3)
    axis = axis_of(dim, input.ndim, name)
    if input.ndim == 0:
        return reshape(function.apply(reshape(input, (1,)), axis=0), ())
    result = function.apply(input, axis=axis)
    return result if dtype is None else cast(result, dtype)  # autocast computes in float32


def _real(input, name):
    try:
        real = input.dtype.kind == "f"
    except AttributeError as error:
        raise not_tensors(error, name, input=input) from None
    if not real:
        raise DTypeError(
            f"{name}: input must be a floating-point tensor",
            got=f"{input.dtype}",
            hint=f"call {name}(input.float(), ...)",
        )
    return input


@names_arguments
def logsumexp(input, dim, keepdim=False):
    """Log-sum-exp, `log(sum(exp(input)))`, over the axes `dim`, without overflow.

    Parameters
    ----------
    input : Tensor
    dim : int or tuple of int
    keepdim : bool, default False
        Whether to keep the reduced axes with size 1.

    Returns
    -------
    Tensor
        Log of the sum; -inf where the sum is empty or all of its elements are -inf.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> logsumexp(mt.tensor([1000.0, 1000.0]), dim=0).item() - 1000
    0.693...
    """
    input = floating(input, "logsumexp")
    axes = axes_of(dim, input.ndim, "logsumexp") or tuple(range(input.ndim))
    if input.ndim == 0:
        return logsumexp(reshape(input, (1,)), 0)
    return LogSumExp.apply(input, axes=axes, keepdims=bool(keepdim))
