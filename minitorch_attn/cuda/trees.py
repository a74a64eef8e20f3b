"""Trees of tensors: arguments and results in tuples, lists and dicts."""

from ..tensor import Tensor

__all__ = ["map_tensors", "signature", "tensors_in"]


def map_tensors(tree, function):
    """Return a tree with `function(tensor)` in place of each tensor.

    Parameters
    ----------
    tree : Tensor, or tuple, list or dict of trees, or anything else, which is left as it is
    function : callable

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> map_tensors({"x": (mt.ones(2), 3)}, lambda x: x.shape)
    {'x': ((2,), 3)}
    """
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {name: map_tensors(branch, function) for name, branch in tree.items()}
    if isinstance(tree, (tuple, list)):
        branches = [map_tensors(branch, function) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else type(tree)(branches)
    return tree


def tensors_in(tree):
    """Return the tensors of a tree, in order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tensors_in([mt.ones(2), (3, mt.zeros(1))])
    [tensor([1., 1.]), tensor([0.])]
    """
    found = []
    map_tensors(tree, found.append)
    return found


def signature(tree):
    """Return a key that is equal for two trees if they differ only in the values of tensors.

    Returns
    -------
    hashable
        Shapes and dtypes of the tensors, and all other leaves. Leaves that are not hashable are
        compared by identity.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> signature([mt.ones(2), 3]) == signature([mt.zeros(2), 3])
    True
    >>> signature([mt.ones(2), 3]) == signature([mt.zeros(2), 4])
    False
    """
    if isinstance(tree, Tensor):
        return "tensor", tree.shape, str(tree.dtype)
    if isinstance(tree, dict):
        return "dict", tuple((name, signature(branch)) for name, branch in tree.items())
    if isinstance(tree, (tuple, list)):
        return type(tree).__name__, tuple(signature(branch) for branch in tree)
    try:
        hash(tree)
    except TypeError:
        return "object", id(tree)
    return type(tree).__name__, tree
