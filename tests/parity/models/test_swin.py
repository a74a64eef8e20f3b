"""Swin and Swin V2 against transformers: random maps, windows, shifts, masks and heads."""

import numpy as np
import pytest
import torch
from parity.models.peers import compare, opened, randomise

from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models.pretrained import SwinModel, Swinv2Model

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

ACTIVATIONS = ["gelu", "gelu_new", "relu", "silu", "quick_gelu"]
FAMILIES = ["Swin", "Swinv2"]


@pytest.fixture(autouse=True)
def all_in_float64(monkeypatch):
    """Where the peer goes to float32 in the middle of a float64 model, it stays in float64."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda x, dim=None, dtype=None: softmax(x, dim)
    )
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def draw_config(family, rng, **fixed):
    """A model of two or three stages, the last of whose maps is at least a window for Swin."""
    stages, patch = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    window = int(rng.integers(2, 5 if stages == 2 else 4))
    smallest = window if family == "Swin" else 2
    least = (smallest - 1) * 2 ** (stages - 1) + 1
    side = int(rng.integers(least, least + 6))
    heads = [int(rng.integers(1, 3)) * 2**i for i in range(stages)]
    config = dict(
        image_size=side * patch, patch_size=patch, num_channels=int(rng.integers(1, 4)),
        embed_dim=int(np.lcm.reduce([-(-h // 2**i) for i, h in enumerate(heads)]) * 4),
        depths=[int(n) for n in rng.integers(1, 4, stages)], num_heads=heads,
        window_size=window, mlp_ratio=float(rng.choice([1.0, 1.5, 2.0])),
        qkv_bias=bool(rng.random() < 0.7), hidden_act=str(rng.choice(ACTIVATIONS)),
        layer_norm_eps=float(rng.choice([1e-5, 1e-2])), num_labels=5,
        attn_implementation="eager",
    )  # fmt: skip
    if family == "Swin":
        config["use_absolute_embeddings"] = bool(rng.random() < 0.4)
    else:
        sizes = [[0] * stages, [int(n) for n in rng.integers(2, 7, stages)]]
        config["pretrained_window_sizes"] = sizes[int(rng.random() < 0.5)]
    return getattr(transformers, family + "Config")(**{**config, **fixed})


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, opened(peer, folder)


def pixels(rng, config, size=None, batch=2):
    size = config.image_size if size is None else size
    high, wide = size if isinstance(size, (list, tuple)) else (size, size)
    return rng.normal(size=(batch, config.num_channels, high, wide))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_base_model(family, seed, tmp_path):
    rng = np.random.default_rng(seed)
    config = draw_config(family, rng)
    peer, ours = pair(family + "Model", config, seed, tmp_path)
    flags = {"output_hidden_states": True, "output_attentions": bool(seed % 2)}
    compare(peer, ours, {"pixel_values": pixels(rng, config)}, **flags)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_images_of_other_sizes_than_the_configured(family, seed, tmp_path):
    rng = np.random.default_rng(100 + seed)
    config = draw_config(family, rng, use_absolute_embeddings=False)
    peer, ours = pair(family + "Model", config, seed, tmp_path)
    size = (config.image_size + int(rng.integers(1, 6)), config.image_size + int(rng.integers(6)))
    inputs = {"pixel_values": pixels(rng, config, size)}
    compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [[16, 22], [22, 16]])
def test_models_of_oblong_images(family, size, tmp_path):
    rng = np.random.default_rng(size)
    config = draw_config(
        family, rng, image_size=size, patch_size=[2, 2], window_size=4, depths=[2, 2],
        num_heads=[1, 2], embed_dim=4, pretrained_window_sizes=[0, 0],
    )  # fmt: skip
    peer, ours = pair(family + "Model", config, 3, tmp_path)
    compare(peer, ours, {"pixel_values": pixels(rng, config)}, output_hidden_states=True)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("problem", [None, "regression", "multi_label_classification"])
def test_classification(family, problem, tmp_path):
    rng = np.random.default_rng(7)
    config = draw_config(family, rng, problem_type=problem)
    peer, ours = pair(family + "ForImageClassification", config, 7, tmp_path)
    labels = {
        None: rng.integers(0, 5, 2),
        "regression": rng.normal(size=(2, 5)),
        "multi_label_classification": rng.integers(0, 2, (2, 5)).astype("float64"),
    }
    inputs = {"pixel_values": pixels(rng, config), "labels": labels[problem]}
    compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_masked_images(family, seed, dtype, tmp_path):
    rng = np.random.default_rng(seed)
    fixed = {"use_absolute_embeddings": seed == 1} if family == "Swin" else {}
    config = draw_config(
        family, rng, image_size=16, patch_size=2, window_size=4, depths=[2, 3], num_heads=[2, 1],
        embed_dim=6, encoder_stride=4, pretrained_window_sizes=[0, 0], **fixed,
    )  # fmt: skip
    peer, ours = pair(family + "ForMaskedImageModeling", config, seed, tmp_path)
    mask = (rng.random((2, 64)) < 0.4).astype(dtype)
    inputs = {"pixel_values": pixels(rng, config), "bool_masked_pos": mask}
    compare(peer, ours, inputs, output_hidden_states=True)
    compare(peer, ours, {"pixel_values": inputs["pixel_values"]})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("field", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_where_dropout_stands(family, field, tmp_path):
    """With a probability of one nothing is left to chance."""
    rng = np.random.default_rng(12)
    config = draw_config(family, rng, **{field: 1.0}, drop_path_rate=0.0)
    peer, ours = pair(family + "Model", config, 12, tmp_path)
    peer.train(), ours.train()
    inputs = {"pixel_values": pixels(rng, config)}
    compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)


@pytest.mark.parametrize("size", [(12, 12), (18, 18), (12, 20), (16, 9)])
def test_positions_are_interpolated(size, tmp_path):
    rng = np.random.default_rng(5)
    config = draw_config(
        "Swin", rng, image_size=12, patch_size=1, window_size=3, depths=[2, 1], num_heads=[1, 2],
        embed_dim=6, use_absolute_embeddings=True,
    )  # fmt: skip
    peer, ours = pair("SwinForImageClassification", config, 5, tmp_path)
    inputs = {"pixel_values": pixels(rng, config, size)}
    compare(peer, ours, inputs, interpolate_pos_encoding=True, output_hidden_states=True)


@pytest.mark.parametrize("before", [False, True])
def test_always_partition(before, tmp_path):
    """A map that is a window, or less, is shifted and padded all the same."""
    rng = np.random.default_rng(6)
    config = draw_config(
        "Swin", rng, image_size=5, patch_size=1, window_size=4, depths=[2, 2], num_heads=[1, 2],
        embed_dim=6, use_absolute_embeddings=False,
    )  # fmt: skip
    peer, ours = pair("SwinModel", config, 6, tmp_path)
    flags = {"always_partition": True, "output_hidden_states_before_downsampling": before}
    inputs = {"pixel_values": pixels(rng, config)}
    compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True, **flags)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("wanted", [["stage1"], ["stem", "stage2"], ["stage1", "stage2"], None])
def test_backbone(family, wanted, tmp_path):
    rng = np.random.default_rng(8)
    config = draw_config(
        family, rng, image_size=9, patch_size=1, window_size=4, depths=[2, 2], num_heads=[1, 2],
        embed_dim=6, out_features=wanted, pretrained_window_sizes=[0, 0],
        use_absolute_embeddings=False,
    )  # fmt: skip
    peer, ours = pair(family + "Backbone", config, 8, tmp_path)
    inputs = {"pixel_values": pixels(rng, config)}
    compare(peer, ours, inputs)
    compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)


def test_scores_that_outweigh_the_mask(tmp_path):
    """A token alone in its region, and its own opposite: what the peer adds elsewhere shows."""
    rng = np.random.default_rng(9)
    config = draw_config(
        "Swinv2", rng, image_size=6, patch_size=1, window_size=2, depths=[2], num_heads=[2],
        embed_dim=4, pretrained_window_sizes=[0], qkv_bias=False,
    )  # fmt: skip
    peer = randomise(transformers.Swinv2Model(config), 9)
    with torch.no_grad():
        for block in peer.encoder.layers[0].blocks:
            attention = block.attention.self
            attention.key.weight.copy_(-attention.query.weight)
            attention.logit_scale[0] = 9.0  # beyond the largest that counts: no gradient
            attention.logit_scale[1] = 4.5
    ours = opened(peer, tmp_path)
    inputs = {"pixel_values": pixels(rng, config)}
    compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True, tolerance=1e-8)


def test_what_the_peer_refuses(tmp_path):
    rng = np.random.default_rng(10)
    small = dict(image_size=6, patch_size=1, window_size=4, depths=[1, 1], num_heads=[1, 2])
    config = draw_config("Swin", rng, embed_dim=6, use_absolute_embeddings=False, **small)
    peer, ours = pair("SwinModel", config, 10, tmp_path)
    x = pixels(rng, config)
    with pytest.raises(RuntimeError):
        peer(torch.tensor(x))
    with pytest.raises(ShapeError, match="smaller than the window"):
        compare(transformers.SwinModel(config), ours, {"pixel_values": x}, call=_only_ours(ours))
    broken = transformers.Swinv2Config(**small, embed_dim=6, use_absolute_embeddings=True)
    with pytest.raises(RuntimeError):
        transformers.Swinv2Model(broken)(torch.tensor(x))
    with pytest.raises(ArgumentError, match="use_absolute_embeddings"):
        Swinv2Model(broken.to_dict())


def _only_ours(ours):
    return lambda model, **inputs: model(**inputs) if model is ours else {}


@pytest.mark.parametrize("family", FAMILIES)
def test_folders_go_back_to_the_peer(family, tmp_path):
    """What we save the peer reads, and a base model reads a folder with a head."""
    rng = np.random.default_rng(11)
    config = draw_config(family, rng)
    peer, ours = pair(family + "ForImageClassification", config, 11, tmp_path)
    ours.save_pretrained(tmp_path / "ours")
    again = getattr(transformers, family + "ForImageClassification").from_pretrained(
        tmp_path / "ours", dtype=torch.float64
    )
    assert set(again.state_dict()) == set(peer.state_dict())
    for name, value in peer.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name].numpy(), value.numpy())
    base = {"Swin": SwinModel, "Swinv2": Swinv2Model}[family].from_pretrained(tmp_path)
    inputs = {"pixel_values": pixels(rng, config)}
    compare(getattr(peer, peer.base_model_prefix), base, inputs, output_hidden_states=True)
