"""Readers of data files, lessons, exercises, assignments, grading results and URLs."""

import gzip
import io
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import click
import numpy as np

from minitorch_attn.cli.train import _read_config, train
from minitorch_attn.course.exercises.check import read_note
from minitorch_attn.course.exercises.check import read_results as read_child_results
from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.exercises.progress import ExerciseProgress
from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.data import (
    read_idx,
    read_image,
    read_parallel,
    read_text,
    read_tsv,
)
from minitorch_attn.data.archives import unpack
from minitorch_attn.data.cifar import read_cifar10
from minitorch_attn.data.download import download
from minitorch_attn.grader.build.assignment import read_assignment
from minitorch_attn.grader.build.markers import released_notebook
from minitorch_attn.grader.grade.archive import read_submission
from minitorch_attn.grader.grade.document import read_document
from minitorch_attn.grader.grade.grade_class import _stored
from minitorch_attn.grader.grade.run_file import run_seed
from minitorch_attn.grader.report.merge import merge_shards
from minitorch_attn.grader.report.results import read_results, statistics

from .reader import Reader, write_json

__all__ = ["COURSE_READERS"]

_ROOT = Path(__file__).resolve().parents[2]

# Data files


def _make_idx(folder):
    data = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 3, 5)) + bytes(range(30))
    (folder / "a.idx").write_bytes(data)


def _make_packed_idx(folder):
    _make_idx(folder)
    data = gzip.compress((folder / "a.idx").read_bytes(), mtime=0)
    (folder / "a.idx").write_bytes(data)


def _make_cifar(folder):
    (folder / "a.bin").write_bytes((b"\x03" + bytes(3072)) * 2)


def _make_image(kind):
    def make(folder):
        from PIL import Image

        Image.fromarray(np.arange(96, dtype=np.uint8).reshape(4, 8, 3)).save(folder / f"a.{kind}")

    return make


def _make_text(folder):
    (folder / "a.txt").write_text("one\teins\ntwo\tzwei\n# é\tü\n", encoding="utf-8")
    (folder / "b.txt").write_text("a\nb\nc\n", encoding="utf-8")


def _read_lines(folder):
    read_text(folder / "a.txt")
    read_parallel(folder / "a.txt", folder / "b.txt")


def _make_zip(folder):
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for name in ("a.txt", "b/c.txt", "b/minitorch_attn/ops/softmax.py"):
            archive.writestr(zipfile.ZipInfo(name), "x = 1\n" * 20)


def _make_tar(mode):
    def make(folder):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=f"w:{mode}") as archive:
            for name in ("a.txt", "b/c.txt"):
                info = tarfile.TarInfo(name)
                info.size = 12
                archive.addfile(info, io.BytesIO(b"x = 1\n" * 2))
        (folder / "a.tar").write_bytes(buffer.getvalue())

    return make


def _unpack(name):
    def read(folder):
        unpack(folder / name, folder / "out", max_bytes=1 << 20)
        read_submission(folder / name, ["minitorch_attn/ops/softmax.py"])

    return read


def _make_npz(folder):
    np.savez(folder / "small-out.npz", y0=np.ones((2, 3)), y1=np.arange(4))
    write_json(folder / "note.json", {
        "errors": {"small": {"kind": "ValueError", "text": "x", "line": 3, "source": "x = 1"}},
        "report": {"text": "x", "ok": False},
    })  # fmt: skip


def _read_npz(folder):
    read_child_results(folder, "small")
    read_note(folder)


# URLs

_URLS = "\n".join((
    "https://user:secret@example.invalid/data.zip", "https://[::1/x", "http://" + "a" * 300,
    "https://example.invalid:99999999/x", "https://example.invalid/é/ü.txt", "http://[", "://",
    "https://exa\tmple.invalid/ x", "HTTPS://EXAMPLE.INVALID/%ff%00", "file:///etc/passwd",
    "https://example.invalid/" + "x" * 3000, "https://" + "a." * 200 + "invalid", "https://é.invalid",
))  # fmt: skip


class _SecretShown(Exception):
    """Raised by the fuzzer if an error message contains the password of a URL."""


def _download_all(folder):
    import socket

    def unknown(*_):
        raise socket.gaierror("no network in the fuzzer")

    socket.getaddrinfo = unknown  # in the fuzzer's own child process
    urls = (folder / "urls.txt").read_text(encoding="utf-8", errors="surrogateescape")
    error = None
    for url in urls.split("\n")[:40]:
        for read in (
            lambda u: download(u, "0" * 64, folder=folder),
            lambda u: read_text(u, sha256="0" * 64),
        ):
            try:
                read(url)
            except Exception as found:
                if "secret" in str(found):
                    raise _SecretShown(str(found)) from None
                error = found
                if not type(found).__module__.startswith("minitorch_attn"):
                    raise
    if error is not None:
        raise error


