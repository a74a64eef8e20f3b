"""Attention masks with four axes, boolean or added to the scores, against transformers."""

import numpy as np
import pytest
from parity.models.peers import compare, opened, randomise
from parity.models.test_llama import in_float64  # noqa: F401  (a fixture)
from parity.models.test_t5 import no_float32_norms  # noqa: F401  (a fixture)

BATCH, TOKENS, SOURCE = 2, 5, 7
SMALL = dict(vocab_size=29, num_hidden_layers=2, num_attention_heads=2, hidden_size=12,
             intermediate_size=10, max_position_embeddings=16)  # fmt: skip
BART = dict(vocab_size=29, d_model=12, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=10,
            encoder_attention_heads=2, decoder_attention_heads=2, decoder_ffn_dim=10,
            max_position_embeddings=16)  # fmt: skip
GPT2 = dict(vocab_size=29, n_embd=12, n_layer=2, n_head=2, n_positions=16)
T5 = dict(vocab_size=29, d_model=12, d_kv=6, d_ff=10, num_layers=2, num_heads=2)
MODELS = {
    "BertModel": ("BertConfig", SMALL),
    "BertLMHeadModel": ("BertConfig", {**SMALL, "is_decoder": True}),
    "GPT2LMHeadModel": ("GPT2Config", GPT2),
    "LlamaForCausalLM": ("LlamaConfig", SMALL),
    "T5ForConditionalGeneration": ("T5Config", T5),
    "BartForConditionalGeneration": ("BartConfig", BART),
}  # fmt: skip


def four_axes(rng, queries, keys, kind, heads):
    """A pattern of any form, in which every query may attend to at least one key."""
    attend = rng.random((BATCH, heads, queries, keys)) < 0.6
    attend[..., 0] = True
    if kind == "bool":
        return attend
    return np.where(attend, rng.normal(size=attend.shape), -1e4)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("name", MODELS)
def test_a_mask_with_four_axes(name, kind, heads, transformers, tmp_path):
    rng = np.random.default_rng(len(name) + heads)
    config, fields = MODELS[name]
    fields = {**fields, "attn_implementation": "sdpa" if kind == "bool" else "eager"}
    peer = randomise(getattr(transformers, name)(getattr(transformers, config)(**fields)), 3)
    ours = opened(peer, tmp_path)
    inputs = {"input_ids": rng.integers(3, 29, (BATCH, TOKENS))}
    inputs["attention_mask"] = four_axes(rng, TOKENS, TOKENS, kind, heads)
    if "Conditional" in name:
        inputs["input_ids"] = rng.integers(3, 29, (BATCH, SOURCE))
        inputs["decoder_input_ids"] = rng.integers(3, 29, (BATCH, TOKENS))
        inputs["attention_mask"] = np.ones((BATCH, SOURCE), "int64")
        inputs["decoder_attention_mask"] = four_axes(rng, TOKENS, TOKENS, kind, heads)
    compare(peer, ours, inputs, ["logits"] if name != "BertModel" else ["last_hidden_state"])


@pytest.mark.parametrize("name", ["T5ForConditionalGeneration", "BartForConditionalGeneration"])
def test_the_encoder_of_an_encoder_decoder(name, transformers, tmp_path):
    rng = np.random.default_rng(5)
    config, fields = MODELS[name]
    fields = {**fields, "attn_implementation": "eager"}
    peer = randomise(getattr(transformers, name)(getattr(transformers, config)(**fields)), 3)
    ours = opened(peer, tmp_path)
    inputs = {
        "input_ids": rng.integers(3, 29, (BATCH, SOURCE)),
        "attention_mask": four_axes(rng, SOURCE, SOURCE, "float", 1),
    }
    compare(peer, ours, inputs, ["last_hidden_state"], call=encode)


def encode(model, **inputs):
    return model.get_encoder()(**inputs)
