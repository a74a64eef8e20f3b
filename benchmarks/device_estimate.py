"""Roofline estimate of a step on a GPU: arithmetic, memory and launches, from data sheets.

    time of a step >= max(FLOPs / peak, bytes / bandwidth, device calls * time of a call)

The model is from Williams, Waterman and Patterson 2009, "Roofline: An Insightful Visual Performance
Model for Multicore Architectures", CACM 52(4). It gives estimates, not measurements. Real kernels
reach only a part of the peak, and how much the three times overlap depends on the order of the
kernels.
"""

import importlib
from dataclasses import dataclass

__all__ = ["CALL_SECONDS", "H100", "Estimate", "Gpu", "estimate", "table"]

CALL_SECONDS = (5e-6, 10e-6)  # time of a call from Python: at best, and usually at most


@dataclass(frozen=True)
class Gpu:
    """Peak performance of a GPU, from its data sheet.

    Attributes
    ----------
    name : str
    flops : float
        Operations per second in float32, without tensor cores.
    bandwidth : float
        Bytes per second.
    source : str
    """

    name: str
    flops: float
    bandwidth: float
    source: str


H100 = Gpu("NVIDIA H100 SXM", 67e12, 3.35e12, "NVIDIA H100 Tensor Core GPU data sheet")


@dataclass(frozen=True)
class Estimate:
    """Work of one step, and lower bounds on the time that it takes.

    Attributes
    ----------
    flops, nbytes, calls : float
        FLOPs of the matrix products, bytes that operations read and write, and device calls.
    gpu : Gpu
    """

    flops: float
    nbytes: float
    calls: int
    gpu: Gpu = H100

    @property
    def arithmetic(self):
        """Time of the arithmetic, in seconds."""
        return self.flops / self.gpu.flops

    @property
    def memory(self):
        """Time to read and write memory, in seconds."""
        return self.nbytes / self.gpu.bandwidth

    @property
    def launching(self):
        """Seconds to launch all device calls: a lower bound, and the usual upper bound."""
        return tuple(self.calls * seconds for seconds in CALL_SECONDS)

    @property
    def bound(self):
        """What takes longest and so bounds the step: "launches", "memory" or "arithmetic"."""
        times = {
            "launches": self.launching[0], "memory": self.memory, "arithmetic": self.arithmetic
        }  # fmt: skip
        return max(times, key=times.get)


def estimate(name, calls):
    """Estimate the times of one step of a workload, with its default batch size.

    Parameters
    ----------
    name : str
        Name of a module in `benchmarks.workloads`. The step of "w7" is one token.
    calls : int
        Device calls of the step.

    Returns
    -------
    Estimate
    """
    from .gpu.workloads import OURS, WITH_ADAMW, work_of

    engines = importlib.import_module(f"benchmarks.workloads.{name}").ENGINES
    step = next(engines[engine] for engine in OURS if engine in engines)()
    step.run()
    flops, nbytes = work_of(step, name in WITH_ADAMW)
    share = step.operations if name == "w7" else 1  # tokens
    return Estimate(flops / share, nbytes / share, calls)


def table(titles, estimates):
    """Return the estimates as a Markdown table.

    Parameters
    ----------
    titles : dict of str to str
        Title of each workload.
    estimates : dict of str to Estimate
    """
    heads = ("workload", "GFLOP", "MB", "arithmetic, us", "memory, us", "launches, us", "bound by")
    rows = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for name, found in estimates.items():
        low, high = (1e6 * seconds for seconds in found.launching)
        cells = (
            titles[name], f"{found.flops / 1e9:.3g}", f"{found.nbytes / 1e6:.0f}",
            _short(1e6 * found.arithmetic), _short(1e6 * found.memory),
            f"{low:,.0f} to {high:,.0f}", found.bound,
        )  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _short(number):
    """Format a number: three significant digits below 1,000, otherwise an integer."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
