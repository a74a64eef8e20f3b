"""Record which functions have passed their checks in `mta build`, and notice later changes."""

from .cell_source import function_text
from .steps import functions_of, unwritten
from .work_file import digest

__all__ = ["PassedFunctions"]


class PassedFunctions:
    """The functions that have passed their checks.

    Parameters
    ----------
    steps : list of Step
    progress : BuildProgress
        Progress of the learner, in which passed functions are recorded.
    stored : bool, default True
        Whether to record passed functions in `progress`. Otherwise, only this object stores them.
    """

    def __init__(self, steps, progress, stored=True):
        self.progress, self.stored = progress, stored
        self._known = {item.name: step for step in steps for item in step.functions}
        self._here = {}  # name -> digest of the text that has passed

    def left(self, names, text):
        """Return the functions that have not passed, or that have changed since they passed.

        Parameters
        ----------
        names : iterable of str
        text : str
            The learner's file, valid Python.

        Returns
        -------
        list of str
        """
        now, passed = self._digests(text), {**self.progress.passed_functions(), **self._here}
        return [name for name in names if not self._is_over(name, now.get(name), passed)]

    def _is_over(self, name, now, passed):
        if now is None:
            return False
        if name in passed:
            return passed[name] == now
        return self.progress.has_passed(self._known[name])

    def remember(self, outcome, text):
        """Remember the functions that have passed.

        Parameters
        ----------
        outcome : StepOutcome
        text : str
            The file that was checked.
        """
        now = self._digests(text)
        for part in outcome.parts:
            if part.passed and part.name in now:
                self._here[part.name] = now[part.name]
                if self.stored:
                    self.progress.function_passed(part.name, now[part.name])

    def _digests(self, text):
        """Return {name: digest} for the steps' functions in `text` that are no longer stubs."""
        empty, found = unwritten(text), functions_of(text)
        names = [name for name in found if name in self._known and name not in empty]
        return {name: digest(function_text(text, name)) for name in names}
