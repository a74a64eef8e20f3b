"""Digits: the 1,797 handwritten digits of 8 x 8 pixels that scikit-learn includes.

The file is read, and split as scikit-learn splits it, without importing scikit-learn, because the
import takes ten times as long.
"""

import importlib.util
import math
import operator
from pathlib import Path

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
    seed = operator.index(seed) % 2**32  # scikit-learn's seeds have 32 bits
    table = _table()
    images = (table[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    labels = table[:, -1].astype(np.int64)
    test_count = math.ceil(test_share * len(labels))  # as scikit-learn rounds
    if not 10 <= test_count <= len(labels) - 10:
        raise ArgumentError(
            "digits_split: one of the two parts would have fewer than 10 images",
            got=f"test_share={test_share!r}, {test_count} of {len(labels)} images",
            expected="at least 10 images in each part",
        )
    training, test = _stratified(labels, test_count, np.random.RandomState(seed))
    return images[training], labels[training], images[test], labels[test]


def _table():
    """Return scikit-learn's table of digits: 64 pixels from 0 to 16 and the label in each row."""
    found = importlib.util.find_spec("sklearn")
    if found is None:
        raise DataError(
            "digits_split: scikit-learn, which includes the digits, is not installed",
            hint="python -m pip install scikit-learn",
        )
    return np.loadtxt(Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")


def _stratified(labels, test_count, rng):
    """Return the indices that scikit-learn's `train_test_split(stratify=labels)` returns."""
    counts = np.bincount(labels)
    training_counts = _shares(counts, len(labels) - test_count, rng)
    test_counts = _shares(counts - training_counts, test_count, rng)
    training, test = [], []
    for label, (first, then) in enumerate(zip(training_counts, test_counts, strict=True)):
        drawn = np.flatnonzero(labels == label)[rng.permutation(counts[label])]
        training.extend(drawn[:first])
        test.extend(drawn[first : first + then])
    return rng.permutation(training), rng.permutation(test)


def _shares(counts, total, rng):
    """Divide `total` in proportion to `counts`; the largest remainders are rounded up."""
    exact = counts / counts.sum() * total
    shares = np.floor(exact)
    missing = int(total - shares.sum())
    remainders = exact - shares
    for remainder in np.unique(remainders)[::-1]:
        if missing == 0:
            break
        (equal,) = np.where(remainders == remainder)
        chosen = rng.choice(equal, size=min(len(equal), missing), replace=False)
        shares[chosen] += 1
        missing -= len(chosen)
    return shares.astype(int)


def check_digits(where, images, labels):
    """Raise an error if images and labels have different lengths, or there are none.

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
