"""The mistakes people make in attention, planted one by one: the check must see each of them.

The numbers are those of a list of 25 mistakes. 1 to 5 are mistakes of the forward pass with a
backward that fits: no gradient check can see them, properties can. 6 to 25 are mistakes of the
backward pass, each planted in one operation of a shifted-window attention block.
"""

import re

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import backend
from minitorch_attn.autograd import Function, gradcheck_report
from minitorch_attn.backend import array_module
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.gradcheck.presets import attention_case
from minitorch_attn.ops.softmax import Softmax

# The operations of the block; each takes the name of a mistake, or None.


class Norm(Function):
    """Layer norm over the last axis."""

    @staticmethod
    def forward(ctx, x, gamma, beta, *, bug=None):
        ctx.bug = bug
        ctx.save(x, gamma)
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / (centred * centred).mean(axis=-1, keepdims=True) ** 0.5 * gamma + beta

    @staticmethod
    def backward(ctx, grad_y):
        x, gamma = ctx.saved
        centred = x - x.mean(axis=-1, keepdims=True)
        inverse = (centred * centred).mean(axis=-1, keepdims=True) ** -0.5
        unit = centred * inverse
        grad_unit = grad_y if ctx.bug == "24 no gamma" else grad_y * gamma
        count = 1 if ctx.bug == "24 sums for means" else x.shape[-1]
        mean = grad_unit.sum(axis=-1, keepdims=True) / count
        slope = (grad_unit * unit).sum(axis=-1, keepdims=True) / count
        if ctx.bug == "24 no mean term":
            mean = mean * 0
        if ctx.bug == "24 no variance term":
            slope = slope * 0
        grad_x = (grad_unit - mean - unit * slope) * inverse
        return grad_x, (grad_y * unit).sum(axis=(0, 1)), grad_y.sum(axis=(0, 1))


class Shift(Function):
    """The sequence rolled by `by`."""

    @staticmethod
    def forward(ctx, x, *, by, bug=None):
        ctx.by, ctx.bug = by, bug
        return array_module(x).roll(x, by, 1)

    @staticmethod
    def backward(ctx, grad_y):
        by = {"23 same direction": ctx.by, "23 not at all": 0}.get(ctx.bug, -ctx.by)
        return array_module(grad_y).roll(grad_y, by, 1)


