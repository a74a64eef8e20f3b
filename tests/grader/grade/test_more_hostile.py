"""More hostile submissions: through messages, leftover files and processes, and names."""

import csv
import io
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from grader.grade.conftest import FILE
from grader.grade.test_hostile import first, inside

from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.report.grading import grade_and_report

pytestmark = pytest.mark.slow
# What a submission needs to write messages of its own.
WRITE = """
import io, json, os, struct, sys, time
import numpy as np
def frame(data): return struct.pack("<Q", len(data)) + data
def npy(a, **more):
    b = io.BytesIO(); np.save(b, a, **more); return b.getvalue()
def crafted(descr, shape, fortran=False, data=b"", version=b"\\x01\\x00"):
    head = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}".encode()
    return b"\\x93NUMPY" + version + struct.pack("<H", len(head)) + head + data
def send(header, *arrays):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    os.write(int(sys.argv[2]), b"".join(map(frame, (header, *arrays))))
DONE = {"status": "done", "arrays": ["y"]}
"""


def answers(code):
    """Answers the first question by itself, and ends."""
    return inside(WRITE + code + "\nos._exit(0)")


def lone(array):
    """Answers with the bytes of one array, which an expression on x gives."""
    return answers(f"send(DONE, {array})")


RIGHT_Y = "e = np.exp(x - x.max(-1, keepdims=True)); y = e / e.sum(-1, keepdims=True)\n"
# Wrong in the forward pass, of which they get nothing, whatever they send.
MESSAGES = {
    "big-endian": answers(RIGHT_Y + "send(DONE, npy(y.astype('>f8')))"),
    "half precision": answers(RIGHT_Y + "send(DONE, npy(y.astype('f2')))"),
    "long double": answers(RIGHT_Y + "send(DONE, npy(y.astype(np.longdouble)))"),
    "complex, no imaginary part": answers(RIGHT_Y + "send(DONE, npy(y.astype(complex)))"),
    "structured": answers(RIGHT_Y + "send(DONE, npy(y.view([('a', 'f8')])))"),
    "fortran order": answers(RIGHT_Y + "send(DONE, crafted(\"'<f8'\", (5, 7), True, y.tobytes()))"),
    "no entries": lone("npy(np.zeros((0,)))"),
    "no entries, many rows": lone("crafted(\"'<f8'\", (10**12, 0))"),
    "a number": lone("npy(np.float64(0.5))"),
    "one number for all": lone("npy(np.full((1, 1), 1 / 7))"),
    "strides of nothing": lone("npy(np.broadcast_to(1 / 7, (5, 7)))"),
    "shape with a hole": lone("crafted(\"'<f8'\", (-1, 7), data=bytes(35 * 8))"),
    "huge shape": lone("crafted(\"'<f8'\", (10**9, 10**9), data=bytes(35 * 8))"),
    "shape of truths": lone("crafted(\"'<f8'\", (True, 35), data=bytes(35 * 8))"),
    "text": lone("npy(x.astype('U8'))"),
    "dates": lone("npy(x.astype('M8[s]'))"),
    "objects": lone("npy(x.astype(object), allow_pickle=True)"),
    "code in the header": lone("crafted(\"__import__('os').system('touch /tmp/ran')\", (5, 7))"),
    "deep header": lone("crafted('(' * 9000, (5, 7))"),
    "deep signs": lone("crafted('-' * 9000 + '1', (5, 7))"),
    "version of the future": lone(
        "crafted(\"'<f8'\", (5, 7), data=bytes(280), version=b'\\x07\\x00')"
    ),
    "no array": lone("b''"),
    "all infinite": lone("npy(x * np.inf)"),
    "signalling": lone("npy(np.full((5, 7), 0x7FF0000000000001, 'u8').view('f8'))"),
    "header of NaN": answers('send(b\'{"status": "done", "arrays": [NaN]}\')'),
    "header of a number": answers("send(b'7')"),
    "header twice": answers(
        'send(b\'{"status": "error", "status": "done", "arrays": ["y"]}\', npy(x * 0))'
    ),
    "number of a million digits": answers("send(b'{\"arrays\": ' + b'9' * 10**6 + b'}')"),
    "names without end": answers("send({**DONE, 'arrays': [str(i) for i in range(10**5)]})"),
    "one name twice": answers("send({**DONE, 'arrays': ['y', 'y']}, npy(x), npy(x))"),
    "points in the header": answers("send({**DONE, 'points': 99, 'status': 'passed'}, npy(x))"),
    "another array": answers("send({**DONE, 'arrays': ['z']}, npy(x))"),
    "arrays that do not follow": answers("send(DONE)"),
    "half, then nothing": answers("os.write(int(sys.argv[2]), bytes(3)); time.sleep(60)"),
}
# Answers before the question, or after it: what is judged belongs to no question or the wrong one.
BEFORE = WRITE + "send(DONE, npy(np.zeros((5, 7)))); send(DONE, npy(np.zeros((3, 11))))\n"
AT_THE_WRONG_TIME = {
    "before the question": first(BEFORE),
    "twice": inside(WRITE + RIGHT_Y + "send(DONE, npy(y)); send(DONE, npy(y)); return y"),
    "a thread that answers, too": first(
        WRITE + "def more():\n    while True: send(DONE, npy(np.zeros((5, 7)))); time.sleep(0.01)\n"
        "import threading; threading.Thread(target=more, daemon=True).start()\n"
    ),
    "a child that answers, too": first(
        WRITE + "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
        "    for _ in range(100): send(DONE, npy(np.zeros((5, 7)))); time.sleep(0.01)\n"
        "    os._exit(0)\n"
    ),
    "the child goes on, the parent ends": first(
        "import os\nif os.fork(): os._exit(0)\nos.setsid()\n"
    ),
}
# Inside the process: all of that is the submission's own, so nothing can be had there.
LOOKING = """
import builtins, gc, sys
def seen(*values):
    for value in values:
        if "expected" in str(value)[:10**5] and "Check" in str(value)[:10**5]: print("FOUND")
old, old_exec = builtins.compile, builtins.exec
def my_compile(*a, **k): seen(*a); return old(*a, **k)
def my_exec(*a, **k): seen(*a); return old_exec(*a, **k)
builtins.compile, builtins.exec = my_compile, my_exec
sys.addaudithook(lambda event, args: None)
gc.callbacks.append(lambda phase, found: None)
sys.settrace(lambda frame, event, arg: seen(*frame.f_locals) if event == "call" else None)
"""
REPLACED = """
import sys, types, numpy as np
fake = types.ModuleType("numpy"); fake.__dict__.update(np.__dict__)
sys.modules["json"] = sys.modules["io"] = sys.modules["struct"] = fake
for module in list(sys.modules.values()):
    if hasattr(module, "write_message"): module.write_message = lambda *a, **k: None
np.lib.format.write_array = lambda *args, **kwargs: None
"""
INNER = {
    "watches the check": first(LOOKING),
    "replaces what writes": first(REPLACED),
    "at the end": first("class A:\n    def __del__(self): print('bye')\nkept = A()\n"),
    "an import hook": first(
        "import sys\nclass H:\n    def find_spec(self, name, *a): print('import', name)\n"
        "sys.meta_path.insert(0, H())\n"
    ),
    "plants files": first(
        "import os, sys\nfor folder in [*sys.path, '.', '/tmp', os.path.expanduser('~')]:\n"
        "    for name in ('numpy.py', 'sitecustomize.py', 'protocol.py', 'x.pth', 'json.py'):\n"
        "        try: open(os.path.join(folder, name), 'w').write('raise SystemExit')\n"
        "        except OSError: pass\n"
    ),
    "stops and goes on": first(
        "import os, signal\nif os.fork() == 0:\n    import time; time.sleep(0.3)\n"
        "    os.kill(os.getppid(), signal.SIGCONT); os._exit(0)\n"
    ),
    "more of everything": first(
        "import resource as r\nfor what in range(16):\n    try:\n"
        "        r.setrlimit(what, (r.RLIM_INFINITY, r.RLIM_INFINITY))\n"
        "        if what in (r.RLIMIT_AS, r.RLIMIT_NPROC, r.RLIMIT_FSIZE): print('RAISED')\n"
        "    except (ValueError, OSError): pass\n"
    ),
    "every file there is": first(
        "import os\nkept = []\ntry:\n    while True: kept.append(os.open('/', os.O_RDONLY))\n"
        "except OSError: pass\n"
    ),
}
# What a submission may find, reach or leave: each prints FOUND where it should not get anything.
LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
REACHING = {
    "a solution on the disk": """
import os
for base, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(base, name) not in ("/proc", "/sys")]
    for name in names:
        if name in ("attention_tiled.py", "test_hostile.py", "assignment.toml", "run.json"):
            try: open(os.path.join(base, name)).read(1); print("FOUND", base, name)
            except OSError: pass
""",
    "other folders": """
import os
for name in ("/root", "/home", "/etc/passwd", "/var", "/srv", "/opt", "/sys", "/boot"):
    try: print("FOUND", name, (os.listdir if os.path.isdir(name) else open)(name))
    except OSError: pass
""",
    "memory and environment of others": """
import os
for pid in range(1, 400):
    for name in ("environ", "mem", "maps", "fd"):
        try:
            found = (os.listdir if name == "fd" else open)(f"/proc/{pid}/{name}")
            if name == "environ" and "GRADER-SECRET" in found.read(): print("FOUND")
        except OSError: pass
""",
    "ptrace": LIBC
    + """
import os
for pid in range(2, 400):  # 1 is the sandbox's own
    if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0: print("FOUND", pid)
""",
    "a name space of its own": LIBC
    + """
import os
if libc.unshare(0x10000000 | 0x00020000) == 0: print("FOUND a user namespace")
""",
    "root": """
import os
for call in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp"),
             lambda: os.mknod("/tmp/d", 0o60600, os.makedev(254, 0))):
    try: call(); print("FOUND")
    except OSError: pass
""",
    "the last byte": """
import os
count = 0
for folder in ("/", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/run", "/work", os.getcwd()):
    for number in range(30):
        try:
            with open(f"{folder}/f{number}", "wb") as file: file.write(bytes(900_000)); count += 1
        except OSError: break
if count > 55: print("FOUND room for", count)
""",
    "signals to all": """
import os, signal
for pid in (os.getppid(), 1, 0x7fffffff):
    for number in (signal.SIGUSR1, signal.SIGTERM):
        if pid > 1:
            try: os.kill(pid, number)
            except OSError: pass
""",
}
LEAVE = (
    LIBC
    + """
import os
for name in ("/tmp/left", "/var/tmp/left", "/dev/shm/left", "left", os.environ["HOME"] + "/left"):
    try: open(name, "w").write("here")
    except OSError: pass
libc.shmget(4711, 4096, 0o1666); libc.msgget(4711, 0o1666)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        import time; time.sleep(600)
    os._exit(0)
"""
)
FIND = (
    LIBC
    + """
import os
for name in ("/tmp/left", "/var/tmp/left", "/dev/shm/left", "left", os.environ["HOME"] + "/left"):
    if os.path.exists(name): print("FOUND", name)
if libc.shmget(4711, 4096, 0) >= 0 or libc.msgget(4711, 0) >= 0: print("FOUND memory")
"""
)
AT_LEVEL_1 = (
    "big-endian", "half precision", "no entries", "a number", "strides of nothing", "text",
    "objects", "deep header", "all infinite", "one name twice", "before the question",
    "watches the check", "at the end", "every file there is",
)  # fmt: skip


