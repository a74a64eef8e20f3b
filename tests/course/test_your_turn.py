"""`check` compares values, gradients and properties, and says what is wrong."""

import io
import sys
from collections import namedtuple

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.course.compare_results import difference
from minitorch_attn.course.your_turn import CheckFailed, check
from minitorch_attn.errors import NotYetWritten


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("lessons choose their devices themselves and are tested once")


def softmax_of(scores):
    return mt.softmax(scores, -1)


ROWS = {"each row sums to 1": lambda y, scores: np.allclose(y.sum(-1).numpy(), 1)}
SOFTMAX = {"expected": softmax_of, "properties": ROWS}


def said(function, cases=None, expected=softmax_of, properties=ROWS):
    """The lines of the message about a wrong function."""
    if cases is None:
        cases = [mt.randn(3, 5), 1000 * mt.randn(2, 7)]
    with pytest.raises(CheckFailed) as caught:
        check(function, cases=cases, expected=expected, properties=properties)
    return str(caught.value).splitlines()


def row(lines, label):
    """The text of the line with a label."""
    found = [line[12:] for line in lines if line.startswith(f"  {label} ")]
    return found[0] if found else None


# What passes


def test_a_correct_function_is_said_to_be_correct(capsys):
    check(softmax_of, [mt.randn(3, 5)], **SOFTMAX)
    assert capsys.readouterr().out == "softmax_of: values ✓  gradients ✓  each row sums to 1 ✓\n"


def test_many_properties_take_several_lines(capsys):
    def holds(weights, scores):
        return True

    check(softmax_of, [mt.randn(3, 5)], softmax_of, {"x" * n: holds for n in (30, 31, 32)})
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("x" * 30 + " ✓") and second == f"    {'x' * 31} ✓  {'x' * 32} ✓"


def test_without_gradients_they_are_not_said_to_be_correct(capsys):
    check(np.sin, [np.ones(3)], lambda x: np.sin(x), {})
    assert capsys.readouterr().out == "sin: values ✓\n"


def test_an_encoding_without_the_check_mark(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    check(np.sin, [1.0], np.sin, {})
    stream.flush()
    assert stream.buffer.getvalue() == b"sin: values ok\n"


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("function", "case"),
    [
        (lambda x, y: (x + y, [x * y, {"k": y}]), (mt.ones(2), mt.randn(3, 2))),
        (lambda pair: Pair(pair.right, pair.left + 1), (Pair(mt.ones(2), 3),)),
        (lambda text: text.split(), "a b c"),
        (lambda n: [1, 2.5, n], 3),
        (lambda x: None, 3),
        (lambda x: np.array([np.nan, np.inf, -np.inf, x]), 3.0),
        (lambda n: np.tri(n, dtype=bool), 4),
        (lambda shape: np.zeros(shape), ((0, 3),)),
        (lambda cache: {"key": cache["key"] @ cache["key"].T}, ({"key": mt.randn(2, 3)},)),
        (lambda rng: rng.normal(size=4), np.random.default_rng(0)),
        (lambda n: mt.randn(n), 5),
        (lambda x: mt.dropout(x, 0.5), mt.randn(30)),
        (lambda ids: ids + 1, mt.tensor([1, 2])),
    ],
)
def test_a_function_equals_itself(function, case):
    check(function, [case, case], function, {})


def test_the_arguments_are_copies_in_float64(capsys):
    seen = []
    x, y, ids = mt.ones(2), np.ones(2, np.float32), np.ones(2, int)

    def remember(*arguments):
        seen.extend(arguments)
        return arguments[0] * 2.0

    check(remember, [(x, y, ids)], lambda x, y, ids: x * 2.0, {})
    assert [a.dtype for a in seen] == [np.float64, np.float64, np.int64]
    assert seen[0] is not x and x.dtype == np.float32 and not x.requires_grad
    assert not any(np.shares_memory(a, b) for a, b in zip(seen[1:], (y, ids), strict=True))


