"""Launch ranks on this machine: find mpiexec, and set up the ranks' environment variables."""

import os
import shutil
import sys
from pathlib import Path

__all__ = ["mpiexec", "rank_environment"]

_ROOT = Path(__file__).resolve().parents[2]


def mpiexec():
    """Return the path of mpiexec, or None. Look next to the interpreter, then on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def rank_environment(**more):
    """Return this process's environment with the PYTHONPATH, BLAS and MPI settings for a rank.

    Parameters
    ----------
    **more : str
        Additional environment variables.

    Returns
    -------
    dict of str to str
    """
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # By default, Open MPI's mpiexec does not run as root, or with more ranks than cores.
    allow = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }  # fmt: skip
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **one, **allow, "PYTHONPATH": os.pathsep.join(paths), **more}
