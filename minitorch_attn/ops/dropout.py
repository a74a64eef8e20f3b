"""Random zeros in training: dropout of elements, drop_path of whole samples."""

from ..autograd import inplace as in_place
from ..autograd.function import Function
from ..backend import array_module, keep_mask
from ..errors import ArgumentError, DTypeError
from .given import not_tensors

__all__ = ["drop_path", "dropout"]


class Dropout(Function):
    """y = x * m * s for a mask m of zeros and ones that broadcasts to x, and a number s.

    With m_i = 1 at probability 1 - p and s = 1 / (1 - p) the mean of y_i is x_i.
    Derivative: dy_i/dx_i = m_i s, by the mask of the forward pass.
    Saved: the mask, one byte for each element of it.
    """

    @staticmethod
    def forward(ctx, x, mask, *, scale):
        ctx.constants(mask)
        y = x * mask
        y *= scale
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (mask,) = ctx.constant
        return Dropout.call(grad_y, mask, scale=ctx.settings["scale"]), None


def dropout(input, p=0.5, training=True, inplace=False):
    """Set each element to 0 with probability `p`, and scale up the others to keep the mean.

    Parameters
    ----------
    input : Tensor
    p : float in [0, 1], default 0.5
        Probability of a zero.
    training : bool, default True
        If False, the input is returned as it is.
    inplace : bool, default False
        Write the result into the memory of `input`.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    Derivative in `Dropout`. The mask is a function of the seed and of how many masks were drawn
    since `manual_seed`, the same on every device. Srivastava et al. 2014 [1]_ scale at test time
    instead of training time.

    References
    ----------
    .. [1] "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.manual_seed(0)
    >>> y = dropout(mt.ones(1000), p=0.5)
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    _check(input, p, "dropout", "p")
    if not training or p == 0:
        return input
    if inplace:
        return in_place.change(input, dropout, p)
    return _masked(input, input.shape, p, p < 1)


def drop_path(x, drop_prob=0.0, training=False, scale_by_keep=True):
    """Set whole samples (entries of axis 0) to 0: stochastic depth, for a residual branch.

    Parameters
    ----------
    x : Tensor of shape (batch, ...)
        What the branch adds to the residual stream.
    drop_prob : float in [0, 1], default 0
        Probability that a sample skips the branch.
    training : bool, default False
        If False, the input is returned as it is.
    scale_by_keep : bool, default True
        Divide what is kept by 1 - `drop_prob`, so that the mean is kept.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    Huang et al. 2016 [1]_ scale at test time instead; the name and this form are timm's.

    References
    ----------
    .. [1] "Deep Networks with Stochastic Depth", arXiv:1603.09382v3, sec. 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> drop_path(mt.ones(2, 3), drop_prob=1.0, training=True)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    _check(x, drop_prob, "drop_path", "drop_prob")
    if not training or drop_prob == 0:
        return x
    shape = (*x.shape[:1], *[1] * (x.ndim - 1))
    return _masked(x, shape, drop_prob, scale_by_keep and drop_prob < 1)


def _masked(x, shape, p, scaled):
    mask = keep_mask(shape, 1.0 - p, array_module(x.array))
    return Dropout.apply(x, mask, scale=1.0 / (1.0 - p) if scaled else 1.0)


def _check(x, p, where, name):
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(
            f"{where}: {name} is a probability.", got=f"{name}={p}", expected="from 0 to 1"
        )
    try:
        real = x.dtype.kind == "f"
    except AttributeError as error:
        raise not_tensors(error, where, input=x) from None
    if not real:
        raise DTypeError(
            f"{where}: defined for floating-point tensors.", got=f"{x.dtype}", hint="x.float()"
        )
