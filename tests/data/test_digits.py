"""Digits: the split is scikit-learn's; shares that leave a part without images are refused."""

import numpy as np
import pytest

from minitorch_attn.data import digits_split
from minitorch_attn.errors import ArgumentError

pytest.importorskip("sklearn")


@pytest.mark.parametrize("share", [5e-324, 9 / 1797, 1788 / 1797, 1 - 1e-16])
def test_a_part_needs_an_image_of_each_digit(share):
    with pytest.raises(ArgumentError, match="^digits_split: one of the two parts"):
        digits_split(share)


@pytest.mark.parametrize(("share", "count"), [(10 / 1797, 10), (1787 / 1797, 1787)])
def test_the_smallest_parts(share, count):
    _, labels, _, test_labels = digits_split(share)
    assert (len(labels), len(test_labels)) == (1797 - count, count)
    assert set(labels) == set(test_labels) == set(range(10))


SHARES = [0.2, 0.25, 0.5, 1 / 3, 1 / 7, 10 / 1797, 11 / 1797, 1000 / 1797, 1786 / 1797]


@pytest.mark.parametrize("share", SHARES)
def test_images_and_their_order_are_those_of_scikit_learn(share):
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    for seed in (0, 1, 20170612, 2**32 - 1):
        training, test, training_labels, test_labels = train_test_split(
            images, labels, test_size=share, random_state=seed, stratify=labels
        )
        expected = training, training_labels, test, test_labels
        for mine, theirs in zip(digits_split(share, seed), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_results_may_be_changed():
    digits_split()[0][:] = 7
    assert digits_split()[0].max() == 1
