"""Module hooks: their order, what they receive, and what they may replace."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn


class Product(nn.Module):
    """Two inputs, two outputs, a keyword."""

    def forward(self, a, b, factor=1.0):
        return a * b * factor, a + b


def test_order_of_forward_hooks():
    seen = []
    layer = nn.Identity()
    layer.register_forward_hook(lambda *_: seen.append("after 1"))
    layer.register_forward_hook(lambda *_: seen.append("after 2"))
    layer.register_forward_hook(lambda *_: seen.append("after 0"), prepend=True)
    layer.register_forward_pre_hook(lambda *_: seen.append("before"))
    layer(mt.ones(1))
    assert seen == ["before", "after 0", "after 1", "after 2"]


def test_hooks_may_replace_arguments_and_output():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda module, args: args[0] + 1)  # one value is wrapped
    layer.register_forward_hook(lambda module, args, output: (args[0], output * 10))
    seen, output = layer(mt.tensor([2.0, 4.0]))
    assert seen.tolist() == [3.0, 5.0] and output.tolist() == [30.0, 50.0]


def test_hooks_with_keywords():
    seen = {}

    def before(module, args, kwargs):
        return args, {**kwargs, "factor": 5.0}

    def after(module, args, kwargs, output):
        seen.update(kwargs)

    layer = Product()
    layer.register_forward_pre_hook(before, with_kwargs=True)
    layer.register_forward_hook(after, with_kwargs=True)
    assert layer(mt.tensor([2.0]), mt.tensor([3.0]), factor=2.0)[0].item() == 30.0
    assert seen == {"factor": 5.0}


def test_removed_hooks_are_silent():
    seen = []
    layer = nn.Identity()
    handle = layer.register_forward_hook(lambda *_: seen.append(1))
    layer(mt.ones(1))
    handle.remove()
    handle.remove()
    with layer.register_forward_hook(lambda *_: seen.append(2)):
        layer(mt.ones(1))
    layer(mt.ones(1))
    assert seen == [1, 2]


def test_always_call_runs_when_forward_raises():
    seen = []
    layer = nn.Module()
    layer.register_forward_hook(lambda *_: seen.append("sometimes"))
    layer.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
    with pytest.raises(NotImplementedError):
        layer(mt.ones(1))
    assert seen == ["always"]


def test_backward_hooks_see_all_gradients_in_pytorchs_order(make):
    seen = []
    layer = Product()
    layer.register_full_backward_pre_hook(lambda module, grads: seen.append(("before", grads)))
    layer.register_full_backward_hook(lambda module, *grads: seen.append(("after", *grads)))
    a, b = make(2), make(2)
    product, total = layer(a, b)
    (product.sum() + 3 * total.sum()).backward()
    (_, grads), (_, grad_input, grad_output) = seen
    assert [g.numpy().tolist() for g in grads] == [[1.0, 1.0], [3.0, 3.0]]
    assert [g.numpy().tolist() for g in grad_output] == [[1.0, 1.0], [3.0, 3.0]]
    np.testing.assert_allclose(grad_input[0].numpy(), b.numpy() + 3)
    np.testing.assert_allclose(grad_input[1].numpy(), a.numpy() + 3)
    np.testing.assert_allclose(a.grad.numpy(), b.numpy() + 3)


def test_backward_hooks_may_replace_gradients(make):
    layer = nn.Identity()
    layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2,))
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 5,))
    x = make(3)
    layer(x).sum().backward()
    assert x.grad.numpy().tolist() == [10.0, 10.0, 10.0]


def test_none_stands_where_there_is_no_gradient(make, device):
    seen = []
    layer = nn.Embedding(5, 3).double().to(device)
    layer.register_full_backward_hook(lambda module, *grads: seen.append(grads))
    layer(mt.tensor([1, 2], device=device)).sum().backward()
    ((grad_input, grad_output),) = seen
    assert grad_input == (None,) and grad_output[0].shape == (2, 3)


def test_an_output_without_a_part_in_the_loss_counts_as_zero(make):
    seen = []
    layer = Product()
    layer.register_full_backward_hook(lambda module, *grads: seen.append(grads))
    layer(make(2), make(2))[1].sum().backward()
    assert seen[0][1][0].numpy().tolist() == [0.0, 0.0]


def test_hooks_under_create_graph(make):
    seen = []
    layer = Product()
    layer.register_full_backward_hook(lambda module, *grads: seen.append(grads))
    a, b = make(2), make(2)
    product, _ = layer(a, b)
    (slope,) = mt.autograd.grad(product.sum(), a, create_graph=True)
    (curvature,) = mt.autograd.grad(slope.sum(), b)
    assert curvature.numpy().tolist() == [1.0, 1.0]
    assert seen[0][0][0].requires_grad


def test_no_backward_hooks_without_a_graph(make):
    layer = nn.Identity()
    layer.register_full_backward_hook(lambda *_: pytest.fail("there is no backward"))
    with mt.no_grad():
        assert layer(make(2)).grad_fn is None


def test_an_input_changed_in_place_inside_a_hooked_module_is_noticed(make):
    class Careless(nn.Module):
        def forward(self, x):
            return x.mul_(2.0)

    layer = Careless()
    layer.register_full_backward_hook(lambda *_: None)
    x = make(3)
    y = x * x
    z = y * y
    layer(y)
    with pytest.raises(mt.errors.GraphError, match="changed in place"):
        z.sum().backward()
