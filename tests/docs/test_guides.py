"""The guides for additions are followed word for word in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sitebuilder.names import ROOT

from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.lesson_list import lessons

GUIDES = sorted((ROOT / "docs").glob("add_a*_*.md"))
FOLLOWED = [guide for guide in GUIDES if "Save as `" in guide.read_text(encoding="utf-8")]
STEP = re.compile(
    r"^(?:Save as `(?P<new>[^`]+)`|Append to `(?P<more>[^`]+)`"
    r"|In `(?P<edited>[^`]+)`, below `(?P<anchor>[^`]+)`, add):\n\n```\w*\n(?P<text>.*?)^```$"
    r"|^```sh\n(?P<commands>.*?)^```$",
    re.M | re.S,
)
COPIED = ("minitorch_attn", "lessons", "exercises", "assignments", "my_gpt", "tests", "tools",
          "docs", "benchmarks", "pyproject.toml", "README.md")  # fmt: skip


def steps(text):
    """What a guide tells its reader to do, in order."""
    return list(STEP.finditer(text))


def numbered(text):
    """A guide whose new lesson or exercise has the number that is free now."""
    for folder in ("lessons", "exercises"):
        new = re.search(rf"^Save as `{folder}/(\d\d)_", text, re.M)
        if new:
            free = len(exercises() if folder == "exercises" else lessons()) + 1
            text = re.sub(rf"(?<![\w.]){new[1]}(?!\d|\.(?!toml))", f"{free:02d}", text)
    return text


def follow(step, root):
    """Do one step in `root`; a command that fails is an error with its output."""
    if step["commands"]:
        environment = {**os.environ, "PYTHONPATH": str(root), "MTA_FAST": "1", "COLUMNS": "100"}
        words = {"cwd": root, "env": environment, "capture_output": True, "text": True}
        for command in step["commands"].splitlines():
            command = re.sub(r"^python\b", sys.executable, command)
            done = subprocess.run(command, shell=True, check=False, **words)
            assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    elif step["new"]:
        path = root / step["new"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step["text"], encoding="utf-8")
    else:
        path = root / (step["more"] or step["edited"])
        old = path.read_text(encoding="utf-8")
        if step["more"]:
            path.write_text(old + step["text"], encoding="utf-8")
        else:
            anchor = step["anchor"] + "\n"
            assert old.count(anchor) == 1, f"{anchor!r} is {old.count(anchor)} times in {path}"
            path.write_text(old.replace(anchor, anchor + step["text"]), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("guide", FOLLOWED, ids=lambda guide: guide.stem)
def test_a_guide_works_as_it_is_written(guide, tmp_path):
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_build", "api", "runs")
            shutil.copytree(source, tmp_path / name, ignore=ignored)
        else:
            shutil.copyfile(source, tmp_path / name)
    found = steps(numbered(guide.read_text(encoding="utf-8")))
    assert len(found) >= 3
    for step in found:
        follow(step, tmp_path)


def test_every_kind_of_step_is_understood():
    text = "Save as `a.py`:\n\n```python\nx = 1\n```\n\nIn `a.py`, below `x = 1`, add:\n\n"
    text += "```python\ny = 2\n```\n\n```sh\npython a.py\n```\n"
    new, edit, run = steps(text)
    assert (new["new"], edit["anchor"], edit["text"]) == ("a.py", "x = 1", "y = 2\n")
    assert run["commands"] == "python a.py\n"


def test_a_step_that_fails_stops(tmp_path):
    Path(tmp_path, "a.py").write_text("raise SystemExit(3)\n")
    (run,) = steps("```sh\npython a.py\n```\n")
    with pytest.raises(AssertionError, match=r"a\.py"):
        follow(run, tmp_path)
