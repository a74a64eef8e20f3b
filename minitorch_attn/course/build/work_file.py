"""The learner's file: create it, append the stubs of a step, and update functions from cells."""

import ast
import hashlib
import time
from pathlib import Path

from ...files import atomic_file
from .cell_source import function_text, with_function
from .steps import functions_of, header, unwritten

__all__ = ["WorkFile", "digest"]

_NAME = "my_gpt.py"


def digest(text):
    """Return a short hash of a text, to recognize the text later."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class WorkFile:
    """The file that the learner edits.

    This is `path` if it is given. Otherwise, it is the first of these files that exists:
    `my_gpt.py` in the working directory, or `last`, the file that was used last. If neither exists,
    it is a new `my_gpt.py` in the working directory.

    Parameters
    ----------
    path : str or path, optional
        File chosen by the user.
    last : Path, optional
        File that was used last.
    """

    def __init__(self, path=None, last=None):
        here = Path.cwd() / _NAME
        if path:
            self.path = Path(path).absolute()
        elif not here.is_file() and last is not None and last.is_file():
            self.path = last
        else:
            self.path = here
        self._copied = ""  # text of the copies that `put` has made

    def start(self, step):
        """Append a step's stubs unless one of them is in the file. Create the file if necessary.

        Parameters
        ----------
        step : Step

        Returns
        -------
        bool
            Whether something was written.
        """
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "x", encoding="utf-8", newline="\n") as file:
                file.write(f"{header()}\n{step.stub}")
            return True
        try:
            text = self.path.read_text("utf-8")
            names = {getattr(node, "name", None) for node in ast.parse(text).body}
        except (SyntaxError, ValueError, MemoryError, RecursionError):  # not UTF-8, or too nested
            return False  # the check reports this error first
        if names & set(step.names):
            return False
        gap = "\n" * (3 - len(text[len(text.rstrip("\n")) :]))
        with open(self.path, "a", encoding="utf-8", newline="\n") as file:
            file.write(gap + step.stub)
        return True

    def put(self, sources, expected):
        """Copy each function from a notebook cell to the file if the two texts differ.

        A stub in a cell never replaces a written function. If the function to be replaced was
        written or edited in the file itself, and does not come from a cell, a backup of the whole
        file is made first.

        Parameters
        ----------
        sources : dict of str to CellSource
            Functions by name.
        expected : dict of str to str
            By function name, the digest (see `digest`) of the text that was last copied from a cell
            to the file.

        Returns
        -------
        Path or None
            Path of the backup copy of the previous file, or None if no backup was necessary.
        """
        before = text = self.path.read_text("utf-8")
        edited = False
        for name, source in sources.items():
            old = function_text(text, name)
            if old == source.text or not source.is_written:
                continue
            is_written = bool(old) and name not in unwritten(text)
            if is_written and expected.get(name) != digest(old):
                edited |= old not in self._copied
            text = with_function(text, name, source)
        if text == before:
            return None
        kept = self._copy(before) if edited else None
        with atomic_file(self.path) as file:
            file.write(text.encode())
        return kept

    def _copy(self, text):
        """Write `text`, the content of the file, to a new backup file, and return its path."""
        stamp, number = time.strftime("%Y%m%d-%H%M%S"), 0
        while True:
            number += 1
            more = f"-{number}" if number > 1 else ""
            path = self.path.with_suffix(f".{stamp}{more}.bak")
            try:
                with open(path, "x", encoding="utf-8", newline="\n") as file:
                    file.write(text)
            except FileExistsError:
                continue
            self._copied += "\n".join(function_text(text, name) for name in functions_of(text))
            return path
