"""Luong attention: four score functions, local windows, and a decoder with input feeding.

The query is the decoder's state after its recurrent step. The keys are the encoder's states, one
for each source word. Global attention uses all keys. Local attention uses only a window of keys.
"""

from .. import ops
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from .attention_inputs import attend_mask, check_tokens, show_weights
from .checks import check_sizes
from .linear import Linear
from .module import Module
from .rnn_cell import LSTMCell

__all__ = ["InputFeedingDecoder", "LuongAttention"]

_SCORES = ("dot", "general", "concat", "location")
_LOCAL = (None, "monotonic", "predictive")


class LuongAttention(Module):
    r"""Luong attention, global or local: returns the attentional state and the weights.

    Parameters
    ----------
    query_dim, key_dim : int
        Sizes of a query and of a key. The attentional state has the size of a query.
    score : "general", "dot", "concat" or "location", default "general"
        Type of score. "location" depends on the positions of the keys, not on the keys themselves.
    local : "monotonic" or "predictive", optional
        How to choose the center of the window: "monotonic" uses the position of the query, and
        "predictive" predicts a position. Default: attend to all keys.
    window : float, default 10
        Half-width D of the window: the distance from its center to the last key on each side.
    max_length : int, optional
        Number of positions that the "location" score covers. Later keys get weight 0.
    hidden_dim : int, optional
        Size of the hidden layer of the "concat" score. Default: `query_dim`.

    Notes
    -----
    In the symbols of Luong et al. 2015 [1]_, the query is the state h_t of the decoder, the keys
    are the states hbar_s of the encoder, S is their number, and
        score(h_t, hbar_s) = h_t^T hbar_s                     section 3.1, "dot"
                             h_t^T W_a hbar_s                 section 3.1, "general", `W`
                             v_a^T tanh(W_a [h_t; hbar_s])    section 3.1, "concat", `W` and `v`
                             (W_a h_t)_s                      Eq. 8, "location", `W`
        a_t(s)   = exp(score) / sum_s' exp(score)             Eq. 7
        p_t      = t                                          "monotonic" (local-m)
                   S sigmoid(v_p^T tanh(W_p h_t))             Eq. 9, "predictive" (local-p)
        a_t(s)  *= exp(-(s - p_t)^2 / (2 sigma^2))            Eq. 10, "predictive", sigma = D/2
        c_t      = sum_s a_t(s) hbar_s
        htilde_t = tanh(W_c [c_t; h_t])                       Eq. 5, `W_c`
    With a window, the softmax includes only the keys with |s - p_t| <= D. The weights of Eq. 10 do
    not sum to 1. In the backward pass, p_t gets a gradient only from the Gaussian, because the ends
    of the window are constants. Positions start at 0, and S does not include padding.

    In the paper, W_c does not have a bias, and queries and keys have the same size. If the window
    of a query does not contain any key, its weights and its context are zeros.

    References
    ----------
    .. [1] "Effective Approaches to Attention-based Neural Machine Translation",
       arXiv:1508.04025v5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = mt.nn.LuongAttention(query_dim=3, key_dim=5)
    >>> attentional, weights = attention(mt.zeros(2, 1, 3), mt.zeros(2, 11, 5))
    >>> attentional.shape, weights.shape
    ((2, 1, 3), (2, 1, 11))
    >>> diagonal = mt.nn.LuongAttention(3, 5, local="monotonic", window=1)
    >>> diagonal(mt.zeros(1, 3, 3), mt.zeros(1, 4, 5))[1].detach()
    tensor([[[0.5   , 0.5   , 0.    , 0.    ],
             [0.3333, 0.3333, 0.3333, 0.    ],
             [0.    , 0.3333, 0.3333, 0.3333]]])
    """

    def __init__(
        self, query_dim, key_dim, *, score="general", local=None, window=10, max_length=None,
        hidden_dim=None,
    ):  # fmt: skip
        super().__init__()
        check_sizes("LuongAttention", query_dim=query_dim, key_dim=key_dim)
        _check_kind(score, local, window, max_length, (query_dim, key_dim))
        self.query_dim, self.key_dim = query_dim, key_dim
        self.score, self.local, self.window, self.max_length = score, local, window, max_length
        if score == "general":
            self.W = Linear(key_dim, query_dim, bias=False)
        elif score == "concat":
            hidden_dim = query_dim if hidden_dim is None else hidden_dim
            self.W = Linear(query_dim + key_dim, hidden_dim, bias=False)
            self.v = Linear(hidden_dim, 1, bias=False)
        elif score == "location":
            self.W = Linear(query_dim, max_length, bias=False)
        self.W_c = Linear(key_dim + query_dim, query_dim)
        if local == "predictive":
            self.W_p = Linear(query_dim, query_dim, bias=False)
            self.v_p = Linear(query_dim, 1, bias=False)
        self.weight_hooks = []  # see `watch_attention`

    def forward(self, query, key, key_padding_mask=None, start=0):
        """Return the attentional state of each query, and the attention weights.

        Parameters
        ----------
        query : Tensor of shape (batch, query, query_dim), or without the batch axis
        key : Tensor of shape (batch, key, key_dim)
        key_padding_mask : bool Tensor of shape (batch, key), or Mask, optional
            Keys to block. A bool tensor is True where a key is blocked.
        start : int, default 0
            Position t of the first query, on which "monotonic" windows depend.

        Returns
        -------
        attentional : Tensor of shape (batch, query, query_dim)
        weights : Tensor of shape (batch, query, key)
        """
        check_tokens("LuongAttention", "query", query, self.query_dim, query)
        check_tokens("LuongAttention", "key", key, self.key_dim, query)
        return self.attend(query, self.project(key), key, key_padding_mask, start)

    @names_arguments
    def project(self, key):
        """Return the projected keys: the part of the scores that does not depend on the queries.

        Parameters
        ----------
        key : Tensor of shape (batch, key, key_dim)

        Returns
        -------
        Tensor of shape (batch, key, query_dim), or (batch, key, hidden_dim) for "concat"
        """
        check_tokens("LuongAttention", "key", key, self.key_dim, key)
        if self.score == "general":
            return self.W(key)
        if self.score == "concat":  # W_a [h_t; hbar_s] = W_h h_t + W_s hbar_s
            return key @ self.W.weight[:, self.query_dim :].T
        return key

    @names_arguments
    @computes("attention")
    def attend(self, query, projected_key, key, key_padding_mask=None, start=0):
        """Return the attentional states and the weights, given the projected keys.

        Parameters
        ----------
        query : Tensor of shape (batch, query, query_dim)
        projected_key : Tensor of shape (batch, key, size)
            Result of `project(key)`.
        key : Tensor of shape (batch, key, key_dim)
        key_padding_mask : bool Tensor of shape (batch, key), or Mask, optional
        start : int, default 0
            See `forward`.

        Returns
        -------
        attentional, weights : Tensor
        """
        mask = attend_mask("LuongAttention", key_padding_mask, key)
        scores = self._scores(query, projected_key)  # (batch, query, key)
        weights = self._weights(query, scores, mask, start)
        show_weights(self, weights)
        context = weights @ key  # (batch, query, key) @ (batch, key, key_dim)
        return ops.tanh(self.W_c(ops.cat([context, query], -1))), weights  # Eq. 5

    def _scores(self, query, projected_key):
        """Return the scores (section 3.1 of the paper), with shape (batch, query, key)."""
        if self.score in ("dot", "general"):
            # (batch, query, size) @ (batch, size, key) -> (batch, query, key)
            return query @ projected_key.swapaxes(-1, -2)
        if self.score == "concat":
            projected_query = query @ self.W.weight[:, : self.query_dim].T
            # (batch, query, 1, hidden) + (batch, 1, key, hidden) -> (batch, query, key, hidden)
            hidden = ops.tanh(projected_query.unsqueeze(-2) + projected_key.unsqueeze(-3))
            return self.v(hidden).squeeze(-1)
        scores, keys = self.W(query), projected_key.shape[-2]  # scores (batch, query, max_length)
        if keys <= self.max_length:
            return scores[..., :keys]
        unknown = ops.zeros(
            *scores.shape[:-1], keys - self.max_length, dtype=scores.dtype, device=scores.device
        )
        return ops.cat([scores, unknown], -1)  # `_weights` blocks them

    def _weights(self, query, scores, mask, start):
        """Convert scores to weights (Eq. 7 or 10 of the paper), with shape (batch, query, key)."""
        keys, allowed = scores.shape[-1], mask
        if self.score == "location" and keys > self.max_length:
            allowed = _both(allowed, ops.arange(keys, device=scores.device) < self.max_length)
        if self.local is None:
            return ops.masked_softmax(scores, allowed)
        offset = self._offset(query, mask, keys, start)
        near = ops.abs(offset) <= self.window
        weights = ops.masked_softmax(scores, _both(allowed, near))
        if self.local == "monotonic":
            return weights
        # Eq. 10 with sigma = D/2: -(s - p_t)^2 / (2 sigma^2) = -2 ((s - p_t) / D)^2
        return weights * ops.exp(-2 * (offset / self.window) ** 2)

    def _offset(self, query, mask, keys, start):
        """Return s - p_t, the key's position minus the center of the query's window.

        The shape is (query, key) for "monotonic", otherwise (batch, query, key).
        """
        position = ops.arange(keys, device=query.device)  # s, (key,)
        if self.local == "monotonic":
            center = ops.arange(start, start + query.shape[-2], device=query.device)
            return position - center.unsqueeze(-1)
        if mask is not None:  # the last axis of a mask may have size 1
            keys = mask.expand(*mask.shape[:-1], keys).sum(-1, keepdim=True)  # S
        center = keys * ops.sigmoid(self.v_p(ops.tanh(self.W_p(query))))  # Eq. 9
        return position - center  # (key,) - (batch, query, 1) -> (batch, query, key)

    def extra_repr(self):
        text = f"query_dim={self.query_dim}, key_dim={self.key_dim}"
        if self.score != "general":
            text += f", score={self.score!r}"
        if self.local is not None:
            text += f", local={self.local!r}, window={self.window}"
        return text + (f", max_length={self.max_length}" if self.score == "location" else "")


