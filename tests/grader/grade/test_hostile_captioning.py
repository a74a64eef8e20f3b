"""The attacks of the hostile corpus inside a real assignment; MTA_HOSTILE=all runs all of them."""

import os
import textwrap

import pytest
from grader.grade.conftest import RIGHT
from grader.grade.test_hostile import BEFORE, FORWARD, NOTHING, SIGNALS

from minitorch_attn.grader.build.assignment import assignments
from minitorch_attn.grader.build.package import solution_files, write_package
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(Sandbox(3).works()), reason="sandbox 3")]
FILE = "minitorch_attn/ops/attention/additive.py"
HEAD = "    def forward(ctx, query, key, v, value, mask):\n"
FEW = ("exit", "endless loop", "patched numpy", "half a message", "forged answer", "pickle",
       "search the frames", "almost right", "delete the package")  # fmt: skip
SLOW_AND_ALIKE = {"a million names"}  # seconds for each process
ALL = {**NOTHING, **SIGNALS, **FORWARD}
NAMES = sorted(set(ALL) - SLOW_AND_ALIKE) if os.environ.get("MTA_HOSTILE") == "all" else FEW


@pytest.fixture(scope="module")
def captioning(tmp_path_factory):
    made = next(each for each in assignments() if each.name == "captioning")
    folder = tmp_path_factory.mktemp("captioning")
    write_package(made, folder, stripped=True)
    checks = made.checks_by_name(5)
    names = [entry.name for entry in made.checks if entry.of.startswith("Additive")]
    return folder, solution_files(made), {name: checks[name] for name in names}


def attacked(source, name):
    """The solution with the attack before its imports, or at the start of its forward pass."""
    code = ALL[name]
    if name not in FORWARD:
        return code.replace(RIGHT, source.encode())
    body = code.split(BEFORE + b"\n")[1].split(b"    y = np.exp(x - x.max(axis=-1")[0].decode()
    lines = "import numpy as np\nx, softmax = query, np.tanh\n" + textwrap.dedent(body)
    lines = lines.replace("x = x", "query = x = x")
    return source.replace(HEAD, HEAD + textwrap.indent(lines, " " * 8)).encode()


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_earns_nothing(captioning, name):
    folder, files, checks = captioning
    assert files[FILE].count(HEAD) == 1
    data = {path: text.encode() for path, text in files.items()}
    data[FILE] = attacked(files[FILE], name)
    with Session(Sandbox(3, place=5), folder, data) as session:
        passed = [
            entry
            for entry, parts in checks.items()
            if all(session.verdict(part).passed for part in parts)
        ]
    assert passed == []
