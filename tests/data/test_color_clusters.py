"""Color clusters: k-means, nearest entries, raster order, folders."""

import json

import numpy as np
import pytest

from minitorch_attn.data.color_clusters import ColorClusters
from minitorch_attn.errors import ArgumentError, CheckpointError, ShapeError


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("arrays on the host only")


def images_of(rng, *shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


def test_nearest_entry_in_raster_order(rng):
    images, centers = images_of(rng, 2, 3, 5, 3), rng.uniform(-1, 1, (7, 3))
    ids = ColorClusters(centers).encode(images)
    assert ids.shape == (2, 15) and ids.dtype == np.int64
    for n, row, column in np.ndindex(2, 3, 5):
        color = images[n, row, column] / 127.5 - 1
        expected = ((centers - color) ** 2).sum(1).argmin()
        assert ids[n, row * 5 + column] == expected


def test_decoding(rng):
    palette = ColorClusters([[-1.0, 0.0, 1.0], [0.5, -0.5, 0.003]])
    images = palette.decode(np.array([[0, 1, 1, 1, 0, 0]]), 2, 3)
    assert images.shape == (1, 2, 3, 3) and images.dtype == np.uint8
    assert images[0, 0, 0].tolist() == [0, 128, 255]
    assert images[0, 0, 1].tolist() == [191, 64, 128]
    np.testing.assert_array_equal(palette.encode(images), [[0, 1, 1, 1, 0, 0]])


def test_few_colors_come_back_exactly(rng):
    colors = images_of(rng, 5, 3)
    images = colors[rng.integers(0, 5, (3, 4, 4))]
    palette = ColorClusters.fit(images, 5, seed=1)
    np.testing.assert_array_equal(palette.decode(palette.encode(images), 4, 4), images)
    np.testing.assert_array_equal(ColorClusters.fit(images, 9).encode(images).shape, (3, 16))


def test_each_center_is_the_mean_of_its_pixels(rng):
    images = images_of(rng, 2, 7, 5, 2)
    palette = ColorClusters.fit(images, 3, iterations=100)
    ids, colors = palette.encode(images).reshape(-1), images.reshape(-1, 2) / 127.5 - 1
    for i, center in enumerate(palette.centers):
        np.testing.assert_allclose(colors[ids == i].mean(0), center, atol=1e-12)
    again = ColorClusters.fit(images, 3, iterations=100)
    np.testing.assert_array_equal(palette.centers, again.centers)


def test_more_clusters_lose_less(rng):
    images = images_of(rng, 1, 9, 11, 3)
    errors = []
    for number in (1, 4, 16, 64):
        palette = ColorClusters.fit(images, number)
        shown = palette.decode(palette.encode(images), 9, 11)
        errors.append(((shown.astype(float) - images) ** 2).mean())
    assert errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 4


def test_folders(tmp_path):
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({"clusters": [[-1, 0, 1], [0.5, 0.5, 0.5]]}))
    assert ColorClusters.from_pretrained(tmp_path).centers.shape == (2, 3)
    for wrong in ({}, {"clusters": []}, {"clusters": 3}, {"clusters": [[1, 2], [3]]},
                  {"clusters": [["a", 0, 0]]}):  # fmt: skip
        path.write_text(json.dumps(wrong))
        with pytest.raises(CheckpointError, match="clusters"):
            ColorClusters.from_pretrained(tmp_path)


def test_refused_arguments(rng):
    palette = ColorClusters(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match="uint8"):
        palette.encode(rng.random((1, 2, 2, 3)))
    with pytest.raises(ShapeError, match="wrong shape"):
        palette.encode(images_of(rng, 1, 2, 2, 4))
    with pytest.raises(ShapeError, match="does not match"):
        palette.decode(np.zeros((1, 5), int), 2, 2)
    with pytest.raises(ArgumentError, match="at least one"):
        ColorClusters.fit(images_of(rng, 1, 2, 2, 3), 0)
    with pytest.raises(ArgumentError, match="at least one"):
        ColorClusters.fit(np.zeros((0, 2, 2, 3), np.uint8), 2)
    assert palette.encode(images_of(rng, 0, 2, 2, 3)).size == 0
