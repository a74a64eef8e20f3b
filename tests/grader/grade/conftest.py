"""Fixture: a tiny assignment whose package has one file, which students submit."""

import compileall

import numpy as np
import pytest

from minitorch_attn.grader.grade.judge import Check
from minitorch_attn.grader.grade.sandbox import Limits, Sandbox
from minitorch_attn.grader.grade.task import Entry, Task

FILE = "minitorch_attn/work.py"
LIMIT = 1.5  # seconds; a right answer takes a few milliseconds
RIGHT = b"""import numpy as np


def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def backward(y, g):
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
"""


def forward_driver(inputs, settings):
    from minitorch_attn.work import softmax

    return {"y": softmax(inputs["x"])}


def backward_driver(inputs, settings):
    from minitorch_attn.work import backward

    return {"grad": backward(inputs["y"], inputs["g"])}


def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def forward(rng):
    x = rng.normal(size=(5, 7))
    return [Check("forward", forward_driver, {"x": x}, {"y": softmax(x)}, limit_s=LIMIT)]


def backward(rng):
    checks = []
    for shape in ((3, 11), (40, 300)):
        y, g = softmax(rng.normal(size=shape)), rng.normal(size=shape)
        grad = y * (g - (g * y).sum(axis=-1, keepdims=True))
        # Round-off is 1e-15; what finite differences leave is 1e-10 and more.
        check = Check(
            "backward", backward_driver, {"y": y, "g": g}, {"grad": grad}, rtol=1e-12, limit_s=LIMIT
        )  # fmt: skip
        checks.append(check)
    return checks


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    package = folder / "minitorch_attn"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "work.py").write_text("raise NotImplementedError\n")
    compileall.compile_dir(folder, quiet=1)
    entries = [Entry("forward", 2.0, forward), Entry("backward", 3.0, backward)]
    return Task("softmax", "Softmax", "1", [FILE], entries, folder)


def hand_in(folder, **code):
    """Write a submission with one file for each student, and return the folder."""
    for name, text in code.items():
        place = folder / name / FILE
        place.parent.mkdir(parents=True)
        place.write_bytes(text)
    return folder


def levels():
    """The levels to test, those that do not work here with the reason as a skip."""
    found = []
    for level in (3, 2, 1):
        why = Sandbox(level).works()
        marks = [pytest.mark.skip(reason=f"sandbox level {level}: {why}")] if why else []
        found.append(pytest.param(level, marks=marks, id=f"L{level}"))
    return found


@pytest.fixture(scope="session", params=levels())
def level(request):
    return request.param


@pytest.fixture
def limits():
    return Limits(memory_bytes=1 << 30, import_seconds=2.0, processor_seconds=30)
