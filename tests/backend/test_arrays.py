"""Arrays from user input, and arrays like another array."""

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.errors import DTypeError, ShapeError


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, "int64", ()),
        (1.5, "float32", ()),
        (True, "bool", ()),
        ([1, 2.5], "float32", (2,)),
        ([[1, 2], [3, 4]], "int64", (2, 2)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (np.float64(2), "float64", ()),
        ([np.float64(2), 1.0], "float64", (2,)),
        (np.ones((2, 3), "float16"), "float16", (2, 3)),
        (np.array([1, 2], "int8"), "int8", (2,)),
    ],
)
def test_dtypes_and_shapes(data, dtype, shape):
    array = backend.new_array(data)
    assert type(array) is np.ndarray
    assert array.dtype == dtype and array.shape == shape
    assert backend.new_array(data, "float64").dtype == np.float64


@pytest.mark.parametrize("device", ["cpu", "strict"])
def test_new_arrays_share_nothing(device):
    x = backend.from_host(np.ones(3), device)
    for fresh in (backend.new_array(x), backend.new_array(x, "float64")):
        assert not backend.shares_memory(x, fresh)
        assert backend.device_of(fresh) == backend.device_of(x)


@pytest.mark.parametrize("data", [[[1, 2], [3]], [1, [2]], [np.ones(2), np.ones(3)]])
def test_ragged_rows(data):
    with pytest.raises(ShapeError, match="ragged"):
        backend.new_array(data)


@pytest.mark.parametrize("data", ["text", [None], {1: 2}, 1j, np.array(["a"]), np.ones(2, "g")])
def test_not_numbers(data):
    with pytest.raises(DTypeError):
        backend.new_array(data)


@pytest.mark.parametrize("device", ["cpu", "strict:0", "strict:1"])
def test_like(device):
    model = backend.from_host(np.ones(3, "float32"), device)
    for value in (1, 2.5, [1, 2], np.array([1.0, 2.0]), backend.from_host(np.ones(2), "strict:1")):
        array = backend.like(value, model)
        assert array.dtype == np.float32
        assert backend.device_of(array) == backend.device_of(model)
    assert backend.like(model, model) is model
    zeros = backend.zeros_like_device(model, (2, 3), "int64")
    assert zeros.shape == (2, 3) and zeros.dtype == np.int64
    assert backend.device_of(zeros) == backend.device_of(model)


def test_as_array_wraps_scalars_only():
    x = np.ones(3)
    assert backend.as_array(x) is x
    assert backend.as_array(x.sum()).shape == ()
    strict = backend.from_host(x, "strict")
    assert backend.as_array(strict) is strict


ORDERS = {
    "column order": (np.ones((2, 3)).T, False),
    "column order, three axes": (np.ones((2, 3, 5)).T, False),
    "two axes swapped": (np.ones((2, 3, 5)).transpose(1, 0, 2), True),
    "every second column": (np.ones((3, 7))[:, ::2], True),
    "rows in reverse": (np.ones((5, 3))[::-1], True),
    "broadcast rows": (np.broadcast_to(np.ones(3), (5, 3)), True),
    "nothing": (np.ones((0, 3)).T, True),
}


@pytest.mark.parametrize("array, in_c_order", ORDERS.values(), ids=ORDERS)
def test_a_copy_to_a_device_is_in_column_order_if_the_array_was(array, in_c_order, device):
    """So that a view of the copy is possible on both devices, or on neither."""
    copy = backend.from_host(array, "strict" if device == "cpu" else device)
    assert copy.flags.c_contiguous is in_c_order
    assert copy.flags.f_contiguous is (not in_c_order or not array.size)
