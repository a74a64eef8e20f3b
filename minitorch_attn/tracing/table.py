"""Table of a recording for a terminal: forward, backward and the final `.grad`.

Steps are listed under their line of code. Long recordings are folded by module.
"""

import io
import os
import shutil
import sys

import numpy as np

from .steps import Entry

__all__ = ["trace_table"]

_WIDE = 110  # minimum width at which the backward table shows formulas


def trace_table(recording, rows=80, depth=None, width=None, colour=None):
    """Return the text of `Recording.table`.

    Parameters
    ----------
    recording : Recording
    rows : int
        Approximate number of rows in each part. Modules are folded to fit this number.
    depth : int, optional
        Nesting depth at which modules are folded. By default, `rows` determines the depth.
    width : int, optional
        Width of the table in characters. Default: the width of the terminal.
    colour : bool, optional
        Whether to use color. Default: only on a terminal, and if NO_COLOR is not set.

    Returns
    -------
    str
    """
    from rich.console import Console

    if colour is None:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((100, 24)).columns if width is None else width
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, force_jupyter=False,
        highlight=False, markup=False, emoji=False, legacy_windows=False,
        color_system="standard" if colour else None,
    )  # fmt: skip
    for part in _parts(recording, rows, depth, width):
        console.print(part, overflow="ellipsis", no_wrap=True, crop=True)
    lines = console.file.getvalue().split("\n")
    return Shown("\n".join(line if colour else line.rstrip() for line in lines).rstrip())


class Shown(str):
    """String that an interactive session displays without quotes or escape sequences."""

    def __repr__(self):
        return str(self)


def _parts(recording, rows, depth, width):
    """Yield the titles and tables of a recording, in the order in which they are printed."""
    steps = {
        kind: [step for step in recording.steps if step.kind == kind]
        for kind in ("forward", "backward", "accumulate")
    }
    yield _head(recording, steps)
    lines = [step for step in steps["forward"] if step.side == "backward"]
    steps["forward"] = [step for step in steps["forward"] if step.side != "backward"]
    if steps["forward"]:
        yield _title("\nforward")
        yield from _forward(steps["forward"], rows, depth, width)
    if lines:
        yield _title("\nbackward")
        yield from _forward(lines, rows, depth, width)
    if steps["backward"]:
        yield _title("\nbackward: the gradient of a tensor, before + contribution = after")
        yield _backward(steps["backward"], rows, depth, width)
    if steps["accumulate"]:
        yield _title("\nleaves: the .grad before + the new gradient = the .grad after")
        yield _kept(steps["accumulate"], rows)


def _head(recording, steps):
    from rich.text import Text

    title, count = recording.title or "A recording", len(recording.steps)
    forward = sum(step.side != "backward" for step in steps["forward"])
    text = Text(
        f"{title}: {count} {'step' if count == 1 else 'steps'}, {forward} forward and "
        f"{count - forward} backward",
        no_wrap=False,
        overflow="fold",
    )
    if recording.message:
        text.append(f"\n! {recording.message}.", "bold red")
    return text


def _title(text):
    from rich.text import Text

    return Text(text, "bold")


