"""ReLU and similar: leaky_relu, prelu, elu, celu, selu, hardtanh, relu6, hardsigmoid."""

from math import inf

from ..autograd.autocast import autocasts
from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..backend.row_reductions import long_rows
from ..backend.select import where as choose
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from .exp_log import Exp
from .plumbing.operands import floating, number
from .plumbing.tensor_arguments import as_operand
from .reshape import reshape
from .where import Where, drop_where

__all__ = [
    "celu", "elu", "hardsigmoid", "hardtanh", "leaky_relu", "prelu", "relu", "relu6", "selu",
]  # fmt: skip


class Relu(Function):
    """Rectified linear unit (ReLU).

    Forward:  y = max(x, 0)
    Backward: grad_x = grad_y * (x > 0)
    Derivation: the derivative is 1 for x > 0 and 0 for x < 0. At the kink x = 0, it is 0 by
    convention.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = Relu.value(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return drop_where(y <= 0, grad_y)

    @staticmethod
    def value(x, in_place=False):
        """Return y = max(x, 0) for an array x, in new memory or, if `in_place`, in that of x."""
        xp, rows = array_module(x), long_rows(x)
        zeros = xp.zeros(rows.shape[-1:], dtype=x.dtype)  # one row, faster than a scalar in NumPy
        return xp.maximum(rows, zeros, out=rows if in_place else None).reshape(x.shape)

    @staticmethod
    def value_and_slope(x):
        """Return y for an array x, and dy/dx as a mask that is True where the derivative is 1."""
        y = Relu.value(x)
        return y, ~(y <= 0)


class LeakyRelu(Function):
    """Leaky ReLU: x for x > 0, else a small slope times x.

    Forward:  y = where(x > 0, x, slope * x)
    Backward: grad_x = grad_y * where(x > 0, 1, slope)
    Derivation: the derivative is 1 for x > 0, and the slope for x < 0 and at the kink x = 0.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, slope):
        ctx.save(x)
        ctx.slope = slope
        return choose(x > 0, x, x * slope)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return Where.call(x > 0, grad_y, grad_y * ctx.slope)


class Prelu(Function):
    """Leaky ReLU with learned slopes w, which broadcast with x.

    Forward:  y = where(x > 0, x, w * x)
    Backward: grad_x = grad_y * where(x > 0, 1, w),
        grad_w = sum_to(grad_y * where(x > 0, 0, x), w)
    Derivation: dy/dw = x below the kink, else 0. The gradient is summed over the elements that
    share a slope.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save(x, w)
        return choose(x > 0, x, x * w)

    @staticmethod
    def backward(ctx, grad_y):
        x, w = ctx.saved
        need_x, need_w = ctx.needs_grad
        above = x > 0
        return (
            Where.call(above, grad_y, grad_y * w) if need_x else None,
            sum_to_shape(drop_where(above, grad_y * x), ctx.shapes[1]) if need_w else None,
        )


class Elu(Function):
    """Exponential linear unit (ELU); with `scale` also SELU, and with `rate` also CELU.

    Forward:  y = scale * where(x > 0, x, alpha * (exp(rate * x) - 1))
    Backward: grad_x = grad_y * scale * where(x > 0, 1, alpha * rate * exp(rate * x))
    Derivation: each branch has its own derivative. x = 0 belongs to the exponential branch.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, alpha, scale=1, rate=1):
        ctx.save(x)
        ctx.alpha, ctx.scale, ctx.rate = alpha, scale, rate
        xp = array_module(x)
        below = xp.expm1(xp.minimum(x, 0) * rate) * alpha
        return choose(x <= 0, below, x) * scale

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        # HardTanh has slope 0 at its limit, so that the second derivative at the kink is 0.
        below = Exp.call(HardTanh.call(x, low=-inf, high=0) * ctx.rate) * (ctx.alpha * ctx.rate)
        return Where.call(x <= 0, grad_y * below, grad_y) * ctx.scale


