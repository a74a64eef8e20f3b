"""One block of memory, from when it was first seen until it was freed."""

__all__ = [
    "Block", "GRADIENT", "KINDS", "Keep", "ON_ITS_WAY", "OPTIMISER", "PARAMETER", "RESULT",
    "SAVED", "YOURS",
]  # fmt: skip

PARAMETER, OPTIMISER, YOURS = "parameter", "optimiser state", "your tensor"
SAVED, RESULT = "saved for backward", "result"
GRADIENT, ON_ITS_WAY = "gradient", "gradient on its way"
KINDS = (PARAMETER, OPTIMISER, YOURS, SAVED, RESULT, GRADIENT, ON_ITS_WAY)


class Block:
    """One block of memory; all views of it are one.

    Attributes
    ----------
    op : str
        The operation that made it, "-" for what no operation made.
    shape : tuple
    dtype : dtype
    nbytes : int
    line : Line or None
        The line of code that called the operation.
    born, died : int
        Moments of the trace, counted in blocks made and freed; `died` is None for what is left.
    keeps : list of Keep
        Which operations keep it for their backward.
    """

    def __init__(self, kind, op, array, nbytes, line, born):
        self.made_as, self.op, self.nbytes, self.line = kind, op, nbytes, line
        self.shape, self.dtype = array.shape, array.dtype
        self.born, self.died = born, None
        self.keeps = []

    def lives_at(self, moment):
        """Whether it takes up memory then."""
        return self.born <= moment and (self.died is None or moment < self.died)

    def kind_at(self, moment):
        """What it is then, one of `KINDS`: a result may be saved, and later be let go."""
        if self.made_as == RESULT and self.kept_at(moment):
            return SAVED
        return self.made_as

    def kept_at(self, moment):
        """The names of the operations that keep it then."""
        return [keep.op for keep in self.keeps if keep.covers(moment)]

    def moments(self):
        """When its kind may change, in order, its first and last moment included."""
        ends = [self.born, self.died]
        ends += [end for keep in self.keeps for end in (keep.start, keep.stop)]
        inside = {end for end in ends if end is not None and end >= self.born}
        return sorted(end for end in inside if self.died is None or end <= self.died)

    def __repr__(self):
        return f"<Block: {self.op} {self.shape} {self.dtype}, {self.nbytes} bytes>"


class Keep:
    """That an operation keeps some block, from one moment until another."""

    def __init__(self, op, start):
        self.op, self.start, self.stop = op, start, None

    def covers(self, moment):
        """Whether it does so then."""
        return self.start <= moment and (self.stop is None or moment < self.stop)
