"""Packed sequences for RNNs: sequences of different lengths, stored without padding."""

import operator
from collections import namedtuple

from ... import ops
from ...absent_names import absent as _absent
from ...errors import ArgumentError, DTypeError, ShapeError
from ...named_errors import names_arguments
from ...ops.indexing import LookUp
from .padding import (
    as_sequences,
    host_lengths,
    index_tensor,
    pad_sequence,
    place_tokens,
    unpad_sequence,
)

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

_Fields = namedtuple("PackedSequence_", "data batch_sizes sorted_indices unsorted_indices")


class PackedSequence(_Fields):
    """Packed sequences: several sequences in one tensor without padding. See `pack_sequence`.

    Parameters
    ----------
    data : Tensor of shape (row, ...)
        The first tokens of all sequences, followed by the second tokens, and so on. The sequences
        are sorted by decreasing length.
    batch_sizes : int64 Tensor of shape (step,), on the CPU
        Number of sequences at each step.
    sorted_indices : int64 Tensor of shape (batch,), optional
        Entry k is the original index of the k-th longest sequence.
    unsorted_indices : int64 Tensor of shape (batch,), optional
        Inverse permutation of `sorted_indices`. Default: computed from `sorted_indices`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> packed = pack_sequence([mt.tensor([1, 2, 3]), mt.tensor([7])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 7, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    @names_arguments
    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            data, batch_sizes = data  # PackedSequence((data, batch_sizes))
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ArgumentError(
                "PackedSequence: batch_sizes must be on the CPU",
                got=f"batch_sizes on {batch_sizes.device}",
                hint="use batch_sizes.cpu(), or create the sequence with pack_padded_sequence()",
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """Convert `data` to another dtype or device. The indices move to that device too."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        moved = [None if i is None else i.to(data.device) for i in self[2:]]
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self):
        """Move the sequence to the CPU."""
        return self.to("cpu")

    def cuda(self, device=None):
        """Move the sequence to a GPU, by default to the first GPU."""
        return self.to("cuda" if device is None else device)

    def double(self):
        """Convert `data` to float64."""
        return self.to(dtype="float64")

    def float(self):
        """Convert `data` to float32."""
        return self.to(dtype="float32")

    def half(self):
        """Convert `data` to float16."""
        return self.to(dtype="float16")

    def long(self):
        """Convert `data` to int64."""
        return self.to(dtype="int64")

    def int(self):
        """Convert `data` to int32."""
        return self.to(dtype="int32")

    def short(self):
        """Convert `data` to int16."""
        return self.to(dtype="int16")

    def char(self):
        """Convert `data` to int8."""
        return self.to(dtype="int8")

    def byte(self):
        """Convert `data` to uint8."""
        return self.to(dtype="uint8")

    @property
    def is_cuda(self):
        """True if `data` is on a GPU."""
        return self.data.is_cuda


@names_arguments
def invert_permutation(permutation):
    """Return the inverse of a permutation. None is returned unchanged.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> invert_permutation(mt.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else ops.argsort(permutation)


@names_arguments
def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Convert a padded batch to a PackedSequence, which does not contain padding.

    Parameters
    ----------
    input : Tensor of shape (step, batch, ...), or (batch, step, ...) with `batch_first`
    lengths : list of int, or Tensor of shape (batch,) on the CPU
        Number of tokens of each sequence, without padding. Must be at least 1.
    batch_first : bool, default False
    enforce_sorted : bool, default True
        Whether the sequences must be sorted by decreasing length. If False, this function sorts
        them, and `pad_packed_sequence` restores their order.

    Returns
    -------
    PackedSequence

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1, 0, 0], [4, 5, 6]])
    >>> packed = pack_padded_sequence(x, [1, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data, packed.sorted_indices
    (tensor([4, 1, 5, 6]), tensor([1, 0]))
    """
    where = "pack_padded_sequence"
    if input.ndim < 2:
        raise ShapeError(
            f"{where}: input must have at least 2 axes",
            got=f"input {input.shape}",
            hint="use shape (step, batch, ...), or (batch, step, ...) with batch_first=True",
        )
    batch, total = input.shape[:2] if batch_first else input.shape[1::-1]
    lengths = host_lengths(where, lengths)
    _check_lengths(where, input, lengths, batch, total)
    order = list(range(batch))
    if not enforce_sorted:
        order.sort(key=lambda i: -lengths[i])
    elif any(a < b for a, b in zip(lengths, lengths[1:], strict=False)):
        raise ArgumentError(
            f"{where}: lengths must not increase",
            got=f"lengths={lengths}",
            expected="the longest sequence first",
            hint="use enforce_sorted=False, which sorts the sequences and remembers their order",
        )
    sizes = _batch_sizes([lengths[i] for i in order])
    # The index of token t of sequence i after merging the first two axes.
    places = [
        i * total + t if batch_first else t * batch + i
        for t, n in enumerate(sizes)
        for i in order[:n]
    ]
    rows = input.reshape(batch * total, *input.shape[2:])
    data = LookUp.apply(rows, index_tensor(places, input.device), axes=(0,), distinct=True)
    indices = None if enforce_sorted else index_tensor(order, input.device)
    return PackedSequence(data, index_tensor(sizes, "cpu"), indices, None)


