"""Gumbel-softmax: its distribution, its gradient and its straight-through form."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.nn import functional as F


def seeded(**options):
    """gumbel_softmax with the same noise at each call."""

    def sample(logits):
        mt.manual_seed(7)
        return F.gumbel_softmax(logits, **options)

    return sample


def test_the_largest_element_has_the_probabilities_of_softmax(device):
    logits = mt.tensor([0.5, -1.0, 2.0], device=device)
    samples = F.gumbel_softmax(logits.expand(20_000, 3), hard=True).mean(0).numpy()
    wanted = mt.softmax(logits, 0).numpy()
    np.testing.assert_allclose(samples, wanted, atol=4 * 0.5 / 20_000**0.5)  # four deviations


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_soft_samples(dim, dtype, make):
    logits = make(2, 3, 5, dtype=dtype)
    y = F.gumbel_softmax(logits, tau=0.5, dim=dim)
    assert y.dtype == dtype and y.shape == (2, 3, 5)
    np.testing.assert_allclose(y.sum(dim).detach().numpy(), 1, rtol=1e-5)
    assert not np.array_equal(y.detach().numpy(), mt.softmax(logits / 0.5, dim).detach().numpy())


def test_the_temperature_divides_logits_and_noise(make):
    logits = make(4, 3)
    warm, cold = seeded(tau=1.0)(logits).detach(), seeded(tau=0.25)(logits).detach()
    np.testing.assert_allclose(
        mt.log_softmax(4 * warm.log(), -1).numpy(), cold.log().numpy(), rtol=1e-9
    )


def test_gradients(make):
    logits = make(2, 3)
    assert gradcheck(seeded(tau=0.7), [logits])
    cotangent = mt.tensor(np.arange(6.0).reshape(2, 3), device=logits.device)
    slopes = [
        mt.autograd.grad((seeded(tau=0.7, hard=hard)(logits) * cotangent).sum(), logits)[0].numpy()
        for hard in (False, True)
    ]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-12)


def test_hard_samples_are_one_hot_where_the_soft_ones_are_largest(make):
    logits = make(7, 5)
    hard, soft = seeded(hard=True)(logits).detach(), seeded()(logits).detach()
    np.testing.assert_allclose(hard.numpy(), np.eye(5)[soft.argmax(-1).numpy()], atol=1e-15)


def test_wrong_calls(make):
    for options, error in (({"tau": 0}, ArgumentError), ({"dim": 2}, IndexError)):
        with pytest.raises(error):
            F.gumbel_softmax(make(2, 3), **options)
    with pytest.raises(DTypeError, match="logits"):
        F.gumbel_softmax(mt.tensor([1, 2]))
