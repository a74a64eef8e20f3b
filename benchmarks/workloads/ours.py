"""Steps in this library: a model with the common weights, its batch shared out over threads."""

import minitorch_attn as mt
from minitorch_attn.training import ThreadSplit
from minitorch_attn.training.inference import forward_in_threads

from . import Step
from .weights import draw

__all__ = ["filled", "forward_step", "training_step"]


def filled(model):
    """The model with the weights of `weights.draw`."""
    with mt.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(mt.tensor(draw(name, parameter.shape)))
    return model


def training_step(model, loss_function, arrays, *, threads=2, learning_rate=None, results=dict):
    """Forward, backward and, with a learning rate, the update by AdamW.

    Parameters
    ----------
    model : Module
    loss_function : callable
        Of the model and the batch.
    arrays : tuple of ndarray
        The batch.
    threads : int
        1: the threads are those of BLAS.
    learning_rate : float, optional
    results : callable, optional
        Returns {name: ndarray} of further results to compare.
    """
    filled(model)
    batch = tuple(mt.tensor(array) for array in arrays)
    backward = ThreadSplit(model, loss_function, threads)
    optimizer = learning_rate and mt.optim.AdamW(model.parameters(), lr=learning_rate)
    if optimizer:
        optimizer.threads = threads
    latest = {}

    def run():
        model.zero_grad()
        latest["loss"] = backward(batch)
        if optimizer:
            optimizer.step()

    def evidence():
        found = {f"grad {n}": p.grad.numpy() for n, p in model.named_parameters()}
        return {**found, "loss": latest["loss"].numpy(), **results()}

    return Step(run, evidence)


def forward_step(model, array, threads=2):
    """The forward pass without a graph, the batch in `threads` parts."""
    filled(model)
    batch, latest = mt.tensor(array), {}

    def run():
        latest["y"] = forward_in_threads(model, batch, threads)

    return Step(run, lambda: {"y": latest["y"].numpy()})
