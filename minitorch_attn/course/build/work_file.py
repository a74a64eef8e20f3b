"""The learner's file: create it, and append the stubs of a step without changing what is there."""

import ast
from pathlib import Path

from .steps import header

__all__ = ["WorkFile"]

_NAME = "my_gpt.py"


class WorkFile:
    """The file in which the learner writes.

    It is the first of these that applies: `path`; an existing `my_gpt.py` in the working directory;
    `last`; a new `my_gpt.py` in the working directory.

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

    def start(self, step):
        """Create the file if it does not exist, and append the stubs of a step that has none yet.

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
        except (SyntaxError, ValueError, MemoryError, RecursionError):  # not UTF-8, or too deep
            return False  # the check names the error; it comes first
        if names & set(step.names):
            return False
        gap = "\n" * (3 - len(text[len(text.rstrip("\n")) :]))
        with open(self.path, "a", encoding="utf-8", newline="\n") as file:
            file.write(gap + step.stub)
        return True
