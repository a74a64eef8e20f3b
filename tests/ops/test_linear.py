"""Linear: matrix products with an added term."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError

CASES = [
    Case("linear", mt.linear, lambda x, w, b: x @ w.T + b, (5, 3), (2, 3), (2,)),
    Case("linear without bias", mt.linear, lambda x, w: x @ w.T, (5, 3), (2, 3)),
    Case("linear of a batch", mt.linear, lambda x, w, b: x @ w.T + b, (2, 5, 3), (7, 3), (7,)),
    Case("linear of a vector", mt.linear, lambda x, w, b: x @ w.T + b, (3,), (2, 3), (2,)),
    Case("linear of a transposed batch", lambda x, w, b: mt.linear(x.transpose(0, 1), w, b),
         lambda x, w, b: x.swapaxes(0, 1) @ w.T + b, (2, 5, 3), (7, 3), (7,)),
    Case("linear, bias a number", mt.linear, lambda x, w, b: x @ w.T + b, (5, 3), (2, 3), ()),
    Case("linear of no rows", mt.linear, lambda x, w, b: x @ w.T + b, (2, 0, 3), (7, 3), (7,)),
    Case("linear from nothing", mt.linear, lambda x, w, b: x @ w.T + b, (5, 0), (2, 0), (2,)),
    Case("linear to one number", mt.linear, lambda x, w, b: x @ w + b, (5, 3), (3,), ()),
    Case("addmm", lambda c, a, b: mt.addmm(c, a, b, beta=0.5, alpha=2.0),
         lambda c, a, b: (0.5 * c + 2.0 * (a @ b)).astype(a.dtype), (5,), (2, 3), (3, 5)),
    Case("addmv", mt.addmv, lambda c, a, b: c + a @ b, (2,), (2, 3), (3,)),
    Case("baddbmm", lambda c, a, b: mt.baddbmm(c, a, b, alpha=3),
         lambda c, a, b: c + 3 * (a @ b), (2, 1), (7, 2, 3), (7, 3, 5)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_beta_zero_forgets_nan(device):
    nan = mt.full((2, 2), float("nan"), device=device)
    assert mt.addmm(nan, mt.eye(2, device=device), mt.eye(2, device=device), beta=0).tolist() == [
        [1, 0],
        [0, 1],
    ]


def test_only_wanted_gradients_are_computed(make):
    x, weight, bias = make(5, 3, requires_grad=False), make(2, 3), make(2, requires_grad=False)
    mt.linear(x, weight, bias).sum().backward()
    assert x.grad is None and bias.grad is None
    np.testing.assert_allclose(weight.grad.numpy(), np.tile(x.numpy().sum(0), (2, 1)))


BAD = [
    (lambda m: mt.addmm(m(3), m(2, 3), m(3, 5)), ShapeError, "do not broadcast", "(2, 5)"),
    (lambda m: mt.addmm(m(7, 2, 5), m(2, 3), m(3, 5)), ShapeError, "does not", "(7, 2, 5)"),
    (
        lambda m: mt.linear(m(2, 3), m(3, 5)),
        ShapeError,
        "input and weight do not match",
        "weight.T",
    ),
    (
        lambda m: mt.linear(m(2, 3), m(5, 3), m(3)),
        ShapeError,
        "shape of bias does not match",
        "(5,)",
    ),
    (lambda m: mt.linear(m(), m(5, 3)), ShapeError, "input and weight do not match", "input ()"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make)
    assert detail in str(caught.value)
