"""minitorch_attn, a deep-learning framework in NumPy and CuPy for learning attention."""

__version__ = "0.1.0"

from math import e, inf, nan, pi

from .tensor import Tensor, tensor  # isort: skip
from . import autograd, errors, linalg, nn, ops, optim
from .autograd import (
    checkpoint,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .backend import Device as device
from .backend import (
    as_dtype,
    cuda,
    finfo,
    get_rng_state,
    iinfo,
    initial_seed,
    manual_seed,
    set_rng_state,
)
from .nn import masks, summary
from .ops import *  # noqa: F403
from .serialization import load, save

Size = tuple  # shapes are tuples; torch.Size is a subclass of tuple
bool = as_dtype("bool")
uint8 = as_dtype("uint8")
int8 = as_dtype("int8")
int16 = as_dtype("int16")
int32 = int = as_dtype("int32")
int64 = long = as_dtype("int64")
float16 = half = as_dtype("float16")
float32 = float = as_dtype("float32")
float64 = double = as_dtype("float64")

# Imported on first use.
_ON_DEMAND = {
    "data", "generation", "gradcheck", "memory", "models", "profiling", "tracing", "training",
    "utils", "viz",
}  # fmt: skip


def is_tensor(obj):
    """Return True if `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Return True if the elements of `input` are floating-point numbers."""
    return input.is_floating_point()


def numel(input):
    """Return the number of elements of `input`."""
    return input.numel()


def trace(*input, **options):
    """Record every operation in a `with` block, forward and backward, with its values.

    `t.table()` prints the recording and `t.save_html(path)` writes a page to step through it.
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
    if name in _ON_DEMAND:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name == "Generator":
        from .backend.generator import Generator

        return Generator
    if name == "profile":
        from .profiling import profile

        return profile
    if name == "trace_diff":
        from .tracing import trace_diff

        return trace_diff
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
