"""Mask-Predict: decoding against plain loops, number of masks, lengths, translation."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.generation import (
    length_candidates,
    mask_predict,
    num_masks,
    translate_in_parallel,
)
from minitorch_attn.models import ConditionalMaskedLM

VOCAB, MASK = 7, 1


def drawn_predict(rng, longest):
    """Logits that depend on all tokens, as a function of one row of ids on the host."""
    base = rng.normal(0, 1, (longest, VOCAB))
    coupling = rng.normal(0, 1, (longest, longest))
    influence = rng.normal(0, 1, (VOCAB, VOCAB))
    return lambda row: base + coupling @ influence[row]


def on_device(predict, device, seen=None):
    def batched(ids):
        if seen is not None:
            seen.append(ids.numpy())
        return mt.tensor(np.stack([predict(row) for row in ids.numpy()]), device=device)

    return batched


def loop(predict, length, longest, passes, pad):
    """One row, position by position, in probabilities (section 3.1)."""
    ids = [MASK] * length + [pad] * (longest - length)
    chance = [1.0] * longest
    masked = list(range(length))
    for t in range(passes):
        if t:
            n = floor(Fraction(length * (passes - t), passes))
            masked = sorted(range(length), key=lambda i: (chance[i], i))[:n]
        read = [MASK if i in masked else y for i, y in enumerate(ids)]
        logits = predict(np.array(read))
        for i in masked:
            p = np.exp(logits[i] - logits[i].max())
            ids[i], chance[i] = int(p.argmax()), p.max() / p.sum()
    return ids, np.log(chance)


@pytest.mark.parametrize("passes", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("pad", [0, 5])
def test_against_plain_loops(device, passes, pad):
    rng = np.random.default_rng(passes)
    lengths = [7, 1, 5, 2, 0]
    predict = drawn_predict(rng, 7)
    sizes = mt.tensor(lengths, device=device)
    ids, log_probs = mask_predict(on_device(predict, device), sizes, MASK, pad, passes)
    assert ids.dtype == "int64" and log_probs.dtype == "float64"
    assert ids.device.type == mt.device(device).type
    for row, scores, n in zip(ids.tolist(), log_probs.numpy(), lengths, strict=True):
        expected, chance = loop(predict, n, 7, passes, pad)
        assert row == expected
        np.testing.assert_allclose(scores, chance, atol=1e-12)


def test_of_equal_probabilities_the_earlier_is_masked(device):
    seen = []
    predict = on_device(lambda row: np.zeros((6, VOCAB)), device, seen)
    mask_predict(predict, mt.tensor([6, 5], device=device), MASK, 0, 3)
    assert (seen[1] == MASK).tolist() == [[True] * 4 + [False] * 2, [True] * 3 + [False] * 3]
    assert (seen[2] == MASK).tolist() == [[True] * 2 + [False] * 4, [True] + [False] * 5]
    seen.clear()  # a sort that is not stable shows only on long rows
    predict = on_device(lambda row: np.zeros((97, VOCAB)), device, seen)
    mask_predict(predict, mt.tensor([97], device=device), MASK, 0, 2)
    assert (seen[1] == MASK).tolist() == [[True] * 48 + [False] * 49]


def test_passes_without_masks_are_skipped(device):
    seen = []
    predict = on_device(drawn_predict(np.random.default_rng(0), 3), device, seen)
    mask_predict(predict, mt.tensor([3, 1], device=device), MASK, 0, 10)
    assert len(seen) == 1 + 6  # floor(3 (10 - t) / 10) is 0 from t = 7 on
    assert [int((ids == MASK).sum()) for ids in seen] == [4, 2, 2, 2, 1, 1, 1]


def test_empty(device):
    for lengths in ([], [0, 0]):
        sizes = mt.tensor(np.array(lengths, dtype="int64"), device=device)
        ids, log_probs = mask_predict(lambda ids: mt.zeros(*ids.shape, 5, device=device), sizes, 1)
        assert ids.shape == log_probs.shape == (len(lengths), 0) and ids.dtype == "int64"


def test_num_masks_is_exact():
    for length in (0, 1, 7, 29, 100, 2**60 + 1):
        for passes in (1, 3, 7, 10, 49):
            for t in range(passes + 1):
                exact = floor(Fraction(length) * Fraction(passes - t, passes))
                assert num_masks(length, t, passes) == exact
    with pytest.raises(ArgumentError, match="must not exceed"):
        num_masks(5, 4, 3)
    for wrong in ((-1, 0, 3), (5, -1, 3), (5, 0, 0), (5.0, 0, 3)):
        with pytest.raises(ArgumentError):
            num_masks(*wrong)


def test_length_candidates(device):
    logits = mt.tensor([[1.0, 3.0, 2.0, 3.0], [0.0, -1.0, -2.0, 5.0]], device=device)
    found = length_candidates(logits, 3)
    assert found.dtype == "int64" and found.tolist() == [[1, 3, 2], [3, 0, 1]]
    assert length_candidates(logits[:0], 2).shape == (0, 2)
    assert length_candidates(logits[:, :1].expand(2, 97), 5).tolist() == [[0, 1, 2, 3, 4]] * 2
    for wrong in (5, 2):
        with pytest.raises(ShapeError):
            length_candidates(logits if wrong == 5 else logits[0], wrong)


def test_refused_arguments():
    with pytest.raises(ShapeError, match="predict must return logits"):
        mask_predict(lambda ids: mt.zeros(1, 2, 5), [3], MASK)
    with pytest.raises(DTypeError, match="lengths"):
        mask_predict(lambda ids: mt.zeros(1, 3, 5), mt.tensor([3.0]), MASK)
    with pytest.raises(ArgumentError, match="lengths"):
        mask_predict(lambda ids: mt.zeros(1, 3, 5), [-1], MASK)
    with pytest.raises(ArgumentError, match="iterations"):
        mask_predict(lambda ids: mt.zeros(1, 3, 5), [3], MASK, iterations=0)


def drawn_model(device, seed=0):
    model = ConditionalMaskedLM(
        VOCAB, embed_dim=6, num_heads=2, ff_dim=5, num_encoder_layers=1, num_decoder_layers=1,
        dropout=0.4, max_len=9, max_target_len=6,
    ).double()  # fmt: skip
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.normal(0, 0.7, parameter.shape))
    return model.to(device)


@pytest.mark.parametrize("candidates", [1, 3, 7])
def test_translation_chooses_the_best_length(device, candidates):
    model = drawn_model(device)
    source = mt.tensor([[3, 4, 5, 2, 6], [6, 2, 0, 0, 0], [5, 5, 5, 0, 0]], device=device)
    found = translate_in_parallel(model, source, 3, candidates).numpy()
    assert model.training  # as before
    model.eval()
    for row, n in zip(range(3), (5, 2, 3), strict=True):
        memory, logits = model.encode(source[row : row + 1, :n])
        order = np.argsort(-logits.numpy()[0], kind="stable")[:candidates]
        best, score = None, -np.inf
        for length in np.maximum(order, 1).tolist():

            def predict(ids):
                read = mt.tensor(ids[None], device=device)
                return model.decode(read, memory).numpy()[0]  # noqa: B023

            ids, chance = loop(predict, length, length, 3, 0)
            if chance.sum() / length > score + 1e-12:
                best, score = ids, chance.sum() / length
        assert found[row].tolist() == best + [0] * (found.shape[1] - len(best))


def test_translation_with_a_mask(device):
    model = drawn_model(device)
    source = mt.tensor([[3, 4, 5], [6, 2, 3]], device=device)
    mask = mt.nn.masks.padding([3, 2], device=device)
    found = translate_in_parallel(model, source, 2, 2, source_mask=mask)
    padded = mt.tensor([[3, 4, 5], [6, 2, 0]], device=device)
    assert found.tolist() == translate_in_parallel(model, padded, 2, 2).tolist()


def test_translation_needs_a_padding_token(device):
    model = drawn_model(device)
    model.pad_id = None
    with pytest.raises(ArgumentError, match="must have a padding token"):
        translate_in_parallel(model, mt.tensor([[3, 4, 5]], device=device))


@pytest.mark.parametrize("shape", [(2, 1, 1, 3), (1, 1, 1, 3), (1, 3)])
def test_translation_with_a_bool_mask(device, shape):
    """A mask for each source, or one for all of them."""
    model, mask = drawn_model(device), np.ones(shape, bool)
    mask[..., 2] = False
    source = mt.tensor([[3, 4, 5], [6, 2, 3]], device=device)
    mask = mt.tensor(mask, device=device)
    found = translate_in_parallel(model, source, 2, 2, source_mask=mask)
    padded = mt.tensor([[3, 4, 0], [6, 2, 0]], device=device)
    assert found.tolist() == translate_in_parallel(model, padded, 2, 2).tolist()
