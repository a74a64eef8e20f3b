"""ViT, DeiT and ViTMAE against transformers: random configurations, every class, masks, sizes."""

import numpy as np
import pytest
import torch
from parity.models.peers import check_same_tensors, compare, opened, randomise

import minitorch_attn as mt
from minitorch_attn.serialization import read_safetensors

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

CLASSES = [
    "ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling", "DeiTModel",
    "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher",
    "DeiTForMaskedImageModeling", "ViTMAEModel", "ViTMAEForPreTraining",
]  # fmt: skip
ACTIVATIONS = ["gelu", "relu", "silu", "gelu_new", "quick_gelu"]
BATCH = 3


@pytest.fixture(autouse=True)
def float64(monkeypatch):
    """What the peer does in float32 even in a float64 model is done in float64 here."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim)
    )
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def family_of(name):
    return "ViTMAE" if name.startswith("ViTMAE") else name[: name.index("T") + 1]


def draw_config(name, rng, **fixed):
    heads, patch = int(rng.choice([1, 2, 3])), int(rng.choice([2, 3, 5]))
    config = dict(
        image_size=patch * int(rng.choice([2, 3, 4])), patch_size=patch,
        num_channels=int(rng.choice([1, 2, 3])), hidden_size=heads * 4,
        num_attention_heads=heads, num_hidden_layers=int(rng.choice([1, 2])),
        intermediate_size=int(rng.choice([7, 11])), hidden_act=str(rng.choice(ACTIVATIONS)),
        layer_norm_eps=float(rng.choice([1e-12, 1e-2])), qkv_bias=bool(rng.random() < 0.6),
        num_labels=5, attn_implementation="eager",
    )  # fmt: skip
    if family_of(name) == "ViTMAE":
        config.update(
            decoder_num_attention_heads=2, decoder_hidden_size=12, decoder_num_hidden_layers=2,
            decoder_intermediate_size=13, mask_ratio=float(rng.choice([0.25, 0.5, 0.75])),
            norm_pix_loss=bool(rng.random() < 0.5),
        )  # fmt: skip
    else:
        config.update(
            encoder_stride=patch, pooler_act=str(rng.choice(["tanh", "relu"])),
            pooler_output_size=[None, 9][int(rng.integers(2))],
        )  # fmt: skip
    return getattr(transformers, family_of(name) + "Config")(**{**config, **fixed})


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, with_all_gradients(opened(peer, folder))


def with_all_gradients(ours):
    """The fixed positions of MAE get a gradient too, as `randomise` gives them one in the peer."""
    for p in ours.parameters():
        p.requires_grad_(True)
    return ours


def inputs_of(name, rng, config, height=None, width=None):
    height, width = height or config.image_size, width or config.image_size
    patches = (height // config.patch_size) * (width // config.patch_size)
    inputs = {"pixel_values": rng.normal(size=(BATCH, config.num_channels, height, width))}
    if name.endswith("MaskedImageModeling"):
        inputs["bool_masked_pos"] = rng.random((BATCH, patches)) < 0.5
    if name.startswith("ViTMAE"):
        order = np.argsort(rng.random((BATCH, patches)), 1)
        inputs["noise"] = order.astype("int64")  # distinct, and without a gradient
    return inputs


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    config = draw_config(name, rng)
    peer, ours = pair(name, config, seed, tmp_path)
    inputs = inputs_of(name, rng, config)
    if name.endswith("ImageClassification"):
        inputs["labels"] = rng.integers(0, 5, BATCH)
    compare(peer, ours, inputs, output_attentions=True, output_hidden_states=True)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("rows, columns", [(3, 3), (2, 4), (5, 1), (2, 2)])
def test_other_sizes(name, rows, columns, tmp_path):
    rng = np.random.default_rng(rows)
    if name.endswith("MaskedImageModeling"):
        columns = rows
    config = draw_config(name, rng, image_size=8, patch_size=4, encoder_stride=4)
    peer, ours = pair(name, config, 7, tmp_path)
    inputs = inputs_of(name, rng, config, 4 * rows, 4 * columns)
    if name.endswith("MaskedImageModeling"):
        inputs.pop("bool_masked_pos")  # the peer's loss wants the configured size
    compare(peer, ours, inputs, interpolate_pos_encoding=True)


@pytest.mark.parametrize("name", ["ViTModel", "DeiTForImageClassificationWithTeacher"])
def test_oblong_images_and_patches(name, tmp_path):
    rng = np.random.default_rng(9)
    config = draw_config(name, rng, image_size=(6, 8), patch_size=(3, 2))
    peer, ours = pair(name, config, 9, tmp_path)
    pixels = rng.normal(size=(BATCH, config.num_channels, 6, 8))
    compare(peer, ours, {"pixel_values": pixels}, output_hidden_states=True)


@pytest.mark.parametrize("name", ["ViTModel", "DeiTForImageClassification"])
def test_padding(name, tmp_path):
    rng = np.random.default_rng(3)
    config = draw_config(name, rng, image_size=6, patch_size=3)
    peer, ours = pair(name, config, 3, tmp_path)
    tokens = 4 + (2 if name.startswith("DeiT") else 1)
    inputs = inputs_of(name, rng, config)
    inputs["attention_mask"] = (np.arange(tokens) < np.array([[tokens], [3], [2]])).astype("int64")
    compare(peer, ours, inputs, output_attentions=True)


@pytest.mark.parametrize("name", ["ViTModel", "DeiTModel", "ViTMAEForPreTraining"])
@pytest.mark.parametrize("rate", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_where_dropout_stands(name, rate, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    rng = np.random.default_rng(8)
    config = draw_config(name, rng, **{rate: 1.0})
    peer, ours = pair(name, config, 8, tmp_path)
    compare(peer.train(), ours.train(), inputs_of(name, rng, config))


@pytest.mark.parametrize("kind", ["regression", "multi_label_classification"])
def test_problem_types(kind, tmp_path):
    rng = np.random.default_rng(5)
    labels = 1 if kind == "regression" else 5
    name = "ViTForImageClassification"
    config = draw_config(name, rng, num_labels=labels, problem_type=kind)
    peer, ours = pair(name, config, 5, tmp_path)
    inputs = inputs_of(name, rng, config)
    target = rng.normal(size=BATCH) if labels == 1 else (rng.random((BATCH, 5)) < 0.5) * 1.0
    compare(peer, ours, {**inputs, "labels": target})


@pytest.mark.parametrize("name", ["ViTModel", "DeiTModel"])
def test_mask_token_of_the_base_model(name, tmp_path):
    rng = np.random.default_rng(11)
    config = draw_config(name, rng)
    peer = getattr(transformers, name)(config, add_pooling_layer=False, use_mask_token=True)
    randomise(peer, 11).save_pretrained(tmp_path)
    cls = getattr(mt.models.pretrained, name)
    ours = cls(config.to_dict(), add_pooling_layer=False, use_mask_token=True).double().eval()
    _, arrays = read_safetensors(tmp_path / "model.safetensors")
    ours._load(tmp_path, arrays, None, True)
    inputs = inputs_of(name, rng, config)
    inputs["bool_masked_pos"] = rng.random((BATCH, ours.vision.positions.weight.shape[0] - (
        2 if name == "DeiTModel" else 1))) < 0.5  # fmt: skip
    compare(peer, ours, inputs)


@pytest.mark.parametrize("name", CLASSES)
def test_a_folder_is_written_with_the_names_it_was_read_with(name, tmp_path):
    rng = np.random.default_rng(2)
    peer, ours = pair(name, draw_config(name, rng), 2, tmp_path)
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")


@pytest.mark.parametrize("name", CLASSES)
def test_the_peer_reads_what_a_new_model_writes(name, tmp_path):
    rng = np.random.default_rng(4)
    config = draw_config(name, rng)
    mt.manual_seed(4)
    ours = getattr(mt.models.pretrained, name)(config.to_dict()).double().eval()
    ours.save_pretrained(tmp_path)
    cls = getattr(transformers, name)
    peer, report = cls.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for p in peer.parameters():
        p.requires_grad_(True)
    compare(peer.double().eval(), with_all_gradients(ours), inputs_of(name, rng, config))


def test_unpatchify_undoes_patchify(tmp_path):
    rng = np.random.default_rng(6)
    config = draw_config("ViTMAEForPreTraining", rng)
    peer, ours = pair("ViTMAEForPreTraining", config, 6, tmp_path)
    pixels = inputs_of("ViTMAEForPreTraining", rng, config)["pixel_values"]
    rows = ours.patchify(mt.tensor(pixels))
    np.testing.assert_array_equal(rows.numpy(), peer.patchify(torch.tensor(pixels)).numpy())
    np.testing.assert_array_equal(ours.unpatchify(rows).numpy(), pixels)
