"""Questions with yes or no for an answer: comparisons, and tests for NaN and infinity.

The answers are booleans, which have no gradient, so nothing here is recorded in the graph.
"""

import builtins

from ..backend import array_module, as_array
from ..errors import ArgumentError, DTypeError
from ..tensor import Tensor, wrap
from .given import as_operand
from .operands import explained
from .promotion import promote

__all__ = [
    "allclose", "eq", "equal", "ge", "gt", "isclose", "isfinite", "isinf", "isnan", "le", "lt",
    "ne",
]  # fmt: skip


def answer(name, question, input, other):
    """A question of the array library about two operands, brought to one dtype."""
    try:
        a, b = promote(input, other)
        a = a.array if isinstance(a, Tensor) else a
        b = b.array if isinstance(b, Tensor) else b
        return wrap(as_array(getattr(array_module(a, b), question)(a, b)))
    except (ValueError, TypeError) as error:
        raise explained(error, name, input=input, other=other) from None


def answer_about(name, question, input):
    """A question of the array library about one tensor."""
    x = as_operand(input, name).array
    return wrap(as_array(getattr(array_module(x), question)(x)))


def eq(input, other):
    """Where the elements are equal; NaN equals nothing.

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
    """Where the elements differ; NaN differs from everything.

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
    """Where `input` is smaller; never at NaN.

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
    """Where `input` is smaller or equal; never at NaN.

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
    """Where `input` is larger; never at NaN.

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
    """Where `input` is larger or equal; never at NaN.

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


def isnan(input):
    """Where the elements are NaN.

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


def isinf(input):
    """Where the elements are infinite, of either sign.

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


def isfinite(input):
    """Where the elements are neither infinite nor NaN.

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


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |input - other| <= atol + rtol |other|.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype.
    rtol, atol : float
    equal_nan : bool
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
            raise ArgumentError("isclose: a negative tolerance.", got=f"rtol={rtol}, atol={atol}")
        close = array_module(a, b).isclose(a, b, rtol, atol, equal_nan)
        return wrap(as_array(close))
    except (ValueError, TypeError) as error:
        raise explained(error, "isclose", input=input, other=other) from None


def _needs_one_dtype(a, b):
    if a.dtype != b.dtype:
        raise DTypeError(
            "isclose(input, other): the dtypes differ.",
            got=f"input {a.dtype} and other {b.dtype}",
            hint="other.to(input.dtype)",
        )


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether every element of `input` is close to that of `other`, as in `isclose`.

    Parameters
    ----------
    input, other : Tensor
    rtol, atol : float
    equal_nan : bool

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


def equal(input, other):
    """Whether two tensors have the same shape and the same elements.

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
