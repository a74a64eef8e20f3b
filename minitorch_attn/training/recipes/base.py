"""Base class for recipes (training tasks): data, model, loss, metric, target and final report."""

import copy
import hashlib
import math
import time
from dataclasses import dataclass

import numpy as np

from ... import nn
from ...backend import as_dtype, get_rng_state, manual_seed, set_rng_state
from ...errors import ArgumentError, DataError
from ...optim import AdamW
from ...optim.lr_scheduler import LambdaLR
from ..workers import loop_class
from .options import common_options, defaults

__all__ = ["Recipe", "Target", "digest", "start_by_width"]


@dataclass(frozen=True)
class Target:
    """Target value for a recipe's metric.

    Parameters
    ----------
    metric : str
        Name of the metric, a key in the dict that `Recipe.measure` returns.
    figure : float
        Target value.
    meaning : str
        Description of the metric.
    higher_is_better : bool, default True
    percent : bool, default True
        If True, show the value as a percentage.

    Examples
    --------
    >>> target = Target("accuracy", 0.975, "test accuracy")
    >>> str(target), target.reached(0.98), target.show(0.98)
    ('test accuracy: at least 97.5 %', True, '98.0 %')
    """

    metric: str
    figure: float
    meaning: str
    higher_is_better: bool = True
    percent: bool = True

    def reached(self, value):
        """Return True if a value is at least as good as the target."""
        return value >= self.figure if self.higher_is_better else value <= self.figure

    def show(self, value):
        """Format a value of this metric."""
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"

    @property
    def bound(self):
        """The target value in words, such as "at least 97.5 %"."""
        return f"{'at least' if self.higher_is_better else 'at most'} {self.show(self.figure)}"

    def __str__(self):
        return f"{self.meaning}: {self.bound}"


