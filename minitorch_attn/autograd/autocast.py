"""Autocast in operations: accept mixed dtypes, and convert the inputs of some functions only once.

`mt.autocast` stores an object with the rules in the thread's `state.autocast`. `Function.apply`
consults it for each operation. `modes.watchers` counts the active autocasts and listeners of all
threads. While it is 0, `Function.apply` does not look for them in the state.
"""

from functools import wraps

from . import modes
from .modes import state

__all__ = ["autocasts", "mixes", "using_casts"]


class using_casts:
    """Set the rules of autocast inside a `with` block; None pauses autocast.

    Autocast is paused in a backward pass, in an in-place operation and inside a function decorated
    with `autocasts`. There, all inputs already have the chosen dtype.

    Parameters
    ----------
    casts : amp.autocast_mode.Casts or None
    """

    def __init__(self, casts):
        self.casts = casts

    def __enter__(self):
        modes.watch(+1)
        self.before, state.autocast = state.autocast, self.casts
        return self

    def __exit__(self, *exc_info):
        state.autocast = self.before
        modes.watch(-1)
        return False


def autocasts(function):
    """Decorate a public function so that autocast converts its inputs only once, at the call.

    The lists in `amp/op_lists.py` determine the dtype. After the conversion, the function runs with
    autocast paused. In a function without this decorator, autocast converts the inputs of each
    operation.

    Examples
    --------
    >>> @autocasts
    ... def double(x):
    ...     return x + x
    >>> double(3)
    6
    """

    @wraps(function)
    def call(*args, **kwargs):
        if modes.watchers and state.autocast is not None:
            return state.autocast.call(function, args, kwargs)
        return function(*args, **kwargs)

    return call


def mixes(*tensors):
    """Return True if autocast converts these tensors to one dtype, so that their dtypes may differ.

    Operations check this before they reject operands of different dtypes.

    Parameters
    ----------
    *tensors : Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> half, single = mt.ones(2, dtype=mt.float16), mt.ones(2)
    >>> mixes(half, single)
    False
    >>> with mt.autocast("cpu"):
    ...     mixes(half, single)
    True
    """
    return state.autocast is not None and all(map(state.autocast.converts, tensors))
