"""Worker process of one engine: build a workload, then run steps on request.

The parent writes one JSON request per line and reads one JSON answer per line.
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import time

from . import machine
from .measure import OPTIONAL, write_arrays


def main(workload, engine, threads):
    """Serve requests until the parent closes the pipe."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries must not mix with the answers
    if engine.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
    start = time.perf_counter()
    try:
        step = importlib.import_module(f"benchmarks.workloads.{workload}").ENGINES[engine]()
        step.run()
    except Exception as error:
        if engine not in OPTIONAL:
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps({"unavailable": reason}), file=answers)
        return
    first = time.perf_counter() - start
    print(json.dumps({"first_step": first}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_answer(request, step)), file=answers)


def _answer(request, step):
    if request["do"] == "evidence":
        write_arrays(request["path"], step.evidence())
        return {}
    if request["do"] == "memory":
        return {"peak_mb": machine.peak_memory_mb()}
    faults, busy, begin = machine.page_faults(), machine.processor_seconds(), time.perf_counter()
    times = []
    for _ in range(request["steps"]):
        start = time.perf_counter()
        step.run()
        times.append(time.perf_counter() - start)
    wall = time.perf_counter() - begin
    return {
        "times": times,
        "page_faults": (machine.page_faults() - faults) / request["steps"],
        "cores_used": (machine.processor_seconds() - busy) / wall,
        "operations": step.operations,
    }


if __name__ == "__main__":
    with (
        contextlib.suppress(KeyboardInterrupt, BrokenPipeError),
        tempfile.TemporaryDirectory() as folder,
    ):
        # With an empty cache, the time of the first step includes compilation.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
