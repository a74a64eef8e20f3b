"""Kernels for many arrays at once: gather, norm, scale and the update of Adam, on a GPU."""

import numpy as np
import pytest
from kernel_checks import TOLERANCE

import minitorch_attn as mt
from minitorch_attn.backend import from_host, to_host
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.nn.utils import clip_grad
from minitorch_attn.optim import flat_buffer

pytestmark = pytest.mark.gpu
SIZES = [[1], [0, 1], [2, 0, 3], [7, 31, 257], [1] * 127, [3] * 128, [2] * 129, [5] * 300, [70000]]


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


def arrays_of(rng, sizes, dtype):
    host = [rng.uniform(-1, 1, n).astype(dtype) for n in sizes]
    return host, [from_host(a, "cuda") for a in host]


@pytest.mark.parametrize("sizes", SIZES)
def test_gather(rng, sizes, dtype):
    host, arrays = arrays_of(rng, sizes, dtype)
    out = from_host(np.full(sum(sizes) + 1, 9.0, dtype), "cuda")
    flat_buffer.join(arrays, out[:-1])
    np.testing.assert_array_equal(to_host(out), np.append(np.concatenate(host), [9.0]))


@pytest.mark.parametrize("sizes", SIZES)
def test_norm_and_scale(rng, sizes, dtype):
    host, arrays = arrays_of(rng, sizes, dtype)
    norm = clip_grad.square_root_of_sum_of_squares(arrays)
    expected = np.linalg.norm(np.concatenate(host).astype("float64"))
    assert norm.dtype == dtype
    assert float(norm) == pytest.approx(expected, rel=TOLERANCE[dtype])
    clip_grad.scale_all(arrays, from_host(np.array(0.5, dtype), "cuda"))
    for array, before in zip(arrays, host, strict=True):
        np.testing.assert_array_equal(to_host(array), before * before.dtype.type(0.5))


def test_the_norm_is_equal_in_every_run(rng):
    _, arrays = arrays_of(rng, [100_003, 17], "float32")
    found = {float(clip_grad.square_root_of_sum_of_squares(arrays)) for _ in range(5)}
    assert len(found) == 1


def train(device, optimizer, dtype, options, count):
    """Parameters after three updates; some have no gradient in the second one."""
    rng = np.random.default_rng(3)
    shapes = [(3, 5), (7,), (), (2, 1), (0, 4), (11, 13)] * count
    parameters = [
        mt.nn.Parameter(mt.tensor(rng.uniform(-1, 1, s).astype(dtype), device=device))
        for s in shapes
    ]
    optimizer = optimizer(parameters, lr=0.03, **options)
    for step in range(3):
        for i, (p, s) in enumerate(zip(parameters, shapes, strict=True)):
            grad = rng.uniform(-1, 1, s).astype(dtype)
            p.grad = None if step == 1 and i % 3 == 1 else mt.tensor(grad, device=device)
        mt.nn.utils.clip_grad_norm_(parameters, 1.5)
        optimizer.step()
    return [p.detach().numpy() for p in parameters]


@pytest.mark.parametrize("optimizer", [mt.optim.Adam, mt.optim.AdamW])
@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize(
    "options",
    [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True, "betas": (0.5, 0.7)}],
)
def test_adam(optimizer, dtype, options, count, monkeypatch):
    runs = []
    kernel = kernels[optimizer]
    run = kernel.run
    monkeypatch.setattr(kernel, "run", lambda *a: (runs.append(1), run(*a))[1])
    found = train("cuda", optimizer, dtype, options, count)
    assert runs
    for a, b in zip(found, train("cpu", optimizer, dtype, options, count), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=5 * TOLERANCE[dtype])


def test_a_gradient_that_is_not_contiguous():
    p = mt.nn.Parameter(mt.ones(3, 2, device="cuda"))
    p.grad = mt.arange(6.0, device="cuda").reshape(2, 3).T
    mt.optim.AdamW([p], lr=0.5, weight_decay=0.0).step()
    expected = [[1.0, 0.5], [0.5, 0.5], [0.5, 0.5]]  # one step of lr, but where the gradient is 0
    np.testing.assert_allclose(p.detach().numpy(), expected, atol=1e-5)


def test_other_optimizers_gather_in_one_launch():
    cupysim = pytest.importorskip("cupysim")
    parameters = [mt.nn.Parameter(mt.ones(3, 2, device="cuda")) for _ in range(50)]
    optimizer = mt.optim.SGD(parameters, lr=0.5)
    for _ in range(2):
        for p in parameters:
            p.grad = mt.ones(3, 2, device="cuda")
        cupysim.reset()
        optimizer.step()
    assert cupysim.summary()["launch"][0] <= 4