def test_the_random_numbers_go_on_as_without_a_check():
    mt.manual_seed(3)
    expected = mt.randn(4)
    mt.manual_seed(3)
    check(lambda x: x + mt.randn(3), [np.ones(3)], lambda x: x + mt.randn(3), {})
    assert (mt.randn(4) == expected).all()


def test_the_gradient_may_be_taken_within_no_grad(capsys):
    with mt.no_grad():
        check(softmax_of, [mt.randn(3, 5)], **SOFTMAX)
    assert "gradients" in capsys.readouterr().out


# What is not written


@pytest.mark.parametrize("error", [NotImplementedError, NotYetWritten("f.backward")])
def test_a_function_that_is_not_written(error):
    def later(scores):
        raise error

    with pytest.raises(CheckFailed) as caught:
        check(later, [mt.ones(2)], **SOFTMAX)
    assert str(caught.value) == "later is not written yet" and not caught.value.is_written
    first, second = caught.value._render_traceback_()
    assert first == "later is not written yet" and "in the cell above" in second


def test_a_helper_that_is_not_written_is_named():
    def helper(scores):
        raise NotImplementedError

    def own(scores):
        return helper(scores)

    assert said(own) == ["helper is not written yet"]


# Values


class Node:
    def __init__(self, data):
        self.data, self.label, self._hidden = data, "x" * 40, 5


first_node = Node(3.0)


def test_the_arguments_of_a_case_are_told_apart():
    def zero(end, ids):
        return 0

    def case(*arguments):
        return row(said(zero, [arguments], lambda end, ids: 1, {}), "case")

    assert case(first_node, 5) == "1 of 1: end = first_node = Node(data=3), ids = 5"
    assert case(Node(-2.25), [1, 2]) == "1 of 1: end = Node(data=-2.25), ids = [1, 2]"
    assert case(np.random.default_rng(0), list(range(50))).endswith(
        "end = Generator, ids = [0, 1, 2, 3, 4, 5, 6, 7, 8 ..."
    )


def test_the_value_that_differs_most_is_named_with_the_case_and_the_property():
    def wrong(scores):
        weights = mt.softmax(scores, -1).numpy()
        return weights + np.eye(*weights.shape) * (scores.shape[0] == 2)

    lines = said(wrong, properties={**ROWS, "nothing": lambda y, x: True})
    assert lines[0] == "wrong: 2 of 14 values of the result are wrong"
    assert row(lines, "case") == "2 of 2: scores = tensor of shape (2, 7)"
    assert row(lines, "got").endswith((" at [0, 0]", " at [1, 1]"))
    assert float(row(lines, "got").split()[0]) - float(row(lines, "expected")) == pytest.approx(1)
    assert row(lines, "not true") == "each row sums to 1"
    assert "nothing" not in "".join(lines)


def test_an_array_in_place_of_a_tensor_lacks_the_gradient_and_no_property():
    lines = said(lambda scores: mt.softmax(scores, -1).detach().numpy())
    assert "no gradient arrives at scores" in lines[0] and "numpy()" in "".join(lines)


def test_a_tensor_in_place_of_an_array(capsys):
    check(mt.tensor, [np.ones(3)], np.copy, {"it has rows": lambda y, x: y.shape == (3,)})
    assert "values" in capsys.readouterr().out


def test_an_overflow_is_named():
    def naive(scores):
        return scores.exp() / scores.exp().sum(-1, keepdim=True)

    lines = said(naive)
    assert row(lines, "got").startswith("nan") and "overflow" in row(lines, "NumPy")
    assert "NaN or infinite" in row(lines, "hint")


def test_a_property_that_runs_the_function_again_prints_no_warning(recwarn):
    def naive(scores):
        return scores.exp() / scores.exp().sum(-1, keepdim=True)

    again = {"it is repeatable": lambda y, scores: (naive(scores) == y).all()}
    said(naive, properties=again)
    assert not recwarn.list


