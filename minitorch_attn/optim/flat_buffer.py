"""Flat buffer for all parameters of a group, so that an update takes a few passes over one array.

A model has many small parameters, and each array operation has an overhead of about a
microsecond. Therefore, a group's parameters are moved to one buffer and become views of it.
Buffers of the same layout hold the optimizer's state. An update processes whole ranges of the
buffer, in blocks that fit in the cache.
"""

from bisect import bisect_right

from ..backend import array_module, device_of
from ..backend.kernel_table import with_kernel
from ..backend.shared_memory import is_shared, shared_arrays

__all__ = ["FlatBuffer", "join"]

# Number of elements in a block; large enough that threads rarely wait for Python's global lock.
BLOCK = 1 << 17
# A buffer of at least this size has blocks of twice the size: AdamW takes 5 % less time with two
# threads, and each thread still has many blocks.
LARGE = 1 << 22


class FlatBuffer:
    """Contiguous buffer of parameters of one dtype and device.

    Creating the buffer moves the parameters to new memory. A parameter's existing NumPy views
    still show the old memory and do not follow the updates.

    Parameters
    ----------
    parameters : list of Tensor
        Parameters of one dtype on one device.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        first = parameters[0].array
        self.xp = array_module(first)
        self.starts = []
        total = 0
        for p in parameters:
            self.starts.append(total)
            total += p.array.size
        self.size = total
        # Memory that processes share stays shared. Then the optimizer's state is shared as well:
        # otherwise, each process forked from this one would keep a copy of it.
        self.is_shared = any(is_shared(p.array) for p in parameters)
        self.values = self.new(first)
        self.states = {}  # name -> buffer
        self.views = []
        for i, p in enumerate(parameters):
            view = self.view(self.values, i)
            view[...] = p.array
            p.array = view
            self.views.append(view)

    def new(self, like):
        """Return a buffer of zeros with this layout and the dtype of `like`."""
        if self.is_shared:
            return shared_arrays([((self.size,), like.dtype)])[0]
        return self.xp.zeros(self.size, dtype=like.dtype)

    def view(self, buffer, i):
        """Return the part of a buffer that belongs to parameter `i`, with the parameter's shape."""
        p = self.parameters[i]
        start = self.starts[i]
        return buffer[start : start + p.array.size].reshape(p.array.shape)

    def is_current(self):
        """Return False if a parameter no longer uses this buffer, as after `module.to(...)`."""
        return all(p.array is v for p, v in zip(self.parameters, self.views, strict=True))

    def state(self, name):
        """Return the state buffer of this name; create it, filled with zeros, if it is missing."""
        if name not in self.states:
            self.states[name] = self.new(self.values)
        return self.states[name]

    def stretches(self, groups):
        """Merge adjacent parameters with the same key into buffer ranges (key, start, stop).

        A range consists of the buffer's elements `start` to `stop` - 1.

        Parameters
        ----------
        groups : list of (index, key)
            A parameter's index and its key, such as its step count; in increasing order of index.
        """
        joined = []
        for i, key in groups:
            start, stop = self.starts[i], self.starts[i] + self.parameters[i].array.size
            if joined and joined[-1][0] == key and joined[-1][2] == start:
                joined[-1] = (key, joined[-1][1], stop)
            else:
                joined.append((key, start, stop))
        return joined

    def blocks(self, stretches):
        """Split buffer ranges (key, start, stop) into ranges that fit in a CPU's cache."""
        size = self._block_size()
        return [
            (key, low, min(low + size, stop))
            for key, start, stop in stretches
            for low in range(start, stop, size)
        ]

    def _block_size(self):
        """Return the number of elements per block; on a GPU, one block spans the full buffer."""
        if device_of(self.values).type != "cpu":
            return max(self.size, 1)
        return BLOCK if self.size < LARGE else 2 * BLOCK

    def parts(self, blocks, names, overwrites=True):
        """For each block (key, low, high) of the buffer, yield what an update of the block needs.

        These are the key, a view of the parameter values, the gradient, a view of each state in
        `names`, and two scratch arrays of the block's size for intermediate results.

        The gradient is a copy if the update overwrites it (`overwrites`), or if the block extends
        over several parameters. Copying only one block at a time avoids a second buffer as large as
        all gradients together.
        """
        buffers = [self.values, *[self.state(name) for name in names]]
        scratch = self.xp.empty((3, min(self._block_size(), self.size)), dtype=self.values.dtype)
        for key, low, high in blocks:
            value, *states = [buffer[low:high] for buffer in buffers]
            grad, first, second = (scratch[i, : high - low] for i in range(3))
            pieces = self.gradients(low, high)
            if overwrites or len(pieces) > 1:
                join(pieces, grad)
            else:
                (grad,) = pieces
            yield key, value, grad, *states, first, second

    def gradients(self, low, high):
        """Return the gradients of elements `low` to `high - 1`, one 1-D array per parameter."""
        found = []
        i = bisect_right(self.starts, low) - 1
        while i < len(self.starts) and self.starts[i] < high:
            start, p = self.starts[i], self.parameters[i]
            first, last = max(low, start), min(high, start + p.array.size)
            if first < last:  # false for an empty parameter, whose gradient may be None
                found.append(p.grad.array.reshape(-1)[first - start : last - start])
            i += 1
        return found

    def touched(self, indices):
        """Record that parameters changed in place, for the autograd engine's version check."""
        for i in indices:
            self.parameters[i].changed_in_place()


@with_kernel
def join(pieces, out):
    """Copy 1-D arrays into `out`, one after another."""
    start = 0
    for piece in pieces:
        out[start : start + len(piece)] = piece
        start += len(piece)


def partition(parameters):
    """Group parameters into lists by dtype and device. Within a list, the order is unchanged."""
    lists = {}
    for p in parameters:
        lists.setdefault((str(p.dtype), device_of(p.array)), []).append(p)
    return list(lists.values())
