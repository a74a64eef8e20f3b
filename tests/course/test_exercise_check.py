"""Every attempt to pass an exercise without solving it fails, with and without the source rules."""

import os
import sys
import textwrap
import time

import numpy as np
import pytest

from minitorch_attn.course.exercises import check as checking
from minitorch_attn.course.exercises.check import check_file
from minitorch_attn.course.exercises.child import load
from minitorch_attn.course.exercises.load import find_exercise
from minitorch_attn.course.exercises.rules import not_python, rule_broken

LIMIT = 300


@pytest.fixture
def attempt(tmp_path):
    """attempt(name, old, new, ...) -> the outcome of the file with some text replaced."""

    def run(name, *pairs, limit=LIMIT, solved=False):
        exercise = find_exercise(name)
        text = exercise.solved if solved else exercise.text
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / exercise.path.name
        path.write_text(text, encoding="utf-8")
        return check_file(exercise, path, limit)

    return run


@pytest.fixture
def no_rules(monkeypatch):
    """Only what the process computes counts."""
    monkeypatch.setattr(checking, "rule_broken", lambda text, original: None)


def wrong(outcome):
    assert not outcome.passed
    return {part.name: part.text for part in outcome.parts if not part.passed}


SOFTMAX_BACKWARD = '        raise NotImplementedError("dL/dx, of the shape of y")\n'
BUG = "        return y * (1 - y) * grad_y\n"


def body(text):
    return textwrap.indent(textwrap.dedent(text), "        ")


def test_without_the_check_at_its_end_a_file_is_judged_all_the_same(attempt):
    exercise = find_exercise("03")
    main = exercise.text[exercise.text.index("\n\nif __name__") :]
    assert "gradcheck" in wrong(attempt("03", main, "\n"))
    assert attempt("03", main, "\n", solved=True).passed


def test_zeros_fail(attempt):
    found = wrong(attempt("26", SOFTMAX_BACKWARD, body("return np.zeros_like(y)\n")))
    assert {"gradcheck", "gradients match the library's", "large inputs"} <= set(found)


def test_another_forward_fails_although_its_backward_fits(attempt):
    exercise = find_exercise("03")
    start = exercise.text.index("        exp_x = np.exp(x")
    forward = exercise.text[start : exercise.text.index("        ctx.save(y)")]
    outcome = attempt("03", forward, body("y = 1 / (1 + np.exp(-x))\n"))
    assert outcome.report_ok  # the logistic function, whose derivative is y (1 - y)
    assert "forward returns the correct values" in wrong(outcome)


NAIVE = """
grad_x = np.zeros_like(y)
x = np.log(y)
for place in np.ndindex(x.shape):
    above, below = x.copy(), x.copy()
    above[place] += 1e-5
    below[place] -= 1e-5
    above, below = np.exp(above), np.exp(below)
    change = above / above.sum(-1, keepdims=True) - below / below.sum(-1, keepdims=True)
    grad_x[place] = (change * grad_y).sum() / 2e-5
return grad_x
"""
BY_ROWS = """
grad_x = np.zeros_like(y)
x = np.log(y)
for i in range(x.shape[-1]):
    step = np.zeros_like(x)
    step[..., i] = 1e-5
    above, below = np.exp(x + step), np.exp(x - step)
    change = above / above.sum(-1, keepdims=True) - below / below.sum(-1, keepdims=True)
    grad_x[..., i] = (change * grad_y).sum(-1) / 2e-5
return grad_x
"""


@pytest.mark.slow
def test_differences_of_every_entry_do_not_end_on_large_inputs(attempt):
    started = time.monotonic()
    outcome = attempt("26", SOFTMAX_BACKWARD, body(NAIVE), limit=8)
    assert time.monotonic() - started < 100
    found = wrong(outcome)
    assert outcome.report_ok  # the gradient check alone is satisfied
    assert "differences and loops take longer" in found["large inputs"]


def test_clever_differences_are_not_precise_enough(attempt):
    outcome = attempt("26", SOFTMAX_BACKWARD, body(BY_ROWS))
    found = wrong(outcome)
    assert outcome.report_ok and "gradcheck" not in found
    assert "too large for an exact formula" in found["gradients match the library's"]


def test_the_library_in_place_of_the_class_is_noticed(attempt):
    found = wrong(attempt("03", "return Softmax.apply(x)", "return x.softmax(-1)"))
    text = "softmax() was changed: change only the class"
    assert found == {"the solution follows the task": text}


def test_the_class_has_to_run(attempt, no_rules):
    outcome = attempt("03", "return Softmax.apply(x)", "return x.softmax(-1)")
    assert wrong(outcome) == {"the solution follows the task": "Softmax is no longer used"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os\nos._exit(0)", "line 11: os is not part of this exercise"),
        ("from minitorch_attn.ops import softmax as s", "minitorch_attn.ops.softmax is not"),
        ("mt.autograd.check = 1", "mt.autograd.check is not part"),
        ("import minitorch_attn as m; m.softmax", "mt.softmax is not part"),
        ("getattr(mt, 'soft' + 'max')", "mt is not part"),
        ("exec('import os')", "exec is not part"),
    ],
)
def test_the_rules(code, words):
    original = find_exercise("03").text
    text = original.replace("\nimport minitorch_attn", f"\n{code}\nimport minitorch_attn", 1)
    assert words in rule_broken(text, original)


