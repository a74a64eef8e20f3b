"""Matrices, norms and directions of toy models of superposition."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.viz import (
    dimensionality_figure,
    feature_directions_figure,
    superposition_figure,
)
from minitorch_attn.viz.style import COLOURS


def test_heat_maps_and_bars(rng):
    matrices = [rng.normal(size=(2, 5)), rng.normal(size=(3, 5))]
    figure = superposition_figure(matrices, [[0, 1, 0.5, 7, 0]] * 2, ["one", "two"], "a title")
    grid = figure.axes[:4]
    for c, W in enumerate(matrices):
        (image,) = grid[c].get_images()
        np.testing.assert_allclose(image.get_array(), W.T @ W)
        assert image.get_clim() == (-1, 1) and grid[c].get_title() == ["one", "two"][c]
        bars = grid[2 + c].patches
        np.testing.assert_allclose([bar.get_width() for bar in bars], np.linalg.norm(W, axis=0))
        assert bars[0].get_y() < bars[4].get_y() and grid[2 + c].yaxis_inverted()
        colors = [bar.get_facecolor()[:3] for bar in bars]
        assert colors[0] == pytest.approx(to_rgb(COLOURS[0]))
        assert colors[1] == pytest.approx(to_rgb(COLOURS[1])) == colors[3]


def test_directions_around_the_origin():
    W = np.array([[1.0, 0.0, 0.1, -1.0], [0.0, 1.0, 0.1, 0.0]])
    figure = feature_directions_figure([W], ["sparse"])
    (axes,) = figure.axes
    assert axes.get_title() == "sparse\n3 of 4 features"
    (outline,) = axes.patches
    corners = outline.get_xy()[:-1].tolist()
    assert sorted(corners) == [[-1, 0], [0, 1], [1, 0]]  # the short column is no corner
    ends = [line.get_xydata()[-1].tolist() for line in axes.lines if len(line.get_xydata()) == 2]
    assert all(column in ends for column in W.T.tolist())


@pytest.mark.parametrize("W", [np.zeros((2, 3)), np.zeros((2, 0)), np.ones((2, 1))])
def test_directions_without_features(W):
    assert len(feature_directions_figure([W], ["none"]).axes) == 1


def test_dimensionality_over_sparsity():
    figure = dimensionality_figure([1.0, 10.0], [1.0, 0.5], [[1.0, 0.9], [0.5, 0.5, 0.4]])
    (axes,) = figure.axes
    (curve,) = [line for line in axes.lines if line.get_label().startswith("dimensions")]
    np.testing.assert_allclose(curve.get_xydata(), [[1, 1], [10, 0.5]])
    points = [line.get_ydata().tolist() for line in axes.lines if line.get_marker() == "."]
    assert [0.9, 1.0] in points and [0.4, 0.5, 0.5] in points
    assert axes.get_xscale() == "log"


def test_wrong_shapes_are_refused():
    with pytest.raises(ShapeError, match="matrices"):
        superposition_figure([np.zeros(5)], [np.zeros(5)], ["one"])
    with pytest.raises(ArgumentError, match="with 2 rows"):
        feature_directions_figure([np.zeros((3, 5))], ["one"])
    with pytest.raises(ArgumentError, match="at least one"):
        superposition_figure([], [], [])


@pytest.mark.parametrize("shapes", [((2, 3), (3, 3), 2), ((2,), (3,), 2), ((2,), (2,), 3)])
def test_one_entry_per_model(shapes):
    x, y, features = shapes
    with pytest.raises(ShapeError, match="one entry per model"):
        dimensionality_figure(np.ones(x), np.ones(y), [np.ones(4)] * features)
