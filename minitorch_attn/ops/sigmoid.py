"""Sigmoid, tanh, and functions whose derivative is a sigmoid: logsigmoid, softplus, logaddexp."""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..backend.errstate import overflow_is_fine
from ..backend.select import where as choose
from ..computes import computes
from ..errors import DTypeError
from ..named_errors import names_arguments
from .plumbing.operands import MISFITS, explained, floating, number
from .plumbing.promotion import promote
from .plumbing.tensor_arguments import as_operand
from .where import Where

__all__ = ["logaddexp", "logsigmoid", "sigmoid", "softplus", "tanh"]


class Tanh(Function):
    """Hyperbolic tangent, `(e^x - e^-x) / (e^x + e^-x)`.

    Forward:  y = tanh(x)
    Backward: grad_x = grad_y * (1 - y^2)
    Derivation: dy/dx = 1 - y^2.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = array_module(x).tanh(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * (1 - y * y)


class Sigmoid(Function):
    """Logistic sigmoid.

    Forward:  y = 1 / (1 + exp(-x))
    Backward: grad_x = grad_y * y * (1 - y)
    Derivation: dy/dx = e^-x / (1 + e^-x)^2 = y (1 - y).
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        xp = array_module(x)
        with overflow_is_fine():  # far below 0, y = 1 / inf = 0
            y = 1 / (1 + xp.exp(-x))
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * y * (1 - y)


class LogSigmoid(Function):
    """Logarithm of the sigmoid, computed as `min(x, 0) - log(1 + e^-|x|)`.

    Forward:  y = -log(1 + exp(-x))
    Backward: grad_x = grad_y / (1 + exp(x))
    Derivation: with the sigmoid s, dy/dx = s'(x) / s(x) = 1 - s(x) = s(-x).
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        xp = array_module(x)
        return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * Sigmoid.call(-x)


class Softplus(Function):
    """Softplus, a smooth ReLU; it is exactly x where `beta * x` is above a threshold.

    Forward:  y = log(1 + exp(beta * x)) / beta
    Backward: grad_x = grad_y / (1 + exp(-beta * x))
    Derivation: with s(x) = 1 / (1 + e^-x), dy/dx = s(beta x), and 1 above the threshold.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, beta, threshold):
        ctx.save(x)
        ctx.beta, ctx.threshold = beta, threshold
        xp = array_module(x)
        t = x * beta
        y = (xp.maximum(t, 0) + xp.log1p(xp.exp(-xp.abs(t)))) / beta  # without overflow
        return choose(t > threshold, x, y)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        t = x * ctx.beta
        return Where.call(t > ctx.threshold, grad_y, grad_y * Sigmoid.call(t))


@computes("log-add-exp", reveals=("log softmax",))
class LogAddExp(Function):
    """Logarithm of a sum of two exponentials, computed as `max(a, b) + log(1 + e^-|a - b|)`.

    Forward:  y = log(exp(a) + exp(b))
    Backward: grad_a = sum_to(grad_y / (1 + exp(b - a)), a),
        grad_b = sum_to(grad_y / (1 + exp(a - b)), b)
    Derivation: with the sigmoid s, dy/da = e^a / (e^a + e^b) = s(a - b) and dy/db = s(b - a). Both
    gradients are summed over the broadcast axes.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        xp = array_module(a, b)
        larger = xp.maximum(a, b)
        gap = xp.abs(a - b)
        gap = xp.where(a == b, 0.0, gap)  # the distance of two equal infinities is 0
        ctx.save(a, b)
        return larger + xp.log1p(xp.exp(-gap))

    @staticmethod
    def backward(ctx, grad_y):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_y * Sigmoid.call(a - b), ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_y * Sigmoid.call(b - a), ctx.shapes[1]) if need_b else None,
        )


def tanh(input):
    """Hyperbolic tangent, between -1 and 1.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.tanh(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """
    return Tanh.apply(floating(input, "tanh"))


def sigmoid(input):
    """Sigmoid, `1 / (1 + exp(-input))`, between 0 and 1.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sigmoid(mt.tensor([0.0, 1.0]))
    tensor([0.5   , 0.7311])
    """
    return Sigmoid.apply(floating(input, "sigmoid"))


@names_arguments
def logsigmoid(input):
    """Log-sigmoid, `log(sigmoid(input))`, accurate even where the sigmoid underflows.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logsigmoid(mt.tensor([0.0, -200.0]))
    tensor([  -0.6931, -200.    ])
    """
    return LogSigmoid.apply(floating(input, "logsigmoid"))


@names_arguments
def softplus(input, beta=1.0, threshold=20.0):
    """Softplus, `log(1 + exp(beta * input)) / beta`, a smooth `relu`.

    Parameters
    ----------
    input : Tensor
    beta : float
        Sharpness of the transition at 0.
    threshold : float
        Value of `beta * input` above which the result is `input` itself.

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.softplus(mt.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.    ])
    """
    beta = number(beta, "softplus", "beta")
    threshold = number(threshold, "softplus", "threshold")
    return Softplus.apply(floating(input, "softplus"), beta=beta, threshold=threshold)


@names_arguments
def logaddexp(input, other):
    """Logarithm of a sum of exponentials, `log(exp(input) + exp(other))`, without overflow.

    Parameters
    ----------
    input, other : Tensor

    Returns
    -------
    Tensor of the broadcast shape

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logaddexp(mt.tensor([0.0, 1000.0]), mt.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    """
    try:
        a, b = as_operand(input, "logaddexp"), as_operand(other, "logaddexp", "other")
        a, b = promote(a, b)
        if a.dtype.kind != "f":
            raise DTypeError(
                "logaddexp(input, other): the operands must be floating-point",
                got=f"{input.dtype} and {other.dtype}",
                hint="input.float()",
            )
        return LogAddExp.apply(a, b)
    except MISFITS as error:
        raise explained(error, "logaddexp", input=input, other=other) from None
