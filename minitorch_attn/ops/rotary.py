"""Rotary position embedding: rotate pairs of features by an angle that depends on the position."""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ShapeError
from ..named_errors import names_arguments
from .plumbing.tensor_arguments import not_tensors

__all__ = ["apply_rotary"]


class Rotary(Function):
    """Rotary position embedding: rotate each pair (a, b) of features by an angle t.

    Forward:  each pair (a, b) of x becomes (a * cos - b * sin, b * cos + a * sin)
    Backward: grad_x = each pair of grad_y rotated back by the same angle
    Derivation: a rotation is linear, and its transpose is the rotation by -t, which is the same
    formula with sin t replaced by -sin t.
    Saved: cos t and sin t, which are constants.

    With d features, the pairs are (x_0, x_1), ... if `interleaved`, else (x_i, x_{i + d/2}).
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
    """Return the first and the second features of all pairs as views; `Rotary` lists the pairs."""
    if interleaved:
        return x[..., 0::2], x[..., 1::2]
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def _stretches_to(shape, target):
    """True if broadcasting turns `shape` into `target`."""
    pairs = zip(shape[::-1], target[::-1], strict=False)
    return len(shape) <= len(target) and all(n in (1, size) for n, size in pairs)


@names_arguments
def apply_rotary(input, cos, sin, *, interleaved=False):
    """Apply a rotary position embedding: rotate pairs of features by given angles.

    Parameters
    ----------
    input : Tensor of shape (..., token, head_dim)
    cos, sin : Tensor of shape (token, head_dim / 2), or broadcastable to (..., token, head_dim / 2)
        Cosine and sine of the angles; they are constants and do not receive gradients.
    interleaved : bool, default False
        If True, neighbors form pairs, as in the paper [1]_; if False, features i and
        i + head_dim / 2 form a pair, as in the published weights of Llama.

    Returns
    -------
    Tensor of the same shape as `input`

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
            "apply_rotary(input, cos, sin): head_dim is not divisible by 2",
            got=f"input {input.shape}",
            hint="choose embed_dim and num_heads so that embed_dim / num_heads is even",
        )
    half = (*input.shape[:-1], input.shape[-1] // 2)
    if cos_shape != sin_shape or not _stretches_to(cos_shape, half):
        raise ShapeError(
            "apply_rotary(input, cos, sin): the shapes of cos and sin do not match input",
            got=f"input {input.shape}, cos {cos_shape}, sin {sin_shape}",
            expected=f"cos and sin with the same shape, which broadcasts to {half}",
            hint="compute both with rotary_table(num_positions, head_dim)",
        )
    cos, sin = (t.to(dtype=input.dtype) for t in (cos, sin))
    return Rotary.apply(input, cos, sin, interleaved=interleaved)
