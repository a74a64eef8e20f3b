"""Sample submissions for trying out the grader: correct, wrong and hostile ones."""

import io
import tarfile
import zipfile
from itertools import cycle, islice
from pathlib import Path

from ...errors import ArgumentError
from ..build.package import solution_files, starter_files
from ..build.verify import with_bug

__all__ = ["sample_class"]

_NAMES = (
    "Amara Okafor", "Bence Kovács", "Chiara Conti", "Davide Moretti", "Elif Yılmaz", "Farid Haddad",
    "Grace Mbeki", "Hana Sato", "Ivan Petrov", "Jun Park",
)  # fmt: skip
_HOSTILE = b"""
import os
for path in ("results.json", "/autograder/results/results.json"):
    try:
        with open(path, "w") as file:
            file.write('{"score": 100}')
    except OSError:
        pass
os._exit(0)
"""


def sample_class(assignment, folder, count=10):
    """Write the submissions of a class of imaginary students.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        Folder to write to. It must be empty or not exist.
    count : int
        Number of submissions. In every ten submissions, the eighth is the unchanged starter code,
        the ninth is empty, and the tenth is an attack.

    Returns
    -------
    list of (str, str)
        Name of each student, and kind of submission.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ArgumentError(
            "sample_class: folder must be new or empty", got=f"{folder}, which contains files",
            hint="choose another --out folder",
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    solution = solution_files(assignment)
    bugs, made = cycle(assignment.bugs or (None,)), []
    for number in range(count):
        name = _NAMES[number % 10] + (f" {number // 10 + 1}" if count > 10 else "")
        kind, files = _handed_in(assignment, number % 10, solution, bugs)
        write = islice(cycle((_folder, _zip, _tar)), number % 3, None)
        next(write)(folder, name, {path: text.encode() for path, text in files.items()})
        made.append((name, kind))
    return made


def _handed_in(assignment, place, solution, bugs):
    """Return the kind and the files of one sample submission.

    `place`, from 0 to 9, determines the kind. The kinds repeat after every ten submissions, but
    each buggy submission gets the next bug.
    """
    if place == 7:
        return "the unchanged starter", starter_files(assignment)
    if place == 8:
        return "nothing", {}
    if place == 9:
        first = assignment.files[0]
        return "ends the process", {**solution, first: _HOSTILE.decode() + solution[first]}
    bug = next(bugs) if place % 2 else None
    if bug is None:
        return "correct", solution
    return f"bug: {bug.name}", with_bug(solution, bug)


def _folder(folder, name, files):
    (folder / name).mkdir()
    for path, data in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_bytes(data)


def _zip(folder, name, files):
    with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)


def _tar(folder, name, files):
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(f"work/{path}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
