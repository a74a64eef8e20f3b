"""Row reductions equal NumPy's for every memory layout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from minitorch_attn.backend import array_module, from_host, to_host
from minitorch_attn.backend.row_reductions import (
    column_sum,
    long_rows,
    row_dot,
    row_max,
    row_sum,
    window_dots,
)

LAYOUTS = {
    "contiguous": lambda x: x,
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "columns first": lambda x: np.asfortranarray(x),
    "reversed": lambda x: x[..., ::-1],
    "read twice": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 20, 65), (41, 1), (5, 1, 3)])
def test_rows_agree_with_numpy(device, rng, shape, dtype, layout):
    host = LAYOUTS[layout](rng.standard_normal(shape).astype(dtype))
    x = from_host(host, device)
    wide = host.astype("float64")
    expected = {
        row_max: wide.max(-1, keepdims=True),
        row_sum: wide.sum(-1, keepdims=True),
        column_sum: wide.reshape(-1, shape[-1]).sum(0),
    }
    for function, value in expected.items():
        got = to_host(function(x))
        assert got.shape == value.shape and got.dtype == dtype
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5)
    got = to_host(row_dot(x, from_host(host[..., ::-1], device)))
    assert got.dtype == dtype
    expected = (wide * wide[..., ::-1]).sum(-1, keepdims=True)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(shape=array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5), seed=st.integers(0, 99))
def test_empty_axes(device, shape, seed):
    host = np.random.default_rng(seed).standard_normal(shape)
    x = from_host(host, device)
    np.testing.assert_allclose(to_host(row_sum(x)), host.sum(-1, keepdims=True))
    np.testing.assert_allclose(to_host(row_dot(x, x)), (host * host).sum(-1, keepdims=True))
    if host.size:
        np.testing.assert_array_equal(to_host(row_max(x)), host.max(-1, keepdims=True))
        np.testing.assert_allclose(to_host(column_sum(x)), host.reshape(-1, shape[-1]).sum(0))


@pytest.mark.parametrize("times", [1, 20])
def test_maximum_finds_nan_and_infinities(device, times):
    host = np.array([[1.0, np.nan, 9.0], [-np.inf, -np.inf, -np.inf], [np.inf, 0.0, -1.0]])
    got = to_host(row_max(from_host(np.tile(host, (times, 1)), device)))
    np.testing.assert_array_equal(got, [[np.nan], [-np.inf], [np.inf]] * times)


def test_column_sum_of_no_columns():
    assert column_sum(np.zeros((2, 0))).shape == (0,)
    np.testing.assert_array_equal(column_sum(np.zeros((0, 2))), [0.0, 0.0])


def test_dot_products_with_windows(rng, device):
    a, x = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 11))
    strides = (*x.strides[:2], 32, 8, 8)
    windows = np.lib.stride_tricks.as_strided(x, (2, 3, 2, 3, 5), strides)
    placed, out = from_host(x, device), from_host(np.zeros((2, 4, 4, 5)), device)
    view = array_module(placed).lib.stride_tricks.as_strided(placed, windows.shape, strides)
    window_dots(from_host(a, device), view, out[:, ::2, :3])
    expected = np.zeros((2, 4, 4, 5))
    expected[:, ::2, :3] = np.einsum("ncl,ncijl->nijl", a, windows)
    np.testing.assert_allclose(to_host(out), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(2, 64, 5, 5), (1031,), (3, 1024), (3, 1023), (2, 3, 4), (1, 1)])
def test_long_rows_are_a_view(shape):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    rows = long_rows(x)
    assert np.shares_memory(rows, x) and rows.size == x.size
    assert rows.ndim == 2 and (rows.shape[1] >= 1024 or len(rows) == 1)
    np.testing.assert_array_equal(rows.ravel(), x.ravel())


def test_other_arrays_have_no_long_rows(device):
    for x in (np.zeros((70, 60)).T, np.zeros((3, 0, 5))):
        assert long_rows(x) is x
    if device != "cpu":
        x = from_host(np.zeros((70, 60)), device)
        assert long_rows(x) is x
