"""Learning rates over time."""

import math

from ..errors import ArgumentError

__all__ = [
    "LRScheduler",
    "LambdaLR",
    "NoamLR",
    "CosineAnnealingLR",
    "get_linear_schedule_with_warmup",
    "get_cosine_schedule_with_warmup",
    "get_inverse_sqrt_schedule",
]


class LRScheduler:
    """Base of the schedules; the interface is PyTorch's.

    The learning rate for step 0 is set at construction; each `step()` sets the next one.
    A subclass defines `get_lr()`, one rate for each parameter group, in terms of
    `self.last_epoch` and `self.base_lrs`.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int, default -1
        The number of the last step when resuming; -1 starts anew.
    """

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group["initial_lr"] = group["lr"]
            elif "initial_lr" not in group:
                raise ArgumentError(
                    "scheduler: resuming needs `initial_lr` in every parameter group.",
                    got=f"last_epoch={last_epoch}",
                    hint="load the optimiser's state first, or leave last_epoch at -1",
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def get_lr(self):
        """The learning rates at `self.last_epoch`, one for each group."""
        raise NotImplementedError

    def get_last_lr(self):
        """The learning rates set last, one for each group."""
        return self._last_lr

    def step(self):
        """Move on by one and set the learning rates."""
        self._step_count += 1
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _current(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """Everything but the optimiser and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not _calls(v)}

    def load_state_dict(self, state_dict):
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)


def _calls(value):
    return callable(value) or (isinstance(value, list) and any(callable(v) for v in value))


class LambdaLR(LRScheduler):
    """The initial rate times a function of the step.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or one for each group
        Step number (from 0) -> factor.

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
        groups = len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ArgumentError(
                "LambdaLR: one function is needed for each parameter group.",
                got=f"{len(self.lr_lambdas)} functions for {groups} groups",
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * factor(self.last_epoch) for base, factor in pairs]


class NoamLR(LambdaLR):
    r"""Linear warm-up, then decay with the inverse square root of the step.

        factor(t) = d_model^-0.5 min((t + 1)^-0.5, (t + 1) warmup_steps^-1.5)

    The paper counts steps from 1; t counts from 0.

    Parameters
    ----------
    optimizer : Optimizer
        With `lr=1` the factor is the learning rate itself, as in the paper.
    d_model : int
        Width of the model.
    warmup_steps : int

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, sec. 5.3, eq. 3.
    """

    def __init__(self, optimizer, d_model, warmup_steps, last_epoch=-1):
        self.d_model, self.warmup_steps = d_model, warmup_steps

        def factor(t):
            return d_model**-0.5 * min((t + 1) ** -0.5, (t + 1) * warmup_steps**-1.5)

        super().__init__(optimizer, factor, last_epoch)


class CosineAnnealingLR(LRScheduler):
    r"""Half a cosine from the initial rate down to `eta_min`, and up again after `T_max`.

        lr(t) = eta_min + (lr_0 - eta_min) (1 + cos(pi t / T_max)) / 2

    computed from the rate before, so that it combines with other changes of the rate:

        lr(t) = eta_min + (lr(t-1) - eta_min) (1 + cos(pi t / T_max)) / (1 + cos(pi (t-1) / T_max))

    Parameters
    ----------
    optimizer : Optimizer
    T_max : int
        Steps to the minimum.
    eta_min : float, default 0

    References
    ----------
    .. [1] "SGDR: Stochastic Gradient Descent with Warm Restarts", arXiv:1608.03983v5, eq. 5,
       without the restarts.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t, T, low = self.last_epoch, self.T_max, self.eta_min
        if t == 0:
            return self._current()
        if self._step_count == 1:
            half = (1 + math.cos(math.pi * t / T)) / 2
            return [low + (base - low) * half for base in self.base_lrs]
        if (t - 1 - T) % (2 * T) == 0:  # leaving the minimum, where the ratio is 0/0
            rise = (1 - math.cos(math.pi / T)) / 2
            pairs = zip(self._current(), self.base_lrs, strict=True)
            return [rate + (base - low) * rise for rate, base in pairs]
        ratio = (1 + math.cos(math.pi * t / T)) / (1 + math.cos(math.pi * (t - 1) / T))
        return [ratio * (rate - low) + low for rate in self._current()]


def get_linear_schedule_with_warmup(
    optimizer, num_warmup_steps, num_training_steps, last_epoch=-1
):
    """Up linearly from 0 during the warm-up, then down linearly to 0."""

    def factor(t):
        if t < num_warmup_steps:
            return t / max(1, num_warmup_steps)
        return max(0.0, (num_training_steps - t) / max(1, num_training_steps - num_warmup_steps))

    return LambdaLR(optimizer, factor, last_epoch)


def get_cosine_schedule_with_warmup(
    optimizer, num_warmup_steps, num_training_steps, num_cycles=0.5, last_epoch=-1
):
    """Up linearly from 0 during the warm-up, then down along `num_cycles` of a cosine."""

    def factor(t):
        if t < num_warmup_steps:
            return t / max(1, num_warmup_steps)
        done = (t - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * num_cycles * 2.0 * done)))

    return LambdaLR(optimizer, factor, last_epoch)


def get_inverse_sqrt_schedule(optimizer, num_warmup_steps, timescale=None, last_epoch=-1):
    """Up linearly during the warm-up, then down with the inverse square root of the step."""
    scale = timescale or num_warmup_steps or 10_000
    shift = scale - num_warmup_steps

    def factor(t):
        if t < num_warmup_steps:
            return t / max(1, num_warmup_steps)
        return 1.0 / math.sqrt((t + shift) / scale)

    return LambdaLR(optimizer, factor, last_epoch)
