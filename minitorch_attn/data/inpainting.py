"""Inpainting baselines: predict hidden pixels without a network."""

import numpy as np

__all__ = ["painting_baselines"]


def painting_baselines(training, images, hidden, ridge=1e-3):
    """Return the mean squared errors of three ways to predict hidden pixels.

    * "mean image": the mean of the training images at the hidden pixel.
    * "nearest image": the training image that is most similar at the visible pixels.
    * "best linear": the conditional mean under a Gaussian with the mean and covariance of the
      training images, which is the best linear prediction from the visible pixels.

    Parameters
    ----------
    training : array of shape (image, pixel)
    images : array of shape (test image, pixel)
    hidden : bool array of shape (test image, pixel)
        True where a pixel is hidden.
    ridge : float, default 1e-3
        Constant added to the variances, so that the variance of a constant pixel is not 0.

    Returns
    -------
    dict of float

    Examples
    --------
    >>> images = np.random.default_rng(0).random((50, 1)) * np.ones((1, 4))  # four equal pixels
    >>> hidden = np.tile([False, False, True, True], (50, 1))
    >>> errors = painting_baselines(images, images, hidden, ridge=1e-9)
    >>> errors["mean image"] > 0.05, errors["nearest image"], errors["best linear"] < 1e-9
    (True, 0.0, True)
    """
    training, images = training.astype(np.float64), images.astype(np.float64)
    mean = training.mean(0)
    covariance = np.cov(training.T) + ridge * np.eye(len(mean))
    errors = {"mean image": [], "nearest image": [], "best linear": []}
    for image, gap in zip(images, hidden, strict=True):
        seen = ~gap
        nearest = training[((training[:, seen] - image[seen]) ** 2).sum(1).argmin()]
        weights = np.linalg.solve(covariance[np.ix_(seen, seen)], image[seen] - mean[seen])
        linear = mean[gap] + covariance[np.ix_(gap, seen)] @ weights
        errors["mean image"].append((mean[gap] - image[gap]) ** 2)
        errors["nearest image"].append((nearest[gap] - image[gap]) ** 2)
        errors["best linear"].append((linear - image[gap]) ** 2)
    return {name: float(np.concatenate(parts).mean()) for name, parts in errors.items()}
