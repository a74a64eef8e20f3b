"""LstmSequence and lstm_cell."""

from functools import partial

import pytest
from op_table import Case, checks
from recurrence import lstm_step, read_packed

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError


def reference(x, h0, c0, *weights, batch_sizes, reverse=False):
    return read_packed(lambda x, h, c: lstm_step(x, h, c, *weights), x, [h0, c0], batch_sizes,
                       reverse)  # fmt: skip


def case(name, batch_sizes, bias=True, proj=0, size=3, hidden=2, **kwargs):
    rows, batch, out = sum(batch_sizes), batch_sizes[0], proj or hidden
    shapes = [(rows, size), (batch, out), (batch, hidden), (4 * hidden, size), (4 * hidden, out)]
    shapes += [(4 * hidden,), (4 * hidden,)] if bias else []
    shapes += [(out, hidden)] if proj else []
    kwargs = {"batch_sizes": batch_sizes, **kwargs}
    return Case(name, partial(mt.lstm_sequence, **kwargs), partial(reference, **kwargs), *shapes)


def without_biases(x, h, c, w, u, p):
    return mt.lstm_sequence(x, h, c, w, u, None, None, p, batch_sizes=(2, 1))


CASES = [
    case("equal lengths", (2, 2)),
    case("unequal lengths", (3, 2, 1)),
    case("unequal lengths in reverse", (3, 2, 1), reverse=True),
    case("one step", (5,), hidden=3),
    case("without biases", (2, 1, 1), bias=False),
    case("projected", (3, 1), proj=2, hidden=3),
    case("projected in reverse", (3, 1), proj=2, hidden=3, reverse=True),
    Case("projected without biases", without_biases,
         lambda x, h, c, w, u, p: reference(x, h, c, w, u, 0, 0, p, batch_sizes=(2, 1)),
         (3, 2), (2, 2), (2, 3), (12, 2), (12, 2), (2, 3)),
    Case("lstm_cell", lambda x, h, c, *w: mt.lstm_cell(x, (h, c), *w),
         lambda x, h, c, *w: reference(x, h, c, *w, batch_sizes=(5,))[1:],
         (5, 3), (5, 2), (5, 2), (8, 3), (8, 2), (8,), (8,)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def good(device):
    shapes = dict(input=(3, 2), h0=(2, 5), c0=(2, 5), weight_ih=(20, 2), weight_hh=(20, 5))
    return {name: mt.zeros(shape, device=device) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("c0", (2, 4)), ("c0", (5,)), ("h0", (2, 4)), ("weight_ih", (16, 2)),
        ("weight_hh", (20, 4)), ("weight_hr", (4, 5)), ("weight_hr", (5, 4)),
    ],
)  # fmt: skip
def test_wrong_shapes_are_named(device, name, shape):
    inputs = {**good(device), name: mt.zeros(shape, device=device)}
    with pytest.raises(ShapeError, match=r"lstm_sequence: .* has the wrong shape"):
        mt.lstm_sequence(**inputs, batch_sizes=(2, 1))


def test_a_state_that_is_no_pair(device):
    x, h, _, w, u = good(device).values()
    with pytest.raises(ArgumentError, match="must be a pair"):
        mt.lstm_cell(x[:2], h, w, u)
    with pytest.raises(DTypeError, match=r"hx\[1\]"):
        mt.lstm_cell(x[:2], (h, h.double()), w, u)
    with pytest.raises(DTypeError, match=r"hx\[1\]"):
        mt.lstm_cell(x[:2], (h, None), w, u)
