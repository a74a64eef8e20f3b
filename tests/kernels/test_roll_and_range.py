"""The kernels of `roll` and of the range check, on a GPU."""

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.backend import from_host
from minitorch_attn.backend.deferred import store_largest
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.errors import IndexRangeError

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("shape", "shifts", "dims"),
    [((1,), 1, 0), ((7,), -3, 0), ((2, 5), (1, 9), (0, 1)), ((3, 5, 7), (-2, 4), (2, 0)),
     ((2, 3, 5), (1, 1, -4), (1, 1, 2)), ((0, 3), 1, 1), ((3, 1, 2), (7, 7), (1, 2))],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_roll(make, shape, shifts, dims, dtype):
    x = make(*shape, dtype=dtype)
    assert_kernel_equals_composed(lambda x: mt.roll(x, shifts, dims), "Roll", x)
    if x.ndim > 1:
        strided = make(*shape[::-1], dtype=dtype)
        assert_kernel_equals_composed(
            lambda x: mt.roll(x.permute(*reversed(range(x.ndim))), shifts, dims), "Roll", strided
        )


def largest(index, lowest, allow):
    """The slot after a check by the kernel, and by the composed version."""
    found = []
    for run in (kernels[store_largest].run, store_largest):
        here = from_host(np.zeros(1, "uint64"), "cuda")
        if run is store_largest:
            kernel = kernels.pop(store_largest)
        try:
            run(from_host(index, "cuda"), lowest, allow, here)
        finally:
            if run is store_largest:
                kernels[store_largest] = kernel
        found.append(int(here.get()[0]))
    return found


@pytest.mark.parametrize("size", [1, 2, 257, 1000])
@pytest.mark.parametrize(
    ("dtype", "lowest", "allow"),
    [("int32", 0, None), ("int32", -5, None), ("int64", 0, 3), ("int64", -5, None),
     ("uint32", 0, None), ("uint64", 0, 3)],
)  # fmt: skip
def test_largest_index(rng, dtype, size, lowest, allow):
    low = -9 if dtype[0] == "i" else 0
    index = rng.integers(low, 100, size).astype(dtype)
    found, expected = largest(index, lowest, allow)
    assert found == expected
    assert found == max(
        0 if i == allow else (int(i) - lowest) % (1 << 8 * index.itemsize) for i in index
    )


def test_an_index_out_of_range_is_reported_at_the_next_read():
    weight = mt.ones(5, 2, device="cuda")
    y = mt.nn.functional.embedding(mt.tensor([0, 5], device="cuda"), weight)
    with pytest.raises(IndexRangeError, match="holds an index out of range") as caught:
        y.sum().item()
    assert "got       5" in str(caught.value)
    assert weight.sum().item() == 10  # the report was read and cleared


def test_one_read_waits_once():
    cupysim = pytest.importorskip("cupysim")
    weight = mt.ones(5, 2, device="cuda")
    for _ in range(2):
        y = mt.nn.functional.embedding(mt.tensor([0, 4], device="cuda"), weight).sum()
        cupysim.reset()
        assert y.item() == 4
    waits = sum(n for kind, (n, _) in cupysim.summary().items() if kind.startswith("sync"))
    assert waits == 1
