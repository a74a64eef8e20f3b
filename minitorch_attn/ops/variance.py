"""Variance and standard deviation over axes."""

import builtins

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from ..named_errors import names_arguments
from .plumbing.operands import number
from .plumbing.tensor_arguments import as_operand
from .sum_mean import count_over, mean, reduced_axes, require_floating, spread
from .where import Where, drop_where

__all__ = ["std", "std_mean", "var", "var_mean"]


class Var(Function):
    """Variance over some axes that hold n elements, with the divisor n - correction.

    Forward:  y = sum((x - mean(x))^2) / (n - correction)
    Backward: grad_x = grad_y * 2 * (x - mean(x)) / (n - correction)
    Derivation: dy/dx_i = 2 (x_i - m) / (n - correction) with m = mean(x). m also depends on x_i,
    but this part of the derivative vanishes, because the differences from the mean sum to 0.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims, correction):
        ctx.save(x)
        ctx.axis = axis
        y, ctx.freedom = _variance(x, axis, keepdims, correction)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return _toward_mean(spread(grad_y, x.shape, ctx.axis), x, ctx.axis, ctx.freedom)


class Std(Function):
    """Standard deviation over some axes: the square root of the variance.

    Forward:  y = sqrt(sum((x - mean(x))^2) / (n - correction))
    Backward: grad_x = grad_y * (x - mean(x)) / (y * (n - correction))
    Derivation: with the variance v, dy/dv = 1 / (2 y), and dv/dx_i is as in `Var`. Where y = 0, the
    gradient is 0 by convention.
    Saved: the input x and the output y.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims, correction):
        v, ctx.freedom = _variance(x, axis, keepdims, correction)
        y = array_module(x).sqrt(v)
        ctx.axis = axis
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        grad_v = drop_where(y == 0, grad_y / (Where.call(y == 0, 1.0, y) * 2))
        return _toward_mean(spread(grad_v, x.shape, ctx.axis), x, ctx.axis, ctx.freedom)


def _centred(x, axis):
    """Return x minus its mean, for an array or a Tensor."""
    return x - x.sum(axis=axis, keepdims=True) / (count_over(x.shape, axis) or 1)


def _variance(x, axis, keepdims, correction):
    """Return the variance, and the divisor n - correction of the sum of squares."""
    centred = _centred(x, axis)
    squares = (centred * centred).sum(axis=axis, keepdims=keepdims)
    count = count_over(x.shape, axis)
    if not count:
        return squares * float("nan"), 0
    # A single element gives 0 / 0 = NaN, as in PyTorch.
    return squares / builtins.max(count - correction, 0), count - correction


def _toward_mean(grad, x, axis, freedom):
    """Return the gradient of a variance, `grad * 2 * (x - mean(x)) / freedom`."""
    return grad * _centred(x, axis) / (freedom / 2)


@names_arguments
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance over the axes `dim`: sum of squared deviations, divided by `n - correction`.

    Parameters
    ----------
    input : Tensor
        Floating-point tensor.
    dim : int or sequence of int, optional
        Axes to reduce, all by default.
    unbiased : bool, optional
        Older form of `correction`; True means 1, False means 0.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    correction : int or float, default 1
        Number subtracted from the number of elements n in the divisor; 1 removes the bias.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        If the elements are integers.
    IndexRangeError
        If `dim` is not an axis of `input`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.var(mt.tensor([[1.0, 3.0], [4.0, 4.0]]), dim=1)
    tensor([2., 0.])
    >>> mt.var(mt.tensor([1.0, 3.0]), correction=0)
    tensor(1.)
    """
    return _apply(Var, "var", input, dim, unbiased, keepdim, correction)


@names_arguments
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation over the axes `dim`: the square root of the variance.

    Parameters
    ----------
    input : Tensor
        Floating-point tensor.
    dim : int or sequence of int, optional
        Axes to reduce, all by default.
    unbiased : bool, optional
        Older form of `correction`; True means 1, False means 0.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    correction : int or float, default 1
        Number subtracted from the number of elements to get the divisor, as in `var`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.std(mt.tensor([[1.0, 3.0], [4.0, 4.0]]), dim=1, correction=0)
    tensor([1., 0.])
    """
    return _apply(Std, "std", input, dim, unbiased, keepdim, correction)


@names_arguments
def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance and mean over the axes `dim`.

    Parameters
    ----------
    input, dim, unbiased, keepdim, correction
        See `var`.

    Returns
    -------
    tuple of Tensor
        The results of `var` and `mean`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.var_mean(mt.tensor([1.0, 3.0]))
    (tensor(2.), tensor(2.))
    """
    variance = _apply(Var, "var_mean", input, dim, unbiased, keepdim, correction)
    return variance, mean(input, _dims(dim), keepdim)


@names_arguments
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation and mean over the axes `dim`.

    Parameters
    ----------
    input, dim, unbiased, keepdim, correction
        See `std`.

    Returns
    -------
    tuple of Tensor
        The results of `std` and `mean`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.std_mean(mt.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    deviation = _apply(Std, "std_mean", input, dim, unbiased, keepdim, correction)
    return deviation, mean(input, _dims(dim), keepdim)


def _dims(dim):
    """Return `dim`, or None if it is a bool, which means `unbiased`, as in `var_mean(x, False)`."""
    return None if isinstance(dim, builtins.bool) else dim


def _apply(function, name, input, dim, unbiased, keepdim, correction):
    input = as_operand(input, name)
    require_floating(input, name)
    if isinstance(dim, builtins.bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    elif unbiased is not None:
        raise ArgumentError(
            f"{name}(input): unbiased and correction must not both be set",
            hint="write correction=1 for unbiased=True, or correction=0 for unbiased=False",
        )
    else:
        correction = number(correction, name, "correction")
    axis = reduced_axes(dim, input.ndim, name)
    keepdims = builtins.bool(keepdim)
    return function.apply(input, axis=axis, keepdims=keepdims, correction=correction)
