"""Module: the base class of layers and models, with named parameters, buffers and submodules."""

from ..autograd import modes
from ..autograd.modes import no_grad
from ..errors import ArgumentError, DTypeError, MissingMethodError, MissingNameError
from ..named_errors import guards, named_error, under_name
from ..tensor import Tensor
from . import state_dict as state
from .conversion import Conversion
from .error_path import name_module
from .hooks import Hooks, RemovableHandle, call_watched, call_with_hooks
from .not_modules import instead_of
from .parameter import Parameter

__all__ = ["Module"]

_REGISTRIES = ("_parameters", "_buffers", "_modules")
_CREATE = {
    Parameter: "use nn.Parameter(tensor), or register_buffer() for a tensor that is not trained",
    Tensor: "use mt.tensor(data)",
}  # kind -> hint


class Module(Conversion):
    """Base class of every layer and model.

    Assigning a `Parameter` or a `Module` to an attribute registers it. `register_buffer` registers
    a tensor that is part of the state but is not trained. Subclasses must define `forward`, and
    must call `super().__init__()` before they assign attributes.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode, which affects layers such as dropout. See `train`
        and `eval`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> class Affine(mt.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = mt.nn.Parameter(mt.tensor([2.0]))
    ...
    ...     def forward(self, x):
    ...         return x * self.scale
    >>> Affine()(mt.tensor([3.0]))
    tensor([6.], grad_fn=<Mul>)
    """

    called_often = ("forward", "__call__")

    def __init__(self):
        put = super().__setattr__
        put("training", True)
        for registry in _REGISTRIES:
            put(registry, {})
        put("_non_persistent", set())
        put("_hooks", None)

    def forward(self, *args, **kwargs):
        """Compute the output. Subclasses must override this method."""
        raise MissingMethodError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args, **kwargs):
        try:
            if modes.watchers:
                return call_watched(self, args, kwargs)
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return call_with_hooks(self, args, kwargs)
        except Exception as error:
            named = named_error(error, type(self).forward, (self, *args), kwargs, rename=False)
            name_module(named, self)
            if named is error:
                raise
            raise named from error

    # Attributes

    def __setattr__(self, name, value):
        registry = self._registry_for(name, value)
        if registry is None:
            super().__setattr__(name, value)
            return
        self._forget(name, keep=registry)
        self._enter(registry, name, value)

    def _enter(self, registry, name, value):
        """Add an entry to its registry and to the instance's attributes, where Python looks first.

        With the registry alone, `__getattr__` would find the entry, but only after a failed
        lookup. That takes twenty times as long, and a model reads about 200 such attributes per
        generated token.
        """
        self.__dict__[registry][name] = self.__dict__[name] = value

    def _registry_for(self, name, value):
        """Return the registry that `value` belongs in, or None for a plain attribute."""
        mine = self.__dict__
        for kind, registry in ((Parameter, "_parameters"), (Module, "_modules")):
            if isinstance(value, kind):
                if registry not in mine:
                    raise AttributeError(
                        f"{type(self).__name__}: call super().__init__() before assigning "
                        f"the {kind.__name__.lower()} {name!r}"
                    )
                return registry
        for registry, kind in (
            ("_parameters", Parameter),
            ("_modules", Module),
            ("_buffers", Tensor),
        ):
            if name in mine.get(registry, ()):
                if value is not None and not isinstance(value, kind):
                    raise DTypeError(
                        f"{type(self).__name__}.{name} must be a {kind.__name__} or None",
                        got=type(value).__name__,
                        hint="assign nn.Parameter(value)"
                        if kind is Parameter
                        else f"run `del module.{name}` before assigning a value of another type",
                    )
                return registry
        return None

    def _forget(self, name, keep=None):
        """Delete the attribute `name` and its entries in all registries except `keep`."""
        self.__dict__.pop(name, None)
        for registry in _REGISTRIES:
            if registry != keep:
                self.__dict__[registry].pop(name, None)
        if keep != "_buffers":
            self._non_persistent.discard(name)

    def __getattr__(self, name):  # called only when ordinary lookup fails
        for registry in _REGISTRIES:
            entries = self.__dict__.get(registry)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self
        )

    def __delattr__(self, name):
        if any(name in self.__dict__.get(registry, ()) for registry in _REGISTRIES):
            self._forget(name)
        else:
            super().__delattr__(name)

    def __dir__(self):
        names = [name for registry in _REGISTRIES for name in self.__dict__.get(registry, ())]
        return sorted({*super().__dir__(), *names})

    def register_parameter(self, name, param):
        """Register a Parameter under `name`.

        With None as `param`, the attribute is None. A layer without bias, for example, registers
        None as its `bias`.
        """
        self._register("_parameters", name, param, Parameter)

    def register_buffer(self, name, tensor, persistent=True):
        """Register a buffer: a tensor that is part of the state but is not trained.

        Parameters
        ----------
        name : str
        tensor : Tensor or None
        persistent : bool
            Whether the buffer is part of the state dict.
        """
        self._register("_buffers", name, tensor, Tensor)
        if persistent:
            self._non_persistent.discard(name)
        else:
            self._non_persistent.add(name)

    def register_module(self, name, module):
        """Register a submodule under `name`. With None as `module`, the attribute is None."""
        self._register("_modules", name, module, Module)

    add_module = under_name("add_module", register_module)

    def _register(self, registry, name, value, kind):
        where = f"{type(self).__name__}: cannot register {name!r}"
        if registry not in self.__dict__:
            raise AttributeError(f"{where} before super().__init__()")
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(
                f"{where}: the name must be a nonempty str without a dot",
                got=repr(name),
                hint="replace '.' with '_', and a number n with str(n)",
            )
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise ArgumentError(f"{where}: the attribute already exists", hint="use another name")
        if value is not None and not isinstance(value, kind):
            raise DTypeError(
                f"{where}: the value must be a {kind.__name__} or None",
                got=type(value).__name__,
                hint=_CREATE.get(kind) or instead_of(value, self),
            )
        self._enter(registry, name, value)

    # Iterating over submodules

    def named_children(self):
        """Yield (name, module) for every direct submodule, each module only once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """Return an iterator over the direct submodules."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Yield (dotted name, module) for this module and all its descendants, parents first."""
        yield from self._walk(set() if memo is None else memo, prefix, remove_duplicate)

    def _walk(self, memo, prefix, remove_duplicate):
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module._walk(memo, below, remove_duplicate)

    def modules(self):
        """Return an iterator over this module and all its descendants."""
        return (module for _, module in self.named_modules())

    def _named_entries(self, registry, prefix, recurse, remove_duplicate):
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        seen = set()
        for module_name, module in modules if recurse else [(prefix, self)]:
            for name, value in module.__dict__[registry].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield f"{module_name}.{name}" if module_name else name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Yield (dotted name, parameter) pairs. A shared parameter appears under its first name.

        Parameters
        ----------
        prefix : str
            Prefix of every name, followed by a dot.
        recurse : bool
            Whether to include the parameters of submodules.
        remove_duplicate : bool
            Whether to list a shared parameter only once. If False, it is listed with each of its
            names.
        """
        yield from self._named_entries("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """Return an iterator over the parameters, each once, in the order of `named_parameters`."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Yield (dotted name, buffer) pairs."""
        yield from self._named_entries("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Return an iterator over the buffers, each once."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        """Return the submodule with the dotted name `target`. "" is the name of this module."""
        module = self
        for name in target.split(".") if target else ():
            found = module._modules.get(name)
            if found is None:
                raise MissingNameError(
                    f"{type(module).__name__} has no submodule {name!r} (looking for {target!r})"
                )
            module = found
        return module

    def get_parameter(self, target):
        """Return the parameter with the dotted name `target`."""
        return self._get_entry(target, "_parameters", "parameter")

    def get_buffer(self, target):
        """Return the buffer with the dotted name `target`."""
        return self._get_entry(target, "_buffers", "buffer")

    def _get_entry(self, target, registry, noun):
        path, _, name = target.rpartition(".")
        value = self.get_submodule(path).__dict__[registry].get(name)
        if value is None:
            raise MissingNameError(f"{type(self).__name__} has no {noun} {target!r}")
        return value

    def apply(self, fn):
        """Call `fn(module)` for every module, children first, and return this module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # Modes

    def train(self, mode=True):
        """Set `training` for this module and all its descendants, and return this module."""
        if not isinstance(mode, bool):
            raise DTypeError(
                f"{type(self).__name__}.train: mode must be a bool",
                got=repr(mode),
                hint="use train() for training and eval() for evaluation",
            )
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Switch to eval mode, like `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Set `requires_grad` for every parameter and return this module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Set the gradients of all parameters to None, or to zeros if `set_to_none` is False."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                with no_grad():
                    parameter.grad = parameter.grad.detach().zero_()

    # State dicts

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """Return a dict of the parameters and persistent buffers by dotted name, without copies.

        Parameters
        ----------
        destination : dict, optional
            Dictionary to which the entries are added.
        prefix : str
            Prefix of every name.
        keep_vars : bool
            Whether to return the parameters themselves instead of detached tensors.

        Returns
        -------
        dict of str to Tensor
        """
        destination = {} if destination is None else destination
        state.collect(self, destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}{name}."
                module.state_dict(destination=destination, prefix=below, keep_vars=keep_vars)
        return destination

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy a state dict into this module. See `minitorch_attn.nn.state_dict.load`."""
        return state.load(self, state_dict, strict, assign)

    # Hooks

    def _add_hook(self, which, entry, prepend=False):
        if not callable(entry[0]):
            raise DTypeError(
                f"{type(self).__name__}: hook must be callable", got=f"hook={entry[0]!r:.60}"
            )
        if self._hooks is None:
            self._hooks = Hooks()
        return RemovableHandle(getattr(self._hooks, which), entry, prepend)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Register a hook that is called as `hook(module, args)` before forward.

        A result other than None replaces `args`. With `with_kwargs=True`, the hook is called as
        `hook(module, args, kwargs)` and must return None or a pair (args, kwargs).
        """
        return self._add_hook("forward_pre", (hook, with_kwargs), prepend)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Register a hook that is called as `hook(module, args, output)` after forward.

        A result other than None replaces `output`. With `with_kwargs=True`, the hook is called as
        `hook(module, args, kwargs, output)`. With `always_call=True`, the hook is also called if
        forward raises an error, with None as the output.
        """
        return self._add_hook("forward", (hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Register a hook called as `hook(module, grad_output)` before the backward pass.

        A result other than None replaces `grad_output`.
        """
        return self._add_hook("backward_pre", (hook,), prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Register a hook called as `hook(module, grad_input, grad_output)` after backward.

        `grad_input` and `grad_output` are tuples, with None where there is no gradient. A tuple
        that the hook returns replaces `grad_input`.
        """
        return self._add_hook("backward", (hook,), prepend)

    # Text

    def extra_repr(self):
        """Return the text in the parentheses of `repr`. Subclasses may override this method."""
        return ""

    def _repr_lines(self):
        """Return a line `(name): repr` for each child."""
        return [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]

    def __repr__(self):
        name, extra, children = type(self).__name__, self.extra_repr(), self._repr_lines()
        lines = (extra.split("\n") if extra else []) + children
        if not children and len(lines) <= 1:
            return f"{name}({extra})"
        return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


Module.named_methods = ("__init__",)  # of subclasses
guards.add(Module.__call__.__code__)


def _indent(text):
    """Indent every line except the first by two spaces."""
    return text.replace("\n", "\n  ")
