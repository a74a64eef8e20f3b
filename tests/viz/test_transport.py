"""Transport plans: each image with its numbered regions, and the plan beside it."""

import numpy as np
import pytest

from minitorch_attn.errors import ShapeError
from minitorch_attn.viz import transport_figure


def test_each_scene_has_its_plan(rng):
    boxes = np.array([[1, 2, 5, 6], [3, 0, 7, 4.0]])
    scenes = [(rng.random((8, 8)), boxes[:n], ["one", "above", "two"], rng.random((3, n)))
              for n in (2, 1)]  # fmt: skip
    figure = transport_figure(scenes, "a title")
    pictures = iter(figure.axes)
    for image, regions, words, plan in scenes:
        left, right = next(pictures), next(pictures)
        np.testing.assert_array_equal(left.get_images()[0].get_array(), image)
        assert [t.get_text() for t in left.texts] == [str(n + 1) for n in range(len(regions))]
        for line, (x0, y0, x1, y1) in zip(left.lines, regions, strict=True):
            np.testing.assert_allclose(
                [line.get_xdata().min(), line.get_xdata().max()], [x0 - 0.5, x1 - 0.5]
            )
            np.testing.assert_allclose(
                [line.get_ydata().min(), line.get_ydata().max()], [y0 - 0.5, y1 - 0.5]
            )
        np.testing.assert_array_equal(right.get_images()[0].get_array(), plan)
        assert [t.get_text() for t in right.get_yticklabels()] == words
        assert right.get_images()[0].get_clim() == (0, plan.max())
    assert figure.get_suptitle() == "a title" and figure._repr_png_()[:4] == b"\x89PNG"


def test_arguments():
    assert transport_figure([]) is not None
    image, boxes = np.ones((8, 8)), np.ones((2, 4))
    with pytest.raises(ShapeError, match="does not match"):
        transport_figure([(image, boxes, ["one"], np.ones((2, 2)))])
    with pytest.raises(ShapeError, match="height, width"):
        transport_figure([(np.ones(8), boxes, ["one"], np.ones((1, 2)))])
