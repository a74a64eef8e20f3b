"""Stand-ins for `torch.backends`: settings of compute libraries that are not used here.

Programs set `backends.cudnn.benchmark = True` and the like. Every attribute can be set, and nothing
happens. The matrix products of NumPy always have the full precision of their dtype.
"""

from ..errors import ArgumentError
from ..named_errors import names_arguments
from . import cuda, cudnn, mps

__all__ = [
    "cuda", "cudnn", "get_float32_matmul_precision", "mps", "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]  # fmt: skip


@names_arguments
def set_float32_matmul_precision(precision):
    """Do nothing: products of float32 matrices always have the precision "highest".

    Parameters
    ----------
    precision : {"highest", "high", "medium"}

    Examples
    --------
    >>> set_float32_matmul_precision("high")
    >>> get_float32_matmul_precision()
    'highest'
    """
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(
            "set_float32_matmul_precision: precision is not supported",
            got=repr(precision),
            expected="'highest', 'high' or 'medium'",
            hint="use 'highest', the precision of every product here",
        )


def get_float32_matmul_precision():
    """Return "highest"."""
    return "highest"


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Do nothing: on the CPU, a program with the same seed repeats its results.

    On CUDA, sums of CuPy's `scatter_add` (gradients of an embedding or of an index) have no fixed
    order, and this function does not change that.

    Parameters
    ----------
    mode, warn_only : bool
    """
