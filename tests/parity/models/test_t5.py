"""T5 against transformers: random configurations, every class, outputs and all gradients."""

import numpy as np
import pytest
import torch
from parity.models.peers import compare, opened, randomise

import minitorch_attn as mt

modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
FORWARDS = ["relu", "gated-gelu", "gelu", "gated-silu", "gated-relu"]
SEEN = {"output_hidden_states": True, "output_attentions": True}


@pytest.fixture(autouse=True)
def no_float32_norms(monkeypatch):
    """The peer takes the mean square of float64 vectors in float32; here it stays in float64."""

    def forward(self, x):
        mean = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean + self.variance_epsilon))

    monkeypatch.setattr(modeling.T5LayerNorm, "forward", forward)


def drawn(seed, **changes):
    """A configuration whose heads do not share out the embedding."""
    rng = np.random.default_rng(seed)
    config = dict(
        vocab_size=int(rng.choice([19, 23])), d_model=int(rng.choice([6, 10])),
        d_kv=int(rng.choice([3, 5])), d_ff=int(rng.choice([7, 11])),
        num_layers=int(rng.choice([1, 2])), num_decoder_layers=[None, 1, 3][int(rng.integers(3))],
        num_heads=int(rng.choice([2, 3])), feed_forward_proj=str(rng.choice(FORWARDS)),
        relative_attention_num_buckets=int(rng.choice([4, 8, 14])),
        relative_attention_max_distance=int(rng.choice([9, 20])),
        layer_norm_epsilon=float(rng.choice([1e-6, 1e-3])), decoder_start_token_id=2,
        attn_implementation="eager",
    )  # fmt: skip
    return {**config, **changes}


def pair(transformers, folder, name, seed, **changes):
    config = drawn(seed, **changes)
    peer = getattr(transformers, name)(transformers.T5Config(**config))
    randomise(peer, seed)
    return config, peer, opened(peer, folder)


def padding(seed, batch=3, tokens=7):
    rng = np.random.default_rng(seed + 1000)
    return (np.arange(tokens) < rng.integers(1, tokens + 1, (batch, 1))).astype("int64")


def ids(seed, config, batch=3, tokens=7):
    return np.random.default_rng(seed).integers(3, config["vocab_size"], (batch, tokens))


def with_constants(**constants):
    """A call with further float inputs whose gradient is not asked for."""

    def call(model, **inputs):
        place = mt.tensor if isinstance(model, mt.nn.Module) else torch.tensor
        return model(**inputs, **{name: place(value) for name, value in constants.items()})

    return call


@pytest.mark.parametrize("seed", range(6))
def test_the_base_model(transformers, tmp_path, seed):
    config, peer, ours = pair(transformers, tmp_path, "T5Model", seed)
    rng = np.random.default_rng(seed)
    inputs = {"attention_mask": padding(seed).astype([int, bool][seed % 2])}
    if seed % 3 == 1:
        inputs["inputs_embeds"] = rng.normal(size=(3, 7, config["d_model"]))
        inputs["decoder_inputs_embeds"] = rng.normal(size=(3, 5, config["d_model"]))
    else:
        inputs["input_ids"] = ids(seed, config)
        inputs["decoder_input_ids"] = ids(seed + 1, config, tokens=5)
    if seed % 3 == 2:
        inputs["decoder_attention_mask"] = padding(seed + 1, tokens=5)
    assert compare(peer, ours, inputs, **SEEN) > 30


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("seed", range(10, 14))
def test_conditional_generation(transformers, tmp_path, scaled, seed):
    changes = {"tie_word_embeddings": scaled}  # the peer ties in any case, and scales or not
    name = "T5ForConditionalGeneration"
    config, peer, ours = pair(transformers, tmp_path, name, seed, **changes)
    labels = ids(seed + 1, config, tokens=5)
    labels[0, 3:] = -100
    inputs = {"input_ids": ids(seed, config), "attention_mask": padding(seed), "labels": labels}
    compare(peer, ours, inputs, **SEEN)
    inputs["decoder_input_ids"] = ids(seed + 2, config, tokens=5)
    compare(peer, ours, inputs, names=["loss", "logits"])


