"""`mta` alone: what there is, what has been run here, and the next command."""

import json
from pathlib import Path

from .. import __version__
from ..errors import MiniTorchError
from ..training import RunFolder
from .console import command, console, program_name, table

__all__ = ["overview"]


def overview(parent="runs"):
    """Print the commands, the runs in this folder, and a command to go on with."""
    out, name = console(), program_name()
    out.print(f"minitorch_attn {__version__}: attention and transformers, every line readable\n")
    commands = [
        (f"{name} tour", "train a small GPT in about a minute"),
        (f"{name} train gpt", "the same with every option"),
        (f"{name} train --list", "the other tasks"),
        (f"{name} generate FOLDER", "write on from --prompt TEXT"),
        (f"{name} summary NAME", "layers and costs, as of vit_b_16"),
        (f"{name} COMMAND --help", "the options of a command"),
    ]
    out.print(table(commands))
    runs = _runs(Path(parent))
    if runs:
        out.print("\nruns here\n" + table([row for _, row in runs]))
    unfinished = [path for path, row in runs if row[-1] == "stopped"]
    if unfinished:
        kind = RunFolder.open(unfinished[-1]).config.get("command", "tour").split()
        next_command = command(*kind, "--out", unfinished[-1], "--resume")
    else:
        next_command = command("train", "gpt", "--minutes", 5) if runs else command("tour")
    out.print(f"\nnext: {next_command}")


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
