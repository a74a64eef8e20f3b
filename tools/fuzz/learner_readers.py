"""Readers of files that learners or other processes write: programs, locks, messages, output."""

import os

import numpy as np

from minitorch_attn.course.build import check as build_check
from minitorch_attn.course.build.steps import load_steps
from minitorch_attn.course.build.work_file import WorkFile
from minitorch_attn.course.exercises import check as exercise_check
from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.folder_lock import FolderLock, holder_of
from minitorch_attn.grader.grade.protocol import ProtocolError, read_message, write_message

from .reader import Reader, write_json

__all__ = ["LEARNER_READERS"]

_ENTRY = {"pid": 3, "host": "h", "since": "2026", "command": "mta train gpt"}


def _make_build(folder):
    WorkFile(folder / "my_gpt.py").start(load_steps()[0])


def _use_build(folder):
    """Append the stubs of a step to a mutated program, as `mta build` does.

    Then find out whether the program can be checked, as `mta build check` does first.
    """
    first, second, *_ = load_steps()
    WorkFile(folder / "my_gpt.py").start(second)
    build_check._refused(first, folder / "my_gpt.py")


def _make_solution(folder):
    (folder / "solution.py").write_text(exercises()[0].text, encoding="utf-8")


def _use_solution(folder):
    exercise_check._refused(exercises()[0], folder / "solution.py")


def _make_lock(folder):
    with FolderLock(folder, "a folder"):
        pass
    write_json(folder / ".lock.json", _ENTRY)


def _use_lock(folder):
    """Read a mutated description of the process that holds a lock, while the fuzzer holds it."""
    data = (folder / ".lock.json").read_bytes()
    with FolderLock(folder, "a folder"):
        (folder / ".lock.json").write_bytes(data)
        holder_of(folder)


def _make_message(folder):
    with open(folder / "message", "wb") as file:
        write_message(file.fileno(), {"do": "add"}, {"x": np.ones((2, 3)), "y": np.arange(4)})


def _use_message(folder):
    """Read a mutated file in the way in which the grader reads messages from a submission.

    The grader does not trust a submission's process, which may write anything.
    """
    descriptor = os.open(folder / "message", os.O_RDONLY)
    try:
        while read_message(descriptor, max_bytes=1 << 20) is not None:
            pass
    except ProtocolError:
        pass
    finally:
        os.close(descriptor)


def _make_printed(folder):
    (folder / "printed.txt").write_text("a line\nü\n", encoding="utf-8")


LEARNER_READERS = [
    Reader("mta build", _make_build, _use_build, {"my_gpt.py": "text"}),
    Reader("exercise solution", _make_solution, _use_solution, {"solution.py": "text"}),
    Reader("lock", _make_lock, _use_lock, {".lock.json": "json"}, frozenset({""})),
    Reader("message", _make_message, _use_message, {"message": "bytes"}),
    Reader("printed text", _make_printed, exercise_check.printed, {"printed.txt": "text"}),
]
