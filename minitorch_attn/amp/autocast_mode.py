"""Autocast mode: run each operation in the dtype that suits it, float16 or float32."""

import threading
import warnings
from functools import cache, wraps

from numpy import ndarray

from ..autograd import modes
from ..autograd.autocast import using_casts
from ..autograd.modes import state
from ..backend import as_dtype, device_of
from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments
from ..ops import cast
from ..tensor import Tensor
from .op_lists import FUNCTIONS, OPERATIONS

__all__ = [
    "autocast", "clear_autocast_cache", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_enabled",
]  # fmt: skip

HALF, SINGLE = as_dtype("float16"), as_dtype("float32")
_GROUP = {"cpu": "cpu", "cuda": "cuda", "strict": "cuda", "mps": "mps"}  # strict imitates a GPU
_LIST_OF = {name: which for which, names in OPERATIONS.items() for name in names.split()}
_LIST_OF_FUNCTION = {name: which for which, names in FUNCTIONS.items() for name in names.split()}


class _Regions(threading.local):
    """Autocast state of a thread: depth of its nested regions, and cache of converted weights."""

    depth = 0
    cache = None  # id(weight) -> (weight, its version, converted weight)
    cache_enabled = True


_regions = _Regions()


class Casts:
    """Rules of an autocast region: which tensors it converts, and to which dtype.

    Parameters
    ----------
    dtypes : dict of str to dtype
        Dtype of matrix products, for each type of device on which autocast is enabled.
    cached : bool
        Whether to keep the converted weights until the outermost region ends.
    """

    def __init__(self, dtypes, cached=True):
        self.dtypes, self.cached = dtypes, cached

    def without_cache(self):
        """Return a copy of these rules that does not cache converted weights."""
        return Casts(self.dtypes, cached=False)

    def converts(self, value):
        """Return True for a float16 or float32 tensor on a device with autocast enabled."""
        if not isinstance(value, Tensor):
            return False
        dtype = value.array.dtype
        return (dtype is SINGLE or dtype == HALF or dtype == SINGLE) and (
            _group_of(value.array) in self.dtypes
        )

    def inputs(self, function, inputs):
        """Convert the inputs of an operation to the dtype in which autocast runs the operation.

        If nothing needs to be converted, return `inputs` itself.

        Parameters
        ----------
        function : type
            Subclass of `autograd.Function` that implements the operation.
        inputs : tuple of Tensor, number or None
        """
        which = _list_of(function)
        return inputs if which == "unaffected" else self._converted(which, function, inputs)

    def call(self, function, args, kwargs):
        """Convert the tensor arguments as in op_lists.py, and call `function` without autocast."""
        which = _LIST_OF_FUNCTION[function.__name__]
        values = (*args, *kwargs.values())
        if not any(map(self.converts, values)):
            return function(*args, **kwargs)
        rule = "float32" if which == "float32 inside" else which
        inputs = self._converted(rule, function, values)
        named = zip(kwargs, inputs[len(args) :], strict=True)
        with using_casts(None):
            result = function(*inputs[: len(args)], **dict(named))
        first = values[0]
        return cast(result, first.dtype) if which == "float32 inside" else result

    def _converted(self, which, function, inputs):
        if which == "refused" and any(map(self.converts, inputs)):
            raise ArgumentError(
                "binary_cross_entropy: this function is not supported under autocast",
                got="probabilities, whose gradients may not fit into float16",
                hint="use binary_cross_entropy_with_logits, without a sigmoid before it, or "
                "mt.autocast(device_type, enabled=False) with float32 inputs",
            )
        result, changed = [], False
        wide = which == "widest" and any(self.converts(x) and x.dtype == SINGLE for x in inputs)
        for value in inputs:
            if isinstance(value, (list, tuple)) and any(map(self.converts, value)):
                new = type(value)(self._converted(which, function, value))  # a layer of an LSTM
            elif not self.converts(value):
                new = value
            elif which == "float16":
                new = self._narrow(value)
            else:
                new = cast(value, SINGLE) if which == "float32" or wide else value
            changed = changed or new is not value
            result.append(new)
        return tuple(result) if changed else inputs

    def _narrow(self, tensor):
        """Convert a tensor to the dtype of matrix products. If it is a weight, cache the result."""
        dtype = self.dtypes[_group_of(tensor.array)]
        if tensor.array.dtype == dtype:
            return tensor
        is_weight = tensor.requires_grad and tensor.is_leaf and tensor._view is None
        if not (is_weight and self.cached and state.grad_enabled) or _regions.cache is None:
            return cast(tensor, dtype)
        found = _regions.cache.get(id(tensor))
        if found is None or found[1] != tensor._version[0]:  # not cached, or changed since then
            found = (tensor, tensor._version[0], cast(tensor, dtype))
            _regions.cache[id(tensor)] = found
        return found[2]


def _group_of(array):
    return "cpu" if type(array) is ndarray else _GROUP.get(device_of(array).type)


@cache
def _list_of(function):
    """Return the key of `OPERATIONS` under which a Function is listed.

    The result is "unaffected" for a user's Function, and for one that is not listed.
    """
    ours = function.__module__.partition(".")[0] == __name__.partition(".")[0]
    return _LIST_OF.get(function.__name__, "unaffected") if ours else "unaffected"


