"""DataLoader: batches of a data set, in order or shuffled, stacked into tensors."""

from collections.abc import Mapping
from itertools import islice

from ... import ops
from ...backend import is_array
from ...errors import ArgumentError, DTypeError, ShapeError
from ...named_errors import NamedErrors, names_arguments
from ...tensor import Tensor, tensor
from .dataset import IterableDataset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader", "default_collate"]

_PAD = (
    "pass DataLoader collate_fn=, a function of the list of examples that pads them, "
    "for example with nn.utils.rnn.pad_sequence(tensors, batch_first=True)"
)


class DataLoader(NamedErrors):
    """Iterate over a data set in batches.

    Parameters
    ----------
    dataset : Dataset, or any object with `__getitem__` and `__len__`
    batch_size : int, default 1
        Number of examples in a batch; None yields single examples.
    shuffle : bool, default False
        Whether to visit the examples in a new random order in every epoch.
    sampler : iterable of int, optional
        Indices of the examples in the order in which to visit them; replaces `shuffle`.
    batch_sampler : iterable of list of int, optional
        Indices of the examples in each batch; replaces `batch_size`, `shuffle`, `sampler` and
        `drop_last`.
    num_workers : int
        Must be 0: examples are loaded in the calling process.
    collate_fn : callable, optional
        Function that combines a list of examples into a batch; by default `default_collate`.
    pin_memory, timeout, worker_init_fn, prefetch_factor, persistent_workers : optional
        Ignored; for compatibility with PyTorch. There are no worker processes.
    drop_last : bool, default False
        Whether to omit the last batch if it is smaller.
    generator : Generator, optional
        Generator of the random order; by default the one that `mt.manual_seed` seeds.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> from minitorch_attn.utils.data import DataLoader, TensorDataset
    >>> examples = TensorDataset(mt.arange(5), mt.arange(5) * 10)
    >>> for x, y in DataLoader(examples, batch_size=2):
    ...     print(x.tolist(), y.tolist())
    [0, 1] [0, 10]
    [2, 3] [20, 30]
    [4] [40]
    """

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
        collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
        multiprocessing_context=None, generator=None, *, prefetch_factor=None,
        persistent_workers=False, pin_memory_device="", in_order=True,
    ):  # fmt: skip
        if collate_fn is not None and not callable(collate_fn):
            raise DTypeError("DataLoader: collate_fn must be callable", got=f"{collate_fn!r:.60}")
        if num_workers:
            raise ArgumentError(
                "DataLoader: worker processes are not supported",
                got=f"num_workers={num_workers}",
                hint="use num_workers=0: reading from memory is faster than sending examples "
                "between processes",
            )
        self.dataset, self.num_workers, self.generator = dataset, 0, generator
        self.batch_size, self.drop_last = batch_size, drop_last
        self._check_one_order(shuffle, sampler, batch_sampler)
        if sampler is None and not isinstance(dataset, IterableDataset):
            sampler = (
                RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_sampler is not None:
            self.batch_size, self.drop_last = None, False
        elif batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        one_by_one = batch_sampler is None and batch_size is None
        self.collate_fn = collate_fn or (_converted if one_by_one else default_collate)

    def _check_one_order(self, shuffle, sampler, batch_sampler):
        """Raise an error if an argument would have no effect because of the others."""
        given = {
            "shuffle": bool(shuffle), "sampler": sampler is not None,
            "batch_sampler": batch_sampler is not None,
        }  # fmt: skip
        if batch_sampler is not None:
            given |= {"batch_size": self.batch_size != 1, "drop_last": bool(self.drop_last)}
        names = [name for name, present in given.items() if present]
        iterable = isinstance(self.dataset, IterableDataset)
        if len(names) > 1 or (iterable and names):
            raise ArgumentError(
                "DataLoader: these arguments cannot be combined",
                got=" and ".join(names) + (" with an IterableDataset" if iterable else ""),
                expected="at most one of shuffle, sampler and batch_sampler (none of them for an "
                "IterableDataset, which has its own order); no batch_size or drop_last together "
                "with batch_sampler",
            )
        if self.batch_size is None and self.drop_last:
            raise ArgumentError(
                "DataLoader: drop_last=True requires a batch_size", got="batch_size=None"
            )

    def __iter__(self):
        if isinstance(self.dataset, IterableDataset):
            yield from self._in_turn()
        elif self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
        else:
            yield from map(self._fetcher(), self.batch_sampler)

    def _fetcher(self):
        """Return a function that returns a batch, given the indices of its examples."""
        whole = type(self.dataset) is TensorDataset and self.collate_fn is default_collate
        if whole:
            return self.dataset.batch
        return lambda indices: self.collate_fn([self.dataset[index] for index in indices])

    def _in_turn(self):
        """Yield the batches of an IterableDataset."""
        examples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, examples)
            return
        while batch := list(islice(examples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self):
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        if self.batch_size is None and self.sampler is not None:
            return len(self.sampler)
        count = len(self.dataset)  # an IterableDataset may have a length
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@names_arguments
def default_collate(batch):
    """Combine a list of examples into a batch: stack tensors and arrays, and convert numbers.

    Tuples, lists and dicts are batched entry by entry; strings stay in a list.

    Examples
    --------
    >>> default_collate([(1, "a", {"x": 0.5}), (2, "b", {"x": 1.5})])
    [tensor([1, 2]), ['a', 'b'], {'x': tensor([0.5, 1.5], dtype=float64)}]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if is_array(first):
        return _stacked([ops.as_tensor(item) for item in batch])
    if isinstance(first, float):
        return tensor(batch, dtype="float64")  # as in PyTorch
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[default_collate(list(entry)) for entry in _entries(batch)])
    if isinstance(first, (tuple, list)):
        return [default_collate(list(entry)) for entry in _entries(batch)]
    raise DTypeError(
        "default_collate: the examples must hold tensors, arrays, numbers, strings or containers",
        got=type(first).__name__,
        hint="pass DataLoader a collate_fn that combines a list of examples",
    )


def _stacked(tensors):
    """Stack the tensors of a batch. If their shapes differ, the error names two examples."""
    try:
        return ops.stack(tensors)
    except ShapeError:
        shapes = [tuple(getattr(item, "shape", ())) for item in tensors]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is None:
            raise
    raise ShapeError(
        "default_collate: the examples of a batch have different shapes",
        got=f"{shapes[0]} in example 0 of the batch and {shapes[other]} in example {other}",
        expected="the same shape, so that they can be stacked",
        hint=_PAD,
    )


def _entries(batch):
    """Return the first entries of all examples, then the second entries, and so on."""
    if len({len(item) for item in batch}) > 1:
        raise ArgumentError(
            "default_collate: the examples must have the same number of entries",
            got=f"{sorted({len(item) for item in batch})}",
            hint=_PAD,
        )
    return zip(*batch, strict=True)


def _converted(example):
    """Convert the arrays of a single example to tensors."""
    if is_array(example):
        return ops.as_tensor(example)
    if isinstance(example, Mapping):
        return {key: _converted(value) for key, value in example.items()}
    if isinstance(example, (tuple, list)):
        return type(example)([_converted(value) for value in example])
    return example
