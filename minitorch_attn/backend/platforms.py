"""Platforms: a base class for what differs between CPU and GPU, and the class for the CPU."""

import math
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from minitorch_attn.errors import DeviceError

__all__ = ["CPU", "Device", "HostPlatform", "Platform", "memory_owner"]


@dataclass(frozen=True, slots=True)
class Device:
    """A device that holds arrays.

    Creating a Device does not check that the device exists: a missing GPU causes an error only
    when an array is moved to it.

    Parameters
    ----------
    type : {"cpu", "cuda", "strict"} or a full name such as "cuda:1"
        Kind of device.
    index : int, default 0
        Index of the device among those of its type; "cpu" has only index 0.

    Raises
    ------
    DeviceError
        If there is no device with that name.

    Examples
    --------
    >>> print(Device("cuda", 1), Device("cuda:1"), Device("cpu"))
    cuda:1 cuda:1 cpu
    """

    type: str
    index: int = 0

    def __post_init__(self):
        if not isinstance(self.type, str) or type(self.index) is not int:
            raise _no_such_device((self.type, self.index))
        kind, colon, number = self.type.partition(":")
        if colon:
            if self.index != 0 or not (number.isascii() and number.isdigit()):
                raise _no_such_device(self.type if self.index == 0 else (self.type, self.index))
            object.__setattr__(self, "type", kind)
            object.__setattr__(self, "index", int(number))
        wrong_index = self.index < 0 or (kind == "cpu" and self.index > 0)
        if kind not in ("cpu", "cuda", "strict") or wrong_index:
            raise _no_such_device(f"{kind}:{self.index}" if wrong_index else self.type)

    def __str__(self):
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"


def _no_such_device(name):
    return DeviceError(
        f"device {name!r} is unknown",
        got=repr(name),
        expected="'cpu', 'cuda', 'cuda:N', 'strict' or 'strict:N', with N = 0, 1, ...",
        hint="use 'cuda' for the first GPU",
    )


CPU = Device("cpu")


def memory_owner(array):
    """Return the owner of an ndarray's memory: the last object in its chain of bases."""
    base = array.base
    while base is not None:
        array = base.obj if type(base) is memoryview else base
        base = getattr(array, "base", None)
    return array


class Platform:
    """Interface to one kind of device. Everything that differs between devices is in a subclass.

    `array_types` are the array types of this kind of device.
    """

    array_types = ()

    def module(self, device):
        """Return the module whose functions create arrays on `device`."""
        raise NotImplementedError

    def module_of(self, array):
        """Return the module that computes on `array`."""
        raise NotImplementedError

    def device_of(self, array):
        """Return the Device of `array`."""
        raise NotImplementedError

    def from_host(self, array, device):
        """Copy a NumPy array to `device`."""
        raise NotImplementedError

    def to_host(self, array):
        """Copy `array` into a NumPy array."""
        raise NotImplementedError

    def start_reading(self, array):
        """Start to copy `array` to the host.

        Returns
        -------
        callable
            Function that returns the NumPy array. Call it only after the host has waited for the
            device.
        """
        raise NotImplementedError

    def wait(self):
        """Wait until the device has finished its work."""
        raise NotImplementedError

    def owner(self, array):
        """Return the object that owns the memory of `array`."""
        raise NotImplementedError

    def address(self, array):
        """Return the address of the first element."""
        raise NotImplementedError

    def erf(self, x):
        """Return the error function of every entry of a floating-point array."""
        raise NotImplementedError

    def normal(self, x):
        """Return the Gaussian CDF of every entry of a floating-point array."""
        if x.dtype.itemsize == 2:
            return self.normal(x.astype("float32")).astype(x.dtype)
        return (self.erf(x * math.sqrt(0.5)) + 1) * 0.5

    def scatter_add(self, target, index, source):
        """Add `source` to `target[index]` in place, including duplicate indices.

        The additions are atomic, and their order varies. CUDA cannot add atomically to an entry of
        one or two bytes, except float16. For other dtypes of this size, the sums are computed in an
        int32 copy of `target`.
        """
        add = self.module_of(target).add
        if target.dtype.itemsize >= 4 or target.dtype == "float16":
            add.at(target, index, source)
            return target
        total = target.astype("int32")
        add.at(total, index, source)
        target[...] = total.astype(target.dtype)
        return target

    def matmul(self, a, b):
        """Return the matrix product of two arrays."""
        return a @ b


class HostPlatform(Platform):
    """Platform of the CPU, whose arrays are NumPy arrays."""

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

    def normal(self, x):
        from minitorch_attn.backend.special import normal_host

        return normal_host(x)

    def scatter_add(self, target, index, source):
        from minitorch_attn.backend.scatter import scatter_add_host

        return scatter_add_host(target, index, source)

    def matmul(self, a, b):
        from minitorch_attn.backend.gemm import matmul_host

        return matmul_host(a, b)
