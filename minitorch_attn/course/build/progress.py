"""Progress in `mta build`: steps passed and hints shown, stored with lesson progress."""

from pathlib import Path

from ..progress import Progress

__all__ = ["BuildProgress"]


class BuildProgress(Progress):
    """A student's progress in `mta build`, stored with the progress in lessons and exercises.

    Examples
    --------
    >>> import tempfile
    >>> from .steps import load_steps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = BuildProgress(Path(folder) / "progress.json")
    ...     progress.finish_step(load_steps()[0])
    ...     again = BuildProgress(progress.path)
    >>> again.current(load_steps()).number
    2
    """

    def has_passed(self, step):
        """Return whether the check of a step has passed."""
        return bool(self._build(step.key).get("passed"))

    def finish_step(self, step):
        """Record that the check of a step has passed."""
        self._change(step.key, {"passed": True}, "build")

    def current(self, known):
        """Return the first step that has not passed, or None."""
        return next((step for step in known if not self.has_passed(step)), None)

    def after(self, place, known):
        """Return the first unfinished lesson or step after `place` on the path to GPT.

        Parameters
        ----------
        place : str or Step
            Number of a lesson, or a step.
        known : list of Step

        Returns
        -------
        str, Step or None
            Number of a lesson that is not done, or a step that has not passed. None if everything
            after `place` is done, or if `place` is not on the path.
        """
        path = [item for step in known for item in (*step.lessons, step)]
        later = path[path.index(place) + 1 :] if place in path else []
        undone = (item for item in later if not self._is_over(item))
        return next(undone, None)

    def _is_over(self, place):
        return self.is_done(place) if isinstance(place, str) else self.has_passed(place)

    def is_hinted(self, name):
        """Return whether the hint for a function was shown."""
        return bool(self._build(name).get("hinted"))

    def hint_given(self, name):
        """Record that the hint for a function was shown."""
        self._change(name, {"hinted": True}, "build")

    def digests(self):
        """Return {name: digest} for the functions that notebook cells put into the file."""
        table = self.fields.get("build")
        names = table if isinstance(table, dict) else ()
        found = {name: self._build(name).get("cell") for name in names}
        return {name: text for name, text in found.items() if isinstance(text, str)}

    def put_from_cell(self, name, digest):
        """Record the digest of a function that a notebook cell put into the file."""
        if self._build(name).get("cell") != digest:
            self._change(name, {"cell": digest}, "build")

    def passed_functions(self):
        """Return {name: digest} for the functions that have passed their checks."""
        table = self.fields.get("build")
        names = table if isinstance(table, dict) else ()
        found = {name: self._build(name).get("checked") for name in names}
        return {name: text for name, text in found.items() if isinstance(text, str)}

    def function_passed(self, name, digest):
        """Record that a function has passed its check, with the digest of its text."""
        if self._build(name).get("checked") != digest:
            self._change(name, {"checked": digest}, "build")

    @property
    def file(self):
        """Path of the file that was used last, or None."""
        found = self._build("file").get("path")
        return Path(found) if isinstance(found, str) else None

    def use_file(self, path):
        """Store the path of the learner's file."""
        if self.file != path:
            self._change("file", {"path": str(path)}, "build")

    def _build(self, key):
        table = self.fields.get("build")
        found = table.get(key) if isinstance(table, dict) else None
        return found if isinstance(found, dict) else {}
