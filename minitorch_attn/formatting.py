"""Formatting of tensors, as in PyTorch, and short forms of counts and byte sizes."""

import numpy as np

__all__ = ["short_bytes", "short_count", "tensor_repr"]

_QUIET = ("float32", "int64", "bool")  # dtypes of Python literals, which are not printed


def tensor_repr(tensor):
    """Format a tensor as text, such as `tensor([[1., 2.]], requires_grad=True)`.

    Parameters
    ----------
    tensor : Tensor

    Returns
    -------
    str
    """
    values = np.array2string(tensor.numpy(), separator=", ", prefix="tensor(", precision=4)
    notes = []
    if tensor.array.size == 0 and tensor.ndim != 1:
        notes.append(f"size={tensor.shape}")
    if tensor.device.type != "cpu":
        notes.append(f"device='{tensor.device}'")
    if str(tensor.dtype) not in _QUIET:
        notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([values, *notes])})"


def short_count(count):
    """Format a count with three significant digits and a prefix, such as 17.6 G."""
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
