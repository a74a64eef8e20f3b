"""generate: lengths, end tokens, padding, the cache, arguments, and results."""

import numpy as np
import pytest
from generation.tiny import VOCABULARY, Table, gpt2, t5

import minitorch_attn as mt
from minitorch_attn.backend.sync import sync_count
from minitorch_attn.errors import ArgumentError, MiniTorchError, ShapeError
from minitorch_attn.generation import GenerationConfig, generate

PROMPT = [[3, 4, 7], [5, 6, 3]]
FULL = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}


def chain(device, **config):
    """Token i is followed by i + 1, and the last one by 0."""
    return Table(np.roll(np.eye(VOCABULARY), 1, axis=1), device, **config)


def written(model, ids, device, **settings):
    return generate(model, mt.tensor(ids, device=device), **settings).numpy().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [gpt2, t5])
def test_cached_equals_uncached(device, make, dtype):
    model, ids = make(device, dtype), mt.tensor(PROMPT, device=device)
    settings = {"max_new_tokens": 9, "eos_token_id": None, **FULL}
    cached, plain = (model.generate(ids, use_cache=u, **settings) for u in (True, False))
    np.testing.assert_array_equal(cached.sequences.numpy(), plain.sequences.numpy())
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    for a, b in zip(cached.logits, plain.logits, strict=True):
        assert a.dtype == np.dtype(dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=tolerance)
    assert len(cached.logits) == 9 and len(set(cached.sequences.numpy()[0])) > 2


def test_greedy_takes_the_best_of_a_plain_loop(device):
    model, ids = gpt2(device), np.array(PROMPT)
    for _ in range(6):
        with mt.no_grad():
            logits = model(mt.tensor(ids, device=device)).logits.numpy()[:, -1]
        ids = np.concatenate((ids, logits.argmax(-1)[:, None]), 1)
    expected = ids.tolist()
    assert written(model, PROMPT, device, max_new_tokens=6, eos_token_id=None) == expected


@pytest.mark.parametrize("cached", [True, False])
def test_padding_on_the_left_changes_nothing(device, cached):
    model = gpt2(device)
    prompts = [[3, 4, 7, 9], [5, 6], [8]]
    ids = np.full((3, 4), 2)
    for row, prompt in enumerate(prompts):
        ids[row, 4 - len(prompt) :] = prompt
    mask = (ids != 2).astype(int)

    def steps(ids, **more):
        """The logits of every step: (row, step, vocabulary)."""
        more = {name: mt.tensor(value, device=device) for name, value in more.items()}
        output = generate(
            model, mt.tensor(ids, device=device), max_new_tokens=7, eos_token_id=None,
            use_cache=cached, **more, **FULL,
        )  # fmt: skip
        return np.stack([x.numpy() for x in output.logits], 1)

    alone = np.concatenate([steps([prompt]) for prompt in prompts])
    np.testing.assert_allclose(steps(ids, attention_mask=mask), alone, rtol=1e-9)
    np.testing.assert_allclose(steps(ids), alone, rtol=1e-9)  # the padding token tells
    assert np.abs(steps(ids, attention_mask=np.ones_like(mask)) - alone).max() > 1e-3
    with pytest.warns(UserWarning, match="continues after it"):
        written(model, ids[:, ::-1].copy(), device, max_new_tokens=1)


def test_padding_that_also_ends_a_text_is_not_guessed(device):
    model = chain(device, eos_token_id=2, pad_token_id=2)
    written(model, [[2, 2, 5], [3, 4, 5]], device, max_new_tokens=1)
    assert model.seen[-1][1] is None


def test_ends(device):
    model = chain(device)
    settings = {"max_new_tokens": 6, "pad_token_id": 9}
    assert written(model, [[2]], device, **settings) == [[2, 3, 4, 5, 6, 7, 8]]
    assert written(model, [[2]], device, eos_token_id=5, **settings) == [[2, 3, 4, 5]]
    several = written(model, [[2], [6]], device, eos_token_id=[5, 7], **settings)
    assert several == [[2, 3, 4, 5], [6, 7, 9, 9]]
    del settings["pad_token_id"]
    unfilled = written(model, [[2], [6]], device, eos_token_id=[5, 7], **settings)
    assert unfilled == [[2, 3, 4, 5], [6, 7, 5, 5]]
    own = [mt.generation.EosTokenCriteria([5, 7])]
    assert written(model, [[2], [6]], device, stopping_criteria=own, **settings) == unfilled


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({}, 22),
        ({"max_length": 7}, 7),
        ({"max_length": 7, "max_new_tokens": 2}, 4),
        ({"eos_token_id": 5}, 5),
        ({"eos_token_id": 5, "min_length": 8, "max_length": 9}, 9),
        ({"eos_token_id": 5, "min_new_tokens": 3, "max_length": 9}, 9),
        ({"stopping_criteria": [lambda ids, scores: ids[:, -1] == 6]}, 6),
        ({"stopping_criteria": [lambda ids, scores: ids.shape[1] > 9]}, 10),
    ],
)
def test_lengths(device, settings, length):
    ids = written(chain(device), [[1, 2]], device, **settings)
    assert len(ids[0]) == length


def test_the_default_length_ends_with_the_positions(device):
    assert len(written(gpt2(device), [[3] * 20], device, eos_token_id=None)[0]) == 31


