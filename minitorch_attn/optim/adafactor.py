"""Adafactor, which stores only row and column means of a matrix's squared gradients.

`Adafactor` follows PyTorch and `HFAdafactor` follows Hugging Face transformers. Both depend on
each parameter's shape, so they update one parameter at a time instead of a flat buffer.
"""

from ..backend import array_module
from ..backend.graph_capture import refuse
from ..errors import ArgumentError
from ..tensor import tensor, wrap
from .optimizer import Optimizer, check_number, check_options

__all__ = ["Adafactor", "HFAdafactor"]


class _PerParameter(Optimizer):
    """Optimizer whose update depends on the shape of the parameter."""

    def names_of_state(self, group):
        return ()

    def state_shapes(self, shape):
        lead, rows, columns = shape[:-2], shape[-2:-1], shape[-1:]
        kept = (*lead, *rows, 1), (*lead, 1, *columns)  # PyTorch keeps the axis of a mean
        return shape, (*lead, *rows), (*lead, *columns), *kept, ()

    def step(self, closure=None):
        """Update every parameter that has a gradient."""
        refuse("updates parameters by Adafactor, which does not have a kernel")
        loss = self.loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or p.array.size == 0:
                    continue
                if p not in self.state:
                    self.state[p] = self.fresh_state(group, p.array)
                self.update_one(group, self.state[p], p.array, p.grad.array)
                p.changed_in_place()
        return loss


def _rms(xp, x):
    """Return the root mean square as a 0-d array."""
    return xp.sqrt((x * x).sum() / max(x.size, 1))


class Adafactor(_PerParameter):
    r"""Adafactor as in PyTorch: factored second moments, and steps relative to the parameter's RMS.

    For a matrix p with gradient g at step t, and beta_t = 1 - t^beta2_decay:
        R <- beta_t R + (1 - beta_t) row means of g^2
        C <- beta_t C + (1 - beta_t) column means of g^2
        V = R C / mean(R),   u = g / sqrt(V)
        p <- p - max(eps2, rms(p)) min(lr, 1/sqrt(t)) u / max(1, rms(u) / d)
    For vectors and scalars, the full V is stored. Weight decay is applied before the step.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, default 1e-2
        Largest learning rate, relative to rms(p).
    beta2_decay : float, default -0.8
        Exponent of t in beta_t.
    eps : (float or None, float), default (None, 1e-3)
        Lower bounds eps1 of sqrt(V) and eps2 of rms(p); eps1=None means the machine epsilon.
    d : float, default 1
        Threshold above which rms(u) is clipped.
    weight_decay : float, default 0
        Weight decay coefficient.
    maximize : bool
        Whether to maximize the objective instead of minimizing it.

    References
    ----------
    .. [1] "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", arXiv:1804.04235v1,
       algorithms 4 and 5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.ones(2, 3))
    >>> optimizer = Adafactor([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()[0]
    tensor([0.9, 0.9, 0.9])
    """

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
        foreach=None, maximize=False,
    ):  # fmt: skip
        check_options(self, lr=lr, weight_decay=weight_decay)
        check_number(self, beta2_decay=beta2_decay, d=d)
        eps1, eps2 = eps
        check_options(self, eps1=eps1, eps2=eps2)
        if beta2_decay > 0 or d < 1:
            raise ArgumentError(
                "Adafactor: beta2_decay must be at most 0 and d at least 1",
                got=f"beta2_decay={beta2_decay}, d={d}",
                hint="pass the defaults, beta2_decay=-0.8 and d=1.0",
            )
        defaults = dict(
            lr=lr, beta2_decay=beta2_decay, eps=(eps1, eps2), d=d, weight_decay=weight_decay,
            foreach=foreach, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults)

    def fresh_state(self, group, value):
        xp = array_module(value)
        state = {"step": tensor(0.0)}
        if value.ndim > 1:
            *lead, rows, columns = value.shape
            state["row_var"] = wrap(xp.zeros((*lead, rows, 1), dtype=value.dtype))
            state["col_var"] = wrap(xp.zeros((*lead, 1, columns), dtype=value.dtype))
        else:
            state["variance"] = wrap(xp.zeros_like(value))
        return state

    def update_one(self, group, state, value, grad):
        xp = array_module(value)
        if group["maximize"]:
            grad = -grad
        state["step"].array += 1
        t = state["step"].item()
        eps1, eps2 = group["eps"]
        eps1 = float(xp.finfo(value.dtype).eps) if eps1 is None else eps1
        lr, share = float(group["lr"]), t ** group["beta2_decay"]
        size = xp.maximum(_rms(xp, value), eps2)
        if group["weight_decay"]:
            value *= 1.0 - lr * group["weight_decay"]
        v = self._second_moment(state, grad * grad, share, eps1)
        u = grad / xp.sqrt(xp.maximum(v, eps1 * eps1))
        u /= xp.maximum(_rms(xp, u) / group["d"], 1.0)
        value -= u * (size * min(lr, t**-0.5))

    @staticmethod
    def _second_moment(state, squares, share, eps1):
        if "variance" in state:
            v = state["variance"].array
            v += (squares - v) * share
            return v
        row, column = state["row_var"].array, state["col_var"].array
        row += (squares.mean(axis=-1, keepdims=True) - row) * share
        column += (squares.mean(axis=-2, keepdims=True) - column) * share
        mean = row.mean(axis=-2, keepdims=True)
        return row * column / array_module(mean).maximum(mean, eps1)


