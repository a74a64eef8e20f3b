"""A recording contains what ran: values, lines, modules, sums of gradients, shared memory."""

import json
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import minitorch_attn as mt
from minitorch_attn.autograd import modes
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.tracing.steps import Entry


def ops(t, kind="forward"):
    return [step.op for step in t.steps if step.kind == kind]


def additions(t):
    return [(step, addition) for step in t.steps for addition in step.added]


def model(device="cpu"):
    """A causal Transformer of two blocks with tied weights, in float64."""
    mt.manual_seed(7)
    net = mt.models.GPT(
        vocab_size=13, context_length=11, embed_dim=10, num_heads=2, num_layers=2, ff_dim=17
    )
    return net.double().to(device)


def loss_of(model):
    device = next(model.parameters()).device
    ids = mt.tensor([[3, 1, 4, 1, 5, 9, 2], [7, 1, 8, 2, 8, 1, 8]], device=device)
    logits = model(ids[:, :-1])
    return mt.nn.functional.cross_entropy(logits.reshape(-1, 13), ids[:, 1:].reshape(-1))


@pytest.fixture(params=[False, True], ids=["as it is", "expanded"])
def recorded(request, device):
    net = model(device)
    with mt.trace(expand=request.param) as t:
        loss = loss_of(net)
        loss.backward()
    return net, loss, t


def again(step, device):
    """The operation of a step, run once more on the inputs that were recorded."""
    inputs = [
        mt.tensor(value.values.array, requires_grad=value.requires_grad, device=device)
        if isinstance(value, Entry)
        else value
        for value in step.inputs
    ]
    outputs = step.function.apply(*inputs, **step.settings)
    return inputs, outputs if type(outputs) is tuple else (outputs,)


def test_every_step_replays_to_what_was_recorded(recorded, device):
    _, _, t = recorded
    forward = {step.number: step for step in t.steps if step.kind == "forward"}
    backward = {step.of: step for step in t.steps if step.kind == "backward"}
    assert len(forward) > 50 and len(backward) > 50
    for number, step in forward.items():
        inputs, outputs = again(step, device)
        for output, entry in zip(outputs, step.outputs, strict=True):
            assert_array_equal(output.numpy(), entry.values.array)
        if number not in backward:
            continue
        grads = [mt.tensor(entry.values.array, device=device) for entry in backward[number].inputs]
        mt.autograd.backward(list(outputs), grads)
        for x, entry in zip(inputs, backward[number].outputs, strict=True):
            if entry is not None:
                np.testing.assert_allclose(x.grad.numpy(), entry.values.array, rtol=1e-12)


def test_a_recording_of_plain_operations_changes_no_bit():
    def run():
        mt.manual_seed(3)
        x = mt.randn(5, 7, dtype=mt.float64, requires_grad=True)
        layer = mt.nn.Sequential(mt.nn.Linear(7, 11), mt.nn.GELU(), mt.nn.LayerNorm(11)).double()
        y = mt.dropout(layer(x), 0.4).square().mean()
        y.backward()
        return [y.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in layer.parameters())]

    plain = run()
    with mt.trace() as t:
        recorded = run()
    assert len(t.steps) > 10
    for a, b in zip(plain, recorded, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("tokens", [6, 97])
def test_recorded_attention_is_the_composed_one_to_the_last_bit(causal, dropout, tokens):
    def run(attend):
        mt.manual_seed(5)
        inputs = [mt.randn(2, 3, tokens, 5, dtype=mt.float64, requires_grad=True) for _ in range(3)]
        y = attend(*inputs, None, dropout, causal)
        y.sin().sum().backward()
        return [y.numpy(), *(x.grad.numpy() for x in inputs), mt.rand(3).numpy()]

    composed = run(mt.ops.attention_composed)
    fused = run(mt.nn.functional.scaled_dot_product_attention)
    with mt.trace() as t:
        recorded = run(mt.nn.functional.scaled_dot_product_attention)
    assert "MatMul" in ops(t) and "Attention" not in ops(t)
    for a, b, c in zip(composed, recorded, fused, strict=True):
        assert_array_equal(a, b)
        np.testing.assert_allclose(b, c, rtol=1e-8, atol=1e-12)  # the fused one rounds elsewhere


def test_expanded_steps_give_the_same_loss_and_gradients(recorded, device):
    net, loss, t = recorded
    plain = model(device)
    wanted = loss_of(plain)
    wanted.backward()
    np.testing.assert_allclose(loss.item(), wanted.item(), rtol=1e-12)
    for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-12, err_msg=name)
    assert ("LayerNorm" in ops(t)) == (not t.expand)
    assert ("Rsqrt" in ops(t)) == t.expand


