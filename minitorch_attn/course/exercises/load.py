"""The exercises: their files, titles, hints and explanations."""

import ast
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import ArgumentError, DataError
from ..places import course_folder

__all__ = ["Exercise", "exercise_folder", "exercises", "find_exercise"]

HINTS = 3


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Parameters
    ----------
    path : Path
        The original, `NN_name.py`.
    kind : {"bug", "property", "write"}
        A wrong gradient to mend, a wrong forward whose gradients are right, or a `backward` to
        write.
    title : str
    judge : str
        The name of what it is judged by, in `judges`.
    hints : tuple of str
        Three, the last one nearly the answer.
    explanation : str
        What was wrong and what hides it; for after success.
    seen : tuple of (str, str)
        Where the mistake, or one like it, was made in real code, and what happened there.
    old, new : str
        Lines of the original, and those that solve it.
    lesson : str, default ""
        The number of the lesson that explains it.
    """

    path: Path
    kind: str
    title: str
    judge: str
    hints: tuple
    explanation: str
    old: str
    new: str
    seen: tuple = ()
    lesson: str = ""

    @property
    def number(self):
        """Two digits, as in the file's name."""
        return self.path.name[:2]

    @property
    def name(self):
        """The file's name without its ending."""
        return self.path.stem

    @cached_property
    def text(self):
        """The original file."""
        return self.path.read_text(encoding="utf-8")

    @property
    def solved(self):
        """The file with its solution."""
        if self.text.count(self.old) != 1:
            raise DataError(
                f"{self.path.name}: the lines that its solution replaces are not there once.",
                got=f"{self.text.count(self.old)} times {self.old.strip()!r}",
                hint="install the package anew",
            )
        return self.text.replace(self.old, self.new)

    @property
    def task(self):
        """The docstring below its title."""
        return ast.get_docstring(ast.parse(self.text)).split("\n", 2)[2]


def exercise_folder():
    """The folder of the exercises: beside the package in a checkout, within it when installed.

    The environment variable MTA_EXERCISES names another one.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If there is none.
    """
    return course_folder("exercises", "exercises/files", _has_list, "MTA_EXERCISES")


def _has_list(folder):
    return (folder / "exercises.toml").is_file()


def exercises(folder=None):
    """All exercises, in order.

    Parameters
    ----------
    folder : str or path, optional
        By default `exercise_folder()`.

    Returns
    -------
    list of Exercise
    """
    folder = Path(folder or exercise_folder())
    file = folder / "exercises.toml"
    try:
        fields = tomllib.loads(file.read_text(encoding="utf-8"))
        return [_exercise(folder, entry) for entry in fields["exercise"]]
    except (KeyError, TypeError, ValueError) as error:  # of TOML too
        raise DataError(f"{file} cannot be used.", got=str(error)) from None


def _exercise(folder, entry):
    entry = dict(entry)
    path = folder / f"{entry.pop('file')}.py"
    entry["hints"] = tuple(entry["hints"])
    entry["seen"] = tuple((place, what) for place, what in entry.get("seen", ()))
    entry["explanation"] = entry["explanation"].strip()
    return Exercise(path, **entry)


def find_exercise(name, folder=None):
    """The exercise of a number or of a part of a file's name.

    Parameters
    ----------
    name : str
        "3", "03", "03_softmax", a path to a copy, or a part that one name alone has.
    folder : str or path, optional

    Returns
    -------
    Exercise

    Raises
    ------
    ArgumentError
        If there is none or more than one.
    """
    known = exercises(folder)
    stem = Path(str(name)).name.removesuffix(".py")
    if stem.isdecimal():
        found = [item for item in known if int(item.number) == int(stem)]
    else:
        found = [item for item in known if item.name == stem]
        found = found or [item for item in known if stem.lower() in item.name]
    if len(found) == 1:
        return found[0]
    numbers = [item.number for item in known]
    raise ArgumentError(
        f"there is no exercise {name!r}." if not found else f"more than one exercise has {name!r}.",
        got=", ".join(item.name for item in found) or None,
        expected=f"a number from {numbers[0]} to {numbers[-1]}, or a part of one name",
    )
