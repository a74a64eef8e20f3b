"""Fixture: a small assignment in a temporary folder."""

import shutil
from pathlib import Path

import pytest

from minitorch_attn.grader.build.assignment import read_assignment
from minitorch_attn.grader.build.release import write_release

MANIFEST = """
name = "small"
title = "A small one"
version = 1
files = ["minitorch_attn/ops/softmax.py"]
allow = [
    "xp, given, x = array_module(x), x, widened(x)",
    "y = narrowed(y, given)",
    "y = x - max_along(x, axis)",
]

[[blank]]
function = "minitorch_attn.ops.softmax:Softmax.forward"
points = 2
order = 1

[[blank]]
function = "minitorch_attn.ops.softmax:Softmax.backward"
points = 3
order = 2

[[group]]
function = "minitorch_attn.ops.softmax:MaskedSoftmax.backward"
why = "the sibling"

[[group]]
function = "minitorch_attn.ops.softmax:softmin"
why = "to see a body"
body = "return softmax(input * -1, dim, dtype)"

[[check]]
name = "forward"
of = "Softmax.forward"
points = 2
what = "the weights"

[[check]]
name = "backward"
of = "Softmax.backward"
points = 3
hidden = true
what = "the gradient"

[[bug]]
name = "no sum"
function = "minitorch_attn.ops.softmax:Softmax.backward"
replace = "(grad_y - mean_grad)"
with = "grad_y"
loses = ["backward"]

[[way]]
name = "the sibling"
function = "minitorch_attn.ops.softmax:Softmax.backward"
body = "return MaskedSoftmax.backward(ctx, grad_y)[0]"
loses = ["backward"]
"""

CHECKS = """
from minitorch_attn.grader.build.checking import operation_check

OPERATION = "minitorch_attn.ops.softmax:Softmax"


def forward(rng):
    return [operation_check("rows", OPERATION, {"x": rng.normal(size=(3, 5))}, {"axis": -1})]


def backward(rng):
    x, grad = rng.normal(size=(2, 3, 5))
    return [operation_check("rows", OPERATION, {"x": x}, {"axis": -1}, grad)]
"""

REWARD = "import minitorch_attn as mt\nprint(mt.softmax(mt.zeros(2), 0))\n"


def write_small(folder):
    """Write the files of the small assignment."""
    folder.mkdir()
    (folder / "assignment.toml").write_text(MANIFEST)
    (folder / "checks.py").write_text(CHECKS)
    (folder / "prose.md").write_text("Write the softmax.\n")
    (folder / "reward.py").write_text(REWARD)
    return folder


@pytest.fixture
def folder(tmp_path):
    """The folder of the small assignment; a test may change its files."""
    return write_small(tmp_path / "small")


@pytest.fixture(scope="session")
def released_once(tmp_path_factory):
    """A release of the small assignment, to be copied."""
    folder = tmp_path_factory.mktemp("build")
    write_release(read_assignment(write_small(folder / "small")), folder / "release")
    return folder / "release"


@pytest.fixture
def release(released_once, tmp_path):
    """A release of the small assignment; a test may change its files."""
    return Path(shutil.copytree(released_once, tmp_path / "release"))


@pytest.fixture
def change(folder):
    """Change the manifest and read it again: `change(old, new)`."""

    def change(old="", new=""):
        path = folder / "assignment.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        return read_assignment(folder)

    return change
