"""Namespace of the strict device: the NumPy functions that CuPy also has, on strict arrays."""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import read_the_rest
from minitorch_attn.backend.strict_array import StrictArray, absence
from minitorch_attn.backend.strict_index import scatter_entries
from minitorch_attn.backend.strict_names import (
    FFT,
    FUNCTIONS,
    KEEPS_ORDER,
    LINALG,
    NUMPY_ONLY_KEYWORDS,
    OF_CUPY_BUT_NOT_HERE,
    SAME_AS_NUMPY,
    STRIDE_TRICKS,
    SYNCHRONISING,
    UFUNC_METHODS,
    UFUNCS,
)
from minitorch_attn.backend.strict_operators import (
    host_value,
    in_c_order,
    unwrap,
    wrap,
    wrap_new,
)
from minitorch_attn.backend.sync import StrictError, record_sync, record_transfer

__all__ = ["StrictNamespace"]

# NumPy returns a Python value for these functions, and CuPy returns a 0-d array.
_ANSWERS_ON_DEVICE = frozenset({"allclose", "array_equal", "array_equiv", "count_nonzero"})
# CuPy's versions of these call a method of the first argument, which must be an array.
_CALLS_METHOD = frozenset(name for name in FUNCTIONS if hasattr(StrictArray, name)) - {
    *("ndim", "shape", "size", "real", "imag")
}
_PLAIN = frozenset({int, float, bool, complex, str, type(None), type, type(Ellipsis), slice})


class StrictNamespace:
    """NumPy-like namespace of one strict device.

    Functions are wrapped on first use. A name that CuPy does not have raises AttributeError, and
    a keyword that only NumPy's version of a function accepts raises TypeError.
    """

    def __init__(self, array_class):
        self._cls = array_class
        self.__name__ = f"strict:{array_class.index}"
        self.ndarray = array_class
        self.linalg = _Part(array_class, "linalg", np.linalg, LINALG)
        self.fft = _Part(array_class, "fft", np.fft, FFT)
        tricks = np.lib.stride_tricks
        self.lib = _Lib(_Part(array_class, "lib.stride_tricks", tricks, STRIDE_TRICKS))

    def __getattr__(self, name):
        if name in SAME_AS_NUMPY:
            value = getattr(np, name)
        elif name in UFUNCS:
            value = StrictUfunc(self._cls, getattr(np, name))
        elif name == "put_along_axis":
            value = put_along_axis
        elif name in ("array", "asarray"):
            value = _from_lists(self._cls, getattr(np, name), name)
        elif name in FUNCTIONS:
            value = _function(self._cls, getattr(np, name), name)
        else:
            raise AttributeError(absence(name, name in OF_CUPY_BUT_NOT_HERE))
        self.__dict__[name] = value
        return value

    def __repr__(self):
        return f"<module {self.__name__}>"


class _Lib:
    """`xp.lib`, which has only `stride_tricks`."""

    def __init__(self, stride_tricks):
        self.stride_tricks = stride_tricks


class _Part:
    """Wrapper of a submodule: `xp.linalg`, `xp.fft` or `xp.lib.stride_tricks`."""

    def __init__(self, array_class, name, module, names):
        self._cls, self._module, self._names = array_class, module, names
        self.__name__ = name

    def __getattr__(self, name):
        if name not in self._names:
            raise AttributeError(absence(f"{self.__name__}.{name}", False))
        value = getattr(self._module, name)
        if not isinstance(value, type):
            value = _function(self._cls, value, name)
        self.__dict__[name] = value
        return value


class StrictUfunc:
    """Elementwise function, with the methods that CuPy implements."""

    def __init__(self, array_class, ufunc):
        self._cls, self._ufunc = array_class, ufunc
        self.__name__ = ufunc.__name__
        self.nin, self.nout = ufunc.nin, ufunc.nout

    def __call__(self, *args, **keywords):
        cls = self._cls
        raw = [a._raw if type(a) is cls else unwrap(cls, a, self.__name__) for a in args]
        if not keywords and len(raw) == self.nin:
            result = self._ufunc(*raw)
            return wrap_new(cls, result) if self.nout == 1 else _wrap_new(cls, result)
        return self._call_with(raw, args[self.nin :], **keywords)

    def _call_with(self, raw, outs, *, out=None, where=True, dtype=None, casting="same_kind"):
        cls = self._cls
        keywords = {"dtype": dtype, "casting": casting}
        if out is not None:
            outs = out if type(out) is tuple else (out,)
        if outs:
            keywords["out"] = tuple([unwrap(cls, o, self.__name__) for o in outs])
        if where is not True:
            keywords["where"] = unwrap(cls, where, self.__name__)
        result = self._ufunc(*raw[: self.nin], **keywords)
        if outs:
            return outs[0] if self.nout == 1 else tuple(outs)
        return _wrap_new(cls, result)

    def __getattr__(self, name):
        if self.__name__ not in UFUNC_METHODS.get(name, ()):
            raise AttributeError(absence(f"{self.__name__}.{name}", False))
        if name == "at":
            return self._at
        return _function(self._cls, getattr(self._ufunc, name), f"{self.__name__}.{name}")

    def _at(self, array, index, value):
        source = unwrap(self._cls, value, f"{self.__name__}.at")
        scatter_entries(array, index, source, self._ufunc)