def test_expand_takes_names():
    with mt.trace(expand=("LayerNorm",)) as t:
        loss_of(model())
    assert "LayerNorm" not in ops(t) and "CrossEntropy" in ops(t)
    with pytest.raises(ArgumentError, match=r"(?s)'Softmax'.*CrossEntropy, .*LayerNorm"):
        mt.trace(expand=("LayerNorm", "Softmax"))


def test_before_and_contribution_make_after(recorded):
    net, _, t = recorded
    found = additions(t)
    sums = [(step, a) for step, a in found if a.before is not None]
    assert len(sums) >= 5  # the residual paths, query = key = value, the tied embedding
    for step, a in found:
        before = 0.0 if a.before is None else a.before.values.array
        assert_array_equal(before + a.contribution.values.array, a.after.values.array)
        assert step.notes == []
    last = {a.tensor.name: a.after.values.array for s, a in found if s.kind == "accumulate"}
    names = dict(net.named_parameters())
    assert sorted(last) == sorted(names)
    for name, after in last.items():
        assert_array_equal(after, names[name].grad.numpy())


def test_a_tensor_used_three_times_gathers_three_gradients(make):
    x = make(3, 5)
    with mt.trace() as t:
        y = x.exp()
        (y * 2 + y.sin() + y).sum().backward()
    of_y = [a for _, a in additions(t) if a.tensor is not None and a.tensor.variable == "y"]
    assert [a.before is None for a in of_y] == [True, False, False]
    assert of_y[1].before is of_y[0].after and of_y[2].before is of_y[1].after
    exp = t.steps[-2]
    assert (exp.op, exp.kind) == ("Exp", "backward")
    assert exp.inputs == [of_y[2].after]  # what Exp.backward is given is the sum
    assert {a.from_step for a in of_y} == {1}
    values = np.exp(x.numpy())
    np.testing.assert_allclose(exp.inputs[0].values.array, 3 + np.cos(values))


def test_a_second_pass_adds_to_grad(make):
    x = make(3, 5)
    (x * 3).sum().backward()
    with mt.trace() as t:
        (x * 2).sum().backward()
    (addition,) = t.steps[-1].added
    values = [e.values.array for e in (addition.before, addition.contribution, addition.after)]
    for array, wanted in zip(values, (3.0, 2.0, 5.0), strict=True):
        assert_array_equal(array, np.full((3, 5), wanted))
    assert t.steps[-1].notes == []


def test_a_grad_that_somebody_changes_as_it_is_kept_is_noted(make):
    x = make(3, 5)
    x.register_post_accumulate_grad_hook(lambda x: x.grad.zero_())
    with mt.trace() as t:
        (x * 2).sum().backward()
    assert "x.grad is not its earlier value plus" in t.steps[-1].notes[0]


def test_a_gradient_that_a_hook_replaced_is_noted(make):
    x = make(3)
    with mt.trace() as t:
        y = x.exp()
        y.register_hook(lambda grad: grad * 10)
        y.sum().backward()
    (exp,) = [step for step in t.steps if step.op == "Exp" and step.kind == "backward"]
    assert "not the sum" in exp.notes[0]
    assert_array_equal(exp.inputs[0].values.array, np.full(3, 10.0))


def test_a_backward_that_writes_into_its_gradient_is_noted(make):
    class Careless(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, grad_y):
            grad_y *= 3  # the other summand is given the same array
            return grad_y

    x, z = make(3), make(3)
    with mt.trace() as t:
        u = z.exp()
        (u + Careless.apply(x)).exp().sum().backward()
    right = np.exp(np.exp(z.numpy()) + 3 * x.numpy()) * np.exp(z.numpy())
    np.testing.assert_allclose(z.grad.numpy(), 3 * right)  # which is what the note is about
    (noted,) = [step for step in t.steps if step.notes]
    assert (noted.op, noted.of) == ("Exp", 1) and "memory was changed in place" in noted.notes[0]