@pytest.mark.parametrize("scaled", [True, False])
def test_an_output_matrix_of_its_own(transformers, tmp_path, scaled):
    """Version 1.1 has one; what the peer saves does not say so in the configuration."""
    config = drawn(20, tie_word_embeddings=scaled)
    peer = transformers.T5ForConditionalGeneration(transformers.T5Config(**config))
    peer.lm_head.weight = torch.nn.Parameter(torch.empty_like(peer.shared.weight))
    peer.all_tied_weights_keys.pop("lm_head.weight")
    randomise(peer, 20)
    ours = opened(peer, tmp_path)
    assert ours.body.head.weight is not ours.body.token_embedding.weight
    inputs = {"input_ids": ids(20, config), "labels": ids(21, config, tokens=5)}
    compare(peer, ours, inputs)
    ours.save_pretrained(tmp_path / "again")
    again = transformers.T5ForConditionalGeneration.from_pretrained(
        tmp_path / "again", dtype="float64", attn_implementation="eager"
    )
    compare(again.eval(), ours, inputs)


@pytest.mark.parametrize("seed", [30, 31])
def test_a_cache_and_given_encoder_outputs(transformers, tmp_path, seed):
    name = "T5ForConditionalGeneration"
    config, peer, ours = pair(transformers, tmp_path, name, seed)
    inputs = {
        "input_ids": ids(seed, config), "attention_mask": padding(seed),
        "decoder_input_ids": ids(seed + 1, config),
        "decoder_attention_mask": np.array([[1, 1, 0, 1, 1, 1, 1], [1] * 7, [1] * 6 + [0]]),
    }  # fmt: skip

    def in_chunks(model, input_ids, attention_mask, decoder_input_ids, decoder_attention_mask):
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask)
        past, parts = None, {}
        for i, (start, stop) in enumerate(((0, 2), (2, 3), (3, 7))):
            output = model(
                encoder_outputs=encoded, attention_mask=attention_mask, past_key_values=past,
                decoder_input_ids=decoder_input_ids[:, start:stop],
                decoder_attention_mask=decoder_attention_mask[:, :stop], use_cache=True, **SEEN,
            )  # fmt: skip
            past = output["past_key_values"]
            parts[f"logits{i}"] = output["logits"]
            parts[f"cross{i}"] = output["cross_attentions"]
            parts[f"states{i}"] = output["decoder_hidden_states"]
        return parts

    compare(peer, ours, inputs, call=in_chunks)


@pytest.mark.parametrize("seed", [40, 41])
def test_the_encoder(transformers, tmp_path, seed):
    config, peer, ours = pair(transformers, tmp_path / "encoder", "T5EncoderModel", seed)
    embeds = np.random.default_rng(seed).normal(size=(3, 7, config["d_model"]))
    inputs = {"inputs_embeds": embeds, "attention_mask": padding(seed)}
    compare(peer, ours, inputs, **SEEN)

    labels = np.where(ids(seed, config) % 4, ids(seed, config) % 3, -100)
    folder, changes = tmp_path / "token", {"id2label": {"0": "a", "1": "b", "2": "c"}}
    name = "T5ForTokenClassification"
    config, peer, ours = pair(transformers, folder, name, seed, **changes)
    inputs = {"input_ids": ids(seed, config), "attention_mask": padding(seed), "labels": labels}
    compare(peer, ours, inputs, **SEEN)


@pytest.mark.parametrize("num_labels", [1, 2, 3])
def test_sequence_classification(transformers, tmp_path, num_labels):
    changes = {"id2label": {str(i): f"l{i}" for i in range(num_labels)}, "classifier_dropout": 0.2}
    name, seed = "T5ForSequenceClassification", 50 + num_labels
    config, peer, ours = pair(transformers, tmp_path, name, seed, **changes)
    text = ids(seed, config)
    text[0, 3] = text[1, 6] = text[2, 5] = 1
    labels = np.array([0.3, 1.2, -0.4]) if num_labels == 1 else np.array([0, 1, num_labels - 1])
    inputs = {"input_ids": text, "attention_mask": padding(seed)}
    compare(peer, ours, inputs, call=with_constants(labels=labels))
    compare(peer, ours, inputs, **SEEN)


def test_question_answering(transformers, tmp_path):
    config, peer, ours = pair(transformers, tmp_path, "T5ForQuestionAnswering", 60)
    inputs = {
        "input_ids": ids(60, config), "attention_mask": padding(60),
        "start_positions": np.array([[0], [3], [9]]), "end_positions": np.array([2, 9, 4]),
    }  # fmt: skip
    compare(peer, ours, inputs, **SEEN)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("buckets", [4, 8, 10, 32, 34, 64])
@pytest.mark.parametrize("farthest", [17, 20, 64, 100, 128, 1000])
def test_buckets(bidirectional, buckets, farthest):
    positions = np.arange(-2100, 2101)
    settings = dict(
        bidirectional=bidirectional, num_buckets=buckets, max_distance=max(farthest, buckets)
    )
    expected = modeling.T5Attention._relative_position_bucket(torch.tensor(positions), **settings)
    found = mt.models.t5.relative_position_bucket(mt.tensor(positions), **settings)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
