"""Shared code to compare GPT-2 and Llama with transformers."""

import numpy as np
import pytest
import torch
from parity.models.peers import compare, opened, randomise

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

BATCH, TOKENS, CLASSES = 3, 7, 5


def pair(name, config, seed, folder):
    """The peer with random parameters, and our model from its folder."""
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, opened(peer, folder)


def ids_of(rng, *shape):
    """Random tokens, none of them the padding of the drawn configurations."""
    return rng.integers(0, 28, shape)


def padding(side):
    """1 for tokens, 0 for padding on one side: (batch, token)."""
    lengths = np.array([[7], [4], [2]])
    places = np.arange(TOKENS)
    real = places >= TOKENS - lengths if side == "left" else places < lengths
    return real.astype("int64")


def head_labels(name, rng):
    """What a head on top of a decoder learns from, under the peer's names."""
    if name.endswith("ForSequenceClassification"):
        return {"labels": rng.integers(0, CLASSES, BATCH)}
    if name.endswith("ForTokenClassification"):
        return {"labels": rng.integers(0, CLASSES, (BATCH, TOKENS))}
    if name.endswith("ForQuestionAnswering"):
        return {"start_positions": np.array([0, 3, 11]), "end_positions": np.array([2, 3, 4])}
    return {}


def compare_embeddings(name, config, seed, folder):
    """Embeddings instead of ids, at positions of their own in every row."""
    rng = np.random.default_rng(seed + 10)
    peer, ours = pair(name, config, seed, folder)
    inputs = {
        "inputs_embeds": rng.normal(size=(BATCH, TOKENS, config.hidden_size)),
        "position_ids": np.arange(TOKENS)[None] + np.array([[0], [3], [5]]),
    }
    compare(peer, ours, inputs, logits_to_keep=3, output_hidden_states=True)


def compare_left_padding(name, config, seed, folder):
    """With its default attention the peer, too, gives padding that sees nothing no context."""
    rng = np.random.default_rng(seed + 20)
    peer, ours = pair(name, config, seed, folder)
    mask = padding("left")
    inputs = {
        "input_ids": ids_of(rng, BATCH, TOKENS),
        "attention_mask": mask,
        "position_ids": np.maximum(mask.cumsum(1) - 1, 0),
    }
    compare(peer, ours, inputs, output_hidden_states=True)


def check_peer_opens(peer, ours, folder):
    """The peer finds in a folder of ours, in shards, exactly what it had itself."""
    ours.save_pretrained(folder, max_shard_size=4000)
    again, report = type(peer).from_pretrained(
        folder, output_loading_info=True, dtype=torch.float64
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    expected, found = peer.state_dict(), again.state_dict()
    assert set(expected) == set(found)
    assert all(torch.equal(found[key], value) for key, value in expected.items())
