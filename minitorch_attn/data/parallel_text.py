"""Parallel text: sentences and their translations."""

from ..errors import DataError
from .download import single_file
from .text import read_text

__all__ = ["read_parallel", "read_tsv"]


def read_parallel(source, target, *, sha256=(None, None)):
    """Read two text files whose lines correspond.

    Parameters
    ----------
    source, target : str or path
        UTF-8 file with one sentence per line, or its URL (which requires a checksum).
    sha256 : pair of str, optional
        Checksums of the two files.

    Returns
    -------
    list of (str, str)
        Pairs in which neither side is blank.

    Raises
    ------
    DataError
        If a file is not text, or the files have different numbers of lines.
    """
    paths = [single_file(path, sum) for path, sum in zip((source, target), sha256, strict=True)]
    sides = [_lines(read_text(path)) for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{paths[0]} and {paths[1]} must have the same number of lines",
            got=f"{len(sides[0]):,} and {len(sides[1]):,} lines",
            hint="line n of one file must be the translation of line n of the other",
        )
    return _pairs(zip(*sides, strict=True), " and ".join(paths))


def read_tsv(path, *, columns=(0, 1), sha256=None):
    """Read pairs from a table with one pair per line and columns separated by tabs.

    Parameters
    ----------
    path : str or path
        UTF-8 file, or its URL (which requires a checksum).
    columns : (int, int), default (0, 1)
        Indices of the source and target columns. Other columns are ignored.
    sha256 : str, optional

    Returns
    -------
    list of (str, str)
        Pairs in which neither side is blank. Quotation marks are ordinary characters, and blank
        lines are skipped.

    Raises
    ------
    DataError
        If the file is not text, or a line has too few columns.
    """
    path = single_file(path, sha256)
    pairs = []
    for number, line in enumerate(_lines(read_text(path)), start=1):
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) <= max(columns):
            raise DataError(
                f"{path}, line {number}: too few columns",
                got=f"{len(cells)}: {line[:60]!r}",
                expected=f"at least {max(columns) + 1}, with a tab between them",
                hint="choose the columns, counted from 0: columns=(0, 1)",
            )
        pairs.append(tuple(cells[column] for column in columns))
    return _pairs(pairs, path)


def _lines(text):
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _pairs(pairs, name):
    found = [(a.strip(), b.strip()) for a, b in pairs if a.strip() and b.strip()]
    if not found:
        raise DataError(f"{name}: the file must contain at least one pair of sentences")
    return found
