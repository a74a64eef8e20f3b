"""Settings of CUDA, `mt.backends.cuda`, with PyTorch's names.

`matmul.allow_tf32 = True` lets products of float32 arrays use the tensor cores, which multiply with
a 10-bit mantissa instead of 23 bits. The other flags can be set, but have no effect.
`mt.cuda.is_available()` says whether CUDA works. `nn.attention.sdpa_kernel` explains why the
attention kernel cannot be chosen.
"""

from ..backend.cublas import settings as matmul

__all__ = [
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "is_built", "matmul",
]  # fmt: skip


def is_built():
    """Return `mt.cuda.is_available()`."""
    from ..backend.cuda import is_available

    return is_available()


def enable_flash_sdp(enabled):
    """Do nothing."""


def enable_mem_efficient_sdp(enabled):
    """Do nothing."""


def enable_math_sdp(enabled):
    """Do nothing."""
