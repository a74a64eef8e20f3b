"""The recipe for a character GPT: from a configuration to a model, its text and its training."""

import copy
import hashlib
import math
import time

import numpy as np

from ..backend import as_dtype, get_rng_state, manual_seed, set_rng_state
from ..data import CharTokenizer, TextBatches, baselines, default_text, read_text, split_text
from ..data.batches import windows
from ..errors import DataError
from ..models import GPT
from ..nn.functional import cross_entropy
from ..optim import AdamW
from ..optim.lr_scheduler import LambdaLR
from .loop import Loop, mean_loss

__all__ = ["CharacterGPT", "DEFAULTS"]

DEFAULTS = {
    "text": None,
    "steps": 1500,
    "batch": 12,
    "context": 64,
    "layers": 4,
    "heads": 4,
    "dim": 128,
    "dropout": 0.0,
    "lr": 3e-3,
    "warmup": 100,
    "weight_decay": 0.1,
    "clip": 1.0,
    "dtype": "float32",
    "device": "cpu",
    "seed": 1,
    "eval_every": 250,
}

_LOG_EVERY = 10
_EVALUATION_BATCH = 48
_EVALUATION_WINDOWS = 1024


class CharacterGPT:
    """A GPT over the characters of a text.

    Parameters
    ----------
    options : dict
        Values for the names in `DEFAULTS`; what is missing has its default.

    Attributes
    ----------
    options : dict
    text_name : str
    text_digest : str
        SHA-256 of the text, to notice that it changed before a run is resumed.
    tokenizer : CharTokenizer
    training_ids, validation_ids : array of int64
    validation_text : str
    model : GPT

    Examples
    --------
    >>> recipe = CharacterGPT({"layers": 1, "dim": 16, "context": 8, "steps": 2})
    >>> sorted(recipe.baselines(), key=recipe.baselines().get)
    ['bigram', 'unigram', 'uniform']
    """

    def __init__(self, options):
        self.options = options = {**DEFAULTS, **options}
        if options["text"] is None:
            self.text_name, text = "the help topics of Python", default_text()
        else:
            self.text_name, text = str(options["text"]), read_text(options["text"])
        self.text_digest = hashlib.sha256(text.encode()).hexdigest()
        self.characters = len(text)
        self.tokenizer = CharTokenizer.from_text(text)
        training, self.validation_text = split_text(text, options["context"], name=self.text_name)
        self.training_ids = self.tokenizer.encode(training)
        self.validation_ids = self.tokenizer.encode(self.validation_text)
        manual_seed(options["seed"])
        self.model = GPT(
            vocab_size=len(self.tokenizer),
            context_length=options["context"],
            embed_dim=options["dim"],
            num_heads=options["heads"],
            num_layers=options["layers"],
            dropout=options["dropout"],
        )
        self.model.to(as_dtype(options["dtype"])).to(options["device"])

    def baselines(self):
        """Held-out losses of models that only count; see `data.baselines`."""
        return baselines(self.training_ids, self.validation_ids, len(self.tokenizer))

    @property
    def tokens_per_step(self):
        """How many next characters one step learns from."""
        return self.options["batch"] * self.options["context"]

    def check_text(self, digest):
        """Refuse a text that is not the one a run was started with.

        Raises
        ------
        DataError
        """
        if digest != self.text_digest:
            raise DataError(
                f"{self.text_name} is not the text that this run was started with.",
                got=f"SHA-256 {self.text_digest[:16]}...",
                expected=f"SHA-256 {digest[:16]}...",
                hint="the same file, unchanged; without --text the same version of Python",
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
        optimizer = AdamW(self._parameter_groups(), lr=options["lr"], betas=(0.9, 0.95), eps=1e-8)
        batches = TextBatches(
            self.training_ids,
            options["batch"],
            options["context"],
            options["seed"],
            options["device"],
        )
        return Loop(
            self.model,
            optimizer,
            batches,
            loss_function,
            scheduler=LambdaLR(optimizer, self.learning_rate_factor),
            max_norm=options["clip"] or None,
            evaluate=self.evaluate,
            log_every=_LOG_EVERY,
            evaluate_every=options["eval_every"],
            save_every=options["eval_every"],
            run=run,
            on_log=on_log,
            extra={"vocabulary": self.tokenizer.vocabulary, **(extra or {})},
        )

    def _parameter_groups(self):
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
        """Rises over the warm-up, then follows half a cosine down to a tenth.

        The warm-up takes at most a quarter of the run.
        """
        steps = self.options["steps"]
        warmup = min(self.options["warmup"], steps // 4)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min((step - warmup) / max(steps - warmup, 1), 1.0)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * done))

    def evaluate(self, model):
        """The mean loss over the validation text, or evenly spread windows of a long one."""
        pairs = windows(
            self.validation_ids,
            _EVALUATION_BATCH,
            self.options["context"],
            self.options["device"],
            _EVALUATION_WINDOWS,
        )
        return mean_loss(model, pairs, loss_function)

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


def loss_function(model, batch):
    """Mean cross-entropy of the next character, over all positions of the batch."""
    inputs, targets = batch  # (batch, token)
    logits = model(inputs)  # (batch, token, vocabulary)
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
