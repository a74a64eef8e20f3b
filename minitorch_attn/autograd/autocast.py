"""Autocast in operations: accept mixed dtypes, and convert inputs of some functions once per call.

`mt.autocast` stores an object with the rules in the thread's `state.autocast`. `modes.watchers`
counts the active autocasts and listeners of all threads. If this count is not 0, `Function.apply`
looks for rules in `state.autocast` and applies them to the inputs of the operation. If the count is
0, it skips this step.
"""

from functools import wraps

from . import modes
from .modes import state

__all__ = ["autocasts", "mixes", "using_casts"]


class using_casts:
    """Set the rules of autocast inside a `with` block; None pauses autocast.

    Autocast is paused where the dtypes are already determined:

    * In a backward pass, a gradient has the dtype of its tensor.
    * In an in-place operation, the result must have the dtype of the tensor that is changed.
    * In a function decorated with `autocasts`, and in the composed version of a fused operation,
      the inputs have been converted at the call.

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
    """Decorate a public function so that autocast converts its inputs once, when it is called.

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
    """Return True if these tensors may have different dtypes because autocast converts them to one.

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
