"""Strict device: NumPy with the restrictions of a GPU, for tests on machines without a GPU.

It rejects every operation that CuPy rejects, and also operations that CuPy performs silently but
slowly. See strict_array.py (arrays), strict_index.py (indexing) and strict_namespace.py
(functions). There are two strict devices, "strict:0" and "strict:1", so that tests detect an array
on the wrong device. They do not model the speed, kernels, rounding, streams or memory of a real
GPU.
"""

from minitorch_attn.backend.gemm import matmul_host
from minitorch_attn.backend.graph_capture import refuse
from minitorch_attn.backend.platforms import Device, Platform, memory_owner
from minitorch_attn.backend.special import erf_host, normal_host
from minitorch_attn.backend.strict_array import StrictArray
from minitorch_attn.backend.strict_namespace import StrictNamespace
from minitorch_attn.backend.strict_operators import wrap
from minitorch_attn.backend.sync import record_sync, record_transfer
from minitorch_attn.errors import DeviceError, DTypeError

__all__ = ["StrictPlatform"]


def _make_class(number):
    """Create the array class of one strict device. Each device has its own class."""
    known = {"__slots__": (), "index": number, "device": Device("strict", number)}
    cls = type(f"StrictArray{number}", (StrictArray,), known)
    cls.namespace = StrictNamespace(cls)
    return cls


class StrictPlatform(Platform):
    """Platform that provides the devices strict:0 and strict:1."""

    def __init__(self):
        self.array_types = tuple(_make_class(number) for number in (0, 1))

    def _class(self, device):
        if device.index >= len(self.array_types):
            raise DeviceError(
                f"device '{device}' is unavailable", expected="'strict:0' or 'strict:1'"
            )
        return self.array_types[device.index]

    def module(self, device):
        return self._class(device).namespace

    def module_of(self, array):
        return array.namespace

    def device_of(self, array):
        return type(array).device

    def from_host(self, array, device):
        if array.dtype.char not in "?bBhHiIlLqQefdFD":
            raise DTypeError(
                "the dtype is unsupported on a GPU",
                got=str(array.dtype),
                hint="use array.astype('float64')",
            )
        record_transfer()
        if array.ndim and array.size:  # CuPy fills an array of one number without a copy
            refuse("copies an array from the host to the device")
        return wrap(self._class(device), array.copy("A"))  # keeps column order, as CuPy does

    def to_host(self, array):
        record_sync("a copy to the host")
        return array._raw.copy()

    def start_reading(self, array):
        return array._raw.copy

    def wait(self):
        record_sync("waiting for the device")

    def owner(self, array):
        return memory_owner(array._raw)

    def address(self, array):
        return array._raw.ctypes.data

    def erf(self, x):
        return wrap(type(x), erf_host(x._raw))

    def normal(self, x):
        return wrap(type(x), normal_host(x._raw))

    def matmul(self, a, b):
        return wrap(type(a), matmul_host(a._raw, b._raw))
