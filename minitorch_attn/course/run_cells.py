"""Run the cells of a lesson one by one in one namespace, with the learner's functions in it."""

import contextlib
import io
import linecache
import os
import re
import traceback

import numpy as np

from ..backend import get_rng_state, set_rng_state
from ..errors import MiniTorchError
from ..tensor import Tensor
from .your_turn import CheckFailed

__all__ = ["LessonRun"]

_LONGEST = 4000  # characters of a value to show


class LessonRun:
    """Runs each cell of a lesson once, in order, in one namespace, and stores what it prints.

    Checks and expressions that the learner runs between two cells do not change the random numbers
    of the later cells.

    Parameters
    ----------
    lesson : Lesson
    fast : bool, optional
        Whether to use small sizes. Default: the value of MTA_FAST.

    Attributes
    ----------
    namespace : dict
    own : dict
        Values that the learner has assigned in lines typed between two cells, by name. Typed lines
        see such a value instead of the lesson's value, until a cell assigns the name again.
    outputs : list of str
        Text printed by each cell that has run.
    """

    def __init__(self, lesson, fast=None):
        self.lesson, self.outputs = lesson, []
        self.namespace, self.own = {"__name__": "__main__", "__file__": str(lesson.path)}, {}
        self._states = {}  # name of a function -> state of the random numbers before its check
        if fast is not None:
            os.environ["MTA_FAST"] = "1" if fast else "0"
        os.environ.setdefault("MPLBACKEND", "Agg")

    def run_next(self, shown=None):
        """Run the next cell. An error in the cell propagates, and the cell does not count as run.

        Parameters
        ----------
        shown : file, optional
            Stream that shows what the cell prints.

        Returns
        -------
        str
            What the cell printed.
        """
        cell = self.lesson.cells[len(self.outputs)]
        kept = io.StringIO()
        if cell.kind == "code":
            before = dict(self.namespace)
            with contextlib.redirect_stdout(_Both(kept, shown) if shown else kept):
                exec(self._compiled(cell), self.namespace)
            for name in _assigned(before, self.namespace):
                self.own.pop(name, None)
        self.outputs.append(kept.getvalue())
        return self.outputs[-1]

    def check_turn(self, turn, file=None):
        """Check the learner's function for a "Your turn" exercise.

        The turn's three cells (task, answer and check) then count as run, even if the check fails.

        Parameters
        ----------
        turn : Turn
        file : path, optional
            The learner's file. If it is omitted, the function counts as not written.

        Returns
        -------
        passed : bool
        text : str
            What `check` printed, or what is wrong. Empty if the function is not written yet.
        """
        first = turn.name not in self._states
        now = self._random_state()
        if first:
            self._states[turn.name] = now
        self._set_random_state(self._states[turn.name])
        passed, text = self._checked(turn, file)
        if first:
            self.outputs += ["", "", text]
        else:
            self._set_random_state(now)
            self.outputs[turn.at + 2] = text
        return passed, text

    def evaluate(self, text):
        """Evaluate an expression, or execute a statement, in the lesson's namespace.

        Names that `text` assigns are stored in the dict `own`, apart from the lesson's namespace,
        so later cells still see the lesson's values.

        Parameters
        ----------
        text : str

        Returns
        -------
        str
            Printed text, followed by the value or by an error in one line. The first time that
            `text` assigns a name of the lesson, a note says that the lesson keeps its own value.
        """
        printed, names = io.StringIO(), {**self.namespace, **self.own}
        before = dict(names)
        with contextlib.redirect_stdout(printed):
            try:
                value = self._value(text, names)
                shown = "" if value is None else _shown(value)
            except (Exception, SystemExit) as error:
                shown = _in_one_line(error)
        new = _assigned(before, names)
        hidden = [name for name in new if name in self.namespace and name not in self.own]
        self.own.update((name, names[name]) for name in new)
        note = f"only lines typed here see the new {', '.join(hidden)}; the lesson keeps its own\n"
        return printed.getvalue() + shown + (note if hidden else "")

    @contextlib.contextmanager
    def same_random_numbers(self):
        """Restore the random number generators at the end of the block."""
        state = self._random_state()
        try:
            yield
        finally:
            self._set_random_state(state)

    # Running

    def _compiled(self, cell):
        # Leading empty lines make tracebacks show the line numbers of the file.
        source = "\n" * (cell.line - 1) + cell.text
        return compile(source, str(self.lesson.path), "exec", dont_inherit=True)

    def _value(self, text, names):
        linecache.cache["<expression>"] = (len(text), None, [text], "<expression>")
        try:
            code = compile(text, "<expression>", "eval", dont_inherit=True)
        except SyntaxError:
            return exec(compile(text, "<expression>", "exec", dont_inherit=True), names)
        return eval(code, names)

    def _checked(self, turn, file):
        """Define the learner's function in the namespace, and run the turn's check cell."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                self.namespace[turn.name] = self._defined(turn, file)
                self.own.pop(turn.name, None)
                exec(self._compiled(self.lesson.cells[turn.at + 2]), self.namespace)
            except CheckFailed as error:
                return False, f"{printed.getvalue()}{error}\n" if error.is_written else ""
        return True, printed.getvalue()

    def _defined(self, turn, file):
        """Execute the learner's file in a copy of the namespace, and return the turn's function."""
        if file is None:
            source, place = "\n" * (turn.line - 1) + turn.unanswered, str(self.lesson.path)
        else:
            place = str(file)
            try:
                source = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise CheckFailed(f"{file.name} could not be read", ("error", str(error))) from None
        names = dict(self.namespace)
        names.pop(turn.name, None)
        try:
            exec(compile(source, place, "exec", dont_inherit=True), names)
        except SyntaxError as error:
            rows = (f"line {error.lineno}", (error.text or "").strip()), ("error", error.msg)
            raise CheckFailed(f"{turn.path} is not valid Python", *rows) from None
        except (Exception, SystemExit) as error:
            own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == place]
            rows = [(f"line {frame.lineno}", frame.line) for frame in own[-1:]]
            rows.append(("error", f"{type(error).__name__}: {error}"))
            raise CheckFailed(f"{turn.path} raises an error", *rows) from None
        if not callable(names.get(turn.name)):
            raise CheckFailed(f"{turn.path} does not define the function {turn.name}")
        return names[turn.name]

    # Random numbers

    def _random_state(self):
        """Return the states of the library's generator and of the lesson's NumPy generators."""
        own = {
            name: value.bit_generator.state
            for name, value in self.namespace.items()
            if isinstance(value, np.random.Generator)
        }
        return get_rng_state(), own

    def _set_random_state(self, state):
        shared, own = state
        set_rng_state(shared)
        for name, bits in own.items():
            if isinstance(self.namespace.get(name), np.random.Generator):
                self.namespace[name].bit_generator.state = bits


def _assigned(before, after):
    """Return the names that are new or refer to a different object than before."""
    missing = object()
    names = (name for name, value in after.items() if before.get(name, missing) is not value)
    return [name for name in names if name != "__builtins__"]


def _shown(value):
    """Format a value. For a tensor or array that is not a scalar, add a line with the shape."""
    text = repr(value)
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " ..."
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        text += f"\nshape {tuple(value.shape)}"
    return text + "\n"


def _in_one_line(error):
    parts = [str(error)]
    if isinstance(error, MiniTorchError):
        labels = (("got", error.got), ("expected", error.expected), ("try", error.hint))
        parts = [error.message, *(f"{label} {text}" for label, text in labels if text is not None)]
    elif isinstance(error, SyntaxError):
        parts = [error.msg]
    text = re.sub(r"\s+", " ", "; ".join(parts)).strip()
    return f"{type(error).__name__}: {text}\n" if text else f"{type(error).__name__}\n"


class _Both(io.TextIOBase):
    """Stream that writes to two other streams: one stores the text, the other shows it."""

    def __init__(self, kept, shown):
        self.kept, self.shown = kept, shown

    @property
    def encoding(self):
        return getattr(self.shown, "encoding", None)

    def write(self, text):
        self.kept.write(text)
        self.shown.write(text)
        self.shown.flush()
        return len(text)

    def flush(self):
        self.shown.flush()
