"""Parallel layers: split the batch, the heads, the sequence or the layers of a model."""

from ..data_parallel import DataParallel
from .sequence_parallel import RingAttention, SequenceParallel
from .tensor_parallel import (
    ColumnParallelLinear,
    RowParallelLinear,
    SplitHeadsAttention,
    gather_state_dict,
    tensor_parallel,
)

__all__ = [
    "ColumnParallelLinear", "DataParallel", "RingAttention", "RowParallelLinear",
    "SequenceParallel", "SplitHeadsAttention", "gather_state_dict", "tensor_parallel",
]  # fmt: skip
