"""One training session at the terminal: begin or resume, train, look at the result."""

import platform
from pathlib import Path

import click
import numpy as np

from .. import __version__
from ..backend import as_device
from ..errors import CheckpointError
from ..training import Progress, RunFolder
from ..training.progress import duration
from ..training.run_folder import free_name, newest_run
from . import DONE, FAILED, INTERRUPTED
from .console import command, console
from .interrupt import stop_on_signal
from .page import Page

__all__ = ["Session"]

PARENT = "runs"
_CHANGEABLE = "only --steps, --minutes and --device"


class Session:
    """What `mta tour` and `mta train RECIPE` do.

    Parameters
    ----------
    kind : str
        "tour" or "train RECIPE".
    recipe_class : type
        A subclass of `Recipe`.
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

    def __init__(self, kind, recipe_class, options, given, out=None, resume=None, minutes=None):
        self.kind = kind
        self.recipe_class = recipe_class
        self.options = self._with_whole_paths(options)
        self.given = self._with_whole_paths(given)
        self.out = out
        self.resume = resume
        self.minutes = minutes
        self.console = console()

    def _with_whole_paths(self, options):
        files = {option.name for option in self.recipe_class.OPTIONS if option.kind == "file"}
        return {
            name: str(Path(value).absolute()) if name in files and value else value
            for name, value in options.items()
        }

    def run(self):
        """Do it all.

        Returns
        -------
        int
            The exit code.
        """
        as_device(self.options["device"])  # a device that is not there: say so first
        if self.resume is None:
            self._begin()
        else:
            self._reopen()
        try:
            code = self._train()
            if code == DONE:
                code = DONE if self._show() else FAILED
                self._farewell()
            return code
        except KeyboardInterrupt:
            self._stopped("stopped at once")
            return INTERRUPTED

    # Beginning

    def _begin(self):
        """A new run: check everything that can be wrong before a folder is made."""
        prefix = self.kind.split()[-1]
        self.recipe = recipe = self.recipe_class(self.options)
        if self.minutes:
            recipe.options["steps"] = recipe.steps_in(60 * self.minutes)
        baselines = recipe.baselines()
        path = Path(self.out) if self.out else free_name(PARENT, prefix)
        config = {
            "minitorch_attn": __version__,
            "command": self.kind,
            "options": recipe.options,
            "data": recipe.data,
            "vocabulary": recipe.vocabulary,
            "parameters": sum(p.array.size for p in recipe.model.parameters()),
            "baselines": baselines,
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
        self._open_page()
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
        self._check_command(path)
        options = self.folder.config["options"]
        changes = self._changes(path, options)
        self.recipe = self.recipe_class({**options, **changes})
        self.recipe.check_data(self.folder.config["data"])
        self._open_page()
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

    def _check_command(self, path):
        """A run goes on with the command that began it; the tour is a run of the GPT."""
        began = self.folder.config.get("command", self.kind)
        names = {kind.replace("tour", "train gpt") for kind in (began, self.kind)}
        if len(names) > 1:
            raise click.UsageError(
                f"--resume: the run in {path} was begun with `{command(*began.split())}`."
            )

    def _changes(self, path, options):
        """The given options that a resumed run may change; any other change is refused."""
        changeable = self.recipe_class.changeable
        given = dict(self.given)
        if self.minutes and "steps" not in changeable:
            given["steps"] = "--minutes"
        for name, value in given.items():
            if name not in changeable and options.get(name) != value:
                can = "only --device" if "steps" not in changeable else _CHANGEABLE
                raise click.UsageError(
                    f"--{name.replace('_', '-')} {value}: the run in {path} has {options.get(name)}"
                    f" and keeps it; {can} can change."
                )
        return {name: given[name] for name in changeable if name in given}

    def _open_page(self):
        config = self.folder.config
        self.loop = self.recipe.loop(self.folder, extra={"config": config})
        self.page = Page(self.folder, config["baselines"], self.console)

    def _introduce(self):
        self.console.print(f"{self.recipe.headline}\n", style="bold")
        self.page.table([*self.recipe.facts(), ("folder", str(self.folder.path))])
        self.console.print()
        self.recipe.preface(self.page)
        self.console.print()

    # Training

    def _train(self):
        """Train to the end, or to a Ctrl-C. Returns the exit code."""
        recipe, start = self.recipe, self.loop.step
        steps = recipe.options["steps"]
        progress = Progress(steps, recipe.units_per_step, start, self.console, unit=recipe.unit)
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

    # The end

    def _show(self):
        """What was learned. Returns whether the program did nothing wrong."""
        measured = self.recipe.measure(self.page.metrics)
        self.page.heading(f"What it has learned in {duration(self.loop.seconds)}")
        right = self.recipe.show(self.page, measured)
        self.page.write_result(self.recipe, measured)
        self.page.list_files()
        return right

    def _farewell(self):
        self.page.heading("What to do next")
        rows = [(command(*words), meaning) for words, meaning in self.recipe.next_steps()]
        self.page.table(rows)
        self.console.print("\n" + self.recipe.last_words(self.folder.path))
