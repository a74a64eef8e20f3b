"""Softmax and its relatives: scores in, weights that sum to 1 out."""

import warnings
from functools import lru_cache

from ..autograd.broadcasting import broadcast_shapes
from ..autograd.function import Function
from ..backend import array_module
from ..backend.rows import row_max, row_sum
from ..errors import DTypeError, ShapeError
from ..tensor import Tensor
from .axes import axes_of, axis_of
from .cast import cast
from .exponential import Exp
from .given import as_operand, not_tensors
from .operands import floating
from .shape import reshape

__all__ = ["log_softmax", "logsumexp", "masked_softmax", "softmax", "softmin"]


class Softmax(Function):
    r"""y_i = exp(x_i) / sum_j exp(x_j), along one axis.

    Derivative: dy_i/dx_j = y_i (delta_ij - y_j).  With g = dL/dy,
        dL/dx_j = sum_i g_i y_i (delta_ij - y_j) = y_j (g_j - sum_i g_i y_i).
    Saved: the output y.  The (n, n) Jacobian is never built.
    """

    @staticmethod
    def forward(ctx, x, *, axis):
        xp = array_module(x)
        y = x - max_along(x, axis)  # leaves the result unchanged and keeps exp from overflowing
        xp.exp(y, out=y)
        y /= sum_along(y, axis)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        mean_grad = (grad_y * y).sum(axis=ctx.axis, keepdims=True)  # y-weighted mean of grad_y
        return y * (grad_y - mean_grad)


class MaskedSoftmax(Function):
    r"""y_i = m_i exp(x_i) / sum_j m_j exp(x_j), along one axis, for a mask m of 0 and 1.

    Derivative: that of `Softmax`, in which y_j = 0 stops the gradient of a blocked x_j.
    Saved: the output y.

    Where nothing is left to sum (all blocked, or all x_i = -inf) y is 0, and so is dL/dx.
    """

    @staticmethod
    def forward(ctx, x, mask, *, axis):
        xp = array_module(x)
        y = x.copy() if mask is None else xp.where(mask, x, -xp.inf)
        softmax_in_place(y, axis)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        mean_grad = (grad_y * y).sum(axis=ctx.axis, keepdims=True)
        return y * (grad_y - mean_grad), None


class LogSoftmax(Function):
    r"""y_i = log softmax(x)_i = x_i - log sum_j exp(x_j), along one axis.

    Derivative: dy_i/dx_j = delta_ij - exp(y_j).  With g = dL/dy,
        dL/dx_j = g_j - exp(y_j) sum_i g_i.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x, *, axis):
        xp = array_module(x)
        y = x - max_along(x, axis)
        y -= xp.log(sum_along(xp.exp(y), axis))
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y - Exp.call(y) * grad_y.sum(axis=ctx.axis, keepdims=True)


class LogSumExp(Function):
    r"""y = log sum_i exp(x_i), over some axes.

    Derivative: dy/dx_i = exp(x_i) / sum_j exp(x_j) = exp(x_i - y), the softmax of x.
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


def softmax_in_place(x, axis):
    """Write over x its softmax, zeros where every entry of a row is -inf; returns x."""
    xp = array_module(x)
    x_max = max_along(x, axis)
    x -= xp.maximum(x_max, _lowest(x.dtype, xp))  # -inf less a finite number stays -inf
    xp.exp(x, out=x)
    total = sum_along(x, axis)
    x /= xp.maximum(total, 1.0)  # it is at least exp(0) = 1, or 0 where nothing is left
    return x


@lru_cache(maxsize=8)
def _lowest(dtype, xp):
    return float(xp.finfo(dtype).min)


def max_along(x, axis):
    """The maximum along one axis, which is kept with size 1."""
    if not x.size:
        return array_module(x).zeros_like(x)  # nothing to look at, and nothing to subtract from
    return row_max(x) if axis in (-1, x.ndim - 1) else x.max(axis=axis, keepdims=True)


