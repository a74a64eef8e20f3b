"""Console output shared by all commands: the terminal, tables, suggested commands."""

import os
import re
import sys

__all__ = ["command", "console", "printable", "program_name", "table"]

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console():
    """Create a rich console for standard output: in color on a terminal, unless NO_COLOR is set.

    Returns
    -------
    rich.console.Console
    """
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def printable(text):
    """Replace the control characters of a text, which would disturb a terminal.

    Examples
    --------
    >>> printable("a\\x1b[2J\\n") == "a\\ufffd[2J\\n"
    True
    """
    return _CONTROL.sub("\ufffd", text)


def program_name():
    """Return the program name as the user typed it, so that suggested commands can be pasted."""
    name = os.path.basename(sys.argv[0] or "")
    if name.removesuffix(".exe") in ("mta", "minitorch-attn"):
        return name.removesuffix(".exe")
    return "python -m minitorch_attn"


def command(*words):
    """Format a command line to suggest to the user.

    Examples
    --------
    >>> command("tour", "--out", "my run").endswith("tour --out 'my run'")
    True
    """
    import shlex

    return f"{program_name()} {shlex.join(map(str, words))}"


def table(rows, indent=2, gap=2):
    """Format rows of text in aligned columns. Columns of numbers are right-aligned.

    Examples
    --------
    >>> print(table([("4.64", "uniform"), ("12.3", "bigram")]))
       4.64  uniform
       12.3  bigram
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(_is_number(cell) for cell in column) for column in columns]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append((" " * indent + (" " * gap).join(cells)).rstrip())
    return "\n".join(lines)


def _is_number(text):
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