class HFAdafactor(_PerParameter):
    r"""Adafactor as in Hugging Face transformers.

    `HFAdafactor` differs from `Adafactor` in three ways. First, eps1 is added to g^2. Second, the
    step is relative to rms(p) only with `scale_parameter`. Third, with `relative_step`, the
    learning rate is min(1e-2, 1/sqrt(t)), or min(1e-6 t, 1/sqrt(t)) if `warmup_init` is also set.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    lr : float, optional
        Learning rate; must be None with `relative_step`, and a number otherwise.
    eps : (float, float), default (1e-30, 1e-3)
        The value eps1 that is added to g^2, and the lower bound eps2 of rms(p).
    clip_threshold : float, default 1
        Threshold above which rms(u) is clipped.
    decay_rate : float, default -0.8
        Exponent of t in beta_t, as `beta2_decay` of `Adafactor`.
    beta1 : float, optional
        Decay of a running mean of the updates; None for no running mean.
    weight_decay : float, default 0
        Weight decay coefficient.
    scale_parameter : bool, default True
        Whether the step is relative to rms(p).
    relative_step : bool, default True
        Whether the learning rate depends on t, as described above.
    warmup_init : bool, default False
        Whether the learning rate of `relative_step` starts with a warm-up.

    References
    ----------
    .. [1] "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", arXiv:1804.04235v1.
    """

    step_is_tensor = False

    def __init__(
        self, params, lr=None, eps=(1e-30, 1e-3), clip_threshold=1.0, decay_rate=-0.8, beta1=None,
        weight_decay=0.0, scale_parameter=True, relative_step=True, warmup_init=False,
    ):  # fmt: skip
        if lr is not None and relative_step:
            raise ArgumentError(
                "HFAdafactor: lr must be None with relative_step=True",
                got=f"lr={lr}",
                hint="pass relative_step=False to use this lr",
            )
        if warmup_init and not relative_step:
            raise ArgumentError(
                "HFAdafactor: warmup_init requires relative_step=True",
                hint="pass relative_step=True and lr=None, or warmup_init=False",
            )
        if lr is None and not relative_step:
            raise ArgumentError(
                "HFAdafactor: lr must be a number with relative_step=False", got="lr=None"
            )
        eps1, eps2 = eps
        check_options(self, lr=lr, eps1=eps1, eps2=eps2, beta1=beta1)
        check_options(self, clip_threshold=clip_threshold, weight_decay=weight_decay)
        check_number(self, decay_rate=decay_rate)
        defaults = dict(
            lr=lr, eps=(eps1, eps2), clip_threshold=clip_threshold, decay_rate=decay_rate,
            beta1=beta1, weight_decay=weight_decay, scale_parameter=scale_parameter,
            relative_step=relative_step, warmup_init=warmup_init,
        )  # fmt: skip
        super().__init__(params, defaults)

    def fresh_state(self, group, value):
        xp = array_module(value)
        state = {"step": 0}
        if group["beta1"] is not None:
            state["exp_avg"] = wrap(xp.zeros_like(value))
        if value.ndim >= 2:
            *lead, rows, columns = value.shape
            state["exp_avg_sq_row"] = wrap(xp.zeros((*lead, rows), dtype=value.dtype))
            state["exp_avg_sq_col"] = wrap(xp.zeros((*lead, columns), dtype=value.dtype))
        else:
            state["exp_avg_sq"] = wrap(xp.zeros_like(value))
        state["RMS"] = 0
        return state

    def _rate(self, group, state):
        t, rate = state["step"], group["lr"]
        if group["relative_step"]:
            rate = min(1e-6 * t if group["warmup_init"] else 1e-2, t**-0.5)
        if not group["scale_parameter"]:
            return rate
        rms = state["RMS"].array
        return array_module(rms).maximum(rms, group["eps"][1]) * rate

    def update_one(self, group, state, value, grad):
        xp = array_module(value)
        state["step"] += 1
        state["RMS"] = wrap(xp.asarray(_rms(xp, value)))
        rate = self._rate(group, state)
        beta2 = 1.0 - state["step"] ** group["decay_rate"]
        update = self._scaled(state, grad, grad * grad + group["eps"][0], beta2)
        update /= xp.maximum(_rms(xp, update) / group["clip_threshold"], 1.0)
        update *= rate
        if group["beta1"] is not None:
            mean = state["exp_avg"].array
            mean *= group["beta1"]
            mean += update * (1.0 - group["beta1"])
            update = mean
        if group["weight_decay"]:
            value -= value * (group["weight_decay"] * rate)
        value -= update

    @staticmethod
    def _scaled(state, grad, squares, beta2):
        """Update the running means of `squares`, and return g / sqrt(V) with V from these means."""
        xp = array_module(grad)
        if "exp_avg_sq" in state:
            v = state["exp_avg_sq"].array
            v *= beta2
            v += squares * (1.0 - beta2)
            return grad / xp.sqrt(v)
        row, column = state["exp_avg_sq_row"].array, state["exp_avg_sq_col"].array
        row *= beta2
        row += squares.mean(axis=-1) * (1.0 - beta2)
        column *= beta2
        column += squares.mean(axis=-2) * (1.0 - beta2)
        relative = row / row.mean(axis=-1, keepdims=True)
        return grad / xp.sqrt(relative)[..., None] / xp.sqrt(column)[..., None, :]
