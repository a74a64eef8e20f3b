"""Merging the heads.

After attention, the outputs of the heads are concatenated for each token:

    (batch, heads, token, head_dim) -> (batch, token, heads * head_dim)

With a single head all gradients are correct. Read the gradcheck report, then find and fix the one
mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class MergeHeads(Function):
    """Concatenate the heads of each token."""

    @staticmethod
    def forward(ctx, x):
        batch, heads, tokens, head_dim = x.shape
        return x.swapaxes(1, 2).reshape(batch, tokens, heads * head_dim)

    @staticmethod
    def backward(ctx, grad_y):
        batch, heads, tokens, head_dim = ctx.shapes[0]
        return grad_y.reshape(batch, heads, tokens, head_dim)


def merge_heads(x):
    """Merge the heads: (batch, heads, token, head_dim) -> (batch, token, heads * head_dim)."""
    return MergeHeads.apply(x)


if __name__ == "__main__":
    x = mt.randn(2, 3, 5, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(merge_heads, (x,)).facts())
