"""Attention masks in which True always means that the query may attend to the key.

In some libraries, True in a mask lets a query attend to a key. In other libraries, True blocks the
key. A `Mask` offers both, as `mask.attend` and `mask.blocked`. Every attention layer and function
accepts a `Mask`.
"""

import operator

from ..autograd.broadcasting import broadcast_shapes
from ..backend import array_module, as_device, as_dtype, is_array, module_for
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import NamedErrors, names_arguments
from ..ops.attention.mask import additive, causal_mask
from ..tensor import Tensor, tensor, wrap
from .checks import check_sizes

__all__ = [
    "CompleteMask", "Mask", "block_diagonal", "causal", "from_attend", "from_blocked",
    "from_key_padding", "padding", "sliding_window",
]  # fmt: skip

_MOST_ROWS, _MOST_COLUMNS = 16, 40  # size of the largest mask that repr draws

_LONGEST = 1 << 20  # maximum number of tokens, whose pairs need 1 TiB as bools


class Mask(NamedErrors):
    """Mask of the keys that each query may attend to.

    `causal`, `padding`, `from_attend`, `from_blocked` and the other functions of this module create
    masks. `a & b` allows the pairs that both masks allow. `a | b` allows the pairs that at least
    one of them allows.

    Parameters
    ----------
    attend : bool Tensor, broadcastable to (batch, heads, query, key)
        True where the query may attend to the key.
    is_causal : bool
        Whether the mask is exactly the causal mask that attention applies with `is_causal=True`.
        Attention then applies the causal mask without reading `attend`.

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
        self.attend = _bool_tensor(attend, "Mask", "attend")
        if self.attend.ndim > 4:
            raise ShapeError(
                "Mask: attend must have at most four axes",
                got=f"{self.attend.shape}",
                expected="a shape that broadcasts to (batch, heads, query, key)",
                hint="remove axes of size 1 with attend.squeeze(dim)",
            )
        self.is_causal = is_causal

    @property
    def blocked(self):
        """Bool tensor, True where the query may not attend to the key: the negation of `attend`."""
        return wrap(~self.attend.array)

    def additive(self, dtype="float32"):
        """Return a tensor to add to the scores: 0 where the query may attend, -inf elsewhere.

        Parameters
        ----------
        dtype : dtype or its name

        Returns
        -------
        Tensor
        """
        return wrap(additive(self.attend.array, as_dtype(dtype)))

    @property
    def shape(self):
        """Shape of `attend`."""
        return self.attend.shape

    @property
    def device(self):
        """Device of `attend`."""
        return self.attend.device

    def to(self, device):
        """Return a copy of the mask on `device`, or the mask itself if it is already there."""
        moved = self.attend.to(as_device(device))
        return self if moved is self.attend else Mask(moved, self.is_causal)

    def __and__(self, other):
        return self._combined(other, "&")

    def __or__(self, other):
        return self._combined(other, "|")

    def _combined(self, other, symbol):
        if not isinstance(other, Mask):
            raise DTypeError(
                f"Mask {symbol} other: other must be a Mask",
                got=type(other).__name__,
                hint="use masks.from_attend(tensor) if True allows attention, or "
                "masks.from_blocked(tensor) if True blocks it",
            )
        _check_broadcast(self.shape, other.shape, symbol)
        a, b = self.attend.array, other.attend.array
        return Mask(wrap(a & b if symbol == "&" else a | b))

    def __repr__(self):
        head = f"Mask of shape {self.shape}: # may attend, . blocked"
        return "\n".join([head, *_grid(self.attend.numpy())])


class CompleteMask(NamedErrors):
    """Mask that replaces the causal mask of a decoder instead of being combined with it.

    Hugging Face's models treat masks with four axes in this way. Such a mask can have any pattern,
    for example a prefix whose tokens attend to each other in both directions.

    Parameters
    ----------
    values : bool or float Tensor, broadcastable to (batch, heads, query, key)
        True where the query may attend to the key, or numbers to add to the scores.
    """

    def __init__(self, values):
        self.values = values


def _grid(attend):
    """Return the lines of a picture of the first mask: "#" may attend, "." is blocked.

    If each mask of the batch has a single row, the picture shows all masks, one per line.
    """
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
            f"mask {symbol} mask: the shapes do not broadcast",
            got=f"{a} and {b}",
            expected="on each axis of (batch, heads, query, key), equal sizes or 1",
            hint="set the number of keys with padding(lengths, max_len=...)",
        ) from None


def _bool_tensor(value, where, name):
    if is_array(value):
        value = wrap(value)
    elif not isinstance(value, Tensor):
        value = tensor(value)
    if value.dtype.kind != "b":
        raise DTypeError(
            f"{where}: {name} must be boolean",
            got=f"{value.dtype}",
            expected="bool",
            hint="use tensor != 0 for a mask of ones and zeros, tensor == 0 for an additive mask",
        )
    return value


@names_arguments
def from_attend(attend):
    """Create a Mask from a tensor that is True where the query may attend to the key."""
    return Mask(_bool_tensor(attend, "masks.from_attend", "attend"))


@names_arguments
def from_blocked(blocked):
    """Create a Mask from a tensor that is True where the key is blocked.

    Examples
    --------
    >>> from_blocked([[False, True]]).attend
    tensor([[ True, False]])
    """
    return Mask(wrap(~_bool_tensor(blocked, "masks.from_blocked", "blocked").array))


@names_arguments
def from_key_padding(key_padding_mask):
    """Create a Mask from PyTorch's `key_padding_mask`, which is True where a key is padding.

    Parameters
    ----------
    key_padding_mask : bool Tensor of shape (batch, key) or (key,)

    Returns
    -------
    Mask of shape (batch, 1, 1, key) or (1, 1, 1, key)
    """
    where = "masks.from_key_padding"
    blocked = _bool_tensor(key_padding_mask, where, "key_padding_mask").array
    if blocked.ndim not in (1, 2):
        raise ShapeError(
            f"{where}: key_padding_mask must have one or two axes",
            got=f"{blocked.shape}",
            expected="(batch, key) or (key,)",
            hint="use masks.from_blocked(tensor) for a mask with more axes",
        )
    return Mask(wrap(~blocked.reshape(-1, 1, 1, blocked.shape[-1])))


@names_arguments
def causal(n, m=None, offset=0, device=None):
    """Causal mask: each query attends to the keys up to its own position.

    Query i attends to key j where j <= i + offset.

    Parameters
    ----------
    n : int
        Number of queries.
    m : int, optional
        Number of keys. Default: n + offset.
    offset : int, default 0
        Position of the first query among the keys, such as the number of keys already in a cache.
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
    attend = causal_mask(n, m, offset, module_for(as_device(device)))
    return Mask(wrap(attend), is_causal=offset == 0)


