"""ViT: the papers' numbers, a NumPy reference for each kind of positions, other sizes."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models import vision_transformer
from minitorch_attn.models.vit import POSITIONS, Block, PatchEmbedding, VisionTransformer
from minitorch_attn.models.vit_positions import (
    RelativeAttention,
    interpolate_positions,
    sincos_positions,
)
from minitorch_attn.nn.init import skip_init
from minitorch_attn.nn.summary import Summary

BATCH, CHANNELS, PATCH, GRID, WIDTH, HEADS, LAYERS, CLASSES = 3, 2, (2, 3), (3, 2), 8, 2, 2, 5


def small(device="cpu", **changes):
    settings = dict(
        image_size=(6, 6), patch_size=PATCH, num_classes=CLASSES, embed_dim=WIDTH,
        num_layers=LAYERS, num_heads=HEADS, mlp_dim=11, in_channels=CHANNELS,
    )  # fmt: skip
    mt.manual_seed(5)
    model = VisionTransformer(**{**settings, **changes}).double()
    rng = np.random.default_rng(7)
    for name, p in model.named_parameters():  # norms, biases and the head too
        values = rng.normal(size=p.shape) * 0.5
        p.data = mt.tensor(values + 1 if "norm" in name and "weight" in name else values)
    return model.to(device)


def images_of(rng, height=6, width=6):
    return rng.normal(size=(BATCH, CHANNELS, height, width))


@pytest.mark.parametrize(
    "name, count",
    [
        ("vit_ti_16", 5_717_416),
        ("vit_s_16", 22_050_664),
        ("vit_s_32", 22_878_952),
        ("vit_b_16", 86_567_656),
        ("vit_b_32", 88_224_232),
        ("vit_l_16", 304_326_632),
        ("vit_l_32", 306_535_400),
        ("vit_h_14", 632_045_800),
    ],
)
def test_parameter_counts(name, count):
    with skip_init():
        model = getattr(mt.models, name)()
    assert sum(p.array.size for p in model.parameters()) == count


@pytest.mark.parametrize(
    "name, millions, at_224, at_384",
    [
        ("s/28", 5.4, 0.7, 2.0),
        ("s/16", 5.0, 2.2, 7.8),
        ("S/32", 22, 2.3, 6.9),
        ("Ti/16", 5.5, 2.5, 9.5),
        ("B/32", 87, 8.7, 26.0),
        ("S/16", 22, 9.2, 31.2),
        ("B/28", 87, 11.3, 30.5),
        ("B/16", 86, 35.1, 111.3),
        ("L/16", 303, 122.9, 382.8),
        pytest.param("g/14", 1011, 533.1, 1596.4, marks=pytest.mark.slow),
        pytest.param("G/14", 1843, 965.3, 2859.9, marks=pytest.mark.slow),
    ],
)
def test_table_of_sizes(name, millions, at_224, at_384):
    """Zhai et al. 2021, arXiv:2106.04560v2, Table 2: without a head; GFLOPs at two sizes.

    The published counts include a part of the elementwise operations.
    """
    for size, published in ((224, at_224), (384, at_384)):
        with skip_init():
            model = vision_transformer(name, image_size=size, num_classes=0)
            found = Summary(model, (1, 3, size, size))
        assert found.flops / 1e9 == pytest.approx(published, rel=0.015, abs=0.06)
        if size == 224:
            assert found.parameters / 1e6 == pytest.approx(millions, abs=0.51)


def norm(x, w, name, eps=1e-6):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return scaled * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def gelu(x):
    from math import erf, sqrt

    return x * 0.5 * (1 + np.vectorize(erf)(x / sqrt(2)))


def reference(w, image, positions, pooling):
    """One image through the model, patch by patch and head by head."""
    patches = []
    kernel, bias = (w["patch_embedding.projection." + n] for n in ("weight", "bias"))
    for row in range(GRID[0]):
        for column in range(GRID[1]):
            rows, columns = row * PATCH[0], column * PATCH[1]
            piece = image[:, rows : rows + PATCH[0], columns : columns + PATCH[1]]
            x = np.array([(k * piece).sum() for k in kernel]) + bias
            if positions == "2d":
                x = x + np.concatenate(
                    [w["positions.row_weight"][row], w["positions.column_weight"][column]]
                )
            patches.append(x)
    x = np.stack(patches if pooling == "mean" else [w["class_token"][0, 0], *patches])
    if positions == "1d":
        x = x + w["positions.weight"]
    for i in range(LAYERS):
        block = f"blocks.{i}."
        x = x + attention(norm(x, w, block + "norm1"), w, block + "attention.")
        hidden = gelu(linear(norm(x, w, block + "norm2"), w, block + "feed_forward.linear1"))
        x = x + linear(hidden, w, block + "feed_forward.linear2")
    x = norm(x, w, "norm")
    return linear(x[0] if pooling == "class" else x.mean(0), w, "head")


def attention(x, w, name):
    query, key, value = (linear(x, w, f"{name}{part}_proj") for part in "qkv")
    tokens, size = len(x), WIDTH // HEADS
    context = np.zeros((tokens, WIDTH))
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        for i in range(tokens):
            keys = key[:, part].copy()
            if name + "distances" in w:
                keys += [w[name + "distances"][j - i + tokens - 1, part] for j in range(tokens)]
            scores = keys @ query[i, part] / np.sqrt(size)
            weights = np.exp(scores - scores.max())
            context[i, part] = weights / weights.sum() @ value[:, part]
    return linear(context, w, name + "out_proj")


@pytest.mark.parametrize("pooling", ["class", "mean"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_equals_its_twin(positions, pooling, rng, device):
    model = small(device, positions=positions, pooling=pooling)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    images = images_of(rng)
    got = model(mt.tensor(images, device=device)).numpy()
    expected = [reference(weights, image, positions, pooling) for image in images]
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("positions", POSITIONS)
def test_gradients(positions, rng, device):
    model = small(device, positions=positions, num_layers=1)
    images = mt.tensor(images_of(rng)[:1], device=device, requires_grad=True)
    assert gradcheck_module(model, images)


def test_a_hidden_layer_before_the_head(rng):
    model = small(representation_dim=7)
    images = mt.tensor(images_of(rng))
    features = model.pool(model.encode(model.embed(images))).numpy()
    w = {name: value.numpy() for name, value in model.state_dict().items()}
    expected = linear(np.tanh(linear(features, w, "head.0")), w, "head.2")
    np.testing.assert_allclose(model(images).numpy(), expected, rtol=1e-10)


def test_without_classes_the_features_are_the_result(rng):
    model = small(num_classes=0)
    images = mt.tensor(images_of(rng))
    expected = model.encode(model.embed(images))[:, 0]
    np.testing.assert_array_equal(model(images).numpy(), expected.numpy())


def test_the_order_of_patches_counts_only_with_positions(rng):
    images = images_of(rng)
    swapped = np.concatenate([images[:, :, 2:4], images[:, :, :2], images[:, :, 4:]], 2)
    for positions in POSITIONS:
        model = small(positions=positions)
        one, other = (model(mt.tensor(x)).numpy() for x in (images, swapped))
        assert np.allclose(one, other, rtol=1e-9) == (positions == "none")


@pytest.mark.parametrize("positions", ["none", "1d", "2d"])
@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_resize(positions, pooling, rng):
    model = small(positions=positions, pooling=pooling)
    images = images_of(rng)
    same = model(mt.tensor(images)).numpy()
    np.testing.assert_allclose(model.resize(6)(mt.tensor(images)).numpy(), same, rtol=1e-12)
    model.resize((8, 15))
    assert model.grid == (4, 5)
    assert model(mt.tensor(images_of(rng, 8, 15))).shape == (BATCH, CLASSES)
    assert all(p.requires_grad and p.dtype == "float64" for p in model.parameters())


def test_resized_positions_are_those_at_the_same_places():
    """Positions that grow linearly over the image nearly do so again, away from its border."""
    model = small(image_size=(16, 24), embed_dim=4)
    rows, columns = np.meshgrid(np.arange(8.0), np.arange(8.0), indexing="ij")
    table = np.stack([rows, columns, rows + columns, 0 * rows], -1).reshape(64, 4)
    first = np.full((1, 4), 9.0)
    model.positions.weight.data = mt.tensor(np.concatenate([first, table]))
    model.resize((32, 48))
    got = model.positions.weight.numpy()
    np.testing.assert_array_equal(got[0], first[0])
    places = (np.arange(16) + 0.5) / 2 - 0.5
    inner = slice(4, 12)
    grid = got[1:].reshape(16, 16, 4)[inner, inner]
    np.testing.assert_allclose(grid[:, 0, 0], places[inner], atol=0.05)
    np.testing.assert_allclose(grid[0, :, 1], places[inner], atol=0.05)


def test_interpolation_carries_gradients(make):
    table = make(6, 5)
    assert mt.autograd.gradcheck(lambda t: interpolate_positions(t, (2, 3), (4, 5)), (table,))
    assert interpolate_positions(table, (2, 3), (2, 3)) is table
    with pytest.raises(ShapeError, match="number of rows of table"):
        interpolate_positions(table, (2, 2), (4, 4))


def test_sincos_positions():
    table = sincos_positions((3, 5), 12, dtype="float64").numpy().reshape(3, 5, 12)
    frequencies = 10000.0 ** (-np.arange(3) / 3)
    for row in range(3):
        for column in range(5):
            halves = [
                np.concatenate([np.sin(place * frequencies), np.cos(place * frequencies)])
                for place in (column, row)
            ]
            np.testing.assert_allclose(table[row, column], np.concatenate(halves), rtol=1e-12)
    flipped = sincos_positions((3, 5), 12, rows_first=True, dtype="float64").numpy()
    np.testing.assert_array_equal(flipped[:, :6], table.reshape(15, 12)[:, 6:])
    with pytest.raises(ArgumentError, match="embed_dim"):
        sincos_positions((3, 5), 6)


@pytest.mark.parametrize("tokens", [1, 2, 4, 7])
def test_relative_scores_of_shorter_sequences(tokens, rng, device):
    mt.manual_seed(3)
    attention = RelativeAttention(6, 2, max_tokens=7).double().to(device)
    query = rng.normal(size=(BATCH, 2, tokens, 3))
    table = attention.distances.numpy().reshape(13, 2, 3)
    expected = np.zeros((BATCH, 2, tokens, tokens))
    for i in range(tokens):
        for j in range(tokens):
            expected[:, :, i, j] = (query[:, :, i] * table[j - i + 6]).sum(-1) / np.sqrt(3)
    got = attention.relative_scores(mt.tensor(query, device=device)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_weights_can_be_watched(rng):
    model = small(positions="relative")
    images = mt.tensor(images_of(rng))
    plain = model(images).numpy()
    with mt.nn.collect_attention(model) as found:
        watched = model(images).numpy()
    np.testing.assert_allclose(watched, plain, rtol=1e-12)
    assert [w.shape for _, w in found] == [(BATCH, HEADS, 7, 7)] * LAYERS
    np.testing.assert_allclose(found[0][1].numpy().sum(-1), 1.0, rtol=1e-12)


def test_stochastic_depth_grows_from_block_to_block():
    model = small(num_layers=3, drop_path=0.4)
    assert [block.drop_path.drop_prob for block in model.blocks] == [0.0, 0.2, 0.4]


def test_where_dropout_stands(rng, device):
    """A probability of 1 leaves only what does not pass through that dropout."""
    mt.manual_seed(3)
    x = mt.tensor(rng.normal(size=(BATCH, 5, 8)), device=device)

    def block(**rates):
        return Block(8, 2, 11, **rates).double().to(device)

    for rates in ({"dropout": 1.0, "inner_dropout": 0.0}, {"drop_path": 1.0}):
        np.testing.assert_array_equal(block(**rates)(x).numpy(), x.numpy())
    for rates, part, bias in (
        ({"inner_dropout": 1.0}, "feed_forward", "linear2"),
        ({"attention_dropout": 1.0}, "attention", "out_proj"),
    ):
        module = getattr(block(**rates), part)
        expected = getattr(module, bias).bias.numpy()
        np.testing.assert_array_equal(module(x).numpy(), expected + np.zeros((BATCH, 5, 8)))
    model = small(device, dropout=1.0)
    images = mt.tensor(images_of(rng), device=device)
    assert not model.embed(images).numpy().any() and model.eval().embed(images).numpy().all()


def test_dropout_acts_in_training_only(rng):
    model = small(dropout=0.5, attention_dropout=0.5)
    images = mt.tensor(images_of(rng))
    assert not np.array_equal(model(images).numpy(), model(images).numpy())
    model.eval()
    np.testing.assert_array_equal(model(images).numpy(), model(images).numpy())


def test_first_weights():
    model = VisionTransformer(8, 2, 10, 64, 1, 4, 128, in_channels=1)
    assert not model.head.weight.numpy().any() and not model.class_token.numpy().any()
    assert model.positions.weight.numpy().std() == pytest.approx(0.02, rel=0.1)
    weight = model.blocks[0].feed_forward.linear1.weight.numpy()
    assert abs(weight).max() <= np.sqrt(6 / (64 + 128)) < 1.05 * abs(weight).max()


def test_pixels_that_fill_no_patch_are_left_out(rng):
    images = images_of(rng, 7, 8)
    model = small(image_size=(7, 8))
    cut = small()
    got = model(mt.tensor(images)).numpy()
    np.testing.assert_allclose(got, cut(mt.tensor(images[:, :, :6, :6])).numpy(), rtol=1e-12)


def test_errors():
    with pytest.raises(ArgumentError, match="image_size must be at least patch_size"):
        VisionTransformer(8, 9)
    with pytest.raises(ArgumentError, match="positions"):
        VisionTransformer(8, 2, positions="3d")
    with pytest.raises(ArgumentError, match="pooling"):
        VisionTransformer(8, 2, pooling="max")
    with pytest.raises(ArgumentError, match="'B16'"):
        vision_transformer("B16")
    with pytest.raises(ArgumentError, match="relative positions are not supported"):
        small(positions="relative").resize(12)
    with pytest.raises(ShapeError, match="does not match the model's") as caught:
        small()(mt.zeros(1, CHANNELS, 8, 6))
    assert "model.resize((8, 6))" in str(caught.value)
    with pytest.raises(ShapeError, match="shape of images does not match"):
        PatchEmbedding(2, 1, 3)(mt.zeros(1, 3, 4, 4))
    with pytest.raises(ShapeError, match="at most max_tokens"):
        RelativeAttention(6, 2, max_tokens=3)(mt.zeros(1, 4, 6))
