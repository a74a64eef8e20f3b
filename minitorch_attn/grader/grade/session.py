"""Grading session for one submission: run its checks one by one, each with a time limit."""

import re
import time

import numpy as np

from .first_step import first_step
from .gradients import gradient_report
from .judge import Verdict, judge
from .step_list import library_steps, read_steps
from .steps import MOST_BYTES
from .submission_process import Worker, WorkerFailed

__all__ = ["Session", "clean"]

OUTPUT_CHARACTERS = 10_000
STEP_SECONDS = 5.0  # time limit in seconds for recording the steps of one check
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]"
    r"|[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]"  # control characters and surrogates
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # text direction marks
)


class Session:
    """Runs the checks of one submission, and starts a new worker after any failure.

    If the machine was too busy for a check, the check runs once more. If a submission cannot be
    imported in two successive workers, it is not run again.

    Parameters
    ----------
    sandbox : Sandbox
    package_folder : path
        Folder of the package that the submission completes.
    files : dict of str to bytes
        Content of each submitted file, by path.
    steps : bool, default False
        Whether to repeat a failed check to find the first step whose result differs from the
        library's.
    after : Session, optional
        Earlier session with the same submission. Its time counts toward the total time limit.

    Attributes
    ----------
    output : str
        Text that the submission printed, truncated and without control characters.
    used : float
        Time in seconds that the submission has used, as counted by `Clock`.

    Examples
    --------
    >>> with Session(sandbox, package_folder, files) as session:  # doctest: +SKIP
    ...     verdict = session.verdict(check)
    """

    def __init__(self, sandbox, package_folder, files, steps=False, after=None):
        self.sandbox, self.package_folder, self.files = sandbox, package_folder, files
        self.output, self.steps = "", steps
        self.used = after.used if after else 0.0
        self._worker, self._lost, self._useless = None, 0, after._useless if after else None

    def verdict(self, check):
        """Run one check on the submission and return the verdict, such as passed or failed.

        Parameters
        ----------
        check : Check

        Returns
        -------
        Verdict
        """
        start = time.monotonic()
        try:
            verdict = self._judged(check)
        except WorkerFailed as failure:
            if failure.starved:
                verdict = self._once_more(check)
            else:
                verdict = self._failed(failure)
        verdict.seconds = time.monotonic() - start
        if self.steps and verdict.status == "failed":
            verdict.first_step = self._first_step(check)
        return verdict

    def _first_step(self, check):
        """Find the first step of a failed check whose result differs from the library's.

        An error here does not change the points. If the worker fails, no more steps are requested.
        """
        files = list(self.files)
        try:
            answer, arrays = self._worker.ask(
                {**check.header(), "steps": files}, check.inputs, STEP_SECONDS, MOST_BYTES
            )
            texts = {name: _text(data) for name, data in self.files.items()}
            mine = read_steps(answer.get("steps"), arrays.get("numbers"), files)
            return first_step(mine, library_steps(check, files), check.rtol, texts)
        except WorkerFailed:
            self.close()
            self.steps = False
        except Exception:  # the submission sent malformed steps
            pass
        return None

    def _failed(self, failure):
        self.close()
        return Verdict(failure.kind, str(failure))

    def _once_more(self, check):
        self.close()
        try:
            return self._judged(check)
        except WorkerFailed as failure:
            return self._failed(failure)

    def _judged(self, check):
        if self._useless is not None:
            return Verdict(self._useless.kind, f"not run: {self._useless} (twice)")
        running = self._worker.used if self._worker is not None else 0.0
        if self.used + running > self.sandbox.limits.total_seconds:
            return Verdict("timeout", _ALL_USED.format(self.sandbox.limits.total_seconds))
        if self._worker is None:
            self._worker = Worker(self.sandbox, self.package_folder, self.files)
            self._worker.start()
            self._import()
        answer, arrays = self._worker.ask(
            check.header(), check.inputs, check.limit_s, check.max_bytes
        )
        if answer.get("status") != "done":
            text = clean(str(answer.get("text", "")))
            hint = _NO_MODULE if text.startswith(("ModuleNotFoundError", "ImportError")) else ""
            return Verdict("error", f"your code raised an error:\n{text.strip()}{hint}")
        verdict = judge(check, arrays)
        if not verdict.passed:
            verdict.gradcheck = _gradients_explained(check, arrays)
        return verdict

    def _import(self):
        """Import the submission. If that fails, the checks that need it report the error."""
        limits = self.sandbox.limits
        header = {"driver": _IMPORT, "settings": {"files": list(self.files)}, "wanted": []}
        try:
            self._worker.ask(header, {}, limits.import_seconds, 4096)
            self._lost = 0
        except WorkerFailed as failure:
            text = f"the package could not be imported: {failure}"
            failure = WorkerFailed(failure.kind, text, failure.starved)
            self._lost += not failure.starved
            if self._lost == 2:
                self._useless = failure
            raise failure from None

    def close(self):
        """Kill the worker process, if it exists, and keep its output."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.close()
            self.used += worker.used
            self.output = clean(self.output + worker.output)[:OUTPUT_CHARACTERS]

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


_ALL_USED = "not run: the checks before this one used the time limit for a submission, {:g} s"
_NO_MODULE = """
Only NumPy, the standard library, and the files that the task asks for are available.\
"""
_IMPORT = """
def run(inputs, settings):
    from importlib import import_module

    for path in settings["files"]:
        try:
            import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        except BaseException:
            pass
    return {}
"""


def _gradients_explained(check, arrays):
    """Return a report on wrong gradients, or None if the untrusted arrays cause an exception."""
    try:
        with np.errstate(all="ignore"):
            return gradient_report(check, arrays)
    except Exception:
        return None


def _text(data):
    return clean(data.decode("utf-8", errors="replace").replace("\t", "    "))


def clean(text):
    r"""Remove escape sequences and control characters from a text.

    Examples
    --------
    >>> clean("\x1b[31mred\x1b[0m\x07\n")
    'red\n'
    """
    return _CONTROL.sub("", text)
