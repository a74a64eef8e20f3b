r"""Cost model of a training step on N workers: time of the computation and of the messages.

A step trains a model with L layers, width E and P parameters of 4 bytes, on B examples of T tokens.
A worker needs c seconds for an example, and a message of n bytes takes a + n b seconds. The
pipeline has M micro-batches. Then a step takes

    data parallel      ceil(B / N) c + ring(4 P)
    sequence parallel  B c / N + L (3 N - 2) (a + 2 * 4 B (T / N) E b) + ring(4 P)
    tensor parallel    B c / N + 4 L ring(4 B T E)
    pipeline           B c / N * (M + N - 1) / M + 2 M (a + 4 (B / M) T E b)

where a ring all-reduce of n bytes sends 2 (N - 1) messages of n / N bytes:

    ring(n) = 2 (N - 1) (a + n b / N).

The model assumes that computation and messages do not overlap. The buckets of
`DistributedDataParallel` overlap with the backward pass, so its measured time can be lower. The
number of workers is limited, because each worker needs at least one example (data), two tokens
(sequence), one head (tensor) or one layer (pipeline): see `limit`.
"""

from dataclasses import dataclass

__all__ = ["SCHEMES", "Machine", "Work", "limit", "seconds"]

SCHEMES = ("data", "sequence", "tensor", "pipeline")


@dataclass(frozen=True)
class Machine:
    """Times of a worker: seconds per example, per message and per byte.

    Attributes
    ----------
    example : float
        Seconds that one worker needs for an example, forward and backward.
    message : float
        Latency of a message in seconds.
    byte : float
        Transfer time of one byte in seconds.
    """

    example: float
    message: float
    byte: float


@dataclass(frozen=True)
class Work:
    """Sizes of a training step.

    Attributes
    ----------
    batch, context, width, layers, heads, parameters : int
    micro_batches : int
        Number of micro-batches in the pipeline.
    """

    batch: int
    context: int
    width: int
    layers: int
    heads: int
    parameters: int
    micro_batches: int = 8


def ring(machine, size, workers):
    """Return the time that a ring all-reduce of `size` bytes takes, in seconds."""
    return 2 * (workers - 1) * (machine.message + size * machine.byte / workers)


def limit(scheme, work):
    """Return the largest number of workers that a scheme can use.

    Examples
    --------
    >>> limit("tensor", Work(batch=8, context=256, width=384, layers=6, heads=6, parameters=10**7))
    6
    """
    most = {
        "data": work.batch, "sequence": work.context // 2, "tensor": work.heads,
        "pipeline": work.layers,
    }  # fmt: skip
    return most[scheme]


def seconds(scheme, machine, work, workers):
    """Return the predicted time of a step in seconds, from the equations in the module's docstring.

    Parameters
    ----------
    scheme : str
        One of `SCHEMES`.
    machine : Machine
    work : Work
    workers : int
        Number of workers, at most `limit(scheme, work)`.

    Returns
    -------
    float

    Examples
    --------
    Without latency, and with a free network, four workers take a quarter of the time:

    >>> work = Work(batch=8, context=256, width=384, layers=6, heads=6, parameters=10**7)
    >>> seconds("data", Machine(example=0.1, message=0.0, byte=0.0), work, 4)
    0.2
    """
    compute, tokens = work.batch * machine.example / workers, work.context / workers
    gradients = ring(machine, 4 * work.parameters, workers)
    activations = 4 * work.batch * work.context * work.width
    if scheme == "data":
        return -(-work.batch // workers) * machine.example + gradients
    if scheme == "sequence":
        keys_and_values = 2 * 4 * work.batch * tokens * work.width
        hops = work.layers * (3 * workers - 2) if workers > 1 else 0
        return compute + hops * (machine.message + keys_and_values * machine.byte) + gradients
    if scheme == "tensor":
        return compute + 4 * work.layers * ring(machine, activations, workers)
    parts = work.micro_batches
    hops = 2 * parts if workers > 1 else 0
    bubble = compute * (parts + workers - 1) / parts
    return bubble + hops * (machine.message + activations / parts * machine.byte)
