"""Feed-forward network of a Transformer block as one fused operation, and its composed version."""

from math import prod

from ..autograd.function import Function
from ..autograd.modes import state
from ..backend import array_module, matmul
from ..backend.row_reductions import add_block, column_sum, row_blocks
from ..computes import computes
from ..errors import ArgumentError
from ..named_errors import names_arguments
from .gelu import Gelu, GeluTanh, Silu
from .linear import Linear, linear
from .matmul import rows_of
from .relu import Relu
from .where import keep_where

__all__ = ["feed_forward", "feed_forward_composed"]

ACTIVATIONS = {"gelu": Gelu, "gelu_tanh": GeluTanh, "relu": Relu, "silu": Silu}
# FeedForwardInBlocks runs for at least FROM_ROWS rows and more than KEPT hidden elements in total.
KEPT, FROM_ROWS = 2**21, 4096
ROWS = 512  # rows in a block, so that its hidden layer fits into the caches
LARGE = 2**18  # elements of a weight from which the composed version is used for a few rows


@computes("feed-forward network", reveals=("linear", "GELU"))
class FeedForward(Function):
    r"""Feed-forward network: two linear layers with an activation f between them, row by row.

    Forward:  y = f(x @ weight1^T + bias1) @ weight2^T + bias2
    Backward: grad_weight2 = grad_y^T @ h, du = (grad_y @ weight2) * f'(u),
        grad_weight1 = du^T @ x, grad_x = du @ weight1
    Derivation: with the pre-activation u and the hidden layer h,
        u = x W1^T + b1,   h = f(u),   y = h W2^T + b2.
    With g = dL/dy and s = f'(u), from the last equation to the first,
        dL/dW2 = g^T h,   dL/db2 = sum of g over the rows,   dL/dh = g W2,
        dL/du = dL/dh * s,
        dL/dW1 = (dL/du)^T x,   dL/db1 = sum of dL/du over the rows,   dL/dx = dL/du W1.
    f and f' share an expensive part (tanh, erf or exp), so both are computed together.
    Saved: the five inputs; h and s as intermediates.
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
        """Compute the output step by step: linear layer, activation, linear layer."""
        hidden = ACTIVATIONS[activation].apply(Linear.apply(x, weight1, bias1))
        return Linear.apply(hidden, weight2, bias2)


@computes("feed-forward network", reveals=("linear", "GELU"))
class FeedForwardInBlocks(Function):
    r"""Feed-forward network that never holds the full hidden layer in memory.

    Forward:  y = f(x @ weight1^T + bias1) @ weight2^T + bias2, one block of rows at a time
    Backward: as in `FeedForward`, one block of rows at a time

    No block of rows needs the hidden layer of another block, so `forward` computes y block by block
    and does not keep the hidden layers.

    Derivation: as in `FeedForward`. `backward` computes the hidden layer again, one block at a
    time; the gradients of weights and biases are sums over the blocks. In total, this takes seven
    matrix products instead of six, but stores two fewer arrays of the hidden layer's size.
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
        ctx.save_intermediate()  # no intermediates; the call marks the op as fused
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
        """Compute the output step by step: linear layer, activation, linear layer."""
        return FeedForward.composed(ctx, *inputs, **settings)


class _Grads:
    """Gradients of the weights and biases, added up one block of rows at a time."""

    def __init__(self, needs_grad):
        self.needs_grad = needs_grad
        self.weight1 = self.bias1 = self.weight2 = self.bias2 = None

    @computes("linear")
    def add(self, g, x, h, slope, weight1, weight2):
        """Add the contribution of a block of rows to the gradients; return dL/dx of these rows."""
        need_x, need_weight1, need_bias1, need_weight2, need_bias2 = self.needs_grad
        if need_bias2:
            self.bias2 = add_block(self.bias2, column_sum(g))
        if need_weight2:  # (out, row) @ (row, hidden)
            self.weight2 = add_block(self.weight2, matmul(g.swapaxes(0, 1), h))
        if not (need_x or need_weight1 or need_bias1):
            return None
        grad_u = through(matmul(g, weight2), slope)  # (row, out) @ (out, hidden)
        if need_bias1:
            self.bias1 = add_block(self.bias1, column_sum(grad_u))
        if need_weight1:  # (hidden, row) @ (row, in)
            self.weight1 = add_block(self.weight1, matmul(grad_u.swapaxes(0, 1), x))
        return matmul(grad_u, weight1) if need_x else None  # (row, hidden) @ (hidden, in)

    def all(self, grad_x):
        return grad_x, self.weight1, self.bias1, self.weight2, self.bias2


