"""Windows of a feature map for shifted-window attention, as in the Swin Transformer.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
arXiv:2103.14030v2, section 3.2. Partitioning a map into windows and merging the windows are inverse
permutations of the elements, so each of them is the backward pass of the other.
"""

from functools import lru_cache

from ..backend import as_device, module_for
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..tensor import wrap

__all__ = [
    "relative_position_index", "shifted_window_mask", "window_merge", "window_partition",
    "window_regions",
]  # fmt: skip

_CACHED = 32  # maximum number of masks, and of indices; a model needs one of each per stage


@computes("windows")
def window_partition(x, window_size):
    """Partition a feature map into windows that do not overlap.

    Parameters
    ----------
    x : Tensor of shape (batch, height, width, embed)
        Feature map whose height and width are multiples of the window's height and width.
    window_size : (int, int)
        Height and width of a window.

    Returns
    -------
    Tensor of shape (batch, window, token, embed)
        Windows in row-major order, each with its tokens in row-major order.

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


@computes("windows")
def window_merge(windows, window_size, height, width):
    """Merge the windows of a feature map; the inverse of `window_partition`.

    Parameters
    ----------
    windows : Tensor of shape (batch, window, token, embed)
    window_size : (int, int)
        Height and width of a window.
    height, width : int
        Height and width of the map.

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
    """Index into the table of relative position biases for each pair of tokens in a window.

    Parameters
    ----------
    window_size : (int, int)
    device : str or Device, optional

    Returns
    -------
    int64 Tensor of shape (token, token)
        (dy + height - 1) * (2 * width - 1) + (dx + width - 1) for a query that is dy rows and
        dx columns after the key. Pairs with the same offset share one of the (2 * height - 1) *
        (2 * width - 1) rows of the table.

    Notes
    -----
    Swin, section 3.2, "Relative position bias": for windows of M x M tokens, the bias B
    is an M^2 x M^2 matrix. The offsets along each axis lie in [-M + 1, M - 1], so only (2M - 1)^2
    different offsets occur. The entries of B are therefore taken from a smaller matrix, of size
    (2M - 1) x (2M - 1).

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


@lru_cache(maxsize=_CACHED)
def cached_position_index(window_size, device):
    """Return `relative_position_index` from a cache. Do not change the Tensor in place.

    Parameters
    ----------
    window_size : tuple (int, int)
        Height and width of a window. Must be a tuple, because the cache needs a hashable key.
    device : Device
    """
    return relative_position_index(window_size, device)


def window_regions(height, width, window_size, shift_size, device=None):
    """Return the region number of each token in a feature map that was shifted cyclically.

    The tokens of a region were neighbors before the shift as well.

    Parameters
    ----------
    height, width : int
        Height and width of the map.
    window_size : (int, int)
        Height and width of a window.
    shift_size : (int, int)
        Number of rows by which the map was rolled up, and of columns by which it was rolled left.

    Returns
    -------
    int64 Tensor of shape (height, width)
        Region number of each token, from 0 to 8. A window's tokens attend only within their region.

    Notes
    -----
    Swin, Figure 4: along each axis, the last window holds tokens from the end of the map, followed
    by the tokens that the roll moved there from the start of the map.

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
    """Attention mask for each window of a shifted map: each token attends only within its region.

    Parameters
    ----------
    height, width, window_size, shift_size, device
        See `window_regions`.

    Returns
    -------
    bool Tensor of shape (window, token, token)
        True where query and key are in the same region. The mask is cached for the next call, so do
        not change it in place.

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


@lru_cache(maxsize=_CACHED)
def _mask(height, width, window_size, shift_size, device):
    regions = window_regions(height, width, window_size, shift_size, device)
    windows = window_partition(regions.reshape(1, height, width, 1), window_size)
    region = windows[0, :, :, 0].array  # (window, token)
    return wrap(region[:, :, None] == region[:, None, :])


def _grid(height, width, window_size, where):
    """Return the numbers of rows and columns of windows."""
    if min(window_size) < 1:
        raise ArgumentError(
            f"{where}: window_size must be positive",
            got=f"{window_size}",
            hint=f"use window_size=({height}, {width}) to cover the whole map",
        )
    if height % window_size[0] or width % window_size[1]:
        raise ShapeError(
            f"{where}: the map size is not divisible by window_size",
            got=f"a map of {height} x {width}, windows of {window_size[0]} x {window_size[1]}",
            expected="a map height and width that are multiples of the window's",
            hint="pad the map at its right and bottom edges",
        )
    return height // window_size[0], width // window_size[1]