def test_a_new_tensor_of_another_dtype_is_explained():
    lines = said(lambda scores: softmax_of(scores) @ mt.eye(scores.shape[-1]))
    assert "raises DTypeError" in lines[0] and "float64" in row(lines, "hint")
    assert row(said(lambda scores: scores @ scores), "hint") is None


HINTS = {
    "2 times the correct one": lambda x, y: 2 * y,
    "the sign is wrong": lambda x, y: -y,
    "3 is the size of the batch (axis 0 of the output)": lambda x, y: y / 3,
    "too large by 0.5 at every entry": lambda x, y: y + 0.5,
    "in reverse order along axis 0": lambda x, y: y[::-1],
    "rolled by +1 along axis 1": lambda x, y: np.roll(y, 1, 1),
    "only item 2 is wrong": lambda x, y: np.where(np.arange(5) == 2, 7, y),
    "axes 0 and 1 are swapped": lambda x, y: y.T,
    "an axis of size 1 is superfluous": lambda x, y: y[None],
    "the sum over axis 0 is missing": lambda x, y: np.stack([0.5 * y, 0.5 * y]),
    "float32 is too coarse": lambda x, y: y.astype(np.float32),
}


@pytest.mark.parametrize("hint", HINTS)
def test_a_wrong_value_is_explained(hint):
    lines = said(lambda x: HINTS[hint](x, x**3), [np.random.default_rng(0).normal(size=(3, 5))],
                 lambda x: x**3, {})  # fmt: skip
    text = " ".join(line.strip() for line in lines)
    assert hint in text or hint.replace("where ", "") in text


def test_rounding_errors_near_zero_are_no_mistake_but_small_numbers_can_be_wrong():
    zero, small = np.zeros(3), np.full(3, 1e-8)
    assert difference(zero + 1e-15, zero) is None
    assert difference(1.001 * small, small) is not None


def test_a_missing_axis_is_explained():
    lines = said(lambda x: x.sum(-1), [np.ones((3, 5))], lambda x: x.sum(-1, keepdims=True), {})
    assert lines[0].endswith("the result has the wrong shape")
    assert row(lines, "got") == "(3,)" and row(lines, "expected") == "(3, 1)"
    assert "keepdim=True" in row(lines, "hint")


def test_an_inverted_mask_and_a_mask_of_numbers():
    lines = said(lambda n: ~np.tri(n, dtype=bool), [4], lambda n: np.tri(n, dtype=bool), {})
    assert "the mask is inverted" in row(lines, "hint") and row(lines, "case") == "1 of 1: n = 4"
    lines = said(lambda n: np.tri(n), [4], lambda n: np.tri(n, dtype=bool), {})
    assert "wrong dtype" in lines[0] and row(lines, "expected") == "bool"


def test_a_missing_return():
    def forgets(scores):
        mt.softmax(scores, -1)

    lines = said(forgets)
    assert lines[0] == "forgets: the result is None" and "`return ...`" in row(lines, "hint")


@pytest.mark.parametrize(
    ("result", "correct", "text"),
    [
        ((1, 2), np.ones(2), "wrong number of values in the result"),
        (mt.ones(2), (mt.ones(2), mt.ones(2)), "wrong number of values in the result"),
        ([mt.ones(2), mt.ones(3)], mt.ones(2), "wrong type"),
        ("text", np.ones(2), "wrong type"),
        ({"a": 1}, {"b": 1}, "wrong keys in the result"),
        (None, 3, "the result is None"),
        ((1, None), (1, np.ones(2)), "result[1] is None"),
        ("a", "b", "the result is wrong"),
        ((3, 1), (4, 1), "the result is wrong"),
        ([np.ones(2), np.ones(2)], [np.ones(2), 2 * np.ones(2)], "of result[1] are wrong"),
        ({"a": np.ones(2)}, {"a": np.zeros(2)}, "of result['a'] are wrong"),
        (np.array([1.0, np.nan]), np.ones(2), "1 of 2 values of the result is wrong"),
        (np.ones(2), np.array([1.0, np.nan]), "1 of 2 values of the result is wrong"),
        (np.ones(2), np.array([1.0, np.inf]), "1 of 2 values of the result is wrong"),
    ],
)
def test_other_results(result, correct, text):
    assert text in difference(result, correct).what
    assert difference(correct, correct) is None


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_the_first_entry_of_a_list_that_differs_is_named_in_plain_numbers(kind):
    found = difference([kind(7), kind(0.1), kind(7)], [kind(7), kind(1) / 3, 5.0])
    assert found.got == "0.1 at [1], in [7, 0.1, 7]"
    assert found.expected == "0.333333, in [7, 0.3333, 5]"
    assert difference(("a", 1), ("b", 1)).got == "'a' at [0], in ('a', 1)"