def graded(task, level, limits, code):
    submission = Submission("student", {FILE: code if isinstance(code, bytes) else code.encode()})
    return grade_one(task, task.checks(7), submission, Sandbox(level, limits, place=4))


def not_here(name, level):
    if level == 1 and name not in AT_LEVEL_1:
        pytest.skip("level 1 is for accidents; the attacks are for levels 2 and 3")


def whole(document):
    """Whether a document is one: a line for each entry, none above its points, each with a word."""
    assert [line["max_points"] for line in document["checks"]] == [2.0, 3.0]
    assert all(0 <= line["points"] <= line["max_points"] for line in document["checks"])
    assert all(line["message"] for line in document["checks"] if line["status"] != "passed")
    assert document["score"] == sum(line["points"] for line in document["checks"])
    return True


@pytest.mark.parametrize("name", MESSAGES)
def test_a_crafted_message_earns_nothing(name, task, level, limits):
    not_here(name, level)
    document = graded(task, level, limits, MESSAGES[name])
    points = {line["name"]: line["points"] for line in document["checks"]}
    assert whole(document) and points["forward"] == 0.0
    assert points["backward"] in (0.0, 3.0)  # that one is right, in a process of its own
    assert not Path("/tmp/ran").exists()


@pytest.mark.parametrize("name", AT_THE_WRONG_TIME)
def test_an_answer_at_the_wrong_time_earns_nothing_more(name, task, level, limits):
    not_here(name, level)
    document = graded(task, level, limits, AT_THE_WRONG_TIME[name])
    assert whole(document)
    for line in document["checks"]:  # the code is right: what is lost is the submission's own loss
        assert line["status"] in ("passed", "failed", "misbehaved", "crashed", "timeout")


