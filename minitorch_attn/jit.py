"""Stand-ins for `torch.jit` and `torch.compile`, which return their argument unchanged.

NumPy executes each operation when it is called. There is no compiler, so a "compiled" model
computes the same results as the original model, in the same time.
"""

from typing import Final

__all__ = [
    "Final", "annotate", "compile", "export", "ignore", "is_scripting", "is_tracing", "script",
    "unused",
]  # fmt: skip


def compile(model=None, **options):
    """Return `model` unchanged.

    Parameters
    ----------
    model : Module or callable, optional
        Without it, `compile` returns a decorator.
    **options
        Options of `torch.compile`, which are ignored.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.Linear(3, 5)
    >>> mt.compile(layer, mode="max-autotune") is layer
    True
    """
    return _unchanged if model is None else model


def script(obj, *args, **kwargs):
    """Return `obj`, a module, function or class, unchanged. The other arguments are ignored."""
    return obj


def export(fn):
    """Return `fn` unchanged; in PyTorch, `export` marks a method to be compiled."""
    return fn


def ignore(drop=False, **kwargs):
    """Return the decorated function unchanged; in PyTorch, the compiler skips it.

    Examples
    --------
    >>> @ignore
    ... def f(x):
    ...     return x + 1
    >>> @ignore(drop=True)
    ... def g(x):
    ...     return f(x) + 1
    >>> g(1)
    3
    """
    return drop if callable(drop) else _unchanged


def unused(fn):
    """Return `fn` unchanged; in PyTorch, the compiler replaces it with an error."""
    return fn


def annotate(the_type, the_value):
    """Return `the_value`; `the_type` is ignored."""
    return the_value


def is_scripting():
    """Return False."""
    return False


def is_tracing():
    """Return False."""
    return False


def _unchanged(fn):
    return fn
