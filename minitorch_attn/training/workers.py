"""Training with several workers: processes that share the work of every step.

Every worker draws the same batches, from the same seed, and computes some of the gradients. Up to
rounding, N workers therefore give the same results as one process. `worker_splits.py` contains the
ways to divide the work.
"""

import os
import time
from functools import partial

from ..backend import get_rng_state, set_rng_state
from ..errors import ArgumentError
from .loop import Loop
from .worker_splits import SPLITS

__all__ = ["WorkerLoop", "is_one_of_several", "launched_size", "loop_class", "wait_for_all"]

# The number of processes, as set by the mpiexec of MPICH and of Open MPI, and by srun.
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


def loop_class(split="data"):
    """Return `Loop` for a single process, and `WorkerLoop` with this split for several."""
    return partial(WorkerLoop, split=split) if is_one_of_several() else Loop


def wait_for_all():
    """Wait until all workers have called this function, without keeping a CPU core busy.

    A blocking MPI call would poll without a pause.
    """
    from ..distributed import barrier

    work = barrier(async_op=True)
    while not work.is_completed():
        time.sleep(0.002)


class WorkerLoop(Loop):
    """Training loop of one worker. Worker 0 evaluates, logs and saves; the others wait for it.

    Arguments and attributes are the same as for `Loop`, but `threads` and `processes` are always 1.
    `stop_requested` becomes True on all workers after the same step. Every worker has the full
    `model`. If a split trains its own copy of some weights, `model` is up to date only on worker 0,
    and only during evaluations, in checkpoints and after `train`.

    Parameters
    ----------
    split : {"data", "tensor", "sequence"}, default "data"
        Way to divide the work among the workers; see `worker_splits.py`.
    """

    def __init__(
        self, model, optimizer, batches, loss_function, *, threads=1, processes=1, count=None,
        split="data", **more,
    ):  # fmt: skip
        for name, number in (("threads", threads), ("processes", processes)):
            if number != 1:
                raise ArgumentError(
                    f"--workers and --{name} cannot be combined: each worker is one thread",
                    got=f"--{name} {number}",
                    hint=f"leave out --{name}, or --workers",
                )
        self.split = SPLITS[split](model, optimizer, loss_function, count)
        super().__init__(model, optimizer, batches, loss_function, count=count, **more)
        self.backward = self.split

    @property
    def stop_requested(self):
        """Whether any worker asked to stop during the last step.

        To stop all workers, set this attribute to True on one of them.
        """
        return self.split.stop_agreed

    @stop_requested.setter
    def stop_requested(self, value):
        self.split.stop_wanted = value

    def train(self, steps):
        """Train as `Loop.train` does, starting from worker 0's weights and random state."""
        from ..nn.parallel.coalesced import broadcast_tensors

        broadcast_tensors([*self.model.parameters(), *self.model.buffers()])
        self.split.distribute()
        self._share_random_state()
        finished = super().train(steps)
        self.split.collect()
        return finished

    def _share_random_state(self):
        from ..distributed import broadcast_object_list

        state = [get_rng_state()]
        broadcast_object_list(state, src=0)
        set_rng_state(state[0])

    def _evaluate(self):
        """Evaluate on worker 0, then send its results and random state to the others."""
        from ..distributed import broadcast_object_list

        self.split.collect()
        figures = [super()._evaluate() if self.split.rank == 0 else None]
        wait_for_all()
        broadcast_object_list(figures, src=0)
        self._share_random_state()
        return figures[0]

    def clip_gradients(self):
        """Clip the gradients by their norm over all workers; see `Loop.clip_gradients`."""
        return self.split.clip(self.max_norm)

    # State

    def state_dict(self):
        """Return the state of the whole run, on worker 0. Every worker must call this."""
        self.split.collect()
        return super().state_dict()

    def optimizer_state(self):
        """Return the optimizer's full state, on worker 0."""
        return self.split.optimizer_state()

    def load_optimizer_state(self, state):
        """Load the optimizer's full state. With `TensorSplit`, a worker keeps only its own part."""
        self.split.load_optimizer_state(state)

    def save(self):
        """Collect all parts of a split model on worker 0, and write a checkpoint there."""
        if self.run is None and self.save_every:
            self.state_dict()
        else:
            super().save()
