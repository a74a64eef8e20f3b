"""RnnSequence, the loop over time that all recurrences share, and argument checks."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks
from recurrence import read_packed, rnn_step

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.ops.gru import GruSequence
from minitorch_attn.ops.lstm import LstmSequence
from minitorch_attn.ops.rnn import RnnSequence, steps


def reference(x, h0, *weights, batch_sizes, reverse=False, nonlinearity="tanh"):
    def step(x, h):
        return rnn_step(x, h, *weights, nonlinearity=nonlinearity)

    return read_packed(step, x, [h0], batch_sizes, reverse)


def cell(x, h, *weights, nonlinearity="tanh"):
    return reference(x, h, *weights, batch_sizes=(len(x),), nonlinearity=nonlinearity)[1]


def case(name, batch_sizes, bias=True, size=3, hidden=5, **kwargs):
    rows, batch = sum(batch_sizes), batch_sizes[0]
    shapes = [(rows, size), (batch, hidden), (hidden, size), (hidden, hidden)]
    shapes += [(hidden,), (hidden,)] if bias else []
    kwargs = {"batch_sizes": batch_sizes, **kwargs}
    return Case(
        name, partial(mt.rnn_sequence, **kwargs), partial(reference, **kwargs), *shapes
    )  # fmt: skip


CELL = [(7, 3), (7, 5), (5, 3), (5, 5), (5,), (5,)]
CASES = [
    case("equal lengths", (2, 2, 2)),
    case("unequal lengths", (4, 2, 1)),
    case("unequal lengths in reverse", (4, 2, 1), reverse=True),
    case("one step", (7,)),
    case("one sequence", (1, 1, 1, 1)),
    case("without biases", (3, 2, 2), bias=False),
    case("relu", (3, 2, 2), nonlinearity="relu"),
    case("relu in reverse", (3, 2, 2), nonlinearity="relu", reverse=True),
    case("one number", (2, 1), size=1, hidden=1),
    Case("rnn_tanh_cell", mt.rnn_tanh_cell, cell, *CELL),
    Case("rnn_relu_cell", mt.rnn_relu_cell, partial(cell, nonlinearity="relu"), *CELL),
    Case("rnn_tanh_cell without biases", mt.rnn_tanh_cell, cell, *CELL[:4]),
    Case("of a transpose", lambda x, h, w, u: mt.rnn_tanh_cell(x.T, h, w.T, u),
         lambda x, h, w, u: cell(x.T, h, w.T, u), (3, 7), (7, 5), (3, 5), (5, 5)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_steps_name_the_rows_of_each_step():
    forwards = [(3, slice(0, 3)), (2, slice(3, 5)), (2, slice(5, 7))]
    assert list(steps((3, 2, 2), False)) == forwards
    assert list(steps((3, 2, 2), True)) == forwards[::-1]


KINDS = {
    "rnn": (RnnSequence, 1, 1, {"nonlinearity": "tanh"}),
    "relu": (RnnSequence, 1, 1, {"nonlinearity": "relu"}),
    "lstm": (LstmSequence, 4, 2, {}),
    "gru": (GruSequence, 3, 1, {}),
}


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    size=st.integers(1, 4),
    hidden=st.integers(1, 5),
    reverse=st.booleans(),
    biases=st.tuples(st.booleans(), st.booleans()),
    proj=st.booleans(),
    seed=st.integers(0, 999),
)
def test_fused_equals_composed(device, kind, lengths, size, hidden, reverse, biases, proj, seed):
    function, gates, states, settings = KINDS[kind]
    rng = np.random.default_rng(seed)
    sizes = tuple(sum(n > t for n in lengths) for t in range(max(lengths)))
    out = hidden + 1 if proj and kind == "lstm" else hidden
    rows = gates * hidden
    shapes = [(sum(sizes), size), (sizes[0], out), *[(sizes[0], hidden)] * (states - 1)]
    shapes += [(rows, size), (rows, out)] + [(rows,) if wanted else None for wanted in biases]
    shapes += [(out, hidden) if out != hidden else None] if kind == "lstm" else []
    hosts = [None if shape is None else rng.normal(size=shape) for shape in shapes]
    cotangents = None
    results = []
    for run in (function.apply, lambda *a, **s: function.composed(None, *a, **s)):
        inputs = [
            None if host is None else mt.tensor(host, device=device, requires_grad=True)
            for host in hosts
        ]
        outputs = run(*inputs, batch_sizes=sizes, reverse=reverse, **settings)
        if cotangents is None:
            cotangents = [mt.tensor(rng.normal(size=y.shape), device=device) for y in outputs]
        sum((y * g).sum() for y, g in zip(outputs, cotangents, strict=True)).backward()
        grads = [x.grad.numpy() for x in inputs if x is not None]
        results.append([y.detach().numpy() for y in outputs] + grads)
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_only_the_gradients_that_are_wanted(make, kind):
    function, gates, states, settings = KINDS[kind]
    shapes = [(3, 2), *[(2, 5)] * states, (5 * gates, 2), (5 * gates, 5), (5 * gates,)]
    shapes += [(5 * gates,)] + [(5, 5)] * (kind == "lstm")
    inputs = [make(*shape) for shape in shapes]
    for y in (function.apply(*inputs, batch_sizes=(2, 1), reverse=False, **settings))[:1]:
        y.sum().backward()
    for wanted in range(len(inputs)):
        some = [x.detach().requires_grad_(i == wanted) for i, x in enumerate(inputs)]
        function.apply(*some, batch_sizes=(2, 1), reverse=False, **settings)[0].sum().backward()
        for i, (alone, together) in enumerate(zip(some, inputs, strict=True)):
            assert (alone.grad is not None) == (i == wanted)
            if alone.grad is not None:
                np.testing.assert_allclose(alone.grad.numpy(), together.grad.numpy(), atol=1e-13)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("cell", ["rnn_tanh_cell", "rnn_relu_cell", "lstm_cell", "gru_cell"])
def test_the_dtype_stays(make, cell, dtype):
    gates = {"lstm_cell": 4, "gru_cell": 3}.get(cell, 1)
    x, h, w, u, b = (
        make(*s, dtype=dtype)
        for s in [(2, 3), (2, 5), (5 * gates, 3), (5 * gates, 5), (5 * gates,)]
    )
    y = getattr(mt, cell)(x, (h, h) if cell == "lstm_cell" else h, w, u, b, b)
    for out in y if isinstance(y, tuple) else (y,):
        assert out.dtype == dtype
        out.sum().backward(retain_graph=True)
    assert all(t.grad.dtype == dtype for t in (x, h, w, u, b))


@pytest.mark.parametrize("sign", [-1, 1])
def test_gates_far_out_are_shut_or_open_without_warnings(device, sign):
    x, h = mt.tensor([[sign * 1e4]], device=device), mt.tensor([[0.25]], device=device)
    for cell, rows, state in ((mt.gru_cell, 3, h), (mt.lstm_cell, 4, (h, h))):
        w, u = mt.ones(rows, 1, device=device), mt.zeros(rows, 1, device=device)
        y = cell(x, state, w, u)
        value = y[1].item() if isinstance(y, tuple) else y.item()
        assert value == {(3, 1): 0.25, (3, -1): -1.0, (4, 1): 1.25, (4, -1): 0.0}[rows, sign]


def test_an_empty_batch(device):
    x, h = mt.zeros(0, 3, device=device), mt.zeros(0, 5, device=device)
    w, u = mt.ones(5, 3, device=device, requires_grad=True), mt.zeros(5, 5, device=device)
    y = mt.rnn_tanh_cell(x, h, w, u)
    y.sum().backward()
    assert y.shape == (0, 5) and not w.grad.numpy().any()


def good(device):
    shapes = dict(
        input=(3, 2), h0=(2, 5), weight_ih=(5, 2), weight_hh=(5, 5), bias_ih=(5,), bias_hh=(5,)
    )
    return {name: mt.zeros(shape, device=device) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("input", (4, 2)), ("input", (3,)), ("h0", (3, 5)), ("h0", (2, 4)), ("weight_ih", (5, 3)),
        ("weight_ih", (4, 2)), ("weight_hh", (4, 5)), ("weight_hh", (5,)), ("bias_ih", (4,)),
        ("bias_hh", (5, 1)),
    ],
)  # fmt: skip
def test_wrong_shapes_are_named(device, name, shape):
    inputs = {**good(device), name: mt.zeros(shape, device=device)}
    with pytest.raises(ShapeError, match=r"rnn_sequence: .* has the wrong shape"):
        mt.rnn_sequence(**inputs, batch_sizes=(2, 1))


def test_wrong_dtypes_are_named(device):
    inputs = good(device)
    with pytest.raises(DTypeError, match="bias_hh float64"):
        mt.rnn_sequence(**{**inputs, "bias_hh": inputs["bias_hh"].double()}, batch_sizes=(2, 1))
    with pytest.raises(DTypeError, match="h0 is not a tensor"):
        mt.rnn_sequence(**{**inputs, "h0": None}, batch_sizes=(2, 1))
    with pytest.raises(DTypeError, match="must be floating-point"):
        mt.rnn_sequence(**{k: v.long() for k, v in inputs.items()}, batch_sizes=(2, 1))
    with pytest.raises(ArgumentError, match="'tanh' or 'relu'"):
        mt.rnn_sequence(**inputs, batch_sizes=(2, 1), nonlinearity="sigmoid")
    with pytest.raises(ShapeError, match="must have 2 axes"):
        mt.rnn_tanh_cell(inputs["input"][0], *list(inputs.values())[1:])


@pytest.mark.parametrize("batch_sizes", [(), (1, 2), (2, 1, -1)])
def test_batch_sizes_that_grow_or_are_none(device, batch_sizes):
    with pytest.raises(ArgumentError, match="must not increase"):
        mt.rnn_sequence(**good(device), batch_sizes=batch_sizes)
