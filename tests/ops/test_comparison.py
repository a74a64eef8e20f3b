"""Comparison: eq, lt, isclose and similar operations, isnan, isinf."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

NAN = float("nan")
LEFT = np.array([[1.0, 2.0, NAN], [np.inf, -0.0, 3.0]])
RIGHT = np.array([1.0, 3.0, NAN])
PAIRS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_two_operands(name, device):
    function, reference = getattr(mt, name), PAIRS[name]
    a = mt.tensor(LEFT, device=device, requires_grad=True)
    for b in (RIGHT, RIGHT.astype("float32"), LEFT[:, :1], np.array(2), 1.0, 2, True):
        other = mt.tensor(b, device=device) if isinstance(b, np.ndarray) else b
        answer = function(a, other)
        assert answer.dtype == bool and not answer.requires_grad
        np.testing.assert_array_equal(answer.numpy(), reference(LEFT, b))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("values", [LEFT, LEFT[0, 0], LEFT[:0], np.array([0, 1]), LEFT > 1])
def test_one_operand(name, values, device):
    answer = getattr(mt, name)(mt.tensor(values, device=device))
    assert answer.dtype == bool and answer.shape == values.shape
    np.testing.assert_array_equal(answer.numpy(), getattr(np, name)(values))


def test_close(device):
    a = mt.tensor(LEFT, device=device)
    near, far = mt.tensor(LEFT + 1e-9, device=device), mt.tensor(LEFT + 1e-3, device=device)
    np.testing.assert_array_equal(mt.isclose(a, near).numpy(), ~np.isnan(LEFT))
    assert mt.isclose(a, near, equal_nan=True).numpy().all()
    assert mt.allclose(a, near) is False
    assert mt.allclose(a, near, equal_nan=True) is True
    assert mt.allclose(a, far, equal_nan=True) is False
    assert mt.allclose(a, far, rtol=0, atol=1e-2, equal_nan=True) is True


def test_equal(device):
    x = mt.tensor([1.0, 2.0], device=device)
    assert mt.equal(x, x.clone()) is True
    assert mt.equal(x, mt.tensor([1.0, 3.0], device=device)) is False
    assert mt.equal(x, x.unsqueeze(0)) is False
    assert mt.equal(x[:0], x[:0]) is True


def test_shapes_that_do_not_broadcast(make):
    for name in (*PAIRS, "isclose"):
        with pytest.raises(ShapeError, match=rf"{name}\(input, other\)"):
            getattr(mt, name)(make(2, 3), make(2))


def test_isclose_wants_one_dtype_and_tolerances_of_at_least_0(make):
    x = make(3)
    with pytest.raises(DTypeError, match="must have the same dtype"):
        mt.isclose(x, x.float())
    with pytest.raises(DTypeError, match="must have the same dtype"):
        mt.allclose(x, x.long())
    with pytest.raises(ArgumentError, match="must not be negative"):
        mt.isclose(x, x, rtol=-1.0)
