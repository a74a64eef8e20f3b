"""The learner's copies of the exercises."""

import os
import time
from pathlib import Path

__all__ = ["WorkFolder", "near"]

_DEFAULT = "exercises-work"


class WorkFolder:
    """The folder in which a learner edits.

    It is, in turn: `path`; what MTA_WORK names; `exercises-work` here; the one that was used
    last. If none is there, it will be `exercises-work` here.

    Parameters
    ----------
    path : str or path, optional
    last : Path, optional
        The folder that was used last.
    """

    def __init__(self, path=None, last=None):
        named = path or os.environ.get("MTA_WORK")
        here = Path.cwd() / _DEFAULT
        if named:
            self.path = Path(named).absolute()
        elif not here.is_dir() and last is not None and last.is_dir():
            self.path = last
        else:
            self.path = here

    def file(self, exercise):
        """The path of the copy of an exercise, which may not be there yet."""
        return self.path / exercise.path.name

    def start(self, exercise):
        """Copy an exercise unless that was done before.

        Returns
        -------
        bool
            Whether it was copied now.
        """
        file = self.file(exercise)
        if file.exists():
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8", newline="\n") as target:
            target.write(exercise.text)
        return True

    def reset(self, exercise):
        """Put the original back and keep what was there under another name.

        Returns
        -------
        Path or None
            Where the old copy is; None if there was none, or it was unchanged.
        """
        file, kept = self.file(exercise), None
        if file.exists():
            if file.read_bytes() == exercise.text.encode():
                return None
            stamp = time.strftime("%Y%m%d-%H%M%S")
            number = 0
            while kept is None or kept.exists():
                number += 1
                kept = file.with_suffix(f".{stamp}{f'-{number}' if number > 1 else ''}.bak")
            file.rename(kept)
        self.start(exercise)
        return kept


def near(path):
    """A path as seen from the working directory, if that is shorter.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    str
    """
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return relative if len(relative) < len(str(Path(path))) else str(path)
