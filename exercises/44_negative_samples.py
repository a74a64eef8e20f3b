"""Negative sampling.

word2vec compares a word with one neighbor and k words drawn at random. The neighbor's score s_0
should be large, and the scores s_1, ..., s_k of the random words small:

    loss = -log sigmoid(s_0) - sum_{j=1..k} log sigmoid(-s_j),   s_j = word . context_j

In training, all scores grow, and all vectors become similar. Read the gradcheck report, then find
and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class LogisticLoss(Function):
    """The loss of each row of scores, with the neighbor's score in column 0."""

    @staticmethod
    def forward(ctx, scores):
        # scores: (batch, 1 + k)   result: (batch,)
        ctx.save(scores)
        sign = np.where(np.arange(scores.shape[1]) == 0, 1.0, -1.0)
        return np.logaddexp(0.0, -sign * scores).sum(axis=1)

    @staticmethod
    def backward(ctx, grad_loss):
        (scores,) = ctx.saved
        chance = 1 / (1 + np.exp(-scores))  # of being a neighbor
        return (chance - 1) * grad_loss[:, None]


def negative_sampling_loss(word, contexts):
    """Compute the loss of each word, of shape (batch,)."""
    # word: (batch, width)   contexts: (batch, 1 + k, width), the neighbor first
    return LogisticLoss.apply((contexts @ word.unsqueeze(-1)).squeeze(-1))


if __name__ == "__main__":
    word = mt.randn(3, 4, dtype=mt.float64, requires_grad=True)
    contexts = mt.randn(3, 6, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(negative_sampling_loss, (word, contexts)).facts())
