"""The order of processors and stopping criteria, on which the results depend."""

import pytest

import minitorch_attn as mt
from minitorch_attn import generation as g
from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation.config import DEFAULTS
from minitorch_attn.generation.pipeline import merge, processors_for, stopping_for

ALL = {
    "sequence_bias": {(1,): 2.0}, "encoder_repetition_penalty": 1.2, "repetition_penalty": 1.3,
    "no_repeat_ngram_size": 2, "encoder_no_repeat_ngram_size": 3, "bad_words_ids": [[4]],
    "min_length": 3, "min_new_tokens": 2, "forced_bos_token_id": 5, "forced_eos_token_id": 6,
    "remove_invalid_values": True, "exponential_decay_length_penalty": (1, 1.1),
    "suppress_tokens": [7], "begin_suppress_tokens": [8], "do_sample": True, "temperature": 0.5,
    "top_h": 0.5, "top_k": 9, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.8,
    "epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "renormalize_logits": True,
}  # fmt: skip
ORDER = [
    "SequenceBias", "EncoderRepetitionPenalty", "RepetitionPenalty", "NoRepeatNGram",
    "EncoderNoRepeatNGram", "NoBadWords", "MinLength", "MinNewTokensLength", "PrefixConstrained",
    "ForcedBOSToken", "ForcedEOSToken", "InfNanRemove", "ExponentialDecayLengthPenalty",
    "SuppressTokens", "SuppressTokensAtBegin", "function", "Temperature", "TopH", "TopK", "TopP",
    "MinP", "Typical", "Epsilon", "Eta", "LogitNormalization",
]  # fmt: skip


def processors(settings, ends=(2,), prompt_length=3, custom=(), **more):
    config = g.GenerationConfig(**{**DEFAULTS, **settings})
    arguments = {"encoder_ids": mt.tensor([[1, 2]]), "padding": None, "allowed": None, **more}
    return processors_for(
        config, ends=None if ends is None else list(ends), prompt_length=prompt_length,
        custom=list(custom), **arguments,
    )  # fmt: skip


def names(found):
    names = [type(p).__name__ for p in found]
    return [n.removesuffix("LogitsProcessor").removesuffix("LogitsWarper") for n in names]


def own(ids, scores):
    return scores


def test_order():
    found = processors(ALL, allowed=lambda batch, ids: [1], custom=[own])
    assert names(found) == ORDER
    assert names(processors({**ALL, "do_sample": False}, custom=[own]))[-2:] == [
        "function",
        "LogitNormalization",
    ]


def test_nothing_is_there_that_was_not_asked_for():
    assert names(processors({})) == []
    assert names(processors({"do_sample": True})) == ["TopK"]
    off = {"do_sample": True, "top_k": 0, "min_length": 3, "min_new_tokens": 2}
    assert names(processors(off, ends=None)) == []  # without an end there is none to put off


def test_one_of_the_caller_takes_the_place_of_the_same_class():
    mine = g.RepetitionPenaltyLogitsProcessor(9.0)
    found = processors({"repetition_penalty": 2.0, "no_repeat_ngram_size": 2}, custom=[own, mine])
    assert found[0] is mine and len(found) == 3 and found[2] is own
    assert merge([1], []) == [1]


@pytest.mark.parametrize(("beams", "ends", "least"), [(1, (2,), 1), (2, (2, 3), 3), (2, None, 2)])
def test_beams_keep_what_goes_on(beams, ends, least):
    found = processors({"do_sample": True, "num_beams": beams, "min_p": 0.5}, ends=ends)
    assert found[1].min_tokens_to_keep == least


@pytest.mark.parametrize(("length", "forced", "index"), [(1, None, 1), (1, 4, 2), (3, 4, 3)])
def test_where_the_first_free_token_stands(length, forced, index):
    settings = {"begin_suppress_tokens": [1], "forced_bos_token_id": forced}
    assert processors(settings, prompt_length=length)[-1].begin_index == index


def test_what_needs_ids():
    for name in ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size"):
        with pytest.raises(ArgumentError, match=name):
            processors({name: 2}, encoder_ids=None)


def test_criteria():
    config = g.GenerationConfig(max_length=5, max_time=2.0, stop_strings="a")
    mine = g.EosTokenCriteria(8)
    found = stopping_for(config, ends=[2], tokenizer=object(), custom=[mine])
    kinds = [type(c).__name__.removesuffix("Criteria") for c in found]
    assert kinds == ["MaxLength", "MaxTime", "StopString", "EosToken"] and found[3] is mine
