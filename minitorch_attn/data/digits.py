"""Digits: the 1,797 handwritten digits of 8 x 8 pixels that scikit-learn includes."""

import math
import operator

import numpy as np

from ..errors import ArgumentError, DataError
from ..named_errors import names_arguments

__all__ = ["check_digits", "digits_split"]


@names_arguments
def digits_split(test_share=0.2, seed=0):
    """Load images and labels, split into a training set and a test set, stratified by digit.

    Parameters
    ----------
    test_share : float, default 0.2
        Fraction of the images that form the test set.
    seed : int, default 0
        Random seed for the split.

    Returns
    -------
    training_images, training_labels, test_images, test_labels : array
        Images are float32 of shape (image, 1, 8, 8) with values from 0 to 1; labels are int64.

    Raises
    ------
    ArgumentError
        If `test_share` is not between 0 and 1, or leaves a part with fewer than 10 images.
    DataError
        If scikit-learn is not installed.

    References
    ----------
    .. [1] Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
       Repository, 1998. scikit-learn includes only the test set of this data set.

    Examples
    --------
    >>> images, labels, test_images, test_labels = digits_split()
    >>> images.shape, test_images.shape, float(images.max())
    ((1437, 1, 8, 8), (360, 1, 8, 8), 1.0)
    """
    if not isinstance(test_share, float | int) or not 0 < test_share < 1:
        raise ArgumentError(
            "digits_split: test_share must be between 0 and 1", got=f"{test_share!r:.60}"
        )
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise DataError(
            "digits_split: scikit-learn, which includes the digits, is not installed",
            hint="python -m pip install scikit-learn",
        ) from None
    seed = operator.index(seed) % 2**32  # scikit-learn's seeds have 32 bits
    found = load_digits()
    images = (found.images / 16).astype(np.float32)[:, None]  # (image, channel, row, column)
    labels = found.target.astype(np.int64)
    test_count = math.ceil(test_share * len(labels))  # as scikit-learn rounds
    if not 10 <= test_count <= len(labels) - 10:
        raise ArgumentError(
            "digits_split: one of the two parts would have fewer than 10 images",
            got=f"test_share={test_share!r}, {test_count} of {len(labels)} images",
            expected=f"a test set of 10 to {len(labels) - 10} images",
        )
    training, test = train_test_split(
        np.arange(len(labels)), test_size=test_share, random_state=seed, stratify=labels
    )
    return images[training], labels[training], images[test], labels[test]


def check_digits(where, images, labels):
    """Raise an error if there are no images, or not exactly one label for each image.

    Parameters
    ----------
    where : str
        Name of the function, for the error message.
    images, labels : array

    Raises
    ------
    ArgumentError
    """
    if len(images) == 0 or len(images) != len(labels):
        raise ArgumentError(
            f"{where}: images and labels must have the same length, at least 1",
            got=f"{len(images)} images and {len(labels)} labels",
        )
