"""Dropout on a GPU: draw a mask in one launch, and apply it in one.

    mask_i = (number_i < threshold),   y_i = x_i * mask_i * scale

Each entry's random number comes from its counter (`philox`), so the mask is the one that
`backend.keep_mask` draws with array operations, bit for bit; those take some 380 launches.
"""

import numpy as np

from ..backend import array_module
from ..backend.kernel_table import register
from ..backend.random import draw_mask
from ..ops.dropout import Dropout
from .philox import PHILOX, draw_from
from .source import FLOATS, Source, all_contiguous

__all__ = ["DropoutKernel", "MaskKernel"]

THREADS, LANES = 256, 16  # a thread draws 16 entries

SOURCE = Source(
    PHILOX
    + r"""
// One thread for each counter value: entries 16 t to 16 t + 15.
template <typename T, typename A> __global__ void draw_mask(
    bool* mask, long long n, long long seed, long long offset, const unsigned long long* live,
    long long threshold)
{
    long long first = 16 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (first >= n) return;
    unsigned bits = keep_bits(seed, offset, live, first, (unsigned)threshold);
    for (int k = 0; k < 16 && first + k < n; ++k) mask[first + k] = bits >> k & 1;
}

template <typename T, typename A> __global__ void apply_mask(
    const T* x, const bool* mask, T* y, long long n, double scale)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(A(x[i]) * A(mask[i]) * A(scale));
}
""",
    "draw_mask",
    "apply_mask",
)


@register(draw_mask)
class MaskKernel:
    """`backend.random.draw_mask` in one launch."""

    @staticmethod
    def accepts(mask, threshold, seed, offset):
        return True

    @staticmethod
    def run(mask, threshold, seed, offset):
        blocks = -(-mask.size // (THREADS * LANES))
        SOURCE.launch(
            "draw_mask", np.dtype("float32"), blocks, THREADS,  # the mask has no T
            mask, mask.size, *draw_from(seed, offset), threshold,
        )  # fmt: skip


@register(Dropout)
class DropoutKernel:
    """Dropout with a mask of the shape of x, in one launch forward and one backward."""

    @staticmethod
    def accepts(x, mask, *, scale):
        return x.dtype.name in FLOATS and mask.shape == x.shape and mask.dtype == bool

    @staticmethod
    def forward(ctx, x, mask, *, scale):
        ctx.constants(mask)
        return _applied(x, mask, scale)

    @staticmethod
    def backward(ctx, grad_y):
        (mask,) = ctx.constant
        return _applied(grad_y, mask, ctx.settings["scale"]), None


def _applied(x, mask, scale):
    x, mask = all_contiguous(x, mask)
    y = array_module(x).empty_like(x)
    blocks = -(-x.size // THREADS)
    SOURCE.launch("apply_mask", x.dtype, blocks, THREADS, x, mask, y, x.size, float(scale))
    return y
