"""Generation settings: which are supported, and which raise an error."""

import pytest
from generation.tiny import Table, gpt2

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation import GenerationConfig, generate
from minitorch_attn.generation.config import DEFAULTS, resolve


def model(stored=None, **config):
    model = Table([[0.0]], **config)
    model.generation_config = stored or {}
    return model


def test_defaults():
    config = resolve(model(), None, {})
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS
    assert not config.own_max_length and not config.own_min_length


def test_the_nearest_layer_holds():
    given = GenerationConfig(top_k=3, temperature=0.5, do_sample=True)
    stored = {"top_k": 2, "temperature": 0.4, "num_beams": 4, "max_length": None}
    config = resolve(model(stored, num_beams=7, min_length=3), given, {"top_k": 9})
    assert (config.top_k, config.temperature, config.num_beams) == (9, 0.5, 4)
    assert config.min_length == 0  # generation_config.json replaces config.json
    assert not config.own_max_length
    assert given.to_dict() == {"top_k": 3, "temperature": 0.5, "do_sample": True}
    assert resolve(model(num_beams=7, min_length=3), None, {}).num_beams == 7
    assert resolve(model(min_length=3), None, {}).own_min_length
    assert resolve(model(GenerationConfig(max_length=5)), None, {}).own_max_length
    unset = resolve(model({"eos_token_id": 3}), None, {"eos_token_id": None})
    assert unset.eos_token_id is None  # said on purpose


def test_fields_of_real_files():
    stored = {
        "_from_model_config": True, "transformers_version": "4.27.0", "alignment_heads": [[1, 2]],
        "num_beam_groups": 1, "diversity_penalty": 0.0, "cache_implementation": None,
    }  # fmt: skip
    config = resolve(model(stored), None, {})
    assert config.alignment_heads == [[1, 2]]
    for name, value in (("penalty_alpha", 0.6), ("num_beam_groups", 2), ("token_healing", True)):
        with pytest.raises(ArgumentError, match=name):
            resolve(model({name: value}), None, {})


def test_a_config_knows_its_fields():
    config = GenerationConfig(max_length=3)
    assert config.num_beams is None and config == GenerationConfig(max_length=3)
    assert config != GenerationConfig(max_length=4)
    assert repr(config) == "GenerationConfig(max_length=3)"
    with pytest.raises(AttributeError, match="num_beam'"):
        config.num_beam  # noqa: B018


def test_attention_in_the_configuration_is_returned():
    config = resolve(model(output_attentions=True), None, {})
    assert config.return_dict_in_generate


def test_none():
    """None as an argument turns off what can be off."""
    assert resolve(model({"top_k": 5}), None, {"top_k": None}).top_k is None
    assert resolve(model({"num_beams": 5}), None, {"num_beams": None}).num_beams == 5
    ids = mt.tensor([[0]])
    settings = {"temperature": None, "top_k": None, "top_p": None, "do_sample": True,
                "repetition_penalty": None, "min_length": None, "max_length": None}  # fmt: skip
    assert generate(model(), ids, max_new_tokens=1, seed=0, **settings).shape == (1, 2)


def test_settings_are_saved_with_the_model(tmp_path):
    made = gpt2(dtype="float32")
    for i, settings in enumerate(({"num_beams": 3}, GenerationConfig(num_beams=3))):
        made.generation_config = settings
        made.save_pretrained(tmp_path / str(i))
        read = mt.models.from_pretrained(tmp_path / str(i))
        assert read.generation_config == {"num_beams": 3}
        assert resolve(read, None, {}).num_beams == 3
