"""Cumulative sums and products along an axis: cumsum and cumprod."""

from ..autograd.function import Function
from ..backend import array_module
from ..named_errors import names_arguments
from .cast import cast
from .plumbing.axes import axis_of
from .plumbing.tensor_arguments import as_operand

__all__ = ["cumprod", "cumsum"]


class Cumsum(Function):
    """Cumulative sum along one axis, from its start or, in reverse, from its end.

    Forward:  y_i = x_0 + ... + x_i
    Backward: grad_x_i = grad_y_i + ... + grad_y_last
    Derivation: for every k >= i, x_i is a term of y_k, so dL/dx_i is the sum of grad_y_k over k >=
    i. This is a cumulative sum in the other direction.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, axis, reverse=False):
        ctx.axis, ctx.reverse = axis, reverse
        turn = _turned(x.ndim, axis) if reverse else ...
        return x[turn].cumsum(axis=axis)[turn]

    @staticmethod
    def backward(ctx, grad_y):
        return Cumsum.call(grad_y, axis=ctx.axis, reverse=not ctx.reverse)


class Cumprod(Function):
    """Cumulative product along one axis, from its start or, in reverse, from its end.

    Forward:  y_i = x_0 * ... * x_i
    Backward: grad_x_i = sum over k >= i of grad_y_k * y_k / x_i
    Derivation: dL/dx_i is the sum over k >= i of g_k times the product of all factors of y_k
    except x_i. All terms share the product of the factors before i, y_(i-1). The remaining sum,
        s_i = g_i + g_(i+1) x_(i+1) + g_(i+2) x_(i+1) x_(i+2) + ... = g_i + x_(i+1) s_(i+1),
    is a recurrence, and dL/dx_i = y_(i-1) s_i. The recurrence does not divide by x, which may be 0.
    Saved: the input x and the output y.
    """

    @staticmethod
    def forward(ctx, x, *, axis, reverse=False):
        turn = _turned(x.ndim, axis) if reverse else ...
        y = x[turn].cumprod(axis=axis)[turn]
        ctx.axis, ctx.reverse = axis, reverse
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        axis = ctx.axis
        before = Shift.call(y, axis=axis, by=-1 if ctx.reverse else 1, fill=1)
        if ctx.reverse:  # s_i = g_i + x_(i-1) s_(i-1): the a_i of `Recurrence` is x_(i-1)
            x = Shift.call(x, axis=axis, by=1, fill=0)
        return before * Recurrence.call(grad_y, x, axis=axis, reverse=not ctx.reverse)


class Shift(Function):
    """Shift by one position along an axis, and write a fill value to the vacated position.

    Forward:  y_i = x_(i - by)
    Backward: grad_x_i = grad_y_(i + by)
    Derivation: `by` is 1 or -1; the gradient is shifted back by the same step.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, axis, by, fill):
        ctx.axis, ctx.by = axis, by
        y = array_module(x).full(x.shape, fill, dtype=x.dtype)
        first, last = _along(x.ndim, axis, slice(1, None)), _along(x.ndim, axis, slice(None, -1))
        if by == 1:
            y[first] = x[last]
        else:
            y[last] = x[first]
        return y

    @staticmethod
    def backward(ctx, grad_y):
        return Shift.call(grad_y, axis=ctx.axis, by=-ctx.by, fill=0)


class Recurrence(Function):
    """First-order linear recurrence along one axis, from its start or, in reverse, from its end.

    Forward:  s_i = g_i + a_i * s_(i-1)
    Backward: grad_g_i = grad_s_i + a_(i+1) * grad_g_(i+1), grad_a_i = grad_g_i * s_(i-1)
    Derivation: s_0 is g_0. Let r_i = dL/dg_i. g_i affects L through s_i, both directly, with the
    incoming gradient grad_s_i, and through s_(i+1):
        r_i = grad_s_i + a_(i+1) r_(i+1),   the same recurrence in the other direction.
    In s_i, a_i multiplies s_(i-1), so dL/da_i = r_i s_(i-1). The recurrence in reverse is
    s_i = g_i + a_(i+1) s_(i+1).
    Saved: a and the output s.
    """

    @staticmethod
    def forward(ctx, g, a, *, axis, reverse):
        s = g.copy()
        size = g.shape[axis]
        for i in range(size - 2, -1, -1) if reverse else range(1, size):
            here = _along(g.ndim, axis, slice(i, i + 1))
            there = _along(g.ndim, axis, slice(i + 1, i + 2) if reverse else slice(i - 1, i))
            s[here] += (a[there] if reverse else a[here]) * s[there]
        ctx.axis, ctx.reverse = axis, reverse
        ctx.save(a, s)
        return s

    @staticmethod
    def backward(ctx, grad_s):
        a, s = ctx.saved
        axis = ctx.axis
        r = Recurrence.call(grad_s, a, axis=axis, reverse=not ctx.reverse)
        if ctx.reverse:
            return r, Shift.call(r, axis=axis, by=1, fill=0) * s
        return r, r * Shift.call(s, axis=axis, by=1, fill=0)


def _along(ndim, axis, part):
    """Return an index that selects `part` along one axis and everything along the others."""
    return (*(slice(None),) * axis, part, *(slice(None),) * (ndim - axis - 1))


def _turned(ndim, axis):
    return _along(ndim, axis, slice(None, None, -1))


@names_arguments
def cumsum(input, dim, *, dtype=None):
    """Cumulative sums along the axis `dim`.

    Parameters
    ----------
    input : Tensor
    dim : int
        Axis along which elements are summed.
    dtype : dtype, optional
        Dtype to which the input is first converted; by default int64 for booleans and integers.

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.cumsum(mt.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 3., 6.])
    """
    return _running(Cumsum, "cumsum", input, dim, dtype)


@names_arguments
def cumprod(input, dim, *, dtype=None):
    """Cumulative products along the axis `dim`.

    Parameters
    ----------
    input : Tensor
    dim : int
        Axis along which elements are multiplied.
    dtype : dtype, optional
        Dtype to which the input is first converted; by default int64 for booleans and integers.

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.cumprod(mt.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 2., 6.])
    """
    return _running(Cumprod, "cumprod", input, dim, dtype)


def _running(function, name, input, dim, dtype):
    input = as_operand(input, name)
    if dtype is not None:
        input = cast(input, dtype)
    elif input.array.dtype.kind != "f":
        input = cast(input, "int64")
    axis = axis_of(dim, input.ndim, name)
    if input.ndim == 0:
        return input.clone()
    result = function.apply(input, axis=axis)
    return result if dtype is None else cast(result, dtype)  # NumPy widens small integers to int64
