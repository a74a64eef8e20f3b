"""Long short-term memory (LSTM): one layer over sequences, and a single step."""

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, matmul
from ..backend.errstate import overflow_is_fine
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .cat_split import chunk
from .linear import linear
from .rnn import check_cell, check_layer, parameter_grads, project, steps, transposed, walk
from .sigmoid import sigmoid, tanh

__all__ = ["lstm_cell", "lstm_sequence"]


@computes("LSTM")
class LstmSequence(Function):
    r"""Long short-term memory (LSTM) over a sequence: three gates control the cell state c_t.

    Forward:  c_t = f_t * c_(t-1) + i_t * g_t, h_t = o_t * tanh(c_t), with gates i_t, f_t and o_t
    Backward: from the last step to the first: grad_c_(t-1) = f_t * grad_c_t

    With s(x) = 1 / (1 + e^-x), each step computes
        a_t = W x_t + b + U h_{t-1} + u,   split into the quarters a_i, a_f, a_g and a_o:
        input gate   i_t = s(a_i)
        forget gate  f_t = s(a_f)
        candidate    g_t = tanh(a_g)
        output gate  o_t = s(a_o)
        cell         c_t = f_t c_{t-1} + i_t g_t
        output       y_t = o_t tanh c_t,   h_t = y_t, or P y_t with a projection P.

    Derivation: dL/dh_t and dL/dc_t are sums of the gradients from the output and from step t + 1.
        dL/dy_t = P^T dL/dh_t                            dL/dP = sum_t dL/dh_t y_t^T
        dL/dc_t += dL/dy_t o_t (1 - tanh^2 c_t)
        dL/da_i = dL/dc_t g_t     i_t (1 - i_t)
        dL/da_f = dL/dc_t c_{t-1} f_t (1 - f_t)
        dL/da_g = dL/dc_t i_t     (1 - g_t^2)
        dL/da_o = dL/dy_t tanh(c_t) o_t (1 - o_t)
        dL/dc_{t-1} = dL/dc_t f_t,   dL/dh_{t-1} = U^T dL/da_t.
    From step to step, dL/dc_t is multiplied only by f_t. The gradients of x, W, U and the biases
    follow from dL/da_t as in `RnnSequence`.
    Saved: the inputs; the gates and candidates, h_{t-1}, c_{t-1} and tanh c_t as intermediates.
    """

    @staticmethod
    def forward(ctx, x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, *, batch_sizes, reverse):
        # x: (row, input)   h0: (batch, out)   c0: (batch, hidden)   w_ih: (4 hidden, input)
        # w_hh: (4 hidden, out)   w_hr: (out, hidden)
        xp = array_module(x)
        gates = project(x, w_ih, b_ih, b_hh)  # (row, 4 hidden)
        h, c, count = h0.copy(), c0.copy(), len(x)
        output = xp.empty((count, h.shape[1]), dtype=x.dtype)
        h_before = xp.empty_like(output)
        c_before = xp.empty((count, c.shape[1]), dtype=x.dtype)
        tanh_c, u = xp.empty_like(c_before), transposed(w_hh, batch_sizes)
        with overflow_is_fine():
            for n, rows in steps(batch_sizes, reverse):
                h_before[rows], c_before[rows] = h[:n], c[:n]
                a = gates[rows]
                a += matmul(h[:n], u)  # (n, out) @ (out, 4 hidden)
                i, f, g, o = quarters(a)
                for gate in (i, f, o):
                    sigmoid_in_place(gate)
                xp.tanh(g, out=g)
                c[:n] = f * c[:n] + i * g
                tanh_c[rows] = xp.tanh(c[:n])
                y = o * tanh_c[rows]
                h[:n] = y if w_hr is None else matmul(y, w_hr.swapaxes(0, 1))
                output[rows] = h[:n]
        ctx.save(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr)
        ctx.save_intermediate(gates, h_before, c_before, tanh_c)
        return output, h, c

    @staticmethod
    def backward(ctx, grad_output, grad_h, grad_c):
        x, _, _, w_ih, w_hh, _, _, w_hr = ctx.saved
        gates, h_before, c_before, tanh_c = ctx.intermediate
        grad_h, grad_c = grad_h.copy(), grad_c.copy()
        grad_a = array_module(x).empty_like(gates)
        grad_hs = grad_output if w_hr is None else grad_output.copy()  # dL/dh_t of every step
        for n, rows in steps(ctx.settings["batch_sizes"], not ctx.settings["reverse"]):
            i, f, g, o = quarters(gates[rows])
            grad_i, grad_f, grad_g, grad_o = quarters(grad_a[rows])
            grad_y = grad_h[:n] + grad_output[rows]
            if w_hr is not None:
                grad_hs[rows] = grad_y
                grad_y = matmul(grad_y, w_hr)  # (n, out) @ (out, hidden)
            t = tanh_c[rows]
            grad_c_t = grad_c[:n] + grad_y * o * (1 - t * t)
            grad_i[...] = grad_c_t * g * i * (1 - i)
            grad_f[...] = grad_c_t * c_before[rows] * f * (1 - f)
            grad_g[...] = grad_c_t * i * (1 - g * g)
            grad_o[...] = grad_y * t * o * (1 - o)
            grad_c[:n] = grad_c_t * f
            grad_h[:n] = matmul(grad_a[rows], w_hh)  # (n, 4 hidden) @ (4 hidden, out)
        need_x, need_h0, need_c0, *need_rest, need_w_hr = ctx.needs_grad
        grad_x = matmul(grad_a, w_ih) if need_x else None  # (row, 4 hidden) @ (4 hidden, input)
        rest = parameter_grads(grad_a, grad_a, x, h_before, need_rest)
        grad_w_hr = None
        if need_w_hr:  # (out, row) @ (row, hidden)
            grad_w_hr = matmul(grad_hs.swapaxes(0, 1), quarters(gates)[3] * tanh_c)
        grad_h, grad_c = grad_h if need_h0 else None, grad_c if need_c0 else None
        return grad_x, grad_h, grad_c, *rest, grad_w_hr

    @staticmethod
    def composed(ctx, x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, *, batch_sizes, reverse):
        """Reference implementation: apply the definition one operation at a time."""

        def step(x, h, c):
            i, f, g, o = chunk(linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh), 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            y = sigmoid(o) * tanh(c)
            return y if w_hr is None else linear(y, w_hr), c

        return walk(step, x, (h0, c0), batch_sizes, reverse)


