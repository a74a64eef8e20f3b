"""Layer normalization and RMS normalization: layer_norm and rms_norm."""

import math

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, matmul
from ..backend.row_reductions import column_sum, row_dot, row_sum
from ..computes import computes
from ..errors import DTypeError, ShapeError
from ..named_errors import names_arguments
from .cast import cast
from .plumbing.axes import sizes_of
from .plumbing.tensor_arguments import not_tensors

__all__ = ["layer_norm", "rms_norm"]


@computes("layer norm")
class LayerNorm(Function):
    r"""Layer normalization over the n elements of each row, with a weight and bias per column.

    Forward:  y = (x - m) * r * weight + bias, m = mean(x), r = 1 / sqrt(mean((x - m)^2) + eps)
    Backward: h = grad_y * weight, grad_x = r * (h - mean(h) - x_hat * mean(h * x_hat)),
        grad_weight = sum over rows of grad_y * x_hat, grad_bias = sum over rows of grad_y
    Derivation: with x_hat = (x - m) r and h = grad_y * weight = dL/dx_hat, grad_weight and
    grad_bias follow from y = x_hat * weight + bias. For grad_x: a small step of x along the
    all-ones direction changes only m, and a step along x_hat changes only r. Both leave x_hat, and
    so the loss, unchanged (except through eps), so grad_x has no component along either direction.
    A small step dx that is orthogonal to both directions changes neither m nor r, so dx_hat = r dx.
    Therefore, grad_x is r h minus its components along all-ones and x_hat, which are r mean(h) and
    r x_hat mean(h x_hat).
    Saved: x, weight and bias; m and r as intermediates. `backward` recomputes x_hat.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, *, eps, row_axes):
        rows, n = as_rows(x, row_axes)
        mean = row_sum(rows)
        mean /= max(n, 1)
        y = rows - mean
        rstd = reciprocal_root_mean_square(y, n, eps)
        ctx.save(x, weight, bias)
        ctx.save_intermediate(mean, rstd)
        y *= rstd
        if weight is not None:
            y *= weight.reshape(n)
        if bias is not None:
            y += bias.reshape(n)
        return y.reshape(x.shape)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, bias = ctx.saved
        mean, rstd = ctx.intermediate
        need_x, need_weight, need_bias = ctx.needs_grad
        rows, n = as_rows(x, ctx.settings["row_axes"])
        grad_y = grad_y.reshape(rows.shape)
        grad_x = grad_weight = grad_bias = None
        if need_bias:
            grad_bias = column_sum(grad_y).reshape(bias.shape)
        if need_x or need_weight:
            centered = rows - mean  # x_hat = centered * r
            grad_x = grad_y * rstd
            product = grad_x * centered  # grad_y * x_hat
            if need_weight:
                grad_weight = column_sum(product).reshape(weight.shape)
        if need_x:
            if weight is None:
                along_x_hat, along_ones = row_sum(product), row_sum(grad_x)
            else:
                weight = weight.reshape(n, 1)
                along_x_hat = matmul(product, weight)  # sum_j h_j x_hat_j
                along_ones = matmul(grad_x, weight)  # r sum_j h_j
                grad_x *= weight.reshape(n)
            centered *= along_x_hat * rstd * rstd / max(n, 1)
            grad_x -= centered
            grad_x -= along_ones / max(n, 1)
            grad_x = grad_x.reshape(x.shape)
        return grad_x if need_x else None, grad_weight, grad_bias

    @staticmethod
    def composed(ctx, x, weight, bias, *, eps, row_axes):
        """Reference implementation: apply the definition one operation at a time."""
        axes = tuple(range(-row_axes, 0))
        centered = x - x.mean(axes, keepdim=True)
        variance = (centered * centered).mean(axes, keepdim=True)
        y = centered * (variance + eps).rsqrt()
        y = y if weight is None else y * weight
        return y if bias is None else y + bias


@computes("RMS norm", reveals=("layer norm",))
class RMSNorm(Function):
    r"""RMS normalization of each row: LayerNorm without subtracting the mean.

    Forward:  y = x * r * weight, r = 1 / sqrt(mean(x^2) + eps)
    Backward: h = grad_y * weight, grad_x = r * (h - x_hat * mean(h * x_hat)),
        grad_weight = sum over rows of grad_y * x_hat
    Derivation: as in `LayerNorm`, but without the mean m: x_hat = x r and h = grad_y * weight =
    dL/dx_hat. Only the direction of x_hat leaves x_hat unchanged, so grad_x is r h minus its
    component along x_hat.
    Saved: x and weight; r as an intermediate.
    """

    @staticmethod
    def forward(ctx, x, weight, *, eps, row_axes):
        rows, n = as_rows(x, row_axes)
        rstd = reciprocal_root_mean_square(rows, n, eps)
        ctx.save(x, weight)
        ctx.save_intermediate(rstd)
        y = rows * rstd
        if weight is not None:
            y *= weight.reshape(n)
        return y.reshape(x.shape)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved
        (rstd,) = ctx.intermediate
        need_x, need_weight = ctx.needs_grad
        rows, n = as_rows(x, ctx.settings["row_axes"])
        grad_x = grad_y.reshape(rows.shape) * rstd
        product = grad_x * rows  # grad_y * x_hat
        grad_weight = column_sum(product).reshape(weight.shape) if need_weight else None
        if not need_x:
            return None, grad_weight
        along_x_hat = row_sum(product)
        if weight is not None:
            along_x_hat = matmul(product, weight.reshape(n, 1))  # sum_j h_j x_hat_j
            grad_x *= weight.reshape(n)
        grad_x -= rows * (along_x_hat * rstd * rstd / max(n, 1))
        return grad_x.reshape(x.shape), grad_weight

    @staticmethod
    def composed(ctx, x, weight, *, eps, row_axes):
        """Reference implementation: apply the definition one operation at a time."""
        mean_square = (x * x).mean(tuple(range(-row_axes, 0)), keepdim=True)
        y = x * (mean_square + eps).rsqrt()
        return y if weight is None else y * weight


def as_rows(x, row_axes):
    """Flatten the last `row_axes` axes of x into rows of length n. Return (array, n)."""
    shape, lead = x.shape, x.ndim - row_axes
    n = math.prod(shape[lead:])
    return x.reshape(math.prod(shape[:lead]), n), n


def reciprocal_root_mean_square(rows, n, eps):
    """Return 1 / sqrt(mean(row^2) + eps) for each row, as an array of shape (rows, 1)."""
    result = row_dot(rows, rows)
    result /= max(n, 1)
    result += eps
    array_module(result).sqrt(result, out=result)
    return 1.0 / result


@names_arguments
@autocasts
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Layer normalization: zero mean and unit variance over the last axes, then scale and shift.

    Parameters
    ----------
    input : Tensor of shape (..., *normalized_shape)
    normalized_shape : tuple of int
        Sizes of the last axes, over which the mean and variance are taken.
    weight, bias : Tensor of shape `normalized_shape`, optional
        Scale and shift of each feature.
    eps : float, default 1e-5
        Small number added to the variance (not to its square root).

    Returns
    -------
    Tensor of the same shape as `input`

    Raises
    ------
    ShapeError
        If the last axes of the input do not have the sizes `normalized_shape`.

    Notes
    -----
    The derivative is in `LayerNorm`. The variance divides by n, not by n - 1. See Ba et al.
    2016 [1]_, Eqs. 3 and 4, which do not contain eps.

    References
    ----------
    .. [1] "Layer Normalization", arXiv:1607.06450v1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer_norm(mt.tensor([[1.0, 3.0]]), (2,), eps=0.0)
    tensor([[-1.,  1.]])
    """
    row_axes = _check(input, normalized_shape, "layer_norm", weight=weight, bias=bias)
    dtype = input.array.dtype
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.array.dtype != dtype:
            raise DTypeError(
                f"layer_norm: {name} and input have different dtypes",
                got=f"{name} {parameter.dtype} and input {input.dtype}",
                hint=f"use input.to({name}.dtype), or module.to(dtype) for the whole module",
            )
    if dtype.itemsize == 2:  # sums of squares would overflow float16
        wide = [None if x is None else cast(x, "float32") for x in (input, weight, bias)]
        return cast(LayerNorm.apply(*wide, eps=eps, row_axes=row_axes), dtype)
    return LayerNorm.apply(input, weight, bias, eps=eps, row_axes=row_axes)


