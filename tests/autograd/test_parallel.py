"""Calls in parallel threads are one node of the graph, with the gradients of the calls in turn."""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd.parallel import in_parallel
from minitorch_attn.backend.blas import blas_threads
from minitorch_attn.errors import GraphError

SIZES = [(0, 3), (1, 3), (2, 3), (7, 5)]


def twice(calls):
    """Return the results in parallel, and of the same calls one after the other."""
    return in_parallel(calls), [call() for call in calls]


@pytest.mark.parametrize("shape", SIZES)
def test_values_and_gradients(shape, make):
    x, w = make(*shape).requires_grad_(), make(shape[1]).requires_grad_()
    inner = x * 2  # not a leaf
    calls = [lambda: (inner * w).tanh(), lambda: (x.square() + w).exp(), lambda: w * w]
    cotangents = [make(*shape), make(*shape), make(shape[1])]
    found = []
    for results in twice(calls):
        loss = sum((y * g).sum() for y, g in zip(results, cotangents, strict=True))
        grads = mt.autograd.grad(loss, [x, w, inner], retain_graph=True)
        found.append([y.detach().numpy() for y in results] + [g.numpy() for g in grads])
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-14)


def test_large_gradients_are_summed_in_threads(make):
    w = make(400, 500).requires_grad_()
    y, z = in_parallel([lambda: w.square().sum(), lambda: (3 * w).sum()])
    (y + z).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy() + 3, atol=1e-13)


@pytest.mark.skipif(sys.platform != "linux", reason="NumPy reuses operands on Linux")
def test_a_gradient_is_summed_in_place(make):
    w = make(400, 500).requires_grad_()
    size = w.array.nbytes
    y, z = in_parallel([lambda: (w * 3).sum(), lambda: (w * 5).sum()])
    loss = y + z
    tracemalloc.start()
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((400, 500), 8.0))
    # The gradients of both calls. Only arrays of NumPy itself take over an operand for their sum.
    assert peak < (2.5 if type(w.array) is np.ndarray else 3.5) * size


def test_one_gradient_array_for_two_inputs(make):
    """The backward of `+` returns one array twice; adding to it in place would count both."""
    a, b = make(3).requires_grad_(), make(3).requires_grad_()
    y, z = in_parallel([lambda: (a + b) * 2, lambda: a * 5])
    (y + z).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.full(3, 7.0))
    np.testing.assert_array_equal(b.grad.numpy(), np.full(3, 2.0))


def test_nested_results_keep_their_structure(make):
    w = make(3).requires_grad_()

    def call(scale):
        return {"y": w * scale, "rest": (mt.ones(2), [w + scale, None, "text"])}

    first, second = in_parallel([lambda: call(2.0), lambda: call(3.0)])
    assert second["rest"][1][1:] == [None, "text"] and not second["rest"][0].requires_grad
    (first["y"] * second["rest"][1][0]).sum().backward()
    expected = 2 * (2 * w.detach().numpy() + 3)
    np.testing.assert_allclose(w.grad.numpy(), expected, atol=1e-14)


def test_second_derivatives(make):
    w = make(5).requires_grad_()
    found = []
    for y, z in twice([lambda: w.exp(), lambda: w.square() * 3]):
        (slope,) = mt.autograd.grad((y * z).sum(), w, create_graph=True)
        found.append(mt.autograd.grad(slope.square().sum(), w)[0].numpy())
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_a_graph_is_used_once_unless_it_is_retained(make):
    w = make(3).requires_grad_()
    y, z = in_parallel([lambda: w.exp(), lambda: w.tanh()])
    loss = (y + z).sum()
    loss.backward(retain_graph=True)
    first = w.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * first, atol=1e-15)
    with pytest.raises(GraphError, match="already freed"):
        loss.backward()


def test_hooks_of_outside_tensors_run_once_with_the_whole_gradient(make):
    w = make(3).requires_grad_()
    inner, seen = w * 1.0, []
    inner.register_hook(lambda g: seen.append(("inner", g.numpy().copy())))
    w.register_hook(lambda g: seen.append(("leaf", g.numpy().copy())))
    y, z = in_parallel([lambda: 2 * inner, lambda: 3 * inner + w])
    (y + z).sum().backward()
    assert [name for name, _ in seen] == ["inner", "leaf"]
    np.testing.assert_array_equal(seen[0][1], np.full(3, 5.0))
    np.testing.assert_array_equal(seen[1][1], np.full(3, 6.0))


def test_one_call_alone_and_results_without_a_graph(make):
    w = make(3).requires_grad_()
    (y,) = in_parallel([lambda: 2 * w])
    assert y.requires_grad
    y, z = in_parallel([lambda: 2 * w, lambda: w.detach()])
    assert y.requires_grad and not z.requires_grad
    with mt.no_grad():
        assert not any(y.requires_grad for y in in_parallel([lambda: 2 * w, lambda: 3 * w]))
    assert mt.is_grad_enabled()


def test_an_unused_input_and_an_unused_result(make):
    w, v = make(3).requires_grad_(), make(3).requires_grad_()
    y, z = in_parallel([lambda: 2 * w, lambda: 3 * v])
    y.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full(3, 2.0))
    np.testing.assert_array_equal(v.grad.numpy(), np.zeros(3))  # z has a gradient of zeros
    assert z.requires_grad


def test_listeners_see_every_operation(make):
    w = make(3).requires_grad_()
    with mt.autograd.op_log() as steps:
        in_parallel([lambda: w.exp(), lambda: w.tanh()])
    assert [step.op for step in steps] == ["Exp", "Tanh"]


def test_an_error_of_a_call_comes_out(make):
    before = blas_threads()

    def broken():
        raise ValueError("the second call")

    with pytest.raises(ValueError, match="the second call"):
        in_parallel([lambda: make(3), broken])
    assert blas_threads() == before


def test_the_graph_is_freed_by_the_backward_pass(make):
    w = make(3).requires_grad_()
    held = []

    def call():
        y = w.exp()
        held.append(weakref.ref(y))
        return y * 2

    y, z = in_parallel([call, call])
    loss = (y + z).sum()
    loss.backward()
    gc.collect()
    assert [ref() for ref in held] == [None, None]
