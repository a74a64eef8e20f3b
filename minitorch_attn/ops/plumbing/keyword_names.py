"""Keyword names: accept NumPy's and PyTorch's alternative names of an argument, such as `axis`."""

from functools import wraps
from inspect import unwrap

from ...errors import ArgumentError

__all__ = ["with_other_names"]

# NumPy's names, which every function with the argument accepts, as in PyTorch.
_NUMPY = {"axis": "dim", "keepdims": "keepdim"}

# PyTorch's overloads use several names for what is a single argument here.
_PARTS = {"indices": "indices_or_sections", "sections": "indices_or_sections"}
_PYTORCH = {
    "broadcast_to": {"size": "shape"},
    "copy_": {"other": "src"},
    "dropout": {"train": "training"},
    "hsplit": _PARTS,
    "max": {"other": "dim"},
    "min": {"other": "dim"},
    "one_hot": {"input": "tensor"},
    "split": {"split_size": "split_size_or_sections"},
    "tensor_split": {**_PARTS, "tensor_indices_or_sections": "indices_or_sections"},
    "uniform_": {"from": "low", "to": "high"},
    "vsplit": _PARTS,
}


def with_other_names(function):
    """Return a function that also accepts the other names of its arguments, such as `axis`.

    Parameters
    ----------
    function : callable
        Function to wrap. `_NUMPY` and `_PYTORCH` list the other names of its arguments.

    Returns
    -------
    callable
        `function` itself if its arguments have no other names. Otherwise a wrapper, whose attribute
        `other_names` maps each additional name to the name of the argument.

    Raises
    ------
    ArgumentError
        If a call of the wrapper passes one argument under two names.

    Examples
    --------
    >>> def count(input, dim=0):
    ...     return input.shape[dim]
    >>> import minitorch_attn as mt
    >>> with_other_names(count)(mt.zeros(2, 3), axis=1)
    3
    """
    code = unwrap(function).__code__  # `inspect.signature` would take long at import
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = {**_NUMPY, **_PYTORCH.get(function.__name__, {})}
    names = {other: name for other, name in names.items() if name in taken and other not in taken}
    if not names:
        return function

    @wraps(function)
    def call(*args, **kwargs):
        if kwargs and not names.keys().isdisjoint(kwargs):
            kwargs = _renamed(function.__name__, kwargs, names)
        return function(*args, **kwargs)

    call.other_names = names
    return call


def _renamed(where, kwargs, names):
    renamed = {}
    for given, value in kwargs.items():
        name = names.get(given, given)
        if name in renamed or (name != given and name in kwargs):
            raise ArgumentError(
                f"{where}: {name} is given twice, under two names",
                got=", ".join(f"{key}={value!r}" for key, value in kwargs.items()),
                hint=f"pass {name} only",
            )
        renamed[name] = value
    return renamed
