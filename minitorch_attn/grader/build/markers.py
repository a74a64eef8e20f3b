"""nbgrader markers in an instructor's files: remove solutions and hidden tests for a release.

    ### BEGIN SOLUTION ... ### END SOLUTION              becomes `raise NotImplementedError()`
    ### BEGIN HIDDEN TESTS ... ### END HIDDEN TESTS      is removed

As in nbgrader, a marker may start with one or more #.
"""

import json
import re

from ...errors import DataError
from ...schema import TEXT, check, either, list_of, parse_json, record

__all__ = ["released_notebook", "released_text"]

_CELL = record({}, {"source": either(TEXT, list_of(TEXT)), "cell_type": TEXT})
_NOTEBOOK = record({"cells": list_of(_CELL)})
_MARK = re.compile(r"^\s*#+\s*(BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")


def released_text(text, where):
    """Remove the solutions and hidden tests between markers from a text.

    Parameters
    ----------
    text : str
    where : str
        Name of the file, for error messages.

    Returns
    -------
    str

    Raises
    ------
    DataError
        If a BEGIN or END marker is missing.

    Examples
    --------
    >>> print(released_text("def f():\\n    ### BEGIN SOLUTION\\n    return 1\\n"
    ...                     "    ### END SOLUTION\\n", "f.py"), end="")
    def f():
        raise NotImplementedError()
    """
    kept, opened = [], None
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        mark = _MARK.match(line)
        if mark is None:
            if opened is None:
                kept.append(line)
        elif mark[1] == "BEGIN":
            if opened is not None:
                raise DataError(
                    f"{where}:{number}: BEGIN {mark[2]} must not be inside BEGIN {opened}",
                    hint=f"write END {opened} before this line",
                )
            opened = mark[2]
            if opened == "SOLUTION":
                indent = line[: len(line) - len(line.lstrip())]
                kept.append(f"{indent}raise NotImplementedError()\n")
        elif opened != mark[2]:
            raise DataError(
                f"{where}:{number}: END {mark[2]} without a matching BEGIN",
                hint=f"write BEGIN {mark[2]} before this line",
            )
        else:
            opened = None
    if opened is not None:
        raise DataError(
            f"{where}: BEGIN {opened} without a matching END",
            hint=f"write END {opened} after the last line of the block",
        )
    return "".join(kept)


def released_notebook(text, where):
    """Remove everything between the markers in a notebook, and the outputs of its cells.

    Parameters
    ----------
    text : str
        Content of an .ipynb file.
    where : str
        Name of the file, for error messages.

    Returns
    -------
    str
    """
    notebook = parse_json(text, where)
    check(notebook, _NOTEBOOK, where, hint="open it in Jupyter and save it again")
    for number, cell in enumerate(notebook["cells"], 1):
        source = cell.get("source", "")
        source = "".join(source) if isinstance(source, list) else source
        cell["source"] = released_text(source, f"{where}, cell {number}")
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
