"""DETR: sizes, layers by hand, positions in queries and keys only, padding, and symmetry."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn, ops
from minitorch_attn.errors import ArgumentError
from minitorch_attn.gradcheck import gradcheck_module
from minitorch_attn.models import detr
from minitorch_attn.models.detr import DETR, BoxHead, FeatureExtractor, detections
from minitorch_attn.models.detr_transformer import DetrDecoderLayer, PositionedAttention
from minitorch_attn.models.reference_detr import ReferenceDETR
from minitorch_attn.models.resnet import BasicBlock, Bottleneck

SIZES = dict(
    num_classes=5, num_queries=7, embed_dim=8, num_heads=2, ff_dim=11, num_encoder_layers=1,
    num_decoder_layers=2, dropout=0.0,
)  # fmt: skip


def small(cls=DETR, device="cpu", **changes):
    mt.manual_seed(3)
    backbone = nn.Conv2d(3, 5, kernel_size=4, stride=4)
    model = cls(backbone, 5, **{**SIZES, **changes}).double().to(device)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture
def images(rng, device):
    return mt.tensor(rng.normal(size=(2, 3, 12, 20)), device=device)


def test_published_sizes():
    counts = {"resnet50": (41_524_768, 41_302_368), "resnet101": (60_464_672, 60_242_272)}
    for name, (whole, trained) in counts.items():
        for end in ("", "_dc5"):
            with nn.init.skip_init():
                model = getattr(mt.models, f"detr_{name}{end}")()
            sizes = [(p.array.size, p.requires_grad) for p in model.parameters()]
            assert sum(n for n, _ in sizes) == whole
            assert sum(n for n, learns in sizes if learns) == trained
            dilated = model.backbone.layer4[1].conv2.dilation
            assert dilated == ((2, 2) if end else (1, 1))


def test_initial_weights():
    model = small(embed_dim=32, ff_dim=32)
    for part in (model.encoder, model.decoder):
        bound = (6 / 64) ** 0.5
        for name, parameter in part.named_parameters():
            if parameter.ndim > 1:
                largest = parameter.abs().max().item()
                assert 0.97 * bound < largest <= bound, name  # a linear layer starts with 0.18


def test_feature_extractor(device):
    make = dict(channels=(2, 3, 4), stem_channels=5)
    x = mt.randn(2, 3, 64, 32, device=device)
    model = FeatureExtractor(BasicBlock, (1, 1, 1), **make).to(device)
    assert model(x).shape == (2, 4, 4, 2) and model.num_features == 4
    assert isinstance(model.bn1, nn.FrozenBatchNorm2d)
    learns = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert learns == {"layer2", "layer3"}
    second = FeatureExtractor(Bottleneck, (1, 1, 1), last_stage=2, **make).to(device)
    assert second(x).shape == (2, 12, 8, 4) and second.num_features == 12
    dilated = FeatureExtractor(BasicBlock, (1, 1, 1), (False, True), **make).to(device)
    assert dilated(x).shape == (2, 4, 8, 4)


def attention_by_hand(layer, x, memory, positions, memory_positions):
    """One head after the other; values without positions."""
    linear = [getattr(layer, name + "_proj") for name in ("q", "k", "v", "out")]
    w, b = [m.weight.numpy().T for m in linear], [m.bias.numpy() for m in linear]
    query = (x + positions) @ w[0] + b[0]
    key = (memory + memory_positions) @ w[1] + b[1]
    value = memory @ w[2] + b[2]
    parts = []
    for q, k, v in zip(*(np.split(a, layer.num_heads, -1) for a in (query, key, value)),
                       strict=True):  # fmt: skip
        scores = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        parts.append(scores / scores.sum(-1, keepdims=True) @ v)
    return np.concatenate(parts, -1) @ w[3] + b[3]


def test_positions_are_not_in_the_values(rng, device):
    layer = PositionedAttention(6, 2).double().to(device)
    x, memory, places, memory_places = (rng.normal(size=s) for s in
                                        ((3, 5, 6), (3, 7, 6), (5, 6), (7, 6)))  # fmt: skip
    arrays = [mt.tensor(a, device=device) for a in (x, memory, places, memory_places)]
    got = layer(*arrays[:2], positions=arrays[2], memory_positions=arrays[3])
    expected = attention_by_hand(layer, x, memory, places, memory_places)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10)
    got = layer(arrays[0], positions=arrays[2]).numpy()
    np.testing.assert_allclose(got, attention_by_hand(layer, x, x, places, places), rtol=1e-10)
    zeros = np.zeros(6)
    got = layer(*arrays[:2]).numpy()
    np.testing.assert_allclose(got, attention_by_hand(layer, x, memory, zeros, zeros), rtol=1e-10)


def test_decoder_layer(rng, device):
    """Attention to the queries, to the image, and the network, each followed by a LayerNorm."""
    layer = DetrDecoderLayer(6, 2, 11, dropout=0.0).double().to(device)
    shapes = (3, 5, 6), (3, 7, 6), (1, 5, 6), (1, 7, 6)
    x, memory, places, memory_places = (rng.normal(size=s) for s in shapes)
    arrays = [mt.tensor(a, device=device) for a in (x, memory, places, memory_places)]

    def normalized(y):
        return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)

    y = normalized(x + attention_by_hand(layer.attention, x, x, places, places))
    cross = attention_by_hand(layer.cross_attention, y, memory, places, memory_places)
    y = normalized(y + cross)
    z = layer.feed_forward(mt.tensor(y, device=device)).numpy()
    np.testing.assert_allclose(layer(*arrays).numpy(), normalized(y + z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cls", [DETR, ReferenceDETR])
def test_a_permutation_of_the_queries_permutes_the_predictions(cls, images, device):
    model = small(cls, device)
    table = model.query_positions.weight if cls is DETR else model.reference_points
    nn.init.normal_(model.box_head.layers[-1].weight)
    before = [x.numpy() for x in model.layer_outputs(images)]
    order = np.random.default_rng(1).permutation(7)
    table.data = table.data[mt.tensor(order, device=device)]
    for old, new in zip(before, model.layer_outputs(images), strict=True):
        np.testing.assert_allclose(new.numpy(), old[:, :, order], rtol=1e-9, atol=1e-12)
        assert abs(old[:, :, order] - old).max() > 1e-5


@pytest.mark.parametrize("cls", [DETR, ReferenceDETR])
def test_padding_changes_nothing(cls, rng, device):
    model = small(cls, device)
    images = rng.normal(size=(1, 3, 12, 20))
    padded, mask = np.full((1, 3, 16, 28), 9.0), np.zeros((1, 16, 28), bool)
    padded[:, :, :12, :20], mask[:, :12, :20] = images, True
    alone = model(mt.tensor(images, device=device))
    found = model(mt.tensor(padded, device=device), mt.tensor(mask, device=device))
    for a, b in zip(alone, found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cls", [DETR, ReferenceDETR])
def test_gradients(cls, rng):
    """Of a decoder alone; `tests/parity` compares the gradients of whole models."""
    model = small(
        cls, num_queries=2, num_decoder_layers=1, num_encoder_layers=0, embed_dim=4, num_heads=1,
        ff_dim=3, num_classes=1,
    )  # fmt: skip
    model.backbone = nn.Conv2d(1, 5, 2, stride=2).double()
    nn.init.normal_(model.box_head.layers[-1].weight, std=0.3)
    assert gradcheck_module(model, mt.tensor(rng.normal(size=(1, 1, 2, 4)), requires_grad=True))


def test_layers_share_the_heads(images, device):
    model = small(device=device)
    logits, boxes = model.layer_outputs(images)
    assert logits.shape == (2, 2, 7, 6) and boxes.shape == (2, 2, 7, 4)
    memory, positions, mask = model.encode(images)
    assert mask is None and memory.shape == (2, 15, 8)
    states = model.decode(memory, positions)
    for layer in (0, 1):
        a, b = model.predict(states[layer])
        np.testing.assert_allclose(a.numpy(), logits[layer].numpy(), rtol=1e-12)
        np.testing.assert_allclose(b.numpy(), boxes[layer].numpy(), rtol=1e-12)
    last = model(images)
    np.testing.assert_array_equal(last[0].numpy(), logits[1].numpy())
    assert (boxes > 0).all() and (boxes < 1).all()


def test_the_next_layer_reads_what_is_not_normalized(images, device):
    model = small(device=device)
    memory, positions, _ = model.encode(images)
    with nn.collect_outputs([*model.decoder.layers]) as found:
        states = model.decode(memory, positions)
    queries = model.query_positions.weight.unsqueeze(0)
    y = model.decoder.layers[1](found[0][1], memory, queries, positions)
    expected = model.decoder.norm(y).numpy()
    np.testing.assert_allclose(states[1].numpy(), expected, rtol=1e-10)


def test_reference_points_move(images, device):
    model = small(ReferenceDETR, device)
    _, boxes = model.layer_outputs(images)
    points = 1 / (1 + np.exp(-model.reference_points.numpy()))
    head = model.box_head.layers[-1]
    assert not head.weight.numpy().any()  # so a layer moves every point by the bias
    step = head.bias.numpy()[:2]
    for layer in (0, 1):
        moved = 1 / (1 + np.exp(-(model.reference_points.numpy() + (layer + 1) * step)))
        np.testing.assert_allclose(boxes[layer, 0].numpy()[:, :2], moved, rtol=1e-9)
    place = model.code(mt.tensor(points, device=device)).numpy()
    grid = model.positions(mt.zeros(1, 1, 1, 2, dtype="float64", device=device)).numpy()
    ends = mt.tensor([[0.5, 1.0], [1.0, 1.0]], dtype="float64", device=device)  # x and y
    assert place.shape == (7, 8)
    np.testing.assert_allclose(model.code(ends).numpy(), grid[0], atol=1e-5)
    boxes[0].sum().backward()
    assert model.reference_points.grad.numpy().any()


def test_a_query_knows_its_point(images, device):
    """The decoder starts from the code of the point, and the box head reads it in each layer."""
    model = small(ReferenceDETR, device)
    nn.init.normal_(model.box_head.layers[-1].weight)
    memory, places, _ = model.encode(images)
    logits, boxes = model.refine(memory, places)
    point = model.reference_points.unsqueeze(0)
    x = model.code(ops.sigmoid(point))
    for n, layer in enumerate(model.decoder.layers):
        code = model.code(ops.sigmoid(point))
        x = layer(x, memory, code, places)
        change = model.box_head(model.decoder.norm(x) + code)
        point = point + change[..., :2]
        expected = ops.sigmoid(ops.cat([point, change[..., 2:]], -1)).numpy()
        np.testing.assert_allclose(boxes[n].numpy(), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            logits[n].numpy(), model.class_head(model.decoder.norm(x)).numpy(), rtol=1e-9
        )


def test_detections(device):
    logits = mt.tensor([[[1.0, 3.0, 0.0], [0.0, 0.0, 4.0], [5.0, 0.0, 0.0]]], device=device)
    boxes = mt.tensor([[[0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1], [0.25, 0.5, 0.5, 1.0]]],
                      device=device)  # fmt: skip
    (found,) = detections(logits, boxes, [(40, 80)])
    assert found["labels"].tolist() == [0, 1, 0]
    assert (np.diff(found["scores"].numpy()) < 0).all()
    np.testing.assert_allclose(found["boxes"][0].numpy(), [0, 0, 40, 40], atol=1e-5)
    np.testing.assert_allclose(found["boxes"][1].numpy(), [20, 10, 60, 30], atol=1e-5)
    assert len(detections(logits, boxes, [(40, 80)], 0.5)[0]["scores"]) == 2


def test_float32_and_dropout(images, device):
    model = small(device=device).float().train()
    model.encoder.layers[0].around_attention.dropout.p = 0.5
    logits, boxes = model(images.float())
    assert logits.dtype == boxes.dtype == mt.float32
    assert abs(model(images.float())[0] - logits).max() > 1e-4


def test_box_head():
    head = BoxHead(3, output_dim=2, num_layers=2)
    assert [tuple(layer.weight.shape) for layer in head.layers] == [(3, 3), (2, 3)]


def test_errors():
    with pytest.raises(ArgumentError, match="positions is invalid"):
        small(positions="1d")
    with pytest.raises(ArgumentError, match="must be 'sine'"):
        small(ReferenceDETR, positions="learned")


def test_names_of_the_contract():
    for name in ("hungarian_match", "hungarian_loss", "average_precision", "box_iou",
                 "center_to_corners_format", "generalized_box_iou"):  # fmt: skip
        assert name in detr.__all__ and callable(getattr(detr, name))
