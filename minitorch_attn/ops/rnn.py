"""Recurrent neural network (RNN): one layer over packed sequences, and the Elman network.

One array `(row, feature)` holds the tokens of a batch, ordered by step: first the tokens of step 0,
one per sequence, then the tokens of step 1, and so on. The sequences are sorted by decreasing
length, so the sequences that have a step t are the first n = `batch_sizes[t]` of the batch.

The part of the network that depends only on the input is one matrix product for all steps. The part
that depends on the previous state is computed step by step. Each sequence has a state, and step t
replaces the states of the `batch_sizes[t]` sequences that have this step. In the forward direction,
a sequence that has ended keeps its last state; in reverse, a sequence that has not started keeps
its initial state.
"""

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, matmul
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .cat_split import cat, split
from .linear import linear
from .relu import relu
from .sigmoid import tanh

__all__ = ["rnn_relu_cell", "rnn_sequence", "rnn_tanh_cell"]


@computes("recurrent network")
class RnnSequence(Function):
    r"""Recurrent neural network (RNN) over a sequence, with f = tanh or relu.

    Forward:  h_t = f(w_ih @ x_t + b_ih + w_hh @ h_(t-1) + b_hh)
    Backward: da_t = grad_h_t * f'(a_t), grad_h_(t-1) += w_hh^T @ da_t, grad_x_t = w_ih^T @ da_t
    Derivation: with W = w_ih, U = w_hh, a_t the argument of f, and g_t = dL/dh_t the sum of the
    gradients from the output of step t and from step t + 1,
        dL/da_t = g_t f'(a_t),   f' = 1 - h_t^2 for tanh, 1 where h_t > 0 for relu
        dL/dh_{t-1} = U^T dL/da_t,   dL/dx_t = W^T dL/da_t
        dL/dW = sum_t dL/da_t x_t^T,   dL/dU = sum_t dL/da_t h_{t-1}^T
        dL/db_ih = dL/db_hh = sum_t dL/da_t.
    dL/dW and dL/dU are each computed as one matrix product over the rows of all steps.
    Saved: the inputs and the output; the states h_{t-1} of all steps as intermediate results.
    """

    @staticmethod
    def forward(ctx, x, h0, w_ih, w_hh, b_ih, b_hh, *, batch_sizes, reverse, nonlinearity):
        # x: (row, input)   h0: (batch, hidden)   w_ih: (hidden, input)   w_hh: (hidden, hidden)
        xp = array_module(x)
        a = project(x, w_ih, b_ih, b_hh)  # (row, hidden)
        h, h_before, output = h0.copy(), xp.empty_like(a), a
        u = transposed(w_hh, batch_sizes)
        for n, rows in steps(batch_sizes, reverse):
            h_before[rows] = h[:n]
            a_t = a[rows]
            a_t += matmul(h[:n], u)  # (n, hidden) @ (hidden, hidden)
            if nonlinearity == "tanh":
                xp.tanh(a_t, out=a_t)
            else:
                xp.maximum(a_t, 0, out=a_t)
            h[:n] = a_t
        ctx.save(x, h0, w_ih, w_hh, b_ih, b_hh, output)
        ctx.save_intermediate(h_before)
        return output, h

    @staticmethod
    def backward(ctx, grad_output, grad_h):
        x, _, w_ih, w_hh, _, _, output = ctx.saved
        (h_before,) = ctx.intermediate
        tanh_like = ctx.settings["nonlinearity"] == "tanh"
        slope = 1 - output * output if tanh_like else (output > 0).astype(output.dtype)
        grad_h, grad_a = grad_h.copy(), slope
        for n, rows in steps(ctx.settings["batch_sizes"], not ctx.settings["reverse"]):
            grad_a[rows] *= grad_h[:n] + grad_output[rows]
            grad_h[:n] = matmul(grad_a[rows], w_hh)  # (n, hidden) @ (hidden, hidden)
        need_x, need_h0, *need_rest = ctx.needs_grad
        grad_x = matmul(grad_a, w_ih) if need_x else None  # (row, hidden) @ (hidden, input)
        rest = parameter_grads(grad_a, grad_a, x, h_before, need_rest)
        return grad_x, grad_h if need_h0 else None, *rest

    @staticmethod
    def composed(ctx, x, h0, w_ih, w_hh, b_ih, b_hh, *, batch_sizes, reverse, nonlinearity):
        """Reference implementation: apply the definition one operation at a time."""
        activate = tanh if nonlinearity == "tanh" else relu

        def step(x, h):
            return (activate(linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh)),)

        return walk(step, x, (h0,), batch_sizes, reverse)


