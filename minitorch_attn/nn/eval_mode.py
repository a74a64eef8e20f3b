"""Eval mode for a model inside a `with` block."""

from contextlib import contextmanager

from .checks import check_module

__all__ = ["evaluating"]


@contextmanager
def evaluating(model):
    """Switch a model to eval mode inside a `with` block, then restore each module's mode.

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
    check_module("evaluating", model, "model")
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield model
    finally:
        for module, training in before:
            module.training = training
