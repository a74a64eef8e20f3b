"""Steps: how they are recorded, and how untrusted steps are read."""

import copy
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd.function import Context
from minitorch_attn.grader.grade.step_list import BadSteps, read_steps
from minitorch_attn.grader.grade.steps import (  # fmt: skip
    GIVEN,
    KEPT,
    MOST_BYTES,
    MOST_NUMBERS,
    MOST_STEPS,
    Steps,
)
from minitorch_attn.models.vit import Block
from minitorch_attn.ops.ctc_loss import _backward_variables
from minitorch_attn.ops.softmax import Softmax
from minitorch_attn.tensor import changes

ROOT = Path(mt.__file__).resolve().parents[1]
SOFTMAX, VIT = "minitorch_attn/ops/softmax.py", "minitorch_attn/models/vit.py"
CTC = "minitorch_attn/ops/ctc_loss.py"


def recorded(files, run, *arguments):
    with Steps(ROOT, files) as steps:
        run(*arguments)
    return steps.message()


def both_passes(x, grad):
    ctx = Context()
    ctx.function, ctx.settings, ctx.needs_grad = Softmax, {"axis": -1}, [True]
    Softmax.forward(ctx, x, axis=-1)
    ctx._clock = changes[0]
    return Softmax.backward(ctx, grad)


@pytest.fixture
def softmax():
    x, grad = np.random.default_rng(0).normal(size=(2, 4, 5))
    return recorded([SOFTMAX], both_passes, x, grad)


def test_forward_comes_before_backward_and_calls_lie_inside(softmax):
    steps, numbers = softmax
    assert [s["name"] for s in steps if s["parent"] is None] == [
        "Softmax.forward", "Softmax.backward"
    ]  # fmt: skip
    inside = [s for s in steps if s["parent"] == 0]
    assert inside and all(s["called"][0] == SOFTMAX for s in inside)
    text = (ROOT / SOFTMAX).read_text().splitlines()
    for step in inside:
        assert step["name"].rpartition(".")[2] in text[step["called"][1] - 1]
    assert steps[0]["by"] == "" and inside[0]["by"] == "Softmax.forward"
    made = steps[0]["made"][0]
    rows = numbers[made["at"] : made["at"] + made["count"]].reshape(made["shape"]).sum(-1)
    assert np.allclose(rows, 1.0)


def test_what_the_package_does_by_itself_is_no_step():
    block = Block(8, 2, 12).eval()
    steps, _ = recorded([VIT], block, mt.randn(2, 3, 8))
    assert {s["called"][0] for s in steps if s["called"]} == {VIT}
    assert [s["path"] for s in steps if s["name"] == "LayerNorm"] == ["norm1", "norm2"]
    assert not [s for s in steps if s["name"].startswith("Attention.")]


def test_the_making_of_a_model_is_no_step():
    steps, _ = recorded([VIT], lambda: Block(8, 2, 12))
    assert steps == []


def test_a_large_array_is_sampled_across_its_axes():
    x = np.arange(40_000.0).reshape(200, 200)
    steps, numbers = recorded([SOFTMAX], both_passes, x, x)
    made, given = steps[0]["made"][0], steps[0]["given"][0]
    assert made["every"] > 1 and made["count"] <= KEPT + 4 and given["count"] <= GIVEN + 4
    columns = {i * given["every"] % 200 for i in range(given["count"] - 4)}
    assert len(columns) > 100  # one column would be a sample of nothing
    least, largest, mean, _ = numbers[given["at"] + given["count"] - 4 :][:4]
    assert (least, largest, mean) == (0.0, 39_999.0, 19_999.5)


def test_the_recorder_stops_and_gives_the_profiler_back():
    def many():
        for _ in range(2 * MOST_STEPS):
            both_passes(np.ones((30, 30)), np.ones((30, 30)))

    before = sys.getprofile()
    steps, numbers = recorded([SOFTMAX], many)
    assert len(steps) == MOST_STEPS and sys.getprofile() is before
    assert numbers.nbytes <= MOST_BYTES / 2 and len(numbers) < MOST_NUMBERS + KEPT + 4
    assert len(json.dumps(steps)) < 1 << 20  # what a header may take


def test_an_error_ends_a_step_without_a_result():
    def fails():
        with pytest.raises(AttributeError):
            Softmax.forward(Context(), None, axis=-1)
        return both_passes(np.ones((2, 3)), np.ones((2, 3)))

    steps, _ = recorded([SOFTMAX], fails)
    tops = [s for s in steps if s["parent"] is None]
    assert [bool(s["made"]) for s in tops] == [False, True, True]


