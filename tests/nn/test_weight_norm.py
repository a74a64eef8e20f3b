"""Weight normalization."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn.utils import remove_weight_norm, weight_norm


@pytest.mark.parametrize(
    ("dim", "axes"), [(0, (1, 2)), (1, (0, 2)), (2, (0, 1)), (-1, None), (None, None)]
)
def test_norms_and_directions(dim, axes, device):
    layer = nn.Conv1d(3, 5, 2).double().to(device)
    weight = layer.weight.detach().numpy().copy()
    assert weight_norm(layer, dim=dim) is layer
    norms = np.sqrt((weight**2).sum(axes, keepdims=axes is not None))
    np.testing.assert_allclose(layer.weight_g.detach().numpy(), norms)
    np.testing.assert_allclose(layer.weight.detach().numpy(), weight)
    with mt.no_grad():
        layer.weight_g.mul_(3.0)
    layer(mt.zeros(1, 3, 4, dtype=mt.float64, device=device))
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3 * weight)
    remove_weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3 * weight)


def test_the_gradient_reaches_both_parameters(make, device):
    layer = weight_norm(nn.Linear(3, 5).double().to(device))
    assert mt.autograd.gradcheck_module(layer, make(2, 3))
    layer(make(2, 3)).sum().backward()
    assert layer.weight_g.grad.shape == (5, 1) and layer.weight_v.grad.shape == (5, 3)


def test_wrong_order():
    layer = nn.Linear(3, 5)
    with pytest.raises(ArgumentError, match="not normalized"):
        remove_weight_norm(layer)
    with pytest.raises(ArgumentError, match="already normalized"):
        weight_norm(weight_norm(layer))
    with pytest.raises(AttributeError, match="kernel"):
        weight_norm(layer, "kernel")
