"""Fields of config.json and generation_config.json: wrong types and absurd sizes are refused."""

import json

import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.models.pretrained import registry

SIZES = {"vocab_size": 11, "n_positions": 13, "n_embd": 6, "n_layer": 1, "n_head": 2}
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def folder(tmp_path):
    mt.models.pretrained.GPT2LMHeadModel(SIZES).save_pretrained(tmp_path)
    return tmp_path


def changed(path, **fields):
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, **fields}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("architectures", 5), ("architectures", [5]), ("n_embd", None), ("n_embd", "6"),
        ("n_head", True), ("n_head", 0), ("n_layer", 1.0), ("n_layer", -1), ("id2label", 5),
        ("id2label", {"0": 1}), ("layer_norm_epsilon", "1e-5"), ("layer_norm_epsilon", NAN),
        ("layer_norm_epsilon", -1e-5), ("layer_norm_epsilon", 10**400), ("resid_pdrop", 1.5),
        ("resid_pdrop", None), ("tie_word_embeddings", "false"), ("tie_word_embeddings", 0),
        ("activation_function", ["gelu"]), ("vocab_size", 2**63), ("eos_token_id", True),
        ("problem_type", "x"), ("num_beams", "4"), ("hidden_size", "6"), ("initializer_range", INF),
    ],
)  # fmt: skip
def test_wrong_types_are_refused_with_the_path(name, value, folder):
    changed(folder / "config.json", **{name: value})
    with pytest.raises(CheckpointError) as caught:
        mt.models.from_pretrained(folder)
    assert "config.json" in str(caught.value)


def test_a_dict_is_checked_too():
    with pytest.raises(ArgumentError, match="GPT2LMHeadModel: config: the value of n_head"):
        mt.models.pretrained.GPT2LMHeadModel({**SIZES, "n_head": True})
    mt.models.pretrained.GPT2LMHeadModel({**SIZES, "n_inner": None, "made_up": [NAN]})


@pytest.mark.parametrize("name", ["n_layer", "n_embd", "vocab_size", "n_inner"])
@pytest.mark.parametrize("value", [2**31, 2**62])
@pytest.mark.parametrize("strict", [True, False])
def test_a_size_larger_than_the_file_is_not_allocated(name, value, strict, folder):
    changed(folder / "config.json", **{name: value})
    with pytest.raises(CheckpointError, match=f"{name} does not fit the tensors"):
        mt.models.pretrained.GPT2LMHeadModel.from_pretrained(folder, strict=strict)


def test_positions_that_no_memory_holds(folder):
    changed(folder / "config.json", n_positions=2**62)
    with pytest.raises((CheckpointError, ArgumentError), match="could not be (created|allocated)"):
        mt.models.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_args", 5), ("model_args", {"depth": "2"}), ("model_args", {"embed_dim": None}),
        ("num_classes", True), ("pretrained_cfg", {"input_size": [3, 8]}), ("architecture", 5),
        ("model_args", {"depth": 2**31}), ("model_args", {"drop_rate": 2}),
    ],
)  # fmt: skip
def test_timm(name, value, tmp_path):
    sizes = {"img_size": 8, "patch_size": 4, "embed_dim": 6, "depth": 1, "num_heads": 2}
    fields = {"architecture": "vit_base_patch16_224", "num_classes": 5, "model_args": sizes}
    registry.find_timm_class(fields["architecture"])(fields).save_pretrained(tmp_path)
    mt.models.from_pretrained(tmp_path)
    if name == "model_args" and isinstance(value, dict):
        value = {**sizes, **value}
    changed(tmp_path / "config.json", **{name: value})
    with pytest.raises(CheckpointError, match="config.json"):
        mt.models.from_pretrained(tmp_path)


@pytest.mark.parametrize("theta", [0, -0.5, "x"])
def test_rotary_settings(theta):
    sizes = {"vocab_size": 11, "hidden_size": 8, "intermediate_size": 5, "num_hidden_layers": 1}
    sizes["num_attention_heads"] = 2
    for fields in ({"rope_theta": theta}, {"rope_scaling": {"rope_theta": theta}}):
        with pytest.raises(ArgumentError, match="rope_theta"):
            mt.models.pretrained.LlamaModel({**sizes, **fields})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length_penalty", "1"), ("num_beams", True), ("num_beams", 0), ("do_sample", "false"),
        ("temperature", NAN), ("early_stopping", "always"), ("suppress_tokens", [1, "x"]),
        ("bad_words_ids", [1]), ("pad_token_id", [1]), ("max_length", -1), ("sequence_bias", [[1]]),
        ("exponential_decay_length_penalty", [1]), ("stop_strings", 5), ("top_p", -0.1),
    ],
)  # fmt: skip
def test_generation_settings(name, value, folder):
    changed(folder / "generation_config.json", **{name: value})
    with pytest.raises(CheckpointError, match="generation_config.json"):
        mt.models.from_pretrained(folder)


@pytest.mark.parametrize(
    "index",
    [{}, {"weight_map": 5}, {"weight_map": {"a": 5}}, {"weight_map": {"a": {}}},
     {"weight_map": {"a": "a\0b"}}, {"weight_map": {"a": ""}}],
    ids=str,
)  # fmt: skip
def test_an_index_that_does_not_name_files(index, folder):
    changed(folder / "model.safetensors.index.json", **index)
    with pytest.raises(CheckpointError):
        mt.models.from_pretrained(folder)
