"""Parallel training: modules that divide a model or a batch among several workers.

DataParallel and DistributedDataParallel split the batch, tensor_parallel splits the heads and
hidden features, SequenceParallel splits the tokens, and GPipe splits the layers. `mt.nn` imports
this package only on first use, because it imports `distributed`, which other programs do not need.
"""

from ...absent_names import absent as _absent
from ..data_parallel import DataParallel
from .distributed_data_parallel import DistributedDataParallel
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
    "ColumnParallelLinear", "DataParallel", "DistributedDataParallel", "GPipe", "RingAttention",
    "RowParallelLinear", "SequenceParallel", "SplitHeadsAttention", "bubble_fraction",
    "gather_state_dict", "gpipe_schedule", "pipeline_layers", "tensor_parallel",
]  # fmt: skip

__getattr__ = _absent(__name__)
