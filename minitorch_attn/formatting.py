"""How a tensor prints: values as NumPy shows them, in PyTorch's frame."""

import numpy as np

__all__ = ["tensor_repr"]

_QUIET = ("float32", "int64", "bool")  # the dtypes that literals have: not worth a word


def tensor_repr(tensor):
    """`tensor([[1., 2.]], requires_grad=True)` and its like.

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
