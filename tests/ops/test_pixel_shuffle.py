"""pixel_shuffle: trade channels for resolution."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError


def loop_shuffle(x, r):
    *lead, channels, height, width = x.shape
    y = np.empty((*lead, channels // (r * r), height * r, width * r), x.dtype)
    for c, i, j in np.ndindex(*y.shape[-3:]):
        y[..., c, i, j] = x[..., c * r * r + (i % r) * r + j % r, i // r, j // r]
    return y


def loop_unshuffle(x, r):
    *lead, channels, height, width = x.shape
    y = np.empty((*lead, channels * r * r, height // r, width // r), x.dtype)
    for c, i, j in np.ndindex(channels, height, width):
        y[..., c * r * r + (i % r) * r + j % r, i // r, j // r] = x[..., c, i, j]
    return y


CASES = [
    Case("shuffle", lambda x: mt.pixel_shuffle(x, 3), lambda x: loop_shuffle(x, 3), (2, 18, 2, 5)),
    Case("shuffle, no batch", lambda x: mt.pixel_shuffle(x, 2), lambda x: loop_shuffle(x, 2),
         (12, 3, 1)),
    Case("shuffle, two leading axes", lambda x: mt.pixel_shuffle(x, 2),
         lambda x: loop_shuffle(x, 2), (2, 3, 4, 1, 5)),
    Case("unshuffle", lambda x: mt.pixel_unshuffle(x, 3), lambda x: loop_unshuffle(x, 3),
         (2, 2, 6, 3)),
    Case("unshuffle, no batch", lambda x: mt.pixel_unshuffle(x, 2), lambda x: loop_unshuffle(x, 2),
         (3, 2, 4)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)

BAD = [
    (lambda x: mt.pixel_shuffle(x, 2), ShapeError, "not divisible by upscale", "a multiple of 4"),
    (lambda x: mt.pixel_unshuffle(x, 2), ShapeError, "not divisible by down", "multiples of 2"),
    (lambda x: mt.pixel_shuffle(x[0, 0], 1), ShapeError, "at least 3 axes", "(5, 7)"),
    (lambda x: mt.pixel_unshuffle(x, 0), ArgumentError, "downscale_factor", "positive integer"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3, 5, 7))
    assert detail in str(caught.value)
