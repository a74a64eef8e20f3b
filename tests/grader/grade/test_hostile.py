"""Submissions that cheat, break or attack: none gets a point that it has not earned."""

import os
import time
from pathlib import Path

import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox

pytestmark = pytest.mark.slow
BEFORE = b"def softmax(x):"


def first(code):
    """A submission that does something at import, and is right otherwise."""
    return code.encode() + b"\n" + RIGHT


def inside(code):
    """A submission that does something in its forward pass, and is right otherwise."""
    lines = "".join(f"    {line}\n" for line in code.strip().splitlines())
    return RIGHT.replace(BEFORE + b"\n", BEFORE + b"\n" + lines.encode())


FINITE_DIFFERENCES = """
import numpy as np

def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)

def backward(y, g):
    x, grad, h = np.log(y), np.zeros_like(y), 1e-6
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        grad[i] = ((softmax(x + step) - softmax(x - step)) * g).sum() / (2 * h)
    return grad
"""
SUBCLASS = """
class Equal(np.ndarray):
    def __eq__(self, other): return True
    def __array_ufunc__(self, *args, **kwargs): return np.zeros(self.shape)
return np.zeros_like(x).view(Equal)
"""
PATCHED = """
import numpy as np
np.allclose = np.array_equal = lambda *args, **kwargs: True
np.testing.assert_allclose = lambda *args, **kwargs: None
np.isfinite = lambda x: np.ones(np.shape(x), bool)
np.abs = np.zeros_like
def softmax(x): return np.ones(x.shape)
def backward(y, g): return np.zeros(y.shape)
"""
FRAMES = """
import sys, gc
frame = sys._getframe()
while frame is not None:
    for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
        if isinstance(value, dict) and "expected" in value:
            return value["expected"]["y"]
        if hasattr(value, "expected"):
            return value.expected["y"]
    frame = frame.f_back
for value in gc.get_objects():
    if isinstance(value, dict) and "expected" in value:
        return value["expected"]["y"]
return np.zeros(x.shape)
"""
SEARCH = """
import os
for root in ("/", "/proc", "/proc/1", "/proc/self/fd", "/home", "/root", "/tmp"):
    try:
        for name in os.listdir(root):
            path = os.path.join(root, name)
            if os.path.isfile(path) and name.endswith((".json", ".py", "environ")):
                if b"GRADER-SECRET" in open(path, "rb").read(100000):
                    print("FOUND-THE-SECRET")
    except OSError:
        pass
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        if b"GRADER-SECRET" in open(f"/proc/{pid}/environ", "rb").read():
            print("FOUND-THE-SECRET")
    except OSError:
        pass
return np.zeros(x.shape)
"""
FORGED = """
import io, json, os, struct, sys
def frame(data): return struct.pack("<Q", len(data)) + data
buffer = io.BytesIO()
np.save(buffer, np.zeros(x.shape))
header = json.dumps({"status": "done", "passed": True, "score": 99, "arrays": ["y"]}).encode()
os.write(int(sys.argv[2]), frame(header) + frame(buffer.getvalue()))
return np.zeros(x.shape)
"""
PICKLE = """
import io, json, os, struct, sys
class Attack:
    def __reduce__(self): return (os.system, ("touch /tmp/pickle-was-loaded",))
def frame(data): return struct.pack("<Q", len(data)) + data
buffer = io.BytesIO()
np.save(buffer, np.array([Attack()], dtype=object), allow_pickle=True)
header = json.dumps({"status": "done", "arrays": ["y"]}).encode()
os.write(int(sys.argv[2]), frame(header) + frame(buffer.getvalue()))
os._exit(0)
"""
RAW = "import os, sys, struct, json\nwrite = lambda data: os.write(int(sys.argv[2]), data)\n"
NETWORK = """
import socket
for address in (("127.0.0.1", 22), ("1.1.1.1", 53)):
    try:
        socket.create_connection(address, timeout=0.2).send(b"answers?")
        print("CONNECTED")
    except OSError:
        pass
return np.zeros(x.shape)
"""
CLOSE_ALL = "import os\nfor fd in range(3, 64):\n    try: os.close(fd)\n    except OSError: pass\n"
FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
FORK_BOMB_WITH_SESSIONS = (
    "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n"
    "    except OSError: pass\n"
)

