"""The scale of attention.

    scores = Q K^T / sqrt(d),   weights = softmax(scores),   context = weights V

The scale is computed once, and the scores use it. Yet each query attends to little more than one
key. The gradient check passes. Read which property fails, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def attention(query, key, value):
    """Return context, scores and weights."""
    # query: (batch, heads, query, d)   key and value: (batch, heads, key, d)
    scale = query.shape[-1] ** -0.5
    scores = query @ key.transpose(-1, -2) / scale
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, n, 6, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)).facts())
    q, k, v = (mt.randn(2, 3, 50, 64, dtype=mt.float64) for _ in range(3))
    _, scores, weights = attention(q, k, v)
    print("\nstandard deviation of the scores at d = 64:", round(scores.std().item(), 2))
    print("largest weight of a row, on average:", round(weights.max(-1)[0].mean().item(), 2))
