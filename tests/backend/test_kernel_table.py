"""The table of kernels: which arrays make a plain function run its kernel."""

import numpy as np
import pytest

from minitorch_attn.backend import kernel_table
from minitorch_attn.backend.kernel_table import register, with_kernel


@pytest.fixture
def total(monkeypatch):
    """A function with a kernel for lists of more than one array, on a device of its own."""
    monkeypatch.setattr(kernel_table, "kernels", {})
    monkeypatch.setattr(kernel_table, "array_types", {DeviceArray})

    @with_kernel
    def total(arrays, factor):
        return sum(array.sum() for array in arrays) * factor

    @register(total)
    class TotalKernel:
        @staticmethod
        def accepts(arrays, factor):
            return factor != 0 and len(arrays) != 1

        @staticmethod
        def run(arrays, factor):
            return "kernel", factor

    return total


class DeviceArray(np.ndarray):
    """A type that stands for CUDA arrays."""


def test_a_kernel_runs_for_the_arrays_of_its_device_that_it_accepts(total):
    host, device = np.ones(2), np.ones(2).view(DeviceArray)
    assert total([device, device], 3) == ("kernel", 3)
    assert total(device, 2) == ("kernel", 2)
    assert total([device], 3) == 6 and total([device, device], 0) == 0
    assert total([host, host], 3) == 12 and total([], 3) == 0


def test_without_cuda_no_kernel_is_looked_up(total, monkeypatch):
    monkeypatch.setattr(kernel_table, "array_types", set())
    monkeypatch.setattr(kernel_table, "kernels", None)
    assert total([np.ones(2).view(DeviceArray)] * 2, 3) == 12


def test_a_function_keeps_its_name_and_errors(total):
    assert total.__name__ == "total"
    with pytest.raises(TypeError, match="factor"):
        total([])