def test_a_generator_makes_one_step_for_each_value_that_it_yields():
    emit = np.log(np.random.default_rng(0).uniform(0.1, 1.0, size=(3, 2, 5)))  # (time, batch, s)
    skip, inside = np.full((2, 5), -np.inf), np.ones((3, 2), dtype=bool)

    def run():
        return list(_backward_variables(np, emit, skip, inside, np.array([2, 1])))

    steps, numbers = recorded([CTC], run)
    tops = [s for s in steps if s["parent"] is None and s["name"] == "_backward_variables"]
    assert [len(s["made"]) for s in tops] == [2, 2, 2, 0]  # t and log b_t; then the generator ends
    assert not any(s["left"] for s in tops)
    for (t, beta), step in zip(run(), tops, strict=False):
        place, values = (numbers[m["at"] : m["at"] + m["count"]] for m in step["made"])
        assert place == [t] and np.array_equal(values, beta.reshape(-1))


# Reading


def sent(softmax):
    """As it arrives: after a way through JSON."""
    steps, numbers = softmax
    return json.loads(json.dumps(steps)), numbers


def test_steps_are_read_as_a_tree(softmax):
    top = read_steps(*sent(softmax), [SOFTMAX])
    assert [step.name for step in top] == ["Softmax.forward", "Softmax.backward"]
    assert top[0].children and top[0].outputs[0].values.shape == (4, 5)


def changed(key, value, of=None):
    def change(steps):
        table = steps[0] if of is None else steps[0][of][0]
        table[key] = value

    return change


FORGED = {
    "no list": lambda steps: {"steps": steps},
    "too many": lambda steps: steps * 500,
    "no tables": lambda steps: [1, 2, 3],
    "a name with a colour": changed("name", "\x1b[31mSoftmax.forward"),
    "a name with tags": changed("name", "<script>alert(1)</script>"),
    "an endless name": changed("name", "a" * 100_000),
    "a name that is a number": changed("name", 3),
    "a path upwards": changed("path", "../../etc"),
    "a caller with a newline": changed("by", "a\nb"),
    "a file that was not handed in": changed("defined", ["minitorch_attn/nn/linear.py", 1]),
    "a file of the system": changed("defined", ["/etc/passwd", 1]),
    "a line before the first": changed("defined", [SOFTMAX, 0]),
    "a line that is true": changed("defined", [SOFTMAX, True]),
    "a place of three parts": changed("defined", [SOFTMAX, 1, 1]),
    "its own parent": changed("parent", 0),
    "a parent to come": changed("parent", 5),
    "a parent before the first": changed("parent", -1),
    "a parent of text": changed("parent", "0"),
    "results in a table": changed("made", {}),
    "a thousand results": changed("made", [{}] * 1000),
    "a result of text": changed("made", ["x"]),
    "a start before the first": changed("at", -8, "made"),
    "a start beyond the last": changed("at", 10**9, "made"),
    "a count that is not the shape's": changed("count", 1, "made"),
    "a giant shape": changed("shape", [1 << 30, 1 << 30], "made"),
    "a negative shape": changed("shape", [-4, -5], "made"),
    "a thousand axes": changed("shape", [1] * 1000, "made"),
    "a shape of floats": changed("shape", [4.0, 5.0], "made"),
    "objects": changed("dtype", "object", "made"),
    "a dtype in a list": changed("dtype", ["float64"], "made"),
    "every zeroth": changed("every", 0, "made"),
    "no key": changed("key", None, "given"),
    "no place": changed("place", None, "made"),
    "arguments of a number": changed("takes", 7),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_steps_are_refused(softmax, name):
    steps, numbers = sent(softmax)
    forged = copy.deepcopy(steps)
    replaced = FORGED[name](forged)
    forged = forged if replaced is None else replaced
    start = time.monotonic()
    with pytest.raises(BadSteps):
        read_steps(forged, numbers, [SOFTMAX])
    assert time.monotonic() - start < 5
    assert read_steps(steps, numbers, [SOFTMAX])  # it is the forged part that is refused


@pytest.mark.parametrize(
    "numbers",
    [None, np.zeros(3), np.zeros((2, 200)), np.zeros(900, "float32"), np.zeros(900, "complex")],
)
def test_numbers_of_another_kind_are_refused(softmax, numbers):
    steps, _ = sent(softmax)
    with pytest.raises(BadSteps):
        read_steps(steps, numbers, [SOFTMAX])
