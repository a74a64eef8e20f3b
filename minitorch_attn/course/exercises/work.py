"""Work folder: the learner's copies of the exercises."""

import os
import time
from pathlib import Path

__all__ = ["WorkFolder", "near"]

_DEFAULT = "exercises-work"


class WorkFolder:
    """Folder in which the learner edits copies of the exercises.

    The folder is `path`, or else the value of the environment variable MTA_WORK. If neither is set,
    it is the first of these folders that exists: `exercises-work` in the working directory, or
    `last`, the folder that was used last. If neither exists, it is a new `exercises-work` in the
    working directory.

    Parameters
    ----------
    path : str or path, optional
        Folder chosen by the user.
    last : Path, optional
        Folder that was used last.
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
        """Return the path of an exercise's copy, which may not exist yet."""
        return self.path / exercise.path.name

    def start(self, exercise):
        """Copy an exercise unless a copy already exists.

        Returns
        -------
        bool
            Whether the exercise was copied.
        """
        file = self.file(exercise)
        if file.exists():
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8", newline="\n") as target:
            target.write(exercise.text)
        return True

    def reset(self, exercise):
        """Restore the original exercise file, and keep the learner's copy under another name.

        Returns
        -------
        Path or None
            New path of the learner's copy. None if there was no copy, or it was unchanged.
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
    """Make a path relative to the working directory if that is shorter.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    str
    """
    try:
        relative = os.path.relpath(path)
    except ValueError:  # the path is on another drive
        return str(path)
    return relative if len(relative) < len(str(Path(path))) else str(path)