@pytest.mark.parametrize(
    ("text", "said", "line", "caret"),
    [
        ("x = 1\ny = (x +\nz = 2\n", "a.py:2: SyntaxError", "y = (x +", "    ^"),
        ("def broken(:", "a.py:1: SyntaxError: invalid syntax", "def broken(:", " " * 11 + "^"),
        ("if 1:\n\tx = 1\n        y = 2\n", "a.py:3: TabError", "y = 2", "^"),
        ("if 1:\nx = 1\n", "a.py:2: IndentationError", "x = 1", "^"),
        ("if 1:\n    é = 'ü' 3\n", "a.py:2: SyntaxError", "é = 'ü' 3", " " * 8 + "^"),
    ],
)
def test_what_python_cannot_read_is_shown_with_its_place(text, said, line, caret):
    first, empty, shown, below = not_python(text, "a.py").split("\n")
    assert first.startswith(said) and empty == ""
    assert (shown, below) == (f"    {line}", f"    {caret}")


def test_a_null_character_is_a_message():
    assert not_python("x = 1\0", "a.py").startswith("a.py: ")
    assert not_python("x = 1\n", "a.py") is None


def test_the_rules_leave_room(attempt):
    """Helpers, other imports of mathematics, prints, and anything below `if __name__`."""
    outcome = attempt(
        "03", BUG, "        return derive(y, grad_y)\n",
        "class Softmax", "import math\n\n\ndef derive(y, g):\n    print(math.pi)\n"
        "    return y * (g - (g * y).sum(axis=-1, keepdims=True))\n\n\nclass Softmax",
        "    print(gradcheck_report(softmax, (x,)).facts())", "    print(mt.softmax(x, -1), open)",
    )  # fmt: skip
    assert outcome.passed and outcome.output.startswith("3.14159")


def test_a_backward_does_not_run_another(attempt):
    lines = "return Softmax.forward(ctx, y)\n"
    found = wrong(attempt("26", SOFTMAX_BACKWARD, body(lines)))
    assert "a backward must not call .forward(...)" in found["the solution follows the task"]


ENDS = {
    "leaves": ("import os\nos._exit(0)", "exited with status 0"),
    "exits": ("raise SystemExit(0)", "SystemExit: 0"),
    "hangs": ("while True: pass", "did not finish within 2 s"),
    "interrupts": ("raise KeyboardInterrupt", "exited with status"),
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.slow
def test_a_file_that_ends_its_process_or_hangs_fails(how, attempt, no_rules):
    code, words = ENDS[how]
    limit = 2 if how == "hangs" else LIMIT
    new = f"{code}\n\n\nclass Softmax"
    outcome = attempt("03", "class Softmax", new, solved=True, limit=limit)
    text = wrong(outcome)["the file runs"]
    assert any(word in text for word in words.split("|"))


FORGED = """
class Report:
    ok = True
    def facts(self):
        return "gradcheck: the gradient agrees with central differences."
    def causes(self):
        return ""


mt.autograd.gradcheck_report = lambda *a, **k: Report()
np.testing.assert_allclose = np.allclose = lambda *a, **k: True
np.abs = lambda x: 0 * x
"""


def test_forged_reports_and_comparisons_change_nothing(attempt, no_rules):
    outcome = attempt("03", "class Softmax", FORGED + "\n\nclass Softmax")
    assert outcome.report_ok  # it says what it was told to say
    assert "gradients match the library's" in wrong(outcome)
    assert np.abs(-1.0) == 1.0  # not in this process


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("return (y * grad_y).astype('float32')", "float32"),
        ("return grad_y[0]", "shape"),
        ("return grad_y * np.nan", "entries are NaN"),
        ("return None", "returned None for its input 0"),
    ],
)
def test_results_of_another_kind_fail_with_a_reason(line, words, attempt):
    found = " ".join(wrong(attempt("03", BUG, f"        {line}\n")).values())
    assert any(word in found for word in words.split("|")), found


def test_an_error_names_the_line_of_the_file(attempt):
    found = wrong(attempt("03", BUG, "        return y @ nothing\n"))
    number = find_exercise("03").text[: find_exercise("03").text.index(BUG)].count("\n") + 1
    assert found["the file runs"] == (
        f"line {number}: return y @ nothing\nNameError: name 'nothing' is not defined"
    )


def test_mending_backward_instead_of_forward_is_green_and_fails(attempt):
    """Exercise 16: a mask after the softmax, with the gradient that belongs to it."""
    outcome = attempt(
        "16", "        ctx.save(weights)\n",
        "        ctx.save(weights)\n        ctx.constants(exp / exp.sum(axis=-1, keepdims=True))\n",
        "        shared = (grad_weights * weights).sum(axis=-1, keepdims=True)\n"
        "        return weights * (grad_weights - shared), None\n",
        "        shared = (grad_weights * weights).sum(axis=-1, keepdims=True)\n"
        "        (whole,) = ctx.constant\n"
        "        return weights * grad_weights - whole * shared, None\n",
    )  # fmt: skip
    assert outcome.report_ok
    assert {"the weights of the words sum to 1", "forward returns the correct values"} <= set(
        wrong(outcome)
    )


def test_much_output_is_cut(attempt):
    outcome = attempt("03", "class Softmax", "print('x' * 10**6)\n\n\nclass Softmax", solved=True)
    assert outcome.passed and len(outcome.output) < 5000


def test_each_check_draws_other_numbers(attempt):
    first, second = attempt("03"), attempt("03")
    assert first.report != second.report


def test_a_file_that_is_saved_twice_within_a_second_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    for text in ("number = 1\n", "number = 2\n"):  # of the same size
        file.write_text(text, encoding="utf-8")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        monkeypatch.delitem(sys.modules, "mine", raising=False)
        assert load(str(file), "mine").number == int(text[-2])
