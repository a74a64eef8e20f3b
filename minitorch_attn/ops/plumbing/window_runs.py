"""Memory layout of a feature map in which sliding windows become long contiguous runs.

The map is padded on all sides and stored row by row without gaps. The elements that one kernel
entry covers in all windows then lie in one contiguous run of memory. The run also contains a few
elements at the end of each row that belong to no window; their results are not used. An operation
on all windows therefore needs only one operation on a run for each kernel entry, and no window is
copied. With a stride s, the map is divided into s * s phases (row modulo s, column modulo s), and
each phase has this layout.
"""

from ...backend import array_module

__all__ = ["WindowRuns"]


class WindowRuns:
    """Memory layout for all windows of a padded map: one contiguous run for each kernel entry.

    Parameters
    ----------
    size : (int, int)
        Height and width of the map.
    kernel, stride : int
        Size of a window (an odd number), and step from window to window. The first window is
        centered on the first element, and the map is padded by kernel // 2 on each side.

    Attributes
    ----------
    places : (int, int)
        Number of windows along each axis.
    length : int
        Length of a run: one element per window, and a few unused ones at the end of each row.
    entries : list of (int, int)
        For each kernel entry, in row-major order: the phase that contains its run, and the position
        in this phase where the run starts. With a stride s, phase i * s + j consists of the rows i,
        i + s, ... and the columns j, j + s, ... of the padded map.

    Examples
    --------
    >>> import numpy as np
    >>> runs = WindowRuns((2, 3), 3, 1)
    >>> spread = runs.spread(np.arange(6).reshape(1, 1, 2, 3))
    >>> phase, start = runs.entries[5]  # the right neighbor
    >>> runs.places_of(spread[:, :, phase, start : start + runs.length])[0, 0]
    array([[1, 2, 0],
           [4, 5, 0]])
    """

    def __init__(self, size, kernel, stride):
        self.size, self.kernel, self.stride = size, kernel, stride
        self.places = tuple([(n - 1) // stride + 1 for n in size])
        self.row = -(-(size[1] + kernel - 1) // stride)  # elements in a row of one phase
        rows = -(-(size[0] + kernel - 1) // stride)
        self.length = self.places[0] * self.row
        self.entries = [
            (i % stride * stride + j % stride, i // stride * self.row + j // stride)
            for i in range(kernel)
            for j in range(kernel)
        ]
        last = max(start for _, start in self.entries) + self.length
        self.padded, self.space = (rows, self.row), max(rows * self.row, last)

    def spread(self, x):
        """Copy x into padded phases: (item, channel, *size) -> (item, channel, phase, space)."""
        y = array_module(x).zeros((*x.shape[:2], self.stride**2, self.space), dtype=x.dtype)
        for there, here in self._phases(y):
            there[...] = x[here]
        return y

    def collect(self, y):
        """Copy the phases back into one map, without the padding; the adjoint of `spread`."""
        x = array_module(y).empty((*y.shape[:2], *self.size), dtype=y.dtype)
        for there, here in self._phases(y):
            x[here] = there
        return x

    def _phases(self, y):
        """For each phase, yield a view of its elements in y, without the padding, and an index.

        The index selects the same elements in the map.
        """
        s, pad = self.stride, self.kernel // 2
        grid = y[..., : self.padded[0] * self.row].reshape(*y.shape[:3], *self.padded)
        for i in range(s):
            for j in range(s):
                inside, taken = [], []
                for phase, n in ((i, self.size[0]), (j, self.size[1])):
                    first = -(-(pad - phase) // s)  # in the phase: first index inside the map
                    begin = first * s + phase - pad  # the same element's index in the map
                    inside.append(slice(first, first + len(range(begin, n, s))))
                    taken.append(slice(begin, n, s))
                yield grid[:, :, i * s + j, inside[0], inside[1]], (..., *taken)

    def runs_of(self, x):
        """Arrange one value per window in the layout of a run, with 0 in the unused elements.

        The shape (item, channel, *places) becomes (item, channel, length).
        """
        y = array_module(x).zeros((*x.shape[:2], self.places[0], self.row), dtype=x.dtype)
        y[..., : self.places[1]] = x
        return y.reshape(*x.shape[:2], self.length)

    def places_of(self, y):
        """Invert `runs_of`: (item, channel, length) -> (item, channel, *places), contiguous."""
        y = y.reshape(*y.shape[:2], self.places[0], self.row)[..., : self.places[1]]
        return array_module(y).ascontiguousarray(y)

    def views(self, x):
        """For each phase, yield the runs of its kernel entries, and slices for the kernel.

        Parameters
        ----------
        x : array of shape (item, channel, phase, space)
            Padded phases, as `spread` returns them.

        Yields
        ------
        runs : array of shape (item, channel, row, column, length)
            View of x. The axes `row` and `column` run over the kernel entries that belong to this
            phase.
        entries : (slice, slice)
            Slices that select these kernel entries from the rows and columns of the kernel.
        """
        xp, s, k = array_module(x), self.stride, self.kernel
        item, channel, _, step = x.strides
        for i in range(min(s, k)):
            for j in range(min(s, k)):
                shape = (*x.shape[:2], -(-(k - i) // s), -(-(k - j) // s), self.length)
                strides = (item, channel, self.row * step, step, step)
                view = xp.lib.stride_tricks.as_strided(x[:, :, i * s + j], shape, strides)
                yield view, (slice(i, None, s), slice(j, None, s))