class InputFeedingDecoder(Module):
    r"""LSTM decoder with Luong attention and input feeding.

    Parameters
    ----------
    input_dim : int
        Size of an input token.
    hidden_dim : int
        Size of the states and of the output.
    key_dim : int
        Size of an encoder state.

    Notes
    -----
    Input feeding (Luong et al. 2015 [1]_, section 3.3) passes the attentional state of each step to
    the next step, so that the decoder knows what it has attended to:
        h_t, c_t = LSTM([x_t; htilde_{t-1}], h_{t-1}, c_{t-1})     `cell`
        htilde_t = tanh(W_c [context_t; h_t])                      Eq. 5, `attention`
    In the paper, the LSTM has four layers.

    References
    ----------
    .. [1] "Effective Approaches to Attention-based Neural Machine Translation",
       arXiv:1508.04025v5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> decoder = mt.nn.InputFeedingDecoder(input_dim=3, hidden_dim=5, key_dim=7)
    >>> attentional, weights, state = decoder(mt.zeros(2, 4, 3), mt.zeros(2, 11, 7))
    >>> attentional.shape, weights.shape, len(state)
    ((2, 4, 5), (2, 4, 11), 3)
    """

    def __init__(self, input_dim, hidden_dim, key_dim):
        super().__init__()
        check_sizes(
            "InputFeedingDecoder", input_dim=input_dim, hidden_dim=hidden_dim, key_dim=key_dim
        )
        self.input_dim, self.hidden_dim, self.key_dim = input_dim, hidden_dim, key_dim
        self.cell = LSTMCell(input_dim + hidden_dim, hidden_dim)
        self.attention = LuongAttention(hidden_dim, key_dim)

    def forward(self, x, memory, state=None, key_padding_mask=None):
        """Decode all target tokens at once (teacher forcing), or one token per call.

        Parameters
        ----------
        x : Tensor of shape (batch, target, input_dim)
        memory : Tensor of shape (batch, source, key_dim)
            States of the encoder.
        state : tuple of 3 Tensors of shape (batch, hidden_dim), optional
            Attentional state, h and c of the previous step. Default: zeros.
        key_padding_mask : bool Tensor of shape (batch, source), or Mask, optional
            Source tokens to ignore. A bool tensor is True at padding.

        Returns
        -------
        attentional : Tensor of shape (batch, target, hidden_dim)
        weights : Tensor of shape (batch, target, source)
        state : tuple of 3 Tensors of shape (batch, hidden_dim)
            Attentional state, h and c after the last step.
        """
        where = "InputFeedingDecoder"
        check_tokens(where, "x", x, self.input_dim, x, batched=True)
        check_tokens(where, "memory", memory, self.key_dim, x, batched=True)
        if x.shape[1] == 0:
            raise ShapeError(
                f"{where}: x must have at least one token",
                got=f"x {x.shape}",
                hint="begin each target with a start token",
            )
        if state is None:
            state = (ops.zeros(len(x), self.hidden_dim, dtype=x.dtype, device=x.device),) * 3
        if not isinstance(state, (tuple, list)) or len(state) != 3:
            raise DTypeError(
                f"{where}: state must be a tuple of three tensors",
                got=type(state).__name__,
                expected="(attentional, h, c)",
                hint="pass the state that the previous call returned",
            )
        last, h, c = state
        projected = self.attention.project(memory)
        outputs, weights = [], []
        for x_t in x.unbind(1):
            h, c = self.cell(ops.cat([x_t, last], -1), (h, c))
            last, w = self.attention.attend(h.unsqueeze(1), projected, memory, key_padding_mask)
            last = last.squeeze(1)  # (batch, 1, hidden) -> (batch, hidden)
            outputs.append(last)
            weights.append(w)
        return ops.stack(outputs, 1), ops.cat(weights, 1), (last, h, c)

    def extra_repr(self):
        return f"input_dim={self.input_dim}, hidden_dim={self.hidden_dim}, key_dim={self.key_dim}"


def _both(mask, other):
    return other if mask is None else mask & other


def _check_kind(score, local, window, max_length, sizes):
    """Raise an error if the arguments for the score or the window are invalid."""
    for name, given, known in (("score", score, _SCORES), ("local", local, _LOCAL)):
        if given not in known:
            raise ArgumentError(
                f"LuongAttention: {name} must be one of {', '.join(map(repr, known))}",
                got=repr(given),
            )
    if score == "dot" and sizes[0] != sizes[1]:
        raise ArgumentError(
            "LuongAttention: query_dim and key_dim must be equal for score='dot'",
            got=f"query_dim={sizes[0]} and key_dim={sizes[1]}",
            hint="use score='general', which projects the keys to size query_dim",
        )
    if score == "location" and max_length is None:
        raise ArgumentError(
            "LuongAttention: score='location' requires max_length",
            got="max_length=None",
            hint="pass the length of the longest source",
        )
    if local == "predictive" and not window > 0:
        raise ArgumentError(
            "LuongAttention: window must be positive for local='predictive'", got=repr(window)
        )
    if not window >= 0:
        raise ArgumentError("LuongAttention: window must not be negative", got=repr(window))
