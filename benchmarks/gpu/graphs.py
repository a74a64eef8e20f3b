"""A step as a CUDA graph against the same step launched call by call."""

import importlib

from ..workloads import place
from .timing import WARM_UP, summary, turns
from .workloads import OURS

__all__ = ["NAMES", "compare"]

NAMES = ("w1", "w2", "w4b", "w5", "w7")


def compare(name, rounds=7, seconds=0.3):
    """Time a step with and without `mt.cuda.GraphedStep`.

    Parameters
    ----------
    name : str
        A workload; for "w7", the step is one token.
    rounds : int
    seconds : float

    Returns
    -------
    dict
        Milliseconds of both, or under "reason" why there is no graph.
    """
    import minitorch_attn as mt

    if not hasattr(mt.cuda, "GraphedStep"):
        return {"reason": "this version has no mt.cuda.GraphedStep"}
    step = _step(name)
    graphed = mt.cuda.GraphedStep(step)
    for _ in range(WARM_UP + 1):  # the step runs call by call at first, and is then captured
        graphed()
    reason = graphed.reason
    times = turns({"eager": step, "graph": graphed}, rounds, seconds)
    eager, graph = (summary(times[kind])["ms"] for kind in ("eager", "graph"))
    return {"eager_ms": eager, "graph_ms": graph, "reason": str(reason) if reason else ""}


def _step(name):
    """Return the step as a function without arguments."""
    if name == "w7":
        from ..device_calls import WORKLOADS

        return WORKLOADS["w7"]()
    module = importlib.import_module(f"benchmarks.workloads.{name}")
    with place.on("cuda"):
        return next(module.ENGINES[engine]() for engine in OURS if engine in module.ENGINES).run
