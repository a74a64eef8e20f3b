"""Gradient check: correct code passes, and every kind of wrong code is found and named."""

import inspect
import re

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import (
    Function,
    GradcheckError,
    gradcheck_module,
    gradcheck_module_report,
    gradcheck_report,
    gradgradcheck,
    gradgradcheck_report,
)
from minitorch_attn.backend import array_module
from minitorch_attn.errors import ArgumentError, DTypeError, GraphError, MiniTorchError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.ops.arithmetic import Add, Mul
from minitorch_attn.ops.matmul import MatMul
from minitorch_attn.ops.softmax import Softmax


def spoiled(function, change, name="Spoiled"):
    """A Function whose backward returns change(the correct gradient)."""

    def backward(ctx, *grads):
        return change(function.backward(ctx, *grads))

    return type(name, (function,), {"backward": staticmethod(backward)})


class Cube(Function):
    """y = x^3."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * 3 * x * x


class Relu(Function):
    """y = max(x, 0), with the slope `at_zero` where x is 0, times `factor`."""

    @staticmethod
    def forward(ctx, x, *, factor=1.0, at_zero=0.0):
        ctx.factor, ctx.at_zero = factor, at_zero
        ctx.save(x)
        return x * (x > 0)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * ctx.factor * ((x > 0) + ctx.at_zero * (x == 0))


def kinds(report):
    return {hint.kind for hint in report.hints}


def texts(report):
    return " ".join(hint.text for hint in report.hints)


# Right code passes


def composite(x, w, b):
    """Many operations, a tensor used several times, a kink out of reach."""
    h = (x @ w + b).tanh()
    h = h * h + (h * 3.0).sin() / (h * h + 2.0)
    scores = (h @ h.swapaxes(-1, -2)) * 0.3
    return mt.softmax(scores, -1) @ h + h.abs().sqrt().mean()


def in_place(x, b):
    """A tensor and a view of it changed on the way."""
    y = x * 2.0
    y.mul_(b)
    y[0].add_(x[1] * x[1])
    return y


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (mt.mul, [(3, 5), (5,)]),
        (mt.mul, [(), (2, 3)]),
        (lambda x: x, [(3,)]),
        (lambda x: x * x + x, [(7,)]),
        (lambda x: x.reshape(6).reshape(3, 2), [(2, 3)]),
        (lambda x, unused: x * 2.0, [(3,), (2,)]),
        (lambda x: (x * 2.0, [x.sum(), {"y": x.exp()}], 3, None), [(2, 3)]),
        (lambda x: x.sum(), [(0, 3)]),
        (composite, [(5, 3), (3, 2), (2,)]),
        (in_place, [(2, 3), (3,)]),
    ],
)
def test_right_functions_pass(fn, shapes, make):
    inputs = [make(*shape, low=0.3, high=1.5) for shape in shapes]
    assert gradcheck(fn, inputs)
    assert gradcheck(fn, inputs, fast=True)
    assert gradgradcheck(fn, inputs)


def test_inputs_of_all_kinds_are_passed_on(make, device):
    x = make(3, 2)
    index = mt.tensor([2, 0, 2], device=device)
    constant = make(2, requires_grad=False)

    def fn(x, index, constant, scale, nothing):
        assert nothing is None
        return x[index] * constant * scale

    report = gradcheck_report(fn, (x, index, constant, 2.5, None))
    assert report and [item.name for item in report.items] == ["x"]


def test_one_tensor_may_stand_alone(make):
    assert gradcheck(lambda x: x * x, make(3))
    assert gradgradcheck(lambda x: x * x, make(3))


def test_a_middle_of_a_graph_may_be_an_input(make):
    x = make(3) * 2.0
    assert gradcheck(lambda x: x * x, x)


def test_the_check_leaves_no_trace(make):
    x = make(3, 2)
    array, version, before = x.array, x._version[0], x.numpy().copy()
    state = mt.get_rng_state()
    gradcheck(lambda x: mt.nn.functional.dropout(x, 0.5), x)
    with pytest.raises(GradcheckError):
        gradcheck(spoiled(Cube, lambda g: -g).apply, x)
    assert x.array is array and x._version[0] == version and x.grad is None
    np.testing.assert_array_equal(x.numpy(), before)
    assert mt.get_rng_state() == state


def test_inputs_are_put_back_when_the_function_fails(make):
    x = make(3)
    array, calls = x.array, []

    def fn(x):
        calls.append(1)
        if len(calls) == 5:
            raise ZeroDivisionError
        return x * 2.0

    with pytest.raises(ZeroDivisionError):
        gradcheck(fn, x)
    assert x.array is array


def test_it_works_under_no_grad(make):
    with mt.no_grad():
        assert gradcheck(Cube.apply, make(3))
        assert gradgradcheck(Cube.apply, make(3))


def test_an_entry_costs_two_evaluations(make):
    calls = []

    def fn(x, w):
        calls.append(1)
        return x * w

    inputs = make(4, 5), make(5)
    gradcheck(fn, inputs)
    assert len(calls) <= 2 * 25 + 3
    calls.clear()
    gradcheck(fn, inputs, fast=True)
    assert len(calls) <= 2 * 2 * 3 + 3


# Random functions


def test_dropout_draws_the_same_mask_each_time(make):
    report = gradcheck_report(lambda x: mt.nn.functional.dropout(x * x, 0.5), make(5, 7))
    assert report.ok
    assert "started from the same seed" in str(report)
    assert "same seed" not in str(gradcheck_report(lambda x: x * x, make(3)))


def test_a_generator_of_its_own_is_noticed(make):
    rng = np.random.default_rng(0)
    report = gradcheck_report(lambda x: x * float(rng.random()), make(3))
    assert not report.ok and "two runs with the same inputs" in texts(report)


def test_something_kept_between_calls_is_noticed(make):
    kept = [0.0]

    def fn(x):
        kept[0] = 0.9 * kept[0] + 0.1
        return x * kept[0]

    assert "nondeterministic" in kinds(gradcheck_report(fn, make(3)))


def test_random_numbers_drawn_now_and_then_are_noticed(make):
    calls = []

    def fn(x):
        calls.append(1)
        return x * (2.0 if len(calls) < 4 else mt.rand(1, dtype=mt.float64).to(x.device))

    state = mt.get_rng_state()
    assert "did in a later one" in texts(gradcheck_report(fn, make(3)))
    assert mt.get_rng_state() == state


def test_another_value_without_recording_is_noticed(make):
    report = gradcheck_report(lambda x: x * (2.0 if mt.is_grad_enabled() else 3.0), make(3))
    assert not report.ok and "under no_grad()" in texts(report)


# What is refused


def test_float32_is_refused_with_the_reason_and_the_way_out(make):
    x = make(3, dtype="float32")
    with pytest.raises(DTypeError) as caught:
        gradcheck(lambda x: x * x, x)
    message = str(caught.value)
    assert "x must have dtype float64" in message and "allow_float32" in message
    report = gradcheck_report(lambda x: x * x, x, allow_float32=True)
    assert not report.ok and report.items[0].error > 1e-5  # correct code that fails
    assert gradcheck(lambda x: x * x, x, allow_float32=True, eps=1e-2, tol=1e-2)


def test_a_float32_output_is_refused(make):
    with pytest.raises(DTypeError, match="must return float64"):
        gradcheck(lambda x: x.to(mt.float32), make(3))


def test_inputs_that_share_memory_are_refused(make, device):
    x = make(4)
    with pytest.raises(ArgumentError, match="a and b must not share memory"):
        gradcheck(lambda a, b: a * b, (x, x))
    base = mt.tensor(np.arange(6.0), device=device)
    parts = [base[:4].requires_grad_(), base[2:].requires_grad_()]
    with pytest.raises(ArgumentError, match="must not share memory"):
        gradcheck(lambda a, b: a.sum() * b.sum(), parts)
    parts = [base[:3].requires_grad_(), base[3:].requires_grad_()]
    assert gradcheck(lambda a, b: a * b, parts)
    stretched = base[:1].expand(3).requires_grad_()
    with pytest.raises(ArgumentError, match="entries of x must not share memory"):
        gradcheck(lambda x: x * x, stretched)


def test_there_must_be_something_to_check(make):
    with pytest.raises(ArgumentError, match="at least one of inputs must require grad"):
        gradcheck(lambda x: x, make(3, requires_grad=False))
    with pytest.raises(DTypeError, match="must return a floating-point tensor"):
        gradcheck(lambda x: 3, make(3))
    with pytest.raises(ArgumentError, match="number of names"):
        gradcheck(lambda x: x, make(3), names=["a", "b"])
    with pytest.raises(TypeError):
        gradcheck(lambda x: x, make(3), epsilon=1e-4)


def test_errors_of_the_engine_come_through(make):
    broken = spoiled(Cube, lambda g: g.sum(axis=0))
    with pytest.raises(ShapeError, match="Spoiled.backward"):
        gradcheck(broken.apply, make(3))


# Wrong backwards are caught, and named


def swap(axis0, axis1):
    return lambda g: g.swapaxes(axis0, axis1)


def rolled(shift, axis):
    return lambda g: array_module(g).roll(g, shift, axis)


def flipped(axis):
    return lambda g: array_module(g).flip(g, axis)


def keep_item(axis, item):
    def change(g):
        kept = g * 0
        place = (slice(None),) * axis + (item,)
        kept[place] = g[place]
        return kept

    return change


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_a_mean_over_the_batch_is_the_first_cause_of_a_factor(batch, make):
    x, w = make(batch, 4), make(2, 4)  # other axes can have the size of the batch

    class Rows(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save(x, w)
            return x @ w.T

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved
            return g @ w, g.T @ x / len(x)

    report = gradcheck_report(Rows.apply, (x, w))
    (hint,) = report["w"].hints
    assert f": {batch} is the size of the batch (axis 0 of the output): a mean" in hint.text
    assert report["x"].ok and hint.text in " ".join(report.causes().split())
    assert "batch" not in report.facts() and str(report).startswith(report.facts()[:200])


def one_wrong_entry(g):
    g = g.copy()
    g[1, 2] *= 1.0001
    return g


@pytest.mark.parametrize(
    ("shape", "change", "kind", "words"),
    [
        ((3, 5), lambda g: -g, "factor", "-1 times .* the sign is wrong"),
        ((3, 5), lambda g: 2 * g, "factor", "2 times .* counted twice"),
        ((3, 5), lambda g: g / 2, "factor", "1/2 times"),
        ((3, 7), lambda g: g * 7**0.5, "factor", r"sqrt\(7\), where 7 is the size of axis 1 of x"),
        ((3, 7), lambda g: g / 7**0.5, "factor", r"1/sqrt\(7\) is applied twice"),
        (
            (3, 7),
            lambda g: g / 3,
            "factor",
            r"1/3 times .*batch \(axis 0 of the output\): a mean",
        ),
        ((3, 7), lambda g: g * 7, "factor", "axis 1 of x: a sum instead of a mean"),
        ((3, 7), lambda g: g / 21, "factor", "1/21 times .*: 21 is the size of all of x"),
        ((3, 7), lambda g: g * -7, "factor", "the sign is wrong, and 7 is the size"),
        ((3, 7), lambda g: g * 7 / 6, "factor", "7/6 times .* n and n - 1"),
        ((3, 7), lambda g: g * 1.2345, "factor", "1.2345 times the correct one"),
        ((3, 5), lambda g: g * 0, "zeros", "zero at every entry"),
        ((3, 5), lambda g: g * float("nan"), "nan", "NaN"),
        ((2, 4, 4), swap(1, 2), "transpose", "axes 1 and 2 swapped"),
        ((2, 3, 5), lambda g: g.swapaxes(1, 2).reshape(g.shape), "reshape", "axes 1 and 2"),
        ((2, 3, 5), lambda g: g.reshape(2, 5, 3).swapaxes(1, 2), "reshape", "sizes 3 and 5"),
        ((3, 7), rolled(2, 1), "roll", r"rolled by \+2 along axis 1 \(of size 7\).*2s"),
        ((3, 7), rolled(-2, 1), "roll", r"rolled by -2 along axis 1"),
        ((2, 5, 7), rolled((2, -2), (1, 2)), "roll", r"\+2 along axis 1 .* and -2 along axis 2"),
        ((3, 7), flipped(1), "flip", "reverse order along axis 1"),
        (
            (2, 5, 3),
            keep_item(1, 0),
            "items",
            "axis 1 .* only item 0 is correct; the others are zero",
        ),
        ((4, 3), keep_item(0, 3), "items", "only item 3 is correct"),
        ((4, 5), lambda g: g * (1 + keep_item(0, 2)(g * 0 + 1)), "items", "only item 2 is wrong"),
    ],
)
def test_a_wrong_gradient_is_caught_and_named(shape, change, kind, words, make):
    x = make(*shape, low=0.5, high=2.0)
    report = gradcheck_report(spoiled(Cube, change).apply, x)
    assert not report.ok and not report["x"].ok
    hints = report["x"].hints
    assert kind in [hint.kind for hint in hints]
    text = " ".join(hint.text for hint in hints)
    assert re.search(words, text), text
    assert report.fault.step.op == "Spoiled"


def test_an_input_that_leaves_the_graph_is_named(make):
    report = gradcheck_report(lambda x, y: x * y.detach(), (make(3, 5), make(5)))
    assert not report.ok and report["x"].ok
    assert [hint.kind for hint in report["y"].hints] == ["zeros"]
    assert "detached from the graph" in report["y"].hints[0].text


@pytest.mark.parametrize(
    ("function", "change", "count"), [(Cube, lambda g: None, 1), (Mul, lambda g: (g[0], None), 2)]
)
def test_none_for_a_gradient_that_is_required_is_refused(function, change, count, make):
    wrong = spoiled(function, change)
    with pytest.raises(GraphError, match=f"returned None for its input {count - 1}"):
        gradcheck_report(wrong.apply, tuple(make(3, 5) for _ in range(count)))


@pytest.mark.parametrize(("factor", "named"), [(2.0, True), (-0.5, False), (0.37, False)])
def test_the_ratio_of_two_numbers_is_a_hint_only_with_one_cause(make, factor, named):
    """Any two numbers have a ratio, and most ratios have some explanation."""
    report = gradcheck_report(spoiled(Cube, lambda g: g * factor).apply, make(1))
    assert not report.ok
    assert bool(report.hints) == named


def test_a_guess_that_fits_only_nearly_is_not_made(make):
    """Twice the gradient, but for one entry in a hundred."""

    def change(g):
        g = g * 2
        g[3, 4] *= 1.001
        return g

    report = gradcheck_report(spoiled(Cube, change).apply, make(10, 10, low=0.5, high=1.5))
    assert not report.ok and report.hints == []


def test_a_tenth_of_a_thousandth_at_one_entry_is_caught(make):
    wrong = spoiled(Cube, one_wrong_entry)
    x = make(4, 5)
    report = gradcheck_report(wrong.apply, x)
    item = report["x"]
    assert not item.ok and item.worst_index == (1, 2)
    np.testing.assert_allclose(item.analytic / item.numeric, 1.0001, rtol=1e-6)
    assert not gradcheck(wrong.apply, x, fast=True, raise_exception=False)


def test_a_small_gradient_is_held_to_its_own_size(make):
    x = make(5)
    assert gradcheck(lambda x: Cube.apply(x) * 1e-9, x)
    assert not gradcheck(
        lambda x: spoiled(Cube, lambda g: g * 1.001).apply(x) * 1e-9, x, raise_exception=False
    )


def test_a_small_entry_is_held_to_its_own_size(device):
    """A hundredth of the largest, wrong by 1e-5: 1e-7 of the whole."""

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, *, wrong):
            ctx.factors = [1.0, 0.01], [1.0, 0.01 * wrong]
            return x * array_module(x).asarray(ctx.factors[0])

        @staticmethod
        def backward(ctx, grad):
            return grad * array_module(grad).asarray(ctx.factors[1])

    x = mt.tensor([0.5, 0.5], dtype=mt.float64, requires_grad=True, device=device)
    assert gradcheck(lambda x: Scale.apply(x, wrong=1.0), x)
    report = gradcheck_report(lambda x: Scale.apply(x, wrong=1.00001), x)
    assert not report.ok and report["x"].error < 1e-6 < report["x"].worst_error


def test_small_inputs_beside_large_ones_are_checked_on_their_own(make):
    big, small = make(4, low=100, high=200), make(4)

    def fn(big, small):
        return big * big + spoiled(Cube, lambda g: g * 1.01).apply(small) * 1e-3

    report = gradcheck_report(fn, (big, small))
    assert report["big"].ok and not report["small"].ok


@pytest.mark.parametrize(
    ("function", "change", "shapes", "kind", "words"),
    [
        (Mul, lambda g: g[::-1], [(3, 5), (3, 5)], "swapped", "this is the gradient of b"),
        (Mul, lambda g: (-3 * g[1], g[1]), [(3, 5), (3, 5)], "swapped", "-3 times .* of b"),
        (Mul, lambda g: (g[0], g[1] / 3), [(3, 5), (5,)], "factor", "a mean instead of a sum"),
    ],
)
def test_a_wrong_gradient_of_two_inputs(function, change, shapes, kind, words, make):
    inputs = [make(*shape, low=0.5, high=2.0) for shape in shapes]
    report = gradcheck_report(spoiled(function, change).apply, inputs)
    wrong = [item for item in report.items if not item.ok]
    assert wrong and kind in [hint.kind for hint in wrong[0].hints]
    assert re.search(words, texts(report)), texts(report)


def test_an_unsummed_broadcast_where_the_shapes_happen_to_agree(make):
    """(3, 5) + (1, 5): the sum over axis 0 is forgotten, and only item 0 comes back."""

    class Bias(Function):
        @staticmethod
        def forward(ctx, x, bias):
            return x + bias

        @staticmethod
        def backward(ctx, grad_y):
            return grad_y, grad_y[0]

    report = gradcheck_report(Bias.apply, (make(3, 5), make(5)))
    assert report["x"].ok and not report["bias"].ok
    assert "only item 0 along axis 0 of the output (of size 3) counts" in texts(report)


def test_a_residual_counted_twice_or_not_at_all(make):
    class Residual(Function):
        @staticmethod
        def forward(ctx, x, *, copies):
            ctx.copies = copies
            ctx.save(x)
            return x + x * x * x

        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved
            return grad_y * ctx.copies + grad_y * 3 * x * x

    x = make(3, 5)
    assert gradcheck(lambda x: Residual.apply(x, copies=1), x)
    twice = gradcheck_report(lambda x: Residual.apply(x, copies=2), x)
    assert kinds(twice) == {"extra_copy"} and "counted twice" in texts(twice)
    none = gradcheck_report(lambda x: Residual.apply(x, copies=0), x)
    assert kinds(none) == {"missing_copy"} and "missing" in texts(none)


@pytest.mark.parametrize(
    ("backward", "kind", "words"),
    [
        (lambda y, g: g * y * (1 - y), "diagonal", "only the diagonal of the Jacobian"),
        (lambda y, g: g * y, "axis_term", "along axis 1 the error is a multiple of the output"),
        (
            lambda y, g: y * (g - (g * y).sum(axis=0, keepdims=True)),
            "wrong_axis",
            "runs over axis 0, but must run over axis 1",
        ),
        (
            lambda y, g: g - g + y * (1 - y),
            "ignores_gradient",
            "although the output gradient is zero",
        ),
    ],
)
def test_wrong_softmaxes(backward, kind, words, make):
    class Wrong(Softmax):
        @staticmethod
        def backward(ctx, grad_y):
            (y,) = ctx.saved
            return backward(y, grad_y)

    report = gradcheck_report(lambda x: Wrong.apply(x, axis=1), make(5, 7, low=-2, high=2))
    assert not report.ok and kind in kinds(report)
    assert words in texts(report)
    assert report.fault.step.op == "Wrong"


def test_a_matrix_product_without_its_transpose(make):
    class Wrong(MatMul):
        @staticmethod
        def backward(ctx, grad_c):
            a, b = ctx.saved
            return grad_c @ b.swapaxes(-1, -2), a @ grad_c

    report = gradcheck_report(Wrong.apply, (make(2, 5, 5), make(2, 5, 3)))
    assert not report.ok
    assert "the Jacobian is not transposed" in texts(report)


def test_gradient_where_nothing_passes_and_nothing_where_it_does(make):
    class Gate(Function):
        """Entries above 0 pass in the forward, above `limit` in the backward."""

        @staticmethod
        def forward(ctx, x, *, limit):
            ctx.limit = limit
            ctx.save(x)
            return x * x * (x > 0)

        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved
            return grad_y * 2 * x * (x > ctx.limit)

    x = make(5, 7, low=-2, high=2)
    assert gradcheck(lambda x: Gate.apply(x, limit=0.0), x)
    assert kinds(gradcheck_report(lambda x: Gate.apply(x, limit=-1.0), x)) == {"leak"}
    assert kinds(gradcheck_report(lambda x: Gate.apply(x, limit=1.0), x)) == {"closed"}


class Lookup(Function):
    """y = table[index], with a chosen way to give the gradient back."""

    @staticmethod
    def forward(ctx, table, *, index, back):
        ctx.index, ctx.back = index, back
        return table[array_module(table).asarray(index)]

    @staticmethod
    def backward(ctx, grad_y):
        xp = array_module(grad_y)
        total = xp.zeros(ctx.shapes[0], dtype=grad_y.dtype)
        for position, row in enumerate(ctx.index):
            if ctx.back == "last":
                total[row] = grad_y[position]
            else:
                row = {"add": row, "elsewhere": (row * 2 + 1) % ctx.shapes[0][0]}[ctx.back]
                total[row] += grad_y[position]
        return total


def test_repeated_and_misplaced_indices(make):
    index = [0, 3, 3, 1, 4, 3, 2]
    table = make(5, 2)

    def lookup(back):
        return gradcheck_report(lambda table: Lookup.apply(table, index=index, back=back), table)

    assert lookup("add").ok
    assert "repeated" in kinds(lookup("last"))
    assert "permuted" in kinds(lookup("elsewhere"))


def test_a_missing_weight_of_a_normalisation(make):
    """Layer norm with each of its terms left out in turn."""

    class Norm(Function):
        @staticmethod
        def forward(ctx, x, weight, *, without):
            ctx.without = without
            ctx.save(x, weight)
            centred = x - x.mean(axis=-1, keepdims=True)
            return centred / (centred * centred).mean(axis=-1, keepdims=True) ** 0.5 * weight

        @staticmethod
        def backward(ctx, grad_y):
            x, weight = ctx.saved
            centred = x - x.mean(axis=-1, keepdims=True)
            inverse = (centred * centred).mean(axis=-1, keepdims=True) ** -0.5
            unit = centred * inverse
            grad_unit = grad_y if ctx.without == "weight" else grad_y * weight
            grad_x = grad_unit
            if ctx.without != "mean":
                grad_x = grad_x - grad_unit.mean(axis=-1, keepdims=True)
            if ctx.without != "variance":
                grad_x = grad_x - unit * (grad_unit * unit).mean(axis=-1, keepdims=True)
            return grad_x * inverse, (grad_y * unit).sum(axis=0)

    x, weight = make(5, 7), make(7, low=0.5, high=2.0)

    def norm(without):
        return gradcheck_report(
            lambda x, weight: Norm.apply(x, weight, without=without), (x, weight)
        )

    assert norm(None).ok
    assert "the factor `weight` is missing" in texts(norm("weight"))
    assert "error is the same all along axis 1" in texts(norm("mean"))
    assert "the mean and the variance over that axis" in texts(norm("variance"))


def test_a_scale_per_item_is_named(make):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save(x, weight)
            return x * x * weight

        @staticmethod
        def backward(ctx, grad_y):
            x, weight = ctx.saved
            return grad_y * 2 * x * weight * weight, (grad_y * x * x).sum(axis=0)

    report = gradcheck_report(Scaled.apply, (make(5, 3), make(3, low=0.5, high=2.0)))
    assert "the factor `weight` is applied once too often" in texts(report)


# Changes where there should be none


def test_a_forward_that_changes_its_input(make):
    class Greedy(Cube):
        @staticmethod
        def forward(ctx, x):
            y = x * x * x
            x *= 1.5
            ctx.save(x)
            return y

    report = gradcheck_report(Greedy.apply, make(3))
    assert "mutates" in kinds(report) and "the function changes its input x" in texts(report)


def test_a_change_back_to_the_same_values_shows_in_the_version(make):
    def fn(x):
        with mt.no_grad():
            x.add_(1.0)
            x.add_(-1.0)
        return x * 2.0

    x = make(3)
    x.copy_(mt.zeros_like(x)) if not x.requires_grad else None
    report = gradcheck_report(fn, mt.tensor(np.ones(3), requires_grad=True, device=x.device))
    assert "then restores its values" in texts(report)


def test_a_backward_that_changes_its_input(make):
    class Greedy(Cube):
        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved
            grad_x = grad_y * 3 * x * x
            x *= 2
            return grad_x

    report = gradcheck_report(Greedy.apply, make(3))
    assert "the backward pass changes the input x" in texts(report)


def test_a_backward_that_changes_the_gradient_it_is_given(make):
    class Greedy(Cube):
        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved
            grad_y *= 3 * x * x
            return grad_y

    report = gradcheck_report(Greedy.apply, make(3))
    assert "mutates" in kinds(report) and "grad = grad + ..." in texts(report)
    # Behind another operation that memory belongs to the engine: found by itself all the same.
    report = gradcheck_report(lambda x: Greedy.apply(x * 1.0) + x * 2.0, make(3))
    if not report.ok:
        assert report.fault.step.op == "Greedy"


def test_a_backward_that_changes_what_was_saved(make):
    class Greedy(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save(y, x)
            return y

        @staticmethod
        def backward(ctx, grad_y):
            y, x = ctx.saved
            y *= 0.5  # y = x^2 / 2 from here on
            return grad_y * 4 * y / x

    report = gradcheck_report(Greedy.apply, make(3, low=1, high=2))
    assert "a second backward pass" in texts(report)


def test_a_zero_gradient_must_stay_zero(make):
    wrong = spoiled(Cube, lambda g: g + 1)
    assert "ignores_gradient" in kinds(gradcheck_report(wrong.apply, make(3)))


# Kinks


@pytest.mark.parametrize("offset", [0.0, 1e-9, -1e-9, 2e-7, -3e-6, 9e-6])
@pytest.mark.parametrize("at_zero", [0.0, 0.5, 1.0])
def test_a_kink_is_set_apart_and_counted(offset, at_zero, device):
    x = mt.tensor([1.0, offset, -2.0, 0.5], requires_grad=True, dtype=mt.float64, device=device)
    report = gradcheck_report(lambda x: Relu.apply(x, at_zero=at_zero) * 3.0, x)
    assert report.ok
    assert report["x"].kinks == [(1,)]
    assert "1 kink" in str(report)


@pytest.mark.parametrize("offset", [1e-12, 1e-9, 2e-7, 3e-6, 9e-6, 1e-3])
@pytest.mark.parametrize("factor", [-1.0, 0.0, 2.0, 0.5, 1.01])
def test_a_wrong_slope_near_a_kink_is_not_excused(offset, factor, device):
    """The only entry that could show the mistake lies next to the kink."""
    x = mt.tensor([-1.0, offset, -2.0], requires_grad=True, dtype=mt.float64, device=device)
    report = gradcheck_report(lambda x: Relu.apply(x, factor=factor), x)
    assert not report.ok and report["x"].kinks == []


@pytest.mark.parametrize("offset", [-1e-12, -1e-9])
def test_a_wrong_slope_is_seen_from_the_other_side_of_the_kink(offset, device):
    x = mt.tensor([-1.0, offset, -2.0], requires_grad=True, dtype=mt.float64, device=device)
    assert not gradcheck_report(lambda x: Relu.apply(x, factor=2.0), x).ok


@pytest.mark.parametrize("at_zero", [-0.1, 1.1, 5.0])
def test_a_slope_at_a_kink_must_lie_between_its_sides(at_zero, device):
    x = mt.tensor([0.0, 1.0], requires_grad=True, dtype=mt.float64, device=device)
    assert not gradcheck(lambda x: Relu.apply(x, at_zero=at_zero), x, raise_exception=False)


@pytest.mark.parametrize("side", [1, -1])
def test_a_mistake_beside_a_kink_is_seen_on_either_side(side, device):
    """At 0 the slope 0 would do for relu(+-x), but beside the kink a missing term shows."""

    class Forgetful(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save(x)
            return side * x * (side * x > 0) - 0.3 * x * (side * x < 0)

        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved
            return grad_y * side * (side * x > 0)

    x = mt.tensor([0.0], requires_grad=True, dtype=mt.float64, device=device)
    report = gradcheck_report(Forgetful.apply, x)
    assert not report.ok and report["x"].kinks == []


def test_ties_of_a_maximum(device):
    x = mt.tensor([[2.0, 2.0, 1.0], [0.0, 1.0, 3.0]], dtype=mt.float64, device=device)
    report = gradcheck_report(lambda x: x.amax(1), x.requires_grad_())
    assert report.ok


def test_many_relus_in_a_row(make):
    x, w = make(4, 6), make(6, 6)

    def network(x, w):
        for _ in range(3):
            x = (x @ w).relu()
        return x

    assert gradcheck(network, (x, w))
    wrong = spoiled(Relu, lambda g: g * 1.0001)
    assert not gradcheck(lambda x, w: wrong.apply(x @ w), (x, w), raise_exception=False)


def test_nothing_but_kinks_is_no_pass(device):
    x = mt.zeros(3, dtype=mt.float64, device=device).requires_grad_()
    report = gradcheck_report(Relu.apply, x)
    assert not report.ok and "nothing was checked" in texts(report)


def test_a_jump_counts_as_a_kink_only_where_a_side_fits(device):
    x = mt.tensor([0.0, 1.0], requires_grad=True, dtype=mt.float64, device=device)

    class Jump(Function):
        @staticmethod
        def forward(ctx, x, *, slope, at_zero):
            ctx.slope, ctx.at_zero = slope, at_zero
            ctx.save(x)
            return x + (x >= 0) * 1.0

        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved
            return grad_y * (ctx.slope * (x != 0) + ctx.at_zero * (x == 0))

    def jump(slope, at_zero):
        return gradcheck_report(lambda x: Jump.apply(x, slope=slope, at_zero=at_zero), x).ok

    assert jump(1.0, 1.0)
    assert not jump(2.0, 2.0) and not jump(1.0, 2.0) and not jump(2.0, 1.0)


# Where the differences themselves are weak


def test_strong_curvature_takes_a_smaller_step(device):
    x = mt.tensor([0.1, 0.2], requires_grad=True, dtype=mt.float64, device=device)
    for speed in (1e3, 1e4):
        report = gradcheck_report(lambda x, speed=speed: (x * speed).sin(), x)
        assert report.ok and report["x"].kinks == []
    wrong = spoiled(Cube, lambda g: g * 1.0001)
    fn = lambda x: wrong.apply((x * 1000.0).sin())  # noqa: E731
    assert not gradcheck(fn, x, raise_exception=False)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("offset", [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("factor", [2.0, 1.01, 1.001, 1.0001])
def test_rounding_excuses_nothing(factor, offset, fast, make):
    """A large constant beside the output blurs the differences."""
    wrong = spoiled(Cube, lambda g: g * factor)
    x = make(3, low=0.5, high=1.5)
    assert not gradcheck_report(lambda x: wrong.apply(x) + offset, x, fast=fast).ok


def test_rounding_is_called_by_its_name(make):
    report = gradcheck_report(lambda x: Cube.apply(x) + 1e9, make(3, low=0.5, high=1.5))
    assert not report.ok and "uncertain" in texts(report)
    assert gradcheck(lambda x: Cube.apply(x) + 100.0, make(3, low=0.5, high=1.5))


def test_float32_excuses_nothing(make):
    x = make(3, dtype="float32")
    wrong = spoiled(Cube, lambda g: -g)
    assert not gradcheck_report(lambda x: wrong.apply(x) * 0.01 + 1.0, x, allow_float32=True).ok


def test_a_gradient_that_is_zero_passes(make):
    """The sum of a softmax is 1 whatever the scores."""
    assert gradcheck(lambda x: mt.softmax(x, -1).sum(-1), make(3, 5))
    leaky = spoiled(Softmax, lambda g: g + 1e-7)
    report = gradcheck_report(lambda x: leaky.apply(x, axis=-1).sum(-1), make(3, 5))
    assert not report.ok and "the correct gradient is zero" in texts(report)


def test_an_infinite_value_a_step_away(device):
    x = mt.tensor([1e-6, 1.0], requires_grad=True, dtype=mt.float64, device=device)

    def root(x):
        with np.errstate(invalid="ignore"):
            return x.sqrt()

    report = gradcheck_report(root, x)
    assert not report.ok and "infinite or NaN" in texts(report)


# Fast mode


@pytest.mark.parametrize("change", [lambda g: -g, swap(0, 1), rolled(1, 0), keep_item(0, 1)])
def test_random_directions_catch_the_same_mistakes(change, make):
    x = make(5, 5)
    report = gradcheck_report(spoiled(Cube, change).apply, x, fast=True)
    assert not report.ok and report["x"].hints


def test_a_direction_is_called_one(make):
    report = gradcheck_report(Cube.apply, make(5, 5), fast=True)
    assert "a direction" in str(report) and "three random directions" in str(report)


def test_random_directions_across_kinks(device):
    start = np.linspace(-1, 1, 30)
    start[3:6] = [3e-6, -2e-6, 8e-6]
    x = mt.tensor(start, requires_grad=True, device=device)
    assert gradcheck(Relu.apply, x, fast=True, detail=0)  # a smaller step will do
    start[3:9] = [1e-9, -1e-7, 3e-6, -2e-6, 1e-6, 0.0]
    x = mt.tensor(start, requires_grad=True, device=device)
    assert not gradcheck(Relu.apply, x, fast=True, detail=0, raise_exception=False)
    assert gradcheck(Relu.apply, x, fast=True)
    assert not gradcheck(lambda x: Relu.apply(x, factor=1.001), x, fast=True, raise_exception=False)


# Second derivatives


class LateCube(Cube):
    """Right once, wrong when differentiated again: it lets no second gradient reach x."""

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        fixed = x.detach() if isinstance(x, mt.Tensor) else x
        return grad_y * 3 * fixed * x


def test_a_wrong_second_derivative(make):
    x = make(4)
    assert gradcheck(LateCube.apply, x)
    report = gradgradcheck_report(lambda x: LateCube.apply(x * 2.0) + 1.0, x)
    assert not report.ok and not report["x"].ok and report["cotangent"].ok
    assert report.fault.step.op == "LateCube" and "second derivative" in report.fault.headline


def test_a_wrong_first_derivative_that_shows_only_in_the_second(make):
    """Its second derivative fits its wrong first one, but not what other paths make of it."""
    wrong = spoiled(Cube, lambda g: g * 2)

    def fn(x, w):
        return wrong.apply(x) * w

    assert gradgradcheck(wrong.apply, make(3))
    report = gradgradcheck_report(fn, (make(3), make(3)))
    assert not report.ok and report.fault.step.op == "Spoiled"


class Fused(Function):
    """y = x^2 with a stored square and a composed version that is `factor` times another one."""

    @staticmethod
    def forward(ctx, x, *, factor):
        ctx.save(x)
        ctx.save_intermediate(x * 2)
        return x * x

    @staticmethod
    def backward(ctx, grad_y):
        (double,) = ctx.intermediate
        return grad_y * double

    @staticmethod
    def composed(ctx, x, *, factor):
        return x * x * factor


def test_a_twin_that_is_another_function(make):
    x = make(4)
    assert gradgradcheck(lambda x: Fused.apply(x, factor=1.0), x)
    report = gradgradcheck_report(lambda x: Fused.apply(x, factor=1.001), x)
    assert not report.ok and "under no_grad()" in texts(report)


def test_given_cotangents_are_used_and_checked(make):
    given = make(4, requires_grad=False)
    report = gradgradcheck_report(Cube.apply, make(4), given)
    assert report.ok and [item.name for item in report.items] == ["x", "cotangent"]
    assert not given.requires_grad


def test_a_function_without_a_second_derivative_passes(make):
    assert gradgradcheck(lambda x: x * 2.0, make(3))
    assert gradgradcheck(lambda x, w: x @ w, (make(2, 3), make(3, 2)))


# Where the fault lies


def a_block(x, w):
    h = x @ w
    h = spoiled(Cube, lambda g: g * 2, "WrongCube").apply(h)  # the line to name
    return (h * h).sum(1) + x.sum()


def test_the_operation_at_fault_is_named_with_its_lines(make):
    report = gradcheck_report(a_block, (make(3, 4), make(4, 2)))
    fault = report.fault
    assert fault.step.op == "WrongCube"
    _, first = inspect.getsourcelines(a_block)
    assert fault.step.line.number == first + 2
    text = str(report)
    assert "test_gradcheck.py" in text and "# the line to name" in text
    words = " ".join(text.split())
    assert f"step {fault.step.number} of" in words and "backward   tests" in text
    assert any("2 times the correct one" in hint.text for hint in fault.hints)


def test_the_last_of_two_wrong_operations_comes_first(make):
    first = spoiled(Cube, lambda g: g * 2, "First")
    second = spoiled(Cube, lambda g: g * 3, "Second")
    report = gradcheck_report(lambda x: second.apply(first.apply(x)) * 2.0, make(3))
    assert report.fault.step.op == "Second"


def test_a_value_that_left_the_graph(make):
    report = gradcheck_report(lambda x: x * (x * 2.0).detach() + x, make(3))
    assert report.fault.step.op == "Mul" and {h.kind for h in report.fault.hints} == {"cut"}
    report = gradcheck_report(lambda x: x * x.sum().item(), make(3))
    assert "leaves the graph" in str(report)


def test_a_hook_that_changes_a_gradient(make):
    def fn(x):
        h = x * 2.0
        if h.requires_grad:
            h.register_hook(lambda g: g * 2.0)
        return h * h

    report = gradcheck_report(fn, make(3))
    assert {h.kind for h in report.fault.hints} == {"accumulation"}
    assert "hook" in str(report)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [("=", "only the last gradient is kept"), ("twice", "of one use is counted twice")],
)
def test_shares_that_are_not_added_up(mistake, words, make, monkeypatch):
    """The engine itself is made to forget `+=`, or to count a share twice."""
    from minitorch_attn.autograd import engine

    def add(self, edge, grad):
        node = edge[0]
        if node not in self.grads:
            engine.heappush(self.waiting, (-node.number, node))
            self.grads[node] = grad
        elif mistake == "=":
            self.grads[node] = grad
        else:
            self.grads[node] = self.grads[node] + grad + grad

    monkeypatch.setattr(engine._Arrivals, "add", add)
    report = gradcheck_report(lambda x: mt.exp(x * 2.0) * (x * 3.0), make(3))
    assert not report.ok and words in texts(report)


# Modules


def test_a_module_with_all_its_parameters(make, device):
    layer = mt.nn.Linear(5, 3, dtype=mt.float64, device=device)
    report = gradcheck_module_report(layer, make(4, 5, requires_grad=False))
    assert report.ok
    assert [item.name for item in report.items] == ["input", "weight", "bias"]
    assert gradcheck_module(layer, make(4, 5), fast=True)


def test_a_module_of_float32_is_refused(make):
    with pytest.raises(DTypeError, match="double"):
        gradcheck_module(mt.nn.Linear(5, 3), make(4, 5))


def test_a_wrong_parameter_gradient_is_named(make, device):
    class Layer(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mt.nn.Linear(5, 3, dtype=mt.float64, device=device)

        def forward(self, x):
            scale = spoiled(Cube, lambda g: -g, "WrongCube").apply(self.inner.bias)
            return x @ self.inner.weight.T + scale

    report = gradcheck_module_report(Layer(), make(4, 5))
    assert [item.name for item in report.items if not item.ok] == ["inner.bias"]
    with pytest.raises(GradcheckError):
        gradcheck_module(Layer(), make(4, 5))


# The report


def test_the_error_carries_the_report(make):
    wrong = spoiled(Cube, lambda g: -g)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong.apply, make(3, 2))
    error = caught.value
    assert isinstance(error, MiniTorchError) and isinstance(error, ArithmeticError)
    assert not error.report and str(error) == str(error.report)
    item = error.report["x"]
    assert item.shape == (3, 2) and item.verdict == "WRONG"
    np.testing.assert_allclose(item.analytic, -item.numeric, rtol=1e-6)
    np.testing.assert_allclose(item.analytic_grad, -item.numeric_grad, rtol=1e-6, atol=1e-9)
    with pytest.raises(KeyError):
        error.report["y"]
    assert gradcheck(wrong.apply, make(3, 2), raise_exception=False) is False


def test_the_text_fits_a_terminal(make):
    x, w = make(2, 3, 5, 4), make(4)

    def fn(x, w):
        return mt.softmax(spoiled(Add, lambda g: (g[0] * 2, g[1]), "WrongAdd").apply(x, w), -1)

    report = gradcheck_report(fn, (x, w))
    text = str(report)
    assert "WRONG" in text and "ok" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "gradcheck: 1 of the 2 gradients disagrees with central differences." in text
    good = str(gradcheck_report(mt.mul, (make(3), make(3))))
    assert good.startswith("gradcheck: all 2 gradients agree with central differences.")


@pytest.mark.parametrize(
    ("factors", "headline"),
    [
        ([2], "the gradient disagrees with"),
        ([2, 1], "1 of the 2 gradients disagrees with"),
        ([2, 3], "2 of the 2 gradients disagree with"),
    ],
)
def test_the_headline_counts_the_wrong_gradients(make, factors, headline):
    def wrong(g):
        return tuple(d * factor for d, factor in zip(g, factors, strict=False)) + g[len(factors) :]

    operation, inputs = spoiled(Add, wrong, "WrongAdd").apply, [make(3) for _ in factors]
    other = make(3, requires_grad=False)
    fn = operation if len(factors) == 2 else lambda x: operation(x, other)
    assert str(gradcheck_report(fn, inputs)).startswith(f"gradcheck: {headline} central")


def test_inputs_are_called_what_the_function_calls_them(make):
    x, w = make(2), make(2)
    assert [i.name for i in gradcheck_report(lambda query, key: query * key, (x, w)).items] == [
        "query",
        "key",
    ]
    assert [i.name for i in gradcheck_report(lambda *a: a[0] * a[1], (x, w)).items] == [
        "input 0",
        "input 1",
    ]
    assert [i.name for i in gradcheck_report(Mul.apply, (x, w)).items] == ["a", "b"]
    report = gradcheck_report(mt.mul, (x, w), names=["left", "right"])
    assert [i.name for i in report.items] == ["left", "right"]
