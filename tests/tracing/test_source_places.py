"""Source places: the expression that was running, also over several lines, or none."""

import os
import runpy
import subprocess
import sys

import pytest

import minitorch_attn as mt
from minitorch_attn.tracing import LineRecording


def expression(place):
    """The text of a place's expression, cut out of its lines by its span."""
    first, column, last, end = place.span
    lines = place.text[first - place.first : last - place.first + 1]
    lines[-1] = lines[-1][:end]
    return " ".join(line.strip() for line in [lines[0][column:], *lines[1:]])


@pytest.fixture
def record(tmp_path):
    """record(code) -> the steps of a script, recorded by operation or by line."""

    def run(code, lines=False):
        path = tmp_path / "own.py"
        path.write_text(code, encoding="utf-8")
        with LineRecording([path]) if lines else mt.trace() as t:
            runpy.run_path(str(path))
        return t.steps

    return run


CASES = {
    "nested calls": ("y = f(f(x) * 2)", ["x + 1", "f(x) * 2", "x + 1"]),
    "comprehension": ("y = [x[i] * i for i in range(2)]", ["x[i]", "x[i] * i"] * 2),
    "generator": ("y = sum(x[i] for i in range(1))", ["x[i]", "sum(x[i] for i in range(1))"]),
    "lambda": ("g = lambda a: a.exp(); y = g(x).sin()", ["a.exp()", "g(x).sin()"]),
    "augmented": ("y = x * 1; y += x", ["x * 1", "y += x"]),
    "unpacking": ("a, b = x", ["a, b"]),
    "chained over lines": ("y = (\n x\n .exp()\n .T\n)", ["x .exp()", "x .exp() .T"]),
    "call over lines": ("y = mt.cat(\n [x.sin(), x]\n)", ["x.sin()", "mt.cat( [x.sin(), x] )"]),
    "wrapped function": ("y = F.relu(x, inplace=False)", ["F.relu(x, inplace=False)"]),
    "letters of several bytes": ("é = 'ü𝛼'; y = x.exp()", ["x.exp()"]),
}
HEAD = """import minitorch_attn as mt
import minitorch_attn.nn.functional as F
def f(x): return x + 1
x = mt.ones(2, 3)
"""


@pytest.mark.parametrize("case", CASES)
def test_the_expression_of_each_step(record, case):
    code, expected = CASES[case]
    steps = record(HEAD + code + "\n")
    assert [expression(step.source) for step in steps] == expected
    assert {step.source.file for step in steps} == {steps[0].called_at.file}
    for step in steps:
        first, _, last, _ = step.source.span
        assert first <= step.source.line <= last
        assert len(step.source.text) == last - first + 3


def test_the_call_that_led_into_the_package_is_known_too(record):
    *_, layer, outer = record("import minitorch_attn as mt\n"
                          "net = mt.nn.Linear(3, 3)\ny = net(mt.ones(1, 3)).exp()\n")  # fmt: skip
    assert layer.source.file == "minitorch_attn/nn/linear.py"
    assert expression(layer.called_at) == "net(mt.ones(1, 3))"
    assert expression(outer.called_at) == "net(mt.ones(1, 3)).exp()"


def test_lines_of_a_long_expression_are_cut(record):
    rows = ",\n".join(["    x"] * 60)
    (step,) = record(f"import minitorch_attn as mt\nx = mt.ones(2)\ny = mt.cat([\n{rows}\n])\n")
    assert step.source.span == (3, 4, 64, 2) and 3 < len(step.source.text) < 20
    assert step.source.text[step.source.line - step.source.first] == "y = mt.cat(["


def test_without_positions_the_line_remains(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("import minitorch_attn as mt\nwith mt.trace() as t:\n    mt.ones(2).exp()\n"
                    "print(t.steps[0].source.span, t.steps[0].source.text)\n"
                    "print(t.document()['steps'][0]['source']['span'])\n")  # fmt: skip
    out = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", path], text=True, capture_output=True,
        check=True, env=os.environ,
    ).stdout  # fmt: skip
    assert out.splitlines()[0].startswith("None ['with mt.trace() as t:', '    mt.ones(2).exp()'")
    assert out.splitlines()[1] == "None"


def test_without_a_source_there_is_no_span():
    with mt.trace() as t:
        exec("import minitorch_attn as mt; mt.ones(2).exp()", {})
    assert t.steps[0].source.span is None and set(t.steps[0].source.text) == {""}


def test_a_recorded_line_is_its_statement_and_knows_who_called(record):
    steps = record("import numpy as np\ndef f(x):\n    return (\n        x\n        + 1.0\n    )\n"
                   "x = np.ones(2)\ny = [f(a) for a in (x, f(x) * 2.0)]\n"
                   "if (x[:1] < 2.0).all(): z = x * 2.0\n", lines=True)  # fmt: skip
    own = [expression(step.source) for step in steps]
    inner = "return ( x + 1.0 )"
    assert own[:5] == ["x = np.ones(2)", inner, inner, inner, "y = [f(a) for a in (x, f(x) * 2.0)]"]
    called = [expression(step.called_at) for step in steps[1:4]]
    assert called == ["f(x)", "f(a)", "f(a)"]
    assert steps[1].called_at.line == 8 and steps[0].called_at is steps[0].source
