"""Random configurations and inputs for BART and Marian."""

import numpy as np
import torch
from parity.models.peers import opened, randomise

BATCH, SOURCE, TARGET, VOCABULARY = 3, 7, 5, 29
PAD, END = 1, 2


def draw_fields(rng, **fixed):
    """Fields of a small configuration; encoder and decoder differ in all that they may."""
    fields = dict(
        vocab_size=VOCABULARY, d_model=int(rng.choice([12, 24])),
        encoder_layers=int(rng.choice([1, 2])), decoder_layers=int(rng.choice([1, 3])),
        encoder_attention_heads=int(rng.choice([2, 3])),
        decoder_attention_heads=int(rng.choice([1, 4])), encoder_ffn_dim=10, decoder_ffn_dim=14,
        max_position_embeddings=int(rng.choice([11, 16])),
        activation_function=str(rng.choice(["gelu", "relu", "swish", "gelu_new", "tanh"])),
        scale_embedding=bool(rng.random() < 0.5), tie_word_embeddings=bool(rng.random() < 0.5),
        pad_token_id=PAD, bos_token_id=0, eos_token_id=END,
        decoder_start_token_id=int(rng.choice([0, 1, 2, 5])), attn_implementation="eager",
    )  # fmt: skip
    return {**fields, **fixed}


def make_pair(peer, seed, folder):
    """The peer with random parameters and buffers, and our model from its folder."""
    randomise(peer, seed)
    with torch.no_grad():
        for name, buffer in peer.named_buffers():
            if "final_logits_bias" in name:
                buffer.normal_()
        for module in peer.modules():
            if hasattr(module, "create_weight"):  # sinusoidal positions are no free parameters
                module.weight.copy_(module.create_weight())
    return peer, opened(peer, folder)


def mask_of(rng, tokens):
    """1 for tokens, 0 for the padding behind them."""
    lengths = rng.integers(2, tokens + 1, (BATCH, 1))
    return (np.arange(tokens) < lengths).astype("int64")


def source_of(rng):
    """Sources that all end once, at different places, with padding behind."""
    mask = mask_of(rng, SOURCE)
    ids = rng.integers(3, VOCABULARY, (BATCH, SOURCE))
    ids[np.arange(BATCH), mask.sum(1) - 1] = END
    return {"input_ids": np.where(mask == 1, ids, PAD), "attention_mask": mask}


def target_of(rng, masked=True):
    """Targets; a mask of theirs hides what is padding."""
    found = {"decoder_input_ids": rng.integers(3, VOCABULARY, (BATCH, TARGET))}
    if masked:
        found["decoder_attention_mask"] = mask_of(rng, TARGET)
    return found


def labels_of(rng, tokens=TARGET):
    """Labels of which some are none."""
    labels = rng.integers(0, VOCABULARY, (BATCH, tokens))
    labels[:, -2] = -100
    return labels
