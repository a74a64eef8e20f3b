"""Load the exercises: their files, titles, hints and explanations."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import ArgumentError, DataError
from ...schema import TEXT, Kind, check, choice, list_of, read_toml, read_utf8, record
from ..folders import course_folder

__all__ = ["Exercise", "exercise_folder", "exercises", "find_exercise"]

HINTS = 3
_HINT = "reinstall the package"
# Fields that a "derive" exercise shares with its "write" exercise.
_SHARED = ("judge", "lesson", "explanation", "seen", "old", "new")
_FILE = re.compile(r"\d\d_\w+")
_ENTRY = record(
    {
        **dict.fromkeys(("title", "judge", "explanation", "old", "new"), TEXT),
        "file": Kind("NN_name", lambda name: TEXT.accepts(name) and bool(_FILE.fullmatch(name))),
        "kind": choice("bug", "property", "write", "derive"), "hints": list_of(TEXT, HINTS),
    },
    {"seen": list_of(list_of(TEXT, 2)), "lesson": TEXT, "base": TEXT, "words": TEXT},
    closed=True,
)  # fmt: skip


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Parameters
    ----------
    path : Path
        Original file, `NN_name.py`.
    kind : {"bug", "property", "write", "derive"}
        Task: fix a wrong gradient ("bug"), fix a wrong forward pass whose gradients are correct
        ("property"), write a `backward` from its derivation ("write") or without it ("derive").
    title : str
    judge : str
        Key of the judge in `judges.JUDGES`.
    hints : tuple of str
        Three hints; the last one nearly gives the answer away.
    explanation : str
        Description of the mistake and why it is easy to miss, shown after the exercise is solved.
    seen : tuple of (str, str)
        URLs of real code with this or a similar mistake, each with a description.
    old, new : str
        Lines of the original file, and lines of the solution that replace them.
    lesson : str, default ""
        Number of the lesson that explains the topic.
    base : Path, optional
        File of the "write" exercise that a "derive" exercise repeats with a different task.
    words : str, default ""
        Task of a "derive" exercise.
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
    base: Path | None = None
    words: str = ""

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
        text = read_utf8(self.base or self.path)
        if self.base is None:
            return text
        end = text.index('"""', 3)  # end of the docstring, which contains the derivation
        task = self.words.strip("\n")
        return f'"""{self.title}.\n\n{task}\n{text[end:]}'

    @property
    def solved(self):
        """Text of the exercise file with the lines to change (`old`) replaced by the solution's."""
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
        try:
            text = ast.get_docstring(ast.parse(self.text)) or ""
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise DataError(f"{self.path} is not valid Python", got=str(error)) from None
        return text.partition("\n")[2].partition("\n")[2]


def exercise_folder():
    """Find the folder of the exercises.

    In a checkout, it is next to the package. In an installed package, it is inside the package.

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
    fields = read_toml(file)
    check(fields, record({"exercise": list_of(record({"file": TEXT}))}), file, hint=_HINT)
    entries = {entry["file"]: entry for entry in fields["exercise"]}
    merged = [_with_base(entry, entries) for entry in fields["exercise"]]
    check({"exercise": merged}, record({"exercise": list_of(_ENTRY)}), file, hint=_HINT)
    return [_exercise(folder, entry) for entry in merged]


def _with_base(entry, entries):
    """Return an exercise's entry, completed from the exercise that it repeats (`base`), if any.

    Fields that the entry lacks are copied from the entry of the base exercise.
    """
    base = entries.get(entry.get("base")) if isinstance(entry.get("base"), str) else None
    return {**{name: base[name] for name in _SHARED if name in base}, **entry} if base else entry


def _exercise(folder, entry):
    entry = dict(entry)
    path = folder / f"{entry.pop('file')}.py"
    if "base" in entry:
        entry["base"] = folder / f"{entry['base']}.py"
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
