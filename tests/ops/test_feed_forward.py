"""Feed-forward network: the fused op equals its layers, whole and in blocks of rows."""

import itertools
import math
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.ops.feed_forward import ACTIVATIONS, FeedForward, FeedForwardInBlocks
from minitorch_attn.ops.plumbing import flops

IN, HIDDEN, OUT = 3, 7, 2
WHOLE, IN_BLOCKS = 2**21, 0
module = sys.modules["minitorch_attn.ops.feed_forward"]  # mt.ops.feed_forward is the function


@pytest.fixture(autouse=True, params=[(WHOLE, 512), (IN_BLOCKS, 3), (IN_BLOCKS, 512)], ids=str)
def sizes(request, monkeypatch):
    """Up to how many numbers a hidden layer is kept, and the rows of a block."""
    monkeypatch.setattr(module, "KEPT", request.param[0])
    monkeypatch.setattr(module, "FROM_ROWS", 0)
    monkeypatch.setattr(module, "ROWS", request.param[1])
    return request.param


def inputs(make, *lead):
    shapes = (*lead, IN), (HIDDEN, IN), (HIDDEN,), (OUT, HIDDEN), (OUT,)
    return [make(*shape) for shape in shapes]


erf = np.vectorize(math.erf, otypes=["float64"])
IN_NUMPY = {
    "gelu": lambda u: u * (1 + erf(u / math.sqrt(2))) / 2,
    "gelu_tanh": lambda u: u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))) / 2,
    "relu": lambda u: u * (u > 0),
    "silu": lambda u: u / (1 + np.exp(-u)),
}


def reference(activation):
    def compute(x, weight1, bias1, weight2, bias2):
        h = IN_NUMPY[activation](x @ weight1.T + bias1)
        return (h @ weight2.T + bias2).astype(x.dtype)

    return compute


def case(activation):
    return Case(
        activation,
        lambda *tensors: mt.feed_forward(*tensors, activation=activation),
        reference(activation),
        (5, IN), (HIDDEN, IN), (HIDDEN,), (OUT, HIDDEN), (OUT,),
    )  # fmt: skip


test_forward, test_gradient, test_second_gradient = checks([case(name) for name in ACTIVATIONS])


def both(tensors, activation, grad=None):
    """Output and gradients of the operation, and of its layers one by one."""
    found = []
    for function in (mt.feed_forward, mt.feed_forward_composed):
        y = function(*tensors, activation=activation)
        wanted = [t for t in tensors if t is not None and t.requires_grad]
        g = np.random.default_rng(1).standard_normal(y.shape).astype(y.dtype)
        grads = mt.autograd.grad(y, wanted, mt.tensor(g, device=y.device)) if wanted else ()
        found.append([y.numpy(), *(g.numpy() for g in grads)])
    return found


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-14), ("float32", 2e-6)])
def test_the_layers_one_by_one_give_the_same(activation, dtype, tolerance, make):
    tensors = [t.detach().to(dtype=dtype).requires_grad_() for t in inputs(make, 4, 5)]
    for fused, composed in zip(*both(tensors, activation), strict=True):
        assert fused.dtype == dtype
        np.testing.assert_allclose(fused, composed, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=5)), ids=str)
