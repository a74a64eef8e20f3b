"""Utilities: gradient clipping, and parameters as one vector."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, DTypeError, NumericError, ShapeError
from minitorch_attn.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

LONG = 1 << 19


@pytest.fixture
def parameters(make, rng, device):
    several = [make(2, 3), make(5), make(7)]
    for p in several[:2]:  # the last one has no gradient
        p.grad = mt.tensor(rng.normal(size=p.shape), device=device)
    return several


def flat(parameters):
    return np.concatenate([p.grad.numpy().ravel() for p in parameters if p.grad is not None])


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
def test_the_norm_before_clipping_comes_back_and_the_norm_after_is_the_limit(parameters, norm_type):
    before = flat(parameters)
    norm = np.linalg.norm(before, norm_type)
    result = clip_grad_norm_(parameters, 0.5 * norm, norm_type)
    assert result.shape == () and result.dtype == mt.float64
    assert math.isclose(result.item(), norm, rel_tol=1e-12)
    np.testing.assert_allclose(flat(parameters), before * 0.5 * norm / (norm + 1e-6), rtol=1e-12)
    assert parameters[2].grad is None


def test_small_gradients_are_left_alone(parameters):
    before = flat(parameters)
    clip_grad_norm_((p for p in parameters), 1e4)  # a generator is fine
    np.testing.assert_array_equal(flat(parameters), before)


def test_clipping_is_in_place(parameters):
    memory = parameters[0].grad.data_ptr()
    clip_grad_norm_(parameters, 1e-3)
    clip_grad_value_(parameters, 1e-4)
    assert parameters[0].grad.data_ptr() == memory


def test_one_tensor_and_none_at_all(parameters, device):
    assert clip_grad_norm_(parameters[0], 1.0).item() > 0
    assert clip_grad_norm_(parameters[2], 1.0).item() == 0.0
    assert get_total_norm([]).item() == 0.0
    assert get_total_norm(mt.tensor([3.0, 4.0], device=device)).item() == 5.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_can_be_refused(parameters, device, bad):
    parameters[0].grad = mt.tensor(np.full((2, 3), bad), device=device)
    before = flat(parameters)
    with pytest.raises(NumericError, match="norm of"):
        clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(flat(parameters), before)


@pytest.mark.parametrize("sizes", [(LONG,), (1, LONG), (LONG, 0, 3), (LONG // 2 + 1,) * 3])
def test_many_numbers_are_clipped_in_threads(sizes, rng):
    grads = [rng.normal(size=size) for size in sizes]
    leaves = [mt.zeros(size, dtype=mt.float64).requires_grad_() for size in sizes]
    for leaf, grad in zip(leaves, grads, strict=True):
        leaf.grad = mt.tensor(grad)
    norm = np.sqrt(sum((grad**2).sum() for grad in grads))
    assert clip_grad_norm_(leaves, 2.0).item() == pytest.approx(norm, rel=1e-13)
    for leaf, grad in zip(leaves, grads, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), grad * 2.0 / (norm + 1e-6), rtol=1e-12)


def test_clipping_by_a_known_norm(parameters):
    """Two halves of the parameters, each clipped by the norm of both, are clipped as one list."""
    before = flat(parameters)
    norm = get_total_norm([p.grad for p in parameters[:2]])
    for half in (parameters[:1], parameters[1:]):
        clip_grads_with_norm_(half, 0.25, norm)
    np.testing.assert_allclose(flat(parameters), before * 0.25 / (norm.item() + 1e-6), rtol=1e-12)


def test_clip_value(parameters):
    before = flat(parameters)
    clip_grad_value_(parameters, 0.3)
    np.testing.assert_array_equal(flat(parameters), before.clip(-0.3, 0.3))


def test_named_parameters_are_refused(parameters):
    with pytest.raises(DTypeError, match="not model.named_parameters"):
        clip_grad_norm_([("a", parameters[0])], 1.0)


def test_vector_round_trip(make, device):
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)).double().to(device)
    vector = parameters_to_vector(model.parameters())
    assert vector.shape == (15,)
    vector.sum().backward()
    assert all((p.grad.numpy() == 1).all() for p in model.parameters())
    memory = model[0].weight.data_ptr()
    vector_to_parameters(mt.tensor(np.arange(15.0), device=device), model.parameters())
    assert model[0].weight.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert model[0].weight.data_ptr() == memory
    with pytest.raises(ShapeError, match=r"\(15,\)"):
        vector_to_parameters(mt.zeros(14, device=device), model.parameters())


@pytest.mark.parametrize("limit", [float("nan"), -1.0])
def test_a_limit_that_is_no_limit_is_refused_and_the_gradients_stay(parameters, limit):
    before = [p.grad.tolist() for p in parameters[:2]]
    for clip in (clip_grad_norm_, clip_grad_value_):
        with pytest.raises(ArgumentError, match="must not be negative or NaN"):
            clip(parameters, limit)
    with pytest.raises(ArgumentError, match="must not be negative or NaN"):
        clip_grads_with_norm_(parameters, limit, mt.tensor(1.0))
    assert [p.grad.tolist() for p in parameters[:2]] == before