def test_modules_have_the_paths_of_the_outermost_one(recorded):
    net, _, t = recorded
    paths = dict(net.named_modules())
    found = {str(module.path): module for module in t.modules}
    assert set(found) <= set(paths)
    attention = found["blocks.1.attention"]
    assert (attention.name, attention.parent.path) == ("Attention", "blocks.1")
    assert found[""].parent is None
    softmax = [step for step in t.steps if step.op == "MaskedSoftmax"]
    where = [step.module.path for step in softmax]
    assert where == [f"blocks.{i}.attention" for i in (0, 1, 1, 0)]  # forward, then backward


def test_lines_are_those_of_the_mathematics(make, device):
    x = make(3, 5)
    with mt.trace(expand=True) as t:
        y = x.exp().softmax(1)  # this line
        mt.nn.functional.scaled_dot_product_attention(y, y, y)
        mt.nn.LayerNorm(5).double().to(device)(y)
    exp, softmax = t.steps[:2]
    assert exp.source.path == __file__ and "# this line" in exp.source.source
    assert exp.source.text[1].strip() == exp.source.source and "with mt.trace" in exp.source.text[0]
    assert softmax.source.line == exp.source.line
    lines = [step.source.source for step in t.steps if step.part_of is not None]
    assert any(line.startswith("scores = (query @ key") for line in lines)
    assert any(line.startswith("centered = x - x.mean") for line in lines)
    inside = next(step for step in t.steps if step.op == "Rsqrt")
    assert inside.source.file == "minitorch_attn/ops/layer_norm.py"
    assert inside.called_at.path == __file__


def test_tensors_are_called_what_the_code_calls_them():
    net = model()
    with mt.trace() as t:
        loss_of(net)
    names = {entry.name for entry in t.tensors}
    assert {"token_embedding.weight", "blocks.1.norm2.bias"} <= names
    roles = {entry.name: entry.role for entry in t.tensors}
    assert roles["token_embedding.weight"] == "parameter"
    variables = {entry.variable for entry in t.tensors}
    assert {"ids", "logits", "scores", "weights"} <= variables


def test_views_share_memory_and_copies_do_not(make):
    x = make(3, 5)
    with mt.trace() as t:
        a = x.transpose(0, 1)
        b = a[1:]
        c = a.clone()
    view, part, copy = t.steps
    assert (view.aliases, part.aliases, copy.aliases) == ([(0, 0)], [(0, 0)], [])
    assert part.outputs[0].shares == [view.outputs[0].number, view.inputs[0].number]
    assert copy.outputs[0].shares == []
    assert mt.trace is not None and (b.shape, c.shape) == ((4, 3), (5, 3))


def test_a_change_in_place_makes_another_tensor(make):
    x = make(3, requires_grad=False)
    before = x.numpy().copy()
    with mt.trace() as t:
        x.exp()
        x.mul_(2)
        x.exp()
    first, *_, last = [step.inputs[0] for step in t.steps if step.op == "Exp"]
    assert last is not first and last.was == first.number
    assert_array_equal(first.values.array, before)
    assert_array_equal(last.values.array, before * 2)


def test_second_derivatives_are_recorded_inside_the_backward(make):
    x = make(3)
    with mt.trace() as t:
        (slope,) = mt.autograd.grad((x**3).sum(), x, create_graph=True)
        slope.sum().backward()
    inside = [step for step in t.steps if step.inside is not None]
    assert inside and {t.steps[step.inside - 1].kind for step in inside} == {"backward"}
    np.testing.assert_allclose(t.steps[-1].added[0].after.values.array, 6 * x.numpy())
    assert inside[0].source.file.startswith("minitorch_attn/ops/")


def test_a_checkpoint_computes_inside_the_backward(make, device):
    x = make(2, 5, 3)
    layer = mt.nn.TransformerEncoderLayer(3, 1, 7, dropout=0.2, batch_first=True)
    layer.double().to(device)
    with mt.trace() as t:
        mt.checkpoint(layer, x).sum().backward()
    replayed = [step.op for step in t.steps if step.inside is not None]
    forward = [s.op for s in t.steps if s.kind == "forward" and s.inside is None]
    assert "MaskedSoftmax" in replayed and replayed == forward[: len(replayed)]
    assert [n for step in t.steps for n in step.notes] == []


