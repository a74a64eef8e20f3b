"""Write the report files of a graded class. An error in one file does not affect the others."""

import traceback
from pathlib import Path

from ...files import atomic_file, write_json
from .feedback import feedback
from .grades import grades
from .gradescope import gradescope
from .junit import junit

__all__ = ["write_class", "write_student", "write_text"]


def write_student(document, folder):
    """Write one student's files: `results.json` in Gradescope's format, and `feedback.html`.

    Parameters
    ----------
    document : dict
    folder : path
        Folder to write to, created if missing.

    Returns
    -------
    list of str
        Name and error of each file that could not be written.
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
        Content of `results.json`.
    folder : path
        Folder to write to.

    Returns
    -------
    list of str
        Name and error of each file that could not be written.
    """
    folder = Path(folder)
    return _each({
        "grades.csv": lambda: write_text(folder / "grades.csv", grades(results)),
        "junit.xml": lambda: write_text(folder / "junit.xml", junit(results)),
    })  # fmt: skip


def _each(writers):
    """Call every function of `writers`. Return the name and traceback of each that failed."""
    failed = []
    for name, write in writers.items():
        try:
            write()
        except Exception:
            failed.append(f"{name}: {traceback.format_exc()}")
    return failed


def write_text(path, text):
    """Write text or bytes atomically."""
    with atomic_file(path) as file:
        file.write(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
