"""minitorch_attn, a deep-learning framework in NumPy and CuPy for learning attention."""

__version__ = "0.1.0"

from math import e, inf, nan, pi

from .tensor import Tensor, tensor  # isort: skip
from . import autograd, errors, fft, linalg, nn, ops, optim
from .absent_names import absent as _absent
from .autograd import (
    checkpoint,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .backend import Device as device
from .backend import as_dtype as _as_dtype
from .backend import (
    finfo,
    get_default_dtype,
    get_rng_state,
    iinfo,
    initial_seed,
    manual_seed,
    set_default_dtype,
    set_rng_state,
)
from .einops import define_backend as _define_einops_backend
from .formatting import set_printoptions
from .named_errors import names_arguments as _names_arguments
from .nn import masks, summary
from .ops import *  # noqa: F403
from .serialization import load, save
from .typed import (
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

Size = tuple  # shapes are tuples; torch.Size is a subclass of tuple
bool = _as_dtype("bool")
uint8 = _as_dtype("uint8")
int8 = _as_dtype("int8")
int16 = _as_dtype("int16")
int32 = int = _as_dtype("int32")
int64 = long = _as_dtype("int64")
float16 = half = _as_dtype("float16")
float32 = float = _as_dtype("float32")
float64 = double = _as_dtype("float64")

# Imported on first use: modules, and names with the module that defines them.
_ON_DEMAND = {
    "amp", "backends", "cuda", "data", "distributed", "generation", "gradcheck", "jit", "memory",
    "models", "profiling", "tracing", "training", "utils", "viz",
}  # fmt: skip
_DEFINED_IN = {
    "Generator": "backend.generator",
    "GradScaler": "amp",
    "autocast": "amp",
    "clear_autocast_cache": "amp.autocast_mode",
    "get_autocast_dtype": "amp.autocast_mode",
    "is_autocast_cache_enabled": "amp.autocast_mode",
    "is_autocast_enabled": "amp.autocast_mode",
    "compile": "jit",
    "ctc_decode": "generation.ctc_decoding",
    "get_float32_matmul_precision": "backends",
    "profile": "profiling",
    "set_float32_matmul_precision": "backends",
    "trace_diff": "tracing",
    "use_deterministic_algorithms": "backends",
}

as_dtype = _names_arguments(_as_dtype)
_define_einops_backend()


def is_tensor(obj):
    """Return True if `obj` is a Tensor."""
    return isinstance(obj, Tensor)


@_names_arguments
def is_floating_point(input):
    """Return True if the elements of `input` are floating-point numbers."""
    return input.is_floating_point()


@_names_arguments
def numel(input):
    """Return the number of elements of `input`."""
    return input.numel()


def trace(*input, **options):
    """Record all forward and backward operations of a `with` block, and the values they compute.

    After `with mt.trace() as t: ...`, `t.table()` returns the recording as text, and
    `t.save_html(path)` writes a web page on which you can step through the recording.

    Called with a matrix, `trace` returns the sum of its diagonal, as `torch.trace` does.

    Parameters
    ----------
    *input : Tensor of shape (row, column)
        Matrix whose diagonal is summed; without a matrix, `trace` returns a Recording.
    **options
        Options `expand`, `max_steps`, `max_bytes`, `labels` and `title` of
        `minitorch_attn.tracing.Recording`.

    Returns
    -------
    Recording, or Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> with mt.trace() as t:
    ...     x.exp().sum().backward()
    >>> [step.op for step in t.steps]
    ['Exp', 'Sum', 'Sum', 'Exp', 'AddToGrad']
    >>> mt.trace(x)
    tensor(5., grad_fn=<Sum>)
    """
    if input or "input" in options:
        return ops.trace(*input, **options)
    from .tracing import Recording

    return Recording(**options)


def __getattr__(name):
    if name in _ON_DEMAND or name in _DEFINED_IN:
        from importlib import import_module

        module = import_module(f"{__name__}.{_DEFINED_IN.get(name, name)}")
        return getattr(module, name) if name in _DEFINED_IN else module
    return _absent(__name__)(name)
