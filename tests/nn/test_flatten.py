"""Flatten and Unflatten."""

import pytest

import minitorch_attn as mt
from minitorch_attn import nn


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 1), (0, 3, 2), (4, 0)])
def test_flatten_keeps_the_batch(shape, device):
    x = mt.rand(shape, device=device)
    y = nn.Flatten()(x)
    assert y.shape == (shape[0], y.numel() // shape[0] if shape[0] else y.shape[1])
    assert y.reshape(-1).tolist() == x.reshape(-1).tolist()


def test_axes_and_text():
    x = mt.zeros(2, 3, 5, 7)
    assert nn.Flatten(0, 1)(x).shape == (6, 5, 7) and nn.Flatten(2)(x).shape == (2, 3, 35)
    assert nn.Unflatten(1, (3, -1))(mt.zeros(2, 15)).shape == (2, 3, 5)
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"
    assert repr(nn.Unflatten(1, [3, 5])) == "Unflatten(dim=1, unflattened_size=(3, 5))"


def test_one_undoes_the_other_and_passes_the_gradient(make):
    x = make(2, 3, 5)
    model = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3, 5)))
    assert mt.gradcheck.gradcheck(model, x)
    assert model(x).tolist() == x.tolist()
