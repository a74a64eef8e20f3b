"""LRScheduler, the base class of the learning-rate schedules."""

import operator

from ...backend.graph_capture import refuse
from ...errors import ArgumentError, DTypeError, MissingMethodError
from ...named_errors import NamedErrors
from ..saved_state import check_like

__all__ = ["LRScheduler"]


class LRScheduler(NamedErrors):
    """Base class of the schedules, with PyTorch's interface.

    The constructor sets the learning rate for step 0; each `step()` sets the next one. A subclass
    defines `get_lr()`, which returns one rate for each parameter group. Most schedules compute the
    new rate from the current one, so that several schedules can act on one optimizer. Some also
    define `closed_form()`, which computes the rates directly from the initial rates.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    last_epoch : int, default -1
        Number of the last completed step of a schedule to resume. -1 starts a new schedule.
    """

    closed_form = None

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(type(self).__name__, optimizer)
        check_whole(self, -1, last_epoch=last_epoch)
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ArgumentError(
                    "scheduler: a parameter group does not have initial_lr",
                    got=f"last_epoch={last_epoch}",
                    hint="load the optimizer's state first, or use last_epoch=-1",
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.first_step()

    def get_lr(self):
        """Return the learning rates at `self.last_epoch`, one for each group."""
        raise MissingMethodError(f"{type(self).__name__} does not define get_lr")

    def get_last_lr(self):
        """Return the most recent learning rates, one for each group."""
        return self._last_lr

    def first_step(self):
        """Set the learning rates for step 0."""
        self._starting = True
        self.step()
        self._starting = False

    def step(self, epoch=None):
        """Advance by one step, or to `epoch`, and set the learning rates."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        jump = epoch is not None and self.closed_form is not None
        self._set(self.closed_form() if jump else self.get_lr())

    def restart(self):
        """Restart at step 0; `SequentialLR` calls this when it switches to this schedule."""
        self.last_epoch = 0
        self._set(self.get_lr() if self.closed_form is None else self.closed_form())

    def _set(self, rates):
        refuse("advances a learning-rate schedule: call scheduler.step() after it")
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._current()

    def _current(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor):
        return [rate * factor for rate in self._current()]

    def state_dict(self):
        """Return a dict of all attributes except the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not _calls(v)}

    def load_state_dict(self, state_dict):
        """Load a saved `state_dict`. Fields that this schedule does not have are ignored."""
        own = self.state_dict()
        check_like(state_dict, own, type(self).__name__)
        self.__dict__.update({name: state_dict[name] for name in own if name in state_dict})


def check_optimizer(name, optimizer):
    """Raise an error if `optimizer` is not an optimizer (for example, if it is a module)."""
    if not hasattr(optimizer, "param_groups"):
        raise DTypeError(
            f"{name}: optimizer is not an optimizer",
            got=f"{type(optimizer).__name__}",
            hint=f"pass the optimizer: {name}(optimizer, ...) with optimizer = optim.SGD(...)",
        )


def check_whole(schedule, least, **values):
    """Raise an error if a value is not an integer, or is less than `least`.

    Parameters
    ----------
    schedule : LRScheduler
        Schedule whose arguments are checked; the error message names its class.
    least : int
    **values : int
        Values of the arguments, by name.
    """
    for name, value in values.items():
        try:
            good = operator.index(value) >= least
        except TypeError:
            good = isinstance(value, float) and value.is_integer() and value >= least
        if not good:
            raise ArgumentError(
                f"{type(schedule).__name__}: {name} must be an integer of at least {least}",
                got=f"{name}={value!r:.60}",
            )


def _calls(value):
    return callable(value) or (isinstance(value, list) and any(callable(v) for v in value))
