"""The future is masked.

A model that writes text must not see what comes next: query i may attend to the keys 0 to i.
`mask` is True where it may. The forward pass below is right: blocked weights are exactly 0. Read
the gradcheck report, find the one mistake and mend it.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class CausalSoftmax(Function):
    """Weights over the keys that the mask allows."""

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
    """The weights of the keys, 0 for those that the mask blocks."""
    return CausalSoftmax.apply(scores, mask)


if __name__ == "__main__":
    scores = mt.randn(2, 5, 5, dtype=mt.float64, requires_grad=True)
    mask = mt.ones(5, 5).tril() > 0
    print(gradcheck_report(causal_softmax, (scores, mask)))
