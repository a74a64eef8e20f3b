"""Padding: pad sequences of different lengths, and form batches that need little padding."""

import operator

import numpy as np

from ..errors import ArgumentError, CheckpointError, DataError
from ..named_errors import NamedErrors, names_arguments
from ..nn import masks
from ..nn.checks import check_sizes
from ..tensor import tensor

__all__ = ["BucketedBatches", "pad"]


@names_arguments
def pad(sequences, pad_id=0, *, side="right", multiple_of=1, device=None):
    """Pad the token ids of several texts to the same length, and return the padding mask.

    Parameters
    ----------
    sequences : sequence of sequences of int
        Token ids of each text, as lists or arrays of any length.
    pad_id : int, default 0
        Id of the padding token.
    side : {"right", "left"}, default "right"
        Side on which padding is added. Generation by decoder-only models requires "left".
    multiple_of : int, default 1
        Pad to a multiple of this number of tokens.
    device : str or Device, optional

    Returns
    -------
    ids : int64 Tensor of shape (batch, token)
    mask : Mask of shape (batch, 1, 1, token)
        Every query may attend to all tokens that are not padding. For a model that takes an
        `attention_mask` of zeros and ones, use ``mask.attend.reshape(ids.shape)``.

    Examples
    --------
    >>> ids, mask = pad([[5, 6, 7], [8]], pad_id=0)
    >>> ids.tolist()
    [[5, 6, 7], [8, 0, 0]]
    >>> mask
    Mask of shape (2, 1, 1, 3): # may attend, . blocked
      # # #
    <BLANKLINE>
      # . .
    """
    if side not in ("right", "left") or multiple_of < 1 or not len(sequences):
        raise ArgumentError(
            "pad: sequences is empty, or side or multiple_of is invalid",
            got=f"{len(sequences)} sequences, side={side!r}, multiple_of={multiple_of}",
            expected='at least one sequence, side="right" or "left", multiple_of at least 1',
        )
    lengths = [len(sequence) for sequence in sequences]
    width = -(-max(lengths) // multiple_of) * multiple_of
    ids = np.full((len(lengths), width), pad_id, dtype=np.int64)
    is_text = np.zeros(ids.shape, dtype=bool)
    for row, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
        place = slice(0, length) if side == "right" else slice(width - length, width)
        ids[row, place] = sequence
        is_text[row, place] = True
    attend = tensor(is_text[:, None, None], device=device)
    return tensor(ids, device=device), masks.from_attend(attend)


class BucketedBatches(NamedErrors):
    """Infinite stream of batches. The examples in a batch have similar lengths.

    Each epoch shuffles the examples and cuts them into pools of `pool` batches. Each pool is sorted
    by length and cut into batches. Finally, the batches of all pools are shuffled. Every example
    occurs once in an epoch, batches need little padding, and the batches differ between epochs.
    Epoch n depends only on (seed, n), so the stream can resume at any position.

    Parameters
    ----------
    lengths : sequence of int
        Length of each example. For pairs, the length of the longer text.
    batch_size : int, optional
        Number of examples in a batch. One batch of each epoch may be smaller.
    max_tokens : int, optional
        Maximum number of tokens in a batch, including padding. An alternative to `batch_size`.
    seed : int, default 0
    pool : int, default 100
        Number of batches whose examples are sorted together. If 1, examples are not sorted.

    Attributes
    ----------
    position : (int, int)
        Number of the current epoch, and number of batches drawn from it so far.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, sec. 5.1: "Sentence pairs were batched together by
    approximate sequence length", about 25,000 tokens per batch.

    Examples
    --------
    >>> texts = [[1, 1, 1], [2], [3, 3, 3], [4]]
    >>> batches = BucketedBatches([len(text) for text in texts], batch_size=2)
    >>> sorted(sorted(next(batches).tolist()) for _ in range(2))
    [[0, 2], [1, 3]]
    """

    def __init__(self, lengths, batch_size=None, *, max_tokens=None, seed=0, pool=100):
        self.lengths = np.asarray(lengths, dtype=np.int64).reshape(-1)
        sizes = {"batch_size": batch_size or 0, "max_tokens": max_tokens or 0, "pool": pool}
        check_sizes("BucketedBatches", **sizes)
        if (
            (batch_size is None) == (max_tokens is None)
            or min(n for n in (batch_size, max_tokens) if n is not None) < 1
            or pool < 1
        ):
            raise ArgumentError(
                "BucketedBatches: batch_size, max_tokens or pool is invalid",
                got=f"batch_size={batch_size}, max_tokens={max_tokens}, pool={pool}",
                expected="exactly one of batch_size and max_tokens; all values at least 1",
            )
        if not len(self.lengths) or (max_tokens and self.lengths.max() > max_tokens):
            raise DataError(
                "BucketedBatches: lengths is empty, or contains a length above max_tokens",
                got=f"{len(self.lengths)} examples, the longest of "
                f"{self.lengths.max(initial=0)} tokens",
                expected=f"at most {max_tokens} tokens" if max_tokens else "at least one example",
                hint="increase max_tokens, or omit the longest texts" if max_tokens else None,
            )
        self.batch_size, self.max_tokens = batch_size, max_tokens
        self.seed, self.pool = operator.index(seed) % 2**64, pool
        self.position = (0, 0)
        self._batches = (None, [])  # (epoch, batches of this epoch)

    def __iter__(self):
        return self

    def __next__(self):
        """Return the indices of the next batch's examples, an int64 array of shape (batch,)."""
        number, place = self.position
        batches = self._pass(number)
        if place >= len(batches):
            number, place = number + 1, 0
            batches = self._pass(number)
        self.position = (number, place + 1)
        return batches[place]

    def state_dict(self):
        """Return the position as a dict, for a checkpoint."""
        return {"position": list(self.position)}

    def load_state_dict(self, state):
        """Continue at the position in a dict that `state_dict` returned."""
        position = state.get("position") if isinstance(state, dict) else None
        counts = isinstance(position, list | tuple) and len(position) == 2
        if not counts or any(type(count) is not int or count < 0 for count in position):
            raise CheckpointError(
                "BucketedBatches: position is missing or invalid",
                got=repr(state), hint="pass the result of state_dict()",
            )  # fmt: skip
        self.position = tuple(position)

    def _pass(self, number):
        """Return the batches of epoch `number`, in shuffled order."""
        if self._batches[0] != number:
            generator = np.random.default_rng([self.seed, number])
            order = generator.permutation(len(self.lengths))
            mean = self.lengths.mean() or 1.0
            tokens = min(self.max_tokens or 0, int(self.lengths.sum()))  # per batch
            in_a_batch = self.batch_size or max(1, int(tokens / mean))
            size = in_a_batch * self.pool
            pools = [order[first : first + size] for first in range(0, len(order), size)]
            if self.pool > 1:
                pools = [p[np.argsort(self.lengths[p], kind="stable")] for p in pools]
            batches = [batch for p in pools for batch in self._cut(p)]
            shuffled = generator.permutation(len(batches))
            self._batches = number, [batches[i] for i in shuffled]
        return self._batches[1]

    def _cut(self, pool):
        """Split a pool into batches without changing its order."""
        if self.batch_size:
            return [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
        batches, start, longest = [], 0, 0
        for place, length in enumerate(self.lengths[pool].tolist()):
            longest = max(longest, length)
            if longest * (place + 1 - start) > self.max_tokens:
                batches.append(pool[start:place])
                start, longest = place, length
        return [*batches, pool[start:]]
