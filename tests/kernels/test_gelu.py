"""GELU, GELU by tanh, SiLU and ReLU kernels against the composed versions, on a GPU."""

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed, without_kernel

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.ops.gelu import Gelu, GeluTanh, Silu
from minitorch_attn.ops.relu import Relu

pytestmark = pytest.mark.gpu
CALLS = {
    "Gelu": mt.gelu,
    "GeluTanh": lambda x: mt.gelu(x, approximate="tanh"),
    "Silu": mt.silu,
    "Relu": lambda x: mt.relu(x).sin(),  # linear, it would not have a second derivative
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0), (3, 31), (1031,), (5, 7, 59)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values_and_gradients(make, name, shape, dtype):
    x = make(*shape, dtype=dtype, low=-5, high=5)
    tolerance = 4e-3 if dtype == "float16" else None
    assert_kernel_equals_composed(CALLS[name], name, x, tolerance=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_strided_and_offset_input(make, name):
    call = CALLS[name]
    assert_kernel_equals_composed(lambda x: call(x.permute(2, 0, 1)), name, make(5, 7, 3))
    assert_kernel_equals_composed(lambda x: call(x[1:]), name, make(22, dtype="float32"))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_infinities_and_zeros_as_composed(device, name, dtype):
    top = float(np.finfo(dtype).max)
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, top, -top, 1e-30, 30, -30, 200, -200])

    def value_and_grad():
        x = mt.tensor(values.astype(dtype), requires_grad=True, device=device)
        y = CALLS[name](x)
        y.backward(mt.full((12,), 2.0, dtype=dtype, device=device))
        infinite = mt.full((12,), np.inf, dtype=dtype, device=device)
        (grad,) = mt.autograd.grad(CALLS[name](x), x, infinite)
        return y.detach().numpy(), x.grad.numpy(), grad.numpy()

    found = value_and_grad()
    function, kernel = without_kernel(name)
    try:
        expected = value_and_grad()
    finally:
        kernels[function] = kernel
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_relu_of_integers_runs_composed(device):
    assert mt.relu(mt.tensor([-3, 0, 5], device=device)).tolist() == [0, 0, 5]


@pytest.mark.parametrize("function", [Gelu, GeluTanh, Silu, Relu])
def test_launches(make, function):
    cupysim = pytest.importorskip("cupysim")
    x = make(7, 5, dtype="float32")
    cotangent = mt.ones(7, 5, device=x.device)
    function.apply(x)
    cupysim.reset()
    y = function.apply(x)
    assert sum(cupysim.launches().values()) == 1
    cupysim.reset()
    mt.autograd.grad(y, x, cotangent)
    assert sum(cupysim.launches().values()) == 1
