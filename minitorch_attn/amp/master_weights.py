"""Float32 master weights of a float16 model, so that small updates are not lost."""

from ..errors import DTypeError, GraphError
from ..ops import cast
from ..optim import Optimizer
from ..tensor import wrap

__all__ = ["MasterWeights"]


class MasterWeights(Optimizer):
    """Let an optimizer update float32 copies of the float16 parameters of a model.

    The spacing of float16 numbers just above 1 is 0.001. An update by 1e-4 therefore does not
    change a weight of 1, no matter how often it is repeated. To avoid this, the optimizer updates
    float32 copies of the parameters, the master weights, and keeps its own state in float32. Each
    step converts the gradients to float32, updates the master weights, and sets the parameters to
    the master weights rounded to float16. Parameters of other dtypes are updated as usual. PyTorch
    does not have this class. With `mt.autocast`, you do not need it: the parameters are float32.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer of a model in float16 (`model.half()`). It must not have taken a step yet.

    Attributes
    ----------
    masters : list of Tensor
        The float32 copies. After `GradScaler.unscale_`, clip their gradients:
        `clip_grad_norm_(optimizer.masters, 1.0)`.

    Notes
    -----
    Master weights are described in Micikevicius et al. 2018, arXiv:1710.03740v3, section 3.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> w = mt.nn.Parameter(mt.ones(1, dtype=mt.float16))
    >>> optimizer = MasterWeights(mt.optim.SGD([w], lr=1e-4))
    >>> for _ in range(10):
    ...     optimizer.zero_grad()
    ...     w.sum().backward()
    ...     optimizer.step()
    >>> w.detach(), optimizer.masters[0].detach()
    (tensor([0.999], dtype=float16), tensor([0.999]))
    """

    def __init__(self, optimizer):
        if not isinstance(optimizer, Optimizer) or isinstance(optimizer, MasterWeights):
            raise DTypeError(
                "MasterWeights: optimizer must be an Optimizer", got=type(optimizer).__name__
            )
        if optimizer.state:
            raise GraphError(
                "MasterWeights: the optimizer has already taken a step",
                hint="wrap the optimizer right after it is created",
            )
        self.optimizer = optimizer
        self.defaults = optimizer.defaults
        self.parameters, self.masters = [], []  # float16, and a float32 copy of each
        self._gathered = False
        for group in optimizer.param_groups:
            group["params"] = [self._master_of(p) for p in group["params"]]

    def _master_of(self, parameter):
        if parameter.dtype != "float16":
            return parameter
        master = cast(parameter.detach(), "float32").requires_grad_()
        self.parameters.append(parameter)
        self.masters.append(master)
        return master

    @property
    def param_groups(self):
        """Groups of the wrapped optimizer, with the master weights in place of the parameters."""
        return self.optimizer.param_groups

    @property
    def state(self):
        """State of the wrapped optimizer."""
        return self.optimizer.state

    def add_param_group(self, param_group):
        """Add a group, and create its master weights."""
        self.optimizer.add_param_group(param_group)
        group = self.optimizer.param_groups[-1]
        group["params"] = [self._master_of(p) for p in group["params"]]

    def zero_grad(self, set_to_none=True):
        """Set the gradients to None, or to zeros with `set_to_none=False`."""
        self.optimizer.zero_grad()
        self._gathered = False
        for p in self.parameters:
            if p.grad is not None:
                p.grad = None if set_to_none else wrap(p.grad.array * 0)

    def gather_gradients(self):
        """Convert the gradients to float32, unless this was already done in this step."""
        if self._gathered:
            return
        for p, master in zip(self.parameters, self.masters, strict=True):
            master.grad = None if p.grad is None else cast(p.grad.detach(), "float32")
        self._gathered = True

    def step(self, closure=None):
        """Update the master weights, and copy them to the parameters. See `Optimizer.step`."""
        loss = self.loss_of(closure)
        self.gather_gradients()
        self.optimizer.step()
        self._round()
        self._gathered = False
        return loss

    def _round(self):
        for p, master in zip(self.parameters, self.masters, strict=True):
            p.array[...] = master.array.astype("float16")
            p.changed_in_place()
            master.grad = None

    def state_dict(self):
        """Return the state of the wrapped optimizer, and the master weights."""
        masters = [master.detach() for master in self.masters]
        return {**self.optimizer.state_dict(), "master_weights": masters}

    def load_state_dict(self, state_dict):
        """Load a `state_dict()` of MasterWeights, and set the parameters to the loaded weights."""
        self.optimizer.load_state_dict(state_dict)
        masters = state_dict.get("master_weights", ())
        shapes = [master.shape for master in self.masters]
        if [saved.shape for saved in masters] != shapes:
            raise GraphError(
                "MasterWeights.load_state_dict: the master weights do not match",
                got=f"shapes {[saved.shape for saved in masters]}"[:200],
                expected=f"shapes {shapes}"[:200],
            )
        for master, saved in zip(self.masters, masters, strict=True):
            master.array[...] = cast(saved, "float32").to(master.device).array
            master.changed_in_place()
        self._round()

    def __getstate__(self):
        """Return the attributes that pickle and deepcopy keep."""
        return self.__dict__

    def __repr__(self):
        return f"MasterWeights({self.optimizer!r})"
