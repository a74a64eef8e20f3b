"""Training with several workers: processes that each take their rows of every batch.

Every worker has the whole model and draws the same batches, from the same seed. It computes the
loss of its own rows; the gradients are averaged (`nn.parallel.gradient_reducer`), and every worker
then takes the same step. So N workers train as one process does, up to rounding.
"""

import os
import time

from ..backend import get_rng_state, set_rng_state
from ..backend.batch_part import batch_part
from ..errors import ArgumentError
from ..nn.batch_parts import batch_sizes, split_batch
from ..nn.data_parallel import refuse_batch_statistics
from ..tensor import tensor
from .loop import Loop

__all__ = [
    "WorkerLoop", "WorkerSplit", "is_one_of_several", "launched_size", "loop_class",
    "wait_for_all",
]  # fmt: skip

# What launchers tell each process: mpiexec of MPICH and of Open MPI, and srun.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def launched_size():
    """Return the number of processes that `mpiexec` or `srun` started; 1 without a launcher.

    It only reads environment variables, so a run with one process does not load MPI.
    """
    for name in _SIZES:
        value = os.environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return 1


def is_one_of_several():
    """Return True in a process that has joined a process group with other processes."""
    if launched_size() == 1:
        return False
    from ..distributed import get_world_size, is_initialized

    return is_initialized() and get_world_size() > 1


def loop_class():
    """Return the class of the training loop: `WorkerLoop` if there are other workers."""
    return WorkerLoop if is_one_of_several() else Loop


def wait_for_all():
    """Wait until all workers have called this, without using CPU time that others need.

    A blocking call of MPI would keep a core busy.
    """
    from ..distributed import barrier

    work = barrier(async_op=True)
    while not work.is_completed():
        time.sleep(0.002)


class WorkerSplit:
    r"""Run loss.backward() for this worker's rows of a batch, and average over the workers.

    With n_k of the n examples on worker k, loss = sum_k (n_k / n) loss_k, as in `ThreadSplit`. The
    gradients of N workers are averaged, so worker k differentiates (N n_k / n) loss_k:

        (1/N) sum_k (N n_k / n) dloss_k/dw = dloss/dw

    Parameters
    ----------
    model : Module
    loss_function, count : callable
        As for `ThreadSplit`.

    Attributes
    ----------
    stop_wanted, stop_agreed : bool
        Whether this worker wants to stop, and whether any worker wanted to in the last step.
    """

    def __init__(self, model, loss_function, count=None):
        from ..distributed import get_rank, get_world_size
        from ..nn.parallel.gradient_reducer import GradientReducer

        refuse_batch_statistics("--workers", model)
        self.model, self.loss_function = model, loss_function
        self.count = count or (lambda batch: batch_sizes(batch)[0])
        self.rank, self.workers = get_rank(), get_world_size()
        # A recipe with several phases leaves out some parameters in each.
        self.reducer = GradientReducer(model.named_parameters(), find_unused=True)
        self.stop_wanted = self.stop_agreed = False

    def __call__(self, batch):
        """Add the gradient of the loss on `batch` to the `.grad` of the model's parameters.

        Returns
        -------
        0-d Tensor
            Loss of the whole batch.
        """
        parts = split_batch(batch, self.workers)
        rows = [batch_sizes(part)[0] for part in parts]
        if len(parts) < self.workers or not rows[-1]:
            raise ArgumentError(
                "--workers: a batch has fewer examples than there are workers",
                got=f"{sum(rows)} examples for {self.workers} workers",
                hint="use a larger --batch, or fewer workers",
            )
        counts = [self.count(part) for part in parts]
        share = counts[self.rank] / max(sum(counts), 1)
        with batch_part(sum(rows[: self.rank]), rows[self.rank], sum(rows)):
            loss = self.loss_function(self.model, parts[self.rank])
        weighted = loss * (self.workers * share)
        self.reducer.prepare([weighted])
        weighted.backward()
        return self._sum(loss.item() * share)

    def _sum(self, loss):
        """Return the sum of the losses; the same message contains any request to stop."""
        from ..distributed import all_reduce

        figures = tensor([loss, float(self.stop_wanted)], dtype="float64")
        all_reduce(figures)
        self.stop_agreed = figures[1].item() > 0
        return figures[0]


class WorkerLoop(Loop):
    """Training loop of one worker. Worker 0 evaluates, logs and saves; the others wait for it.

    The arguments and attributes are those of `Loop`, with `threads` always 1. `stop_requested`
    becomes True on all workers after the same step.
    """

    def __init__(self, model, optimizer, batches, loss_function, *, threads=1, count=None, **more):
        if threads > 1:
            raise ArgumentError(
                "--workers and --threads cannot be combined: each worker uses one thread",
                got=f"--threads {threads}",
                hint="leave out --threads, or --workers",
            )
        self.split = WorkerSplit(model, loss_function, count)
        super().__init__(model, optimizer, batches, loss_function, count=count, **more)
        self.backward = self.split

    @property
    def stop_requested(self):
        """Whether a worker has asked to stop. Setting it asks all workers to."""
        return self.split.stop_agreed

    @stop_requested.setter
    def stop_requested(self, value):
        self.split.stop_wanted = value

    def train(self, steps):
        """Train as `Loop.train` does, from the weights and the random state of worker 0."""
        from ..nn.parallel.coalesced import broadcast_tensors

        broadcast_tensors([*self.model.parameters(), *self.model.buffers()])
        self._share_random_state()
        return super().train(steps)

    def _share_random_state(self):
        from ..distributed import broadcast_object_list

        state = [get_rng_state()]
        broadcast_object_list(state, src=0)
        set_rng_state(state[0])

    def _evaluate(self):
        """Evaluate on worker 0, which may draw random numbers, and tell the others."""
        from ..distributed import broadcast_object_list

        figures = [super()._evaluate() if self.split.rank == 0 else None]
        wait_for_all()
        broadcast_object_list(figures, src=0)
        self._share_random_state()
        return figures[0]
