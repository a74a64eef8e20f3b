"""Parallel text: sentences and their translations."""

from ..errors import DataError
from .sources import single_file
from .text import read_text

__all__ = ["read_parallel", "read_tsv"]


def read_parallel(source, target, *, sha256=(None, None)):
    """Two text files whose lines belong together.

    Parameters
    ----------
    source, target : str or path
        UTF-8, one sentence per line; a file, or its URL with a checksum.
    sha256 : pair of str, optional
        The checksums of the two.

    Returns
    -------
    list of (str, str)
        Pairs of which one side is blank are left out.

    Raises
    ------
    DataError
        If a file is not text, or one has more lines than the other.
    """
    paths = [single_file(path, sum) for path, sum in zip((source, target), sha256, strict=True)]
    sides = [_lines(read_text(path)) for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{paths[0]} and {paths[1]} are not parallel.",
            got=f"{len(sides[0]):,} and {len(sides[1]):,} lines",
            expected="as many lines in both",
        )
    return _pairs(zip(*sides, strict=True), " and ".join(paths))


def read_tsv(path, *, columns=(0, 1), sha256=None):
    """Pairs from a table: one pair per line, a tab between the columns.

    Parameters
    ----------
    path : str or path
        UTF-8; a file, or its URL with a checksum.
    columns : (int, int), default (0, 1)
        Of the source and of the target. Further columns are ignored.
    sha256 : str, optional

    Returns
    -------
    list of (str, str)
        Blank lines, and pairs of which one side is blank, are left out. Quotation marks are
        ordinary characters.

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
                f"{path}, line {number}: too few columns.",
                got=f"{len(cells)}: {line[:60]!r}",
                expected=f"at least {max(columns) + 1}, with a tab between them",
            )
        pairs.append(tuple(cells[column] for column in columns))
    return _pairs(pairs, path)


def _lines(text):
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _pairs(pairs, name):
    found = [(a.strip(), b.strip()) for a, b in pairs if a.strip() and b.strip()]
    if not found:
        raise DataError(f"{name}: no pairs of sentences.")
    return found
