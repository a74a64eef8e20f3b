"""Rotation of pairs of features by an angle that grows with the position."""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ShapeError
from .given import not_tensors

__all__ = ["apply_rotary"]


class Rotary(Function):
    """Each pair (a, b) of features is turned by an angle t.

        (a, b) -> (a cos t - b sin t, b cos t + a sin t)

    The pairs are neighbours (x_0, x_1), (x_2, x_3), ... where `interleaved`, else x_i and
    x_{i + d/2}.

    Derivative: a rotation is linear, and its transpose is the rotation by -t:
        dL/dx = the same rotation of dL/dy with sin t replaced by -sin t.
    Saved: cos t and sin t, which are constants.
    """

    @staticmethod
    def forward(ctx, x, cos, sin, *, interleaved):
        ctx.interleaved = interleaved
        ctx.constants(cos, sin)
        a, b = _pairs(x, interleaved)
        y = array_module(x).empty(x.shape, dtype=x.dtype)
        y_a, y_b = _pairs(y, interleaved)
        y_a[...] = a * cos - b * sin
        y_b[...] = b * cos + a * sin
        return y

    @staticmethod
    def backward(ctx, grad_y):
        cos, sin = ctx.constant
        return Rotary.call(grad_y, cos, -sin, interleaved=ctx.interleaved), None, None


def _pairs(x, interleaved):
    """The first and the second entries of all pairs, as views."""
    if interleaved:
        return x[..., 0::2], x[..., 1::2]
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def _stretches_to(shape, target):
    """Whether broadcasting turns `shape` into `target`."""
    pairs = zip(shape[::-1], target[::-1], strict=False)
    return len(shape) <= len(target) and all(n in (1, size) for n, size in pairs)


def apply_rotary(input, cos, sin, *, interleaved=False):
    """Turn pairs of features by given angles.

    Parameters
    ----------
    input : Tensor of shape (..., token, head_dim)
    cos, sin : Tensor of shape (token, head_dim / 2), or broadcastable to (..., token, head_dim / 2)
        Of the angles; constants without a gradient.
    interleaved : bool, default False
        Pairs are neighbours, as in the paper [1]_; False pairs feature i with i + head_dim / 2,
        as in published Llama weights.

    Returns
    -------
    Tensor of the shape of `input`

    References
    ----------
    .. [1] "RoFormer", arXiv:2104.09864v5, section 3.2.2, Eq. 15 and 34.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cos, sin = mt.tensor([[0.0]]), mt.tensor([[1.0]])  # a quarter turn
    >>> apply_rotary(mt.tensor([[2.0, 3.0]]), cos, sin)
    tensor([[-3.,  2.]])
    """
    try:
        ndim, cos_shape, sin_shape = input.ndim, cos.shape, sin.shape
    except AttributeError as error:
        raise not_tensors(error, "apply_rotary", input=input, cos=cos, sin=sin) from None
    if ndim < 2 or input.shape[-1] % 2:
        raise ShapeError(
            "apply_rotary(input, cos, sin): the features do not form pairs.",
            got=f"input {input.shape}",
            expected="(..., token, head_dim) with an even head_dim",
        )
    half = (*input.shape[:-1], input.shape[-1] // 2)
    if cos_shape != sin_shape or not _stretches_to(cos_shape, half):
        raise ShapeError(
            "apply_rotary(input, cos, sin): there is not one angle for each pair.",
            got=f"input {input.shape}, cos {cos_shape}, sin {sin_shape}",
            expected=f"cos and sin of one shape that broadcasts to {half}",
            hint="rotary_table(num_positions, head_dim) makes both",
        )
    cos, sin = (t.to(dtype=input.dtype) for t in (cos, sin))
    return Rotary.apply(input, cos, sin, interleaved=interleaved)
