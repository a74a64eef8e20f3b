"""State dicts: save the values of a module by name, and load them."""

from collections import namedtuple
from collections.abc import Mapping

from ..autograd.modes import no_grad
from ..errors import CheckpointError, DTypeError
from ..ops import as_tensor
from ..tensor import Tensor

__all__ = ["IncompatibleKeys", "load"]


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """Names that did not match when a state dict was loaded: missing and unexpected names.

    Examples
    --------
    >>> IncompatibleKeys([], []), IncompatibleKeys(["bias"], [])
    (<All keys matched successfully>, IncompatibleKeys(missing_keys=['bias'], unexpected_keys=[]))
    """

    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if any(self) else "<All keys matched successfully>"

    __str__ = __repr__


def load(module, state, strict=True, assign=False):
    """Copy the values of `state` into the parameters and buffers of `module`.

    All names and shapes are checked before any value is written.

    Parameters
    ----------
    module : Module
    state : mapping of str to Tensor or array
    strict : bool
        Whether missing and unexpected names are errors.
    assign : bool
        Whether the module takes over the memory and the dtype of the given values, instead of
        copying the values.

    Returns
    -------
    IncompatibleKeys
        Named tuple of `missing_keys` and `unexpected_keys`, lists of str.

    Raises
    ------
    CheckpointError
        If names are missing or unexpected, or if shapes do not match. The message lists all of
        them.
    """
    name = type(module).__name__
    if not isinstance(state, Mapping):
        raise DTypeError(
            f"{name}.load_state_dict: state_dict must be a dict",
            got=type(state).__name__,
            hint="pass the result of model.state_dict() or mt.load(path)",
        )
    _materialize(module, state)
    own = module.state_dict(keep_vars=True)
    missing = [key for key in own if key not in state and not _may_be_missing(module, key)]
    unexpected = _unexpected(module, own, state)
    _check(name, own, state, missing if strict else [], unexpected if strict else [])
    with no_grad():
        for key, target in own.items():
            if key in state:
                _put(target, state[key], assign)
    return IncompatibleKeys(missing, unexpected)


def _materialize(module, state):
    """Set the size of each lazy layer to the size of the weight in the state dict."""
    for path, child in module.named_modules():
        shape = getattr(state.get(f"{path}.weight".lstrip(".")), "shape", ())
        if hasattr(child, "materialize") and len(shape) == 2:
            child.materialize(shape[1])


def _may_be_missing(module, key):
    """Return True if `key` may be missing, because older checkpoints do not contain it."""
    path, _, name = key.rpartition(".")
    return name in getattr(module.get_submodule(path), "may_be_missing", ())


def _unexpected(module, own, state):
    """Return the names in `state` that the module neither has nor ignores (`may_be_extra`)."""
    names = [key for key in state if key not in own]
    modules = dict(module.named_modules()) if names else {}
    paths = [str(key).rpartition(".") for key in names]
    ignored = [getattr(modules.get(path), "may_be_extra", ()) for path, _, _ in paths]
    return [
        key for key, (_, _, name), extra in zip(names, paths, ignored, strict=True)
        if name not in extra
    ]  # fmt: skip


def _put(target, value, assign):
    if assign:
        target.data = as_tensor(value)
    else:
        target.copy_(value)  # in place, because an optimizer may have views of this memory


def _check(name, own, state, missing, unexpected):
    complaints = [f"missing      {key}" for key in missing]
    complaints += [f"unexpected   {key}" for key in unexpected]
    for key, target in own.items():
        if key not in state:
            continue
        shape = getattr(state[key], "shape", None)
        if shape is None:
            kind = type(state[key]).__name__
            complaints.append(f"not an array {key}: a {kind}")
        elif tuple(shape) != target.shape:
            complaints.append(f"wrong shape  {key}: {tuple(shape)}, expected {target.shape}")
    if complaints:
        raise CheckpointError(
            f"{name}.load_state_dict: state_dict does not match the module",
            got="\n            ".join(complaints),
            expected="the names and shapes of the module's state_dict()",
            hint="build the module with the configuration of the saved weights; "
            "use strict=False to ignore missing and unexpected names, but not shapes",
        )


def collect(module, destination, prefix, keep_vars):
    """Add the parameters and persistent buffers of `module` itself to `destination`."""
    persistent = {k: v for k, v in module._buffers.items() if k not in module._non_persistent}
    for entries in (module._parameters, persistent):
        for name, value in entries.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else Tensor.detach(value)
