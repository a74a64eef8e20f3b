"""Samplers: the order in which a loader visits the examples of a data set."""

import numpy as np

from ...backend import host_generator
from ...errors import ArgumentError, DTypeError
from ...named_errors import NamedErrors

__all__ = ["BatchSampler", "EpochSampler", "RandomSampler", "Sampler", "SequentialSampler"]


class Sampler(NamedErrors):
    """Base class of samplers; subclasses define `__iter__`, which yields indices of examples."""


def _check_sized(where, data_source):
    if not hasattr(data_source, "__len__"):
        raise DTypeError(f"{where}: data_source must have a length", got=f"{data_source!r:.60}")


class SequentialSampler(Sampler):
    """Indices of all examples in order.

    Parameters
    ----------
    data_source : Dataset
    """

    def __init__(self, data_source):
        _check_sized("SequentialSampler", data_source)
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """Indices of examples in a random order, which changes in every epoch.

    Parameters
    ----------
    data_source : Dataset
    replacement : bool, default False
        Whether an example can be drawn more than once in an epoch.
    num_samples : int, optional
        Number of examples in an epoch; by default, the size of the data set.
    generator : Generator, optional
        Generator of the random order; by default the one that `mt.manual_seed` seeds.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        _check_sized("RandomSampler", data_source)
        whole = isinstance(num_samples, int) and not isinstance(num_samples, bool)
        if num_samples is not None and (not whole or num_samples <= 0):
            raise ArgumentError("RandomSampler: num_samples must be positive", got=f"{num_samples}")
        self.data_source, self.replacement = data_source, replacement
        self._num_samples, self.generator = num_samples, generator

    def __iter__(self):
        generator = self.generator or host_generator()
        count, left = len(self.data_source), len(self)
        if left and not count:
            raise ArgumentError(
                "RandomSampler: examples cannot be drawn from an empty data_source",
                got=f"num_samples={left}",
            )
        if self.replacement:
            yield from generator.integers(0, count, size=left).tolist()
            return
        while left:
            order = generator.permutation(count).tolist()[:left]
            yield from order
            left -= len(order)

    def __len__(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples


class EpochSampler(Sampler):
    """Indices of examples in a random order that depends only on a seed and the epoch's number.

    A program that stores the seed, the epoch's number and the number of examples it has read can
    later resume in the middle of the epoch; see `set_epoch`.

    Parameters
    ----------
    data_source : Dataset
    seed : int, default 0

    Examples
    --------
    >>> sampler = EpochSampler(range(5), seed=1)
    >>> order = list(sampler)
    >>> sampler.set_epoch(0, start=3)
    >>> list(sampler) == order[3:]
    True
    """

    def __init__(self, data_source, seed=0):
        self.data_source, self.seed = data_source, seed % 2**64
        self.epoch = self.start = 0

    def set_epoch(self, epoch, start=0):
        """Set the epoch of the next iteration, and skip the epoch's first `start` examples."""
        self.epoch, self.start = epoch, start

    def __iter__(self):
        generator = np.random.default_rng([self.seed, self.epoch])
        return iter(generator.permutation(len(self)).tolist()[self.start :])

    def __len__(self):
        return len(self.data_source)


class BatchSampler(Sampler):
    """Lists of example indices, one list for each batch.

    Parameters
    ----------
    sampler : Sampler or iterable of int
    batch_size : int
    drop_last : bool
        Whether to omit the last batch if it is smaller.

    Examples
    --------
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(
                "BatchSampler: batch_size must be a positive integer", got=f"{batch_size!r}"
            )
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
