"""Rows of small images."""

import numpy as np

from minitorch_attn.viz import image_rows_figure


def test_rows_labels_captions_and_gaps(rng):
    rows = [[rng.random((5, 3)) for _ in range(count)] for count in (4, 2)]
    rows[0][1][2, 1] = np.nan
    figure = image_rows_figure(rows, ["seen", "painted"], "a title", [list("abcd"), list("ef")])
    grid = np.array(figure.axes).reshape(2, 4)
    for r, row in enumerate(rows):
        for c, image in enumerate(row):
            (drawn,) = grid[r, c].get_images()
            np.testing.assert_array_equal(drawn.get_array().filled(np.nan), image)
            assert drawn.get_clim() == (0, 1)
            assert grid[r, c].get_xlabel() == ["abcd", "ef"][r][c]
    assert not grid[1, 2].axison and not grid[1, 3].get_images()
    assert [grid[r, 0].get_ylabel() for r in range(2)] == ["seen", "painted"]
    assert bool(grid[0, 1].get_images()[0].get_array().mask[2, 1])
