"""The mutation command: which changes it makes, and that it finds missing tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # tools/ is not installed

from tools.mutate.forks import DIED, LATE, run_all  # noqa: E402
from tools.mutate.mutants import mutants_of  # noqa: E402
from tools.mutate.targets import find_targets  # noqa: E402

SOURCE = '''
__all__ = ["square"]


class Square:
    """y = x^2."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x + shared(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_y):
        """Twice x."""
        return double(ctx.x) * grad_y


def double(x):
    return 2 * shared(x)


def shared(x):
    return x + 0


def square(x):
    return Square.forward(None, x)
'''

TEST = """
from types import SimpleNamespace

from sample.ops.square import Square

def test_gradient():
    {}Square.backward(SimpleNamespace(x=3.0), 5.0){}

def test_something_else():
    assert True
"""


@pytest.fixture
def targets_of(tmp_path):
    """targets_of(source): the targets of a package with that one file."""

    def find(source):
        folder = tmp_path / "sample" / "ops"
        folder.mkdir(parents=True)
        (folder / "square.py").write_text(source, encoding="utf-8")
        return find_targets(tmp_path / "sample")

    return find


@pytest.fixture
def changes(targets_of):
    """changes(line, ...): what the mutants of a backward with these lines have in their place."""

    def find(*lines):
        body = "".join(f"        {line}\n" for line in lines)
        source = f"class Op:\n    def backward(ctx, grad_y):\n{body}"
        (target,) = targets_of(source)
        return [mutant.after for mutant in mutants_of(target)]

    return find


def test_targets_are_backwards_and_what_only_they_use(targets_of):
    found = targets_of(SOURCE)
    assert [repr(t) for t in found] == ["ops/square.py:Square.backward", "ops/square.py:double"]


def test_changes_of_arithmetic(changes):
    assert changes("return a * b - c") == [
        "return None",
        "return -(a * b - c)",
        "return a * b + c",
        "return a * b",
        "return -c",
        "return a / b - c",
        "return a - c",
        "return b - c",
    ]


def test_changes_of_constants_axes_and_shapes(changes):
    assert changes("y = sum_to_shape(x.sum(axis=-1, keepdims=True), s)") == [
        "y = x.sum(axis=-1, keepdims=True)",
        "y = sum_to_shape(x.sum(axis=None, keepdims=True), s)",
        "y = sum_to_shape(x, s)",
        "y = sum_to_shape(x.mean(axis=-1, keepdims=True), s)",
        "y = sum_to_shape(x.sum(axis=-2, keepdims=True), s)",
        "y = sum_to_shape(x.sum(axis=-1, keepdims=False), s)",
    ]


def test_changes_of_an_axis_from_the_settings(changes):
    assert changes("y = Flip.call(x, axis=ctx.axis)") == [
        "y = Flip.call(x, axis=0)",
        "y = Flip.call(x, axis=-1)",
        "y = x",
    ]


def test_changes_of_products_and_choices(changes):
    assert changes("y = a @ b", "z = where(m, p, q)", "w = matmul_like(a, b, like=c)") == [
        "y = b @ a",
        "z = where(m, q, p)",
        "w = matmul_like(b, a, like=c)",
    ]


def test_changes_of_returned_gradients(changes):
    assert changes("return ga, gb if need_b else None") == [
        "return (None, gb if need_b else None)",
        "return (-ga, gb if need_b else None)",
        "return (gb if need_b else None, ga)",
        "return (ga, None)",
        "return (ga, -gb if need_b else None)",
        "return (ga, None if need_b else gb)",
    ]


def test_changes_of_conditions_and_updates(changes):
    assert changes("if need_x and n < 2:", "    grad_x += g", "place(x)", "x[i] = y") == [
        "if not (need_x and n < 2):",
        "if need_x or n < 2:",
        "if need_x and n <= 2:",
        "if need_x and n >= 2:",
        "if need_x and n < 3:",
        "grad_x -= g",
        "pass",
        "pass",
        "pass",
    ]


def test_errors_and_docstrings_are_left_alone(changes):
    assert changes('"""Two."""', "raise ValueError(1 + 1)") == []


def test_code_keeps_its_lines_and_its_name(targets_of):
    for target in targets_of(SOURCE):
        for mutant in mutants_of(target):
            code = mutant.code()
            assert code.co_firstlineno in (13, 19)  # the decorator, where there is one
            assert mutant.line in {line for _, _, line in code.co_lines()}
            assert target.name.endswith(code.co_name)


def test_a_job_has_an_answer_or_a_limit():
    def work(number):
        while number == 2:
            pass
        return 10 // number  # raises for 0

    results = dict(run_all(work, [5, 0, 2, 1], lambda _: 1, jobs=2))
    assert results == {5: 2, 0: DIED, 2: LATE, 1: 10}


def run_on(folder, before, after, equivalents=""):
    """The output of the command, and its exit status."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "equivalent.toml").write_text(equivalents, encoding="utf-8")
    tests = folder / "tests" / "ops"
    tests.mkdir(parents=True)
    (tests / "test_square.py").write_text(TEST.format(before, after), encoding="utf-8")
    command = [sys.executable, "-m", "tools.mutate", "--package", "sample", "--root", folder]
    command += ["--equivalent", folder / "equivalent.toml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert not done.stderr
    return done.stdout, done.returncode


def test_a_sound_test_kills_all(targets_of, tmp_path):
    targets_of(SOURCE)
    output, status = run_on(tmp_path, "assert ", " == 30.0")
    assert "11 of 11 killed: 100.0%" in output
    assert status == 0


def test_a_test_that_asserts_nothing_is_found_out(targets_of, tmp_path):
    targets_of(SOURCE)
    output, status = run_on(tmp_path, "", "")
    assert "return double(ctx.x) * grad_y -> return double(ctx.x) / grad_y (1 tests" in output
    assert "0 killed" not in output  # None + ... raises in `double`
    assert status == 1


def test_declared_equivalents_count_apart(targets_of, tmp_path):
    targets_of(SOURCE)
    declared = """
[[mutant]]
where = "ops/square.py:double"
change = "return 2 * shared(x) -> return 3 * shared(x)"
reason = "the test looks at the sign alone"

[[mutant]]
where = "ops/square.py:double"
change = "return 2 * shared(x) -> return None"
reason = "wrong: it is noticed"
"""
    output, status = run_on(tmp_path, "assert ", " > 0", declared)
    assert "1 equivalent" in output
    assert "not equivalent:\n  ops/square.py:20: return 2 * shared(x) -> return None" in output
    assert status == 1
