"""REINFORCE.

Hard attention samples one place c of the image. No gradient flows through a sample, so the model
learns from the reward r of the sample instead, with the loss

    loss = -r log p_c,   p = softmax(z)

Averaged over all samples, its gradient is minus the gradient of the expected reward. An optimizer
that follows the code below avoids every choice that was rewarded. Read the gradcheck report, then
find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class ChoiceLoss(Function):
    """The loss of each sampled choice, -reward * log p(choice)."""

    @staticmethod
    def forward(ctx, z, choice, reward):
        # z: (batch, place)   choice: (batch,)   reward: (batch,)
        shifted = z - z.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        ctx.save(z)
        ctx.constants(choice, reward)
        return -reward * log_p[np.arange(len(z)), choice]

    @staticmethod
    def backward(ctx, grad_loss):
        (z,) = ctx.saved
        choice, reward = ctx.constant
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p = p / p.sum(axis=1, keepdims=True)
        chosen = np.arange(z.shape[1]) == choice[:, None]  # (batch, place)
        return (reward * grad_loss)[:, None] * (chosen - p), None, None


def reinforce(z, choice, reward):
    """Compute the loss of each choice, of shape (batch,)."""
    return ChoiceLoss.apply(z, choice, reward)


if __name__ == "__main__":
    z = mt.randn(3, 5, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(reinforce, (z, mt.tensor([4, 0, 2]), mt.tensor([2, 1, 3]))).facts())
