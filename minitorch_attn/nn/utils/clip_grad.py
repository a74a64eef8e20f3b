"""Gradient clipping: `clip_grad_norm_` and its two parts, and `clip_grad_value_`."""

import math
from functools import partial

from ...backend import array_module, as_array
from ...backend.kernel_table import with_kernel
from ...backend.threads import shares, threads_for, together
from ...errors import DTypeError, NumericError
from ...named_errors import names_arguments
from ...ops.plumbing.operands import at_least_zero
from ...tensor import Tensor, tensor, wrap

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

_SMALL = 1 << 18  # a pass over fewer numbers takes less time than starting a thread


def _gradients(parameters, where):
    """Return the gradients of one or several parameters. Skip parameters without a gradient."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for parameter in parameters:
        if not isinstance(parameter, Tensor):
            raise DTypeError(
                f"{where}: parameters must be a Tensor or an iterable of Tensors",
                got=type(parameter).__name__,
                hint="pass model.parameters(), not model.named_parameters()",
            )
    return [p.grad for p in parameters if p.grad is not None]


@names_arguments
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False):
    """Return the total norm of several tensors, as if concatenated into one vector.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
    norm_type : float, default 2
        Order p of the norm. `math.inf` selects the largest absolute value.
    error_if_nonfinite : bool
        Whether to raise an error if the norm is NaN or infinite. This check synchronizes a GPU.

    Returns
    -------
    0-d Tensor
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return tensor(0.0)
    arrays = [tensor.array.reshape(-1) for tensor in tensors]
    xp = array_module(arrays[0])
    norm_type = float(norm_type)
    if norm_type == math.inf:
        total = _largest(xp, [abs(a).max() for a in arrays if a.size])
    elif norm_type == 2:
        total = square_root_of_sum_of_squares(arrays)
    else:
        total = sum((abs(a) ** norm_type).sum() for a in arrays) ** (1.0 / norm_type)
    total = wrap(as_array(total))
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise NumericError(
            "get_total_norm: the norm of the gradients must be finite",
            got=f"{total.item()}",
            hint="find the operation with mt.autograd.detect_anomaly(), or try a lower learning "
            "rate or a longer warmup",
        )
    return total


@with_kernel
def square_root_of_sum_of_squares(arrays):
    """Return the norm of several concatenated 1-D arrays, as a 0-d array or scalar."""
    xp = array_module(arrays[0])
    squares = _for_each(arrays, lambda array: xp.dot(array, array))
    return xp.sqrt(sum(squares))


def _for_each(arrays, function):
    """Apply a function to each array, and return the results. Use threads for large arrays."""

    def results(some):
        return [function(array) for array in some]

    sizes = [array.size for array in arrays]
    threads = threads_for(arrays[0]) if sum(sizes) > _SMALL else 1
    found = together([partial(results, arrays[part]) for part in shares(sizes, threads)])
    return [result for some in found for result in some]


@with_kernel
def scale_all(arrays, factor):
    """Multiply arrays in place by `factor`, a 0-d array or scalar."""

    def scale(array):
        array *= factor.astype(array.dtype)

    _for_each(arrays[::-1], scale)  # reversed: the caches contain what the norm has read last


def _largest(xp, values):
    total = values[0]
    for value in values[1:]:
        total = xp.maximum(total, value)
    return total


@names_arguments
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Clip gradients: scale all of them in place so that their total norm is at most max_norm.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters whose gradients to clip. Parameters without a gradient are skipped.
    max_norm : float
        Maximum total norm after clipping.
    norm_type : float, default 2
        Order p of the norm. `math.inf` selects the largest absolute value.
    error_if_nonfinite : bool
        Whether to raise an error if the norm is NaN or infinite, before any gradient is changed.
    foreach : optional
        Accepted for compatibility with PyTorch, but ignored.

    Returns
    -------
    0-d Tensor
        Total norm before clipping.

    Notes
    -----
    All gradients are multiplied by min(max_norm / (norm + 1e-6), 1). Pascanu et al. 2013,
    arXiv:1211.5063v2, Algorithm 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([0.0, 0.0], requires_grad=True)
    >>> x.grad = mt.tensor([3.0, 4.0])
    >>> clip_grad_norm_(x, max_norm=1.0), x.grad
    (tensor(5.), tensor([0.6, 0.8]))
    """
    gradients = _gradients(parameters, "clip_grad_norm_")
    max_norm = at_least_zero(max_norm, "clip_grad_norm_", "max_norm")
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    _clip(gradients, max_norm, total)
    return total


@names_arguments
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Clip gradients whose total norm is known: the second half of `clip_grad_norm_`.

    Use this function if a model is split among several processes. No process then has all
    gradients, but the processes can exchange messages to compute the total norm.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters whose gradients to clip. Parameters without a gradient are skipped.
    max_norm : float
        Maximum total norm after clipping.
    total_norm : 0-d Tensor
        Total norm before clipping, as from `get_total_norm`.
    foreach : optional
        Accepted for compatibility with PyTorch, but ignored.
    """
    gradients = _gradients(parameters, "clip_grads_with_norm_")
    max_norm = at_least_zero(max_norm, "clip_grads_with_norm_", "max_norm")
    _clip(gradients, max_norm, total_norm)


def _clip(gradients, max_norm, total):
    """Multiply gradients in place by min(max_norm / (total + 1e-6), 1)."""
    factor = max_norm / (total.array + 1e-6)
    factor = array_module(factor).minimum(
        factor, 1.0
    )  # always applied: a condition would synchronize a GPU
    scale_all([gradient.array for gradient in gradients], factor)
    for gradient in gradients:
        gradient.changed_in_place()


@names_arguments
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clip every entry of every gradient to [-clip_value, clip_value], in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    clip_value : float
    foreach : optional
        Accepted for compatibility with PyTorch, but ignored.
    """
    clip_value = at_least_zero(clip_value, "clip_grad_value_", "clip_value")
    for gradient in _gradients(parameters, "clip_grad_value_"):
        xp = array_module(gradient.array)
        gradient.array[...] = xp.clip(gradient.array, -clip_value, clip_value)
        gradient.changed_in_place()
