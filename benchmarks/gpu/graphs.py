"""Time a step as a CUDA graph (`mt.cuda.GraphedStep`), and the same step launched call by call."""

import importlib

from ..workloads import place
from .timing import WARM_UP, summary, turns
from .workloads import OURS

__all__ = ["NAMES", "compare"]

NAMES = ("w1", "w2", "w4b", "w5", "w7")
TOKENS = 200  # tokens to decode, as in W7


def compare(name, rounds=7, seconds=0.3, tokens=TOKENS):
    """Time a workload's step with and without `mt.cuda.GraphedStep`.

    Parameters
    ----------
    name : str
        Name of a workload. For "w7", the step generates one token.
    rounds : int
    seconds : float
    tokens : int
        Number of tokens to generate one after the other; used only for "w7".

    Returns
    -------
    dict
        Milliseconds `eager_ms` and `graph_ms`, and `reason`: why there is no graph, or "". Without
        a graph, `graph_ms` is missing; without GraphedStep, so is `eager_ms`.
    """
    import minitorch_attn as mt

    if not hasattr(mt.cuda, "GraphedStep"):
        return {"reason": "this version has no mt.cuda.GraphedStep"}
    if name == "w7":
        step, run = _decoding(tokens)
    else:
        step, run, tokens = _training(name), _once, 1
    graphed = mt.cuda.GraphedStep(step)
    for _ in range(WARM_UP + 1):  # the first steps run call by call, then the step is captured
        run(graphed)
    reason = str(graphed.reason or "")
    steps = {"eager": lambda: run(step), **({} if reason else {"graph": lambda: run(graphed)})}
    times = turns(steps, rounds, seconds)
    found = {f"{kind}_ms": summary(times[kind])["ms"] / tokens for kind in steps}
    return {**found, "reason": reason}


def _once(step):
    step()


def _training(name):
    """Return the step of a workload as a function without arguments."""
    module = importlib.import_module(f"benchmarks.workloads.{name}")
    with place.on("cuda"):
        return next(module.ENGINES[engine]() for engine in OURS if engine in module.ENGINES).run


def _decoding(tokens):
    """Return W7's step (token id to next token id), and a function that decodes with it."""
    import minitorch_attn as mt

    from ..workloads import gpt_step, w7

    model = gpt_step.our_model(**w7.SIZES).to("cuda").eval()
    cache = mt.nn.StaticKVCache(w7.SIZES["context"])

    def step(ids):
        with mt.no_grad():
            return model(ids, cache)[:, -1].argmax(-1, keepdim=True)

    def run(step):
        cache.reset()
        ids = mt.tensor([[0]], device="cuda")
        for _ in range(tokens):
            ids = step(ids)
            ids.item()  # a real program reads each token, to print it or to stop

    return step, run
