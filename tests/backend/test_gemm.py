"""Matrix products of the backend equal `@`."""

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.errors import DeviceError

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 5, 4), (4, 7)),
    ((2, 3, 4), (2, 4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (4,)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((0, 3, 4), (4, 5)),
    ((2, 0, 4), (4, 5)),
    ((2, 3, 0), (0, 5)),
    ((2, 3, 4), (4, 0)),
]


@pytest.mark.parametrize("device", ["cpu", "strict"])
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
def test_equals_the_operator(a_shape, b_shape, device):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(a_shape), rng.standard_normal(b_shape)
    product = backend.matmul(backend.from_host(a, device), backend.from_host(b, device))
    expected = a @ b
    assert product.shape == expected.shape
    np.testing.assert_allclose(backend.to_host(product), expected, atol=1e-12)


def test_views():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 3)), rng.standard_normal((5, 4))
    np.testing.assert_allclose(backend.matmul(a.swapaxes(1, 2), b.T), a.swapaxes(1, 2) @ b.T)
    np.testing.assert_allclose(backend.matmul(a.swapaxes(1, 2).copy(), b.T), a.swapaxes(1, 2) @ b.T)


def test_one_large_product_for_a_2d_right_side(monkeypatch):
    class Counting(np.ndarray):
        shapes = []

        def __matmul__(self, other):
            self.shapes.append(self.shape)
            return np.asarray(self) @ np.asarray(other)

    a = np.ones((3, 4, 5)).view(Counting)
    result = backend.gemm.matmul_host(a, np.ones((5, 2)))
    assert Counting.shapes == [(12, 5)] and result.shape == (3, 4, 2)


@pytest.mark.parametrize("rows", [1, 2, 33, 64, 65])
@pytest.mark.parametrize("lead", [(), (1,)])
@pytest.mark.parametrize("out_features", [257, 600, 1900])
def test_a_few_rows_times_a_large_transposed_matrix(rows, lead, out_features):
    rng = np.random.default_rng(0)
    a, weight = rng.standard_normal((*lead, rows, 256)), rng.standard_normal((out_features, 256))
    product = backend.matmul(a, weight.T)
    np.testing.assert_allclose(product, np.einsum("...ri,oi->...ro", a, weight), atol=1e-11)
    assert product.flags.c_contiguous and product.flags.writeable


def test_float16_goes_through_float32():
    a = np.full((1, 4096), 1.0, "float16")
    product = backend.matmul(a, np.full((4096, 1), 1.0, "float16"))
    assert product.dtype == np.float16
    assert product[0, 0] == 4096  # adding in float16 would stop at 2048
    assert backend.matmul(a[0], a[0]).shape == ()


def test_wrong_shapes_and_devices():
    for shape in [(3, 4), (2, 3, 4)]:
        with pytest.raises(ValueError):
            backend.matmul(np.ones(shape), np.ones((5, 2)))
    with pytest.raises(DeviceError):
        backend.matmul(np.ones((2, 2)), backend.from_host(np.ones((2, 2)), "strict"))


@pytest.mark.parametrize("shape", [(3, 48, 16), (2, 3, 64, 32), (1, 129, 8), (2, 20, 5)])
def test_a_transposed_right_factor(shape):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(shape), rng.standard_normal(shape)
    before = b.copy()
    expected = np.einsum("...ik,...jk->...ij", a, b)
    np.testing.assert_allclose(backend.matmul(a, b.swapaxes(-1, -2)), expected, atol=1e-12)
    np.testing.assert_array_equal(b, before)


def test_a_product_laid_out_like_another_array():
    rng = np.random.default_rng(0)
    heads = rng.standard_normal((2, 5, 3, 4)).swapaxes(1, 2)  # (batch, heads, token, dim)
    weights = rng.standard_normal((2, 3, 5, 5))
    for like in (heads, heads.copy(), heads[:1], heads.swapaxes(-1, -2).copy().swapaxes(-1, -2)):
        product = backend.gemm.matmul_like(weights, heads, like)
        np.testing.assert_allclose(product, weights @ heads, atol=1e-12)
    laid = backend.gemm.matmul_like(weights, heads[..., :2], heads)
    assert laid.swapaxes(1, 2).flags.c_contiguous
