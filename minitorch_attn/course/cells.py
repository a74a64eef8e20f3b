"""Split a lesson file, in Jupytext's py:percent format, into cells."""

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
    """One cell of a lesson.

    Parameters
    ----------
    kind : {"markdown", "code"}
    text : str
        Markdown without comment markers, or code.
    line : int
        Line number in the file where the text starts, counted from 1.
    tags : tuple of str, default ()
        Tags from the cell's header, for example `("answers",)`.
    """

    kind: str
    text: str
    line: int
    tags: tuple = ()


def read_cells(text, name="the lesson"):
    """Split the text of a lesson into cells.

    Parameters
    ----------
    text : str
    name : str
        File name to show in error messages.

    Returns
    -------
    list of Cell, without empty cells

    Raises
    ------
    DataError
        If a line of a Markdown cell is not a comment, or there is text before the first cell.

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
            f"{name}: text precedes the first cell", got=before[0], hint="put `# %%` before it"
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
        tags = _tags(tags[1], f"{name}, line {start + 1}") if tags else ()
        cells.append(Cell(kind, "\n".join(body), first + 1, tags))
    return cells


def _tags(text, where):
    """Read a list of strings, as Jupytext writes it into the header of a cell."""
    try:
        tags = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # too many levels of nesting
        tags = None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise DataError(
            f"{where}: the tags of the cell are malformed", got=text[:80], expected='tags=["name"]'
        )
    return tuple(tags)


def _trimmed(lines, start, end):
    """Remove empty lines at both ends.

    Return the index of the first remaining line, and the remaining lines.
    """
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, lines[start:end]


def _without_sign(line, index, name):
    """Remove `# ` from a line of a Markdown cell."""
    if line.strip() and not line.startswith("#"):
        raise DataError(
            f"{name}: a line of a Markdown cell is not a comment",
            got=f"line {index + 1}: {line}",
            hint="put `# ` before the line, or start a code cell with `# %%`",
        )
    return line[2:] if line.startswith("# ") else line[1:]
