"""LBFGS: a quasi-Newton optimizer that computes each step from the recent steps and gradients."""

from ..autograd import no_grad
from ..errors import ArgumentError
from ..ops import cat, tensor_like, zeros_like
from ..tensor import Tensor
from .optimizer import Optimizer, check_options
from .strong_wolfe import Point, strong_wolfe

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    r"""L-BFGS (limited-memory BFGS), for models with few parameters and deterministic losses.

    The optimizer keeps recent steps s and the changes y of the gradient g in these steps. From
    them, it estimates H, the inverse of the matrix of second derivatives, and moves all parameters
    p together:

        p <- p - lr H g

    `step` needs a closure, which it calls up to `max_eval` times.

    Parameters
    ----------
    params : iterable of Tensor
        A single group, without options of its own.
    lr : float, default 1
        Factor by which each step is multiplied. The first step is also divided by the sum of
        abs(g), if this sum is above 1.
    max_iter : int, default 20
        Largest number of updates in one call of `step`.
    max_eval : int, optional
        Number of calls of the closure after which `step` ends, by default 1.25 max_iter.
    tolerance_grad, tolerance_change : float
        `step` ends if no gradient entry exceeds `tolerance_grad`, or if the step or the change in
        the loss does not exceed `tolerance_change`.
    history_size : int, default 100
        Number of pairs (s, y) that are kept.
    line_search_fn : "strong_wolfe", optional
        If given, search along H g for a step that lowers the loss enough, trying `lr` first.
        See `strong_wolfe.py`.

    References
    ----------
    .. [1] Liu and Nocedal 1989, "On the Limited Memory BFGS Method for Large Scale Optimization",
       Mathematical Programming 45, section 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.tensor([3.0, -2.0]))
    >>> optimizer = LBFGS([p])
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((p - 1) ** 2 * mt.tensor([1.0, 10.0])).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(94., grad_fn=<Sum>)
    >>> p.detach()
    tensor([1., 1.])
    """

    step_in_state = False  # the state counts the steps in "n_iter", as in PyTorch

    def __init__(
        self, params, lr=1.0, max_iter=20, max_eval=None, tolerance_grad=1e-7,
        tolerance_change=1e-9, history_size=100, line_search_fn=None,
    ):  # fmt: skip
        check_options(self, lr=lr, tolerance_grad=tolerance_grad, tolerance_change=tolerance_change)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(
                "LBFGS: line_search_fn is unknown",
                got=f"line_search_fn={line_search_fn!r}",
                expected="None or 'strong_wolfe'",
            )
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        defaults = dict(
            lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change, history_size=history_size,
            line_search_fn=line_search_fn,
        )  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ArgumentError(
                "LBFGS: the parameters must be one group",
                got=f"{len(self.param_groups)} groups",
                hint="pass model.parameters()",
            )

    def step(self, closure=None):
        """Make up to `max_iter` updates, and return the loss before the first update.

        Parameters
        ----------
        closure : callable
            Function that zeroes the gradients, computes the loss and its gradients, and returns the
            loss.
        """
        if closure is None:
            raise ArgumentError(
                "LBFGS.step: closure is missing",
                hint="pass a function that calls zero_grad() and backward() and returns the loss",
            )
        (group,) = self.param_groups
        state = self.state.setdefault(group["params"][0], {"func_evals": 0, "n_iter": 0})
        first, grad = self._evaluate(closure, state)
        loss, evaluations = float(first), 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first
        for left in reversed(range(group["max_iter"])):
            state["n_iter"] += 1
            self._choose_step(group, state, grad, loss)
            slope = _dot(grad, state["d"])
            if slope > -group["tolerance_change"]:
                break
            start = Point(0.0, loss, grad, slope)
            most = group["max_eval"] - evaluations
            loss, grad, tried = self._advance(closure, group, state, start, most, left == 0)
            evaluations += tried
            if (
                left == 0
                or evaluations >= group["max_eval"]
                or _largest(grad) <= group["tolerance_grad"]
                or _largest(state["d"] * state["t"]) <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return first

    def _advance(self, closure, group, state, start, most, is_last):
        """Move along the direction. Return the loss, the gradient and the number of evaluations.

        Without a line search, the loss is not evaluated after the last move (`is_last`). In this
        case, the loss and the gradient before the move are returned; `start` contains both.
        """
        if group["line_search_fn"] is not None:
            point, tried = self._search(closure, group, state, start, most)
            state["t"] = point.t
            self._move(state["d"] * state["t"])
            return point.loss, point.grad, tried
        self._move(state["d"] * state["t"])
        if is_last:
            return start.loss, start.grad, 0
        loss, grad = self._evaluate(closure, state)
        return float(loss), grad, 1

    def _evaluate(self, closure, state):
        """Return the loss, and the gradients of all parameters as one vector."""
        state["func_evals"] += 1
        loss = self.loss_of(closure)
        params = self.param_groups[0]["params"]
        grads = [zeros_like(p) if p.grad is None else p.grad for p in params]
        return loss, cat([grad.detach().reshape(-1) for grad in grads])

    def _choose_step(self, group, state, grad, loss):
        """Store the direction d and size t of the next step, and the current gradient and loss."""
        lr = float(group["lr"])
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            t = min(1.0, 1.0 / grad.abs().sum().item()) * lr
        else:
            self._remember(group, state, grad)
            t = lr
        state.update(d=_direction(state, grad), t=t, prev_flat_grad=grad, prev_loss=loss)

    def _search(self, closure, group, state, start, most):
        """Return the point that the line search finds, and the number of evaluations."""
        direction, params = state["d"], group["params"]
        before = [p.detach().clone() for p in params]

        def evaluate(t):
            self._move(direction * t)
            loss, grad = self._evaluate(closure, state)
            with no_grad():
                for p, old in zip(params, before, strict=True):
                    p.copy_(old)
            return Point(t, float(loss), grad, _dot(grad, direction))

        tolerance = group["tolerance_change"] / _largest(direction)
        return strong_wolfe(evaluate, start, state["t"], tolerance, most)

    def _remember(self, group, state, grad):
        """Add the latest step s, and the gradient's change y, to the history."""
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        product = _dot(y, s)
        if product <= 1e-10:  # H would not be positive definite
            return
        for name, value in (("old_dirs", y), ("old_stps", s), ("ro", 1.0 / product)):
            state[name] = [*state[name], value][-group["history_size"] :]
        state["H_diag"] = product / _dot(y, y)

    def _move(self, step):
        """Add `step`, one vector for all parameters, to the parameters."""
        start = 0
        with no_grad():
            for p in self.param_groups[0]["params"]:
                p.add_(step[start : start + p.numel()].reshape(p.shape))
                start += p.numel()

    def _loaded(self, name, value, parameter):
        if isinstance(value, list | tuple):
            return [self._loaded(name, item, parameter) for item in value]
        if isinstance(value, Tensor):  # a vector over all parameters
            return tensor_like(value.array, parameter).clone()
        return super()._loaded(name, value, parameter)


def _direction(state, grad):
    """Return -H g by the two-loop recursion."""
    history = list(zip(state["old_stps"], state["old_dirs"], state["ro"], strict=True))
    direction, factors = -grad, []
    for s, y, ro in reversed(history):
        factors.append(ro * _dot(s, direction))
        direction = direction - y * factors[-1]
    direction = direction * state["H_diag"]
    for (s, y, ro), factor in zip(history, reversed(factors), strict=True):
        direction = direction + s * (factor - ro * _dot(y, direction))
    return direction


def _dot(a, b):
    return (a * b).sum().item()


def _largest(vector):
    return vector.abs().max().item()