@names_arguments
def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """Convert a PackedSequence to a padded batch: the inverse of `pack_padded_sequence`.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool, default False
    padding_value : float, default 0
    total_length : int, optional
        Number of steps to pad to. Default: the largest length.

    Returns
    -------
    padded : Tensor of shape (step, batch, ...), or (batch, step, ...) with `batch_first`
        Padded batch, in the original order of the sequences.
    lengths : int64 Tensor of shape (batch,), on the CPU

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> packed = pack_sequence([mt.tensor([1]), mt.tensor([4, 5])], enforce_sorted=False)
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 0],
            [4, 5]]), tensor([1, 2]))
    """
    if not isinstance(sequence, PackedSequence):
        raise DTypeError(
            "pad_packed_sequence: sequence must be a PackedSequence",
            got=type(sequence).__name__,
            hint="create one with pack_sequence() or pack_padded_sequence()",
        )
    sizes = sequence.batch_sizes.tolist()
    batch, total = sizes[0], len(sizes)
    if total_length is not None and total_length < total:
        raise ArgumentError(
            "pad_packed_sequence: total_length must be at least the length of the longest sequence",
            got=f"total_length={total_length}, and a sequence of {total} steps",
            hint="use total_length=None to pad to the longest sequence",
        )
    total = total if total_length is None else operator.index(total_length)
    indices = sequence.sorted_indices
    order = list(range(batch)) if indices is None else indices.tolist()
    lengths = [0] * batch
    places = []
    for t, n in enumerate(sizes):
        for i in order[:n]:
            lengths[i] += 1
            places.append((i, t))
    padded = place_tokens(sequence.data, places, batch, total, batch_first, padding_value)
    return padded, index_tensor(lengths, "cpu")


@names_arguments
def pack_sequence(sequences, enforce_sorted=True):
    """Convert a list of sequences of different lengths to a PackedSequence.

    Parameters
    ----------
    sequences : list of Tensor of shape (length, ...)
    enforce_sorted : bool, default True
        Whether the sequences must be sorted by decreasing length. If False, they are sorted here.

    Returns
    -------
    PackedSequence

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> pack_sequence([mt.tensor([1, 2, 3]), mt.tensor([4, 5]), mt.tensor([6])]).data
    tensor([1, 4, 6, 2, 5, 3])
    """
    sequences = as_sequences("pack_sequence", sequences)
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


@names_arguments
def unpack_sequence(packed_sequences):
    """Unpack a packed sequence into a list of Tensors in their original order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unpack_sequence(pack_sequence([mt.tensor([1, 2]), mt.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _batch_sizes(lengths):
    """Return how many sequences have a token at each step, for `lengths` in decreasing order."""
    sizes = []
    for n in range(len(lengths), 0, -1):
        sizes += [n] * (lengths[n - 1] - len(sizes))
    return sizes


def _check_lengths(where, input, lengths, batch, total):
    seen = f"input {input.shape}, lengths={lengths}"
    if len(lengths) != batch:
        raise ShapeError(
            f"{where}: lengths must have one entry per sequence",
            got=seen,
            expected=f"{batch} lengths",
            hint="use batch_first=True if the batch is the first axis",
        )
    if 0 in input.shape:
        raise ShapeError(
            f"{where}: input must not be empty",
            got=f"input {input.shape}",
            hint="skip empty batches",
        )
    if min(lengths) <= 0 or max(lengths) > total:
        raise ArgumentError(
            f"{where}: a length is out of range",
            got=seen,
            expected=f"lengths from 1 to {total}",
            hint="remove empty sequences first",
        )


__getattr__ = _absent(__name__)
