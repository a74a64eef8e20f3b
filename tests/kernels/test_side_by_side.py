"""Arrays side by side in memory, and the batched products of the projections that use them."""

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.kernels.side_by_side import as_one, empty_side_by_side, parts_of
from minitorch_attn.nn.linear import side_by_side
from minitorch_attn.ops.projections import Projections

pytestmark = pytest.mark.gpu


def arrays(make, count, *shape, dtype="float32"):
    return [make(*shape, dtype=dtype).detach().array for _ in range(count)]


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 1, 7)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_arrays_are_moved_to_one_memory(make, shape, dtype):
    before = arrays(make, 3, *shape, dtype=dtype)
    after = side_by_side(before)
    whole = as_one(after)
    assert whole.shape == (3, *shape) and all(a.base is None for a in after)
    np.testing.assert_array_equal(whole.get(), np.stack([a.get() for a in before]))
    assert side_by_side(after) is after
    whole[1] = 7
    assert (after[1] == 7).all() and not (after[0] == 7).any()


def test_which_arrays_are_one(make):
    xp = mt.backend.module_for("cuda")
    memory = xp.arange(60, dtype="float32").reshape(5, 3, 4)
    assert as_one([memory[i] for i in range(5)]).shape == (5, 3, 4)
    steps = as_one([memory[0], memory[2], memory[4]])  # with a gap
    np.testing.assert_array_equal(steps.get(), memory.get()[::2])
    for apart in ([memory[0], memory[1], memory[3]], [memory[1], memory[0]], [memory[0]] * 2,
                  [memory[0], memory[1, :2]], [memory[0].T, memory[1].T], [memory[0, :0]] * 2,
                  [memory[0], memory[1].copy()], [memory[0], memory[1].view("int32")]):  # fmt: skip
        assert as_one(apart) is None
    flat = xp.arange(10, dtype="float32")
    assert as_one([flat[:4].reshape(2, 2), flat[3:7].reshape(2, 2)]) is None  # they overlap


def test_arrays_that_do_not_fit_stay_where_they_are(make):
    for left, right in (((2, 3), (3, 2)), ((0, 3), (0, 3))):
        before = arrays(make, 1, *left) + arrays(make, 1, *right)
        assert side_by_side(before) is before
    on_host = [np.ones(2), np.ones(2)]
    assert side_by_side(on_host) is on_host


def test_empty_arrays_keep_the_memory_order(make):
    like = [a.transpose(0, 2, 1) for a in arrays(make, 3, 2, 3, 5)]
    found = empty_side_by_side(like)
    assert [a.strides for a in found] == [a.strides for a in like]
    assert as_one([a.transpose(0, 2, 1) for a in found]) is not None
    found = empty_side_by_side([like[0], like[1].copy()])
    assert [a.shape for a in found] == [(2, 5, 3)] * 2


def test_parts_are_not_views(make):
    (whole,) = arrays(make, 1, 3, 2, 5)
    for part, expected in zip(parts_of(whole), whole.get(), strict=True):
        assert part.base is None
        np.testing.assert_array_equal(part.get(), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("rows", "width", "out"), [(7, 3, 5), (5, 1, 2), (13, 5, 1), (9, 31, 33)])
def test_projections_with_weights_side_by_side(make, dtype, rows, width, out):
    weights = side_by_side(arrays(make, 3, out, width, dtype=dtype))
    inputs = [make(rows, width, dtype=dtype)]
    for weight in weights:
        inputs += [mt.tensor(weight, requires_grad=True), make(out, dtype=dtype)]
        inputs[-2].data.array = weight  # not a copy
    tolerance = 1e-2 if dtype == "float16" else None
    assert_kernel_equals_composed(
        lambda *inputs: mt.cat(Projections.apply(*inputs), -1).sin(), "Projections", *inputs,
        tolerance=tolerance,
    )  # fmt: skip


@pytest.mark.parametrize("device_first", [True, False])
def test_a_layer_takes_one_product_for_three(device_first):
    cupysim = pytest.importorskip("cupysim")
    attention = mt.nn.Attention(6, 2).to("cuda")
    optimizer = mt.optim.AdamW(attention.parameters())
    x, cotangent = mt.ones(1, 7, 6, device="cuda"), mt.ones(1, 7, 6, device="cuda")
    x.requires_grad_()
    counts = []
    for step in range(3):
        cupysim.reset()
        attention(x).backward(cotangent)
        counts.append(cupysim.summary()["cublas"][0])
        if step and not device_first:
            optimizer.step()  # its flat buffer has the weights at equal distances
        optimizer.zero_grad()
    assert counts == [2 + 4] * 3  # of the projections 1 + 2, of the output 1 + 2


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"num_kv_heads": 1}, {"dropout": 0.5}])
def test_a_layer_has_the_gradients_of_the_cpu(rng, options):
    values, cotangents = rng.standard_normal((2, 3, 5, 6))
    found, attention = [], mt.nn.Attention(6, 2, **options).to(mt.float64)
    for device in ("cpu", "cuda"):
        mt.manual_seed(1)
        attention.to(device).zero_grad()
        x = mt.tensor(values, device=device, requires_grad=True)
        y = attention(x)
        y.backward(mt.tensor(cotangents, device=device))
        found.append([y.detach(), x.grad, *(p.grad for p in attention.parameters())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12, atol=1e-12)


def test_the_values_of_a_layer_stay(rng):
    attention = mt.nn.Attention(6, 2)
    before = {name: p.detach().numpy().copy() for name, p in attention.named_parameters()}
    attention.to("cuda").to(mt.float64).cpu()
    for name, p in attention.named_parameters():
        np.testing.assert_array_equal(p.detach().numpy(), before[name].astype("float64"))
