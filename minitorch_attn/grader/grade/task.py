"""Task: the graded items, files and checks that the grader needs for an assignment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["Entry", "Task"]


@dataclass
class Entry:
    """One graded item of an assignment.

    Attributes
    ----------
    name : str
    points : float
        Points earned if all checks pass.
    make : callable
        Function `make(rng)` that returns a list of Check.
    what : str
        Description for the student.
    hidden : bool
        Whether details are hidden from students until grades are published.
    of : list of str
        Names of the functions that are tested.
    """

    name: str
    points: float
    make: Callable
    what: str = ""
    hidden: bool = False
    of: list = field(default_factory=list)


@dataclass
class Task:
    """Assignment that is ready for grading.

    Attributes
    ----------
    name, title, version : str
    files : list of str
        Paths of the files to submit: `minitorch_attn/...`.
    entries : list of Entry
    package_folder : path
        Folder of the compiled package without solutions, which submissions complete.
    digest : str
        Hash of everything that affects points: the manifest, the checks and the grader.
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
        """Maximum score."""
        return sum(entry.points for entry in self.entries)

    def checks(self, seed):
        """Make the checks of all entries, with inputs determined by a seed.

        Parameters
        ----------
        seed : int

        Returns
        -------
        list of (Entry, list of Check)
        """
        numbers = np.random.SeedSequence(seed).spawn(len(self.entries))
        pairs = zip(self.entries, numbers, strict=True)
        return [(entry, entry.make(np.random.default_rng(number))) for entry, number in pairs]
