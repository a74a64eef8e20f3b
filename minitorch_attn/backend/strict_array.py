"""Strict array: wraps a NumPy array and rejects what a CuPy array would reject.

A strict array is not an ndarray and disables the protocols through which NumPy would convert it. So
a stray `np.` call, an operation that mixes strict and host arrays, or a hidden copy fails on any
machine, not only on a GPU. A strict array has the methods of `cupy.ndarray`, with CuPy's keywords
and defaults.
"""

import operator
from collections import namedtuple

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.strict_index import get_entries, named_index_errors, put_entries
from minitorch_attn.backend.strict_names import METHODS_NOT_HERE
from minitorch_attn.backend.strict_operators import Operators, host_value, unwrap, wrap, wrap_new
from minitorch_attn.backend.sync import StrictError, record_sync

__all__ = ["StrictArray", "absence"]

_Flags = namedtuple("_Flags", "c_contiguous f_contiguous owndata")


def absence(name, offered_by_cupy):
    """Return the message that says why the strict device does not have `name`."""
    if offered_by_cupy:
        return f"the strict device does not support {name!r}, although CuPy does"
    return f"CuPy does not have {name!r}, so code for every device must not use it"


def _numpy_call(name):
    """Return the error for a NumPy function called with a device array."""
    return StrictError(
        f"numpy.{name} was called with a device array",
        got="an array on a strict device",
        expected="the functions of the module that array_module(x) returns",
        hint=f"xp = array_module(x); xp.{name}(...)",
    )


