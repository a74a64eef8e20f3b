"""Load the exercises: their files, titles, hints and explanations."""

import ast
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import ArgumentError, DataError
from ..folders import course_folder

__all__ = ["Exercise", "exercise_folder", "exercises", "find_exercise"]

HINTS = 3


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Parameters
    ----------
    path : Path
        Original file, `NN_name.py`.
    kind : {"bug", "property", "write"}
        Task: fix a wrong gradient ("bug"), fix a wrong forward pass whose gradients are correct
        ("property"), or write a `backward` ("write").
    title : str
    judge : str
        Key of the judge in `judges.JUDGES`.
    hints : tuple of str
        Three hints; the last one nearly gives the answer.
    explanation : str
        Description of the mistake and why it is easy to miss, shown after the exercise is solved.
    seen : tuple of (str, str)
        URLs of real code with this or a similar mistake, each with a description.
    old, new : str
        Lines of the original file, and lines of the solution that replace them.
    lesson : str, default ""
        Number of the lesson that explains the topic.
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
        """Number of the exercise, the two digits at the beginning of the file name."""
        return self.path.name[:2]

    @property
    def name(self):
        """File name without its suffix."""
        return self.path.stem

    @cached_property
    def text(self):
        """Text of the exercise file before it is solved."""
        return self.path.read_text(encoding="utf-8")

    @property
    def solved(self):
        """Text of the exercise file with the `old` lines replaced by the solution."""
        if self.text.count(self.old) != 1:
            raise DataError(
                f"{self.path.name}: the lines that the solution replaces must occur exactly once",
                got=f"{self.text.count(self.old)} times {self.old.strip()!r}",
                hint="reinstall the package",
            )
        return self.text.replace(self.old, self.new)

    @property
    def task(self):
        """Description of the task: the file's docstring without its title."""
        return ast.get_docstring(ast.parse(self.text)).split("\n", 2)[2]


def exercise_folder():
    """Find the folder of the exercises: next to the package in a checkout, inside it if installed.

    The environment variable MTA_EXERCISES overrides this folder.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If the folder does not exist.
    """
    return course_folder("exercises", "exercises/files", _has_list, "MTA_EXERCISES")


def _has_list(folder):
    return (folder / "exercises.toml").is_file()


def exercises(folder=None):
    """Load all exercises, in order.

    Parameters
    ----------
    folder : str or path, optional
        Folder of the exercises, `exercise_folder()` by default.

    Returns
    -------
    list of Exercise
    """
    folder = Path(folder or exercise_folder())
    file = folder / "exercises.toml"
    try:
        fields = tomllib.loads(file.read_text(encoding="utf-8"))
        return [_exercise(folder, entry) for entry in fields["exercise"]]
    except (KeyError, TypeError, ValueError) as error:  # includes TOML errors
        raise DataError(
            f"{file} could not be read", got=str(error), hint="reinstall the package"
        ) from None


def _exercise(folder, entry):
    entry = dict(entry)
    path = folder / f"{entry.pop('file')}.py"
    entry["hints"] = tuple(entry["hints"])
    entry["seen"] = tuple((place, what) for place, what in entry.get("seen", ()))
    entry["explanation"] = entry["explanation"].strip()
    return Exercise(path, **entry)


def find_exercise(name, folder=None):
    """Find an exercise by its number or by part of its file name.

    Parameters
    ----------
    name : str
        "3", "03", "03_softmax", the path of a copy, or part of exactly one name.
    folder : str or path, optional
        Folder of the exercises, `exercise_folder()` by default.

    Returns
    -------
    Exercise

    Raises
    ------
    ArgumentError
        If no exercise or more than one matches.
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
        f"{name!r} matches {'more than one' if found else 'no'} exercise",
        got=", ".join(item.name for item in found) or None,
        expected=f"a number from {numbers[0]} to {numbers[-1]}, or part of one name",
        hint="list the exercises: mta exercise list",
    )
