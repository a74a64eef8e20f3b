"""GRU: gru_sequence and gru_cell."""

from functools import partial

import numpy as np
from op_table import Case, checks
from recurrence import gru_step, read_packed

import minitorch_attn as mt


def reference(x, h0, *weights, batch_sizes, reverse=False):
    return read_packed(lambda x, h: gru_step(x, h, *weights), x, [h0], batch_sizes, reverse)


def case(name, batch_sizes, bias=True, size=3, hidden=2, **kwargs):
    rows, batch = sum(batch_sizes), batch_sizes[0]
    shapes = [(rows, size), (batch, hidden), (3 * hidden, size), (3 * hidden, hidden)]
    shapes += [(3 * hidden,), (3 * hidden,)] if bias else []
    kwargs = {"batch_sizes": batch_sizes, **kwargs}
    return Case(name, partial(mt.gru_sequence, **kwargs), partial(reference, **kwargs), *shapes)


CASES = [
    case("equal lengths", (2, 2)),
    case("unequal lengths", (3, 2, 1)),
    case("unequal lengths in reverse", (3, 2, 1), reverse=True),
    case("one step", (7,), hidden=3),
    case("without biases", (2, 1, 1), bias=False),
    Case("gru_cell", mt.gru_cell, lambda x, h, *w: reference(x, h, *w, batch_sizes=(5,))[1],
         (5, 3), (5, 2), (6, 3), (6, 2), (6,), (6,)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_an_open_update_gate_keeps_the_state(device):
    """Where z = 1, neither input nor weights matter, however many steps there are."""
    bias = mt.tensor([0.0, 50.0, 0.0], dtype="float64", device=device)
    h = mt.tensor([[0.7]], dtype="float64", device=device, requires_grad=True)
    x, w = mt.ones(9, 1, dtype="float64", device=device), mt.ones(3, 1, device=device).double()
    _, last = mt.gru_sequence(x, h, w, w, bias, bias, batch_sizes=(1,) * 9)
    last.sum().backward()
    np.testing.assert_allclose(last.detach().numpy(), [[0.7]], atol=1e-12)
    np.testing.assert_allclose(h.grad.numpy(), [[1.0]], atol=1e-12)
