"""`grades.csv`: a line for each submission, for a spreadsheet."""

import csv
import io

from ..grade.session import clean

__all__ = ["grades"]

_FORMULA = "=+-@\t\r＝＋－＠"  # what a spreadsheet may take for the beginning of a formula


def grades(results):
    """The marks of a class.

    Parameters
    ----------
    results : dict
        The content of `results.json`.

    Returns
    -------
    str
        name, score, max, status, sandbox, folder (what it was among the submissions), digest,
        grader, and a column for each entry. Who is not graded has no score.
    """
    entries = results["assignment"]["entries"]
    points = results["assignment"]["points"]
    text = io.StringIO()
    writer = csv.writer(text)
    heads = ["name", "score", "max", "status", "sandbox", "folder", "digest", "grader"]
    writer.writerow(heads + [safe(entry["name"]) for entry in entries])
    for document in results["submissions"]:
        reached = {line["name"]: number(line["points"]) for line in document["checks"]}
        graded, what = document["status"] != "not graded", document["submission"]
        writer.writerow([
            safe(what["name"]), number(document["score"]) if graded else "", number(points),
            "outdated" if document.get("outdated") else document["status"],
            document["grader"]["sandbox"], safe(what.get("folder", "")), what["digest"],
            document["grader"]["version"], *(reached.get(entry["name"], "") for entry in entries),
        ])  # fmt: skip
    for missing in results["not_graded"]:
        row = [safe(missing["name"]), "", number(points), "not graded", ""]
        row += [safe(missing.get("submission", "")), "", ""]
        writer.writerow(row + [""] * len(entries))
    return text.getvalue()


def number(value):
    """A number without an idle `.0`."""
    return int(value) if float(value).is_integer() else value


def safe(text):
    """Text that no spreadsheet takes for a formula, in one line.

    Examples
    --------
    >>> safe("=1+1"), safe("Ada")
    ("'=1+1", 'Ada')
    """
    text = " ".join(clean(str(text)).split())
    return f"'{text}" if text.startswith(tuple(_FORMULA)) else text
