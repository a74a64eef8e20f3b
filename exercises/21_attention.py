"""Attention, written out.

    scores = Q K^T / sqrt(d),   weights = softmax(scores),   context = weights V

In exercises 21 to 25 the gradient check passes, but the model is still wrong: every backward is the
derivative of its forward, but the forward does not compute attention. The check therefore also
tests properties of attention. Read which property fails, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def scores_of(query, key):
    """Return scaled dot products of queries and keys, of shape (batch, heads, query, key)."""
    return query @ key.transpose(-1, -2)


def attention(query, key, value):
    """Return context, scores and weights."""
    # query: (batch, heads, query, d)   key and value: (batch, heads, key, d)
    scores = scores_of(query, key)
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, n, 6, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)).facts())
    q, k = (mt.randn(2, 3, 50, 64, dtype=mt.float64) for _ in range(2))
    print("\nstandard deviation of the scores at d = 64:", round(scores_of(q, k).std().item(), 2))
