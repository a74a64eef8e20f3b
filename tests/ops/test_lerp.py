"""lerp, addcmul, addcdiv: combine three tensors element by element."""

import numpy as np
import pytest
from op_table import Case, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, ShapeError

CASES = [
    Case("lerp", lambda a, b: mt.lerp(a, b, 0.3), lambda a, b: a + 0.3 * (b - a), (2, 3), (2, 3)),
    Case("lerp far", lambda a, b: mt.lerp(a, b, 1.7), lambda a, b: a + 1.7 * (b - a), (2, 3), (3,)),
    Case("lerp by a tensor", mt.lerp, lambda a, b, w: a + w * (b - a), (2, 3, 5), (5,), (3, 1)),
    Case("lerp, all broadcast", mt.lerp, lambda a, b, w: a + w * (b - a), (5,), (2, 1, 1), (3, 1)),
    Case("addcmul", lambda a, b, c: mt.addcmul(a, b, c, value=0.5),
         lambda a, b, c: a + 0.5 * b * c, (2, 3), (3,), (2, 1)),
    Case("addcdiv", lambda a, b, c: mt.addcdiv(a, b, c, value=2),
         lambda a, b, c: a + 2 * b / c, (2, 3), (3,), Within((2, 1), 0.5, 2)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_lerp_ends_where_it_should(device):
    a, b = mt.tensor([0.1, 1e8], device=device), mt.tensor([0.3, -1.0], device=device)
    np.testing.assert_array_equal(mt.lerp(a, b, 1.0).numpy(), b.numpy())
    np.testing.assert_array_equal(mt.lerp(a, b, 0.0).numpy(), a.numpy())
    ends = mt.tensor([0.0, 1.0], device=device)
    np.testing.assert_array_equal(mt.lerp(a, b, ends).numpy(), np.float32([0.1, -1.0]))


def test_arguments_that_make_no_sense(make):
    x = make(2)
    with pytest.raises(ShapeError, match="lerp"):
        mt.lerp(make(2), make(3), 0.5)
    with pytest.raises(DTypeError, match="dtypes do not match"):
        mt.lerp(x, x.float(), 0.5)
    with pytest.raises(DTypeError, match="weight is not a number"):
        mt.lerp(x, x, "half")


def test_all_three_tensors_decide_the_dtype(make, device):
    x, single, double = make(2), make(2, dtype="float32"), make()
    for blend in (mt.addcmul, mt.addcdiv):
        y = blend(x, single, double)
        wanted = blend(x, single.double(), double)
        np.testing.assert_array_equal(y.numpy(), wanted.numpy())
    whole = mt.tensor([1, 2], device=device)
    with pytest.raises(DTypeError, match="addcdiv"):
        mt.addcdiv(whole, whole, whole)
