"""One training session at the terminal: begin or resume, train, look at the result."""

import platform
from pathlib import Path

import click
import numpy as np

from .. import __version__
from ..backend import as_device
from ..errors import CheckpointError
from ..training import Progress, RunFolder
from ..training.character_gpt import CharacterGPT
from ..training.run_folder import free_name, newest_run
from . import DONE, FAILED, INTERRUPTED
from .console import command, console, table
from .interrupt import stop_on_signal
from .results import Results

__all__ = ["Session"]

PARENT = "runs"
CHANGEABLE = ("steps", "device")  # on --resume; everything else is part of the run


class Session:
    """What `mta tour` and `mta train gpt` do.

    Parameters
    ----------
    kind : str
        "tour" or "train gpt".
    options : dict
        All options of the recipe.
    given : dict
        Those that came from the user.
    out : str, optional
        The run folder.
    resume : int or str, optional
        Which checkpoint to go on from.
    minutes : float, optional
        Plan as many steps as fit into this time.
    """

    def __init__(self, kind, options, given, out=None, resume=None, minutes=None):
        self.kind = kind
        self.options = options
        self.given = given
        self.out = out
        self.resume = resume
        self.minutes = minutes
        self.console = console()

    def run(self):
        """Do it all.

        Returns
        -------
        int
            The exit code.
        """
        if self.options.get("text"):
            self.options["text"] = str(Path(self.options["text"]).absolute())
        as_device(self.options["device"])  # a device that is not there: say so first
        if self.resume is None:
            self._begin()
        else:
            self._reopen()
        try:
            code = self._train()
            if code == DONE:
                results = Results(self.recipe, self.folder, self.loop, self.console)
                code = DONE if results.show(self.baselines) else FAILED
                self._farewell()
            return code
        except KeyboardInterrupt:
            self._stopped("stopped at once")
            return INTERRUPTED

    # Beginning

    def _begin(self):
        """A new run: check everything that can be wrong before a folder is made."""
        prefix = self.kind.split()[-1]
        self.recipe = CharacterGPT(self.options)
        if self.minutes:
            self.recipe.options["steps"] = self.recipe.steps_in(60 * self.minutes)
        self.baselines = self.recipe.baselines()
        path = Path(self.out) if self.out else free_name(PARENT, prefix)
        config = {
            "minitorch_attn": __version__,
            "command": self.kind,
            "options": self.recipe.options,
            "text": {
                "name": self.recipe.text_name,
                "characters": self.recipe.characters,
                "sha256": self.recipe.text_digest,
            },
            "vocabulary": self.recipe.tokenizer.vocabulary,
            "parameters": _count(self.recipe.model),
            "baselines": self.baselines,
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
        }
        try:
            self.folder = RunFolder.create(path, config)
        except CheckpointError as error:
            if error.expected is None:
                raise
            raise CheckpointError(
                error.message,
                got=error.got,
                expected=error.expected,
                hint=f"another --out, or --resume to go on with a run in {path}",
            ) from None
        self._make_loop()
        self._introduce()

    def _reopen(self):
        """An old run, with its own options."""
        prefix = self.kind.split()[-1]
        path = self.out or newest_run(PARENT, prefix)
        if path is None:
            raise click.UsageError(
                f"--resume: there is no run {PARENT}/{prefix}-N here; --out names another folder."
            )
        self.folder = RunFolder.open(path)
        options = self.folder.config["options"]
        for name, value in self.given.items():
            if name == "text":
                value = str(Path(value).absolute())
            if name not in CHANGEABLE and options.get(name) != value:
                raise click.UsageError(
                    f"--{name.replace('_', '-')} {value}: the run in {path} has {options.get(name)}"
                    " and keeps it; only --steps, --minutes and --device can change."
                )
        changes = {name: self.given[name] for name in CHANGEABLE if name in self.given}
        self.recipe = CharacterGPT({**options, **changes})
        self.recipe.check_text(self.folder.config["text"]["sha256"])
        self.baselines = self.folder.config["baselines"]
        self._make_loop()
        step = self.loop.resume(self.resume)
        if self.minutes:
            self.recipe.options["steps"] = step + self.recipe.steps_in(60 * self.minutes)
        steps = self.recipe.options["steps"]
        if steps < step:
            raise click.UsageError(f"--steps {steps}: this run has made {step} steps already.")
        if self.recipe.options != options:
            self.folder.config["options"] = self.recipe.options
            self.folder.save_config()
        self.console.print(f"{self.folder.path}: going on from step {step:,} of {steps:,}\n")

    def _make_loop(self):
        extra = {"config": self.folder.config}
        self.loop = self.recipe.loop(self.folder, extra=extra)

    def _introduce(self):
        recipe, options = self.recipe, self.recipe.options
        self.console.print("A GPT learns to write, one character after the other.\n", style="bold")
        rows = [
            (
                "text",
                f"{recipe.text_name}: {recipe.characters:,} characters, "
                f"{len(recipe.tokenizer)} different",
            ),
            (
                "model",
                f"{_times(options['layers'], 'layer')}, {_times(options['heads'], 'head')}, "
                f"width {options['dim']}: {_count(recipe.model):,} parameters",
            ),
            (
                "training",
                f"{options['steps']:,} steps of {options['batch']} x {options['context']} "
                f"characters, {options['dtype']} on {options['device']}",
            ),
            ("folder", str(self.folder.path)),
        ]
        self.console.print(table(rows))
        self.console.print(
            "\nThe loss is the mean of -log p(next character), in nats. On the last tenth of\n"
            "the text, which the model is not trained on, counting alone achieves:\n"
        )
        meanings = {
            "uniform": "every character is equally likely",
            "unigram": "how often each character occurs",
            "bigram": "how often it follows the character before",
        }
        rows = [(f"{loss:.3f}", name, meanings[name]) for name, loss in self.baselines.items()]
        self.console.print(table(rows) + "\n")

    # Training

    def _train(self):
        """Train to the end, or to a Ctrl-C. Returns the exit code."""
        steps, start = self.recipe.options["steps"], self.loop.step
        progress = Progress(steps, self.recipe.tokens_per_step, start, self.console)
        with stop_on_signal(self.loop) as signals, progress:
            self.loop.on_log.append(progress)
            self.loop.on_step.append(progress.advance)
            finished = self.loop.train(steps)
        if finished:
            return DONE
        self._stopped("stopped")
        return 128 + signals[0] if signals else INTERRUPTED

    def _stopped(self, how):
        """Say what is saved and how to go on."""
        saved = self.folder.checkpoints.steps()
        steps = self.recipe.options["steps"]
        where = f"saved at step {saved[-1]:,} of {steps:,}" if saved else "nothing trained yet"
        resume = command(*self.kind.split(), "--out", self.folder.path, "--resume")
        self.console.print(f"\n{how}; {where} in {self.folder.path}\ngo on with: {resume}")

    def _farewell(self):
        path = self.folder.path
        self.console.print("\nWhat to do next\n", style="bold")
        rows = [
            (command("train", "gpt", "--minutes", 10), "train longer"),
            (command("train", "gpt", "--text", "FILE"), "learn from your own text"),
            (command("train", "gpt", "--help"), "see every option"),
        ]
        self.console.print(table(rows))
        self.console.print(
            f"\nLook at {path / 'attention.png'}, then read minitorch_attn/ops/attention.py and\n"
            "minitorch_attn/models/gpt.py: they are short, and they are all there is to it."
        )


def _count(model):
    """How many numbers a model learns."""
    return sum(parameter.array.size for parameter in model.parameters())


def _times(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")
