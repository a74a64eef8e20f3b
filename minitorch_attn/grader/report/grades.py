"""`grades.csv`: grades for a spreadsheet, one row per submission."""

import csv
import io

from ..grade.session import clean

__all__ = ["follows_text", "grades", "number", "safe"]

_FORMULA = "=+-@\t\r＝＋－＠"  # characters that can start a formula in a spreadsheet


def grades(results):
    """Format the grades of a class as CSV.

    Parameters
    ----------
    results : dict
        Content of `results.json`.

    Returns
    -------
    str
        Table with the columns name, score, max, status, sandbox, folder (file name of the
        submission), digest, grader, feedback (file for the student) and "look at" (problems and
        remarks for the instructor), and with one column for each check. Ungraded and missing
        submissions have an empty score.
    """
    entries = results["assignment"]["entries"]
    points = results["assignment"]["points"]
    text = io.StringIO()
    writer = csv.writer(text)
    heads = [
        "name", "score", "max", "status", "sandbox", "folder", "digest", "grader", "feedback",
        "look at",
    ]  # fmt: skip
    writer.writerow(heads + [safe(entry["name"]) for entry in entries])
    for document in results["submissions"]:
        reached = {line["name"]: number(line["points"]) for line in document["checks"]}
        graded, what = document["status"] != "not graded", document["submission"]
        writer.writerow([
            safe(what["name"]), number(document["score"]) if graded else "", number(points),
            "outdated" if document.get("outdated") else document["status"],
            document["grader"]["sandbox"], safe(what.get("folder", "")), what["digest"],
            document["grader"]["version"], f"students/{document['folder']}/feedback.html",
            safe("; ".join([*what["problems"], *what.get("remarks", ())])),
            *(reached.get(entry["name"], "") for entry in entries),
        ])  # fmt: skip
    for missing in results["not_graded"]:
        row = [safe(missing["name"]), "", number(points), "not graded", ""]
        row += [safe(missing.get("submission", "")), "", "", "", safe(missing.get("message", ""))]
        writer.writerow(row + [""] * len(entries))
    for name in results.get("not_handed_in", ()):
        row = [safe(name), "", number(points), "not handed in"]
        writer.writerow(row + [""] * (len(heads) - len(row) + len(entries)))
    return text.getvalue()


def follows_text(line):
    """Explain that the failure of an earlier check may have caused this failure."""
    return (
        f"{line['follows']} failed. If the forward pass is wrong, the backward pass receives wrong "
        "values and can fail although it is correct. Correct the forward pass first."
    )


def number(value):
    """Format a number without a trailing `.0`."""
    return int(value) if float(value).is_integer() else value


def safe(text):
    """Put text on one line, and prevent a spreadsheet from reading it as a formula.

    Examples
    --------
    >>> safe("=1+1"), safe("Ada")
    ("'=1+1", 'Ada')
    """
    text = " ".join(clean(str(text)).split())
    return f"'{text}" if text.startswith(tuple(_FORMULA)) else text
