"""Logical and bitwise operations: and, or, xor, not.

The results are booleans or integers, which do not have gradients, so autograd does not record these
operations.
"""

from ..named_errors import names_arguments
from .comparison import answer, answer_about

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "logical_and", "logical_not",
    "logical_or", "logical_xor",
]  # fmt: skip


@names_arguments
def logical_and(input, other):
    """Logical AND of each pair of elements: True where both operands are true (nonzero).

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logical_and(mt.tensor([0, 1]), True)
    tensor([False,  True])
    """
    return answer("logical_and", "logical_and", input, other)


@names_arguments
def logical_or(input, other):
    """Logical OR of each pair of elements: True where at least one operand is true (nonzero).

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logical_or(mt.tensor([0, 1]), False)
    tensor([False,  True])
    """
    return answer("logical_or", "logical_or", input, other)


@names_arguments
def logical_xor(input, other):
    """Logical XOR of each pair of elements: True where exactly one operand is true (nonzero).

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logical_xor(mt.tensor([0, 1]), True)
    tensor([ True, False])
    """
    return answer("logical_xor", "logical_xor", input, other)


@names_arguments
def bitwise_and(input, other):
    """Bitwise AND of integers; logical AND of booleans.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of integers or booleans

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.bitwise_and(mt.tensor([5, 6]), 3)
    tensor([1, 2])
    """
    return answer("bitwise_and", "bitwise_and", input, other)


@names_arguments
def bitwise_or(input, other):
    """Bitwise OR of integers; logical OR of booleans.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of integers or booleans

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.bitwise_or(mt.tensor([5, 6]), 3)
    tensor([7, 7])
    """
    return answer("bitwise_or", "bitwise_or", input, other)


@names_arguments
def bitwise_xor(input, other):
    """Bitwise XOR of integers; logical XOR of booleans.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of integers or booleans

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.bitwise_xor(mt.tensor([5, 6]), 3)
    tensor([6, 5])
    """
    return answer("bitwise_xor", "bitwise_xor", input, other)


@names_arguments
def logical_not(input):
    """Logical NOT of each element: True where `input` is false (zero).

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logical_not(mt.tensor([0, 1]))
    tensor([ True, False])
    """
    return answer_about("logical_not", "logical_not", input)


@names_arguments
def bitwise_not(input):
    """Bitwise NOT of integers; logical NOT of booleans.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of integers or booleans

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.bitwise_not(mt.tensor([True, False]))
    tensor([False,  True])
    """
    return answer_about("bitwise_not", "invert", input)
