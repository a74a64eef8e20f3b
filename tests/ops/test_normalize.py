"""normalize: vectors of length 1."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.gradcheck import gradcheck


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_normalize(make, p, dim):
    x = make(3, 5, 2, low=0.2)
    y = mt.normalize(x, p, dim).detach().numpy()
    values = x.detach().numpy()
    expected = values / (abs(values) ** p).sum(dim, keepdims=True) ** (1 / p)
    np.testing.assert_allclose(y, expected, atol=1e-12)
    assert gradcheck(lambda x: mt.normalize(x, p, dim), x)
    assert gradgradcheck(lambda x: mt.normalize(x, p, dim), x)


def test_a_zero_vector_stays_zero(device):
    x = mt.zeros(2, 3, device=device, requires_grad=True)
    mt.normalize(x).sum().backward()
    assert not mt.normalize(x).detach().numpy().any()
    assert np.isfinite(x.grad.numpy()).all()
