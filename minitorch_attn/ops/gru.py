"""GRU, the gated recurrent unit: gru_sequence for sequences, gru_cell for one step."""

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, matmul
from ..backend.errstate import overflow_is_fine
from ..computes import computes
from ..named_errors import names_arguments
from .cat_split import chunk
from .linear import linear
from .lstm import sigmoid_in_place
from .rnn import check_cell, check_layer, parameter_grads, project, steps, transposed, walk
from .sigmoid import sigmoid, tanh

__all__ = ["gru_cell", "gru_sequence"]


@computes("GRU")
class GruSequence(Function):
    r"""GRU layer (gated recurrent unit) in one direction.

    Forward:  h_t = (1 - z_t) * n_t + z_t * h_(t-1), with gates r_t and z_t
    Backward: from the last step to the first: grad_h_(t-1) += z_t * grad_h_t
        + the gradient through the gates

    Each step computes two gates and a candidate, with s(x) = 1 / (1 + e^-x):
        a_t = W x_t + b,   e_t = U h_{t-1} + u,   each with three parts, in this order:
        reset gate   r_t = s(a_r + e_r)
        update gate  z_t = s(a_z + e_z)
        candidate    n_t = tanh(a_n + r_t e_n)
        output       h_t = (1 - z_t) n_t + z_t h_{t-1}.

    Derivation: dL/dh_t is the sum of the gradients from the output and from step t + 1.
        dL/da_n = dL/dh_t (1 - z_t) (1 - n_t^2)             dL/de_n = dL/da_n r_t
        dL/da_r = dL/da_n e_n r_t (1 - r_t)                 dL/de_r = dL/da_r
        dL/da_z = dL/dh_t (h_{t-1} - n_t) z_t (1 - z_t)     dL/de_z = dL/da_z
        dL/dh_{t-1} = dL/dh_t z_t + U^T dL/de_t
    The gradients of weights and biases follow from a_t = W x_t + b and e_t = U h_{t-1} + u:
        dL/dW = sum_t dL/da_t x_t^T,   dL/dU = sum_t dL/de_t h_{t-1}^T,
        dL/db = sum_t dL/da_t,         dL/du = sum_t dL/de_t.
    Saved: the inputs; r, z and n, e_n and h_{t-1} as intermediates.
    """

    @staticmethod
    def forward(ctx, x, h0, w_ih, w_hh, b_ih, b_hh, *, batch_sizes, reverse):
        # x: (row, input)   h0: (batch, hidden)   w_ih: (3 hidden, input)   w_hh: (3 hidden, hidden)
        xp = array_module(x)
        gates = project(x, w_ih, b_ih)  # (row, 3 hidden)
        h = h0.copy()
        output = xp.empty((len(x), h.shape[1]), dtype=x.dtype)
        h_before, e_n = xp.empty_like(output), xp.empty_like(output)
        u = transposed(w_hh, batch_sizes)
        with overflow_is_fine():
            for n_rows, rows in steps(batch_sizes, reverse):
                h_before[rows] = h[:n_rows]
                e = matmul(h[:n_rows], u)  # (n_rows, hidden) @ (hidden, 3 hidden)
                if b_hh is not None:
                    e += b_hh
                r, z, n = thirds(gates[rows])
                e_r, e_z, e_n[rows] = thirds(e)
                r += e_r
                sigmoid_in_place(r)
                z += e_z
                sigmoid_in_place(z)
                n += r * e_n[rows]
                xp.tanh(n, out=n)
                h[:n_rows] = (1 - z) * n + z * h[:n_rows]
                output[rows] = h[:n_rows]
        ctx.save(x, h0, w_ih, w_hh, b_ih, b_hh)
        ctx.save_intermediate(gates, e_n, h_before)
        return output, h

    @staticmethod
    def backward(ctx, grad_output, grad_h):
        x, _, w_ih, w_hh, _, _ = ctx.saved
        gates, e_n, h_before = ctx.intermediate
        grad_h = grad_h.copy()
        grad_a, grad_e = array_module(x).empty_like(gates), array_module(x).empty_like(gates)
        for n_rows, rows in steps(ctx.settings["batch_sizes"], not ctx.settings["reverse"]):
            r, z, n = thirds(gates[rows])
            grad_r, grad_z, grad_n = thirds(grad_a[rows])
            grad = grad_h[:n_rows] + grad_output[rows]
            grad_n[...] = grad * (1 - z) * (1 - n * n)
            grad_r[...] = grad_n * e_n[rows] * r * (1 - r)
            grad_z[...] = grad * (h_before[rows] - n) * z * (1 - z)
            grad_e[rows] = grad_a[rows]
            grad_e_n = thirds(grad_e[rows])[2]
            grad_e_n *= r
            # (n_rows, 3 hidden) @ (3 hidden, hidden)
            grad_h[:n_rows] = grad * z + matmul(grad_e[rows], w_hh)
        need_x, need_h0, *need_rest = ctx.needs_grad
        grad_x = matmul(grad_a, w_ih) if need_x else None  # (row, 3 hidden) @ (3 hidden, input)
        rest = parameter_grads(grad_a, grad_e, x, h_before, need_rest)
        return grad_x, grad_h if need_h0 else None, *rest

    @staticmethod
    def composed(ctx, x, h0, w_ih, w_hh, b_ih, b_hh, *, batch_sizes, reverse):
        """Compute the GRU from its definition, one time step at a time."""

        def step(x, h):
            a_r, a_z, a_n = chunk(linear(x, w_ih, b_ih), 3, -1)
            e_r, e_z, e_n = chunk(linear(h, w_hh, b_hh), 3, -1)
            r, z = sigmoid(a_r + e_r), sigmoid(a_z + e_z)
            n = tanh(a_n + r * e_n)
            return ((1 - z) * n + z * h,)

        return walk(step, x, (h0,), batch_sizes, reverse)


