"""DETR against transformers: drawn sizes, backbones, positions, masks, losses and folders."""

import json

import numpy as np
import pytest
import torch
from parity.models.peers import check, check_same_tensors, compare, opened, randomise
from safetensors.numpy import load_file

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models.pretrained import DetrForObjectDetection

transformers = pytest.importorskip("transformers", reason="needs the parity extra")
pytest.importorskip("scipy", reason="needs the extra detection")


@pytest.fixture(autouse=True)
def all_in_float64(monkeypatch):
    """Where the peer goes to float32 in the middle of a float64 model, it stays in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def timm_backbone(timm, monkeypatch):
    """transformers with timm, which it would not use without the real torchvision."""
    from transformers.models.timm_backbone import modeling_timm_backbone
    from transformers.utils import import_utils

    for name in ("timm", "torchvision"):
        known = import_utils.BACKENDS_MAPPING[name]
        monkeypatch.setitem(import_utils.BACKENDS_MAPPING, name, (lambda: True, known[1]))
    monkeypatch.setattr(modeling_timm_backbone, "timm", timm, raising=False)


def draw_resnet(rng, **fixed):
    stages = int(rng.integers(2, 4))
    kind = str(rng.choice(["basic", "bottleneck"]))
    sizes = [int(n) * 4 for n in rng.integers(1, 3, stages)]
    config = dict(
        embedding_size=int(rng.integers(3, 6)), hidden_sizes=sizes, layer_type=kind,
        depths=[int(n) for n in rng.integers(1, 3, stages)],
        downsample_in_first_stage=bool(rng.random() < 0.3),
        downsample_in_bottleneck=bool(rng.random() < 0.4), out_features=[f"stage{stages}"],
    )  # fmt: skip
    return transformers.ResNetConfig(**{**config, **fixed})


def draw_config(rng, **fixed):
    heads = [int(n) for n in rng.integers(1, 4, 2)]
    config = dict(
        d_model=12 * int(rng.integers(1, 3)), encoder_layers=int(rng.integers(1, 3)),
        decoder_layers=int(rng.integers(1, 4)), encoder_attention_heads=heads[0],
        decoder_attention_heads=heads[1], encoder_ffn_dim=int(rng.integers(5, 14)),
        decoder_ffn_dim=int(rng.integers(5, 14)), num_queries=int(rng.integers(4, 9)),
        activation_function=str(rng.choice(["relu", "gelu", "silu"])),
        position_embedding_type=str(rng.choice(["sine", "learned"])),
        auxiliary_loss=bool(rng.random() < 0.5), num_labels=int(rng.integers(2, 7)),
        class_cost=int(rng.integers(1, 4)), bbox_cost=int(rng.integers(1, 9)),
        giou_cost=int(rng.integers(1, 4)), bbox_loss_coefficient=int(rng.integers(1, 9)),
        giou_loss_coefficient=int(rng.integers(1, 4)), eos_coefficient=float(rng.random()),
        attn_implementation="eager", use_timm_backbone=False,
    )  # fmt: skip
    config = {**config, **fixed}
    if not config["use_timm_backbone"]:
        config.setdefault("backbone_config", draw_resnet(rng))
    return transformers.DetrConfig(**config)


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed, 0.2)
    generator = torch.Generator().manual_seed(seed)
    for key, buffer in peer.named_buffers():
        if buffer.ndim == 1:  # of the frozen batch norms
            noise = torch.randn(buffer.shape, generator=generator) * 0.1
            buffer.copy_(noise if key.endswith(("bias", "mean")) else 1 + noise.abs())
    ours = opened(peer, folder)
    for parameter in ours.parameters():
        parameter.requires_grad_(True)
    return peer, ours


def pixels(rng, height=37, width=50, batch=2):
    """Images, the second of which is padded."""
    mask = np.ones((batch, height, width), np.int64)
    mask[-1, 29:], mask[-1, :, 33:] = 0, 0
    return rng.normal(size=(batch, 3, height, width)), mask


def targets(rng, counts, classes, make):
    return [
        {
            "class_labels": make(rng.integers(0, classes, n)),
            "boxes": make(rng.uniform(0.1, 0.6, (n, 4))),
        }
        for n in counts
    ]


def both(rng, peer, ours, counts, flags, **inputs):
    """Compare outputs and gradients with and without labels."""
    seed = int(rng.integers(1000))

    def call(model, **arguments):
        make = mt.tensor if model is ours else torch.tensor
        drawn = np.random.default_rng(seed)
        labels = targets(drawn, counts, peer.config.num_labels, make)
        return model(**arguments, labels=labels, **flags)

    return compare(peer, ours, inputs, call=call)


@pytest.mark.parametrize("seed", range(6))
def test_base_model(seed, tmp_path):
    rng = np.random.default_rng(seed)
    peer, ours = pair("DetrModel", draw_config(rng), seed, tmp_path)
    values, mask = pixels(rng)
    flags = {"output_hidden_states": True, "output_attentions": True}
    inputs = {"pixel_values": values} | ({"pixel_mask": mask} if seed % 3 else {})
    if seed % 2:
        queries = peer.config.num_queries
        inputs["decoder_attention_mask"] = (np.arange(queries) > 0)[None].repeat(2, 0) * 1
    compare(peer, ours, inputs, **flags)


@pytest.mark.parametrize("seed", range(6))
def test_losses(seed, tmp_path):
    rng = np.random.default_rng(20 + seed)
    config = draw_config(rng, auxiliary_loss=seed % 2 == 0)
    peer, ours = pair("DetrForObjectDetection", config, seed, tmp_path)
    values, mask = pixels(rng)
    counts = [(3, 2), (0, 4), (2, 0), (0, 0), (1, 9), (3, 3)][seed]
    flags = {"output_hidden_states": True, "output_attentions": bool(seed % 2)}
    inputs = {"pixel_values": values, "pixel_mask": mask}
    assert both(rng, peer, ours, counts, flags, **inputs) > 30


@pytest.mark.parametrize("dilation", [False, True])
def test_backbone_of_timm(dilation, tmp_path, timm_backbone):
    rng = np.random.default_rng(7)
    config = draw_config(
        rng, use_timm_backbone=True, backbone="resnet18", use_pretrained_backbone=False,
        position_embedding_type="sine", dilation=dilation,
    )  # fmt: skip
    peer, ours = pair("DetrForObjectDetection", config, 3, tmp_path)
    values, mask = pixels(rng, 40, 47)
    inputs = {"pixel_values": values, "pixel_mask": mask}
    assert compare(peer, ours, inputs, tolerance=1e-9) > 100
    with mt.no_grad(), torch.no_grad():
        features, real = ours.backbone_features(mt.tensor(values), mt.tensor(mask))
        peers = peer.model.backbone(torch.tensor(values), torch.tensor(mask))[-1]
    assert features.shape[2:] == ((3, 3) if dilation else (2, 2))
    check("map", features.numpy(), peers[0].numpy(), 1e-9)
    np.testing.assert_array_equal(real.numpy(), peers[1].numpy())


def test_embeddings_instead_of_images(tmp_path):
    rng = np.random.default_rng(4)
    config = draw_config(rng, position_embedding_type="sine")
    peer, ours = pair("DetrModel", config, 4, tmp_path)
    tokens = rng.normal(size=(2, 9, config.d_model))
    queries = rng.normal(size=(2, config.num_queries, config.d_model))
    mask = np.ones((2, 30, 30), np.int64)
    mask[1, 10:] = 0
    inputs = {"inputs_embeds": tokens, "decoder_inputs_embeds": queries}
    compare(peer, ours, inputs)
    compare(peer, ours, {**inputs, "pixel_mask": mask})
    with pytest.raises(ArgumentError, match="must be given, and not both"):
        ours()


def test_encoder_outputs_are_reused(tmp_path):
    rng = np.random.default_rng(5)
    _, ours = pair("DetrModel", draw_config(rng), 5, tmp_path)
    values, mask = (mt.tensor(x) for x in pixels(rng))
    whole = ours(values, mask)
    tokens, positions, key_mask = ours.tokens_of(values, mask, None)
    for given in (ours.encode(tokens, positions, key_mask), (whole.encoder_last_hidden_state,)):
        again = ours(values, mask, encoder_outputs=given)
        check("last", again.last_hidden_state.numpy(), whole.last_hidden_state.numpy(), 1e-12)


@pytest.mark.parametrize("field", ["dropout", "attention_dropout", "activation_dropout"])
def test_where_dropout_stands(field, tmp_path):
    """With a probability of one nothing is left to chance."""
    rng = np.random.default_rng(12)
    others = {"dropout": 0.0, field: 1.0}
    peer, ours = pair("DetrModel", draw_config(rng, **others), 12, tmp_path)
    peer.train(), ours.train()
    compare(peer, ours, {"pixel_values": pixels(rng)[0]}, output_hidden_states=True)


@pytest.mark.parametrize("name", ["DetrModel", "DetrForObjectDetection"])
@pytest.mark.parametrize("backbone", ["resnet", "timm"])
def test_folder_is_written_back_bit_by_bit(name, backbone, tmp_path, timm_backbone):
    rng = np.random.default_rng(8)
    more = {"use_timm_backbone": True, "backbone": "resnet18"} if backbone == "timm" else {}
    peer = getattr(transformers, name)(draw_config(rng, **more)).float()
    peer.save_pretrained(tmp_path / "a")
    mt.models.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    assert any("conv_encoder" in key for key in load_file(tmp_path / "a" / "model.safetensors"))
    check_same_tensors(tmp_path / "a", tmp_path / "b")
    configs = [json.loads((tmp_path / x / "config.json").read_text()) for x in "ab"]
    assert configs[0] == configs[1]


def test_names_of_the_classes_are_kept(tmp_path):
    rng = np.random.default_rng(9)
    peer, _ = pair("DetrForObjectDetection", draw_config(rng), 9, tmp_path)
    state = {name: tensor.numpy() for name, tensor in peer.state_dict().items()}
    fields = json.loads((tmp_path / "config.json").read_text())
    ours = DetrForObjectDetection.from_arrays(fields, state)
    assert set(ours.peer_state()) == set(state)


def test_published_sizes(timm_backbone):
    for backbone, count in (("resnet50", 41_524_768), ("resnet101", 60_464_672)):
        config = {"backbone": backbone, "id2label": {str(i): "" for i in range(91)}}
        with mt.nn.init.skip_init():
            model = DetrForObjectDetection(config)
        with torch.device("meta"):
            peer = transformers.DetrForObjectDetection(
                transformers.DetrConfig(backbone=backbone, num_labels=91)
            )
        assert model.num_parameters() == count == sum(p.numel() for p in peer.parameters())


def test_unsupported_backbones():
    for backbone, message in (
        ({"model_type": "swin"}, "model_type"),
        ({"model_type": "timm_backbone", "backbone": "resnet50d"}, "is not supported"),
        ({"model_type": "timm_backbone", "out_indices": [0]}, "out_indices must be the number"),
        ({"model_type": "resnet", "out_features": ["stem"]}, "not the stem"),
    ):
        with pytest.raises(ArgumentError, match=message):
            DetrForObjectDetection({"backbone_config": backbone, "d_model": 8})
