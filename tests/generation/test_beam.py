"""Beam search finds the same result as exhaustive search, given enough beams."""

import itertools

import numpy as np
import pytest
from generation.tiny import Table, gpt2, t5

import minitorch_attn as mt
from minitorch_attn.backend.sync import sync_count
from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation import GenerationConfig, generate
from minitorch_attn.generation.beam import BeamSearch

SIZE, END, PAD, NEW = 4, 1, 3, 4


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def all_sequences(table, first, penalty):
    """(score, tokens) of every sequence of at most NEW tokens that ends, or is that long."""
    logs, found = log_softmax(table), {}
    for tokens in itertools.product(range(SIZE), repeat=NEW):
        if END in tokens:
            tokens = tokens[: tokens.index(END) + 1]
        total = sum(logs[a, b] for a, b in itertools.pairwise((first, *tokens)))
        found[tokens] = total / len(tokens) ** penalty
    return sorted(((score, tokens) for tokens, score in found.items()), reverse=True)


@pytest.mark.parametrize("penalty", [-0.5, 0.0, 1.0, 2.0])
def test_enough_beams_find_the_best_sequences(device, rng, penalty):
    table = rng.normal(size=(SIZE, SIZE))
    model = Table(table, device, eos_token_id=END, pad_token_id=PAD)
    prompts = np.array([[2, 0], [0, 2]])
    output = generate(
        model, mt.tensor(prompts, device=device), max_new_tokens=NEW, num_beams=SIZE**NEW,
        num_return_sequences=6, length_penalty=penalty, early_stopping="never",
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    ids, scores = output.sequences.numpy(), output.sequences_scores.numpy()
    for i, prompt in enumerate(prompts):
        expected = all_sequences(table, prompt[-1], penalty)[:6]
        np.testing.assert_allclose(scores[6 * i : 6 * i + 6], [score for score, _ in expected])
        for row, (_, tokens) in zip(ids[6 * i : 6 * i + 6], expected, strict=True):
            written = [*prompt, *tokens]
            assert row[: len(written)].tolist() == written
            assert (row[len(written) :] == PAD).all()


def test_more_beams_find_nothing_worse(device):
    model, ids = gpt2(device, seed=5), mt.tensor([[3, 4], [5, 6], [7, 8]], device=device)
    settings = {"max_new_tokens": 6, "eos_token_id": None, "length_penalty": 0.0,
                "return_dict_in_generate": True, "output_scores": True}  # fmt: skip
    few = model.generate(ids, num_beams=2, **settings).sequences_scores.numpy()
    many = model.generate(ids, num_beams=9, **settings).sequences_scores.numpy()
    assert (many >= few - 1e-12).all() and (many > few).any()


def test_an_end_counts_among_the_first_beams_only(device):
    """The third best candidate of two beams is not kept, however good it is in the end."""
    table = np.zeros((8, 8))
    table[2] = np.log([0.5, 0.2, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0] + np.full(8, 1e-9))
    settings = {"max_new_tokens": 3, "length_penalty": 0.0, "eos_token_id": END,
                "early_stopping": "never"}  # fmt: skip
    model, ids = Table(table, device), mt.tensor([[2]], device=device)
    kept = generate(model, ids, num_beams=2, **settings).numpy()[0]
    assert kept[1] in (0, 3)
    assert generate(model, ids, num_beams=3, **settings).numpy()[0].tolist() == [2, END]


def test_never_stopping_early_finds_nothing_worse(device, rng):
    ids = mt.tensor([[2], [0]], device=device)
    settings = {"max_new_tokens": 8, "num_beams": 2, "length_penalty": 1.5, "eos_token_id": END,
                "return_dict_in_generate": True, "output_scores": True}  # fmt: skip
    gains = []
    for _ in range(12):
        model = Table(rng.normal(size=(5, 5), scale=2.0), device)
        guess, sure = (
            generate(model, ids, early_stopping=early, **settings).sequences_scores.numpy()
            for early in (False, "never")
        )
        gains.extend(sure - guess)
    assert min(gains) > -1e-12 and max(gains) > 1e-3


@pytest.mark.parametrize("make", [gpt2, t5])
@pytest.mark.parametrize("early", [False, True, "never"])
def test_the_cache_follows_the_beams(device, make, early):
    model, ids = make(device), mt.tensor([[3, 4, 7], [5, 6, 3]], device=device)
    settings = {"num_beams": 3, "early_stopping": early, "max_new_tokens": 7,
                "return_dict_in_generate": True, "output_scores": True}  # fmt: skip
    cached, plain = (model.generate(ids, use_cache=u, **settings) for u in (True, False))
    np.testing.assert_array_equal(cached.sequences.numpy(), plain.sequences.numpy())
    for name in ("scores", "sequences_scores"):
        for a, b in zip(cached[name], plain[name], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)
    assert plain.past_key_values is None


def test_the_origins_say_where_tokens_come_from(device, rng):
    """The score of a sequence is the sum of the scores in the rows that it went through."""
    model, ids = gpt2(device), mt.tensor([[3, 4, 7], [5, 6, 3]], device=device)
    output = model.generate(
        ids, num_beams=3, num_return_sequences=2, max_new_tokens=5, length_penalty=1.0,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    for row, origins, score in zip(
        output.sequences.numpy()[:, 3:], output.beam_indices.numpy(),
        output.sequences_scores.numpy(), strict=True,
    ):  # fmt: skip
        went = [(i, origin) for i, origin in enumerate(origins) if origin >= 0]
        total = sum(output.scores[i].numpy()[origin, row[i]] for i, origin in went)
        np.testing.assert_allclose(score, total / len(went))


def test_a_step_waits_for_the_device_once(rng):
    model = Table(rng.normal(size=(SIZE, SIZE)), "strict", pad_token_id=PAD)
    ids = mt.tensor([[2, 0], [0, 2]], device="strict")
    counts = []
    for steps in (3, 9):
        before = sync_count()
        generate(model, ids, max_new_tokens=steps, num_beams=2)
        counts.append(sync_count() - before)
    assert counts[1] - counts[0] <= 6 * 2  # with it go the flags of the range checks


def test_drawn_beams(device):
    model, ids = gpt2(device), mt.tensor([[3, 4, 7], [5, 6, 3]], device=device)
    settings = {"num_beams": 3, "do_sample": True, "max_new_tokens": 6, "eos_token_id": None}
    first, again, other = (model.generate(ids, seed=s, **settings).numpy() for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_no_streaming(device):
    model, ids = gpt2(device), mt.tensor([[3]], device=device)
    with pytest.raises(ArgumentError, match="num_beams=2"):
        model.generate(ids, num_beams=2, streamer=mt.generation.TokenStreamer(print))


@pytest.mark.parametrize(
    ("early", "penalty", "improves"),
    [
        (False, 2.0, True),  # -8 / 4^2 = -0.5 is better than -1
        (False, 1.0, False),  # -8 / 4 = -2
        (False, 0.0, False), ("never", 0.0, False), ("never", -1.0, False),
        ("never", 1.0, True),  # -8 / 10 = -0.8, for the longest sequence
        ("never", 2.0, True),
    ],
)  # fmt: skip
def test_when_a_running_beam_can_still_win(early, penalty, improves, device):
    """The best beam has log probability -8 after 4 new tokens; the finished ones score -1, -1."""
    search = object.__new__(BeamSearch)
    search.config = GenerationConfig(early_stopping=early, length_penalty=penalty, max_length=13)
    search.prompt, search.length = 3, 7
    search.running = (None, mt.tensor([[-8.0, -20.0]], device=device), None)
    taken = mt.tensor([[True, True]], device=device)
    search.finished = (None, mt.tensor([[-1.0, -1.0]], device=device), None, taken)
    assert search._may_improve().tolist() == [[improves]]


@pytest.mark.parametrize("penalty", [2**31, -(2**31), 1e308])
def test_an_endless_power_is_refused(penalty):
    model = gpt2()
    with pytest.raises(ArgumentError, match="length_penalty is out of range"):
        model.generate(mt.tensor([[1, 2]]), num_beams=2, max_new_tokens=3, length_penalty=penalty)
