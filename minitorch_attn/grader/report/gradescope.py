"""Gradescope: convert the results of one submission to Gradescope's format."""

from ..grade.document import hidden_part
from .grades import follows_text, number
from .steps import step_text

__all__ = ["gradescope", "text_of"]

_TEXT_LIMIT = 8_000


def gradescope(document):
    """Make `results.json` in Gradescope's format.

    Gradescope shows hidden checks only after grades are published. It never shows the output of a
    submission.

    Parameters
    ----------
    document : dict

    Returns
    -------
    dict
    """
    tests = []
    for place, line in enumerate(document["checks"], 1):
        tests.append({
            "name": line["name"], "number": str(place), "score": number(line["points"]),
            "max_score": number(line["max_points"]),
            "status": "passed" if line["status"] == "passed" else "failed",
            "output": text_of(hidden_part(line)), "output_format": "text",
            "visibility": "after_published" if line["hidden"] else "visible",
            "tags": line["of"],
        })  # fmt: skip
    # If there is no score, Gradescope reports that the grader failed, not that the student failed.
    score = {} if document["status"] == "not graded" else {"score": number(document["score"])}
    return {
        **score,
        "execution_time": document["seconds"],
        "output": _summary(document),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {
            "status": document["status"], "sandbox": document["grader"]["sandbox"],
            "grader": document["grader"]["version"], "digest": document["submission"]["digest"],
        },
    }  # fmt: skip


def _summary(document):
    lines = list(document["submission"]["problems"])
    if document["status"] == "not graded":
        lines = ["The grader itself failed. This is not a grade. Tell your instructor."]
    level, version = document["grader"]["sandbox"], document["grader"]["version"]
    lines.append(f"Graded by minitorch_attn {version} at sandbox level {level}.")
    return "\n".join(lines)


def text_of(line):
    """Describe the result of a check as plain text.

    Parameters
    ----------
    line : dict
        Entry of `checks` in a document.

    Returns
    -------
    str
    """
    said = line["message"]
    if line.get("same_as") and said:
        said = f"The same error as in {line['same_as']}."
    parts = [line["what"], "" if line["status"] == "passed" else line["status"], said]
    parts.append(follows_text(line) if line.get("follows") else "")
    parts.append(step_text(line["first_step"]) if line.get("first_step") else "")
    parts.append(line.get("gradcheck") or "")
    return "\n\n".join(part for part in parts if part)[:_TEXT_LIMIT]
