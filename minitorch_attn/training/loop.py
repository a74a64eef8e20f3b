"""The training loop, and everything that makes it possible to stop and go on."""

import math
import time

import numpy as np

from ..autograd import no_grad
from ..backend import get_rng_state, set_rng_state
from ..errors import CheckpointError, NumericError
from ..nn.utils import clip_grad_norm_
from .parallel import ThreadSplit

__all__ = ["Loop", "mean_loss"]


class Loop:
    """Batches, forward, backward, clip, step, schedule; now and then evaluate and save.

    Parameters
    ----------
    model : Module
    optimizer : Optimizer
    batches : iterator with state_dict() and load_state_dict()
        Its items are given to `loss_function`.
    loss_function : callable
        `loss_function(model, batch)` -> 0-d Tensor.
    scheduler : LRScheduler, optional
    max_norm : float, optional
        Clip the gradient to this norm.
    evaluate : callable, optional
        `evaluate(model)` -> float, the validation loss, or a dict with "validation_loss" and
        other figures for the metrics; called in eval mode, without a graph.
    log_every, evaluate_every, save_every : int
        In steps. 0 leaves evaluation or saving out.
    run : RunFolder, optional
        Takes the metrics and the checkpoints.
    on_log : sequence of callable
        Each is called with the entry (a dict) that is also written to the metrics.
    on_step : sequence of callable
        Each is called with the number of steps made, after each step.
    extra : dict, optional
        More plain values to keep in every checkpoint: configuration, vocabulary.
    threads : int, default 1
        Share each batch, and each update, out over so many threads; see `ThreadSplit`.
    count : callable, optional
        `count(batch)` -> number of examples that the loss is the mean of; by default rows.

    Attributes
    ----------
    step : int
        How many steps were made.
    seconds : float
        How long they took, over all sessions.
    stop_requested : bool
        Set it, from a signal handler or a callback, to leave the loop after the current step.
    """

    def __init__(
        self,
        model,
        optimizer,
        batches,
        loss_function,
        *,
        scheduler=None,
        max_norm=None,
        evaluate=None,
        log_every=10,
        evaluate_every=250,
        save_every=250,
        run=None,
        on_log=(),
        on_step=(),
        extra=None,
        threads=1,
        count=None,
    ):
        self.model = model
        self.optimizer = optimizer
        self.optimizer.threads = threads
        self.batches = batches
        self.loss_function = loss_function
        self.backward = ThreadSplit(
            model, lambda model, batch: self.loss_function(model, batch), threads, count
        )
        self.scheduler = scheduler
        self.max_norm = math.inf if max_norm is None else max_norm
        self.evaluate = evaluate
        self.log_every = log_every
        self.evaluate_every = evaluate_every
        self.save_every = save_every
        self.run = run
        self.on_log = list(on_log)
        self.on_step = list(on_step)
        self.extra = extra or {}
        self.step = 0
        self.seconds = 0.0
        self.stop_requested = False
        self._pending = []  # (loss, gradient norm) of steps that were not read yet: Tensors
        self._read = []  # the same as floats, since the last log entry

    def train(self, steps):
        """Train until `steps` steps are made in all, or a stop is requested.

        Parameters
        ----------
        steps : int

        Returns
        -------
        bool
            Whether all steps were made. The state is saved in either case.

        Raises
        ------
        NumericError
            If the loss or the gradient is NaN or infinite; the checkpoints before stay.
        """
        with np.errstate(all="ignore"):  # the loop looks for what is not finite by itself
            if self.step == 0:
                self._log(evaluating=True)
            self.model.train()
            started = time.perf_counter() - self.seconds
            while self.step < steps and not self.stop_requested:
                self._pending.append(self.training_step(next(self.batches)))
                self.step += 1
                self.seconds = time.perf_counter() - started
                self._after_step(last=self.step == steps)
            if self.step < steps:
                self.save()
        return self.step >= steps

    def _after_step(self, last):
        """Everything that is due after a step."""
        for callback in self.on_step:
            callback(self.step)
        evaluating = last or _is_time(self.step, self.evaluate_every)
        if evaluating or _is_time(self.step, self.log_every):
            self._log(evaluating)
        if last or _is_time(self.step, self.save_every):
            self.save()

    def training_step(self, batch):
        """One step of training.

        Returns
        -------
        loss, norm : 0-d Tensor
            The loss of the batch and the norm of its gradient before clipping.
        """
        self.optimizer.zero_grad()
        loss = self.backward(batch)
        norm = clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return loss, norm

    def _log(self, evaluating):
        """Make an entry for the metrics and give it to everyone who wants it."""
        self._read_losses()
        entry = {"step": self.step}
        if self._read:
            losses, norms = zip(*self._read, strict=True)
            entry["loss"] = math.fsum(losses) / len(losses)
            entry["gradient_norm"] = norms[-1]
            entry["learning_rate"] = float(self.optimizer.param_groups[0]["lr"])
            self._read = []
        if evaluating and self.evaluate is not None:
            entry.update(self._evaluate())
        if len(entry) == 1:
            return
        if self.run is not None:
            self.run.log(entry)
        for callback in self.on_log:
            callback(entry)

    def _evaluate(self):
        self.model.eval()
        with no_grad():
            figures = self.evaluate(self.model)
        self.model.train()
        if not isinstance(figures, dict):
            figures = {"validation_loss": figures}
        figures = {name: float(value) for name, value in figures.items()}
        loss = figures["validation_loss"]
        if not math.isfinite(loss):
            raise self._not_finite(f"the validation loss after step {self.step}", loss)
        return figures

    def _read_losses(self):
        """Turn the losses that are still tensors into numbers, and look at them.

        Reading a number makes a GPU finish its work first; once in a while is enough.
        """
        pending, self._pending = self._pending, []
        first = self.step - len(pending) + 1
        for step, (loss, norm) in enumerate(pending, first):
            loss, norm = loss.item(), norm.item()
            if not math.isfinite(loss):
                raise self._not_finite(f"the loss of step {step}", loss)
            if not math.isfinite(norm):
                raise self._not_finite(f"the norm of the gradient of step {step}", norm)
            self._read.append((loss, norm))

    def _not_finite(self, what, value):
        saved = self.run.checkpoints.steps() if self.run is not None else []
        where = f"; the checkpoint of step {saved[-1]} is whole" if saved else ""
        return NumericError(
            f"training stopped: {what} is {value}.",
            got=f"learning rate {self.optimizer.param_groups[0]['lr']:.3g}{where}",
            expected="finite numbers",
            hint="a smaller learning rate (--lr), a longer warm-up (--warmup) or tighter clipping "
            "(--clip);\n            mt.autograd.detect_anomaly() finds the operation "
            "that made the first one",
        )

    # State

    def state_dict(self):
        """Everything that the rest of the run depends on."""
        self._read_losses()
        return {
            **self.extra,
            "step": self.step,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "batches": self.batches.state_dict(),
            "random": get_rng_state(),
            "unlogged": [list(pair) for pair in self._read],
        }

    def load_state_dict(self, state):
        """Go on where the run with this state stood; the next losses are equal to the bit."""
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(state["scheduler"])
            self.batches.load_state_dict(state["batches"])
            self.step = state["step"]
            self.seconds = state["seconds"]
            self._read = [tuple(pair) for pair in state["unlogged"]]
            self._pending = []
            set_rng_state(state["random"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(
                "this is not a checkpoint of a training run.", got=f"missing or wrong: {error}"
            ) from error

    def save(self):
        """Write a checkpoint, if there is a run folder and saving is on."""
        if self.run is not None and self.save_every:
            state = self.state_dict()  # looks at the losses first: never saves what became NaN
            self.run.sync()
            self.run.checkpoints.save(self.step, state)

    def resume(self, which="latest"):
        """Load a checkpoint of the run folder and cut the metrics to match.

        Parameters
        ----------
        which : int, "latest" or "previous"

        Returns
        -------
        int
            The step that the run goes on from; 0 if it was stopped before its first checkpoint.
        """
        checkpoints = self.run.checkpoints
        checkpoints.clean()
        if not checkpoints.steps():
            self.run.cut_metrics(after=-1)
            return 0
        step, state = checkpoints.load(which)
        self.load_state_dict(state)
        checkpoints.set_aside(after=step)
        self.run.cut_metrics(after=step if step else -1)  # step 0 is evaluated again
        return step


def _is_time(step, interval):
    return bool(interval) and step % interval == 0


def mean_loss(model, batches, loss_function):
    """The mean of a loss over batches, each weighted by its number of targets.

    Parameters
    ----------
    model : Module
    batches : iterable of (inputs, targets)
    loss_function : callable
        `loss_function(model, batch)` -> 0-d Tensor, a mean over the targets.

    Returns
    -------
    float
    """
    total, count = 0.0, 0
    for batch in batches:
        size = math.prod(batch[1].shape)
        total += loss_function(model, batch).item() * size
        count += size
    return total / count
