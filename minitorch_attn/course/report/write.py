"""The files of a graded class: none of them missing because another one could not be made."""

import traceback
from pathlib import Path

from ...files import atomic_file, write_json
from .feedback import feedback
from .grades import grades
from .gradescope import gradescope
from .junit import junit

__all__ = ["write_class", "write_student", "write_text"]


def write_student(document, folder):
    """Write what one student gets: `results.json` in Gradescope's form, and `feedback.html`.

    Parameters
    ----------
    document : dict
    folder : path
        Made if it is not there.

    Returns
    -------
    list of str
        What could not be written, and why.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return _each({
        "results.json": lambda: write_json(folder / "results.json", gradescope(document)),
        "feedback.html": lambda: write_text(folder / "feedback.html", feedback(document)),
    })  # fmt: skip


def write_class(results, folder):
    """Write `grades.csv` and `junit.xml`.

    Parameters
    ----------
    results : dict
        The content of `results.json`.
    folder : path

    Returns
    -------
    list of str
        What could not be written, and why.
    """
    folder = Path(folder)
    return _each({
        "grades.csv": lambda: write_text(folder / "grades.csv", grades(results)),
        "junit.xml": lambda: write_text(folder / "junit.xml", junit(results)),
    })  # fmt: skip


def _each(writers):
    """Run them all; what failed."""
    failed = []
    for name, write in writers.items():
        try:
            write()
        except Exception:
            failed.append(f"{name}: {traceback.format_exc()}")
    return failed


def write_text(path, text):
    """Write text, or bytes, whole or not at all."""
    with atomic_file(path) as file:
        file.write(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
