"""Sums over windows with the channels last, against einsum over copies of the windows."""

import numpy as np
import pytest

from minitorch_attn.backend import array_module, from_host, to_host
from minitorch_attn.backend.channel_windows import kernel_sums, window_sums


def windows_of(x, places, stride, kernel):
    """Return windows over the two spatial axes of x, (batch, *place, *kernel, channel)."""
    batch, rows, columns, channels = x.strides
    shape = (len(x), *places, *kernel, x.shape[-1])
    strides = (batch, rows * stride[0], columns * stride[1], rows, columns, channels)
    return array_module(x).lib.stride_tricks.as_strided(x, shape, strides)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_sums_over_windows(rng, device, dtype, stride, batch):
    x, kernel = rng.normal(size=(batch, 11, 13, 5)).astype(dtype), (2, 3)
    places = tuple((n - k) // s + 1 for n, k, s in zip(x.shape[1:], kernel, stride, strict=False))
    weight = rng.normal(size=(*kernel, 5)).astype(dtype)
    g = rng.normal(size=(batch, *places, 5)).astype(dtype)
    copied = np.ascontiguousarray(windows_of(x, places, stride, kernel))
    view = windows_of(from_host(x, device), places, stride, kernel)
    larger = from_host(np.full((batch, 2 * places[0], places[1] + 1, 5), 7, dtype), device)
    for out in (larger[:, : places[0], : places[1]], larger[:, ::2, 1:]):
        window_sums(view, from_host(weight, device), out)
        assert out.dtype == dtype
        expected = np.einsum("bhwijc,ijc->bhwc", copied, weight)
        np.testing.assert_allclose(to_host(out), expected, rtol=1e-4, atol=1e-5)
    for grads in (from_host(g, device), from_host(np.repeat(g, 2, axis=2), device)[:, :, ::2]):
        found = kernel_sums(view, grads)
        assert found.dtype == dtype
        expected = np.einsum("bhwijc,bhwc->ijc", copied, g)
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-4, atol=1e-5)
