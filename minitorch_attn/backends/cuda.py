"""Stand-in for `torch.backends.cuda`: its flags can be set, and have no effect.

`mt.cuda.is_available()` says whether CUDA works. `nn.attention.sdpa_kernel` explains why the
kernel of attention cannot be chosen.
"""

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False)


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
