"""Schedules that multiply the learning rate by a factor, such as `StepLR` and `LinearLR`."""

from collections import Counter

from ...errors import ArgumentError, DTypeError
from ..optimizer import check_number
from .base import LRScheduler, check_optimizer, check_whole

__all__ = [
    "ConstantLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "PolynomialLR", "StepLR",
]  # fmt: skip


def one_per_group(functions, optimizer, name):
    """Return a list with one function for each parameter group."""
    check_optimizer(name, optimizer)
    groups = len(optimizer.param_groups)
    several = isinstance(functions, (list, tuple))
    if not all(callable(f) for f in (functions if several else [functions])):
        raise DTypeError(f"{name}: lr_lambda must be callable", got=f"lr_lambda={functions!r:.60}")
    if not several:
        return [functions] * groups
    if len(functions) != groups:
        raise ArgumentError(
            f"{name}: lr_lambda must have one function for each parameter group",
            got=f"{len(functions)} functions for {groups} groups",
            hint="pass one function, not a list, to use it for all groups",
        )
    return list(functions)


class LambdaLR(LRScheduler):
    """Multiply the initial rate lr_0 by a function of the step t: `lr(t) = lr_0 f(t)`.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    lr_lambda : callable, or list of callable, one for each group
        Function that maps the step number, counted from 0, to a factor.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=1.0)
    >>> schedule = LambdaLR(optimizer, lambda t: 0.5**t)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambdas = one_per_group(lr_lambda, optimizer, type(self).__name__)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * factor(self.last_epoch) for base, factor in pairs]


class MultiplicativeLR(LRScheduler):
    """Multiply the previous rate by a function of the step t: `lr(t) = lr(t-1) f(t)`.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    lr_lambda : callable, or list of callable, one for each group
        Function that maps the step number to a factor.
    """

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambdas = one_per_group(lr_lambda, optimizer, type(self).__name__)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self._starting:
            return self._current()
        pairs = zip(self._current(), self.lr_lambdas, strict=True)
        return [rate * factor(self.last_epoch) for rate, factor in pairs]


class StepLR(LRScheduler):
    """Multiply the rate by `gamma` after every `step_size` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    step_size : int
        Number of steps after which the rate changes.
    gamma : float, default 0.1
        Factor by which the rate is multiplied.
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        check_whole(self, 1, step_size=step_size)
        check_number(self, gamma=gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if due else self._current()

    def closed_form(self):
        """Compute `lr_0 gamma^floor(t / step_size)` from the initial rate lr_0 and the step t."""
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by `gamma` at each milestone.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    milestones : list of int
        Steps at which the rate changes.
    gamma : float, default 0.1
        Factor by which the rate is multiplied.
    """

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        check_number(self, gamma=gamma)
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        times = self.milestones[self.last_epoch]
        return self._scaled(self.gamma**times) if times else self._current()

    def closed_form(self):
        """Compute `lr_0 gamma^n` from the initial rate lr_0 after n milestones have passed."""
        passed = sum(n for at, n in self.milestones.items() if at <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the rate by `factor` for the first `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    factor : float, default 1/3
        Factor by which the rate is multiplied.
    total_iters : int, default 5
        Number of steps with this factor.
    """

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        check_whole(self, 0, total_iters=total_iters)
        if not 0 < check_number(self, factor=factor) <= 1:
            raise ArgumentError(
                "ConstantLR: factor must be in (0, 1]",
                got=f"{factor}", hint="use LambdaLR to raise the learning rate",
            )  # fmt: skip
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch == self.total_iters:
            return self._scaled(1.0 / self.factor)
        return self._current()

    def closed_form(self):
        """Compute `lr_0 factor` before step `total_iters`, else the initial rate lr_0."""
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiply the rate by a factor that changes linearly during the first `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    start_factor : float, default 1/3
        Factor at step 0.
    end_factor : float, default 1
        Factor from step `total_iters` on.
    total_iters : int, default 5
        Number of steps from the first factor to the last.
    """

    def __init__(
        self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1
    ):
        check_whole(self, 1, total_iters=total_iters)
        check_number(self, start_factor=start_factor, end_factor=end_factor)
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ArgumentError(
                "LinearLR: start_factor must be in (0, 1], and end_factor in [0, 1]",
                got=f"start_factor={start_factor}, end_factor={end_factor}",
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._starting or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._scaled(1.0 + rise / before)

    def closed_form(self):
        """Compute the current learning rates directly from the initial rates."""
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Exponential decay from the initial rate lr_0: `lr(t) = lr_0 gamma^t` at step t.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    gamma : float
        Factor by which the rate is multiplied at each step.
    """

    def __init__(self, optimizer, gamma, last_epoch=-1):
        check_number(self, gamma=gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._current() if self._starting else self._scaled(self.gamma)

    def closed_form(self):
        """Compute `lr_0 gamma^t`."""
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Polynomial decay from the initial rate lr_0: `lr(t) = lr_0 (1 - t / total_iters)^power`.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    total_iters : int, default 5
        Number of steps until the rate is 0.
    power : float, default 1
        Exponent; 1 means a straight line.
    """

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        check_whole(self, 1, total_iters=total_iters)
        check_number(self, power=power)
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t, T = self.last_epoch, self.total_iters
        if self._starting or t > T:
            return self._current()
        return self._scaled(((1.0 - t / T) / (1.0 - (t - 1) / T)) ** self.power)

    def closed_form(self):
        """Compute `lr_0 (1 - min(t / total_iters, 1))^power`."""
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
