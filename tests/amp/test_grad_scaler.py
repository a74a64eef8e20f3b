"""GradScaler: scaled gradients, skipped steps, growth and backoff, errors, and its saved state."""

import copy
import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.amp.unscale import unscale_all
from minitorch_attn.backend import forbid_sync, from_host, sync_count, to_host
from minitorch_attn.errors import ArgumentError, CheckpointError, DTypeError, GraphError

SIZES = [[1], [0, 1], [2, 0, 3], [7, 31, 257], [3] * 129]


def model_of(device, value=1.0):
    """A parameter, its optimizer, and a step whose gradient is `slope`."""
    p = mt.nn.Parameter(mt.full((3,), value, device=device))
    optimizer = mt.optim.SGD([p], lr=0.5)

    def step(scaler, slope):
        optimizer.zero_grad()
        scaler.scale((p * slope).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    return p, optimizer, step


def test_the_step_is_that_without_a_scale(device):
    results = []
    for scaler in (None, mt.amp.GradScaler()):
        p = mt.nn.Parameter(mt.tensor([1.0, -2.0], device=device))
        optimizer = mt.optim.Adam([p], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (p * p * p).sum()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
        results.append(p.detach().numpy())
    np.testing.assert_array_equal(*results)  # the scale is a power of 2


def test_an_infinite_gradient_skips_the_step_and_lowers_the_scale(device):
    p, _, step = model_of(device)
    scaler = mt.amp.GradScaler(init_scale=8.0, backoff_factor=0.25)
    for slope in (math.inf, math.nan):
        step(scaler, slope)
    assert scaler.get_scale() == 0.5 and p.detach().tolist() == [1.0] * 3
    step(scaler, 2.0)
    assert scaler.get_scale() == 0.5 and p.detach().tolist() == [0.0] * 3


def test_the_scale_grows_after_an_interval_without_infinities(device):
    _, _, step = model_of(device)
    scaler, scales = mt.amp.GradScaler(init_scale=4.0, growth_interval=3), []
    for slope in (1, 1, math.inf, 1, 1, 1, 1):
        step(scaler, float(slope))
        scales.append(scaler.get_scale())
    assert scales == [4, 4, 2, 2, 2, 4, 4]


def test_the_scale_stays_finite(device):
    _, _, step = model_of(device)
    scaler = mt.amp.GradScaler(init_scale=3e38, growth_interval=1)
    step(scaler, 1e-30)
    assert scaler.get_scale() == float(np.float32(3e38))


def test_a_float16_loss_is_scaled_in_float32(device):
    loss = mt.tensor(3.0, dtype=mt.float16, device=device)
    scaled = mt.amp.GradScaler().scale(loss)
    assert (scaled.dtype, scaled.item()) == (np.dtype("float32"), 3 * 65536)


def test_scale_keeps_lists_and_tuples(device):
    scaler, x = mt.amp.GradScaler(init_scale=2.0), mt.ones(2, device=device)
    assert [type(scaler.scale(c)) for c in ([x], (x, [x]))] == [list, tuple]
    assert next(scaler.scale(iter([x]))).tolist() == [2.0, 2.0]


def test_one_overflow_of_two_optimizers_skips_only_its_own_step(device):
    scaler = mt.amp.GradScaler(init_scale=4.0)
    parts = [model_of(device) for _ in range(2)]
    for (p, _, _), slope in zip(parts, (math.inf, 2.0), strict=True):
        scaler.scale((p * slope).sum()).backward()
    for _, optimizer, _ in parts:
        scaler.step(optimizer)
    scaler.update()
    assert [p.detach().tolist() for p, _, _ in parts] == [[1.0] * 3, [0.0] * 3]
    assert scaler.get_scale() == 2.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("bad", [None, math.inf, -math.inf, math.nan])
def test_unscale_all(rng, device, sizes, dtype, bad):
    host = [rng.uniform(-1, 1, n).astype(dtype) for n in sizes]
    if bad is not None:
        host[-1][-1] = bad
    arrays = [from_host(a.copy(), device) for a in host]
    found = unscale_all(arrays, 0.125)
    assert bool(to_host(found)) == (bad is not None)
    for array, before in zip(arrays, host, strict=True):
        np.testing.assert_array_equal(to_host(array), before * before.dtype.type(0.125))


def test_gradients_that_are_not_contiguous(device, rng):
    host = rng.uniform(-1, 1, (5, 3)).astype("float32")
    array = from_host(host.copy(), device).T
    assert not bool(to_host(unscale_all([array], 2.0)))
    np.testing.assert_array_equal(to_host(array), 2 * host.T)


def test_clipping_sees_unscaled_gradients(device):
    p, optimizer, _ = model_of(device)
    scaler = mt.amp.GradScaler()
    scaler.scale((p * 2.0).sum()).backward()
    scaler.unscale_(optimizer)
    assert mt.nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(12**0.5)
    scaler.step(optimizer)
    np.testing.assert_allclose(p.detach().numpy(), 1 - 0.5 / 3**0.5, rtol=1e-5)


def test_only_the_step_waits_for_the_device(device):
    p, optimizer, step = model_of(device)
    scaler = mt.amp.GradScaler()
    step(scaler, 1.0)  # compiles the kernels
    optimizer.zero_grad()
    with forbid_sync():
        scaler.scale((p * 2.0).sum()).backward()
        scaler.unscale_(optimizer)
    before = sync_count()
    scaler.step(optimizer)
    assert sync_count() - before == (device != "cpu")
    with forbid_sync():
        scaler.update()


def test_a_disabled_scaler_calls_the_optimizer():
    scaler = mt.amp.GradScaler(enabled=False)
    p, optimizer, _ = model_of("cpu")
    assert scaler.scale("anything") == "anything"
    assert scaler.step(mt.optim.SGD([p]), lambda: 7) == 7
    scaler.unscale_(optimizer)
    scaler.update()
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (1.0, False, {})
    assert scaler.load_state_dict({}) is None


def test_calls_in_the_wrong_order():
    p, optimizer, step = model_of("cpu")
    scaler = mt.amp.GradScaler()
    for call in (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer)):
        with pytest.raises(GraphError, match="the loss was not scaled"):
            call()
    scaler.scale(p.sum())
    with pytest.raises(GraphError, match="has a gradient"):
        scaler.step(optimizer)
    with pytest.raises(GraphError, match="no gradients were checked"):
        mt.amp.GradScaler().update()
    scaler = mt.amp.GradScaler()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(GraphError, match="already called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(GraphError, match="already called"):
        scaler.step(optimizer)
    with pytest.raises(GraphError, match=r"after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    step(scaler, 1.0)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda s, o: s.step(o, closure=lambda: 1), GraphError),
        (lambda s, o: s.step(3), DTypeError),
        (lambda s, o: s.scale(3), ArgumentError),
        (lambda s, o: s.update(mt.ones(2)), ArgumentError),
        (lambda s, o: mt.amp.GradScaler(growth_factor=1.0), ArgumentError),
        (lambda s, o: mt.amp.GradScaler(backoff_factor=1.0), ArgumentError),
        (lambda s, o: s.load_state_dict({}), CheckpointError),
        (lambda s, o: s.load_state_dict({"scale": "large"}), CheckpointError),
    ],
)
def test_invalid_calls(call, error):
    _, optimizer, _ = model_of("cpu")
    with pytest.raises(error):
        call(mt.amp.GradScaler(), optimizer)


def test_float16_gradients_are_refused():
    p = mt.nn.Parameter(mt.ones(2, dtype=mt.float16))
    scaler = mt.amp.GradScaler()
    scaler.scale(p.float().sum()).backward()
    with pytest.raises(ArgumentError, match="MasterWeights"):
        scaler.step(mt.optim.SGD([p]))


def test_a_new_scale(device):
    p, _, step = model_of(device)
    scaler = mt.amp.GradScaler()
    for new in (3, 5.0, mt.tensor(7.0, device=device)):
        scaler.update(new)
        assert scaler.scale(mt.ones((), device=device)).item() == scaler.get_scale() == float(new)


def test_saved_state(device):
    _, _, step = model_of(device)
    scaler = mt.amp.GradScaler(init_scale=4.0, growth_interval=5)
    for slope in (math.inf, 1.0, 1.0):
        step(scaler, slope)
    other = mt.amp.GradScaler()
    other.load_state_dict(copy.deepcopy(scaler).state_dict())
    assert other.state_dict() == scaler.state_dict() == {
        "scale": 2.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5,
        "_growth_tracker": 2,
    }  # fmt: skip
    assert (other.get_growth_factor(), other.get_backoff_factor()) == (2.0, 0.5)
    for name, value in (("growth_factor", 3.0), ("backoff_factor", 0.1), ("growth_interval", 2)):
        getattr(other, f"set_{name}")(value)
        assert getattr(other, f"get_{name}")() == value


def test_the_older_names():
    scaler = mt.cuda.amp.GradScaler(4.0, enabled=True)
    assert scaler.get_scale() == 4.0
    with mt.cuda.amp.autocast(), mt.cuda.amp.autocast(False):
        assert not mt.is_autocast_enabled("cuda")


@pytest.mark.parametrize("scale", [[], {}, "much", object(), 10**400])
def test_update_refuses_what_is_not_a_number(scale):
    scaler = mt.amp.GradScaler()
    with pytest.raises(ArgumentError, match="new_scale must be a number"):
        scaler.update(scale)
