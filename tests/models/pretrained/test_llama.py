"""Llama with the Hugging Face interface: names, configurations, arguments and results."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models.pretrained import (
    LlamaForCausalLM,
    LlamaForQuestionAnswering,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    LlamaModel,
)
from minitorch_attn.serialization import read_safetensors, write_safetensors

FIELDS = {
    "vocab_size": 11, "hidden_size": 6, "intermediate_size": 5, "num_hidden_layers": 2,
    "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 4,
    "max_position_embeddings": 16, "model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "eos_token_id": 10,
}  # fmt: skip


def published(rng):
    """Arrays under the names of the files on the hub, with a table that old ones have."""
    shapes = {"embed_tokens.weight": (11, 6), "norm.weight": (6,)}
    for i in range(2):
        h = f"layers.{i}."
        shapes |= {h + "input_layernorm.weight": (6,), h + "post_attention_layernorm.weight": (6,)}
        sizes = {"q": (12, 6), "k": (4, 6), "v": (4, 6), "o": (6, 12)}
        shapes |= {f"{h}self_attn.{name}_proj.weight": shape for name, shape in sizes.items()}
        sizes = {"gate": (5, 6), "up": (5, 6), "down": (6, 5)}
        shapes |= {f"{h}mlp.{name}_proj.weight": shape for name, shape in sizes.items()}
        shapes[h + "self_attn.rotary_emb.inv_freq"] = (2,)
    arrays = {f"model.{name}": rng.uniform(-0.7, 0.7, shape) for name, shape in shapes.items()}
    return arrays | {"lm_head.weight": rng.uniform(-0.7, 0.7, (11, 6))}


@pytest.fixture
def arrays(rng):
    return published(rng)


@pytest.fixture
def model(arrays, tmp_path, device):
    write_safetensors(tmp_path / "model.safetensors", arrays)
    (tmp_path / "config.json").write_text(json.dumps(FIELDS))
    return mt.models.from_pretrained(tmp_path, device=device)


@pytest.fixture
def ids(rng, device):
    return mt.tensor(rng.integers(0, 10, (3, 5)), device=device)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_every_tensor_goes_where_it_belongs(arrays, model, tmp_path):
    assert type(model) is LlamaForCausalLM and not model.training
    block = model.body.blocks[1]
    places = {
        "input_layernorm": block.norm1, "post_attention_layernorm": block.norm2,
        "self_attn.q_proj": block.attention.q_proj, "self_attn.k_proj": block.attention.k_proj,
        "self_attn.v_proj": block.attention.v_proj, "self_attn.o_proj": block.attention.out_proj,
        "mlp.gate_proj": block.feed_forward.gate, "mlp.up_proj": block.feed_forward.up,
        "mlp.down_proj": block.feed_forward.down,
    }  # fmt: skip
    for name, module in places.items():
        assert (module.weight.numpy() == arrays[f"model.layers.1.{name}.weight"]).all(), name
    model.save_pretrained(tmp_path / "saved")
    saved = read_safetensors(tmp_path / "saved" / "model.safetensors")[1]
    expected = {name: a for name, a in arrays.items() if "rotary" not in name}
    assert set(saved) == set(expected)
    assert all((saved[name] == array).all() for name, array in expected.items())


def test_what_the_configuration_says():
    model = LlamaForCausalLM(
        {
            **FIELDS, "attention_bias": True, "mlp_bias": True, "attention_dropout": 0.3,
            "rms_norm_eps": 0.5, "hidden_act": "relu", "initializer_range": 2.0,
            "tie_word_embeddings": True, "pad_token_id": -1,
        }
    )  # fmt: skip
    block = model.body.blocks[0]
    assert block.attention.out_proj.bias is not None and block.feed_forward.up.bias is not None
    assert block.attention.dropout == 0.3 and block.norm2.eps == model.body.norm.eps == 0.5
    assert model.body.head.weight is model.body.token_embedding.weight
    assert model.body.token_embedding.padding_idx == 10
    assert model.body.token_embedding.weight.numpy().std() == pytest.approx(2, rel=0.4)
    assert block.feed_forward.activation(mt.tensor([-1.0])).item() == 0
    plain = LlamaModel({**FIELDS, "num_key_value_heads": None, "head_dim": None})
    attention = plain.body.blocks[0].attention
    assert (attention.num_kv_heads, attention.head_dim) == (3, 2)


@pytest.mark.parametrize(
    "fields, base, kind, factor",
    [
        ({}, 10000.0, "default", None),
        ({"rope_theta": 50.0}, 50.0, "default", None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 70.0}}, 70.0, "default", None),
        ({"rope_scaling": {"type": "linear", "factor": 3.0}}, 10000.0, "linear", 3.0),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}, "rope_theta": 9.0},
            9.0, "dynamic", 2.0,
        ),
    ],
)  # fmt: skip
def test_rotary_fields_of_old_and_new_configurations(fields, base, kind, factor):
    head_dim, context, found_base, scaling = LlamaModel({**FIELDS, **fields}).body.rotary.settings
    assert (head_dim, context, found_base) == (4, 16, base)
    assert (scaling["rope_type"], scaling.get("factor")) == (kind, factor)


def test_the_trained_length_is_the_longest_position_unless_it_is_given():
    rope = {"rope_type": "yarn", "factor": 4.0}
    for more, expected in (({}, 16), ({"original_max_position_embeddings": 5}, 5)):
        model = LlamaModel({**FIELDS, "rope_parameters": rope, **more})
        assert model.body.rotary.settings[3]["original_max_position_embeddings"] == expected


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"rope_scaling": {"rope_type": "longrope"}}, "longrope"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_act": "nonsense"}, "nonsense"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(changes, message):
    with pytest.raises(ArgumentError, match=message):
        LlamaModel({**FIELDS, **changes})


def test_the_row_of_the_padding_token_does_not_learn(ids, device):
    model = LlamaForCausalLM({**FIELDS, "pad_token_id": 3}).double().to(device)
    texts = mt.tensor([[3, 1, 2, 3]], device=device)
    model(texts).logits.square().sum().backward()
    grad = model.body.token_embedding.weight.grad.numpy()
    assert not grad[3].any() and grad[1].any() and grad[2].any()


def test_caches_go_in_as_objects_and_as_tuples(model, ids):
    whole = model(ids).logits.numpy()
    first = model(ids[:, :3])
    as_tuples = tuple(first.past_key_values)
    assert as_tuples[1][0].shape == (3, 1, 3, 4)  # (batch, key heads, token, head_dim)
    for past in (as_tuples, first.past_key_values):
        close(model(ids[:, 3:], past_key_values=past).logits.numpy(), whole[:, 3:])
    assert model(ids, use_cache=False).past_key_values is None


def test_padding_in_front_changes_nothing(model, ids, device):
    """Only distances count, so that positions need not be given."""
    padding = mt.tensor(np.full((3, 2), 4), device=device)
    mask = mt.tensor([[0, 0, 1, 1, 1, 1, 1]] * 3, device=device)
    padded = model(mt.cat((padding, ids), 1), attention_mask=mask)
    np.testing.assert_allclose(
        padded.logits.numpy()[:, 2:], model(ids).logits.numpy(), rtol=1e-9, atol=1e-12
    )


def test_collected_outputs(model, ids):
    output = model(ids, labels=ids, output_hidden_states=True, output_attentions=True)
    assert [w.shape for w in output.attentions] == [(3, 3, 5, 5)] * 2
    assert [x.shape for x in output.hidden_states] == [(3, 5, 6)] * 3
    close(output.hidden_states[0].numpy(), model.body.token_embedding(ids).numpy())
    close(output.hidden_states[2].numpy() @ model.body.head.weight.numpy().T, output.logits.numpy())
    embeds = model(inputs_embeds=output.hidden_states[0].detach())
    close(embeds.logits.numpy(), output.logits.numpy())


def test_the_other_heads(ids, device):
    fields = {**FIELDS, "pad_token_id": 0}
    shapes = {
        LlamaForSequenceClassification: {"logits": (3, 2)},
        LlamaForTokenClassification: {"logits": (3, 5, 2)},
        LlamaForQuestionAnswering: {"start_logits": (3, 5), "end_logits": (3, 5)},
    }
    for cls, expected in shapes.items():
        output = cls(fields).eval().to(device)(ids, return_dict=True)
        found = {k: v.shape for k, v in output.items() if k != "past_key_values"}
        assert found == expected
    assert any(name.startswith("transformer.") for name in cls(fields).peer_state())


def test_generating_with_and_without_a_cache(model, ids):
    cached = model.generate(ids[:, :2], max_new_tokens=4, min_new_tokens=4)
    again = model.generate(ids[:, :2], max_new_tokens=4, min_new_tokens=4, use_cache=False)
    assert cached.shape == (3, 6) and (cached.numpy() == again.numpy()).all()
