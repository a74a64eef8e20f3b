"""The timm interface of ViT and DeiT: architecture names, hub folders, errors."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError, ShapeError
from minitorch_attn.models.pretrained.timm_vit import (
    VisionTransformer,
    VisionTransformerDistilled,
    class_for,
)
from minitorch_attn.nn.init import skip_init
from minitorch_attn.serialization import read_safetensors

SIZES = dict(img_size=8, patch_size=2, embed_dim=6, depth=2, num_heads=2, num_classes=5)


def made(cls=VisionTransformer, architecture=None, **changes):
    mt.manual_seed(5)
    architecture = architecture or next(iter(cls.entry_points))
    config = {"architecture": architecture, "model_args": {**SIZES, **changes}}
    return cls(config).double().eval()


def images(rng, height=8, width=8):
    return mt.tensor(rng.normal(size=(3, 3, height, width)))


def test_names_of_architectures():
    assert class_for("vit_base_patch16_224.augreg2_in21k_ft_in1k") is VisionTransformer
    assert class_for("deit_tiny_patch16_224") is VisionTransformer
    assert class_for("deit_tiny_distilled_patch16_224") is VisionTransformerDistilled
    with pytest.raises(ArgumentError, match="vit_relpos_base_patch16_224"):
        class_for("vit_relpos_base_patch16_224")


@pytest.mark.parametrize(
    "architecture, count",
    [
        ("vit_tiny_patch16_224", 5_717_416),
        ("vit_base_patch16_224", 86_567_656),
        ("vit_base_patch16_384", 86_859_496),
        ("deit3_base_patch16_224", 86_585_320),
        ("deit_base_distilled_patch16_224", 87_338_192),
        ("vit_base_patch16_siglip_224", 93_653_224),
        ("vit_giant_patch14_dinov2", 1_138_016_232),
    ],
)
def test_parameter_counts(architecture, count):
    with skip_init():
        model = class_for(architecture)({"architecture": architecture})
    assert sum(p.array.size for p in model.parameters()) == count


def test_what_a_hub_folder_says():
    """The file's description of the weights goes before the name, model_args before both."""
    about = {"input_size": [1, 16, 24], "fixed_input_size": True, "num_classes": 11}
    config = {"architecture": "vit_tiny_patch16_224.tag", "pretrained_cfg": about}
    args = VisionTransformer({**config, "model_args": {"depth": 1, "patch_size": 8}}).args
    assert (args.in_chans, args.img_size, args.num_classes) == (1, (16, 24), 11)
    assert (args.embed_dim, args.depth, args.patch_size) == (192, 1, 8)
    config["num_classes"] = 7
    model = VisionTransformer({**config, "model_args": {"depth": 1, "in_chans": 2}})
    assert (model.args.in_chans, model.args.num_classes) == (2, 7)


def test_a_folder_and_back(tmp_path, rng):
    model, x = made(init_values=0.3, reg_tokens=2, global_pool="map"), images(rng)
    model.save_pretrained(tmp_path)
    stored = read_safetensors(tmp_path / "model.safetensors")[1]
    assert stored["blocks.1.attn.qkv.weight"].shape == (18, 6)
    assert {"cls_token", "reg_token", "pos_embed", "blocks.0.ls1.gamma"} < set(stored)
    assert {"attn_pool.latent", "attn_pool.kv.bias", "head.weight"} < set(stored)
    assert set(json.loads((tmp_path / "config.json").read_text())) == {"architecture", "model_args"}
    again = mt.models.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again(x).numpy(), model(x).numpy())


def test_missing_tensors_are_listed(tmp_path):
    made().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["model_args"].update(qk_norm=True, num_classes=3)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as caught:
        mt.models.from_pretrained(tmp_path)
    text = str(caught.value)
    assert "missing      blocks.1.attn.q_norm.weight" in text
    assert "wrong shape  head.weight: (5, 6), expected (3, 6)" in text


def test_parts_and_the_whole(rng):
    model, x = made(), images(rng)
    features = model.forward_features(x)
    assert features.shape == (3, 17, 6)
    np.testing.assert_array_equal(model.forward_head(features).numpy(), model(x).numpy())
    np.testing.assert_array_equal(
        model.forward_head(features, pre_logits=True).numpy(), features[:, 0].numpy()
    )


def test_patches_are_dropped_in_training_only(rng):
    model, x = made(patch_drop_rate=0.75, reg_tokens=2), images(rng)
    assert model.forward_features(x).shape == (3, 19, 6)
    assert model.train().forward_features(x).shape == (3, 3 + 4, 6)


@pytest.mark.parametrize("mode", ["", "jax", "jax_nlhb", "moco", "skip"])
def test_first_weights(mode):
    model = made(weight_init=mode, embed_dim=64, num_heads=4)
    weight = model.blocks[0].feed_forward.linear1.weight.numpy()
    expected = {"": 0.02, "skip": (1 / (3 * 64)) ** 0.5}.get(mode, (2 / (64 + 256)) ** 0.5)
    assert weight.std() == pytest.approx(expected, rel=0.05)
    assert (not model.head.weight.numpy().any()) == mode.startswith("jax")
    if mode == "jax_nlhb":
        np.testing.assert_allclose(model.head.bias.numpy(), -np.log(5), rtol=1e-6)
    fixed = made(weight_init=mode, embed_dim=64, num_heads=4, fix_init=True)
    last = [m.blocks[1].attention.out_proj.weight.numpy() for m in (model, fixed)]
    np.testing.assert_allclose(last[1], last[0] / 2, rtol=1e-6)


def test_errors(rng):
    with pytest.raises(ArgumentError, match="block_fn"):
        made(block_fn="ParallelScalingBlock")
    with pytest.raises(ArgumentError, match="attn_layer"):
        made(attn_layer="diff")
    with pytest.raises(ArgumentError, match="requires a class token"):
        made(class_token=False)
    with pytest.raises(ArgumentError, match="global_pool"):
        made(VisionTransformerDistilled, global_pool="avg")
    with pytest.raises(ArgumentError, match="no_embed_class"):
        made(VisionTransformerDistilled, no_embed_class=True)
    with pytest.raises(ArgumentError, match="norm_layer"):
        made(norm_layer="groupnorm")
    with pytest.raises(ShapeError, match="dynamic_img_size"):
        made()(images(rng, 8, 6))
    with pytest.raises(ShapeError, match="dynamic_img_pad"):
        made(dynamic_img_size=True)(images(rng, 8, 7))
