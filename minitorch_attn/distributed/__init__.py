"""Distributed computing: processes that work together, with the API names of `torch.distributed`.

Each process of a run is a rank. `init_process_group` joins the ranks, collectives such as
`all_reduce` combine their tensors, and `functional` has differentiable versions. MPI (mpi4py)
sends tensors that are on the CPU, and NCCL (CuPy) sends tensors that are on GPUs. See
docs/distributed.md.
"""

from ..absent_names import absent as _absent
from . import functional
from .collectives import (
    ReduceOp,
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from .counting import Traffic, count_messages
from .objects import all_gather_object, broadcast_object_list
from .parts import part_sizes, part_slices
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .process_group import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    new_group,
)
from .ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from .ring_attention import ring_attention
from .sequence_order import join_sequence, sequence_slices, split_sequence
from .work import Work

__all__ = [
    "GroupMember", "P2POp", "ProcessGroup", "ReduceOp", "Traffic", "Work", "all_gather",
    "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "count_messages",
    "destroy_process_group", "functional", "gather", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "irecv", "is_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "isend", "join_sequence", "new_group", "part_sizes", "part_slices", "recv",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "ring_all_gather", "ring_all_reduce",
    "ring_attention", "ring_reduce_scatter", "scatter", "send", "sequence_slices",
    "split_sequence",
]  # fmt: skip

__getattr__ = _absent(__name__)
