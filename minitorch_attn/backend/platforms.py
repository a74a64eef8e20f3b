"""What differs between kinds of device: `Platform`, and the host's."""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from minitorch_attn.errors import DeviceError

__all__ = ["CPU", "Device", "HostPlatform", "Platform", "memory_owner"]


@dataclass(frozen=True, slots=True)
class Device:
    """A place where arrays live.

    Parameters
    ----------
    type : {"cpu", "cuda", "strict"}
        The kind of device.
    index : int, default 0
        Which one of its kind. There is one "cpu" only.

    Examples
    --------
    >>> print(Device("cuda", 1), Device("cpu"))
    cuda:1 cpu
    """

    type: str
    index: int = 0

    def __post_init__(self):
        if self.type not in ("cpu", "cuda", "strict"):
            raise DeviceError(
                f"there is no device {self.type!r}.",
                got=repr(self.type),
                expected="'cpu', 'cuda', 'cuda:N', 'strict' or 'strict:N'",
            )
        if self.index < 0 or (self.type == "cpu" and self.index != 0):
            raise DeviceError(
                f"there is no device '{self.type}:{self.index}'.",
                got=repr(self.index),
                expected="an index from 0, and only 0 for 'cpu'",
            )

    def __str__(self):
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"


CPU = Device("cpu")


def memory_owner(array):
    """Return the object at the end of an ndarray's chain of bases, which owns its memory."""
    base = array.base
    while base is not None:
        array, base = base, getattr(base, "base", None)
    return array


class Platform:
    """What one kind of device can do; the only place where devices differ.

    `array_types` are the types whose instances live on this kind of device.
    """

    array_types = ()

    def module(self, device):
        """Return the module whose functions create arrays on `device`."""
        raise NotImplementedError

    def module_of(self, array):
        """Return the module that computes on `array`."""
        raise NotImplementedError

    def device_of(self, array):
        """Return the Device on which `array` lives."""
        raise NotImplementedError

    def from_host(self, array, device):
        """Copy a NumPy array to `device`."""
        raise NotImplementedError

    def to_host(self, array):
        """Copy `array` into a NumPy array."""
        raise NotImplementedError

    def owner(self, array):
        """Return the object that owns the memory of `array`."""
        raise NotImplementedError

    def address(self, array):
        """Return the address of the first element."""
        raise NotImplementedError

    def erf(self, x):
        """Return the error function of a floating-point array."""
        raise NotImplementedError

    def scatter_add(self, target, index, source):
        """Add `source` into `target[index]` in place, duplicates included."""
        raise NotImplementedError

    def matmul(self, a, b):
        """Return the matrix product of two arrays."""
        return a @ b


class HostPlatform(Platform):
    """NumPy on the host."""

    array_types = (ndarray,)

    def module(self, device):
        return np

    def module_of(self, array):
        return np

    def device_of(self, array):
        return CPU

    def from_host(self, array, device):
        return array

    def to_host(self, array):
        return array

    def owner(self, array):
        return memory_owner(array)

    def address(self, array):
        return array.ctypes.data

    def erf(self, x):
        from minitorch_attn.backend.special import erf_host

        return erf_host(x)

    def scatter_add(self, target, index, source):
        from minitorch_attn.backend.scatter import scatter_add_host

        return scatter_add_host(target, index, source)

    def matmul(self, a, b):
        from minitorch_attn.backend.gemm import matmul_host

        return matmul_host(a, b)
