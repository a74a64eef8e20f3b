"""Axes and sizes: valid and invalid arguments."""

import numpy as np
import pytest

from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError
from minitorch_attn.ops.plumbing.axes import axes_of, axis_of, sizes_of


def test_axes_count_from_either_end():
    assert [axis_of(d, 3, "f") for d in (0, 2, -1, -3)] == [0, 2, 2, 0]
    assert axis_of(-1, 0, "f") == 0  # a 0-d tensor counts as having one axis
    assert axis_of(np.int64(1), 3, "f") == 1
    assert axes_of((0, -1), 3, "f") == (0, 2)
    assert axes_of(1, 3, "f") == (1,)
    assert axes_of([], 3, "f") == ()


def test_sizes_come_alone_or_in_sequences():
    assert sizes_of(3, "f") == (3,)
    assert sizes_of([np.int64(2), -1], "f") == (2, -1)
    assert all(type(n) is int for n in sizes_of((np.int32(2), True), "f"))


def test_errors_say_what_was_seen():
    with pytest.raises(IndexRangeError, match="f: dim0 is out of range") as caught:
        axis_of(3, 3, "f", "dim0")
    assert "dim0=3 for 3 axes" in str(caught.value)
    assert "from -3 to 2" in str(caught.value)
    with pytest.raises(DTypeError, match="dim must be an integer"):
        axis_of(1.5, 3, "f")
    with pytest.raises(ArgumentError, match="must not repeat an axis"):
        axes_of((0, -3), 3, "f")
    with pytest.raises(DTypeError, match="size must hold integers"):
        sizes_of((2, 1.5), "f")
