"""Where the lessons are, and what each one asks."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import ArgumentError, DataError
from .cells import read_cells
from .places import course_folder

__all__ = ["Lesson", "find_lesson", "lesson_folder", "lessons"]

_FILE = re.compile(r"(\d\d)_(\w+)\.py")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    Parameters
    ----------
    path : Path
        Its file, `NN_topic.py`.
    """

    path: Path

    @property
    def number(self):
        """Two digits, as in the file's name."""
        return self.path.name[:2]

    @cached_property
    def cells(self):
        """The cells of the file: list of Cell."""
        return read_cells(self.path.read_text(encoding="utf-8"), self.path.name)

    @property
    def title(self):
        """The heading of the first cell."""
        return self._first[0].removeprefix("# ").strip()

    @property
    def question(self):
        """The first cell up to its last sentence with a question mark, without the title."""
        text = " ".join(" ".join(self._first[1:]).split())
        parts = _SENTENCE.split(text)
        asked = [i for i, part in enumerate(parts) if part.endswith("?")]
        return " ".join(parts[: asked[-1] + 1]) if asked else ""

    @property
    def _first(self):
        """The lines of the first cell."""
        cell = next(iter(self.cells), None)
        if cell is None or cell.kind != "markdown" or not cell.text.startswith("# "):
            raise DataError(
                f"{self.path.name}: the first cell has no title.",
                expected="# %% [markdown], then `# # Title` and the question",
            )
        return cell.text.splitlines()


def lesson_folder():
    """The folder of the lessons: beside the package in a checkout, within it when installed.

    The environment variable MTA_LESSONS names another one.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If there is none.
    """
    return course_folder("lessons", "lessons", _files, "MTA_LESSONS")


def lessons(folder=None):
    """All lessons, in order.

    Parameters
    ----------
    folder : str or path, optional
        By default `lesson_folder()`.

    Returns
    -------
    list of Lesson
    """
    return [Lesson(path) for path in _files(Path(folder or lesson_folder()))]


def find_lesson(name, folder=None):
    """The lesson of a number or of a part of a file's name.

    Parameters
    ----------
    name : str
        "9", "09", "09_why_sqrt_d", or "sqrt" if only one lesson has that in its name.
    folder : str or path, optional

    Returns
    -------
    Lesson

    Raises
    ------
    ArgumentError
        If there is none or more than one.
    """
    known = lessons(folder)
    stem = Path(str(name)).name.removesuffix(".py")
    if stem.isdecimal():
        found = [lesson for lesson in known if int(lesson.number) == int(stem)]
    else:
        found = [lesson for lesson in known if lesson.path.stem == stem]
        found = found or [lesson for lesson in known if stem.lower() in lesson.path.stem]
    if len(found) == 1:
        return found[0]
    numbers = [lesson.number for lesson in known]
    raise ArgumentError(
        f"there is no lesson {name!r}." if not found else f"more than one lesson has {name!r}.",
        got=", ".join(lesson.path.stem for lesson in found) or None,
        expected=f"a number from {numbers[0]} to {numbers[-1]}, or a part of one name",
    )


def _files(folder):
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
