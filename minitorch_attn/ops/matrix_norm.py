"""Matrix norms, computed from the elements or the singular values, and linalg.norm."""

import builtins
import math

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, GraphError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .arithmetic import abs
from .max_min import amax, amin
from .plumbing.axes import axes_of
from .plumbing.tensor_arguments import as_operand
from .reshape import movedim
from .sum_mean import sum
from .vector_norm import floating_operand, vector_norm

__all__ = []  # exported by linalg.py: `mt.norm` and `mt.linalg.norm` have different arguments


class SingularValues(Function):
    """Singular values s of matrices x = u diag(s) v^T, in descending order.

    Forward:  s = singular_values(x)
    Backward: grad_x = u diag(grad_s) v^T
    Derivation: ds_i = u_i^T dx v_i, so the gradient of s_i is the matrix u_i v_i^T. The first
    derivative exists only where the singular values differ; the second is not implemented.
    Saved: u and v^T.
    """

    @staticmethod
    def forward(ctx, x):
        wide = x.astype("float32") if x.dtype.itemsize < 4 else x  # LAPACK has no float16
        u, s, vh = array_module(x).linalg.svd(wide, full_matrices=False)
        ctx.constants(u.astype(x.dtype), vh.astype(x.dtype))
        return s.astype(x.dtype)

    @staticmethod
    def backward(ctx, grad_s):
        if isinstance(grad_s, Tensor):
            raise GraphError(
                "linalg.norm: the second derivative of singular values is not implemented",
                got="create_graph=True",
                hint="use ord='fro', whose second derivative exists",
            )
        u, vh = ctx.constant
        return (u * grad_s.reshape((*grad_s.shape[:-1], 1, grad_s.shape[-1]))) @ vh


@names_arguments
def matrix_norm(input, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """Norm of the matrices that the two axes `dim` of `input` form.

    Parameters
    ----------
    input : Tensor of shape (..., row, column)
    ord : "fro", "nuc", 1, -1, 2, -2, infinity or -infinity
        "fro" is the Euclidean norm of the elements, 1 the largest sum of absolute values in a
        column, infinity the largest sum of absolute values in a row, 2 the largest singular value,
        and "nuc" the sum of all singular values. Negative orders take the smallest column sum, row
        sum or singular value.
    dim : two ints
        Axes of the rows and of the columns.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[3.0, 0.0], [0.0, -4.0]])
    >>> [mt.linalg.matrix_norm(x, ord).item() for ord in ("fro", "nuc", 2, -2, 1)]
    [5.0, 7.0, 4.0, 3.0, 4.0]
    """
    name = "linalg.matrix_norm"
    input = floating_operand(input, name, dtype)
    axes = axes_of(tuple(dim) if isinstance(dim, list) else dim, input.ndim, name)
    if len(axes) != 2 or input.ndim < 2:
        raise ShapeError(
            f"{name}: dim must name two axes", got=f"dim={dim!r} for input {input.shape}",
            hint="linalg.vector_norm takes any number of axes",
        )  # fmt: skip
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf) or isinstance(ord, bool):
        raise ArgumentError(
            f"{name}: ord is unknown",
            got=f"ord={ord!r}",
            expected="'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
            hint="linalg.vector_norm for other orders; it treats each matrix as one vector",
        )
    if ord == "fro":
        return vector_norm(input, 2, axes, keepdim)
    matrices = movedim(input, axes, (-2, -1))
    if ord in ("nuc", 2, -2):
        values = SingularValues.apply(matrices)
        result = sum(values, -1) if ord == "nuc" else (amax if ord > 0 else amin)(values, -1)
    else:
        lengths = sum(abs(matrices), -2 if math.isfinite(ord) else -1)
        result = (amax if ord > 0 else amin)(lengths, -1)
    if not keepdim:
        return result
    return result.reshape(tuple([1 if i in axes else n for i, n in enumerate(input.shape)]))


def linalg_norm(input, ord=None, dim=None, keepdim=False, *, dtype=None):
    """Vector norm, or matrix norm if `ord` is given and there are two axes.

    Parameters
    ----------
    input : Tensor
    ord : number or str, optional
        Order, as in `linalg.vector_norm` and `linalg.matrix_norm`; by default the Euclidean norm
        of all elements.
    dim : int or two ints, optional
        One axis for a vector norm, or the axes of the rows and columns for a matrix norm.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> mt.linalg.norm(x), mt.linalg.norm(x, ord=1), mt.linalg.norm(x, dim=1)
    (tensor(5.), tensor(4.), tensor([3., 4.]))
    """
    input = as_operand(input, "linalg.norm")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is None and input.ndim not in (1, 2):
        raise ShapeError(
            "linalg.norm: input must have one or two axes if ord is given without dim",
            got=f"input {input.shape} and ord={ord!r}",
            hint="dim=-1 for vectors, dim=(-2, -1) for matrices",
        )
    count = len(dim) if isinstance(dim, (tuple, list)) else 1
    if (input.ndim if dim is None else count) == 2:
        return matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(input, ord, dim, builtins.bool(keepdim), dtype=dtype)
