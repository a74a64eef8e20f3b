"""Your turn in `mta lesson step`: edit and check a function, show a hint or the answer."""

import os
import shlex
import subprocess

from ..course.exercises.watch import Watched
from ..course.exercises.work import WorkFolder, near
from .keys import read_key

__all__ = ["TurnDesk", "solved_of"]


class TurnDesk:
    """Opens, watches and checks the files in which the learner writes the functions of a lesson.

    Parameters
    ----------
    run : LessonRun
    progress : ExerciseProgress
    out : rich.console.Console
    """

    def __init__(self, run, progress, out):
        self.run, self.progress, self.out = run, progress, out
        self.work = WorkFolder(None, progress.work_folder)
        self.turns = {turn.at: turn for turn in run.lesson.turns}
        self.watched = None  # the file of the turn that is shown

    def code(self, turn):
        """Return the learner's code, or the stub if there is no file, and its first line number."""
        file = self.work.file(turn)
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return turn.unanswered, turn.line
        first = next((i for i, line in enumerate(lines) if line.strip() and line[0] != "#"), 0)
        return "\n".join(lines[first:]), first + 1

    def check(self, turn):
        """Check the learner's version of the function and, if it is correct, record it as solved.

        Returns
        -------
        passed : bool
        text : str
            Result for the learner.
        """
        file = self.work.file(turn)
        try:
            passed, text = self.run.check_turn(turn, file if file.exists() else None)
        except KeyboardInterrupt:
            return False, "the check was interrupted\n"
        if passed:
            self.progress.solve_turn(turn.lesson, turn.name)
            text += f"solved: {solved_of(self.run.lesson, self.progress)}\n"
        return passed, text or "not written yet: e opens it in your editor\n"

    def watch(self, turn):
        """Begin to watch the learner's file."""
        self.watched = Watched(self.work.file(turn))

    def is_saved(self):
        """Return whether the watched file was saved since the last call."""
        return self.watched is not None and self.watched.changed()

    def edit(self, turn):
        """Open the learner's file in the editor that VISUAL or EDITOR names."""
        file = self.work.file(turn)
        try:
            if self.work.start(turn):
                self.progress.use_folder(self.work.path)
        except OSError as error:
            self.out.print(f"{near(file)} could not be written: {error.strerror}")
            return
        self.watch(turn)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if editor:
            self.out.print(f"opening {near(file)}; it is checked when you save it", style="dim")
            try:
                subprocess.run(
                    [*shlex.split(editor, posix=os.name == "posix"), str(file)], check=False
                )
                return
            except (OSError, ValueError) as error:
                self.out.print(f"the editor {editor!r} did not start: {error}")
        self.out.print(f"Open {near(file)} in your editor. It is checked here when you save it.")
        if not editor:
            self.out.print("To open it with e, set the environment variable EDITOR.", style="dim")

    def wants_answer(self):
        """Ask whether to show the answer."""
        self.out.print("Show the answer? y: yes, any other key: no ", end="")
        try:
            yes = read_key() in ("y", "Y")
        except (EOFError, KeyboardInterrupt):
            yes = False
        self.out.print("yes" if yes else "no")
        return yes


def solved_of(lesson, progress):
    """Describe how many functions of a lesson are solved, such as "your turn 2/3".

    Return "" if the lesson has no functions to write.
    """
    if not lesson.turns:
        return ""
    solved = sum(turn.name in progress.solved(lesson.number) for turn in lesson.turns)
    return f"your turn {solved}/{len(lesson.turns)}"
