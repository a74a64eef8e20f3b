"""Windows of an image map, and which of their tokens are neighbours, as in the Swin Transformer.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
arXiv:2103.14030v2, section 3.2. Cutting a map into windows and putting it together again are two
permutations of its elements, so their derivatives are each other.
"""

from functools import lru_cache

from ..backend import as_device, module_for
from ..errors import ArgumentError, ShapeError
from ..tensor import wrap

__all__ = [
    "relative_position_index",
    "shifted_window_mask",
    "window_merge",
    "window_partition",
    "window_regions",
]

_CACHED_MASKS = 32  # a model needs one for each of its stages


def window_partition(x, window_size):
    """Cut a map into windows that do not overlap.

    Parameters
    ----------
    x : Tensor of shape (batch, height, width, embed)
        Height and width are multiples of the window's.
    window_size : (int, int)
        Height and width of a window.

    Returns
    -------
    Tensor of shape (batch, window, token, embed)
        Windows row by row, and in each its tokens row by row.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.arange(16).reshape(1, 4, 4, 1)
    >>> window_partition(x, (2, 2))[0, :, :, 0]
    tensor([[ 0,  1,  4,  5],
            [ 2,  3,  6,  7],
            [ 8,  9, 12, 13],
            [10, 11, 14, 15]])
    """
    batch, height, width, embed = x.shape
    rows, columns = _grid(height, width, window_size, f"window_partition(x): x {x.shape}")
    x = x.reshape(batch, rows, window_size[0], columns, window_size[1], embed)
    x = x.transpose(2, 3)  # (batch, row of windows, column of windows, row, column, embed)
    return x.reshape(batch, rows * columns, window_size[0] * window_size[1], embed)


def window_merge(windows, window_size, height, width):
    """Put the windows of a map together again: undoes `window_partition`.

    Parameters
    ----------
    windows : Tensor of shape (batch, window, token, embed)
    window_size : (int, int)
    height, width : int
        Of the map.

    Returns
    -------
    Tensor of shape (batch, height, width, embed)
    """
    batch, _, _, embed = windows.shape
    rows, columns = _grid(height, width, window_size, f"window_merge(windows {windows.shape})")
    x = windows.reshape(batch, rows, columns, *window_size, embed)
    x = x.transpose(2, 3)  # (batch, row of windows, row, column of windows, column, embed)
    return x.reshape(batch, height, width, embed)


def relative_position_index(window_size, device=None):
    """For each pair of tokens of a window, the row of the table of biases that it uses.

    Parameters
    ----------
    window_size : (int, int)
    device : str or Device, optional

    Returns
    -------
    int64 Tensor of shape (token, token)
        (dy + height - 1) * (2 * width - 1) + (dx + width - 1) for a query that lies dy rows and
        dx columns after the key: pairs with one offset share one of the (2 * height - 1) *
        (2 * width - 1) rows.

    Notes
    -----
    Swin, section 3.2, "Relative position bias": B is taken from a smaller matrix, since offsets
    along each axis lie in [-M + 1, M - 1].

    Examples
    --------
    >>> relative_position_index((1, 3))
    tensor([[2, 1, 0],
            [3, 2, 1],
            [4, 3, 2]])
    """
    height, width = window_size
    xp = module_for(as_device(device))
    row = xp.repeat(xp.arange(height), width)  # (token,)
    column = xp.tile(xp.arange(width), height)  # (token,)
    dy = row[:, None] - row + (height - 1)  # (token, token), from 0
    dx = column[:, None] - column + (width - 1)
    return wrap(dy * (2 * width - 1) + dx)


def window_regions(height, width, window_size, shift_size, device=None):
    """Which tokens of a map that was shifted cyclically were neighbours before the shift.

    Parameters
    ----------
    height, width : int
        Of the map.
    window_size, shift_size : (int, int)
        By how much the map was rolled upwards and to the left.

    Returns
    -------
    int64 Tensor of shape (height, width)
        Up to nine numbers. Within a window, tokens with one number belong together.

    Notes
    -----
    Swin, Figure 4: along each axis the last window holds tokens from the end of the map and, after
    them, those that the roll brought round from its start.

    Examples
    --------
    >>> window_regions(4, 4, (2, 2), (1, 1))
    tensor([[0, 0, 1, 2],
            [0, 0, 1, 2],
            [3, 3, 4, 5],
            [6, 6, 7, 8]])
    """
    xp = module_for(as_device(device))
    numbers = []
    for size, window, shift in zip((height, width), window_size, shift_size, strict=True):
        place = xp.arange(size)
        last_window, brought_round = place >= size - window, place >= size - shift
        numbers.append(last_window.astype("int64") + brought_round.astype("int64"))
    return wrap(numbers[0][:, None] * 3 + numbers[1])


def shifted_window_mask(height, width, window_size, shift_size, device=None):
    """Within each window of a shifted map, which tokens may attend to which.

    Parameters
    ----------
    height, width, window_size, shift_size, device
        As of `window_regions`.

    Returns
    -------
    bool Tensor of shape (window, token, token)
        True where query and key are of one region. It is kept for the next call: not to be
        written to.

    Examples
    --------
    >>> mask = shifted_window_mask(4, 4, (2, 2), (1, 1))
    >>> mask[1].int()
    tensor([[1, 0, 1, 0],
            [0, 1, 0, 1],
            [1, 0, 1, 0],
            [0, 1, 0, 1]], dtype=int32)
    """
    _grid(height, width, window_size, "shifted_window_mask")
    return _mask(height, width, tuple(window_size), tuple(shift_size), as_device(device))


@lru_cache(maxsize=_CACHED_MASKS)
def _mask(height, width, window_size, shift_size, device):
    regions = window_regions(height, width, window_size, shift_size, device)
    windows = window_partition(regions.reshape(1, height, width, 1), window_size)
    region = windows[0, :, :, 0].array  # (window, token)
    return wrap(region[:, :, None] == region[:, None, :])


def _grid(height, width, window_size, where):
    """How many windows stand below and beside each other."""
    if min(window_size) < 1:
        raise ArgumentError(f"{where}: a window has no size.", got=f"window_size={window_size}")
    if height % window_size[0] or width % window_size[1]:
        raise ShapeError(
            f"{where}: the windows do not divide the map.",
            got=f"a map of {height} x {width}, windows of {window_size[0]} x {window_size[1]}",
            expected="height and width to be multiples of the window's",
            hint="pad the map at its right and bottom edges",
        )
    return height // window_size[0], width // window_size[1]
