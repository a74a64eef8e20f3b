"""One flat buffer for all parameters of a group: an update is a few passes over one array.

A model has many small parameters, and each array operation costs about a microsecond before it
touches a number. So the parameters of a group move into one buffer, in which each is a view; the
optimiser's state lies in buffers of the same layout. One update then runs over whole stretches,
in blocks that stay in the cache.
"""

from bisect import bisect_right

from ..backend import array_module, device_of

__all__ = ["FlatBuffer"]

# Elements; large enough that threads which share the blocks out seldom meet at Python's lock.
BLOCK = 1 << 17


class FlatBuffer:
    """Parameters of one dtype and device, laid end to end.

    Making the buffer moves the memory of the parameters: a NumPy view taken of a parameter
    before that keeps the old memory and no longer follows the updates.

    Parameters
    ----------
    parameters : list of Tensor
        All of one dtype, on one device.
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
        self.values = self.new(first)
        self.states = {}  # name -> buffer
        self.views = []
        for i, p in enumerate(parameters):
            view = self.view(self.values, i)
            view[...] = p.array
            p.array = view
            self.views.append(view)

    def new(self, like):
        """A zero buffer of this layout."""
        return self.xp.zeros(self.size, dtype=like.dtype)

    def view(self, buffer, i):
        """The part of a buffer that belongs to parameter `i`, in its shape."""
        p = self.parameters[i]
        start = self.starts[i]
        return buffer[start : start + p.array.size].reshape(p.array.shape)

    def is_current(self):
        """Whether the parameters still live here; `module.to(...)` moves them away."""
        return all(p.array is v for p, v in zip(self.parameters, self.views, strict=True))

    def state(self, name):
        """The state buffer of this name, zeros when new."""
        if name not in self.states:
            self.states[name] = self.new(self.values)
        return self.states[name]

    def stretches(self, groups):
        """Join neighbours that share a key into (key, start, stop).

        Parameters
        ----------
        groups : list of (index, key)
            In rising order of index.
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
        """Cut stretches into (key, start, stop) of at most `BLOCK` elements."""
        return [
            (key, low, min(low + BLOCK, stop))
            for key, start, stop in stretches
            for low in range(start, stop, BLOCK)
        ]

    def parts(self, blocks, names):
        """Yield key, value, gradient, state..., and two scratch arrays, block by block.

        The gradient is a copy, made where the block is about to be used: the gradients of the
        parameters stay where they are, and no second buffer of their size is needed.
        """
        buffers = [self.values, *[self.state(name) for name in names]]
        scratch = self.xp.empty((3, min(BLOCK, self.size)), dtype=self.values.dtype)
        for key, low, high in blocks:
            value, *states = [buffer[low:high] for buffer in buffers]
            grad, first, second = (scratch[i, : high - low] for i in range(3))
            self.gather(low, high, grad)
            yield key, value, grad, *states, first, second

    def gather(self, low, high, out):
        """Copy the gradients of the elements `low` to `high` into `out`."""
        i = bisect_right(self.starts, low) - 1
        while i < len(self.starts) and self.starts[i] < high:
            start, p = self.starts[i], self.parameters[i]
            first, last = max(low, start), min(high, start + p.array.size)
            if first < last:  # else it has no elements, and perhaps no gradient
                grad = p.grad.array.reshape(-1)
                out[first - low : last - low] = grad[first - start : last - start]
            i += 1

    def touched(self, indices):
        """Note that parameters changed in place, for the version check of the engine."""
        for i in indices:
            self.parameters[i].changed_in_place()


def partition(parameters):
    """Split parameters into lists of one dtype and device, keeping their order."""
    lists = {}
    for p in parameters:
        lists.setdefault((str(p.dtype), device_of(p.array)), []).append(p)
    return list(lists.values())
