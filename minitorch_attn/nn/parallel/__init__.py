"""Parallel layers: split the batch, the heads, the sequence or the layers of a model."""

from ..data_parallel import DataParallel
from .pipeline import GPipe, bubble_fraction, gpipe_schedule, pipeline_layers
from .sequence_parallel import RingAttention, SequenceParallel
from .tensor_parallel import (
    ColumnParallelLinear,
    RowParallelLinear,
    SplitHeadsAttention,
    gather_state_dict,
    tensor_parallel,
)

__all__ = [
    "ColumnParallelLinear", "DataParallel", "GPipe", "RingAttention", "RowParallelLinear",
    "SequenceParallel", "SplitHeadsAttention", "bubble_fraction", "gather_state_dict",
    "gpipe_schedule", "pipeline_layers", "tensor_parallel",
]  # fmt: skip
