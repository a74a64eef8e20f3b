"""`mta lesson step`: step through a lesson cell by cell in the terminal."""

import contextlib
import io
import os
import sys
import time
import traceback

import click

from ..course.math_text import markdown_for_terminal
from . import DONE, FAILED
from .keys import read_key

__all__ = ["LEFT", "Stepper"]

LEFT = 3  # the user quit before the end
_WIDTH = 96
_KEYS = {
    **dict.fromkeys(["\r", "\n", " ", "n", "\x1b[C"], "next"),
    **dict.fromkeys(["b", "\x1b[D"], "back"),
    **dict.fromkeys(["q", "\x04"], "quit"),
}
_HELP = (
    "Enter, space or right arrow: next cell   b or left arrow: previous cell\n"
    "a number, then Enter: that cell          q: quit and save your place"
)


class Stepper:
    """Shows the cells of a lesson and runs each one once, in order, in one namespace.

    Going back shows a cell with its stored output. In a terminal the stepper waits for a key after
    each cell; otherwise it does not wait.

    Parameters
    ----------
    lesson : Lesson
    progress : Progress
    out : rich.console.Console
    fast : bool, optional
        Whether to use small sizes. Defaults to the value of MTA_FAST.
    """

    def __init__(self, lesson, progress, out, fast=None):
        self.lesson, self.progress, self.out = lesson, progress, out
        self.cells = lesson.cells
        self.waits = out.is_terminal and sys.stdin.isatty()
        self.outputs = []  # text printed by each cell that has run
        self.namespace = {"__name__": "__main__", "__file__": str(lesson.path)}
        if fast is not None:
            os.environ["MTA_FAST"] = "1" if fast else "0"
        os.environ.setdefault("MPLBACKEND", "Agg")

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
        number, last = self.lesson.number, len(self.cells) - 1
        left_at = self.progress.cell(number) if self.waits else 0
        at = min(left_at if start is None else start, last)
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
            at = self._ask(at)
            if at is None:
                return self._leave()
            if at > last:
                return DONE

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
        pending = range(len(self.outputs), at)
        if not pending:
            return True
        started = time.perf_counter()
        for index in pending:
            if not self._execute(index, quiet=True):
                return False
        seconds = time.perf_counter() - started
        which = f"cell {at} has" if len(pending) == 1 else f"cells {pending[0] + 1} to {at} have"
        self.out.print(f"{which} run ({seconds:.1f} s)", style="dim")
        return True

    def _present(self, at):
        """Show a cell, then run it or show its stored output. Return whether it succeeded."""
        cell = self.cells[at]
        self._rule(at)
        if cell.kind == "markdown":
            self._show_markdown(cell)
        else:
            self._show_code(cell)
        if at < len(self.outputs):
            self._write(self.outputs[at])
            return True
        return self._execute(at)

    def _rule(self, at):
        width = min(self.out.width, _WIDTH)
        label = f" {at + 1}/{len(self.cells)} "
        line = "\u2500" if self._can_show("\u2500") else "-"
        self.out.print(f"\n{line * (width - len(label))}{label}", style="dim")

    def _show_markdown(self, cell):
        from .markdown import STYLES, LessonMarkdown

        text = cell.text
        if self._can_show("\u221a\u1d40"):
            text = markdown_for_terminal(text)
        with self.out.use_theme(STYLES):
            width = min(self.out.width, _WIDTH)
            self.out.print(LessonMarkdown(text), width=width, soft_wrap=False)

    def _show_code(self, cell):
        from .markdown import code_block

        self.out.print(code_block(cell.text, cell.line), soft_wrap=False)
        self.out.print()

    def _can_show(self, text):
        try:
            text.encode(self.out.encoding or "ascii")
        except (LookupError, UnicodeEncodeError):
            return False
        return True

    def _write(self, text):
        self.out.file.write(text)
        self.out.file.flush()

    # Running

    def _execute(self, index, quiet=False):
        """Run a cell once and store its output. Return whether it succeeded."""
        cell = self.cells[index]
        kept = io.StringIO()
        if cell.kind == "markdown":
            self.outputs.append("")
            return True
        # Leading empty lines make tracebacks show the line numbers of the file.
        source = "\n" * (cell.line - 1) + cell.text
        stream = kept if quiet else _Both(kept, self.out.file)
        try:
            with contextlib.redirect_stdout(stream):
                code = compile(source, str(self.lesson.path), "exec", dont_inherit=True)
                exec(code, self.namespace)
        except Exception as error:
            if quiet:
                self._write(kept.getvalue())
            self._explain(error)
            return False
        self.outputs.append(kept.getvalue())
        return True

    def _explain(self, error):
        """Print the traceback without the frames of the stepper."""
        own = error.__traceback__.tb_next
        lines = traceback.format_exception(type(error), error, own)
        click.echo("".join(lines), err=True)

    # Asking

    def _ask(self, at):
        """Ask for a key. Return the index of the cell to show next, or None to quit."""
        digits = ""
        while True:
            self._prompt(at, digits)
            try:
                key = read_key()
            except (EOFError, KeyboardInterrupt):
                key = "q"
            self._erase()
            if key.isdecimal():
                digits += key
            elif key in ("\x7f", "\b"):
                digits = digits[:-1]
            elif digits and key in "\r\n":
                wanted = int(digits)
                if 1 <= wanted <= len(self.cells):
                    return wanted - 1
                self.out.print(f"choose a cell from 1 to {len(self.cells)}", style="dim")
                digits = ""
            else:
                meant = _KEYS.get(key)
                if meant == "next":
                    return at + 1
                if meant == "back":
                    return max(at - 1, 0)
                if meant == "quit":
                    return None
                self.out.print(_HELP, style="dim")

    def _prompt(self, at, digits):
        enter = f"to cell {digits}" if digits else "end" if at + 1 == len(self.cells) else "next"
        self._write(f"[Enter: {enter}   b: back   number: jump   q: quit] ")

    def _erase(self):
        self._write("\r\x1b[2K")

    def _leave(self):
        place = self.progress.cell(self.lesson.number)
        if place:
            self.out.print(f"stopped at cell {place + 1} of {len(self.cells)}")
        return LEFT


class _Both(io.TextIOBase):
    """Stream that writes to two other streams: one stores the text, the other shows it."""

    def __init__(self, kept, shown):
        self.kept, self.shown = kept, shown

    def write(self, text):
        self.kept.write(text)
        self.shown.write(text)
        self.shown.flush()
        return len(text)

    def flush(self):
        self.shown.flush()
