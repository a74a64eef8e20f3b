"""Releases: what they contain, what they omit, and what a student can do with them."""

import ast
import json
import os
import py_compile
import shutil
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace

import pytest

from minitorch_attn.errors import ArgumentError
from minitorch_attn.grader.build.assignment import package_root, read_assignment
from minitorch_attn.grader.build.blank import functions
from minitorch_attn.grader.build.leaks import leaks, telling_lines
from minitorch_attn.grader.build.package import solution_files, starter_files, write_package
from minitorch_attn.grader.build.release import readme, write_release, write_zip

FILE = "minitorch_attn/ops/softmax.py"
LINE = "mean_grad = (grad_y * y).sum(axis=ctx.axis, keepdims=True)"


@pytest.fixture
def made(folder):
    return read_assignment(folder)


def run(folder, *words):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_starter_lacks_bodies_and_keeps_the_rest(made):
    text = starter_files(made)[FILE]
    assert 'raise NotYetWritten("Softmax.forward")' in text
    assert LINE not in text
    assert "return softmax(input * -1, dim, dtype)" in text
    assert "class LogSoftmax" in text
    assert LINE in solution_files(made)[FILE]
    assert solution_files(made, calling="softmin(x)")[FILE].count("input * -1") == 1


@pytest.mark.slow
def test_the_stripped_package_has_no_engine_and_is_compiled(made, tmp_path):
    write_package(made, tmp_path, stripped=True)
    package = tmp_path / "minitorch_attn"
    assert not (package / "course").exists() and not (package / "viz").exists()
    assert 'raise NotYetWritten("run_backward")' in (package / "autograd/engine.py").read_text()
    assert list(package.glob("autograd/__pycache__/engine.*.pyc"))
    assert not list(package.glob("ops/__pycache__/softmax.*.pyc"))  # the student's
    program = "import minitorch_attn as mt; mt.tensor([1.0], requires_grad=True).exp().backward()"
    done = run(tmp_path, "-c", program)
    assert "Tensor.backward: you have not written the body of this function yet." in done.stderr
    assert 'raise NotYetWritten("MatMul.backward")' in (package / "ops/matmul.py").read_text()
    assert not (package / "models/pretrained").exists()


def test_the_stripped_package_has_an_engine_where_checks_differentiate(made, tmp_path):
    write_package(replace(made, engine=True), tmp_path, stripped=True)
    program = "import minitorch_attn as mt; mt.tensor([1.0], requires_grad=True).exp().backward()"
    assert run(tmp_path, "-c", program).returncode == 0
    text = (tmp_path / "minitorch_attn/gradcheck/numeric.py").read_text()
    assert 'raise NotYetWritten("slopes")' in text  # no student needs differences


@pytest.mark.parametrize("stripped", [False, True])
def test_no_package_has_the_gpu_kernels(made, tmp_path, stripped):
    """They have the same formulas again, so they would give the answers away."""
    write_package(made, tmp_path, stripped=stripped)
    assert (tmp_path / "minitorch_attn" / "ops").is_dir()
    assert not (tmp_path / "minitorch_attn" / "kernels").exists()


@pytest.mark.slow
def test_the_public_checks_run_on_the_starter_and_on_the_solution(made, release):
    done = run(release, "check.py")
    assert done.returncode == 1
    assert "Softmax.forward: you have not written the body of this function yet." in done.stdout
    assert "0 of 2 points" in done.stdout
    (release / FILE).write_text(solution_files(made)[FILE])
    done = run(release, "check.py", "--json")
    assert done.returncode == 0
    results = json.loads(done.stdout)
    assert [(r["name"], r["status"]) for r in results] == [("forward", "passed")]


def test_a_wrong_answer_is_told_where_it_differs(made, release):
    text = solution_files(made)[FILE].replace("y /= sum_along(y, axis)", "y *= 2", 1)
    (release / FILE).write_text(text)
    done = run(release, "check.py")
    assert done.returncode == 1
    assert "output[" in done.stdout and "expected" in done.stdout


@pytest.mark.slow
def test_check_is_as_strict_as_the_grader(made, release):
    right = solution_files(made)[FILE]
    (release / "helper.py").write_text("x = 1")
    for line in ("import matplotlib", "import helper", "import pytest"):
        (release / FILE).write_text(f"{line}\n{right}")
        done = run(release, "check.py")
        assert done.returncode == 1 and "ModuleNotFoundError" in done.stdout, line
    (release / FILE).write_text(right)
    other = release / "minitorch_attn/ops/exp_log.py"
    assert other.is_file() and FILE != "minitorch_attn/ops/exp_log.py"
    other.write_text("raise OSError('changed')")  # the grader ignores this file
    assert run(release, "check.py").returncode == 0
    (release / FILE).unlink()
    done = run(release, "check.py")
    assert done.returncode == 1 and f"{FILE} is missing" in done.stderr


def test_hidden_checks_are_not_in_a_release(release):
    table = json.loads((release / "public" / "checks.json").read_text())
    assert [entry["name"] for entry in table] == ["forward"]
    assert not (release / "checks.py").exists()
    assert not (release / "assignment.toml").exists()