# Its own copy and nothing else, wherever that lies: a test must be harmless without a sandbox.
DELETE = """
import minitorch_attn, os, shutil
room = os.path.dirname(os.path.dirname(os.path.abspath(minitorch_attn.__file__)))
assert os.path.exists(os.path.join(room, "worker.py"))
shutil.rmtree(room, ignore_errors=True)
return x
"""
# Earn nothing at all.
NOTHING = {
    "exit": first("import os; os._exit(0)"),
    "sys exit": first("import sys; sys.exit(0)"),
    "raise SystemExit": first("raise SystemExit(0)"),
    "raise KeyboardInterrupt": first("raise KeyboardInterrupt"),
    "segmentation fault": first("import ctypes; ctypes.string_at(0)"),
    "abort": first("import os; os.abort()"),
    "endless loop": first("while True: pass"),
    "sleep": first("import time; time.sleep(1000)"),
    "memory": first("x = [bytearray(1 << 28) for _ in range(1000)]"),
    "fork bomb": first(FORK_BOMB),
    "fork bomb that changes sessions": first(FORK_BOMB_WITH_SESSIONS),
    "output without end": first("while True: print('x' * 10**6)"),
    "large file": first("open('/tmp/big', 'wb').write(bytes(1 << 30))"),
    "close every file": first(CLOSE_ALL),
    "patched numpy": PATCHED.encode(),
    "empty": b"",
    "not python": b"\x89PNG\r\n\x1a\n\x00\x00",
    "null bytes": b"\x00" * 100,
    "syntax error": b"def softmax(x:\n",
    "python 2": b"print 'softmax'\n",
    "input": first("name = input('your name? ')"),
    "unknown encoding": b"# -*- coding: klingon -*-\n" + RIGHT,
    "import torch": first("import torch"),
    "import jax": first("import jax"),
    "import a solution": b"from minitorch_attn.ops.softmax import Softmax\n",
    "import the grader": b"from minitorch_attn.grader.grade.judge import judge\n",
    "deep recursion": b"def f(): f()\nimport sys\nsys.setrecursionlimit(10**9)\nf()\n",
    "a million names": b"".join(b"def f%d(): pass\n" % i for i in range(20000)),
    "length of an exabyte": first(RAW + "write(struct.pack('<Q', 1 << 60))"),
    "no header": first(RAW + "write(struct.pack('<Q', 4) + b'haha')"),
    "header of lists": first(RAW + "data = b'[' * 10**5\nwrite(struct.pack('<Q', 10**5) + data)"),
    "half a message": first(RAW + "write(struct.pack('<Q', 100) + b'{')\nos._exit(0)"),
}
AT_LEVEL_1 = ("exit", "endless loop", "memory", "output without end", "patched numpy", "empty",
              "syntax error", "input", "deep recursion", "subclass", "object array", "list", "None",
              "float32", "another shape", "not a number", "almost right", "delete the package",
              "prints", "a thread", "unicode names")  # fmt: skip
