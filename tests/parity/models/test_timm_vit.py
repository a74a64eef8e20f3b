"""ViT and DeiT against timm: every argument, random configurations, architecture names."""

import functools

import numpy as np
import pytest
import torch
from parity.models.peers import check_same_tensors, compare, opened, randomise

from minitorch_attn.errors import ArgumentError
from minitorch_attn.models.pretrained.timm_vit import class_for
from minitorch_attn.models.pretrained.timm_vit_sizes import DISTILLED, PLAIN

BATCH = 3
SIZES = dict(img_size=12, patch_size=4, embed_dim=12, depth=2, num_heads=3, num_classes=5)
# What later papers changed, one at a time.
CHANGES = [
    {},
    dict(global_pool="avg"),
    dict(global_pool="avg", fc_norm=False, class_token=False),
    dict(global_pool="avgmax", reg_tokens=2),
    dict(global_pool="max", pool_include_prefix=True),
    dict(global_pool="", fc_norm=True),
    dict(global_pool="map", class_token=False, mlp_ratio=1.5),
    dict(global_pool="map", reg_tokens=2, pool_include_prefix=True, act_layer="silu"),
    dict(global_pool="prr"),
    dict(global_pool="prr", class_token=False),
    dict(fc_norm=True),
    dict(final_norm=False),
    dict(final_norm=False, global_pool="avg"),
    dict(no_embed_class=True, reg_tokens=3),
    dict(pos_embed="none"),
    dict(pos_embed="", class_token=False, reg_tokens=1, global_pool="avg"),
    dict(init_values=0.3),
    dict(qkv_bias=False, proj_bias=False),
    dict(qk_norm=True),
    dict(qk_norm=True, norm_layer="rmsnorm"),
    dict(scale_attn_norm=True, scale_mlp_norm=True),
    dict(pre_norm=True, embed_norm_layer="layernorm"),
    dict(act_layer="quick_gelu", norm_layer="layer_norm", mlp_ratio=2.3),
    dict(act_layer="gelu_tanh", in_chans=2),
    dict(num_classes=0),
    dict(img_size=[8, 12], patch_size=[2, 3]),
    dict(img_size=14, dynamic_img_size=False),
]


@pytest.fixture(autouse=True)
def float64(monkeypatch):
    """timm interpolates positions in float32; here in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def pair(timm, seed, folder, distilled=False, **changes):
    args = {**SIZES, **changes}
    name = "deit_base_distilled_patch16_224" if distilled else "vit_base_patch16_224"
    module = timm.models.deit if distilled else timm.models.vision_transformer
    cls = module.VisionTransformerDistilled if distilled else module.VisionTransformer
    peer = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in args.items()})
    peer = randomise(peer, seed)
    for block in peer.modules():  # the other path of timm is PyTorch's fused operation
        block.fused_attn = False
    return peer, opened(peer, folder, architecture=name, model_args=args)


def images_of(rng, peer, height=None, width=None):
    size = peer.patch_embed.img_size
    shape = (BATCH, peer.in_chans, height or size[0], width or size[1])
    return {"x": rng.normal(size=shape)}


def by_parts(model, x, pre_logits=False, **masks):
    features = model.forward_features(x, **masks)
    return {"features": features, "logits": model.forward_head(features, pre_logits=pre_logits)}


def whole(model, x):
    return model(x)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_every_argument(timm, changes, tmp_path):
    rng = np.random.default_rng(len(str(changes)))
    peer, ours = pair(timm, 5, tmp_path, **changes)
    inputs = images_of(rng, peer)
    compare(peer, ours, inputs, call=by_parts)
    compare(peer, ours, inputs, call=by_parts, pre_logits=True)
    compare(peer, ours, inputs, call=whole)


@pytest.mark.parametrize("distilled", [False, True])
@pytest.mark.parametrize("rate", ["drop", "pos_drop", "proj_drop", "attn_drop", "drop_path"])
def test_where_dropout_stands(timm, rate, distilled, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    changes = {f"{rate}_rate": 1.0, "init_values": 0.3}
    peer, ours = pair(timm, 9, tmp_path, distilled, **changes)
    compare(peer.train(), ours.train(), images_of(np.random.default_rng(9), peer), call=by_parts)


@pytest.mark.parametrize("seed", range(8))
def test_drawn(timm, seed, tmp_path):
    rng = np.random.default_rng(seed)

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    pool, patch = one_of("token", "avg", "max", "map"), int(rng.integers(2, 5))
    token = pool == "token" or bool(rng.random() < 0.5)
    changes = dict(
        img_size=patch * int(rng.integers(2, 5)), patch_size=patch, global_pool=pool,
        depth=one_of(1, 2, 3), class_token=token, reg_tokens=one_of(0, 1, 3),
        fc_norm=one_of(None, True, False), no_embed_class=one_of(True, False),
        init_values=one_of(None, 0.2), qkv_bias=one_of(True, False), qk_norm=one_of(True, False),
        pre_norm=one_of(True, False), final_norm=one_of(True, True, False),
        mlp_ratio=one_of(1.5, 2.0, 3.3), act_layer=one_of(None, "relu", "silu"),
        norm_layer=one_of(None, "rmsnorm"), in_chans=one_of(1, 3),
        pool_include_prefix=one_of(True, False),
    )  # fmt: skip
    peer, ours = pair(timm, seed, tmp_path, **changes)
    compare(peer, ours, images_of(rng, peer), call=by_parts)


@pytest.mark.parametrize("distilled", [False, True])
@pytest.mark.parametrize("height, width", [(12, 12), (8, 20), (4, 16)])
def test_other_sizes(timm, distilled, height, width, tmp_path):
    rng = np.random.default_rng(height)
    peer, ours = pair(timm, 1, tmp_path, distilled, dynamic_img_size=True)
    compare(peer, ours, images_of(rng, peer, height, width), call=by_parts)


@pytest.mark.parametrize("changes", [dict(no_embed_class=True), dict(reg_tokens=2)], ids=str)
def test_other_sizes_are_padded(timm, changes, tmp_path):
    rng = np.random.default_rng(2)
    changes |= dict(dynamic_img_size=True, dynamic_img_pad=True)
    peer, ours = pair(timm, 2, tmp_path, **changes)
    compare(peer, ours, images_of(rng, peer, 9, 15), call=by_parts)


@pytest.mark.parametrize(
    "changes",
    [{}, dict(init_values=0.3, qk_norm=True), dict(reg_tokens=2), dict(fc_norm=True),
     dict(num_classes=0), dict(pos_embed="none", qkv_bias=False)],
    ids=str,
)  # fmt: skip
def test_distilled(timm, changes, tmp_path):
    rng = np.random.default_rng(3)
    peer, ours = pair(timm, 3, tmp_path, True, **changes)
    inputs = images_of(rng, peer)
    compare(peer, ours, inputs, call=by_parts)
    compare(peer, ours, inputs, call=by_parts, pre_logits=True)


def test_distilled_training_gives_both_logits(timm, tmp_path):
    peer, ours = pair(timm, 4, tmp_path, True)
    for model in (peer, ours):
        model.train()
        model.set_distilled_training()
    inputs = images_of(np.random.default_rng(4), peer)
    compare(peer, ours, inputs, call=lambda model, x: {"both": model(x)})


@pytest.mark.parametrize("kind", ["bool", "float", "causal"])
def test_masks(timm, kind, tmp_path):
    rng = np.random.default_rng(6)
    peer, ours = pair(timm, 6, tmp_path)
    inputs, options = images_of(rng, peer), {}
    if kind == "causal":
        options["is_causal"] = True
    else:
        mask = rng.random((10, 10)) < 0.6
        mask[:, 0] = True
        inputs["attn_mask"] = mask if kind == "bool" else rng.normal(size=(1, 3, 10, 10))
    compare(peer, ours, inputs, call=by_parts, **options)


def test_a_folder_keeps_its_names_and_its_configuration(timm, tmp_path):
    changes = dict(init_values=0.3, global_pool="map", reg_tokens=2, qk_norm=True)
    _, ours = pair(timm, 7, tmp_path, **changes)
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")
    written = (tmp_path / "again" / "config.json").read_text()
    assert '"architecture": "vit_base_patch16_224"' in written and "model_type" not in written


def recorded(timm, monkeypatch):
    """name -> (class, arguments) of every architecture in timm's files of ViT and DeiT."""
    found = {}

    class Stop(Exception):
        pass

    def record(cls, variant, pretrained, **arguments):
        found[variant] = (cls.__name__, arguments)
        raise Stop

    for module in (timm.models.vision_transformer, timm.models.deit):
        monkeypatch.setattr(module, "build_model_with_cfg", record)
        for name in timm.list_models(module=module.__name__.split(".")[-1]):
            with pytest.raises(Stop):
                getattr(module, name)()
    return found


