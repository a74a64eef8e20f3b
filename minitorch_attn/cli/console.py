"""What the commands share in talking to the user."""

import os
import sys

__all__ = ["command", "console", "program_name", "table"]


def console():
    """A rich console for standard output; it follows NO_COLOR and knows whether it is a terminal.

    Returns
    -------
    rich.console.Console
    """
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def program_name():
    """The program as the user called it, so that a suggested command works when it is pasted."""
    name = os.path.basename(sys.argv[0] or "")
    if name.removesuffix(".exe") in ("mta", "minitorch-attn"):
        return name.removesuffix(".exe")
    return "python -m minitorch_attn"


def command(*words):
    """A command line to suggest.

    Examples
    --------
    >>> command("tour", "--out", "my run").endswith("tour --out 'my run'")
    True
    """
    import shlex

    return f"{program_name()} {shlex.join(map(str, words))}"


def table(rows, indent=2, gap=2):
    """Rows of text in aligned columns; columns whose cells are all numbers stand to the right.

    Examples
    --------
    >>> print(table([("4.64", "blind"), ("12.3", "mad")]))
       4.64  blind
       12.3  mad
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
