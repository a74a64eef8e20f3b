"""Formatting: print tensors as PyTorch does, and format counts and numbers of bytes."""

import sys

import numpy as np

from .backend import get_default_dtype
from .errors import ArgumentError
from .named_errors import names_arguments

__all__ = ["set_printoptions", "short_bytes", "short_count", "tensor_repr"]

_MOST_AXES = 32
_MOST = {"precision": 100, "max_line_width": 10**6}
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "max_line_width": 75},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "max_line_width": 75},
    "full": {"precision": 4, "threshold": sys.maxsize, "edgeitems": 3, "max_line_width": 75},
}
_options = dict(_PROFILES["default"])


@names_arguments
def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
):  # fmt: skip
    """Set how tensors are printed; options that are not given keep their values.

    Parameters
    ----------
    precision : int, optional
        Number of digits after the decimal point.
    threshold : int, optional
        Number of elements above which a tensor is abbreviated.
    edgeitems : int, optional
        Number of elements at each end of an axis of an abbreviated tensor.
    linewidth : int, optional
        Number of characters in a line.
    profile : {"default", "short", "full"}, optional
        Preset for all of these options; other arguments override its values.
    sci_mode : bool, optional
        Whether to print numbers with an exponent. By default, they have an exponent only if some of
        them are very large or very small.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.set_printoptions(precision=2)
    >>> mt.tensor([3.14159])
    tensor([3.14])
    >>> mt.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ArgumentError(
                "set_printoptions: profile is unknown",
                got=f"{profile!r}",
                expected=", ".join(map(repr, _PROFILES)),
            )
        _options.clear()
        _options.update(_PROFILES[profile])
    numbers = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "max_line_width": linewidth,
    }  # fmt: skip
    for name, value in numbers.items():
        if value is not None:
            known = isinstance(value, int) and 0 <= value <= _MOST.get(name, sys.maxsize)
            if not known and value != float("inf"):
                shown = "linewidth" if name == "max_line_width" else name
                raise ArgumentError(
                    f"set_printoptions: {shown} must be a non-negative integer",
                    got=f"{value!r:.60}",
                    expected=f"an integer from 0 to {_MOST[name]}" if name in _MOST else None,
                )
            _options[name] = value if isinstance(value, int) else sys.maxsize
    if sci_mode is not None:
        kind = "e" if sci_mode else "f"
        _options["formatter"] = {"float_kind": lambda x: f"{x:.{_options['precision']}{kind}}"}


def tensor_repr(tensor):
    """Format a tensor as text, such as `tensor([[1., 2.]], requires_grad=True)`.

    Parameters
    ----------
    tensor : Tensor

    Returns
    -------
    str
    """
    if tensor.ndim > _MOST_AXES:  # NumPy's text would not fit into memory
        return f"tensor of shape {tensor.shape}, dtype={tensor.dtype}"
    values = np.array2string(tensor.numpy(), separator=", ", prefix="tensor(", **_options)
    notes = []
    if tensor.array.size == 0 and tensor.ndim != 1:
        notes.append(f"size={tensor.shape}")
    if tensor.device.type != "cpu":
        notes.append(f"device='{tensor.device}'")
    if tensor.dtype not in (get_default_dtype(), "int64", "bool"):  # literals have these dtypes
        notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([values, *notes])})"


def short_count(count):
    """Format a count with three significant digits and an SI prefix: 17.6 G."""
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * unit:  # 999,600 is 1 M
            return f"{count / unit:.3g} {letter}"
    return f"{count}"


def short_bytes(count):
    """Format a number of bytes with three significant digits and a unit, such as 1.5 MiB."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit * 1000 / 1024 and count >= 1024:  # 1,000 KiB has four digits
            return f"{count / unit:.3g} {name}"
    return f"{count} B"
