"""Additive attention of Bahdanau et al., and a recurrent encoder-decoder that uses it.

Attention was first used in these recurrent models. The query is the decoder's state, and each
source word provides one key. The Transformer keeps the attention but not the recurrence.
`luong_attention.py` contains the attention of Luong et al., with other score functions and with
local windows.
"""

from .. import ops
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..ops.attention.additive import additive_attention
from .attention_inputs import attend_mask, check_tokens, show_weights
from .linear import Linear
from .module import Module
from .rnn import GRU
from .rnn_cell import GRUCell

__all__ = ["AdditiveAttention", "AttentionSeq2Seq"]


class AdditiveAttention(Module):
    r"""Additive attention, with the score `v^T tanh(W_q query + W_k key)`.

    Parameters
    ----------
    query_dim, key_dim : int
        Sizes of a query and of a key.
    hidden_dim : int
        Size of the hidden layer that computes the scores.

    Notes
    -----
    In the symbols of Bahdanau et al. 2014 [1]_, section 3.1 and appendix A.1.2, the query is the
    state s_{i-1} of the decoder, the keys are the annotations h_j, and
        e_ij  = v_a^T tanh(W_a s_{i-1} + U_a h_j)      `W_q` is W_a, `W_k` is U_a, `v` is v_a
        a_ij  = exp(e_ij) / sum_k exp(e_ik)            Eq. 6
        c_i   = sum_j a_ij h_j                         Eq. 5
    In the paper, the values are the same as the keys, and sequences are not padded. A query whose
    keys are all blocked gets a context of zeros, with a zero gradient.

    References
    ----------
    .. [1] "Neural Machine Translation by Jointly Learning to Align and Translate",
       arXiv:1409.0473v7.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = mt.nn.AdditiveAttention(query_dim=3, key_dim=5, hidden_dim=7)
    >>> memory = mt.zeros(2, 11, 5)
    >>> context, weights = attention(mt.zeros(2, 1, 3), memory, memory)
    >>> context.shape, weights.shape
    ((2, 1, 5), (2, 1, 11))
    """

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_dim, self.key_dim, self.hidden_dim = query_dim, key_dim, hidden_dim
        self.W_q = Linear(query_dim, hidden_dim, bias=False)
        self.W_k = Linear(key_dim, hidden_dim, bias=False)
        self.v = Linear(hidden_dim, 1, bias=False)
        self.weight_hooks = []  # see `watch_attention`

    def forward(self, query, key, value, key_padding_mask=None):
        """Return the context of each query, and the attention weights.

        Parameters
        ----------
        query : Tensor of shape (batch, query, query_dim), or without the batch axis
        key : Tensor of shape (batch, key, key_dim)
        value : Tensor of shape (batch, key, value_dim)
        key_padding_mask : bool Tensor of shape (batch, key), or Mask, optional
            Keys to block. A bool tensor is True where a key is blocked.

        Returns
        -------
        context : Tensor of shape (batch, query, value_dim)
        weights : Tensor of shape (batch, query, key)
        """
        check_tokens("AdditiveAttention", "query", query, self.query_dim, query)
        check_tokens("AdditiveAttention", "key", key, self.key_dim, query)
        return self.attend(query, self.W_k(key), value, key_padding_mask)

    @names_arguments
    def attend(self, query, projected_key, value, key_padding_mask=None):
        """Return the context and the weights, given the projected keys `W_k key`.

        Parameters
        ----------
        query : Tensor of shape (batch, query, query_dim)
        projected_key : Tensor of shape (batch, key, hidden_dim)
        value : Tensor of shape (batch, key, value_dim)
        key_padding_mask : bool Tensor of shape (batch, key), or Mask, optional

        Returns
        -------
        context, weights : Tensor
        """
        check_tokens("AdditiveAttention", "value", value, None, query)
        if value.shape[:-1] != projected_key.shape[:-1]:
            raise ShapeError(
                "AdditiveAttention: key and value must have the same number of tokens",
                got=f"{projected_key.shape[:-1]} keys and {value.shape[:-1]} values",
                hint="compute key and value from the same tokens",
            )
        mask = attend_mask("AdditiveAttention", key_padding_mask, projected_key)
        v = self.v.weight.squeeze(0)  # (hidden,)
        context, weights = additive_attention(self.W_q(query), projected_key, v, value, mask)
        show_weights(self, weights)
        return context, weights

    def extra_repr(self):
        return f"query_dim={self.query_dim}, key_dim={self.key_dim}, hidden_dim={self.hidden_dim}"


