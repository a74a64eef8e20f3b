"""The feed-forward network of a Transformer block as one operation, and its composed twin."""

from math import prod

from ..autograd.function import Function
from ..backend import array_module, matmul
from ..backend.rows import column_sum, row_blocks
from ..errors import ArgumentError
from .activation import Relu
from .gate import Gelu, GeluTanh, Silu
from .linear import Linear, linear
from .matmul import rows_of
from .selection import keep_where

__all__ = ["feed_forward", "feed_forward_composed"]

ACTIVATIONS = {"gelu": Gelu, "gelu_tanh": GeluTanh, "relu": Relu, "silu": Silu}
KEPT, FROM_ROWS = 2**21, 4096  # a hidden layer of more numbers and so many rows is not kept
ROWS = 512  # of a block: its hidden layer stays in the caches, its products are still large


class FeedForward(Function):
    r"""y = f(x W1^T + b1) W2^T + b2, for every row x.

    With the pre-activation u and the hidden layer h,
        u = x W1^T + b1,   h = f(u),   y = h W2^T + b2.

    Derivative: with g = dL/dy and s = f'(u), from the last line to the first,
        dL/dW2 = g^T h,   dL/db2 = sum of g over the rows,   dL/dh = g W2,
        dL/du = dL/dh * s,
        dL/dW1 = (dL/du)^T x,   dL/db1 = sum of dL/du over the rows,   dL/dx = dL/du W1.
    f and f' share their costly part, tanh or erf or exp: both are computed at once.

    Saved: the five inputs; h and s from inside.
    """

    @staticmethod
    def forward(ctx, x, weight1, bias1, weight2, bias2, *, activation):
        # x (..., in)   weight1 (hidden, in)   weight2 (out, hidden)
        f = ACTIVATIONS[activation]
        u = affine(rows_of(x), weight1, bias1)  # (rows, hidden)
        ctx.save(x, weight1, bias1, weight2, bias2)
        if any(ctx.needs_grad):
            h, slope = f.value_and_slope(u)
            ctx.save_intermediate(h, slope)
        else:
            h = f.value(u)
        y = affine(h, weight2, bias2)  # (rows, out)
        return y.reshape((*x.shape[:-1], weight2.shape[0]))

    @staticmethod
    def backward(ctx, grad_y):
        x, weight1, _, weight2, bias2 = ctx.saved
        h, slope = ctx.intermediate
        grads = _Grads(ctx.needs_grad)
        grad_x = grads.add(rows_of(grad_y), rows_of(x), h, slope, weight1, weight2)
        return grads.all(None if grad_x is None else grad_x.reshape(x.shape))

    @staticmethod
    def composed(ctx, x, weight1, bias1, weight2, bias2, *, activation):
        """The definition, one operation at a time."""
        hidden = ACTIVATIONS[activation].apply(Linear.apply(x, weight1, bias1))
        return Linear.apply(hidden, weight2, bias2)


class FeedForwardInBlocks(Function):
    r"""y = f(x W1^T + b1) W2^T + b2, in memory without the hidden layer.

    A block of rows has its own hidden layer, which nothing else needs: y is computed block by
    block, and what lies between is dropped.

    Derivative: as in `FeedForward`, from the hidden layer of one block at a time, which is
    computed anew; the gradients of weights and biases are sums over the blocks. That is a product
    more than the six of a step, and two arrays of the size of the hidden layer less.

    Saved: the five inputs.
    """

    @staticmethod
    def forward(ctx, x, weight1, bias1, weight2, bias2, *, activation):
        f, rows = ACTIVATIONS[activation], rows_of(x)
        y = array_module(x).empty((len(rows), weight2.shape[0]), dtype=x.dtype)
        for block in row_blocks(rows, ROWS):
            h = f.value(affine(rows[block], weight1, bias1))  # (row, hidden)
            y[block] = affine(h, weight2, bias2)
        ctx.save(x, weight1, bias1, weight2, bias2)
        ctx.save_intermediate()  # nothing, but the lines of backward know arrays only
        return y.reshape((*x.shape[:-1], weight2.shape[0]))

    @staticmethod
    def backward(ctx, grad_y):
        x, weight1, bias1, weight2, bias2 = ctx.saved
        f, rows, g = ACTIVATIONS[ctx.settings["activation"]], rows_of(x), rows_of(grad_y)
        grads = _Grads(ctx.needs_grad)
        grad_x = array_module(x).empty(rows.shape, dtype=x.dtype) if ctx.needs_grad[0] else None
        for block in row_blocks(rows, ROWS):
            h, slope = f.value_and_slope(affine(rows[block], weight1, bias1))  # (row, hidden)
            part = grads.add(g[block], rows[block], h, slope, weight1, weight2)
            if grad_x is not None:
                grad_x[block] = part
        return grads.all(None if grad_x is None else grad_x.reshape(x.shape))

    @staticmethod
    def composed(ctx, *inputs, **settings):
        """The definition, one operation at a time."""
        return FeedForward.composed(ctx, *inputs, **settings)


