"""Arithmetic, element by element, with broadcasting: add, sub, mul, div, neg and abs."""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module, get_default_dtype
from ..errors import ArgumentError, DTypeError
from ..tensor import Tensor
from .cast import cast
from .plumbing.operands import MISFITS, explained
from .plumbing.promotion import promote
from .plumbing.tensor_arguments import as_operand
from .rounding import Sign, whole_quotient

__all__ = ["abs", "add", "div", "mul", "neg", "sub"]


class Add(Function):
    """Addition, element by element.

    Forward:  c = a + b
    Backward: grad_a = sum_to(grad_c, a), grad_b = sum_to(grad_c, b)
    Derivation: dc/da = 1, dc/db = 1. Both gradients are summed over the broadcast axes.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, grad_c):
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_c, ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_c, ctx.shapes[1]) if need_b else None,
        )


class Sub(Function):
    """Subtraction, element by element.

    Forward:  c = a - b
    Backward: grad_a = sum_to(grad_c, a), grad_b = sum_to(-grad_c, b)
    Derivation: dc/da = 1, dc/db = -1. Both gradients are summed over the broadcast axes.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, a, b):
        return a - b

    @staticmethod
    def backward(ctx, grad_c):
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_c, ctx.shapes[0]) if need_a else None,
            -sum_to_shape(grad_c, ctx.shapes[1]) if need_b else None,
        )


class Mul(Function):
    """Multiplication, element by element.

    Forward:  c = a * b
    Backward: grad_a = sum_to(grad_c * b, a), grad_b = sum_to(grad_c * a, b)
    Derivation: dc/da = b, dc/db = a. Both gradients are summed over the broadcast axes.
    Saved: a if b needs a gradient, b if a needs a gradient.
    """

    @staticmethod
    def forward(ctx, a, b):
        need_a, need_b = ctx.needs_grad
        ctx.save(a if need_b else None, b if need_a else None)  # only what backward will use
        return a * b

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_c * b, ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_c * a, ctx.shapes[1]) if need_b else None,
        )


class Div(Function):
    """Division, element by element.

    Forward:  c = a / b
    Backward: grad_a = sum_to(grad_c / b, a), grad_b = sum_to(-grad_c * a / b^2, b)
    Derivation: dc/da = 1 / b, dc/db = -a / b^2 = -c / b.
    Both gradients are summed over the broadcast axes.
    Saved: b, and also c if b needs a gradient.
    """

    @staticmethod
    def forward(ctx, a, b):
        c = a / b
        ctx.save(c if ctx.needs_grad[1] else None, b)
        return c

    @staticmethod
    def backward(ctx, grad_c):
        c, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        grad_a = grad_c / b
        return (
            sum_to_shape(grad_a, ctx.shapes[0]) if need_a else None,
            -sum_to_shape(grad_a * c, ctx.shapes[1]) if need_b else None,
        )


