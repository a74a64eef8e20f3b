"""CUDA kernels of the fused operations, one file per operation.

The file of an operation contains its formula, the CUDA source that computes it, and the class that
launches the kernel in place of the array operations. One launch of a kernel replaces about ten
launches of array operations. This saves time on a GPU, because a launch takes longer than the
computation itself if the arrays are small.

The backend imports this package when CUDA is first used. The import does not compile any kernel.
"""

from . import (
    attention,
    cross_entropy,
    draw_tokens,
    dropout,
    embedding,
    feed_forward,
    few_rows,
    gelu,
    kv_cache,
    layer_norm,
    linear,
    live_numbers,
    many_arrays,
    projections,
    range_check,
    roll,
    rotary,
    scatter_reduce,
    side_by_side,
    softmax,
)

__all__ = [
    "attention", "cross_entropy", "draw_tokens", "dropout", "embedding", "feed_forward",
    "few_rows", "gelu", "kv_cache", "layer_norm", "linear", "live_numbers", "many_arrays",
    "projections", "range_check", "roll", "rotary", "scatter_reduce", "side_by_side", "softmax",
]  # fmt: skip
