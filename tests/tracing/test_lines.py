"""LineRecording: each executed line of plain NumPy code, with what it read and made."""

import runpy
import sys
import textwrap

import numpy as np
import pytest

from minitorch_attn.tracing import LineRecording


@pytest.fixture
def record(tmp_path):
    """record(code) -> the LineRecording of a script."""

    def run(code, **options):
        path = tmp_path / "own.py"
        path.write_text("import numpy as np\n" + textwrap.dedent(code), encoding="utf-8")
        with LineRecording([path], **options) as recording:
            runpy.run_path(str(path))
        return recording

    return run


def lines(recording):
    return [(step.op, step.formula) for step in recording.steps]


def values(entry):
    return entry.values.array.tolist() if hasattr(entry, "values") else entry


def test_a_step_is_a_line_with_the_arrays_that_it_read_and_made(record):
    t = record("""
        def double(x, times=2.0):
            y = (
                x
                * times
            )
            return y + 1.0

        a = np.arange(3.0)
        b = double(a)
        """)
    assert lines(t) == [
        ("own.py", "a = np.arange(3.0)"), ("double", "y = x * times"),
        ("double", "return y + 1.0"), ("own.py", "b = double(a)"),
    ]  # fmt: skip
    step = t.steps[1]
    assert (step.input_names, step.output_names) == (["x", "times"], ["y"])
    assert [values(entry) for entry in step.inputs] == [[0, 1, 2], 2.0]
    assert values(step.outputs[0]) == [0, 2, 4] and step.source.line == 4
    assert str(step.module) == "own.py.double" and t.steps[3].outputs == t.steps[2].outputs


def test_changes_in_place_loops_and_augmented_assignment(record):
    t = record("""
        total = np.zeros(2)
        for row in np.ones((2, 2)):
            total += row
        np.add.at(total, [0, 0], 5.0)
        total[1] = np.sqrt(16.0)
        same = total
        n = 3
        """)
    made = [(step.formula, values(step.outputs[0])) for step in t.steps]
    assert made == [
        ("total = np.zeros(2)", [0, 0]), ("total += row", [1, 1]), ("total += row", [2, 2]),
        ("np.add.at(total, [0, 0], 5.0)", [12, 2]), ("total[1] = np.sqrt(16.0)", [12, 4]),
    ]  # fmt: skip
    assert [values(entry) for entry in t.steps[2].inputs] == [[1, 1], [1, 1]]


OWN = """
    class Box:
        def __init__(self, data, pull=None):
            self.data, self.grad, self.pull = data, 0.0, pull

        def square(self):
            return Box(self.data**2, lambda g: 2.0 * g * self.data)

        def backward(self):
            return self.pull(np.ones(2))

        @property
        def trap(self):
            raise RuntimeError("a recording must not run code")

    p = {"w": Box(np.array([1.0, 3.0]))}
    y = p["w"].square()
    g = y.backward()
    t = (y.trap if False else y.data) * 1.0
    """


def test_objects_with_an_array_are_shown_as_it_and_backward_is_a_side(record):
    t = record(OWN)
    shown = [(s.side, s.op, values(s.outputs[0])) for s in t.steps]
    assert ("backward", "Box.square.lambda", [2, 6]) in shown
    assert ("forward", "own.py", [1, 9]) in shown
    inner = next(step for step in t.steps if step.op == "Box.square.lambda")
    assert inner.input_names == ["g", "self.data"] and "backward" in str(inner.module)
    y = next(step for step in t.steps if step.formula.startswith("y ="))
    assert y.input_names == ["p['w']"] and y.outputs[0].variable == "y"


def test_the_page_and_the_table_show_lines(record):
    t = record(OWN, title="mine")
    sides = {step["side"] for step in t.document()["steps"]}
    assert sides == {"forward", "backward"}
    table = t.table(width=100)
    assert table.startswith(f"mine: {len(t.steps)} steps, ") and "\nbackward" in table


def test_errors_limits_and_the_trace_function_before(record, tmp_path):
    before = sys.gettrace()
    t = record("x = np.ones(2)\nfor i in range(9):\n    x = x + 1.0\n", max_steps=4)
    assert len(t.steps) == 4 and t.skipped == 6 and "max_steps" in t.message
    path = tmp_path / "broken.py"
    path.write_text("import numpy as np\nx = np.ones(2)\ny = x @ np.ones(3)\n")
    with pytest.raises(ValueError), LineRecording([path]) as broken:
        runpy.run_path(str(path))
    assert lines(broken) == [("broken.py", "x = np.ones(2)")] and "broken.py:3" in broken.message
    assert sys.gettrace() is before


def test_other_files_are_not_recorded(tmp_path):
    path = tmp_path / "other.py"
    path.write_text("x = 1\n")
    with LineRecording([path]) as t:
        np.ones(3).cumsum()
    assert t.steps == []
