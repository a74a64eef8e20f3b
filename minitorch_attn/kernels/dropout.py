"""Dropout on a GPU: draw and apply the mask, in two launches; with a residual path, in one launch.

    mask_i = (number_i < threshold),   y_i = x_i * mask_i * scale
    with a residual path:              y_i = x_i + branch_i * mask_i * scale

Each entry's random number comes from its counter (`philox`), so the mask is bitwise equal to
the one that `backend.keep_mask` draws with about 380 launches of array operations. The backward
pass takes one launch, which multiplies by the mask. A residual path does not add a launch, because
the gradient of x is simply the gradient of y.
"""

import numpy as np

from ..backend import array_module
from ..backend.kernel_table import register
from ..backend.random import as_threshold, draw_mask
from ..ops.dropout import Dropout, ResidualDropout
from .philox import PHILOX, draw_from
from .source import FLOATS, Source, all_contiguous

__all__ = ["DropoutKernel", "MaskKernel", "ResidualDropoutKernel"]

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

// A block processes 4096 entries. Each thread first draws 16 neighboring bits and shares them with
// the block. Then, in each of 16 steps, neighboring threads process neighboring entries.
template <typename T, typename A> __global__ void residual_dropout(
    const T* x, const T* branch, bool* mask, T* y, long long n, long long seed, long long offset,
    const unsigned long long* live, long long threshold, double scale)
{
    __shared__ unsigned short bits[256];
    long long first = 4096LL * blockIdx.x, mine = first + 16 * threadIdx.x;
    if (mine < n) bits[threadIdx.x] = keep_bits(seed, offset, live, mine, (unsigned)threshold);
    __syncthreads();
    for (int k = threadIdx.x; k < 4096 && first + k < n; k += 256) {
        bool keep = bits[k / 16] >> k % 16 & 1;
        mask[first + k] = keep;
        y[first + k] = T(A(x[first + k]) + A(branch[first + k]) * A(keep) * A(scale));
    }
}
""",
    "draw_mask",
    "apply_mask",
    "residual_dropout",
)


@register(draw_mask)
class MaskKernel:
    """CUDA kernel of `backend.random.draw_mask`: one launch."""

    @staticmethod
    def accepts(mask, threshold, seed, offset):
        return True

    @staticmethod
    def run(mask, threshold, seed, offset):
        blocks = -(-mask.size // (THREADS * LANES))
        SOURCE.launch(
            "draw_mask", np.dtype("float32"), blocks, THREADS,  # the dtype does not matter
            mask, mask.size, *draw_from(seed, offset), threshold,
        )  # fmt: skip


@register(Dropout)
class DropoutKernel:
    """CUDA kernels of dropout, with a mask shaped like x: one launch forward, one backward."""

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


@register(ResidualDropout)
class ResidualDropoutKernel:
    """CUDA kernels of a residual path with dropout: one launch forward and one backward."""

    @staticmethod
    def accepts(x, branch, *, offset, **settings):
        alike = x.dtype == branch.dtype and x.shape == branch.shape
        return x.dtype.name in FLOATS and alike and type(offset) is int  # no skipped entries

    @staticmethod
    def forward(ctx, x, branch, *, keep_probability, seed, offset, scale):
        xp, (x, branch) = array_module(x), all_contiguous(x, branch)
        y, mask = xp.empty_like(x), xp.empty(x.shape, bool)
        SOURCE.launch(
            "residual_dropout", x.dtype, -(-x.size // (THREADS * LANES)), THREADS,
            x, branch, mask, y, x.size, *draw_from(seed, offset),
            as_threshold(keep_probability), float(scale),
        )  # fmt: skip
        ctx.constants(mask)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (mask,) = ctx.constant
        needed = ctx.needs_grad[1]
        return grad_y, _applied(grad_y, mask, ctx.settings["scale"]) if needed else None


def _applied(x, mask, scale):
    x, mask = all_contiguous(x, mask)
    y = array_module(x).empty_like(x)
    blocks = -(-x.size // THREADS)
    SOURCE.launch("apply_mask", x.dtype, blocks, THREADS, x, mask, y, x.size, float(scale))
    return y
