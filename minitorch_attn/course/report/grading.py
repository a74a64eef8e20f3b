"""Grade a class and write its reports, whatever happens on the way."""

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ArgumentError, DataError
from ..grade.run import ChecksFailed, grade_class
from .results import collect, forget_others
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
    how : Counter
        How many submissions were "new", "kept", "changed" or graded by "others" (see
        `grade_class`), and for how many the grader "failed".
    forgotten : list of str
        Whose results were removed.
    """

    results: dict | None = None
    failures: list = field(default_factory=list)
    stopped: bool = False
    how: Counter = field(default_factory=Counter)
    forgotten: list = field(default_factory=list)


def grade_and_report(
    task, folder, out, *, level, jobs=1, limits=None, report=None, forget=False
):  # fmt: skip
    """Grade a class; the reports are written also if that fails or is stopped.

    Parameters
    ----------
    task, folder, out, level, jobs, limits, report
        As of `grade_class`.
    forget : bool, default False
        Remove the results of those who are not in `folder`, after all in it are graded.

    Returns
    -------
    Outcome

    Raises
    ------
    ArgumentError, DataError
        If there is nothing to grade, or `out` holds something else; nothing is written then.
    """
    outcome, out, why = Outcome(), Path(out), "not graded yet"

    def counted(document, done, total, how):
        outcome.how["failed" if document["status"] == "not graded" else how] += 1
        if report is not None:
            report(document, done, total, how)

    try:
        grade_class(task, folder, out, level=level, jobs=jobs, limits=limits, report=counted)
        if forget:
            outcome.forgotten = forget_others(folder, out)
    except KeyboardInterrupt:
        outcome.stopped, why = True, "not graded yet: the run was stopped"
    except (ArgumentError, DataError):
        raise
    except Exception as error:
        outcome.failures.append(traceback.format_exc())
        why = str(error) if isinstance(error, ChecksFailed) else "the grader itself failed"
    if (out / "state").is_dir():
        _write(outcome, task, folder, out, why)
    return outcome


def _write(outcome, task, folder, out, why):
    """All reports on what has been graded."""
    try:
        outcome.results = collect(task, folder, out, why)
        for document in outcome.results["submissions"]:
            failed = write_student(document, out / "students" / document["folder"])
            outcome.failures += [f"{document['folder']}/{text}" for text in failed]
            if document["status"] == "not graded":
                outcome.failures.append(f"{document['folder']}: {document.get('detail', '')}")
        outcome.failures += write_class(outcome.results, out)
        if not outcome.failures:
            (out / "grader-errors.txt").unlink(missing_ok=True)
    except Exception:
        outcome.failures.append(traceback.format_exc())
    if outcome.failures:
        try:
            write_text(out / "grader-errors.txt", "\n\n".join(outcome.failures) + "\n")
        except Exception:
            outcome.failures.append(traceback.format_exc())