def quarters(a):
    """Split the last axis of `a` into four equal parts; return them as views."""
    n = a.shape[-1] // 4
    return a[:, :n], a[:, n : 2 * n], a[:, 2 * n : 3 * n], a[:, 3 * n :]


def sigmoid_in_place(x):
    """Replace x in place with the sigmoid 1 / (1 + e^-x)."""
    xp = array_module(x)
    x *= -1  # NumPy's negative(x, out=x) is wrong for some strides
    xp.exp(x, out=x)
    x += 1
    xp.reciprocal(x, out=x)


@names_arguments
@autocasts
def lstm_sequence(
    input, h0, c0, weight_ih, weight_hh, bias_ih=None, bias_hh=None, weight_hr=None, *,
    batch_sizes, reverse=False,
):  # fmt: skip
    """Apply one layer of long short-term memory (LSTM) to packed sequences, in one direction.

    Parameters
    ----------
    input : Tensor of shape (row, input)
        Tokens of all sequences, ordered by step.
    h0, c0 : Tensor of shape (batch, out) and (batch, hidden)
        Initial hidden state and cell state.
    weight_ih, weight_hh : Tensor of shape (4 * hidden, input) and (4 * hidden, out)
        Weights of the input gate, forget gate, candidate and output gate, stacked.
    bias_ih, bias_hh : Tensor of shape (4 * hidden,), optional
        Biases added to the products with the input and with the hidden state.
    weight_hr : Tensor of shape (out, hidden), optional
        Projection of the output; without it, out = hidden.
    batch_sizes : sequence of int
        Number of sequences that reach each step, in non-increasing order.
    reverse : bool, default False
        Whether to start with the last token of each sequence.

    Returns
    -------
    output : Tensor of shape (row, out)
    h_n, c_n : Tensor of shape (batch, out) and (batch, hidden)
        Hidden state and cell state after the last step of each sequence.

    Notes
    -----
    The derivative is in `LstmSequence`. The gates follow Gers, Schmidhuber and Cummins [1]_. The
    projection is Eq. 8 of Sak, Senior and Beaufays [2]_; their peephole connections are left out.

    References
    ----------
    .. [1] "Learning to Forget: Continual Prediction with LSTM", Neural Computation 12, 2000.
    .. [2] "Long Short-Term Memory Based Recurrent Neural Network Architectures for Large
       Vocabulary Speech Recognition", arXiv:1402.1128v1, section 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> state, weight = mt.zeros(2, 5), mt.zeros(20, 5)
    >>> out, h, c = lstm_sequence(
    ...     mt.ones(3, 7), state, state, mt.zeros(20, 7), weight, batch_sizes=(2, 1)
    ... )
    >>> out.shape, h.shape, c.shape
    ((3, 5), (2, 5), (2, 5))
    """
    inputs = (input, h0, weight_ih, weight_hh, bias_ih, bias_hh)
    _check_projection("lstm_sequence", weight_hr, weight_hh)
    check_layer("lstm_sequence", inputs, 4, batch_sizes, proj=weight_hr)
    _check_cell_state("lstm_sequence", c0, "c0", (h0.shape[0], weight_hh.shape[0] // 4), input)
    return LstmSequence.apply(
        input, h0, c0, *inputs[2:], weight_hr,
        batch_sizes=tuple(batch_sizes), reverse=bool(reverse),
    )  # fmt: skip


@names_arguments
@autocasts
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """Compute one time step of a long short-term memory (LSTM).

    Parameters
    ----------
    input : Tensor of shape (batch, input)
    hx : pair of Tensor of shape (batch, hidden)
        Hidden state h and cell state c.
    w_ih, w_hh : Tensor of shape (4 * hidden, input) and (4 * hidden, hidden)
        Weights as in `lstm_sequence`.
    b_ih, b_hh : Tensor of shape (4 * hidden,), optional
        Biases as in `lstm_sequence`.

    Returns
    -------
    h, c : Tensor of shape (batch, hidden)

    Examples
    --------
    With zero weights, the forget gate is 1/2 and the candidate is 0, so the step halves the cell:

    >>> import minitorch_attn as mt
    >>> w = mt.zeros(4, 1)
    >>> lstm_cell(mt.ones(1, 1), (mt.zeros(1, 1), mt.ones(1, 1)), w, w)[1]
    tensor([[0.5]])
    """
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise ArgumentError(
            "lstm_cell: hx must be a pair of tensors",
            got=type(hx).__name__,
            expected="(h, c)",
            hint="pass (h, mt.zeros_like(h)) for a cell state of zeros",
        )
    h, c = hx
    sizes = check_cell("lstm_cell", (input, h, w_ih, w_hh, b_ih, b_hh), 4)
    _check_cell_state("lstm_cell", c, "hx[1]", h.shape, input)
    inputs = (input, h, c, w_ih, w_hh, b_ih, b_hh, None)
    return LstmSequence.apply(*inputs, batch_sizes=sizes, reverse=False)[1:]


def _check_projection(where, weight_hr, weight_hh):
    if weight_hr is None:
        return
    wanted = (weight_hh.shape[-1], weight_hh.shape[0] // 4)
    if weight_hr.shape != wanted:
        raise ShapeError(
            f"{where}: weight_hr has the wrong shape",
            got=f"weight_hr {weight_hr.shape}, weight_hh {weight_hh.shape}",
            expected=f"weight_hr {wanted}",
            hint="use weight_hr.T if weight_hr has one column per output",
        )


def _check_cell_state(where, c, name, shape, input):
    if not isinstance(c, Tensor) or c.dtype != input.dtype:
        raise DTypeError(
            f"{where}: {name} is not a tensor with the dtype of input",
            got=f"{getattr(c, 'dtype', type(c).__name__)}",
            expected=f"{input.dtype}",
            hint=f"{name}.to(input.dtype)",
        )
    if c.shape != shape:
        raise ShapeError(
            f"{where}: {name} has the wrong shape",
            got=f"{c.shape}",
            expected=f"{shape}",
            hint=f"use mt.zeros{shape} to start with a cell state of zeros",
        )
