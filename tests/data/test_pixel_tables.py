"""Pixel tables against counting in Python, and linear probes."""

import math
from collections import Counter

import numpy as np
import pytest

from minitorch_attn.data.linear_probe import probe_accuracy
from minitorch_attn.data.pixel_tables import _STRENGTHS, NEIGHBORHOODS, pixel_table_bits


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("arrays on the host only")


def context_of(image, row, column, offsets, length, levels):
    found = []
    for dy, dx in offsets[:length]:
        y, x = row + dy, column + dx
        inside = 0 <= y < image.shape[0] and 0 <= x < image.shape[1]
        found.append(int(image[y, x]) if inside else levels)
    return (*found, (row, column)) if length > len(offsets) else tuple(found)


def by_counting(training, test, levels, offsets, position, strength):
    lengths = range(len(offsets) + 1 + position)
    tables = [Counter() for _ in lengths]
    for image, row, column in np.ndindex(training.shape):
        for length in lengths:
            context = context_of(training[image], row, column, offsets, length, levels)
            tables[length][context, int(training[image, row, column])] += 1
    bits = []
    for image, row, column in np.ndindex(test.shape):
        p = np.full(levels, 1 / levels)
        for length in lengths:
            context = context_of(test[image], row, column, offsets, length, levels)
            count = np.array([tables[length][context, x] for x in range(levels)])
            p = (count + strength * p) / (count.sum() + strength)
        bits.append(-math.log2(p[test[image, row, column]]))
    return np.mean(bits)


@pytest.mark.parametrize("position", [False, True])
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_against_counting(name, position, rng):
    training, test = rng.integers(0, 3, (5, 4, 3)), rng.integers(0, 3, (2, 4, 3))
    offsets = NEIGHBORHOODS[name]
    expected = min(by_counting(training, test, 3, offsets, position, s) for s in _STRENGTHS)
    got = pixel_table_bits(training, test, 3, offsets, position)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_neighbors_come_before_the_pixel():
    for offsets in NEIGHBORHOODS.values():
        assert all((dy, dx) < (0, 0) for dy, dx in offsets)


def test_probe(rng):
    pytest.importorskip("sklearn")
    labels = rng.integers(0, 3, 200)
    features = rng.normal(size=(200, 5)) * 0.1
    features[:, 1] += 10 * labels
    assert probe_accuracy(features[:100], labels[:100], features[100:], labels[100:]) == 1.0
    noise = rng.normal(size=(200, 5))
    noise[:, 2] = 4.0  # a constant feature
    assert probe_accuracy(noise[:100], labels[:100], noise[100:], labels[100:]) < 0.6
