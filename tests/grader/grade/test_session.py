"""One submission: which points a failure costs, at import and in a check."""

import time
from dataclasses import replace

import numpy as np
import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.judge import Check
from minitorch_attn.grader.grade.sandbox import Limits, Sandbox
from minitorch_attn.grader.grade.session import Session
from minitorch_attn.grader.grade.submission_process import Worker, _Printed

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
@pytest.mark.slow
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


def test_printing_costs_no_points_and_is_cut(task):
    code = b"def softmax(x):\n    print('x' * 5_000_000)\n    return x * 0 + 1 / 3\n"
    x = np.ones((2, 3))
    check = Check("print", driver, {"x": x}, {"y": np.full((2, 3), 1 / 3)})
    with Session(Sandbox(1, LIMITS), task.package_folder, {FILE: code}) as session:
        assert session.verdict(check).passed and session.verdict(check).passed
    assert session.output == "x" * 10_000


def test_what_was_printed_before_a_crash_is_kept(task):
    code = b"import os\ndef softmax(x):\n    print('last words', flush=True)\n    os._exit(3)\n"
    with Session(Sandbox(1, LIMITS), task.package_folder, {FILE: code}) as session:
        x = np.ones((2, 3))
        assert session.verdict(Check("crash", driver, {"x": x}, {"y": x})).status == "crashed"
    assert session.output == "last words\n"


def test_output_is_kept_although_its_reader_runs_late(task, monkeypatch):
    real = _Printed.run
    monkeypatch.setattr(_Printed, "run", lambda self: (time.sleep(0.8), real(self)))
    code = b"def softmax(x):\n    print('late')\n    return x\n"
    with Session(Sandbox(1, LIMITS), task.package_folder, {FILE: code}) as session:
        x = np.ones((2, 3))
        assert session.verdict(Check("print", driver, {"x": x}, {"y": x})).passed
        time.sleep(0.5)
    assert session.output == "late\n"


def test_printed_paths_do_not_name_the_sandbox_folder(task, level):
    """Its name is new for each process, so the results of two runs would differ."""
    code = b"import sys\ndef softmax(x):\n    print(__file__, file=sys.stderr)\n    return x\n"
    with Session(Sandbox(level, LIMITS), task.package_folder, {FILE: code}) as session:
        x = np.ones((2, 3))
        assert session.verdict(Check("print", driver, {"x": x}, {"y": x})).passed
    assert session.output == f"{FILE}\n"


def test_all_checks_together_have_a_limit(task, started):
    code = b"import time\ndef softmax(x):\n    time.sleep(0.5)\n    return x * 0 + 1 / 3\n"
    sandbox = Sandbox(1, replace(LIMITS, total_seconds=1.0))
    x, found = np.ones((2, 3)), []
    with Session(sandbox, task.package_folder, {FILE: code}) as session:
        for _ in range(COUNT):
            found.append(session.verdict(Check("slow", driver, {"x": x}, {"y": x / 3})))
    assert found[0].passed and found[-1].status == "timeout"
    assert "the time limit for a submission, 1 s" in found[-1].message
    with Session(sandbox, task.package_folder, {FILE: code}, after=session) as later:
        assert later.verdict(Check("late", driver, {"x": x}, {"y": x / 3})).status == "timeout"
    assert len(started) == 1


@pytest.mark.parametrize(
    ("code", "first", "has"),
    [
        (b"def softmax(x): return x + undefined\n", "NameError: name 'undefined'", "line 1"),
        (b"def softmax(x): return b(x)\ndef b(x): return softmax(x)\n", "RecursionError", "in b"),
        (b"import matplotlib\n", "ModuleNotFoundError", "Only NumPy"),
        (b"def softmax(x): pass\n", "TypeError: y is None: the function returned nothing", ""),
        (b"def softmax(x):\n", "IndentationError", ""),
    ],
)
def test_an_error_begins_with_its_last_line_and_shows_own_code_only(task, code, first, has):
    verdict = verdicts(task, code)[0]
    head, said = verdict.message.split("\n", 1)
    assert verdict.status == "error" and head == "your code raised an error:"
    assert said.startswith(first) and has in said and len(said) < 3000
    assert "worker.py" not in said and "<check>" not in said
