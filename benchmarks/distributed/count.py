"""Count the messages that each rank sends in a training step, for five ways to split the step.

Run `python -m benchmarks.distributed.count WORKLOAD FILE` on several ranks. Rank 0 writes FILE:
{scheme: {"loss": loss, "sent": a list with [messages, bytes] for each rank}}. A scheme is left out
if its heads, tokens or sequences cannot be divided by the number of ranks.
"""

import importlib
import json
import sys

import minitorch_attn as mt
from minitorch_attn.nn import functional as F
from minitorch_attn.nn import parallel

from ..workloads import gpt_step
from .formulas import MICRO_BATCHES, SCHEMES, Step, obstacle

__all__ = ["main", "step_of"]


def main(workload, path):
    """Count the messages of a step in each scheme. Rank 0 writes the counts to `path`."""
    mt.distributed.init_process_group("mpi")
    step, found = step_of(workload), {}
    for scheme in SCHEMES:
        if not obstacle(scheme, step, mt.distributed.get_world_size()):
            found[scheme] = counted(scheme, step)
    if mt.distributed.get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)


def step_of(workload):
    """Return the sizes of a workload's training step."""
    sizes = importlib.import_module(f"benchmarks.workloads.{workload}").SIZES
    with mt.nn.init.skip_init():
        model = _model(sizes)
    return Step(**sizes, parameters=tuple(p.numel() for p in model.parameters()))


def _model(sizes):
    names = ("layers", "heads", "width", "context", "vocabulary")
    return gpt_step.our_model(*[sizes[name] for name in names])


def counted(scheme, step):
    """Return the loss of a step, and the numbers of messages and bytes that each rank sends."""
    mt.manual_seed(1)
    model = _model(vars(step))
    arrays = gpt_step.tokens(step.batch, step.context, step.vocabulary)
    ids, targets = (mt.tensor(array) for array in arrays)
    model, compute = _WAYS[scheme](model)
    optimizer = _optimizer(scheme, model)
    with mt.distributed.count_messages() as traffic:
        loss = compute(ids, targets)
        optimizer.step()
    sent = [None] * mt.distributed.get_world_size()
    mt.distributed.all_gather_object(sent, [traffic.messages, traffic.bytes])
    return {"loss": loss, "sent": sent}


def _optimizer(scheme, model):
    if scheme == "zero1":
        return mt.optim.ZeroRedundancyOptimizer(model.parameters(), mt.optim.AdamW, lr=1e-3)
    return mt.optim.AdamW(model.parameters(), lr=1e-3)


# Each function returns the split model, and a function that computes the loss and the gradients.


def _data(model):
    model = parallel.DistributedDataParallel(model)
    rank, ranks = mt.distributed.get_rank(), mt.distributed.get_world_size()

    def compute(ids, targets):
        rows = len(ids) // ranks
        own = slice(rank * rows, (rank + 1) * rows)
        return _gradients(_loss(model(ids[own]), targets[own]))

    return model, compute


def _tensor(model):
    model = parallel.tensor_parallel(model)
    return model, lambda ids, targets: _gradients(_loss(model(ids), targets))


def _sequence(model):
    model = parallel.SequenceParallel(model)

    def compute(ids, targets):
        loss = _gradients(model.loss(ids, targets))
        model.sum_gradients()
        return loss

    return model, compute


def _pipeline(model):
    model = parallel.GPipe(parallel.pipeline_layers(model), micro_batches=MICRO_BATCHES)
    return model, lambda ids, targets: model.step(ids, targets, _loss)


_WAYS = {
    "data": _data, "zero1": _data, "tensor": _tensor, "sequence": _sequence, "pipeline": _pipeline,
}  # fmt: skip


def _loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _gradients(loss):
    loss.backward()
    return loss.item()


if __name__ == "__main__":
    main(*sys.argv[1:])
