"""Figures of sounds: the waveform, the spectrogram and the attention share a time axis."""

import numpy as np
import pytest

from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.viz import ctc_figure, sound_figure, time_attention_figure


def test_waveform_and_spectrogram_share_their_time_axis(rng):
    waveform, features = rng.normal(size=800), rng.normal(size=(9, 5)) - 20
    features[4, 2] = 3.0
    words = [(100, 300, "one"), (400, 700, "two")]
    figure = sound_figure(waveform, features, 1000, 80, words, "a title")
    upper, lower = figure.axes
    x, y = upper.lines[0].get_data()
    np.testing.assert_array_equal(y, waveform)
    np.testing.assert_allclose(x, np.arange(800) / 1000)
    (image,) = lower.get_images()
    np.testing.assert_array_equal(image.get_array(), features.T)
    assert image.get_extent() == pytest.approx([0, 0.72, -0.5, 4.5]) and image.origin == "lower"
    assert image.get_clim() == (-9.0, 3.0)
    assert [text.get_text() for text in upper.texts] == ["one", "two"]
    assert [text.xy[0] for text in upper.texts] == pytest.approx([0.2, 0.55])
    edges = [line.get_xdata()[0] for line in upper.lines[1:]]
    assert edges == pytest.approx([0.1, 0.3, 0.4, 0.7])
    assert [line.get_xdata()[0] for line in lower.lines] == pytest.approx(edges)
    assert figure.get_suptitle() == "a title" and figure._repr_png_()[:4] == b"\x89PNG"
    sound_figure(np.zeros(0), np.zeros((0, 5)), 1000, 80)


def test_attention_over_time(rng):
    features, weights = rng.normal(size=(9, 5)), rng.dirichlet(np.ones(3), 2)
    spans = np.array([[100, 300], [400, 700]])
    figure = time_attention_figure(features, weights, ["one", "two"], 1000, 80, spans=spans)
    upper, lower = figure.axes
    (image,) = lower.get_images()
    np.testing.assert_array_equal(image.get_array(), weights)
    assert image.get_extent() == pytest.approx([0, 0.72, 1.5, -0.5])
    assert upper.get_images()[0].get_extent()[:2] == pytest.approx([0, 0.72])
    assert [label.get_text() for label in lower.get_yticklabels()] == ["one", "two"]
    for row, line in enumerate(lower.lines):
        x, y = line.get_data()
        assert (min(x), max(x)) == pytest.approx(tuple(spans[row] / 1000))
        assert (min(y), max(y)) == pytest.approx((row - 0.45, row + 0.45))
    assert len(time_attention_figure(features, weights, "ab", 1000, 80).axes[1].lines) == 0


def test_ctc_probabilities_over_time(rng):
    """A line for each class, and a name at the highest point of each stretch."""
    features, names = rng.normal(size=(10, 5)), ["blank", "one", "two"]
    probabilities = np.full((5, 3), 0.1)
    probabilities[:, 0] = (0.2, 0.8, 0.3, 0.1, 0.8)
    probabilities[0, 2], probabilities[2, 1], probabilities[3, 1] = 0.7, 0.6, 0.8
    figure = ctc_figure(features, probabilities, names, 1000, 80, spans=[(100, 300, "two")])
    upper, lower = figure.axes
    lines = lower.lines[:3]
    for line, row in zip(lines, probabilities.T, strict=True):
        np.testing.assert_allclose(line.get_xdata(), (0.08, 0.24, 0.4, 0.56, 0.72))
        np.testing.assert_array_equal(line.get_ydata(), row)
    assert [line.get_linestyle() for line in lines] == [":", "-", "-"]
    assert [text.get_text() for text in lower.texts] == ["two", "one"]
    places = [text.xy for text in lower.texts]
    np.testing.assert_allclose(places, [(0.08, 0.73), (0.56, 0.83)])
    assert [text.get_text() for text in upper.texts] == ["two"]
    edges = [line.get_xdata()[0] for line in upper.lines]
    assert edges == pytest.approx([0.1, 0.3])
    swapped = ctc_figure(features, probabilities, names, 1000, 80, blank=1).axes[1]
    assert [text.get_text() for text in swapped.texts] == ["two", "blank", "blank"]
    empty = ctc_figure(np.zeros((0, 5)), np.zeros((0, 3)), names, 1000, 80).axes[1]
    assert not empty.texts


def test_arguments():
    with pytest.raises(ShapeError, match="one label for each class"):
        ctc_figure(np.ones((2, 3)), np.ones((2, 3)), "ab", 10, 8)
    with pytest.raises(ShapeError, match="key, class"):
        ctc_figure(np.ones((2, 3)), np.ones(3), "abc", 10, 8)
    with pytest.raises(ArgumentError, match="must be a positive number"):
        ctc_figure(np.ones((2, 3)), np.ones((2, 3)), "abc", 10, 0)
    with pytest.raises(ShapeError, match=r"\(sample,\)"):
        sound_figure(np.ones((2, 3)), np.ones((2, 3)), 1000, 80)
    with pytest.raises(ShapeError, match="frame, band"):
        sound_figure(np.ones(3), np.ones(3), 1000, 80)
    with pytest.raises(ShapeError, match="output, key"):
        time_attention_figure(np.ones((2, 3)), np.ones(3), "abc", 1000, 80)
    for labels, spans in (("a", None), ("ab", [[1, 2]])):
        with pytest.raises(ShapeError, match="one label, and one span"):
            time_attention_figure(np.ones((2, 3)), np.ones((2, 3)), labels, 10, 8, spans=spans)
    for rate, hop in ((0, 8), (float("nan"), 8), (10, -1), (10, np.ones(2))):
        with pytest.raises(ArgumentError, match="must be a positive number"):
            sound_figure(np.ones(3), np.ones((2, 3)), rate, hop)
        with pytest.raises(ArgumentError, match="must be a positive number"):
            time_attention_figure(np.ones((2, 3)), np.ones((2, 3)), "ab", rate, hop)