def test_scores_are_processed_and_logits_are_not(device):
    output = generate(
        chain(device),
        mt.tensor([[1]], device=device),
        max_new_tokens=2,
        suppress_tokens=[2],
        **FULL,
    )
    assert output.logits[0].numpy()[0, 2] == 1.0
    assert output.scores[0].numpy()[0, 2] == -np.inf
    assert output[0] is output["sequences"] and output.attentions is None
    assert len(output.scores) == len(output.logits) == 2


def test_settings_come_from_the_arguments_then_the_model(device):
    model = chain(device, max_length=5, eos_token_id=4)
    assert written(model, [[1]], device) == [[1, 2, 3, 4]]  # from config.json
    model.generation_config = {"max_length": 4}  # which replaces the former altogether
    assert written(model, [[3]], device) == [[3, 4, 5, 6]]
    given = GenerationConfig(max_length=3)
    assert written(model, [[3]], device, generation_config=given) == [[3, 4, 5]]
    assert written(model, [[3]], device, generation_config=given, max_length=2) == [[3, 4]]
    assert written(model, [[3]], device, generation_config={"eos_token_id": 5}) == [[3, 4, 5]]
    assert model.generation_config == {"max_length": 4} and given.max_length == 3


def test_a_text_begins_with_its_token(device):
    model = chain(device, bos_token_id=6)
    assert generate(model, max_new_tokens=2).numpy().tolist() == [[6, 7, 8]]
    with pytest.raises(ArgumentError, match="bos_token_id"):
        generate(chain(device), max_new_tokens=2)


def test_an_encoder_reads_once(device):
    model, ids = t5(device), mt.tensor(PROMPT, device=device)
    encoded = model.get_encoder()(input_ids=ids)
    calls, encoder = [], model.get_encoder()
    model.get_encoder = lambda: lambda **inputs: calls.append(1) or encoder(**inputs)
    whole = model.generate(ids, max_new_tokens=5)
    assert len(calls) == 1
    for form in (encoded, (encoded.last_hidden_state,), encoded.last_hidden_state):
        again = model.generate(encoder_outputs=form, max_new_tokens=5)
        np.testing.assert_array_equal(again.numpy(), whole.numpy())
    assert len(calls) == 1


def test_draws_repeat_by_seed(device):
    model, ids = gpt2(device), mt.tensor(PROMPT, device=device)
    settings = {"do_sample": True, "max_new_tokens": 9, "num_return_sequences": 3}
    state = mt.get_rng_state()
    first, again, other = (model.generate(ids, seed=s, **settings).numpy() for s in (1, 1, 2))
    assert mt.get_rng_state() == state
    assert first.shape[0] == 6 and (first[:3, :3] == PROMPT[0]).all()
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()
    drawn = []
    for _ in range(2):
        mt.manual_seed(5)
        drawn.append(model.generate(ids, **settings).numpy())
    np.testing.assert_array_equal(*drawn)


def test_a_step_waits_for_the_device_once(rng):
    model = Table(rng.normal(size=(VOCABULARY, VOCABULARY)), "strict", pad_token_id=9)
    ids = mt.tensor(PROMPT, device="strict")
    for more, each in (({}, 0), ({"eos_token_id": [9]}, 1), ({"repetition_penalty": 1.1}, 0)):
        counts = []
        for steps in (2, 8):
            before = sync_count()
            generate(model, ids, max_new_tokens=steps, min_new_tokens=steps, **more)
            counts.append(sync_count() - before)
        assert counts[1] - counts[0] <= 6 * 2 * each + 1  # and flags of earlier range checks


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"max_new_token": 3}, "max_new_token"),
        ({"labels": 3}, "labels"),
        ({"token_type_ids": mt.ones(1, 1)}, "token_type_ids"),
        ({"guidance_scale": 1.5}, "guidance_scale"),
        ({"num_beam_groups": 2}, "num_beam_groups"),
        ({"input_ids": mt.tensor([[1]])}, "inputs and input_ids"),
        ({"max_length": 2}, "max_length must be greater"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"num_return_sequences": 2}, "num_return_sequences"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences"),
        ({"num_beams": 0}, "num_beams"),
        ({"num_beams": 2, "early_stopping": "now"}, "early_stopping"),
        ({"stop_strings": "a"}, "tokenizer"),
        ({"suppress_tokens": [3], "forced_eos_token_id": 3}, "forced_eos_token_id"),
        ({"exponential_decay_length_penalty": (1, 1.1)}, "eos_token_id"),
        ({"eos_token_id": -1}, "token ids"),
    ],
)
def test_wrong_arguments(arguments, match):
    with pytest.raises(MiniTorchError, match=match):
        generate(chain("cpu"), mt.tensor([[1, 2, 3]]), **arguments)


def test_ids_of_a_batch(device):
    for ids in (mt.tensor([1, 2]), mt.tensor([[1.0]])):
        with pytest.raises(ShapeError, match="must have shape"):
            generate(chain(device), ids)
    assert written(chain(device), [[1]], "cpu", max_new_tokens=1) == [[1, 2]]  # moved to the model
    assert generate(chain(device), [[1]], max_new_tokens=1).numpy().tolist() == [[1, 2]]


def test_what_changes_nothing_is_said():
    ids = mt.tensor([[1]])
    for arguments in ({"temperature": 0.5}, {"length_penalty": 2.0}, {"output_scores": True}):
        with pytest.warns(UserWarning, match=next(iter(arguments))):
            generate(chain("cpu"), ids, max_new_tokens=1, **arguments)
    with pytest.warns(UserWarning, match="minimum length of 9 tokens"):
        generate(chain("cpu"), ids, max_new_tokens=1, min_length=9)
