"""Memory block of a trace: its size, its lifetime, and its kind over time."""

__all__ = [
    "Block", "GRADIENT", "KINDS", "Keep", "ON_ITS_WAY", "OPTIMIZER", "PARAMETER", "RESULT",
    "SAVED", "YOURS",
]  # fmt: skip

PARAMETER, OPTIMIZER, YOURS = "parameter", "optimizer state", "your tensor"
SAVED, RESULT = "saved for backward", "result"
GRADIENT, ON_ITS_WAY = "gradient", "gradient on its way"
KINDS = (PARAMETER, OPTIMIZER, YOURS, SAVED, RESULT, GRADIENT, ON_ITS_WAY)


class Block:
    """A recorded block of memory. An array and all its views belong to the same block.

    Attributes
    ----------
    op : str
        Operation that created the block; "-" if it was not created by an operation.
    shape : tuple
    dtype : dtype
    nbytes : int
    line : Line or None
        Line of code that called the operation.
    born, died : int
        Moments at which the block was allocated and freed. A moment is the number of allocations
        and frees in the trace so far. `died` is None for a block that is still in use.
    keeps : list of Keep
        Operations that keep the block for their backward pass.
    """

    def __init__(self, kind, op, array, nbytes, line, born):
        self.made_as, self.op, self.nbytes, self.line = kind, op, nbytes, line
        self.shape, self.dtype = array.shape, array.dtype
        self.born, self.died = born, None
        self.keeps = []

    def lives_at(self, moment):
        """Return True if the block occupies memory at the given moment."""
        return self.born <= moment and (self.died is None or moment < self.died)

    def kind_at(self, moment):
        """Return the block's kind at a moment, one of `KINDS`. The kind may change over time."""
        if self.made_as == RESULT and self.kept_at(moment):
            return SAVED
        return self.made_as

    def kept_at(self, moment):
        """Return the names of the operations that keep the block at the given moment."""
        return [keep.op for keep in self.keeps if keep.covers(moment)]

    def moments(self):
        """Return the moments at which the block is allocated, may change its kind, and is freed."""
        ends = [self.born, self.died]
        ends += [end for keep in self.keeps for end in (keep.start, keep.stop)]
        inside = {end for end in ends if end is not None and end >= self.born}
        return sorted(end for end in inside if self.died is None or end <= self.died)

    def __repr__(self):
        return f"<Block: {self.op} {self.shape} {self.dtype}, {self.nbytes} bytes>"


class Keep:
    """Interval during which an operation keeps a block for its backward pass."""

    def __init__(self, op, start):
        self.op, self.start, self.stop = op, start, None

    def covers(self, moment):
        """Return True if the interval includes the given moment."""
        return self.start <= moment and (self.stop is None or moment < self.stop)
