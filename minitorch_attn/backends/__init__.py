"""Backends: settings of the compute libraries, with PyTorch's names.

`backends.cuda.matmul.allow_tf32` and `set_float32_matmul_precision` set the precision of products
on a GPU. NumPy always computes products in the full precision of their dtype. The other settings
belong to libraries that this library does not use. A program can set them, as in
`backends.cudnn.benchmark = True`, but they have no effect.
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
        "highest" computes in float32. "high" and "medium" allow TF32, which is faster but has only
        a 10-bit mantissa; they are the same as `backends.cuda.matmul.allow_tf32 = True`. On the
        CPU, the precision is always "highest".

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
    """Return the precision of float32 products on a GPU: "highest", "high" or "medium"."""
    return cuda.matmul.precision


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Do nothing: on the CPU, a program with the same seed always gives the same results.

    On CUDA, the results may differ between runs, because the gradients of indexing and `ctc_loss`
    use CuPy's `scatter_add`, which adds in no fixed order. This function does not change that.

    Parameters
    ----------
    mode, warn_only : bool
        Ignored; accepted for compatibility with PyTorch.
    """