# Lessons, exercises, progress, options


def _make_lessons(folder):
    text = (
        '# %% [markdown] tags=["a"]\n# # Title\n# Why? Because.\n\n# %% tags=["answers", "x"]\n'
        "x = 1\n\n# %%\ny = 2\n"
    )
    (folder / "01_title.py").write_text(text, encoding="utf-8")


def _read_lessons(folder):
    for lesson in lessons(folder):
        _ = lesson.title, lesson.question, lesson.cells


def _make_exercises(folder):
    (folder / "exercises.toml").write_text(
        '[[exercise]]\nfile = "01_a"\nkind = "bug"\ntitle = "T"\njudge = "softmax"\n'
        'lesson = "09"\nhints = ["a", "b", "c"]\nexplanation = "e"\nold = "x = 1"\nnew = "x = 2"\n'
        'seen = [["https://example.org", "d"]]\n',
        encoding="utf-8",
    )
    (folder / "01_a.py").write_text('"""Title.\n\nThe task.\n"""\nx = 1\n', encoding="utf-8")


def _read_exercises(folder):
    for exercise in exercises(folder):
        _ = exercise.text, exercise.solved, exercise.task, exercise.number


def _make_progress(folder):
    progress = ExerciseProgress(folder / "progress.json")
    progress.leave("09", cell=3, cells=12)
    progress.finish("08")
    progress.hint_given("03_softmax", 2)
    progress.use_folder(folder)


def _use_progress(folder):
    """Read the progress file. The library renames a damaged file instead of raising an error."""
    progress = ExerciseProgress(folder / "progress.json")
    progress.latest()
    for number in ("08", "09"):
        progress.is_done(number), progress.cell(number), progress.when(number)
    progress.hints("03_softmax"), progress.is_solved("03_softmax"), progress.work_folder
    progress.leave("10", cell=1, cells=2)
    progress.solve("04_x")


def _make_options(folder):
    write_json(folder / "a.json", {"minitorch_attn": "1", "options": {"steps": 3, "lr": 0.1}})
    (folder / "a.toml").write_text('steps = 3\nlr = 0.1\ndtype = "float32"\n', encoding="utf-8")


def _read_options(folder):
    command = train.get_command(click.Context(train), "gpt")
    for name in ("a.json", "a.toml"):
        context = click.Context(command)
        _read_config(context, None, str(folder / name))
        for parameter in command.params:  # as click does for options that are not given
            if parameter.name in (context.default_map or {}):
                parameter.type_cast_value(context, context.default_map[parameter.name])


# Assignments and grading


def _make_assignment(folder):
    source = sorted((_ROOT / "assignments").glob("*/assignment.toml"))[0]
    target = folder / source.parent.name
    target.mkdir()
    (target / "assignment.toml").write_bytes(source.read_bytes())


def _read_assignment(folder):
    (path,) = folder.iterdir()
    assignment = read_assignment(path)
    _ = assignment.points


def _assignment_file():
    source = sorted((_ROOT / "assignments").glob("*/assignment.toml"))[0]
    return f"{source.parent.name}/assignment.toml"


_DOCUMENT = {
    "version": 1,
    "assignment": {"name": "a", "title": "A", "version": "1", "points": 5.0, "digest": "d"},
    "grader": {"version": "1", "sandbox": 3, "time": "2026-01-01"},
    "submission": {"name": "ann", "digest": "d", "problems": [],
                   "files": [{"path": "a.py", "bytes": 3, "sha256": "0" * 64}]},
    "status": "graded", "score": 2.0, "max_score": 5.0, "output": "", "seconds": 0.5,
    "checks": [
        {"name": "forward", "what": "w", "of": ["f"], "hidden": False, "points": 2.0,
         "max_points": 2.0, "status": "passed", "message": "", "seconds": 0.1},
        {"name": "backward", "what": "w", "of": ["g"], "hidden": True, "points": 0.0,
         "max_points": 3.0, "status": "failed", "message": "m", "seconds": 0.1},
    ],
}  # fmt: skip
_RESULTS = {
    "version": 1, "written": "2026", "complete": True,
    "assignment": {"name": "a", "title": "A", "version": "1", "points": 5.0, "entries": [
        {"name": "forward", "what": "w", "points": 2.0, "hidden": False},
        {"name": "backward", "what": "w", "points": 3.0, "hidden": True}]},
    "submissions": [{"folder": "ann", **_DOCUMENT, "outdated": False}],
    "not_graded": [{"folder": "bob", "name": "bob", "submission": "bob.zip", "message": "m"}],
}  # fmt: skip


class _Task:
    """Stand-in for a Task, with only the fields that are compared with the files to read."""

    name, version, digest = "a", "1", ""


