"""Softmax, masked softmax and log-softmax kernels against the composed versions, on a GPU."""

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed, without_kernel

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.ops.softmax import masked_softmax

pytestmark = pytest.mark.gpu
SHAPES = [(1,), (1, 1), (2, 1), (3, 2), (5, 31), (7, 32), (3, 2, 257), (0, 5), (2, 1031)]
CALLS = {"Softmax": mt.softmax, "LogSoftmax": mt.log_softmax, "MaskedSoftmax": masked_softmax}


def call_of(name, mask=None):
    if name == "MaskedSoftmax":
        return lambda x: masked_softmax(x, mask, -1)
    return lambda x: CALLS[name](x, -1)


def drawn_mask(shape, device):
    return mt.tensor(np.random.default_rng(5).uniform(size=shape) < 0.7, device=device)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values_and_gradients(make, name, shape, dtype):
    x = make(*shape, dtype=dtype, low=-3, high=3)
    tolerance = 2e-2 if dtype == "float16" else None  # the composed version adds up in float16
    assert_kernel_equals_composed(call_of(name), name, x, tolerance=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_strided_and_offset_input(make, name):
    call = call_of(name)
    assert_kernel_equals_composed(lambda x: call(x.permute(2, 0, 1)), name, make(5, 7, 3))
    assert_kernel_equals_composed(lambda x: call(x[1:].reshape(3, 7)), name, make(22))


@pytest.mark.parametrize(
    "shape", [(), (1,), (11,), (7, 1), (7, 11), (5, 1, 11), (3, 1, 1, 11), (2, 3, 5, 7, 11)]
)
def test_masks_that_broadcast(make, device, shape):
    x, mask = make(2, 3, 5, 7, 11), drawn_mask(shape, device)
    assert_kernel_equals_composed(call_of("MaskedSoftmax", mask), "MaskedSoftmax", x)


def test_strided_mask(make, device):
    x, mask = make(2, 3, 5, 7), drawn_mask((7, 2, 10), device).permute(1, 2, 0)[:, None, ::2]
    assert_kernel_equals_composed(call_of("MaskedSoftmax", mask), "MaskedSoftmax", x)


@pytest.mark.parametrize("name", CALLS)
def test_other_axes_run_composed(make, name):
    x = make(3, 5)
    along_0, along_1 = CALLS[name](x, dim=0), CALLS[name](x.T, dim=1)
    np.testing.assert_allclose(along_0.detach().numpy(), along_1.detach().numpy().T, rtol=1e-12)
    (kernel,) = [kernel for function, kernel in kernels.items() if function.__name__ == name]
    arrays = (x.array, None) if name == "MaskedSoftmax" else (x.array,)
    assert kernel.accepts(*arrays, axis=1) and not kernel.accepts(*arrays, axis=0)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_and_infinities_as_composed(device, name, dtype):
    inf, nan, top = np.inf, np.nan, float(np.finfo(dtype).max)
    rows = np.array([
        [0.0, 1.0, -inf], [-inf, 1.0, 2.0], [-inf, -inf, -inf], [1.0, inf, 0.0], [inf, inf, -inf],
        [0.0, 1.0, nan], [nan, 1.0, 0.0], [-top, top, 0.0], [-top, -top, -inf], [-inf, nan, -inf],
    ], dtype=dtype)  # fmt: skip
    x = mt.tensor(rows, device=device)
    mask = None
    if name == "MaskedSoftmax":
        mask = drawn_mask((10, 3), device)
    found = call_of(name, mask)(x).numpy()
    function, kernel = without_kernel(name)
    try:
        expected = call_of(name, mask)(x).numpy()
    finally:
        kernels[function] = kernel
    np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_launches(make, name):
    cupysim = pytest.importorskip("cupysim")
    x = make(7, 5, dtype="float32")
    cotangent = mt.ones(7, 5, device=x.device)
    call_of(name)(x)
    cupysim.reset()
    y = call_of(name)(x)
    assert sum(cupysim.launches().values()) == 1
    cupysim.reset()
    mt.autograd.grad(y, x, cotangent)
    assert sum(cupysim.launches().values()) == 1
