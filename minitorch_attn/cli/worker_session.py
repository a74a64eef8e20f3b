"""Training session of one of several workers: worker 0 has the run folder and the terminal."""

import atexit
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import click

from ..backend.blas import limited_blas_threads
from ..errors import MiniTorchError
from ..training.checkpoint import Checkpoints
from ..training.run_folder import CHECKPOINTS
from ..training.worker_splits import SPLITS
from ..training.workers import launched_size, wait_for_all
from . import FAILED
from .training_session import Session
from .worker_processes import FOLDER

__all__ = ["WorkerSession", "join"]

_PR_SET_PDEATHSIG = 1
_PATIENCE = 8.0  # seconds that worker 0 has to report an error that occurs in all workers


def join():
    """Join the other workers, which mpiexec or srun started; return the number of workers.

    From this call on, Linux kills this process when its parent ends, and an uncaught exception in
    any worker ends all workers.
    """
    from .. import distributed

    _end_with_parent()
    _leave(f"{_launched_rank()}.pid", os.getpid())
    distributed.init_process_group("mpi")
    workers = distributed.get_world_size()
    if workers != launched_size():
        raise click.UsageError(
            f"{launched_size()} processes were started, but MPI connected only {workers} of them; "
            "start them with mpiexec from the MPI library that mpi4py uses, or srun --mpi=pmi2"
        )
    _say_how_it_ends(f"{distributed.get_rank()}.ended")
    return workers


def _launched_rank():
    """Return the number of this process among those that mpiexec or srun started."""
    names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
    return next((os.environ[name] for name in names if name in os.environ), "0")


def _say_how_it_ends(note):
    """Make this process write its exit status to the file `note` before MPI is finalized."""
    leave, hook = sys.exit, sys.excepthook
    status = [0]

    def exit_with(code=None, /):
        status[0] = code if isinstance(code, int) else int(code is not None)
        leave(code)

    def report(*error):
        status[0] = FAILED
        _leave(note, FAILED)
        hook(*error)

    sys.exit, sys.excepthook = exit_with, report
    atexit.register(lambda: _leave(note, status[0]))  # runs before MPI is closed


def _end_with_parent():
    """Ask Linux to kill this process when its parent (mpiexec or srun) ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:  # the parent has already ended
            os._exit(1)


def _leave(name, text):
    """Write a file for the `mta train --workers` command that started this process.

    Return False, and write nothing, if this process was started in another way.
    """
    folder = os.environ.get(FOLDER)
    if folder and Path(folder).is_dir():
        path = Path(folder, name)
        path.with_suffix(".part").write_text(str(text), encoding="utf-8")
        path.with_suffix(".part").replace(path)
        return True
    return False


class WorkerSession(Session):
    """Session of one worker. Worker 0 writes and prints everything; the others only train.

    The arguments are those of `Session`.

    Parameters
    ----------
    split : {"data", "tensor", "sequence"}
        What the workers divide.
    """

    def __init__(self, *arguments, split="data", **more):
        super().__init__(*arguments, **more)
        self.split = split

    def run(self):
        """Start or resume the run, train, and show the result; return the exit status."""
        from ..distributed import destroy_process_group, get_rank, get_world_size

        self.aborts = False
        if os.environ.get(FOLDER):
            split = () if self.split == "data" else ("--split", self.split)
            self.shared = ("--workers", get_world_size(), *split)
        first = get_rank() == 0
        with limited_blas_threads(1):
            code = super().run() if first else self._reported(self._train_along)
        noted = first and _leave("status", code)
        if self.aborts:
            return code  # the process group still exists, so exiting ends all workers
        wait_for_all()
        destroy_process_group()
        return 0 if noted else code

    def _reported(self, call):
        """Run `call`. If it fails, wait, because worker 0 may be about to report the same error."""
        try:
            return call()
        except MiniTorchError:
            time.sleep(_PATIENCE)  # worker 0 may print the same error and end this worker
            sys.excepthook(*sys.exc_info())  # prints the error with this rank, and ends all workers
            return FAILED

    def _stopped(self, how):
        self.aborts = how != "stopped"
        super()._stopped(how)

    def _make_recipe(self, options):
        """Create the recipe, and check that --split can divide its model among the workers."""
        from ..distributed import get_world_size

        recipe = super()._make_recipe(options)
        recipe.split = self.split
        SPLITS[self.split].check(recipe.model, get_world_size())
        return recipe

    # Worker 0

    def _train_and_show(self):
        from ..distributed import broadcast_object_list

        saved = self.folder.checkpoints.steps()
        plan = {
            "options": self.recipe.options,
            "folder": str(self.folder.path.absolute()),
            "step": self.loop.step if saved and self.resume is not None else None,
        }
        _leave("run", self.folder.path)
        broadcast_object_list([plan], src=0)
        return super()._train_and_show()

    # The others

    def _train_along(self):
        from ..distributed import broadcast_object_list

        plan = [None]
        broadcast_object_list(plan, src=0)
        plan = plan[0]
        self.recipe = self._make_recipe(plan["options"])
        loop = self.recipe.loop()
        if plan["step"] is not None:
            checkpoints = Checkpoints(Path(plan["folder"]) / CHECKPOINTS)
            loop.load_state_dict(checkpoints.load(plan["step"])[1])

        def handle(number, frame):
            loop.stop_requested = True

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, handle)
        loop.train(self.recipe.options["steps"])
        return 0
