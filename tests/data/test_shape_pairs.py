"""Shape pairs: labels that agree with the pixels, distances, balance, equal draws."""

import numpy as np
import pytest

from minitorch_attn.data.shape_pairs import GAP, SHAPE, SIDE, draw_shape_pairs


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("the same on every device")


def cut(image, corner):
    row, column = corner
    return image[0, row : row + SHAPE, column : column + SHAPE]


def test_labels_agree_with_the_pixels():
    pairs = draw_shape_pairs(300, np.random.default_rng(3), noise=0.0)
    for image, same, (one, two) in zip(*pairs, strict=True):
        assert np.array_equal(cut(image, one), cut(image, two)) == bool(same)
        assert image.sum() == cut(image, one).sum() + cut(image, two).sum()
        assert image.max() == 1 and abs(one - two).max() >= SHAPE + GAP
    assert pairs.images.shape == (300, 1, SIDE, SIDE) and pairs.images.dtype == np.float32
    assert 0.4 < pairs.same.mean() < 0.6
    firsts = zip(pairs.images, pairs.corners[:, 0], strict=True)
    kinds = {cut(image, corner).tobytes() for image, corner in firsts}
    assert len(kinds) == 6


def test_draws_depend_on_the_generator_only():
    first, again, other = (draw_shape_pairs(7, np.random.default_rng(s)) for s in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.images, other.images)


def test_noise():
    quiet, loud = (draw_shape_pairs(200, np.random.default_rng(4), noise=s) for s in (0.1, 0.3))
    for pairs, expected in ((quiet, 0.1), (loud, 0.3)):
        background = pairs.images[pairs.images < 2 * expected]
        assert 0.8 * expected < background.std() < 1.1 * expected
