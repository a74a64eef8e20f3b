"""Cyclic schedules: cosine annealing, warm restarts, OneCycleLR and CyclicLR."""

import math

from ...errors import ArgumentError, DTypeError
from ..optimizer import check_number
from .base import LRScheduler, check_optimizer, check_whole

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingLR(LRScheduler):
    r"""Decay from the initial rate lr_0 to `eta_min` along half a cosine, in `T_max` steps.

        lr(t) = eta_min + (lr_0 - eta_min) (1 + cos(pi t / T_max)) / 2

    The rate is computed from the previous one, so that several schedules can be combined:

        lr(t) = eta_min + (lr(t-1) - eta_min) (1 + cos(pi t / T_max)) / (1 + cos(pi (t-1) / T_max))

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    T_max : int
        Number of steps to the minimum, after which the rate rises again.
    eta_min : float, default 0
        Lowest learning rate.

    References
    ----------
    .. [1] "SGDR: Stochastic Gradient Descent with Warm Restarts", arXiv:1608.03983v5, eq. 5,
       without the restarts.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        check_whole(self, 1, T_max=T_max)
        check_number(self, eta_min=eta_min)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t, T, low = self.last_epoch, self.T_max, self.eta_min
        if self._starting:
            return self._current()
        if self._step_count == 1 and t > 0:
            return self.closed_form()
        if (t - 1 - T) % (2 * T) == 0:  # step after a minimum: the ratio would divide by 0
            rise = (1 - math.cos(math.pi / T)) / 2
            pairs = zip(self._current(), self.base_lrs, strict=True)
            return [rate + (base - low) * rise for rate, base in pairs]
        ratio = (1 + math.cos(math.pi * t / T)) / (1 + math.cos(math.pi * (t - 1) / T))
        return [ratio * (rate - low) + low for rate in self._current()]

    def closed_form(self):
        """Compute the current learning rates directly from the initial rates."""
        half = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * half for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine decay with restarts; each period is `T_mult` times as long as the previous period.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    T_0 : int
        Number of steps before the first restart.
    T_mult : int, default 1
        Ratio of the length of each period to the length of the previous period.
    eta_min : float, default 0
        Lowest learning rate.

    References
    ----------
    .. [1] "SGDR: Stochastic Gradient Descent with Warm Restarts", arXiv:1608.03983v5, eq. 5.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        check_whole(self, 1, T_0=T_0, T_mult=T_mult)
        check_number(self, eta_min=eta_min)
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min, self.T_cur = eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        half = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * half for base in self.base_lrs]

    def step(self, epoch=None):
        """Advance by one step, or to `epoch`, which does not have to be an integer."""
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ArgumentError("scheduler.step: epoch must not be negative", got=f"{epoch}")
            self.last_epoch = math.floor(epoch)
            self.T_cur, self.T_i = epoch, self.T_0
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            elif epoch >= self.T_0:
                passed = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                begun = self.T_0 * (self.T_mult**passed - 1) / (self.T_mult - 1)
                self.T_cur, self.T_i = epoch - begun, self.T_0 * self.T_mult**passed
        self._set(self.get_lr())


def _cosine(start, end, done):
    return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _line(start, end, done):
    return (end - start) * done + start


def _per_group(schedule, optimizer, **option):
    """Return the values of an option `name=number` or `name=[number, ...]`, one per group."""
    ((name, value),) = option.items()
    check_optimizer(type(schedule).__name__, optimizer)
    groups = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(values) != groups:
        raise ArgumentError(
            f"{type(schedule).__name__}: {name} must have one value for each parameter group",
            got=f"{len(values)} values for {groups} groups",
            hint="pass one number to use it for all groups",
        )
    for number in values:
        check_number(schedule, **{name: number})
    return values


def _momentum_of(group):
    """Return a group's momentum (for Adam, the first beta) and a function that sets it."""
    if "betas" in group:
        return group["betas"][0], lambda m: group.update(betas=(m, *group["betas"][1:]))
    return group.get("momentum"), lambda m: group.update(momentum=m)


