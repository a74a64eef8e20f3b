"""Assignments: read the manifest, task description and checks.

The solution of an assignment is the library itself.
"""

import importlib.util
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...course.folders import course_folder
from ...errors import ArgumentError, DataError
from ...schema import (
    FLAG,
    INTEGER,
    SIZE,
    TEXT,
    check,
    list_of,
    read_toml,
    read_utf8,
    record,
)  # fmt: skip
from .blank import Target, functions
from .declared import alike

__all__ = [
    "Assignment", "Bug", "CheckEntry", "Group", "ToWrite", "assignment_folder", "assignments",
    "find_assignment", "package_root", "read_assignment", "student_folder",
]  # fmt: skip

_KEYS = {
    "": (
        {"name", "title", "version", "files", "blank", "check"},
        {"lesson", "group", "bug", "way", "allow", "engine"},
    ),
    "blank": ({"function", "points", "order"}, {"name"}),
    "group": ({"function", "why"}, {"body"}),
    "check": ({"name", "of", "points"}, {"function", "hidden", "what"}),
    "bug": ({"name", "function", "replace", "with", "loses"}, set()),
    "way": ({"name", "function", "body", "loses"}, set()),
}  # fmt: skip

_TEXTS = ("name", "title", "of", "what", "why", "function", "body", "replace", "with", "lesson")
_FIELDS = {
    **dict.fromkeys(_TEXTS, TEXT), "order": INTEGER, "version": SIZE,
    "hidden": FLAG, "engine": FLAG,
    **dict.fromkeys(("files", "allow", "loses"), list_of(TEXT)),
}  # fmt: skip
_KINDS = ("blank", "group", "check", "bug", "way")
_TABLE = record({}, {**_FIELDS, **dict.fromkeys(_KINDS, list_of(record({}, _FIELDS)))})


@dataclass(frozen=True)
class ToWrite:
    """Function that the student writes."""

    target: Target
    points: int
    order: int
    name: str  # name of the function in the `of` list of a check


@dataclass(frozen=True)
class Group:
    """Function whose body reveals an answer and is therefore replaced in a release."""

    target: Target
    why: str
    body: str | None = None  # None: the function raises NotYetWritten


@dataclass(frozen=True)
class CheckEntry:
    """Check with a name and points, made by a function in `checks.py`."""

    name: str
    of: str
    points: int
    function: str
    hidden: bool = False
    what: str = ""


@dataclass(frozen=True)
class Bug:
    """Change to the solution, and the checks that must then fail.

    If `body` is given, it replaces the whole body of the function. Otherwise, the text `new`
    replaces the text `old` in the source of the function.
    """

    name: str
    target: Target
    loses: tuple
    old: str = ""
    new: str = ""
    body: str | None = None


