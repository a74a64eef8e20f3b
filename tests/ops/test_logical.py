"""Logical operations: and, or, not."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, ShapeError

NAN = float("nan")
LEFT = np.array([[1.0, 0.0, NAN], [np.inf, -0.0, 3.0]])
RIGHT = np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_truth(name, device):
    function, reference = getattr(mt, name), getattr(np, name)
    a = mt.tensor(LEFT, device=device, requires_grad=True)
    for b in (RIGHT, RIGHT > 0, LEFT[:, :1], np.array(2), 0.0, 2, True):
        other = mt.tensor(b, device=device) if isinstance(b, np.ndarray) else b
        answer = function(a, other)
        assert answer.dtype == bool and not answer.requires_grad
        np.testing.assert_array_equal(answer.numpy(), reference(LEFT, b))
    with pytest.raises(ShapeError, match=name):
        function(a, mt.tensor([True, False], device=device))


@pytest.mark.parametrize("values", [LEFT, LEFT[0, 0], LEFT[:0], np.array([0, 1]), LEFT > 1])
def test_logical_not(values, device):
    answer = mt.logical_not(mt.tensor(values, device=device))
    assert answer.dtype == bool and answer.shape == values.shape
    np.testing.assert_array_equal(answer.numpy(), np.logical_not(values))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name, device):
    function, reference = getattr(mt, name), getattr(np, name)
    for dtype in ("int64", "bool"):
        a, b = np.array([0, 1, 5, 6]).astype(dtype), np.array([[3], [0]]).astype(dtype)
        answer = function(mt.tensor(a, device=device), mt.tensor(b, device=device))
        assert answer.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(answer.numpy(), reference(a, b))
    with pytest.raises(DTypeError, match=name):
        function(mt.tensor(LEFT, device=device), 1)


def test_bitwise_not(device):
    np.testing.assert_array_equal(
        mt.bitwise_not(mt.tensor([0, 5], device=device)).numpy(), [-1, -6]
    )
    assert (~mt.tensor([True, False], device=device)).tolist() == [False, True]


def test_operators_and_reflected_numbers(device):
    x = mt.tensor([1.0, 2.0, 3.0], device=device)
    assert (2 < x).tolist() == [False, False, True]
    assert ((x > 1) & (x < 3)).tolist() == [False, True, False]
    assert ((x < 2) | (x > 2)).tolist() == [True, False, True]
