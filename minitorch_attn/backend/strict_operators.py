"""Operators and reductions of strict arrays, and the check of every argument.

The check allows arrays of the same device and Python numbers. Arrays on the host, NumPy
scalars, lists and arrays of another strict device raise StrictError.
"""

import operator

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.sync import StrictError

__all__ = ["Operators", "host_value", "in_c_order", "unwrap", "wrap", "wrap_new"]

_NUMBERS = frozenset({int, float, bool, complex})
_new = object.__new__


def wrap(cls, raw):
    """Create a strict array of class `cls` from a NumPy result; scalars become 0-d."""
    array = _new(cls)
    array._raw = raw if type(raw) is ndarray else np.asarray(raw)
    return array


def wrap_new(cls, raw):
    """Create a strict array from a computed result, with its memory in C order as in CuPy.

    In NumPy, a result has the memory order of the operands: `x.T * 1` is in column-major order.
    """
    return wrap(cls, in_c_order(raw))


def in_c_order(raw):
    """Return a NumPy array in C order. The array is copied only if it is not in C order."""
    if type(raw) is ndarray and not raw.flags.c_contiguous:
        return np.ascontiguousarray(raw)
    return raw


def unwrap(cls, value, where):
    """Return `value` as a NumPy array or a number; raise StrictError if it is on another device."""
    kind = type(value)
    if kind is cls:
        return value._raw
    if kind in _NUMBERS or value is None:
        return value
    if isinstance(value, Operators):
        raise StrictError(
            f"{where}: the arguments are on different devices",
            got=f"strict:{cls.index} and strict:{kind.index}",
            expected="all arguments on the same device",
            hint=f"call .to('strict:{cls.index}') on the other argument",
        )
    if isinstance(value, (list, tuple, ndarray, np.generic)):
        raise host_value(value, where)
    return value


def host_value(value, where):
    """Return the StrictError for a host array, list or NumPy scalar used with device arrays."""
    is_scalar = isinstance(value, np.generic)
    return StrictError(
        f"{where}: Unsupported type {type(value)}",
        got=f"{'a NumPy scalar' if is_scalar else 'values on the host'} and a device array",
        expected="arrays on the same device, and Python numbers",
        hint="use float(x) or int(x)" if is_scalar else "move it: mt.tensor(x, device=...)",
    )


_KNOWN = (int, float, complex, np.generic, ndarray, list, tuple)


def _other(array, other, name):
    """Return `other` as a plain NumPy operand, or NotImplemented if its type is unknown."""
    if isinstance(other, (_KNOWN, Operators)):
        return unwrap(type(array), other, f"array {name} value")
    return NotImplemented


def _binary(name, operation):
    """Create the method of a binary operator."""

    def method(self, other):
        cls, kind = type(self), type(other)
        if kind is cls:
            other = other._raw
        elif kind not in _NUMBERS and (other := _other(self, other, name)) is NotImplemented:
            return NotImplemented
        return wrap_new(cls, operation(self._raw, other))

    return method


def _inplace(name, operation):
    """Create the method of an in-place operator, such as `+=`."""

    def method(self, other):
        cls, kind = type(self), type(other)
        if kind is cls:
            other = other._raw
        elif kind not in _NUMBERS and (other := _other(self, other, name)) is NotImplemented:
            return NotImplemented
        operation(self._raw, other)
        return self

    return method


def _unary(operation):
    """Create the method of a unary operator."""

    def method(self):
        return wrap_new(type(self), operation(self._raw))

    return method


def _reflected(name, operation):
    """Create the reflected method of a binary operator, such as `__radd__`."""
    return _binary(name, lambda raw, other: operation(other, raw))


def _reduction(name, *more):
    """Create the method of a reduction that accepts only the keywords that CuPy accepts."""
    allowed = frozenset({"out", "keepdims", *more})

    def method(self, axis=None, **keywords):
        if not allowed.issuperset(keywords):
            raise TypeError(f"cupy.ndarray.{name} takes {sorted(allowed)}, got {sorted(keywords)}")
        out = keywords.get("out")
        if out is not None:
            keywords["out"] = unwrap(type(self), out, name)
        raw = getattr(self._raw, name)(axis, **keywords)
        return wrap_new(type(self), raw) if out is None else out

    method.__name__ = name
    method.__doc__ = f"Return the {name} along `axis`; a 0-d array if `axis` is None."
    return method


class Operators:
    """Base class: arithmetic, comparisons and reductions on the underlying NumPy array `_raw`."""

    __slots__ = ()
    __hash__ = None

    __neg__ = _unary(operator.neg)
    __pos__ = _unary(operator.pos)
    __abs__ = _unary(operator.abs)
    __invert__ = _unary(operator.invert)

    __add__ = _binary("+", operator.add)
    __sub__ = _binary("-", operator.sub)
    __mul__ = _binary("*", operator.mul)
    __truediv__ = _binary("/", operator.truediv)
    __floordiv__ = _binary("//", operator.floordiv)
    __mod__ = _binary("%", operator.mod)
    __pow__ = _binary("**", operator.pow)
    __matmul__ = _binary("@", operator.matmul)
    __and__ = _binary("&", operator.and_)
    __or__ = _binary("|", operator.or_)
    __xor__ = _binary("^", operator.xor)
    __lshift__ = _binary("<<", operator.lshift)
    __rshift__ = _binary(">>", operator.rshift)

    __radd__ = _reflected("+", operator.add)
    __rsub__ = _reflected("-", operator.sub)
    __rmul__ = _reflected("*", operator.mul)
    __rtruediv__ = _reflected("/", operator.truediv)
    __rfloordiv__ = _reflected("//", operator.floordiv)
    __rmod__ = _reflected("%", operator.mod)
    __rpow__ = _reflected("**", operator.pow)
    __rmatmul__ = _reflected("@", operator.matmul)
    __rand__ = _reflected("&", operator.and_)
    __ror__ = _reflected("|", operator.or_)
    __rxor__ = _reflected("^", operator.xor)
    __rlshift__ = _reflected("<<", operator.lshift)
    __rrshift__ = _reflected(">>", operator.rshift)

    # No __imatmul__, because cupy.ndarray does not have it.
    __iadd__ = _inplace("+=", operator.iadd)
    __isub__ = _inplace("-=", operator.isub)
    __imul__ = _inplace("*=", operator.imul)
    __itruediv__ = _inplace("/=", operator.itruediv)
    __ifloordiv__ = _inplace("//=", operator.ifloordiv)
    __imod__ = _inplace("%=", operator.imod)
    __ipow__ = _inplace("**=", operator.ipow)
    __iand__ = _inplace("&=", operator.iand)
    __ior__ = _inplace("|=", operator.ior)
    __ixor__ = _inplace("^=", operator.ixor)
    __ilshift__ = _inplace("<<=", operator.ilshift)
    __irshift__ = _inplace(">>=", operator.irshift)

    __eq__ = _binary("==", operator.eq)
    __ne__ = _binary("!=", operator.ne)
    __lt__ = _binary("<", operator.lt)
    __le__ = _binary("<=", operator.le)
    __gt__ = _binary(">", operator.gt)
    __ge__ = _binary(">=", operator.ge)

    sum = _reduction("sum", "dtype")
    mean = _reduction("mean", "dtype")
    prod = _reduction("prod", "dtype")
    std = _reduction("std", "dtype", "ddof")
    var = _reduction("var", "dtype", "ddof")
    max = _reduction("max")
    min = _reduction("min")
    any = _reduction("any")
    all = _reduction("all")
    argmax = _reduction("argmax")
    argmin = _reduction("argmin")
