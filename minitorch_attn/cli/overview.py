"""`mta` without a command: show an overview of your progress, the commands and the next step."""

from pathlib import Path

from .. import __version__
from ..course.build.progress import BuildProgress
from ..course.build.steps import load_steps
from ..course.exercises.load import exercises
from ..course.exercises.progress import ExerciseProgress
from ..course.lesson_list import lessons
from ..course.progress import Progress
from ..errors import DataError, MiniTorchError
from ..training import RunFolder
from ..training.recipes import check_run
from .console import command, console, program_name, table
from .lesson import next_lesson

__all__ = ["overview"]

_COMMANDS = [
    ("lesson list", "list the lessons; lesson step NN steps through one"),
    ("build", "write a GPT of your own from an empty file, in eight steps"),
    ("exercise", "find mistakes in gradients, and write gradients"),
    ("course list", "list the assignments for a class; course grade grades them"),
    ("tour", "train a small GPT in about a minute"),
    ("train --list", "list the recipes; train RECIPE trains a model"),
    ("generate FOLDER", "continue a text, given with --prompt TEXT"),
    ("attn FOLDER", "show the attention heads on --text TEXT or --image FILE"),
    ("trace FILE", "record every forward and backward step of a script"),
    ("summary NAME", "list the layers and costs of a model, such as vit_b_16"),
    ("doctor", "check this installation"),
]


def overview(parent="runs"):
    """Print the commands, the progress, the runs in this folder, and the next command.

    Parameters
    ----------
    parent : str or path, default "runs"
        Folder that contains the run folders.
    """
    out, name = console(), program_name()
    out.print(f"minitorch_attn {__version__}: attention and transformers, readable line by line\n")
    out.print(table(_COMMANDS))
    out.print(f"\n{name} COMMAND --help shows the options and the source file.")
    progress = Progress()
    where = _lessons(progress)
    if where:
        out.print(f"\nlessons   {where}")
    practice = _exercises()
    if practice:
        out.print(f"{'' if where else chr(10)}exercises {practice}")
    own = _build()
    if own:
        out.print(f"build     {own}")
    runs = _runs(Path(parent))
    if runs:
        out.print("\nruns here\n" + table([row for _, row in runs]))
    out.print(f"\nnext: {_next(runs, progress)}")
    if progress.note:
        out.print(f"\n{progress.note}")


def _next(runs, progress):
    """Choose the next command: resume the last stopped run, take the tour, or open a lesson."""
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
    """Describe how many lessons are done, and where the user stopped."""
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
            text += f"; lesson {latest} stopped at {place}"
    turns = [(item.number, turn.name) for item in known for turn in item.turns]
    solved = sum(name in progress.solved(number) for number, name in turns)
    if solved:
        text += f"; your turn {solved}/{len(turns)}"
    if any(Path("runs", "lessons").glob("*/*.ipynb")):
        text += "; work in lesson notebooks is not counted"
    return text


def _exercises():
    """Describe how many exercises are solved, and which one is next."""
    try:
        known = exercises()
    except DataError:
        return ""
    progress = ExerciseProgress()
    done = sum(progress.is_solved(item.name) for item in known)
    following = progress.current(known)
    text = f"{done} of {len(known)} solved"
    if following is None:
        return text
    text += f"; next: {following.number} {following.title}"
    first = progress.first_open(known)
    return text if first is following else f"{text}; first unsolved: {first.number} {first.title}"


def _build():
    """Describe which step of `mta build` is next; "" if no step was ever started."""
    progress = BuildProgress()
    if progress.file is None:
        return ""
    known = load_steps()
    step = progress.current(known)
    if step is None:
        return f"all {len(known)} steps done: you have written a GPT"
    return f"step {step.number} of {len(known)}: {step.title}"


def _changed(run):
    """Return the time of the last change to a run's metrics, in seconds since 1970."""
    files = [run / "metrics.jsonl", run / "config.json"]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0)


def _runs(parent):
    """Return the path and the columns to print for each run folder in `parent`, oldest first."""
    found = []
    for config in sorted(parent.glob("*/config.json"), key=lambda path: path.stat().st_mtime):
        try:
            found.append((config.parent, _row(RunFolder.open(config.parent))))
        except MiniTorchError:
            found.append((config.parent, (str(config.parent), "", "", "unreadable")))
    return found


def _row(run):
    saved = run.checkpoints.steps()
    step, steps = saved[-1] if saved else 0, check_run(run)["steps"]
    losses = [m["validation_loss"] for m in run.metrics() if "validation_loss" in m]
    loss = f"validation loss {losses[-1]:.3f}" if losses else ""
    state = "running" if run.is_running() else "done" if step >= steps else "stopped"
    return str(run.path), f"{step:,} of {steps:,} steps", loss, state