class StrictArray(Operators):
    """Array on a strict device. Each strict device has its own subclass.

    `index` is the device number, and `namespace` the module with the functions for its arrays.
    """

    __slots__ = ("__weakref__", "_raw")
    index = device = namespace = None

    def __init__(self):
        raise TypeError("use backend.from_host(array, 'strict') to create a StrictArray")

    # The protocols that NumPy uses for conversion.

    def __array__(self, *args, **kwargs):
        raise StrictError(
            "Implicit conversion to a NumPy array is not allowed",
            got="a device array where NumPy expects a host array",
            hint="call tensor.numpy() or backend.to_host(array) to copy it explicitly",
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        for value in (*inputs, *kwargs.get("out", ())):
            if isinstance(value, (ndarray, np.generic)):
                raise host_value(value, f"numpy.{ufunc.__name__}")
        raise _numpy_call(ufunc.__name__)

    def __array_function__(self, function, types, args, kwargs):
        raise _numpy_call(function.__name__)

    def __getattr__(self, name):
        raise AttributeError(absence(f"ndarray.{name}", name in METHODS_NOT_HERE))

    # Properties that do not need the device.

    shape = property(lambda self: self._raw.shape)
    dtype = property(lambda self: self._raw.dtype)
    ndim = property(lambda self: self._raw.ndim)
    size = property(lambda self: self._raw.size)
    itemsize = property(lambda self: self._raw.itemsize)
    nbytes = property(lambda self: self._raw.nbytes)
    strides = property(lambda self: self._raw.strides)
    T = property(lambda self: wrap(type(self), self._raw.T))
    mT = property(lambda self: wrap(type(self), self._raw.mT))
    real = property(lambda self: wrap(type(self), self._raw.real))
    imag = property(lambda self: wrap(type(self), self._raw.imag))

    @property
    def flags(self):
        flags = self._raw.flags
        return _Flags(flags.c_contiguous, flags.f_contiguous, flags.owndata)

    @property
    def base(self):
        base = self._raw.base
        return wrap(type(self), base) if isinstance(base, ndarray) else None

    def __len__(self):
        return len(self._raw)

    def __repr__(self):
        return f"strict:{self.index} {self._raw!r}"

    # Methods that make the host wait.

    def get(self):
        """Copy the array to the host."""
        record_sync("array.get()")
        return self._raw.copy()

    def item(self):
        """Return the only entry as a Python number."""
        record_sync("array.item()")
        return self._raw.item()

    def tolist(self):
        """Return nested lists of Python numbers."""
        record_sync("array.tolist()")
        return self._raw.tolist()

    def __float__(self):
        record_sync("float(array)")
        return float(self._raw.item())

    def __int__(self):
        record_sync("int(array)")
        return int(self._raw.item())

    def __complex__(self):
        record_sync("complex(array)")
        return complex(self._raw.item())

    def __bool__(self):
        record_sync("bool(array)")
        return bool(self._raw)

    def __str__(self):
        record_sync("str(array)")
        return str(self._raw)

    def __format__(self, spec):
        record_sync("format(array)")
        return format(self._raw.item() if self._raw.ndim == 0 else self._raw, spec)

    def __iter__(self):
        record_sync("iterating over an array")
        return iter([self[i] for i in range(len(self))])

    def __contains__(self, value):
        record_sync("value in array")
        return bool((self._raw == unwrap(type(self), value, "value in array")).any())

    # Entries.

    def __getitem__(self, index):
        return wrap(type(self), get_entries(self, index))

    def __setitem__(self, index, value):
        put_entries(self, index, unwrap(type(self), value, "array[index] = value"))

    def fill(self, value):
        """Set every entry to a number or 0-d array."""
        self._raw.fill(unwrap(type(self), value, "fill"))

    @named_index_errors
    def take(self, indices, axis=None):
        """Return entries along an axis."""
        return wrap(type(self), self._raw.take(unwrap(type(self), indices, "take"), axis))

    def nonzero(self):
        """Return the indices of the entries that are not zero."""
        record_sync("nonzero()")
        return tuple(wrap(type(self), raw) for raw in self._raw.nonzero())

    def diagonal(self, offset=0, axis1=0, axis2=1):
        """Return a view of the diagonals."""
        return wrap(type(self), self._raw.diagonal(offset, axis1, axis2))

    # Shapes and copies.

    def reshape(self, *shape, order="C"):
        """Return the entries in another shape, as a view where possible."""
        return wrap(type(self), self._raw.reshape(*shape, order=order))

    def ravel(self, order="C"):
        """Return the array flattened to one axis, as a view where possible."""
        return wrap(type(self), self._raw.ravel(order))

    def flatten(self, order="C"):
        """Return a copy flattened to one axis."""
        return wrap(type(self), self._raw.flatten(order))

    def transpose(self, *axes):
        """Return a view with the axes in another order."""
        return wrap(type(self), self._raw.transpose(*axes))

    def swapaxes(self, axis1, axis2):
        """Return a view with two axes exchanged."""
        return wrap(type(self), self._raw.swapaxes(axis1, axis2))

    def squeeze(self, axis=None):
        """Return a view without axes of length 1."""
        return wrap(type(self), self._raw.squeeze(axis))

    def repeat(self, repeats, axis=None):
        """Return a copy with every entry repeated; `repeats` must be a single int."""
        return wrap(type(self), self._raw.repeat(operator.index(repeats), axis))

    def copy(self, order="C"):
        """Return a copy."""
        return wrap(type(self), self._raw.copy(order))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def astype(self, dtype, order="K", casting=None, copy=True):
        """Return the array in another dtype."""
        casting = casting or "unsafe"
        raw = self._raw.astype(dtype, order=order, casting=casting, copy=copy)
        return self if raw is self._raw else wrap(type(self), raw)

    def view(self, dtype=None):
        """Return a view of the same memory, with another dtype if `dtype` is given."""
        return wrap(type(self), self._raw.view() if dtype is None else self._raw.view(dtype))

    # Sorting, and arithmetic without an operator.

    def sort(self, axis=-1, kind=None):
        """Sort in place. The sort is always stable, as in CuPy."""
        self._raw.sort(axis, _sort_kind(kind))

    def argsort(self, axis=-1, kind=None):
        """Return the indices that sort an axis; equal entries keep their order."""
        return wrap(type(self), self._raw.argsort(axis, _sort_kind(kind)))

    def cumsum(self, axis=None, dtype=None):
        """Return the running sum."""
        return wrap_new(type(self), self._raw.cumsum(axis, dtype))

    def cumprod(self, axis=None, dtype=None):
        """Return the running product."""
        return wrap_new(type(self), self._raw.cumprod(axis, dtype))

    def clip(self, min=None, max=None, out=None):
        """Return the entries limited to [min, max]."""
        cls = type(self)
        bounds = [unwrap(cls, bound, "clip") for bound in (min, max)]
        raw = self._raw.clip(*bounds, out=unwrap(cls, out, "clip"))
        return wrap_new(cls, raw) if out is None else out

    def round(self, decimals=0):
        """Return the entries rounded."""
        return wrap_new(type(self), self._raw.round(decimals))

    def conj(self):
        """Return the complex conjugate."""
        return wrap_new(type(self), self._raw.conj())

    def trace(self, offset=0, axis1=0, axis2=1, dtype=None):
        """Return the sum along the diagonal."""
        return wrap(type(self), self._raw.trace(offset, axis1, axis2, dtype))

    def dot(self, b):
        """Return the dot product with `b`, as in `numpy.dot`."""
        return wrap(type(self), self._raw.dot(unwrap(type(self), b, "dot")))

    def searchsorted(self, v, side="left", sorter=None):
        """Return where to insert `v` into the array to keep it sorted."""
        where = [unwrap(type(self), value, "searchsorted") for value in (v, sorter)]
        return wrap(type(self), self._raw.searchsorted(where[0], side, where[1]))


def _sort_kind(kind):
    if kind not in (None, "stable"):
        raise ValueError("CuPy supports only kind=None and kind='stable'")
    return "stable"