class HardTanh(Function):
    """Hard tanh: x limited to [low, high].

    Forward:  y = min(max(x, low), high)
    Backward: grad_x = grad_y * (x > low) * (x < high)
    Derivation: the derivative is 1 strictly between the limits, else 0.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, low, high):
        ctx.save(x)
        ctx.low, ctx.high = low, high
        xp = array_module(x)
        return xp.minimum(xp.maximum(x, low), high)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return drop_where((x <= ctx.low) | (x >= ctx.high), grad_y)


def relu(input):
    """Rectified linear unit (ReLU), `max(input, 0)`.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.relu(mt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return Relu.apply(as_operand(input, "relu"))


@names_arguments
def leaky_relu(input, negative_slope=0.01):
    """Leaky ReLU: `input` for positive elements, else `input * negative_slope`.

    Parameters
    ----------
    input : Tensor
    negative_slope : float

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.leaky_relu(mt.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1,  2. ])
    """
    slope = number(negative_slope, "leaky_relu", "negative_slope")
    return LeakyRelu.apply(floating(input, "leaky_relu"), slope=slope)


@names_arguments
@autocasts
def prelu(input, weight):
    """PReLU: `input` for positive elements, else `input` times a learned slope.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, ...)
    weight : Tensor of shape (1,) or (channel,)
        One slope for all elements or for each channel.

    Returns
    -------
    Tensor of the same shape as `input`

    References
    ----------
    .. [1] "Delving Deep into Rectifiers", arXiv:1502.01852v1, section 2.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.prelu(mt.tensor([[-1.0, -1.0, 2.0]]), mt.tensor([0.1, 0.2, 0.3]))
    tensor([[-0.1, -0.2,  2. ]])
    """
    input, weight = as_operand(input, "prelu"), as_operand(weight, "prelu", "weight")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.array.size not in (1, channels):
        raise ShapeError(
            "prelu: weight must have one number, or one for each channel",
            got=f"weight {weight.shape} for input {input.shape}",
            expected=f"shape (1,) or ({channels},), the size of axis 1 of input",
            hint="mt.full((1,), 0.25), the initial value in nn.PReLU",
        )
    if not input.dtype == weight.dtype:
        raise DTypeError(
            "prelu: input and weight must have the same dtype",
            got=f"input {input.dtype}, weight {weight.dtype}",
            hint=f"weight.to({input.dtype})",
        )
    shape = (-1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else (1,) * input.ndim
    return Prelu.apply(input, reshape(weight, shape))


@names_arguments
def elu(input, alpha=1.0):
    """Exponential linear unit (ELU): `input` if positive, else `alpha * (exp(input) - 1)`.

    Parameters
    ----------
    input : Tensor
    alpha : float

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.elu(mt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return Elu.apply(floating(input, "elu"), alpha=number(alpha, "elu", "alpha"))


@names_arguments
def celu(input, alpha=1.0):
    """CELU: `input` if positive, else `alpha * (exp(input / alpha) - 1)`, which is smooth at 0.

    Parameters
    ----------
    input : Tensor
    alpha : float

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.celu(mt.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.4323,  2.    ])
    """
    alpha = number(alpha, "celu", "alpha")
    if alpha == 0:
        raise ArgumentError(
            "celu(input, alpha): alpha must not be 0",
            got="alpha=0",
            hint="use relu(input), the limit of celu for alpha -> 0",
        )
    return Elu.apply(floating(input, "celu"), alpha=alpha, rate=1 / alpha)


_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@names_arguments
def selu(input):
    """SELU: a scaled `elu` whose constants preserve mean 0 and variance 1 across layers.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    References
    ----------
    .. [1] "Self-Normalizing Neural Networks", arXiv:1706.02515v5, eq. 14.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.selu(mt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return Elu.apply(floating(input, "selu"), alpha=_SELU_ALPHA, scale=_SELU_SCALE)


@names_arguments
def hardtanh(input, min_val=-1.0, max_val=1.0):
    """Hard tanh: `input` limited to `[min_val, max_val]`; the gradient is 0 at the limits.

    Parameters
    ----------
    input : Tensor
    min_val, max_val : float

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.hardtanh(mt.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    low = number(min_val, "hardtanh", "min_val")
    high = number(max_val, "hardtanh", "max_val")
    input = as_operand(input, "hardtanh")
    if input.dtype.kind != "f":
        low, high = int(low), int(high)  # integers stay integers, as in PyTorch
    return HardTanh.apply(input, low=low, high=high)


@names_arguments
def relu6(input):
    """ReLU6: `input` limited to [0, 6].

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.relu6(mt.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """
    return HardTanh.apply(as_operand(input, "relu6"), low=0, high=6)


@names_arguments
def hardsigmoid(input):
    """Hard sigmoid: `input / 6 + 1/2` limited to [0, 1], a piecewise linear sigmoid.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.hardsigmoid(mt.tensor([-4.0, 0.0, 1.5]))
    tensor([0.  , 0.5 , 0.75])
    """
    return HardTanh.apply(floating(input, "hardsigmoid") / 6 + 0.5, low=0, high=1)
