"""Figures show the numbers that they are given, at the expected positions."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import viz
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.ops.windows import window_regions
from minitorch_attn.viz.style import save_figure


def some_maps(layers, heads, tokens, seed=0):
    weights = np.random.default_rng(seed).gamma(0.4, size=(layers, heads, tokens, tokens))
    return list(weights / weights.sum(-1, keepdims=True))


def images_of(figure):
    return [np.asarray(i.get_array()) for axes in figure.axes for i in axes.get_images()]


def test_rollout_by_hand():
    first, second = some_maps(2, 3, 5)
    a = (np.eye(5) + first.mean(0)) / 2
    b = (np.eye(5) + second.mean(0)) / 2
    np.testing.assert_allclose(viz.attention_rollout([first, second]), b @ a, atol=1e-14)
    np.testing.assert_allclose(viz.attention_rollout([first] * 7).sum(-1), 1)


@pytest.mark.parametrize("residual, expected", [(0.0, "weights"), (1.0, "identity")])
def test_rollout_without_and_with_only_the_residual_path(residual, expected):
    (weights,) = some_maps(1, 2, 4)
    found = viz.attention_rollout([weights], residual)
    np.testing.assert_allclose(found, weights.mean(0) if expected == "weights" else np.eye(4))


def test_rollout_wants_self_attention():
    with pytest.raises(ShapeError, match="square in the last two"):
        viz.attention_rollout([np.ones((2, 3, 4))])


@pytest.mark.parametrize("prefix", [1, 2])
def test_the_class_token_over_the_image(prefix, tmp_path):
    maps = some_maps(2, 3, prefix + 6)
    image = np.random.default_rng(1).normal(size=(3, 8, 12))
    figure = viz.class_attention_figure(image, maps, (2, 3), prefix=prefix)
    weights = [shown for shown in images_of(figure) if shown.shape == (2, 3)]
    assert len(weights) == 4  # three heads and the rollout
    for head in range(3):
        np.testing.assert_array_equal(weights[head].ravel(), maps[-1][head, 0, prefix:])
    rolled = viz.attention_rollout(maps)[0, prefix:]
    np.testing.assert_allclose(weights[3].ravel(), rolled)
    save_figure(figure, tmp_path / "cls.png", dpi=40)
    assert (tmp_path / "cls.png").stat().st_size > 1000
    with pytest.raises(ShapeError, match="do not match the grid"):
        viz.class_attention_figure(image, maps, (3, 3), prefix=prefix)


def test_similarity_of_positions():
    table = np.random.default_rng(2).normal(size=(6, 5))
    panels = [p for p in images_of(viz.position_similarity_figure(mt.tensor(table), (2, 3)))
              if p.shape == (2, 3)]  # fmt: skip
    assert len(panels) == 6
    expected = table[4] @ table[1] / np.linalg.norm(table[4]) / np.linalg.norm(table[1])
    assert panels[4][0, 1] == pytest.approx(expected)
    assert panels[3][1, 0] == pytest.approx(1)
    with pytest.raises(ShapeError, match="class token"):
        viz.position_similarity_figure(table, (3, 3))
    with pytest.raises(ShapeError, match="does not match grid"):
        viz.position_similarity_figure(table[:3], (1.5, 2))


def test_sinusoids():
    panels = images_of(viz.sinusoidal_figure(20, 8))
    table = mt.nn.sinusoidal_positions(20, 8).numpy()
    np.testing.assert_array_equal(panels[0], table)
    np.testing.assert_allclose(panels[1], table @ table.T)


def test_masks_are_drawn_as_they_are():
    masks = {"causal": mt.masks.causal(4), "padding": mt.masks.padding([3, 2], max_len=4)}
    figure = viz.masks_figure(masks, list("abcd"))
    causal, padding = (p for p in images_of(figure))
    np.testing.assert_array_equal(causal, np.tril(np.ones((4, 4))))
    np.testing.assert_array_equal(padding, [[1, 1, 1, 0]])
    assert [axes.get_title() for axes in figure.axes] == ["causal", "padding"]
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == list("abcd")
    with pytest.raises(ArgumentError, match="must not be empty"):
        viz.masks_figure({})


def test_windows_carry_their_tokens_and_regions():
    figure = viz.windows_figure(6, 6, window=3, shift=1)
    texts = [[t.get_text() for t in axes.texts] for axes in figure.axes]
    assert texts[0] == [str(n) for n in range(36)]
    rolled = np.roll(np.arange(36).reshape(6, 6), (-1, -1), (0, 1))
    assert texts[1] == texts[2] == [str(n) for n in rolled.ravel()]
    panels = images_of(figure)
    regions = window_regions(6, 6, (3, 3), (1, 1)).numpy()
    same = panels[2].reshape(-1, 1) == panels[2].reshape(1, -1)
    np.testing.assert_array_equal(same, regions.reshape(-1, 1) == regions.reshape(1, -1))
    assert len(panels) == 3 + 4 and panels[3].all() and not panels[4].all()


def test_the_index_of_relative_positions():
    panels = images_of(viz.relative_index_figure(2))
    np.testing.assert_array_equal(panels[2], np.arange(9).reshape(3, 3))
    np.testing.assert_array_equal(np.diag(panels[1]), [4, 4, 4, 4])
    assert panels[1][0, 3] == 0 and panels[1][3, 0] == 8
