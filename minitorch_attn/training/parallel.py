"""Data-parallel training: each thread processes a part of the batch, and gradients are added.

BLAS threads speed up only large matrix products; operations on activations between them run on
one core. With the batch split among threads, every operation uses all cores. NumPy releases the
global interpreter lock (GIL) while it computes and holds it only between operations.
"""

import copy
from functools import partial

from ..backend.random import own_offsets, reserve_offsets
from ..backend.threads import shares, together
from ..errors import ArgumentError, ShapeError
from ..nn import Mask
from ..nn.batch_norm import _BatchNorm
from ..tensor import Tensor, tensor, wrap

__all__ = ["ThreadSplit", "split_batch"]


class ThreadSplit:
    r"""Run loss.backward() for a batch, split among several threads.

    With n_k of the n examples in part k, loss = sum_k (n_k / n) loss_k, so each part's gradient is
    weighted by n_k / n. The parts are added in a fixed order, so the result does not depend on
    which thread finishes first. It equals the whole batch's gradient up to rounding.

    Parameters
    ----------
    model : Module
        Model whose parameters receive the gradients. The other threads use copies that share its
        arrays.
    loss_function : callable
        Function `loss_function(model, batch)` that returns the mean over examples, a 0-d Tensor.
    threads : int
    count : callable, optional
        Function `count(batch)` that returns how many examples the mean includes, such as the number
        of tokens that are not padding. Default: the size of the first axis.

    Notes
    -----
    Each thread has a separate counter range for dropout. A seed therefore gives the same masks in
    every run with the same number of threads. Other random numbers in a forward pass raise an
    error, and so does batch normalization, which needs the whole batch.

    While this runs, each matrix product uses one thread.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 1)
    >>> def loss_function(model, batch):
    ...     return (model(batch) ** 2).mean()
    >>> split = ThreadSplit(model, loss_function, threads=2)
    >>> loss = split(mt.ones(4, 3))
    >>> model.weight.grad.shape
    (1, 3)
    """

    def __init__(self, model, loss_function, threads=2, count=None):
        if threads < 1:
            raise ArgumentError("ThreadSplit: threads must be at least 1", got=f"{threads}")
        for name, module in model.named_modules():
            if isinstance(module, _BatchNorm) and threads > 1:
                raise ArgumentError(
                    "ThreadSplit: batch normalization is not supported: it needs the whole batch",
                    got=f"{name}: {type(module).__name__}",
                    hint="train with threads=1, or use LayerNorm or GroupNorm",
                )
        self.model, self.loss_function = model, loss_function
        self.threads, self.count = threads, count or first_size
        self._copies = []

    def __call__(self, batch):
        """Add the gradient of the loss on `batch` to the `.grad` of the model's parameters.

        Parameters
        ----------
        batch : Tensor, or tuple, list or dict of tensors and masks, with the batch as first axis

        Returns
        -------
        0-d Tensor
            Loss without a graph.
        """
        parts = split_batch(batch, self.threads) if self.threads > 1 else [batch]
        if len(parts) == 1:
            loss = self.loss_function(self.model, batch)
            loss.backward()
            return loss.detach()
        counts = [self.count(part) for part in parts]
        weights = [count / max(sum(counts), 1) for count in counts]
        models = [self.model, *self._copies_for(len(parts) - 1)]
        work = list(zip(models, parts, weights, reserve_offsets(len(parts)), strict=True))
        losses = together([partial(self._part, *item) for item in work])
        for other in models[1:]:
            self._add_gradients(other)
        return _total(losses, weights)

    def _part(self, model, part, weight, first_offset):
        with own_offsets(first_offset):
            loss = self.loss_function(model, part)
            loss.backward(tensor(weight, dtype=loss.dtype, device=loss.device))
        return loss.detach()

    def _copies_for(self, count):
        """Return copies of the model that share its arrays, one for each additional thread."""
        while len(self._copies) < count:
            self._copies.append(copy.deepcopy(self.model))
        tensors = [*self.model.parameters(), *self.model.buffers()]
        for other in self._copies[:count]:
            for mine, copied in zip(self.model.modules(), other.modules(), strict=True):
                if copied.training != mine.training:
                    copied.training = mine.training
            for mine, copied in zip(tensors, [*other.parameters(), *other.buffers()], strict=True):
                if copied.array is not mine.array:
                    copied.data = mine.detach()
                    copied._version = mine._version
                copied.grad = None
        return self._copies[:count]

    def _add_gradients(self, other):
        """Add a copy's gradients to the model's, with the parameters split among threads."""
        pairs = list(zip(self.model.parameters(), other.parameters(), strict=True))
        parts = shares([mine.array.size for mine, _ in pairs], self.threads)
        together([partial(_add_pairs, pairs[part]) for part in parts])


def _add_pairs(pairs):
    for mine, copied in pairs:
        if copied.grad is None:
            continue
        if mine.grad is None:
            mine.grad = copied.grad
        else:
            mine.grad.array += copied.grad.array
            mine.grad.changed_in_place()
        copied.grad = None


def _total(losses, weights):
    """Return sum_k weight_k loss_k."""
    return sum(loss * weight for loss, weight in zip(losses, weights, strict=True))


def first_size(batch):
    """Return the size of the first axis of the first tensor in a batch."""
    return _sizes(batch)[0]


def _sizes(batch):
    """Return the first-axis size of every tensor in a batch."""
    if isinstance(batch, Tensor):
        return [batch.shape[0] if batch.ndim else 0]
    if isinstance(batch, (tuple, list, dict)):
        values = batch.values() if isinstance(batch, dict) else batch
        return [size for value in values for size in _sizes(value)]
    return []


def split_batch(batch, parts):
    """Split a batch into at most `parts` parts of almost equal size, none of which is empty.

    Parameters
    ----------
    batch : Tensor, or tuple, list or dict of tensors and masks
        Tensors whose first axes have the same size. Other values, and a mask shared by all
        examples, are passed to each part.
    parts : int

    Returns
    -------
    list

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [part["x"].shape for part in split_batch({"x": mt.zeros(5, 3)}, 2)]
    [(3, 3), (2, 3)]
    """
    sizes = set(_sizes(batch))
    if len(sizes) != 1:
        raise ShapeError(
            "split_batch: the first axes of the tensors must have the same size",
            got=f"sizes {sorted(sizes)}" if sizes else "no tensor",
            expected="the batch as the first axis of every tensor",
        )
    (size,) = sizes
    parts = max(1, min(parts, size))
    edges = [round(size * k / parts) for k in range(parts + 1)]
    edges = [size - edge for edge in reversed(edges)]  # the first parts are larger
    return [_slice(batch, slice(*edge), size) for edge in zip(edges, edges[1:], strict=False)]


def _slice(value, rows, size):
    if isinstance(value, Tensor):
        return value[rows] if value.requires_grad else wrap(value.array[rows])
    if isinstance(value, Mask):  # a mask shared by all examples is passed to each part
        each = len(value.shape) == 4 and value.shape[0] == size
        return Mask(value.attend[rows], value.is_causal) if each else value
    if isinstance(value, dict):
        return {name: _slice(item, rows, size) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_slice(item, rows, size) for item in value]
        return type(value)(items) if type(value) in (tuple, list) else type(value)(*items)
    return value
