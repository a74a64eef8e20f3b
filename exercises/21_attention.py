"""Attention, as it is written on the board.

    scores = Q K^T / sqrt(d),   weights = softmax(scores),   context = weights V

From here on the gradient check is green and the model is still wrong: every backward below is the
derivative of its forward, but the forward is not attention. The check therefore goes on with
properties that attention has. Read which one fails, find the one mistake and mend it.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def scores_of(query, key):
    """How well each query fits each key: (batch, heads, query, key)."""
    return query @ key.transpose(-1, -2)


def attention(query, key, value):
    """The context, the scores and the weights."""
    # query: (batch, heads, query, d)   key and value: (batch, heads, key, d)
    scores = scores_of(query, key)
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, n, 6, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)))
    q, k = (mt.randn(2, 3, 50, 64, dtype=mt.float64) for _ in range(2))
    print("\nstandard deviation of the scores at d = 64:", round(scores_of(q, k).std().item(), 2))
