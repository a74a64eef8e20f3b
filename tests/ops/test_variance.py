"""Variance and standard deviation."""

import warnings

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.autograd import grad
from minitorch_attn.errors import ArgumentError, DTypeError

CASES = [
    Case("var", mt.var, lambda x: x.var(ddof=1), (2, 3, 5)),
    Case("var dim 1", lambda x: mt.var(x, 1), lambda x: x.var(1, ddof=1), (2, 3, 5)),
    Case("var of two", lambda x: x.var((0, -1)), lambda x: x.var((0, 2), ddof=1), (2, 3, 5)),
    Case("var biased", lambda x: x.var(0, False), lambda x: x.var(0), (3, 5)),
    Case("var of all, biased", lambda x: mt.var(x, False), lambda x: x.var(), (3, 5)),
    Case("var correction", lambda x: x.var(1, correction=2), lambda x: x.var(1, ddof=2), (3, 5)),
    Case("var keepdim", lambda x: x.var(1, keepdim=True),
         lambda x: x.var(1, ddof=1, keepdims=True), (3, 5)),
    Case("std", mt.std, lambda x: x.std(ddof=1), (2, 3, 5)),
    Case("std dim -1", lambda x: mt.std(x, -1), lambda x: x.std(-1, ddof=1), (2, 3, 5)),
    Case("std biased", lambda x: x.std(0, unbiased=False), lambda x: x.std(0), (3, 5)),
    Case("std correction 0", lambda x: x.std(correction=0), lambda x: x.std(), (3, 5)),
    Case("var_mean", lambda x: mt.var_mean(x, 1, keepdim=True),
         lambda x: (x.var(1, ddof=1, keepdims=True), x.mean(1, keepdims=True)), (3, 5)),
    Case("std_mean", lambda x: mt.std_mean(x, (0, 1), correction=0),
         lambda x: (x.std((0, 1)), x.mean((0, 1))), (2, 3, 5)),
    Case("std_mean of all, biased", lambda x: mt.std_mean(x, False),
         lambda x: (x.std(), x.mean()), (3, 5)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_too_few_elements_have_no_variance(device):
    x = mt.tensor([[1.0], [2.0]], device=device, requires_grad=True)
    y = x.var(1)
    assert np.isnan(y.numpy()).all()
    y.sum().backward()
    assert np.isnan(x.grad.numpy()).all()
    assert np.isnan(mt.var(mt.tensor(np.ones((0, 2)), device=device), 0).numpy()).all()
    np.testing.assert_array_equal(x.var(1, correction=0).numpy(), [0, 0])


def test_std_of_equal_elements_has_no_slope(device):
    x = mt.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]], device=device, requires_grad=True)
    x.std(1).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0, 0], [-0.5, 0, 0.5]], atol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (slope,) = grad(x.std(1).sum(), x, create_graph=True)
        (second,) = grad((slope * slope).sum(), x)
    np.testing.assert_allclose(second.numpy(), np.zeros((2, 3)), atol=1e-7)


def test_arguments_that_make_no_sense(make, device):
    with pytest.raises(ArgumentError, match="not both"):
        make(2, 3).var(0, unbiased=True, correction=0)
    with pytest.raises(DTypeError, match="var.*floating-point"):
        mt.var(mt.tensor([1, 2], device=device))
