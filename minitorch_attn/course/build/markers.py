"""nbgrader's markers in what an instructor adds: solutions and hidden tests that a release lacks.

    ### BEGIN SOLUTION ... ### END SOLUTION              becomes `raise NotImplementedError()`
    ### BEGIN HIDDEN TESTS ... ### END HIDDEN TESTS      is left out

One or more # may stand before the words, as in nbgrader.
"""

import json
import re

from ...errors import DataError

__all__ = ["released_notebook", "released_text"]

_MARK = re.compile(r"^\s*#+\s*(BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")


def released_text(text, where):
    """A text without what its markers enclose.

    Parameters
    ----------
    text : str
    where : str
        Its file, for errors.

    Returns
    -------
    str

    Raises
    ------
    DataError
        If a marker lacks its partner.

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
                raise DataError(f"{where}:{number}: BEGIN {mark[2]} inside BEGIN {opened}.")
            opened = mark[2]
            if opened == "SOLUTION":
                indent = line[: len(line) - len(line.lstrip())]
                kept.append(f"{indent}raise NotImplementedError()\n")
        elif opened != mark[2]:
            raise DataError(f"{where}:{number}: END {mark[2]} without its BEGIN.")
        else:
            opened = None
    if opened is not None:
        raise DataError(f"{where}: BEGIN {opened} without its END.")
    return "".join(kept)


def released_notebook(text, where):
    """A notebook without what its markers enclose, and without outputs.

    Parameters
    ----------
    text : str
        Of an .ipynb file.
    where : str

    Returns
    -------
    str
    """
    try:
        notebook = json.loads(text)
        cells = notebook["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: this is no notebook.", got=str(error)) from None
    for number, cell in enumerate(cells, 1):
        source = cell.get("source", "")
        source = "".join(source) if isinstance(source, list) else source
        cell["source"] = released_text(source, f"{where}, cell {number}")
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
