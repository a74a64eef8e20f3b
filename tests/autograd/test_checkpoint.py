"""Checkpointing: less memory is kept, and every result is bit-identical."""

import collections
import weakref

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import checkpoint
from minitorch_attn.autograd.modes import state
from minitorch_attn.backend import next_offset
from minitorch_attn.errors import GraphError
from minitorch_attn.models import GPT
from minitorch_attn.training.parallel import ThreadSplit


def plainly(fn, *args, **kwargs):
    return fn(*args, **kwargs)


def both_ways(run):
    """What `run(how)` returns with plain calls and with checkpoints, from the same seed."""
    results = []
    for how in (plainly, checkpoint):
        mt.manual_seed(5)
        results.append(run(how))
    return results


def assert_same(plain, checked):
    assert len(plain) == len(checked) > 0
    for a, b in zip(plain, checked, strict=True):
        assert a.numpy().any()
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def small_gpt(device, how, dropout=0.3):
    """A GPT whose blocks are called through `how`."""
    model = GPT(11, 8, embed_dim=12, num_heads=3, num_layers=3, dropout=dropout).to(device)
    for block in model.blocks:
        forward = block.forward
        block.forward = lambda *args, forward=forward, **kwargs: how(forward, *args, **kwargs)
    return model


def test_a_training_step_of_gpt_is_the_same_to_the_bit(device):
    ids = mt.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], device=device)

    def step(how):
        model = small_gpt(device, how)
        loss = mt.nn.functional.cross_entropy(model(ids).reshape(10, 11), ids.reshape(10))
        loss.backward()
        return [loss, mt.tensor(next_offset(16)), *(p.grad for p in model.parameters())]

    assert_same(*both_ways(step))


def test_nested_checkpoints_are_exact_and_keep_less(make):
    class Layer(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = mt.nn.Parameter(make(5, 5).detach())
            self.dropout = mt.nn.Dropout(0.4)

        def forward(self, x):
            return self.dropout((x @ self.weight).tanh()).exp()

    layers, x = [Layer() for _ in range(4)], make(3, 5)

    def pair(first, x, how):
        for layer in layers[first : first + 2]:
            x = how(layer, x)
        return x

    def run(outer, inner):
        mt.manual_seed(1)
        y = x
        for first in (0, 2):
            y = outer(pair, first, y, inner)
        return mt.autograd.grad((y * y).sum(), [x, *(layer.weight for layer in layers)])

    plain = run(plainly, plainly)
    assert_same(plain, run(checkpoint, plainly))
    assert_same(plain, run(plainly, checkpoint))
    assert_same(plain, run(checkpoint, checkpoint))


def test_nested_checkpoints_run_each_layer_as_often_as_their_depth(make):
    calls, x = [], make(3)

    def leaf(x, name):
        calls.append(name)
        return x.tanh().exp()

    def node(x, name):
        for part in "ab":
            x = checkpoint(leaf, x, name + part)
        return x

    y = x
    for name in "12":
        y = checkpoint(node, y, name)
    assert calls == ["1a", "1b", "2a", "2b"]
    calls.clear()
    y.sum().backward()
    # Node 2 again, with empty leaves; then its leaves from the last; then node 1.
    assert calls == ["2a", "2b", "2b", "2a", "1a", "1b", "1b", "1a"]


Pair = collections.namedtuple("Pair", "first second")


def test_outputs_and_arguments_of_every_kind(make):
    x, w, b, unused = make(3, 5), make(5, 2), make(2), make(7)

    def fn(pair, sizes, *, extra, flag, absent=None):
        assert flag == "yes" and absent is None and sizes == [3, {"k": 2}]
        y = pair.first @ pair.second
        return {"y": y.exp(), "rest": (y * extra["b"], 17, y.argmax())}

    def run(how):
        out = how(fn, Pair(x, w), [3, {"k": 2}], extra={"b": b, "c": unused}, flag="yes")
        assert out["rest"][1] == 17 and out["rest"][2].dtype == mt.int64
        return mt.autograd.grad((out["y"] * out["rest"][0]).sum(), [x, w, b])

    assert_same(*both_ways(run))


def test_one_output_of_several_may_go_unused(make):
    x = make(3)

    def run(how):
        y, z = how(lambda x: (x.exp(), x.tanh() * x), x)
        return mt.autograd.grad(z.sum(), [x])

    assert_same(*both_ways(run))


def test_what_a_function_uses_without_being_given_it_gets_its_gradient(make):
    x, w = make(3, 5, requires_grad=False), make(5)

    def run(how):
        hidden = (w * w).exp()
        y = how(lambda x: (x * hidden).tanh(), x)
        return [y, *mt.autograd.grad((y * hidden).sum(), [w])]

    assert_same(*both_ways(run))


def test_second_derivatives_through_a_fused_operation(make):
    query, key, value = make(2, 3, 5), make(2, 3, 5), make(2, 3, 5)

    def run(how):
        def fn(query, key):
            return mt.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=0.2)

        y = how(fn, query, key)
        slopes = mt.autograd.grad((y**3).sum(), [query, key, value], create_graph=True)
        norm = sum((slope * slope).sum() for slope in slopes)
        return [*slopes, *mt.autograd.grad(norm, [query, key, value])]

    assert_same(*both_ways(run))


