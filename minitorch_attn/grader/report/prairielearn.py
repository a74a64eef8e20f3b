"""PrairieLearn: convert the results of one submission to PrairieLearn's format."""

import json

from ..grade.document import hidden_part
from .grades import number
from .gradescope import text_of

__all__ = ["prairielearn"]

_LARGEST = 1_000_000  # maximum number of bytes that PrairieLearn accepts


def prairielearn(document):
    """Create the content of `results.json` in PrairieLearn's format, with a score from 0 to 1.

    PrairieLearn cannot hide tests, so hidden checks are exported without their messages.

    Parameters
    ----------
    document : dict

    Returns
    -------
    dict
    """
    if document["status"] != "graded":
        said = document["submission"]["problems"]
        said = said or ["the grader itself failed; this is not a grade"]
        return {"gradable": False, "score": 0.0, "format_errors": said, "tests": []}
    tests = []
    for line in map(hidden_part, document["checks"]):
        tests.append({
            "name": line["name"], "description": line["what"], "points": number(line["points"]),
            "max_points": number(line["max_points"]), "message": line["status"],
            "output": text_of(line) if line["status"] != "passed" else "",
        })  # fmt: skip
    points = document["max_score"]
    result = {
        "gradable": True, "score": document["score"] / points if points else 0.0,
        "message": f"sandbox level {document['grader']['sandbox']}", "output": "", "tests": tests,
    }  # fmt: skip
    longest = max((len(test["output"]) for test in tests), default=0)
    while len(json.dumps(result)) > _LARGEST and longest:
        longest //= 2
        for test in tests:
            test["output"] = test["output"][:longest]
    return result
