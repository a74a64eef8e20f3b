"""The tracer is available to students, but not to the process of a submission."""

import os
import subprocess
import sys

import pytest
from marks import slow_except

from minitorch_attn.grader.build.assignment import assignments, find_assignment
from minitorch_attn.grader.build.leaks import leaks
from minitorch_attn.grader.build.package import solution_files, write_package

PROGRAM = """
import minitorch_attn as mt

def run(scale):
    mt.manual_seed(0)
    x, layer = mt.randn(2, 5, 12), mt.nn.Attention(12, 3, scale=scale)
    with mt.trace() as t:
        layer(x).square().sum().backward()
    return t

one, other = run(0.5), run(0.25)
print([step.op for step in one.steps if step.kind == "backward"])
print(mt.trace_diff(one, other))
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The attention assignment with a student's work in it."""
    made, folder = find_assignment("attention"), tmp_path_factory.mktemp("release")
    write_package(made, folder)
    assert leaks(made, folder) == []
    for path, text in solution_files(made).items():
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def test_a_student_can_trace_attention_without_its_definition(release):
    environment = {**os.environ, "PYTHONPATH": str(release), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=release, env=environment, capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran, report = done.stdout.split("\n", 1)
    assert "'Attention'" in ran
    assert "differ from forward step" in report and "Attention" in report.splitlines()[0]


@pytest.mark.parametrize("name", slow_except(("softmax",), [made.name for made in assignments()]))
def test_the_process_of_a_submission_has_no_tracer(name, tmp_path):
    write_package(find_assignment(name), tmp_path, stripped=True)
    package = tmp_path / "minitorch_attn"
    assert (package / "ops").is_dir() and not (package / "tracing").exists()
    assert not list(package.rglob("steps.py")) and not list(package.rglob("*first_step*"))