def test_every_choice_of_gradients(wanted, make):
    tensors = inputs(make, 2, 5)
    for tensor, wants in zip(tensors, wanted, strict=True):
        tensor.requires_grad_(wants)
    found = both(tensors, "gelu")
    assert len(found[0]) == 1 + sum(wanted)
    for fused, composed in zip(*found, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("biases", [(False, True), (True, False), (False, False)])
def test_without_biases(biases, make):
    x, weight1, bias1, weight2, bias2 = inputs(make, 5)
    tensors = x, weight1, bias1 if biases[0] else None, weight2, bias2 if biases[1] else None
    for fused, composed in zip(*both(tensors, "relu"), strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-13, atol=1e-14)


@given(
    lead=st.lists(st.integers(0, 5), max_size=3),
    order=st.permutations(range(4)),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
)
@settings(max_examples=25, deadline=None)
def test_any_leading_axes_in_any_order_in_memory(lead, order, activation):
    rng = np.random.default_rng(0)
    shape = (*lead, IN)
    axes = [axis for axis in order if axis < len(shape)]
    x = mt.tensor(rng.standard_normal([shape[axis] for axis in axes]))
    x = x.permute(*np.argsort(axes).tolist()).requires_grad_()  # strides of another order
    rest = [(HIDDEN, IN), (HIDDEN,), (OUT, HIDDEN), (OUT,)]
    tensors = [x, *(mt.tensor(rng.standard_normal(s)).requires_grad_() for s in rest)]
    for fused, composed in zip(*both(tensors, activation), strict=True):
        assert fused.shape == composed.shape
        np.testing.assert_allclose(fused, composed, rtol=1e-12, atol=1e-13)


def test_the_gradient_that_arrives_stays_as_it_was(make):
    tensors = inputs(make, 5)
    g = make(5, OUT, requires_grad=False)
    before = g.numpy().copy()
    y = mt.feed_forward(*tensors)
    for _ in range(2):  # what was kept stays, too
        first = mt.autograd.grad(y, tensors, g, retain_graph=True)
    again = mt.autograd.grad(mt.feed_forward(*tensors), tensors, g)
    np.testing.assert_array_equal(g.numpy(), before)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_far_from_0_and_not_a_number(device):
    x = mt.tensor([[-200.0], [200.0], [math.nan]], device=device, requires_grad=True)
    one = mt.ones(1, 1, device=device)
    for activation in ACTIVATIONS:
        y = mt.feed_forward(x, one, None, one, None, activation)
        (grad,) = mt.autograd.grad(y.sum(), x)
        np.testing.assert_array_equal(y.numpy()[:, 0], [0, 200, np.nan])
        np.testing.assert_array_equal(grad.numpy()[:2, 0], [0, 1])


def test_relu_stops_even_an_infinite_gradient(device):
    x = mt.tensor([[-1.0], [2.0]], device=device, requires_grad=True)
    one = mt.ones(1, 1, device=device)
    y = mt.feed_forward(x, one, None, one, None, "relu")
    (grad,) = mt.autograd.grad(y, x, mt.full((2, 1), math.inf, device=device))
    np.testing.assert_array_equal(grad.numpy(), [[0], [math.inf]])


def test_without_a_graph_nothing_of_the_slope_is_computed(make, monkeypatch):
    tensors = inputs(make, 5)
    expected = mt.feed_forward(*tensors).numpy()
    monkeypatch.setattr(ACTIVATIONS["gelu"], "value_and_slope", None)
    with mt.no_grad():
        np.testing.assert_array_equal(mt.feed_forward(*tensors).numpy(), expected)


def test_a_checkpoint_changes_no_bit(make):
    tensors = inputs(make, 5)
    found = []
    for run in (
        lambda: mt.feed_forward(*tensors),
        lambda: mt.checkpoint(mt.feed_forward, *tensors),
    ):
        found.append([g.numpy() for g in mt.autograd.grad(run().sum(), tensors)])
    for plain, again in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, again)


def test_which_sizes_are_computed_in_blocks(make, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 5 * HIDDEN)
    monkeypatch.setattr(module, "FROM_ROWS", 7)
    for rows, name in ((5, "FeedForward"), (6, "FeedForward"), (7, "FeedForwardInBlocks")):
        with mt.autograd.op_log() as steps:
            mt.feed_forward(*inputs(make, rows))
        assert [step.op for step in steps] == [name]


@pytest.mark.parametrize("rows, large, trained, fused", [
    (1, True, True, False), (2, True, True, True), (0, True, True, True),
    (1, False, True, True), (1, True, False, True),
])  # fmt: skip
def test_large_weights_and_few_rows_use_the_composed_version(
    rows, large, trained, fused, make, monkeypatch
):
    monkeypatch.setattr(module, "LARGE", 9 * 11 if large else 9 * 11 + 1)
    x, weight1, weight2 = make(rows, 9), make(11, 9, requires_grad=trained), make(9, 11)
    with mt.autograd.op_log() as steps:
        y = mt.feed_forward(x, weight1, None, weight2, None)
    assert (len(steps) == 1) is fused
    with mt.no_grad(), mt.autograd.op_log() as steps:
        again = mt.feed_forward(x, weight1, None, weight2, None)
    assert len(steps) == 1
    np.testing.assert_array_equal(y.numpy(), again.numpy())  # as a checkpoint requires


