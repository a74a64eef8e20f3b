"""Powers: square, sqrt, rsqrt, reciprocal, pow."""

from numbers import Number

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .cast import cast
from .exp_log import Log
from .plumbing.operands import MISFITS, explained, floating, number
from .plumbing.promotion import promote, result_type
from .plumbing.range_check import InvalidValue, check_values
from .plumbing.tensor_arguments import as_operand
from .rounding import Zero
from .where import Where

__all__ = ["pow", "reciprocal", "rsqrt", "sqrt", "square"]

_FEW = 64  # largest exponent computed with products; beyond it, rounding errors add up


class Square(Function):
    """Square of each element.

    Forward:  y = x^2
    Backward: grad_x = grad_y * 2 * x
    Derivation: dy/dx = 2 x.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * x * 2


class Sqrt(Function):
    """Square root of each element.

    Forward:  y = sqrt(x)
    Backward: grad_x = grad_y / (2 * y)
    Derivation: y^2 = x gives 2 y dy = dx, so dy/dx = 1 / (2 y), which is infinite at 0.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = array_module(x).sqrt(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y / (y * 2)


class Rsqrt(Function):
    """Reciprocal square root of each element.

    Forward:  y = 1 / sqrt(x)
    Backward: grad_x = -grad_y * y^3 / 2
    Derivation: dy/dx = -x^(-3/2) / 2 = -y^3 / 2.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = 1 / array_module(x).sqrt(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * (y * y * y) * -0.5


class Reciprocal(Function):
    """Reciprocal of each element.

    Forward:  y = 1 / x
    Backward: grad_x = -grad_y * y^2
    Derivation: dy/dx = -1 / x^2 = -y^2.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = 1 / x
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return -grad_y * (y * y)


class PowerOfNumber(Function):
    """Power with a constant exponent.

    Forward:  y = x^exponent
    Backward: grad_x = grad_y * exponent * x^(exponent - 1)
    Derivation: dy/dx = p x^(p-1) for the exponent p, and 0 everywhere for p = 0.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, exponent):
        ctx.save(x)
        ctx.exponent = exponent
        return _power(x, exponent)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        p = ctx.exponent
        if p == 0:
            return Zero.call(grad_y)
        return grad_y * (PowerOfNumber.call(x, exponent=p - 1) * p)


class Power(Function):
    """Power of one tensor to another, with broadcasting.

    Forward:  c = a^b
    Backward: grad_a = sum_to(grad_c * b * a^(b - 1), a), grad_b = sum_to(grad_c * c * log(a), b)
    Derivation: dc/da = b a^(b-1), which is 0 for b = 0 even at a = 0. Because c = exp(b log a),
    dc/db = c log a. Where a = 0 and b >= 0, dc/db is 0, because c does not change with b there.
    Both gradients are summed over the broadcast axes.
    Saved: the inputs and the output.
    """

    @staticmethod
    def forward(ctx, a, b):
        c = array_module(a, b).power(a, b)
        ctx.save(a, b, c)
        return c

    @staticmethod
    def backward(ctx, grad_c):
        a, b, c = ctx.saved
        need_a, need_b = ctx.needs_grad
        grad_a = grad_b = None
        if need_a:
            less = Where.call((a == 0) & (b == 0), 1.0, b - 1)  # 0 * 0^-1 would be NaN
            slope = b * Power.call(a, less)
            grad_a = sum_to_shape(grad_c * slope, ctx.shapes[0])
        if need_b:
            flat = (b >= 0) & (a == 0)
            slope = c * Log.call(Where.call(flat, 1.0, a + Zero.call(c)))
            grad_b = sum_to_shape(grad_c * slope, ctx.shapes[1])
        return grad_a, grad_b


def _power(x, exponent):
    """Compute x^exponent for an array and a number, with products or square roots if possible."""
    if exponent == 2:
        return x * x
    if exponent == 0.5:
        return array_module(x).sqrt(x)
    if exponent == -0.5:
        return 1 / array_module(x).sqrt(x)
    if abs(exponent) <= _FEW and exponent == int(exponent):
        whole = _repeated_product(x, abs(int(exponent)))
        return whole if exponent >= 0 else 1 / whole
    return array_module(x).power(x, exponent)


def _repeated_product(x, count):
    """Compute an integer power of x by repeated squaring; the 64th power takes 6 products."""
    result = None
    while count:
        if count & 1:
            result = x if result is None else result * x
        count >>= 1
        if count:
            x = x * x
    if result is None:
        return array_module(x).ones_like(x)
    return result.copy() if result is x else result


def square(input):
    """Square of each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.square(mt.tensor([-3.0, 2.0]))
    tensor([9., 4.])
    """
    input = as_operand(input, "square")
    return Square.apply(cast(input, "int64") if input.dtype.kind == "b" else input)


def sqrt(input):
    """Square root of each element; NaN for negative elements.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sqrt(mt.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """
    return Sqrt.apply(floating(input, "sqrt"))


def rsqrt(input):
    """Reciprocal square root of each element, `1 / sqrt(input)`.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.rsqrt(mt.tensor([4.0, 0.25]))
    tensor([0.5, 2. ])
    """
    return Rsqrt.apply(floating(input, "rsqrt"))


@names_arguments
def reciprocal(input):
    """Reciprocal of each element, `1 / input`.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.reciprocal(mt.tensor([2.0, -4.0]))
    tensor([ 0.5 , -0.25])
    """
    return Reciprocal.apply(floating(input, "reciprocal"))


_FRACTION = InvalidValue(  # the result would be a fraction
    ArgumentError, "pow(input, exponent): exponent must not be negative for integers",
    "use input.float()",
)  # fmt: skip


def pow(input, exponent):
    """Power: `input` raised to `exponent`, with broadcasting.

    Parameters
    ----------
    input : Tensor or number
    exponent : Tensor or number
        Exponent. If it is a number, integers from -64 to 64 are computed by repeated
        multiplication, and 1/2 and -1/2 with a square root.

    Returns
    -------
    Tensor
        An integer tensor if both operands are integers.

    Raises
    ------
    ArgumentError
        If both operands are integers and the exponent is negative.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.pow(mt.tensor([2.0, 3.0]), 3)
    tensor([ 8., 27.])
    >>> mt.pow(2, mt.tensor([1.0, 0.5]))
    tensor([2.    , 1.4142])
    """
    try:
        if isinstance(input, Tensor) and isinstance(exponent, Number):
            return _pow_number(input, number(exponent, "pow", "exponent"))
        if not isinstance(input, (Tensor, Number)):
            return pow(as_operand(input, "pow"), exponent)
        base, power = promote(input, exponent)
        if power.array.dtype.kind != "f":
            check_values(power.array, power.array < 0, _FRACTION)
            if power.device.type != "cpu":  # the error comes later; until then, use a valid power
                power = wrap(array_module(power.array).maximum(power.array, 0))
        return Power.apply(base, power)
    except MISFITS as error:
        raise explained(error, "pow", input=input, exponent=exponent) from None


def _pow_number(input, exponent):
    if input.array.dtype.kind != "f":
        input = cast(input, result_type(input, exponent))
        if input.array.dtype.kind != "f" and exponent < 0:
            raise _FRACTION(True, exponent)
    return PowerOfNumber.apply(input, exponent=exponent)
