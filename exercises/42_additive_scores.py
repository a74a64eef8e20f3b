"""Additive attention.

Bahdanau's score compares a decoder state q_i with a word k_j. Both are vectors of `hidden` numbers:

    score[i, j] = sum_h v[h] tanh(q_i + k_j)[h]

Here v is a learned vector. Broadcasting computes the sums q_i + k_j of all pairs. The gradient
check passes, but the weights of a state do not depend on that state alone. Read which properties
fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def attention(query, key, value, v):
    """Return context, scores and weights."""
    # query: (batch, query, hidden)   key: (batch, key, hidden)   value: (batch, key, width)
    # v: (hidden,)
    hidden = mt.tanh(query.unsqueeze(1) + key.unsqueeze(2))
    scores = (hidden * v).sum(-1)
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k = (mt.randn(2, 5, 3, dtype=mt.float64, requires_grad=True) for _ in range(2))
    value = mt.randn(2, 5, 4, dtype=mt.float64, requires_grad=True)
    v = mt.randn(3, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(attention, (q, k, value, v)).facts())
    print("\nthe shape of the weights for 5 states and 1 word:")
    print(attention(q, k[:, :1], value, v)[2].shape)
