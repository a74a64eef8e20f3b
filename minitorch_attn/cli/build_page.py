"""Terminal output of `mta build`: a step, the result of its check, a hint, the list of steps."""

import textwrap

from ..course.exercises.work import near
from .console import command, table
from .exercise_page import wrapped

__all__ = ["listing", "show_hint", "show_intro", "show_outcome", "show_result"]


def show_intro(out, step, file, count):
    """Print a step's title and text, the functions to write and the related lessons."""
    out.print(f"step {step.number} of {count}: {step.title}", style="bold", end="")
    out.print(f"   about {step.minutes} minutes", style="dim")
    out.print(f"{near(file)}\n")
    out.print(textwrap.indent(wrapped(step.text, out, 2), "  "))
    names = ", ".join(item.name for item in step.functions)
    out.print("\n" + textwrap.indent(wrapped(f"To write: {names}.", out, 2), "  "))
    if step.lessons:
        words = f"Explained in {_lessons(step)}: {command('lesson', 'step', step.lessons[0])}"
        out.print(textwrap.indent(wrapped(words, out, 2), "  "), style="dim")


def show_outcome(out, step, outcome, hinted):
    """Print which functions are correct, what is wrong with the others, and which is next."""
    if outcome.output.strip():
        out.print("your file printed:", style="dim")
        out.print(textwrap.indent(outcome.output.rstrip(), "  ") + "\n")
    for part in outcome.parts:
        out.print(
            "  ok     " if part.passed else "  WRONG  ",
            style="green" if part.passed else "bold red", end="",
        )  # fmt: skip
        out.print(part.name)
        if not part.passed:
            out.print(textwrap.indent(wrapped(part.text, out, 9), " " * 9))
    name = outcome.wrong.name if outcome.wrong else next(iter(outcome.missing), None)
    function = next((item for item in step.functions if item.name == name), None)
    if function is not None:
        gap = "\n" if outcome.parts else ""
        word = "fix" if outcome.wrong else "next"
        out.print(f"{gap}{word}: {function.name}\n", style="bold")
        out.print(_fitting(function.stub, out))
        if hinted:
            out.print()
            show_hint(out, function)


def _lessons(step):
    plural = "s" if len(step.lessons) > 1 else ""
    return f"lesson{plural} {', '.join(step.lessons)}" if step.lessons else ""


def _fitting(stub, out):
    """Indent a stub, and wrap the lines that are too long for the terminal."""
    width, lines, indent, rest = max(out.width, 60), [], "", ""
    for line in stub.splitlines():
        if rest and line.strip() in ("", '"""'):
            lines.append(indent + rest)
            rest = ""
        text = f"{rest} {line.lstrip()}".strip()
        indent = " " * (4 + len(line) - len(line.lstrip()))
        *whole, last = textwrap.wrap(
            text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        ) or [""]  # fmt: skip
        lines += whole or [last]
        rest = last.strip() if whole else ""
    return "\n".join([*lines, indent + rest] if rest else lines)


def show_hint(out, function):
    """Print the hint for a function."""
    out.print(wrapped(f"hint for {function.name}: {function.hint}", out))


def show_result(out, step, shown):
    """Print that a step is done, and what the model can do now."""
    out.print(f"\nstep {step.number} is done. {step.next}\n", style="bold green")
    out.print(textwrap.indent(shown.rstrip(), "  "))


def listing(known, progress):
    """Format the list of steps, with the minutes that each takes and whether it is done."""
    current = progress.current(known)
    rows = []
    for step in known:
        state = "done" if progress.has_passed(step) else "you are here" if step is current else ""
        lines = sum(item.lines for item in step.functions)
        rows.append((
            str(step.number), step.title, f"{lines} lines", f"{step.minutes} min",
            _lessons(step), state,
        ))  # fmt: skip
    return table(rows)