# Odd, and right all the same: they keep what they have earned.
HARMLESS = {
    "replaced modules": first("import sys; sys.modules['protocol'] = sys.modules['json'] = None"),
    "prints": first("print('hello')"),
    "a thread": first("import threading; threading.Thread(target=print, daemon=True).start()"),
    "unicode names": first("größe = 'ünïcödé 数'"),
    "exits after the answers": first("import atexit, os; atexit.register(os._exit, 3)"),
}
# The first process of a process namespace does not receive its own signals.
SIGNALS = {
    "kill itself": first("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
    "stop itself": first("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"),
    "kill everybody": first("import os, signal; os.kill(-1, signal.SIGKILL)"),
}
# Wrong in the forward pass only: three points for the backward pass, where it is still right.
FORWARD = {
    "subclass": inside(SUBCLASS),
    "search the frames": inside(FRAMES),
    "search the files": inside(SEARCH),
    "forged answer": inside(FORGED),
    "pickle": inside(PICKLE),
    "object array": inside("return np.array([object()] * x.size).reshape(x.shape)"),
    "structured array": inside("return np.zeros(x.shape, [('a', float)])"),
    "strings": inside("return x.astype(str)"),
    "list": inside("return x.tolist()"),
    "None": inside("return None"),
    "float32": inside("x = x.astype(np.float32)"),
    "complex": inside("x = x.astype(complex)"),
    "not a number": inside("return x * np.nan"),
    "infinite": inside("return x / 0.0"),
    "another shape": inside("return softmax(x[:1])"),
    "one axis more": inside("return softmax(x)[None] if x.ndim < 3 else x"),
    "huge array": inside("return np.zeros((10**4, 10**4))"),
    "memory map": inside("return np.memmap('/tmp/map', float, 'w+', shape=x.shape)"),
    "almost right": inside("x = x * (1 + 1e-5)"),
    "network": inside(NETWORK),
    "delete the package": inside(DELETE),
    "write results": inside("open('results.json', 'w').write('{\"score\": 99}'); return x"),
    "threads left running": inside(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\nreturn x"
    ),
    "exit at the end": inside("import atexit, os; atexit.register(os._exit, 0); return x"),
    "daemon left running": inside("import os\nif os.fork() == 0:\n    while True: pass\nreturn x"),
    "escape codes": inside("print('\\x1b[2J\\x1b]0;owned\\x07'); return x"),
}


def graded(task, level, limits, code):
    submission = Submission("student", {FILE: code})
    return grade_one(task, task.checks(7), submission, Sandbox(level, limits, place=3))


def test_a_right_submission_gets_everything(task, level, limits):
    document = graded(task, level, limits, RIGHT)
    assert document["score"] == document["max_score"] == 5.0, document["checks"]


@pytest.mark.parametrize("name", HARMLESS)
def test_keeps_what_it_has_earned(name, task, level, limits):
    if level == 1 and name not in AT_LEVEL_1:
        pytest.skip("level 1 is for accidents; the attacks are for levels 2 and 3")
    document = graded(task, level, limits, HARMLESS[name])
    assert document["score"] == 5.0, document["checks"]


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_reach_nobody_else(name, task, level, limits):
    if level == 1:
        pytest.skip("level 1: a submission may end any process of its user, this one included")
    document = graded(task, level, limits, SIGNALS[name])
    statuses = [line["status"] for line in document["checks"]]
    assert len(statuses) == 2 and len(set(statuses)) == 1
    assert document["score"] == (5.0 if statuses[0] == "passed" else 0.0)


@pytest.mark.parametrize("name", NOTHING)
def test_earns_nothing(name, task, level, limits):
    if level == 1 and name not in AT_LEVEL_1:
        pytest.skip("level 1 is for accidents; the attacks are for levels 2 and 3")
    start = time.monotonic()
    document = graded(task, level, limits, NOTHING[name])
    assert document["score"] == 0.0
    assert [line["status"] for line in document["checks"]] != ["passed"] * 2
    assert all(line["message"] for line in document["checks"])  # it always says why
    assert len(document["output"]) <= 10_000
    assert time.monotonic() - start < 300


@pytest.mark.parametrize("name", FORWARD)
def test_earns_what_is_right(name, task, level, limits, monkeypatch):
    if level == 1 and name not in AT_LEVEL_1:
        pytest.skip("level 1 is for accidents; the attacks are for levels 2 and 3")
    monkeypatch.setenv("TOKEN", "GRADER-SECRET")
    document = graded(task, level, limits, FORWARD[name])
    points = {line["name"]: line["points"] for line in document["checks"]}
    assert points["forward"] == 0.0
    assert points["backward"] in (0.0, 3.0)  # 3 where it can still answer
    assert "\x1b" not in document["output"] and "\x07" not in document["output"]
    if level > 1:
        assert "FOUND-THE-SECRET" not in document["output"]
        assert "CONNECTED" not in document["output"]
    assert not Path("/tmp/pickle-was-loaded").exists()


def test_finite_differences_are_too_slow(task, level, limits):
    document = graded(task, level, limits, FINITE_DIFFERENCES.encode())
    points = {line["name"]: line["points"] for line in document["checks"]}
    assert points == {"forward": 2.0, "backward": 0.0}
    assert document["checks"][1]["status"] in ("timeout", "failed")


def test_a_failure_costs_its_own_check_only(task, level, limits):
    crash = inside("import os; os._exit(1)")
    points = [line["points"] for line in graded(task, level, limits, crash)["checks"]]
    assert points == [0.0, 3.0]


def test_nothing_is_left_running(task, level, limits):
    if level == 1:
        pytest.skip("level 1 ends its own process group only")
    code = "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\nreturn x"
    graded(task, level, limits, inside(code))
    user = Sandbox(level, limits, place=3).user
    if user is None:
        pytest.skip("without root the user is our own")
    until = time.monotonic() + 30
    while user in _owners() and time.monotonic() < until:
        time.sleep(0.05)
    assert user not in _owners()


def _owners():
    """The users that have a process."""
    owners = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            owners.add(os.stat(path).st_uid)
        except OSError:
            continue
    return owners


def test_there_are_enough_attacks():
    assert len({**NOTHING, **FORWARD, **SIGNALS}) >= 60
