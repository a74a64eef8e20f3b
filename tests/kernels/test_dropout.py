"""The dropout kernels: masks equal to the host's, bit for bit, and their application, on a GPU."""

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.backend import module_for, to_host
from minitorch_attn.backend.random import keep_mask
from minitorch_attn.nn import functional as F
from minitorch_attn.ops.dropout import Dropout, ResidualDropout, add_dropped

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 1), (15,), (16,), (17,), (3, 5, 7), (5000,)])
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("seed", "offset"), [(1, 0), (2**64 - 1, 2**63 + 5)])
def test_the_mask_is_that_of_the_host(shape, probability, seed, offset):
    found = keep_mask(shape, probability, module_for("cuda"), seed=seed, offset=offset)
    expected = keep_mask(shape, probability, seed=seed, offset=offset)
    np.testing.assert_array_equal(to_host(found), expected)


@pytest.mark.parametrize("shape", [(1,), (0, 3), (2, 1), (3, 5, 7), (257,)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dropout(make, rng, shape, dtype):
    x = make(*shape, dtype=dtype)
    mask = mt.tensor(rng.random(shape) < 0.6, device="cuda")
    assert_kernel_equals_composed(
        lambda x: Dropout.apply(x, mask.array, scale=1 / 0.6), "Dropout", x
    )


def test_a_layer_takes_two_launches():
    cupysim = pytest.importorskip("cupysim")
    x = mt.ones(30, 7, device="cuda")
    for _ in range(2):
        cupysim.reset()
        F.dropout(x, 0.5)
    assert cupysim.summary()["launch"][0] == 2


SETTINGS = {"seed": 2**64 - 3, "offset": 2**63 + 1, "scale": 1.25}


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 1), (3, 5, 7), (257,), (4099,), (31, 283)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("keep", [0.8, 0.0, 1.0])
def test_residual_dropout(make, shape, dtype, keep):
    x, branch = make(*shape, dtype=dtype), make(*shape, dtype=dtype)
    assert_kernel_equals_composed(
        lambda x, branch: ResidualDropout.apply(x, branch, keep_probability=keep, **SETTINGS),
        "ResidualDropout", x, branch,
    )  # fmt: skip


def test_residual_dropout_of_views(make):
    x, branch = make(7, 300), make(300, 14)
    assert_kernel_equals_composed(
        lambda x, branch: ResidualDropout.apply(
            x, branch.T[::2], keep_probability=0.4, **SETTINGS
        ).sin(),
        "ResidualDropout", x, branch,
    )  # fmt: skip


def test_a_residual_path_takes_one_launch_each_way():
    cupysim = pytest.importorskip("cupysim")
    x, branch = (mt.ones(30, 7, device="cuda", requires_grad=True) for _ in range(2))
    cotangent = mt.ones(30, 7, device="cuda")
    for _ in range(2):
        cupysim.reset()
        y = add_dropped(x * 1.0, branch * 1.0, 0.5)
    assert cupysim.summary()["launch"][0] == 3
    cupysim.reset()
    mt.autograd.grad(y, branch, cotangent)
    assert cupysim.summary()["launch"][0] == 2
