"""Backends: settings of the compute libraries, with PyTorch's names.

`backends.cuda.matmul.allow_tf32` and `set_float32_matmul_precision` set the precision of products
on a GPU. The products of NumPy always have the full precision of their dtype. The other settings
belong to libraries that are not used here: a program can set them (such as
`backends.cudnn.benchmark = True`), but they have no effect.
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
    """Set the precision of products of float32 matrices on a GPU.

    Parameters
    ----------
    precision : {"highest", "high", "medium"}
        "highest" computes in float32. "high" and "medium" allow TF32, which is faster and has a
        10-bit mantissa, as `backends.cuda.matmul.allow_tf32 = True` does. On the CPU, the precision
        is always "highest".

    Examples
    --------
    >>> set_float32_matmul_precision("high")
    >>> cuda.matmul.allow_tf32, get_float32_matmul_precision()
    (True, 'high')
    >>> set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(
            "set_float32_matmul_precision: precision is not supported",
            got=repr(precision),
            expected="'highest', 'high' or 'medium'",
            hint="use 'highest', the default",
        )
    cuda.matmul.precision = precision


def get_float32_matmul_precision():
    """Return "highest", "high" or "medium"."""
    return cuda.matmul.precision


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Do nothing: on the CPU, a program with the same seed repeats its results.

    On CUDA, sums of CuPy's `scatter_add` (gradients of an embedding or of an index) have no fixed
    order, and this function does not change that.

    Parameters
    ----------
    mode, warn_only : bool
    """