def thirds(a):
    """Split the last axis of `a` into three equal parts; return them as views."""
    n = a.shape[-1] // 3
    return a[:, :n], a[:, n : 2 * n], a[:, 2 * n :]


@names_arguments
@autocasts
def gru_sequence(
    input, h0, weight_ih, weight_hh, bias_ih=None, bias_hh=None, *, batch_sizes, reverse=False
):
    """Apply one layer of gated recurrent units (GRU) to packed sequences, in one direction.

    Parameters
    ----------
    input : Tensor of shape (row, input)
        Tokens of all sequences, ordered by step.
    h0 : Tensor of shape (batch, hidden)
        Initial hidden state.
    weight_ih : Tensor of shape (3 * hidden, input)
        Input weights of the reset gate, the update gate and the candidate, in this order.
    weight_hh : Tensor of shape (3 * hidden, hidden)
        Hidden-state weights of the same gates, in the same order.
    bias_ih, bias_hh : Tensor of shape (3 * hidden,), optional
        Biases added to the products with the input and with the hidden state.
    batch_sizes : sequence of int
        Number of sequences that reach each step, in non-increasing order.
    reverse : bool, default False
        Whether to start with the last token of each sequence.

    Returns
    -------
    output : Tensor of shape (row, hidden)
        Hidden state after each step.
    h_n : Tensor of shape (batch, hidden)
        Hidden state after the last step of each sequence.

    Notes
    -----
    The derivative is in `GruSequence`. See Cho et al. 2014 [1]_, Eqs. 5 to 8. Here the reset gate
    multiplies U_n h + u_n instead of h alone, as in PyTorch and cuDNN.

    References
    ----------
    .. [1] "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
       Translation", arXiv:1406.1078v3, section 2.3.

    Examples
    --------
    With zero weights both gates are 1/2, so each step halves the state:

    >>> import minitorch_attn as mt
    >>> w = mt.zeros(3, 1)
    >>> gru_sequence(mt.ones(3, 1), mt.ones(1, 1), w, w, batch_sizes=(1, 1, 1))[1]
    tensor([[0.125]])
    """
    inputs = (input, h0, weight_ih, weight_hh, bias_ih, bias_hh)
    check_layer("gru_sequence", inputs, 3, batch_sizes)
    return GruSequence.apply(*inputs, batch_sizes=tuple(batch_sizes), reverse=bool(reverse))


@names_arguments
@autocasts
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """Compute one time step of a gated recurrent unit (GRU).

    Parameters
    ----------
    input : Tensor of shape (batch, input)
    hx : Tensor of shape (batch, hidden)
        Previous hidden state.
    w_ih, w_hh : Tensor of shape (3 * hidden, input) and (3 * hidden, hidden)
        Weights as in `gru_sequence`.
    b_ih, b_hh : Tensor of shape (3 * hidden,), optional
        Biases as in `gru_sequence`.

    Returns
    -------
    Tensor of shape (batch, hidden)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> gru_cell(mt.ones(1, 1), mt.ones(1, 1), mt.zeros(3, 1), mt.zeros(3, 1))
    tensor([[0.5]])
    """
    inputs = (input, hx, w_ih, w_hh, b_ih, b_hh)
    sizes = check_cell("gru_cell", inputs, 3)
    return GruSequence.apply(*inputs, batch_sizes=sizes, reverse=False)[0]
