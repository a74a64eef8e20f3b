"""Causal attention.

    scores = Q K^T / sqrt(d)   where key j <= query i, and -inf elsewhere

Every blocked weight is exactly 0, and the gradient check passes. Yet a model trained with the code
below can use later tokens. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def attention(query, key, value):
    """Return context, scores and weights."""
    # all inputs: (batch, heads, token, d)
    tokens, d = query.shape[-2:]
    future = mt.ones(tokens, tokens, dtype=query.dtype).triu(1) > 0  # (query, key)
    scores = query @ key.transpose(-1, -2) / d**0.5
    weights = scores.masked_fill(future, -float("inf")).softmax(-2)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, 5, 6, dtype=mt.float64, requires_grad=True) for _ in range(3))
    print(gradcheck_report(attention, (q, k, v)).facts())
    print("\nthe weights of one head, a row for each query:")
    print(attention(q, k, v)[2][0, 0].detach().numpy().round(2))
