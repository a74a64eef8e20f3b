"""The instructor's guide: every command on the page runs in order and does what the page says."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.M | re.S)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
(SCRIPT,) = re.findall(r"^```bash\n(.*?)^```", GUIDE, re.M | re.S)  # a job of a Slurm array
INSTALL = "python -m pip install minitorch-attn"


def test_the_page_shows_every_command_of_the_group():
    from minitorch_attn.cli.app import mta

    course = mta.commands["course"]
    shown = {shlex.split(line)[2] for line in COMMANDS if line != INSTALL}
    assert shown == set(course.commands) - {"build"}
    (kind,) = (p for p in course.commands["export"].params if p.name == "kind")
    formats = set(kind.type.choices)
    assert {line.split()[-1] for line in COMMANDS if "export" in line} == formats


def test_its_first_command_installs_this_package():
    import tomllib

    fields = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert COMMANDS[0] == INSTALL
    assert INSTALL.split()[-1] == fields["project"]["name"]
    assert "mta" in fields["project"]["scripts"]


def run(line, folder):
    """One command of the page as a process in an empty folder."""
    words = shlex.split(line)
    assert words[0] == "mta"
    if words[2] == "gradescope":
        (folder / "wheels").mkdir()
        name = "numpy-9.9-cp311-none-any.whl"
        with zipfile.ZipFile(folder / "wheels" / name, "w") as archive:
            archive.writestr("numpy_is_here.txt", "")
        words += ["--wheels", "wheels"]  # a test downloads nothing
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MTA_STATE": str(folder / "state")}
    return subprocess.run(
        [sys.executable, "-m", "minitorch_attn", *words[1:]], cwd=folder, env=environment,
        capture_output=True, text=True, check=False, timeout=900, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def slurm_array(folder):
    """Run the page's script once for each index of its array, as Slurm does."""
    (folder / "grade.sbatch").write_text(SCRIPT, encoding="utf-8")
    first, last = re.search(r"^#SBATCH --array=(\d+)-(\d+)$", SCRIPT, re.M).groups()
    (folder / "bin").mkdir()
    mta = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m minitorch_attn "$@"\n'
    (folder / "bin" / "mta").write_text(mta)
    (folder / "bin" / "mta").chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MTA_STATE": str(folder / "state"),
                   "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}  # fmt: skip
    for number in range(int(first), int(last) + 1):
        done = subprocess.run(
            ["bash", "grade.sbatch"], cwd=folder, capture_output=True, text=True, check=False,
            env={**environment, "SLURM_ARRAY_TASK_ID": str(number)}, timeout=900,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def marks_in(folder):
    """Name -> score and the points of each check."""
    with open(folder / "grades.csv", newline="", encoding="utf-8") as file:
        return {row["name"]: list(row.values())[1:4] + list(row.values())[10:]
                for row in csv.DictReader(file)}  # fmt: skip


def test_the_script_divides_the_class_into_as_many_shards_as_jobs():
    last = re.search(r"^#SBATCH --array=1-(\d+)$", SCRIPT, re.M)[1]
    assert re.search(r'--shard "\$SLURM_ARRAY_TASK_ID/(\d+)"', SCRIPT)[1] == last
    (merge,) = (line for line in COMMANDS if line.startswith("mta course merge"))
    assert [word for word in merge.split() if word.startswith("shards/")] == [
        f"shards/{number}" for number in range(1, int(last) + 1)
    ]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the script is for bash")
def test_the_guide_from_the_first_to_the_last_command(tmp_path):
    said = {}
    for line in COMMANDS[1:]:
        if line.startswith("mta course merge"):
            slurm_array(tmp_path)
        done = run(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        said[line] = done.stdout
    marks = tmp_path / "marks"
    with open(marks / "grades.csv", newline="", encoding="utf-8") as file:
        grades = {row["name"]: row for row in csv.DictReader(file)}
    assert len(grades) == 10
    most = {row["max"] for row in grades.values()}
    kinds = dict(
        re.split(r"\s{2,}", line.strip())
        for line in said["mta course sample attention --out submissions"].splitlines()
    )
    assert set(kinds) == set(grades)
    for name, kind in kinds.items():
        score = float(grades[name]["score"])
        if kind == "correct":
            assert {grades[name]["score"]} == most
        elif kind.startswith("bug"):
            assert 0 < score < float(*most)
        else:  # the unchanged starter, nothing, or an attack
            assert score == 0
    for path in re.findall(r"^\| `(marks/[^`]*)`", GUIDE, re.M):
        assert list(tmp_path.glob(path.replace("NAME", "*"))), path
    results = json.loads((marks / "results.json").read_text(encoding="utf-8"))
    assert results["complete"] is True
    assert "hardest first" in said["mta course report marks"]
    assert marks_in(tmp_path / "merged") == marks_in(marks)  # although the inputs differ
    assert (tmp_path / "releases" / "attention.zip").exists()
    assert (tmp_path / "autograder.zip").exists()
