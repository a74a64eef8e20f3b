"""The timm interface of Swin and Swin V2: arguments, names, small maps, files of the authors."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models.pretrained.timm_interface import ClassifierHead
from minitorch_attn.models.pretrained.timm_swin import (
    SwinTransformer,
    SwinTransformerV2,
    class_for,
)
from minitorch_attn.serialization import read_safetensors, write_safetensors

NAMES = ["swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256"]
ARGS = {
    "img_size": 10, "patch_size": 2, "in_chans": 2, "embed_dim": 6, "depths": [1, 2],
    "num_heads": [2, 3], "window_size": 4, "num_classes": 5,
}  # fmt: skip


def config_of(name, **changes):
    return {"architecture": name, "model_args": {**ARGS, **changes}, "num_classes": 5}


def make_model(name, device="cpu", **changes):
    mt.manual_seed(4)
    model = class_for(name)(config_of(name, **changes)).double().eval()
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.3)
    return model.to(device)


@pytest.fixture
def images(rng, device):
    return mt.tensor(rng.normal(size=(2, 2, 10, 10)), device=device)


@pytest.mark.parametrize("name", NAMES)
def test_features_and_head(name, images, device):
    model = make_model(name, device)
    features = model.forward_features(images)
    assert features.shape == (2, 3, 3, 12)  # 10 / 2 = 5, and half of it, rounded up
    np.testing.assert_array_equal(model(images).numpy(), model.forward_head(features).numpy())
    pooled = model.forward_head(features, pre_logits=True)
    np.testing.assert_allclose(pooled.numpy(), features.numpy().mean((1, 2)), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_windows_fit_the_map_along_each_axis(name):
    model = make_model(name, img_size=(6, 20))
    windows = [(s.blocks[-1].window_size, s.blocks[-1].shift_size) for s in model.model.stages]
    assert windows == [((3, 4), (0, 0)), ((2, 4), (0, 2))]
    model = make_model(name, img_size=(6, 20), always_partition=True)
    assert [s.blocks[-1].window_size for s in model.model.stages] == [(4, 4), (4, 4)]
    model = make_model(name, img_size=20, window_size=[3, 2])  # height and width, of both stages
    assert [s.blocks[-1].window_size for s in model.model.stages] == [(3, 2), (3, 2)]


@pytest.mark.parametrize("name", NAMES)
def test_maps_are_padded_behind_the_shift(name, rng):
    block = make_model(name, img_size=10, window_size=3).model.stages[1].blocks[1]
    assert (block.window_size, block.shift_size) == ((3, 3), (0, 0))
    block.shift_size = (1, 1)
    x = rng.normal(size=(1, 4, 4, 12))
    block.attention.blocked_score = 0.0  # regions do not matter here
    once = block.attend(mt.tensor(x)).numpy()
    by_hand = np.zeros((1, 6, 6, 12))
    by_hand[:, :4, :4] = np.roll(x, (-1, -1), (1, 2))
    block.shift_size = (0, 0)
    expected = np.roll(block.attend(mt.tensor(by_hand)).numpy()[:, :4, :4], (1, 1), (1, 2))
    np.testing.assert_allclose(once, expected, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_folders_in_and_out(name, images, device, tmp_path):
    model = make_model(name, device)
    model.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written == config_of(name)  # and no model_type, which timm does not have
    again = mt.models.from_pretrained(tmp_path, device=device)
    np.testing.assert_array_equal(again(images).numpy(), model(images).numpy())


def test_names_of_the_peer():
    state = make_model(NAMES[0]).peer_state()
    assert state["layers.1.blocks.1.attn.qkv.weight"].shape == (36, 12)
    assert state["layers.1.blocks.1.attn.qkv.bias"].shape == (36,)
    assert state["layers.1.downsample.norm.weight"].shape == (24,)
    assert state["layers.0.blocks.0.attn.relative_position_bias_table"].shape == (49, 2)
    assert state["layers.1.blocks.0.attn.relative_position_bias_table"].shape == (25, 3)
    assert state["head.fc.weight"].shape == (5, 12)
    state = make_model(NAMES[1]).peer_state()
    block = "layers.1.blocks.1.attn."
    assert {name for name in state if name.startswith(block)} == {
        block + name
        for name in (
            "qkv.weight", "q_bias", "v_bias", "logit_scale", "cpb_mlp.0.weight", "cpb_mlp.0.bias",
            "cpb_mlp.2.weight", "proj.weight", "proj.bias",
        )
    }  # fmt: skip
    assert state["layers.1.downsample.norm.weight"].shape == (12,)


@pytest.mark.parametrize("name", NAMES)
def test_the_authors_files(name, images, device, tmp_path):
    """They merge patches behind a stage, call the head otherwise, and keep buffers."""
    model = make_model(name, device)
    model.save_pretrained(tmp_path)
    arrays = {}
    for key, array in read_safetensors(tmp_path / "model.safetensors")[1].items():
        key = key.replace("layers.1.downsample", "layers.0.downsample")
        arrays[key.replace("head.fc", "head")] = array
    arrays["layers.0.blocks.0.attn.relative_position_index"] = np.zeros((16, 16), "int64")
    arrays["layers.0.blocks.1.attn_mask"] = np.zeros((4, 16, 16), "float32")
    write_safetensors(tmp_path / "model.safetensors", arrays)
    again = mt.models.from_pretrained(tmp_path, device=device)
    np.testing.assert_array_equal(again(images).numpy(), model(images).numpy())


def test_arguments_that_follow_from_the_weights():
    about = {"input_size": [1, 16, 24], "fixed_input_size": True, "num_classes": 7}
    sizes = {key: ARGS[key] for key in ("embed_dim", "depths", "num_heads")}

    def arguments(**fields):
        config = {"architecture": NAMES[1] + ".ms_in1k", "model_args": sizes, **fields}
        model = SwinTransformerV2(config)
        return model.image_size, model.model.patch_embedding.projection.in_channels, model.head

    size, channels, head = arguments(pretrained_cfg=about)
    assert (size, channels, head.linear.weight.shape[0]) == ((16, 24), 1, 7)
    size, _, head = arguments(pretrained_cfg={**about, "fixed_input_size": False}, num_classes=3)
    assert (size, head.linear.weight.shape[0]) == ((224, 224), 3)  # timm's class has 224
    assert arguments()[0] == (256, 256)
    assert arguments(**about)[0] == (16, 24)  # older folders have it without a pretrained_cfg


def test_names_of_architectures():
    assert class_for("swin_s3_base_224.ms_in1k") is SwinTransformer
    assert class_for("swinv2_large_window12to24_192to384_22kft1k") is SwinTransformerV2
    assert class_for("swin_base_patch4_window7_224_in22k") is SwinTransformer
    with pytest.raises(ArgumentError, match="swinv2_cr_tiny_224"):
        class_for("swinv2_cr_tiny_224")


def test_what_is_refused(images):
    with pytest.raises(ArgumentError, match="ape=True"):
        make_model(NAMES[0], ape=True)
    with pytest.raises(ArgumentError, match="global_pool"):
        make_model(NAMES[0], global_pool="median")
    with pytest.raises(ShapeError, match="does not match the model's"):
        make_model(NAMES[0], img_size=12)(images.to("cpu"))
    with pytest.raises(ShapeError, match="not divisible by the patch size"):
        make_model(NAMES[0], patch_size=3, dynamic_img_size=True)(images.to("cpu"))
    larger = mt.zeros(1, 2, 18, 10, dtype=mt.float64)
    assert make_model(NAMES[0], dynamic_img_size=True).forward_features(larger).shape[1:3] == (5, 3)


@pytest.mark.parametrize("pool", ["avg", "fast", "max", "avgmax", "catavgmax", ""])
def test_pools(pool, make, device):
    x = make(2, 3, 5, 4)
    head = ClassifierHead(4, 0, pool).to(device)
    mean, largest = x.numpy().mean((1, 2)), x.numpy().max((1, 2))
    expected = {
        "avg": mean, "fast": mean, "max": largest, "avgmax": (mean + largest) / 2,
        "catavgmax": np.concatenate([mean, largest], 1), "": x.numpy(),
    }  # fmt: skip
    np.testing.assert_allclose(head(x).numpy(), expected[pool], atol=1e-12)
