"""Containers of modules and parameters: Sequential, ModuleList, ModuleDict and others."""

import operator
from collections.abc import Mapping

from ..errors import ArgumentError, DTypeError, IndexRangeError
from ..named_errors import named_error, names_arguments
from .module import Module
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Listed(Module):
    """Base class of containers indexed by integers: indexing, slicing, length and append."""

    called_often = (*Module.called_often, "__getitem__", "__iter__")
    named_methods = None  # all others

    _entries = "_modules"

    def _registered(self):
        return getattr(self, self._entries)

    def _add(self, name, value):
        self.register_module(name, value)

    def _key(self, index):
        """Return the name of the entry at `index`, which may be negative."""
        size = len(self)
        try:
            number = operator.index(index)
        except TypeError:
            raise DTypeError(
                f"{type(self).__name__}: the index must be an integer or a slice",
                got=f"{index!r:.60}",
            ) from None
        if not -size <= number < size:
            raise IndexRangeError(
                f"{type(self).__name__}: the index is out of range",
                got=f"index {number}, {size} entries",
                expected=f"from {-size} to {size - 1}" if size else "a container with entries",
                hint="use append() to add an entry at the end",
            )
        return list(self._registered())[number]

    def _replace_all(self, values):
        """Replace all entries with `values`, numbered from 0."""
        for name in list(self._registered()):
            self._forget(name)
        for i, value in enumerate(values):
            self._enter(self._entries, str(i), value)

    def __len__(self):
        return len(self._registered())

    def __iter__(self):
        return iter(self._registered().values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._like(list(self)[index])
        return self._registered()[self._key(index)]

    def __setitem__(self, index, value):
        self._add(self._key(index), value)

    def __delitem__(self, index):
        keys = list(self._registered())
        doomed = set(keys[index]) if isinstance(index, slice) else {self._key(index)}
        self._replace_all([v for k, v in self._registered().items() if k not in doomed])

    def append(self, value):
        """Append an entry and return this container."""
        self._add(str(len(self)), value)
        return self

    def extend(self, values):
        """Append several entries and return this container."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self, index, value):
        """Insert an entry before position `index` and return this container."""
        *values, value = self.append(value)  # converted if necessary
        values.insert(index, value)
        self._replace_all(values)
        return self

    def pop(self, index=-1):
        """Remove the entry at `index` and return it."""
        value = self[index]
        del self[index]
        return value

    @names_arguments
    def __iadd__(self, values):
        return self.extend(values)

    @names_arguments
    def __add__(self, values):
        return self._like([*self, *values])


class Sequential(_Listed):
    """Sequence of modules. Each module is called with the output of the previous module.

    Parameters
    ----------
    *modules : Module, or a single dict of str to Module

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> net = mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.ReLU())
    >>> net
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    >>> len(net[:1])
    1
    """

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.register_module(name, module)
        else:
            for i, module in enumerate(modules):
                self.register_module(str(i), module)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))  # names are kept
        return super().__getitem__(index)

    def _like(self, modules):
        return type(self)(*modules)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class ModuleList(_Listed):
    """A list of modules, each registered as a submodule.

    Parameters
    ----------
    modules : iterable of Module, optional

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.ModuleList([mt.nn.ReLU() for _ in range(12)])
    ModuleList(
      (0-11): 12 x ReLU()
    )
    """

    def __init__(self, modules=None):
        super().__init__()
        self.extend(_checked_iterable(self, modules))

    def _like(self, modules):
        return type(self)(modules)

    def _repr_lines(self):
        """Format the entries, with consecutive identical entries on one line."""
        runs = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = []
        for first, last, text in runs:
            text = text.replace("\n", "\n  ")
            count = last - first + 1
            name = f"({first}-{last}): {count} x " if count > 1 else f"({first}): "
            lines.append(name + text)
        return lines


class _Named(Module):
    """Base class of ModuleDict and ParameterDict, which are indexed by name."""

    called_often = (*Module.called_often, "__getitem__", "__iter__")
    named_methods = None  # all others

    _entries = "_modules"

    def __init__(self, values=None):
        super().__init__()
        if values is not None:
            self.update(values)

    def __getitem__(self, key):
        try:
            return getattr(self, self._entries)[key]
        except (KeyError, TypeError) as error:  # TypeError: the key cannot be hashed
            raise named_error(error, type(self).__getitem__, (self, key)) from None

    def __delitem__(self, key):
        del getattr(self, self._entries)[key]
        self._forget(key)

    @names_arguments
    def __contains__(self, key):
        return key in getattr(self, self._entries)

    def __len__(self):
        return len(getattr(self, self._entries))

    def __iter__(self):
        return iter(getattr(self, self._entries))

    def keys(self):
        """Return the names."""
        return getattr(self, self._entries).keys()

    def values(self):
        """Return the entries."""
        return getattr(self, self._entries).values()

    def items(self):
        """Return the (name, entry) pairs."""
        return getattr(self, self._entries).items()

    def update(self, values):
        """Add or replace entries from a mapping or from pairs."""
        pairs = values.items() if hasattr(values, "items") else values
        for key, value in pairs:
            self[key] = value

    def pop(self, key):
        """Remove an entry and return it."""
        value = self[key]
        del self[key]
        return value

    def clear(self):
        """Remove all entries."""
        for key in list(self):
            del self[key]


class ModuleDict(_Named):
    """A dictionary of modules, each registered as a submodule.

    Parameters
    ----------
    values : mapping of str to Module, or iterable of (str, Module) pairs, optional

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> heads = mt.nn.ModuleDict({"tag": mt.nn.Linear(2, 3, bias=False)})
    >>> list(heads.state_dict())
    ['tag.weight']
    """

    def __setitem__(self, key, module):
        self.register_module(key, module)


class ParameterDict(_Named):
    """A dictionary of registered parameters. Tensors are converted to parameters."""

    _entries = "_parameters"

    def __setitem__(self, key, value):
        self.register_parameter(key, _as_parameter(value))

    def _repr_lines(self):
        return _parameter_lines(self)


class ParameterList(_Listed):
    """A list of registered parameters. Tensors are converted to parameters.

    Parameters
    ----------
    values : iterable of Parameter or Tensor, optional

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.ParameterList([mt.zeros(2, 3), mt.zeros(5)])
    ParameterList(
      (0): Parameter of shape (2, 3), float32
      (1): Parameter of shape (5,), float32
    )
    """

    _entries = "_parameters"

    def __init__(self, values=None):
        super().__init__()
        self.extend(_checked_iterable(self, values))

    def _like(self, values):
        return type(self)(values)

    def _add(self, name, value):
        self.register_parameter(name, _as_parameter(value))

    def _repr_lines(self):
        return _parameter_lines(self)


def _as_parameter(value):
    return value if isinstance(value, Parameter) else Parameter(value)


def _parameter_lines(container):
    return [
        f"({name}): Parameter of shape {p.shape}, {p.dtype}"
        for name, p in container._parameters.items()
    ]


def _checked_iterable(container, values):
    if values is None:
        return ()
    if isinstance(values, Module) and not hasattr(values, "__iter__"):
        raise DTypeError(
            f"{type(container).__name__}: values must be a list, not a single module",
            got=type(values).__name__,
            hint=f"{type(container).__name__}([module])",
        )
    try:
        return list(values)
    except TypeError:
        raise ArgumentError(
            f"{type(container).__name__}: values must be iterable",
            got=type(values).__name__,
            hint=f"{type(container).__name__}([...])",
        ) from None
