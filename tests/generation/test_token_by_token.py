"""Inputs that the model receives at each generation step."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation.token_by_token import Stepper


class Recorder:
    """Remembers its arguments, and puts as many tokens into the cache as it was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, past_key_values=None, **arguments):
        new = next(iter(v for k, v in arguments.items() if k.endswith(("ids", "embeds"))))
        if past_key_values is not None:
            vectors = mt.zeros(new.shape[0], 1, new.shape[1], 2, device=new.device)
            past_key_values.layer(0).update(vectors, vectors)
        self.calls.append(
            {k: v.numpy().tolist() if hasattr(v, "numpy") else v for k, v in arguments.items()}
        )
        return {"logits": mt.zeros(1, 1, 1)}


@pytest.fixture
def tensors(device):
    return lambda *arrays: [mt.tensor(np.array(a), device=device) for a in arrays]


def run(step, ids, count=3):
    for i in range(count):
        step(ids)
        new = mt.tensor(np.full((ids.shape[0], 1), 50 + i), device=ids.device)
        ids = mt.cat((ids, new), 1)
    return step.model.calls


def test_with_a_cache_only_what_is_new(tensors):
    ids, mask, positions, types = tensors([[7, 8, 9]], [[0, 1, 1]], [[0, 0, 1]], [[3, 4, 5]])
    step = Stepper(
        Recorder(),
        mt.nn.StaticKVCache(9),
        mask,
        positions,
        {"labels": 4},
        {"token_type_ids": types},
    )
    first, second, third = run(step, ids)
    shared = {"labels": 4, "use_cache": True}
    assert first == {
        "input_ids": [[7, 8, 9]], "attention_mask": [[0, 1, 1]], "position_ids": [[0, 0, 1]],
        "token_type_ids": [[3, 4, 5]], **shared,
    }  # fmt: skip
    assert second == {
        "input_ids": [[50]], "attention_mask": [[0, 1, 1, 1]], "position_ids": [[2]],
        "token_type_ids": [[5]], **shared,
    }  # fmt: skip
    assert third["position_ids"] == [[3]] and third["input_ids"] == [[51]]
    assert mask.numpy().tolist() == [[0, 1, 1]]  # the caller's


def test_without_a_cache_everything(tensors):
    ids, mask, positions = tensors([[7, 8]], [[0, 1]], [[0, 0]])
    calls = run(Stepper(Recorder(), None, mask, positions), ids)
    assert calls[2] == {
        "input_ids": [[7, 8, 50, 51]], "attention_mask": [[0, 1, 1, 1]],
        "position_ids": [[0, 0, 1, 2]], "use_cache": False,
    }  # fmt: skip


def test_with_an_encoder_the_decoder_has_the_names(tensors):
    ids, mask, source = tensors([[7, 8]], [[1, 1]], [[0, 1, 1]])
    constants = {"encoder_outputs": "encoded", "attention_mask": source}
    calls = run(Stepper(Recorder(), mt.nn.StaticKVCache(9), mask, None, constants), ids, 2)
    assert calls[1] == {
        "decoder_input_ids": [[50]], "decoder_attention_mask": [[1, 1, 1]],
        "encoder_outputs": "encoded", "attention_mask": [[0, 1, 1]], "use_cache": True,
    }  # fmt: skip


def test_vectors_at_the_first_step_only(tensors):
    ids, vectors = tensors(np.zeros((1, 0), int), np.ones((1, 3, 2)))
    calls = run(Stepper(Recorder(), mt.nn.StaticKVCache(9), embedded=vectors), ids, 2)
    assert calls[0] == {"inputs_embeds": np.ones((1, 3, 2)).tolist(), "use_cache": True}
    assert calls[1] == {"input_ids": [[50]], "use_cache": True}


@pytest.mark.parametrize(("covered", "read"), [(3, [[9]]), (5, [[7, 8, 9]]), (None, [[7, 8, 9]])])
def test_going_on_from_a_cache(tensors, covered, read):
    """As many ids as the mask covers are all of them; otherwise they are new."""
    (ids,) = tensors([[7, 8, 9]])
    cache = mt.nn.StaticKVCache(9)
    cache.layer(0).update(*[mt.zeros(1, 1, 2, 2, device=ids.device)] * 2)
    assert run(Stepper(Recorder(), cache, covered=covered), ids, 1)[0]["input_ids"] == read


def test_a_model_that_does_not_write(tensors):
    (ids,) = tensors([[7, 8, 9]])
    for output in ({}, {"logits": mt.zeros(1, 2)}):
        with pytest.raises(ArgumentError, match="logits of the next token"):
            Stepper(lambda output=output, **arguments: output, None)(ids)
