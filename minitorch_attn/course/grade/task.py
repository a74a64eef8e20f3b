"""What the grader needs to know of an assignment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["Entry", "Task"]


@dataclass
class Entry:
    """One line of the mark sheet.

    Attributes
    ----------
    name : str
    points : float
    make : callable
        `make(rng)` -> list of Check, all of which have to pass.
    what : str
        What is asked for, in words.
    hidden : bool
        Whether students see the entry before marks are published.
    of : list of str
        The functions it is about.
    """

    name: str
    points: float
    make: Callable
    what: str = ""
    hidden: bool = False
    of: list = field(default_factory=list)


@dataclass
class Task:
    """An assignment, ready to be graded.

    Attributes
    ----------
    name, title, version : str
    files : list of str
        What is handed in: `minitorch_attn/...`.
    entries : list of Entry
    package_folder : path
        Holds the package that submissions complete: without solutions, and compiled.
    digest : str
        Changes with what decides over points: the manifest, the checks, the grader.
    """

    name: str
    title: str
    version: str
    files: list
    entries: list
    package_folder: Path
    digest: str = ""

    @property
    def points(self):
        """The most that can be reached."""
        return sum(entry.points for entry in self.entries)

    def checks(self, seed):
        """(entry, its checks) with inputs that follow from a seed.

        Parameters
        ----------
        seed : int

        Returns
        -------
        list
        """
        numbers = np.random.SeedSequence(seed).spawn(len(self.entries))
        pairs = zip(self.entries, numbers, strict=True)
        return [(entry, entry.make(np.random.default_rng(number))) for entry, number in pairs]
