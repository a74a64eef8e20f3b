"""Random programs of views and in-place changes: values and gradients equal PyTorch's."""

import random

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import GraphError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

VIEWS = {
    "first": lambda t: t[0],
    "last": lambda t: t[..., -1],
    "but one": lambda t: t[..., 1:],
    "transposed": lambda t: t.t() if t.ndim == 2 else t,
    "flat": lambda t: t.reshape(-1),
    "unsqueezed": lambda t: t.unsqueeze(0),
    "narrowed": lambda t: t.narrow(0, 0, (t.shape[0] + 1) // 2),
    "diagonal": lambda t: t.diagonal() if t.ndim == 2 else t,
    "selected": lambda t: t.select(0, -1),
    "moved": lambda t: t.movedim(0, -1),
    "viewed": lambda t: t.view(t.shape),
}
CHANGES = {
    "multiplied": lambda t, other: t.mul_(1.5),
    "added to": lambda t, other: t.add_(other),
    "multiplied by a leaf": lambda t, other: t.mul_(other),
    "multiplied by itself": lambda t, other: t.mul_(t.detach().clone()),
    "through tanh": lambda t, other: t.tanh_(),
    "through exp": lambda t, other: t.exp_(),
    "written to": lambda t, other: t.__setitem__(0, other),
    "written to at a list": lambda t, other: t.__setitem__([-1], 2.0 * other),
    "zeroed": lambda t, other: t.zero_(),
    "filled": lambda t, other: t.fill_(2.0),
    "copied into": lambda t, other: t.copy_(other * other),
}
SHAPES = {
    "transposed in place": lambda t, other: t.t_() if t.ndim <= 2 else t.transpose_(0, -1),
    "unsqueezed in place": lambda t, other: t.unsqueeze_(-1),
    "squeezed in place": lambda t, other: t.squeeze_(),
}


def program(seed, changes=CHANGES):
    """A list of steps: view or change, of which earlier name, how."""
    choice = random.Random(seed)
    steps = []
    for _ in range(choice.randrange(2, 10)):
        table = choice.choice([VIEWS, changes])
        steps.append((table, choice.randrange(10), choice.choice(sorted(table))))
    return steps


def run(library, steps, values):
    """The loss, its gradients and what each name says about itself."""
    x = library.tensor(values, requires_grad=True)
    other = library.tensor(np.asarray(0.7) if library is mt else 0.7, dtype=library.float64)
    other.requires_grad_()
    names = [x * 1.0]
    for table, which, how in steps:
        target = names[which % len(names)]
        if target.ndim == 0 or 0 in target.shape:
            continue
        if table is VIEWS:
            names.append(VIEWS[how](target))
        else:
            table[how](target, other)
    weights = np.random.default_rng(1)
    total = 0
    for name in names:
        weight = np.asarray(weights.standard_normal(tuple(name.shape)))
        total = total + (name * library.tensor(weight)).sum()
    total.backward()
    grads = [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
             for leaf in (x, other)]  # fmt: skip
    return total.item(), grads, [(n.requires_grad, n.is_leaf) for n in names]


@pytest.mark.parametrize("batch", range(8))
def test_random_programs(batch):
    compared = 0
    for seed in range(100 * batch, 100 * (batch + 1)):
        values = np.random.default_rng(seed).uniform(-1, 1, (3, 4))
        steps = program(seed)
        try:
            wanted = run(torch, steps, values)
        except RuntimeError:  # PyTorch keeps outputs without a copy and so refuses more
            continue
        got = run(mt, steps, values)
        assert got[0] == pytest.approx(wanted[0]), seed
        for have, want in zip(got[1], wanted[1], strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12, err_msg=str(seed))
        assert got[2] == wanted[2], seed
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("batch", range(8))
def test_random_programs_that_change_shapes_in_place(batch):
    """An older view of what changed its shape has the same gradient, or is refused."""
    compared = refused = 0
    for seed in range(100 * batch, 100 * (batch + 1)):
        values = np.random.default_rng(seed).uniform(-1, 1, (3, 3))
        steps = program(seed, CHANGES | SHAPES)
        try:
            wanted = run(torch, steps, values)
        except (RuntimeError, IndexError):
            continue
        try:
            got = run(mt, steps, values)
        except GraphError as error:
            assert "changed its shape in place" in str(error), seed
            refused += 1
            continue
        assert got[0] == pytest.approx(wanted[0]), seed
        for have, want in zip(got[1], wanted[1], strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12, err_msg=str(seed))
        compared += 1
    assert compared > 30 and compared > refused