@names_arguments
def sliding_window(n, window, device=None):
    """Sliding-window mask: each query attends to keys less than `window` positions away.

    Parameters
    ----------
    n : int
        Number of queries and of keys.
    window : int
        Number of positions that a query may attend to in each direction, including its own
        position.
    device : str or Device, optional

    Returns
    -------
    Mask of shape (n, n)

    Notes
    -----
    `causal(n) & sliding_window(n, w)` is the mask of Mistral 7B (arXiv:2310.06825v1, section 2):
    each token attends to the last w tokens, including itself.

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


@names_arguments
def padding(lengths, max_len=None, device=None):
    """Padding mask: every query of batch item b attends to the first lengths[b] keys.

    Parameters
    ----------
    lengths : sequence of int or integer Tensor of shape (batch,)
        Number of tokens of each sequence, without its padding.
    max_len : int, optional
        Number of keys. Default: the largest length.
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
    lengths = _as_lengths(lengths, "masks.padding")
    longest = max(lengths, default=0)
    max_len = longest if max_len is None else max_len
    if longest > max_len:
        raise ArgumentError(
            "masks.padding: lengths must be at most max_len",
            got=f"a length of {longest} and max_len={max_len}",
            hint="truncate the sequences, or pass a larger max_len",
        )
    lengths = tensor(lengths, dtype="int64", device=as_device(device)).array
    xp = array_module(lengths)
    return Mask(wrap(xp.arange(max_len) < lengths.reshape(-1, 1, 1, 1)))


@names_arguments
def block_diagonal(lengths, device=None):
    """Block-diagonal mask for packed documents: each token attends to its own document.

    Parameters
    ----------
    lengths : sequence of int
        Number of tokens of each document, in order.
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
    lengths = _as_lengths(lengths, "masks.block_diagonal")
    if sum(lengths) > _LONGEST:
        raise ArgumentError(
            "masks.block_diagonal: the sum of lengths is too large for a single mask",
            got=f"{sum(lengths)} tokens",
            expected=f"at most {_LONGEST}",
        )
    numbers = [i for i, length in enumerate(lengths) for _ in range(length)]
    document = tensor(numbers, dtype="int64", device=as_device(device)).array
    return Mask(wrap(document[:, None] == document))


def _as_lengths(lengths, where):
    """Convert lengths to a list of int. Raise an error for negative or fractional numbers."""
    if not isinstance(lengths, (list, tuple)):
        lengths = lengths.tolist()
    try:
        lengths = [operator.index(n) for n in lengths]
    except TypeError:
        raise DTypeError(
            f"{where}: lengths must be integers",
            got=repr(lengths),
            expected="one number of tokens for each sequence",
            hint="[len(sequence) for sequence in sequences]",
        ) from None
    if any(n < 0 for n in lengths):
        raise ArgumentError(
            f"{where}: lengths must not be negative",
            got=str(lengths),
            hint="use 0 for an empty sequence",
        )
    return lengths
