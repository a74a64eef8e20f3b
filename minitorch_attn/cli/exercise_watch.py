"""`mta exercise` in a terminal: check the learner's file again whenever it is saved."""

from ..course.exercises.check import check_file
from ..course.exercises.watch import Watched
from . import DONE
from .exercise_page import (
    bar,
    hint_count,
    listing,
    near,
    show_explanation,
    show_hints,
    show_outcome,
    show_task,
)
from .keys import keys_at_once, read_key

__all__ = ["Watcher"]

_POLL_SECONDS = 0.3
_KEYS = "h: hint   l: list   n: next   r: check again   q: quit"


class Watcher:
    """Shows an exercise and the result of its check, until the user moves on to another exercise.

    Parameters
    ----------
    known : list of Exercise
        All exercises, in order.
    work : WorkFolder
        Folder with the user's copies of the exercises.
    progress : ExerciseProgress
    out : rich.console.Console
    seconds : float
        Time limit of one check in seconds.
    """

    def __init__(self, known, work, progress, out, seconds):
        self.known, self.work, self.progress = known, work, progress
        self.out, self.seconds, self.causes = out, seconds, ""

    def run(self, exercise):
        """Show and check one exercise after another, until the user quits.

        Returns
        -------
        int
            Exit status.
        """
        with keys_at_once():
            try:
                while exercise is not None:
                    exercise = self._watch(exercise)
            except (KeyboardInterrupt, EOFError):
                self.out.print()
        return DONE

    def _watch(self, exercise):
        """Check one exercise whenever it is saved. Return the next exercise, or None to quit."""
        if self.work.start(exercise):
            self.progress.use_folder(self.work.path)
        self.progress.begin(exercise.name)
        watched = Watched(self.work.file(exercise))
        self._check(exercise)
        while True:
            key = read_key(_POLL_SECONDS)
            if watched.changed() or key == "r":
                self._check(exercise)
            elif key == "h":
                self._hint(exercise)
            elif key == "l":
                self.out.print("\n" + listing(self.known, self.progress, self.work))
                self._footer(exercise)
            elif key in ("n", "\x1b[C"):
                following = self._following(exercise)
                if following is not None:
                    return following
                self.out.print("all other exercises are solved")
            elif key in ("q", "\x04"):
                return None

    def _check(self, exercise):
        self.out.clear()
        show_task(self.out, exercise, self.work.file(exercise), len(self.known))
        self.out.print("\nchecking ...", style="dim")
        outcome = check_file(exercise, self.work.file(exercise), self.seconds, self.out.width)
        self.out.print()
        self.causes = outcome.causes
        show_outcome(self.out, exercise, outcome)
        if outcome.passed:
            self.progress.solve(exercise.name)
            self.out.print()
            show_explanation(self.out, exercise)
        else:
            count = self.progress.hints(exercise.name)
            if count:
                self.out.print()
                show_hints(self.out, exercise, count, self.causes)
        self._footer(exercise)

    def _hint(self, exercise):
        most = hint_count(exercise, self.causes)
        count = min(self.progress.hints(exercise.name) + 1, most)
        self.progress.hint_given(exercise.name, count)
        self.out.print()
        show_hints(self.out, exercise, count, self.causes)
        self._footer(exercise)

    def _footer(self, exercise):
        done = sum(self.progress.is_solved(item.name) for item in self.known)
        self.out.print(f"\n{bar(done, len(self.known))}")
        if self.progress.note:
            self.out.print(self.progress.note)
        if done == len(self.known):
            self.out.print("All exercises are solved.", style="bold green")
        first = self.progress.first_open(self.known)
        if first is not None and first.number < exercise.number:
            self.out.print(f"first unsolved: {first.number} {first.title}")
        where = near(self.work.file(exercise))
        self.out.print(f"{_KEYS}\nwaiting for {where} to be saved", style="dim")

    def _following(self, exercise):
        """Return the next unsolved exercise, starting over after the last one."""
        at = self.known.index(exercise)
        rest = self.known[at + 1 :] + self.known[:at]
        return next((item for item in rest if not self.progress.is_solved(item.name)), None)
