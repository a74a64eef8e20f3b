"""Swin and Swin V2 against timm: random maps, windows, shifts, heads; all published sizes."""

import numpy as np
import pytest
import torch
from parity.models.peers import compare, opened, randomise, timm_outputs

from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models.pretrained.timm_swin import class_for
from minitorch_attn.nn.init import skip_init

POOLS = ["avg", "max", "avgmax", "catavgmax", "fast", ""]
FAMILIES = ["swin", "swinv2"]
NAMES = {"swin": "swin_tiny_patch4_window7_224", "swinv2": "swinv2_tiny_window8_256"}


@pytest.fixture(autouse=True)
def coordinates_in_float64(monkeypatch):
    """The peer makes its log-spaced coordinates in float32; here they are float64."""
    arange = torch.arange

    def wide(*args, dtype=None, **kwargs):
        dtype = torch.float64 if dtype is torch.float32 else dtype
        return arange(*args, dtype=dtype, **kwargs)

    monkeypatch.setattr(torch, "arange", wide)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def pair(timm, tmp_path, monkeypatch):
    """pair(family, args): timm's model with random weights, and ours from its folder."""
    from timm.models import swin_transformer, swin_transformer_v2

    # The registry imports torchvision, which the models do not use.
    classes = {
        "swin": swin_transformer.SwinTransformer,
        "swinv2": swin_transformer_v2.SwinTransformerV2,
    }

    def make(family, args, seed=0):
        peer = randomise(classes[family](**args), seed)
        config = {
            "architecture": NAMES[family],
            "num_classes": args.get("num_classes", 1000),
            "model_args": args,
            "pretrained_cfg": {"input_size": [args.get("in_chans", 3), 7, 7]},
        }
        return peer, opened(peer, tmp_path, **config)

    return make


def draw_args(family, rng, **fixed):
    stages, patch = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    heads = [int(rng.integers(1, 3)) for _ in range(stages)]
    sizes = [int(n) for n in rng.integers(2, 5, 2)]
    windows = [sizes[0], tuple(sizes), tuple(int(n) for n in rng.integers(2, 5, stages))]
    args = dict(
        img_size=tuple(int(n) for n in rng.integers(4 * patch, 13 * patch, 2)), patch_size=patch,
        in_chans=int(rng.integers(1, 4)), num_classes=int(rng.choice([0, 5])),
        global_pool=str(rng.choice(POOLS)), embed_dim=2 * int(rng.integers(2, 5)),
        depths=[int(n) for n in rng.integers(1, 4, stages)], num_heads=heads,
        window_size=windows[int(rng.integers(3))], always_partition=bool(rng.random() < 0.3),
        mlp_ratio=float(rng.choice([1.0, 2.0])), qkv_bias=bool(rng.random() < 0.7),
    )  # fmt: skip
    if family == "swin":
        if rng.random() < 0.4:
            args["head_dim"] = int(rng.integers(2, 5))
        if rng.random() < 0.3:
            args["mlp_ratio"] = [float(n) for n in rng.integers(1, 4, stages)]
    else:
        args["act_layer"] = str(rng.choice(["gelu", "relu", "silu", "gelu_tanh"]))
        args["pretrained_window_sizes"] = [int(n) for n in rng.integers(0, 5, stages)]
    return {**args, **fixed}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(15))
def test_drawn_models(family, seed, pair):
    rng = np.random.default_rng(seed)
    args = draw_args(family, rng)
    peer, ours = pair(family, args, seed)
    x = rng.normal(size=(2, args["in_chans"], *args["img_size"]))
    compare(peer, ours, {"x": x}, call=timm_outputs)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flag", [{"strict_img_size": False}, {"dynamic_img_size": True}])
