"""Columns of a convolution: every window, copied by its definition."""

import math
from itertools import product

import numpy as np
import pytest

from minitorch_attn.ops.plumbing import columns as module
from minitorch_attn.ops.plumbing.columns import columns_of
from minitorch_attn.ops.plumbing.spatial import places_of


def by_definition(x, kernel, stride, padding, dilation, groups):
    """Copy one element at a time; outside the image, x is 0."""
    places = places_of(x.shape[2:], kernel, stride, padding, dilation)
    found = np.zeros((x.shape[1], *kernel, len(x), *places), x.dtype)
    for k in np.ndindex(*kernel):
        for o in np.ndindex(*places):
            axes = zip(o, stride, k, dilation, padding, strict=True)
            at = [a * s + b * d - before for a, s, b, d, (before, _) in axes]
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                found[(slice(None), *k, slice(None), *o)] = x[(..., *at)].T
    rows = x.shape[1] // groups * math.prod(kernel)
    return found.reshape(groups, rows, len(x) * math.prod(places))


GEOMETRIES = {
    "3 x 3": ((5, 7), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "no padding": ((5, 7), (2, 3), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "padding on one side": ((5, 7), (2, 3), (1, 1), [(2, 0), (0, 3)], (1, 1)),
    "crops": ((5, 7), (2, 3), (1, 1), [(-1, 1), (1, -2)], (1, 1)),
    "dilation": ((5, 7), (3, 2), (1, 1), [(2, 2), (3, 1)], (2, 3)),
    "more padding than image": ((2, 1), (3, 3), (1, 1), [(4, 3), (4, 5)], (1, 2)),
    "1 x 3": ((5, 7), (1, 3), (1, 1), [(0, 0), (1, 1)], (1, 1)),
    "3 x 1": ((5, 7), (3, 1), (1, 1), [(1, 1), (0, 0)], (1, 1)),
    "one position": ((3, 3), (3, 3), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "stride": ((5, 7), (3, 3), (2, 2), [(1, 1), (1, 1)], (1, 1)),
    "stride on one axis": ((5, 7), (3, 3), (1, 2), [(1, 1), (1, 1)], (1, 1)),
    "patches": ((6, 4), (3, 2), (3, 2), [(0, 0), (0, 0)], (1, 1)),
    "1-D": ((7,), (3,), (1,), [(1, 2)], (2,)),
    "3-D": ((3, 5, 4), (2, 3, 2), (1, 1, 1), [(1, 0), (1, 1), (0, 1)], (1, 2, 1)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch, groups", [(3, 1), (2, 2), (1, 4), (0, 1)])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
def test_every_window_is_a_column(geometry, batch, groups, dtype, rng):
    space, kernel, stride, padding, dilation = geometry
    x = rng.normal(size=(batch, 4, *space)).astype(dtype)
    how = kernel, stride, padding, dilation, groups
    found = columns_of(x, *how)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, by_definition(x, *how))
    channels_last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    np.testing.assert_array_equal(columns_of(channels_last, *how), found)
    np.testing.assert_array_equal(columns_of(np.repeat(x, 2, axis=-1)[..., ::2], *how), found)


@pytest.mark.parametrize("stride, kernel", [*product([(1, 1), (1, 2)], [(3, 3), (3, 1)])])
def test_which_geometries_copy_shifted_rows(stride, kernel, monkeypatch):
    calls = []
    rows = module._windows_of_shifted_rows
    monkeypatch.setattr(module, "_windows_of_shifted_rows", lambda *a: calls.append(a) or rows(*a))
    columns_of(np.ones((2, 3, 5, 5)), kernel, stride, [(1, 1), (1, 1)], (1, 1), 1)
    assert bool(calls) == (stride == (1, 1) and kernel == (3, 3))
