"""The device on which workloads build their models and batches: the CPU by default."""

from contextlib import contextmanager

__all__ = ["device", "on"]

_chosen = ["cpu"]


def device():
    """Return the name of the device, "cpu" or "cuda", for this library and for PyTorch."""
    return _chosen[-1]


@contextmanager
def on(name):
    """Context manager in which workloads are built on the device `name`.

    Parameters
    ----------
    name : str
        "cpu" or "cuda".
    """
    _chosen.append(name)
    try:
        yield
    finally:
        _chosen.pop()
