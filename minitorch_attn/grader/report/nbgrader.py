"""nbgrader: write the public checks as graded cells of a notebook for the release folder."""

import re

__all__ = ["nbgrader"]


def nbgrader(made):
    """Make a notebook in nbgrader's source format, with the task and checks for each function.

    Students write the functions in the files of the package, and the cells of this notebook check
    those files. Therefore, this notebook must be in the release folder, next to the notebook in
    which students work. The cells run without this package's sandbox. Hidden checks are not
    included.

    Parameters
    ----------
    made : Assignment

    Returns
    -------
    dict
        Content of a `.ipynb` file.
    """
    cells = [_cell("markdown", f"# {made.title}\n\n{made.prose.strip()}", "title")]
    for blank in made.blanks:
        text = f"## {blank.order}. {blank.target.name}\n\nWrite it in `{blank.target.path}`."
        cells.append(_cell("markdown", text, f"task-{blank.order}"))
        for entry in made.checks:
            if entry.of == blank.name and not entry.hidden:
                cells.append(_graded(entry))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip


def _graded(entry):
    """Return a graded cell that runs one check and is worth its points."""
    code = "\n".join((
        f"# {entry.name}: {entry.what}",
        "import json, subprocess, sys",
        'done = subprocess.run([sys.executable, "check.py", "--json"], capture_output=True)',
        f"[found] = [r for r in json.loads(done.stdout) if r['name'] == {entry.name!r}]",
        "assert found['status'] == 'passed', found['message']",
    ))  # fmt: skip
    cell = _cell("code", code, "check-" + re.sub(r"[^a-z0-9]+", "-", entry.name.lower()))
    fields = cell["metadata"]["nbgrader"]
    fields.update({"grade": True, "points": entry.points})
    cell.update({"execution_count": None, "outputs": []})
    return cell


def _cell(kind, text, name):
    fields = {
        "grade": False, "grade_id": name, "locked": True, "schema_version": 3, "solution": False,
        "task": False,
    }  # fmt: skip
    return {
        "cell_type": kind, "id": name[:64], "metadata": {"nbgrader": fields},
        "source": text.splitlines(keepends=True),
    }  # fmt: skip
