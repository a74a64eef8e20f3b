"""Projections: several linear layers of one input equal the layers one by one."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.ops.plumbing.flops import FLOPS, backward_flops
from minitorch_attn.ops.projections import Projections, fit


def side_by_side(x, weight1, bias1, weight2):
    return mt.cat(Projections.apply(x, weight1, bias1, weight2, None), -1)


def reference(x, weight1, bias1, weight2):
    return np.concatenate((x @ weight1.T + bias1, x @ weight2.T), -1).astype(x.dtype)


test_forward, test_gradient, test_second_gradient = checks(
    [Case("two layers", side_by_side, reference, (3, 5), (7, 5), (7,), (2, 5)),
     Case("more axes", side_by_side, reference, (2, 3, 5), (1, 5), (1,), (3, 5)),
     Case("a vector", side_by_side, reference, (5,), (1, 5), (1,), (3, 5))]
)  # fmt: skip


@pytest.mark.parametrize("wanted", range(5))
def test_only_the_gradients_that_are_needed(make, wanted):
    shapes = (7, 3), (5, 3), (5,), (2, 3), (2,)
    x, w1, b1, w2, b2 = inputs = [make(*s, requires_grad=i == wanted) for i, s in enumerate(shapes)]
    both = Projections.apply(x, w1, b1, w2, b2)
    (found,) = mt.autograd.grad(sum(y.sin().sum() for y in both), inputs[wanted])
    apart = mt.nn.functional.linear(x, w1, b1), mt.nn.functional.linear(x, w2, b2)
    (expected,) = mt.autograd.grad(sum(y.sin().sum() for y in apart), inputs[wanted])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-13, atol=1e-14)


def test_an_output_that_is_not_used(make):
    x, w1, w2 = make(7, 3), make(5, 3), make(2, 3)
    _, y = Projections.apply(x, w1, None, w2, None)
    grads = mt.autograd.grad(y.sum(), (x, w1, w2))
    assert not grads[1].numpy().any() and grads[2].numpy().any()
    expected = np.tile(w2.detach().numpy().sum(0), (7, 1))
    np.testing.assert_allclose(grads[0].numpy(), expected, rtol=1e-13)


def test_the_gradients_that_arrive_stay_as_they_were(make):
    x, w1, w2 = make(7, 3), make(5, 3), make(2, 3)
    cotangents = [make(7, n, requires_grad=False) for n in (5, 2)]
    before = [g.numpy().copy() for g in cotangents]
    ys = Projections.apply(x, w1, None, w2, None)
    mt.autograd.grad(ys, (x, w1, w2), cotangents)
    for a, b in zip(cotangents, before, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_which_inputs_fit(make, dtype):
    x, weight, bias = make(2, 7, 3, dtype=dtype), make(5, 3, dtype=dtype), make(5, dtype=dtype)
    assert fit(x, (weight, bias, weight, None))
    other = make(5, 3, dtype="float64" if dtype == "float32" else "float32")
    for wrong in (other, make(5, 2, dtype=dtype), make(3, dtype=dtype), 1.0):
        assert not fit(x, (weight, None, wrong, None))
    assert not fit(x, (weight, make(3, dtype=dtype)))
    assert not fit(make(dtype=dtype), (weight, None)) and not fit("x", (weight, None))
    assert not fit(x.long(), (weight.long(), None))


def test_operations(make):
    inputs = make(7, 3), make(5, 3), None, make(2, 3), make(2)
    flops = FLOPS["Projections"](inputs, None)
    assert flops == 2 * 7 * 3 * (5 + 2)
    assert backward_flops("Projections", flops, (True,) * 5) == 2 * flops
    assert backward_flops("Projections", flops, (False, True, None, True, True)) == flops
