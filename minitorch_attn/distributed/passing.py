"""Ring of ranks: each rank computes with arrays while it passes them on to the next rank."""

from ..backend import array_module
from ..tensor import wrap
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend
from .process_group import get_global_rank, get_rank, get_world_size

__all__ = ["ALONE", "Ring"]

ALONE = "alone"  # a group of this process only, which does not need an initialized process group


class Ring:
    """The ranks of a group in a ring: rank r sends to r + 1 and receives from r - 1.

    Parameters
    ----------
    group : ProcessGroup, or None for all ranks, or ALONE
    """

    def __init__(self, group):
        self.group = group
        self.rank, self.size = 0, 1
        if group is not ALONE:
            self.rank, self.size = get_rank(group), get_world_size(group)

    def visit(self, *arrays):
        """Yield (source, arrays of rank `source`) for every rank, starting with this one.

        While the caller computes with these arrays, they are sent to the next rank, and the next
        arrays are received. One message contains all arrays of a rank. All ranks use equal shapes.
        """
        held = packed(arrays)
        for step in range(self.size):
            last = step == self.size - 1
            arriving = None if last else self.pass_on(held)
            yield (self.rank - step) % self.size, unpacked(held, arrays)
            held = held if last else arriving.wait()

    def pass_on(self, array):
        """Start sending an array to the next rank, and receiving one from the previous rank.

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
    """An array being sent to the next rank, and one being received from the previous rank."""

    def __init__(self, sent, received, works):
        self.sent, self.received, self.works = sent, received, works

    def wait(self):
        """Wait until both messages have arrived, and return the received array."""
        for work in self.works:
            work.wait()
        return self.received


def packed(arrays):
    """Return the elements of all arrays in one contiguous array with one axis."""
    return array_module(arrays[0]).concatenate([array.reshape(-1) for array in arrays])


def unpacked(flat, like):
    """Return views of a packed array, with the shapes of the arrays `like`."""
    views, start = [], 0
    for array in like:
        views.append(flat[start : start + array.size].reshape(array.shape))
        start += array.size
    return views
