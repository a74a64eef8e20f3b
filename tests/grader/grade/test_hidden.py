"""Hidden checks: a submission cannot carry their inputs into a message that its author sees."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.document import hidden_part
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.report.feedback import feedback
from minitorch_attn.grader.report.gradescope import gradescope

# Stores what every check passes in, in the process and in files, and shows all of it in errors.
CARRIER = b"""
import builtins, glob, os, tempfile
SEEN = builtins.__dict__.setdefault("seen", [])
PLACE = os.path.join(tempfile.gettempdir(), "carried")

def tell(x):
    SEEN.append(str(x.shape))
    text = " ".join(SEEN)
    try:
        with open(PLACE, "a+") as file:
            file.write(text)
            file.seek(0)
            text += file.read()
    except OSError:
        pass
    raise ValueError(text)

def softmax(x): tell(x)
def backward(y, g): tell(y)
"""


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_inputs_of_hidden_checks_stay_hidden(order, task, level, limits):
    for folder in {tempfile.gettempdir(), "/tmp", "/var/tmp"}:  # level 1 can write one of them
        Path(folder, "carried").unlink(missing_ok=True)
    entries = [replace(e, hidden=h) for e, h in zip(task.entries, order, strict=True)]
    made = replace(task, entries=entries)
    checks = made.checks(3)
    document = grade_one(
        made, checks, Submission("eve", {FILE: CARRIER}), Sandbox(level, limits, 4)
    )
    assert [line["name"] for line in document["checks"]] == ["forward", "backward"]
    assert [line["hidden"] for line in document["checks"]] == list(order)
    secret = [
        str(next(iter(check.inputs.values())).shape)
        for entry, parts in checks if entry.hidden for check in parts
    ]  # fmt: skip
    shown = json.dumps([hidden_part(line) for line in document["checks"]])
    shown += json.dumps(gradescope(document)) + feedback({**document, "folder": "eve"})
    assert not [shape for shape in secret if shape in shown]
    public = document["checks"][order.index(False)]
    assert public["status"] == "error" and "(" in public["message"]  # it tried


def test_right_code_gets_all_points_in_two_processes(task, level, limits):
    made = replace(task, entries=[replace(task.entries[0], hidden=True), task.entries[1]])
    document = grade_one(
        made, made.checks(1), Submission("ada", {FILE: RIGHT}), Sandbox(level, limits, 4)
    )
    assert document["score"] == 5.0 and document["checks"][0]["hidden"]
    assert np.isclose(sum(line["points"] for line in document["checks"]), 5.0)
