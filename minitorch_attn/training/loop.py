"""Training loop that can be stopped and resumed."""

import math
import time

import numpy as np

from ..autograd import no_grad
from ..backend import get_rng_state, set_rng_state
from ..errors import ArgumentError, CheckpointError, MiniTorchError, NumericError
from ..named_errors import names_arguments
from ..nn.utils import clip_grad_norm_
from ..schema import ANY, COUNT, NON_NEGATIVE, NUMBER, check, list_of, map_of, record
from .parallel import ThreadSplit
from .process_split import ProcessSplit

__all__ = ["Loop", "mean_loss"]

_HINT = "pass the state that Checkpoints.load returns"
_STATE = record({
    **dict.fromkeys(("model", "optimizer", "batches"), map_of(ANY)),
    "step": COUNT, "seconds": NON_NEGATIVE, "unlogged": list_of(list_of(NUMBER, 2)),
})  # fmt: skip


class Loop:
    """Train a model: forward, backward, clip, step and schedule. Evaluate and save at intervals.

    Parameters
    ----------
    model : Module
    optimizer : Optimizer
    batches : iterator with state_dict() and load_state_dict()
        Iterator over the batches that are passed to `loss_function`.
    loss_function : callable
        Function `loss_function(model, batch)` that returns a 0-d Tensor.
    scheduler : LRScheduler, optional
    max_norm : float, optional
        Maximum gradient norm. A larger gradient is scaled down to this norm.
    evaluate : callable, optional
        Function `evaluate(model)` that returns the validation loss as a float, or a dict with
        "validation_loss" and other metrics. It is called in eval mode, without a graph.
    log_every, evaluate_every, save_every : int
        Number of steps between log entries, evaluations and checkpoints. 0 disables evaluation or
        saving.
    run : RunFolder, optional
        Folder for the metrics and the checkpoints.
    on_log : sequence of callable
        Callbacks that receive each entry (a dict) that is written to the metrics.
    on_step : sequence of callable
        Callbacks that receive the number of completed steps after each step.
    extra : dict, optional
        Additional plain values for every checkpoint, such as the configuration and the vocabulary.
    threads : int, default 1
        Number of threads among which each batch is split; see `ThreadSplit`.
    processes : int, default 1
        Number of processes among which each batch is split; see `ProcessSplit`.
        Cannot be combined with `threads`.
    count : callable, optional
        Function `count(batch)` that returns the number of examples that the loss averages over.
        Default: the size of the first axis.

    Attributes
    ----------
    step : int
        Number of steps completed so far.
    seconds : float
        Time in seconds spent on steps, over all sessions.
    stop_requested : bool
        Set this to True, in a signal handler or a callback, to stop after the current step.
    """

    def __init__(
        self, model, optimizer, batches, loss_function, *, scheduler=None, max_norm=None,
        evaluate=None, log_every=10, evaluate_every=250, save_every=250, run=None, on_log=(),
        on_step=(), extra=None, threads=1, processes=1, count=None,
    ):  # fmt: skip
        self.model = model
        self.optimizer = optimizer
        self.batches = batches
        self.backward = _split(model, loss_function, threads, processes, count)
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
        self._pending = []  # (loss, gradient norm) of the latest steps, as Tensors
        self._read = []  # earlier (loss, gradient norm) since the last log entry, as floats

    def train(self, steps):
        """Train until `steps` steps have been run in total, or a stop is requested.

        Parameters
        ----------
        steps : int
            Total number of steps, including those before a resume.

        Returns
        -------
        bool
            True if all steps were run. The state is saved in either case.

        Raises
        ------
        NumericError
            If the loss or the gradient is NaN or infinite. Earlier checkpoints are kept.
        """
        with np.errstate(all="ignore"):  # the loop itself checks that losses are finite
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
        """Call the callbacks. Log, evaluate and save when each is due."""
        for callback in self.on_step:
            callback(self.step)
        evaluating = last or _is_time(self.step, self.evaluate_every)
        if evaluating or _is_time(self.step, self.log_every):
            self._log(evaluating)
        if last or _is_time(self.step, self.save_every):
            self.save()

    def training_step(self, batch):
        """Run one training step.

        Returns
        -------
        loss, norm : 0-d Tensor
            Loss of the batch, and gradient norm before clipping.
        """
        self.optimizer.zero_grad()
        loss = self.backward(batch)
        norm = self.clip_gradients()
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return loss, norm

    def clip_gradients(self):
        """Scale down the gradients if their norm exceeds `max_norm`. Return the original norm."""
        return clip_grad_norm_(self.model.parameters(), self.max_norm)

    def _log(self, evaluating):
        """Write an entry to the metrics and call the callbacks with it."""
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
        """Convert the pending losses to numbers and check that they are finite.

        Reading a number waits for the GPU, so the losses are read only at intervals.
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
        where = f"; the checkpoint of step {saved[-1]} is intact" if saved else ""
        return NumericError(
            f"training stopped: {what} is {value}",
            got=f"learning rate {self.optimizer.param_groups[0]['lr']:.3g}{where}",
            expected="finite numbers",
            hint="lower --lr or --clip, or increase --warmup; use mt.autograd.detect_anomaly()\n"
            "            to find the operation that produced the first such value",
        )

    # State

    def state_dict(self):
        """Return all state that the rest of the run depends on."""
        self._read_losses()
        return {
            **self.extra,
            "step": self.step,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer_state(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "batches": self.batches.state_dict(),
            "random": get_rng_state(),
            "unlogged": [list(pair) for pair in self._read],
        }

    def optimizer_state(self):
        """Return the state of the optimizer."""
        return self.optimizer.state_dict()

    def load_optimizer_state(self, state):
        """Load an optimizer state that `optimizer_state` returned."""
        self.optimizer.load_state_dict(state)

    def load_state_dict(self, state):
        """Continue from a saved state. Later losses match an uninterrupted run bit for bit."""
        check(state, _STATE, "load_state_dict: state", CheckpointError, _HINT)
        try:
            self.model.load_state_dict(state["model"])
            self.load_optimizer_state(state["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(state["scheduler"])
            self.batches.load_state_dict(state["batches"])
            self.step = state["step"]
            self.seconds = state["seconds"]
            self._read = [tuple(pair) for pair in state["unlogged"]]
            self._pending = []
            set_rng_state(state["random"])
        except MiniTorchError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(
                "load_state_dict: state is not a checkpoint of a training run",
                got=f"missing or invalid entry: {error}",
                hint=_HINT,
            ) from error

    def save(self):
        """Write a checkpoint if a run folder is set and saving is enabled."""
        if self.run is not None and self.save_every:
            state = self.state_dict()  # check the losses first, so that no NaN is saved
            self.run.sync()
            self.run.checkpoints.save(self.step, state)

    def resume(self, which="latest"):
        """Load a checkpoint from the run folder and truncate the metrics to match.

        Parameters
        ----------
        which : int, "latest" or "previous"

        Returns
        -------
        int
            Step at which the run continues; 0 if it was stopped before its first checkpoint.
        """
        checkpoints = self.run.checkpoints
        checkpoints.clean()
        if not checkpoints.steps():
            self.run.cut_metrics(after=-1)
            return 0
        step, state = checkpoints.load(which)
        self.load_state_dict(state)
        checkpoints.set_aside(after=step)
        self.run.cut_metrics(after=step if step else -1)  # step 0 will be evaluated again
        return step


def _split(model, loss_function, threads, processes, count):
    """Return the function that runs the backward pass of a batch, in threads or processes."""
    if processes == 1:
        return ThreadSplit(model, loss_function, threads, count)
    if threads != 1:
        raise ArgumentError(
            "Loop: threads and processes cannot be combined",
            got=f"threads={threads}, processes={processes}",
            hint="leave one of them out",
        )
    return ProcessSplit(model, loss_function, processes, count)


def _is_time(step, interval):
    return bool(interval) and step % interval == 0


@names_arguments
def mean_loss(model, batches, loss_function):
    """Return the mean loss over batches, each weighted by its number of targets.

    Parameters
    ----------
    model : Module
    batches : iterable of (inputs, targets)
    loss_function : callable
        Function `loss_function(model, batch)` that returns the mean over the targets, a 0-d Tensor.

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
