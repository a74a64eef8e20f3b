"""Dataset, TensorDataset, Subset, ConcatDataset and random_split: data sets of indexed examples."""

import math
from bisect import bisect_right
from itertools import accumulate

from ...backend import host_generator
from ...errors import ArgumentError, IndexRangeError, MissingMethodError
from ...named_errors import NamedErrors, names_arguments

__all__ = [
    "ConcatDataset", "Dataset", "IterableDataset", "Subset", "TensorDataset", "random_split",
]  # fmt: skip


class Dataset(NamedErrors):
    """Base class for data sets that return an example for each index.

    Subclasses define `__getitem__(self, index)` and `__len__(self)`.

    Examples
    --------
    >>> class Squares(Dataset):
    ...     def __getitem__(self, index):
    ...         return index, index * index
    ...     def __len__(self):
    ...         return 4
    >>> Squares()[3], len(Squares() + Squares())
    ((3, 9), 8)
    """

    def __getitem__(self, index):
        raise MissingMethodError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base class of data sets that can only be iterated over; subclasses define `__iter__`."""

    def __iter__(self):
        raise MissingMethodError(f"{type(self).__name__} does not define __iter__")


class TensorDataset(Dataset):
    """Data set of tensors; an example is a tuple with one row of each tensor.

    Parameters
    ----------
    *tensors : Tensor of shape (example, ...)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> examples = TensorDataset(mt.tensor([[1.0], [2.0]]), mt.tensor([0, 1]))
    >>> examples[1], len(examples)
    ((tensor([2.]), tensor(1)), 2)
    """

    def __init__(self, *tensors):
        sizes = [len(tensor) for tensor in tensors if tensor.ndim]
        if not tensors or len(sizes) < len(tensors) or len(set(sizes)) > 1:
            raise ArgumentError(
                "TensorDataset: the tensors must have the same number of rows",
                got=" and ".join(str(tensor.shape) for tensor in tensors) or "no tensors",
                expected="one row for each example in every tensor",
            )
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple([tensor[index] for tensor in self.tensors])

    def batch(self, indices):
        """Build the same batch as `default_collate`, but index each tensor only once."""
        return [tensor[indices] for tensor in self.tensors]

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset):
    """Examples of a data set at the given indices.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int
    """

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Concatenation of several data sets.

    Parameters
    ----------
    datasets : iterable of Dataset
    """

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset: datasets must not be empty")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __getitem__(self, index):
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexRangeError(
                "ConcatDataset: the index is out of range",
                got=f"{index}",
                expected=f"from {-len(self)} to {len(self) - 1}",
            )
        number = bisect_right(self.cumulative_sizes, position)
        start = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][position - start]

    def __len__(self):
        return self.cumulative_sizes[-1]


@names_arguments
def random_split(dataset, lengths, generator=None):
    """Split a data set randomly into subsets that do not overlap.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int or of float
        Sizes that add up to the size of the data set, or fractions that add up to 1. Sizes computed
        from fractions are rounded down. Each of the first subsets then gets one of the examples
        that are left over.
    generator : Generator, optional
        Generator of the random order; by default the one that `mt.manual_seed` seeds.

    Returns
    -------
    list of Subset

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> train, test = random_split(TensorDataset(mt.arange(10)), [0.75, 0.25])
    >>> len(train), len(test)
    (8, 2)
    """
    count, sizes = len(dataset), list(lengths)
    if not all(size >= 0 for size in sizes):
        raise ArgumentError("random_split: lengths must not be negative", got=f"{lengths}")
    if math.isclose(sum(sizes), 1):
        sizes = [math.floor(count * fraction) for fraction in sizes]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != count:
        raise ArgumentError(
            "random_split: lengths do not add up to the size of the data set",
            got=f"lengths={list(lengths)} for {count} examples",
            expected=f"sizes that add up to {count}, or fractions that add up to 1",
        )
    order = (generator or host_generator()).permutation(count).tolist()
    ends = list(accumulate(int(size) for size in sizes))
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, sizes, strict=True)]
