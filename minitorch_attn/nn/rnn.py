"""Recurrent networks (RNN, LSTM, GRU) with several layers and directions.

The mathematics is in `ops/rnn.py`, `ops/lstm.py` and `ops/gru.py`. Modules for single steps are in
`nn/rnn_cell.py`.
"""

import math
import warnings

from .. import ops
from ..autograd.autocast import mixes
from ..backend.batch_part import refuse_in_part
from ..errors import ArgumentError, DTypeError, MissingMethodError, ShapeError
from ..tensor import Tensor
from . import init
from .checks import check_layers
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """Base class of RNN, LSTM and GRU. It handles layers, directions and packed sequences.

    Parameters
    ----------
    mode : "RNN_TANH", "RNN_RELU", "LSTM" or "GRU"
    input_size, hidden_size : int
        Number of features of the input and of the state.
    num_layers : int, default 1
        Number of layers. Each layer reads the outputs of the previous layer.
    bias : bool, default True
    batch_first : bool, default False
        Whether padded input and output are (batch, token, feature) instead of (token, batch,
        feature). States are always (layer * direction, batch, feature).
    dropout : float, default 0
        Dropout probability for the output of each layer but the last, applied during training.
    bidirectional : bool, default False
        Whether a second network reads the sequence backward. The outputs of both are concatenated.
    proj_size : int, default 0
        Size to which an LSTM projects its output. 0 means no projection.
    device, dtype : optional
        Device and dtype of the parameters.

    Notes
    -----
    The parameters of layer k are `weight_ih_lk`, `weight_hh_lk`, `bias_ih_lk`, `bias_hh_lk` and
    `weight_hr_lk`. `weight_hr_lk` exists only if `proj_size` is not 0. The names of the backward
    direction's parameters end in `_reverse`. The parts for the gates and the candidate are stacked
    along the first axis, in the order of the equations in `ops/lstm.py` and `ops/gru.py`. Initial
    values are uniform in [-b, b], where b = 1/sqrt(hidden_size).
    """

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        _check_config(
            mode, proj_size, dropout, dict(bias=bias, batch_first=batch_first),
            dict(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers),
        )  # fmt: skip
        check_layers(type(self).__name__, num_layers=num_layers)
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} has no effect if num_layers is 1: it is applied between layers",
                stacklevel=4,
            )
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        directions = 2 if bidirectional else 1
        out, rows = proj_size or hidden_size, _GATES[mode] * hidden_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else out * directions
            shapes = {"weight_ih": (rows, size), "weight_hh": (rows, out)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for reverse in range(directions):
                for name, shape in shapes.items():
                    value = Parameter(ops.empty(shape, device=device, dtype=dtype))
                    setattr(self, _full_name(name, layer, reverse), value)
        self.reset_parameters()

    def reset_parameters(self):
        """Sample new parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self):
        """Do nothing. The method exists for compatibility with PyTorch."""

    @property
    def all_weights(self):
        """The parameters, as one list for each layer and direction."""
        return [
            list(self._weights(layer, reverse).values())
            for layer in range(self.num_layers)
            for reverse in range(self._directions)
        ]

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    def _weights(self, layer, reverse):
        """Return {name: parameter} for one layer and direction, with names such as "weight_ih"."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        named = {name: _full_name(name, layer, reverse) for name in names}
        mine = self._parameters
        return {name: mine[full] for name, full in named.items() if full in mine}

    @property
    def _state_sizes(self):
        """Return the sizes of the state h and, for an LSTM, of the cell state c."""
        return (self.hidden_size,)

    def _sequence(self, x, states, **kwargs):
        """Run one layer in one direction. Subclasses must override this method."""
        raise MissingMethodError(f"{type(self).__name__} does not define a recurrence")

    def forward(self, input, hx=None):
        """Process whole sequences. Return all outputs of the last layer, and the final states.

        Parameters
        ----------
        input : Tensor of shape (token, batch, input) or (token, input), or PackedSequence
            Input sequences. With `batch_first=True`, the shape is (batch, token, input).
        hx : Tensor of shape (layer * direction, batch, hidden), optional
            Initial state. Default: zeros. For unbatched input, there is no batch axis. For an LSTM,
            the initial state is a pair of the hidden state and the cell state.

        Returns
        -------
        output : Tensor of shape (token, batch, direction * hidden), or PackedSequence
            States of the last layer, in the format of `input`: packed, batch first or unbatched.
        h_n : like `hx`
            State of each layer and direction after its last step.
        """
        packed = isinstance(input, PackedSequence)
        self._check_input(input.data if packed else input, packed)
        if packed:
            rows, sizes = input.data, tuple(input.batch_sizes.tolist())
            batched = True
        else:
            batched = input.ndim == 3
            tokens = input if batched else input.unsqueeze(1)
            if batched and self.batch_first:
                tokens = tokens.transpose(0, 1)
            # (token, batch, input) -> (token * batch, input)
            length, batch = tokens.shape[:2]
            rows, sizes = tokens.reshape(length * batch, self.input_size), (batch,) * length
        states = self._initial_states(hx, rows, sizes[0], batched)
        if packed and input.sorted_indices is not None:
            states = [s.index_select(1, input.sorted_indices) for s in states]
        output, states = self._run_layers(rows, states, sizes)
        if packed:
            if input.unsorted_indices is not None:
                states = [s.index_select(1, input.unsorted_indices) for s in states]
            output = PackedSequence(output, *input[1:])
        else:
            output = output.reshape(length, batch, output.shape[-1])
            if not batched:
                output, states = output.squeeze(1), [s.squeeze(1) for s in states]
            elif self.batch_first:
                output = output.transpose(0, 1)
        return output, (states[0] if len(states) == 1 else tuple(states))

    def _run_layers(self, x, states, batch_sizes):
        # x: (row, input)   states: (layer * direction, batch, hidden)
        last = []
        for layer in range(self.num_layers):
            outputs = []
            for reverse in range(self._directions):
                initial = [s[layer * self._directions + reverse] for s in states]
                output, *final = self._sequence(
                    x, initial, **self._weights(layer, reverse),
                    batch_sizes=batch_sizes, reverse=bool(reverse),
                )  # fmt: skip
                outputs.append(output)
                last.append(final)
            x = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
            if layer < self.num_layers - 1:
                if self.dropout and self.training:
                    refuse_in_part(
                        f"{type(self).__name__}: dropout between layers is not supported with a "
                        "split batch, because its rows are tokens",
                        hint="set dropout=0, or train with one process",
                    )
                x = ops.dropout(x, self.dropout, self.training)
        return x, [ops.stack(list(each)) for each in zip(*last, strict=True)]

    def _initial_states(self, hx, rows, batch, batched):
        """Return a list of the initial states: the states in `hx`, or zeros if `hx` is None.

        Each state has the shape (layer * direction, batch, size). An LSTM has two states.
        """
        layers = self.num_layers * self._directions
        if hx is None:
            return [
                ops.zeros(layers, batch, size, dtype=rows.dtype, device=rows.device)
                for size in self._state_sizes
            ]
        name, pair = type(self).__name__, len(self._state_sizes) == 2
        if pair and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise DTypeError(
                f"{name}: hx must be a pair",
                got=type(hx).__name__,
                expected="(h_0, c_0)",
                hint="use hx=None to start with zeros",
            )
        states = list(hx) if pair else [hx]
        for i, (state, size) in enumerate(zip(states, self._state_sizes, strict=True)):
            label = f"hx[{i}]" if pair else "hx"
            if not isinstance(state, Tensor) or not _same_dtype(state, rows):
                raise DTypeError(
                    f"{name}: {label} is not a tensor with the dtype of input",
                    got=f"{getattr(state, 'dtype', type(state).__name__)}",
                    expected=f"{rows.dtype}",
                    hint=f"use hx=None for zeros, or {label}.to(input.dtype)",
                )
            wanted = (layers, batch, size) if batched else (layers, size)
            if state.shape != wanted:
                raise ShapeError(
                    f"{name}: {label} has the wrong shape",
                    got=f"{label} {state.shape}",
                    expected=f"{wanted}: (layer * direction, {'batch, ' * batched}hidden)",
                    hint="put layer * direction first in hx, even with batch_first=True",
                )
        return states if batched else [s.unsqueeze(1) for s in states]

    def _check_input(self, input, packed):
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise DTypeError(
                f"{name}: input is not a tensor",
                got=type(input).__name__,
                expected="a Tensor or a PackedSequence",
                hint="use mt.tensor(data), or nn.utils.rnn.pack_sequence() for a list of tensors",
            )
        if not _same_dtype(input, self.weight_ih_l0):
            dtype = self.weight_ih_l0.dtype
            raise DTypeError(
                f"{name}: input and parameters have different dtypes",
                got=f"input {input.dtype} and parameters {dtype}",
                hint=f"use input.to(mt.{dtype}) or module.to(mt.{input.dtype})",
            )
        if packed:
            axes, good = "(row, {0})", input.ndim == 2
        else:
            order = "batch, token" if self.batch_first else "token, batch"
            axes, good = f"({order}, {{0}}) or (token, {{0}})", input.ndim in (2, 3)
            good = good and input.shape[int(self.batch_first and input.ndim == 3)] > 0
        if not good or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: input has the wrong shape",
                got=f"input {input.shape}",
                expected=axes.format(self.input_size) + ", and at least one token",
                hint="pass an input whose last axis has size input_size",
            )

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = dict(
            proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False
        )
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Elman network (RNN), `h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh)` (or relu).

    Parameters
    ----------
    nonlinearity : "tanh" or "relu", default "tanh"
        Activation of the state.
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        See `RNNBase`.

    Notes
    -----
    Elman 1990, "Finding Structure in Time", Cognitive Science 14.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> output, h_n = mt.nn.RNN(3, 5, num_layers=2)(mt.zeros(7, 2, 3))
    >>> output.shape, h_n.shape
    ((7, 2, 5), (2, 2, 5))
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
        batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None,
    ):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                "RNN: nonlinearity must be 'tanh' or 'relu'",
                got=repr(nonlinearity),
                hint="pass the name in lower case, not a function",
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, device=device, dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    def _sequence(self, x, states, **kwargs):
        return ops.rnn_sequence(x, *states, **kwargs, nonlinearity=self.nonlinearity)


