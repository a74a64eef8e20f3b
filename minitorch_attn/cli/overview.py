"""`mta` alone: where you are, what there is, and the next command."""

import json
from pathlib import Path

from .. import __version__
from ..course.catalogue import lessons
from ..course.exercises.load import exercises
from ..course.exercises.progress import ExerciseProgress
from ..course.progress import Progress
from ..errors import DataError, MiniTorchError
from ..training import RunFolder
from .console import command, console, program_name, table
from .lesson import next_lesson

__all__ = ["overview"]

_COMMANDS = [
    ("lesson list", "the lessons; lesson step NN goes through one"),
    ("exercise", "gradients with a mistake to find, or to be written"),
    ("course list", "assignments for a class, with a grader"),
    ("tour", "train a small GPT in about a minute"),
    ("train --list", "the tasks that can be trained"),
    ("generate FOLDER", "write on from --prompt TEXT"),
    ("attn FOLDER", "what each head looks at, in --text TEXT or --image FILE"),
    ("trace FILE", "every step of a program, forward and backward"),
    ("summary NAME", "layers and costs, as of vit_b_16"),
    ("doctor", "check this installation"),
]


def overview(parent="runs"):
    """Print how far the lessons are done, the runs in this folder, the commands, and the next one.

    Parameters
    ----------
    parent : str or path, default "runs"
    """
    out, name = console(), program_name()
    out.print(f"minitorch_attn {__version__}: attention and transformers, every line readable\n")
    out.print(table(_COMMANDS))
    out.print(f"\n{name} COMMAND --help lists the options of a command.")
    progress = Progress()
    where = _lessons(progress)
    if where:
        out.print(f"\nlessons   {where}")
    practice = _exercises()
    if practice:
        out.print(f"{'' if where else chr(10)}exercises {practice}")
    runs = _runs(Path(parent))
    if runs:
        out.print("\nruns here\n" + table([row for _, row in runs]))
    out.print(f"\nnext: {_next(runs, progress)}")
    if progress.note:
        out.print(f"\n{progress.note}")


def _next(runs, progress):
    """What was left undone last; else, in turn, the tour and the next lesson."""
    stopped = [path for path, row in runs if row[-1] == "stopped"]
    latest = progress.latest()
    left = latest if latest and progress.cell(latest) else None
    if stopped and not (left and progress.when(left) > _changed(stopped[-1])):
        kind = RunFolder.open(stopped[-1]).config.get("command", "tour").split()
        return command(*kind, "--out", stopped[-1], "--resume")
    if not runs and latest is None:
        return command("tour")
    try:
        following = next_lesson(progress)
    except DataError:
        following = None
    if following is None:
        return command("train", "gpt", "--minutes", 5)
    return command("lesson", "step", following.number)


def _lessons(progress):
    """How far the lessons are done, and where one was left."""
    try:
        known = lessons()
    except DataError:
        return ""
    done = sum(progress.is_done(item.number) for item in known)
    text = f"{done} of {len(known)} done"
    latest = progress.latest()
    if latest and progress.cell(latest):
        item = next((item for item in known if item.number == latest), None)
        if item:
            place = f"cell {progress.cell(latest) + 1} of {len(item.cells)}"
            text += f"; {latest} left at {place}"
    return text


def _exercises():
    """How many exercises are solved, and the one to go on with."""
    try:
        known = exercises()
    except DataError:
        return ""
    progress = ExerciseProgress()
    done = sum(progress.is_solved(item.name) for item in known)
    following = progress.current(known)
    text = f"{done} of {len(known)} solved"
    return text if following is None else f"{text}; next: {following.number} {following.title}"


def _changed(run):
    """Seconds since 1970 of the last line that a run has logged."""
    files = [run / "metrics.jsonl", run / "config.json"]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0)


def _runs(parent):
    """(path, row of the table) of every run folder in `parent`, oldest first."""
    found = []
    for config in sorted(parent.glob("*/config.json"), key=lambda path: path.stat().st_mtime):
        try:
            found.append((config.parent, _row(RunFolder.open(config.parent))))
        except (MiniTorchError, KeyError, TypeError, json.JSONDecodeError):
            found.append((config.parent, (str(config.parent), "", "", "unreadable")))
    return found


def _row(run):
    saved = run.checkpoints.steps()
    step, steps = saved[-1] if saved else 0, run.config["options"]["steps"]
    losses = [m["validation_loss"] for m in run.metrics() if "validation_loss" in m]
    loss = f"validation loss {losses[-1]:.3f}" if losses else ""
    state = "done" if step >= steps else "stopped"
    return str(run.path), f"{step:,} of {steps:,} steps", loss, state
