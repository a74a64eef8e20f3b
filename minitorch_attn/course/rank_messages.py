"""Messages between the ranks of a run: the sender, the receiver, the values and the round.

Messages of one round of communication can travel at the same time.
"""

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from ..backend import to_host
from ..distributed.counting import Traffic

__all__ = ["Message", "MessageLog", "in_rounds", "print_messages"]


@dataclass
class Message:
    """One message from one rank to another.

    Attributes
    ----------
    source, target : int
        Ranks of the run.
    values : numpy.ndarray
        A copy of the array that was sent.
    round : int
        1 plus the largest round among the messages that the source had sent or received before.
        Messages of one round can travel at the same time.
    """

    source: int
    target: int
    values: np.ndarray
    round: int = 0

    def __str__(self):
        text = np.array2string(self.values.reshape(-1), precision=3, threshold=8, edgeitems=2)
        return f"{self.source} -> {self.target}  {text}  {self.values.nbytes} bytes"


class MessageLog(Traffic):
    """Traffic counter that also records every send and receive of this rank, in order."""

    def __init__(self):
        super().__init__()
        self.entries = []  # (kind, rank of the run, values)

    def note(self, kind, group, array, root):
        """Record a send (target rank and a copy of the array) or a receive (source rank only)."""
        if kind in ("send", "recv") and root is not None:
            values = to_host(array).copy() if kind == "send" else None
            self.entries.append((kind, group.ranks[root], values))


def in_rounds(logs):
    """Match sends with receives, number the rounds, and return the messages sorted by round.

    `Message` defines what a round is.

    Parameters
    ----------
    logs : list of list of (kind, rank, values)
        Entries of each rank's MessageLog. The k-th send from rank a to rank b matches the k-th
        receive of b from a.

    Returns
    -------
    list of Message
        Sorted by round and source.

    Examples
    --------
    >>> one = np.ones(2)
    >>> logs = [[("send", 1, one)], [("recv", 0, None), ("send", 2, one)], [("recv", 1, None)]]
    >>> for message in in_rounds(logs):
    ...     print(message.round, message)
    1 0 -> 1  [1. 1.]  16 bytes
    2 1 -> 2  [1. 1.]  16 bytes
    """
    messages, on_the_way = [], defaultdict(deque)  # (source, target) -> messages
    pending, clocks = [deque(log) for log in logs], [0] * len(logs)
    moved = True
    while moved:  # until every rank has finished or waits for a message
        moved = False
        for rank, entries in enumerate(pending):
            while entries:
                kind, other, values = entries[0]
                if kind == "send":
                    clocks[rank] += 1
                    messages.append(Message(rank, other, values, clocks[rank]))
                    on_the_way[rank, other].append(messages[-1])
                elif on_the_way[other, rank]:
                    clocks[rank] = max(clocks[rank], on_the_way[other, rank].popleft().round)
                else:
                    break  # the other rank's send must come first
                entries.popleft()
                moved = True
    return sorted(messages, key=lambda message: (message.round, message.source))


def print_messages(messages, first=1, last=None):
    """Print messages round by round.

    Parameters
    ----------
    messages : list of Message
    first, last : int, optional
        Rounds to print. Default: all.
    """
    for number in sorted({message.round for message in messages}):
        if number >= first and (last is None or number <= last):
            print(f"round {number}")
            for message in messages:
                if message.round == number:
                    print(f"  {message}")