def test_the_cells_of_the_notebook_write_into_the_package(made, release):
    program = (release / "small.py").read_text()
    assert program.count("@into(") == 2
    assert program.count('check("Softmax.forward")\n') == program.count("check()\n") == 1
    body = "    ctx.save(x)\n    return x  # mine\n"
    (release / "cell.py").write_text(
        'from workbook import into\n\n\n@into("minitorch_attn.ops.softmax:Softmax.forward")\n'
        f"def forward(ctx, x, *, axis):\n{body}"
    )
    done = run(release, "cell.py")
    assert done.stdout == "Softmax.forward is in minitorch_attn/ops/softmax.py\n", done.stderr
    assert "        return x  # mine\n\n    @staticmethod" in (release / FILE).read_text()
    assert run(release, "reward.py").returncode == 0


def test_markers_in_an_instructors_file(folder, tmp_path):
    (folder / "more.py").write_text("x = 1\n### BEGIN SOLUTION\ny = 2\n### END SOLUTION\n")
    write_release(read_assignment(folder), tmp_path / "release")
    text = (tmp_path / "release" / "more.py").read_text()
    assert text == "x = 1\nraise NotImplementedError()\n"


def test_nothing_leaks(made, release):
    assert LINE in telling_lines(made)
    assert leaks(made, release) == []


def test_a_folder_in_use_is_refused(made, release):
    with pytest.raises(ArgumentError, match="is not empty"):
        write_release(made, release)


def notebook(text):
    cell = {"cell_type": "code", "source": [], "outputs": [{"text": ["a\n", f"  {text}  # b\n"]}]}
    return json.dumps({"cells": [cell]})


@pytest.mark.parametrize("name", ["notes.md", "deep/er/x.py", "book.ipynb", "more.zip"])
def test_a_line_of_the_solution_is_found_wherever_it_is(made, release, name):
    path = release / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner/x.py", f"if True:\n    {LINE}\n")
    else:
        path.write_text(notebook(LINE) if name.endswith("ipynb") else f"    {LINE}  # comment\n")
    (found,) = leaks(made, release)
    assert name in found and "Softmax.backward" in found


def test_compiled_code_is_found(made, release):
    py_compile.compile(str(package_root() / FILE), cfile=str(release / "x.pyc"))
    assert any("the compiled body of" in line for line in leaks(made, release))
    py_compile.compile(str(release / FILE), cfile=str(release / "x.pyc"))
    assert leaks(made, release) == []


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_in_the_history_of_a_repository_is_found(made, release, packed):
    def git(*words):
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *names, *words], cwd=release, check=True, capture_output=True)

    git("init", "-q")
    (release / "x.py").write_text(f"{LINE}\n")
    git("add", "x.py")
    git("commit", "-q", "-m", "first")
    (release / "x.py").unlink()
    git("commit", "-q", "-a", "-m", "second")
    if packed:
        git("gc", "-q")
    assert any("Softmax.backward" in line for line in leaks(made, release))


def test_an_archive_is_the_same_for_the_same_release(release, tmp_path):
    for name in ("a.zip", "b.zip"):
        write_zip(release, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert f"release/{FILE}" in archive.namelist()


def test_the_readme_names_what_there_is_to_open(made):
    with_one, without = readme(made, True), readme(made, False)
    assert "also open `small.ipynb` in Jupyter" in with_one and "small.py" not in with_one
    assert "also work in `small.py`" in without and "ipynb" not in without
    assert max(map(len, without.splitlines())) <= 100


def executed(release, bodies):
    """The texts that the release's notebook prints, with bodies in the place of what raises."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    book = nbformat.read(release / "small.ipynb", as_version=4)
    for cell in book.cells:
        for name, body in bodies.items():
            raising = f'    raise NotYetWritten("{name}")'
            cell.source = cell.source.replace(raising, textwrap.indent(body, "    "))
    client = nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(release)}}
    )
    client.execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert all(output.output_type == "stream" for output in outputs), outputs
    return "".join(output.text for output in outputs)


@pytest.mark.slow
@pytest.mark.kernel
def test_the_notebook_runs_from_top_to_bottom_as_it_is_and_solved(made, release):
    pytest.importorskip("nbformat")
    (release / "reward.py").write_text(
        "import sys\nimport minitorch_attn as mt\nfrom training import run\n"
        "sys.exit(run(lambda: print(mt.softmax(mt.zeros(2), 0).tolist())))\n"
    )
    text = executed(release, {})
    assert "Softmax.backward is in minitorch_attn/ops/softmax.py" in text
    message = "Softmax.forward: you have not written the body of this function yet."
    assert f"NotYetWritten: {message}" in text
    assert "0 of 2 points" in text and "Traceback" not in text
    assert text.endswith("check it with: python check.py Softmax.forward\n")
    bodies = {target.name: body_of(solution_files(made)[FILE], target.name)
              for target in (blank.target for blank in made.blanks)}  # fmt: skip
    text = executed(release, bodies)
    assert "2 of 2 points" in text and text.endswith("[0.5, 0.5]\n")


def body_of(source, name):
    """The body of a function below its docstring."""
    node = functions(source)[name]
    first = node.body[0]
    lines = source.splitlines()
    start = first.end_lineno if isinstance(getattr(first, "value", 0), ast.Constant) else None
    return textwrap.dedent("\n".join(lines[start or first.lineno - 1 : node.end_lineno]))
