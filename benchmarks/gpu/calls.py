"""Count the device calls of a step: kernel launches, copies and memsets.

On a simulated device, `cupysim` counts them. On a GPU, PyTorch's profiler counts them if PyTorch is
installed with CUDA. The profiler uses NVIDIA's CUPTI, which sees the kernels of all libraries of a
process, including CuPy and cuBLAS. Without PyTorch, the functions return the counts of the
simulated device that `python -m benchmarks device-calls` stored.
"""

import importlib.util
import json
from pathlib import Path

__all__ = ["STORED", "calls_of", "of_events"]

STORED = Path(__file__).parents[1] / "results" / "device-calls.json"


def calls_of(step, name=None):
    """Count the device calls of one step. The step must have run before.

    Parameters
    ----------
    step : callable
    name : str, optional
        Name of the workload. Only needed to look up the stored counts.

    Returns
    -------
    dict
        `launches` (including matrix products), `copies` (including those between host and device),
        `memsets`, their sum `all`, and `by`, the method of counting. If the calls were counted by
        the profiler, the dict also contains `busy_ms`, the time that they took on the device. If no
        method is available, the dict is empty.
    """
    if importlib.util.find_spec("cupysim") is not None:
        return _simulated(step)
    if _torch_sees_cuda():
        return _profiled(step)
    return _stored(name)


def _simulated(step):
    import cupysim

    cupysim.reset()
    step()
    found = {kind: calls for kind, (calls, _) in cupysim.summary().items()}
    launches = found.get("launch", 0) + found.get("cublas", 0)
    copies = sum(calls for kind, calls in found.items() if kind.startswith("memcpy"))
    return _counts(launches, copies, found.get("memset", 0), by="cupysim")


def _torch_sees_cuda():
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def _profiled(step):
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        step()
        torch.cuda.synchronize()
    on_device = [e for e in recorded.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return of_events([(e.name, e.time_range.elapsed_us()) for e in on_device])


def of_events(events):
    """Count the launches, copies and memsets among the events of a device.

    Parameters
    ----------
    events : list of (str, float)
        Name and duration in microseconds of each event. The names of copies begin with "Memcpy",
        those of memsets with "Memset".

    Examples
    --------
    >>> of_events([("softmax_forward", 3.0), ("Memcpy DtoD (Device -> Device)", 1.0)])
    {'launches': 1, 'copies': 1, 'memsets': 0, 'all': 2, 'by': 'CUPTI', 'busy_ms': 0.004}
    """
    copies = sum(name.startswith("Memcpy") for name, _ in events)
    memsets = sum(name.startswith("Memset") for name, _ in events)
    found = _counts(len(events) - copies - memsets, copies, memsets, by="CUPTI")
    return {**found, "busy_ms": sum(microseconds for _, microseconds in events) / 1e3}


def _stored(name):
    rows = json.loads(STORED.read_text(encoding="utf-8"))["workloads"] if STORED.exists() else {}
    if name not in rows:
        return {}
    row = rows[name]["now"]
    launches = row["launches"] + row["products"]
    return _counts(launches, row["copies"], row["memsets"], by="simulated device")


def _counts(launches, copies, memsets, by):
    every = launches + copies + memsets
    return {"launches": launches, "copies": copies, "memsets": memsets, "all": every, "by": by}
