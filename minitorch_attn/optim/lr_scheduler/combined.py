"""Combined schedules, and ReduceLROnPlateau, which lowers the rate when a metric stagnates."""

from bisect import bisect_right

from ...errors import ArgumentError
from ...schema import list_of, record
from ..optimizer import check_number
from ..saved_state import check_like, check_saved
from .base import LRScheduler, check_optimizer, check_whole

__all__ = ["ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"]


class SequentialLR(LRScheduler):
    """Several schedules in sequence: at each milestone, the next one starts at its own step 0.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    schedulers : list of LRScheduler
        Schedules, in the order of their use.
    milestones : list of int
        Steps at which the next schedule starts; one entry fewer than `schedulers`.
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        check_optimizer("SequentialLR", optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                "SequentialLR: milestones must have one entry fewer than schedulers",
                got=f"{len(schedulers)} schedules and {len(milestones)} milestones",
                hint="pass one milestone for each change from one schedule to the next",
            )
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ArgumentError(
                "SequentialLR: all schedulers must use the given optimizer",
                hint="create every scheduler with the same optimizer",
            )
        self.optimizer, self.milestones = optimizer, list(milestones)
        self._schedulers = list(schedulers)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for schedule in _flat(self._schedulers):
            schedule.last_epoch -= 1  # undo the first step, which the constructor took
        first = self._schedulers[bisect_right(self.milestones, 0)]
        first.first_step()
        self._last_lr = first.get_last_lr()

    def step(self):
        """Advance by one step."""
        self.last_epoch += 1
        number = bisect_right(self.milestones, self.last_epoch)
        schedule = self._schedulers[number]
        if number > 0 and self.milestones[number - 1] == self.last_epoch:
            schedule.restart()
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()

    def state_dict(self):
        """Return the state of this schedule and of the schedules it combines."""
        return _packed(self)

    def load_state_dict(self, state_dict):
        """Load a state that `state_dict` returned."""
        _unpack(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedules combined: each one changes the learning rate that the previous one set.

    Parameters
    ----------
    schedulers : list of LRScheduler
        Schedules of the same optimizer.
    optimizer : Optimizer, optional
        Default: the optimizer of the first schedule.
    """

    def __init__(self, schedulers, optimizer=None):
        if not schedulers:
            raise ArgumentError("ChainedScheduler: schedulers must not be empty")
        self.optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise ArgumentError(
                "ChainedScheduler: all schedulers must use the same optimizer",
                hint="create every scheduler with the same optimizer",
            )
        self._schedulers = list(schedulers)
        self._last_lr = self._current()

    def step(self):
        """Advance every schedule by one step."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = self._current()

    def state_dict(self):
        """Return the state of the schedules."""
        return _packed(self)

    def load_state_dict(self, state_dict):
        """Load a state that `state_dict` returned."""
        _unpack(self, state_dict)


def _flat(schedulers):
    for schedule in schedulers:
        inner = getattr(schedule, "_schedulers", None)
        if inner is None:
            yield schedule
        else:
            yield from _flat(inner)


def _packed(combined):
    state = {k: v for k, v in combined.__dict__.items() if k not in ("optimizer", "_schedulers")}
    return {**state, "_schedulers": [s.state_dict() for s in combined._schedulers]}


def _unpack(combined, state_dict):
    schedules, where = combined._schedulers, type(combined).__name__
    several = list_of(record({}), len(schedules))
    check_saved(state_dict, record({"_schedulers": several}), where)
    for schedule, inner in zip(schedules, state_dict["_schedulers"], strict=True):
        schedule.load_state_dict(inner)
    own = {name: value for name, value in _packed(combined).items() if name != "_schedulers"}
    check_like(state_dict, own, where)
    combined.__dict__.update({name: state_dict[name] for name in own if name in state_dict})


class ReduceLROnPlateau(LRScheduler):
    """Reduce the learning rate when a metric has stopped improving.

    The rate is multiplied by `factor` when the metric has not improved for more than `patience`
    calls of `step`.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    mode : {"min", "max"}
        Whether smaller or larger values of the metric are better.
    factor : float, default 0.1
        Factor by which the rate is multiplied, less than 1.
    patience : int, default 10
        Number of calls of `step` without an improvement that are tolerated.
    threshold : float, default 1e-4
        Minimum change that counts as an improvement.
    threshold_mode : {"rel", "abs"}
        Whether `threshold` is relative to the best value so far, or absolute.
    cooldown : int, default 0
        Number of calls of `step` after each reduction that do not count towards `patience`.
    min_lr : float, or list of float, one for each group
        Lowest learning rate.
    eps : float, default 1e-8
        Minimum change of the learning rate; smaller reductions are skipped.
    """

    def __init__(
        self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4,
        threshold_mode="rel", cooldown=0, min_lr=0.0, eps=1e-8,
    ):  # fmt: skip
        check_number(self, factor=factor, threshold=threshold, eps=eps)
        check_whole(self, 0, patience=patience, cooldown=cooldown)
        if factor >= 1.0:
            raise ArgumentError(
                "ReduceLROnPlateau: factor must be less than 1",
                got=f"{factor}", hint="pass factor=0.1 to divide the learning rate by 10",
            )  # fmt: skip
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                "ReduceLROnPlateau: mode must be 'min' or 'max', and threshold_mode 'rel' or 'abs'",
                got=f"mode={mode!r}, threshold_mode={threshold_mode!r}",
            )
        check_optimizer("ReduceLROnPlateau", optimizer)
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        groups = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        for lowest in self.min_lrs:
            check_number(self, min_lr=lowest)
        self.best = float("inf") if mode == "min" else -float("inf")
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self._current()

    def step(self, metrics, epoch=None):
        """Update the schedule with the latest value of the metric."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                reduced = max(group["lr"] * self.factor, lowest)
                if group["lr"] - reduced > self.eps:
                    group["lr"] = reduced
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()

    def _is_better(self, value):
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            bound = self.best * (1 - sign * self.threshold)
        else:
            bound = self.best - sign * self.threshold
        return value < bound if sign > 0 else value > bound
