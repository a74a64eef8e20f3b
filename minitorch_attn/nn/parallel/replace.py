"""Replace modules in a model: each new module gets the attribute name of the old module."""

__all__ = ["replace_modules"]


def replace_modules(model, choose):
    """Replace modules of a model in place. A shared module is replaced in all its places.

    Parameters
    ----------
    model : Module
    choose : callable
        Function that returns the replacement of a module, or None to keep the module. It is not
        called for the children of a replaced module.

    Returns
    -------
    int
        Number of modules that were replaced.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Sequential(mt.nn.ReLU(), mt.nn.Linear(2, 3))
    >>> replace_modules(model, lambda m: mt.nn.Tanh() if type(m) is mt.nn.ReLU else None)
    1
    >>> model[0]
    Tanh()
    """
    made = {}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is None:
                continue
            if id(child) not in made:
                made[id(child)] = child, choose(child)
            replacement = made[id(child)][1]
            if replacement is not None:
                replacement.train(child.training)
                setattr(parent, name, replacement)
    return sum(replacement is not None for _, replacement in made.values())