class autocast:
    """Mixed precision in a `with` block or a decorated function: matrix products run in float16.

    The parameters and their gradients stay float32. Each operation converts its inputs as listed in
    `amp/op_lists.py`: to float16 for matrix products, and to float32 for sums and for functions
    whose results can be very large or very small. The graph records the conversions. A parameter
    that requires grad is converted only once, and the result is kept until the outermost block
    ends. Autocast does not affect float64, integers or in-place operations. Run the forward pass
    and the loss inside the block, and the backward pass outside.

    Parameters
    ----------
    device_type : {"cuda", "cpu"}, default "cuda"
        Type of the devices whose tensors are converted. Tensors on other devices are not converted.
        "cuda" includes the strict device, which imitates a GPU.
    dtype : dtype, optional
        Dtype of matrix products. Only float16, the default, is supported; with another dtype,
        autocast warns and does nothing. PyTorch's default on the CPU is bfloat16, which NumPy and
        this library do not have.
    enabled : bool, default True
        If False, operations in the block compute in the dtype of their inputs.
    cache_enabled : bool, optional
        Whether to convert each parameter only once. Default: as in the enclosing block.

    Notes
    -----
    On the CPU, float16 saves memory and shows the effect of rounding, but it does not save
    time: NumPy converts every product to float32 and back. Mixed-precision training is described
    in Micikevicius et al. 2018, arXiv:1710.03740v3, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x, layer = mt.ones(2, 3), mt.nn.Linear(3, 5)
    >>> with mt.autocast("cpu"):
    ...     y = layer(x)
    ...     p = y.softmax(-1)
    >>> y.dtype, p.dtype, layer.weight.dtype
    (dtype('float16'), dtype('float32'), dtype('float32'))
    """

    @names_arguments
    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        self.device, group = device_type, _checked_group(device_type)
        self.fast_dtype = HALF if dtype is None else _checked_dtype(dtype)
        self._enabled = bool(enabled)
        self._cache_enabled = None if cache_enabled is None else bool(cache_enabled)
        if self._enabled and self.fast_dtype != HALF:
            warnings.warn(
                f"autocast does nothing with dtype {self.fast_dtype}; it supports float16",
                stacklevel=3,
            )
            self._enabled = False
        self._group, self._before = group, []

    def __enter__(self):
        outer = state.autocast
        dtypes = dict(outer.dtypes) if outer else {}
        dtypes.pop(self._group, None)
        if self._enabled:
            dtypes[self._group] = self.fast_dtype
        self._before.append((outer, _regions.cache_enabled))
        if self._cache_enabled is not None:
            _regions.cache_enabled = self._cache_enabled
        _regions.depth += 1
        if _regions.cache is None:
            _regions.cache = {}
        cached = _regions.cache_enabled and (outer is None or outer.cached)
        modes.watch(+1)
        state.autocast = Casts(dtypes, cached) if dtypes else None
        return self

    def __exit__(self, *exc_info):
        state.autocast, _regions.cache_enabled = self._before.pop()
        modes.watch(-1)
        _regions.depth -= 1
        if _regions.depth == 0:
            _regions.cache = None
        return False

    def __call__(self, function):
        """Decorate a function, so that each call enters a new region, in the calling thread."""
        if not callable(function):
            raise DTypeError(
                "autocast: the decorated object must be callable", got=type(function).__name__
            )

        @wraps(function)
        def call(*args, **kwargs):
            region = autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled)
            with region:
                return function(*args, **kwargs)

        return call


def _checked_group(device_type):
    if not isinstance(device_type, str):
        raise ArgumentError(
            "autocast: device_type must be a str",
            got=f"{device_type!r:.60}", hint="autocast('cuda'), or autocast(tensor.device.type)",
        )  # fmt: skip
    kind = device_type.partition(":")[0]
    if kind not in _GROUP:
        raise ArgumentError(
            "autocast: device_type is unknown",
            got=f"device_type={device_type!r}", expected="'cuda' or 'cpu'",
        )  # fmt: skip
    return _GROUP[kind]


def _checked_dtype(dtype):
    if str(dtype).rpartition(".")[2] == "bfloat16":
        raise ArgumentError(
            "autocast: dtype bfloat16 is unavailable",
            got="dtype=bfloat16",
            expected="float16",
            hint="use dtype=mt.float16 with amp.GradScaler; NumPy does not have bfloat16",
        )
    return as_dtype(dtype)


@names_arguments
def is_autocast_enabled(device_type="cuda"):
    """Return True inside `autocast` for this type of device.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.autocast("cpu"):
    ...     mt.is_autocast_enabled(), mt.is_autocast_enabled("cpu")
    (False, True)
    """
    return state.autocast is not None and _checked_group(device_type) in state.autocast.dtypes


@names_arguments
def get_autocast_dtype(device_type):
    """Return the dtype of matrix products in `autocast` on this type of device: always float16."""
    _checked_group(device_type)
    return HALF


@names_arguments
def is_autocast_available(device_type):
    """Return True if `autocast` supports this type of device: "cuda" or "cpu"."""
    return _checked_group(device_type) in ("cpu", "cuda")


def is_autocast_cache_enabled():
    """Return True if `autocast` caches converted parameters, to convert each only once."""
    return _regions.cache_enabled


def clear_autocast_cache():
    """Clear this thread's cache of converted parameters; their next use converts them again."""
    if _regions.cache is not None:
        _regions.cache.clear()
