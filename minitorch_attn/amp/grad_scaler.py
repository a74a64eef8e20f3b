"""GradScaler: scale the loss, so that small gradients do not become 0 in float16."""

from collections.abc import Iterable
from ctypes import c_float
from math import isfinite

from ..backend import device_of, to_host
from ..errors import ArgumentError, CheckpointError, DTypeError, GraphError
from ..named_errors import NamedErrors
from ..ops import full
from ..optim import Optimizer
from ..optim.saved_state import check_saved
from ..schema import COUNT, SIZE, number_from, record
from ..tensor import Tensor
from .unscale import unscale_all

__all__ = ["GradScaler"]

_POSITIVE = number_from(0, float("inf"))
_STATE = record({
    "scale": _POSITIVE, "growth_factor": _POSITIVE, "backoff_factor": _POSITIVE,
    "growth_interval": SIZE, "_growth_tracker": COUNT,
})  # fmt: skip


class GradScaler(NamedErrors):
    """Scale the loss by a factor that adapts during training, as in `torch.amp.GradScaler`.

    Gradients below 3e-8 become 0 in float16. If the loss is multiplied by a scale, every gradient
    is multiplied by the same scale. `step` therefore first divides the gradients by the scale, in
    float32, and then updates the parameters. If a gradient is infinite or NaN, the scale was too
    large: `step` skips the update of the parameters, and `update` multiplies the scale by
    `backoff_factor`. After `growth_interval` steps in which all gradients were finite, `update`
    multiplies the scale by `growth_factor`.

    Parameters
    ----------
    device : str
        Ignored; for compatibility with PyTorch. The scale is stored on the device of the loss.
        Unlike in PyTorch, a scaler for "cuda" also works on a computer without a GPU.
    init_scale : float, default 65536
        Initial scale.
    growth_factor, backoff_factor : float
        Factors by which the scale is multiplied. `growth_factor` increases it, and must be greater
        than 1. `backoff_factor` reduces it, and must be less than 1.
    growth_interval : int
        Number of consecutive steps with finite gradients after which the scale grows.
    enabled : bool, default True
        If False, `step` calls the optimizer and the other methods do nothing.

    Notes
    -----
    On a GPU, each call of `step` waits for the device, because it must know whether a gradient is
    infinite or NaN. Loss scaling is described in Micikevicius et al. 2018, arXiv:1710.03740v3,
    section 3.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.ones(1))
    >>> optimizer, scaler = mt.optim.SGD([p], lr=0.5), GradScaler(init_scale=1024.0)
    >>> scaler.scale((3 * p).sum()).backward()
    >>> p.grad
    tensor([3072.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> p.detach(), scaler.get_scale()
    (tensor([-0.5]), 1024.0)
    """

    def __init__(
        self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5,
        growth_interval=2000, enabled=True,
    ):  # fmt: skip
        self._enabled = bool(enabled)
        if self._enabled and not growth_factor > 1.0:
            raise ArgumentError(
                "GradScaler: growth_factor must be greater than 1",
                got=f"growth_factor={growth_factor}",
            )
        if self._enabled and not backoff_factor < 1.0:
            raise ArgumentError(
                "GradScaler: backoff_factor must be less than 1",
                got=f"backoff_factor={backoff_factor}",
            )
        self._scale = _float32(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0  # consecutive steps with finite gradients
        self._used = False  # whether `scale` has been called
        self._on = {}  # device -> the scale as a tensor
        self._stages = {}  # id of an optimizer -> _Stage, since the last `update`

    def scale(self, outputs):
        """Multiply a tensor, or each tensor of a list or tuple, by the scale."""
        if not self._enabled:
            return outputs
        self._used = True
        if isinstance(outputs, Tensor):
            return outputs * self._scale_on(outputs.device)
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ArgumentError(
            "GradScaler.scale: outputs must be a Tensor or an iterable of Tensors",
            got=type(outputs).__name__,
        )

    def _scale_on(self, device):
        """Return the scale as a float32 tensor on `device`, so that the scaled loss is float32."""
        if device not in self._on:
            self._on[device] = full((), self._scale, dtype="float32", device=device)
        return self._on[device]

    def unscale_(self, optimizer):
        """Divide the gradients by the scale. Call this once per step, before gradient clipping.

        If you do not call `unscale_`, `step` divides the gradients.
        """
        if not self._enabled:
            return
        stage = self._stage_of(optimizer, "unscale_")
        if stage.unscaled:
            raise GraphError(
                "GradScaler.unscale_: the method was already called for this optimizer"
                if not stage.stepped else "GradScaler.unscale_: the method was called after step()",
                expected="one call of unscale_() before step(), then update()",
            )  # fmt: skip
        stage.unscaled = True
        gradients = {}
        for gradient in self._gradients(optimizer):
            array = gradient.array
            gradients.setdefault((device_of(array), array.dtype), []).append(array)
            gradient.changed_in_place()
        inverse = _float32(1.0 / self._scale) if self._scale else float("inf")
        stage.found = [unscale_all(arrays, inverse) for arrays in gradients.values()]

    def _gradients(self, optimizer):
        """Return the gradients of the optimizer's parameters; raise an error if one is float16."""
        optimizer.gather_gradients()
        params = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in params if p.grad is not None]
        if any(gradient.dtype == "float16" for gradient in gradients):
            raise ArgumentError(
                "GradScaler.unscale_: the gradients must not be float16",
                got="a float16 gradient, because its parameter is float16",
                hint="keep the model in float32 and use mt.autocast, or wrap the optimizer: "
                "mt.amp.MasterWeights(optimizer)",
            )
        return gradients

    def _stage_of(self, optimizer, where):
        if not isinstance(optimizer, Optimizer):
            raise DTypeError(
                f"GradScaler.{where}: optimizer must be an Optimizer", got=f"{optimizer!r:.60}"
            )
        if not self._used:
            raise GraphError(
                f"GradScaler.{where}: the loss was not scaled",
                hint="call scaler.scale(loss).backward() first",
            )
        return self._stages.setdefault(id(optimizer), _Stage())

    def step(self, optimizer, *args, **kwargs):
        """Divide the gradients by the scale; call `optimizer.step` if all of them are finite.

        Returns
        -------
        the result of `optimizer.step(*args, **kwargs)`, or None if the step was skipped
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise GraphError(
                "GradScaler.step: a closure is not supported",
                hint="compute the loss and its gradients before step()",
            )
        stage = self._stage_of(optimizer, "step")
        if stage.stepped:
            raise GraphError(
                "GradScaler.step: the method was already called for this optimizer",
                hint="call update() after each step",
            )
        if not stage.unscaled:
            self.unscale_(optimizer)
        if not stage.found:
            raise GraphError(
                "GradScaler.step: no parameter of the optimizer has a gradient",
                hint="call scaler.scale(loss).backward() first",
            )
        stage.stepped = True
        return None if stage.overflowed else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Adapt the scale at the end of an iteration, or set it to `new_scale` if given."""
        if not self._enabled:
            return
        found = [stage for stage in self._stages.values() if stage.found]
        if new_scale is not None:
            self._set_scale(_number(new_scale))
        elif not found:
            raise GraphError(
                "GradScaler.update: no gradients were checked since the last update",
                hint="call scaler.step(optimizer) first",
            )
        elif any(stage.overflowed for stage in found):
            self._set_scale(_float32(self._scale * self._backoff_factor))
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                larger = _float32(self._scale * self._growth_factor)
                self._set_scale(larger if isfinite(larger) else self._scale)
                self._growth_tracker = 0
        self._stages = {}

    def _set_scale(self, value):
        if value != self._scale:
            self._scale, self._on = value, {}

    def get_scale(self):
        """Return the scale as a float, without waiting for the device; 1.0 if disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self):
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """Return the factor that multiplies the scale after an infinite or NaN gradient."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Set the factor that multiplies the scale after an infinite or NaN gradient."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """Return how many consecutive steps with finite gradients make the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Set how many consecutive steps with finite gradients make the scale grow."""
        self._growth_interval = new_interval

    def is_enabled(self):
        """Return True if the scaler is enabled."""
        return self._enabled

    def state_dict(self):
        """Return the scale and the options as a dict with PyTorch's keys; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict):
        """Load the `state_dict()` of an enabled scaler. If this scaler is disabled, do nothing."""
        if not self._enabled:
            return
        if isinstance(state_dict, dict) and not state_dict:
            raise CheckpointError(
                "GradScaler.load_state_dict: the state is empty",
                got="{}, the state of a disabled scaler",
                hint="load it into GradScaler(enabled=False), or do not call load_state_dict()",
            )
        check_saved(state_dict, _STATE, "GradScaler")
        self._set_scale(_float32(state_dict["scale"]))
        self._growth_factor = float(state_dict["growth_factor"])
        self._backoff_factor = float(state_dict["backoff_factor"])
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


class _Stage:
    """What `unscale_` and `step` have done for one optimizer since the last `update`."""

    unscaled = stepped = False
    found = ()  # one 0-d array for each device and dtype: nonzero if a gradient is not finite
    _overflowed = None

    @property
    def overflowed(self):
        """True if a gradient is infinite or NaN. The first access waits for the device."""
        if self._overflowed is None:
            self._overflowed = any(bool(to_host(found)) for found in self.found)
        return self._overflowed


def _number(new_scale):
    """Convert a new scale (a number or a tensor with one element) to a float."""
    message = "GradScaler.update: new_scale must be a number or a tensor with one element"
    if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
        got = f"a tensor of shape {new_scale.shape}, requires_grad={new_scale.requires_grad}"
        raise ArgumentError(message, got=got)
    try:
        return _float32(new_scale.item() if isinstance(new_scale, Tensor) else float(new_scale))
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(message, got=f"{type(new_scale).__name__}") from None


def _float32(number):
    """Round a number to float32, the scale's dtype in PyTorch. Return infinity on overflow."""
    return c_float(number).value
