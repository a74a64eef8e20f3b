"""Passes of Mask-Predict: letters, probabilities and frames at their positions."""

import numpy as np
import pytest

from minitorch_attn.errors import ArgumentError
from minitorch_attn.viz import passes_figure


def test_letters_probabilities_and_frames(rng):
    passes = []
    for text, masked in (("a cd", [1, 1, 1, 1]), ("abcd", [0, 1, 0, 0])):
        passes.append((list(text), np.array(masked, dtype=bool), rng.random(4)))
    other = [(list("x"), np.array([True]), np.array([0.9]))]
    figure = passes_figure([("one", passes), ("two", other)], "a title")
    first, second = (axes for axes in figure.axes if axes.get_images() and axes.texts)
    shown = np.asarray(first.get_images()[0].get_array())
    np.testing.assert_array_equal(shown, [passes[0][2], passes[1][2]])
    assert first.get_images()[0].get_clim() == (0, 1)
    letters = {text.get_position(): text.get_text() for text in first.texts}
    assert letters == {
        **{(i, 0): c for i, c in enumerate("a\u2423cd")},
        **{(i, 1): c for i, c in enumerate("abcd")},
    }
    frames = {(round(np.mean(line.get_xdata()[:4]), 9), round(np.mean(line.get_ydata()[:4]), 9))
              for line in first.lines}  # fmt: skip
    assert frames == {(0, 0), (1, 0), (2, 0), (3, 0), (1, 1)}
    assert [label.get_text() for label in first.get_yticklabels()] == ["pass 1", "pass 2"]
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("one", "two")
    assert figure.get_suptitle().startswith("a title")
    rest = np.asarray(second.get_images()[0].get_array())
    assert rest.shape == (1, 4) and rest[0, 0] == 0.9  # as wide as the longest example


def test_lengths_must_match():
    with pytest.raises(ArgumentError, match="same length"):
        passes_figure([("one", [(list("abc"), np.ones(2, bool), np.ones(3))])])


@pytest.mark.parametrize("examples", [[], {}, [("a heading", [])]])
def test_examples_without_passes(examples):
    with pytest.raises(ArgumentError, match="at least one example"):
        passes_figure(examples)
