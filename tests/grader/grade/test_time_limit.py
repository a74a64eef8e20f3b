"""Time limit: waiting on a busy machine does not count as time of the submission."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade import time_limit as clock_module
from minitorch_attn.grader.grade.judge import Check
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.sandbox_folders import new_folder
from minitorch_attn.grader.grade.sandbox_users import FIRST
from minitorch_attn.grader.grade.session import Session
from minitorch_attn.grader.grade.submission_process import Worker

pytestmark = pytest.mark.serial
LIMIT = 1.0


def driver(inputs, settings):
    from minitorch_attn.work import softmax

    return {"y": softmax(inputs["x"])}


def doing(*lines):
    """A submission whose forward pass does something first."""
    code = "".join(f"    {line}\n" for line in lines).encode()
    return b"import os, time\n" + RIGHT.replace(
        b"def softmax(x):\n", b"def softmax(x):\n" + code
    )  # fmt: skip


BUSY = doing("until = time.process_time() + 0.7", "while time.process_time() < until: pass")
ENDLESS = doing("while True: pass")
ASLEEP = doing("time.sleep(10**6)")
STOPPED = doing("os.kill(os.getpid(), 19)")
WAITING = doing(
    "if os.fork() == 0:", "    while True: pass",
    "while True: pass",
)  # fmt: skip


def asked(task, level, limits, code, limit=LIMIT):
    """The verdict on a check, and the seconds that it took on the wall."""
    x = np.ones((2, 3))
    check = Check("y", driver, {"x": x}, {"y": x / 3}, limit_s=limit)
    with Session(Sandbox(level, limits, place=7), task.package_folder, {FILE: code}) as session:
        start = time.monotonic()
        verdict = session.verdict(check)
        return verdict, time.monotonic() - start


@contextlib.contextmanager
def one_busy_processor(count):
    """This process and what it starts share one processor with others that compute."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    spin = [sys.executable, "-S", "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, before)


needs_linux = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@needs_linux
def test_a_busy_machine_costs_nobody_points(task, level, limits):
    with one_busy_processor(4):
        verdict, seconds = asked(task, level, limits, BUSY)
    assert verdict.passed, verdict.message
    assert seconds > LIMIT  # it is what the wall clock refuses


@needs_linux
def test_an_endless_loop_ends_on_a_busy_machine(task, level, limits):
    with one_busy_processor(3):
        verdict, seconds = asked(task, level, limits, ENDLESS)
    assert verdict.status == "timeout" and f"longer than {LIMIT:g} s" in verdict.message
    assert 2 * LIMIT < seconds < clock_module.PATIENCE * LIMIT + 30


@pytest.mark.parametrize("code", [ASLEEP, STOPPED, ENDLESS], ids=["asleep", "stopped", "endless"])
def test_one_bounded_wait(code, task, level, limits):
    if code is STOPPED and level > 1:
        pytest.skip("the first process of a namespace does not receive its own signals")
    verdict, seconds = asked(task, level, limits, code)
    assert verdict.status == "timeout" and f"longer than {LIMIT:g} s" in verdict.message
    assert seconds < LIMIT + 8  # the start of the process is in it


@needs_linux
def test_who_starts_others_waits_on_its_own_account(task, level, limits):
    with one_busy_processor(3):
        verdict, seconds = asked(task, level, limits, WAITING)
    assert verdict.status == "timeout" and f"longer than {LIMIT:g} s" in verdict.message
    assert seconds < LIMIT * 4 + 8


@needs_linux
def test_what_got_no_time_is_asked_once_more(task, limits, monkeypatch):
    """The first worker is taken for one that waits for a processor; the second answers."""
    monkeypatch.setattr(clock_module, "PATIENCE", 2)
    real, started = Worker.__init__, []

    def start(self, *arguments):
        real(self, *arguments)
        started.append(self)

    monkeypatch.setattr(Worker, "__init__", start)
    monkeypatch.setattr(
        clock_module.Clock, "_look", lambda self: (0.0, len(started) == 1 and bool(self.process))
    )
    code = doing(
        "if not os.path.exists(FLAG):", "    open(FLAG, 'w').close()", "    time.sleep(99)"
    )
    place = new_folder(user=FIRST)
    place.chmod(0o777)  # for any user to write in
    flag = str(place / "flag")
    verdict, seconds = asked(task, 1, limits, f"FLAG = {flag!r}\n".encode() + code)
    shutil.rmtree(place)
    assert verdict.passed and len(started) == 2 and seconds > 2 * LIMIT
    started.clear()
    monkeypatch.setattr(clock_module.Clock, "_look", lambda self: (0.0, bool(self.process)))
    verdict, seconds = asked(task, 1, limits, ASLEEP)
    assert verdict.status == "timeout" and len(started) == 2  # once more, and that is all
    assert "because the machine was busy" in verdict.message


def test_a_grader_that_stood_still_counts_little(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock_module.time, "monotonic", lambda: now[0])
    reading, writing = os.pipe()
    clock = clock_module.Clock(1.0, os.getpid())
    now[0] += 3600.0
    clock._count()
    assert clock.counted < 0.5 and clock.passed < 0.5
    os.write(writing, b"x")
    clock.wait(reading)  # what is there is taken, however late
    os.close(reading)
    os.close(writing)


def test_without_proc_the_wall_clock_counts(monkeypatch):
    monkeypatch.setattr(clock_module, "_stat", lambda pid: None)
    reading, writing = os.pipe()
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        clock_module.Clock(0.3, os.getpid()).wait(reading)
    assert 0.2 < time.monotonic() - start < 20
    os.close(reading)
    os.close(writing)
