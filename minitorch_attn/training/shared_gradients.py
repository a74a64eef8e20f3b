"""Shared gradients: several processes add their gradients of the same parameters.

    dL/dw = sum_k dL_k/dw        L_k: the loss of process k

Each process adds its gradient of a parameter as soon as the backward pass has completed it, and
frees its own copy. All processes together therefore need little more memory than one. A large
gradient is added in pieces, so that two processes can add different pieces at the same time.
"""

import time
from contextlib import contextmanager
from itertools import accumulate
from sys import getrefcount

import numpy as np

from ..autograd.engine import add_accumulate_hook
from ..autograd.leaf_order import number_early
from ..backend.shared_memory import shared_arrays
from ..errors import GraphError
from ..tensor import wrap

__all__ = ["LONG_WAIT", "SharedGradients"]

_PAUSE = 5e-5  # seconds between two checks of whether it is this process's turn
LONG_WAIT = 1.0  # seconds after which a process checks whether the others still exist
_TOGETHER = 1 << 20  # bytes that a process adds at a time


class SharedGradients:
    """Buffers in shared memory in which several processes add up their gradients.

    The sum of each parameter's gradients does not depend on which process is faster: process k adds
    each piece of its gradient after process k - 1. A sum of only two gradients may be computed in
    any order, because a + b = b + a also holds for rounded numbers. Until its turn has come, a
    process continues its backward pass. It waits only in two cases: at the end of the pass, and to
    free the memory of a large gradient sooner. In the second case, it cannot add anything now, but
    it can add a piece of the large gradient when another process has finished with the same piece.

    Create this object before the processes are forked.

    Parameters
    ----------
    parameters : list of Tensor
        Parameters that require a gradient.
    lock : multiprocessing.Lock
        Lock that all processes use. It also makes one process's writes visible to the next one.
    """

    def __init__(self, parameters, lock):
        self.parameters, self.lock = parameters, lock
        self.views = shared_arrays([(p.array.shape, p.array.dtype) for p in parameters])
        self._pieces = [_pieces_of(view) for view in self.views]
        numbers = accumulate(map(len, self._pieces), initial=0)
        self._first = [*numbers]  # number of each parameter's first piece, and of all pieces
        # For each piece: the number of processes that have added their gradient, whether the sum
        # has begun, whether a process is changing it, and whether any order gives the same sum.
        count = (self._first[-1],)
        self.turns, self.filled, self.busy, self.any_order = shared_arrays(
            [(count, "int64"), (count, "bool"), (count, "bool"), (count, "bool")]
        )
        self._grads = [wrap(view) for view in self.views]
        self._given = {}  # index -> earlier gradient in other memory, included in the sum

    def start(self, processes):
        """Prepare a backward pass. Process 0 calls this.

        Each sum starts from the current `.grad`.
        """
        self.turns[...] = 0
        self._given.clear()
        for i, p in enumerate(self.parameters):
            self.filled[self._first[i] : self._first[i + 1]] = p.grad is not None
            if p.grad is self._grads[i]:
                continue
            self._leave_to_others(i)
            if p.grad is not None:
                self._given[i] = p.grad
                self.views[i][...] = p.grad.array
                p.grad = self._grads[i]
        self.any_order[...] = processes + self.filled <= 2

    def _leave_to_others(self, i):
        """If other code still refers to the previous gradient of parameter `i`, save its values.

        The gradient tensor then gets a copy of its values outside the shared memory, which the new
        pass overwrites.
        """
        before = self._grads[i]
        if getrefcount(before) > 3:  # references: the list, `before`, the argument of getrefcount
            before.array = before.array.copy()
            self._grads[i] = wrap(self.views[i])

    def add(self, loss, weight, rank, check_others):
        """Run the backward pass of process `rank`; add its gradients of weight * loss to the sums.

        Parameters
        ----------
        loss : 0-d Tensor
        weight : float
        rank : int
            Number of this process. The processes add to each sum in the order of their numbers.
        check_others : callable
            Function that raises an error if another process has ended, because waiting for
            it would never end.

        Raises
        ------
        GraphError
            If a parameter receives a second gradient after its first one has been added.
        """
        number_early([loss], [p._current_edge()[0] for p in self.parameters])
        pending, seen, waiting = [], set(), 0

        def arrive(i):
            nonlocal waiting
            parameter = self.parameters[i]
            if i in seen:
                raise GraphError(
                    "ProcessSplit: a parameter received a gradient twice in one backward pass",
                    got=f"parameter {i}, of shape {parameter.shape}",
                    expected="one gradient per pass; a Function's backward must not call backward",
                    hint="use ThreadSplit",
                )
            seen.add(i)
            pending.extend(self._pieces_to_add(i, parameter.grad))
            parameter.grad = None
            waiting += parameter.array.nbytes
            if waiting >= _TOGETHER:
                waiting = 0
                self._take_turns(pending, rank, check_others)

        handles = [
            add_accumulate_hook(p, lambda _, i=i: arrive(i)) for i, p in enumerate(self.parameters)
        ]
        try:
            loss.backward(wrap(np.asarray(weight, loss.array.dtype)))
        finally:
            for handle in handles:
                handle.remove()
        for i in set(range(len(self.parameters))) - seen:  # no gradient from this process
            arrive(i)
        self._take_turns(pending, rank, check_others)
        while pending:
            time.sleep(_PAUSE)
            check_others()
            self._take_turns(pending, rank, check_others)

    def _pieces_to_add(self, i, grad):
        """Return (number, piece of the sum, piece of the gradient) for each piece of parameter `i`.

        Both arrays are None if this process has nothing to add.
        """
        pieces = enumerate(self._pieces[i], self._first[i])
        if grad is None or grad.array is self.views[i]:
            return [(number, None, None) for number, _ in pieces]
        view, own = self.views[i], grad.array
        return [(number, view[piece], own[piece]) for number, piece in pieces]

    def _take_turns(self, pending, rank, check_others):
        """Add to the sums the pieces that may be added now; remove them from the list `pending`."""
        ready = []
        while True:
            with self._locked(check_others):
                for number, _, _ in ready:
                    self.turns[number] += 1
                    self.busy[number] = False
                ready = self._next_pieces(pending, rank)
                wait = not ready and self._is_almost_done(pending, rank)
            if wait:
                time.sleep(_PAUSE)
                check_others()
            elif not ready:
                return
            for number, total, own in ready:
                if own is None:
                    continue
                if self.filled[number]:
                    total += own
                else:
                    total[...] = own
                    self.filled[number] = True

    def _is_almost_done(self, pending, rank):
        """Return True if a piece of a large gradient can be added once another addition ends.

        Another process is adding to the same piece of the sum, and this process may add next.
        """
        return any(
            self.busy[number] and (self.any_order[number] or self.turns[number] == rank)
            for number, _, own in pending
            if own is not None and own.base is not None and own.base.nbytes > _TOGETHER
        )

    def _next_pieces(self, pending, rank):
        """From `pending`, remove pieces that may be added now; mark them busy and return them."""
        possible = ((self.turns == rank) | self.any_order) & ~self.busy
        ready, later, size = [], [], 0
        for item in pending:
            number, total, _ = item
            if possible[number] and size < _TOGETHER:
                ready.append(item)
                self.busy[number] = True
                size += 0 if total is None else total.nbytes
            else:
                later.append(item)
        pending[:] = later
        return ready

    @contextmanager
    def _locked(self, check_others):
        """Context manager that holds the lock.

        If a process is killed while it holds the lock, the lock is never released. `check_others`
        then raises an error.
        """
        while not self.lock.acquire(timeout=LONG_WAIT):
            check_others()
        try:
            yield
        finally:
            self.lock.release()

    def finish(self):
        """Set each `.grad` to its sum. Process 0 calls this when all processes have finished."""
        for i, p in enumerate(self.parameters):
            if i in self._given:
                p.grad = self._given[i]
                p.grad.array[...] = self.views[i]
            elif self.filled[self._first[i]]:
                p.grad = self._grads[i]
            if p.grad is not None:
                p.grad.changed_in_place()
        self._given.clear()

    def give_up(self):
        """Abandon an incomplete backward pass. Process 0 calls this if the pass has failed.

        The sums in the shared memory are lost.
        """
        for i, p in enumerate(self.parameters):
            p.grad = self._given.get(i)
        self._given.clear()


def _pieces_of(array):
    """Return indices that divide an array into pieces of about `_TOGETHER` bytes."""
    if array.nbytes <= _TOGETHER or array.ndim == 0:
        return [...]
    rows = max(1, len(array) * _TOGETHER // array.nbytes)
    return [slice(start, start + rows) for start in range(0, len(array), rows)]
