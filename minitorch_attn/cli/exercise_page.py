"""Terminal output of `mta exercise`: tasks, check results, hints, explanations and the list."""

import textwrap

from ..course.exercises.work import near
from .console import command, table

__all__ = [
    "hint_count", "listing", "say_where", "show_explanation", "show_hints", "show_outcome",
    "show_solution", "show_task",
]  # fmt: skip

_WIDTH = 96
_GROUPS = {
    "bug": "find the mistake in the gradient",
    "property": "the gradient check passes, but the model is still wrong",
    "write": "write the backward pass yourself",
    "derive": "derive the backward pass yourself, and write it",
}
_IMPLIED = ("gradients match the library's", "large inputs")


def show_task(out, exercise, file, count):
    """Print the title, the file and the task."""
    out.print(f"exercise {exercise.number} of {count}: {exercise.title}", style="bold")
    out.print(f"{near(file)}\n")
    out.print(textwrap.indent(wrapped(exercise.task, out, 2), "  "))


def show_outcome(out, exercise, outcome):
    """Print what the learner's file printed, the gradcheck report and the result of each check."""
    if outcome.output.strip():
        out.print("your file printed:", style="dim")
        out.print(textwrap.indent(outcome.output.rstrip(), "  ") + "\n")
    parts = _parts(exercise, outcome)
    if outcome.report and (not outcome.report_ok or exercise.kind == "property"):
        out.print(outcome.report if not outcome.report_ok else outcome.report.splitlines()[0])
        out.print()
    before = None
    for part in parts:
        style = "green" if part.passed else "bold red"
        out.print("  ok     " if part.passed else "  WRONG  ", style=style, end="")
        out.print(part.name)
        if part.text and not part.passed and part.name != "gradcheck":
            same = _place(part.text) is not None and _place(part.text) == _place(before)
            text = "the same error" if same else wrapped(part.text, out, 9)
            out.print(textwrap.indent(text, " " * 9))
            before = part.text
    wrong = sum(not part.passed for part in parts)
    if outcome.passed:
        out.print(f"\nexercise {exercise.number} is solved.", style="bold green")
    elif len(parts) == 1:
        out.print("\nnot yet")
    else:
        out.print(f"\nnot yet: {wrong} of {len(parts)} parts {'is' if wrong == 1 else 'are'} wrong")


def _place(text):
    """If a text reports an error, return its first two lines (location and error), else None."""
    lines = (text or "").splitlines()
    return lines[:2] if len(lines) > 1 and lines[0].startswith("line ") else None


def _parts(exercise, outcome):
    """Return the parts of the outcome to show, without failures that another failure implies."""
    wrong = {part.name for part in outcome.parts if not part.passed}
    if not wrong - set(_IMPLIED):
        return outcome.parts
    return [part for part in outcome.parts if part.passed or part.name not in _IMPLIED]


def show_hints(out, exercise, count, causes=""):
    """Print the first `count` hints. The last hint is the gradient check's guess at the cause."""
    total = hint_count(exercise, causes)
    for number, hint in enumerate(exercise.hints[:count], 1):
        out.print(wrapped(f"hint {number} of {total}: {hint}", out))
    if causes and count >= total:
        out.print(f"hint {total} of {total}: the gradient check guesses at the cause:\n{causes}")


def hint_count(exercise, causes):
    """Return the number of hints. The gradient check's guess at the cause counts as one more."""
    return len(exercise.hints) + bool(causes)


def show_explanation(out, exercise):
    """Print what was wrong, why it is easy to miss, and where it has occurred in real code."""
    out.print(wrapped(" ".join(exercise.explanation.split()), out))
    if exercise.seen:
        out.print("\nThis mistake, or a similar one, was found in:")
        for place, what in exercise.seen:
            out.print(f"  {place}")
            out.print(textwrap.indent(wrapped(what, out, 4), "    "))
    if exercise.lesson:
        out.print(f"\nlearn more: {command('lesson', 'step', exercise.lesson)}")


def show_solution(out, exercise):
    """Print the lines of the exercise that must change, and the solution's lines."""
    before = exercise.text[: exercise.text.index(exercise.old)]
    out.print(f"{exercise.path.name}, line {before.count(chr(10)) + 1}:\n")
    for sign, style, text in (("-", "red", exercise.old), ("+", "green", exercise.new)):
        for line in text.rstrip().splitlines():
            out.print(f"{sign} {line}", style=style)
    out.print()


def listing(known, progress, work):
    """Format the list of exercises, with a heading for each group."""
    rows = [(item.number, item.title, state_of(item, progress, work)) for item in known]
    lines, group = [], None
    for item, line in zip(known, table(rows).splitlines(), strict=True):
        if item.kind != group:
            group = item.kind
            lines += ["", _GROUPS[group]] if lines else [_GROUPS[group]]
        lines.append(line)
    return "\n".join(lines)


def state_of(item, progress, work):
    """Describe the state of an exercise: "solved", "begun, 2 hints", or ""."""
    if progress.is_solved(item.name):
        return "solved"
    if not work.file(item).exists():
        return ""
    hints = progress.hints(item.name)
    return "begun" + (f", {hints} hint{'s' if hints > 1 else ''}" if hints else "")


def say_where(out, known, progress):
    """Print the next exercise, and also the first unsolved exercise if that is a different one."""
    following = progress.current(known)
    if following is None:
        out.print("all exercises are solved")
        return
    out.print(f"next: {following.number} {following.title}\n  {command('exercise')}")
    first = progress.first_open(known)
    if first is not following:
        again = command("exercise", "start", first.number)
        out.print(f"first unsolved: {first.number} {first.title}\n  {again}")


def bar(done, count, width=33):
    """Format a progress bar as text."""
    full = done * width // count
    return f"[{'#' * full}{'.' * (width - full)}] {done} of {count} solved"


def wrapped(text, out, indent=0):
    """Wrap paragraphs to the terminal's width, except indented lines, which are formulas."""
    width = min(out.width, _WIDTH) - indent
    blocks = []
    for block in text.split("\n\n"):
        if any(line.startswith(" ") for line in block.splitlines()):
            blocks.append(block)
        else:
            lines = block.splitlines() if indent == 9 else [" ".join(block.split())]
            blocks.append("\n".join(textwrap.fill(line, width, break_long_words=False,
                                                  break_on_hyphens=False,
                                                  subsequent_indent="") or ""
                                    for line in lines))  # fmt: skip
    return "\n\n".join(blocks)