class _Grads:
    """The gradients of weights and biases, to which each block of rows adds."""

    def __init__(self, needs_grad):
        self.needs_grad = needs_grad
        self.weight1 = self.bias1 = self.weight2 = self.bias2 = None

    def add(self, g, x, h, slope, weight1, weight2):
        """Add what some rows contribute; return dL/dx of these rows."""
        need_x, need_weight1, need_bias1, need_weight2, need_bias2 = self.needs_grad
        if need_bias2:
            self.bias2 = _added(self.bias2, column_sum(g))
        if need_weight2:  # (out, row) @ (row, hidden)
            self.weight2 = _added(self.weight2, matmul(g.swapaxes(0, 1), h))
        if not (need_x or need_weight1 or need_bias1):
            return None
        grad_u = through(matmul(g, weight2), slope)  # (row, out) @ (out, hidden)
        if need_bias1:
            self.bias1 = _added(self.bias1, column_sum(grad_u))
        if need_weight1:  # (hidden, row) @ (row, in)
            self.weight1 = _added(self.weight1, matmul(grad_u.swapaxes(0, 1), x))
        return matmul(grad_u, weight1) if need_x else None  # (row, hidden) @ (hidden, in)

    def all(self, grad_x):
        return grad_x, self.weight1, self.bias1, self.weight2, self.bias2


def affine(rows, weight, bias):
    """rows @ weight^T + bias, in memory of its own."""
    y = matmul(rows, weight.T)  # (rows, in) @ (in, out)
    if bias is not None:
        y += bias
    return y


def through(grad, slope):
    """grad * slope, in the memory of `grad`; a slope of bool is 1 or 0."""
    if slope.dtype.kind == "b":
        return keep_where(slope, grad)
    grad *= slope
    return grad


def _added(total, part):
    """The sum; the first part begins it."""
    if total is None:
        return part
    total += part
    return total


def feed_forward(input, weight1, bias1, weight2, bias2, activation="gelu"):
    """f(input weight1^T + bias1) weight2^T + bias2: two linear layers with an activation between.

    Parameters
    ----------
    input : Tensor of shape (..., in)
    weight1 : Tensor of shape (hidden, in)
    bias1 : Tensor of shape (hidden,), or None
    weight2 : Tensor of shape (out, hidden)
    bias2 : Tensor of shape (out,), or None
    activation : {"gelu", "gelu_tanh", "relu", "silu"}
        f.

    Returns
    -------
    Tensor of shape (..., out)

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If the arguments do not fit together.

    Notes
    -----
    Derivative in `FeedForward`; a large hidden layer is never in memory as a whole, see
    `FeedForwardInBlocks`. Vaswani et al. 2017 [1]_, Eq. 2.

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, sec. 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1.0, -2.0]])
    >>> feed_forward(x, mt.eye(2), None, mt.ones(1, 2), mt.tensor([0.5]), activation="relu")
    tensor([[1.5]])
    """
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            "feed_forward(activation=): no such activation.",
            got=repr(activation),
            expected="one of " + ", ".join(ACTIVATIONS),
        )
    inputs = input, weight1, bias1, weight2, bias2
    if not _fit(*inputs):
        return feed_forward_composed(*inputs, activation)  # which says what does not fit
    rows = prod(input.shape[:-1])
    large = rows >= FROM_ROWS and rows * weight1.shape[0] > KEPT
    function = FeedForwardInBlocks if large else FeedForward
    return function.apply(*inputs, activation=activation)


def feed_forward_composed(input, weight1, bias1, weight2, bias2, activation="gelu"):
    """`feed_forward` built from `linear` and the activation: slower, the same.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> inputs = mt.randn(3, 5), mt.randn(7, 5), mt.randn(7), mt.randn(2, 7), mt.randn(2)
    >>> (feed_forward(*inputs) - feed_forward_composed(*inputs)).abs().max().item() < 1e-5
    True
    """
    hidden = ACTIVATIONS[activation].apply(linear(input, weight1, bias1))
    return linear(hidden, weight2, bias2)


def _fit(x, weight1, bias1, weight2, bias2):
    """Whether all are tensors of one floating-point dtype whose sizes fit."""
    try:
        dtype, shape = x.array.dtype, x.array.shape
        (hidden, width), (out, also_hidden) = weight1.array.shape, weight2.array.shape
        return (
            dtype.kind == "f"
            and dtype == weight1.array.dtype == weight2.array.dtype
            and shape[-1:] == (width,)
            and hidden == also_hidden
            and (bias1 is None or (bias1.array.dtype == dtype and bias1.array.shape == (hidden,)))
            and (bias2 is None or (bias2.array.dtype == dtype and bias2.array.shape == (out,)))
        )
    except (AttributeError, ValueError):  # not a tensor, not a matrix
        return False
