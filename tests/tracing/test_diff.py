"""trace_diff finds planted mistakes at their step, and ignores harmless differences."""

import json
import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import Function


class GoodSoftmax(Function):
    @staticmethod
    def forward(ctx, x):
        exp = np.exp(x - x.max(axis=-1, keepdims=True))
        y = exp / exp.sum(axis=-1, keepdims=True)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return y * (grad_y - (grad_y * y).sum(axis=-1, keepdims=True))


class BadSoftmax(GoodSoftmax):
    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return y * grad_y


BadSoftmax.__name__ = GoodSoftmax.__name__  # a student's, of the same name


def run(bug=None, softmax=None, dtype=mt.float64):
    """One attention head and its loss; `bug` names a mistake."""
    mt.manual_seed(11)
    x = mt.randn(5, 7, dtype=dtype)
    names = ("w_q", "w_k", "w_v", "w_o")
    w = {name: mt.randn(7, 7, dtype=dtype, requires_grad=True) for name in names}
    causal = mt.ones(5, 5, dtype=mt.bool).tril()
    if bug == "other parameter":
        w["w_v"] = (w["w_v"].detach() + 0.1).requires_grad_()
    with mt.trace(title=bug or "reference") as t:
        query = x @ w["w_q"]
        key = x @ w["w_k"]
        value = x @ w["w_v"]
        if bug == "dtype":
            value = value.float()
        scores = query @ (query if bug == "query for key" else key).T
        if bug != "no scale":
            scores = scores / (7.0 if bug == "wrong scale" else math.sqrt(7))
        if bug == "mask multiplied":
            scores = scores * causal
        elif bug != "no mask":
            mask = causal.T if bug == "mask transposed" else causal
            scores = scores.masked_fill(~mask, -math.inf)
        if softmax is not None:
            weights = softmax.apply(scores)
        else:
            weights = scores.softmax(0 if bug == "wrong axis" else 1)
        if bug == "detached":
            weights = weights.detach()
        context = weights @ value.to(dtype)
        out = context if bug == "no residual" else x + context
        logits = (out if bug != "residual detached" else x + context.detach()) @ w["w_o"]
        loss = mt.nn.functional.cross_entropy(logits, mt.tensor([1, 0, 3, 6, 2]))
        if bug == "sum for mean":
            loss = loss * 5
        loss.backward()
    return t


def test_the_same_twice():
    found = mt.trace_diff(run(), run())
    assert found.same and found.kind is None
    assert len(found.pairs) == len(run().steps) and "agree" in found.report()


# bug: (kind, operation of mine, operation of the reference, words of the report)
BUGS = {
    "wrong scale": ("number", "Div", "Div", "input b"),
    "mask transposed": ("values", "Where", "Where", "causal.T"),
    "wrong axis": ("values", "Softmax", "Softmax", "axis: mine 0, reference 1"),
    "query for key": ("values", "Permute", "Permute", "The steps use different tensors"),
    "other parameter": ("values", "MatMul", "MatMul", "start from different values"),
    "no scale": ("structure", None, "Div", "mine       nothing"),
    "no mask": ("structure", None, "Where", "masked_fill"),
    "mask multiplied": ("structure", "Cast", "Where", "scores * causal"),
    "no residual": ("structure", None, "Add", "x + context"),
    "dtype": ("structure", "Cast", None, "value.float()"),
    "detached": ("missing", "MatMul", "MatMul", "is not in the graph"),
    "sum for mean": ("structure", "Mul", None, "loss * 5"),
}


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_mistake_is_found_where_it_is(bug):
    kind, mine, reference, words = BUGS[bug]
    found = mt.trace_diff(run(bug), run())
    ops = [None if step is None else step.op for step in (found.mine, found.reference)]
    assert (found.kind, *ops) == (kind, mine, reference)
    assert words in found.report()
    assert not found.same


def test_a_wrong_backward_is_found_in_the_backward():
    found = mt.trace_diff(run(softmax=BadSoftmax), run(softmax=GoodSoftmax))
    assert (found.kind, found.mine.kind, found.mine.op) == ("values", "backward", "GoodSoftmax")
    assert found.unlike.name.startswith("grad_x")
    assert "the difference arises in this backward" in found.report()
    line = BadSoftmax.backward.__code__.co_firstlineno + 1
    assert f"test_diff.py:{line}" in found.report()


