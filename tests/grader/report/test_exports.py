"""Exports: public checks in otter and nbgrader from a release; the Gradescope archive."""

import contextlib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from minitorch_attn.cli import main
from minitorch_attn.errors import ArgumentError
from minitorch_attn.grader.build.assignment import assignments, find_assignment
from minitorch_attn.grader.build.package import solution_files, starter_files
from minitorch_attn.grader.build.release import write_release
from minitorch_attn.grader.report.autograder import write_autograder
from minitorch_attn.grader.report.export import write_export
from minitorch_attn.grader.report.nbgrader import nbgrader
from minitorch_attn.grader.report.otter import otter

NAME = "softmax"
VERSION = f"{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture(scope="module")
def made():
    return find_assignment(NAME)


@pytest.fixture(scope="module")
def release(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / NAME
    write_release(made, folder)
    return folder


def complete(made, release, files):
    for path, text in files.items():
        (release / path).write_text(text, encoding="utf-8")


# In the release: what otter does with a case, a doctest in the folder of the notebook.
RUN_CASES = """
import doctest, json, pathlib, sys
sys.path.insert(0, ".")
results = []
for path in sorted(pathlib.Path("tests").glob("q*.py")):
    space = {}
    exec(compile(path.read_text("utf-8"), path, "exec"), space)
    for suite in space["test"]["suites"]:
        for case in suite["cases"]:
            test = doctest.DocTestParser().get_doctest(case["code"], {}, path.name, None, 0)
            runner = doctest.DocTestRunner(verbose=False)
            results.append(runner.run(test, out=lambda text: None).failed)
print(json.dumps(results))
"""


def run_cases(release):
    done = subprocess.run(
        [sys.executable, "-c", RUN_CASES], cwd=release, capture_output=True, text=True, check=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    return json.loads(done.stdout)


def test_otter_s_files_have_its_form(made):
    public = [entry for entry in made.checks if not entry.hidden]
    files = otter(made.checks)
    assert list(files) == [f"q{k}.py" for k in range(1, len(public) + 1)]
    for (name, text), entry in zip(files.items(), public, strict=True):
        space = {}
        exec(text, space)
        assert space["OK_FORMAT"] is True
        test = space["test"]
        assert test["name"] == name.removesuffix(".py") and test["points"] == entry.points
        (suite,) = test["suites"]
        assert suite["type"] == "doctest" and suite["scored"] is True
        for case in suite["cases"]:
            assert set(case) == {"code", "hidden", "locked"} and not case["hidden"]
            assert doctest.DocTestParser().get_examples(case["code"])


def test_no_hidden_check_is_exported(made):
    hidden = [entry.name for entry in made.checks if entry.hidden]
    texts = "".join(otter(made.checks).values()) + json.dumps(nbgrader(made))
    assert hidden and not [name for name in hidden if repr(name) in texts]


@pytest.mark.slow
def test_otter_s_cases_pass_with_the_solution_and_fail_without(made, release):
    (release / "tests").mkdir(exist_ok=True)
    for name, text in otter(made.checks).items():
        (release / "tests" / name).write_text(text, encoding="utf-8")
    complete(made, release, starter_files(made))
    assert all(failed > 0 for failed in run_cases(release))
    complete(made, release, solution_files(made))
    results = run_cases(release)
    assert results and not any(results)


def test_nbgrader_s_cells_have_its_metadata(made):
    cells = nbgrader(made)["cells"]
    fields = [cell["metadata"]["nbgrader"] for cell in cells]
    keys = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
    for cell, field in zip(cells, fields, strict=True):
        assert set(field) == keys | ({"points"} if field["grade"] else set())
        assert field["schema_version"] == 3 and field["locked"] and not field["solution"]
        assert field["grade"] == (cell["cell_type"] == "code")
    names = [field["grade_id"] for field in fields]
    assert len(set(names)) == len(names)
    public = sum(entry.points for entry in made.checks if not entry.hidden)
    assert sum(field.get("points", 0) for field in fields) == public


# nbgrader/nbgraderformat/v3.json and v3.py
FIELDS = {
    "schema_version": int, "grade": bool, "locked": bool, "solution": bool, "task": bool,
    "grade_id": str, "points": (int, float), "checksum": str, "cell_type": str,
}  # fmt: skip


@pytest.mark.parametrize("name", [made.name for made in assignments()])
def test_nbgrader_takes_the_cells_of_every_assignment(name):
    found = nbgrader(find_assignment(name))
    names = []
    for cell in found["cells"]:
        fields = cell["metadata"]["nbgrader"]
        assert {"schema_version", "grade", "locked", "solution", "grade_id"} <= set(fields)
        assert set(fields) <= set(FIELDS) and fields["schema_version"] == 3
        assert all(isinstance(value, FIELDS[key]) for key, value in fields.items())
        assert re.fullmatch(r"[a-zA-Z0-9_\-]+", fields["grade_id"]) and not fields["task"]
        assert (fields.get("points", -1) >= 0) == fields["grade"]
        if cell["cell_type"] == "markdown":  # grade and solution go together there
            assert fields["grade"] == fields["solution"]
        names.append(fields["grade_id"])
    assert len(set(names)) == len(names)


def test_no_export_overwrites_a_file_of_the_release(made, tmp_path):
    """They are to be put into it: the student's notebook stays."""
    results = {"assignment": {"name": NAME}, "submissions": []}
    release = tmp_path / "release"
    write_release(made, release)
    handed_out = {path.name for path in release.rglob("*") if path.is_file()} | {f"{NAME}.ipynb"}
    for kind in ("nbgrader", "otter"):
        write_export(kind, results, tmp_path)
        written = {path.name for path in (tmp_path / kind).rglob("*") if path.is_file()}
        assert written and not written & handed_out


def test_the_notebook_is_valid(made):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.from_dict(nbgrader(made)))


@pytest.mark.slow
def test_nbgrader_s_cells_pass_with_the_solution_and_fail_without(made, release):
    cells = [cell for cell in nbgrader(made)["cells"] if cell["cell_type"] == "code"]
    for files, wanted in ((starter_files(made), False), (solution_files(made), True)):
        complete(made, release, files)
        for cell in cells[:2]:
            with contextlib.chdir(release), contextlib.redirect_stdout(io.StringIO()):
                try:
                    exec("".join(cell["source"]), {})
                    passed = True
                except AssertionError:
                    passed = False
            assert passed is wanted


@pytest.fixture
def wheels(tmp_path):
    """A wheel as pip takes it, of a NumPy that is only a pointer to the one in use."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    name = f"numpy-9.9-cp{VERSION}-none-any.whl"
    info = "numpy-9.9.dist-info"
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("numpy_is_here.txt", "")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n")
        wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: cp{VERSION}-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
    return folder


def test_the_archive_is_the_same_twice_and_holds_what_is_needed(made, wheels, tmp_path):
    for name in ("a.zip", "b.zip"):
        assert write_autograder(made, tmp_path / name, wheels) == [
            f"numpy-9.9-cp{VERSION}-none-any.whl"
        ]
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = archive.namelist()
        modes = {i.filename: i.external_attr >> 16 for i in archive.infolist()}
    assert {"setup.sh", "run_autograder"} <= set(names)  # at the root
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    folder = f"package/minitorch_attn/course/assignments/{NAME}/"
    assert {folder + "assignment.toml", folder + "checks.py"} <= set(names)
    assert not [n for n in names if n.endswith(".pyc") or "/cli/" in n or "conda" in n]


def test_without_a_wheel_there_is_no_archive(made, tmp_path):
    with pytest.raises(ArgumentError, match="does not contain NumPy"):
        write_autograder(made, tmp_path / "a.zip", tmp_path)
    assert not (tmp_path / "a.zip").exists()


@pytest.fixture
def gradescope(made, wheels, tmp_path):
    """run(files) -> results.json, in folders as Gradescope has them; the base folder."""
    if os.name != "posix" or shutil.which("bash") is None:
        pytest.skip("needs bash")
    write_autograder(made, tmp_path / "a.zip", wheels)
    base = tmp_path / "autograder"
    for name in ("source", "submission", "results", "bin"):
        (base / name).mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(base / "source")
    python = base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    # No apt-get: whatever asks for it is told no.
    (base / "bin" / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    (base / "bin" / "apt-get").chmod(0o755)
    path = f"{base / 'bin'}:/usr/bin:/bin"
    environment = {"PATH": path, "AUTOGRADER_BASE": str(base), "HOME": str(tmp_path)}

    def run(files):
        shutil.rmtree(base / "submission")
        for name, data in files.items():
            place = base / "submission" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data if isinstance(data, bytes) else data.encode())
        (base / "submission").mkdir(exist_ok=True)
        subprocess.run(
            ["bash", str(base / "source" / "run_autograder")], env=environment, check=True,
            timeout=300, capture_output=True,
        )  # fmt: skip
        return json.loads((base / "results" / "results.json").read_text("utf-8"))

    done = subprocess.run(
        ["bash", str(base / "source" / "setup.sh")], env=environment, check=False, timeout=300,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (base / "site" / "numpy_is_here.txt").exists()  # pip has installed the wheel
    assert (base / "source").stat().st_mode & 0o077 == 0
    shutil.rmtree(base / "site")
    (base / "site").symlink_to(Path(np.__file__).parents[1])
    return run, base


@pytest.mark.slow
def test_the_archive_grades_where_gradescope_runs_it(made, gradescope):
    run, base = gradescope
    found = run(solution_files(made))
    assert found["score"] == made.points and len(found["tests"]) == len(made.checks)
    assert run(starter_files(made))["score"] == 0
    forged = b"import os\nopen('results.json', 'w').write('{\"score\": 99}')\nos._exit(0)\n"
    assert run(dict.fromkeys(made.files, forged))["score"] == 0
    found = run({})
    assert found["score"] == 0 and "is missing" in found["output"]
    shutil.rmtree(base / "source" / "package" / "minitorch_attn" / "course" / "assignments")
    assert "not a grade" in run(solution_files(made))["output"]
    package = base / "source" / "package" / "minitorch_attn" / "__init__.py"
    package.write_text("raise ImportError('broken')\n")
    assert "not a grade" in run(solution_files(made))["output"]  # not even the command starts


def test_the_command_makes_the_archive(wheels, tmp_path, capsys):
    out = tmp_path / "autograder.zip"
    assert main(["course", "gradescope", NAME, "--wheels", str(wheels), "--out", str(out)]) == 0
    assert "numpy-9.9" in capsys.readouterr().out and out.exists()
