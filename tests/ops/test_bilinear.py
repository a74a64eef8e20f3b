"""Bilinear: a bilinear form of two inputs for each output."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, ShapeError


def form(x, y, weight, bias=0.0):
    return np.einsum("...i,kij,...j->...k", x, weight, y) + bias


CASES = [
    Case("bilinear", mt.bilinear, form, (5, 3), (5, 7), (2, 3, 7), (2,)),
    Case("bilinear without bias", mt.bilinear, form, (5, 3), (5, 7), (2, 3, 7)),
    Case("bilinear of vectors", mt.bilinear, form, (3,), (7,), (2, 3, 7), (2,)),
    Case("bilinear of a batch", mt.bilinear, form, (2, 5, 3), (2, 5, 2), (7, 3, 2), (7,)),
    Case("bilinear of no rows", mt.bilinear, form, (0, 3), (0, 2), (7, 3, 2), (7,)),
    Case("bilinear of single features", mt.bilinear, form, (5, 1), (5, 1), (1, 1, 1), (1,)),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize(
    "shapes",
    [((5, 3), (5, 7), (2, 7, 3)), ((5, 3), (4, 7), (2, 3, 7)), ((), (7,), (2, 1, 7)),
     ((5, 3), (5, 7), (3, 7))],
)  # fmt: skip
def test_shapes_that_do_not_match(shapes):
    with pytest.raises(ShapeError, match="bilinear"):
        mt.bilinear(*[mt.zeros(shape) for shape in shapes])


def test_no_tensor():
    with pytest.raises(DTypeError, match="bilinear"):
        mt.bilinear(mt.zeros(3), [1.0], mt.zeros(2, 3, 1))
