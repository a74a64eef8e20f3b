"""Optimizers and learning-rate schedules, with PyTorch's interface."""

from ..absent_names import absent as _absent
from . import lr_scheduler
from .adafactor import Adafactor, HFAdafactor
from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .nadam_radam import NAdam, RAdam
from .optimizer import Optimizer
from .rmsprop import Adagrad, RMSprop
from .sgd import SGD

__all__ = [
    "LBFGS", "SGD", "Adafactor", "Adagrad", "Adam", "AdamW", "HFAdafactor", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "ZeroRedundancyOptimizer", "lr_scheduler",
]  # fmt: skip


def __getattr__(name):
    if name == "ZeroRedundancyOptimizer":  # imported on first use, because it needs `distributed`
        from .zero_redundancy import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer
    return _absent(__name__)(name)