def sum_along(x, axis):
    """The sum along one axis, which is kept with size 1."""
    return row_sum(x) if axis in (-1, x.ndim - 1) else x.sum(axis=axis, keepdims=True)


def softmax(input, dim=None, dtype=None):
    """Normalised exponential along one axis.

    Parameters
    ----------
    input : Tensor of shape (..., n, ...)
        Scores (dimensionless log-weights).
    dim : int
        The axis that will sum to 1.
    dtype : dtype, optional
        Cast the input first.

    Returns
    -------
    Tensor of the same shape as `input`
        Weights in [0, 1]; sums to 1 along `dim`. NaN where every score is -inf:
        `masked_softmax` gives zeros there.

    Notes
    -----
    Derivative in `Softmax`. Used over the key axis in Vaswani et al. 2017 [1]_, Eq. 1.
    As in PyTorch, `dim=None` picks an axis by an old rule and warns.

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


def softmin(input, dim=None, dtype=None):
    """`softmax(-input)`: the smallest score gets the largest weight."""
    return softmax(-as_operand(input, "softmin"), dim, dtype)


def log_softmax(input, dim=None, dtype=None):
    """The logarithm of `softmax`, exact also where the weight itself would round to 0.

    Parameters
    ----------
    input : Tensor of shape (..., n, ...)
    dim : int
        The axis along which the exponentials sum to 1.
    dtype : dtype, optional
        Cast the input first.

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


def masked_softmax(input, mask=None, dim=-1):
    """Softmax over the entries that a mask leaves; the others get weight 0.

    Parameters
    ----------
    input : Tensor of shape (..., n, ...)
        Scores; -inf blocks an entry as well.
    mask : bool Tensor that broadcasts to `input`, or Mask, optional
        True where an entry takes part.
    dim : int, default -1
        The axis that will sum to 1.

    Returns
    -------
    Tensor of the same shape as `input`
        A row without any entry left is all zeros and sends back a zero gradient.

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
        _check_mask(mask, input.shape)
    if input.ndim == 0:
        return reshape(masked_softmax(reshape(input, (1,)), mask, dim), ())
    axis = axis_of(dim, input.ndim, "masked_softmax")
    return MaskedSoftmax.apply(input, mask, axis=axis)


def _check_mask(mask, shape):
    if not isinstance(mask, Tensor) or mask.dtype.kind != "b":
        raise DTypeError(
            "masked_softmax: the mask is not a boolean tensor.",
            got=f"{getattr(mask, 'dtype', type(mask).__name__)}",
            expected="bool, True where an entry takes part",
            hint="add a float mask to the scores instead",
        )
    together = broadcast_shapes(shape, mask.shape, names=("input", "mask"), where="masked_softmax")
    if together != shape:
        raise ShapeError(
            "masked_softmax: the mask is larger than the input.",
            got=f"mask {mask.shape} and input {shape}",
            expected="a mask that broadcasts to the input",
        )


def _along_one_axis(function, name, input, dim, dtype):
    if dtype is not None:
        input = cast(as_operand(input, name), dtype)
    input = _real(input, name)
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
        warnings.warn(f"{name}: dim was not given; {dim} was taken.", stacklevel=3)
    axis = axis_of(dim, input.ndim, name)
    if input.ndim == 0:
        return reshape(function.apply(reshape(input, (1,)), axis=0), ())
    return function.apply(input, axis=axis)


def _real(input, name):
    try:
        real = input.dtype.kind == "f"
    except AttributeError as error:
        raise not_tensors(error, name, input=input) from None
    if not real:
        raise DTypeError(
            f"{name}: defined for floating-point tensors.",
            got=f"{input.dtype}",
            hint=f"{name}(input.float(), ...)",
        )
    return input


def logsumexp(input, dim, keepdim=False):
    """log(sum(exp(input))) over the axes `dim`, without overflow.

    Parameters
    ----------
    input : Tensor
    dim : int or tuple of int
    keepdim : bool, default False
        Keep the reduced axes with size 1.

    Returns
    -------
    Tensor
        -inf where nothing, or only -inf, was summed.

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
