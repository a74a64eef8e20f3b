"""Pad sequences of different lengths to a common length: pad_sequence, unpad_sequence."""

from ... import ops
from ...errors import ArgumentError, DTypeError, ShapeError
from ...named_errors import names_arguments
from ...ops.indexing import PlaceAt
from ...tensor import Tensor, tensor

__all__ = [
    "as_sequences", "host_lengths", "index_tensor", "pad_sequence", "place_tokens",
    "unpad_sequence",
]  # fmt: skip


@names_arguments
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences of different lengths, padded to the length of the longest sequence.

    Parameters
    ----------
    sequences : iterable of Tensor of shape (length, ...)
        Sequences whose shapes match except for the first axis. The result has the dtype of the
        first sequence.
    batch_first : bool, default False
    padding_value : float, default 0
    padding_side : "right" or "left"

    Returns
    -------
    Tensor of shape (step, batch, ...), or (batch, step, ...) with `batch_first`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> pad_sequence([mt.tensor([1, 2]), mt.tensor([3])], batch_first=True, padding_value=-1)
    tensor([[ 1,  2],
            [ 3, -1]])
    """
    sequences = as_sequences("pad_sequence", sequences)
    if padding_side not in ("right", "left"):
        raise ArgumentError(
            "pad_sequence: padding_side must be 'right' or 'left'",
            got=repr(padding_side),
            hint="use 'left' to align the last tokens, as batched generation needs",
        )
    first = sequences[0]
    lengths = [len(s) for s in sequences]
    total = max(lengths)
    places = []
    for i, length in enumerate(lengths):
        start = total - length if padding_side == "left" else 0
        places += [(i, start + t) for t in range(length)]
    data = ops.cat([s.to(dtype=first.dtype) for s in sequences])
    return place_tokens(data, places, len(sequences), total, batch_first, padding_value)


@names_arguments
def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """Split a padded batch into its sequences: the inverse of `pad_sequence`.

    Unlike PyTorch's `unpad_sequence`, this function does not transpose the batch in place.

    Parameters
    ----------
    padded_sequences : Tensor of shape (step, batch, ...), or (batch, step, ...) with `batch_first`
    lengths : list of int or Tensor of shape (batch,)
    batch_first : bool, default False

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unpad_sequence(mt.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    lengths = host_lengths("unpad_sequence", lengths)
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    if len(lengths) != len(batch):
        raise ShapeError(
            "unpad_sequence: lengths must have one entry per sequence",
            got=f"{len(lengths)} lengths and {len(batch)} sequences",
            hint="use batch_first=True if the batch is the first axis",
        )
    return [batch[i, : max(n, 0)].clone() for i, n in enumerate(lengths)]


@names_arguments
def place_tokens(data, places, batch, total, batch_first, padding_value):
    """Return a padded batch. With (i, t) = places[k], row k of `data` is token t of sequence i."""
    flat = [i * total + t if batch_first else t * batch + i for i, t in places]
    shape = (batch * total, *data.shape[1:])
    index = index_tensor(flat, data.device)
    result = PlaceAt.apply(data, index, shape=shape, axes=(0,), distinct=True)
    if padding_value != 0 and len(flat) < batch * total:
        blank = set(range(batch * total)).difference(flat)
        result = ops.index_fill(result, 0, index_tensor(sorted(blank), data.device), padding_value)
    lead = (batch, total) if batch_first else (total, batch)
    return result.reshape(*lead, *data.shape[1:])


@names_arguments
def index_tensor(values, device):
    """Convert integers to an int64 Tensor."""
    return tensor(values, dtype="int64", device=device)


@names_arguments
def as_sequences(where, sequences):
    """Return sequences as a list. Raise an error if they are not tensors with matching shapes."""
    if not hasattr(sequences, "__iter__"):
        raise DTypeError(
            f"{where}: sequences is not a list",
            got=type(sequences).__name__,
            hint="pass a list of tensors, one for each sequence",
        )
    sequences = list(sequences)
    if not sequences:
        raise ArgumentError(f"{where}: sequences must not be empty", hint="skip empty batches")
    for i, s in enumerate(sequences):
        if not isinstance(s, Tensor):
            raise DTypeError(
                f"{where}: sequences[{i}] is not a tensor",
                got=type(s).__name__,
                hint=f"mt.tensor(sequences[{i}])",
            )
        if s.ndim == 0 or s.shape[1:] != sequences[0].shape[1:]:
            raise ShapeError(
                f"{where}: the shapes of the sequences do not match",
                got=f"sequences[0] {sequences[0].shape} and sequences[{i}] {s.shape}",
                expected="(length, ...), the same except for the first axis",
                hint="use sequence.T if the length is the second axis",
            )
    return sequences


@names_arguments
def host_lengths(where, lengths):
    """Convert `lengths`, a one-dimensional tensor or an iterable, to a list of int."""
    if isinstance(lengths, Tensor):
        if lengths.ndim != 1:
            raise ShapeError(
                f"{where}: lengths must have 1 axis",
                got=f"lengths {lengths.shape}",
                expected="(batch,)",
                hint="lengths.flatten()",
            )
        lengths = lengths.tolist()
    try:
        return [int(n) for n in lengths]
    except (TypeError, ValueError):
        raise DTypeError(
            f"{where}: lengths must be integers",
            got=f"{lengths!r:.60}",
            expected="list of int",
            hint="[len(sequence) for sequence in sequences]",
        ) from None
