"""Array backends for every device: NumPy, CuPy and the strict test device.

Only `backend.cuda` imports CuPy, when a CUDA device is first used.
"""

from minitorch_attn.backend import cuda, random
from minitorch_attn.backend.allocator import keep_memory
from minitorch_attn.backend.arrays import (
    as_array,
    as_dtype,
    finfo,
    get_default_dtype,
    host_array,
    iinfo,
    is_number_dtype,
    is_whole,
    like,
    new_array,
    set_default_dtype,
    zeros_like_device,
)
from minitorch_attn.backend.devices import (
    address,
    array_module,
    as_device,
    check_same_device,
    device_of,
    from_host,
    is_array,
    module_for,
    platform_of,
    shares_memory,
    to_device,
    to_host,
)
from minitorch_attn.backend.gemm import matmul
from minitorch_attn.backend.inverse_erf import erfinv
from minitorch_attn.backend.platforms import Device
from minitorch_attn.backend.random import (
    get_rng_state,
    host_generator,
    initial_seed,
    keep_mask,
    manual_seed,
    next_offset,
    set_rng_state,
)
from minitorch_attn.backend.scatter import scatter_add
from minitorch_attn.backend.special import erf, normal
from minitorch_attn.backend.sync import forbid_sync, sync_count, transfer_count

__all__ = [
    "Device", "address", "array_module", "as_array", "as_device", "as_dtype",
    "check_same_device", "cuda", "device_of", "erf", "erfinv", "finfo", "forbid_sync",
    "from_host", "get_default_dtype", "get_rng_state", "host_array", "host_generator", "iinfo",
    "initial_seed", "is_array", "is_number_dtype", "is_whole", "keep_mask", "keep_memory",
    "like", "manual_seed", "matmul", "module_for", "new_array", "next_offset", "normal",
    "platform_of", "random", "scatter_add", "set_default_dtype", "set_rng_state",
    "shares_memory", "sync_count", "to_device", "to_host", "transfer_count", "zeros_like_device",
]  # fmt: skip

keep_memory()