def test_images_of_other_sizes(family, seed, flag, pair):
    rng = np.random.default_rng(seed)
    args = draw_args(family, rng, img_size=8, patch_size=1, window_size=3, **flag)
    peer, ours = pair(family, args, seed)
    size = [int(n) for n in rng.integers(2, 14, 2)]
    x = rng.normal(size=(2, args["in_chans"], *size))
    compare(peer, ours, {"x": x}, call=timm_outputs)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "field", ["drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate"]
)
def test_where_dropout_stands(family, field, pair):
    """With a probability of one nothing is left to chance; the last of two paths is dropped."""
    rng = np.random.default_rng(12)
    args = dict(
        img_size=(9, 14), patch_size=1, in_chans=2, num_classes=5, depths=[1, 1],
        num_heads=[1, 2], embed_dim=4, window_size=3, drop_path_rate=0.0,
    )  # fmt: skip
    peer, ours = pair(family, {**args, field: 1.0})
    peer.train(), ours.train()
    compare(
        peer,
        ours,
        {"x": rng.normal(size=(2, args["in_chans"], *args["img_size"]))},
        call=timm_outputs,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_what_timm_refuses(family, pair):
    rng = np.random.default_rng(1)
    args = draw_args(family, rng, img_size=8, patch_size=2, in_chans=1)
    peer, ours = pair(family, args)
    with pytest.raises(AssertionError):
        peer(torch.zeros(1, 1, 10, 8))
    with pytest.raises(ShapeError, match="does not match the model"):
        compare(peer, ours, {"x": np.zeros((1, 1, 10, 8))}, call=_only_ours(ours))
    peer, ours = pair(family, {**args, "strict_img_size": False})
    with pytest.raises(AssertionError):
        peer(torch.zeros(1, 1, 9, 8))
    with pytest.raises(ShapeError, match="is not divisible by the patch size"):
        compare(peer, ours, {"x": np.zeros((1, 1, 9, 8))}, call=_only_ours(ours))


def _only_ours(ours):
    return lambda model, **inputs: model(**inputs) if model is ours else {}


def test_arguments_that_timm_does_not_have():
    config = {"architecture": NAMES["swin"], "model_args": {"ape": True}}
    with pytest.raises(ArgumentError, match="ape=True"):
        class_for(NAMES["swin"])(config)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_architecture_has_timms_arguments(family, timm):
    """The tables of sizes against the functions of timm's module, which are called with a spy."""
    from timm.models import swin_transformer, swin_transformer_v2

    module = {"swin": swin_transformer, "swinv2": swin_transformer_v2}[family]
    create = f"_create_{'swin_transformer' if family == 'swin' else 'swin_transformer_v2'}"
    names = sorted({name.partition(".")[0] for name in module.default_cfgs})
    assert set(names) == set(class_for(names[0]).entry_points)
    for name in names:
        given = {}
        original = getattr(module, create)
        setattr(module, create, lambda variant, pretrained, given=given, **kw: given.update(kw))
        try:
            getattr(module, name)()
        finally:
            setattr(module, create, original)
        about = module.default_cfgs[name].default.to_dict()
        given["img_size"] = about["input_size"][-1]
        cls = class_for(name)
        ours = {**cls.arguments, **cls.entry_points[name]}
        assert {key: ours[key] for key in given} == given, name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_architecture_has_timms_tensors(family, timm):
    """All names and shapes, so the counts of parameters too, of every published size."""
    from timm.models import swin_transformer, swin_transformer_v2

    peers = {
        "swin": swin_transformer.SwinTransformer,
        "swinv2": swin_transformer_v2.SwinTransformerV2,
    }
    for name, args in class_for(NAMES[family]).entry_points.items():
        with torch.device("meta"):
            theirs = peers[family](**args).state_dict()
        with skip_init():
            ours = class_for(name)({"architecture": name})
        shapes = {key: tensor.shape for key, tensor in ours._own_tensors().items()}
        expected = {key: tuple(tensor.shape) for key, tensor in theirs.items()}
        assert ours.names().stored_shapes(shapes) == expected, name