def test_attention_in_tiles_draws_its_masks_again(make, monkeypatch):
    from minitorch_attn.ops.attention import scaled_dot_product as attention

    monkeypatch.setattr(attention, "tiles_pay", lambda shape: True)
    x = make(2, 7, 3)

    def run(how):
        y = how(attention.scaled_dot_product_attention, x, x, x, dropout_p=0.5, is_causal=True)
        return [y, *mt.autograd.grad((y * y).sum(), [x])]

    assert_same(*both_ways(run))


def test_numbers_drawn_on_the_host_are_drawn_again_and_nobody_else_notices(make, device):
    x = make(3)

    def run(how):
        y = how(lambda x: x.exp() * mt.rand(3, device=device, dtype="float64"), x)
        between = mt.rand(2)
        (slope,) = mt.autograd.grad((y * y).sum(), [x])
        return [slope, between, mt.rand(2)]

    assert_same(*both_ways(run))


def test_the_seed_may_be_set_anew_between_forward_and_backward(make):
    x = make(2, 50)

    def run(how):
        y = how(lambda x: mt.nn.functional.dropout(x, 0.5).exp(), x)
        mt.manual_seed(77)
        return [y, *mt.autograd.grad(y.sum(), [x])]

    assert_same(*both_ways(run))


def test_without_recording_the_function_is_just_called(make):
    x, seen = make(3), []

    def fn(x):
        seen.append(state.listeners)
        return x.exp()

    with mt.no_grad():
        y = checkpoint(fn, x)
    assert seen == [()] and not y.requires_grad
    assert checkpoint(fn, make(3, requires_grad=False)).requires_grad is False


def test_with_the_batch_split_over_threads(device):
    ids = mt.tensor(np.arange(20).reshape(4, 5) % 11, device=device)

    def loss_function(model, ids):
        return mt.nn.functional.cross_entropy(model(ids).reshape(-1, 11), ids.reshape(-1))

    class Model(mt.nn.Module):
        def __init__(self, how):
            super().__init__()
            self.inner = GPT(11, 8, embed_dim=12, num_heads=3, num_layers=2, dropout=0.3)
            self.how = how

        def forward(self, ids):
            x = self.inner.embed(ids)
            for block in self.inner.blocks:
                x = self.how(block, x)
            return self.inner.head(x)

    def step(how):
        model = Model(how).to(device)
        loss = ThreadSplit(model, loss_function, threads=2)(ids)
        return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]

    assert_same(*both_ways(step))


def test_nothing_from_inside_is_kept_until_the_backward_pass(make):
    x, kept, calls = make(3, 5), [], []

    def fn(x):
        y = x.exp()
        kept.append(weakref.ref(y.array))
        z = y.tanh()  # saves its output, and Mul both factors
        calls.append([ref() is None for ref in kept])
        return z * y

    out = checkpoint(fn, x)
    assert calls == [[False]] and kept[0]() is None
    loss = out.sum()
    loss.backward()
    assert len(calls) == 2 and kept[1]() is None  # and nothing after it


