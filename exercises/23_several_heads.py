"""Several heads.

The channels of a token are split into heads, each head attends separately, and the outputs are
concatenated. With one head the code below is correct. The gradient check passes for every number of
heads. Read which property fails, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report

HEADS = 4


def split(x):
    """Split into heads: (batch, token, width) -> (batch, heads, token, width / heads)."""
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, HEADS, width // HEADS).transpose(1, 2)


def merge(x):
    """Merge the heads: (batch, heads, token, head_dim) -> (batch, token, heads * head_dim)."""
    batch, heads, tokens, head_dim = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, heads * head_dim)


def attention(query, key, value):
    """Return context, scores and weights."""
    # all inputs: (batch, token, width)
    batch, tokens, width = query.shape
    query, key, value = split(query), split(key), split(value)
    scores = query @ key.transpose(-1, -2) / width**0.5
    weights = scores.softmax(-1)
    return merge(weights @ value), scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, n, 12, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)).facts())
    q, k, v = (mt.randn(2, 50, 256, dtype=mt.float64) for _ in range(3))
    scores = attention(q, k, v)[1]
    print("\nstandard deviation of the scores at width 256:", round(scores.std().item(), 2))