def plain(value):
    """A class or a function of timm's as the text that our tables have."""
    if isinstance(value, functools.partial) and value.func.__name__ == "GluMlp":
        return "SwiGLUPacked"
    if isinstance(value, functools.partial):
        return (value.func.__name__.lower(), value.keywords["eps"])
    return value.__name__.lower() if isinstance(value, type) else value


def test_architectures(timm, monkeypatch):
    theirs = recorded(timm, monkeypatch)
    ours = {**PLAIN, **DISTILLED}
    missing = set(theirs) - set(ours)
    others = ("aimv2_", "beit3_", "eva_", "test_vit")
    layouts = ("18x2", "_rpn_", "_xp_", "vit_dlittle", "vit_dpwee", "vit_dwee", "vit_pwee")
    assert {n for n in missing if not n.startswith(others)} == {
        n for n in theirs if any(layout in n for layout in layouts)
    }
    assert set(ours) <= set(theirs)
    for name, entry in ours.items():
        cls, arguments = theirs[name]
        assert class_for(name + ".some_tag").__name__ == cls
        defaults = {**class_for(name).arguments, "img_size": None}
        expected = {**defaults, **{k: plain(v) for k, v in arguments.items() if k in defaults}}
        size = timm.get_pretrained_cfg(name).input_size[-1]
        got = {**defaults, **entry}
        assert got.pop("img_size") == size and expected.pop("img_size") in (None, size), name
        assert got.pop("mlp_ratio") == pytest.approx(expected.pop("mlp_ratio"), 1e-12), name
        assert got == expected, name


def test_unknown_names_and_values_are_refused():
    with pytest.raises(ArgumentError, match="vit_base_patch16_18x2_224"):
        class_for("vit_base_patch16_18x2_224")
    model = class_for("vit_tiny_patch16_224")
    for name, value in (
        ("attn_layer", "diff"), ("norm_layer", "batchnorm"), ("block_fn", "ResPostBlock"),
        ("pos_embed", "rope"), ("class_token", False),
    ):  # fmt: skip
        args = {**SIZES, name: value}
        with pytest.raises(ArgumentError, match=name):
            model({"architecture": "vit_tiny_patch16_224", "model_args": args})
