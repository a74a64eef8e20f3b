"""Assignments: a manifest in TOML, prose, checks and a reward; the library is the solution."""

import importlib.util
import os
import tomllib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...errors import ArgumentError, DataError
from ..places import course_folder
from .blank import Target, functions

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


@dataclass(frozen=True)
class ToWrite:
    """A function that the student writes."""

    target: Target
    points: int
    order: int
    name: str  # in `of` of a check


@dataclass(frozen=True)
class Group:
    """A function that would give an answer away, and what stands in the place of its body."""

    target: Target
    why: str
    body: str | None = None


@dataclass(frozen=True)
class CheckEntry:
    """Points for what a function of `checks.py` asks."""

    name: str
    of: str
    points: int
    function: str
    hidden: bool = False
    what: str = ""


@dataclass(frozen=True)
class Bug:
    """A change of the solution, and the checks that it has to lose.

    `body` takes the place of a whole body; otherwise `old` becomes `new` in it.
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
        Two digits: what to read before.
    files : tuple of str
        What a student hands in, relative to the folder that holds the package.
    blanks : tuple of ToWrite
        In their order.
    groups : tuple of Group
    checks : tuple of CheckEntry
    bugs, ways : tuple of Bug
        Mistakes, and ways round the work.
    allowed : tuple of str
        Lines of the solution that may stand in a release, since they say nothing.
    engine : bool
        Whether checks differentiate in the process of a submission. Without it that process has
        no backward pass but the student's, so that none can be had from elsewhere.
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
        """The sum over all checks."""
        return sum(check.points for check in self.checks)

    @property
    def prose(self):
        """The task in Markdown."""
        return (self.folder / "prose.md").read_text(encoding="utf-8")

    def checks_by_name(self, seed, hidden=None):
        """Draw the inputs and compute what is expected.

        Parameters
        ----------
        seed : int
        hidden : bool, optional
            Only the hidden checks, or only the public ones.

        Returns
        -------
        dict of str to list of Check
            All the checks of an entry have to pass for its points.
        """
        chosen = [entry for entry in self.checks if hidden in (None, entry.hidden)]
        return {
            entry.name: self.draw(
                entry, np.random.default_rng([seed, zlib.crc32(entry.name.encode())])
            )
            for entry in chosen
        }

    def draw(self, entry, rng):
        """Draw the inputs of one entry and compute what is expected.

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
                f"{self.folder.name}/checks.py has no function {entry.function}.",
                expected=f"def {entry.function}(rng), which returns a list of Check",
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
    """The folder that holds the package."""
    return Path(__file__).resolve().parents[3]


def assignment_folder():
    """The folder of the assignments: beside the package, or within it when installed.

    The environment variable MTA_ASSIGNMENTS names another one.

    Returns
    -------
    Path
    """
    named = os.environ.get("MTA_ASSIGNMENTS")
    if not named:
        return _own_folder()
    if Path(named).is_dir():
        return Path(named)
    raise DataError("MTA_ASSIGNMENTS names no folder.", got=named)


def student_folder():
    """The folder of the programs that every release has.

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
    """All assignments, by their names.

    Returns
    -------
    list of Assignment
    """
    manifests = sorted(assignment_folder().glob("*/assignment.toml"))
    return [read_assignment(path.parent) for path in manifests]


def find_assignment(name):
    """An assignment by its name, or by the path of its folder.

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
    raise ArgumentError("there is no such assignment.", got=name, expected=f"one of {known}")


def read_assignment(folder):
    """Read the manifest of a folder and compare it with the library.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Assignment

    Raises
    ------
    DataError
        Where it says something else than it may; the message names the place.
    """
    folder = Path(folder)
    path = folder / "assignment.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} could not be read.", got=str(error)) from None
    reader = _Reader(path)
    reader.keys(table, "", path.name)
    made = reader.assignment(folder, table)
    reader.compare(made)
    return made


class _Reader:
    """Reads one manifest; every refusal names the file and the entry."""

    def __init__(self, path):
        self.where = f"{path.parent.name}/{path.name}"

    def refuse(self, message, **more):
        raise DataError(f"{self.where}: {message}", **more)

    def keys(self, table, kind, label):
        """Refuse unknown keys and missing ones."""
        needed, optional = _KEYS[kind]
        if wrong := sorted(set(table) - needed - optional):
            self.refuse(
                f"{label} has an unknown key.", got=wrong[0],
                expected=f"of {', '.join(sorted(needed | optional))}",
            )  # fmt: skip
        if missing := sorted(needed - set(table)):
            self.refuse(f"{label} lacks {missing[0]}.")

    def entries(self, table, kind):
        """The tables of [[kind]], checked for their keys."""
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
            self.refuse(f"{label}: points are whole numbers from 1.", got=repr(value))
        return value

    def to_write(self, entry):
        target = self.target(entry["function"])
        points = self.points(entry, entry["function"])
        return ToWrite(target, points, entry["order"], entry.get("name", target.name))

    def assignment(self, folder, table):
        blanks = [self.to_write(e) for e in self.entries(table, "blank")]
        groups = [
            Group(self.target(e["function"]), e["why"], e.get("body"))
            for e in self.entries(table, "group")
        ]
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
        """Refuse what does not fit together, or not to the library."""
        if made.name != made.folder.name:
            self.refuse("the name is that of the folder.", got=made.name)
        self._targets(made)
        names = [entry.name for entry in made.checks]
        for kind in (names, [blank.name for blank in made.blanks]):
            if twice := sorted({name for name in kind if kind.count(name) > 1}):
                self.refuse("a name stands twice.", got=twice[0])
        for blank in made.blanks:
            total = sum(entry.points for entry in made.checks if entry.of == blank.name)
            if total != blank.points:
                self.refuse(
                    f"the points of {blank.name} do not add up.",
                    got=f"{total} from its checks", expected=f"{blank.points}",
                )  # fmt: skip
        written = {blank.name for blank in made.blanks}
        for entry in made.checks:
            if entry.of not in written:
                self.refuse(
                    f"check {entry.name!r} is of a function not to be written.", got=entry.of
                )
        for bug in (*made.bugs, *made.ways):
            if unknown := sorted(set(bug.loses) - set(names)):
                self.refuse(f"{bug.name!r} loses a check that there is not.", got=unknown[0])
            if not bug.loses:
                self.refuse(f"{bug.name!r} loses nothing.")

    def _targets(self, made):
        seen = set()
        for part in (*made.blanks, *made.groups, *made.bugs, *made.ways):
            file = package_root() / part.target.path
            if not file.is_file():
                self.refuse("there is no such module.", got=part.target.module)
            if part.target.name not in functions(file.read_text(encoding="utf-8")):
                self.refuse("the module has no such function.", got=str(part.target))
            if isinstance(part, (ToWrite, Group)):
                if part.target in seen:
                    self.refuse("a function is taken out twice.", got=str(part.target))
                seen.add(part.target)
            if not isinstance(part, Group) and part.target.path not in made.files:
                self.refuse(
                    f"{part.target} is not in a file that is handed in.", got=part.target.path,
                    expected=f"one of files = {list(made.files)}",
                )  # fmt: skip