def test_a_changed_argument_is_named():
    def shift(scores, bias):
        result = scores + bias
        bias += 1
        return result

    lines = said(shift, [(np.ones(3), np.ones(3))], lambda a, b: a + b, {})
    assert lines[0] == "shift: the function changes its argument bias"


def test_an_argument_that_must_change(capsys):
    def step(x):
        x -= 1

    def other(x):
        x -= 2

    check(step, [np.ones(3)], step, {})
    assert "changes its argument x" in said(other, [np.ones(3)], step, {})[0]


# Gradients


def test_a_detached_result():
    lines = said(lambda scores: mt.softmax(scores.detach(), -1))
    assert lines[0].endswith("no gradient arrives at scores") and "detach" in row(lines, "hint")


def test_a_gradient_that_does_not_arrive_at_one_argument():
    lines = said(lambda a, b: a * b.detach(), [(mt.ones(2), mt.ones(2))], lambda a, b: a * b, {})
    assert lines[0].endswith("no gradient arrives at b")


def test_a_wrong_gradient_is_explained_as_gradcheck_does():
    def half(scores):
        weights = mt.softmax(scores, -1)
        return (weights + weights.detach()) / 2

    lines = said(half)
    assert "values of the gradient of scores are wrong" in lines[0]
    assert row(lines, "also") == "the values of the result are correct"
    assert "1/2 times the correct one" in row(lines, "hint")


def test_the_gradients_of_several_results_are_told_apart():
    lines = said(
        lambda a: (a * a, a.detach() * 3), [mt.randn(4)], lambda a: (a * a, a * 3), {}
    )  # fmt: skip
    assert "gradient of a" in lines[0]


def test_a_property_alone():
    lines = said(softmax_of, properties={"it is green": lambda y, x: False})
    assert "a property does not hold" in lines[0]
    assert row(lines, "not true") == "it is green"
    lines = said(softmax_of, properties={"it is green": lambda y, x: y.green})
    assert row(lines, "not true").startswith("it is green (AttributeError: ")


# Errors in the learner's code


def test_an_error_shows_the_line():
    def wrong(scores):
        one = 1
        return scores @ one.shape

    lines = said(wrong)
    assert lines[0] == "wrong: the function raises AttributeError"
    (line,) = [line for line in lines if line.startswith("  line ")]
    assert line.endswith("return scores @ one.shape")
    number = wrong.__code__.co_firstlineno + 2
    assert line.split()[1] == str(number) and "has no attribute 'shape'" in lines[-1]


def test_an_error_of_the_library_keeps_its_lines():
    lines = said(lambda scores: scores @ scores)
    assert any(line.startswith("              got ") for line in lines)


def test_wrong_parameters():
    lines = said(lambda a, b: a)
    assert "raises TypeError" in lines[0] and "missing 1 required" in row(lines, "error")


def test_an_error_in_backward():
    class Bad(mt.autograd.Function):
        """Like x, but its backward fails."""

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad_y):
            raise ValueError("no")

    lines = said(lambda x: Bad.apply(x), [mt.ones(3)], lambda x: x * 1, {})
    assert "raises ValueError" in lines[0] and 'raise ValueError("no")' in "".join(lines)


def test_an_error_of_the_reference_is_the_lessons():
    with pytest.raises(ZeroDivisionError):
        check(softmax_of, [mt.ones(3)], lambda x: 1 / 0, {})
