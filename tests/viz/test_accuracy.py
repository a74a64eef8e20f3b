"""Accuracy curves over the training steps."""

from minitorch_attn.viz import accuracy_figure


def test_curves_end_values_and_baselines():
    curves = {"one": [(10, 0.2), (20, 0.75)], "two": [(10, 0.1), (20, 0.5)], "three": []}
    figure = accuracy_figure(curves, {"largest": 0.25}, "a title", "step of it")
    (axes,) = figure.axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in drawn] == [[0.2, 0.75], [0.1, 0.5]]
    texts = {text.get_text() for text in axes.texts}
    assert texts == {"one 75.0 %", "two 50.0 %", "largest 25.0 %"}
    assert axes.get_xlabel() == "step of it" and axes.get_ylim() == (0, 1)


def test_labels_of_equal_curves_do_not_overlap():
    values = {"a": 1.0, "b": 0.5, "c": 1.0, "d": 0.98, "e": 0.49}
    figure = accuracy_figure({name: [(1, 0.0), (2, value)] for name, value in values.items()})
    heights = {text.get_text()[0]: text.xy[1] for text in figure.axes[0].texts}
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    boxes.sort(key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in zip(boxes, boxes[1:], strict=False))
    assert heights["a"] == 1.0 and heights["b"] == 0.5  # the highest keep their place
    assert heights["a"] > heights["c"] > heights["d"] > heights["b"] > heights["e"]
