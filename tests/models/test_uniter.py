"""UNITER: sizes of the paper, gradients, masks, and losses against loops."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError
from minitorch_attn.gradcheck import gradcheck, gradcheck_module
from minitorch_attn.models import UNITER, UNITERClassifier, UNITERPreTraining
from minitorch_attn.models import uniter as models

BATCH, WORDS, REGIONS, FEATURES = 2, 5, 3, 7


def small(**options):
    mt.manual_seed(3)
    model = UNITER(11, FEATURES, 4, 2, 2, ff_dim=13, max_positions=17, dropout=0.0, **options)
    for parameter in model.parameters():
        mt.nn.init.normal_(parameter, std=0.3)
    return model.double()


def inputs_of(seed=0, batch=BATCH, words=WORDS, regions=REGIONS):
    rng = np.random.default_rng(seed)
    ids = mt.tensor(rng.integers(0, 11, (batch, words)))
    return ids, *(mt.tensor(rng.normal(size=(batch, regions, n))) for n in (FEATURES, 7))


@pytest.mark.parametrize("size, millions", [("base", 85_645_056), ("large", 303_358_976)])
def test_published_sizes(size, millions):
    """Table 2 of the paper, 86M and 303M, counts the layers and the pooler."""
    with mt.nn.init.skip_init():
        model = getattr(models, f"uniter_{size}")()
    parts = [*model.layers.parameters(), *model.pooler.parameters()]
    assert sum(p.numel() for p in parts) == millions
    regions = model.regions
    assert regions.feature_projection.weight.shape == (model.embed_dim, 2048)


def test_box_features():
    boxes = np.random.default_rng(0).random((2, 3, 4)) * 10
    found = models.box_features(mt.tensor(boxes), height=5, width=11).numpy()
    for place in np.ndindex(2, 3):
        left, top, right, bottom = boxes[place] / [11, 5, 11, 5]
        w, h = right - left, bottom - top
        np.testing.assert_allclose(found[place], [left, top, right, bottom, w, h, w * h])


def test_gradients():
    ids, features, boxes = inputs_of()
    features.requires_grad_(), boxes.requires_grad_()

    class Heads(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = UNITERPreTraining(small(), 5).double()

        def forward(self, features, boxes):
            return self.model(ids, features, boxes)[:4]

    assert gradcheck_module(Heads(), features, boxes)


def test_embeddings_are_the_sum_of_the_paper():
    model, (ids, features, boxes) = small(), inputs_of()
    seen = []
    with mt.nn.collect_outputs([model.embeddings, model.regions]) as outputs:
        model(ids, features, boxes)
    seen = [x.numpy() for _, x in outputs]
    p = {name: value.numpy() for name, value in model.state_dict().items()}
    segment, position = (p[f"embeddings.{n}_embedding.weight"] for n in ("segment", "position"))
    words = p["token_embedding.weight"][ids.numpy()] + position[:WORDS] + segment[0]
    regions = sum(
        x.numpy() @ p[f"regions.{n}_projection.weight"].T + p[f"regions.{n}_projection.bias"]
        for n, x in (("feature", features), ("box", boxes))
    )  # fmt: skip
    sums = ((seen[0], words, "embeddings"), (seen[1], regions + segment[1], "regions"))
    for found, x, name in sums:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        expected = x * p[f"{name}.norm.weight"] + p[f"{name}.norm.bias"]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kinds", [("word",), ("region",), ("word", "region")])
def test_padding_does_not_matter(kinds):
    model, (ids, features, boxes) = small(), inputs_of()
    words, regions = (4 if "word" in kinds else WORDS), (1 if "region" in kinds else REGIONS)
    masks = {
        f"{kind}_padding_mask": mt.tensor([[i >= n for i in range(total)]] * BATCH)
        for kind, n, total in (("word", words, WORDS), ("region", regions, REGIONS))
        if kind in kinds
    }
    found = model(ids, features, boxes, **masks).numpy()
    alone = model(ids[:, :words], features[:, :regions], boxes[:, :regions]).numpy()
    kept = [*range(words), *range(WORDS, WORDS + regions)]
    np.testing.assert_allclose(found[:, kept], alone, rtol=1e-9, atol=1e-12)


def test_masked_regions_are_hidden():
    """The features of a masked region do not matter; its box does."""
    model, (ids, features, boxes) = small(), inputs_of()
    masked = mt.tensor([[False, True, False]] * BATCH)
    features.requires_grad_(), boxes.requires_grad_()
    hidden = model(ids, features, boxes, masked_regions=masked)
    (hidden**3).sum().backward()
    assert (features.grad.numpy()[:, 1] == 0).all() and (features.grad.numpy()[:, 0] != 0).all()
    assert (boxes.grad.numpy()[:, 1] != 0).all()
    zeros = mt.where(masked.unsqueeze(-1), 0.0, features.detach())
    np.testing.assert_array_equal(hidden.numpy(), model(ids, zeros, boxes).numpy())


def test_regions_are_a_set():
    model, (ids, features, boxes) = small(), inputs_of()
    one = model(ids, features, boxes).numpy()
    other = model(ids, features.flip(1), boxes.flip(1)).numpy()
    np.testing.assert_allclose(one[:, :WORDS], other[:, :WORDS], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one[:, WORDS:], other[:, WORDS:][:, ::-1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch, regions", [(0, 2), (1, 0), (1, 1), (2, 2)])
def test_small_sizes(batch, regions):
    inputs = inputs_of(1, batch, 2, regions)
    found = UNITERPreTraining(small(), 5).double()(*inputs)
    assert found.words.shape == (batch, 2, 11) and found.features.shape == inputs[1].shape
    assert found.classes.shape == (batch, regions, 5) and found.score.shape == (batch,)
    assert UNITERClassifier(small(), 3).double()(*inputs).shape == (batch, 3)


def test_heads():
    """The words' head shares the embeddings; the score reads the pooled first word."""
    model = UNITERPreTraining(small(), 5).double()
    assert model.word_head.decoder.weight is model.uniter.token_embedding.weight
    found, inputs = model(*inputs_of()), inputs_of()
    hidden = model.uniter(*inputs)
    np.testing.assert_array_equal(found.hidden.numpy(), hidden.numpy())
    np.testing.assert_allclose(
        found.features.numpy(), model.feature_head(hidden[:, WORDS:]).numpy()
    )
    np.testing.assert_allclose(found.classes.numpy(), model.class_head(hidden[:, WORDS:]).numpy())
    np.testing.assert_allclose(found.words.numpy(), model.word_head(hidden[:, :WORDS]).numpy())
    pooled = np.tanh(hidden.numpy()[:, 0] @ model.uniter.pooler.weight.numpy().T
                     + model.uniter.pooler.bias.numpy())  # fmt: skip
    score = pooled @ model.matching_head.weight.numpy().T + model.matching_head.bias.numpy()
    np.testing.assert_allclose(found.score.numpy(), score[:, 0], rtol=1e-9)