def test_a_lost_contribution_is_found_where_the_sum_is_short():
    def twice(lose):
        mt.manual_seed(2)
        x = mt.randn(3, 5, dtype=mt.float64, requires_grad=True)
        with mt.trace() as t:
            y = x.exp()
            if lose:
                y.register_hook(lambda grad: mt.tensor(grad.numpy() / 2))
            (y + y.sin()).sum().backward()
        return t

    found = mt.trace_diff(twice(True), twice(False))
    assert (found.mine.kind, found.mine.op, found.unlike.name) == ("backward", "Exp", "grad_y")
    assert "different sum" in found.report()


def test_grad_that_was_not_reset_is_found_at_the_end():
    def step(reset):
        w = mt.tensor([1.5, 2.5], requires_grad=True)
        (w * w).sum().backward()
        if reset:
            w.grad = mt.zeros(2)
        with mt.trace() as t:
            (w * 3).sum().backward()
        return t

    found = mt.trace_diff(step(False), step(True))
    assert (found.mine.kind, found.unlike.name) == ("accumulate", "w.grad before")
    assert (found.unlike.mine, found.unlike.reference) == (5.0, 0.0)


def test_the_worst_place_and_both_values():
    def power(p):
        x = mt.tensor(np.array([[1.0, 2.0, 3.0], [0.5, 4.0, 1.5]]))
        with mt.trace() as t:
            x.exp() * mt.tensor(np.array([[1.0, 1.0, 1.0], [1.0, p, 1.0]]))
        return t

    unlike = mt.trace_diff(power(1.25), power(1.0)).unlike
    assert unlike.name == "input b" and unlike.index == (1, 1)
    assert (unlike.mine, unlike.reference, unlike.largest) == (1.25, 1.0, 0.25)
    assert (unlike.count, unlike.size) == (1, 6)


def test_nan_and_infinity_are_values():
    def log(x):
        with mt.trace() as t:
            mt.tensor(np.array([1.0, x])).log() * 1.0
        return t

    with np.errstate(all="ignore"):
        assert mt.trace_diff(log(-1.0), log(-1.0)).same
        assert mt.trace_diff(log(0.0), log(0.0)).same
        found = mt.trace_diff(log(0.0), log(1e-300))
    assert found.unlike.largest == 1e-300 or found.unlike.largest == math.inf
    json.dumps(found.document(), allow_nan=False)


def test_another_way_to_the_same_values_is_no_difference():
    def scaled(first):
        mt.manual_seed(2)
        q, k = (mt.randn(5, 7, dtype=mt.float64, requires_grad=True) for _ in range(2))
        with mt.trace() as t:
            scores = (q / 3) @ k.T if first else (q @ k.T) / 3
            scores.softmax(1).square().sum().backward()
        return t

    found = mt.trace_diff(scaled(True), scaled(False))
    assert found.same and len(found.gaps) > 1 and all(gap.harmless for gap in found.gaps)
    differing = [pair[0].op for pair in found.pairs if pair[2]]
    assert differing == ["MatMul", "MatMul"]  # forward and backward
    states = [state for *_, state in found.document()["pairs"] if state != "same"]
    assert all("agree again" in state for state in states)
    assert "a different way to compute the same values" in found.report()


def test_a_mistake_after_another_way_is_found():
    def scaled(first, axis):
        mt.manual_seed(2)
        q, k = (mt.randn(5, 7, dtype=mt.float64, requires_grad=True) for _ in range(2))
        with mt.trace() as t:
            scores = (q / 3) @ k.T if first else (q @ k.T) / 3
            scores.softmax(axis).square().sum().backward()
        return t

    found = mt.trace_diff(scaled(True, 0), scaled(False, 1))
    assert (found.kind, found.mine.op, found.mine.kind) == ("values", "Softmax", "forward")
    assert "agree again after these steps" in found.report()


def test_rounding_is_no_difference_and_tolerances_decide():
    def exp(factor):
        x = mt.tensor([[1.0, 2.0, 3.0], [0.5, 4.0, 1.5]]) * factor
        with mt.trace() as t:
            x.exp().sum()
        return t

    assert mt.trace_diff(exp(1 + 1e-6), exp(1.0)).same
    assert mt.trace_diff(exp(1 + 1e-6), exp(1.0), rtol=1e-8, atol=0.0).mine.op == "Exp"
    assert mt.trace_diff(exp(1 + 1e-3), exp(1.0)).unlike.name == "input x (x)"
    assert mt.trace_diff(exp(1 + 1e-3), exp(1.0), rtol=1e-2).same


