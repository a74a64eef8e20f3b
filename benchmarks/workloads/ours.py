"""Build forward and training steps in this library, with the batch split over several threads."""

import minitorch_attn as mt
from minitorch_attn.training import ThreadSplit
from minitorch_attn.training.inference import forward_in_threads

from . import Step
from .weights import draw

__all__ = ["filled", "forward_step", "training_step"]


def filled(model):
    """Fill the model with the weights of `weights.draw`, and return it."""
    with mt.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(mt.tensor(draw(name, parameter.shape)))
    return model


def training_step(model, loss_function, arrays, *, threads=2, learning_rate=None, results=dict):
    """Build a training step: forward and backward pass and, if requested, an AdamW update.

    Parameters
    ----------
    model : Module
    loss_function : callable
        Function that computes the loss from the model and the batch.
    arrays : tuple of ndarray
        The batch.
    threads : int
        Number of threads for the batch. With 1, only BLAS uses threads.
    learning_rate : float, optional
        Learning rate of AdamW. By default, the parameters are not updated.
    results : callable, optional
        Function that returns more results to compare, {name: ndarray}.
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
    """Build a forward step without an autograd graph, with the batch split over threads."""
    filled(model)
    batch, latest = mt.tensor(array), {}

    def run():
        latest["y"] = forward_in_threads(model, batch, threads)

    return Step(run, lambda: {"y": latest["y"].numpy()})