class OneCycleLR(LRScheduler):
    """One-cycle policy: the rate rises to `max_lr`, then falls below its initial value.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    max_lr : float, or list of float, one for each group
        Highest learning rate.
    total_steps : int, optional
        Number of steps. Default: `epochs * steps_per_epoch`.
    pct_start : float, default 0.3
        Fraction of the steps in which the rate rises.
    anneal_strategy : {"cos", "linear"}
        Curve along which the rate rises and falls: half a cosine, or a line.
    cycle_momentum : bool
        Whether the momentum falls while the rate rises, and rises while the rate falls.
    base_momentum, max_momentum : float, or list of float, one for each group
        Lowest and highest momentum. For Adam, it is beta1.
    div_factor, final_div_factor : float
        The first rate is max_lr / div_factor; the last is max_lr / (div_factor final_div_factor).
    three_phase : bool
        Whether the rate falls to the first rate as fast as it rose, and then falls further to the
        last rate.

    References
    ----------
    .. [1] "Super-Convergence", arXiv:1708.07120v3.
    """

    def __init__(
        self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None,
        pct_start=0.3, anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85,
        max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False,
        last_epoch=-1,
    ):  # fmt: skip
        given = {"total_steps": total_steps, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
        check_whole(self, 1, **{name: n for name, n in given.items() if n is not None})
        check_number(
            self, pct_start=pct_start, div_factor=div_factor, final_div_factor=final_div_factor
        )
        if total_steps is None and epochs and steps_per_epoch:
            total_steps = epochs * steps_per_epoch
        if total_steps is None:
            raise ArgumentError(
                "OneCycleLR: the number of steps is missing",
                got=f"total_steps=None, epochs={epochs}, steps_per_epoch={steps_per_epoch}",
                expected="total_steps, or epochs and steps_per_epoch",
            )
        if not (div_factor > 0 and final_div_factor > 0):
            raise ArgumentError(
                "OneCycleLR: div_factor and final_div_factor must be positive",
                got=f"div_factor={div_factor}, final_div_factor={final_div_factor}",
            )
        if anneal_strategy not in ("cos", "linear") or not 0 <= pct_start <= 1:
            raise ArgumentError(
                "OneCycleLR: anneal_strategy must be 'cos' or 'linear', and pct_start in [0, 1]",
                got=f"anneal_strategy={anneal_strategy!r}, pct_start={pct_start}",
            )
        self.total_steps = total_steps
        self.linear, self.cycle_momentum = anneal_strategy == "linear", cycle_momentum
        rise = float(pct_start * total_steps) - 1
        if three_phase:
            ends = [rise, float(2 * pct_start * total_steps) - 2, total_steps - 1]
            self.phases = [
                [ends[0], "initial_lr", "max_lr", "max_momentum", "base_momentum"],
                [ends[1], "max_lr", "initial_lr", "base_momentum", "max_momentum"],
                [ends[2], "initial_lr", "min_lr", "max_momentum", "max_momentum"],
            ]
        else:
            self.phases = [
                [rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"],
                [total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"],
            ]
        if last_epoch == -1:
            self._prepare(optimizer, max_lr, div_factor, final_div_factor)
            self._prepare_momentum(optimizer, base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _prepare(self, optimizer, max_lr, div_factor, final_div_factor):
        highest = _per_group(self, optimizer, max_lr=max_lr)
        for group, high in zip(optimizer.param_groups, highest, strict=True):
            group["initial_lr"] = high / div_factor
            group["max_lr"] = high
            group["min_lr"] = group["initial_lr"] / final_div_factor

    def _prepare_momentum(self, optimizer, base_momentum, max_momentum):
        if not self.cycle_momentum:
            return
        low = _per_group(self, optimizer, base_momentum=base_momentum)
        high = _per_group(self, optimizer, max_momentum=max_momentum)
        for group, a, b in zip(optimizer.param_groups, low, high, strict=True):
            value, put = _momentum_of(group)
            if value is None:
                raise ArgumentError(
                    "OneCycleLR: cycle_momentum=True requires an optimizer with momentum",
                    hint="pass cycle_momentum=False, or use an optimizer with momentum",
                )
            put(b)
            group["base_momentum"], group["max_momentum"] = a, b

    def get_lr(self):
        t = self.last_epoch
        if t > self.total_steps:
            raise ArgumentError(
                "OneCycleLR: the step must be at most total_steps",
                got=f"step {t} of {self.total_steps}",
                hint="use a larger total_steps",
            )
        anneal, rates = (_line if self.linear else _cosine), []
        for group in self.optimizer.param_groups:
            start = 0.0
            for phase in self.phases:
                end, first, last, first_momentum, last_momentum = phase
                if t <= end or phase is self.phases[-1]:
                    done = (t - start) / (end - start)
                    break
                start = end
            rates.append(anneal(group[first], group[last], done))
            if self.cycle_momentum:
                _, put = _momentum_of(group)
                put(anneal(group[first_momentum], group[last_momentum], done))
        return rates


class CyclicLR(LRScheduler):
    """Triangular cycles between `base_lr` and `max_lr`, of constant or decreasing amplitude.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are changed.
    base_lr, max_lr : float, or list of float, one for each group
        Lowest and highest learning rate of a cycle.
    step_size_up : int, default 2000
        Number of steps in which the rate rises.
    step_size_down : int, optional
        Number of steps in which the rate falls. Default: `step_size_up`.
    mode : {"triangular", "triangular2", "exp_range"}
        Amplitude: constant, halved in each cycle, or multiplied by `gamma` at each step.
    gamma : float, default 1
        Factor by which the mode "exp_range" multiplies the amplitude at each step.
    scale_fn : callable, optional
        Amplitude as a function of the cycle number or, with `scale_mode="iterations"`, the step.
    scale_mode : {"cycle", "iterations"}
        Argument of `scale_fn`: the number of the cycle, or of the step.
    cycle_momentum : bool
        Whether the momentum falls while the rate rises, and rises while the rate falls.
    base_momentum, max_momentum : float, or list of float, one for each group
        Lowest and highest momentum. For Adam, it is beta1.

    References
    ----------
    .. [1] "Cyclical Learning Rates for Training Neural Networks", arXiv:1506.01186v6.
    """

    def __init__(
        self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None,
        mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True,
        base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ):  # fmt: skip
        check_whole(self, 1, step_size_up=step_size_up)
        check_whole(self, 0, step_size_down=0 if step_size_down is None else step_size_down)
        check_number(self, gamma=gamma)
        if scale_fn is not None and not callable(scale_fn):
            raise DTypeError("CyclicLR: scale_fn must be callable", got=f"{scale_fn!r:.60}")
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(
                "CyclicLR: mode is invalid",
                got=repr(mode), expected="triangular, triangular2 or exp_range",
                hint="pass scale_fn=... for another amplitude",
            )  # fmt: skip
        lows = _per_group(self, optimizer, base_lr=base_lr)
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = group["initial_lr"] = low
        self.max_lrs = _per_group(self, optimizer, max_lr=max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self.scale_fn = mode, gamma, scale_fn
        by_cycle = scale_mode == "cycle" if scale_fn is not None else mode != "exp_range"
        self.scale_by_cycle = by_cycle
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = _per_group(self, optimizer, base_momentum=base_momentum)
            self.max_momentums = _per_group(self, optimizer, max_momentum=max_momentum)
            for group, high in zip(optimizer.param_groups, self.max_momentums, strict=True):
                value, put = _momentum_of(group)
                if value is None:
                    raise ArgumentError(
                        "CyclicLR: cycle_momentum=True requires an optimizer with momentum",
                        hint="pass cycle_momentum=False, or use an optimizer with momentum",
                    )
                put(high)
        super().__init__(optimizer, last_epoch)

    def _height(self, x):
        if self.scale_fn is not None:
            return self.scale_fn(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rise = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        rise *= self._height(cycle if self.scale_by_cycle else self.last_epoch)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        rates = [low + (high - low) * rise for low, high in pairs]
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                _momentum_of(group)[1](high - (high - low) * rise)
        return rates
