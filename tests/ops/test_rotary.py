"""apply_rotary: gradients and its inverse; the values are tested with the positions."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.gradcheck import gradcheck


@pytest.fixture
def angles(make):
    angle = make(5, 3, low=-3, high=3, requires_grad=False)
    return mt.cos(angle), mt.sin(angle)


@pytest.mark.parametrize("interleaved", [True, False])
def test_gradients(make, angles, interleaved):
    x = make(2, 5, 6)
    assert gradcheck(lambda x: mt.apply_rotary(x, *angles, interleaved=interleaved), x)
    assert gradgradcheck(lambda x: mt.apply_rotary(x, *angles, interleaved=interleaved), x)


@pytest.mark.parametrize("interleaved", [True, False])
def test_the_opposite_rotation_undoes_it(make, angles, interleaved):
    x, (cos, sin) = make(2, 5, 6), angles
    y = mt.apply_rotary(x, cos, sin, interleaved=interleaved)
    back = mt.apply_rotary(y, cos, -sin, interleaved=interleaved)
    np.testing.assert_allclose(back.detach().numpy(), x.detach().numpy(), atol=1e-12)


def test_which_features_form_pairs(device):
    x = mt.tensor([[1.0, 2.0, 3.0, 4.0]], device=device)
    cos, sin = mt.zeros(1, 2, device=device), mt.ones(1, 2, device=device)  # a quarter turn
    assert mt.apply_rotary(x, cos, sin).tolist() == [[-3, -4, 1, 2]]
    assert mt.apply_rotary(x, cos, sin, interleaved=True).tolist() == [[-2, 1, -4, 3]]


def test_the_dtype_is_that_of_the_input(make, angles):
    assert mt.apply_rotary(make(5, 6, dtype="float32"), *angles).dtype == mt.float32