class AttentionSeq2Seq(Module):
    r"""Sequence-to-sequence model: bidirectional GRU encoder, and GRU decoder with attention.

    Parameters
    ----------
    input_dim, output_dim : int
        Sizes of a source token and of a target token. The output has the size of a target token.
    hidden_dim : int
        Size of the hidden states.

    Notes
    -----
    The equations of Bahdanau et al. 2014 [1]_, and the parts of this class that compute them:
        h_j = [forward h_j; backward h_j]              section 3.2, `encoder`
        s_0 = tanh(W_s h)                              appendix A.2.2, `init`
        c_i = sum_j a_ij h_j                           Eqs. 5 and 6, `attn`
        s_i = f(s_{i-1}, y_{i-1}, c_i)                 appendix A.2.2, `cell`
        o_i = g(s_i, c_i)                              `out`
    In the paper, h in s_0 is only the backward state at the first word. Here, h consists of the
    last states of both directions. The paper's reset gate differs from the reset gate of `GRU`, and
    the paper's g is a maxout layer that also depends on y_{i-1}. The encoder also processes
    padding, but `attn` masks it.

    References
    ----------
    .. [1] "Neural Machine Translation by Jointly Learning to Align and Translate",
       arXiv:1409.0473v7.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.AttentionSeq2Seq(input_dim=3, output_dim=5, hidden_dim=7)
    >>> output, weights = model(mt.zeros(2, 11, 3), mt.zeros(2, 4, 5))
    >>> output.shape, weights.shape
    ((2, 4, 5), (2, 4, 11))
    """

    named_methods = None  # all public methods

    def __init__(self, input_dim, output_dim, hidden_dim):
        super().__init__()
        self.input_dim, self.output_dim, self.hidden_dim = input_dim, output_dim, hidden_dim
        self.encoder = GRU(input_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.attn = AdditiveAttention(hidden_dim, 2 * hidden_dim, hidden_dim)
        self.cell = GRUCell(output_dim + 2 * hidden_dim, hidden_dim)
        self.init = Linear(2 * hidden_dim, hidden_dim)
        self.out = Linear(3 * hidden_dim, output_dim)

    def forward(self, x, y, key_padding_mask=None):
        """Predict each target token from the source and earlier target tokens (teacher forcing).

        Parameters
        ----------
        x : Tensor of shape (batch, source, input_dim)
        y : Tensor of shape (batch, target, output_dim)
            Decoder input at each step: the target, shifted right by one step.
        key_padding_mask : bool Tensor of shape (batch, source), or Mask, optional
            Source tokens to ignore. A bool tensor is True at padding.

        Returns
        -------
        output : Tensor of shape (batch, target, output_dim)
        weights : Tensor of shape (batch, target, source)
        """
        check_tokens("AttentionSeq2Seq", "x", x, self.input_dim, x, batched=True)
        check_tokens("AttentionSeq2Seq", "y", y, self.output_dim, x, batched=True)
        if y.shape[1] == 0:
            raise ShapeError(
                "AttentionSeq2Seq: y must have at least one token",
                got=f"y {y.shape}",
                hint="begin each target with a start token",
            )
        memory, h = self.encode(x)
        projected = self.attn.W_k(memory)
        outputs, weights = [], []
        for y_t in y.unbind(1):
            output, h, w = self.step(y_t, h, memory, projected, key_padding_mask)
            outputs.append(output)
            weights.append(w)
        return ops.stack(outputs, 1), ops.stack(weights, 1)

    def encode(self, x):
        """Compute the encoder states of all source words and the initial state of the decoder.

        Returns
        -------
        memory : Tensor of shape (batch, source, 2 * hidden_dim)
        h : Tensor of shape (batch, hidden_dim)
        """
        memory, last = self.encoder(x)  # last: (2, batch, hidden)
        return memory, ops.tanh(self.init(ops.cat([last[0], last[1]], -1)))

    def step(self, y_t, h, memory, projected, key_padding_mask=None):
        """Compute one decoder step.

        Parameters
        ----------
        y_t : Tensor of shape (batch, output_dim)
        h : Tensor of shape (batch, hidden_dim)
        memory : Tensor of shape (batch, source, 2 * hidden_dim)
        projected : Tensor of shape (batch, source, hidden_dim)
            Projected memory, `attn.W_k(memory)`.
        key_padding_mask : bool Tensor of shape (batch, source), or Mask, optional

        Returns
        -------
        output : Tensor of shape (batch, output_dim)
        h : Tensor of shape (batch, hidden_dim)
        weights : Tensor of shape (batch, source)
        """
        context, weights = self.attn.attend(h.unsqueeze(1), projected, memory, key_padding_mask)
        context = context.squeeze(1)  # (batch, 1, 2 hidden) -> (batch, 2 hidden)
        h = self.cell(ops.cat([y_t, context], -1), h)
        return self.out(ops.cat([h, context], -1)), h, weights.squeeze(1)
