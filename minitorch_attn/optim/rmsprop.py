"""RMSprop and Adagrad: divide gradients by the root of the average or sum of past squares."""

from ..backend import array_module
from ..backend.axpby import axpby
from .optimizer import Optimizer, check_options

__all__ = ["Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    r"""RMSprop: `v <- alpha v + (1 - alpha) g^2`, then `p <- p - lr g / (sqrt(v) + eps)`.

    Here g is the gradient of the parameter p. With `centered`, the variance v - m^2 replaces v,
    where m is the running mean of g. With `momentum`, a velocity replaces the quotient:
    u <- momentum u + g / (sqrt(v) + eps), then p <- p - lr u.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, default 1e-2
        Learning rate.
    alpha : float, default 0.99
        Decay rate of the running averages.
    eps : float, default 1e-8
        Number that is added to the square root, so that the divisor is never 0.
    weight_decay : float, default 0
        Weight decay coefficient; the decay adds weight_decay p to g.
    momentum : float, default 0
        Coefficient of the previous velocity u. With 0, there is no velocity.
    centered : bool
        Whether to divide by the standard deviation of g instead of its root mean square.
    maximize : bool
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] "Generating Sequences With Recurrent Neural Networks", arXiv:1308.0850v5, sec. 4.2
       (the centered form; the paper has eps inside the square root).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = RMSprop([p], lr=0.05)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> round(p.item(), 4)
    0.5
    """

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0,
        centered=False, *, capturable=False, foreach=None, maximize=False, differentiable=False,
    ):  # fmt: skip
        check_options(
            self, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum
        )
        defaults = dict(
            lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
            weight_decay=weight_decay, capturable=capturable, foreach=foreach, maximize=maximize,
            differentiable=differentiable,
        )  # fmt: skip
        super().__init__(params, defaults)

    def names_of_state(self, group):
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def update(self, group, step, value, grad, *state_and_scratch):
        *state, work, root = state_and_scratch
        state = dict(zip(self.names_of_state(group), state, strict=True))
        xp, alpha = array_module(value), group["alpha"]
        if group["maximize"]:
            grad *= -1.0
        if group["weight_decay"]:
            axpby(group["weight_decay"], value, 1.0, grad, work)
        v = state["square_avg"]
        xp.multiply(grad, grad, out=work)
        axpby(1.0 - alpha, work, alpha, v, work)
        root[...] = v
        if group["centered"]:
            m = state["grad_avg"]
            axpby(1.0 - alpha, grad, alpha, m, work)
            xp.multiply(m, m, out=work)
            root -= work
        xp.sqrt(root, out=root)
        root += group["eps"]
        xp.divide(grad, root, out=work)
        u = state.get("momentum_buffer", work)
        if u is not work:
            axpby(1.0, work, group["momentum"], u, work)
        axpby(-float(group["lr"]), u, 1.0, value, work)


class Adagrad(Optimizer):
    r"""Adagrad: `s <- s + g^2`, then `p <- p - lr_t g / (sqrt(s) + eps)`.

    Here g is the gradient of the parameter p at step t, and lr_t = lr / (1 + (t - 1) lr_decay).

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, default 1e-2
        Learning rate.
    lr_decay : float, default 0
        Speed at which the learning rate lr_t falls.
    weight_decay : float, default 0
        Weight decay coefficient; the decay adds weight_decay p to g.
    initial_accumulator_value : float, default 0
        Initial value of s.
    eps : float, default 1e-10
        Number that is added to the square root, so that the divisor is never 0.
    maximize : bool
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] Duchi, Hazan, Singer 2011, "Adaptive Subgradient Methods for Online Learning and
       Stochastic Optimization", Journal of Machine Learning Research 12.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = Adagrad([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.5])
    """

    def __init__(
        self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0,
        eps=1e-10, foreach=None, *, maximize=False, differentiable=False, fused=None,
    ):  # fmt: skip
        check_options(
            self, lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps,
            initial_accumulator_value=initial_accumulator_value,
        )  # fmt: skip
        defaults = dict(
            lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, foreach=foreach,
            maximize=maximize, differentiable=differentiable, fused=fused,
        )  # fmt: skip
        super().__init__(params, defaults)

    def names_of_state(self, group):
        return ("sum",)

    def start_state(self, group, name, view):
        view[...] = group["initial_accumulator_value"]

    def update(self, group, step, value, grad, s, work, root):
        xp = array_module(value)
        if group["maximize"]:
            grad *= -1.0
        if group["weight_decay"]:
            axpby(group["weight_decay"], value, 1.0, grad, work)
        xp.multiply(grad, grad, out=work)
        s += work
        xp.sqrt(s, out=root)
        root += group["eps"]
        xp.divide(grad, root, out=work)
        rate = float(group["lr"]) / (1.0 + (step - 1) * group["lr_decay"])
        axpby(-rate, work, 1.0, value, work)
