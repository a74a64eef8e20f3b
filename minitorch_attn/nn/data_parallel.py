"""Data parallelism: `DataParallel` splits a module's batch among the cores of the CPU.

BLAS threads speed up only large matrix products. All other operations run on one core. If each core
processes a part of the batch, every operation uses all cores. Threads can do this, because NumPy
releases the global interpreter lock (GIL) while it computes.
"""

import inspect
from functools import partial

from ..autograd.modes import no_grad, state
from ..autograd.nested import tensors_in
from ..autograd.parallel import in_parallel
from ..backend.random import own_offsets
from ..backend.threads import threads_for
from ..errors import ArgumentError
from .batch_norm import _BatchNorm, _ChannelNorm
from .batch_parts import batch_sizes, check_separate, join_batch, split_batch
from .embedding import Embedding, EmbeddingBag
from .eval_mode import evaluating
from .linear import LazyLinear
from .module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Wrapper that splits a module's batch among CPU cores, in the forward and backward pass.

    One line makes a training loop use all cores: `model = nn.DataParallel(model)`. The outputs are
    the same as without `DataParallel`, and the gradients are equal up to rounding, because the
    loss is computed from the joined outputs. PyTorch's `DataParallel` splits the batch among GPUs.
    This class splits the batch among CPU threads. On a GPU, it calls the module directly.

    Parameters
    ----------
    module : Module
        Module to parallelize. All threads share its parameters.
    device_ids, output_device : None
        Accepted for compatibility with PyTorch. Only one device is used.
    dim : int, default 0
        The batch axis of every tensor argument and of every result.
    threads : int, optional
        Maximum number of parts, each computed by a separate thread. Default: the number of threads
        that NumPy uses for a matrix product.

    Attributes
    ----------
    module : Module
        The wrapped module. The names in the state dict start with `module.`, as in PyTorch.

    Raises
    ------
    ArgumentError
        If the module does not process each example separately, for example because of batch
        normalization in training or a batch axis other than `dim`.
    ShapeError
        If axis `dim` of an argument or of a result is not the batch axis. A loss, for example,
        does not have a batch axis.

    Notes
    -----
    The batch is not split if there is only one example or thread, or if the module has hooks. It is
    also not split while operations are recorded in this thread, for example by `mt.trace`, the
    profiler or a checkpoint, or while anomaly mode is on.

    Each part draws its dropout masks from its own section of the random number sequence. With the
    same seed and the same number of parts, dropout masks are therefore the same in every run. If
    the forward pass draws random numbers other than dropout masks, for example with `mt.rand`, an
    error is raised. If the module sets attributes in the forward pass, their values come from one
    of the parts.

    The first call also runs the module twice in eval mode, on the whole batch and on the last
    example alone, and compares the results. This check runs again for each new combination of
    the names of the keyword arguments and the number of axes of each tensor.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.DataParallel(mt.nn.Linear(3, 2), threads=2)
    >>> logits = model(mt.ones(5, 3))
    >>> logits.sum().backward()
    >>> logits.shape, model.module.weight.grad.shape
    ((5, 2), (2, 3))
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, *, threads=None):
        super().__init__()
        if not isinstance(module, Module):
            raise ArgumentError(
                "DataParallel: module must be a Module", got=f"a {type(module).__name__}"
            )
        check_threads("DataParallel", threads)
        if not isinstance(dim, int) or dim < 0:
            raise ArgumentError("DataParallel: dim must be a non-negative integer", got=f"{dim!r}")
        if getattr(module, "batch_first", dim == 0) is not (dim == 0):
            raise ArgumentError(
                f"DataParallel: axis {dim} is not the batch axis of the module",
                got=f"{type(module).__name__} with batch_first={module.batch_first}",
                hint="use dim=1 for batch_first=False",
            )
        self.module, self.dim, self.threads = module, dim, threads
        self._checked = set()  # kinds of arguments for which `_check` has run

    def forward(self, *inputs, **kwargs):
        """Call the module on parts of the batch in parallel threads. Return the joined results."""
        try:
            return self._forward(inputs, kwargs)
        except TypeError:
            self._check_signature(inputs, kwargs)
            raise

    def _forward(self, inputs, kwargs):
        batch = (inputs, kwargs)
        count = self._count(batch)
        if count < 2:
            return self.module(*inputs, **kwargs)
        refuse_batch_statistics("DataParallel", self.module)
        parts = split_batch(batch, count, self.dim)
        self._check(batch)
        calls = [partial(self.module, *args, **named) for args, named in parts]
        return join_batch(in_parallel(calls), self.dim)

    def _check_signature(self, inputs, kwargs):
        """Raise an error if the module's forward pass does not take these arguments."""
        try:
            inspect.signature(self.module.forward).bind(*inputs, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"DataParallel: {type(self.module).__name__}.forward does not take these arguments",
                got=f"{error}",
                hint="pass the arguments of the module",
            ) from None

    def _check(self, batch):
        """Check that the last example gives the same result alone as within the batch.

        The check runs once for each combination of the names of the keyword arguments and the
        number of axes of each tensor.
        """
        args, kwargs = batch
        kind = (tuple(kwargs), *[tensor.ndim for tensor in tensors_in(batch)])
        if kind in self._checked:
            return
        size = batch_sizes(batch, self.dim)[0]
        last = split_batch(batch, [size - 1, 1], self.dim)[1]
        with no_grad(), evaluating(self.module), own_offsets(0):
            whole = self.module(*args, **kwargs)
            alone = self.module(*last[0], **last[1])
        check_separate(whole, alone, size, self.dim)
        self._checked.add(kind)

    def _count(self, batch):
        """Return the number of parts to split the batch into. With 1, it is not split."""
        arrays = [tensor.array for tensor in tensors_in(batch) if tensor.ndim > self.dim]
        if not arrays or state.listeners or state.anomaly:
            return 1
        most = min(threads_for(array) for array in arrays)
        if self.threads is not None and most > 1:
            most = self.threads
        if most < 2 or any(needs_one_call(layer) for layer in self.module.modules()):
            return 1
        return min(most, *batch_sizes(batch, self.dim))

    def extra_repr(self):
        """Return the settings that differ from their defaults."""
        settings = {"dim": self.dim or None, "threads": self.threads}
        return ", ".join(f"{name}={value}" for name, value in settings.items() if value)


def check_threads(name, threads, argument="threads"):
    """Raise an error unless `threads` is a positive number, or None."""
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ArgumentError(f"{name}: {argument} must be at least 1", got=f"{threads!r}")


def refuse_batch_statistics(name, module):
    """Raise an error if a layer computes batch statistics, which require the whole batch."""
    for path, layer in module.named_modules():
        if isinstance(layer, _ChannelNorm) and _uses_batch(layer):
            raise ArgumentError(
                f"{name}: batch normalization is not supported: it needs the whole batch",
                got=f"{path or 'module'}: {type(layer).__name__}",
                hint="train without parallelism (threads=1), or use LayerNorm or GroupNorm",
            )


def _uses_batch(layer):
    """Return True if a normalization layer uses or updates statistics of the whole batch."""
    if layer.track_running_stats:
        return layer.training
    return isinstance(layer, _BatchNorm)


def needs_one_call(layer):
    """Return True if the batch must not be split: the layer has hooks or changes parameters."""
    return (
        layer._hooks is not None
        or bool(layer.__dict__.get("weight_hooks"))
        or isinstance(layer, LazyLinear)
        or (isinstance(layer, (Embedding, EmbeddingBag)) and layer.max_norm is not None)
    )