@dataclass(frozen=True)
class Assignment:
    """One assignment, read from its folder.

    Attributes
    ----------
    folder : Path
    name, title : str
    version : int
    lesson : str or None
        Two-digit number of the lesson to read first.
    files : tuple of str
        Files that a student submits, relative to the parent folder of the package.
    blanks : tuple of ToWrite
        Functions that the student writes, in order.
    groups : tuple of Group
        Functions that are removed because they would reveal one of the `blanks`: the [[group]]
        entries of the manifest, and the functions found by `declared.alike`.
    checks : tuple of CheckEntry
    bugs, ways : tuple of Bug
        Planted bugs, and workarounds (attempts to earn points without doing the work).
    allowed : tuple of str
        Lines of the solution that may occur in a release, because they reveal nothing.
    engine : bool
        Whether checks need the autograd engine in the submission's process. If not, the engine is
        removed, and so are all backward passes except those that the student writes.
    """

    folder: Path
    name: str
    title: str
    version: int
    files: tuple
    blanks: tuple
    groups: tuple
    checks: tuple
    bugs: tuple
    ways: tuple
    lesson: str | None = None
    allowed: tuple = ()
    engine: bool = False
    _module: list = field(default_factory=list, repr=False, compare=False)

    @property
    def points(self):
        """Sum of the points of all checks."""
        return sum(check.points for check in self.checks)

    @property
    def prose(self):
        """Task description in Markdown."""
        return read_utf8(self.folder / "prose.md")

    def checks_by_name(self, seed, hidden=None):
        """Make the checks of all entries: draw their inputs and compute the expected values.

        Parameters
        ----------
        seed : int
        hidden : bool, optional
            If True, use only hidden checks. If False, use only public checks. By default use all.

        Returns
        -------
        dict of str to list of Check
            Checks by entry name. An entry earns its points if all its checks pass.
        """
        chosen = [entry for entry in self.checks if hidden in (None, entry.hidden)]
        return {
            entry.name: self.draw(
                entry, np.random.default_rng([seed, zlib.crc32(entry.name.encode())])
            )
            for entry in chosen
        }

    def draw(self, entry, rng):
        """Make the checks of one entry: draw their inputs and compute the expected values.

        Parameters
        ----------
        entry : CheckEntry
        rng : numpy.random.Generator

        Returns
        -------
        list of Check
        """
        function = getattr(self._checks_module(), entry.function, None)
        if function is None:
            raise DataError(
                f"{self.folder.name}/checks.py does not define the function {entry.function}",
                expected=f"def {entry.function}(rng), which returns a list of Check objects",
            )
        return function(rng)

    def _checks_module(self):
        if not self._module:
            path = self.folder / "checks.py"
            spec = importlib.util.spec_from_file_location(f"_checks_of_{self.name}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._module.append(module)
        return self._module[0]


def package_root():
    """Return the parent folder of the package."""
    return Path(__file__).resolve().parents[3]


def assignment_folder():
    """Return the assignments folder: next to the package in a checkout, otherwise inside it.

    If the environment variable MTA_ASSIGNMENTS is set, the folder it names is used instead.

    Returns
    -------
    Path
    """
    named = os.environ.get("MTA_ASSIGNMENTS")
    if not named:
        return _own_folder()
    if Path(named).is_dir():
        return Path(named)
    raise DataError(
        "MTA_ASSIGNMENTS must be the path of a folder", got=named, hint="unset MTA_ASSIGNMENTS"
    )


def student_folder():
    """Return the folder of the student programs that every release includes.

    Returns
    -------
    Path
    """
    return _own_folder() / "student"


def _own_folder():
    return course_folder("assignments", "assignments", _has_manifests)


def _has_manifests(folder):
    return any(folder.glob("*/assignment.toml"))


def assignments():
    """Load all assignments, sorted by name.

    Returns
    -------
    list of Assignment
    """
    manifests = sorted(assignment_folder().glob("*/assignment.toml"))
    return [read_assignment(path.parent) for path in manifests]


def find_assignment(name):
    """Find an assignment by its name, or by the path of its folder.

    Parameters
    ----------
    name : str

    Returns
    -------
    Assignment
    """
    for folder in (assignment_folder() / name, Path(name)):
        if (folder / "assignment.toml").is_file():
            return read_assignment(folder)
    known = ", ".join(path.parent.name for path in assignment_folder().glob("*/assignment.toml"))
    raise ArgumentError(f"the assignment {name!r} does not exist", expected=f"one of {known}")


def read_assignment(folder):
    """Read the manifest in a folder and check it against the library.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Assignment

    Raises
    ------
    DataError
        If the manifest is invalid. The message names the entry.
    """
    folder = Path(folder)
    path = folder / "assignment.toml"
    table = read_toml(path)
    reader = _Reader(path)
    check(table, _TABLE, reader.where)
    reader.keys(table, "", path.name)
    made = reader.assignment(folder, table)
    reader.compare(made)
    return made


class _Reader:
    """Reader of one manifest. Every error names the file and the entry."""

    def __init__(self, path):
        self.where = f"{path.parent.name}/{path.name}"

    def refuse(self, message, **more):
        raise DataError(f"{self.where}: {message}", **more)

    def keys(self, table, kind, label):
        """Raise an error if a table has unknown keys or lacks required keys."""
        needed, optional = _KEYS[kind]
        if wrong := sorted(set(table) - needed - optional):
            self.refuse(
                f"{label} has an unknown key", got=wrong[0],
                expected=f"one of {', '.join(sorted(needed | optional))}",
            )  # fmt: skip
        if missing := sorted(needed - set(table)):
            self.refuse(f"{missing[0]} is missing from {label}")

    def entries(self, table, kind):
        """Return the tables of [[kind]], after checking their keys."""
        found = table.get(kind, [])
        for number, entry in enumerate(found, 1):
            self.keys(entry, kind, f"[[{kind}]] number {number}")
        return found

    def target(self, text):
        try:
            return Target.parse(text)
        except ArgumentError as error:
            self.refuse(str(error))

    def points(self, entry, label):
        value = entry["points"]
        if type(value) is not int or value < 1:
            self.refuse(f"{label}: points must be a positive integer", got=repr(value))
        return value

    def to_write(self, entry):
        target = self.target(entry["function"])
        points = self.points(entry, entry["function"])
        return ToWrite(target, points, entry["order"], entry.get("name", target.name))

    def groups(self, table, written):
        """Return one Group per function whose body must be removed.

        These are the functions of the [[group]] entries, and the functions that compute or reveal
        the same as a function to write, according to `@computes`.
        """
        groups = [
            Group(self.target(e["function"]), e["why"], e.get("body"))
            for e in self.entries(table, "group")
        ]
        declared = alike(written, package_root())
        for group in groups:
            if declared.pop(group.target, None) and group.body is None:
                self.refuse(
                    "a [[group]] without a body is not needed: @computes(...) already removes "
                    "this function", got=str(group.target), hint="remove this [[group]]",
                )  # fmt: skip
        return groups + [Group(target, f"computes: {name}") for target, name in declared.items()]

    def assignment(self, folder, table):
        blanks = [self.to_write(e) for e in self.entries(table, "blank")]
        groups = self.groups(table, {blank.target for blank in blanks})
        checks = [
            CheckEntry(
                e["name"], e["of"], self.points(e, e["name"]),
                e.get("function", e["name"].replace(" ", "_")), e.get("hidden", False),
                e.get("what", ""),
            )
            for e in self.entries(table, "check")
        ]  # fmt: skip
        bugs = [
            Bug(e["name"], self.target(e["function"]), tuple(e["loses"]), e["replace"], e["with"])
            for e in self.entries(table, "bug")
        ]
        ways = [
            Bug(e["name"], self.target(e["function"]), tuple(e["loses"]), body=e["body"])
            for e in self.entries(table, "way")
        ]
        blanks.sort(key=lambda blank: blank.order)
        return Assignment(
            folder, table["name"], table["title"], table["version"], tuple(table["files"]),
            tuple(blanks), tuple(groups), tuple(checks), tuple(bugs), tuple(ways),
            table.get("lesson"), tuple(table.get("allow", ())), table.get("engine", False),
        )  # fmt: skip

    def compare(self, made):
        """Check that the manifest's entries are consistent with each other and with the library."""
        if made.name != made.folder.name:
            self.refuse("name does not match the folder name", got=made.name)
        self._targets(made)
        names = [entry.name for entry in made.checks]
        for kind in (names, [blank.name for blank in made.blanks]):
            if twice := sorted({name for name in kind if kind.count(name) > 1}):
                self.refuse("two checks or two blanks have the same name", got=twice[0])
        for blank in made.blanks:
            total = sum(entry.points for entry in made.checks if entry.of == blank.name)
            if total != blank.points:
                self.refuse(
                    f"the points of {blank.name} must be the sum of the points of its checks",
                    got=f"{blank.points}", expected=f"{total}",
                )  # fmt: skip
        written = {blank.name for blank in made.blanks}
        for entry in made.checks:
            if entry.of not in written:
                self.refuse(f"check {entry.name!r}: no [[blank]] names its function", got=entry.of)
        for bug in (*made.bugs, *made.ways):
            if unknown := sorted(set(bug.loses) - set(names)):
                self.refuse(f"{bug.name!r}: 'loses' lists an unknown check", got=unknown[0])
            if not bug.loses:
                self.refuse(f"{bug.name!r}: 'loses' must list at least one check")

    def _targets(self, made):
        seen = set()
        for part in (*made.blanks, *made.groups, *made.bugs, *made.ways):
            file = package_root() / part.target.path
            if not file.is_file():
                self.refuse("the module does not exist", got=part.target.module)
            if part.target.name not in functions(file.read_text(encoding="utf-8")):
                self.refuse("the module does not define this function", got=str(part.target))
            if isinstance(part, (ToWrite, Group)):
                if part.target in seen:
                    self.refuse("two blanks or groups name the same function", got=str(part.target))
                seen.add(part.target)
            if not isinstance(part, Group) and part.target.path not in made.files:
                self.refuse(
                    f"{part.target} must be in a file that students submit", got=part.target.path,
                    expected=f"one of files = {list(made.files)}",
                )  # fmt: skip
