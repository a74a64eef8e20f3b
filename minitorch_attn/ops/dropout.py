"""Dropout of elements, of channels (dropout1d to dropout3d) and of samples (drop_path)."""

from ..autograd import inplace as in_place
from ..autograd.function import Function
from ..backend import array_module, keep_mask
from ..backend.random import initial_seed, mask_offset
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from .plumbing.tensor_arguments import not_tensors

__all__ = ["drop_path", "dropout", "dropout1d", "dropout2d", "dropout3d"]


class Dropout(Function):
    """Dropout: multiply by a random mask of zeros and ones, then scale.

    Forward:  y = x * mask * scale
    Backward: grad_x = grad_y * mask * scale

    The mask broadcasts to x. If mask_i is 1 with probability 1 - p and scale is 1 / (1 - p), the
    expected value of y_i is x_i.

    Derivation: dy_i/dx_i = mask_i scale, with the mask of the forward pass.
    Saved: the mask, one byte for each of its elements.
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


class ResidualDropout(Function):
    """Residual connection with dropout: x plus a branch to which dropout is applied.

    Forward:  y = x + branch * mask * scale
    Backward: grad_x = grad_y, grad_branch = grad_y * mask * scale
    Derivation: both terms of a sum receive its gradient. The derivative of the second term is in
    `Dropout`. Fusing the sum with the dropout saves one array and one pass over memory.
    Saved: the mask, one byte for each element.
    """

    @staticmethod
    def forward(ctx, x, branch, *, keep_probability, seed, offset, scale):
        mask = keep_mask(branch.shape, keep_probability, array_module(branch), seed, offset)
        ctx.constants(mask)
        y = branch * mask
        y *= scale
        y += x
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (mask,) = ctx.constant
        grad_branch = None
        if ctx.needs_grad[1]:
            grad_branch = Dropout.call(grad_y, mask, scale=ctx.settings["scale"])
        return grad_y, grad_branch


def add_dropped(x, branch, p):
    """Return `x + dropout(branch, p)` in training, computed by one operation if possible.

    Parameters
    ----------
    x, branch : Tensor of the same shape and dtype
        The residual stream, and the output of one of its branches.
    p : float between 0 and 1
    """
    if branch.shape != x.shape or branch.dtype != x.dtype or x.dtype.kind != "f":
        return x + dropout(branch, p)
    seed, offset = initial_seed(), mask_offset(branch.shape)
    scale = 1.0 / (1.0 - p) if p < 1 else 1.0
    return ResidualDropout.apply(
        x, branch, keep_probability=1.0 - p, seed=seed, offset=offset, scale=scale
    )


@names_arguments
def dropout(input, p=0.5, training=True, inplace=False):
    """Dropout: zero each element with probability `p`, and scale the others to keep the mean.

    Parameters
    ----------
    input : Tensor
    p : float in [0, 1], default 0.5
        Probability that an element becomes 0.
    training : bool, default True
        Whether to drop elements; if False, the input is returned unchanged.
    inplace : bool, default False
        Whether to write the result into the memory of `input`.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    The derivative is in `Dropout`. The mask depends only on the seed and on the masks drawn since
    `manual_seed`, so it is the same on every device. Srivastava et al. 2014 [1]_ scale at
    test time instead of training time.

    References
    ----------
    .. [1] "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> generator = mt.manual_seed(0)
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


@names_arguments
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels: zero each with probability `p`, and scale the others.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, length) or (channel, length)
    p : float in [0, 1], default 0.5
        Probability that all elements of a channel become 0.
    training : bool, default True
        Whether to drop channels; if False, the input is returned unchanged.
    inplace : bool, default False
        Whether to write the result into the memory of `input`.

    Returns
    -------
    Tensor of the same shape

    References
    ----------
    .. [1] "Efficient Object Localization Using Convolutional Networks", arXiv:1411.4280v3, sec.
       3.2: neighboring pixels are correlated, so that dropping individual pixels removes
       little information.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> generator = mt.manual_seed(0)
    >>> dropout1d(mt.ones(1, 3, 2))
    tensor([[[2., 2.],
             [0., 0.],
             [2., 2.]]])
    """
    return _drop_channels(dropout1d, input, p, training, inplace, {2: 1, 3: 2})


@names_arguments
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of images, (batch, channel, height, width); see `dropout1d`.

    An input with 3 axes is (batch, channel, length), as in PyTorch.
    """
    return _drop_channels(dropout2d, input, p, training, inplace, {3: 2, 4: 2})


@names_arguments
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels, for inputs of shape ([batch,] channel, depth, height, width).

    The arguments are those of `dropout1d`.
    """
    return _drop_channels(dropout3d, input, p, training, inplace, {4: 1, 5: 2})


@names_arguments
def drop_path(x, drop_prob=0.0, training=False, scale_by_keep=True):
    """Stochastic depth: zero whole samples (entries of axis 0) of a residual branch.

    Parameters
    ----------
    x : Tensor of shape (batch, ...)
        Output of the branch, before it is added to the residual stream.
    drop_prob : float in [0, 1], default 0
        Probability that a sample skips the branch.
    training : bool, default False
        Whether to drop samples; if False, the input is returned unchanged.
    scale_by_keep : bool, default True
        Whether to divide the remaining samples by 1 - `drop_prob`, which keeps the mean.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    Huang et al. 2016 [1]_ scale at test time instead of training time. The name `drop_path` and
    scaling at training time come from timm.

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


def _drop_channels(function, input, p, training, inplace, leading):
    """Drop channels; `leading` maps each allowed ndim to the number of batch and channel axes."""
    where = function.__name__
    _check(input, p, where, "p")
    if input.ndim not in leading:
        fewer, more = leading
        raise ShapeError(
            f"{where}: input must have {fewer} or {more} axes",
            got=f"{input.shape}",
            expected="an optional batch axis, the channel axis, then the spatial axes",
            hint="use dropout() to zero individual elements",
        )
    if not training or p == 0:
        return input
    if inplace:
        return in_place.change(input, function, p)
    lead = leading[input.ndim]
    return _masked(input, (*input.shape[:lead], *[1] * (input.ndim - lead)), p, p < 1)


def _masked(x, shape, p, scaled):
    mask = keep_mask(shape, 1.0 - p, array_module(x.array))
    return Dropout.apply(x, mask, scale=1.0 / (1.0 - p) if scaled else 1.0)


def _check(x, p, where, name):
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(
            f"{where}: {name} must be between 0 and 1",
            got=f"{name}={p}",
            hint=f"use {name}=0.1 to drop 10 %, or {name}=0 to drop nothing",
        )
    try:
        real = x.dtype.kind == "f"
    except AttributeError as error:
        raise not_tensors(error, where, input=x) from None
    if not real:
        raise DTypeError(
            f"{where}: input must be a floating-point tensor", got=f"{x.dtype}", hint="x.float()"
        )
