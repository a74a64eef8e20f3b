"""Autocast in operations: mixed dtypes are allowed, and some functions run as a whole.

`mt.autocast` stores an object with the rules in `state.autocast` of the thread. `Function.apply`
asks it for each operation. Without autocast, `modes.watchers` is 0 and nobody reads the state.
"""

from functools import wraps

from . import modes
from .modes import state

__all__ = ["autocasts", "mixes", "using_casts"]


class using_casts:
    """Set the rules of autocast inside a `with` block; None pauses autocast.

    Autocast is paused in a backward pass, in an in-place operation and in the body of a function
    from the lists, because their inputs already have the dtype that was chosen for them.

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
    """Decorate a public function that autocast runs as a whole: see `amp/op_lists.py`.

    The inputs are converted once, to the dtype that the function's list requires, and its
    operations run with autocast paused. Other functions are converted operation by operation.

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
    """Return True if autocast converts these tensors, so that their dtypes may differ.

    Operations ask this before they refuse operands of different dtypes.

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
