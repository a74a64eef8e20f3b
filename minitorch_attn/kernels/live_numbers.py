"""Live numbers of a CUDA graph: numbers that change between replays, all written in one launch.

A graph replays its launches with the arguments recorded at capture. Its kernels therefore read
changing numbers (the learning rate, the dropout counter) from device memory. Before each replay,
one launch receives the new values as its argument and writes them there. A copy from the host would
be less convenient: the host memory would have to stay unchanged until the device has read it.
"""

import numpy as np

from ..backend.graph_capture import LENGTH, write_numbers
from ..backend.kernel_table import register
from .source import Source

__all__ = ["WriteKernel"]

SOURCE = Source(
    r"""
struct Numbers { long long bits[256]; };

template <typename T, typename A> __global__ void write_numbers(
    const Numbers numbers, long long* board)
{
    board[threadIdx.x] = numbers.bits[threadIdx.x];
}
""",
    "write_numbers",
    types={"float64": ("double", "double")},
)


@register(write_numbers)
class WriteKernel:
    """CUDA kernel of `backend.graph_capture.write_numbers`: one launch."""

    @staticmethod
    def accepts(board, values):
        return True

    @staticmethod
    def run(board, values):
        numbers = values.view(f"V{8 * LENGTH}")[0]
        SOURCE.launch("write_numbers", np.dtype("float64"), 1, LENGTH, numbers, board)