def test_the_graph_can_be_kept_for_a_second_pass_or_is_gone(make):
    x, calls = make(3), []

    def fn(x):
        calls.append(1)
        return x.exp().tanh()

    y = checkpoint(fn, x).sum()
    y.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * first)
    assert len(calls) == 2  # what was computed anew was kept, too
    with pytest.raises(GraphError, match="already freed"):
        y.backward()


def test_a_pass_through_one_part_leaves_the_other(make, device):
    x = make(3)
    y, z = checkpoint(lambda x: (x.exp().tanh(), x.tanh().exp()), x)
    (alone,) = mt.autograd.grad(y.sum(), x)
    (other,) = mt.autograd.grad(z.sum(), x)
    v = mt.tensor(x.numpy(), requires_grad=True, device=device)
    v.exp().tanh().sum().backward()
    np.testing.assert_array_equal(alone.numpy(), v.grad.numpy())
    w = mt.tensor(x.numpy(), requires_grad=True, device=device)
    w.tanh().exp().sum().backward()
    np.testing.assert_array_equal(other.numpy(), w.grad.numpy())


def test_a_buffer_made_inside_may_be_changed_inside(make, device):
    x = make(3)

    def fn(x):
        buffer = mt.zeros(3, dtype="float64", device=device)
        buffer.add_(2.0)
        y = x * buffer
        y.mul_(x)
        return y.exp()

    def run(how):
        return mt.autograd.grad(how(fn, x).sum(), [x])

    assert_same(*both_ways(run))


def test_batch_normalisation_in_training_is_refused(device):
    layer = mt.nn.BatchNorm1d(3).to(device)
    with pytest.raises(GraphError, match="fn changed a tensor that it did not create"):
        checkpoint(layer, mt.ones(5, 3, device=device))
    layer.eval()
    checkpoint(layer, mt.ones(5, 3, device=device)).sum().backward()
    assert layer.weight.grad is not None


def test_a_function_that_changes_its_argument_is_refused(make):
    x = make(3) * 1.0
    with pytest.raises(GraphError, match="fn changed a tensor that it did not create"):
        checkpoint(lambda x: x.add_(1.0).exp(), x)


def test_a_weight_changed_before_the_backward_pass_is_noticed(make):
    x, w = make(3), make(3)
    y = checkpoint(lambda x: (x + w).exp().tanh(), x)  # Add saves neither
    with mt.no_grad():
        w.add_(1.0)
    with pytest.raises(GraphError, match="was changed in place"):
        y.sum().backward()


def test_another_mode_in_the_backward_pass_is_noticed(make):
    layer, x = mt.nn.Dropout(0.5), make(30)
    y = checkpoint(lambda x: layer(x).exp(), x)
    layer.eval()
    with pytest.raises(GraphError, match="second call does not match"):
        y.sum().backward()


def test_a_backward_pass_inside_is_refused(make):
    def fn(x):
        return mt.autograd.grad(x.exp().sum(), x, create_graph=True)[0]

    with pytest.raises(GraphError, match="must not run a backward pass"):
        checkpoint(fn, make(3))


def test_a_seed_set_inside_is_refused(make):
    def fn(x):
        mt.manual_seed(9)
        return mt.nn.functional.dropout(x, 0.5)

    mt.manual_seed(5)
    with pytest.raises(GraphError, match="must not set the random seed"):
        checkpoint(fn, make(3))


def test_an_error_inside_leaves_nobody_listening(make):
    def fn(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        checkpoint(fn, make(3))
    assert state.listeners == ()


def test_one_tensor_given_several_times_stays_one(device):
    mt.manual_seed(0)
    layer = mt.nn.MultiheadAttention(6, 2, batch_first=True).double().to(device)
    x = mt.randn(2, 5, 6, dtype=mt.float64, device=device, requires_grad=True)
    grads = []
    for run in (lambda: layer(x, x, x), lambda: mt.checkpoint(layer, x, x, x)):
        run()[0].square().sum().backward()
        grads.append(x.grad.numpy())
        x.grad = None
    np.testing.assert_array_equal(*grads)
