"""Describe the machine and the process: processor, versions, settings, memory use, page faults."""

import os
import platform
import resource
import sys
from importlib import metadata

__all__ = ["describe", "page_faults", "peak_memory_mb"]

_SETTINGS = (
    "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "MINITORCH_KEEP_MEMORY",
)  # fmt: skip


def describe():
    """Return the processor, versions and settings as a dict, to be stored with the times."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in ("numpy", "torch", "jax", "minitorch-attn")},
        "numpy_blas": f"{blas.get('name')} {blas.get('version')}",
        "blas_kernels": _blas_kernels(),
        "environment": {name: os.environ.get(name, "") for name in _SETTINGS},
    }


def _cpu_model():
    with open("/proc/cpuinfo") as file:
        found = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return found[0] if found else platform.processor()


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _blas_kernels():
    """Return the names of the kernels that OpenBLAS has selected for this processor."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "unknown (install threadpoolctl to see)"
    import numpy  # noqa: F401  threadpoolctl only sees loaded libraries

    names = [i.get("architecture") for i in threadpool_info() if i["user_api"] == "blas"]
    return ", ".join(sorted({name for name in names if name})) or "unknown"


def peak_memory_mb():
    """Return the peak resident memory of this process so far, in MiB.

    On Linux, the function reads VmHWM, because `ru_maxrss` starts with the value of the parent
    process.
    """
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as file:
            (peak,) = (line.split()[1] for line in file if line.startswith("VmHWM"))
        return int(peak) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def page_faults():
    """Return the number of minor page faults (without disk access) of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