class Recipe:
    """Base class for training tasks: options, data, model, training, results.

    A subclass defines the class attributes and `prepare`, `batches`, `loss`, `evaluate`, `measure`
    and `show`. All recipes share the loop, checkpoints, resuming, progress and the run folder.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    Attributes
    ----------
    name : str
        NAME in `mta train NAME`.
    summary : str
        One-line description for the list of recipes.
    headline : str
        Text printed when a run starts.
    target : Target
    OPTIONS : tuple of Option
    unit : str
        Unit for the speed: "tokens", "images", ...
    changeable : tuple of str
        Names of options that a resumed run may change.
    one_process : str
        Reason why threads or processes cannot share a batch, as a clause. Empty if they can.
    splits : tuple of str
        Ways to split the work among processes: "data", "tensor", "sequence"; see worker_splits.py.
    split : str
        Element of `splits` that is used.
    data : dict
        "name" and "sha256" of the data, used to detect changes before a run is resumed.
    vocabulary : str or None
        Vocabulary. Every checkpoint contains it, so that the model can be used without the data.
    model : Module
    """

    name = summary = headline = ""
    target = None
    OPTIONS = common_options()
    unit = "examples"
    noun = "data"  # `noun` and `data_hint` are used in the error about changed data
    data_hint = "use the same versions of Python and of this package as before"
    changeable = ("steps", "device")
    betas = (0.9, 0.95)
    lowest_rate = 0.0  # final learning rate, as a fraction of the maximum
    vocabulary = None
    log_every = 10
    one_process = ""
    splits = ("data",)
    split = "data"

    def __init__(self, options):
        self.options = {**defaults(self.OPTIONS), **options}
        self.data = self.prepare()
        manual_seed(self.options["seed"])
        self.model = self.build()
        self.model.to(as_dtype(self.options["dtype"])).to(self.options["device"])

    # Defined by subclasses

    def prepare(self):
        """Create or read the data. Return the dict to store in the attribute `data`."""
        raise NotImplementedError

    def build(self):
        """Create the model. Called immediately after the random seed is set."""
        raise NotImplementedError

    def batches(self):
        """Return an iterator over the training batches, with state_dict() and load_state_dict()."""
        raise NotImplementedError

    def loss(self, model, batch):
        """Return the training loss for one batch, a 0-d Tensor."""
        raise NotImplementedError

    def count(self, batch):
        """Return the number of terms in a batch's mean loss.

        Threads weight the losses of their parts of the batch by this number.
        """
        return batch[0].shape[0]

    def evaluate(self, model):
        """Return the validation loss, or a dict with the validation loss and other metrics."""
        raise NotImplementedError

    def measure(self, metrics):
        """Measure the trained model on data that it was not trained on.

        Parameters
        ----------
        metrics : list of dict
            Entries of metrics.jsonl. The last entry contains an evaluation.

        Returns
        -------
        dict of float
            Metrics by name, including the metric of `target`.
        """
        raise NotImplementedError

    def baselines(self):
        """Return baseline losses by name, shown as horizontal lines in the loss plot."""
        return {}

    def facts(self):
        """Return pairs (label, text), printed below the recipe's headline when a run starts."""
        options = self.options
        return [
            ("data", self.data["name"]),
            ("model", self.model_text()),
            (
                "training",
                f"{options['steps']:,} steps of {options['batch']} {self.unit}, "
                f"{options['dtype']} on {options['device']}",
            ),
        ]

    def model_text(self):
        """Describe the size of the model."""
        options = self.options
        count = sum(parameter.array.size for parameter in self.model.parameters())
        return (
            f"{_times(options['layers'], 'layer')}, {_times(options['heads'], 'head')}, "
            f"width {options['dim']}: {count:,} parameters"
        )

    def preface(self, page):
        """Print information before training starts.

        Parameters
        ----------
        page : Page
        """
        page.text(f"Target: {self.target}.")

    def show(self, page, measured):
        """Print and plot the results.

        Parameters
        ----------
        page : Page
            Output, with the methods `heading`, `text`, `table`, `write`, `save` and `draw_loss`,
            and the module `viz` for figures.
        measured : dict of float
            Result of `measure`.

        Returns
        -------
        bool
            False if a result shows a bug in the program. The command then fails.
        """
        return True

    def next_steps(self):
        """Return suggested commands as pairs (arguments of `mta`, description)."""
        return [
            (("train", self.name, "--seed", 2), "train again with another random seed"),
            (("train", self.name, "--help"), "see every option"),
        ]

    def last_words(self, folder):
        """Return a closing text: what to look at and what to read next.

        Parameters
        ----------
        folder : Path

        Returns
        -------
        str
        """
        return f"The recipe is minitorch_attn/training/recipes/{self.name}.py."

    # Shared by all recipes

    @property
    def units_per_step(self):
        """Number of tokens, images, ... (see `unit`) per training step."""
        return self.options["batch"]

    def check_data(self, old):
        """Raise an error if the data differ from the data with which a run was started.

        Parameters
        ----------
        old : dict
            The `data` that the run has stored in config.json: a dict with "sha256".

        Raises
        ------
        DataError
        """
        if old["sha256"] != self.data["sha256"]:
            raise DataError(
                f"{self.data['name']} is not the {self.noun} that this run was started with",
                got=f"SHA-256 {self.data['sha256'][:16]}...",
                expected=f"SHA-256 {old['sha256'][:16]}...",
                hint=self.data_hint,
            )

    def loop(self, run=None, on_log=(), extra=None):
        """Create the training loop.

        Parameters
        ----------
        run : RunFolder, optional
        on_log, extra
            Arguments of `Loop`.

        Returns
        -------
        Loop

        Raises
        ------
        ArgumentError
            If `threads` or `processes` is above 1, but this recipe cannot split a batch.
        """
        options = self.options
        for name in ("threads", "processes"):
            if options[name] > 1 and self.one_process:
                raise ArgumentError(
                    f"{self.name}: {name} must be 1, because {self.one_process}",
                    got=f"{name}={options[name]}",
                    hint=f"leave out --{name}; matrix products use all cores without it",
                )
        optimizer = AdamW(self.parameter_groups(), lr=options["lr"], betas=self.betas, eps=1e-8)
        kept = {} if self.vocabulary is None else {"vocabulary": self.vocabulary}
        return loop_class(self.split)(
            self.model,
            optimizer,
            self.batches(),
            self.loss,
            scheduler=LambdaLR(optimizer, self.learning_rate_factor),
            max_norm=options["clip"] or None,
            evaluate=self.evaluate,
            log_every=self.log_every,
            evaluate_every=options["eval_every"],
            save_every=options["eval_every"],
            run=run,
            on_log=on_log,
            on_step=[self.after_step],
            extra={**kept, **(extra or {})},
            threads=options["threads"],
            processes=options["processes"],
            count=self.count,
        )

    def after_step(self, step):
        """Run recipe-specific code after a training step. `step` is the number of steps so far."""

    def parameter_groups(self):
        """Return parameter groups. Weight decay applies to matrices, not to biases and norms."""
        parameters = list(self.model.parameters())
        return [
            {
                "params": [p for p in parameters if p.ndim >= 2],
                "weight_decay": self.options["weight_decay"],
            },
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]

    def learning_rate_factor(self, step):
        """Return the learning-rate factor: linear warm-up, then cosine decay to `lowest_rate`.

        Warm-up takes at most a quarter of the run.
        """
        steps = self.options["steps"]
        warmup = min(self.options["warmup"], steps // 4)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min((step - warmup) / max(steps - warmup, 1), 1.0)
        low = self.lowest_rate
        return low + (1 - low) / 2 * (1 + math.cos(math.pi * done))

    def steps_in(self, seconds):
        """Estimate how many steps, including evaluations, fit into a time limit on this machine.

        This measures a few steps on a copy of the model. The run then has exactly this number of
        steps, regardless of the time they take.

        Parameters
        ----------
        seconds : float

        Returns
        -------
        int
        """
        random_state = get_rng_state()
        trial = copy.copy(self)
        trial.model = copy.deepcopy(self.model)
        loop, times = trial.loop(), []
        for _ in range(13):
            started = time.perf_counter()
            loss, _ = loop.training_step(next(loop.batches))
            loss.item()
            times.append(time.perf_counter() - started)
        step = float(np.median(times[3:]))
        if self.options["eval_every"]:
            started = time.perf_counter()
            trial.evaluate(trial.model.eval())
            step += (time.perf_counter() - started) / self.options["eval_every"]
        set_rng_state(random_state)
        if not step > 0:
            raise ArgumentError(
                "the time of a training step could not be measured: the clock did not advance",
                got=f"{step} seconds per step",
                hint="choose a number of steps instead of a time",
            )
        return max(round(seconds / step), 1)


def digest(*parts):
    """Return the SHA-256 of strings and arrays, in order.

    Examples
    --------
    >>> digest("a", np.zeros(3)) == digest("a", np.zeros(3)) != digest("a", np.ones(3))
    True
    """
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part))
    return total.hexdigest()


def start_by_width(model):
    """Reinitialize a model's linear layers with Glorot's uniform distribution.

    Swin's initial standard deviation of 0.02 suits widths near 1,000. At width 48, the
    attention scores would start near zero and remain there for a long time.

    Parameters
    ----------
    model : Module
        Model to change in place. Matrices shared with an embedding are not changed.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in embeddings:
            nn.init.xavier_uniform_(module.weight)


def _times(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")
