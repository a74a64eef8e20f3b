"""Progress through the lessons, stored in a small JSON file in the state folder."""

import json
import os
import sys
import time
from pathlib import Path

from ..errors import CheckpointError, DataError
from ..files import atomic_file
from ..schema import parse_json

__all__ = ["Progress", "state_folder"]

_VERSION = 1


def state_folder():
    """Return the folder where commands store their state. The variable MTA_STATE overrides it.

    Returns
    -------
    Path
    """
    if os.environ.get("MTA_STATE"):
        return Path(os.environ["MTA_STATE"])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "minitorch_attn"


class Progress:
    """Record of the finished lessons, and of where the user stopped in each unfinished lesson.

    A damaged file is renamed and never overwritten. If the file cannot be written, commands still
    work, but progress is lost.

    Parameters
    ----------
    path : str or path, optional
        Progress file. Defaults to `progress.json` in `state_folder()`.

    Attributes
    ----------
    path : Path
    note : str or None
        Message for the user about a problem with the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = Progress(Path(folder) / "progress.json")
    ...     progress.leave("09", cell=3, cells=12)
    ...     progress.finish("08")
    ...     again = Progress(progress.path)
    >>> again.cell("09"), again.is_done("09"), again.is_done("08"), again.latest()
    (3, False, True, '08')
    """

    def __init__(self, path=None):
        self.path = Path(path) if path else state_folder() / "progress.json"
        self.note = None
        self.fields = self._read()

    # Reading

    def entry(self, number):
        """Return "cell", "cells", "done" and "when" of a lesson, or {} if it was not started."""
        found = self.fields["lessons"].get(number)
        return found if isinstance(found, dict) else {}

    def is_done(self, number):
        """Return whether the lesson was run to its end."""
        return bool(self.entry(number).get("done"))

    def cell(self, number):
        """Return the index of the cell where the user stopped, or 0 for an unstarted lesson."""
        cell = self.entry(number).get("cell", 0)
        return cell if isinstance(cell, int) and cell > 0 else 0

    def when(self, number):
        """Return when a lesson's entry last changed, in seconds since 1970, or 0 if it has none."""
        when = self.entry(number).get("when", 0)
        return when if isinstance(when, (int, float)) else 0

    def latest(self):
        """Return the number of the lesson used last, or None if no lesson was started."""
        return max(self.fields["lessons"], key=self.when, default=None)

    def solved(self, number):
        """Return the names of the functions that the learner wrote in a lesson, as a set."""
        names = self.entry(number).get("turns")
        return {n for n in names if isinstance(n, str)} if isinstance(names, list) else set()

    def guess(self, number, which):
        """Return what the learner guessed in a predict cell of a lesson, or ""."""
        guesses = self.entry(number).get("guesses")
        text = guesses.get(str(which)) if isinstance(guesses, dict) else None
        return text if isinstance(text, str) else ""

    # Writing

    def leave(self, number, cell, cells):
        """Store the cell where the user stopped in a lesson.

        Parameters
        ----------
        number : str
            Number of the lesson, such as "09".
        cell, cells : int
            Index of the cell, and the number of cells in the lesson.
        """
        self._change(number, {"cell": cell, "cells": cells})

    def finish(self, number):
        """Record that a lesson was run to its end."""
        self._change(number, {"cell": 0, "done": True})

    def solve_turn(self, number, name):
        """Record that the learner's function of this name passed its check."""
        self._change(number, {"turns": sorted(self.solved(number) | {name})})

    def keep_guess(self, number, which, text):
        """Store what the learner guessed in a predict cell.

        Parameters
        ----------
        number : str
            Number of the lesson, such as "09".
        which : int
            Number of the predict cell within the lesson, counted from 1.
        text : str
        """
        guesses = self.entry(number).get("guesses")
        guesses = guesses if isinstance(guesses, dict) else {}
        self._change(number, {"guesses": {**guesses, str(which): text}})

    def _change(self, key, fields, table="lessons"):
        self.fields = self._read()  # another process may have changed the file since it was read
        entries = self.fields.get(table)
        entries = self.fields[table] = entries if isinstance(entries, dict) else {}
        before = entries.get(key)
        before = before if isinstance(before, dict) else {}
        entries[key] = {**before, **fields, "when": time.time()}
        text = json.dumps(self.fields, indent=1) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self.path) as file:
                file.write(text.encode())
        except (OSError, CheckpointError) as error:
            reason = getattr(error, "got", None) or error.strerror
            self.note = f"progress could not be saved: {self.path}: {reason}"

    # The file

    def _read(self):
        empty = {"version": _VERSION, "lessons": {}}
        try:
            text = self.path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return getattr(self, "fields", empty)
        except (OSError, UnicodeDecodeError) as error:
            return self._put_aside(str(error), empty)
        try:
            fields = parse_json(text, self.path)
        except DataError as error:
            return self._put_aside(error.got, empty)
        if not isinstance(fields, dict) or not isinstance(fields.get("lessons"), dict):
            return self._put_aside("the table of lessons is missing", empty)
        return fields

    def _put_aside(self, reason, empty):
        """Rename a damaged file, so that its content is not lost."""
        number = 1
        while (aside := self.path.with_name(f"progress.damaged-{number}.json")).exists():
            number += 1
        try:
            self.path.rename(aside)
            self.note = f"{self.path} is damaged ({reason}) and was renamed to {aside.name}"
        except OSError as error:
            self.note = f"{self.path} could not be read: {error.strerror}"
        return empty