def steps(batch_sizes, reverse):
    """Yield (number of sequences, slice of their rows) for each step, in reverse if `reverse`.

    Examples
    --------
    >>> list(steps((2, 1), reverse=False))
    [(2, slice(0, 2, None)), (1, slice(2, 3, None))]
    """
    if reverse:
        stop = sum(batch_sizes)
        for n in reversed(batch_sizes):
            yield n, slice(stop - n, stop)
            stop -= n
    else:
        start = 0
        for n in batch_sizes:
            yield n, slice(start, start + n)
            start += n


def project(x, weight, *biases):
    """Return x W^T plus biases for all steps at once: the part that does not need the states."""
    y = matmul(x, weight.swapaxes(0, 1))  # (row, input) @ (input, gates)
    for bias in biases:
        if bias is not None:
            y += bias
    return y


def transposed(weight, batch_sizes):
    """Return W^T; if there are more than two steps, it is copied into contiguous memory.

    BLAS reads the contiguous copy up to five times as fast as the transposed view.
    """
    weight = weight.swapaxes(0, 1)
    return weight.copy() if len(batch_sizes) > 2 else weight


def parameter_grads(grad_a, grad_e, x, h_before, needs):
    """Return dL/dW, dL/dU, dL/db and dL/du for a = W x + b and e = U h + u, summed over all rows.

    Parameters
    ----------
    grad_a, grad_e : array of shape (row, gates)
    x : array of shape (row, input)
    h_before : array of shape (row, hidden)
    needs : four flags
        Whether to compute dL/dW, dL/dU, dL/db and dL/du, in this order.
    """
    need_w_ih, need_w_hh, need_b_ih, need_b_hh = needs
    # (gates, row) @ (row, input) and (gates, row) @ (row, hidden)
    grad_w_ih = matmul(grad_a.swapaxes(0, 1), x) if need_w_ih else None
    grad_w_hh = matmul(grad_e.swapaxes(0, 1), h_before) if need_w_hh else None
    grad_b_ih = grad_a.sum(axis=0) if need_b_ih else None
    grad_b_hh = grad_e.sum(axis=0) if need_b_hh else None
    return grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh


def walk(step, x, states, batch_sizes, reverse):
    """Run a recurrent network on packed sequences: call `step(x_t, *states)` at each step t.

    Parameters
    ----------
    step : callable
        Function that computes one step and returns the new states. The first new state is also
        the output of the step.
    x : Tensor of shape (row, input)
    states : tuple of Tensor of shape (batch, ...)
    batch_sizes : tuple of int
    reverse : bool

    Returns
    -------
    tuple of Tensor
        Output for each row of `x`, followed by the states after the last step of each sequence.
    """
    order = range(len(batch_sizes))
    pieces, outputs = split(x, list(batch_sizes)), {}
    for t in reversed(order) if reverse else order:
        n = batch_sizes[t]
        new = step(pieces[t], *(state[:n] for state in states))
        outputs[t] = new[0]
        states = [cat([a, b[n:]]) for a, b in zip(new, states, strict=True)]
    return (cat([outputs[t] for t in order]), *states)


@names_arguments
@autocasts
def rnn_sequence(
    input, h0, weight_ih, weight_hh, bias_ih=None, bias_hh=None, *, batch_sizes, reverse=False,
    nonlinearity="tanh",
):  # fmt: skip
    """Run one layer of an Elman network (RNN) over packed sequences, in one direction.

    Parameters
    ----------
    input : Tensor of shape (row, input)
        Tokens of all sequences, ordered by step.
    h0 : Tensor of shape (batch, hidden)
        Initial state of each sequence.
    weight_ih : Tensor of shape (hidden, input)
    weight_hh : Tensor of shape (hidden, hidden)
    bias_ih, bias_hh : Tensor of shape (hidden,), optional
    batch_sizes : sequence of int
        Number of sequences at each step; it must not increase from step to step.
    reverse : bool, default False
        Whether to start with the last token of each sequence.
    nonlinearity : "tanh" or "relu"

    Returns
    -------
    output : Tensor of shape (row, hidden)
    h_n : Tensor of shape (batch, hidden)
        State after the last step of each sequence.

    Notes
    -----
    The derivative is in `RnnSequence`. `nn.RNN` is built on this function.

    Examples
    --------
    With weights of 1 and relu, the state sums the inputs. The two sequences have 2 and 1 steps:

    >>> import minitorch_attn as mt
    >>> one = mt.ones(1, 1)
    >>> x = mt.tensor([[1.0], [10.0], [2.0]])
    >>> rnn_sequence(x, mt.zeros(2, 1), one, one, batch_sizes=(2, 1), nonlinearity="relu")[1]
    tensor([[ 3.],
            [10.]])
    """
    inputs = (input, h0, weight_ih, weight_hh, bias_ih, bias_hh)
    check_layer("rnn_sequence", inputs, 1, batch_sizes)
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(
            "rnn_sequence: nonlinearity must be 'tanh' or 'relu'",
            got=repr(nonlinearity),
            hint="pass the name in lower case, not a function",
        )
    settings = {"batch_sizes": tuple(batch_sizes), "reverse": bool(reverse)}
    return RnnSequence.apply(*inputs, **settings, nonlinearity=nonlinearity)


