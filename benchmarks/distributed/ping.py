"""Measure the latency and the time per byte of messages between two ranks.

`mpiexec -n 2 python -m benchmarks.distributed.ping FILE` writes [latency in seconds, seconds per
byte] to FILE.
"""

import json
import statistics
import sys
import time

import minitorch_attn as mt

__all__ = ["main"]

SMALL, LARGE, TIMES = 1, 1 << 20, 30  # float32 numbers in a message, and repetitions


def main(path):
    """Time messages to the other rank and back; write the latency and the time per byte."""
    mt.distributed.init_process_group("mpi")
    rank = mt.distributed.get_rank()
    small, large = (_one_way(mt.zeros(size), rank) for size in (SMALL, LARGE))
    if rank == 0:
        per_byte = max(large - small, 0.0) / (4 * (LARGE - SMALL))
        with open(path, "w", encoding="utf-8") as file:
            json.dump([small, per_byte], file)


def _one_way(tensor, rank):
    times = []
    for _ in range(TIMES):
        mt.distributed.barrier()
        start = time.perf_counter()
        if rank == 0:
            mt.distributed.send(tensor, dst=1)
            mt.distributed.recv(tensor, src=1)
        else:
            mt.distributed.recv(tensor, src=0)
            mt.distributed.send(tensor, dst=0)
        times.append((time.perf_counter() - start) / 2)
    return statistics.median(times)


if __name__ == "__main__":
    main(sys.argv[1])
