"""NAdam and RAdam: Adam with Nesterov momentum, and Adam with a rectified adaptive rate."""

import math

from ..backend import array_module
from ..backend.axpby import axpby
from ..tensor import tensor
from .adam import check_betas, decay_factor, update_averages
from .optimizer import Optimizer, check_options

__all__ = ["NAdam", "RAdam"]


class NAdam(Optimizer):
    r"""NAdam (Adam with Nesterov momentum), for a parameter p with gradient g at step t.

        m <- beta1 m + (1 - beta1) g            mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)
        v <- beta2 v + (1 - beta2) g^2          v^ = v / (1 - beta2^t)
        m^ = mu_(t+1) m / (1 - mu_1 ... mu_(t+1)) + (1 - mu_t) g / (1 - mu_1 ... mu_t)
        p <- p - lr m^ / (sqrt(v^) + eps)

    Weight decay first adds weight_decay p to g, or, if decoupled, subtracts lr weight_decay p
    from p.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, default 2e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Decay rates beta1 of m and beta2 of v.
    eps : float, default 1e-8
        Number that is added to the square root, so that the divisor is never 0.
    weight_decay : float, default 0
        Weight decay coefficient.
    momentum_decay : float, default 4e-3
        Speed at which mu_t approaches beta1.
    decoupled_weight_decay : bool, default False
        Whether the weight decay acts on p instead of on g.
    maximize : bool, default False
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] Dozat 2016, "Incorporating Nesterov Momentum into Adam", ICLR workshop, algorithm 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = NAdam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8944])
    """

    scalars = ("step", "mu_product")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):  # fmt: skip
        check_options(
            self, lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay
        )
        check_betas("NAdam", betas)
        defaults = dict(
            lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay,
            momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize, foreach=foreach, capturable=capturable,
            differentiable=differentiable,
        )  # fmt: skip
        super().__init__(params, defaults)

    def names_of_state(self, group):
        return ("exp_avg", "exp_avg_sq")

    def _count(self, group, entry):
        """Return the step and the product mu_1 ... mu_t. Store the product in the state."""
        step = super()._count(group, entry)
        product = entry.setdefault("mu_product", tensor(1.0))
        product.array *= _momentum(group, step)
        return step, float(product.item())

    def update(self, group, count, value, grad, m, v, work, root):
        xp, (step, product) = array_module(value), count
        lr, mu, mu_next = float(group["lr"]), _momentum(group, step), _momentum(group, step + 1)
        decoupled = group["decoupled_weight_decay"]
        update_averages(group, value, grad, m, v, work, decoupled)
        xp.divide(v, 1.0 - group["betas"][1] ** step, out=root)
        xp.sqrt(root, out=root)
        root += group["eps"]
        weight_of_m, weight_of_g = mu_next / (1.0 - product * mu_next), (1.0 - mu) / (1.0 - product)
        axpby(weight_of_m, m, weight_of_g, grad, work)  # grad becomes m^
        xp.divide(grad, root, out=work)
        axpby(-lr, work, decay_factor(group, decoupled), value, work)


def _momentum(group, step):
    """Return mu_t, which grows from beta1 / 2 towards beta1."""
    return group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


class RAdam(Optimizer):
    r"""RAdam (rectified Adam), for a parameter p with gradient g at step t.

        m <- beta1 m + (1 - beta1) g            m^ = m / (1 - beta1^t)
        v <- beta2 v + (1 - beta2) g^2          v^ = v / (1 - beta2^t)
        n = 2 / (1 - beta2) - 1                 n_t = n - 2 t beta2^t / (1 - beta2^t)
        r^2 = (n_t - 4) (n_t - 2) n / ((n - 4) (n - 2) n_t)
        p <- p - lr r m^ / sqrt(v^)   if n_t > 5,   else   p <- p - lr m^

    In the first steps, v averages only a few gradients (effectively n_t), so the quotient
    m^ / sqrt(v^) has a large variance. RAdam therefore does not divide by sqrt(v^) at first, and
    later multiplies the quotient by r < 1. eps is added to sqrt(v). Weight decay works as in
    `NAdam`.

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
    decoupled_weight_decay : bool, default False
        Whether the weight decay acts on p instead of on g.
    maximize : bool, default False
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] "On the Variance of the Adaptive Learning Rate and Beyond", arXiv:1908.03265v4,
       algorithm 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = RAdam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8])
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):  # fmt: skip
        check_options(self, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas("RAdam", betas)
        defaults = dict(
            lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, maximize=maximize,
            foreach=foreach, capturable=capturable, differentiable=differentiable,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip
        super().__init__(params, defaults)

    def names_of_state(self, group):
        return ("exp_avg", "exp_avg_sq")

    def update(self, group, step, value, grad, m, v, work, root):
        xp = array_module(value)
        beta1, beta2 = group["betas"]
        decoupled = group["decoupled_weight_decay"]
        update_averages(group, value, grad, m, v, work, decoupled)
        longest = 2.0 / (1.0 - beta2) - 1.0
        length = longest - 2.0 * step * beta2**step / (1.0 - beta2**step)
        rate = float(group["lr"]) / (1.0 - beta1**step)
        if length > 5.0:
            ratio = (length - 4.0) * (length - 2.0) * longest
            ratio /= (longest - 4.0) * (longest - 2.0) * length
            xp.sqrt(v, out=root)
            root += group["eps"]
            xp.divide(m, root, out=work)
            rate *= math.sqrt(ratio * (1.0 - beta2**step))
            axpby(-rate, work, decay_factor(group, decoupled), value, work)
        else:
            axpby(-rate, m, decay_factor(group, decoupled), value, work)