def test_a_few_rows_are_kept_however_wide(make, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 8 * HIDDEN)
    for rows, name in ((8, "FeedForward"), (9, "FeedForwardInBlocks")):
        with mt.autograd.op_log() as steps:
            mt.feed_forward(*inputs(make, rows))
        assert [step.op for step in steps] == [name]


def test_in_blocks_the_hidden_layer_is_never_in_memory(sizes):
    if sizes != (IN_BLOCKS, 512):
        pytest.skip("once is enough")
    rows, width, hidden = 16384, 16, 256
    rng = np.random.default_rng(0)
    shapes = (rows, width), (hidden, width), (hidden,), (width, hidden), (width,)
    tensors = [mt.tensor(rng.standard_normal(s).astype("float32")).requires_grad_() for s in shapes]
    kept, peaks = [], []
    for function in (FeedForward, FeedForwardInBlocks):
        tracemalloc.start()
        y = function.apply(*tensors, activation="gelu")
        kept.append(tracemalloc.get_traced_memory()[0])
        y.sum().backward()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    layer = 4 * rows * hidden
    assert kept[0] > 2 * layer and peaks[0] > 3 * layer
    assert kept[1] < 1.1 * y.array.nbytes and peaks[1] < layer / 2


def test_floating_point_operations(make, sizes):
    tensors = inputs(make, 4, 5)
    y = mt.feed_forward(*tensors)
    name = "FeedForward" if sizes[0] else "FeedForwardInBlocks"
    assert flops.FLOPS[name](tensors, (y,)) == 2 * 20 * HIDDEN * (IN + OUT)
    more = 0 if sizes[0] else 1
    for needs, products in [((1, 1, 1, 1, 1), 4), ((0, 0, 0, 1, 1), 1), ((0, 0, 1, 0, 0), 1)]:
        assert flops.backward_flops(name, 100, needs) == 50 * (products + more)


def test_what_does_not_fit_is_said_as_of_a_linear_layer(make, device):
    x, weight1, bias1, weight2, bias2 = inputs(make, 5)
    with pytest.raises(ShapeError, match="linear"):
        mt.feed_forward(x, weight2, bias1, weight2, bias2)
    with pytest.raises(ShapeError, match="linear"):
        mt.feed_forward(x, weight1, bias1, weight1, bias2)
    with pytest.raises(ShapeError, match="bias"):
        mt.feed_forward(x, weight1, bias2, weight2, bias2)
    with pytest.raises(ShapeError, match="bias"):
        mt.feed_forward(x, weight1, bias1, weight2, bias1)
    with pytest.raises(DTypeError, match="linear"):
        mt.feed_forward(x.float(), weight1, bias1, weight2, bias2)
    with pytest.raises(ShapeError, match="linear"):
        mt.feed_forward(x, weight1, bias1, weight1, None)
    with pytest.raises(DTypeError, match="linear"):
        mt.feed_forward(x.float(), weight1, None, weight2, None)
    with pytest.raises(DTypeError, match="linear"):
        mt.feed_forward(x, weight1, None, weight2.float(), None)
    with pytest.raises(DTypeError, match="linear"):
        mt.feed_forward(x, weight1, bias1.float(), weight2, bias2)
    with pytest.raises(DTypeError, match="linear"):
        mt.feed_forward(x, weight1, bias1, weight2, bias2.float())
    with pytest.raises(ArgumentError, match="gelu_tanh, relu"):
        mt.feed_forward(x, weight1, bias1, weight2, bias2, activation="step")


def test_a_single_output_without_an_axis(make):
    x, weight1, bias1, weight2, _ = inputs(make, 5)
    y = mt.feed_forward(x, weight1, bias1, weight2[0], None)
    whole = mt.feed_forward(x, weight1, bias1, weight2, None)
    np.testing.assert_allclose(y.numpy(), whole.numpy()[:, 0], rtol=1e-13, atol=1e-14)
