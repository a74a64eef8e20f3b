"""List of lessons: find lessons by number or name, and read their titles and questions."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import ArgumentError, DataError
from ..schema import read_utf8
from .cells import read_cells
from .folders import course_folder
from .turns import find_turns

__all__ = ["Lesson", "find_lesson", "lesson_folder", "lessons"]

_FILE = re.compile(r"(\d\d)_(\w+)\.py")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")


@dataclass(frozen=True)
class Lesson:
    """One lesson: its number, cells, title and question.

    Parameters
    ----------
    path : Path
        Lesson file, `NN_topic.py`.
    """

    path: Path

    @property
    def number(self):
        """Number of the lesson as a string of two digits, such as "09"."""
        return self.path.name[:2]

    @cached_property
    def cells(self):
        """Cells of the file, as a list of Cell."""
        return read_cells(read_utf8(self.path), self.path.name)

    @cached_property
    def turns(self):
        """Functions that the learner writes, as a list of Turn."""
        return find_turns(self)

    @cached_property
    def minutes(self):
        """Estimated duration in minutes, from the lessons' `minutes.json`, or None if unknown."""
        try:
            table = json.loads((self.path.parent / "minutes.json").read_text(encoding="utf-8"))
            return int(table[self.number]["minutes"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def title(self):
        """Heading of the first cell."""
        return self._first[0].removeprefix("# ").strip()

    @property
    def question(self):
        """Question of the lesson: the text below the title, up to the last sentence with a `?`."""
        text = " ".join(" ".join(self._first[1:]).split())
        parts = _SENTENCE.split(text)
        asked = [i for i, part in enumerate(parts) if part.endswith("?")]
        return " ".join(parts[: asked[-1] + 1]) if asked else ""

    @property
    def _first(self):
        """Return the lines of the first cell."""
        cell = next(iter(self.cells), None)
        if cell is None or cell.kind != "markdown" or not cell.text.startswith("# "):
            raise DataError(
                f"{self.path.name}: the title of the first cell is missing",
                expected="# %% [markdown], then `# # Title` and the question",
            )
        return cell.text.splitlines()


def lesson_folder():
    """Find the lesson folder.

    In a checkout, it is next to the package. In an installed package, it is inside the package.

    The environment variable MTA_LESSONS overrides this folder.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If no lessons are found.
    """
    return course_folder("lessons", "lessons", _files, "MTA_LESSONS")


def lessons(folder=None):
    """Load all lessons, sorted by number.

    Parameters
    ----------
    folder : str or path, optional
        Folder to search. Defaults to `lesson_folder()`.

    Returns
    -------
    list of Lesson
    """
    return [Lesson(path) for path in _files(Path(folder or lesson_folder()))]


def find_lesson(name, folder=None):
    """Find a lesson by its number or by a part of its file name.

    Parameters
    ----------
    name : str
        "9", "09", "09_why_sqrt_d", or "sqrt" if only one file name contains it.
    folder : str or path, optional

    Returns
    -------
    Lesson

    Raises
    ------
    ArgumentError
        If no lesson or more than one lesson matches.
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
        f"no lesson matches {name!r}" if not found else f"more than one lesson matches {name!r}",
        got=", ".join(lesson.path.stem for lesson in found) or None,
        expected=f"a number from {numbers[0]} to {numbers[-1]}, or part of one name",
        hint="list the lessons: mta lesson list",
    )


def _files(folder):
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
