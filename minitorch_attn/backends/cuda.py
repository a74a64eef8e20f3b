"""Settings of CUDA, `mt.backends.cuda`, with PyTorch's names.

`matmul.allow_tf32 = True` lets products of float32 arrays use the tensor cores, which multiply with
a mantissa of 10 bits instead of 23. A program can set the other flags, but they have no effect.
`mt.cuda.is_available()` returns whether CUDA works. The documentation of `nn.attention.sdpa_kernel`
explains why a program cannot choose the attention kernel.
"""

from ..backend.cublas import settings as matmul

__all__ = [
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "is_built", "matmul",
]  # fmt: skip


def is_built():
    """Return True if CUDA works, as `mt.cuda.is_available()` does."""
    from ..backend.cuda import is_available

    return is_available()


def enable_flash_sdp(enabled):
    """Do nothing."""


def enable_mem_efficient_sdp(enabled):
    """Do nothing."""


def enable_math_sdp(enabled):
    """Do nothing."""
