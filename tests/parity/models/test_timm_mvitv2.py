"""MViTv2 against timm: random sizes, strides, class token, pooling; all published sizes."""

import numpy as np
import pytest
import torch
from parity.models.peers import compare, opened, randomise, timm_outputs

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models.pretrained.timm_mvitv2 import _CFG, class_for
from minitorch_attn.nn.init import skip_init

MODES = ["conv", "conv", "max", "avg"]
NAMES = ["mvitv2_tiny", "mvitv2_large", "mvitv2_base_cls"]


@pytest.fixture
def pair(timm, tmp_path):
    """pair(cfg, args): timm's model with random weights, and ours from its folder."""
    from timm.models.mvitv2 import MultiScaleVit, MultiScaleVitCfg

    def make(cfg, args, seed=0):
        peer = randomise(MultiScaleVit(MultiScaleVitCfg(**cfg), **args), seed)
        config = {
            "architecture": "mvitv2_tiny",
            "num_classes": args.get("num_classes", 1000),
            "model_args": {"cfg": cfg, **args},
            "pretrained_cfg": {"input_size": [args.get("in_chans", 3), 7, 7]},
        }
        return peer, opened(peer, tmp_path, **config)

    return make


def draw(rng):
    """Settings with at most three stages, on maps that their strides divide."""
    stages, heads = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    steps = [(1, 1), *[(2, 2) if rng.random() < 0.8 else (1, 1) for _ in range(stages - 1)]]
    cfg = dict(
        depths=[int(n) for n in rng.integers(1, 3, stages)], embed_dim=2 * heads * 3,
        num_heads=heads, mlp_ratio=float(rng.choice([1.0, 2.5])), stride_q=steps,
        expand_attn=bool(rng.random() < 0.6), qkv_bias=bool(rng.random() < 0.7),
        use_cls_token=bool(rng.random() < 0.5), use_abs_pos=bool(rng.random() < 0.4),
        residual_pooling=bool(rng.random() < 0.7), mode=str(rng.choice(MODES)),
        kernel_qkv=[(1, 1), (3, 3), (3, 3)][int(rng.integers(3))],
        stride_kv_adaptive=[(1, 1), (2, 2), (4, 4)][int(rng.integers(3))],
        patch_kernel=(3, 3), patch_stride=(2, 2), patch_padding=(1, 1),
        rel_pos_type=str(rng.choice(["spatial", "spatial", ""])),
        norm_layer=str(rng.choice(["layernorm", "rmsnorm"])),
        norm_eps=float(rng.choice([1e-6, 1e-3])),
    )  # fmt: skip
    if rng.random() < 0.3:
        cfg["embed_dim"] = [2 * heads * 2**i * int(rng.integers(1, 4)) for i in range(stages)]
        cfg["stride_kv"] = [(2, 2) if rng.random() < 0.5 else (1, 1) for _ in range(stages)]
        cfg["num_heads"] = [heads * 2**i for i in range(stages)]
    args = dict(
        img_size=2 * 4 * int(rng.integers(1, 3)), in_chans=int(rng.integers(1, 4)),
        num_classes=int(rng.choice([0, 5])),
        global_pool=["", "avg", "token", None][int(rng.integers(4 if cfg["use_cls_token"] else 2))],
    )  # fmt: skip
    return cfg, args


@pytest.mark.parametrize("seed", range(10))
def test_drawn_models(seed, pair):
    rng = np.random.default_rng(seed)
    cfg, args = draw(rng)
    peer, ours = pair(cfg, args, seed)
    x = rng.normal(size=(2, args["in_chans"], args["img_size"], args["img_size"]))
    compare(peer, ours, {"x": x}, call=timm_outputs)


def test_maps_whose_sizes_do_not_divide_each_other(pair):
    """Seven queries and five keys: the distances are fractions, which are cut off."""
    cfg = dict(
        depths=[1], embed_dim=6, num_heads=2, stride_q=[(2, 2)], stride_kv=[(3, 3)],
        kernel_qkv=(3, 3), patch_kernel=(1, 1), patch_stride=(1, 1), patch_padding=(0, 0),
    )  # fmt: skip
    rng = np.random.default_rng(4)
    for size in (14, 15):
        if size == 15:  # 8 queries, but timm's tables are made for 7
            cfg["stride_q"], cfg["stride_kv"] = [(1, 1)], [(4, 4)]
        peer, ours = pair(cfg, {"img_size": size, "num_classes": 5})
        compare(peer, ours, {"x": rng.normal(size=(1, 3, size, size))}, call=timm_outputs)


@pytest.mark.parametrize("rates", [{"drop_rate": 1.0}, {"drop_path_rate": 1.0}])
def test_where_dropout_stands(rates, pair):
    """With a probability of one nothing is left to chance; the last of two paths is dropped."""
    cfg = dict(
        depths=[1, 1], embed_dim=6, stride_q=[(1, 1), (2, 2)], patch_kernel=(3, 3),
        patch_stride=(2, 2), patch_padding=(1, 1),
    )  # fmt: skip
    peer, ours = pair(cfg, {"img_size": 8, "num_classes": 5, **rates})
    peer.train(), ours.train()
    x = np.random.default_rng(3).normal(size=(2, 3, 8, 8))
    compare(peer, ours, {"x": x}, call=timm_outputs)


@pytest.mark.parametrize("name", NAMES)
def test_published_sizes(name, timm):
    from timm.models import mvitv2

    with torch.device("meta"):
        peer = getattr(mvitv2, name)()
    with skip_init():
        config = {"architecture": f"{name}.tag", "num_classes": peer.num_classes}
        ours = class_for(name)(config)
    theirs = {key: tuple(value.shape) for key, value in peer.state_dict().items()}
    own = {key: tensor.shape for key, tensor in ours._own_tensors().items()}
    assert ours.names().stored_shapes(own) == theirs
    assert ours.num_parameters() == sum(p.numel() for p in peer.parameters())


def test_every_architecture_has_timms_settings(timm):
    from dataclasses import asdict

    from timm.models.mvitv2 import MultiScaleVitCfg, model_cfgs

    entries = class_for("mvitv2_tiny").entry_points
    assert set(entries) == set(model_cfgs)
    for name, entry in entries.items():
        assert asdict(MultiScaleVitCfg(**entry["cfg"])) == asdict(model_cfgs[name]), name
    names = MultiScaleVitCfg.__dataclass_fields__
    assert {name: field.default for name, field in names.items()} == _CFG


def test_what_timm_cannot_run(pair):
    cfg = dict(depths=[1], embed_dim=6, num_heads=2, stride_q=[(1, 1)])
    for wrong in ({"pool_first": True}, {"mode": "conv_unshared"}):
        with pytest.raises(ArgumentError, match="the type of pooling"):
            class_for("mvitv2_tiny")(
                {"architecture": "mvitv2_tiny", "model_args": {"cfg": {**cfg, **wrong}}}
            )


def test_folders_in_and_out(pair, tmp_path):
    cfg = dict(depths=[1, 1], embed_dim=4, stride_q=[(1, 1), (2, 2)], use_cls_token=True)
    peer, ours = pair(cfg, {"img_size": 16})
    ours.save_pretrained(tmp_path / "again")
    _, saved = mt.serialization.read_safetensors(tmp_path / "again" / "model.safetensors")
    for name, value in peer.state_dict().items():
        np.testing.assert_array_equal(saved[name], value.numpy(), err_msg=name)
    assert saved.keys() == peer.state_dict().keys()
