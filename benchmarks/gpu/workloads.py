"""Workloads W1 to W7 on a GPU, compared with PyTorch: time, device calls, bandwidth and memory."""

import importlib

from ..measure import difference
from ..workloads import place
from .calls import calls_of
from .timing import peak_mb, summary, turns

__all__ = ["NAMES", "compare", "torch_or_reason", "work_of"]

NAMES = ("w1", "w2", "w2l", "w3", "w4f", "w4b", "w5", "w6", "w7")
OURS = ("minitorch_attn_unsplit", "minitorch_attn")  # one device, so an unsplit batch
TORCH = ("torch_fused", "torch")
WITH_ADAMW = ("w1", "w2", "w2l", "w3")
# AdamW reads each parameter, its gradient and two moments, and writes all but the gradient.
NUMBERS_OF_ADAMW = 7


def compare(name, module=None, rounds=7, seconds=0.3):
    """Time one workload in this library and, if it is installed, in PyTorch.

    Parameters
    ----------
    name : str
        Name of a module in `benchmarks.workloads`.
    module : module, optional
        The module itself, if it is already imported.
    rounds : int
    seconds : float
        Approximate duration of an engine's steps in one round.

    Returns
    -------
    dict
        The row of the table. `difference` is the largest relative difference between the results
        and gradients of the two libraries. If PyTorch cannot run, `torch` gives the reason.
    """
    module = module or importlib.import_module(f"benchmarks.workloads.{name}")
    with place.on("cuda"):
        ours = _engine(module, OURS)()
        ours.run()
        row = {"title": module.TITLE}
        theirs, row["torch"] = torch_or_reason(lambda: _engine(module, TORCH)())
    if theirs is not None:
        theirs.run()
        row["difference"] = difference(ours.evidence(), theirs.evidence())[0]
    steps = {"ours": ours.run, **({"torch": theirs.run} if theirs else {})}
    times = turns(steps, rounds, seconds)
    row.update(summary(times["ours"]))
    if theirs is not None:
        row["torch_ms"] = summary(times["torch"])["ms"]
        row["torch_range_ms"] = [min(times["torch"]), max(times["torch"])]
        row["torch_mb"] = _torch_peak_mb(theirs.run)
    flops, nbytes = work_of(ours, name in WITH_ADAMW)
    row["tflops"], row["gb_per_s"] = flops / row["ms"] / 1e9, nbytes / row["ms"] / 1e6
    row["calls"] = calls_of(ours.run, name)
    row["mb"] = peak_mb(ours.run)
    return row


def _engine(module, names):
    """Return the first engine of `names` that the workload has."""
    return next(module.ENGINES[name] for name in names if name in module.ENGINES)


def work_of(step, with_adamw=False):
    """Return the FLOPs of a step, and the bytes that it reads and writes.

    The FLOPs are those of the matrix products. The bytes include each input and output of an
    operation once, as in `mt.profile`, and what AdamW reads and writes.

    Parameters
    ----------
    step : Step
    with_adamw : bool
        Whether the step updates all parameters.
    """
    import minitorch_attn as mt

    with mt.profile() as profile:
        step.run()
    events = [event for event in profile.events if event.phase != "module"]
    nbytes = sum(event.nbytes for event in events)
    if with_adamw:
        grads = [grad for name, grad in step.evidence().items() if name.startswith("grad ")]
        nbytes += NUMBERS_OF_ADAMW * sum(grad.nbytes for grad in grads)
    return sum(event.flops for event in events), nbytes


def torch_or_reason(build):
    """Call `build` if PyTorch can use the GPU. Return (result, ""), or (None, reason) on failure.

    PyTorch computes in float32, without TF32, as this library does.
    """
    try:
        import torch
    except ImportError:
        return None, "PyTorch is not installed"
    if not torch.cuda.is_available():
        return None, "PyTorch is installed without CUDA"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        return build(), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0]


def _torch_peak_mb(step):
    import torch

    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e6
