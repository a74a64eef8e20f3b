"""Comparison: eq, lt, isclose, equal and others, and tests for NaN and infinity.

The results are boolean. Booleans do not have gradients, so autograd does not record these
operations.
"""

import builtins

from ..backend import array_module, as_array
from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .plumbing.operands import MISFITS, explained
from .plumbing.promotion import promote
from .plumbing.tensor_arguments import as_operand

__all__ = [
    "allclose", "eq", "equal", "ge", "gt", "isclose", "isfinite", "isinf", "isnan", "le", "lt",
    "ne",
]  # fmt: skip


def answer(name, question, input, other):
    """Convert two operands to one dtype and compare them with a NumPy or CuPy function."""
    try:
        a, b = promote(input, other)
        a = a.array if isinstance(a, Tensor) else a
        b = b.array if isinstance(b, Tensor) else b
        return wrap(as_array(getattr(array_module(a, b), question)(a, b)))
    except MISFITS as error:
        raise explained(error, name, input=input, other=other) from None


def answer_about(name, question, input):
    """Apply the NumPy or CuPy test named `question`, such as "isnan", to each element."""
    x = as_operand(input, name).array
    return wrap(as_array(getattr(array_module(x), question)(x)))


def eq(input, other):
    """True where the elements are equal; NaN is not equal to anything.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.eq(mt.tensor([1.0, 2.0]), 2.0)
    tensor([False,  True])
    """
    return answer("eq", "equal", input, other)


def ne(input, other):
    """True where the elements differ; NaN differs from everything, including NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.ne(mt.tensor([1.0, 2.0]), 2.0)
    tensor([ True, False])
    """
    return answer("ne", "not_equal", input, other)


def lt(input, other):
    """True where `input` is less than `other`; False if either is NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.lt(mt.tensor([1.0, 2.0]), 2.0)
    tensor([ True, False])
    """
    return answer("lt", "less", input, other)


def le(input, other):
    """True where `input` is less than or equal to `other`; False if either is NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.le(mt.tensor([1.0, 2.0]), 1.0)
    tensor([ True, False])
    """
    return answer("le", "less_equal", input, other)


def gt(input, other):
    """True where `input` is greater than `other`; False if either is NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.gt(mt.tensor([1.0, 2.0]), 1.0)
    tensor([False,  True])
    """
    return answer("gt", "greater", input, other)


def ge(input, other):
    """True where `input` is greater than or equal to `other`; False if either is NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.ge(mt.tensor([1.0, 2.0]), 2.0)
    tensor([False,  True])
    """
    return answer("ge", "greater_equal", input, other)


@names_arguments
def isnan(input):
    """True where the elements are NaN.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.isnan(mt.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """
    return answer_about("isnan", "isnan", input)


@names_arguments
def isinf(input):
    """True where the elements are infinite, positive or negative.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.isinf(mt.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """
    return answer_about("isinf", "isinf", input)


@names_arguments
def isfinite(input):
    """True where the elements are neither infinite nor NaN.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.isfinite(mt.tensor([1.0, float("inf")]))
    tensor([ True, False])
    """
    return answer_about("isfinite", "isfinite", input)


@names_arguments
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True where the elements are close: `|input - other| <= atol + rtol * |other|`.

    Parameters
    ----------
    input, other : Tensor
        Tensors of the same dtype.
    rtol, atol : float
        Relative and absolute tolerance.
    equal_nan : bool, default False
        Whether NaN is close to NaN.

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.isclose(mt.tensor([1.0, 2.0]), mt.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    try:
        a, b = as_operand(input, "isclose").array, as_operand(other, "isclose", "other").array
        _needs_one_dtype(a, b)
        if rtol < 0 or atol < 0:
            raise ArgumentError(
                "isclose: rtol and atol must not be negative", got=f"rtol={rtol} and atol={atol}"
            )
        close = array_module(a, b).isclose(a, b, rtol, atol, equal_nan)
        return wrap(as_array(close))
    except MISFITS as error:
        raise explained(error, "isclose", input=input, other=other) from None


def _needs_one_dtype(a, b):
    if a.dtype != b.dtype:
        raise DTypeError(
            "isclose(input, other): input and other must have the same dtype",
            got=f"input {a.dtype} and other {b.dtype}",
            hint="other.to(input.dtype)",
        )


@names_arguments
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True if all elements of `input` and `other` are close, as in `isclose`.

    Parameters
    ----------
    input, other : Tensor
    rtol, atol : float
        Relative and absolute tolerance.
    equal_nan : bool, default False
        Whether NaN is close to NaN.

    Returns
    -------
    bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.allclose(mt.tensor([1.0, 2.0]), mt.tensor([1.0, 2.0 + 1e-7]))
    True
    """
    return builtins.bool(isclose(input, other, rtol, atol, equal_nan).array.all())


@names_arguments
def equal(input, other):
    """True if two tensors have the same shape and the same elements.

    Parameters
    ----------
    input, other : Tensor

    Returns
    -------
    bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.equal(mt.tensor([1.0, 2.0]), mt.tensor([1.0, 2.0]))
    True
    """
    input, other = as_operand(input, "equal"), as_operand(other, "equal", "other")
    if input.shape != other.shape:
        return False
    return builtins.bool(eq(input, other).array.all())
