"""Average gradients over ranks in buckets, while the backward pass continues.

Each parameter has a hook that copies its gradient into a bucket. A full bucket is sent immediately,
without waiting for the result. Its messages are transferred while the engine continues with the
backward pass of the earlier layers.
"""

import math
from functools import partial
from itertools import accumulate

from ...autograd.engine import add_accumulate_hook
from ...autograd.leaf_order import number_early
from ...backend import array_module, device_of
from ...distributed import ReduceOp, all_reduce, get_world_size
from ...errors import ArgumentError, GraphError
from ...tensor import tensor, wrap

__all__ = ["GradientReducer"]

FIRST_BYTES = 2**20  # the first bucket is small, as in PyTorch, so that sending starts early


class GradientReducer:
    """Averages the gradients of parameters over the ranks of a group, in every backward pass.

    Parameters
    ----------
    named_parameters : iterable of (str, Tensor)
        Parameters with their names. Parameters that do not require grad are ignored.
    group : ProcessGroup, optional
    bucket_bytes : int
        Size in bytes at which a bucket is full. For the first bucket, this size is at most 1 MiB.
    find_unused : bool, default False
        Whether parameters without a gradient are allowed; see `DistributedDataParallel`.

    Attributes
    ----------
    enabled : bool
        Whether backward passes average the gradients. If False, each rank keeps its own
        gradients.
    """

    def __init__(self, named_parameters, group=None, bucket_bytes=25 * 2**20, find_unused=False):
        pairs = [(name, p) for name, p in named_parameters if p.requires_grad]
        self.names, self.parameters = [name for name, _ in pairs], [p for _, p in pairs]
        self.group, self.find_unused = group, find_unused
        self.ranks = get_world_size(group)
        self.enabled = True
        self.buckets = _buckets(self.parameters, bucket_bytes)
        self.bucket_of = {i: bucket for bucket in self.buckets for i in bucket.indices}
        self._leaves = [None] * len(pairs)
        self._start_again()

    def _start_again(self):
        self._arrived = set()  # parameters whose gradients are in the buckets
        self._unused = set()  # parameters that the forward pass did not use
        self._numbered = False
        self._sent = 0  # number of buckets that are being sent

    def prepare(self, outputs):
        """Prepare for the backward pass through the given outputs.

        By default, the engine processes all leaves at the end of the backward pass. `number_early`
        renumbers the leaves so that the engine processes each of them as soon as its gradient is
        complete. Sending the gradient then overlaps with the rest of the backward pass.

        Parameters
        ----------
        outputs : list of Tensor
            Results of the forward pass, from which the loss is computed.

        Raises
        ------
        GraphError
            If a parameter was not used, or if the last backward pass did not reach a parameter.
        """
        if self._arrived:
            missing = set(range(len(self.names))) - self._arrived
            raise self._not_used(missing, "the last backward pass did not reach")
        self._attach()
        if not any(t.requires_grad for t in outputs):
            return
        unused = number_early(outputs, self._leaves, keep=self._numbered)
        if unused and not self.find_unused:
            raise self._not_used(unused, "the forward pass did not use")
        self._unused = self._unused & unused if self._numbered else unused
        self._numbered = True

    def _attach(self):
        """Add a hook to the leaf node of each parameter whose node does not have one yet.

        A parameter gets a new node when its `requires_grad` is switched off and on again.
        """
        for i, p in enumerate(self.parameters):
            leaf = p._edge and p._edge[0]
            if leaf is not self._leaves[i]:
                self._leaves[i] = leaf
                add_accumulate_hook(p, partial(self._receive, i))

    def _not_used(self, indices, verb):
        names = [self.names[i] for i in sorted(indices)]
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return GraphError(
            f"DistributedDataParallel: {verb} some parameters, so the ranks would wait forever",
            got=listed,
            expected="a gradient for every parameter, in every backward pass",
            hint="pass find_unused_parameters=True, or set requires_grad=False for them. The "
            "loss must depend on all outputs of the module",
        )

    # Backward pass

    def _receive(self, index, parameter):
        """Hook of a leaf: copy its complete gradient into a bucket, and send all full buckets."""
        if not self.enabled:
            return
        if not self._arrived:
            for unused in self._unused:
                self._fill(unused, None)
        self._fill(index, parameter.grad)
        self._send_full()
        if len(self._arrived) == len(self.parameters):
            self._finish()

    def _fill(self, index, grad):
        """Copy the gradient of parameter `index`, or zeros if it is None, into its bucket."""
        bucket = self.bucket_of[index]
        if bucket in self.buckets[: self._sent]:
            raise GraphError(
                "DistributedDataParallel: a gradient was computed after its bucket had been sent",
                got=self.names[index],
                expected="one backward pass after each forward pass, and no use of a parameter "
                "outside of the module's forward pass",
                hint="use no_sync() to add up the gradients of several passes",
            )
        bucket.put(index, grad)
        self._arrived.add(index)

    def _send_full(self):
        """Send the buckets that are full, in the same order on all ranks."""
        for bucket in self.buckets[: self._sent]:
            bucket.work.is_completed()  # lets MPI transfer messages
        while self._sent < len(self.buckets):
            bucket = self.buckets[self._sent]
            if not all(i in self._arrived for i in bucket.indices):
                return
            bucket.work = all_reduce(bucket.flat, ReduceOp.AVG, group=self.group, async_op=True)
            self._sent += 1

    def _finish(self):
        """Wait for all buckets, and write the averages into `.grad`."""
        used = self._used_anywhere()
        for bucket in self.buckets:
            bucket.work.wait()
            for i in bucket.indices:
                if used[i]:
                    bucket.take(i, self.parameters[i])
        self._start_again()

    def _used_anywhere(self):
        """For each parameter, return whether it has a gradient on at least one rank."""
        used = [i not in self._unused for i in range(len(self.parameters))]
        if not self.find_unused:
            return used
        count = tensor(used).int().to(self.parameters[0].device)
        all_reduce(count, ReduceOp.MAX, group=self.group)
        return count.tolist()


