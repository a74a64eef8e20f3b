"""Trees of parameters: convert between nested dicts and the library's flat names."""

__all__ = ["flat", "nested"]

_PLAIN = ("token_embedding", "position_embedding")  # layers whose only tensor is called `weight`


def nested(arrays, wrap):
    """Build p, the nested dict of parameters, from a dict with the library's parameter names.

    Parameters
    ----------
    arrays : dict of str to array
        Arrays by name, such as "blocks.0.norm1.weight".
    wrap : callable
        Function that converts an array to a tensor.

    Returns
    -------
    dict

    Examples
    --------
    >>> nested({"blocks.0.norm1.bias": 1, "token_embedding.weight": 2}, str)
    {'blocks': [{'norm1': {'bias': '1'}}], 'token_embedding': '2'}
    """
    tree = {}
    for name, array in arrays.items():
        *path, last = name.split(".")
        if path and path[-1] in _PLAIN:
            *path, last = path
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = wrap(array)
    return _with_lists(tree)


def _with_lists(tree):
    """Convert each dict whose keys are "0", "1", ... to a list."""
    if not isinstance(tree, dict):
        return tree
    inner = {key: _with_lists(value) for key, value in tree.items()}
    return list(inner.values()) if "0" in inner else inner


def flat(tree, prefix=""):
    """Yield (name, leaf) for every leaf of a nested dict, with the library's names.

    Examples
    --------
    >>> list(flat({"blocks": [{"norm1": {"bias": 1}}], "token_embedding": 2}))
    [('blocks.0.norm1.bias', 1), ('token_embedding.weight', 2)]
    """
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from flat(value, f"{prefix}{key}.")
    else:
        name = prefix[:-1]
        yield (f"{name}.weight" if name.rpartition(".")[2] in _PLAIN else name), tree
