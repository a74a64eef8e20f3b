"""Hard attention: attend to one sampled position, and train the sampling with REINFORCE.

Xu et al. 2015, "Show, Attend and Tell", arXiv:1502.03044v3, section 4.1. A sampled position is
not differentiable with respect to the weights that it was drawn from. The expected reward is
differentiable, and Eq. 12 estimates its gradient from samples. `show_attend_tell.py` contains the
model and soft attention.
"""

from typing import NamedTuple

from .. import ops
from ..computes import computes
from ..errors import DTypeError, ShapeError
from ..tensor import Tensor

__all__ = ["SampledCaption", "hard_attention", "reinforce_loss", "update_baseline"]


class SampledCaption(NamedTuple):
    """Result of `ShowAttendTell.sample`. The first axes of each tensor are (sample, batch, word).

    Attributes
    ----------
    logits : Tensor of shape (sample, batch, word, vocabulary)
    alphas : Tensor of shape (sample, batch, word, position)
    log_p_s : Tensor of shape (sample, batch, word)
        Log probability of each sampled position, given the positions before it.
    entropy : Tensor of shape (sample, batch, word)
        Entropy of the attention weights alpha before each word.
    samples : int64 Tensor of shape (sample, batch, word)
        Sampled positions.
    """

    logits: Tensor
    alphas: Tensor
    log_p_s: Tensor
    entropy: Tensor
    samples: Tensor


@computes("hard attention")
def hard_attention(annotations, alpha, samples):
    """Return the annotations at `samples`, the log probabilities of `samples`, and alpha's entropy.

    Parameters
    ----------
    annotations : Tensor of shape (batch, position, annotation_dim)
    alpha : Tensor of shape (batch, position)
        Probability of each position.
    samples : int64 Tensor of shape (sample, batch)
        Positions s, such as `multinomial(alpha.detach(), N, True).T`.

    Returns
    -------
    context : Tensor of shape (sample, batch, annotation_dim)
        z = a_s (Eq. 9, where s is one-hot). It does not have a gradient with respect to `alpha`.
    log_p_s : Tensor of shape (sample, batch)
        log alpha_s (Eq. 8).
    entropy : Tensor of shape (batch,)
        H = -sum_i alpha_i log alpha_i, with 0 log 0 = 0.

    Raises
    ------
    DTypeError
        If `samples` is not an int64 tensor.
    ShapeError
        If the shapes do not match.

    References
    ----------
    .. [1] Xu et al. 2015, arXiv:1502.03044v3, section 4.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> annotations, alpha = mt.tensor([[[1.0], [2.0]]]), mt.tensor([[0.25, 0.75]])
    >>> context, log_p_s, entropy = hard_attention(annotations, alpha, mt.tensor([[1], [0]]))
    >>> context.squeeze(), log_p_s.squeeze(), entropy
    (tensor([2., 1.]), tensor([-0.2877, -1.3863]), tensor([0.5623]))
    """
    _check_choice(annotations, alpha, samples)
    row = ops.arange(alpha.shape[0], device=alpha.device)  # (batch,), broadcasts to (sample, batch)
    context = annotations[row, samples]  # Eq. 9: (sample, batch, annotation_dim)
    log_p_s = alpha[row, samples].log()  # Eq. 8: (sample, batch)
    log_alpha = ops.where(alpha > 0, alpha, 1.0).log()
    return context, log_p_s, -(alpha * log_alpha).sum(-1)


def _check_choice(annotations, alpha, samples):
    if samples.dtype.name != "int64":
        raise DTypeError(
            "hard_attention: samples must be int64", got=f"{samples.dtype}",
            expected="int64 positions, of shape (sample, batch)",
        )  # fmt: skip
    good = alpha.shape == annotations.shape[:-1] and alpha.ndim == 2
    if not good or samples.ndim != 2 or samples.shape[1] != alpha.shape[0]:
        raise ShapeError(
            "hard_attention: the shapes do not match",
            got=f"annotations {annotations.shape}, alpha {alpha.shape}, samples {samples.shape}",
            expected="(batch, position, annotation_dim), (batch, position) and (sample, batch)",
        )