@names_arguments
@autocasts
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """RMS normalization: unit root mean square over the last axes, then a scale per feature.

    Parameters
    ----------
    input : Tensor of shape (..., *normalized_shape)
    normalized_shape : tuple of int
        Sizes of the last axes, over which the mean square is taken.
    weight : Tensor of shape `normalized_shape`, optional
    eps : float, optional
        Small number added to the mean square; by default the machine epsilon of the dtype.

    Returns
    -------
    Tensor of the shape and dtype of `input`

    Notes
    -----
    The derivative is in `RMSNorm`. See Zhang and Sennrich 2019 [1]_, Eq. 4, which does not contain
    eps.

    References
    ----------
    .. [1] "Root Mean Square Layer Normalization", arXiv:1910.07467v1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> rms_norm(mt.tensor([[3.0, 4.0]]), (2,), mt.tensor([5.0, 5.0])) * 2**0.5
    tensor([[6., 8.]])
    """
    row_axes = _check(input, normalized_shape, "rms_norm", weight=weight)
    dtype = input.dtype
    if eps is None:
        eps = float(array_module(input.array).finfo(dtype).eps)
    if dtype.itemsize == 2:  # sums of squares would overflow float16
        input = cast(input, "float32")
    if weight is not None:
        weight = cast(weight, input.dtype)
    return cast(RMSNorm.apply(input, weight, eps=eps, row_axes=row_axes), dtype)


def _check(input, normalized_shape, where, **parameters):
    """Check the shapes of input and parameters; return the number of normalized axes."""
    shape = sizes_of(normalized_shape, where, "normalized_shape")
    try:
        array = input.array
    except AttributeError as error:
        raise not_tensors(error, where, input=input) from None
    if array.dtype.kind != "f":
        raise DTypeError(
            f"{where}: input must be a floating-point tensor",
            got=f"{input.dtype}",
            hint=f"{where}(input.float(), ...)",
        )
    if not shape or array.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"{where}: the last axes of input do not match normalized_shape",
            got=f"input {input.shape} and normalized_shape {shape}",
            hint=f"use normalized_shape={input.shape[-1:]} to normalize over the last axis",
        )
    for name, parameter in parameters.items():
        try:
            fits = parameter is None or parameter.array.shape == shape
        except AttributeError as error:
            raise not_tensors(error, where, **{name: parameter}) from None
        if not fits:
            raise ShapeError(
                f"{where}: the shape of {name} does not match normalized_shape",
                got=f"{name} {parameter.shape}",
                expected=f"{shape}",
                hint=f"use normalized_shape={parameter.shape} if {name} has the intended shape",
            )
    return len(shape)
