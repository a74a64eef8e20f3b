"""Values of an array in a recording: statistics, and all values or a regular sample."""

import math

import numpy as np

from ..backend import to_host

__all__ = ["Values", "grid_steps", "plain"]


class Values:
    """A copy of the values of an array at one moment.

    Parameters
    ----------
    array : array on any device
    keep : int
        Maximum number of values to copy. A larger array is sampled along its longest axes. If it
        has four or more axes, its last two axes are copied in full whenever they fit into `keep`.

    Attributes
    ----------
    shape, dtype
        Shape and dtype of the whole array.
    array : numpy.ndarray
        Copy of the whole array, or of the sample `array[::step, ...]`.
    steps : tuple of int
        Sampling step along each axis; every step is 1 if the whole array is copied.
    min, max, mean, std : float or None
        Statistics of all finite values; None if no value is finite.
    nan, inf : int
        Number of NaN values and of infinite values.

    Examples
    --------
    >>> v = Values(np.arange(12.0).reshape(3, 4), keep=6)
    >>> v.array.tolist(), v.steps, v.mean
    ([[0.0, 2.0], [4.0, 6.0], [8.0, 10.0]], (1, 2), 5.5)
    """

    def __init__(self, array, keep):
        self.shape, self.dtype = tuple(array.shape), array.dtype
        # Arrays with four axes are attention maps or images. Keep some of them complete.
        self.steps = grid_steps(self.shape, keep, whole=2 if len(self.shape) > 3 else 0)
        host = np.asarray(to_host(array))
        self.array = np.array(host[_grid(self.steps)])  # a copy, even of a 0-d array
        self._measure(host)

    def _measure(self, host):
        self.nan = self.inf = 0
        self.min = self.max = self.mean = self.std = None
        numbers = host
        if host.dtype.kind == "f":
            finite = np.isfinite(host)
            if not finite.all():
                self.nan = int(np.isnan(host).sum())
                self.inf = host.size - self.nan - int(finite.sum())
                numbers = host[finite]
        if numbers.size:
            self.min, self.max = float(numbers.min()), float(numbers.max())
            self.mean = float(numbers.mean(dtype=np.float64))
            self.std = float(numbers.std(dtype=np.float64))

    @property
    def size(self):
        """Number of values in the whole array."""
        return math.prod(self.shape)

    @property
    def whole(self):
        """True if all values are stored, not only a sample."""
        return all(step == 1 for step in self.steps)

    def still(self, array):
        """Return True if `array` still has the recorded shape, dtype and values.

        Parameters
        ----------
        array : array on any device

        Returns
        -------
        bool
            True if the values at the recorded positions are equal. NaN equals NaN.
        """
        if tuple(array.shape) != self.shape or array.dtype != self.dtype:
            return False
        return same(self.array, np.asarray(to_host(array))[_grid(self.steps)])

    def grid(self, count, whole=0):
        """Return at most `count` of the values, evenly spaced; for `whole`, see `grid_steps`.

        Returns
        -------
        (numpy.ndarray, tuple of int)
            Values, and for each axis the distance between their indices in the whole array.
        """
        further = grid_steps(self.array.shape, count, whole)
        steps = tuple(a * b for a, b in zip(self.steps, further, strict=True))
        return self.array[_grid(further)], steps

    def place(self, index):
        """Convert an index in the sample to an index in the whole array."""
        return tuple(int(i) * step for i, step in zip(index, self.steps, strict=True))


def same(a, b):
    """Return True if two arrays on the host are equal, treating NaN as equal to NaN."""
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def grid_steps(shape, count, whole=0):
    """Return a slicing step for each axis, so that the sample has at most `count` entries.

    The last `whole` axes are kept whole if together they have at most `count` entries.

    Examples
    --------
    >>> grid_steps((3, 50), 30), grid_steps((3, 5), 30)
    ((1, 5), (1, 1))
    >>> grid_steps((4, 6, 6), 80), grid_steps((4, 6, 6), 80, whole=2)
    ((1, 2, 1), (2, 1, 1))
    """
    if whole:
        first, last = shape[:-whole], shape[-whole:]
        if math.prod(last) <= count:
            return grid_steps(first, count // max(math.prod(last), 1)) + (1,) * len(last)
    steps, sizes = [1] * len(shape), list(shape)
    while math.prod(sizes) > count and max(sizes) > 1:
        longest = sizes.index(max(sizes))
        steps[longest] += max(1, steps[longest] // 8)
        sizes[longest] = -(-shape[longest] // steps[longest])
    return tuple(steps)


def _grid(steps):
    return tuple(slice(None, None, step) for step in steps)


def plain(array, digits=5):
    """Return an array's values as a flat list for JSON.

    Parameters
    ----------
    array : numpy.ndarray
    digits : int
        Number of significant digits to keep.

    Returns
    -------
    list
        Numbers, with NaN and infinities as the strings "nan", "inf" and "-inf", because JSON cannot
        represent them.

    Examples
    --------
    >>> plain(np.array([[1.0, 2 / 3], [-np.inf, 0.0]]))
    [1, 0.66667, '-inf', 0]
    """
    flat = array.reshape(-1)
    if flat.dtype.kind != "f":
        return [int(value) for value in flat.tolist()]
    return [_number(value, digits) for value in flat.tolist()]


def _number(value, digits):
    if value != value or value in (math.inf, -math.inf):
        return str(value)
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short
