"""Operation log: which operations ran, on which tensors, from which line, and their backward."""

import inspect
import threading

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import Function, modes, op_log
from minitorch_attn.autograd.op_log import definition
from minitorch_attn.backend import to_host
from minitorch_attn.gradcheck.presets import attention_case


class Product(Function):
    """a * b."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved
        return grad * b, (grad * a).sum(axis=0)


def test_forward_and_backward_are_recorded_in_order(make):
    x, w = make(2, 3), make(3)
    with op_log() as steps:
        y = Product.apply(x, w)  # this line
        loss = y.sum()
        loss.backward()
    assert [step.op for step in steps] == ["Product", "Sum"]
    product, total = steps
    assert product.number == 1 and product.function is Product
    assert product.input_shapes == ((2, 3), (3,)) and product.output_shapes == ((2, 3),)
    assert product.outputs[0] is y.array and product.inputs[1] is w.array
    assert "this line" in product.line.source and product.line == product.called_at
    assert total.settings == {"axis": None, "keepdims": False}
    assert [grad.shape for grad in total.grads] == [()]
    np.testing.assert_array_equal(to_host(product.grads[0]), np.ones((2, 3)))
    np.testing.assert_array_equal(to_host(product.results[0]), np.tile(w.numpy(), (2, 1)))
    np.testing.assert_array_equal(to_host(product.results[1]), x.numpy().sum(0))


def test_nothing_is_recorded_outside_or_for_another_thread(make):
    x = make(3)
    with op_log() as steps:
        thread = threading.Thread(target=lambda: x * 2.0)
        thread.start()
        thread.join()
    y = x * 2.0
    assert steps == [] and modes.watchers == 0
    with op_log() as steps:
        y.sum()
    assert [step.op for step in steps] == ["Sum"]


def test_traces_nest_and_end_with_an_error(make):
    x = make(3)
    with op_log() as outer:
        x.exp()
        with pytest.raises(ZeroDivisionError), op_log() as inner:
            x.sum()
            raise ZeroDivisionError
        x.neg()
    assert [step.op for step in outer] == ["Exp", "Sum", "Neg"]
    assert [step.op for step in inner] == ["Sum"]
    assert modes.watchers == 0 and modes.state.listeners == ()


def test_operations_without_a_gradient_are_recorded_too(make):
    x = make(3, requires_grad=False)
    with mt.no_grad(), op_log() as steps:
        (x * 2.0).sum()
    assert [step.op for step in steps] == ["Mul", "Sum"]
    assert steps[0].inputs[1] == 2.0 and steps[0].input_shapes == ((3,), None)
    assert steps[0].grads is None


def test_copies_survive_a_change_in_place(make):
    x = make(3, requires_grad=False)
    before = x.numpy().copy()
    with op_log(copies=True) as steps:
        x.sum()
    x.add_(1.0)
    np.testing.assert_array_equal(to_host(steps[0].inputs[0]), before)


def test_the_recorded_backward_is_recorded_too(make):
    x = make(3)
    with op_log() as steps:
        (slope,) = mt.autograd.grad((x * x * x).sum(), x, create_graph=True)
        count = len(steps)
        slope.sum().backward()
    assert count > 3  # forward steps, and the operations that the backward pass was made of
    assert all(step.results is not None for step in steps if step.op == "Mul" and step.grads)


def test_a_layer_is_named_by_its_own_line_and_by_yours(make, device):
    layer = mt.nn.Linear(3, 2, device=device)
    x = make(4, 3, dtype="float32")
    with op_log() as steps:
        layer(x)  # your line
    step = steps[-1]
    assert "your line" in step.called_at.source
    assert "nn" in step.line.file and "linear" in step.line.source


def test_the_text_of_a_trace_has_a_line_per_step(make):
    with op_log() as steps:
        (make(2, 3) @ make(3, 5)).sum()
    lines = str(steps).splitlines()
    assert len(lines) == 2
    assert "MatMul" in lines[0] and "(2, 3), (3, 5) -> (2, 5)" in lines[0]
    assert "test_op_log.py" in lines[0] and repr(steps[1]) == "<Step 2: Sum>"


def test_where_a_function_is_defined():
    line = definition(Product.backward)
    _, first = inspect.getsourcelines(Product.backward)
    assert line.number == first + 1 and line.source.startswith("def backward")
    assert definition(len) is None


def test_the_preset_is_what_it_promises(device):
    case = attention_case(device=device)
    sizes = [case.batch, case.heads, case.tokens, case.head_dim]
    assert len(set(sizes)) == 4 and min(sizes) > 1
    assert case.shift % case.tokens and 2 * case.shift % (case.windows * case.tokens)
    assert case.x.shape == (2, 15, 12)
    assert case.query.device == mt.tensor(0, device=device).device
    for tensor in case.block_inputs:
        assert tensor.requires_grad and tensor.dtype == mt.float64
    assert np.ptp(case.gamma.numpy()) > 0.5
    index = case.index.numpy()
    assert index.min() == 0 and index.max() == case.table.shape[0] - 1
    assert (index[0, 1], index[1, 0]) == (5, 3)
    other = attention_case(np.random.default_rng(1), device=device)
    assert not np.allclose(case.x.numpy(), other.x.numpy())
    np.testing.assert_array_equal(case.x.numpy(), attention_case().x.numpy())


def test_the_mask_of_the_preset_keeps_the_seam_apart():
    """Window 2 holds tokens 12, 13, 14, 0, 1 after the roll: the last two came round."""
    mask = attention_case().mask.numpy()
    assert mask[0].all() and mask[1].all()
    came_round = np.array([False, False, False, True, True])
    np.testing.assert_array_equal(mask[2], came_round[:, None] == came_round[None, :])
    assert attention_case(shift=0).mask.numpy().all()
