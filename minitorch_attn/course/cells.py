"""A lesson's file cut into its cells: the py:percent format of Jupytext."""

import ast
import itertools
import re
from dataclasses import dataclass

from ..errors import DataError

__all__ = ["Cell", "read_cells"]

_HEADER = re.compile(r"# ?%%(?P<rest>.*)")
_KIND = re.compile(r"\[(markdown|md)\]")
_TAGS = re.compile(r"tags\s*=\s*(\[[^\]]*\])")


@dataclass(frozen=True)
class Cell:
    """One cell.

    Parameters
    ----------
    kind : {"markdown", "code"}
    text : str
        Markdown without its comment signs, or code.
    line : int
        The line of the file on which the text begins.
    tags : tuple of str, default ()
    """

    kind: str
    text: str
    line: int
    tags: tuple = ()


def read_cells(text, name="the lesson"):
    """Cut the text of a file into cells.

    Parameters
    ----------
    text : str
    name : str
        For the message of an error.

    Returns
    -------
    list of Cell
        Empty cells are left out.

    Raises
    ------
    DataError
        If a Markdown cell has a line that is no comment, or there is text before the first cell.

    Examples
    --------
    >>> lesson = "# %% [markdown]\\n# # Title\\n\\n# %%\\nx = 1\\n"
    >>> for cell in read_cells(lesson):
    ...     print(cell)
    Cell(kind='markdown', text='# Title', line=2, tags=())
    Cell(kind='code', text='x = 1', line=5, tags=())
    """
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if _HEADER.fullmatch(line)]
    before = [line for line in lines[: starts[0] if starts else None] if line.strip()]
    if before:
        raise DataError(
            f"{name}: this stands before the first cell.", got=before[0], expected="# %% [markdown]"
        )
    cells = []
    for start, end in itertools.pairwise([*starts, len(lines)]):
        rest = _HEADER.fullmatch(lines[start])["rest"]
        first, body = _trimmed(lines, start + 1, end)
        if not body:
            continue
        kind = "markdown" if _KIND.search(rest) else "code"
        if kind == "markdown":
            body = [_without_sign(line, first + i, name) for i, line in enumerate(body)]
        tags = _TAGS.search(rest)
        tags = tuple(ast.literal_eval(tags[1])) if tags else ()
        cells.append(Cell(kind, "\n".join(body), first + 1, tags))
    return cells


def _trimmed(lines, start, end):
    """(index of the first line, lines) without the empty ones at both ends."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, lines[start:end]


def _without_sign(line, index, name):
    """A line of a Markdown cell without `# `."""
    if line.strip() and not line.startswith("#"):
        raise DataError(
            f"{name}: a Markdown cell has a line that is no comment.",
            got=f"line {index + 1}: {line}",
            expected="`# ` before each line, or a code cell begun by `# %%`",
        )
    return line[2:] if line.startswith("# ") else line[1:]
