"""The last state of a packed sequence.

The sentences of a batch are sorted by length, the longest first. At step t, a recurrent network
updates only the first rows of the batch, the sentences that have a word at step t:

    h_t = tanh(x_t W + h_{t-1} U)

The other rows keep their last state. The gradient check passes. Yet the state of a short sentence
depends on its padding. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def last_state(x, w, u, lengths):
    """Return the state of each sentence after its last word, of shape (batch, hidden)."""
    # x: (batch, token, width)   w: (width, hidden)   u: (hidden, hidden)   lengths: (batch,) of int
    batch, tokens, _ = x.shape
    h = mt.zeros(batch, w.shape[1], dtype=x.dtype)
    for t in range(tokens):
        rows = int((lengths >= t).sum().item())  # number of sentences that have a word at t
        new = mt.tanh(x[:rows, t] @ w + h[:rows] @ u)
        h = mt.cat([new, h[rows:]], 0)
    return h


if __name__ == "__main__":
    x = mt.randn(3, 5, 4, dtype=mt.float64, requires_grad=True)
    w = mt.randn(4, 2, dtype=mt.float64, requires_grad=True)
    u = mt.randn(2, 2, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(last_state, (x, w, u, mt.tensor([5, 3, 1]))).facts())
