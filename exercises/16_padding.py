"""Padding.

The sentences of a batch have different lengths: `mask` is True where a key is a word, and False
where it is padding. Padding must get weight 0, and must not change the weights of the words.

The mistake is either in `forward` or in `backward`. Read the gradcheck report and the other
results of the check, then find and fix it.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class MaskedSoftmax(Function):
    """Softmax over the keys that the mask allows."""

    @staticmethod
    def forward(ctx, scores, mask):
        # scores: (batch, query, key)   mask: (batch, 1, key), True where a key is a word
        exp = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = exp / exp.sum(axis=-1, keepdims=True) * mask
        ctx.save(weights)
        return weights

    @staticmethod
    def backward(ctx, grad_weights):
        (weights,) = ctx.saved
        shared = (grad_weights * weights).sum(axis=-1, keepdims=True)
        return weights * (grad_weights - shared), None


def masked_softmax(scores, mask):
    """Compute the weights of the keys, with weight 0 for padding."""
    return MaskedSoftmax.apply(scores, mask)


if __name__ == "__main__":
    scores = mt.randn(2, 3, 5, dtype=mt.float64, requires_grad=True)
    mask = mt.tensor([[[True, True, True, True, False]], [[True, True, False, False, False]]])
    print(gradcheck_report(masked_softmax, (scores, mask)).facts())
