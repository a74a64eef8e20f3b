"""BERT: the published parameter counts, a NumPy reference, both directions, the heads."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ShapeError
from minitorch_attn.models import bert


def small(device="cpu", **changes):
    settings = dict(vocab_size=13, embed_dim=6, num_heads=2, num_layers=2, ff_dim=10)
    mt.manual_seed(5)
    model = bert.BERT(**{**settings, "max_positions": 7, "dropout": 0.0, **changes})
    return model.double().to(device)


def randomise(model, rng, size=1.0):
    """The initial values hide biases and norm weights."""
    for parameter in model.parameters():
        values = rng.uniform(-size, size, parameter.shape)
        parameter.data = mt.tensor(values, device=parameter.device)
    return model


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "expected"),
    [("tiny", 4_385_920), ("mini", 11_170_560), ("small", 28_763_648), ("medium", 41_373_184),
     ("base", 109_482_240), ("large", 335_141_888)],
)  # fmt: skip
def test_parameter_counts(name, expected):
    """Those of the published models, from two shallow ones: the count is linear in the layers."""
    build = getattr(mt.models, f"bert_{name}")
    with mt.nn.init.skip_init():
        one, two = (build(num_layers=n, vocab_size=2) for n in (1, 2))
        layers = len(build(vocab_size=2).layers)
    per_layer = count(two) - count(one)
    assert count(one) + (layers - 1) * per_layer + 30520 * one.embed_dim == expected


def test_the_heads_of_a_published_size_are_64_wide():
    with mt.nn.init.skip_init():
        model = mt.models.bert_large(vocab_size=2, num_layers=1)
    attention = model.layers[0].attention
    assert (attention.num_heads, attention.head_dim) == (16, 64)
    assert model.layers[0].feed_forward.linear1.weight.shape == (4096, 1024)
    assert model.embeddings.norm.eps == 1e-12


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * weight + bias


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def plain_bert(state, ids, segments, length, heads, layers):
    """One text through the model, position by position and head by head."""
    w = {name: value.numpy() for name, value in state.items()}

    def affine(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w[name + ".bias"])

    x = w["token_embedding.weight"][ids] + w["embeddings.segment_embedding.weight"][segments]
    x = norm(x + w["embeddings.position_embedding.weight"][: len(ids)], "embeddings.norm")
    width = x.shape[1] // heads
    for i in range(layers):
        p = f"layers.{i}."
        query, key, value = (affine(x, f"{p}attention.{n}_proj") for n in "qkv")
        context = np.zeros_like(x)
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            for t in range(len(ids)):
                scores = key[:length, part] @ query[t, part] / math.sqrt(width)
                weights = np.exp(scores - scores.max())
                context[t, part] = weights / weights.sum() @ value[:length, part]
        x = norm(x + affine(context, p + "attention.out_proj"), p + "norm1")
        hidden = gelu(affine(x, p + "feed_forward.linear1"))
        x = norm(x + affine(hidden, p + "feed_forward.linear2"), p + "norm2")
    return x


def test_against_a_plain_twin(device, rng):
    model = randomise(small(device), rng)
    ids, segments = rng.integers(13, size=(3, 5)), rng.integers(2, size=(3, 5))
    lengths = [5, 2, 3]
    found = model(
        mt.tensor(ids, device=device), mt.tensor(segments, device=device),
        mt.masks.padding(lengths, device=device),
    ).numpy()  # fmt: skip
    state = model.state_dict()
    for i, length in enumerate(lengths):
        expected = plain_bert(state, ids[i], segments[i], length, heads=2, layers=2)
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-11)


def test_every_token_sees_every_other(device, rng):
    model = randomise(small(device), rng)
    ids = rng.integers(13, size=(1, 7))
    changed = ids.copy()
    changed[0, 4] = (ids[0, 4] + 1) % 13
    before, after = (model(mt.tensor(x, device=device)).numpy() for x in (ids, changed))
    assert (before != after).any(axis=-1).all()


def test_without_segments_all_is_sentence_a(device, rng):
    model = randomise(small(device), rng)
    ids = mt.tensor(rng.integers(13, size=(2, 5)), device=device)
    given = model(ids, mt.zeros_like(ids)).numpy()
    np.testing.assert_allclose(model(ids).numpy(), given, rtol=1e-12)
    assert (model(ids, mt.ones_like(ids)).numpy() != given).any()


def test_pooling_is_a_tanh_of_the_first_token(device, rng):
    model = randomise(small(device), rng)
    hidden = rng.normal(size=(3, 5, 6))
    found = model.pool(mt.tensor(hidden, device=device)).numpy()
    weight, bias = model.pooler.weight.numpy(), model.pooler.bias.numpy()
    np.testing.assert_allclose(found, np.tanh(hidden[:, 0] @ weight.T + bias), rtol=1e-12)


def test_gradients(device, rng):
    sizes = dict(vocab_size=5, num_layers=1, embed_dim=4, ff_dim=3)
    model = bert.BERTPreTraining(small(device, **sizes, eps=1e-2)).double().to(device)
    randomise(model, rng, 0.7)
    ids = mt.tensor(rng.integers(5, size=(2, 5)), device=device)
    assert gradcheck_module(model, ids)


def test_the_heads_and_what_they_share(device, rng):
    body = small(device)
    ids = mt.tensor(rng.integers(13, size=(3, 5)), device=device)
    shapes = {
        bert.BERTMaskedLM(body): (3, 5, 13),
        bert.BERTClassifier(body, 4): (3, 4),
        bert.BERTTokenClassifier(body, 4): (3, 5, 4),
        bert.BERTQuestionAnswering(body): (3, 2, 5),
    }
    for model, shape in shapes.items():
        assert model.double().to(device)(ids).shape == shape
        assert model.bert is body
    tokens, sentence = bert.BERTPreTraining(body).double().to(device)(ids)
    assert (tokens.shape, sentence.shape) == ((3, 5, 13), (3, 2))


def test_the_output_matrix_is_the_embedding():
    model = bert.BERTMaskedLM(small())
    assert model.head.decoder.weight is model.bert.token_embedding.weight
    assert "head.decoder.weight" not in dict(model.named_parameters())
    own = bert.TokenPrediction(small(), tied=False)
    assert own.decoder.weight.shape == (13, 6)


def test_the_padding_token_is_not_learned_by_reading(device, rng):
    model = randomise(small(device, padding_idx=3), rng)
    model(mt.tensor([[3, 1, 3]], device=device)).sum().backward()
    grad = model.token_embedding.weight.grad.numpy()
    assert not grad[3].any() and grad[1].any()


def test_the_start_is_that_of_the_paper():
    mt.manual_seed(0)
    model = bert.BERTMaskedLM(bert.BERT(300, 128, 4, 2))
    for name, parameter in model.named_parameters():
        values = parameter.numpy()
        if name.endswith("bias"):
            assert not values.any(), name
        elif "norm" in name:
            assert (values == 1).all(), name
        elif values.size > 2000:
            # N(0, 0.02) without its tails beyond two standard deviations
            assert values.std() == pytest.approx(0.02 * 0.8796, rel=0.05), name
            assert np.abs(values).max() <= 0.04, name
    ids = mt.randint(0, 300, (4, 64))
    loss = mt.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    assert loss.item() == pytest.approx(math.log(300), abs=0.2)


def test_dropout_only_while_training(device):
    model = bert.BERTClassifier(small(device, dropout=0.5), 3).double().to(device)
    ids = mt.tensor([[1, 2, 3]], device=device)
    assert (model(ids).numpy() != model(ids).numpy()).any()
    model.eval()
    assert (model(ids).numpy() == model(ids).numpy()).all()


def test_too_long_a_text(device):
    with pytest.raises(ShapeError, match="at most 7"):
        small(device)(mt.zeros(1, 8, dtype=mt.int64, device=device))
