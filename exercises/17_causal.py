"""The causal mask.

A language model must not see what comes next: query i may attend only to the keys 0 to i, where
`mask` is True. The forward pass below is correct: blocked weights are exactly 0. Read the
gradcheck report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class CausalSoftmax(Function):
    """Softmax over the keys that the mask allows."""

    @staticmethod
    def forward(ctx, scores, mask):
        # scores: (batch, query, key)   mask: (query, key)
        allowed = np.where(mask, scores, -np.inf)
        exp = np.exp(allowed - allowed.max(axis=-1, keepdims=True))
        weights = exp / exp.sum(axis=-1, keepdims=True)
        ctx.save(weights)
        ctx.constants(mask)
        return weights

    @staticmethod
    def backward(ctx, grad_weights):
        (weights,) = ctx.saved
        (mask,) = ctx.constant
        shared = (grad_weights * weights).sum(axis=-1, keepdims=True)
        grad_scores = weights * (grad_weights - shared)
        return np.where(mask, grad_scores, grad_weights), None


def causal_softmax(scores, mask):
    """Compute the weights of the keys, with weight 0 for blocked keys."""
    return CausalSoftmax.apply(scores, mask)


if __name__ == "__main__":
    scores = mt.randn(2, 5, 5, dtype=mt.float64, requires_grad=True)
    mask = mt.ones(5, 5).tril() > 0
    print(gradcheck_report(causal_softmax, (scores, mask)).facts())
