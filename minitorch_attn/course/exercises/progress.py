"""Progress: record solved exercises in the same file as the progress in the lessons."""

from pathlib import Path

from ..progress import Progress

__all__ = ["ExerciseProgress"]


class ExerciseProgress(Progress):
    """A student's progress in the lessons and exercises, stored in one file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = ExerciseProgress(Path(folder) / "progress.json")
    ...     progress.hint_given("03_softmax", 2)
    ...     progress.solve("03_softmax")
    ...     again = ExerciseProgress(progress.path)
    >>> again.hints("03_softmax"), again.is_solved("03_softmax"), again.is_solved("04_x")
    (2, True, False)
    """

    def exercise(self, name):
        """Return an exercise's fields "solved", "hints" and "when", or {} if it was not started."""
        table = self.fields.get("exercises")
        found = table.get(name) if isinstance(table, dict) else None
        return found if isinstance(found, dict) else {}

    def is_solved(self, name):
        """Return whether the exercise has passed its check."""
        return bool(self.exercise(name).get("solved"))

    def hints(self, name):
        """Return the number of hints shown for an exercise."""
        count = self.exercise(name).get("hints", 0)
        return count if isinstance(count, int) and count > 0 else 0

    def begin(self, name):
        """Record that the exercise was started."""
        self._change(name, {}, "exercises")

    def when_exercise(self, name):
        """Return when the exercise's entry last changed, in seconds since 1970, or 0 for never."""
        when = self.exercise(name).get("when", 0)
        return when if isinstance(when, (int, float)) else 0

    def solve(self, name):
        """Record that the exercise has passed its check."""
        self._change(name, {"solved": True}, "exercises")

    def reopen(self, name):
        """Mark the exercise as unsolved, and reset its number of hints to 0."""
        self._change(name, {"solved": False, "hints": 0}, "exercises")

    def hint_given(self, name, count):
        """Record the number of hints shown for an exercise."""
        self._change(name, {"hints": count}, "exercises")

    def current(self, known):
        """Find the exercise to continue with.

        This is the most recently used unsolved exercise. If there is none, it is the first
        unsolved exercise after the last solved one, or else the first unsolved exercise.

        Parameters
        ----------
        known : list of Exercise
            All exercises, in order.

        Returns
        -------
        Exercise or None
            None if all exercises are solved.
        """
        open_ones = [item for item in known if not self.is_solved(item.name)]
        begun = [item for item in open_ones if self.when_exercise(item.name)]
        if begun:
            return max(begun, key=lambda item: self.when_exercise(item.name))
        solved = [item for item in known if self.is_solved(item.name)]
        latest = max(solved, key=lambda item: self.when_exercise(item.name), default=None)
        later = [item for item in open_ones if latest and item.number > latest.number]
        return (later or open_ones or [None])[0]

    def first_open(self, known):
        """Return the first exercise that is not solved, or None."""
        return next((item for item in known if not self.is_solved(item.name)), None)

    @property
    def work_folder(self):
        """Exercise folder that was used last, or None."""
        found = self._entry("exercise_work", "folder").get("path")
        return Path(found) if isinstance(found, str) else None

    def use_folder(self, path):
        """Store the path of the folder with the student's exercise files."""
        if self.work_folder != path:
            self._change("folder", {"path": str(path)}, "exercise_work")

    def _entry(self, table, key):
        fields = self.fields.get(table)
        found = fields.get(key) if isinstance(fields, dict) else None
        return found if isinstance(found, dict) else {}
