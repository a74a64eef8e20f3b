"""Distributed data parallelism: every process trains a copy of a model on its part of a batch."""

from contextlib import contextmanager, nullcontext

from ...autograd import is_grad_enabled
from ...autograd.nested import tensors_in
from ...backend.batch_part import batch_part
from ...distributed import broadcast_object_list, get_rank, get_world_size
from ...errors import ArgumentError, ShapeError
from ..dropout import Dropout, DropPath
from ..module import Module
from .coalesced import broadcast_tensors
from .gradient_reducer import GradientReducer

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    r"""Wrapper that averages the gradients of a module over all processes in the backward pass.

    Each process, or rank, calls the module with its own examples. After `loss.backward()`, all
    ranks have the same gradients: the gradients of the mean loss over the examples of all ranks. If
    the optimizers are identical, the copies of the model therefore remain identical.

    Parameters
    ----------
    module : Module
        Module to train. All ranks get the parameters and buffers of rank 0.
    device_ids, output_device : None
        Accepted for compatibility with PyTorch. The module stays on its device.
    dim : int, default 0
        The batch axis, which must be 0.
    broadcast_buffers : bool, default True
        Whether each forward pass in training first copies the buffers of rank 0 to all ranks. Such
        buffers are, for example, the running statistics of batch normalization, which each rank
        computes from its own examples.
    process_group : ProcessGroup, optional
        Ranks that share the batch. Default: all ranks.
    bucket_cap_mb : float, default 25
        Size in MiB at which a bucket of gradients is full. For the first bucket, this size
        is at most 1 MiB.
    find_unused_parameters : bool, default False
        Whether a forward pass may leave some parameters unused. Their gradients count as zero. The
        ranks exchange one additional message to find the parameters that no rank used. The `.grad`
        of these parameters does not change.
    gradient_as_bucket_view : bool, default False
        Must be False, because gradients have their own memory.

    Attributes
    ----------
    module : Module
        The wrapped module. The names in the state dict start with `module.`, as in PyTorch.

    Raises
    ------
    ArgumentError
        If the ranks have different modules, or an argument is invalid.
    GraphError
        If a parameter was not used and `find_unused_parameters` is False.

    Notes
    -----
    *Equation.* Let rank k of N have n_k of the n examples, and let L_k = (1/n_k) sum_i l_i be the
    mean loss over its examples. The mean loss L over all examples is a weighted mean of the L_k:

        L = (1/n) sum_k sum_i l_i = sum_k (n_k/n) L_k,   and with n_k = n/N:   L = (1/N) sum_k L_k.

    Differentiation is linear, so dL/dw = (1/N) sum_k dL_k/dw. The ranks therefore average their
    gradients. If the n_k differ, multiply the loss L_k of each rank by N n_k / n.

    *Overlap.* Each parameter has a hook that copies its gradient into a bucket as soon as the
    gradient is complete. The gradients of the last layers are complete first. A non-blocking
    all-reduce sends each full bucket while the engine continues with the earlier layers. The hook
    of the last gradient waits for all buckets and writes the means into `.grad`, so all waiting is
    at the end of `backward()`. MPI may transfer messages only while one of its functions runs, so
    each hook calls such a function.

    *Dropout.* In training, each rank draws the dropout masks of its own rows of the batch
    (`backend.batch_part`): rank k of N with n rows has the rows k n to (k + 1) n - 1. If all ranks
    have the same seed, the result is the same as in a single process with the whole batch, for
    every N. This requires that all ranks have the same number of rows and that the batch is the
    first axis.

    Li et al. 2020 [1]_ explain how PyTorch's class uses buckets and hooks.

    References
    ----------
    .. [1] "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
       arXiv:2006.15704v1, sec. 3.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.distributed.init_process_group("mpi")  # doctest: +SKIP
    >>> model = mt.nn.Linear(3, 2)
    >>> model = mt.nn.parallel.DistributedDataParallel(model)  # doctest: +SKIP
    >>> model(mt.ones(5, 3)).square().mean().backward()  # doctest: +SKIP
    """

    def __init__(
        self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True,
        process_group=None, bucket_cap_mb=25, find_unused_parameters=False,
        gradient_as_bucket_view=False,
    ):  # fmt: skip
        super().__init__()
        _check(module, dim, bucket_cap_mb, gradient_as_bucket_view)
        self.module, self.process_group = module, process_group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.synchronizes = True
        self._ranks, self._rank = get_world_size(process_group), get_rank(process_group)
        if self._ranks > 1:
            _refuse_tokens_first(module)
            self._check_equal()
            broadcast_tensors([*module.parameters(), *module.buffers()], process_group)
        self._reducer = GradientReducer(
            module.named_parameters(), process_group, int(bucket_cap_mb * 2**20),
            find_unused_parameters,
        )  # fmt: skip

    def _check_equal(self):
        """Raise an error unless parameters and buffers match on all ranks: names, shapes, dtypes.

        Otherwise, the ranks would exchange messages of different sizes.
        """
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        mine = [[name, list(t.shape), str(t.dtype)] for name, t in named]
        first = [mine]
        broadcast_object_list(first, group=self.process_group, group_src=0)
        if first[0] != mine:
            pairs = zip(first[0] + [None] * len(mine), mine + [None] * len(first[0]), strict=False)
            theirs, own = next(pair for pair in pairs if pair[0] != pair[1])
            raise ArgumentError(
                "DistributedDataParallel: the ranks have different modules",
                got=f"{own} on rank {self._rank}, and {theirs} on rank 0",
                hint="build the module with the same settings on every rank",
            )

    def forward(self, *inputs, **kwargs):
        """Call the module with this rank's examples, and prepare the backward pass."""
        synchronizes = self.synchronizes and is_grad_enabled()
        if synchronizes and self.training and self.broadcast_buffers and self._ranks > 1:
            buffers = list(self.module.buffers())
            if buffers:
                broadcast_tensors(buffers, self.process_group)
        with self._part((inputs, kwargs)):
            outputs = self.module(*inputs, **kwargs)
        self._reducer.enabled = synchronizes
        if synchronizes:
            self._reducer.prepare(tensors_in(outputs))
        return outputs

    def _part(self, batch):
        """Return a context manager: inside it, dropout draws the mask of this rank's rows only."""
        rows = [tensor.shape[0] for tensor in tensors_in(batch) if tensor.ndim]
        if not self.training or self._ranks == 1 or not rows or not rows[0]:
            return nullcontext()
        return batch_part(self._rank * rows[0], rows[0], self._ranks * rows[0])

    @contextmanager
    def no_sync(self):
        """Inside the `with` block, add up this rank's gradients in `.grad` without averaging.

        The next forward and backward pass after the block averages the accumulated
        gradients over the ranks.
        """
        before, self.synchronizes = self.synchronizes, False
        try:
            yield
        finally:
            self.synchronizes = before

    def extra_repr(self):
        """Return the settings that differ from their defaults."""
        return "find_unused_parameters=True" if self.find_unused_parameters else ""


