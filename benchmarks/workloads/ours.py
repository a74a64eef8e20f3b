"""Forward and training steps in this library (`ours`), with or without a split batch.

`LOOPS` has the names of four training loops. "commands" is the loop of this library's own commands,
which splits the batch over threads. "processes" splits it over processes instead. "plain" is the
loop of the README, which uses `nn.DataParallel`. "unsplit" is the plain loop without
`nn.DataParallel`.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.training import ProcessSplit, ThreadSplit

from . import Step
from .place import device
from .weights import draw

__all__ = ["LOOPS", "filled", "forward_step", "step_with_input", "training_step"]

LOOPS = ("commands", "processes", "plain", "unsplit")
PARTS = 2


def filled(model):
    """Set a model's weights with `weights.draw`, move the model to the device, and return it."""
    with mt.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(mt.tensor(draw(name, parameter.shape)))
    return model.to(device())


def training_step(
    model, loss_function, arrays, *, loop="commands", learning_rate=None, clip=None, results=dict
):
    """Build a training step: forward and backward pass and, if requested, an AdamW update.

    Parameters
    ----------
    model : Module
    loss_function : callable
        Function that computes the loss from the model and the batch.
    arrays : tuple of ndarray
        The batch.
    loop : str
        One of `LOOPS`.
    learning_rate : float, optional
        Learning rate of AdamW. By default, the parameters are not updated.
    clip : float, optional
        Gradient clipping: the maximum norm of all gradients together.
    results : callable, optional
        Function that returns a dict of further NumPy arrays to compare, by name.
    """
    filled(model)
    batch = tuple(mt.tensor(array, device=device()) for array in arrays)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = learning_rate and mt.optim.AdamW(trained.values(), lr=learning_rate)
    backward = _backward(model, loss_function, loop)
    latest = {}

    def run():
        model.zero_grad()
        latest["loss"] = backward(batch)
        if clip:
            mt.nn.utils.clip_grad_norm_(trained.values(), clip)
        if optimizer:
            optimizer.step()

    def evidence():
        found = {f"grad {n}": p.grad.numpy() for n, p in trained.items()}
        return {**found, "loss": latest["loss"].detach().numpy(), **results()}

    return Step(run, evidence)


def step_with_input(model, x, cotangents, loop="commands"):
    """Build a training step whose results include the gradient of the input, as "grad x".

    Parameters
    ----------
    model : Module
    x, cotangents : ndarray of shape (batch, ...)
        The input, and the output gradient. The step divides the output gradient by the batch size.
    loop : str
        One of `LOOPS`.
    """
    inputs = {}

    def loss_function(model, batch):
        x, cotangents, numbers = batch  # the rows of this thread
        number = 0 if loop == "unsplit" else numbers[0].item()
        x = inputs[number] = x.detach().requires_grad_()
        return (model(x) * cotangents).sum() / len(x)

    def results():
        return {"grad x": np.concatenate([inputs[n].grad.numpy() for n in sorted(inputs)])}

    batch = x, cotangents, np.arange(len(x))
    return training_step(model, loss_function, batch, loop=loop, results=results)


def _backward(model, loss_function, loop):
    """Return a function that takes a batch, runs both passes, and returns the loss."""
    if loop == "commands":
        return ThreadSplit(model, loss_function, PARTS)
    if loop == "processes":
        return ProcessSplit(model, loss_function, PARTS)
    called = _wrapped(model, loop)

    def backward(batch):
        loss = loss_function(called, batch)
        loss.backward()
        return loss

    return backward


def _wrapped(model, loop):
    """Wrap the model in `nn.DataParallel` if `loop` splits the batch."""
    return model if loop == "unsplit" else mt.nn.DataParallel(model, threads=PARTS)


def forward_step(model, array, loop="plain"):
    """Build a step that runs only the forward pass, without an autograd graph."""
    called = _wrapped(filled(model), loop)
    batch, latest = mt.tensor(array, device=device()), {}

    def run():
        with mt.no_grad():
            latest["y"] = called(batch)

    return Step(run, lambda: {"y": latest["y"].numpy()})
