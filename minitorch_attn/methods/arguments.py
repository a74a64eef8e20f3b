"""How the arguments of methods may be spelt."""

__all__ = ["as_shape", "cuda_name", "first"]


def first(*values):
    """The first value that is not None."""
    for value in values:
        if value is not None:
            return value
    return None


def as_shape(sizes):
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` mean the same."""
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(sizes[0], "__iter__"):
        return tuple(sizes[0])
    return sizes


def cuda_name(device):
    if device is None:
        return "cuda"
    return f"cuda:{device}" if isinstance(device, int) else device
