"""Figures take tensors, with and without a graph, where they take arrays."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import viz

MAPS = np.full((2, 3, 3), 1 / 3, np.float32)


def drawn(figure):
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_images()]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "draw",
    [
        lambda x: viz.attention_figure([x, x], list("abc")),
        lambda x: viz.attention_figure(x, "abc"),
        lambda x: viz.cross_attention_figure([(x[0], "abc", "abc")]),
        lambda x: viz.class_attention_figure(x[0, :2, :2], [x], (1, 2)),
        lambda x: viz.image_rows_figure([[x[0], x[1]]], ["a"]),
        lambda x: viz.caption_figure([(x[0], ["one", "above"], x)]),
        lambda x: viz.position_similarity_figure(x.reshape(6, 3), (2, 3)),
        lambda x: viz.masks_figure({"a": x[0] > 0}),
    ],
)
def test_a_figure_of_a_tensor_is_that_of_its_array(draw, grad):
    found = drawn(draw(mt.tensor(MAPS, requires_grad=grad)))
    expected = drawn(draw(MAPS))
    assert len(found) == len(expected) > 0
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, right)


def test_rollout_takes_tensors():
    np.testing.assert_array_equal(
        viz.attention_rollout([mt.tensor(MAPS, requires_grad=True)]), viz.attention_rollout([MAPS])
    )


def test_of_a_batch_the_first_item_is_drawn():
    batch = np.stack([MAPS, 2 * MAPS])
    found = drawn(viz.attention_figure([mt.tensor(batch)], "abc"))
    np.testing.assert_array_equal(found[0], MAPS[0])
    with pytest.raises(mt.errors.ShapeError, match="head, a query and a key"):
        viz.attention_figure([mt.tensor(MAPS[0])], "abc")


def test_attention_maps_of_a_model_are_drawn():
    model = mt.nn.TransformerEncoderLayer(12, 3, batch_first=True)
    maps = viz.attention_maps(model, mt.randn(1, 4, 12))
    assert [m.shape for m in maps] == [(3, 4, 4)]
    assert viz.attention_figure(maps, ["Hi", "how", "are", "you"])._repr_png_()[:4] == b"\x89PNG"
