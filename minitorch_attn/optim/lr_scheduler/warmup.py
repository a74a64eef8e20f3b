"""Warm-up schedules for training Transformers."""

import math

from ...named_errors import names_arguments
from .base import check_whole
from .factor import LambdaLR

__all__ = [
    "NoamLR", "get_constant_schedule", "get_constant_schedule_with_warmup",
    "get_cosine_schedule_with_warmup", "get_inverse_sqrt_schedule",
    "get_linear_schedule_with_warmup",
]  # fmt: skip


class NoamLR(LambdaLR):
    r"""Linear warm-up, then decay with the inverse square root of the step.

        factor(t) = d_model^-0.5 min((t + 1)^-0.5, (t + 1) warmup_steps^-1.5)

    The paper counts steps from 1; t counts from 0.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose initial `lr` is multiplied by the factor. Use `lr=1` for the paper's rate.
    d_model : int
        Width of the model.
    warmup_steps : int
        Number of steps in which the rate rises.

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, sec. 5.3, eq. 3.
    """

    def __init__(self, optimizer, d_model, warmup_steps, last_epoch=-1):
        check_whole(self, 1, d_model=d_model, warmup_steps=warmup_steps)
        self.d_model, self.warmup_steps = d_model, warmup_steps

        def factor(t):
            return d_model**-0.5 * min((t + 1) ** -0.5, (t + 1) * warmup_steps**-1.5)

        super().__init__(optimizer, factor, last_epoch)


@names_arguments
def get_constant_schedule(optimizer, last_epoch=-1):
    """Keep the learning rate constant at its initial value."""
    return LambdaLR(optimizer, lambda t: 1, last_epoch)


@names_arguments
def get_constant_schedule_with_warmup(optimizer, num_warmup_steps, last_epoch=-1):
    """Increase the rate linearly from 0 during the warm-up, then keep it constant."""
    return LambdaLR(optimizer, lambda t: min(1.0, t / max(1.0, num_warmup_steps)), last_epoch)


@names_arguments
def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, last_epoch=-1):
    """Increase the rate linearly from 0 during the warm-up, then decrease it linearly to 0."""

    def factor(t):
        if t < num_warmup_steps:
            return t / max(1, num_warmup_steps)
        return max(0.0, (num_training_steps - t) / max(1, num_training_steps - num_warmup_steps))

    return LambdaLR(optimizer, factor, last_epoch)


@names_arguments
def get_cosine_schedule_with_warmup(
    optimizer, num_warmup_steps, num_training_steps, num_cycles=0.5, last_epoch=-1
):
    """Increase the rate linearly from 0, then follow `num_cycles` periods of a cosine."""

    def factor(t):
        if t < num_warmup_steps:
            return t / max(1, num_warmup_steps)
        done = (t - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * num_cycles * 2.0 * done)))

    return LambdaLR(optimizer, factor, last_epoch)


@names_arguments
def get_inverse_sqrt_schedule(optimizer, num_warmup_steps, timescale=None, last_epoch=-1):
    """Increase the rate linearly from 0, then decay with the inverse square root of the step."""
    scale = timescale or num_warmup_steps or 10_000
    shift = scale - num_warmup_steps

    def factor(t):
        if t < num_warmup_steps:
            return t / max(1, num_warmup_steps)
        return 1.0 / math.sqrt((t + shift) / scale)

    return LambdaLR(optimizer, factor, last_epoch)
