"""SGD: stochastic gradient descent with momentum."""

from ..backend.axpby import axpby
from ..errors import ArgumentError
from .optimizer import Optimizer, check_number, check_options

__all__ = ["SGD"]


class SGD(Optimizer):
    r"""SGD with momentum: `v <- momentum v + (1 - dampening) g`, then `p <- p - lr v`.

    Here g is the gradient of the parameter p. The first v is g itself, for any dampening. With
    `nesterov`, p <- p - lr (g + momentum v). Weight decay first adds weight_decay p to g.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, default 1e-3
        Learning rate.
    momentum : float, default 0
        Coefficient of the previous v.
    dampening : float, default 0
        Fraction of the gradient that is not added to v.
    weight_decay : float, default 0
        Weight decay coefficient.
    nesterov : bool
        Whether to use Nesterov momentum, g + momentum v.
    maximize : bool
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] "On the importance of initialization and momentum in deep learning", ICML 2013.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0]))
    >>> optimizer = SGD([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8])
    """

    step_in_state = False

    def __init__(
        self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, *,
        maximize=False, foreach=None, differentiable=False, fused=None,
    ):  # fmt: skip
        check_options(self, lr=lr, momentum=momentum, weight_decay=weight_decay)
        check_number(self, dampening=dampening)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(
                "SGD: nesterov=True requires momentum > 0 and dampening=0",
                got=f"momentum={momentum}, dampening={dampening}",
                hint="pass, for example, momentum=0.9 and dampening=0",
            )
        defaults = dict(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
            nesterov=nesterov, maximize=maximize, foreach=foreach,
            differentiable=differentiable, fused=fused,
        )  # fmt: skip
        super().__init__(params, defaults)
        self._started = set()

    def names_of_state(self, group):
        return ("momentum_buffer",) if group["momentum"] else ()

    def _count(self, group, entry):
        """Return 1 for the first update of a momentum buffer, and 2 otherwise.

        `update` receives this number as `step`; it must recognize only the first update.
        """
        buffer = entry.get("momentum_buffer")
        if buffer is None or id(buffer) in self._started:
            return 2
        self._started.add(id(buffer))
        return 1

    def _adopt_state(self, buffer):
        super()._adopt_state(buffer)
        entries = (self.state.get(p, {}) for p in buffer.parameters)
        self._started |= {id(e["momentum_buffer"]) for e in entries if "momentum_buffer" in e}

    def update(self, group, step, value, grad, *state_and_scratch):
        *velocity, work, _ = state_and_scratch
        momentum = group["momentum"]
        if group["maximize"]:
            grad *= -1.0
        if group["weight_decay"]:
            axpby(group["weight_decay"], value, 1.0, grad, work)
        if velocity:
            (v,) = velocity
            if step == 1:
                v[...] = grad
            else:
                axpby(1.0 - group["dampening"], grad, momentum, v, work)
            if group["nesterov"]:
                axpby(momentum, v, 1.0, grad, work)
            else:
                grad = v
        axpby(-float(group["lr"]), grad, 1.0, value, work)
