"""Weight normalization: separate parameters for the norms and the directions of a weight."""

from ...errors import ArgumentError
from ...named_errors import names_arguments
from ...ops.vector_norm import vector_norm
from ..parameter import Parameter

__all__ = ["remove_weight_norm", "weight_norm"]


class _WeightNorm:
    """Forward pre-hook that computes the weight, `w = g v / |v|`, before each forward pass."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim
        self.handle = None

    def norm(self, v):
        """Return one norm for each index of axis `dim`, computed over all other axes of v.

        The other axes are kept with size 1.

        If `dim` is None or -1, return one norm over all elements of v.
        """
        if self.dim in (None, -1):
            return vector_norm(v)
        axes = tuple(axis for axis in range(v.ndim) if axis != self.dim)
        return vector_norm(v, 2, axes, keepdim=True)

    def weight(self, module):
        """Return the weight computed from the parameters of `module`."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / self.norm(v))

    def __call__(self, module, args):
        setattr(module, self.name, self.weight(module))


@names_arguments
def weight_norm(module, name="weight", dim=0):
    """Replace a weight by two parameters, norms g and directions v: `w = g v / |v|`.

    Parameters
    ----------
    module : Module
    name : str, default "weight"
        Name of the weight. Appending `_g` and `_v` gives the names of the new parameters, as in
        `torch.nn.utils.weight_norm` (but not in `parametrizations.weight_norm`).
    dim : int or None, default 0
        Axis along which the weight is split into vectors, usually the output axis. With None (or
        -1, as in PyTorch), there is one norm over all elements.

    Returns
    -------
    Module
        `module` itself. A hook sets the weight before each forward pass.

    References
    ----------
    .. [1] "Weight Normalization: A Simple Reparameterization to Accelerate Training of Deep Neural
       Networks", arXiv:1602.07868v3, Eq. 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = weight_norm(mt.nn.Linear(3, 5))
    >>> {name: p.shape for name, p in layer.named_parameters()}
    {'bias': (5,), 'weight_g': (5, 1), 'weight_v': (5, 3)}
    """
    if _find(module, name):
        raise ArgumentError(
            f"weight_norm: {name} is already normalized",
            got=repr(module),
            hint="call weight_norm once for each weight",
        )
    weight = module.get_parameter(name)
    hook = _WeightNorm(name, dim)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(hook.norm(weight).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, ())
    hook.handle = module.register_forward_pre_hook(hook)
    return module


@names_arguments
def remove_weight_norm(module, name="weight"):
    """Undo `weight_norm`: the current weight becomes a parameter again.

    Parameters
    ----------
    module : Module
    name : str, default "weight"

    Returns
    -------
    Module
        `module` itself.
    """
    hook = _find(module, name)
    if hook is None:
        raise ArgumentError(
            f"remove_weight_norm: {name} is not normalized",
            got=repr(module),
            hint="call weight_norm(module, name) first",
        )
    weight = hook.weight(module).detach()
    hook.handle.remove()
    for attribute in (name, f"{name}_g", f"{name}_v"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module


def _find(module, name):
    """Return the hook that computes the weight `name`, or None."""
    entries = module._hooks.forward_pre.values() if module._hooks else ()
    found = (hook for hook, _ in entries if isinstance(hook, _WeightNorm) and hook.name == name)
    return next(found, None)
