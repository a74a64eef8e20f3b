"""MasterWeights: small updates of float16 parameters survive, and the state is saved."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, GraphError

OPTIMIZERS = {
    "SGD": lambda p: mt.optim.SGD(p, lr=1e-4, momentum=0.9),
    "AdamW": lambda p: mt.optim.AdamW(p, lr=1e-4),
}


def train(optimizer_of, parameters, steps, masters=True, scaler=None):
    optimizer = optimizer_of(parameters)
    optimizer = mt.amp.MasterWeights(optimizer) if masters else optimizer
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum((p.float() * 3.0).sum() for p in parameters)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return optimizer


def weights(device, dtype="float16"):
    return [mt.nn.Parameter(mt.ones(*s, dtype=dtype, device=device)) for s in ((3, 5), (7,))]


def test_an_update_smaller_than_the_spacing_is_lost_without_master_weights(device):
    lost, kept = weights(device), weights(device)
    for params, masters in ((lost, False), (kept, True)):
        train(lambda p: mt.optim.SGD(p, lr=1e-4 / 3), params, 100, masters)
    assert np.unique(lost[0].detach().numpy()) == [1.0]
    np.testing.assert_allclose(kept[0].detach().numpy(), 0.99, atol=5e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_masters_are_the_float32_parameters(name, device):
    half, single = weights(device), weights(device, "float32")
    optimizer = train(OPTIMIZERS[name], half, 5)
    train(OPTIMIZERS[name], single, 5, masters=False)
    for h, master, s in zip(half, optimizer.masters, single, strict=True):
        np.testing.assert_array_equal(master.detach().numpy(), s.detach().numpy())
        np.testing.assert_array_equal(h.detach().numpy(), s.detach().half().numpy())
    states = [v for entry in optimizer.state.values() for v in entry.values() if v.ndim]
    assert {v.dtype for v in states} == {np.dtype("float32")}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_with_a_scaler(name, device):
    half, single = weights(device), weights(device)
    scaler = mt.amp.GradScaler(init_scale=1024.0)
    train(OPTIMIZERS[name], half, 3, scaler=scaler)
    train(OPTIMIZERS[name], single, 3)
    for a, b in zip(half, single, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_an_overflow_skips_the_step_and_the_next_step_reads_new_gradients(device):
    half = weights(device)
    scaler = mt.amp.GradScaler(init_scale=2.0**16)  # 3 * 65536 is infinite in float16
    optimizer = train(OPTIMIZERS["SGD"], half, 1, scaler=scaler)
    assert scaler.get_scale() == 2.0**15 and not optimizer.state
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale((half[0].float() * 3.0).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    np.testing.assert_array_less(optimizer.masters[0].detach().numpy(), 1.0)
    assert np.isfinite(optimizer.masters[0].detach().numpy()).all()


def test_saved_state(device):
    first, second, third = weights(device), weights(device), weights(device)
    whole = train(OPTIMIZERS["AdamW"], first, 6)
    half_way = train(OPTIMIZERS["AdamW"], second, 3)
    again = mt.amp.MasterWeights(OPTIMIZERS["AdamW"](third))
    again.load_state_dict(half_way.state_dict())
    for _ in range(3):
        again.zero_grad()
        sum((p.float() * 3.0).sum() for p in third).backward()
        again.step()
    for a, b in zip((*whole.masters, *first), (*again.masters, *third), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_groups_schedules_and_other_dtypes(device):
    half, single = weights(device)[0], weights(device, "float32")[1]
    optimizer = mt.amp.MasterWeights(mt.optim.SGD([half], lr=0.5))
    optimizer.add_param_group({"params": [single], "lr": 0.25})
    schedule = mt.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    (half.float().sum() + single.sum()).backward()
    loss = optimizer.step(lambda: 3)
    schedule.step()
    assert loss == 3 and [g["lr"] for g in optimizer.param_groups] == [0.25, 0.125]
    assert (half.detach() == 0.5).all().item() and (single.detach() == 0.75).all().item()
    optimizer.zero_grad(set_to_none=False)
    assert half.grad.abs().sum().item() == 0 and half.grad.dtype == "float16"


def test_invalid_calls():
    with pytest.raises(DTypeError, match="must be an Optimizer"):
        mt.amp.MasterWeights(3)
    with pytest.raises(GraphError, match="already taken a step"):
        mt.amp.MasterWeights(train(OPTIMIZERS["SGD"], weights("cpu"), 1, masters=False))
    state = mt.amp.MasterWeights(mt.optim.SGD(weights("cpu"))).state_dict()
    with pytest.raises(GraphError, match="do not match"):
        mt.amp.MasterWeights(mt.optim.SGD(weights("cpu")[:1])).load_state_dict(
            {**state, "param_groups": [{**state["param_groups"][0], "params": [0]}]}
        )
