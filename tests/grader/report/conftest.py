"""Fixtures: grader documents with everything that a submission may send."""

import copy

import pytest

NASTY = "</pre><script>alert(1)</script> ]]> & \"' =cmd|' /C calc'!A0 \x0c\ufffe é 数"
SECRET = "the hidden inputs are 42"


def line(name, points, most, status, hidden=False, message="", **more):
    return {
        "name": name, "what": f"what {name} asks", "of": ["minitorch_attn.work:softmax"],
        "hidden": hidden, "points": points, "max_points": most, "status": status,
        "message": message, "seconds": 0.25, "first_difference": None, "gradcheck": None, **more,
    }  # fmt: skip


def document(name, checks, status="graded", problems=(), **more):
    return {
        "version": 1,
        "assignment": {"name": "softmax", "title": "Softmax & more", "version": "1", "points": 7.0},
        "grader": {
            "version": "0.1.0", "sandbox": 3, "limits": {}, "python": "3.12.0", "numpy": "2.0.0",
            "time": "2026-11-21T10:00:00+00:00",
        },
        "submission": {
            "name": name, "folder": f"{name}.zip", "digest": "ab" * 32, "problems": list(problems),
            "files": [{"path": "minitorch_attn/work.py", "bytes": 12, "sha256": "cd" * 32}],
        },
        "status": status, "score": sum(c["points"] for c in checks), "max_score": 7.0,
        "checks": checks, "output": "", "seconds": 1.5, **more,
    }  # fmt: skip


def good(name="Ada"):
    return document(name, [
        line("forward", 2.0, 2.0, "passed"), line("backward", 3.5, 3.5, "passed"),
        line("large", 1.5, 1.5, "passed", hidden=True),
    ])  # fmt: skip


def bad(name=NASTY):
    first = {"array": "grad", "index": [0, 3], "got": NASTY, "expected": "1.0"}
    return document(name, [
        line("forward", 2.0, 2.0, "passed"),
        line("backward", 0.0, 3.5, "failed", message=NASTY, first_difference=first,
             gradcheck="  WRONG  grad  <b>2.0 times</b> too large"),
        line("large", 0.0, 1.5, "timeout", hidden=True, message=SECRET, gradcheck=SECRET),
    ])  # fmt: skip


def unread():
    lines = [
        line(name, 0.0, most, "not run", hidden, "work.py is missing")
        for name, most, hidden in (("forward", 2.0, False), ("backward", 3.5, False),
                                   ("large", 1.5, True))
    ]  # fmt: skip
    return document("=HYPERLINK(1)", lines, "not readable", ["work.py is missing"])


def failed():
    return document("Zoe", [], "not graded", detail="Traceback: out of paper")


@pytest.fixture
def results():
    made = good()
    entries = [
        {"name": c["name"], "what": c["what"], "points": c["max_points"], "hidden": c["hidden"]}
        for c in made["checks"]
    ]
    documents = [made, bad(), unread(), failed()]
    return copy.deepcopy({
        "version": 1, "written": "2026-11-21T10:00:00+00:00", "complete": False,
        "assignment": {**made["assignment"], "entries": entries},
        "submissions": [{"folder": f"s{k}", **d} for k, d in enumerate(documents)],
        "not_graded": [{"folder": "late", "name": "+Late", "submission": "+Late.zip",
                        "message": "not graded yet"}],
    })  # fmt: skip