class Project(Function):
    """Queries, keys and values of all heads: h used three times."""

    @staticmethod
    def forward(ctx, h, weight, bias, *, heads, bug=None):
        ctx.heads, ctx.bug = heads, bug
        ctx.save(h, weight)
        items, tokens, width = h.shape
        out = (h @ weight + bias).reshape(items, tokens, 3, heads, width // heads)
        return tuple(out[:, :, i].swapaxes(1, 2) for i in range(3))  # (item, head, token, dim)

    @staticmethod
    def backward(ctx, *grads):
        h, weight = ctx.saved
        width = h.shape[-1]
        grad_h, grad_weight, grad_bias = h * 0, weight * 0, weight[0] * 0
        for i, grad in enumerate(grads):
            flat = grad.swapaxes(1, 2).reshape(h.shape)
            part = slice(i * width, (i + 1) * width)
            share = flat @ weight[:, part].swapaxes(0, 1)
            grad_h = share if ctx.bug == "16 = for +=" else grad_h + share
            grad_weight[:, part] = (h.swapaxes(1, 2) @ flat).sum(axis=0)
            grad_bias[part] = flat.sum(axis=(0, 1))
        return grad_h, grad_weight, grad_bias


class Scores(Function):
    """q k^T / sqrt(d)."""

    @staticmethod
    def forward(ctx, query, key, *, bug=None):
        ctx.bug = bug
        ctx.save(query, key)
        return query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5

    @staticmethod
    def backward(ctx, grad):
        query, key = ctx.saved
        power = {"7 no scale": 0, "8 scale twice": 1}.get(ctx.bug, 0.5)
        grad = grad / query.shape[-1] ** power
        grad_query = grad @ key
        grad_key = (grad if ctx.bug == "13 dS not transposed" else grad.swapaxes(-1, -2)) @ query
        if ctx.bug == "14 swapped":
            return grad_key, grad_query
        return grad_query, grad_key


class Lookup(Function):
    """bias[h, i, j] = table[index[i, j], h]."""

    @staticmethod
    def forward(ctx, table, index, *, bug=None):
        ctx.bug = bug
        ctx.constants(index)
        return table[index].swapaxes(0, 2).swapaxes(1, 2)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.constant
        rows = grad.swapaxes(1, 2).swapaxes(0, 2)  # (query, key, head)
        grad_table = array_module(grad).zeros(ctx.shapes[0], dtype=grad.dtype)
        if ctx.bug == "21 fancy +=":
            host, place = backend.to_host(grad_table), backend.to_host(index)
            host[place] += backend.to_host(rows)
            return backend.like(host, grad), None
        if ctx.bug == "22 index transposed":
            index = index.swapaxes(0, 1)
        return backend.scatter_add(grad_table, index, rows), None


class PairBias(Function):
    """One bias for all items."""

    @staticmethod
    def forward(ctx, scores, bias, *, bug=None):
        ctx.bug = bug
        return scores + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, grad[0] if ctx.bug == "20 not summed" else grad.sum(axis=0)


class Weights(Function):
    """Softmax over the keys that the mask allows."""

    @staticmethod
    def forward(ctx, scores, mask, *, bug=None):
        xp = array_module(scores)
        ctx.bug = bug
        ctx.constants(mask)
        if bug == "6 mask after softmax":
            exp = xp.exp(scores - scores.max(axis=-1, keepdims=True))
            weights = exp / exp.sum(axis=-1, keepdims=True) * mask
        else:
            exp = xp.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
            weights = exp / exp.sum(axis=-1, keepdims=True)
        ctx.save(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved
        (mask,) = ctx.constant
        weighted = grad * weights
        if ctx.bug == "9 diagonal only":
            return weighted * (1 - weights), None
        if ctx.bug == "11 no sum":
            return weighted, None
        axis = -2 if ctx.bug == "10 wrong axis" else -1
        result = weights * (grad - weighted.sum(axis=axis, keepdims=True))
        if ctx.bug == "25 leak":
            result = array_module(grad).where(mask, result, grad)
        return result, None


class Mix(Function):
    """weights @ value."""

    @staticmethod
    def forward(ctx, weights, value, *, bug=None):
        ctx.bug = bug
        ctx.save(weights, value)
        return weights @ value

    @staticmethod
    def backward(ctx, grad):
        weights, value = ctx.saved
        turned = weights if ctx.bug == "12 P for P^T" else weights.swapaxes(-1, -2)
        return grad @ value.swapaxes(-1, -2), turned @ grad


class Merge(Function):
    """The heads side by side: (item, head, token, dim) -> (item, token, head * dim)."""

    @staticmethod
    def forward(ctx, x, *, bug=None):
        ctx.bug = bug
        items, heads, tokens, dim = x.shape
        return x.swapaxes(1, 2).reshape(items, tokens, heads * dim)

    @staticmethod
    def backward(ctx, grad):
        items, heads, tokens, dim = ctx.shapes[0]
        if ctx.bug == "15 no transpose":
            return grad.reshape(items, heads, tokens, dim)
        return grad.reshape(items, tokens, heads, dim).swapaxes(1, 2)


class Halve(Function):
    """y = x / 2."""

    @staticmethod
    def forward(ctx, x, *, bug=None):
        ctx.bug = bug
        return x * 0.5

    @staticmethod
    def backward(ctx, grad):
        if ctx.bug == "19 in place":
            grad *= 0.5
            return grad
        return grad * 0.5


class Residual(Function):
    """x + branch. Both inputs receive the same array."""

    @staticmethod
    def forward(ctx, x, branch, *, bug=None):
        ctx.bug = bug
        return x + branch

    @staticmethod
    def backward(ctx, grad):
        grad_x = {"17 counted twice": grad * 2, "18 forgotten": grad * 0}.get(ctx.bug, grad)
        return grad_x, grad


NAMES = "x gamma beta weight_qkv bias_qkv weight_out bias_out table".split()


def block(case, bug=None, place=None, shift_bug_at=(0, 1)):
    """x + attention in shifted windows of norm(x), as a function of the tensors of `case`."""

    def at(name):
        return bug if name == place else None

    def shift(h, by, number):
        return Shift.apply(h, by=by, bug=at("Shift") if number in shift_bug_at else None)

    allowed = mt.tile(case.mask, (case.batch, 1, 1)).unsqueeze(1)  # (item, 1, query, key)

    def run(x, gamma, beta, weight_qkv, bias_qkv, weight_out, bias_out, table):
        h = Norm.apply(x, gamma, beta, bug=at("Norm"))
        h = shift(h, -case.shift, 0)
        h = h.reshape(case.batch * case.windows, case.tokens, -1)
        query, key, value = Project.apply(
            h, weight_qkv, bias_qkv, heads=case.heads, bug=at("Project")
        )
        scores = Scores.apply(query, key, bug=at("Scores"))
        bias = Lookup.apply(table, case.index, bug=at("Lookup"))
        scores = PairBias.apply(scores, bias, bug=at("PairBias"))
        weights = Weights.apply(scores, allowed, bug=at("Weights"))
        context = Mix.apply(weights, value, bug=at("Mix"))
        out = Merge.apply(context, bug=at("Merge")) @ weight_out + bias_out
        out = shift(out.reshape(x.shape), case.shift, 1)
        return Residual.apply(x, Halve.apply(out, bug=at("Halve")), bug=at("Residual"))

    return run


def check(case, *where, **options):
    """The report on the block with a mistake, on all its inputs and parameters."""
    fn = block(case, *where[:2], **dict(where[2:]))
    return gradcheck_report(fn, case.block_inputs, names=NAMES, fast=True, detail=100, **options)


@pytest.fixture
def case(device):
    return attention_case(device=device)


def test_the_block_is_right_and_fills_its_preset(case):
    assert gradcheck_report(block(case), case.block_inputs).ok
    gradients = gradcheck_report(block(case), case.block_inputs).items
    for item in gradients:  # nothing is checked against zeros
        assert np.linalg.norm(item.numeric_grad) > 0.1, item.name
    assert not bool(case.mask.all()) and bool(case.mask.any(-1).all())


# The mistake, the operation at fault, and what the report has to say about it.
BUGS = [
    ("6 mask after softmax", "Weights", "exactly zero although the output depends on them"),
    ("7 no scale", "Scores", r"sqrt\(4\), where 4 is the size of axis 3 of query: .* missing"),
    ("8 scale twice", "Scores", r"the factor 1/sqrt\(4\) is applied twice"),
    ("9 diagonal only", "Weights", "only the diagonal of the Jacobian is used"),
    ("10 wrong axis", "Weights", "runs over axis 2, but must run over axis 3"),
    ("11 no sum", "Weights", "along axis 3 the error is a multiple of the output"),
    ("12 P for P^T", "Mix", "W g instead of W\\^T g"),
    ("13 dS not transposed", "Scores", "axes 2 and 3 of the incoming gradient were swapped"),
    ("14 swapped", "Scores", "this is the gradient of key"),
    ("15 no transpose", "Merge", "a reshape had swapped axes 1 and 2 .* a transpose is missing"),
    ("16 = for +=", "Project", "only output 2 of the 3 outputs counts: .* not assigned with `=`"),
    ("17 counted twice", "Residual", "2 times the correct one, .* a term is counted twice"),
    ("18 forgotten", "Residual", "zero at every entry"),
    ("19 in place", "Halve", "a backward changes its incoming gradient"),
    ("20 not summed", "PairBias", "only item 0 along axis 0 of the output .* not summed"),
    ("21 fancy +=", "Lookup", "`\\+=` with a repeated index keeps only the last addition"),
    ("22 index transposed", "Lookup", "reverse order along axis 0|numbers in another order"),
    ("23 same direction", "Shift", r"rolled by [+-]4 along axis 1 .* leaves a shift of 2s"),
    ("23 not at all", "Shift", r"rolled by [+-]2 along axis 1"),
    ("24 no mean term", "Norm", "the error is the same all along axis 2"),
    ("24 no variance term", "Norm", "the terms of the mean and the variance"),
    ("24 no gamma", "Norm", "the factor `gamma` is missing"),
    ("24 sums for means", "Norm", "the terms of the mean and the variance"),
    ("25 leak", "Weights", "passes a gradient to values that the forward does not use"),
]


@pytest.mark.parametrize(("bug", "place", "words"), BUGS, ids=[b[0] for b in BUGS])
def test_every_mistake_of_a_backward_is_caught_and_traced(bug, place, words, case):
    report = check(case, bug, place)
    wrong = [item for item in report.items if not item.ok]
    assert wrong and max(item.error for item in wrong) > 1e-3
    assert report.fault.step.op == place
    lines = str(report)
    assert "test_planted_bugs.py" in lines and f"{place}.apply(" in lines
    text = " ".join(hint.text for hint in report.fault.hints)
    assert re.search(words, text), text


def test_a_residual_inside_one_function(device):
    """17 and 18 once more, where the residual is not an operation of its own."""

    class FeedForward(Function):
        @staticmethod
        def forward(ctx, x, weight, *, copies):
            ctx.copies = copies
            ctx.save(x, weight)
            return x + array_module(x).tanh(x @ weight)

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved
            slope = grad * (1 - array_module(x).tanh(x @ weight) ** 2)
            grad_weight = (x.swapaxes(-1, -2) @ slope).sum(axis=0)
            return ctx.copies * grad + slope @ weight.swapaxes(0, 1), grad_weight

    case = attention_case(device=device)
    inputs = (case.x, case.weight_out)

    def report(copies):
        return gradcheck_report(lambda x, w: FeedForward.apply(x, w, copies=copies), inputs)

    assert report(1).ok
    assert "residual path is counted twice" in str(report(2))
    assert "the residual path is missing" in " ".join(str(report(0)).split())


# What hides them: the reasons for the choices of the preset.


def ones(fn):
    return lambda *inputs: fn(*inputs).sum()


def test_one_item_hides_a_missing_sum(device):
    alone = attention_case(batch=1, windows=1, shift=0, device=device)
    assert check(alone, "20 not summed", "PairBias").ok


def test_one_head_hides_a_wrong_merge(device):
    assert check(attention_case(heads=1, device=device), "15 no transpose", "Merge").ok


def test_no_shift_hides_a_wrong_shift_and_every_mistake_of_the_mask(device):
    still = attention_case(shift=0, device=device)
    for bug, place in [
        ("23 same direction", "Shift"),
        ("23 not at all", "Shift"),
        ("6 mask after softmax", "Weights"),
        ("25 leak", "Weights"),
    ]:
        assert check(still, bug, place).ok


def test_a_gain_of_one_hides_a_missing_gain(case):
    case.gamma = mt.ones_like(case.gamma, requires_grad=True)
    assert check(case, "24 no gamma", "Norm").ok


def test_the_sum_as_a_loss_hides_a_shift_that_is_not_undone(case):
    last_only = block(case, "23 not at all", "Shift", shift_bug_at=(1,))
    assert gradcheck_report(ones(last_only), case.block_inputs, fast=True).ok
    assert not gradcheck_report(last_only, case.block_inputs, fast=True).ok


def test_the_sum_as_a_loss_hides_any_softmax_that_returns_zeros(make):
    class Nothing(Softmax):
        @staticmethod
        def backward(ctx, grad_y):
            return grad_y * 0

    def softmax(x):
        return Nothing.apply(x, axis=-1)

    x = make(3, 5)
    assert gradcheck(ones(softmax), x)
    assert not gradcheck(softmax, x, raise_exception=False)


def test_a_check_of_the_parameters_alone_misses_an_aliased_buffer(case):
    report = check(case, "19 in place", "Halve")
    assert [item.name for item in report.items if not item.ok] == ["x"]


@pytest.mark.parametrize(
    ("bug", "place"), [("7 no scale", "Scores"), ("14 swapped", "Scores"), ("12 P for P^T", "Mix")]
)
def test_weights_as_at_initialisation_shrink_the_error_below_lenient_tolerances(bug, place, case):
    case.weight_qkv = (case.weight_qkv * 1e-3).detach().requires_grad_()
    case.bias_qkv = (case.bias_qkv * 1e-3).detach().requires_grad_()
    case.table = (case.table * 1e-3).detach().requires_grad_()
    fn = block(case, bug, place)
    report = gradcheck_report(fn, case.block_inputs, names=NAMES, localize=False)
    assert max(item.error for item in report.items) < 1e-3
    assert not report.ok  # 1e-6, over all and at each entry, is strict enough all the same


# 1 to 5: the check is green and the model is still wrong.


def attention(query, key, value, *, bug=None, width=None):
    """(context, scores, weights) from operations that are all right."""
    dim = query.shape[-1]
    scale = {
        "1 no scale": 1.0,
        "2 times sqrt(d)": dim**0.5,
        "3 sqrt(width)": (width or dim) ** -0.5,
    }.get(bug, dim**-0.5)
    if bug == "5 roles swapped":
        query, key = key, query
    scores = (query @ key.swapaxes(-1, -2)) * scale
    weights = mt.softmax(scores, -2 if bug == "4 over the queries" else -1)
    return weights @ value, scores, weights


def scores_have_variance_one(bug, rng):
    draws = [mt.tensor(rng.standard_normal((2, 3, 50, 64))) for _ in range(3)]
    _, scores, _ = attention(*draws, bug=bug, width=3 * 64)
    return bool(abs(scores.numpy().var() - 1) < 0.2)


def rows_sum_to_one(bug, rng):
    draws = [mt.tensor(rng.standard_normal((2, 3, 5, 4))) for _ in range(3)]
    _, _, weights = attention(*draws, bug=bug)
    return np.allclose(weights.numpy().sum(-1), 1)


def keys_are_a_set(bug, rng):
    """Their order, with that of their values, changes nothing; there may be more than queries."""
    query = mt.tensor(rng.standard_normal((2, 3, 5, 4)))
    key, value = (mt.tensor(rng.standard_normal((2, 3, 7, 4))) for _ in range(2))
    order = mt.tensor(rng.permutation(7))
    try:
        before, _, _ = attention(query, key, value, bug=bug)
        after, _, _ = attention(query, key[:, :, order], value[:, :, order], bug=bug)
    except mt.errors.ShapeError:
        return False
    return np.allclose(before.numpy(), after.numpy())


@pytest.mark.parametrize(
    ("bug", "property_that_fails"),
    [
        ("1 no scale", scores_have_variance_one),
        ("2 times sqrt(d)", scores_have_variance_one),
        ("3 sqrt(width)", scores_have_variance_one),
        ("4 over the queries", rows_sum_to_one),
        ("5 roles swapped", keys_are_a_set),
    ],
)
def test_a_wrong_forward_passes_the_check_and_fails_a_property(bug, property_that_fails, case, rng):
    inputs = (case.query, case.key, case.value)
    assert gradcheck(lambda *qkv: attention(*qkv, bug=bug, width=12)[0], inputs)
    assert not property_that_fails(bug, rng)
    for holds in (scores_have_variance_one, rows_sum_to_one, keys_are_a_set):
        assert holds(None, rng)
