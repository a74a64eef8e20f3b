"""Conditional masked language model: what a token sees, lengths, masking, loss, gradients."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ShapeError
from minitorch_attn.models import ConditionalMaskedLM, Transformer
from minitorch_attn.models.mask_predict import cmlm_loss, mask_target

SOURCE = np.array([[3, 9, 4, 4, 5], [7, 5, 0, 0, 0], [10, 8, 6, 0, 0]])
TARGET = np.array([[1, 6, 1, 9], [1, 8, 4, 0], [1, 1, 0, 0]])  # 1 is [MASK], 0 padding


def build(device="cpu", **changes):
    settings = dict(
        embed_dim=6, num_heads=2, ff_dim=5, num_encoder_layers=1, num_decoder_layers=2,
        dropout=0.0, max_len=9, max_target_len=6,
    )  # fmt: skip
    model = ConditionalMaskedLM(11, **{**settings, **changes}).double()
    rng = np.random.default_rng(3)
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-1, 1, parameter.shape))
    return model.to(device)


def on(device, ids):
    return mt.tensor(np.asarray(ids), device=device)


def outputs(model, source, target, device):
    logits, lengths = model(on(device, source), on(device, target))
    return logits.detach().numpy(), lengths.detach().numpy()


def test_each_row_as_if_alone(device):
    model = build(device)
    logits, lengths = outputs(model, SOURCE, TARGET, device)
    assert logits.shape == (3, 4, 11) and lengths.shape == (3, 7)
    for i, (n, m) in enumerate([(5, 4), (2, 3), (3, 2)]):
        a, b = outputs(model, SOURCE[i : i + 1, :n], TARGET[i : i + 1, :m], device)
        np.testing.assert_allclose(logits[i, :m], a[0], atol=1e-12)
        np.testing.assert_allclose(lengths[i], b[0], atol=1e-12)


def test_a_token_sees_earlier_and_later_tokens_and_no_padding(device):
    model = build(device)
    before, lengths = outputs(model, SOURCE, TARGET, device)
    for place in range(4):
        changed = TARGET.copy()
        changed[:, place] = np.where(TARGET[:, place] == 0, 0, 2)
        after, same = outputs(model, SOURCE, changed, device)
        np.testing.assert_array_equal(same, lengths)  # the length depends on the source only
        moved = np.abs(after - before).max(-1) > 1e-9
        assert (moved == (TARGET[:, [place]] != 0)).all()


def test_length_logits_see_the_whole_source(device):
    model = build(device)
    _, before = outputs(model, SOURCE, TARGET, device)
    for place in range(5):
        changed = SOURCE.copy()
        changed[:, place] = np.where(SOURCE[:, place] == 0, 0, 2)
        _, after = outputs(model, changed, TARGET, device)
        moved = np.abs(after - before).max(-1) > 1e-9
        assert (moved == (SOURCE[:, place] != 0)).all()


def test_the_length_is_read_at_the_length_token(device):
    model = build(device, num_encoder_layers=0)
    memory, lengths = model.encode(on(device, SOURCE))
    values = {name: p.numpy() for name, p in model.named_parameters()}
    first = values["length_token"] * 6**0.5 + [0, 1, 0, 1, 0, 1]  # the code of position 0
    expected = values["length_head.weight"] @ first + values["length_head.bias"]
    np.testing.assert_allclose(lengths.detach().numpy(), [expected] * 3, atol=1e-12)
    place = model.source_embedding.positions(mt.zeros(1, 6, 6, device=device), 0)[0, 1:].numpy()
    words = values["source_embedding.tokens.weight"][SOURCE] * 6**0.5
    np.testing.assert_allclose(memory.detach().numpy(), words + place, atol=1e-6)


def test_words_attend_to_the_length_token_after_padding_too(device):
    model, source = build(device), on(device, [[0, 5, 6], [5, 6, 0]])
    mask = model.padding_mask(source)
    before = model.encode(source, mask)[0].detach().numpy()
    with mt.no_grad():
        model.length_token += 1
    after = model.encode(source, mask)[0].detach().numpy()
    moved = np.abs(after - before).max(-1) > 1e-6
    assert moved[0, 1:].all() and moved[1, :2].all()


def test_masks_in_place_of_padding(device):
    model, host = build(device), SOURCE + 2 * (SOURCE == 0)
    source, target = on(device, host), on(device, TARGET + 2 * (TARGET == 0))
    masks = [mt.nn.masks.padding(n, device=device) for n in ([5, 2, 3], [4, 3, 2])]
    expected = model(on(device, SOURCE), on(device, TARGET))
    for form in (masks, [mask.attend for mask in masks]):
        found = model(source, target, *form)
        for n, row, wanted in zip([4, 3, 2], found[0].numpy(), expected[0].numpy(), strict=True):
            np.testing.assert_allclose(row[:n], wanted[:n], atol=1e-12)
        np.testing.assert_allclose(found[1].numpy(), expected[1].numpy(), atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients(device, norm_first):
    model = build(device, norm_first=norm_first, num_decoder_layers=1)
    assert gradcheck_module(model, on(device, SOURCE), on(device, TARGET), fast=True)


def test_every_parameter_has_a_gradient(device):
    model, target = build(device), on(device, TARGET + 3 * (TARGET == 1))
    read, masked = mask_target(target, mt.rand(3, 4, device=device), mt.rand(3, device=device), 1)
    logits, lengths = model(on(device, SOURCE), read)
    cmlm_loss(logits, target, masked, lengths).backward()
    assert all(bool((p.grad != 0).any().item()) for p in model.parameters())


def test_size_beside_an_autoregressive_model():
    sizes = dict(embed_dim=6, num_heads=2, ff_dim=5, num_encoder_layers=1, num_decoder_layers=2)
    other = sum(p.array.size for p in Transformer(11, **sizes).parameters())
    own = sum(p.array.size for p in build().parameters())
    assert own - other == 6 + 7 * 6 + 7  # [LENGTH] and the classes of lengths 0, ..., 6


def test_initial_values():
    mt.manual_seed(0)
    model = ConditionalMaskedLM(997, embed_dim=32, num_heads=2, ff_dim=64)
    for name, parameter in model.named_parameters():
        values = parameter.numpy()
        if "norm" in name:
            assert (values == (1.0 if name.endswith("weight") else 0.0)).all()
        elif name.endswith("bias"):
            assert not values.any()
        else:
            assert abs(values.std() / 0.02 - 1) < 4 / np.sqrt(values.size)


@pytest.mark.parametrize("pad", [0, 9])
def test_masking(device, pad):
    rng = np.random.default_rng(0)
    lengths = [7, 1, 5, 0, 2]
    target = np.full((5, 7), pad)
    for row, n in zip(target, lengths, strict=True):
        row[:n] = rng.integers(2, 9, n)
    noise = rng.random((5, 7))
    for share in (0.0, 0.3, 0.5, 0.99):
        read, masked = mask_target(
            on(device, target), on(device, noise), on(device, np.full(5, share)), 1, pad
        )
        for i, n in enumerate(lengths):
            count = min(1 + int(share * n), n)
            chosen = set(np.argsort(noise[i, :n])[:count].tolist())
            assert masked[i].tolist() == [j in chosen for j in range(7)]
            expected = [1 if j in chosen else target[i, j] for j in range(7)]
            assert read[i].tolist() == expected
    with pytest.raises(ShapeError, match="noise and share"):
        mask_target(on(device, target), on(device, noise[:, :6]), on(device, np.zeros(5)), 1)


def test_the_number_of_masks_is_uniform():
    rng = np.random.default_rng(1)
    target = mt.tensor(np.full((5000, 5), 3))
    _, masked = mask_target(
        target, mt.tensor(rng.random((5000, 5))), mt.tensor(rng.random(5000)), 1
    )
    counts = np.bincount(masked.numpy().sum(1), minlength=6)
    assert counts[0] == 0 and np.abs(counts[1:] - 1000).max() < 4 * np.sqrt(800)
    assert np.abs(masked.numpy().mean(0) - 0.6).max() < 0.03  # all places alike


@pytest.mark.parametrize("pad", [0, 9])
def test_loss_against_plain_loops(device, pad):
    rng = np.random.default_rng(2)
    target = np.array([[3, 4, 5, 6], [7, 8, pad, pad], [2, 2, 2, pad]])
    masked = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 0]], dtype=bool)
    logits, lengths = rng.normal(0, 1, (3, 4, 10)), rng.normal(0, 1, (3, 6))

    def cost(row, label):
        return np.log(np.exp(row).sum()) - row[label]

    tokens = [cost(logits[i, j], target[i, j]) for i, j in zip(*np.nonzero(masked), strict=True)]
    sizes = [cost(lengths[i], n) for i, n in enumerate((4, 2, 3))]
    loss = cmlm_loss(*(on(device, a) for a in (logits, target, masked, lengths)), pad)
    np.testing.assert_allclose(loss.item(), np.mean(tokens) + np.mean(sizes), rtol=1e-12)
    loss = cmlm_loss(*(on(device, a) for a in (logits, target, masked, lengths)), pad, 4.5)
    np.testing.assert_allclose(loss.item(), sum(tokens) / 4.5 + np.mean(sizes), rtol=1e-12)
