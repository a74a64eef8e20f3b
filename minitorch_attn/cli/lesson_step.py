"""`mta lesson step`: step through a lesson cell by cell in the terminal."""

import io
import sys
import threading
import time
import traceback

import click

from ..course.math_text import markdown_for_terminal
from ..course.run_cells import LessonRun
from ..course.turns import is_predict
from . import DONE, FAILED
from .keys import read_key
from .lesson_line import expressions
from .lesson_turn import TurnDesk

__all__ = ["LEFT", "Stepper"]

LEFT = 3  # the user quit before the end
_WIDTH = 96
_POLL_SECONDS = 0.3
_SLOW_SECONDS = 2.0  # after this time, a message says that the cell is running
_KEYS = {
    **dict.fromkeys(["\r", "\n", " ", "n", "\x1b[C"], "next"),
    **dict.fromkeys(["b", "\x1b[D"], "back"),
    **dict.fromkeys(["q", "\x04"], "quit"),
    **dict.fromkeys(["=", ":"], "expression"),
    "e": "edit",
    "h": "hint",
    "a": "answer",
}
_HELP = """\
Enter, space or right arrow: next cell   b or left arrow: previous cell
a number, then Enter: that cell          q: quit and save your place
= or : starts a line of Python. It shows the value of an expression, with all names of the lesson;
  Tab completes names, and an empty line ends it."""
_TURN_HELP = """
Your turn: e opens your file in $EDITOR, and it is checked when you save it
           h: hint   a: answer   Enter: go on without it (your file is kept)"""