@names_arguments
@autocasts
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network, `tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)`.

    Parameters
    ----------
    input : Tensor of shape (batch, input)
    hx : Tensor of shape (batch, hidden)
    w_ih, w_hh : Tensor of shape (hidden, input) and (hidden, hidden)
    b_ih, b_hh : Tensor of shape (hidden,), optional

    Returns
    -------
    Tensor of shape (batch, hidden)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> rnn_tanh_cell(mt.ones(1, 1), mt.zeros(1, 1), mt.ones(1, 1), mt.ones(1, 1))
    tensor([[0.7616]])
    """
    return _cell("rnn_tanh_cell", (input, hx, w_ih, w_hh, b_ih, b_hh), "tanh")


@names_arguments
@autocasts
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network with relu in place of tanh; see `rnn_tanh_cell`."""
    return _cell("rnn_relu_cell", (input, hx, w_ih, w_hh, b_ih, b_hh), "relu")


def _cell(where, inputs, nonlinearity):
    settings = {"batch_sizes": check_cell(where, inputs, 1), "reverse": False}
    return RnnSequence.apply(*inputs, **settings, nonlinearity=nonlinearity)[0]


def check_cell(where, inputs, gates):
    """Check the arguments of a recurrent cell; return the tuple `batch_sizes` for a single step."""
    if isinstance(inputs[0], Tensor) and inputs[0].ndim != 2:
        raise ShapeError(
            f"{where}: input must have 2 axes",
            got=f"input {inputs[0].shape}",
            hint="pass (batch, input) for one step; use rnn_sequence() for whole sequences",
        )
    check_layer(where, inputs, gates, None)
    return (inputs[0].shape[0],)


def check_layer(where, inputs, gates, batch_sizes, proj=None):
    """Check that the tensors of a layer match in shape and dtype.

    Parameters
    ----------
    where : str
        Name of the public function, for error messages.
    inputs : tuple
        The tensors input, h0, weight_ih, weight_hh, bias_ih, bias_hh.
    gates : int
        Number of gates; each weight matrix has `gates * hidden` rows.
    batch_sizes : sequence of int, or None for a single step
    proj : Tensor of shape (output, hidden), optional
        Projection matrix of the output, in an LSTM with `proj_size`.
    """
    names = ("input", "hx" if batch_sizes is None else "h0", "weight_ih", "weight_hh", "bias_ih",
             "bias_hh")  # fmt: skip
    x, h0, _, w_hh, _, _ = inputs
    for name, tensor in zip(names, inputs, strict=True):
        if not isinstance(tensor, Tensor) and not (tensor is None and name.startswith("bias")):
            raise DTypeError(
                f"{where}: {name} is not a tensor",
                got=type(tensor).__name__,
                hint=f"mt.tensor({name})",
            )
        if tensor is not None and tensor.dtype != x.dtype:
            raise DTypeError(
                f"{where}: the dtypes of input and {name} do not match",
                got=f"input {x.dtype} and {name} {tensor.dtype}",
                expected="one floating-point dtype for input, states and weights",
                hint="input.to(weight_ih.dtype)",
            )
    if x.dtype.kind != "f":
        raise DTypeError(
            f"{where}: input must be floating-point", got=f"{x.dtype}", hint="input.float()"
        )
    rows = batch = x.shape[0] if x.ndim else 0
    if batch_sizes is not None:
        rows, batch = check_batch_sizes(where, batch_sizes)
    out = w_hh.shape[-1] if w_hh.ndim else 0
    hidden = proj.shape[-1] if proj is not None else out
    size = x.shape[-1] if x.ndim else 0
    wanted = ((rows, size), (batch, out), (gates * hidden, size), (gates * hidden, out),
              (gates * hidden,), (gates * hidden,))  # fmt: skip
    for name, tensor, shape in zip(names, inputs, wanted, strict=True):
        if tensor is not None and tensor.shape != shape:
            raise ShapeError(
                f"{where}: {name} has the wrong shape",
                got=f"{name} {tensor.shape}, input {x.shape}, weight_hh {w_hh.shape}",
                expected=f"{name} {shape}",
                hint="use weight.T if a weight has one column per output",
            )


def check_batch_sizes(where, batch_sizes):
    """Return the number of rows and the number of sequences that `batch_sizes` describes."""
    sizes = list(batch_sizes)
    if not sizes or any(a < b for a, b in zip(sizes, [*sizes[1:], 0], strict=True)):
        raise ArgumentError(
            f"{where}: batch_sizes must be positive and must not increase",
            got=str(sizes)[:60],
            expected="at least one step, each with at most as many sequences as the step before",
            hint="nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False).batch_sizes",
        )
    return sum(sizes), sizes[0]
