"""where, masked_fill, maximum, minimum, clamp: select values element by element."""

import numpy as np
import pytest
from op_table import Case, Leaf, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

MASK = np.array([[True, False, True], [False, False, True]])
ROW = np.array([True, False, True])

CASES = [
    Case("where", mt.where, np.where, MASK, (2, 3), (2, 3)),
    Case("where, broadcast", mt.where, np.where, ROW, (2, 1), (5, 1, 3)),
    Case("where or a number", lambda m, a: mt.where(m, a, 2.0), lambda m, a: np.where(m, a, 2.0),
         MASK, (2, 3)),
    Case("where of 0-d", mt.where, np.where, np.array(True), (), ()),
    Case("where of nothing", mt.where, np.where, np.ones((0, 3), bool), (0, 3), (3,)),
    Case("masked_fill", lambda x, m: mt.masked_fill(x, m, -3), lambda x, m: np.where(m, -3.0, x)
         .astype(x.dtype), (2, 3), MASK),
    Case("masked_fill, broadcast", lambda x, m: x.masked_fill(m, 0.5),
         lambda x, m: np.where(m, 0.5, x).astype(x.dtype), (5, 2, 3), ROW),
    Case("masked_fill with a tensor", mt.masked_fill, lambda x, m, v: np.where(m, v, x), (2, 3),
         MASK, ()),
    Case("nan_to_num", mt.nan_to_num, np.nan_to_num, (2, 3)),
    Case("maximum", mt.maximum, np.maximum, (2, 3), (2, 3)),
    Case("maximum, broadcast", mt.maximum, np.maximum, (2, 1, 5), (3, 1)),
    Case("minimum", mt.minimum, np.minimum, (2, 3), (2, 3)),
    Case("minimum, broadcast", mt.minimum, np.minimum, (2, 1, 5), (3, 1)),
    Case("clamp", lambda x: mt.clamp(x, -0.5, 0.25), lambda x: np.clip(x, -0.5, 0.25), (3, 5)),
    Case("clamp below", lambda x: x.clamp(min=0.1), lambda x: np.maximum(x, 0.1), (3, 5)),
    Case("clamp above", lambda x: x.clamp(max=0.1), lambda x: np.minimum(x, 0.1), (3, 5)),
    Case("clamp of 0-d", lambda x: x.clamp(-2, 2), lambda x: x, ()),
    Case("clamp to tensors", mt.clamp, np.clip, (3, 5), Leaf([-0.5, -0.25, 0, 0.1, 0.2]),
         Leaf([[0.3], [0.4], [0.5]])),
    Case("clamp to a tensor and a number", lambda x, low: mt.clamp(x, low, 0.5),
         lambda x, low: np.clip(x, low, np.float32(0.5)), (3, 5), Leaf([-0.5, 0, 0.6, 0.1, 0.2])),
    Case("clamp above by a tensor", lambda x, high: mt.clamp(x, max=high), np.minimum, (3, 5),
         (3, 1)),
    Case("clamp, broadcast", mt.clamp, np.clip, (5,), Leaf([[-0.5], [-0.25], [0]]), Leaf([0.25])),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def slopes(function, *values, device, by=1.0):
    tensors = [mt.tensor(v, device=device, requires_grad=True) for v in values]
    (function(*tensors) * by).sum().backward()
    return [t.grad.numpy().tolist() for t in tensors]


def test_equal_elements_share_the_gradient(device):
    a, b = [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]
    assert slopes(mt.maximum, a, b, device=device) == [[0, 0.5, 1], [1, 0.5, 0]]
    assert slopes(mt.minimum, a, b, device=device) == [[1, 0.5, 0], [0, 0.5, 1]]
    assert slopes(mt.maximum, a, b, device=device, by=6) == [[0, 3, 6], [6, 3, 0]]


def test_clamp_is_open_at_its_limits(device):
    x = [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert slopes(lambda x: mt.clamp(x, -1, 1), x, device=device) == [[0, 1, 1, 1, 0]]
    assert slopes(lambda x: mt.clamp(x, 2, -2), x, device=device) == [[0, 0, 0, 0, 0]]
    low, high = [-1.0] * 5, [1.0] * 5
    assert slopes(mt.clamp, x, low, high, device=device) == [
        [0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]
    ]  # fmt: skip
    assert slopes(mt.clamp, [0.0], [1.0], [-1.0], device=device) == [[0], [0], [1]]


def test_clamp_between_limits_that_meet_or_are_missing(device):
    """The choices of PyTorch: between equal limits neither of them moves an x below or above."""
    x, limit = [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]
    assert slopes(mt.clamp, x, limit, limit, device=device) == [[0, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert slopes(mt.clamp, x, limit, device=device) == [[0, 1, 1], [1, 0, 0]]
    below = slopes(lambda x, high: mt.clamp(x, max=high), x, limit, device=device)
    assert below == [[1, 1, 0], [0, 0, 1]]
    assert slopes(lambda x: mt.clamp(x, min=1), x, device=device) == [[0, 1, 1]]
    assert slopes(lambda x: mt.clamp(x, max=1), x, device=device) == [[1, 1, 0]]


def test_nan(device):
    nan, one = mt.tensor([np.nan, 1.0], device=device), mt.tensor([1.0, np.nan], device=device)
    for function in (mt.maximum, mt.minimum):
        assert np.isnan(function(nan, one).numpy()).all()
    assert np.isnan(mt.clamp(nan, 0, 2).numpy()[0])


@pytest.mark.parametrize("size", [3, 5000])
def test_nan_does_not_cross_a_mask(size, device):
    """Small arrays go through np.where, large ones through their bits."""
    closed = mt.tensor(np.arange(size) % 2 == 0, device=device)
    x = mt.tensor(np.ones(size), device=device, requires_grad=True)
    y = mt.where(closed, 0.0, x)
    y.backward(mt.where(closed, float("nan"), mt.tensor(np.ones(size), device=device)))
    np.testing.assert_array_equal(x.grad.numpy(), np.arange(size) % 2)


def test_dtypes(device):
    mask = mt.tensor(ROW, device=device)
    whole, single = mt.tensor([1, 2, 3], device=device), mt.tensor([1.0, 2, 3], device=device)
    assert mt.where(mask, 1.0, 0).dtype == np.float32
    assert mt.where(mask, 1, 0).dtype == np.int64
    assert mt.where(mask, True, False).dtype == bool
    assert mt.where(mask, whole, 0.5).dtype == np.float32
    assert mt.where(mask, single, single.double()).dtype == np.float64
    assert mt.masked_fill(whole, mask, 2.0).dtype == np.int64
    assert mt.masked_fill(single, mask, 7).dtype == np.float32
    assert mt.masked_fill(mask, mask, 0).dtype == bool
    assert mt.maximum(whole, single).dtype == np.float32
    assert mt.clamp(whole, 0, 1).dtype == np.int64
    np.testing.assert_array_equal(mt.clamp(whole, max=1.5).numpy(), [1.0, 1.5, 1.5])


def test_arguments_that_make_no_sense(make, device):
    x = make(2, 3)
    with pytest.raises(DTypeError, match="mask must be boolean"):
        mt.masked_fill(x, make(2, 3), 0.0)
    with pytest.raises(DTypeError, match="condition must be boolean"):
        mt.where(x, x, x)
    with pytest.raises(ShapeError, match="must be a single number"):
        mt.masked_fill(x, mt.tensor(MASK, device=device), make(3))
    with pytest.raises(ShapeError, match="masked_fill"):
        mt.masked_fill(x, mt.tensor([True, False], device=device), 0.0)
    with pytest.raises(ShapeError, match="where"):
        mt.where(mt.tensor(MASK, device=device), x, make(5))
    with pytest.raises(DTypeError, match="out of range"):
        mt.masked_fill(mt.tensor([1], device=device), mt.tensor([True], device=device), np.inf)
    with pytest.raises(ArgumentError, match="both missing"):
        mt.clamp(x)
    with pytest.raises(ShapeError, match="clamp"):
        mt.clamp(x, make(2))


def test_a_limit_or_value_wraps_into_an_integer_dtype_as_in_pytorch(device):
    x = mt.tensor(np.uint8([2, 200]), device=device)
    np.testing.assert_array_equal(mt.clamp(x, -1).numpy(), np.uint8([255, 255]))
    np.testing.assert_array_equal(mt.masked_fill(x, x > 3, -1).numpy(), np.uint8([2, 255]))
    np.testing.assert_array_equal(mt.where(x > 3, x, -1).numpy(), np.uint8([255, 200]))


@pytest.mark.parametrize("options", [{}, {"nan": 7.0}, {"posinf": 5.0, "neginf": -3.0}])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_to_num(options, dtype, device):
    values = np.array([1.5, np.nan, np.inf, -np.inf, -2.0], dtype)
    x = mt.tensor(values, device=device, requires_grad=True)
    y = mt.nan_to_num(x, **options)
    np.testing.assert_array_equal(y.numpy(), np.nan_to_num(values, **options))
    y.backward(mt.tensor(np.arange(1, 6, dtype=dtype), device=device))
    np.testing.assert_array_equal(x.grad.numpy(), [1, 0, 0, 0, 5])
    whole = mt.tensor([1, 2], device=device)
    assert mt.nan_to_num(whole).tolist() == [1, 2] and mt.nan_to_num(whole) is not whole
