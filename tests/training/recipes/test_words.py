"""Words recipe: batches, the loss, the probe, and what the vectors mean."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.models.elmo import bilm_loss, losses_by_direction
from minitorch_attn.training.recipes import load_recipe
from minitorch_attn.training.recipes.two_meanings import probe_accuracy
from minitorch_attn.training.recipes.word_stream import SentencesAndPairs

SETTINGS = {"window": 2, "negatives": 3, "threshold": 1e-1, "characters": 6}


@pytest.fixture(scope="module")
def recipe():
    pytest.importorskip("pydoc_data.topics")
    return load_recipe("words")({"dim": 8, "cells": 12, "batch": 4, "pairs": 5, "fewest": 20})


def stream(seed=1, count=23):
    rng = np.random.default_rng(0)
    ids = [[0, *rng.integers(2, 7, rng.integers(1, 9)).tolist(), 1] for _ in range(count)]
    sentences = [["<S>", *(f"w{i}" for i in row[1:-1]), "</S>"] for row in ids]
    counts = np.bincount(np.concatenate(ids), minlength=7).tolist()
    return SentencesAndPairs(sentences, ids, counts, 11, SETTINGS, 4, seed), ids


def test_an_epoch_holds_each_sentence_once():
    batches, ids = stream()
    for _ in range(2):
        seen = []
        for _ in range(23 // 4):
            _, words, padding, *_ = next(batches)
            for row, blank in zip(words.numpy(), padding.numpy(), strict=True):
                seen.append(tuple(row[~blank]))
        remaining = [tuple(row) for row in ids]
        for row in seen:
            remaining.remove(row)
        assert len(remaining) == 23 % 4


def test_pairs_are_neighbors_and_negatives_follow_the_noise():
    batches, ids = stream(count=3)
    text = [word for row in ids for word in row[1:-1]]
    allowed = set()
    for i in range(len(text)):
        for j in range(i + 1, len(text)):  # discarded words leave no gap: any distance is possible
            allowed |= {(text[i], text[j]), (text[j], text[i])}
    batches.batch_size = 3
    drawn = []
    for _ in range(150):
        *_, center, context, negatives = next(batches)
        assert center.shape == context.shape == (3, 11) and negatives.shape == (3, 11, 3)
        pairs = zip(center.numpy().ravel(), context.numpy().ravel(), strict=True)
        assert {(int(a), int(b)) for a, b in pairs} <= allowed
        drawn.append(negatives.numpy().ravel())
    share = np.bincount(np.concatenate(drawn), minlength=7) / (150 * 99)
    counts = np.bincount(np.concatenate(ids), minlength=7) ** 0.75
    np.testing.assert_allclose(share, counts / counts.sum(), atol=0.015)


def test_a_batch_depends_on_seed_and_position():
    one, _ = stream()
    two, _ = stream()
    for _ in range(7):
        next(one)
    two.load_state_dict(one.state_dict())
    assert all((a == b).all() for a, b in zip(next(one), next(two), strict=True))
    first, other = next(stream(1)[0]), next(stream(2)[0])
    assert any(a.shape != b.shape or (a != b).any() for a, b in zip(first, other, strict=True))


def test_the_loss_is_that_of_both_models(recipe):
    batch = next(recipe.batches())
    characters, ids, padding, center, context, negatives = batch
    recipe.model.eval()
    logits = recipe.model["bilm"](characters, padding)
    predicted = (~padding.numpy()).sum() - len(ids)
    expected = bilm_loss(*logits, ids, padding).item() * predicted / (4 * recipe.mean_length)
    expected += recipe.model["skip_gram"].negative_sampling_loss(
        center.reshape(-1), context.reshape(-1), negatives.reshape(-1, 5)
    ).item()  # fmt: skip
    assert recipe.loss(recipe.model, batch).item() == pytest.approx(expected, rel=1e-5)
    both = [loss.item() for loss in losses_by_direction(*logits, ids, padding)]
    assert sum(both) == pytest.approx(bilm_loss(*logits, ids, padding).item(), rel=1e-6)
    only = np.log(len(recipe.words))
    assert both[0] != both[1] and all(abs(loss - only) < 1 for loss in both)


def test_validation_sentences_are_not_trained_on(recipe):
    training = {" ".join(sentence) for sentence in recipe.training if len(sentence) > 12}
    held_out = [" ".join(sentence) for sentence in recipe.validation if len(sentence) > 12]
    assert len(held_out) > 100 and not [sentence for sentence in held_out if sentence in training]
    assert recipe.ids[0] == recipe.encode(recipe.training[0]) and recipe.encode(["?!?"]) == [0]


def test_static_vectors_cannot_tell_meanings_apart(recipe):
    places = recipe.occurrences()
    words, meanings = [p[2] for p in places], np.array([p[3] for p in places])
    paragraphs = recipe.text.paragraphs[[p[0] for p in places]]
    static, neighbors = recipe._static_occurrences()
    assert probe_accuracy(static, words, meanings, paragraphs)[0] == 0.5
    recipe.model.eval()
    layers = recipe.contextual_vectors(recipe.model["bilm"].elmo)
    assert layers.shape == (3, len(places), 16)
    assert probe_accuracy(layers[0], words, meanings, paragraphs)[0] == 0.5  # characters only
    assert probe_accuracy(layers[1], words, meanings, paragraphs)[0] > 0.55
    table, index = recipe.static_vectors(), 5
    sentence, place, word, _ = places[index]
    assert (static[index] == table[recipe.index[word]]).all()
    around = recipe.encode(recipe.text.sentences[sentence])
    around = around[max(place - 2, 0) : place] + around[place + 1 : place + 3]
    np.testing.assert_allclose(neighbors[index], table[around].mean(0), rtol=1e-5)


def test_a_vector_belongs_to_its_place(recipe):
    recipe.model.eval()
    elmo = recipe.model["bilm"].elmo
    layers = recipe.contextual_vectors(elmo)
    sentence, place, *_ = recipe.occurrences()[7]
    characters, _, padding = recipe.batch_of([recipe.text.sentences[sentence]])
    with mt.no_grad():
        alone = elmo(characters, padding).numpy()[:, 0, place]
    np.testing.assert_allclose(layers[:, 7], alone, rtol=1e-4, atol=1e-6)


def test_neighbors_have_the_largest_cosine(recipe):
    table = np.zeros((len(recipe.words), 8), dtype="float32")
    table[:, 0] = 1
    for k, word in enumerate(["class", "object", "method", "type"]):
        table[recipe.index[word]] = [0, 1, 0.1 * k, 0, 0, 0, 0, 0]
    recipe.model["skip_gram"].input.weight.data = mt.tensor(table)
    assert recipe.neighbors("class", 3) == ["object", "method", "type"]


def test_the_probe_takes_its_centroids_from_other_paragraphs():
    """Meaning 1 lies at 1, except in paragraphs of fold 0, where the meanings are swapped."""
    paragraphs = np.arange(20)
    meanings = paragraphs // 5 % 2
    vectors = np.where(paragraphs % 5 == 0, 1 - meanings, meanings)[:, None].astype(float)
    accuracy, by_word = probe_accuracy(vectors, ["as"] * 20, meanings, paragraphs)
    assert accuracy == pytest.approx(0.8) and by_word == {"as": pytest.approx(0.8)}


def test_the_probe_is_per_word():
    meanings = np.tile([0, 1], 10)
    words = ["as"] * 10 + ["in"] * 10
    vectors = np.where(np.arange(20) < 10, meanings, 1 - meanings)[:, None].astype(float)
    accuracy, by_word = probe_accuracy(vectors, words, meanings, np.arange(20) // 2)
    assert accuracy == 1.0 and by_word == {"as": 1.0, "in": 1.0}
