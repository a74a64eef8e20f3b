"""Optimizers equal their formulas, computed for each parameter in plain NumPy."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import optim
from minitorch_attn.backend import forbid_sync
from minitorch_attn.backend.axpby import SMALLEST
from minitorch_attn.backend.shared_memory import is_shared, shared_arrays
from minitorch_attn.errors import CheckpointError, DTypeError
from minitorch_attn.optim import (
    SGD,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    HFAdafactor,
    NAdam,
    RAdam,
    RMSprop,
)
from minitorch_attn.optim.flat_buffer import BLOCK, LARGE

SHAPES = [(3, 5), (7,), (), (0, 2), (2, 3, 1)]  # and one without elements
STEPS = 6


def sgd(p, grads, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    v = None
    for g in grads:
        if g is None:
            continue
        g = g + weight_decay * p
        if momentum:
            v = g.copy() if v is None else momentum * v + (1 - dampening) * g
            g = g + momentum * v if nesterov else v
        p = p - lr * g
    return p


def adam(p, grads, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, w=False):
    m, v, largest, t = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p), 0
    for g in grads:
        if g is None:
            continue
        t += 1
        if w:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = np.maximum(largest, v)
        second = largest if amsgrad else v
        root = np.sqrt(second / (1 - betas[1] ** t))
        p = p - lr * (m / (1 - betas[0] ** t)) / (root + eps)
    return p


def nadam(p, grads, *, lr, betas=(0.9, 0.999), eps=1e-8, momentum_decay=4e-3, weight_decay=0.0):
    mu = [betas[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay)) for t in range(len(grads) + 2)]
    m, v, t, product = np.zeros_like(p), np.zeros_like(p), 0, np.float32(1)
    for g in grads:
        if g is None:
            continue
        t += 1
        product *= np.float32(mu[t])  # the product is a float32 number in PyTorch, too
        g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        ahead = mu[t + 1] * m / (1 - float(product) * mu[t + 1])
        now = (1 - mu[t]) * g / (1 - float(product))
        p = p - lr * (ahead + now) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


def radam(p, grads, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    m, v, t, limit = np.zeros_like(p), np.zeros_like(p), 0, 2 / (1 - betas[1]) - 1
    for g in grads:
        if g is None:
            continue
        t += 1
        g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        step = lr * m / (1 - betas[0] ** t)
        length = limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            adapted = math.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
            ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            step = step * adapted * math.sqrt(ratio)
        p = p - step
    return p


def rmsprop(p, grads, *, lr, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    v, m, u = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        if g is None:
            continue
        g = g + weight_decay * p
        v = alpha * v + (1 - alpha) * g * g
        m = alpha * m + (1 - alpha) * g
        step = g / (np.sqrt(v - m * m if centered else v) + eps)
        u = momentum * u + step
        p = p - lr * (u if momentum else step)
    return p


def adagrad(p, grads, *, lr, lr_decay=0.0, eps=1e-10, initial_accumulator_value=0.0):
    s, t = np.full_like(p, initial_accumulator_value), 0
    for g in grads:
        if g is None:
            continue
        t += 1
        s = s + g * g
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s) + eps)
    return p


def rms(x):
    return math.sqrt((x * x).sum() / x.size) if x.size else 0.0


def adafactor(p, grads, *, lr, eps=(1e-8, 1e-3), d=1.0, weight_decay=0.0):
    row, column, full, t = 0.0, 0.0, 0.0, 0
    for g in grads:
        if g is None:
            continue
        t += 1
        share, size = t**-0.8, max(eps[1], rms(p))
        p = p - lr * weight_decay * p
        if g.ndim > 1 and g.size:
            row = row + share * ((g * g).mean(-1, keepdims=True) - row)
            column = column + share * ((g * g).mean(-2, keepdims=True) - column)
            v = row * column / np.maximum(row.mean(-2, keepdims=True), eps[0])
        else:
            v = full = full + share * (g * g - full)
        u = g / np.sqrt(np.maximum(v, eps[0] ** 2))
        p = p - size * min(lr, t**-0.5) * u / max(1.0, rms(u) / d)
    return p


def hf_adafactor(p, grads, *, lr=None, beta1=None, scale_parameter=True, relative_step=True):
    row, column, full, mean, t = 0.0, 0.0, 0.0, 0.0, 0
    for g in grads:
        if g is None:
            continue
        t += 1
        beta2 = 1 - t**-0.8
        rate = min(1e-2, t**-0.5) if relative_step else lr
        rate *= max(1e-3, rms(p)) if scale_parameter else 1.0
        squares = g * g + 1e-30
        if g.ndim > 1:
            row = beta2 * row + (1 - beta2) * squares.mean(-1)
            column = beta2 * column + (1 - beta2) * squares.mean(-2)
            v = (row / row.mean(-1, keepdims=True))[..., None] * column[..., None, :]
        else:
            v = full = beta2 * full + (1 - beta2) * squares
        u = g / np.sqrt(v)
        u = u / max(1.0, rms(u)) * rate
        if beta1 is not None:
            u = mean = beta1 * mean + (1 - beta1) * u
        p = p - u
    return p


CASES = [
    (RMSprop, rmsprop, dict(lr=0.05)),
    (RMSprop, rmsprop, dict(lr=0.05, alpha=0.7, eps=1e-2, weight_decay=0.2, momentum=0.6)),
    (RMSprop, rmsprop, dict(lr=0.05, alpha=0.7, eps=1e-2, centered=True)),
    (Adagrad, adagrad, dict(lr=0.05)),
    (Adagrad, adagrad, dict(lr=0.05, lr_decay=0.3, initial_accumulator_value=0.5)),
    (Adafactor, adafactor, dict(lr=0.3, eps=(1e-8, 1e-3))),
    (Adafactor, adafactor, dict(lr=0.3, eps=(1e-8, 0.4), d=1.5, weight_decay=0.2)),
    (HFAdafactor, hf_adafactor, dict()),
    (HFAdafactor, hf_adafactor, dict(lr=0.1, relative_step=False, scale_parameter=False)),
    (HFAdafactor, hf_adafactor, dict(beta1=0.6)),
    (SGD, sgd, dict(lr=0.1)),
    (SGD, sgd, dict(lr=0.1, momentum=0.9)),
    (SGD, sgd, dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.2)),
    (SGD, sgd, dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1)),
    (Adam, adam, dict(lr=0.05)),
    (Adam, adam, dict(lr=0.05, betas=(0.7, 0.8), eps=1e-3, weight_decay=0.3)),
    (Adam, adam, dict(lr=0.05, amsgrad=True, betas=(0.5, 0.6))),
    (AdamW, adam, dict(lr=0.05, weight_decay=0.3)),
    (NAdam, nadam, dict(lr=0.05)),
    (NAdam, nadam, dict(lr=0.05, betas=(0.6, 0.7), momentum_decay=0.3, weight_decay=0.2)),
    (RAdam, radam, dict(lr=0.05)),
    (RAdam, radam, dict(lr=0.05, betas=(0.6, 0.9), eps=0.1, weight_decay=0.2)),
    (AdamW, adam, dict(lr=0.05, weight_decay=0.3, amsgrad=True)),
]


def parameters(rng, device, dtype="float64", shapes=SHAPES):
    values = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    return values, [mt.nn.Parameter(mt.tensor(v, device=device)) for v in values]


def put_grads(params, grads, device):
    for p, g in zip(params, grads, strict=True):
        p.grad = None if g is None else mt.tensor(g, device=device)


@pytest.mark.parametrize("smallest", [1, SMALLEST], ids=["BLAS", "NumPy"])
@pytest.mark.parametrize("cls, formula, options", CASES)
def test_follows_its_formula(cls, formula, options, smallest, rng, device, monkeypatch):
    monkeypatch.setattr("minitorch_attn.backend.axpby.SMALLEST", smallest)
    values, params = parameters(rng, device)
    history = [[rng.standard_normal(s) for s in SHAPES] for _ in range(STEPS)]
    history[2][1] = None  # a parameter without a gradient is left alone, its count too
    history[0][0] = None
    optimizer = cls(params, **options)
    for grads in history:
        put_grads(params, grads, device)
        optimizer.step()
    extra = {"w": True} if cls is AdamW else {}
    for i, (value, p) in enumerate(zip(values, params, strict=True)):
        history_of_p = [grads[i] for grads in history]
        expected = formula(value, history_of_p, **options, **extra) if value.size else value
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-12, atol=1e-13)


def test_gradients_are_not_changed_by_a_step(rng, device):
    _, params = parameters(rng, device)
    grads = [rng.standard_normal(s) for s in SHAPES]
    put_grads(params, grads, device)
    SGD(params, lr=0.1, momentum=0.9, weight_decay=0.5, nesterov=True).step()
    for p, g in zip(params, grads, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), g)


def test_long_parameters_are_updated_in_every_block(rng, device):
    values, params = parameters(rng, device, shapes=[(BLOCK + 5,), (3,), (2 * BLOCK + 1,)])
    grads = [rng.standard_normal(v.shape) for v in values]
    put_grads(params, grads, device)
    Adam(params, lr=0.1).step()
    for v, g, p in zip(values, grads, params, strict=True):
        np.testing.assert_allclose(p.numpy(), adam(v, [g], lr=0.1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cls", [Adam, AdamW])
@pytest.mark.parametrize(
    "options", [{}, {"maximize": True}, {"weight_decay": 0.3, "amsgrad": True}]
)
def test_adam_leaves_gradients_unchanged(cls, options, rng, device):
    """Without a copy, in blocks inside one parameter, and with one, across parameters."""
    _, params = parameters(rng, device, shapes=[(2 * BLOCK + 1,), (3,), (0,), (BLOCK,)])
    grads = [rng.standard_normal(tuple(p.shape)) for p in params]
    put_grads(params, grads, device)
    optimizer = cls(params, lr=0.1, **options)
    for _ in range(2):
        optimizer.step()
    for p, g in zip(params, grads, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), g)


def test_buffers_of_a_large_group_have_larger_blocks(rng):
    values, params = parameters(rng, None, shapes=[(LARGE + 5,)])
    put_grads(params, grads := [rng.standard_normal(LARGE + 5)], None)
    optimizer = Adam(params, lr=0.1)
    optimizer.step()
    (buffer,) = optimizer._buffers[0]
    assert len(buffer.blocks([(1, 0, buffer.size)])) == LARGE // (2 * BLOCK) + 1
    np.testing.assert_allclose(
        params[0].numpy(), adam(values[0], grads, lr=0.1), rtol=1e-12, atol=1e-13
    )


def test_parameters_in_shared_memory_stay_there(rng):
    """So do the averages: a forked process would otherwise keep a copy of them."""
    values, params = parameters(rng, None, shapes=[(3, 5), (7,)])
    (memory,) = shared_arrays([((3, 5), "float64")])
    memory[...] = params[0].array
    params[0].array = memory
    grads = [rng.standard_normal(value.shape) for value in values]
    put_grads(params, grads, None)
    optimizer = Adam(params, lr=0.1)
    optimizer.step()
    averages = [optimizer.state[p]["exp_avg"].array for p in params]
    assert all(map(is_shared, [p.array for p in params] + averages))
    for v, g, p in zip(values, grads, params, strict=True):
        np.testing.assert_allclose(p.numpy(), adam(v, [g], lr=0.1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cls", [SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad])
def test_threads_change_no_bit(cls, rng, device):
    start = [rng.standard_normal(shape) for shape in ((2 * BLOCK + 5,), (7, 3), (BLOCK - 1,))]
    grads = [rng.standard_normal(array.shape) for array in start]
    results = []
    for threads in (1, 2, 3, 50):
        params = [mt.tensor(array, requires_grad=True, device=device) for array in start]
        optimizer = cls(params, lr=0.1)
        optimizer.threads = threads
        for _ in range(2):
            for p, g in zip(params, grads, strict=True):
                p.grad = mt.tensor(g, device=device)
            optimizer.step()
        results.append([p.detach().cpu().numpy() for p in params])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(results[0][0], start[0])


def test_a_parameter_without_elements_needs_no_gradient(rng, device):
    params = [mt.ones(*shape, requires_grad=True, device=device) for shape in ((3,), (0, 2), (5,))]
    for p in (params[0], params[2]):
        p.grad = mt.ones(*p.shape, device=device)
    SGD(params, lr=0.5).step()
    for p in (params[0], params[2]):
        np.testing.assert_array_equal(p.detach().cpu().numpy(), 0.5)


def test_groups_have_their_own_options(rng, device):
    values, params = parameters(rng, device)
    grads = [rng.standard_normal(s) for s in SHAPES]
    put_grads(params, grads, device)
    SGD([{"params": params[:1], "lr": 1.0}, {"params": params[1:]}], lr=0.1).step()
    for i, p in enumerate(params):
        rate = 1.0 if i == 0 else 0.1
        np.testing.assert_allclose(p.numpy(), values[i] - rate * grads[i], rtol=1e-12)


def test_mixed_dtypes_share_a_group(rng, device):
    a = mt.nn.Parameter(mt.tensor(rng.standard_normal(3).astype("float32"), device=device))
    b = mt.nn.Parameter(mt.tensor(rng.standard_normal(3), device=device))
    optimizer = AdamW([a, b], lr=0.1)
    put_grads([a, b], [np.ones(3, "float32"), np.ones(3)], device)
    optimizer.step()
    assert (str(a.dtype), str(b.dtype)) == ("float32", "float64")
    assert str(optimizer.state[a]["exp_avg"].dtype) == "float32"


@pytest.mark.parametrize(
    "cls, options",
    [
        (SGD, {"momentum": 0.9, "lr": 0.1}),
        (AdamW, {}),
        (RMSprop, {"momentum": 0.9, "centered": True}),
        (Adagrad, {"lr_decay": 0.1}),
        (Adafactor, {}),
        (HFAdafactor, {"beta1": 0.9}),
    ],
)
def test_state_dict_resumes_exactly(cls, options, rng, device):
    values, params = parameters(rng, device)
    history = [[rng.standard_normal(s) for s in SHAPES] for _ in range(STEPS)]
    optimizer = cls(params, **options)
    for grads in history[:3]:
        put_grads(params, grads, device)
        optimizer.step()
    copies = [mt.nn.Parameter(p.detach().clone()) for p in params]
    resumed = cls(copies, **options)
    resumed.load_state_dict(optimizer.state_dict())
    for grads in history[3:]:
        for these, opt in ((params, optimizer), (copies, resumed)):
            put_grads(these, grads, device)
            opt.step()
    for p, copy in zip(params, copies, strict=True):
        np.testing.assert_array_equal(p.numpy(), copy.numpy())


def test_state_dict_has_pytorchs_keys(rng, device):
    _, params = parameters(rng, device)
    optimizer = Adam(params, amsgrad=True)
    put_grads(params, [np.ones(s) for s in SHAPES], device)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state["state"]) == [0, 1, 2, 3, 4]
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    assert state["param_groups"][0]["params"] == [0, 1, 2, 3, 4]
    assert state["state"][0]["exp_avg"].shape == (3, 5)


def test_parameters_that_moved_keep_their_state(rng, device):
    values, params = parameters(rng, device)
    optimizer = Adam(params, lr=0.1)
    history = [[rng.standard_normal(s) for s in SHAPES] for _ in range(4)]
    for t, grads in enumerate(history):
        if t == 2:
            for p in params:
                p.data = p.detach().clone()  # what module.to() does
        put_grads(params, grads, device)
        optimizer.step()
    for i, p in enumerate(params):
        expected = adam(values[i], [grads[i] for grads in history], lr=0.1)
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-12, atol=1e-13)


def test_two_optimizers_may_share_a_parameter(rng, device):
    p = mt.nn.Parameter(mt.tensor(np.ones(3), device=device))
    first, second = SGD([p], lr=0.1), SGD([p], lr=1.0)
    for optimizer in (first, second, first):
        p.grad = mt.tensor(np.ones(3), device=device)
        optimizer.step()
    np.testing.assert_allclose(p.numpy(), np.full(3, 1 - 0.1 - 1.0 - 0.1))


def test_a_step_is_seen_by_the_version_check(rng, device):
    p = mt.nn.Parameter(mt.tensor(np.ones(3), device=device))
    loss = (p * p).sum()
    p.grad = mt.tensor(np.ones(3), device=device)
    SGD([p], lr=0.1).step()
    with pytest.raises(mt.errors.GraphError, match="changed in place"):
        loss.backward()


def test_zero_grad(rng, device):
    _, params = parameters(rng, device)
    optimizer = SGD(params)
    put_grads(params, [np.ones(s) for s in SHAPES], device)
    optimizer.zero_grad(set_to_none=False)
    assert all(not p.grad.numpy().any() for p in params)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)


def test_maximize_and_closure(device):
    p = mt.nn.Parameter(mt.tensor(np.array([2.0]), device=device))
    optimizer = SGD([p], lr=0.25, maximize=True)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with mt.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == 3.0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda p: SGD([], lr=0.1), "empty"),
        (lambda p: SGD([p, p]), "twice"),
        (lambda p: SGD([p], lr=-1), "lr"),
        (lambda p: SGD([p], nesterov=True), "nesterov"),
        (lambda p: Adam([p], betas=(0.9, 1.0)), "beta"),
        (lambda p: Adam([p * 2]), "leaf"),
        (lambda p: Adam(["p"]), "Tensors"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(mt.errors.MiniTorchError, match=message):
        make(mt.nn.Parameter(mt.zeros(2)))


def test_load_state_dict_refuses_other_groups():
    a, b = mt.nn.Parameter(mt.zeros(2)), mt.nn.Parameter(mt.zeros(2))
    with pytest.raises(mt.errors.ArgumentError, match="groups do not match"):
        SGD([a]).load_state_dict(SGD([{"params": [a]}, {"params": [b]}]).state_dict())


def follow(make, steps, lr=0.5):
    optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=lr)
    schedule, seen = make(optimizer), []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [optimizer.param_groups[0]["lr"]]
    return seen


def test_cosine_is_half_a_cosine_and_rises_again():
    seen = follow(lambda o: mt.optim.lr_scheduler.CosineAnnealingLR(o, T_max=7, eta_min=0.1), 20)
    expected = [0.1 + 0.4 * (1 + math.cos(math.pi * t / 7)) / 2 for t in range(20)]
    np.testing.assert_allclose(seen, expected, rtol=1e-10)


def test_noam_is_the_papers_formula():
    seen = follow(lambda o: mt.optim.lr_scheduler.NoamLR(o, d_model=32, warmup_steps=8), 20, lr=1)
    expected = [32**-0.5 * min(n**-0.5, n * 8**-1.5) for n in range(1, 21)]
    np.testing.assert_allclose(seen, expected, rtol=1e-12)
    assert np.argmax(seen) == 7


def test_warmups_reach_the_base_rate_and_decay():
    schedules = mt.optim.lr_scheduler
    linear = follow(lambda o: schedules.get_linear_schedule_with_warmup(o, 4, 10), 12)
    np.testing.assert_allclose(linear[:5], [0, 0.125, 0.25, 0.375, 0.5])
    np.testing.assert_allclose(linear[10:], 0)
    cosine = follow(lambda o: schedules.get_cosine_schedule_with_warmup(o, 4, 10), 11)
    np.testing.assert_allclose([cosine[4], cosine[7], cosine[10]], [0.5, 0.25, 0], atol=1e-15)
    root = follow(lambda o: schedules.get_inverse_sqrt_schedule(o, 4), 17)
    np.testing.assert_allclose([root[4], root[16]], [0.5, 0.25])


def test_schedule_resumes_from_its_state():
    p = mt.nn.Parameter(mt.zeros(1))
    optimizer = SGD([p], lr=0.5)
    schedule = mt.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)
    for _ in range(3):
        schedule.step()
    other = SGD([p], lr=0.5)
    resumed = mt.optim.lr_scheduler.CosineAnnealingLR(other, T_max=7)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    schedule.step()
    resumed.step()
    assert resumed.get_last_lr() == schedule.get_last_lr()


@pytest.mark.parametrize("optimizer", [SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad])
def test_a_step_never_waits_for_the_device(optimizer):
    parameter = mt.tensor(np.ones((3, 5)), device="strict", requires_grad=True)
    stepper = optimizer([parameter], lr=0.1)
    (parameter**2).sum().backward()
    with forbid_sync():
        stepper.step()
    assert (parameter.detach().numpy() < 1).all()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((), None), ((), 5), (("param_groups",), 5), (("param_groups", 0), 5), (("state",), [1]),
        (("param_groups", 0, "lr"), "0.1"), (("param_groups", 0, "lr"), float("nan")),
        (("param_groups", 0, "betas"), (0.9, 1.5)), (("param_groups", 0, "params"), ["x"]),
        (("state", 0), 5), (("state", 0, "step"), "3"), (("state", 0, "step"), -1),
        (("state", 0, "exp_avg"), "x"), (("state", 0, "exp_avg"), mt.ones(2, 5)),
        (("state", 7), {}),
    ],
)  # fmt: skip
def test_a_state_of_the_wrong_type_is_refused(place, value):
    p = mt.ones(2, 3, requires_grad=True)
    optimizer = optim.AdamW([p], lr=0.1)
    p.sum().backward()
    optimizer.step()
    whole = table = optimizer.state_dict()
    optim.AdamW([p]).load_state_dict(whole)
    for key in place[:-1]:
        table = table[key]
    if place:
        table[place[-1]] = value
    with pytest.raises(CheckpointError, match=r"^optimizer\.load_state_dict"):
        optim.AdamW([p]).load_state_dict(whole if place else value)


@pytest.mark.parametrize("cls, expected", [
    (optim.AdamW, "a number from 0 to 0, and 'step' in the state"),
    (optim.SGD, "a number from 0 to 0"),
])  # fmt: skip
def test_an_error_asks_only_for_the_state_that_the_optimizer_has(cls, expected):
    p = mt.ones(2, requires_grad=True)
    state = {**cls([p]).state_dict(), "state": {7: {"step": mt.tensor(1.0)}}}
    with pytest.raises(CheckpointError) as caught:
        cls([p]).load_state_dict(state)
    assert str(caught.value).splitlines()[-1].split(maxsplit=1) == ["expected", expected]


@pytest.mark.parametrize("state", [None, 5, {"last_epoch": "3"}, {"base_lrs": [True]}])
def test_a_state_of_a_schedule_is_checked(state):
    optimizer = optim.SGD([mt.ones(2, requires_grad=True)], lr=0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=2)
    with pytest.raises(CheckpointError, match=r"^StepLR\.load_state_dict"):
        schedule.load_state_dict(state)


def test_nadam_resumes_with_its_product(rng, device):
    grads = [rng.standard_normal(5) for _ in range(4)]
    results = []
    for stop in (None, 2):
        p = mt.nn.Parameter(mt.ones(5, dtype="float64", device=device))
        optimizer = NAdam([p], lr=0.1, momentum_decay=0.3)
        for step, grad in enumerate(grads):
            if step == stop:
                state = optimizer.state_dict()
                assert set(state["state"][0]) == {"step", "mu_product", "exp_avg", "exp_avg_sq"}
                optimizer = NAdam([p], lr=0.1, momentum_decay=0.3)
                optimizer.load_state_dict(state)
            p.grad = mt.tensor(grad, device=device)
            optimizer.step()
        results.append(p.detach().numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("StepLR", (1,)), ("LambdaLR", (lambda step: 1.0,)), ("CosineAnnealingLR", (5,)),
     ("OneCycleLR", (0.1, 5)), ("CyclicLR", (0.1, 0.2)), ("ReduceLROnPlateau", ()),
     ("SequentialLR", ([], [])), ("NoamLR", (8, 5))],
)  # fmt: skip
def test_a_schedule_of_a_module_says_to_pass_the_optimizer(name, arguments):
    with pytest.raises(DTypeError, match=f"{name}: optimizer is not an optimizer") as caught:
        getattr(mt.optim.lr_scheduler, name)(mt.nn.Linear(2, 2), *arguments)
    assert f"pass the optimizer: {name}(optimizer, ...)" in caught.value.hint