def reinforce_loss(
    log_p_y, log_p_s, entropy, baseline=0.0, reward_weight=1.0, entropy_weight=0.0, *, reward=None
):
    r"""Return a loss for hard attention whose gradient is minus the REINFORCE estimate (Eq. 12).

    Parameters
    ----------
    log_p_y : Tensor of shape (sample, batch)
        Log probability of the caption given the sampled positions. It is also the default reward.
    log_p_s : Tensor of shape (sample, batch)
        Log probability of the sampled positions.
    entropy : Tensor that broadcasts to (sample, batch)
        Entropy of the distributions that the positions were drawn from.
    baseline : float or Tensor, default 0
        Expected reward b; see `update_baseline`.
    reward_weight, entropy_weight : float
        The paper's lambda_r and lambda_e.
    reward : Tensor of shape (sample, batch), optional
        Reward used instead of `log_p_y`. For example, the reward of a sampled position may count
        only the current and later words.

    Returns
    -------
    Tensor of shape ()
        Minus the mean of log p(y|s) + lambda_r (reward - b) log p(s) + lambda_e H, where
        (reward - b) is treated as a constant.

    Notes
    -----
    Training increases L_s, a lower bound of the caption's log probability. With parameters W and
    positions s drawn from p(s),
        L_s = sum_s p(s) log p(y|s) <= log p(y)                                        Eq. 10
        dL_s/dW = sum_s p(s) [d log p(y|s)/dW + log p(y|s) d log p(s)/dW]              Eq. 11
        dL_s/dW ~ 1/N sum_n [d log p(y|s_n)/dW + log p(y|s_n) d log p(s_n)/dW]         Eq. 12
    The second term of Eq. 11 follows from p(s) d log p(s)/dW = d p(s)/dW (REINFORCE). A baseline b
    that does not depend on s changes the variance of the estimate but not its mean, because the
    probabilities sum to 1: sum_s p(s) b d log p(s)/dW = b d(sum_s p(s))/dW = 0.

    This function replaces the factor log p(y|s_n) in Eq. 12 with lambda_r (reward - b), where the
    default reward is log p(y|s_n). It also adds lambda_e dH/dW, the gradient of the entropy. The
    factor (reward - b) must be treated as a constant: the derivative of the default reward would
    add the term lambda_r log p(s) d log p(y|s)/dW, which Eq. 11 does not contain. The expected
    gradient equals Eq. 11 if the reward is log p(y|s_n), lambda_r = 1 and lambda_e = 0.

    The computation is elementwise, so all arguments may have additional axes, such as the words
    of a caption.

    References
    ----------
    .. [1] Xu et al. 2015, arXiv:1502.03044v3, section 4.1.
    .. [2] Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist
       Reinforcement Learning", Machine Learning 8.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> log_p_y = mt.tensor([[-1.0], [-3.0]])
    >>> log_p_s = mt.tensor([[-0.5], [-0.5]], requires_grad=True)
    >>> loss = reinforce_loss(log_p_y, log_p_s, mt.tensor([0.0]), baseline=-2.0)
    >>> loss.backward()
    >>> log_p_s.grad  # the better choice becomes more probable
    tensor([[-0.5],
            [ 0.5]])
    """
    if log_p_y.shape != log_p_s.shape:
        raise ShapeError(
            "reinforce_loss: log_p_y and log_p_s must have the same shape",
            got=f"log_p_y {log_p_y.shape} and log_p_s {log_p_s.shape}",
        )
    advantage = ((log_p_y if reward is None else reward) - baseline).detach()
    objective = log_p_y + reward_weight * advantage * log_p_s  # Eq. 12, with lambda_r and b
    return -(objective + entropy_weight * entropy).mean()


def update_baseline(baseline, log_p_y, decay=0.9):
    """Return the reward's moving average, `decay * baseline + (1 - decay) * mean(log_p_y)`.

    Parameters
    ----------
    baseline : float
        Average reward before this batch.
    log_p_y : Tensor
        Rewards of this batch, log p(y|s).
    decay : float, default 0.9

    Returns
    -------
    float

    References
    ----------
    .. [1] Xu et al. 2015, arXiv:1502.03044v3, section 4.1: b_k = 0.9 b_(k-1) + 0.1 log p(y|s_k).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> update_baseline(-1.0, mt.tensor([-2.0, -4.0]))
    -1.2
    """
    return decay * baseline + (1 - decay) * log_p_y.detach().mean().item()
