"""Baselines for the reconstruction of hidden pixels."""

import numpy as np

from minitorch_attn.data.inpainting import painting_baselines


def test_the_three_guesses_on_images_of_a_known_law(rng):
    """x = A z + noise: the linear guess is the best, and its error follows from the covariance."""
    mixing = rng.normal(size=(7, 3))
    images = rng.normal(size=(4000, 3)) @ mixing.T + 0.3 * rng.normal(size=(4000, 7))
    test = rng.normal(size=(300, 3)) @ mixing.T + 0.3 * rng.normal(size=(300, 7))
    hidden = np.tile(np.arange(7) < 2, (300, 1))
    errors = painting_baselines(images, test, hidden)
    covariance = mixing @ mixing.T + 0.09 * np.eye(7)
    rest = covariance[:2, :2] - covariance[:2, 2:] @ np.linalg.solve(
        covariance[2:, 2:], covariance[2:, :2]
    )
    assert abs(errors["best linear"] / (np.trace(rest) / 2) - 1) < 0.2
    assert abs(errors["mean image"] / (np.trace(covariance[:2, :2]) / 2) - 1) < 0.2
    assert errors["best linear"] < errors["nearest image"] < errors["mean image"]


def test_a_training_image_is_painted_without_error(rng):
    images = rng.random((20, 5))
    hidden = np.tile([False, False, True, True, False], (20, 1))
    assert painting_baselines(images, images, hidden)["nearest image"] == 0
