"""`sdpa_kernel` and `SDPBackend`, for programs that select attention kernels as in PyTorch."""

from contextlib import contextmanager
from enum import IntEnum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """Names of PyTorch's attention kernels. `sdpa_kernel` accepts and ignores them."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Do nothing. This context manager exists for compatibility with PyTorch.

    In this library, only the sizes of the inputs and the mask decide how attention is computed. On
    all devices, `ops/attention/` computes all scores of a short sequence in a single step, and
    those of a long sequence block by block. The results agree up to rounding.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
    set_priority : bool, default False

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> from minitorch_attn.nn.attention import SDPBackend, sdpa_kernel
    >>> x = mt.ones(1, 2, 3, 5)
    >>> with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    ...     mt.nn.functional.scaled_dot_product_attention(x, x, x).shape
    (1, 2, 3, 5)
    """
    yield