class LSTM(RNNBase):
    """Long short-term memory (LSTM), with the equations of `ops.lstm.LstmSequence`.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype : optional
        See `RNNBase`.

    Notes
    -----
    Hochreiter and Schmidhuber 1997, Neural Computation 9, with the forget gate of Gers, Schmidhuber
    and Cummins 2000. The projection is from Sak et al., arXiv:1402.1128v1, section 2. The state is
    a pair (h, c): the hidden state h has size proj_size or hidden_size, and the cell state c has
    size hidden_size.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> output, (h_n, c_n) = mt.nn.LSTM(3, 5, proj_size=2)(mt.zeros(7, 2, 3))
    >>> output.shape, h_n.shape, c_n.shape
    ((7, 2, 2), (1, 2, 2), (1, 2, 5))
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            proj_size, device, dtype,
        )  # fmt: skip

    @property
    def _state_sizes(self):
        return (self.proj_size or self.hidden_size, self.hidden_size)

    def _sequence(self, x, states, **kwargs):
        return ops.lstm_sequence(x, *states, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units (GRU), with the equations of `ops.gru.GruSequence`.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers, bias, batch_first, dropout, bidirectional, device, dtype : optional
        See `RNNBase`.

    Notes
    -----
    Cho et al. 2014, arXiv:1406.1078v3, section 2.3, Eqs. 5 to 8. In the paper, the reset gate
    multiplies the state h. As in PyTorch, it multiplies W_hh h + b_hh here.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> output, h_n = mt.nn.GRU(3, 5, bidirectional=True, batch_first=True)(mt.zeros(2, 7, 3))
    >>> output.shape, h_n.shape
    ((2, 7, 10), (2, 2, 5))
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip

    def _sequence(self, x, states, **kwargs):
        return ops.gru_sequence(x, *states, **kwargs)


def _full_name(name, layer, reverse):
    """Return the name of a parameter in the state dict, such as "weight_ih_l0_reverse"."""
    return f"{name}_l{layer}{'_reverse' if reverse else ''}"


def _check_config(mode, proj_size, dropout, flags, sizes):
    if mode not in _GATES:
        raise ArgumentError(
            f"RNNBase: mode must be one of {list(_GATES)}",
            got=repr(mode),
            hint="use nn.RNN, nn.LSTM or nn.GRU, which set the mode",
        )
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise DTypeError(
                f"{mode}: {name} must be a bool",
                got=repr(value),
                hint=f"pass it by keyword: {name}=True",
            )
    for name, value in sizes.items():
        if not isinstance(value, int):
            raise DTypeError(
                f"{mode}: {name} must be an integer",
                got=repr(value),
                hint="convert with int(...), or divide with // instead of /",
            )
        if value <= 0:
            raise ArgumentError(f"{mode}: {name} must be at least 1", got=repr(value))
    if type(dropout) is bool or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ArgumentError(
            f"{mode}: dropout must be between 0 and 1",
            got=repr(dropout),
            hint="use 0.1, for example, to zero 10 percent of the elements",
        )
    if not 0 <= proj_size < sizes["hidden_size"]:
        raise ArgumentError(
            f"{mode}: proj_size is out of range",
            got=f"proj_size={proj_size}, hidden_size={sizes['hidden_size']}",
            expected="from 1 to hidden_size - 1, or 0 for no projection",
            hint="add a Linear layer after the LSTM to enlarge the output",
        )


def _same_dtype(a, b):
    """Return True if two tensors have the same dtype, or autocast converts both to one dtype."""
    return a.dtype == b.dtype or mixes(a, b)
