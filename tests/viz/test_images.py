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


def test_points_are_marked_in_the_first_row(rng):
    rows = [[rng.random((5, 3)) for _ in range(2)] for _ in range(2)]
    figure = image_rows_figure(rows, ["a", "b"], points=[(4, 1), (0, 2)])
    marked = [[tuple(line.get_xydata()[0]) for line in axes.lines] for axes in figure.axes]
    assert marked == [[(1, 4)], [(2, 0)], [], []]
    assert figure.axes[0].get_xlim() == (-0.5, 2.5)
