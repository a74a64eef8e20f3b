"""Count messages: how many messages and bytes each kind of call sends.

The counts are not measured but computed from the sizes of the buffers, so they are the same on
every machine. Each collective is counted for an algorithm that sends as few bytes as possible;
`ring.py` implements three of these algorithms. An MPI library may use others.
"""

from dataclasses import dataclass, field

from .parts import part_sizes

__all__ = ["Count", "Traffic", "count_messages", "record"]

_open = []  # Traffic objects of the `with` blocks that are open


@dataclass
class Count:
    """Number of calls of one kind on this rank, and of the messages and bytes that they send.

    Attributes
    ----------
    calls : int
        Number of calls.
    messages : int
        Number of messages that this rank sends.
    bytes : int
        Number of bytes in these messages.
    payload : int
        Number of bytes of the tensors passed to the calls.
    """

    calls: int = 0
    messages: int = 0
    bytes: int = 0
    payload: int = 0

    def __add__(self, other):
        return Count(*[a + b for a, b in zip(self._values(), other._values(), strict=True)])

    def _values(self):
        return self.calls, self.messages, self.bytes, self.payload


@dataclass
class Traffic:
    """What this rank has sent: a `Count` for each kind of call, such as `traffic["all_reduce"]`.

    Attributes
    ----------
    kinds : dict of str to Count
    """

    kinds: dict = field(default_factory=dict)

    def __getitem__(self, kind):
        return self.kinds.get(kind, Count())

    @property
    def total(self):
        """Sum of the counts of all kinds, as a `Count`."""
        return sum(self.kinds.values(), Count())

    @property
    def calls(self):
        """Number of calls of all kinds."""
        return self.total.calls

    @property
    def messages(self):
        """Number of messages that this rank has sent."""
        return self.total.messages

    @property
    def bytes(self):
        """Number of bytes that this rank has sent."""
        return self.total.bytes

    def note(self, kind, group, array, root):
        """Do nothing. `course.rank_messages.MessageLog` overrides this to store the arrays."""

    def table(self):
        """Return the counts as a text table, one kind of call per line.

        Examples
        --------
        >>> print(Traffic({"all_reduce": Count(1, 6, 1200, 800)}).table())
        call            calls  messages        bytes      payload
        all_reduce          1         6         1200          800
        total               1         6         1200          800
        """
        head = f"{'call':<14}{'calls':>7}{'messages':>10}{'bytes':>13}{'payload':>13}"
        rows = [*self.kinds.items(), ("total", self.total)]
        return "\n".join([head, *[_row(kind, count) for kind, count in rows]])

    def __str__(self):
        return self.table()


def _row(kind, count):
    return f"{kind:<14}{count.calls:>7}{count.messages:>10}{count.bytes:>13}{count.payload:>13}"


class count_messages:
    """Count the messages that this rank sends in a block: `with count_messages() as traffic`.

    Parameters
    ----------
    traffic : Traffic, optional
        Object that stores the counts. Default: a new one.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.distributed.count_messages() as traffic:
    ...     pass
    >>> traffic.messages, traffic.bytes
    (0, 0)
    """

    def __init__(self, traffic=None):
        self._traffic = Traffic() if traffic is None else traffic

    def __enter__(self):
        _open.append(self._traffic)
        return self._traffic

    def __exit__(self, *error):
        _open[:] = [other for other in _open if other is not self._traffic]


def record(kind, group, array, root=None, sizes=None):
    """Add one call to the counts of all open `count_messages` blocks.

    Parameters
    ----------
    kind : str
        Name of the collective.
    group : ProcessGroup
    array : array
        Array of the tensor that the caller passed to the collective.
    root : int, optional
        Rank of the source or destination in the group; None if the call does not specify one.
    sizes : list of int, optional
        For all_to_all: number of elements that are sent to each rank.
    """
    if not _open:
        return
    sent = _SENT[kind](group.rank(), group.size(), array.size, root, sizes)
    count = Count(1, len(sent), sum(sent) * array.itemsize, array.nbytes)
    for traffic in _open:
        traffic.kinds[kind] = traffic[kind] + count
        traffic.note(kind, group, array, root)


# Each function returns the number of elements in every message that this rank sends.


def _all_reduce(rank, ranks, size, root, sizes):
    """Return the sizes of the messages of the ring algorithm.

    It is a reduce-scatter, followed by an all-gather. In each, a rank sends N - 1 messages.
    """
    parts = part_sizes(size, ranks)
    return _ring_reduce_scatter(rank, parts) + _ring_all_gather(rank, parts)


def _ring_reduce_scatter(rank, parts):
    """Return the sizes of the parts that a rank sends.

    Rank r sends the parts r - 1, r - 2, ..., r + 1: all except part r (indices modulo N).
    """
    ranks = len(parts)
    return [parts[(rank - 1 - step) % ranks] for step in range(ranks - 1)]


def _ring_all_gather(rank, parts):
    """Return the sizes of the parts that a rank sends.

    Rank r sends the parts r, r - 1, ..., r + 2: all except part r + 1 (indices modulo N).
    """
    ranks = len(parts)
    return [parts[(rank - step) % ranks] for step in range(ranks - 1)]


def _reduce_scatter(rank, ranks, size, root, sizes):
    return _ring_reduce_scatter(rank, part_sizes(size, ranks))


def _all_gather(rank, ranks, size, root, sizes):
    return [size] * (ranks - 1)  # `size` is the size of one rank's tensor


def _broadcast(rank, ranks, size, root, sizes):
    """Return the sizes of the messages of a chain that starts at the root.

    Every rank but the last sends the tensor to the next rank.
    """
    return [size] if (rank - root) % ranks < ranks - 1 else []


def _reduce(rank, ranks, size, root, sizes):
    """Return the sizes of the messages of a chain that ends at the root.

    Every rank except the root sends one tensor.
    """
    return [] if rank == root else [size]


def _scatter(rank, ranks, size, root, sizes):
    """Return the sizes of the messages: the root sends every other rank its part.

    `size` is the size of one part.
    """
    return [size] * (ranks - 1) if rank == root else []


def _all_to_all(rank, ranks, size, root, sizes):
    return [size for other, size in enumerate(sizes) if other != rank]


_SENT = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "gather": _reduce,
    "recv": lambda rank, ranks, size, root, sizes: [],
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "scatter": _scatter,
    "send": lambda rank, ranks, size, root, sizes: [size],
}
