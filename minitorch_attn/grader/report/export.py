"""Export grading results or an assignment in the formats of other tools."""

from pathlib import Path

from ...errors import ArgumentError
from ...files import write_json
from ..build.assignment import find_assignment
from .github import workflow
from .grades import grades
from .junit import junit
from .nbgrader import nbgrader
from .otter import otter
from .prairielearn import prairielearn
from .write import write_text

__all__ = ["write_export"]


def write_export(kind, results, folder, out=None):
    """Write the results or the assignment in the format of another tool.

    Parameters
    ----------
    kind : {"csv", "junit", "prairielearn", "github", "otter", "nbgrader"}
    results : dict
        Content of `results.json`.
    folder : path
        Results folder, in which the export is written by default.
    out : path, optional
        Output path: a file for csv, junit, github and nbgrader, and a folder for the others.

    Returns
    -------
    str
        Message with the path of the export and a description of its content.
    """
    folder = Path(folder)
    if kind == "csv":
        return _one(out or folder / "grades.csv", grades(results))
    if kind == "junit":
        return _one(out or folder / "junit.xml", junit(results))
    if kind == "prairielearn":
        return _prairielearn(results, Path(out or folder / "prairielearn"))
    name = results["assignment"]["name"]
    if kind == "github":
        return _one(out or folder / "github" / "grade.yml", workflow(name, _version(results)))
    made = find_assignment(name)
    if kind == "nbgrader":
        path = Path(out or folder / "nbgrader" / f"{name}-checks.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, nbgrader(made))
        return f"{path}: the public checks; copy the file into the release folder"
    if kind == "otter":
        target = Path(out or folder / "otter" / "tests")
        target.mkdir(parents=True, exist_ok=True)
        for file, text in otter(made.checks).items():
            write_text(target / file, text)
        return f"{target}: the public checks; copy the folder into the release folder"
    raise ArgumentError(
        "write_export: kind is unknown", got=kind,
        expected="csv, junit, prairielearn, github, otter or nbgrader",
    )  # fmt: skip


def _version(results):
    """Return the version of the grader that wrote the results."""
    found = {document["grader"]["version"] for document in results["submissions"]}
    if not found:
        raise ArgumentError(
            "results.json must contain a graded submission", hint="run `mta course grade`"
        )
    return max(found)


def _one(path, content):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, content)
    return str(path)


def _prairielearn(results, target):
    for document in results["submissions"]:
        place = target / document["folder"]
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / "results.json", prairielearn(document))
    return f"{target}: a results.json for each of {len(results['submissions'])} submissions"
