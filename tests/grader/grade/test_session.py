"""One submission: which points a failure costs, at import and in a check."""

import time

import numpy as np
import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.judge import Check
from minitorch_attn.grader.grade.sandbox import Limits, Sandbox
from minitorch_attn.grader.grade.session import Session
from minitorch_attn.grader.grade.submission_process import Worker

COUNT = 6
LIMITS = Limits(memory_bytes=1 << 30, import_seconds=1.5, processor_seconds=30)


def driver(inputs, settings):
    from minitorch_attn.work import softmax

    return {"y": softmax(inputs["x"])}


@pytest.fixture
def started(monkeypatch):
    """Every worker that is started."""
    real, found = Worker.__init__, []

    def start(self, *arguments):
        found.append(self)
        real(self, *arguments)

    monkeypatch.setattr(Worker, "__init__", start)
    return found


def verdicts(task, code, limit=2.0):
    checks = []
    for k in range(COUNT):
        x = np.full((2, 3), float(k))
        checks.append(Check(f"check {k}", driver, {"x": x}, {"y": np.full((2, 3), 1 / 3)}))
        checks[-1].limit_s = limit
    with Session(Sandbox(1, LIMITS), task.package_folder, {FILE: code}) as session:
        return [session.verdict(check) for check in checks]


@pytest.mark.parametrize(
    ("code", "status", "why"),
    [
        (b"import os; os._exit(3)\n", "crashed", "exit status 3"),
        (b"import time; time.sleep(10**6)\n", "timeout", "longer than 1.5 s"),
        (b"import ctypes; ctypes.string_at(0)\n", "crashed", "SIGSEGV"),
    ],
)
def test_what_cannot_be_imported_costs_two_workers(task, started, code, status, why):
    start = time.monotonic()
    found = verdicts(task, code + RIGHT)
    assert len(started) == 2 and time.monotonic() - start < 30
    assert [verdict.status for verdict in found] == [status] * COUNT
    for verdict in found:
        assert "the package could not be imported" in verdict.message and why in verdict.message
    said = ["not run: " in verdict.message for verdict in found]
    assert said == [False, False] + [True] * (COUNT - 2)


def test_an_error_at_import_costs_one_worker(task, started):
    found = verdicts(task, b"raise SystemExit('no')\n" + RIGHT)
    assert len(started) == 1
    assert all(v.status == "error" and "SystemExit" in v.message for v in found)


def test_a_crash_in_one_check_costs_that_check(task, started):
    code = RIGHT.replace(
        b"    y = np.exp(", b"    if x.max() == 2: import os; os._exit(1)\n    y = np.exp("
    )
    found = verdicts(task, code)
    assert [v.status for v in found] == ["passed"] * 2 + ["crashed"] + ["passed"] * (COUNT - 3)
    assert len(started) == 2


def test_an_import_that_fails_now_and_then_goes_on(task, started):
    """Two crashes at import with a good one between them are not two running."""
    real, number = Worker.ask, [0]

    def ask(self, header, *arguments):
        if "files" in header["settings"]:
            number[0] += 1
            if number[0] % 2:
                self.process.kill()
        return real(self, header, *arguments)

    code = RIGHT.replace(
        b"    y = np.exp(", b"    if x.max() % 2: import os; os._exit(1)\n    y = np.exp("
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "ask", ask)
        found = verdicts(task, code)
    assert [v.status for v in found] == ["crashed"] * COUNT and len(started) == COUNT
    assert not [v for v in found if "not run: " in v.message]


def test_the_import_is_not_the_check_s_time(task, started):
    (first, *_) = verdicts(task, b"import time; time.sleep(0.8)\n" + RIGHT, limit=0.6)
    assert first.passed
