"""Ring of ranks: passing arrays from rank to rank while the ranks compute with them."""

from ..backend import array_module
from ..tensor import wrap
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend
from .process_group import get_global_rank, get_rank, get_world_size

__all__ = ["ALONE", "Ring"]

ALONE = "alone"  # a group of only this process; works without init_process_group


class Ring:
    """The ranks of a group in a ring: rank r sends to r + 1 and receives from r - 1.

    Parameters
    ----------
    group : ProcessGroup, None or ALONE
        None stands for all ranks, and ALONE for a ring of only this process.
    """

    def __init__(self, group):
        self.group = group
        self.rank, self.size = 0, 1
        if group is not ALONE:
            self.rank, self.size = get_rank(group), get_world_size(group)

    def visit(self, *arrays):
        """Yield (source, arrays on rank `source`) for every rank, starting with this rank.

        While the caller computes with these arrays, `visit` sends them to the next rank and
        receives other arrays from the previous rank. One message contains all arrays of a rank. The
        arrays must have the same shapes on all ranks.
        """
        held = packed(arrays)
        for step in range(self.size):
            last = step == self.size - 1
            arriving = None if last else self.pass_on(held)
            yield (self.rank - step) % self.size, unpacked(held, arrays)
            held = held if last else arriving.wait()

    def pass_on(self, array):
        """Start sending an array to the next rank, and receiving an array from the previous rank.

        Returns
        -------
        object whose `wait()` returns the received array
        """
        if self.size == 1:
            return _Passing(array, array, ())
        received = array_module(array).empty_like(array)
        after = get_global_rank(self.group, (self.rank + 1) % self.size)
        before = get_global_rank(self.group, (self.rank - 1) % self.size)
        works = batch_isend_irecv([
            P2POp(isend, wrap(array), after, self.group),
            P2POp(irecv, wrap(received), before, self.group),
        ])  # fmt: skip
        return _Passing(array, received, works)


class _Passing:
    """Two messages in progress: an array to the next rank, and an array from the previous rank."""

    def __init__(self, sent, received, works):
        self.sent, self.received, self.works = sent, received, works

    def wait(self):
        """Wait until both messages have arrived, and return the received array."""
        for work in self.works:
            work.wait()
        return self.received


def packed(arrays):
    """Concatenate the elements of all arrays into one contiguous 1-d array."""
    return array_module(arrays[0]).concatenate([array.reshape(-1) for array in arrays])


def unpacked(flat, like):
    """Split a packed array into views that have the shapes of the arrays in `like`."""
    views, start = [], 0
    for array in like:
        views.append(flat[start : start + array.size].reshape(array.shape))
        start += array.size
    return views
