"""Data-parallel training: each thread processes a part of the batch. The gradients are summed.

`nn.DataParallel` splits only the calls of the model. Here the threads also compute the loss. This
is faster if the loss takes a large part of the time, for example with a large vocabulary.
"""

from functools import partial

from ..autograd.parallel import in_parallel
from ..named_errors import NamedErrors
from ..nn.batch_parts import batch_sizes, split_batch
from ..nn.data_parallel import check_threads, refuse_batch_statistics

__all__ = ["ThreadSplit", "part_weights", "weighted_sum"]


class ThreadSplit(NamedErrors):
    r"""Run loss.backward() for a batch, split among several threads.

    If part k has n_k of the n examples, and their mean loss is loss_k, the loss of the batch is
    sum_k (n_k / n) loss_k. The gradient of part k is therefore weighted by n_k / n. The gradients
    are added in a fixed order, so the sum does not depend on which thread finishes first. The sum
    equals the gradient of the full batch up to rounding.

    Parameters
    ----------
    model : Module
        Model whose parameters receive the gradients.
    loss_function : callable
        Function `loss_function(model, batch)` that returns the mean over examples, a 0-d Tensor.
    threads : int
    count : callable, optional
        Function `count(batch)` that returns the number of terms of the mean, such as the number of
        tokens that are not padding. Default: the size of the first axis.

    Notes
    -----
    Each thread draws its dropout masks from a separate part of the random sequence. A seed
    therefore gives the same masks in every run with the same number of threads. Drawing other
    random numbers in a forward pass raises an error. Batch normalization also raises an error,
    because it needs the full batch.

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

    unit = "threads"  # workers that run the parts; also the name of the argument in errors

    def __init__(self, model, loss_function, threads=2, count=None):
        name = type(self).__name__
        check_threads(name, threads, self.unit)
        if threads > 1:
            refuse_batch_statistics(name, model)
        self.model, self.loss_function = model, loss_function
        self.threads, self.count = threads, count or _first_size

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
        return self._run(batch)

    def _run(self, batch):
        """Run the forward and backward pass, with a part of the batch on each thread."""
        parts = split_batch(batch, self.threads) if self.threads > 1 else [batch]
        if len(parts) == 1:
            loss = self.loss_function(self.model, batch)
        else:
            losses = in_parallel([partial(self.loss_function, self.model, part) for part in parts])
            loss = weighted_sum(losses, part_weights([self.count(part) for part in parts]))
        loss.backward()
        return loss.detach()


def part_weights(counts):
    """Return the weights n_k / n of the parts, given their numbers of terms n_k."""
    total = max(sum(counts), 1)
    return [count / total for count in counts]


def weighted_sum(losses, weights):
    """Return the loss of the batch, sum_k (n_k / n) loss_k, from its parts' losses and weights."""
    return sum(loss * weight for loss, weight in zip(losses, weights, strict=True))


def _first_size(batch):
    return batch_sizes(batch)[0]