class Stepper:
    """Shows the cells of a lesson and runs each one once, in order, in one namespace.

    Going back shows a cell with its stored output. In a terminal the stepper waits for a key after
    each cell, asks for guesses, and lets the learner write the functions of the lesson. The
    three cells of such a function (task, code and check) are shown together. Without a terminal,
    the stepper does not wait, and runs the answers.

    Parameters
    ----------
    lesson : Lesson
    progress : ExerciseProgress
    out : rich.console.Console
    fast : bool, optional
        Whether to use small sizes. Defaults to the value of MTA_FAST.
    """

    def __init__(self, lesson, progress, out, fast=None):
        self.lesson, self.progress, self.out = lesson, progress, out
        self.cells = lesson.cells
        self.waits = out.is_terminal and sys.stdin.isatty()
        self.lesson_run = LessonRun(lesson, fast)
        self.desk = TurnDesk(self.lesson_run, progress, out)
        self.turns = self.desk.turns if self.waits else {}
        self.predicts = [i for i, cell in enumerate(self.cells) if is_predict(cell)]

    def run(self, start=None):
        """Step through the lesson.

        Parameters
        ----------
        start : int, optional
            Index of the first cell to show. Defaults to the cell where the user stopped.

        Returns
        -------
        int
            DONE at the end, LEFT if the user quit, FAILED if a cell raised an error.
        """
        try:
            return self._step_through(start)
        except KeyboardInterrupt:  # Ctrl-C anywhere quits as q does
            if not self.waits:
                raise
            self.out.print()
            return self._leave()

    def _step_through(self, start):
        """Show one cell after another until the end, or until the user quits."""
        number, last = self.lesson.number, len(self.cells) - 1
        left_at = self.progress.cell(number) if self.waits else 0
        at = self._first(min(left_at if start is None else start, last))
        self._introduce(at, start is None and at > 0)
        while True:
            if not self._catch_up(at) or not self._present(at):
                return FAILED
            if at == last:
                self.progress.finish(number)
            if not self.waits:
                if at == last:
                    return DONE
                at += 1
                continue
            if at < last:
                self.progress.leave(number, at, len(self.cells))
            at = self._ask_guess(at) if at in self.predicts else self._ask(at)
            if at is None:
                return self._leave()
            if at > last:
                return DONE

    def _first(self, at):
        """Return the index of the first of the cells that are shown together with the cell `at`."""
        return next((first for first in (at - 1, at - 2) if first in self.turns), at)

    def _after(self, at):
        return at + (3 if at in self.turns else 1)

    # Showing

    def _introduce(self, at, resumed):
        if not self.waits:
            return
        self.out.print(f"lesson {self.lesson.number}: {self.lesson.path}", style="dim")
        if resumed:
            text = f"You stopped at cell {at + 1}; press 1, then Enter, to start over."
            self.out.print(text, style="dim")

    def _catch_up(self, at):
        """Run all earlier cells that have not run yet. Store their output without showing it."""
        done = self.lesson_run.outputs
        pending = range(len(done), at)
        if not pending:
            return True
        started = time.perf_counter()
        if self.waits and len(pending) > 1:
            self.out.print(f"running cells {pending[0] + 1} to {at} ...", style="dim")
        while len(done) < at:
            if len(done) in self.turns:
                self.desk.check(self.turns[len(done)])
            elif not self._execute(quiet=True):
                return False
        seconds = time.perf_counter() - started
        which = f"cell {at} has" if len(pending) == 1 else f"cells {pending[0] + 1} to {at} have"
        self.out.print(f"{which} run ({seconds:.1f} s)", style="dim")
        return True

    def _present(self, at):
        """Show a cell, then run it or show its stored output. Return whether it succeeded."""
        cell = self.cells[at]
        self._rule(at)
        if at in self.turns:
            self._present_turn(self.turns[at])
            return True
        if cell.kind == "markdown":
            self._show_markdown(cell.text)
        else:
            self._show_code(cell.text, cell.line)
        if at < len(self.lesson_run.outputs):
            self._write(self.lesson_run.outputs[at])
        elif not self._execute():
            return False
        if self.waits and self._guess(at - 1):
            self.out.print(f"\nyour guess: {self._guess(at - 1)}", style="bold")
        return True

    def _present_turn(self, turn):
        """Show the task, the learner's function and the check, and the result of the check."""
        self._show_markdown(f"## Your turn: {turn.title}\n\n{turn.task}")
        self.out.print()
        self._show_code(*self.desk.code(turn))
        check = self.cells[turn.at + 2]
        self._show_code(check.text, check.line)
        self._check_turn(turn)

    def _check_turn(self, turn):
        self.desk.watch(turn)  # before the check, so that a later save is noticed
        passed, text = self.desk.check(turn)
        self.out.print(text.rstrip("\n"), style="green" if passed else "")

    def _rule(self, at):
        width = min(self.out.width, _WIDTH)
        last = self._after(at)
        shown = f"{at + 1}" if last == at + 1 else f"{at + 1}-{last}"
        label = f" {shown}/{len(self.cells)} "
        line = "\u2500" if self._can_show("\u2500") else "-"
        self.out.print(f"\n{line * (width - len(label))}{label}", style="dim")

    def _show_markdown(self, text):
        from .markdown import STYLES, LessonMarkdown

        if self._can_show("\u221a\u1d40"):
            text = markdown_for_terminal(text)
        with self.out.use_theme(STYLES):
            width = min(self.out.width, _WIDTH)
            self.out.print(LessonMarkdown(text), width=width, soft_wrap=False)

    def _show_code(self, code, line):
        from .markdown import code_block

        self.out.print(code_block(code, line), soft_wrap=False)
        self.out.print()

    def _can_show(self, text):
        try:
            text.encode(self.out.encoding or "ascii")
        except (LookupError, UnicodeEncodeError):
            return False
        return True

    def _write(self, text):
        encoding = self.out.encoding or "ascii"
        self.out.file.write(text.encode(encoding, "replace").decode(encoding))
        self.out.file.flush()

    # Running

    def _execute(self, quiet=False):
        """Run the next cell. Return whether it succeeded."""
        shown = io.StringIO() if quiet else self.out.file
        slow = threading.Timer(_SLOW_SECONDS, self._write, ["running ...\n"])
        if self.waits:
            slow.start()
        try:
            self.lesson_run.run_next(shown)
        except Exception as error:
            if quiet:
                self._write(shown.getvalue())
            self._explain(error)
            return False
        finally:
            slow.cancel()
        return True

    def _explain(self, error):
        """Print the traceback without the frames that run the cell."""
        own = error.__traceback__.tb_next.tb_next
        lines = traceback.format_exception(type(error), error, own)
        click.echo("".join(lines), err=True)

    # Asking

    def _guess(self, at):
        """Return the learner's guess for a cell, or "" if there is none."""
        if at not in self.predicts:
            return ""
        return self.progress.guess(self.lesson.number, self.predicts.index(at) + 1)

    def _ask_guess(self, at):
        """Ask for the learner's guess. Return the index of the next cell, or None to quit."""
        before = self._guess(at)
        if before:
            self.out.print(f"you guessed: {before}", style="dim")
        try:
            text = input("your guess, or Enter (b: back, q: quit): ").strip()
        except EOFError:
            text = "q"
        if text == "q":
            return None
        if text == "b":
            return self._first(max(at - 1, 0))
        if text:
            self.progress.keep_guess(self.lesson.number, self.predicts.index(at) + 1, text)
        return at + 1

    def _ask(self, at):
        """Wait for keys and act on them. Return the index of the next cell, or None to quit."""
        digits = ""
        while True:
            self._prompt(at, digits)
            key = self._key(at)
            self._erase()
            if key == "saved":
                self._check_turn(self.turns[at])
            elif key.isdecimal():
                digits += key
            elif key in ("\x7f", "\b"):
                digits = digits[:-1]
            elif digits and key in "\r\n":
                wanted = int(digits)
                if 1 <= wanted <= len(self.cells):
                    return self._first(wanted - 1)
                self.out.print(f"choose a cell from 1 to {len(self.cells)}", style="dim")
                digits = ""
            else:
                meant = _KEYS.get(key)
                if meant == "next":
                    return self._after(at)
                if meant == "back":
                    return self._first(max(at - 1, 0))
                if meant == "quit":
                    return None
                self._do(meant, at)

    def _key(self, at):
        """Wait for a key, or for the learner's file to be saved."""
        try:
            while at in self.turns:
                key = read_key(_POLL_SECONDS)
                if key:
                    return key
                if self.desk.is_saved():
                    return "saved"
            return read_key()
        except EOFError:
            return "q"

    def _do(self, meant, at):
        """Perform the action of a key that does not lead to another cell."""
        turn = self.turns.get(at)
        if meant == "expression":
            expressions(self.lesson_run, self._write)
        elif turn is None or meant is None:
            self.out.print(_HELP + (_TURN_HELP if turn else ""), style="dim")
        elif meant == "edit":
            self.desk.edit(turn)
            if self.desk.is_saved():
                self._check_turn(turn)
        elif meant == "hint":
            self._show_markdown(f"*Hint:* {turn.hint}")
        elif self.desk.wants_answer():
            self._show_code(turn.answer, turn.line)

    def _prompt(self, at, digits):
        if at in self.turns:
            keys = "e: write   h: hint   a: answer   "
        else:
            keys = "b: back   number: jump   "
        enter = f"to cell {digits}" if digits else "end" if at + 1 == len(self.cells) else "next"
        self._write(f"[Enter: {enter}   {keys}=: expression   q: quit] ")

    def _erase(self):
        self._write("\r\x1b[2K")

    def _leave(self):
        place = self.progress.cell(self.lesson.number)
        if place:
            self.out.print(f"stopped at cell {place + 1} of {len(self.cells)}")
        return LEFT