def put_along_axis(arr, indices, values, axis):
    """Write `values` at `indices` along `axis`; write duplicate indices in random order."""
    axis %= arr.ndim
    xp, index = arr.namespace, []
    for i, length in enumerate(arr.shape):
        shape = [-1 if j == i else 1 for j in range(arr.ndim)]
        index.append(indices if i == axis else xp.arange(length).reshape(shape))
    arr[tuple(index)] = values


def _function(cls, function, name):
    """Wrap a NumPy function so that it takes and returns arrays of class `cls`."""
    refused = NUMPY_ONLY_KEYWORDS.get(name, frozenset())
    needs_array = name in _CALLS_METHOD
    answers_on_device = name in _ANSWERS_ON_DEVICE
    synchronises = name in SYNCHRONISING
    keeps_order = name in KEEPS_ORDER

    def call(*args, **keywords):
        if not refused.isdisjoint(keywords):
            raise TypeError(f"cupy.{name} does not accept {sorted(refused.intersection(keywords))}")
        if needs_array and args and type(args[0]) is not cls:
            raise host_value(args[0], name)
        if synchronises or (name == "where" and len(args) == 1):
            record_sync(f"{name}()")
        out = keywords.get("out")
        raw = [_raw(cls, value, name) for value in args]
        if keywords:
            keywords = {key: _raw(cls, value, name) for key, value in keywords.items()}
        try:
            result = function(*raw, **keywords)
        except IndexError:
            read_the_rest(cls.device)
            raise
        if out is not None:
            return out
        if answers_on_device:
            return wrap(cls, result)
        if args and type(args[0]) is cls and result is args[0]._raw:
            return args[0]
        if keeps_order or _is_view(result, raw):
            return _wrap_result(cls, result)
        return _wrap_new(cls, result)

    call.__name__ = name
    return call


def _from_lists(cls, function, name):
    """Wrap the function `array` or `asarray`. Record a transfer if a call copies host data."""
    wrapped = _function(cls, function, name)

    def call(*args, **keywords):
        if args and type(args[0]) is not cls:
            record_transfer()
        return wrapped(*args, **keywords)

    call.__name__ = name
    return call


def _raw(cls, value, where):
    """Convert a function argument, which may be a sequence, from strict arrays to NumPy arrays."""
    kind = type(value)
    if kind is cls:
        return value._raw
    if kind in _PLAIN or isinstance(value, np.integer):  # sizes and axes may be NumPy's ints
        return value
    if isinstance(value, (list, tuple)):
        return kind([_raw(cls, entry, where) for entry in value])
    value = unwrap(cls, value, where)
    if hasattr(kind, "__array_ufunc__"):
        raise StrictError(
            f"{where}: an argument is not an array on the device",
            got=f"an object of type {kind.__name__}",
            hint="pass tensor.array for a Tensor",
        )
    return value


def _is_view(result, raw):
    """Return True if `result` may share memory with one of the arguments in `raw`."""
    return type(result) is ndarray and any(
        type(value) is ndarray and np.may_share_memory(result, value) for value in raw
    )


def _wrap_new(cls, result):
    """Wrap computed results like `_wrap_result`, but in C order."""
    if type(result) is tuple:
        return tuple([wrap_new(cls, entry) for entry in result])
    return _wrap_result(cls, in_c_order(result))


def _wrap_result(cls, result):
    """Wrap the arrays and scalars in a NumPy result, which may be a tuple or list."""
    if isinstance(result, (ndarray, np.generic)):
        return wrap(cls, result)
    if isinstance(result, (tuple, list)):
        entries = [_wrap_result(cls, entry) for entry in result]
        return type(result)(*entries) if hasattr(result, "_fields") else type(result)(entries)
    return result
