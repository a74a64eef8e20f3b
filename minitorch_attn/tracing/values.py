"""What is kept of an array: its statistics, and its values or an evenly spaced sample of them."""

import math

import numpy as np

from ..backend import to_host

__all__ = ["Values", "grid_steps", "plain"]


class Values:
    """The values of an array at one moment, copied, so that later changes do not reach them.

    Parameters
    ----------
    array : array of any device
    keep : int
        How many numbers to copy at most. Of a larger array every k-th along its longest axes, or
        with four axes or more along those before the last two, where that is enough.

    Attributes
    ----------
    shape, dtype
        Of the whole array.
    array : numpy.ndarray
        The copy; the whole array, or the sample `array[::step, ...]`.
    steps : tuple of int
        The step along each axis; all 1 for the whole array.
    min, max, mean, std : float or None
        Of all finite values; None where there are none.
    nan, inf : int
        How many values are NaN, and how many infinite.

    Examples
    --------
    >>> v = Values(np.arange(12.0).reshape(3, 4), keep=6)
    >>> v.array.tolist(), v.steps, v.mean
    ([[0.0, 2.0], [4.0, 6.0], [8.0, 10.0]], (1, 2), 5.5)
    """

    def __init__(self, array, keep):
        self.shape, self.dtype = tuple(array.shape), array.dtype
        # With four axes these are maps of attention, or pictures: some whole ones say more.
        self.steps = grid_steps(self.shape, keep, whole=2 if len(self.shape) > 3 else 0)
        host = np.asarray(to_host(array))
        self.array = np.array(host[_grid(self.steps)])  # a copy, also of a 0-d array
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
        """How many numbers the whole array has."""
        return math.prod(self.shape)

    @property
    def whole(self):
        """Whether all values are kept."""
        return all(step == 1 for step in self.steps)

    def still(self, array):
        """Whether an array has these values, as far as they are kept.

        Parameters
        ----------
        array : array of any device

        Returns
        -------
        bool
            NaN equals NaN here.
        """
        if tuple(array.shape) != self.shape or array.dtype != self.dtype:
            return False
        return same(self.array, np.asarray(to_host(array))[_grid(self.steps)])

    def grid(self, count, whole=0):
        """At most `count` of the values, evenly spaced; see `grid_steps`.

        Returns
        -------
        (numpy.ndarray, tuple of int)
            The values, and their step along each axis of the whole array.
        """
        further = grid_steps(self.array.shape, count, whole)
        steps = tuple(a * b for a, b in zip(self.steps, further, strict=True))
        return self.array[_grid(further)], steps

    def place(self, index):
        """The index in the whole array of an index in the sample."""
        return tuple(int(i) * step for i, step in zip(index, self.steps, strict=True))


def same(a, b):
    """Whether two arrays on the host are equal, NaN included."""
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def grid_steps(shape, count, whole=0):
    """The steps along each axis that leave at most `count` places.

    The last `whole` axes are left as they are, if so many places are enough for them.

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
    """The values of an array as a flat list that JSON can hold.

    Parameters
    ----------
    array : numpy.ndarray
    digits : int
        Significant digits that are kept.

    Returns
    -------
    list
        Numbers, and "nan", "inf" or "-inf", which JSON has no numbers for.

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