def test_shapes_and_dtypes_differ_before_values():
    def total(keepdims, dtype=mt.float64):
        x = mt.ones(3, 5, dtype=dtype)
        with mt.trace() as t:
            (x * 2).sum(1, keepdim=keepdims)
        return t

    found = mt.trace_diff(total(True), total(False))
    assert (found.kind, found.unlike.mine, found.unlike.reference) == ("shape", (3, 1), (3,))
    assert "keepdims: mine True, reference False" in found.report()
    found = mt.trace_diff(total(True, mt.float32), total(True))
    assert (found.kind, found.mine.number) == ("dtype", 1)


def test_modules_align_the_same_model():
    def model(seed):
        mt.manual_seed(3)
        net = mt.models.GPT(13, 11, 10, 2, 3).to(mt.float64)
        if seed:
            net.blocks[1].feed_forward.linear1.weight.data[0, 0] = 7.0
        with mt.trace() as t:
            net(mt.tensor([[3, 1, 4, 1, 5]])).square().mean().backward()
        return t

    found = mt.trace_diff(model(True), model(False))
    assert found.mine.module.path == "blocks.1.feed_forward.linear1"
    assert found.unlike.name == "input weight (blocks.1.feed_forward.linear1.weight)"
    assert (found.unlike.index, found.unlike.mine) == ((0, 0), 7.0)
    assert "(blocks.1.feed_forward.linear1)" in found.report()


def test_a_layer_that_is_not_called_is_named():
    def model(skip):
        mt.manual_seed(3)
        net = mt.models.GPT(13, 11, 10, 2, 3).to(mt.float64)
        if skip:
            net.blocks[1].norm2.forward = lambda x: x
        with mt.trace() as t:
            net(mt.tensor([[3, 1, 4, 1, 5]])).square().mean().backward()
        return t

    found = mt.trace_diff(model(True), model(False))
    assert (found.kind, found.mine) == ("structure", None)
    assert (found.reference.op, found.reference.module.path) == ("LayerNorm", "blocks.1.norm2")


@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_a_block_that_is_not_called_is_named(skipped):
    def model(skip):
        mt.manual_seed(3)
        net = mt.models.GPT(13, 11, 10, 2, 3).to(mt.float64)
        if skip:
            net.blocks[skipped].forward = lambda x, *more: x
        with mt.trace() as t:
            net(mt.tensor([[3, 1, 4, 1, 5]])).square().mean()
        return t

    (gap,) = mt.trace_diff(model(True), model(False)).gaps
    assert gap.mine == [] and len(gap.reference) == 25
    paths = {step.module.path for step in gap.reference}
    assert all(path.startswith(f"blocks.{skipped}") for path in paths)


def test_the_document():
    found = mt.trace_diff(run("wrong axis"), run())
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["mine_step"] == found.mine.number
    assert document["mine"]["steps"][document["mine_step"] - 1]["op"] == "Softmax"
    states = [state for *_, state in document["pairs"]]
    first = next(i for i, state in enumerate(states) if state != "same")
    assert document["pairs"][first][0] == document["mine_step"] and document["kind"] == "values"
    assert document["report"] == found.report() and document["count"] == found.unlike.count


def test_the_numbers_of_a_report_agree():
    """The step's number is that of the table; so many steps are before it, and so many agree."""

    def scores(scale_first, axis):
        mt.manual_seed(5)
        query, key = mt.randn(3, 5, dtype=mt.float64), mt.randn(7, 5, dtype=mt.float64)
        with mt.trace() as t:
            key = key.exp()
            found = (query / 3) @ key.T if scale_first else (query @ key.T) / 3
            found.softmax(axis)
        return t

    def first_line(mine, reference):
        return mt.trace_diff(scores(*mine), scores(*reference)).report().splitlines()[0]

    assert first_line((False, 0), (False, 1)) == (
        "The recordings differ from forward step 5 on: Softmax. The 4 steps before it agree."
    )
    assert first_line((True, 0), (False, 1)).endswith(
        " 5 on: Softmax. 2 of the 4 steps before it agree."
    )
    assert first_line((True, 1), (True, 1)) == "The recordings agree: all 5 steps are equal."
    assert first_line((True, 1), (False, 1)) == (
        "The recordings agree: 3 steps are equal, of 5 steps in mine and 5 in the reference."
    )