def _table(columns):
    """Create a table without borders. `columns` contains pairs (header, keyword arguments).

    The keyword arguments are those of `rich.table.Table.add_column`.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for head, keywords in columns:
        table.add_column(head, **{"overflow": "fold", "no_wrap": False, **keywords})
    return table


# Forward


def _forward(steps, rows, depth, width):
    """Yield the header, then each heading (module and line of code) and the table of its steps."""
    from rich.text import Text

    groups = _folded(steps, rows, depth)
    runs = _runs(groups)
    step_width = max(4, *(len(_numbers(group)) for _, group in groups))
    op_width = max(len(step.op) for step in steps) + 1
    rest = width - step_width - op_width - 8
    columns = [
        ("step", {"justify": "right", "width": step_width, "style": "dim"}),
        ("op", {"width": op_width, "style": "cyan", "no_wrap": True}),
        ("formula", {"width": rest * 9 // 20}),
        ("shapes", {"width": rest - rest * 9 // 20}),
    ]
    head = _table(columns)
    yield head
    for heading, run in runs:
        yield Text(heading, "green")
        table = _table(columns)
        table.show_header = False
        for module, group in run:
            table.add_row(*_forward_row(module, group))
        yield table


def _forward_row(module, group):
    if module is None:
        step = group[0]
        notes = "".join(f"\n! {note}" for note in step.notes)
        return str(step.number), step.op, step.formula + notes, _shapes(step)
    shapes = f"... -> {_shape(group[-1].outputs[0])}" if group[-1].outputs else ""
    return _numbers(group), module.name, f"{len(group)} steps, folded", shapes


def _runs(groups):
    """Group adjacent rows with the same module and line of code under one heading."""
    runs = []
    for module, group in groups:
        step = group[0]
        inside = step.module if module is None else module
        heading = str(inside) if inside is not None else ""
        if module is None and step.source is not None:
            place = str(step.source).removeprefix(f"{__name__.split('.')[0]}/")
            heading = f"{heading}  {place}: {step.source.source}".lstrip()
        if runs and runs[-1][0] == heading:
            runs[-1][1].append((module, group))
        else:
            runs.append((heading, [(module, group)]))
    return runs


def _shapes(step):
    given = [
        _shape(value) if isinstance(value, Entry) else f"{value:.4g}"
        for value in step.inputs
        if value is not None
    ]
    made = ", ".join(_shape(entry) for entry in step.outputs)
    views = {output for output, _ in step.aliases}
    view = " view" if len(views) == len(step.outputs) and views else ""
    return f"{', '.join(given)} -> {made}{view}"


def _shape(entry):
    """Format a shape without spaces, so that it is not split across lines."""
    return str(entry.values.shape).replace(", ", ",").replace(",)", ",)")


# Backward


def _backward(steps, rows, depth, width):
    columns = [
        ("step", {"justify": "right", "style": "dim"}),
        ("op", {"style": "cyan", "no_wrap": True}),
        ("of", {"justify": "right", "style": "dim"}),
        ("gradient of", {"ratio": 1}),
        ("at", {"style": "dim", "no_wrap": True}),
        ("before", {"justify": "right", "no_wrap": True}),
        ("+ contribution", {"justify": "right", "no_wrap": True}),
        ("= after", {"justify": "right", "no_wrap": True}),
    ]
    wide = width >= _WIDE
    table = _table([*columns, ("formula", {"ratio": 1})] if wide else columns)
    for module, group in _folded(steps, rows, depth):
        if module is not None:
            sums = sum(a.before is not None for step in group for a in step.added)
            text = f"{len(group)} steps, folded; {sums} sums"
            table.add_row(_numbers(group), module.name, "", f"{module}: {text}")
            continue
        step = group[0]
        first = (str(step.number), step.op, "" if step.of is None else str(step.of))
        for index, addition in enumerate(step.added or [None]):
            cells = (*first, *_sum(addition)) if index == 0 else ("", "", "", *_sum(addition))
            table.add_row(*cells, *([step.formula] if wide and index == 0 else []))
        for note in step.notes:
            table.add_row("", "", "", f"! {note}")
    return table


def _kept(steps, rows):
    table = _table([
        ("step", {"justify": "right", "style": "dim"}),
        ("leaf", {"ratio": 1}),
        ("at", {"style": "dim", "no_wrap": True}),
        (".grad before", {"justify": "right", "no_wrap": True}),
        ("+ new", {"justify": "right", "no_wrap": True}),
        ("= .grad after", {"justify": "right", "no_wrap": True}),
    ])  # fmt: skip
    for step in steps[:rows]:
        table.add_row(str(step.number), *_sum(step.added[0]))
        for note in step.notes:
            table.add_row("", f"! {note}")
    if len(steps) > rows:
        table.add_row("", f"and {len(steps) - rows} others")
    return table


def _sum(addition):
    """Return the table cells of an addition, for the element with the largest absolute sum."""
    if addition is None:
        return "", "", "", "", ""
    name = "?" if addition.tensor is None else _name(addition.tensor)
    after = addition.after.values
    if not after.array.size:
        return name, "", "-", "-", "-"
    index = np.unravel_index(np.argmax(np.abs(np.nan_to_num(after.array))), after.array.shape)
    place = str(list(after.place(index))).replace(", ", ",") if index else ""
    before = "-" if addition.before is None else _number(addition.before, index)
    return name, place, before, _number(addition.contribution, index), _number(after, index)


def _number(values, index):
    array = getattr(values, "values", values).array
    return f"{array[index]:.4g}" if array.ndim == len(index) else "?"


def _name(entry):
    """Return a tensor's name, or "variable (name)" if a variable with another name holds it."""
    if entry.variable is None or entry.variable == entry.name or entry.role == "parameter":
        return entry.name
    return f"{entry.variable} ({entry.name})"


# Folding


def _folded(steps, rows, depth):
    """Return a pair for each table row.

    The pair is (module, steps) if the row stands for several steps of a module, and (None, [step])
    if it shows a single step.
    """
    if depth is not None:
        return _fold(steps, depth)
    deepest = max((len(_chain(step)) for step in steps), default=0)
    for level in range(deepest, -1, -1):
        groups = _fold(steps, level)
        if len(groups) <= rows:
            break
    return groups


def _fold(steps, depth):
    groups = []
    for step in steps:
        chain = _chain(step)
        module = chain[depth] if len(chain) > depth else None
        last = groups[-1] if groups else (None, [])
        # A row "3-9" contains all steps from 3 to 9, so a step of another pass ends the group.
        if module is not None and last[0] is module and last[1][-1].number + 1 == step.number:
            last[1].append(step)
        else:
            groups.append((module, [step]))
    return [(None, group) if len(group) == 1 else (module, group) for module, group in groups]


def _chain(step):
    """Return the modules that enclose a step, the outermost first."""
    chain, module = [], step.module
    while module is not None:
        chain.append(module)
        module = module.parent
    return chain[::-1]


def _numbers(group):
    first, last = group[0].number, group[-1].number
    return str(first) if first == last else f"{first}-{last}"
