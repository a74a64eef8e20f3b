"""One rank of a data-parallel training step, in this library or in PyTorch.

Run `python -m benchmarks.distributed.rank ENGINE WORKLOAD STEPS FILE` on several ranks. Every rank
trains on its rows of the workload's batch. Rank 0 writes a JSON file, FILE, with the times of the
steps, the loss, the norm of the gradients and, for this library, the numbers of messages and bytes
of a step.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

from ..workloads import gpt_step

__all__ = ["main"]


def main(engine, workload, steps, path):
    """Train on this rank with one engine. Rank 0 writes the measurements to `path`."""
    sizes = importlib.import_module(f"benchmarks.workloads.{workload}").SIZES
    found = {"minitorch_attn": ours, "torch": pytorch}[engine](sizes, steps)
    if found is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)


def ours(sizes, steps):
    """Train with `nn.parallel.DistributedDataParallel` on MPI.

    Rank 0 returns the measurements. The other ranks return None.
    """
    import minitorch_attn as mt
    from minitorch_attn.nn import functional as F

    from ..workloads.ours import filled

    mt.distributed.init_process_group("mpi")
    rank, ranks = mt.distributed.get_rank(), mt.distributed.get_world_size()
    model = mt.nn.parallel.DistributedDataParallel(filled(gpt_step.our_model(*_model(sizes))))
    optimizer = mt.optim.AdamW(model.parameters(), lr=gpt_step.LEARNING_RATE)
    ids, targets = (mt.tensor(rows) for rows in _part(sizes, rank, ranks))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        return loss

    with mt.distributed.count_messages() as traffic:
        loss = step()
    figures = _figures(loss.detach().numpy(), [p.grad.numpy() for p in model.parameters()])
    optimizer.step()

    times = _timed(step, optimizer, mt.distributed.barrier, steps)
    sent = {"messages": traffic.messages, "bytes": traffic.bytes}
    return {**figures, "times": times, **sent} if rank == 0 else None


def pytorch(sizes, steps):
    """Train with PyTorch's `DistributedDataParallel` on gloo.

    Rank 0 returns the measurements. The other ranks return None.
    """
    import torch
    from torch import distributed
    from torch.nn import functional as F

    from ..workloads.in_torch import filled

    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    model = filled(gpt_step.torch_model(*_model(sizes)))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=gpt_step.LEARNING_RATE, fused=True)
    ids, targets = (torch.tensor(rows) for rows in _part(sizes, rank, ranks))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(parallel(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        return loss

    loss = step()
    grads = [p.grad.numpy() for p in model.parameters()]
    figures = _figures(loss.detach().numpy(), grads)
    optimizer.step()

    times = _timed(step, optimizer, distributed.barrier, steps)
    distributed.destroy_process_group()
    return {**figures, "times": times} if rank == 0 else None


def _model(sizes):
    return [sizes[name] for name in ("layers", "heads", "width", "context", "vocabulary")]


def _part(sizes, rank, ranks):
    """Return this rank's rows of the batch: inputs and targets."""
    arrays = gpt_step.tokens(sizes["batch"], sizes["context"], sizes["vocabulary"])
    rows = sizes["batch"] // ranks
    return [array[rank * rows : (rank + 1) * rows] for array in arrays]


def _figures(loss, grads):
    """Return the loss of this rank's rows, and the norm of all gradients together.

    The gradients in `grads` have already been averaged over the ranks.
    """
    squares = sum(float((grad.astype(np.float64) ** 2).sum()) for grad in grads)
    return {"loss": float(loss), "gradient_norm": squares**0.5}


def _timed(step, optimizer, barrier, steps):
    """Time each step, with the update, from barrier to barrier. Return a list of seconds."""
    times = []
    for _ in range(1 + steps):
        barrier()
        start = time.perf_counter()
        step()
        optimizer.step()
        barrier()
        times.append(time.perf_counter() - start)
    return times[1:]  # the first one warms up


if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
