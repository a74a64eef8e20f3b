"""The recipe `detr`: its phases, its batches, and what it measures."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.detection_scenes import DetectionScenes, draw_detection_scenes
from minitorch_attn.models.detr import hungarian_loss, total_loss
from minitorch_attn.training.recipes.detection_stream import as_targets, digits_at_tokens
from minitorch_attn.training.recipes.detr import DetrDigits, SceneBackbone


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")
    pytest.importorskip("sklearn")
    pytest.importorskip("scipy")


def make(**options):
    small = {"dim": 8, "heads": 2, "layers": 2, "batch": 3, "queries": 5, "scenes": 13}
    return DetrDigits({**small, "steps": 20, "warmup": 2, "dtype": "float64", **options})


def test_the_digit_at_each_token(rng):
    digits = np.ones((10, 1, 8, 8), np.float32)
    scenes = draw_detection_scenes(30, digits, np.arange(10), rng, most=6)
    found = digits_at_tokens(scenes).reshape(30, 8, 8)
    for n, row, column in np.ndindex(30, 8, 8):
        y, x = 8 * row + 4, 8 * column + 4
        inside = [
            label
            for label, (left, top, right, bottom) in zip(
                scenes.labels[n], scenes.boxes[n], strict=True
            )
            if left <= x < right and top <= y < bottom
        ]
        assert found[n, row, column] == (inside[0] if inside else 10)


def test_targets_are_centers():
    boxes = [np.array([[16.0, 0, 32, 8]], np.float32), np.zeros((0, 4), np.float32)]
    scenes = DetectionScenes(np.zeros((2, 1, 64, 64)), [np.array([7]), np.zeros(0, int)], boxes)
    one, none = as_targets(scenes, "float64")
    assert one["class_labels"].tolist() == [7] and one["boxes"].dtype == np.float64
    assert one["boxes"].tolist() == [[0.375, 0.0625, 0.25, 0.125]]
    assert none["boxes"].shape == (0, 4) and none["class_labels"].shape == (0,)


def test_the_backbone_adds_positions(rng):
    backbone = SceneBackbone(12).double().eval()
    images = mt.tensor(rng.random((2, 1, 64, 64)))
    found, convolved = backbone(images).numpy(), backbone.convolved(images).numpy()
    np.testing.assert_array_equal(found[:, :12], convolved)
    code = found[:, 12:]
    assert found.shape == (2, 44, 8, 8) and (code[0] == code[1]).all()
    assert (code[:, :16, 3, 1] == code[:, :16, 3, 6]).all()  # the row, then the column
    assert (code[:, 16:, 2, 5] == code[:, 16:, 7, 5]).all()
    assert len(np.unique(code[0].reshape(32, 64).T.round(9), axis=0)) == 64


def test_phases():
    recipe = make(pretraining=0.2, plain=0.3)
    names = [recipe.phase(step)[0] for step in range(20)]
    assert names == ["pretraining"] * 4 + ["reference"] * 10 + ["plain"] * 6
    assert recipe.phase(4) == ("reference", 4, 14) and recipe.phase(20) == ("plain", 14, 20)
    batches = recipe.batches()
    drawn = [next(batches) for _ in range(20)]
    assert {*drawn[3]} == {"images", "tokens"}
    assert {*drawn[4]} == {*drawn[13]} == {"images", "tokens", "targets"}
    assert {*drawn[14]} == {"images", "targets"}
    covered = [(batch["tokens"].numpy() < 10).mean() for batch in drawn[:14]]
    assert np.mean(covered[:4]) > np.mean(covered[4:])  # crowded


def test_each_phase_trains_its_part():
    recipe = make(pretraining=0.2, plain=0.3)
    loop, model = recipe.loop(), recipe.model

    def state():
        return {name: value.numpy().copy() for name, value in model.state_dict().items()}

    def changed(before):
        after = state()
        return {name.split(".")[0] for name, old in before.items() if (after[name] != old).any()}

    start = state()
    loop.train(3)
    assert changed(start) == {"backbone", "digit_head"}
    loop.train(4)
    middle = state()
    for name in [name for name in middle if name.startswith("backbone.")]:
        np.testing.assert_array_equal(middle[f"reference.{name}"], middle[name])
        np.testing.assert_array_equal(middle[f"plain.{name}"], middle[name])
    loop.train(14)
    assert changed(middle) == {"reference", "token_head"}
    middle = state()
    loop.train(20)
    assert changed(middle) == {"plain"}
    after = state()
    for name in [n for n in after if "running" in n and not n.startswith("backbone.")]:
        np.testing.assert_array_equal(after[name], after[name[name.index("backbone.") :]])


def test_learning_rates():
    recipe = make(pretraining=0.5, plain=0.25, steps=400, warmup=0, scale=0.4, lr=0.01)
    factors = [recipe.learning_rate_factor(step) for step in (0, 200, 300)]
    np.testing.assert_allclose(factors, [1, 0.4, 0.4])
    groups = recipe.parameter_groups()
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert sum(len(group["params"]) for group in groups) == len(rates)
    for name, parameter in recipe.model.named_parameters():
        assert rates[id(parameter)] == pytest.approx(0.003 if ".backbone." in name else 0.01)
        assert (decay[id(parameter)] > 0) == (parameter.ndim >= 2)


def test_the_loss_of_the_tokens():
    """Tokens without a digit have a weight of 0.3 in pretraining, and of 0.1 later."""
    recipe = make(pretraining=0.5, plain=0.0)
    model, batches = recipe.model.eval(), recipe.batches()
    batch = next(batches)
    features = model.backbone.convolved(batch["images"]).flatten(2).transpose(1, 2)
    expected = weighted(model.digit_head(features).detach().numpy(), batch["tokens"].numpy(), 0.3)
    assert recipe.loss(model, batch).item() == pytest.approx(expected, rel=1e-10)
    batches.position = 10
    batch = next(batches)
    memory = model.reference.encode(batch["images"])[0]
    digits = weighted(model.token_head(memory).detach().numpy(), batch["tokens"].numpy(), 0.1)
    loss = recipe.loss(model, batch).item()
    recipe.options["tokens"] = 0.0
    assert loss - recipe.loss(model, batch).item() == pytest.approx(digits, rel=1e-8)


def test_the_set_loss_matches_with_the_weights_of_the_loss(rng):
    """Class 1, L1 5 and generalized IoU 2, in the cost and in the loss (appendix A.4)."""
    recipe = make(pretraining=0.0, plain=0.9, scenes=40)
    logits, boxes = rng.normal(size=(2, 40, 5, 11)), rng.uniform(0.1, 0.6, (2, 40, 5, 4))
    logits, boxes = mt.tensor(3 * logits), mt.tensor(boxes)
    targets = as_targets(recipe.test, "float64")
    recipe.model.plain.layer_outputs = lambda images: (logits, boxes)
    found = recipe.loss(recipe.model, {"images": None, "targets": targets}).item()
    expected = [
        total_loss(hungarian_loss(a, b, targets, 10, 0.1, 1, *costs), 5, 2).item()
        for costs in ((5, 2), (1, 1))
        for a, b in zip(logits, boxes, strict=True)
    ]
    assert found == pytest.approx(sum(expected[:2]), rel=1e-10)
    assert abs(found - sum(expected[2:])) > 1e-3  # another cost matches otherwise


def weighted(logits, tokens, no_digit):
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = np.take_along_axis(log_p, tokens[..., None], -1)[..., 0]
    weight = np.where(tokens == 10, no_digit, 1.0)
    return -(weight * each).sum() / weight.sum()


def test_precision_of_perfect_detections():
    recipe = make()
    logits, boxes = np.zeros((13, 5, 11)), np.full((13, 5, 4), 0.5)
    logits[..., -1] = 50
    for n, target in enumerate(as_targets(recipe.test, "float64")):
        for q, (label, box) in enumerate(zip(*map(list, target.values()), strict=True)):
            logits[n, q] = 100 * np.eye(11)[int(label.item())]
            boxes[n, q] = box.numpy()
    found = recipe.precision(mt.tensor(logits), mt.tensor(boxes))
    assert found["AP"] == pytest.approx(1.0)


def test_attention():
    weights = make().attention(3)
    assert weights.shape == (3, 5, 8, 8)
    np.testing.assert_allclose(weights.sum((2, 3)), 1, rtol=1e-10)
