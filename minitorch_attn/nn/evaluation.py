"""Eval mode for a while."""

from contextlib import contextmanager

__all__ = ["evaluating"]


@contextmanager
def evaluating(model):
    """Eval mode inside the `with` block; behind it every module has the mode that it had.

    Parameters
    ----------
    model : Module

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.Dropout(0.5).eval())
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model[0].training, model[1].training
    (True, False)
    """
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield model
    finally:
        for module, training in before:
            module.training = training
