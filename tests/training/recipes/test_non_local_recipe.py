"""The recipe `nonlocal`: equal parameters, what each network sees, the attention that it shows."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.training.recipes.non_local import NonLocal


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")


class EverySecondPixel(mt.nn.Module):
    """The pixels in place of features."""

    def forward(self, images):
        return mt.cat([20 * (images[:, :, ::2, ::2] - 0.5)] * 8, 1)


@pytest.fixture
def recipe():
    return NonLocal({"scenes": 60, "dim": 8, "dtype": "float64"})


def test_both_networks_have_the_same_parameters(recipe):
    sizes = {
        name: sorted(p.shape for p in network.parameters())
        for name, network in recipe.model.items()
    }
    assert sizes["with"] == sizes["without"]
    full = NonLocal({"scenes": 1}).model
    counts = [sum(p.numel() for p in network.parameters()) for network in full.values()]
    assert counts[0] == counts[1] >= counts[2]


@pytest.mark.parametrize(
    ("name", "local"), [("with", False), ("without", True), ("relation", True)]
)
def test_only_the_block_lets_one_shape_see_the_other(recipe, name, local):
    """Before the classifier: features at one shape while the other one changes."""
    network = recipe.model[name].eval()
    if name == "with":
        network.block.W_z.weight.data = mt.randn(*network.block.W_z.weight.shape, dtype=mt.float64)

    def features(images):
        images = mt.tensor(images)
        return network.mixed(network.block(network.features(images))).numpy()

    image = np.random.default_rng(1).normal(size=(1, 1, 24, 24))
    changed = image.copy()
    changed[..., 19:, :] += 1  # a shape at the bottom; another one ends 9 pixels above it
    before, after = features(image), features(changed)
    top = before.shape[2] * 10 // 24  # rows of the first 10 pixels
    assert np.array_equal(before[:, :, :top], after[:, :, :top]) == local
    assert not np.array_equal(before[:, :, top:], after[:, :, top:])


def test_attention_of_the_center_of_the_first_shape(recipe):
    """With the features replaced by the pixels, the query attends to pixels like its own."""
    network = recipe.model["with"]
    network.features = EverySecondPixel()
    recipe.test.images[:] = 0.0
    for image, corners in zip(recipe.test.images, recipe.test.corners, strict=True):
        for row, column in corners:
            image[0, row : row + 5, column : column + 5] = 1.0
    maps = recipe.attention(9)
    assert maps.shape == (9, 12, 12)
    np.testing.assert_allclose(maps.sum((1, 2)), 1.0)
    for one, image in zip(maps, recipe.test.images, strict=False):
        inside = image[0, ::2, ::2] == 1
        np.testing.assert_allclose(one[inside], 1 / inside.sum(), rtol=1e-3)
    assert 6 < recipe.other_share(60) < 24 * 24 / 25  # about half of the attention


def test_share_of_uniform_attention(recipe):
    recipe.attention = lambda count: np.full((count, 12, 12), 1 / 144)
    assert recipe.other_share(60) == pytest.approx(1.0)


def test_batches_are_new(recipe):
    stream = recipe.batches()
    (one, labels), (two, _) = next(stream), next(stream)
    assert one.shape == (64, 1, 24, 24) and labels.dtype == mt.int64
    assert not np.array_equal(one.numpy(), two.numpy())