@computes("linear")
def affine(rows, weight, bias):
    """Return rows @ weight^T + bias, in new memory."""
    y = matmul(rows, weight.T)  # (rows, in) @ (in, out)
    if bias is not None:
        y += bias
    return y


def through(grad, slope):
    """Return grad * slope, computed in place in `grad`.

    A boolean slope stands for the numbers 0 and 1. In this case, the result is a new array.
    """
    if slope.dtype.kind == "b":
        return keep_where(slope, grad)
    grad *= slope
    return grad


@names_arguments
def feed_forward(input, weight1, bias1, weight2, bias2, activation="gelu"):
    """Feed-forward network: `f(input @ weight1^T + bias1) @ weight2^T + bias2`, with activation f.

    Parameters
    ----------
    input : Tensor of shape (..., in)
    weight1, bias1 : Tensor of shape (hidden, in) and (hidden,)
        The first linear layer; the bias may be None.
    weight2, bias2 : Tensor of shape (out, hidden) and (out,)
        The second linear layer; the bias may be None.
    activation : {"gelu", "gelu_tanh", "relu", "silu"}
        Activation function f.

    Returns
    -------
    Tensor of shape (..., out)

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If shapes or dtypes do not match, or the activation is not supported.

    Notes
    -----
    The derivative is in `FeedForward`; `FeedForwardInBlocks` never holds the full hidden layer in
    memory. See Vaswani et al. 2017 [1]_, Eq. 2.

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
            "feed_forward(activation=): activation does not have a fused version",
            got=f"activation={activation!r}",
            expected="one of " + ", ".join(ACTIVATIONS),
            hint="call linear(), the activation and linear() one after the other",
        )
    inputs = input, weight1, bias1, weight2, bias2
    if not _fit(*inputs):
        return feed_forward_composed(*inputs, activation)  # raises the error
    rows = prod(input.shape[:-1])
    if _weights_dominate(rows, weight1, weight2):
        return feed_forward_composed(*inputs, activation)
    large = rows >= FROM_ROWS and rows * weight1.shape[0] > KEPT
    function = FeedForwardInBlocks if large else FeedForward
    return function.apply(*inputs, activation=activation)


@names_arguments
def feed_forward_composed(input, weight1, bias1, weight2, bias2, activation="gelu"):
    """Composed version of `feed_forward`, built from `linear` and the activation; slower.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> inputs = mt.randn(3, 5), mt.randn(7, 5), mt.randn(7), mt.randn(2, 7), mt.randn(2)
    >>> (feed_forward(*inputs) - feed_forward_composed(*inputs)).abs().max().item() < 1e-5
    True
    """
    hidden = ACTIVATIONS[activation].apply(linear(input, weight1, bias1))
    return linear(hidden, weight2, bias2)


def _weights_dominate(rows, weight1, weight2):
    """Return True if the gradients of the weights take much more memory than the hidden layer.

    If they do, `feed_forward` runs the composed version. `FeedForward` would return the gradients
    of both weights at the same time. In the composed version, autograd passes on the gradient of
    weight2 before it computes the gradient of weight1. The receiver, for example
    `training.ProcessSplit`, can free the first gradient before the second one needs memory. In an
    MViT step with two processes, the composed version saves 14 of 385 MB. The outputs of both
    versions are bit-identical.
    """
    large = weight1.array.size >= LARGE and weight2.array.size >= LARGE
    few = 0 < 8 * rows < min(weight1.shape[1], weight2.shape[0])
    trained = state.grad_enabled and weight1.requires_grad and weight2.requires_grad
    return large and few and trained


def _fit(x, weight1, bias1, weight2, bias2):
    """Return True if all arguments are tensors of one floating-point dtype with matching sizes."""
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
    except (AttributeError, ValueError):  # not a tensor, or not a matrix
        return False
