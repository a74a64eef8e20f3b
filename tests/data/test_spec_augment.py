"""SpecAugment: the widths and places of the masks, and what they leave alone."""

import numpy as np
import pytest

from minitorch_attn.backend import from_host, to_host
from minitorch_attn.data.spec_augment import spec_augment
from minitorch_attn.errors import ArgumentError, ShapeError


def hidden(rng, count, frames=13, mels=7, lengths=None, **settings):
    masks = {"frequency_masks": 0, "time_masks": 0} | settings
    return spec_augment(np.zeros((count, frames, mels)), rng, lengths, fill=1.0, **masks) == 1


def spans_of(rows):
    """Start and width of the masked stretch of each row, which must be one piece."""
    width = rows.sum(1)
    start = np.where(width, rows.argmax(1), 0)
    for row, a, w in zip(rows, start, width, strict=True):
        assert row[a : a + w].all()
    return start, width


def test_frequency_masks_are_uniform(rng):
    masked = hidden(rng, 4000, frequency_masks=1, frequency_width=3)
    np.testing.assert_array_equal(masked, np.broadcast_to(masked[:, :1], masked.shape))
    start, width = spans_of(masked[:, 0])
    np.testing.assert_allclose(np.bincount(width, minlength=4) / 4000, 1 / 4, atol=0.03)
    for w in (1, 2, 3):
        found = np.bincount(start[width == w], minlength=8 - w) / (width == w).sum()
        assert len(found) == 8 - w
        np.testing.assert_allclose(found, 1 / (8 - w), atol=0.05)


def test_time_masks_stay_inside_the_length(rng):
    lengths = np.array([13, 5, 1, 0] * 800)
    masked = hidden(rng, 3200, lengths=lengths, time_masks=1, time_width=4)
    np.testing.assert_array_equal(masked, np.broadcast_to(masked[..., :1], masked.shape))
    start, width = spans_of(masked[..., 0])
    assert (start + width <= lengths).all()
    for place, length in enumerate((13, 5, 1, 0)):
        most = min(4, length)
        share = np.bincount(width[place::4], minlength=most + 1) / 800
        assert len(share) == most + 1
        np.testing.assert_allclose(share, 1 / (most + 1), atol=0.06)


def test_time_fraction_bounds_the_width(rng):
    lengths = np.array([13, 4] * 300)
    masked = hidden(rng, 600, lengths=lengths, time_masks=1, time_width=9, time_fraction=0.25)
    _, width = spans_of(masked[..., 0])
    assert width[::2].max() == 3 and width[1::2].max() == 1


def test_several_masks_are_a_union(rng):
    masked = hidden(rng, 50, frequency_masks=2, frequency_width=3, time_masks=3, time_width=4)
    bands, spans = masked.all(1), masked.all(2)
    np.testing.assert_array_equal(masked, bands[:, None] | spans[:, :, None])
    assert bands.sum(1).max() > 3 and spans.sum(1).max() > 4


def test_values_dtype_and_device(rng, device):
    features = rng.normal(size=(3, 13, 7)).astype(np.float32)
    found = spec_augment(from_host(features, device), np.random.default_rng(3), fill=-2.0)
    same = spec_augment(features.copy(), np.random.default_rng(3), fill=-2.0)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(to_host(found), same)
    masked = same == -2
    assert 0 < masked.sum() < masked.size
    np.testing.assert_array_equal(same[~masked], features[~masked])


def test_nothing_to_mask(rng):
    features = rng.normal(size=(2, 5, 3))
    for settings in ({"frequency_masks": 0, "time_masks": 0}, {"frequency_width": 0,
                     "time_width": 0}):  # fmt: skip
        np.testing.assert_array_equal(spec_augment(features, rng, **settings), features)
    for shape in ((0, 5, 3), (2, 0, 3), (2, 5, 0)):
        assert spec_augment(np.zeros(shape), rng).shape == shape


def test_arguments(rng):
    features = np.zeros((2, 5, 3))
    for lengths in ([5], [5, 6], [-1, 2], [2.0, 3.0]):
        with pytest.raises(ArgumentError, match="2 integers from 0 to 5"):
            spec_augment(features, rng, lengths)
    with pytest.raises(ShapeError, match="features\\[None\\]"):
        spec_augment(features[0], rng)