def _check(module, dim, bucket_cap_mb, gradient_as_bucket_view):
    """Raise an error if an argument is invalid."""
    where = "DistributedDataParallel"
    if not isinstance(module, Module):
        raise ArgumentError(f"{where}: module must be a Module", got=f"a {type(module).__name__}")
    if dim != 0:
        raise ShapeError(f"{where}: dim must be 0, the batch axis", got=f"dim={dim!r}")
    if gradient_as_bucket_view:
        raise ArgumentError(
            f"{where}: gradient_as_bucket_view=True is not supported",
            hint="omit this argument; in PyTorch, it saves memory but does not change results",
        )
    number = isinstance(bucket_cap_mb, (int, float)) and not isinstance(bucket_cap_mb, bool)
    if not (number and bucket_cap_mb > 0):
        raise ArgumentError(f"{where}: bucket_cap_mb must be positive", got=f"{bucket_cap_mb!r}")


def _refuse_tokens_first(module):
    """Raise an error if the module uses both dropout and `batch_first=False`.

    Each rank draws the dropout masks of its own rows, so the batch must be the first axis.
    """
    if not any(_drops(layer) for layer in module.modules()):
        return
    for path, layer in module.named_modules():
        if getattr(layer, "batch_first", True) is False:
            raise ShapeError(
                "DistributedDataParallel: with dropout, the batch must be the first axis",
                got=f"{path or 'module'}: {type(layer).__name__} with batch_first=False",
                hint="build it with batch_first=True, or without dropout",
            )


def _drops(layer):
    """Return True if a layer is a dropout layer or has a dropout setting."""
    if isinstance(layer, DropPath):
        return layer.drop_prob > 0
    rate = layer.p if isinstance(layer, Dropout) else getattr(layer, "dropout", 0.0)
    return isinstance(rate, (int, float)) and rate > 0
