"""Positions of feature maps: sines by hand, padding, learned tables, and masks of maps."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.models.image_positions import (
    LearnedPositions,
    SinePositions,
    mask_like,
    sine_code,
)

GRID = (3, 5)


def sines_by_hand(rows, columns, dim, height, width):
    found = np.zeros((height * width, dim))
    for i, j in np.ndindex(height, width):
        for part, (place, last) in enumerate(((i, rows), (j, columns))):
            value = min(place + 1, last) / (last + 1e-6) * 2 * math.pi
            for k in range(dim // 2):
                angle = value / 10000 ** (2 * (k // 2) / (dim // 2))
                feature = part * (dim // 2) + k
                found[i * width + j, feature] = math.cos(angle) if k % 2 else math.sin(angle)
    return found


def test_sines(device):
    features = mt.zeros(2, 7, *GRID, dtype="float64", device=device)
    found = SinePositions(12)(features)
    assert found.shape == (1, 15, 12)
    np.testing.assert_allclose(found[0].numpy(), sines_by_hand(*GRID, 12, *GRID), atol=1e-12)


def test_padding_does_not_count(device):
    features = mt.zeros(2, 7, *GRID, dtype="float64", device=device)
    mask = np.ones((2, *GRID), bool)
    mask[1, 2:], mask[1, :, 3:] = False, False
    found = SinePositions(8)(features, mt.tensor(mask, device=device)).numpy()
    np.testing.assert_allclose(found[0], sines_by_hand(*GRID, 8, *GRID), atol=1e-12)
    alone = sines_by_hand(2, 3, 8, *GRID).reshape(*GRID, 8)[:2, :3]
    np.testing.assert_allclose(found[1].reshape(*GRID, 8)[:2, :3], alone, atol=1e-12)


def test_sine_code(rng):
    places = mt.tensor(rng.normal(size=(2, 3)), requires_grad=True)
    code = sine_code(places, 4, temperature=9.0)
    expected = [f(places.numpy() / t) for t in (1, 3) for f in (np.sin, np.cos)]
    np.testing.assert_allclose(code.numpy(), np.stack(expected, -1), rtol=1e-12)
    assert gradcheck(lambda x: sine_code(x, 6), (places,))


def test_learned(device):
    positions = LearnedPositions(6, size=7).double().to(device)
    found = positions(mt.zeros(2, 11, *GRID, device=device)).numpy()
    assert found.shape == (1, 15, 6)
    rows, columns = positions.rows.weight.numpy(), positions.columns.weight.numpy()
    for i, j in np.ndindex(GRID):
        expected = np.concatenate([columns[j], rows[i]])
        np.testing.assert_array_equal(found[0, i * 5 + j], expected)
    assert 0 <= rows.min() and 0.5 < rows.max() <= 1


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_mask_of_a_map(dtype, device):
    mask = np.zeros((2, 8, 10), dtype)
    mask[0], mask[1, :5, :4] = 1, 1
    features = mt.zeros(2, 3, 3, 5, device=device)
    found = mask_like(mt.tensor(mask, device=device), features).numpy()
    assert found.dtype == bool and found[0].all()
    np.testing.assert_array_equal(found[1], mask[1][[0, 2, 5]][:, [0, 2, 4, 6, 8]] != 0)


def test_float32():
    assert SinePositions(4)(mt.zeros(1, 1, 2, 2)).dtype == mt.float32


def test_errors():
    for make in (lambda: SinePositions(6), lambda: LearnedPositions(5), lambda: sine_code(0, 3)):
        with pytest.raises(ArgumentError):
            make()
    with pytest.raises(ShapeError, match="too large"):
        LearnedPositions(4, size=3)(mt.zeros(1, 1, 2, 4))
    with pytest.raises(ShapeError, match="pixel_mask"):
        mask_like(mt.ones(3, 4, 4), mt.zeros(2, 1, 2, 2))