def test_gradients_of_chosen_tensors_are_recorded(make):
    x, w = make(3, 5), make(5)
    with mt.trace() as t:
        y = x * w
        mt.autograd.grad(y.exp().sum(), w, retain_graph=True)
        (x * w).sum().backward(inputs=[w])
        y.sum().backward(inputs=[w])  # nothing of the first passes is added to what arrives here
    of_x = [a for step, a in additions(t) if a.tensor.variable == "x"]
    assert len(of_x) == 3 and all(a.before is None for a in of_x)
    assert [step.added[0].tensor.variable for step in t.steps if step.kind == "accumulate"] == [
        "w"
    ] * 2
    assert [note for step in t.steps for note in step.notes] == []


def test_a_full_recording_says_so_and_stops(make):
    x = make(3)
    with mt.trace(max_steps=5) as t:
        y = x
        for _ in range(7):
            y = y.exp().log()
        y.sum().backward()
    assert len(t.steps) == 5 and t.skipped == 14 + 1 + 15 + 1 - 5
    assert "5 steps are kept, 26 more ran" in t.message and "max_steps" in t.message
    assert t.message in t.table(width=500)


def test_memory_is_bounded():
    x = mt.ones(700, 1000)
    with mt.trace(max_bytes=2**20) as t:
        for _ in range(30):
            x = x + 1
    assert t.tensors.nbytes < 2**20 + 30 * 20_000
    assert t.steps[0].outputs[0].values.mean == 2.0  # statistics are of the whole
    assert t.steps[-1].outputs[0].values.shape == (700, 1000)
    assert t.steps[-1].outputs[0].values.array.size <= 4096


def test_it_holds_no_tensor_alive():
    import weakref

    with mt.trace() as t:
        x = mt.ones(3, 5).exp()
        alive = weakref.ref(x.array)
        del x
        assert alive() is None
    assert len(t.steps) == 1


def test_an_error_ends_it_with_a_message(make):
    x = make(3, 5)
    with pytest.raises(ShapeError), mt.trace() as t:
        y = x.exp()
        y @ y
    assert ops(t) == ["Exp"]
    assert (
        t.message.startswith("the block ended with ShapeError") and "test_record.py:" in t.message
    )
    assert modes.watchers == 0 and modes.state.take_apart is None and modes.state.listeners == ()


def test_only_its_own_thread_is_recorded(make):
    x = make(3)
    with mt.trace() as t:
        thread = threading.Thread(target=lambda: x.sin())
        thread.start()
        thread.join()
        x.exp()
    assert ops(t) == ["Exp"]


def test_recordings_may_be_nested(make, device):
    x = make(3, 5)
    layer = mt.nn.LayerNorm(5).double().to(device)
    with mt.trace(expand=True) as outer:
        with mt.trace() as inner:
            layer(x)
        layer(x)
    assert ops(inner) == ["LayerNorm"]
    assert ops(outer)[0] == "LayerNorm" and "Rsqrt" in ops(outer)


def test_nothing_is_left_when_it_is_off(make):
    with mt.trace():
        make(3).exp()
    assert modes.watchers == 0 and modes.state.take_apart is None
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_filename))
    try:
        mt.nn.functional.scaled_dot_product_attention(*(mt.ones(2, 3, 5),) * 3)
    finally:
        sys.setprofile(None)
    assert calls and not any("minitorch_attn/tracing" in name for name in calls)


def test_a_matrix_still_has_a_trace(make):
    x = make(3, 5)
    np.testing.assert_allclose(mt.trace(x).item(), np.trace(x.numpy()))
    np.testing.assert_allclose(mt.trace(input=x).item(), np.trace(x.numpy()))
    with pytest.raises(TypeError):
        mt.trace(unheard_of=1)


def test_the_documents_of_all_models_are_json(recorded):
    _, _, t = recorded
    assert json.loads(json.dumps(t.document(), allow_nan=False))["version"] == 2