class _Bucket:
    """Gradients of parameters with the same dtype and device, stored consecutively in one array."""

    def __init__(self, parameters):
        """Allocate the array for the gradients. `parameters` are (index, parameter) pairs."""
        self.indices = [i for i, _ in parameters]
        first = parameters[0][1].array
        sizes = [p.array.size for _, p in parameters]
        self.flat = wrap(array_module(first).zeros(sum(sizes), dtype=first.dtype))
        self.shapes = {i: p.shape for i, p in parameters}
        self.starts = dict(zip(self.indices, _starts(sizes), strict=True))
        self.work = None

    def _view(self, index):
        start, shape = self.starts[index], self.shapes[index]
        return self.flat.array[start : start + math.prod(shape)].reshape(shape)

    def put(self, index, grad):
        """Copy the gradient of parameter `index`, or zeros if it is None, into the bucket."""
        self._view(index)[...] = 0 if grad is None else grad.array

    def take(self, index, parameter):
        """Copy the averaged gradient of parameter `index` into its `.grad`."""
        if parameter.grad is None:
            parameter.grad = wrap(self._view(index).copy())
        else:
            parameter.grad.array[...] = self._view(index)
            parameter.grad.changed_in_place()


def _buckets(parameters, most):
    """Assign parameters to buckets, last parameter first, because its gradient is complete first.

    Returns
    -------
    list of _Bucket
    """
    if not parameters:
        raise ArgumentError(
            "DistributedDataParallel: no parameter requires grad",
            hint="call the module itself; there are no gradients to average",
        )
    closed, open_ = [], {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        key = str(p.dtype), device_of(p.array)
        members, size = open_.get(key, ([], 0))
        members.append((i, p))
        size += p.array.nbytes
        open_[key] = members, size
        if size >= (most if closed else min(FIRST_BYTES, most)):
            closed.append(open_.pop(key)[0])
    closed += [members for members, _ in open_.values()]
    return [_Bucket(members) for members in closed]


def _starts(sizes):
    return [0, *accumulate(sizes)][: len(sizes)]
