"""REINFORCE with a learned baseline.

A baseline b is a guess of the reward r. It reduces the variance of REINFORCE:

    loss = mean of -(r - b) log p_c + (r - b)^2 / 2

In the first term, (r - b) must count as a constant: only the second term trains the baseline. The
function returns the loss and the gradient of the baseline. The gradient check passes. Yet the
baseline does not learn the reward. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def loss_and_baseline_gradient(z, guess, choice, reward):
    """Return the loss, of shape (1,), followed by dL/db, of shape (batch,), in one tensor."""
    # z: (batch, place)   guess: (batch,) of float32   choice, reward: (batch,) of int
    with mt.enable_grad():
        log_p = z.log_softmax(-1).gather(1, choice.unsqueeze(1)).squeeze(1)  # (batch,)
        baseline = guess.detach().to(z.dtype).requires_grad_()
        advantage = reward - baseline
        policy = -(advantage * log_p).mean()
        regression = ((reward - baseline) ** 2).mean() / 2
        loss = policy + regression
        (gradient,) = mt.autograd.grad(loss, [baseline], create_graph=True)
    return mt.cat([loss.reshape(1), gradient])


if __name__ == "__main__":
    z = mt.randn(3, 5, dtype=mt.float64, requires_grad=True)
    guess = mt.tensor([1.5, 0.5, 2.5])
    given = (z, guess, mt.tensor([4, 0, 2]), mt.tensor([2, 1, 3]))
    print(gradcheck_report(loss_and_baseline_gradient, given).facts())
    print("\nthe gradient of the baseline, and (b - r) / batch:")
    print(loss_and_baseline_gradient(*given)[1:].detach().numpy().round(3))
    print(((guess - given[3]) / 3).numpy().round(3))
