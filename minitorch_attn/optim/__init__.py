"""Optimizers and learning-rate schedules, with PyTorch's interface."""

from . import lr_scheduler
from .adafactor import Adafactor, HFAdafactor
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .rmsprop import Adagrad, RMSprop
from .sgd import SGD

__all__ = [
    "SGD", "Adafactor", "Adagrad", "Adam", "AdamW", "HFAdafactor", "Optimizer", "RMSprop",
    "lr_scheduler",
]  # fmt: skip
