"""sigmoid, tanh and other smooth activations."""

import warnings

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, ShapeError


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


CASES = [
    Case("tanh", mt.tanh, np.tanh, (2, 3)),
    Case("tanh of 0-d", mt.tanh, np.tanh, ()),
    Case("sigmoid", mt.sigmoid, sigmoid, (2, 3)),
    Case("sigmoid of 0-d", mt.sigmoid, sigmoid, ()),
    Case("sigmoid of nothing", mt.sigmoid, sigmoid, (0, 2)),
    Case("logsigmoid", mt.logsigmoid, lambda x: np.log(sigmoid(x)), (2, 3)),
    Case("softplus", mt.softplus, lambda x: np.log1p(np.exp(x)), (2, 3)),
    Case("softplus, sharper", lambda x: mt.softplus(x, 3.0),
         lambda x: np.log1p(np.exp(3 * x)) / 3, (2, 3)),
    Case("logaddexp", mt.logaddexp, np.logaddexp, (2, 3), (2, 3)),
    Case("logaddexp, broadcast", mt.logaddexp, np.logaddexp, (2, 1, 5), (3, 1)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)

FAR = [-1000.0, -100.0, -20.0, 0.0, 20.0, 100.0, 1000.0]


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "logsigmoid", "softplus"])
def test_far_from_0_nothing_overflows_and_nobody_warns(name, device):
    x = mt.tensor(FAR, device=device, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = getattr(mt, name)(x)
        y.sum().backward()
    assert np.isfinite(y.numpy()).all() and np.isfinite(x.grad.numpy()).all()


def test_values_far_below_0_keep_their_digits(device):
    x = mt.tensor([-20.0, -80.0], device=device)
    np.testing.assert_allclose(mt.sigmoid(x).numpy(), np.exp(x.numpy()), rtol=1e-5)
    np.testing.assert_allclose(mt.softplus(x).numpy(), np.exp(x.numpy()), rtol=1e-5)
    np.testing.assert_allclose(mt.logsigmoid(x).numpy(), x.numpy(), rtol=1e-6)


def test_softplus_is_straight_above_the_threshold(device):
    x = mt.tensor([2.0, 2.1], device=device, requires_grad=True)
    y = mt.softplus(x, beta=2.0, threshold=4.1)
    np.testing.assert_allclose(y.numpy(), np.float32([np.log1p(np.exp(4.0)) / 2, 2.1]), rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.float32([sigmoid(4.0), 1.0]), rtol=1e-6)


def test_softplus_is_curved_at_the_threshold(device):
    x = mt.tensor([2.0], device=device, requires_grad=True)
    mt.softplus(x, beta=0.5, threshold=1.0).backward(mt.tensor([1.0], device=device))
    np.testing.assert_allclose(x.grad.numpy(), np.float32([sigmoid(1.0)]), rtol=1e-6)


def test_logaddexp_of_infinities(device):
    inf = np.inf
    a = mt.tensor([inf, -inf, inf, 0.0], device=device, requires_grad=True)
    b = mt.tensor([inf, -inf, 0.0, -inf], device=device)
    with np.errstate(invalid="ignore"):
        y = mt.logaddexp(a, b)
        y[2:].sum().backward()
    np.testing.assert_array_equal(y.numpy(), [inf, -inf, inf, 0])
    np.testing.assert_array_equal(a.grad.numpy()[2:], [1, 1])


def test_dtypes_and_errors(device, make):
    whole = mt.tensor([1, 2], device=device)
    for name in ("tanh", "sigmoid", "logsigmoid", "softplus"):
        assert getattr(mt, name)(whole).dtype == np.float32
    assert mt.logaddexp(whole, make(2)).dtype == np.float64
    with pytest.raises(DTypeError, match="must be floating-point"):
        mt.logaddexp(whole, whole)
    with pytest.raises(ShapeError, match="logaddexp"):
        mt.logaddexp(make(2), make(3))
