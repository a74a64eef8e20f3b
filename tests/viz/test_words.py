"""Maps of words, and two meanings of a word in two dimensions."""

import numpy as np
import pytest

from minitorch_attn.errors import ArgumentError
from minitorch_attn.viz import meanings_figure, word_map_figure
from minitorch_attn.viz.words import _scaled, _spread


def test_points_have_the_distances(rng):
    points = rng.normal(size=(11, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    found = _scaled(distances)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=2), distances, atol=1e-6)


def test_equal_points_stay_together():
    assert np.isfinite(_scaled(np.zeros((4, 4)))).all()


def test_neighbors_are_connected(rng):
    vectors = {word: rng.normal(size=5) for word in "abcde"}
    figure = word_map_figure(vectors, {"a": ["b", "c"], "d": ["c", "a"]})
    (axes,) = figure.axes
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b", "c", "d"]
    ends = {text.get_text(): tuple(text.xy) for text in axes.texts}
    lines = {
        tuple(map(tuple, line.get_xydata())) for line in axes.lines if line.get_marker() != "o"
    }
    expected = {("a", "b"), ("a", "c"), ("d", "c"), ("d", "a")}
    assert lines == {(ends[one], ends[two]) for one, two in expected}


def test_meanings_are_colored(rng):
    vectors = rng.normal(size=(8, 5))
    vectors[:4] += 9
    is_second = np.arange(8) < 4
    contexts = [f"context {i}" for i in range(8)]
    figure = meanings_figure({"a panel": (vectors, is_second, contexts)}, ("one", "two"))
    axes = figure.axes[0]
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    assert {name: len(points) for name, points in lines.items()} == {"one": 4, "two": 4}
    assert lines["one"][:, 0].max() < lines["two"][:, 0].min() or (
        lines["two"][:, 0].max() < lines["one"][:, 0].min()
    )
    assert axes.get_title() == "a panel" and 2 <= len(axes.texts) <= 6
    drawn = {tuple(t.xy) for t in axes.texts}
    assert drawn <= set(map(tuple, np.concatenate(list(lines.values()))))


def test_three_words_leave_a_panel_empty(rng):
    panel = (rng.normal(size=(2, 3)), [True, False], ["a", "b"])
    figure = meanings_figure(dict.fromkeys(("x", "y", "z"), panel), ("one", "two"))
    assert [axes.axison for axes in figure.axes] == [True, True, True, False]


def test_labels_are_far_apart():
    points = np.array([[0.0, 0], [0.1, 0], [5, 0], [5.1, 0], [0, 5]])
    assert set(_spread(points, 3)) == {3, 4, 0} == set(_spread(points, 5))


def test_empty_figures_are_refused():
    with pytest.raises(ArgumentError, match="at least one panel"):
        meanings_figure({}, ("one", "two"))
    with pytest.raises(ArgumentError, match="at least two words"):
        word_map_figure({"a": [1.0]}, {"a": []})
