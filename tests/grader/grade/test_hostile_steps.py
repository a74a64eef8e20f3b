"""Submissions that attack the recording of steps: points and reports stay unchanged."""

import time

import pytest
from grader.grade.conftest import FILE, RIGHT
from grader.grade.test_hostile import first

from minitorch_attn.grader.grade import session
from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox

pytestmark = pytest.mark.slow
WRONG = RIGHT.replace(b"    return y / y.sum", b"    attack()\n    return 2 * y / y.sum")
SENDING = """
import io, json, os, struct, sys
import numpy as np
def frame(data): return struct.pack("<Q", len(data)) + data
def packed(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
def send(header, *arrays):
    data = frame(json.dumps(header).encode()) + b"".join(frame(packed(a)) for a in arrays)
    while data:
        data = data[os.write(int(sys.argv[2]), data):]
"""
NAMES = '{"status": "done", "arrays": ["numbers"], "passed": True, "points": 99, "steps": '


def when_traced(code):
    """A submission whose forward pass is wrong, and does something more when it is watched."""
    lines = "".join(f"        {line}\n" for line in code.strip().splitlines())
    text = f"{SENDING}\ndef attack():\n    if sys.getprofile() is not None:\n{lines}"
    return first(text).replace(RIGHT, WRONG)


ATTACKS = {
    "hangs": when_traced("while True: pass"),
    "sleeps": when_traced("import time; time.sleep(1e6)"),
    "ends": when_traced("os._exit(0)"),
    "is killed": when_traced("os.kill(os.getpid(), 9)"),
    "raises": when_traced("raise SystemExit(0)"),
    "takes the watch off": when_traced("sys.setprofile(None)"),
    "closes its pipes": when_traced("os.close(int(sys.argv[2]))"),
    "eats memory": when_traced("x = [bytearray(1 << 28) for _ in range(1 << 20)]"),
    "calls without end": when_traced("for _ in range(10**8): backward(np.ones(1), np.ones(1))"),
    "goes down without end": when_traced("sys.setrecursionlimit(10**9)\nattack()"),
    "prints without end": when_traced("while True: print('x' * 10**6)"),
    "sends a list of steps": when_traced(f"send({NAMES}[]}}, np.zeros(0)); os._exit(0)"),
    "sends a million steps": when_traced(f"send({NAMES}[{{}}] * 10**6}}, np.zeros(0))"),
    "sends NaN": when_traced(f"send({NAMES}[]}}, np.full(100, np.nan))"),
    "sends a giant array": when_traced(f"send({NAMES}[]}}, np.zeros(10**7))"),
    "sends a giant length": when_traced("os.write(int(sys.argv[2]), b'\\xff' * 8)"),
    "sends text": when_traced("os.write(int(sys.argv[2]), b'all passed' * 10**5)"),
    "sends objects": when_traced(f"send({NAMES}[]}}, np.array([{{}}], dtype=object))"),
    "sends an answer for later": when_traced(
        "send({'status': 'done', 'arrays': []}); send({'status': 'done', 'arrays': ['grad']}, "
        "np.zeros((3, 11)))"
    ),
}

NOT_AT_LEVEL_1 = {"is killed", "eats memory", "goes down without end", "prints without end"}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_second_run(task, level, limits, name, monkeypatch):
    if level == 1 and name in NOT_AT_LEVEL_1:
        pytest.skip("level 1 is for accidents; the attacks are for levels 2 and 3")
    monkeypatch.setattr(session, "STEP_SECONDS", 1.0)
    start = time.monotonic()
    submission = Submission(name, {FILE: ATTACKS[name]}, [], "0" * 64)
    document = grade_one(task, task.checks(seed=4), submission, Sandbox(level, limits))
    forward, backward = document["checks"]
    assert forward["status"] == "failed" and forward["points"] == 0.0
    assert forward["first_step"] is None and "expected" in forward["message"]
    if name.startswith("sends"):  # its own next answer is behind the one it has made up
        assert backward["points"] in (0.0, 3.0)
    else:
        assert backward["status"] == "passed" and document["score"] == 3.0
    assert time.monotonic() - start < 200  # seconds, on a busy machine; a hang has no end
