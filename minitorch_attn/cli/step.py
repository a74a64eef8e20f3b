"""`mta lesson step`: a lesson cell by cell in the terminal."""

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

LEFT = 3  # the user has left before the end
_WIDTH = 96
_KEYS = {
    **dict.fromkeys(["\r", "\n", " ", "n", "\x1b[C"], "next"),
    **dict.fromkeys(["b", "\x1b[D"], "back"),
    **dict.fromkeys(["q", "\x04"], "quit"),
}
_HELP = (
    "Enter, space or the right arrow: next cell   b or the left arrow: the one before\n"
    "a number, then Enter: that cell              q: quit and remember the place"
)


class Stepper:
    """Shows cells and runs each one once, in order, in one namespace.

    Going back shows a cell with what it printed when it ran. On a terminal it waits for a key
    after each cell; elsewhere it does not wait.

    Parameters
    ----------
    lesson : Lesson
    progress : Progress
    out : rich.console.Console
    fast : bool, optional
        Sizes for a check; by default as MTA_FAST says.
    """

    def __init__(self, lesson, progress, out, fast=None):
        self.lesson, self.progress, self.out = lesson, progress, out
        self.cells = lesson.cells
        self.waits = out.is_terminal and sys.stdin.isatty()
        self.outputs = []  # of the cells that have run
        self.namespace = {"__name__": "__main__", "__file__": str(lesson.path)}
        if fast is not None:
            os.environ["MTA_FAST"] = "1" if fast else "0"
        os.environ.setdefault("MPLBACKEND", "Agg")

    def run(self, start=None):
        """Go through the lesson.

        Parameters
        ----------
        start : int, optional
            The index of the first cell to show. By default where the lesson was left.

        Returns
        -------
        int
            DONE at the end, LEFT before it, FAILED if a cell raised.
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
            self.out.print(f"You left at cell {at + 1}; 1, then Enter, begins anew.", style="dim")

    def _catch_up(self, at):
        """Run the cells before `at` that have not run; what they print is kept, not shown."""
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
        """Show a cell, and run it or show what it printed. Returns whether it ran well."""
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
        """Run a cell once; what it prints is kept. Returns whether it raised nothing."""
        cell = self.cells[index]
        kept = io.StringIO()
        if cell.kind == "markdown":
            self.outputs.append("")
            return True
        # Empty lines before it, so that a traceback names the lines of the file.
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
        """The traceback without the frames of the stepper."""
        own = error.__traceback__.tb_next
        lines = traceback.format_exception(type(error), error, own)
        click.echo("".join(lines), err=True)

    # Asking

    def _ask(self, at):
        """The index to go to: one past the last at the end, None to leave."""
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
                self.out.print(f"there are cells 1 to {len(self.cells)}", style="dim")
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
            self.out.print(f"left at cell {place + 1} of {len(self.cells)}")
        return LEFT


class _Both(io.TextIOBase):
    """A stream that keeps what it passes on."""

    def __init__(self, kept, shown):
        self.kept, self.shown = kept, shown

    def write(self, text):
        self.kept.write(text)
        self.shown.write(text)
        self.shown.flush()
        return len(text)

    def flush(self):
        self.shown.flush()
