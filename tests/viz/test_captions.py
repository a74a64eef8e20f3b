"""Where a captioner looks: one picture per word, with the weights over the image."""

import numpy as np
import pytest

from minitorch_attn.errors import ShapeError
from minitorch_attn.viz import caption_figure


def test_each_word_has_its_map(rng):
    scenes = []
    for words in (["one", "above", "two"], ["nine"]):
        weights = rng.dirichlet(np.ones(16), len(words)).reshape(-1, 4, 4)
        scenes.append((rng.random((8, 8)), words, weights))
    figure = caption_figure(scenes, "a title", ["soft", "hard"], [True, False])
    drawn = [axes for axes in figure.axes if axes.get_images()]
    assert [axes.get_xlabel() for axes in drawn] == ["", "one", "above", "two", "", "nine"]
    assert [axes.get_ylabel() for axes in drawn if axes.get_ylabel()] == ["soft", "hard"]
    pictures = iter(drawn)
    for image, words, weights in scenes:
        np.testing.assert_array_equal(next(pictures).get_images()[0].get_array(), image)
        for _, glow in zip(words, weights, strict=True):
            below, above = next(pictures).get_images()
            assert below.get_extent() == above.get_extent()
            np.testing.assert_array_equal(above.get_array(), glow)
            assert above.get_clim() == (0, weights.max())
            assert above.get_interpolation() == ("bicubic" if len(words) == 3 else "nearest")
    assert figure.get_suptitle() == "a title" and figure._repr_png_()[:4] == b"\x89PNG"


def test_arguments():
    assert caption_figure([]) is not None
    with pytest.raises(ShapeError, match="one attention map per word"):
        caption_figure([(np.ones((8, 8)), ["one", "two"], np.ones((1, 4, 4)))])
    with pytest.raises(ShapeError, match="height, width"):
        caption_figure([(np.ones(8), ["one"], np.ones((1, 4, 4)))])
    with pytest.raises(ShapeError, match="word, row, column"):
        caption_figure([(np.ones((8, 8)), ["one"], np.ones((4, 4)))])