@pytest.mark.parametrize("name", INNER)
def test_its_own_process_is_its_own(name, task, level, limits):
    not_here(name, level)
    document = graded(task, level, limits, INNER[name])
    assert whole(document)
    assert "FOUND" not in document["output"] and "RAISED" not in document["output"]
    assert document["score"] == (0.0 if name == "replaces what writes" else 5.0)


@pytest.mark.parametrize("name", REACHING)
def test_there_is_nothing_to_reach(name, task, level, limits, monkeypatch):
    not_here(name, level)
    monkeypatch.setenv("TOKEN", "GRADER-SECRET")
    document = graded(task, level, limits, first(REACHING[name]))
    assert whole(document) and "FOUND" not in document["output"], document["output"]
    assert document["score"] == 5.0, document["checks"]


def test_nothing_passes_from_one_submission_to_the_next(task, level, limits):
    not_here("left", level)
    assert graded(task, level, limits, first(LEAVE))["score"] == 5.0
    document = graded(task, level, limits, first(FIND))
    assert document["score"] == 5.0 and document["output"] == "", document["output"]


def test_nothing_passes_from_one_worker_to_the_next(task, level, limits):
    not_here("left", level)
    code = inside(FIND + LEAVE + "os._exit(0)") + FIND.encode()
    assert graded(task, level, limits, code)["output"] == ""


