"""Grade a class of students, and write its reports even after an error in the grader."""

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ArgumentError, DataError
from ..grade.grade_class import ChecksFailed, grade_class
from .results import collect, forget_others
from .shard_list import list_shard
from .write import write_class, write_student, write_text

__all__ = ["Outcome", "grade_and_report", "write_reports"]


@dataclass
class Outcome:
    """Result of a grading run.

    Attributes
    ----------
    results : dict or None
        Content of `results.json`.
    failures : list of str
        Errors in the grader itself.
    stopped : bool
        Whether Ctrl-C stopped the run.
    how : Counter
        Number of submissions by outcome: "new", "kept", "changed" or "others" (see `grade_class`),
        or "failed" (error in the grader).
    forgotten : list of str
        Report folders of the students whose results were removed.
    """

    results: dict | None = None
    failures: list = field(default_factory=list)
    stopped: bool = False
    how: Counter = field(default_factory=Counter)
    forgotten: list = field(default_factory=list)


def grade_and_report(
    task, folder, out, *, level, jobs=1, limits=None, report=None, forget=False, roster=(),
    shard=None, run=None,
):  # fmt: skip
    """Grade all students' submissions and write the reports, even if grading fails or is stopped.

    Parameters
    ----------
    task, folder, out, level, jobs, limits, report, shard, run
        Arguments of `grade_class`.
    forget : bool, default False
        Whether to remove, after grading, the results of students who are not in `folder`.
    roster : sequence of str
        Names of all students in the class. The reports list the students without a submission.

    Returns
    -------
    Outcome

    Raises
    ------
    ArgumentError, DataError
        If there is nothing to grade, or `out` contains other results. In these cases, nothing is
        written.
    """
    outcome, out, why = Outcome(), Path(out), "not graded yet"

    def counted(document, done, total, how):
        outcome.how["failed" if document["status"] == "not graded" else how] += 1
        if report is not None:
            report(document, done, total, how)

    try:
        grade_class(
            task, folder, out, level=level, jobs=jobs, limits=limits, report=counted, shard=shard,
            run=run,
        )  # fmt: skip
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

        def collected():
            if shard is not None:
                list_shard(task, folder, out, why, roster, shard)
            return collect(task, folder, out, why, roster, shard)

        write_reports(outcome, out, collected)
    return outcome


def write_reports(outcome, out, collected):
    """Write all reports on the graded submissions, and note the errors in `outcome`.

    Parameters
    ----------
    outcome : Outcome
    out : path
        Folder of results.
    collected : callable
        Function that writes `results.json` and returns its content.
    """
    try:
        outcome.results = collected()
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
