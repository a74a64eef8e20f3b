"""Cross-attention.

The queries of a decoder come from the translation. The keys and values come from the sentence to
translate. These texts have different lengths. The code below was tested only with self-attention.
There the model even trains, because the mistake only swaps the names of two weight matrices. The
gradient check passes. Read which property fails, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def attention(query, key, value):
    """Return context, scores and weights."""
    # query: (batch, heads, query, d)   key and value: (batch, heads, key, d)
    scores = key @ query.transpose(-1, -2) / query.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, 5, 6, dtype=mt.float64, requires_grad=True) for _ in range(3))
    print(gradcheck_report(attention, (q, k, v)).facts())
