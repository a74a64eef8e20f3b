"""Cross-attention maps from the characters of one text to those of another."""

import numpy as np

from minitorch_attn.viz import cross_attention_figure


def test_each_map_has_its_labels_and_one_scale(rng):
    maps = []
    for source, target in (("3 July", "07-03"), ("13.2.", "02-13")):
        weights = rng.random((len(target), len(source)))
        maps.append((weights / weights.sum(1, keepdims=True), list(source), list(target)))
    figure = cross_attention_figure(maps, "a title", ["first", "second"])
    pictures = [axes for axes in figure.axes if axes.get_images()]
    for axes, (weights, source, target) in zip(pictures, maps, strict=False):
        (image,) = axes.get_images()
        np.testing.assert_array_equal(image.get_array(), weights)
        assert image.get_clim() == (0, 1)
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert labels == [c.replace(" ", "\u2423") for c in source]
        assert [label.get_text() for label in axes.get_yticklabels()] == target
        assert axes.get_xlim() == (-0.5, 5.5)  # as long as the longest source
    assert [axes.get_title("left") for axes in pictures] == ["first", "second"]
    assert figure.get_suptitle() == "a title"
