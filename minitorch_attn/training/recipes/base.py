"""What a recipe is: data, model, loss, metric, target, and what it shows at the end."""

import copy
import hashlib
import math
import time
from dataclasses import dataclass

import numpy as np

from ... import nn
from ...backend import as_dtype, get_rng_state, manual_seed, set_rng_state
from ...errors import DataError
from ...optim import AdamW
from ...optim.lr_scheduler import LambdaLR
from ..loop import Loop
from .options import common_options, defaults

__all__ = ["Recipe", "Target", "digest", "start_by_width"]


@dataclass(frozen=True)
class Target:
    """The figure that a recipe states and reaches.

    Parameters
    ----------
    metric : str
        Its name among what `Recipe.measure` returns.
    figure : float
    meaning : str
        What the metric is, in words.
    higher_is_better : bool, default True
    percent : bool, default True
        Whether it is shown as a percentage.

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
        """Whether a value is as good as the figure."""
        return value >= self.figure if self.higher_is_better else value <= self.figure

    def show(self, value):
        """A value of this metric as text."""
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"

    def __str__(self):
        bound = "at least" if self.higher_is_better else "at most"
        return f"{self.meaning}: {bound} {self.show(self.figure)}"


class Recipe:
    """One real task, from its options to a trained model and the pictures of it.

    A subclass gives the class attributes and `prepare`, `batches`, `loss`, `evaluate`, `measure`
    and `show`. The loop, checkpoints, resuming, progress and the run folder are the same for all.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`; what is missing has its default.

    Attributes
    ----------
    name : str
        The NAME of `mta train NAME`.
    summary : str
        One line for the list of recipes.
    headline : str
        What is printed when a run begins.
    target : Target
    OPTIONS : tuple of Option
    unit : str
        What the speed counts: "tokens", "images", ...
    changeable : tuple of str
        Options that a resumed run may change.
    data : dict
        "name" and "sha256" of the data, to notice that it changed before a run is resumed.
    vocabulary : str or None
        Kept in every checkpoint, so that it can be used without its data.
    model : Module
    """

    name = summary = headline = ""
    target = None
    OPTIONS = common_options()
    unit = "examples"
    noun = "data"  # what the data are called when they have changed, and then the advice
    data_hint = "the same versions of Python and of this package"
    changeable = ("steps", "device")
    betas = (0.9, 0.95)
    lowest_rate = 0.0  # the learning rate at the end, as a part of the highest
    vocabulary = None
    log_every = 10

    def __init__(self, options):
        self.options = {**defaults(self.OPTIONS), **options}
        self.data = self.prepare()
        manual_seed(self.options["seed"])
        self.model = self.build()
        self.model.to(as_dtype(self.options["dtype"])).to(self.options["device"])

    # What a subclass gives

    def prepare(self):
        """Make or read the data. Returns the dict for `data`."""
        raise NotImplementedError

    def build(self):
        """The model, right after the seed was set."""
        raise NotImplementedError

    def batches(self):
        """The training batches: an iterator with state_dict() and load_state_dict()."""
        raise NotImplementedError

    def loss(self, model, batch):
        """The training loss of one batch, a 0-d Tensor."""
        raise NotImplementedError

    def count(self, batch):
        """How many examples the loss of a batch is a mean of; needed for more than one thread."""
        return batch[0].shape[0]

    def evaluate(self, model):
        """During the training: the validation loss, or a dict with it and other figures."""
        raise NotImplementedError

    def measure(self, metrics):
        """At the end, on what the model was not trained on.

        Parameters
        ----------
        metrics : list of dict
            The entries of metrics.jsonl; the last one holds an evaluation.

        Returns
        -------
        dict of float
            Among them the metric of `target`.
        """
        raise NotImplementedError

    def baselines(self):
        """Losses to beat, by name; drawn beside the loss curve."""
        return {}

    def facts(self):
        """(word, text) for the lines under the headline."""
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
        """The sizes of the model in words."""
        options = self.options
        count = sum(parameter.array.size for parameter in self.model.parameters())
        return (
            f"{_times(options['layers'], 'layer')}, {_times(options['heads'], 'head')}, "
            f"width {options['dim']}: {count:,} parameters"
        )

    def preface(self, page):
        """Print what should be known before the training begins.

        Parameters
        ----------
        page : Page
        """
        page.text(f"To be reached: {self.target}.")

    def show(self, page, measured):
        """Print and draw what was learned.

        Parameters
        ----------
        page : Page
            Where to: it has `heading`, `text`, `table`, `write`, `save`, `draw_loss` and `viz`,
            the module of the figures.
        measured : dict of float
            What `measure` returned.

        Returns
        -------
        bool
            False if something is wrong with the program itself, which fails the command.
        """
        return True

    def next_steps(self):
        """(arguments of `mta`, what they do) to suggest at the end."""
        return [
            (("train", self.name, "--seed", 2), "the same from another start"),
            (("train", self.name, "--help"), "see every option"),
        ]

    def last_words(self, folder):
        """What to look at, and where to read on.

        Parameters
        ----------
        folder : Path

        Returns
        -------
        str
        """
        return f"The recipe is minitorch_attn/training/recipes/{self.name}.py."

    # What is the same for all

    @property
    def units_per_step(self):
        """How many of `unit` one step learns from."""
        return self.options["batch"]

    def check_data(self, old):
        """Refuse data that are not those a run was started with.

        Parameters
        ----------
        old : dict
            The `data` of that run.

        Raises
        ------
        DataError
        """
        if old["sha256"] != self.data["sha256"]:
            raise DataError(
                f"{self.data['name']} is not the {self.noun} that this run was started with.",
                got=f"SHA-256 {self.data['sha256'][:16]}...",
                expected=f"SHA-256 {old['sha256'][:16]}...",
                hint=self.data_hint,
            )

    def loop(self, run=None, on_log=(), extra=None):
        """The training loop, at its start.

        Parameters
        ----------
        run : RunFolder, optional
        on_log, extra
            As for `Loop`.

        Returns
        -------
        Loop
        """
        options = self.options
        optimizer = AdamW(self.parameter_groups(), lr=options["lr"], betas=self.betas, eps=1e-8)
        kept = {} if self.vocabulary is None else {"vocabulary": self.vocabulary}
        return Loop(
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
            extra={**kept, **(extra or {})},
            threads=options["threads"],
            count=self.count,
        )

    def parameter_groups(self):
        """Weight decay for matrices; none for biases and layer norms, whose size means nothing."""
        parameters = list(self.model.parameters())
        return [
            {
                "params": [p for p in parameters if p.ndim >= 2],
                "weight_decay": self.options["weight_decay"],
            },
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]

    def learning_rate_factor(self, step):
        """Rises over the warm-up, then follows half a cosine down to `lowest_rate`.

        The warm-up takes at most a quarter of the run.
        """
        steps = self.options["steps"]
        warmup = min(self.options["warmup"], steps // 4)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min((step - warmup) / max(steps - warmup, 1), 1.0)
        low = self.lowest_rate
        return low + (1 - low) / 2 * (1 + math.cos(math.pi * done))

    def steps_in(self, seconds):
        """How many steps, with their evaluations, fit into a time on this machine.

        Tries a few on a copy of the model; the result is a plan, and the run then makes exactly
        so many steps however long they take.

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
        return max(round(seconds / step), 1)


def digest(*parts):
    """SHA-256 of strings and arrays, in order.

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
    """Draw the linear layers of a model anew, by Glorot's rule.

    Swin starts with a standard deviation of 0.02, which suits widths near 1,000. At width 48 the
    scores of attention would begin near zero, and stay there for long.

    Parameters
    ----------
    model : Module
        Matrices that are also embeddings stay as they are.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in embeddings:
            nn.init.xavier_uniform_(module.weight)


def _times(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")
