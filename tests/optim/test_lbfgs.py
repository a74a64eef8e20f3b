"""LBFGS: the minimum of a quadratic function, Rosenbrock's valley, resuming, refusals."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.optim import LBFGS


def valley(p, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = (1 - p[0]) ** 2 + 20 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    return closure


def start(device, **options):
    p = mt.nn.Parameter(mt.tensor([-0.5, 0.7], dtype="float64", device=device))
    return p, LBFGS([p], **options)


def test_finds_the_minimum_of_a_valley(device):
    p, optimizer = start(device, lr=0.5, max_iter=200)
    first = optimizer.step(valley(p, optimizer))
    np.testing.assert_allclose(p.detach().numpy(), 1.0, atol=1e-4)
    assert float(first) == pytest.approx(1.5**2 + 20 * 0.45**2)
    before = p.detach().numpy().copy()
    optimizer.step(valley(p, optimizer))
    np.testing.assert_allclose(p.detach().numpy(), before, atol=1e-4)


@pytest.mark.parametrize("lr", [1e-3, 1.0, 1e3])
def test_the_line_search_finds_the_minimum_from_any_first_step(lr, device):
    p, optimizer = start(device, lr=lr, max_iter=200, line_search_fn="strong_wolfe")
    optimizer.step(valley(p, optimizer))
    np.testing.assert_allclose(p.detach().numpy(), 1.0, atol=1e-4)


def test_limits_of_one_step(device):
    p, optimizer = start(device, max_iter=7, max_eval=4, lr=0.1)
    optimizer.step(valley(p, optimizer))
    assert optimizer.state[p]["func_evals"] == 4
    p, optimizer = start(device, max_iter=3, max_eval=9, lr=0.1, history_size=2)
    for _ in range(2):
        optimizer.step(valley(p, optimizer))
    assert optimizer.state[p]["n_iter"] == 6 and len(optimizer.state[p]["ro"]) == 2


def test_resumes_from_its_state(device):
    results = []
    for resume in (False, True):
        p, optimizer = start(device, max_iter=5, lr=0.3)
        for number in range(4):
            if resume and number == 2:
                state = optimizer.state_dict()
                optimizer = LBFGS([p], max_iter=5, lr=0.3)
                optimizer.load_state_dict(state)
            optimizer.step(valley(p, optimizer))
        results.append(p.detach().numpy())
    np.testing.assert_array_equal(*results)


def test_refusals():
    p, optimizer = start("cpu")
    with pytest.raises(ArgumentError, match="closure is missing"):
        optimizer.step()
    with pytest.raises(ArgumentError, match="line_search_fn is unknown"):
        start("cpu", line_search_fn="wolfe")
    with pytest.raises(ArgumentError, match="one group"):
        LBFGS([{"params": [p]}, {"params": [mt.nn.Parameter(mt.zeros(1))]}])
