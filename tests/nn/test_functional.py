"""`nn.functional` provides the operations under PyTorch's names."""

import inspect

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.nn import functional

NAMES = """
    relu relu6 leaky_relu elu celu selu gelu silu mish hardswish hardsigmoid hardtanh glu softplus
    logsigmoid sigmoid tanh softmax softmin log_softmax linear embedding one_hot pad layer_norm
    rms_norm dropout scaled_dot_product_attention cross_entropy nll_loss mse_loss l1_loss
    smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div
    cosine_similarity normalize
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_the_operation(name):
    function = getattr(functional, name)
    assert inspect.unwrap(function) is inspect.unwrap(getattr(mt.ops, name))


@pytest.mark.parametrize("name", ["relu", "silu", "elu", "leaky_relu", "hardtanh", "selu", "mish"])
def test_inplace_writes_into_the_input(make, name):
    function, x = getattr(functional, name), make(5, 3)
    y = x * 1.0
    assert function(y, inplace=True) is y
    np.testing.assert_array_equal(y.detach().numpy(), function(x).detach().numpy())
