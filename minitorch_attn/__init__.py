"""minitorch_attn: attention, from the tensor up, with every line of mathematics in the open."""

__version__ = "0.1.0"

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
from .backend import (
    Device as device,
)
from .backend import (
    as_dtype,
    cuda,
    get_rng_state,
    initial_seed,
    manual_seed,
    set_rng_state,
)
from .nn import masks, summary
from .ops import *  # noqa: F403
from .serialization import load, save

bool = as_dtype("bool")
uint8 = as_dtype("uint8")
int8 = as_dtype("int8")
int16 = as_dtype("int16")
int32 = int = as_dtype("int32")
int64 = long = as_dtype("int64")
float16 = half = as_dtype("float16")
float32 = float = as_dtype("float32")
float64 = double = as_dtype("float64")

# Imported when first asked for.
_ON_DEMAND = ("data", "generation", "memory", "models", "profiling", "training", "viz")


def __getattr__(name):
    if name in _ON_DEMAND:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name == "profile":
        from .profiling import profile

        return profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
