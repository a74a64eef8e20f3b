"""Grade a class and write its reports, whatever happens on the way."""

import traceback
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ArgumentError, DataError
from ..grade.run import grade_class
from .results import collect
from .write import write_class, write_student, write_text

__all__ = ["Outcome", "grade_and_report"]


@dataclass
class Outcome:
    """What became of a run.

    Attributes
    ----------
    results : dict or None
        The content of `results.json`.
    failures : list of str
        Of the grader itself.
    stopped : bool
        Whether Ctrl-C ended it.
    """

    results: dict | None = None
    failures: list = field(default_factory=list)
    stopped: bool = False


def grade_and_report(task, folder, out, *, level, jobs=1, limits=None, report=None):
    """Grade a class; the reports are written also if that fails or is stopped.

    Parameters
    ----------
    task, folder, out, level, jobs, limits, report
        As of `grade_class`.

    Returns
    -------
    Outcome

    Raises
    ------
    ArgumentError, DataError
        If there is nothing to grade, or `out` holds something else; nothing is written then.
    """
    outcome, out = Outcome(), Path(out)
    try:
        grade_class(task, folder, out, level=level, jobs=jobs, limits=limits, report=report)
    except KeyboardInterrupt:
        outcome.stopped = True
    except (ArgumentError, DataError):
        raise
    except Exception:
        outcome.failures.append(traceback.format_exc())
    if not (out / "state").is_dir():
        return outcome
    _write(outcome, task, folder, out)
    return outcome


def _write(outcome, task, folder, out):
    """All reports on what has been graded."""
    try:
        outcome.results = collect(task, folder, out)
    except Exception:
        outcome.failures.append(traceback.format_exc())
        return
    for document in outcome.results["submissions"]:
        failed = write_student(document, out / "students" / document["folder"])
        outcome.failures += [f"{document['folder']}/{text}" for text in failed]
        if document["status"] == "grader error":
            outcome.failures.append(f"{document['folder']}: {document.get('detail', '')}")
    outcome.failures += write_class(outcome.results, out)
    if outcome.failures:
        write_text(out / "grader-errors.txt", "\n\n".join(outcome.failures) + "\n")
    else:
        (out / "grader-errors.txt").unlink(missing_ok=True)
