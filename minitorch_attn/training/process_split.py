"""Data-parallel training in processes: each process computes the gradient of a part of the batch.

Threads of one process share Python's global interpreter lock (GIL), so only one of them at a time
runs Python code. In a model with many small operations, the others wait for it. Processes do not
share the lock. They share the memory of the parameters and of the gradients instead.
"""

import sys

import numpy as np

from ..autograd.modes import state
from ..autograd.nested import tensors_in
from ..autograd.parallel import must_stay_in_thread
from ..backend.batch_part import current
from ..backend.gemm import is_dry_run
from ..backend.shared_memory import is_shared, shared_arrays
from ..nn.batch_parts import split_batch
from ..nn.data_parallel import needs_one_call
from .parallel import ThreadSplit, part_weights
from .split_workers import SplitWorkers, tensors_of

__all__ = ["ProcessSplit"]


class ProcessSplit(ThreadSplit):
    r"""Run loss.backward() for a batch, split among several processes.

    The interface, the loss, the gradients and the dropout masks are the same as those of
    `ThreadSplit`. Processes are faster for a model with many small operations. The optimizer and
    everything else in the training loop stay in the calling process.

    Parameters
    ----------
    model : Module
        Model whose parameters receive the gradients. The parameters and buffers move to memory
        that the processes share, so each process has the current values.
    loss_function : callable
        Function `loss_function(model, batch)` that returns the mean over examples, a 0-d Tensor.
    processes : int, default 2
        Number of processes, including the calling one.
    count : callable, optional
        Function `count(batch)` that returns the number of terms of the mean, such as the number of
        tokens that are not padding. Default: the size of the first axis.

    Raises
    ------
    ArgumentError
        If `processes` is invalid, or if the model uses batch normalization in training.
    CommunicationError
        If a process was killed, or if its backward pass failed.
    DTypeError
        If the batch contains a value other than tensors, masks, plain values, and tuples, lists,
        dicts and named tuples of these.

    Notes
    -----
    *Equation.* If part k has n_k of the n examples, and their mean loss is loss_k, the loss of the
    batch is sum_k (n_k / n) loss_k. Process k adds (n_k / n) dloss_k/dw to a shared sum, in the
    order of the parts.

    *Workers.* The calling process computes the first part. The first call forks one worker for each
    other part. The workers wait between calls. They end when this object is deleted, when `close()`
    is called, or when the program ends. A later call replaces the workers if a
    parameter has moved to other memory (the first step of an optimizer moves parameters), or if a
    number, string or flag of a module has changed (`model.eval()` changes a flag). A worker has its
    own copies of all other objects. It does not see later changes to global variables or lists,
    and the calling process does not see what `loss_function` changes in a worker.

    *Threads.* The call uses `ThreadSplit` instead of processes on systems other than Linux, on a
    GPU, under autocast, in anomaly mode, and while operations are recorded, for example by
    `mt.trace` or `mt.checkpoint`. It also does so if an input requires a gradient, or if the model
    or a parameter has hooks. If the forward pass fails in a worker, `ThreadSplit` repeats the call,
    so that the calling process raises the error.

    *Memory.* All calls write the gradients to the same memory. If you still hold the Tensor of an
    earlier gradient, the next call first gives it a copy, so it keeps its values. A NumPy array
    that shares memory with an earlier gradient is overwritten.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 1)
    >>> def loss_function(model, batch):
    ...     return (model(batch) ** 2).mean()
    >>> split = ProcessSplit(model, loss_function, processes=2)
    >>> loss = split(mt.ones(4, 3))
    >>> model.weight.grad.shape
    (1, 3)
    >>> split.close()
    """

    unit = "processes"

    def __init__(self, model, loss_function, processes=2, count=None):
        super().__init__(model, loss_function, processes, count)
        self.processes = processes
        self._workers = None

    def _run(self, batch):
        """Run the backward pass in processes, or in threads if processes cannot do it."""
        if self.processes == 1:
            return super()._run(batch)
        modules = list(self.model.modules())
        tensors = tensors_of(modules)
        if not _uses_processes(batch, modules, tensors):
            return super()._run(batch)
        parts = split_batch(batch, self.processes)
        if len(parts) == 1:
            return super()._run(batch)
        workers = self._current_workers(modules, tensors)
        weights = part_weights([self.count(part) for part in parts])
        try:
            loss = workers.run(parts, weights)
        except BaseException:
            self.close()
            raise
        return super()._run(batch) if loss is None else loss

    def close(self):
        """End the workers. The next call starts new workers."""
        if self._workers is not None:
            self._workers.stop()
            self._workers = None

    def _current_workers(self, modules, tensors):
        """Return workers with the current parameters and settings of the model."""
        if self._workers is None or not self._workers.is_current(modules, tensors):
            self.close()
            _move_to_shared_memory(tensors)
            self._workers = SplitWorkers(self.model, self.loss_function, self.processes)
        return self._workers


def _uses_processes(batch, modules, tensors):
    """Return False if a call requires threads; see the notes of `ProcessSplit`."""
    inputs = tensors_in(batch)
    return (
        _can_fork(tensors + inputs)
        and state.grad_enabled
        and not must_stay_in_thread()
        and current.rows is None
        and not any(tensor.requires_grad for tensor in inputs)
        and not any(map(needs_one_call, modules))
        and not any(map(_has_hooks, tensors))
    )


def _can_fork(tensors):
    """Return True if processes can share the tensors: NumPy arrays, on Linux, not in a dry run.

    A dry run only counts costs; it does not compute results (see `backend.gemm.dry_run`).
    """
    on_host = all(type(tensor.array) is np.ndarray for tensor in tensors)
    return sys.platform == "linux" and on_host and not is_dry_run()


def _has_hooks(tensor):
    """Return True if a tensor has hooks.

    A hook must see the gradient of the whole batch, but a process computes only a part of it.
    """
    leaf = tensor._edge and tensor._edge[0]
    return bool(leaf) and bool(leaf.hooks or leaf.after_accumulate)


def _move_to_shared_memory(tensors):
    """Move the arrays of tensors to shared memory, unless they are there already."""
    for tensor in tensors:
        if not is_shared(tensor.array):
            # A separate block for each array, because an optimizer later moves only some of them.
            (view,) = shared_arrays([(tensor.array.shape, tensor.array.dtype)])
            view[...] = tensor.array
            tensor.array = view
