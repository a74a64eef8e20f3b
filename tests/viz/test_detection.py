"""Boxes of each query, and scenes with detections."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError
from minitorch_attn.viz import detections_figure, query_boxes_figure


def test_each_query_has_its_panel(rng):
    boxes = rng.uniform(0.1, 0.9, (11, 7, 4))
    boxes[:, 0, 2:], boxes[:, 1, 2:], boxes[:, 2, 2:] = (0.2, 0.5), (0.3, 0.3), (0.5, 0.3)
    figure = query_boxes_figure(mt.tensor(boxes), "a title", columns=3)
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == [f"query {n}" for n in range(7)]
    assert len(figure.axes) == 9 and figure.get_suptitle() == "a title"
    for n, axes in enumerate(panels):
        assert axes.get_ylim() == (1, 0)  # as in the image, y points down
        found = np.concatenate([points.get_offsets() for points in axes.collections])
        np.testing.assert_allclose(np.sort(found, 0), np.sort(boxes[:, n, :2], 0))
    for n in range(3):  # narrow, square, wide
        counts = [len(points.get_offsets()) for points in panels[n].collections]
        assert counts == [11 * (kind == n) for kind in range(3)]
    assert figure._repr_png_()[:4] == b"\x89PNG"


def test_boxes_are_drawn_twice(rng):
    first = np.array([[1.0, 2, 5, 8], [3, 0, 6, 4]])
    scenes = [
        (rng.random((9, 9)), first, ["a", "b"], rng.random((2, 3, 3))),
        (rng.random((9, 9)), np.zeros((0, 4)), [], np.zeros((0, 3, 3))),
    ]
    figure = detections_figure(scenes, "a title")
    patches = [[p.get_bbox().extents.tolist() for p in axes.patches] for axes in figure.axes]
    a, b = first.tolist()
    assert patches == [[a, b], [a], [b], [], [], []]
    assert [axes.get_xlabel() for axes in figure.axes[:3]] == ["", "a", "b"]
    assert figure._repr_png_()[:4] == b"\x89PNG" and detections_figure([]) is not None


def test_arguments():
    with pytest.raises(ShapeError, match="image, query, 4"):
        query_boxes_figure(np.ones((3, 4)))
    with pytest.raises(ShapeError, match=r"\(box, 4\)"):
        detections_figure([(np.ones((3, 3)), np.ones(4), ["a"], np.ones((1, 2, 2)))])
