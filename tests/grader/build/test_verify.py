"""Verification: every requirement holds for a good assignment and fails for a broken one."""

import pytest
from marks import slow_except

from minitorch_attn.errors import DataError
from minitorch_attn.grader.build import verify as proving
from minitorch_attn.grader.build.assignment import assignments, find_assignment, read_assignment
from minitorch_attn.grader.build.package import solution_files, starter_files
from minitorch_attn.grader.grade.sandbox import Sandbox


def proofs(made, **options):
    """All proofs by their names, in a process that is quick to start."""
    found = list(proving.verify(made, level=1, reward=False, **options))
    return {proof.what: proof for proof in found}


def test_a_good_assignment_holds(folder):
    found = proofs(read_assignment(folder))
    assert [proof.found for proof in found.values()] == [""] * len(found)
    assert found["the solution"].points == "5 of 5"
    assert found["the starter"].points == "0 of 5"
    assert found["bug: no sum"].points == "2 of 5"
    assert found["workaround: the sibling"].points == "2 of 5"
    assert "no leak in the release" in found
    assert "check.py on the solution" in found


@pytest.fixture
def without_release(monkeypatch):
    """Only the candidates are graded."""
    monkeypatch.setattr(proving._Prover, "release", lambda *arguments: iter(()))


@pytest.mark.slow
def test_what_is_forgotten_in_a_manifest_is_found(change, without_release):
    made = change('[[group]]\nfunction = "minitorch_attn.ops.softmax:MaskedSoftmax.backward"\n'
                  'why = "the sibling"\n', "")  # fmt: skip
    found = proofs(made)
    assert found["workaround: the sibling"].found == "backward must fail, but it passed"
    assert found["the starter"].holds


@pytest.mark.slow
@pytest.mark.parametrize("module, lacks", [("softmax", "softmax:slopes"), ("numeric", "numeric")])
def test_a_workaround_that_imports_what_the_library_lacks_is_found(
    change, without_release, module, lacks
):
    body = f"from .{module} import slopes\\nreturn slopes(ctx, grad_y)[0]"
    made = change('body = "return MaskedSoftmax.backward(ctx, grad_y)[0]"', f'body = "{body}"')
    proof = proofs(made)["workaround: the sibling"]
    assert proof.found == f"the library does not have minitorch_attn.ops.{lacks}"
    assert proof.points == "2 of 5"  # as many as with a workaround that the release prevents


@pytest.mark.slow
def test_a_bug_that_loses_something_else_is_found(change, without_release):
    made = change('with = "grad_y"\nloses = ["backward"]', 'with = "grad_y"\nloses = ["forward"]')
    lines = proofs(made)["bug: no sum"].found.splitlines()
    assert lines[0].startswith("backward must pass, but its status is failed: grad_x[")
    assert lines[-1] == "forward must fail, but it passed"


@pytest.mark.slow
def test_a_check_that_nothing_fails_is_found(folder, without_release):
    text = (folder / "checks.py").read_text()
    start = text.index("def forward")
    passes = "def forward(rng):\n    return []\n\n\n"
    (folder / "checks.py").write_text(text[:start] + passes + text[text.index("def backward") :])
    assert (
        proofs(read_assignment(folder))["the starter"].found == "forward must fail, but it passed"
    )


@pytest.mark.slow
def test_a_sibling_that_stays_is_a_leak(change, tmp_path):
    change('body = "return', 'body = "y = x - max_along(x, axis)\\nreturn')
    made = change('    "y = x - max_along(x, axis)",\n', "")
    prover = proving._Prover(made, tmp_path / "room", Sandbox(1), 1)
    leak = next(prover.release(solution_files(made), False))
    assert "y = x - max_along(x, axis)" in leak.found


def test_a_bug_has_to_be_in_the_solution(change):
    made = change('replace = "(grad_y - mean_grad)"', 'replace = "nothing like it"')
    with pytest.raises(DataError, match="must occur once"):
        proving.with_bug(solution_files(made), made.bugs[0])


@pytest.mark.parametrize("name", slow_except(("softmax",), [made.name for made in assignments()]))
def test_the_solution_earns_everything_and_the_starter_nothing(name, tmp_path):
    made = find_assignment(name)
    prover = proving._Prover(made, tmp_path, Sandbox(1), 99)
    assert prover.candidate("solution", solution_files(made), set()).found == ""
    everything = {entry.name for entry in made.checks}
    assert prover.candidate("starter", starter_files(made), everything).found == ""


@pytest.mark.slow
def test_a_reward_is_timed_by_the_processor(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(proving, "REWARD_SECONDS", 1)
    prover = proving._Prover(read_assignment(folder), tmp_path / "room", Sandbox(1), 1)
    busy = "import time\nwhile time.process_time() < 1.5:\n    pass\n"
    for program, words in (("import time\ntime.sleep(1.5)\n", ""), (busy, "more than 1")):
        (tmp_path / "reward.py").write_text(program)
        proof = prover.script("the reward", tmp_path, "reward.py", 0, "")
        assert words in proof.found and proof.holds is not bool(words)
