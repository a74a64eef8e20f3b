"""Recurrent cells, which compute one step of a recurrent network: RNNCell, LSTMCell, GRUCell."""

import math

from .. import ops
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor
from . import init
from .checks import check_sizes
from .module import Module
from .parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base class of the recurrent cells, with their parameters and input checks.

    Parameters
    ----------
    input_size, hidden_size : int
        Number of features of the input and of the state.
    bias : bool
    num_chunks : int
        Number of blocks of hidden_size rows in each weight: 1 for RNN, 4 for LSTM, 3 for GRU.
    device, dtype : optional
        Device and dtype of the parameters.
    """

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size

        def parameter(*shape):
            return Parameter(ops.empty(*shape, device=device, dtype=dtype))

        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        self.register_parameter("bias_ih", parameter(rows) if bias else None)
        self.register_parameter("bias_hh", parameter(rows) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Sample new parameters uniformly from [-b, b], where b = 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    @property
    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _prepared(self, input, states, labels):
        """Add a batch axis to input and states if needed. Return (input, states, batched)."""
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise DTypeError(
                f"{name}: input is not a tensor", got=type(input).__name__, hint="mt.tensor(data)"
            )
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: input has the wrong shape",
                got=f"input {input.shape}",
                expected=f"(batch, {self.input_size}) or ({self.input_size},)",
                hint="pass an input whose last axis has size input_size",
            )
        wanted = (*input.shape[:-1], self.hidden_size)
        if states is None:
            zeros = ops.zeros(wanted, dtype=input.dtype, device=input.device)
            states = [zeros] * len(labels)
        for label, state in zip(labels, states, strict=True):
            if not isinstance(state, Tensor):
                raise DTypeError(
                    f"{name}: {label} is not a tensor",
                    got=type(state).__name__,
                    hint="use hx=None to start with zeros",
                )
            if state.shape != wanted:
                raise ShapeError(
                    f"{name}: {label} has the wrong shape",
                    got=f"{label} {state.shape}, input {input.shape}",
                    expected=f"{label} {wanted}",
                    hint="use hx=None to start with zeros",
                )
        batched = input.ndim == 2
        if not batched:
            input, states = input.unsqueeze(0), [s.unsqueeze(0) for s in states]
        return input, states, batched

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of an Elman network, `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)` (or relu).

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    nonlinearity : "tanh" or "relu", default "tanh"
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.RNNCell(3, 5)(mt.zeros(2, 3)).shape
    (2, 5)
    """

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                "RNNCell: nonlinearity must be 'tanh' or 'relu'",
                got=repr(nonlinearity),
                hint="pass the name in lower case, not a function",
            )
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        # input: (batch, input) or (input,)   hx: (batch, hidden) or (hidden,)
        states = None if hx is None else [hx]
        input, (h,), batched = self._prepared(input, states, ["hx"])
        step = ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell
        h = step(input, h, *self._weights)
        return h if batched else h.squeeze(0)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory (LSTM), with the equations of `LstmSequence`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> h, c = mt.nn.LSTMCell(3, 5)(mt.zeros(2, 3))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        # input: (batch, input) or (input,)   hx: two of (batch, hidden) or (hidden,)
        if hx is not None and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise DTypeError(
                "LSTMCell: hx must be a pair",
                got=type(hx).__name__,
                expected="(h, c)",
                hint="use hx=None to start with zeros",
            )
        input, states, batched = self._prepared(input, hx, ["hx[0]", "hx[1]"])
        h, c = ops.lstm_cell(input, states, *self._weights)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (GRU), with the equations of `GruSequence`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.GRUCell(3, 5)(mt.zeros(3)).shape
    (5,)
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        # input: (batch, input) or (input,)   hx: (batch, hidden) or (hidden,)
        states = None if hx is None else [hx]
        input, (h,), batched = self._prepared(input, states, ["hx"])
        h = ops.gru_cell(input, h, *self._weights)
        return h if batched else h.squeeze(0)
