"""One submission: its checks one after the other, each with a limit, each with a verdict."""

import re
import time

import numpy as np

from .first_step import first_step
from .gradients import gradient_report
from .judge import Verdict, judge
from .process import Worker, WorkerFailed
from .step_list import library_steps, read_steps
from .steps import MOST_BYTES

__all__ = ["Session", "clean"]

OUTPUT_CHARACTERS = 10_000
STEP_SECONDS = 5.0  # for the steps of one check
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]"
    r"|[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]"  # half a character is none
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the order of a line
)


class Session:
    """Asks one submission for computations; a worker is replaced after any failure.

    A check for which the machine had no time is asked for once more. What fails to be imported in
    two workers running is asked for nothing any more.

    Parameters
    ----------
    sandbox : Sandbox
    package_folder : path
        The package that the submission completes.
    files : dict of str to bytes
        The submission.
    steps : bool, default False
        Compute what gave a wrong result a second time, to find the first step that differs.

    Attributes
    ----------
    output : str
        What the submission has printed, without control characters, cut to the limit.

    Examples
    --------
    >>> with Session(sandbox, package_folder, files) as session:  # doctest: +SKIP
    ...     verdict = session.verdict(check)
    """

    def __init__(self, sandbox, package_folder, files, steps=False):
        self.sandbox, self.package_folder, self.files = sandbox, package_folder, files
        self.output, self.steps = "", steps
        self._worker, self._lost, self._useless = None, 0, None

    def verdict(self, check):
        """Ask for one computation and judge it.

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
        """Where a wrong result comes from: nothing that goes wrong here costs a point, or a report.

        A submission that does not answer is asked for no more steps.
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
        except Exception:  # of steps that nobody would record
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
            return Verdict(self._useless.kind, f"not asked for: {self._useless}, twice")
        if self._worker is None:
            self._worker = Worker(self.sandbox, self.package_folder, self.files)
            self._worker.start()
            self._import()
        answer, arrays = self._worker.ask(
            check.header(), check.inputs, check.limit_s, check.max_bytes
        )
        if answer.get("status") != "done":
            text = clean(str(answer.get("text", "")))
            return Verdict("error", f"it raised an error:\n{text.strip()}")
        verdict = judge(check, arrays)
        if not verdict.passed:
            verdict.gradcheck = _gradients_explained(check, arrays)
        return verdict

    def _import(self):
        """Import what was handed in; its errors are those of the checks that need it."""
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
        """End the process, if there is one, and keep what it printed."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.close()
            self.output = clean(self.output + worker.output)[:OUTPUT_CHARACTERS]

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


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
    """A report on wrong gradients; arrays of any origin may bring guessing to raise anything."""
    try:
        with np.errstate(all="ignore"):
            return gradient_report(check, arrays)
    except Exception:
        return None


def _text(data):
    return clean(data.decode("utf-8", errors="replace").replace("\t", "    "))


def clean(text):
    r"""Text without escape sequences and control characters.

    Examples
    --------
    >>> clean("\x1b[31mred\x1b[0m\x07\n")
    'red\n'
    """
    return _CONTROL.sub("", text)
