"""Attention to another text.

The queries of a decoder come from the translation, keys and values from the sentence to
translate: the two have different lengths. The code below was tried on one text with itself, where
it even trains: there, exchanging the two only renames two weight matrices. The gradient check is
green. Read which property fails, find the one mistake and mend it.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def attention(query, key, value):
    """The context, the scores and the weights."""
    # query: (batch, heads, query, d)   key and value: (batch, heads, key, d)
    scores = key @ query.transpose(-1, -2) / query.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, 5, 6, dtype=mt.float64, requires_grad=True) for _ in range(3))
    print(gradcheck_report(attention, (q, k, v)))
