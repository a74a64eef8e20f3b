"""Adam and AdamW: steps from running averages of the gradient and of its square."""

import math

from ..backend import array_module
from ..backend.axpby import axpby
from ..errors import ArgumentError
from .optimizer import Optimizer, check_options

__all__ = ["Adam", "AdamW"]


def check_betas(where, betas):
    """Raise ArgumentError unless there are two decay rates, both in [0, 1)."""
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ArgumentError(
            f"{where}: betas must be two numbers in [0, 1)",
            got=f"betas={tuple(betas)}", hint="pass betas=(0.9, 0.999), the default",
        )  # fmt: skip


def update_averages(group, value, grad, m, v, work, decoupled):
    """Update m and v with `grad`, to which the weight decay is added first unless `decoupled`."""
    decay = group["weight_decay"]
    beta1, beta2 = group["betas"]
    if group["maximize"]:
        grad *= -1.0
    if decay and not decoupled:
        axpby(decay, value, 1.0, grad, work)
    axpby(1.0 - beta1, grad, beta1, m, work)
    array_module(value).multiply(grad, grad, out=work)
    axpby(1.0 - beta2, work, beta2, v, work)


def decay_factor(group, decoupled):
    """Return the factor by which a decoupled weight decay multiplies the parameters, or 1."""
    return 1.0 - float(group["lr"]) * group["weight_decay"] if decoupled else 1.0


class Adam(Optimizer):
    r"""Adam (adaptive moment estimation), for a parameter p with gradient g at step t.

        m <- beta1 m + (1 - beta1) g            m^ = m / (1 - beta1^t)
        v <- beta2 v + (1 - beta2) g^2          v^ = v / (1 - beta2^t)
        p <- p - lr m^ / (sqrt(v^) + eps)

    Weight decay first adds weight_decay p to g (in contrast to `AdamW`). With `amsgrad`, the
    largest v so far replaces v in v^.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, default 1e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Decay rates beta1 of m and beta2 of v.
    eps : float, default 1e-8
        Number that is added to the square root, so that the divisor is never 0.
    weight_decay : float, default 0
        Weight decay coefficient.
    amsgrad : bool, default False
        Whether to divide by the largest v so far.
    maximize : bool, default False
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] "Adam: A Method for Stochastic Optimization", arXiv:1412.6980v9, algorithm 1.
    .. [2] "On the Convergence of Adam and Beyond", arXiv:1904.09237v1 (AMSGrad).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = Adam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9])
    """

    decoupled = False

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        check_options(self, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas("Adam", betas)
        defaults = dict(
            lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
            foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused,
        )  # fmt: skip
        super().__init__(params, defaults)

    def names_of_state(self, group):
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    def overwrites_gradient(self, group):
        return group["maximize"] or (group["weight_decay"] and not self.decoupled)

    def update(self, group, step, value, grad, *state_and_scratch):
        m, v, *largest, work, _ = state_and_scratch
        xp = array_module(value)
        lr, eps = float(group["lr"]), group["eps"]
        beta1, beta2 = group["betas"]
        update_averages(group, value, grad, m, v, work, self.decoupled)
        if largest:
            xp.maximum(largest[0], v, out=largest[0])
            v = largest[0]
        # multiplying numerator and denominator of m^ / (sqrt(v^) + eps) by root saves one pass
        root = math.sqrt(1.0 - beta2**step)
        xp.sqrt(v, out=work)
        work += eps * root
        xp.divide(m, work, out=work)
        rate = lr * root / (1.0 - beta1**step)
        axpby(-rate, work, decay_factor(group, self.decoupled), value, work)


class AdamW(Adam):
    r"""Adam with decoupled weight decay, which acts on the weights instead of on the gradient.

        p <- p - lr weight_decay p,   then Adam's step.

    The parameters are the same as those of `Adam`; `weight_decay` is 1e-2 by default.

    References
    ----------
    .. [1] "Decoupled Weight Decay Regularization", arXiv:1711.05101v3, algorithm 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = AdamW([p], lr=0.1, weight_decay=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.85])
    """

    decoupled = True

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
        maximize=False, foreach=None, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
        )  # fmt: skip
