"""The table of a recording shows what was recorded, fits its width, and folds."""

import re
from collections import OrderedDict

import pytest

import minitorch_attn as mt


@pytest.fixture(scope="module")
def small():
    mt.manual_seed(1)
    x = mt.randn(5, 7, requires_grad=True)
    w = mt.randn(7, 3, requires_grad=True)
    with mt.trace(title="Two products") as t:
        y = x @ w
        (y.exp() * y).sum().backward()
    return t


@pytest.fixture(scope="module")
def deep():
    mt.manual_seed(3)
    model = mt.models.GPT(29, 16, 24, 2, 2)
    ids = mt.tensor([[3, 1, 4, 1, 5, 9, 2]])
    with mt.trace(expand=True) as t:
        logits = model(ids[:, :-1])
        mt.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    return t


def test_forward_shows_line_operation_formula_and_shapes(small):
    lines = small.table(width=100, colour=False).splitlines()
    assert lines[0] == "Two products: 10 steps, 4 forward and 6 backward"
    at = next(i for i, line in enumerate(lines) if line.endswith("y = x @ w"))
    assert re.match(r"\S*test_table\.py:\d+: ", lines[at])
    assert re.match(r" +1 +MatMul +c = a @ b +\(5,7\), \(7,3\) -> \(5,3\)$", lines[at + 1])


def test_backward_shows_the_sum_with_its_numbers(small):
    text = small.table(width=100, colour=False)
    found = re.findall(r"^ .*\by \(MatMul 1\) +\[(\d),(\d)\] +(\S+) +(\S+) +(\S+)$", text, re.M)
    assert len(found) == 2  # y is used twice
    first, second = found
    assert first[2] == "-" and first[3] == first[4]
    before, contribution, after = map(float, second[2:])
    assert before + contribution == pytest.approx(after, abs=2e-3 * abs(after))
    addition = [a for step in small.steps for a in step.added if a.before is not None][0]
    i, j = int(second[0]), int(second[1])
    assert after == pytest.approx(addition.after.values.array[i, j], rel=1e-3)
    assert abs(addition.after.values.array).max() == abs(addition.after.values.array[i, j])


def test_grads_that_are_kept_stand_at_the_end(small):
    kept = small.table(width=100, colour=False).split("leaves:")[1]
    assert re.findall(r"^ +\d+ +([xw]) ", kept, re.M) == ["w", "x"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(small, deep, width):
    for t in (small, deep):
        lines = t.table(width=width, colour=False).splitlines()
        assert max(map(len, lines)) <= width
        assert not any(line != line.rstrip() for line in lines)


def test_long_recordings_are_folded_by_module(deep):
    forward = [step for step in deep.steps if step.kind == "forward"]
    assert len(forward) > 100
    text = deep.table(width=100, colour=False).split("\nbackward")[0]
    ranges = [(int(a), int(b)) for a, b in re.findall(r"^ *(\d+)-(\d+) ", text, re.M)]
    single = [int(n) for n in re.findall(r"^ *(\d+) {2}[A-Z]", text, re.M)]
    shown = {n for a, b in ranges for n in range(a, b + 1)} | set(single)
    assert ranges and shown == {step.number for step in forward}  # nothing is lost
    assert re.search(r"^blocks\.1\.attention\n *\d+-\d+ +Attention +18 steps", text, re.M)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_depth_decides_what_is_folded(deep, depth):
    text = deep.table(depth=depth, width=100, colour=False).split("\nbackward")[0]
    names = re.findall(r"^ *\d+-\d+ +(\w+)", text, re.M)
    assert names[0] == {0: "GPT", 1: "Block", 2: "LayerNorm"}[depth]


def test_rows_is_about_how_many_rows_there_are(deep):
    few = deep.table(rows=10, width=100, colour=False).splitlines()
    many = deep.table(rows=1000, width=100, colour=False).splitlines()
    assert len(few) < 60 < 300 < len(many)


def test_colour_follows_the_terminal_and_no_color(small, monkeypatch):
    import sys

    plain = small.table(width=100)
    assert "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = small.table(width=100)
    assert "\x1b[" in coloured
    without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()
    monkeypatch.setenv("NO_COLOR", "1")
    assert small.table(width=100) == plain


def test_notes_are_in_the_table(make):
    x = make(3)
    with mt.trace() as t:
        y = x.exp()
        y.register_hook(lambda grad: grad * 10)
        y.sum().backward()
    assert "! the gradient of" in t.table(width=160, colour=False)


def test_an_empty_recording_has_a_table():
    with mt.trace() as t:
        pass
    assert t.table() == str(t) == "A recording: 0 steps, 0 forward and 0 backward"


def test_at_a_prompt_it_reads_as_it_is_printed():
    x = mt.ones(2, 3, requires_grad=True)
    with mt.trace() as t:
        (x * 2).sum().backward()
    assert repr(t.table()) == str(t.table()) and "\n" in repr(t.table())


def test_the_numbers_of_steps_agree(deep, small):
    """The total is forward + backward, the steps count from 1 to it, and "3-9" is seven steps."""
    x = mt.ones(3, 4, requires_grad=True)
    layers = mt.nn.Sequential(OrderedDict(a=mt.nn.Linear(4, 4), b=mt.nn.Tanh()))
    with mt.trace() as twice:
        for _ in range(2):
            mt.checkpoint(layers, x).sum().backward()
    for t in (small, deep, twice):
        for depth in (None, 0, 99):
            text = t.table(rows=9999, width=160, depth=depth, colour=False)
            total, forward, backward = map(
                int, re.search(r": (\d+) steps, (\d+) forward and (\d+) backward", text).groups()
            )
            assert total == forward + backward == len(t.steps)
            shown = []
            for first, last, folded in re.findall(
                r"^ *(\d+)(?:-(\d+))? .*?(?:(\d+) steps, folded.*)?$", text, re.M
            ):
                shown += range(int(first), int(last or first) + 1)
                assert int(folded or 1) == int(last or first) - int(first) + 1
            assert sorted(shown) == list(range(1, total + 1))


def test_indices_are_written_as_in_code(make):
    x = make(3, 5, 7)
    with mt.trace() as t:
        x[:, 1:].sum()
        x[..., None, 2:5:2].sum()
        x[:, mt.tensor([0, 2])].sum()
        y = x * 1.0
        y[0, 1:] = 2.0
    text = t.table(width=160, colour=False)
    for formula in ("y = x[:, 1:]", "y = x[..., None, 2:5:2]", "y = x[:, index_0]"):
        assert formula in text
    assert "value at [0, 1:]" in text and "slice(None" not in text
