"""unique, unique_consecutive and bincount, against loops in Python."""

import itertools

import numpy as np
import pytest
from op_table import Case, Leaf, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, MiniTorchError, ShapeError

CASES = [
    Case("unique", mt.unique, np.unique, (2, 3)),
    Case("unique rows", lambda x: mt.unique(x, dim=0), lambda x: np.unique(x, axis=0), (5, 3)),
    Case("unique_consecutive", mt.unique_consecutive, lambda x: x.ravel(), (2, 3)),
    Case("bincount of weights", lambda w, n: mt.bincount(n, w, 7),
         lambda w, n: np.bincount(n, w, 7).astype(w.dtype), Leaf([0.5, 2, -1]),
         np.array([4, 1, 4])),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def counted(rows):
    """The distinct rows in order, the place of each row among them, and their counts."""
    distinct = sorted(set(rows))
    return distinct, [distinct.index(row) for row in rows], [rows.count(row) for row in distinct]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(1,), (7,), (5, 3), (2, 3, 4), (0,)])
def test_unique(shape, dtype, rng, device):
    x = rng.integers(0, 3, shape).astype(dtype)
    values, inverse, counts = mt.unique(
        mt.tensor(x, device=device), return_inverse=True, return_counts=True
    )
    want = counted(x.ravel().tolist())
    assert (values.tolist(), inverse.ravel().tolist(), counts.tolist()) == want
    assert values.dtype == x.dtype and inverse.shape == shape
    assert inverse.dtype == counts.dtype == np.int64
    again = values[inverse] if x.size else values
    np.testing.assert_array_equal(again.numpy(), x)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_slices(dim, rng, device):
    x = rng.integers(0, 2, (5, 3, 2))
    values, inverse, counts = mt.unique(
        mt.tensor(x, device=device), return_inverse=True, return_counts=True, dim=dim
    )
    rows = [tuple(row.ravel()) for row in np.moveaxis(x, dim, 0)]
    distinct, places, times = counted(rows)
    assert [tuple(row.ravel()) for row in np.moveaxis(values.numpy(), dim, 0)] == distinct
    assert inverse.tolist() == places and counts.tolist() == times


def test_unique_consecutive(rng, device):
    x = rng.integers(0, 2, 23)
    values, inverse, counts = mt.unique_consecutive(
        mt.tensor(x, device=device), return_inverse=True, return_counts=True
    )
    runs = [(value, len(list(group))) for value, group in itertools.groupby(x.tolist())]
    assert list(zip(values.tolist(), counts.tolist(), strict=True)) == runs
    np.testing.assert_array_equal(values[inverse].numpy(), x)


def test_every_nan_is_distinct(device):
    x = mt.tensor([np.nan, 1.0, np.nan], device=device)
    assert mt.unique(x, return_counts=True)[1].tolist() == [1, 1, 1]


def test_the_gradient_goes_to_the_first_of_equals(device):
    x = mt.tensor([3.0, 1.0, 3.0], device=device, requires_grad=True)
    mt.unique(x).backward(mt.tensor([5.0, 7.0], device=device))
    assert x.grad.tolist() == [7, 5, 0]


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int16"])
def test_bincount(dtype, rng, device):
    x = rng.integers(0, 5, 17).astype(dtype)
    for minlength in (0, 9):
        got = mt.bincount(mt.tensor(x, device=device), minlength=minlength)
        np.testing.assert_array_equal(got.numpy(), np.bincount(x, minlength=minlength))
        assert got.dtype == np.int64
    nothing = mt.tensor(np.zeros(0, dtype), device=device)
    assert mt.bincount(nothing).shape == (0,) and mt.bincount(nothing, minlength=2).tolist() == [
        0,
        0,
    ]


def test_the_dtype_of_weights(device):
    x = mt.tensor([1, 1], device=device)
    for dtype, want in (("float32", "float32"), ("float64", "float64"), ("int32", "float64")):
        got = mt.bincount(x, mt.tensor([2, 3], dtype=dtype, device=device))
        assert got.dtype == want and got.tolist() == [0, 5]


def test_wrong_calls(device):
    x = mt.tensor([1, 2], device=device)
    for call, error in (
        (lambda: mt.bincount(x.float()), DTypeError),
        (lambda: mt.bincount(x.reshape(1, 2)), ShapeError),
        (lambda: mt.bincount(x, mt.ones(3, device=device)), ShapeError),
        (lambda: mt.bincount(x, minlength=-1), ArgumentError),
        (lambda: mt.bincount(x - 2).tolist(), MiniTorchError),
        (lambda: mt.unique(x, dim=1), IndexError),
        (lambda: mt.unique(mt.ones(2, 0, device=device), dim=0), ShapeError),
    ):
        with pytest.raises(error):
            call()
