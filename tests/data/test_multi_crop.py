"""Multi-crop against `interpolate`, cluttered digits, nearest neighbors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.cluttered_digits import draw_cluttered
from minitorch_attn.data.multi_crop import crop_and_resize, random_views
from minitorch_attn.data.nearest_neighbors import nearest_accuracy
from minitorch_attn.errors import ArgumentError, ShapeError


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("arrays on the host only")


@pytest.mark.parametrize("size", [3, 5, 14])
def test_whole_boxes_are_interpolated(size, rng):
    """A crop of whole pixels, enlarged, as PyTorch's bilinear interpolation has it."""
    images = rng.normal(size=(3, 2, 7, 11))
    whole = np.tile([0, 0, 7, 11], (3, 1))
    expected = mt.nn.functional.interpolate(mt.tensor(images), size=(size, size), mode="bilinear")
    np.testing.assert_allclose(crop_and_resize(images, whole, size), expected.numpy(), atol=1e-12)


def test_each_image_has_its_own_box(rng):
    images = rng.normal(size=(2, 1, 9, 7))
    got = crop_and_resize(images, np.array([[1, 2, 3, 3], [5, 0, 3, 3]]), 3)
    np.testing.assert_allclose(got[0, 0], images[0, 0, 1:4, 2:5], atol=1e-12)
    np.testing.assert_allclose(got[1, 0], images[1, 0, 5:8, 0:3], atol=1e-12)
    half = crop_and_resize(images, np.array([[0.5, 0, 1, 1], [0, 0.25, 1, 1]]), 1)
    np.testing.assert_allclose(half[0, 0, 0, 0], images[0, 0, :2, 0].mean())
    np.testing.assert_allclose(half[1, 0, 0, 0], images[1, 0, 0, :2] @ [0.75, 0.25])
    assert crop_and_resize(images.astype(np.float32), np.zeros((2, 4)), 2).dtype == np.float32
    assert crop_and_resize(images[:0], np.zeros((0, 4)), 3).shape == (0, 1, 3, 3)


def test_views(rng):
    images = np.ones((50, 1, 20, 14), np.float32)
    plain = random_views(images, (6, 9), 5, rng)
    assert plain.shape == (50, 1, 5, 5) and plain.dtype == np.float32
    np.testing.assert_allclose(plain, 1, rtol=1e-6)
    factor = random_views(images, (6, 9), 5, rng, contrast=0.25)
    assert (factor.reshape(50, -1).std(1) < 1e-6).all()
    assert 0.75 <= factor.min() < 0.8 and 1.2 < factor.max() <= 1.25
    noise = random_views(images, (6, 9), 5, rng, noise=0.5) - 1
    assert abs(noise.std() - 0.5) < 0.05 and abs(noise.mean()) < 0.05
    ramp = np.broadcast_to(np.arange(14, dtype=np.float32), (50, 1, 20, 14))
    spread = np.ptp(random_views(ramp, (6, 6.0001), 6, rng).reshape(50, -1), axis=1)
    np.testing.assert_allclose(spread, 5, atol=1e-3)  # sides within the limits


def test_the_same_seed_gives_the_same_views():
    images = np.random.default_rng(1).random((4, 1, 9, 9), np.float32)
    one, two = (random_views(images, (3, 9), 4, np.random.default_rng(7), 0.1, 0.1)
                for _ in range(2))  # fmt: skip
    np.testing.assert_array_equal(one, two)


def test_cluttered_digits(rng):
    digits, labels = rng.random((11, 1, 8, 8)).astype(np.float32) + 1, np.arange(11)
    found = draw_cluttered(30, digits, labels, rng, side=23, size=10, margin=3, pieces=0)
    masks = found.masks()
    assert found.images.shape == (30, 1, 23, 23) and masks.shape == (30, 23, 23)
    assert (found.images[:, 0][~masks] == 0).all() and (found.images[:, 0][masks] > 0).all()
    assert found.corners.min() >= 3 and found.corners.max() <= 23 - 10 - 3
    for i in range(30):
        y, x = found.corners[i]
        expected = crop_and_resize(digits[[found.labels[i]]], [[0, 0, 8, 8]], 10)[0, 0]
        np.testing.assert_allclose(found.images[i, 0, y : y + 10, x : x + 10], expected)
    more = draw_cluttered(30, digits, labels, rng, side=23, size=10, margin=3, pieces=5)
    assert (more.images[:, 0][~more.masks()] > 0).mean() > 0.05


@pytest.mark.parametrize("wrong", [{"side": 10}, {"size": 4}, {"margin": 11}])
def test_refused_sizes(wrong, rng):
    with pytest.raises(ArgumentError, match="sizes are invalid"):
        draw_cluttered(2, np.ones((3, 1, 8, 8)), np.arange(3), rng, **wrong)


def test_refused_arrays(rng):
    with pytest.raises(ArgumentError, match="labels"):
        draw_cluttered(2, np.ones((3, 1, 8, 8)), np.arange(2), rng)
    with pytest.raises(ShapeError, match="crop_and_resize"):
        crop_and_resize(np.ones((2, 1, 4, 4)), np.ones((3, 4)), 2)
    with pytest.raises(ShapeError, match="columns"):
        nearest_accuracy(np.ones((3, 2)), np.arange(3), np.ones((3, 5)), np.arange(3))


def test_votes_of_the_nearest(rng):
    known, labels = rng.normal(size=(40, 5)), rng.integers(0, 3, 40)
    features, correct = rng.normal(size=(17, 5)), rng.integers(0, 3, 17)
    answers = []
    for x in features:
        similarity = known @ x / np.linalg.norm(known, axis=1) / np.linalg.norm(x)
        votes = np.zeros(3)
        for i in similarity.argsort()[::-1][:7]:
            votes[labels[i]] += np.exp(similarity[i] / 0.3)
        answers.append(votes.argmax())
    got = nearest_accuracy(known, labels, features, correct, neighbors=7, temperature=0.3)
    assert got == (np.array(answers) == correct).mean()
    assert nearest_accuracy(known, labels, 3 * known, labels, neighbors=1) == 1.0
