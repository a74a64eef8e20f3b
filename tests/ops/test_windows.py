"""Windows of a map: partition, merge, offsets and regions, all computed by hand."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.ops.windows import (
    relative_position_index,
    shifted_window_mask,
    window_merge,
    window_partition,
    window_regions,
)

SIZES = [(6, 10, (3, 5)), (6, 4, (2, 4)), (5, 7, (1, 7))]


@pytest.mark.parametrize(("height", "width", "window"), SIZES)
def test_partition_and_merge(make, height, width, window):
    x = make(2, height, width, 3)
    windows = window_partition(x, window)
    rows, columns = height // window[0], width // window[1]
    assert windows.shape == (2, rows * columns, window[0] * window[1], 3)
    for r in range(rows):
        for c in range(columns):
            for i in range(window[0]):
                for j in range(window[1]):
                    got = windows[:, r * columns + c, i * window[1] + j].numpy()
                    np.testing.assert_array_equal(
                        got, x[:, r * window[0] + i, c * window[1] + j].numpy()
                    )
    merged = window_merge(windows, window, height, width)
    np.testing.assert_array_equal(merged.numpy(), x.numpy())


def test_gradients(make):
    assert gradcheck(lambda x: window_partition(x, (2, 3)) ** 2, (make(2, 4, 3, 2),))
    assert gradgradcheck(lambda x: window_partition(x, (2, 3)) ** 3, (make(1, 4, 3, 1),))
    assert gradcheck(lambda x: window_merge(x, (2, 3), 4, 3) ** 2, (make(2, 2, 6, 2),))


@pytest.mark.parametrize("window", [(3, 5), (1, 4), (2, 2), (1, 1)])
def test_relative_position_index(window, device):
    index = relative_position_index(window, device=device).numpy()
    height, width = window
    places = [(y, x) for y in range(height) for x in range(width)]
    offsets = {}
    for q, (qy, qx) in enumerate(places):
        for k, (ky, kx) in enumerate(places):
            offsets.setdefault((qy - ky, qx - kx), set()).add(int(index[q, k]))
    assert index.dtype == np.int64
    assert all(len(rows) == 1 for rows in offsets.values())  # one row for an offset,
    # and the rows in the order of the offsets: all of them, each once.
    assert [next(iter(offsets[o])) for o in sorted(offsets)] == list(range(len(offsets)))


@pytest.mark.parametrize(
    ("height", "width", "window", "shift"),
    [
        (6, 10, (3, 5), (1, 2)),
        (8, 8, (4, 4), (2, 2)),
        (4, 6, (4, 3), (0, 1)),
        (3, 3, (3, 3), (1, 1)),
    ],
)
def test_who_may_attend_in_shifted_windows(height, width, window, shift, device):
    """Two tokens of a window belong together if the shift moved both alike."""
    mask = shifted_window_mask(height, width, window, shift, device=device).numpy()
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    now = np.stack([rows, columns], -1)  # (height, width, 2)
    before = np.stack([(rows + shift[0]) % height, (columns + shift[1]) % width], -1)

    def windows(x):
        return window_partition(mt.tensor(x[None].astype("float64")), window).numpy()[0]

    now, before = windows(now), windows(before)  # (window, token, 2)
    apart_now = now[:, :, None] - now[:, None]
    apart_before = before[:, :, None] - before[:, None]
    np.testing.assert_array_equal(mask, (apart_now == apart_before).all(-1))
    assert not mask.all()


def test_regions_of_the_paper(device):
    """Figure 4: the map rolled by half a window falls into nine regions."""
    regions = window_regions(8, 8, (4, 4), (2, 2), device=device).numpy()
    sizes = [regions[y, x] for y in (0, 4, 6) for x in (0, 4, 6)]
    assert sizes == list(range(9))
    assert [int((regions == n).sum()) for n in range(9)] == [16, 8, 8, 8, 4, 4, 8, 4, 4]


def test_windows_that_do_not_divide_the_map(make):
    with pytest.raises(ShapeError, match="not divisible by"):
        window_partition(make(1, 5, 4, 2), (2, 2))
    with pytest.raises(ShapeError, match="not divisible by"):
        shifted_window_mask(4, 5, (2, 2), (1, 1))
    with pytest.raises(ArgumentError, match="must be positive"):
        window_partition(make(1, 4, 4, 2), (0, 2))