def test_the_classifier_is_a_perceptron_on_the_first_word():
    model, inputs = UNITERClassifier(small(), 3).double(), inputs_of()
    pooled = model.uniter.pool(model.uniter(*inputs))
    hidden = mt.nn.functional.gelu(model.dense(pooled))
    expected = model.head(model.norm(hidden)).numpy()
    np.testing.assert_allclose(model(*inputs).numpy(), expected, rtol=1e-12)


def test_inputs_must_match():
    model, (ids, features, boxes) = small(), inputs_of()
    with pytest.raises(ShapeError, match="features and boxes"):
        model(ids, features, boxes[..., :4])
    with pytest.raises(ShapeError, match="features and boxes"):
        model(ids, features[..., :2], boxes)


def losses_by_loops(predicted, features, logits, labels, distribution, masked):
    found = np.zeros((3, 0))
    for b, i in np.argwhere(masked):
        log_p = logits[b, i] - np.log(np.exp(logits[b, i]).sum())
        d = distribution[b, i]
        terms = [d[k] * (np.log(d[k]) - log_p[k]) for k in range(len(d)) if d[k]]
        squared = sum((predicted[b, i] - features[b, i]) ** 2)
        found = np.c_[found, [squared, -log_p[labels[b, i]], sum(terms)]]
    return found.mean(1)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5)])
def test_losses(dtype, tolerance):
    rng = np.random.default_rng(2)
    predicted, features, logits = (rng.normal(size=(2, 5, n)).astype(dtype) for n in (3, 3, 7))
    distribution = rng.random((2, 5, 7)).astype(dtype)
    distribution[0, 1, 2] = 0
    distribution /= distribution.sum(-1, keepdims=True)
    masked = rng.random((2, 5)) < 0.5
    labels = np.where(masked, rng.integers(0, 7, (2, 5)), -9)  # others are not read
    expected = losses_by_loops(predicted, features, logits, labels, distribution, masked)
    arrays = dict(p=predicted, f=features, x=logits, y=labels, d=distribution, m=masked)
    t = {name: mt.tensor(values) for name, values in arrays.items()}
    found = [
        models.region_regression_loss(t["p"], t["f"], t["m"]),
        models.region_classification_loss(t["x"], t["y"], t["m"]),
        models.region_kl_loss(t["x"], t["d"], t["m"]),
    ]
    assert all(loss.dtype == np.dtype(dtype) for loss in found)
    np.testing.assert_allclose([loss.item() for loss in found], expected, rtol=tolerance)


def test_losses_without_masked_regions():
    x, none = mt.ones(2, 3, 5, requires_grad=True), mt.zeros(2, 3, dtype="bool")
    labels = mt.zeros(2, 3, dtype="int64")
    for loss in (
        models.region_regression_loss(x, x.detach() + 1, none),
        models.region_classification_loss(x, labels, none),
        models.region_kl_loss(x, mt.ones(2, 3, 5) / 5, none),
    ):
        assert loss.item() == 0
        loss.backward()
    assert not x.grad.numpy().any()


def test_gradients_of_losses():
    rng = np.random.default_rng(4)
    masked = mt.tensor([[True, False, True]])
    x = mt.tensor(rng.normal(size=(1, 3, 5)), requires_grad=True)
    other = mt.tensor(rng.random((1, 3, 5)))
    labels = mt.tensor([[1, 0, 4]])
    assert gradcheck(lambda x: models.region_regression_loss(x, other, masked), (x,))
    assert gradcheck(lambda x: models.region_classification_loss(x, labels, masked), (x,))
    assert gradcheck(lambda x: models.region_kl_loss(x, other, masked), (x,))


def test_matching_loss():
    score, matches = np.array([0.7, -2.0, 3.0]), np.array([1, 0, 0])
    p = 1 / (1 + np.exp(-score))
    expected = -np.log(np.where(matches, p, 1 - p)).mean()
    for kind in ("int64", "bool"):
        loss = models.image_text_matching_loss(mt.tensor(score), mt.tensor(matches.astype(kind)))
        assert abs(loss.item() - expected) < 1e-12
