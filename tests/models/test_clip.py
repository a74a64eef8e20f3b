"""CLIP: loss of pairs, towers, end token, zero-shot classes, temperature."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError
from minitorch_attn.gradcheck import gradcheck, gradcheck_module
from minitorch_attn.models.clip import (
    CLIP,
    ImageTower,
    TextTower,
    contrastive_loss,
    similarity,
)
from minitorch_attn.models.clip_sizes import clip_b_32
from minitorch_attn.models.relevance import patch_relevance


def small(end_id=None, layers=2, widths=(6, 9)):
    mt.manual_seed(3)
    options = {"activation": "gelu"}
    vision = ImageTower((4, 6), 2, widths[0], layers, 3, 7, 5, in_channels=2, **options)
    text = TextTower(13, 7, widths[1], layers, 3, 11, 5, end_id=end_id, **options)
    model = CLIP(vision, text, temperature=0.5).double().eval()
    for p in model.parameters():
        if p.ndim:
            mt.nn.init.normal_(p, std=0.5)
    return model


def ids_of(rng, count=3, tokens=5):
    ids = rng.integers(0, 11, (count, tokens))
    ids[np.arange(count), rng.integers(1, tokens, count)] = 12
    return mt.tensor(ids)


def plain_loss(logits):
    """Equation by equation: -log softmax of the diagonal, by rows and by columns."""
    count, total = len(logits), 0.0
    for i in range(count):
        row, column = np.exp(logits[i]), np.exp(logits[:, i])
        total -= math.log(row[i] / row.sum()) + math.log(column[i] / column.sum())
    return total / (2 * count)


@pytest.mark.parametrize("pairs", [1, 2, 7])
def test_loss(pairs, rng):
    logits = rng.normal(size=(pairs, pairs))
    x = mt.tensor(logits, requires_grad=True)
    np.testing.assert_allclose(contrastive_loss(x).item(), plain_loss(logits), rtol=1e-12)
    np.testing.assert_allclose(contrastive_loss(x.T).item(), plain_loss(logits), rtol=1e-12)
    assert gradcheck(contrastive_loss, (x,))


def test_loss_of_an_untrained_and_of_a_perfect_model():
    assert contrastive_loss(mt.zeros(7, 7)).item() == pytest.approx(math.log(7))
    assert contrastive_loss(1000 * mt.eye(7)).item() == 0


@pytest.mark.parametrize("shape", [(3, 5), (5,), (2, 3, 3)])
def test_loss_needs_a_square(shape):
    with pytest.raises(ShapeError, match="square"):
        contrastive_loss(mt.zeros(*shape))


def test_similarity(rng):
    images, texts, scale = rng.normal(size=(5, 3)), rng.normal(size=(2, 3)), np.array(0.7)
    inputs = [mt.tensor(a, requires_grad=True) for a in (images, texts, scale)]
    expected = math.exp(0.7) * images @ texts.T
    np.testing.assert_allclose(similarity(*inputs).detach().numpy(), expected, rtol=1e-12)
    assert gradcheck(similarity, tuple(inputs))


def test_gradients(rng):
    model = small(layers=1, widths=(3, 3))
    images = mt.tensor(rng.normal(size=(3, 2, 4, 6)), requires_grad=True)
    ids = ids_of(rng)
    assert gradcheck_module(model, images, ids)
    contrastive_loss(model(images, ids)).backward()
    names = dict(model.named_parameters())
    assert all(p.grad is not None for p in names.values())
    assert model.logit_scale.grad.item() != 0


def test_image_tower_step_by_step(rng):
    """The first norm comes after the positions; the last one sees the class token alone."""
    tower = small().vision
    images = mt.tensor(rng.normal(size=(3, 2, 4, 6)))
    patches = images.numpy().reshape(3, 2, 2, 2, 3, 2).transpose(0, 2, 4, 1, 3, 5).reshape(3, 6, -1)
    weight = tower.patch_embedding.projection.weight.detach().numpy().reshape(6, -1)
    tokens = np.concatenate(
        [np.broadcast_to(tower.class_token.detach().numpy(), (3, 1, 6)), patches @ weight.T], 1
    )
    x = tower.pre_norm(mt.tensor(tokens) + tower.positions.weight)
    for block in tower.blocks:
        x = x + block.attention(block.norm1(x))
        x = x + block.feed_forward(block.norm2(x))
    expected = tower.norm(x[:, 0]) @ tower.head.weight.T
    np.testing.assert_allclose(
        tower(images).detach().numpy(), expected.detach().numpy(), rtol=1e-10
    )
    assert tower.patch_embedding.projection.bias is None and tower.head.bias is None


def test_text_tower_step_by_step(rng):
    tower, ids = small().text, ids_of(rng)
    x = tower.token_embedding(ids) + tower.position_embedding.weight[:5]
    causal = mt.tensor(np.tri(5, dtype=bool))
    for block in tower.blocks:
        x = x + block.attention(block.norm1(x), mask=causal)
        x = x + block.feed_forward(block.norm2(x))
    ends = (ids.numpy() == 12).argmax(1)
    expected = tower.norm(x).detach().numpy()[np.arange(3), ends]
    expected = expected @ tower.head.weight.detach().numpy().T
    np.testing.assert_allclose(tower(ids).detach().numpy(), expected, rtol=1e-10)


def test_what_follows_the_end_is_not_read(rng):
    tower = small().text
    first, second = np.array([[1, 4, 12, 0, 0]]), np.array([[1, 4, 12, 7, 3]])
    np.testing.assert_array_equal(
        *(tower(mt.tensor(ids)).detach().numpy() for ids in (first, second))
    )
    changed = np.array([[1, 5, 12, 0, 0]])
    assert not np.allclose(*(tower(mt.tensor(a)).detach().numpy() for a in (first, changed)))


@pytest.mark.parametrize(
    "end_id, expected", [(None, [2, 1]), (12, [2, 1]), (4, [1, 0]), (9, [0, 2])]
)
def test_end_of(end_id, expected):
    ids = mt.tensor([[1, 4, 12, 4, 12], [4, 12, 9, 3, 9]])
    assert small(end_id).text.end_of(ids).tolist() == expected


def test_mask_hides_tokens_before_the_end(rng):
    tower = small().text
    first, second = np.array([[1, 4, 12]]), np.array([[7, 4, 12]])
    mask = mt.tensor(np.array([False, True, True]))[None, None, None]
    np.testing.assert_array_equal(
        *(tower(mt.tensor(ids), mask).detach().numpy() for ids in (first, second))
    )


def test_vectors_have_length_1(rng):
    model = small()
    images = mt.tensor(rng.normal(size=(3, 2, 4, 6)))
    for x in (model.image_vectors(images), model.text_vectors(ids_of(rng))):
        np.testing.assert_allclose((x * x).sum(-1).detach().numpy(), 1, rtol=1e-12)
    assert abs(model(images, ids_of(rng)).detach().numpy()).max() <= 2  # 1/temperature


def test_class_vectors(rng):
    """The mean of unit vectors, normalized; one prompt leaves its vector as it is."""
    model, prompts = small(), rng.integers(0, 12, (5, 2, 3))
    prompts[..., -1] = 12
    vectors = model.text_vectors(mt.tensor(prompts.reshape(10, 3))).detach().numpy()
    mean = vectors.reshape(5, 2, 5).mean(1)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    found = model.class_vectors(mt.tensor(prompts))
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)
    one = model.class_vectors(mt.tensor(prompts[:, :1])).detach().numpy()
    np.testing.assert_allclose(one, vectors.reshape(5, 2, 5)[:, 0], rtol=1e-12)
    images = mt.tensor(rng.normal(size=(2, 2, 4, 6)))
    logits = model.classify(images, found)
    factor = math.exp(model.logit_scale.item())
    expected = factor * model.image_vectors(images).detach().numpy() @ found.detach().numpy().T
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("scale, expected", [(3.0, 3.0), (7.0, math.log(100)), (-2.0, -2.0)])
def test_limit_scale(scale, expected):
    model = small()
    mt.nn.init.constant_(model.logit_scale, scale)
    model.limit_scale()
    assert model.logit_scale.item() == pytest.approx(expected)
    model.limit_scale(2.0)
    assert model.logit_scale.item() == pytest.approx(min(expected, math.log(2)))


def test_initial_temperature():
    model = CLIP(small().vision, small().text)
    assert model.logit_scale.exp().item() == pytest.approx(1 / 0.07)
    assert model.logit_scale.shape == ()


def test_initial_values():
    """Widths and depths in which each standard deviation is another one."""
    mt.manual_seed(0)
    tower = TextTower(101, 53, 64, 3, 2, 128, 96)
    attention, hidden = tower.blocks[0].attention, tower.blocks[0].feed_forward
    expected = {
        tower.token_embedding: 0.02, tower.position_embedding: 0.01, tower.head: 64**-0.5,
        attention.k_proj: 64**-0.5, attention.out_proj: 64**-0.5 * 6**-0.5,
        hidden.linear1: 128**-0.5, hidden.linear2: 64**-0.5 * 6**-0.5,
    }  # fmt: skip
    for layer, std in expected.items():
        assert layer.weight.detach().numpy().std() == pytest.approx(std, rel=0.06)
    for p in tower.parameters():
        assert p.ndim > 1 or set(p.tolist()) <= {0.0, 1.0}
    image = ImageTower(32, 4, 64, 1, 2, 128, 96)
    for p, std in ((image.class_token, 0.125), (image.positions.weight, 0.02),
                   (image.patch_embedding.projection.weight, 0.02)):  # fmt: skip
        assert p.detach().numpy().std() == pytest.approx(std, rel=0.3)
    image.initialize(factor=0.0)
    assert not image.class_token.any() and not image.head.weight.any()


def test_too_many_tokens():
    with pytest.raises(ShapeError, match="positions"):
        small().text(mt.zeros(2, 8, dtype=mt.int64))


@pytest.mark.parametrize("images, texts", [(0, 2), (2, 0), (1, 1), (2, 1)])
def test_few(images, texts, rng):
    model = small()
    pixels = mt.tensor(rng.normal(size=(images, 2, 4, 6)))
    ids = mt.tensor(np.full((texts, 3), 12))
    assert model(pixels, ids).shape == (images, texts)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
def test_dtypes_and_strides(dtype, tolerance, rng):
    model = small().to(getattr(mt, dtype))
    pixels = rng.normal(size=(3, 6, 4, 2)).astype(dtype)
    ids = ids_of(rng, 3, 10)[:, ::2]
    ids[:, 3] = 12
    strided = model(mt.tensor(pixels.T.transpose(3, 0, 1, 2)[..., :]), ids)
    dense = model(mt.tensor(pixels.T.transpose(3, 0, 1, 2).copy()), mt.tensor(ids.numpy().copy()))
    assert strided.dtype == getattr(mt, dtype)
    np.testing.assert_allclose(
        strided.detach().numpy(), dense.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def test_resize_keeps_the_class_position(rng):
    model = clip_small = small()
    before = model.vision.positions.weight[0].detach().numpy()
    clip_small.vision.resize((8, 6))
    assert model.vision(mt.tensor(rng.normal(size=(1, 2, 8, 6)))).shape == (1, 5)
    np.testing.assert_array_equal(model.vision.positions.weight[0].detach().numpy(), before)


def test_published_size():
    with mt.nn.init.skip_init():
        assert sum(p.numel() for p in clip_b_32().parameters()) == 151_277_313


def test_relevance(rng):
    """Entry by entry, against the gradient by central differences of the last layer's weights."""
    model, images = small(), mt.tensor(rng.normal(size=(2, 2, 4, 6)))
    texts = rng.normal(size=(2, 5))
    found = patch_relevance(model, images, mt.tensor(texts)).numpy()
    assert found.shape == (2, 2, 3) and (found >= 0).all()
    np.testing.assert_allclose(found.sum((1, 2)), 1, rtol=1e-12)

    tower, weights = model.vision, []
    x = tower.blocks[0](tower.embed(images))
    last = tower.blocks[1]
    with mt.nn.collect_attention(last) as kept:
        last(x)
    weights = kept[0][1].detach().numpy()
    value = last.attention.v_proj(last.norm1(x)).detach().numpy()
    value = value.reshape(2, 7, 3, 2).transpose(0, 2, 1, 3)

    def score(weights):
        context = (weights @ value).transpose(0, 2, 1, 3).reshape(2, 7, 6)
        y = x + last.attention.out_proj(mt.tensor(context))
        y = y + last.feed_forward(last.norm2(y))
        vectors = mt.nn.functional.normalize(tower.head(tower.pool(y)), dim=-1)
        return (vectors * mt.tensor(texts)).sum(-1).detach().numpy()  # of each image

    expected = np.zeros((2, 6))
    for head, key in np.ndindex(3, 6):
        step = np.zeros_like(weights)
        step[:, head, 0, 1 + key] = 1e-6
        slope = (score(weights + step) - score(weights - step)) / 2e-6
        expected[:, key] += np.maximum(weights[:, head, 0, 1 + key] * slope, 0)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(found.reshape(2, 6), expected, rtol=1e-5, atol=1e-7)


def test_relevance_of_no_direction(rng):
    images = mt.tensor(rng.normal(size=(2, 2, 4, 6)))
    assert not patch_relevance(small(), images, mt.zeros(2, 5, dtype=mt.float64)).any()


def test_on_every_device(device, rng):
    """Values and gradients are those of the CPU; no array of another device takes part."""
    images, ids = rng.normal(size=(3, 2, 4, 6)), ids_of(rng).numpy()
    prompts = np.repeat(ids[:, None], 2, 1)
    found = []
    for where in (None, device):
        model = small(12).to(where) if where else small(12)
        pixels, tokens = mt.tensor(images, device=where), mt.tensor(ids, device=where)
        loss = contrastive_loss(model(pixels, tokens))
        loss.backward()
        model.limit_scale()
        classes = model.class_vectors(mt.tensor(prompts, device=where))
        maps = patch_relevance(model, pixels, classes)
        grads = [p.grad.numpy() for p in model.parameters()]
        found.append([loss.detach().numpy(), classes.detach().numpy(), maps.numpy(), *grads])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
