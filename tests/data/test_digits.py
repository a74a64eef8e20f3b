"""Digits: shares of the test set that leave a part without images are refused."""

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
