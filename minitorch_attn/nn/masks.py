"""Masks that know what True means: who may attend to whom.

Libraries disagree on whether True lets a query see a key or hides the key from it. A `Mask` says
it by name, `mask.attend` or `mask.blocked`, and every attention here reads it rightly.
"""

import operator

from ..autograd.broadcasting import broadcast_shapes
from ..backend import array_module, as_device, as_dtype, is_array, module_for
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor, wrap
from .checks import check_sizes

__all__ = [
    "Mask",
    "block_diagonal",
    "causal",
    "from_attend",
    "from_blocked",
    "from_key_padding",
    "padding",
    "sliding_window",
]

_MOST_ROWS, _MOST_COLUMNS = 16, 40  # of the grid that repr draws


class Mask:
    """Which keys each query may attend to.

    Made by `causal`, `padding`, `from_attend`, `from_blocked` and their like, and combined by
    `&` (both let it through) and `|` (at least one does).

    Parameters
    ----------
    attend : bool Tensor, broadcastable to (batch, heads, query, key)
        True where the query may attend to the key.
    is_causal : bool
        This is exactly the lower triangle that attention's own `is_causal=True` stands for, so
        that it need not be read.

    Attributes
    ----------
    attend : bool Tensor
    is_causal : bool

    Examples
    --------
    >>> causal(3) & padding([2], max_len=3)
    Mask of shape (1, 1, 3, 3): # may attend, . blocked
      # . .
      # # .
      # # .
    """

    __slots__ = ("attend", "is_causal")

    def __init__(self, attend, is_causal=False):
        self.attend = _bool_tensor(attend, "Mask(attend)")
        if self.attend.ndim > 4:
            raise ShapeError(
                "Mask(attend): too many axes.",
                got=f"{self.attend.shape}",
                expected="a shape that broadcasts to (batch, heads, query, key)",
            )
        self.is_causal = is_causal

    @property
    def blocked(self):
        """True where the query may not attend to the key: the opposite of `attend`."""
        return wrap(~self.attend.array)

    def additive(self, dtype="float32"):
        """0 where the query may attend, -inf where not: to be added to the scores.

        Parameters
        ----------
        dtype : dtype or its name

        Returns
        -------
        Tensor
        """
        xp = array_module(self.attend.array)
        return wrap(xp.where(self.attend.array, 0.0, -float("inf")).astype(as_dtype(dtype)))

    @property
    def shape(self):
        """The shape of `attend`."""
        return self.attend.shape

    @property
    def device(self):
        """Where `attend` lives."""
        return self.attend.device

    def to(self, device):
        """The same mask on another device; itself if it is there already."""
        moved = self.attend.to(as_device(device))
        return self if moved is self.attend else Mask(moved, self.is_causal)

    def __and__(self, other):
        return self._combined(other, "&")

    def __or__(self, other):
        return self._combined(other, "|")

    def _combined(self, other, symbol):
        if not isinstance(other, Mask):
            raise DTypeError(
                f"Mask {symbol} other: a bare tensor does not say what True means.",
                got=type(other).__name__,
                expected="a Mask",
                hint="masks.from_attend(tensor) or masks.from_blocked(tensor)",
            )
        _check_broadcast(self.shape, other.shape, symbol)
        a, b = self.attend.array, other.attend.array
        return Mask(wrap(a & b if symbol == "&" else a | b))

    def __repr__(self):
        head = f"Mask of shape {self.shape}: # may attend, . blocked"
        return "\n".join([head, *_grid(self.attend.numpy())])


def _grid(attend):
    """Lines of # and . for the first head of the first batch; all batches if they are one row."""
    shape = (1,) * (4 - attend.ndim) + attend.shape
    batch, heads, queries, keys = shape
    attend = attend.reshape(shape)
    if queries == 1:
        rows = attend.reshape(batch * heads, keys)
    else:
        rows = attend[:1, :1].reshape(min(batch, heads, 1) * queries, keys)
    lines = []
    for row in rows[:_MOST_ROWS]:
        cells = ["#" if may else "." for may in row[:_MOST_COLUMNS]]
        lines.append("  " + " ".join(cells + ["..."] * (keys > _MOST_COLUMNS)))
    if len(rows) > _MOST_ROWS:
        lines.append("  ...")
    if queries != 1 and batch * heads > 1:
        lines.append(f"  (the first of {batch} x {heads} batches and heads)")
    return lines


def _check_broadcast(a, b, symbol):
    try:
        broadcast_shapes(a, b)
    except ShapeError:
        raise ShapeError(
            f"mask {symbol} mask: the shapes do not broadcast.",
            got=f"{a} and {b}",
            expected="equal sizes, or 1, from the last axis on: (batch, heads, query, key)",
            hint="padding(lengths, max_len=) gives the number of keys",
        ) from None


def _bool_tensor(value, where):
    if is_array(value):
        value = wrap(value)
    elif not isinstance(value, Tensor):
        value = Tensor(value)
    if value.dtype.kind != "b":
        raise DTypeError(
            f"{where}: a mask is a tensor of True and False.",
            got=f"{value.dtype}",
            expected="bool",
            hint="tensor != 0 for ones and zeros, tensor == 0 for an additive mask",
        )
    return value


def from_attend(attend):
    """A Mask from a tensor that is True where the query may attend to the key.

    Parameters
    ----------
    attend : bool Tensor, broadcastable to (batch, heads, query, key)

    Returns
    -------
    Mask
    """
    return Mask(_bool_tensor(attend, "masks.from_attend(attend)"))


