"""Optimizers and schedules against PyTorch, with random options and gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_attn as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

SHAPES = [(3, 5), (2, 3, 4), (7,), ()]
small = st.floats(0.001, 0.5)
beta = st.floats(0.1, 0.99)
flag = st.booleans()


def options(**strategies):
    return st.fixed_dictionaries({}, optional=strategies)


OPTIMIZERS = {
    "SGD": st.one_of(
        options(lr=small, momentum=beta, dampening=small, weight_decay=small, maximize=flag),
        options(lr=small, weight_decay=small).map(
            lambda o: {**o, "momentum": 0.7, "nesterov": True}
        ),
    ),
    "Adam": options(
        lr=small, betas=st.tuples(beta, beta), eps=small, weight_decay=small, amsgrad=flag,
        maximize=flag,
    ),
    "AdamW": options(
        lr=small, betas=st.tuples(beta, beta), eps=small, weight_decay=small, amsgrad=flag
    ),
    "NAdam": options(
        lr=small, betas=st.tuples(beta, beta), eps=small, weight_decay=small, momentum_decay=small,
        decoupled_weight_decay=flag, maximize=flag,
    ),
    "RAdam": options(
        lr=small, betas=st.tuples(beta, beta), eps=small, weight_decay=small,
        decoupled_weight_decay=flag, maximize=flag,
    ),
    "RMSprop": options(
        lr=small, alpha=beta, eps=small, weight_decay=small, momentum=beta, centered=flag
    ),
    "Adagrad": options(
        lr=small, lr_decay=small, weight_decay=small, initial_accumulator_value=small, eps=small
    ),
    "Adafactor": options(
        lr=small, beta2_decay=st.floats(-0.9, -0.1), d=st.floats(1.0, 2.0), weight_decay=small,
        eps=st.tuples(st.none(), small),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_follows_pytorch(name, device):
    @settings(max_examples=60, deadline=None)
    @given(chosen=OPTIMIZERS[name], seed=st.integers(0, 2**32 - 1))
    def check(chosen, seed):
        rng = np.random.default_rng(seed)
        values = [rng.standard_normal(s) for s in SHAPES]
        ours = [mt.nn.Parameter(mt.tensor(v, device=device)) for v in values]
        theirs = [torch.nn.Parameter(torch.tensor(v)) for v in values]
        pair = [
            getattr(mt.optim, name)(ours, **chosen),
            getattr(torch.optim, name)(theirs, **chosen, foreach=False),
        ]
        for _ in range(4):
            for p, q in zip(ours, theirs, strict=True):
                g = rng.standard_normal(p.shape) if rng.uniform() < 0.85 else None
                p.grad = None if g is None else mt.tensor(g, device=device)
                q.grad = None if g is None else torch.tensor(g)
            for optimizer in pair:
                optimizer.step()
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-9, atol=1e-11)
        mine, peer = (optimizer.state_dict()["state"] for optimizer in pair)
        for number, entry in peer.items():
            assert set(mine.get(number, entry)) == set(entry)

    check()


@pytest.mark.parametrize("history", [1, 3, 100])
@pytest.mark.parametrize(("lr", "search"), [
    (1.0, None), (0.3, None), (1.0, "strong_wolfe"), (0.01, "strong_wolfe"), (40, "strong_wolfe"),
])  # fmt: skip
def test_lbfgs_follows_pytorch(lr, search, history, device):
    rng = np.random.default_rng(0)
    inputs, start = rng.standard_normal((23, 7)), rng.standard_normal((7, 3))
    wanted = rng.standard_normal((23, 3))
    results = []
    for lib, on in ((mt, {"device": device}), (torch, {})):
        x, y = lib.tensor(inputs, **on), lib.tensor(wanted, **on)
        w = lib.tensor(start, **on).requires_grad_()
        b = lib.tensor(np.zeros(3), **on).requires_grad_()
        unused = lib.tensor(np.zeros(2), **on).requires_grad_()
        optimizer = lib.optim.LBFGS(
            [w, b, unused], lr=lr, max_iter=6, history_size=history, line_search_fn=search
        )

        def closure(lib=lib, w=w, b=b, x=x, y=y, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((x @ w + b - y) ** 2).mean() + 0.1 * (w**4).mean()
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(4)]
        counts = optimizer.state[w]["func_evals"], optimizer.state[w]["n_iter"]
        results.append((w.detach().numpy(), b.detach().numpy(), losses, counts))
    ours, theirs = results
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert theirs[2][-1] < 0.9 * theirs[2][0]


def build(kind, lib, optimizer, o):
    schedules = lib.optim.lr_scheduler
    if kind == "SequentialLR":
        parts = [
            schedules.LinearLR(optimizer, start_factor=0.3, total_iters=o["a"]),
            schedules.ExponentialLR(optimizer, gamma=o["gamma"]),
            schedules.CosineAnnealingLR(optimizer, T_max=o["b"]),
        ]
        return schedules.SequentialLR(optimizer, parts, [o["a"], o["a"] + o["b"]])
    if kind == "ChainedScheduler":
        parts = [
            schedules.ConstantLR(optimizer, factor=0.4, total_iters=o["a"]),
            schedules.StepLR(optimizer, o["b"], gamma=o["gamma"]),
            schedules.CosineAnnealingLR(optimizer, T_max=o["b"] + 3),
        ]
        return schedules.ChainedScheduler(parts)
    arguments = {
        "StepLR": dict(step_size=o["a"], gamma=o["gamma"]),
        "MultiStepLR": dict(milestones=[o["a"], o["a"] + o["b"], o["a"]], gamma=o["gamma"]),
        "ConstantLR": dict(factor=o["gamma"], total_iters=o["a"]),
        "LinearLR": dict(start_factor=o["gamma"], end_factor=o["x"], total_iters=o["a"]),
        "ExponentialLR": dict(gamma=o["gamma"]),
        "PolynomialLR": dict(total_iters=o["a"] + 1, power=o["x"] + 0.5),
        "CosineAnnealingLR": dict(T_max=o["a"] + 1, eta_min=o["x"] / 10),
        "CosineAnnealingWarmRestarts": dict(T_0=o["a"], T_mult=1 + o["b"] % 3, eta_min=0.01),
        "OneCycleLR": dict(
            max_lr=o["x"] + 0.1, total_steps=60, pct_start=0.2 + o["gamma"] / 3,
            anneal_strategy="linear" if o["b"] % 2 else "cos", three_phase=o["a"] % 2 == 0,
        ),
        "CyclicLR": dict(
            base_lr=0.01, max_lr=o["x"] + 0.1, step_size_up=o["a"] + 1, step_size_down=o["b"] + 1,
            mode=["triangular", "triangular2", "exp_range"][o["b"] % 3], gamma=o["gamma"],
        ),
        "LambdaLR": dict(lr_lambda=lambda t: o["gamma"] ** t),
        "MultiplicativeLR": dict(lr_lambda=lambda t: o["gamma"] + t / 100),
    }[kind]  # fmt: skip
    return getattr(schedules, kind)(optimizer, **arguments)


KINDS = [
    "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR",
    "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR", "CyclicLR", "LambdaLR",
    "MultiplicativeLR", "SequentialLR", "ChainedScheduler",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_schedule_follows_pytorch(kind):
    drawn = st.fixed_dictionaries(
        dict(a=st.integers(1, 9), b=st.integers(1, 9), gamma=st.floats(0.2, 0.95),
             x=st.floats(0.05, 0.9), lr=st.floats(0.05, 1.0))
    )  # fmt: skip

    @settings(max_examples=40, deadline=None)
    @given(o=drawn)
    def check(o):
        seen = []
        for lib in (mt, torch):
            p, q = lib.nn.Parameter(lib.zeros(1)), lib.nn.Parameter(lib.zeros(1))
            groups = [{"params": [p]}, {"params": [q], "lr": o["lr"] / 3}]
            optimizer = lib.optim.SGD(groups, lr=o["lr"], momentum=0.9)
            schedule, rows = build(kind, lib, optimizer, o), []
            for _ in range(40):
                optimizer.step()
                schedule.step()
                assert list(schedule.get_last_lr()) == [g["lr"] for g in optimizer.param_groups]
                rows.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
            seen.append(np.array(rows, dtype=float))
        np.testing.assert_allclose(seen[0], seen[1], rtol=1e-9, atol=1e-14)

    check()


@given(values=st.lists(st.floats(0.1, 2.0), min_size=5, max_size=40), patience=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_plateau_follows_pytorch(values, patience):
    for choices in (dict(mode="min"), dict(mode="max", threshold_mode="abs", cooldown=2)):
        seen = []
        for lib in (mt, torch):
            optimizer = lib.optim.SGD([lib.nn.Parameter(lib.zeros(1))], lr=1.0)
            schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer, patience=patience, factor=0.5, min_lr=0.01, **choices
            )
            rates = []
            for value in values:
                schedule.step(value)
                rates.append(optimizer.param_groups[0]["lr"])
            seen.append(rates)
        assert seen[0] == seen[1]
