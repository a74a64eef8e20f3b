"""Workers of `ProcessSplit`: forked copies of the calling process, which wait for batch parts.

For each batch, the calling process (rank 0) and a worker (rank k) exchange these messages:

    rank 0 -> k   seed, first counter value for random numbers, weight n_k / n, part of the batch
    k -> rank 0   the loss of the part, or the traceback of an exception in the forward pass
    rank 0 -> k   True: run the backward pass; False: another forward pass has failed
    k -> rank 0   None, or the traceback of an exception in the backward pass
"""

import gc
import os
import signal
import traceback
import warnings
import weakref
from functools import partial

from ..autograd.modes import no_grad
from ..backend.allocator import release_memory
from ..backend.blas import limited_blas_threads
from ..backend.random import initial_seed, manual_seed, own_offsets, reserve_offsets
from ..errors import CommunicationError
from ..tensor import Tensor
from .parallel import weighted_sum
from .shared_gradients import LONG_WAIT, SharedGradients
from .split_messages import PLAIN, receive, send

__all__ = ["SplitWorkers", "tensors_of"]


class SplitWorkers:
    """Processes that compute parts of the gradient, together with the calling process.

    Parameters
    ----------
    model : Module
        Model whose parameters and buffers are in shared memory.
    loss_function : callable
    processes : int
        Number of processes, including the calling one.
    """

    def __init__(self, model, loss_function, processes):
        from multiprocessing import get_context  # importing it takes 10 ms

        self.model, self.loss_function = model, loss_function
        context = get_context("fork")
        modules = list(model.modules())
        tensors = tensors_of(modules)
        trained = [tensor for tensor in tensors if tensor.requires_grad]
        self.gradients = SharedGradients(trained, context.Lock())
        self.arrays = [weakref.ref(tensor.array) for tensor in tensors]
        self.settings = _settings(modules, tensors)
        self.owner = os.getpid()
        self.pids, self.connections = [], []
        self._stop = weakref.finalize(self, _stop, self.owner, self.pids, self.connections)
        initial_seed()  # so that all processes have the same seed
        release_memory()  # free memory would take up space in every process
        for rank in range(1, processes):
            own_end, worker_end = context.Pipe()
            self.connections.append(own_end)
            pid = _fork()
            if pid == 0:
                _become_worker(self, rank, worker_end)
            self.pids.append(pid)
            worker_end.close()

    def is_current(self, modules, tensors):
        """Return False if the workers' copies of the model are out of date.

        Parameters
        ----------
        modules, tensors : list
            The model's current modules, and their tensors as returned by `tensors_of`.
        """
        return (
            self.owner == os.getpid()  # otherwise, this process is itself a fork
            and len(tensors) == len(self.arrays)
            and all(t.array is ref() for t, ref in zip(tensors, self.arrays, strict=True))
            and _settings(modules, tensors) == self.settings
        )

    def stop(self):
        """End the worker processes."""
        self._stop()

    def run(self, parts, weights):
        """Add the gradients of the parts of a batch to the `.grad` of the model's parameters.

        Parameters
        ----------
        parts : list
            Parts of the batch, at most one for each process.
        weights : list of float
            The weight n_k / n of each part.

        Returns
        -------
        0-d Tensor, or None
            Loss without a graph. None if the forward pass of a worker has failed; then the
            gradients have not changed.
        """
        offsets, seed = reserve_offsets(len(parts)), initial_seed()
        ranks = range(1, len(parts))
        for rank in ranks:
            self._send(rank, [seed, offsets[rank], weights[rank], parts[rank]])
        with limited_blas_threads(1):
            with own_offsets(offsets[0]):
                loss = self.loss_function(self.model, parts[0])
            losses, errors = self._losses(ranks)
            possible = _is_differentiable(loss) and all(loss is not None for loss in losses)
            if possible:
                self.gradients.start(len(parts))
            for rank in ranks:
                self._send(rank, possible)
            if not possible:
                _warn(errors)
                return None
            self._backward(loss, weights[0], ranks)
        with no_grad():
            return weighted_sum([loss.detach(), *losses], weights)

    def _losses(self, ranks):
        """Return the workers' losses, and the tracebacks of forward passes that failed."""
        answers = [self._receive(rank) for rank in ranks]
        losses = [loss for loss, _ in answers]
        return losses, [error for _, error in answers if error is not None]

    def _backward(self, loss, weight, ranks):
        try:
            self.gradients.add(loss, weight, 0, self._check_alive)
            errors = [error for error in map(self._receive, ranks) if error is not None]
            if errors:
                raise CommunicationError(
                    "ProcessSplit: the backward pass failed in a worker process",
                    got=errors[0].strip().splitlines()[-1],
                    hint="use ThreadSplit to see the full error",
                )
        except BaseException:
            self.gradients.give_up()
            raise
        self.gradients.finish()

    def _send(self, rank, value):
        try:
            send(self.connections[rank - 1], value)
        except OSError:
            raise self._ended(rank) from None

    def _receive(self, rank):
        connection = self.connections[rank - 1]
        try:
            while not connection.poll(LONG_WAIT):
                self._check_alive()  # this worker may be waiting for another one that has ended
            return receive(connection)
        except (EOFError, OSError):
            raise self._ended(rank) from None

    def _check_alive(self):
        """Raise an error if a worker has ended."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # leave the exit status for `_ended`
        for rank, pid in enumerate(self.pids, 1):
            if os.waitid(os.P_PID, pid, options) is not None:
                raise self._ended(rank)

    def _ended(self, rank):
        """Return the error for a worker that has ended."""
        _, status = os.waitpid(self.pids[rank - 1], 0)
        self.pids[rank - 1] = None
        code = os.waitstatus_to_exitcode(status)
        return CommunicationError(
            "ProcessSplit: a worker process has ended",
            got=f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}",
            hint="SIGKILL often means that the memory was too small: use fewer processes",
        )


def tensors_of(modules):
    """Return the parameters and buffers of modules, each once."""
    found = {}
    for module in modules:
        for registry in (module._parameters, module._buffers):
            for tensor in registry.values():
                if tensor is not None:
                    found[id(tensor)] = tensor
    return [*found.values()]


def _settings(modules, tensors):
    """Return the modules' attributes of `PLAIN` types, and the tensors' `requires_grad`."""
    plain = [
        value for module in modules for value in module.__dict__.values() if type(value) in PLAIN
    ]
    return plain, [tensor.requires_grad for tensor in tensors]


def _is_differentiable(loss):
    return isinstance(loss, Tensor) and loss.requires_grad and loss.ndim == 0


def _warn(errors):
    if errors:
        warnings.warn(
            f"ProcessSplit: the forward pass failed in a worker process, so threads repeat it:\n"
            f"{errors[0]}",
            RuntimeWarning,
            stacklevel=5,
        )


def _stop(owner, pids, connections):
    """Kill the workers, unless this process is a forked copy of the one that started them."""
    if os.getpid() != owner:
        return
    for connection in connections:
        connection.close()
    for pid in filter(None, pids):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):  # it has ended
            pass
    pids.clear()


def _fork():
    with warnings.catch_warnings():
        # Python 3.12 warns about locks that other threads hold. The worker does not use them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


# In the worker


def _become_worker(workers, rank, connection):
    """Serve the parent until it ends. This function does not return."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
        for own_end in workers.connections:
            own_end.close()
        gc.freeze()  # collecting the parent's objects would copy their memory
        for p in workers.gradients.parameters:
            p.grad = None
        with limited_blas_threads(1):
            while True:
                while not connection.poll(LONG_WAIT):
                    _check_parent(workers.owner)
                _serve(workers, rank, connection)
    except (EOFError, OSError, KeyboardInterrupt):
        pass  # the parent has ended
    finally:
        os._exit(0)


def _check_parent(owner):
    """Raise an error if the process that forked this worker has ended."""
    if os.getppid() != owner:
        raise EOFError("the parent process has ended")


def _serve(workers, rank, connection):
    """Receive one part of a batch, send its loss, and add its gradients to the sums."""
    seed, offset, weight, part = receive(connection)
    if seed != initial_seed():
        manual_seed(seed)
    loss = error = None
    try:
        with own_offsets(offset):
            loss = workers.loss_function(workers.model, part)
        send(connection, [loss.detach() if _is_differentiable(loss) else None, None])
    except Exception:
        send(connection, [None, traceback.format_exc()])
    if not receive(connection):
        return
    try:
        workers.gradients.add(loss, weight, rank, partial(_check_parent, workers.owner))
    except Exception:
        error = traceback.format_exc()
    send(connection, error)