def from_blocked(blocked):
    """A Mask from a tensor that is True where the query may not attend to the key.

    Parameters
    ----------
    blocked : bool Tensor, broadcastable to (batch, heads, query, key)

    Returns
    -------
    Mask

    Examples
    --------
    >>> from_blocked([[False, True]]).attend
    tensor([[ True, False]])
    """
    return Mask(wrap(~_bool_tensor(blocked, "masks.from_blocked(blocked)").array))


def from_key_padding(key_padding_mask):
    """A Mask from PyTorch's `key_padding_mask`: True where a key is padding.

    Parameters
    ----------
    key_padding_mask : bool Tensor of shape (batch, key) or (key,)

    Returns
    -------
    Mask of shape (batch, 1, 1, key) or (1, 1, 1, key)
    """
    where = "masks.from_key_padding(key_padding_mask)"
    blocked = _bool_tensor(key_padding_mask, where).array
    if blocked.ndim not in (1, 2):
        raise ShapeError(f"{where}.", got=f"{blocked.shape}", expected="(batch, key) or (key,)")
    return Mask(wrap(~blocked.reshape(-1, 1, 1, blocked.shape[-1])))


def causal(n, m=None, offset=0, device=None):
    """Each query attends to the keys up to its own position.

    Query i attends to key j where j <= i + offset.

    Parameters
    ----------
    n : int
        Number of queries.
    m : int, optional
        Number of keys; by default n + offset.
    offset : int, default 0
        Position of the first query among the keys: how many keys a cache holds already.
    device : str or Device, optional

    Returns
    -------
    Mask of shape (n, m)

    Examples
    --------
    >>> causal(2, offset=3)
    Mask of shape (2, 5): # may attend, . blocked
      # # # # .
      # # # # #
    """
    m = n + offset if m is None else m
    check_sizes("masks.causal", n=n, m=m)
    xp = module_for(as_device(device))
    return Mask(wrap(xp.arange(m) <= xp.arange(n)[:, None] + offset), is_causal=offset == 0)


def sliding_window(n, window, device=None):
    """Each query attends to the keys less than `window` positions away, on both sides.

    Parameters
    ----------
    n : int
        Number of queries and of keys.
    window : int
        1 lets a query see only itself.
    device : str or Device, optional

    Returns
    -------
    Mask of shape (n, n)

    Notes
    -----
    `causal(n) & sliding_window(n, w)` is the window of Mistral 7B, arXiv:2310.06825v1,
    section 2: the last w tokens, the current one included.

    Examples
    --------
    >>> sliding_window(4, 2)
    Mask of shape (4, 4): # may attend, . blocked
      # # . .
      # # # .
      . # # #
      . . # #
    """
    check_sizes("masks.sliding_window", n=n, window=window)
    xp = module_for(as_device(device))
    positions = xp.arange(n)
    return Mask(wrap(abs(positions[:, None] - positions) < window))


def padding(lengths, max_len=None, device=None):
    """Every query attends to the first lengths[b] keys of its batch item.

    Parameters
    ----------
    lengths : sequence of int or integer Tensor of shape (batch,)
    max_len : int, optional
        Number of keys; by default the largest length.
    device : str or Device, optional

    Returns
    -------
    Mask of shape (batch, 1, 1, max_len)

    Examples
    --------
    >>> padding([1, 3])
    Mask of shape (2, 1, 1, 3): # may attend, . blocked
      # . .
      # # #
    """
    lengths = _as_lengths(lengths, "masks.padding(lengths)")
    longest = max(lengths, default=0)
    max_len = longest if max_len is None else max_len
    if longest > max_len:
        raise ArgumentError(
            "masks.padding(lengths, max_len): a sequence is longer than max_len.",
            got=f"a length of {longest} and max_len={max_len}",
            hint="truncate the sequences, or give a larger max_len",
        )
    lengths = Tensor(lengths, dtype="int64", device=as_device(device)).array
    xp = array_module(lengths)
    return Mask(wrap(xp.arange(max_len) < lengths.reshape(-1, 1, 1, 1)))


def block_diagonal(lengths, device=None):
    """Each token attends to the tokens of its own document, in a row of several packed ones.

    Parameters
    ----------
    lengths : sequence of int
        Tokens in each document, in order.
    device : str or Device, optional

    Returns
    -------
    Mask of shape (total, total)

    Examples
    --------
    >>> block_diagonal([2, 1]) & causal(3)
    Mask of shape (3, 3): # may attend, . blocked
      # . .
      # # .
      . . #
    """
    lengths = _as_lengths(lengths, "masks.block_diagonal(lengths)")
    numbers = [i for i, length in enumerate(lengths) for _ in range(length)]
    document = Tensor(numbers, dtype="int64", device=as_device(device)).array
    return Mask(wrap(document[:, None] == document))


def _as_lengths(lengths, where):
    """A list of int from a list or a tensor; negative or fractional ones are refused."""
    if not isinstance(lengths, (list, tuple)):
        lengths = lengths.tolist()
    try:
        lengths = [operator.index(n) for n in lengths]
    except TypeError:
        raise DTypeError(
            f"{where}.", got=repr(lengths), expected="one whole number for each sequence"
        ) from None
    if any(n < 0 for n in lengths):
        raise ArgumentError(f"{where}: a length is negative.", got=str(lengths))
    return lengths
