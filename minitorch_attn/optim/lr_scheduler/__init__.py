"""Learning-rate schedulers."""

from ...absent_names import absent as _absent
from .base import LRScheduler
from .combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from .cyclic import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .factor import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from .warmup import (
    NoamLR,
    get_constant_schedule,
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_inverse_sqrt_schedule,
    get_linear_schedule_with_warmup,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "NoamLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR", "get_constant_schedule", "get_constant_schedule_with_warmup",
    "get_cosine_schedule_with_warmup", "get_inverse_sqrt_schedule",
    "get_linear_schedule_with_warmup",
]  # fmt: skip

__getattr__ = _absent(__name__)
