"""Training session of `mta train` and `mta tour`: start or resume, train, and show results."""

import platform
from pathlib import Path

import click
import numpy as np

from .. import __version__
from ..backend import as_device
from ..errors import CheckpointError
from ..schema import ANY, record
from ..training import Progress, RunFolder
from ..training.progress import duration
from ..training.recipes import check_run
from ..training.run_folder import free_name, newest_run
from . import DONE, FAILED, INTERRUPTED
from .console import command, console
from .interrupt import stop_on_signal
from .recipe_output import Page

__all__ = ["Session"]

PARENT = "runs"
_CHANGEABLE = "--steps, --minutes and --device"


class Session:
    """One run of the command `mta tour` or `mta train RECIPE`.

    Parameters
    ----------
    kind : str
        "tour" or "train RECIPE".
    recipe_class : type
        Subclass of `Recipe`.
    options : dict
        Values of all recipe options.
    given : dict
        Values of the options given by the user.
    out : str, optional
        Run folder. Default: a new folder or, with `resume`, the latest run.
    resume : int or str, optional
        Step of the checkpoint to resume from, or "latest" or "previous".
    minutes : float, optional
        Training time in minutes, from which the number of steps is estimated.
    """

    shared = ()  # options of the command that belong to `WorkerSession`

    def __init__(self, kind, recipe_class, options, given, out=None, resume=None, minutes=None):
        self.kind = kind
        self.recipe_class = recipe_class
        self.options = self._with_whole_paths(options)
        self.given = self._with_whole_paths(given)
        self.out = out
        self.resume = resume
        self.minutes = minutes
        self.console = console()
        self.folder = None

    def _with_whole_paths(self, options):
        files = {option.name for option in self.recipe_class.OPTIONS if option.kind == "file"}
        return {
            name: str(Path(value).absolute()) if name in files and value else value
            for name, value in options.items()
        }

    def run(self):
        """Start or resume the run, train, and show the result.

        Returns
        -------
        int
            Exit status.
        """
        as_device(self.options["device"])  # raises an error early if the name is unknown
        try:
            if self.resume is None:
                self._begin()
            else:
                self._reopen()
            return self._train_and_show()
        finally:
            if self.folder is not None:
                self.folder.unlock()

    def _train_and_show(self):
        try:
            code = self._train()
            if code == DONE:
                code = DONE if self._show() else FAILED
                self._farewell()
            return code
        except KeyboardInterrupt:
            self._stopped("stopped immediately")
            return INTERRUPTED

    # Start

    def _make_recipe(self, options):
        """Create the recipe, with its data and its model."""
        return self.recipe_class(options)

    def _begin(self):
        """Start a new run. Check all options before creating a folder."""
        prefix = self.kind.split()[-1]
        self.recipe = recipe = self._make_recipe(self.options)
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
                hint=f"choose another --out, or pass --resume to continue the run in {path}",
            ) from None
        self._open_page()
        self._introduce()

    def _reopen(self):
        """Resume an existing run with its saved options, some of which may be changed."""
        prefix = self.kind.split()[-1]
        path = self.out or newest_run(PARENT, prefix)
        if path is None:
            raise click.UsageError(
                f"--resume: there is no run {PARENT}/{prefix}-N here; give a run folder with --out"
            )
        self.folder = RunFolder.open(path)
        self._check_command(path)
        self.folder.lock()
        options = check_run(self.folder)
        self.folder.check_config(record({"data": ANY, "baselines": ANY}))
        changes = self._changes(path, options)
        self.recipe = self._make_recipe({**options, **changes})
        self.recipe.check_data(self.folder.config["data"])
        self._open_page()
        step = self.loop.resume(self.resume)
        if self.minutes:
            self.recipe.options["steps"] = step + self.recipe.steps_in(60 * self.minutes)
        steps = self.recipe.options["steps"]
        if steps < step:
            raise click.UsageError(f"--steps must be at least {step}, the number of steps taken")
        if self.recipe.options != options:
            self.folder.config["options"] = self.recipe.options
            self.folder.save_config()
        self.console.print(f"{self.folder.path}: resuming from step {step:,} of {steps:,}\n")

    def _check_command(self, path):
        """Raise an error if a different command started the run. `tour` counts as `train gpt`."""
        began = self.folder.config.get("command", self.kind)
        names = {kind.replace("tour", "train gpt") for kind in (began, self.kind)}
        if len(names) > 1:
            line = command(*began.split())
            raise click.UsageError(
                f"--resume: the run in {path} was started with `{line}`; use that command"
            )

    def _changes(self, path, options):
        """Return the options to change. Raise an error if the user changes one that is fixed."""
        changeable = self.recipe_class.changeable
        given = dict(self.given)
        if self.minutes and "steps" not in changeable:
            given["steps"] = "--minutes"
        for name, value in given.items():
            if name not in changeable and options.get(name) != value:
                can = "--device" if "steps" not in changeable else _CHANGEABLE
                raise click.UsageError(
                    f"--{name.replace('_', '-')} {value} does not match the run in {path}, which"
                    f" has {options.get(name)}; a resumed run can only change {can}"
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
        """Train until the last step or Ctrl-C, and return the exit status."""
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
        """Print what was saved and how to continue."""
        saved = self.folder.checkpoints.steps()
        steps = self.recipe.options["steps"]
        where = f"saved at step {saved[-1]:,} of {steps:,}" if saved else "nothing saved yet"
        words = [*self.kind.split(), *self.shared]
        resume = command(*words, "--out", self.folder.path, "--resume")
        self.console.print(f"\n{how}; {where} in {self.folder.path}\ncontinue with: {resume}")

    # End

    def _show(self):
        """Show what the model learned. Return whether the recipe's checks of its output passed."""
        measured = self.recipe.measure(self.page.metrics)
        self.page.heading(f"What it has learned in {duration(self.loop.seconds)}")
        correct = self.recipe.show(self.page, measured)
        self.page.write_result(self.recipe, measured)
        self._report_target(measured)
        self.page.list_files()
        return correct

    def _report_target(self, measured):
        """Print whether the run reached its target and, if it did not, how to train for longer."""
        recipe, target = self.recipe, self.recipe.target
        value = f"{target.meaning} {target.show(measured[target.metric])}"
        if target.reached(measured[target.metric]):
            self.console.print(f"\nTarget reached: {value} (target: {target.bound})")
            return
        usual = next(option.default for option in recipe.OPTIONS if option.name == "steps")
        steps = recipe.options["steps"]
        line = [*self.kind.split(), *self.shared, "--steps", usual if steps < usual else 2 * steps]
        goes_on = "steps" in recipe.changeable
        if goes_on:
            line += ["--out", self.folder.path, "--resume"]
        self.console.print(
            f"\nTarget missed after {steps:,} steps: {value} (target: {target.bound})\n"
            f"{'Continue' if goes_on else 'Train for longer'} with:\n  {command(*line)}"
        )

    def _farewell(self):
        self.page.heading("What to do next")
        rows = [(command(*words), meaning) for words, meaning in self.recipe.next_steps()]
        self.page.table(rows)
        self.console.print("\n" + self.recipe.last_words(self.folder.path))
