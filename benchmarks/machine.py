"""Describe the machine and the process: processor, versions, settings, memory use, page faults."""

import os
import platform
import re
import resource
import sys
import time
from importlib import metadata

__all__ = ["describe", "page_faults", "peak_memory_mb", "processor_seconds"]

_SETTINGS = (
    "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "MINITORCH_KEEP_MEMORY",
)  # fmt: skip


def describe():
    """Return the processor, versions and settings as a dict, to be stored with the times."""
    import numpy as np

    from minitorch_attn.backend.blas import blas_kernels

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in ("numpy", "torch", "jax", "minitorch-attn")},
        "numpy_blas": f"{blas.get('name')} {blas.get('version')}",
        "blas_kernels": blas_kernels() or "unknown",
        "environment": {name: os.environ.get(name, "") for name in _SETTINGS},
    }


def _cpu_model():
    """Return the processor's name, and its family and model, since virtual machines hide names."""
    with open("/proc/cpuinfo") as file:
        first = file.read().split("\n\n")[0]
    entries = dict(re.findall(r"^(.+?)\s*:\s*(.*)$", first, re.MULTILINE))
    if "model name" not in entries:
        return platform.processor()
    details = [
        f"{key.split()[-1]} {entries[key]}" for key in ("cpu family", "model") if key in entries
    ]
    return entries["model name"] + (f" ({', '.join(details)})" if details else "")


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def peak_memory_mb():
    """Return the peak resident memory of this process and its forked workers so far, in MiB.

    The result is the sum of the peaks of all processes, without the memory that a worker still
    shares with the process it was forked from: the peak of that process already includes it.

    On Linux, the function reads VmHWM, because `ru_maxrss` starts with the value of the parent
    process.
    """
    if not os.path.exists("/proc/self/status"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    workers = [
        _kilobytes(f"/proc/{pid}/status", "VmHWM")
        - _kilobytes(f"/proc/{pid}/smaps_rollup", "Shared_Clean", "Shared_Dirty")
        for pid in _forked_workers()
    ]
    return (_kilobytes("/proc/self/status", "VmHWM") + sum(workers)) / 1024


def _kilobytes(path, *names):
    """Return the sum of the named entries, in kB, of a file such as /proc/self/status."""
    with open(path) as file:
        entries = dict(line.split(":", 1) for line in file if ":" in line)
    return sum(int(entries[name].split()[0]) for name in names)


def _forked_workers():
    """Return the ids of the forked copies of this process. Other child processes are left out."""
    pids = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            pids += file.read().split()
    return [pid for pid in pids if _command(pid) == _command("self")]


def _command(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def processor_seconds():
    """Return the CPU time of this process and its forked workers so far, in seconds."""
    ticks = 0
    for pid in _forked_workers() if os.path.exists("/proc/self/task") else ():
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()  # after the name of the program
        ticks += int(fields[11]) + int(fields[12])  # user and system time
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def page_faults():
    """Return the number of minor page faults (without disk access) of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
