"""Autograd modes of each thread: graph recording, listeners and NaN detection."""

import threading
from contextlib import ContextDecorator
from copy import copy
from functools import wraps
from inspect import CO_GENERATOR

from ..named_errors import names_arguments

__all__ = [
    "state", "no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled", "inference_mode",
    "detect_anomaly",
]  # fmt: skip


class _State(threading.local):
    """Autograd modes, stored separately for each thread. The class attributes are the defaults."""

    grad_enabled = True
    listeners = ()
    anomaly = False
    autocast = None  # rules of the innermost `mt.autocast`, which convert the inputs of operations
    take_apart = None  # Function -> bool: whether to run its composed version instead


state = _State()
_lock = threading.Lock()
watchers = 0  # listeners, NaN detections and autocasts of all threads; 0 is the fast path


def watch(change):
    """Add `change` to `watchers`, the number of active listeners, NaN detections and autocasts.

    While this number is 0, `Function.apply` does not look for them in `state`.
    """
    global watchers
    with _lock:
        watchers += change


class _Switch(ContextDecorator):
    """Set one attribute of `state` inside a `with` block or while a decorated function runs."""

    attribute = None

    def __init__(self, value):
        self.value = value
        self.before = []  # a stack, because one object may be entered several times

    def __call__(self, function):
        """Decorate a function. In a generator, the mode is set only while its own code runs."""
        if getattr(function, "__code__", None) and function.__code__.co_flags & CO_GENERATOR:
            return self._around_generator(function)
        return super().__call__(function)

    def _around_generator(self, function):
        @wraps(function)
        def generate(*args, **kwargs):
            generator, sent = function(*args, **kwargs), None
            try:
                while True:
                    with self._recreate_cm():
                        item = generator.send(sent)
                    sent = yield item
            except StopIteration as stop:
                return stop.value
            finally:
                generator.close()

        return generate

    def _recreate_cm(self):
        """Copy this object for each call of the decorated function.

        Several threads may call the function at the same time.
        """
        fresh = copy(self)
        fresh.before = []
        return fresh

    def __enter__(self):
        self.before.append(getattr(state, self.attribute))
        setattr(state, self.attribute, self.value)
        return self

    def __exit__(self, *exc_info):
        setattr(state, self.attribute, self.before.pop())
        return False


class _GradSwitch(_Switch):
    """Turn graph recording on or off in a `with` block or a decorated function."""

    attribute = "grad_enabled"


class set_grad_enabled(_GradSwitch):
    """Turn graph recording on or off, from now on or inside a `with` block.

    A plain call takes effect at once. A `with` block restores the previous mode when it ends, and
    a decorator sets the mode only while the function runs.

    Parameters
    ----------
    mode : bool
        Whether to record the graph.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1.0], requires_grad=True)
    >>> with mt.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    @names_arguments
    def __init__(self, mode):
        super().__init__(bool(mode))
        self._outside = state.grad_enabled
        state.grad_enabled = self.value

    def __call__(self, function):
        self._restore_mode()
        return super().__call__(function)

    def __enter__(self):
        self._restore_mode()
        return super().__enter__()

    def _restore_mode(self):
        """Restore the mode from before this object was created, unless this was already done."""
        if self._outside is not None:
            state.grad_enabled, self._outside = self._outside, None


class _Plain(_GradSwitch):
    """Base class of modes without arguments; `@no_grad` does the same as `@no_grad()`."""

    def __new__(cls, function=None):
        return super().__new__(cls) if function is None else cls()(function)


class no_grad(_Plain):
    """Turn off graph recording, so that intermediate results are freed immediately.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1.0], requires_grad=True)
    >>> with mt.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self):
        super().__init__(False)


class inference_mode(_GradSwitch):
    """Same as `no_grad`. In PyTorch, inference mode is faster than `no_grad`."""

    @names_arguments
    def __init__(self, mode=True):
        super().__init__(not mode)


class enable_grad(_Plain):
    """Turn graph recording back on inside a `no_grad` block.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1.0], requires_grad=True)
    >>> with mt.no_grad(), mt.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def __init__(self):
        super().__init__(True)


def is_grad_enabled():
    """Return True if operations on this thread are recorded."""
    return state.grad_enabled


class detect_anomaly(_Switch):
    """Find the operation that returns the first NaN, forward or backward.

    Inside the block, every forward and backward result is checked. A NaN raises `NumericError`,
    which names the operation and the line of your code that called it. This mode is slow.

    Parameters
    ----------
    mode : bool, default True
        Whether to check for NaN.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([-1.0], requires_grad=True)
    >>> with mt.autograd.detect_anomaly():  # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     y = x.sqrt()
    Traceback (most recent call last):
    NumericError: Sqrt.forward returned NaN
    """

    attribute = "anomaly"

    @names_arguments
    def __init__(self, mode=True):
        super().__init__(bool(mode))

    def __enter__(self):
        watch(+1)
        return super().__enter__()

    def __exit__(self, *exc_info):
        watch(-1)
        return super().__exit__(*exc_info)