NAMES = [
    "=cmd('calc')", "+1+1", "@SUM(A1)", "-2", "a'b\"c`d$(id)", "new\nline", "tab\tone",
    "\x1b[31mred", "\u202egnp.exe", "<script>alert(1)</script>", "]]>&amp;<x>", "x" * 200,
    "Ada", "ADA", "nul\x01", "ünïcödé 数", "%s %n {0}", "--out", "CON",
]  # fmt: skip


def test_names_are_data(task, limits, tmp_path):
    cls, out = tmp_path / "class", tmp_path / "out"
    for name in NAMES:
        place = cls / name / FILE
        place.parent.mkdir(parents=True)
        place.write_bytes(b"nothing = 1\n")
    odd = os.fsencode(cls) + b"/half \xff\xed\xa0\x80"
    os.makedirs(odd + b"/minitorch_attn")
    with open(odd + b"/minitorch_attn/work.py", "wb") as file:
        file.write(b"nothing = 1\n")
    outcome = grade_and_report(task, cls, out, level=Sandbox.best(), limits=limits, jobs=2)
    assert outcome.failures == [] and len(outcome.results["submissions"]) == len(NAMES) + 1
    rows = list(csv.reader(io.StringIO((out / "grades.csv").read_text(encoding="utf-8"))))
    assert len(rows) == len(NAMES) + 2
    assert not any(cell[:1] in ("=", "+", "-", "@", "\t", "\r") for row in rows for cell in row)
    suites = ET.parse(out / "junit.xml").getroot().findall("testsuite")
    assert len(suites) == len(NAMES) + 1
    pages = list((out / "students").glob("*/feedback.html"))
    assert len(pages) == len(NAMES) + 1
    assert not any("<script" in page.read_text(encoding="utf-8").lower() for page in pages)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["class", "out"]
    json.loads((out / "results.json").read_text(encoding="utf-8"))


def test_there_are_enough_attacks():
    attacks = {**MESSAGES, **AT_THE_WRONG_TIME, **INNER, **REACHING}
    assert len(attacks) >= 50 and set(AT_LEVEL_1) <= set(attacks)


FILL = """
import os
for root, folders, files in os.walk("/"):
    if root.startswith(("/proc", "/sys")):
        folders.clear()
        continue
    paths = [os.path.join(root, f"fill{i}") for i in range(64)]
    written = 0
    try:
        for path in paths:
            with open(path, "wb") as file:
                written += file.write(b"x" * (1 << 20))
    except OSError:
        pass
    if written > 20 << 20:
        print("FILLED", root, written >> 20, "MiB")
    for path in paths if written else ():
        if os.path.exists(path):
            os.remove(path)
"""


def test_no_folder_of_the_sandbox_takes_more_than_its_limit(task, level, limits):
    """At level 3, every writable folder is a small one in memory."""
    if level < 3:
        pytest.skip("levels 1 and 2 limit the size of a file, not of a folder")
    submission = Submission("student", {FILE: first(FILL)})
    document = grade_one(task, task.checks(7), submission, Sandbox(level, limits, place=3))
    assert "FILLED" not in document["output"] and document["score"] == 5.0, document