def _make_results(folder):
    write_json(folder / "results.json", _RESULTS)
    write_json(folder / "ann.json", _DOCUMENT)
    write_json(folder / "run.json", {
        "version": 1, "assignment": "a", "assignment_version": "1", "seed": "0f" * 16,
        "started": "2026",
    })  # fmt: skip


def _make_one(content, name):
    return lambda folder: write_json(folder / name, content)


def _make_shard(folder):
    _make_results(folder)
    (folder / "state").mkdir()
    name = "ann-000000000000"
    data = (folder / "ann.json").read_bytes()
    (folder / "state" / f"{name}.json").write_bytes(data)
    write_json(folder / "shard.json", {
        "version": 1, "shard": 1, "of": 1, "listed": True, "assignment": _RESULTS["assignment"],
        "digest": "d", "why": "not graded yet", "roster": ["ann", "zoe"],
        "submissions": [{"folder": name, "name": "ann", "submission": "ann"}],
        "passed_over": [{"name": "a.rar", "why": "w"}], "results": {name: sha256(data).hexdigest()},
    })  # fmt: skip


def _use_results(folder):
    from minitorch_attn.grader.report.terminal import failures, hardest, heading
    from minitorch_attn.grader.report.write import write_class, write_student

    results = read_results(folder)
    found = statistics(results)
    heading(results, found), hardest(found), failures(results)
    for document in results["submissions"]:
        write_student(document, folder / "out")
    (folder / "class").mkdir()
    if problems := write_class(results, folder / "class"):
        raise RuntimeError(problems[0])


def _read_notebook(folder):
    released_notebook((folder / "a.ipynb").read_text("utf-8", "surrogateescape"), "a.ipynb")


_NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "source": ["x = 1\n"], "outputs": [1], "execution_count": 1},
        {"cell_type": "markdown", "source": "text"},
    ],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip


def _simple(name, file, kind, make, read, unread=frozenset()):
    return Reader(name, make, lambda folder: read(folder / file), {file: kind}, frozenset(unread))


COURSE_READERS = [
    _simple("IDX", "a.idx", "idx", _make_idx, read_idx),
    _simple("IDX gzip", "a.idx", "bytes", _make_packed_idx, read_idx),
    _simple("CIFAR-10", "a.bin", "bytes", _make_cifar, read_cifar10),
    _simple("PNG", "a.png", "bytes", _make_image("png"), lambda p: read_image(p).load()),
    _simple("BMP", "a.bmp", "bytes", _make_image("bmp"), lambda p: read_image(p).load()),
    _simple("TIFF", "a.tif", "bytes", _make_image("tif"), lambda p: read_image(p).load()),
    Reader("text", _make_text, _read_lines, {"a.txt": "text", "b.txt": "text"}),
    _simple("TSV", "a.txt", "text", _make_text, read_tsv),
    Reader("zip", _make_zip, _unpack("a.zip"), {"a.zip": "zip"}),
    Reader("tar", _make_tar(""), _unpack("a.tar"), {"a.tar": "bytes"}),
    Reader("tar.gz", _make_tar("gz"), _unpack("a.tar"), {"a.tar": "bytes"}),
    Reader("exercise output", _make_npz, _read_npz, {"small-out.npz": "zip", "note.json": "json"},
           frozenset({""})),
    Reader("URLs", lambda f: (f / "urls.txt").write_text(_URLS, encoding="utf-8"), _download_all,
           {"urls.txt": "text"}, accepts=False),
    Reader("lessons", _make_lessons, _read_lessons, {"01_title.py": "text"}),
    Reader("exercises.toml", _make_exercises, _read_exercises, {"exercises.toml": "toml"}),
    Reader("progress", _make_progress, _use_progress, {"progress.json": "json"}, frozenset({""})),
    Reader("options", _make_options, _read_options, {"a.json": "json", "a.toml": "toml"},
           frozenset({"minitorch_attn"})),
    Reader("assignment.toml", _make_assignment, _read_assignment, {_assignment_file(): "toml"}),
    _simple("document", "ann.json", "json", _make_results, read_document),
    _simple(
        "kept document", "ann.json", "json", _make_results, lambda path: _stored(path, _Task), {""}
    ),
    Reader("run.json", _make_results, lambda folder: run_seed(_Task, folder), {"run.json": "json"},
           frozenset({"started"})),
    Reader("shard.json", _make_shard, lambda folder: merge_shards([folder], folder / "merged"),
           {"shard.json": "json"}),
    Reader("results.json", _make_results, _use_results, {"results.json": "json"},
           frozenset({"written"})),
    Reader("notebook", _make_one(_NOTEBOOK, "a.ipynb"), _read_notebook, {"a.ipynb": "json"},
           frozenset({("cells", 0, "source"), "outputs", "execution_count", "metadata", "nbformat",
                      "nbformat_minor"})),
]  # fmt: skip