class Neg(Function):
    """Negation, element by element.

    Forward:  y = -x
    Backward: grad_x = -grad_y
    Derivation: dy/dx = -1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, grad_y):
        return -grad_y


class Abs(Function):
    """Absolute value, element by element.

    Forward:  y = abs(x)
    Backward: grad_x = grad_y * sign(x)
    Derivation: dy/dx = sign(x). At the kink x = 0, `backward` uses the subgradient 0.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return array_module(x).abs(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * Sign.call(x)


def add(input, other, *, alpha=1):
    """Add with broadcasting: `input + alpha * other`.

    Parameters
    ----------
    input, other : Tensor or number
    alpha : number, default 1
        Factor that multiplies `other`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.add(mt.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([21., 22.])
    """
    try:
        if alpha != 1:
            other = _times(other, alpha, "add", input)
        return Add.apply(*promote(input, other))
    except MISFITS as error:
        raise explained(error, "add", input=input, other=other) from None


def sub(input, other, *, alpha=1):
    """Subtract with broadcasting: `input - alpha * other`.

    Parameters
    ----------
    input, other : Tensor or number
    alpha : number, default 1
        Factor that multiplies `other`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sub(mt.tensor([[1.0], [2.0]]), mt.tensor([1.0, 0.5]))
    tensor([[0. , 0.5],
            [1. , 1.5]])
    """
    try:
        if alpha != 1:
            other = _times(other, alpha, "sub", input)
        a, b = promote(input, other)
        if a is not input or b is not other:
            _refuse_booleans(input, other)
        return Sub.apply(a, b)
    except MISFITS as error:
        raise explained(error, "sub", input=input, other=other) from None


def _refuse_booleans(input, other):
    """Raise DTypeError if an operand is boolean, as in `1 - mask`. PyTorch also refuses this."""
    for name, value in (("input", input), ("other", other)):
        if value is True or value is False or getattr(value, "dtype", None) == "bool":
            raise DTypeError(
                f"sub(input, other): {name} must not be boolean",
                got=f"{name} {value if isinstance(value, bool) else 'bool'}",
                hint="use ~x to invert a mask, or x.long() to subtract counts",
            )


def _times(other, alpha, name, input):
    """Return alpha * other; raise DTypeError if a float alpha would turn integers into floats."""
    if type(alpha) is float and all(
        value.dtype.kind != "f" if isinstance(value, Tensor) else type(value) is not float
        for value in (input, other)
    ):
        raise DTypeError(
            f"{name}(input, other, alpha=): alpha must be an integer for integer operands",
            got=f"alpha={alpha!r}",
            hint="use an integer alpha, or convert input with input.float()",
        )
    _, other = promote(input, other)  # first: a negative alpha would wrap in an unsigned dtype
    return mul(other, alpha) if isinstance(other, Tensor) else other * alpha


def mul(input, other):
    """Multiply with broadcasting: `input * other`.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.mul(mt.tensor([1.0, 2.0]), mt.tensor([[3.0], [4.0]]))
    tensor([[3., 6.],
            [4., 8.]])
    """
    try:
        return Mul.apply(*promote(input, other))
    except MISFITS as error:
        raise explained(error, "mul", input=input, other=other) from None


def div(input, other, *, rounding_mode=None):
    """Divide with broadcasting: `input / other`; by default, integers are converted to floats.

    Parameters
    ----------
    input, other : Tensor or number
    rounding_mode : {None, "floor", "trunc"}
        "floor" rounds down, "trunc" toward zero; integer operands then give an integer result.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.div(mt.tensor([7, -7]), 2)
    tensor([ 3.5, -3.5])
    >>> mt.div(mt.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    if rounding_mode is not None:
        return _divide_whole(input, other, rounding_mode)
    try:
        a, b = promote(input, other)
        if (a if isinstance(a, Tensor) else b).array.dtype.kind != "f":
            a, b = promote(_as_float(input), _as_float(other))
        return Div.apply(a, b)
    except MISFITS as error:
        raise explained(error, "div", input=input, other=other) from None


def _as_float(value):
    number = isinstance(value, (int, float))
    return float(value) if number else cast(as_operand(value, "div"), get_default_dtype())


def _divide_whole(input, other, rounding_mode):
    if not isinstance(rounding_mode, str):
        rounding_mode = type(rounding_mode)  # an array, for example, cannot be compared to a string
    if rounding_mode == "floor":
        return whole_quotient("div", input, other, "below")
    if rounding_mode == "trunc":
        return whole_quotient("div", input, other, "zero")
    raise ArgumentError(
        "div(input, other, rounding_mode=): rounding_mode is not supported",
        got=f"rounding_mode={rounding_mode!r}",
        expected="None, 'floor' or 'trunc'",
        hint="use rounding_mode='floor' to divide like the // operator",
    )


def neg(input):
    """Negate each element: `-input`.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.neg(mt.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    try:
        return Neg.apply(as_operand(input, "neg"))
    except TypeError as error:  # NumPy cannot negate booleans
        raise explained(error, "neg", input=input) from None


def abs(input):
    """Absolute value of each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.abs(mt.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """
    return Abs.apply(as_operand(input, "abs"))
