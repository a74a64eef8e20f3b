"""Nested values: change or list the tensors in tuples, lists and dicts."""

from copy import copy

from ..tensor import Tensor

__all__ = ["mapped", "tensors_in"]


def mapped(value, kind, change):
    """Apply `change` to each instance of `kind` in nested tuples, lists and dicts.

    Examples
    --------
    >>> mapped({"a": [1, 2.5], "b": (3,)}, int, lambda n: -n)
    {'a': [-1, 2.5], 'b': (-3,)}
    """
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        items = {name: mapped(item, kind, change) for name, item in value.items()}
        if type(value) is dict:
            return items
        result = copy(value)  # an instance of a subclass, such as the output of a model
        result.update(items)
        return result
    if isinstance(value, (tuple, list)):
        items = [mapped(item, kind, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def tensors_in(value):
    """Return the tensors in nested tuples, lists and dicts, in order."""
    found = []
    mapped(value, Tensor, lambda tensor: found.append(tensor) or tensor)
    return found
