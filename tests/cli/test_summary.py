"""`mta summary`: published sizes by name, folders, runs."""

import pytest

from minitorch_attn.cli.summary import builders
from minitorch_attn.models import pretrained


@pytest.mark.parametrize(
    ("name", "parameters", "row"),
    [
        ("vit_b_16", "86,567,656", "head (Linear)"),
        ("gpt2_xl", "1,557,611,200", "blocks (ModuleList)"),
        ("transformer_base", "63,082,496", "(1, 128, 37000)"),
        ("swinv2_t", "28,347,154", "(1, 3, 256, 256)"),
    ],
)
def test_published_sizes(name, parameters, row, mta):
    code, out, err = mta("summary", name, "--depth", 1)
    assert (code, err) == (0, "")
    assert f"{parameters} parameters" in out and row in out and "FLOPs for one forward pass" in out


def test_sizes_of_the_input_and_depth(mta):
    out = mta("summary", "vit_ti_16", "--input", "3,3,224,224", "--depth", 0)[1]
    assert "(3, 3, 224, 224)  (3, 1000)" in out and "head" not in out
    assert "(2, 11, 50257)" in mta("summary", "gpt2", "--input", "2,11")[1]


def test_every_builder_is_known_by_name():
    assert {"gpt2", "vit_h_14", "llama3_8b", "t5_v1_1_xxl", "mae_l_16"} <= set(builders())
    assert not {"from_pretrained", "vision_transformer"} & set(builders())


def test_a_folder_needs_its_configuration_only(mta, tmp_path):
    size = {"vocab_size": 11, "n_positions": 7, "n_embd": 6, "n_layer": 1, "n_head": 2}
    pretrained.GPT2LMHeadModel(size).save_pretrained(tmp_path / "small")
    (tmp_path / "small" / "model.safetensors").unlink()
    code, out, err = mta("summary", "small")
    assert (code, err) == (0, "") and "GPT2LMHeadModel" in out and "(1, 7, 11)" in out
    size = {"embed_dim": 6, "depths": [1], "num_heads": [2], "image_size": 16, "window_size": 4}
    pretrained.SwinModel(size).save_pretrained(tmp_path / "swin")
    assert "(1, 3, 16, 16)" in mta("summary", "swin")[1]


def test_an_encoder_decoder_gets_two_inputs(mta, tmp_path):
    size = {"vocab_size": 11, "d_model": 6, "d_kv": 3, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    pretrained.T5ForConditionalGeneration(size).save_pretrained(tmp_path / "t5")
    code, out, err = mta("summary", "t5", "--input", "2,5")
    assert (code, err) == (0, "") and "(2, 5, 11)" in out


def test_a_run(mta, tiny):
    assert mta(*tiny, "--steps", 2)[0] == 0
    code, out, err = mta("summary", "runs/gpt-1")
    assert (code, err) == (0, "") and "model (GPT)" in out and "(1, 8)" in out


def test_what_is_not_there(mta, tmp_path):
    code, out, err = mta("summary", "vit_b16")
    assert code == 1 and "summary vit_b_16" in err and "gpt2_xl" in err
    assert max(map(len, err.splitlines())) <= 100
    assert mta("summary", "vit_b_16", "--input", "1,three")[0] == 2
    code, out, err = mta("summary", "vit_b_16", "--input", "1,3,100,100")
    assert code == 1 and "image size does not match" in err
