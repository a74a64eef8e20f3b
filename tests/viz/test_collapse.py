"""Collapse figure: one panel for each training, with both entropies and the uniform one."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import MiniTorchError
from minitorch_attn.viz import collapse_figure


def test_panels():
    runs = {"both": np.array([[3.0, 3.1], [1.0, 2.5], [0.5, 2.0]]), "none": mt.zeros(3, 2)}
    figure = collapse_figure(runs, 5, 3.4, "a title")
    assert [axes.get_title() for axes in figure.axes] == ["both", "none"]
    mean, each, uniform = figure.axes[0].lines
    assert mean.get_xdata().tolist() == each.get_xdata().tolist() == [0, 5, 10]
    assert mean.get_ydata().tolist() == [3.1, 2.5, 2.0]
    assert each.get_ydata().tolist() == [3.0, 1.0, 0.5]
    assert list(uniform.get_ydata()) == [3.4, 3.4]
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == [
        "mean target", "each target",
    ]  # fmt: skip


def test_refused_shapes():
    with pytest.raises(MiniTorchError, match="collapse_figure"):
        collapse_figure({"one": np.zeros(3)}, 5, 3.4)
