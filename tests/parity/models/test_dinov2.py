"""DINOv2 against transformers: random configurations, every class, sizes, masks, both layouts."""

import numpy as np
import pytest
import torch
from parity.models.peers import check_same_tensors, compare, opened, randomise

import minitorch_attn as mt
from minitorch_attn.models import dinov2
from minitorch_attn.serialization import read_safetensors, write_safetensors

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

CLASSES = [
    "Dinov2Model", "Dinov2ForImageClassification", "Dinov2WithRegistersModel",
    "Dinov2WithRegistersForImageClassification",
]  # fmt: skip
ACTIVATIONS = ["gelu", "relu", "silu", "quick_gelu"]
BATCH, LABELS = 3, 5


@pytest.fixture(autouse=True)
def float64(monkeypatch):
    """The peer interpolates positions in float32; here it stays in float64."""
    to = torch.Tensor.to

    def in_float64(self, *args, **kwargs):
        args = [torch.float64 if a is torch.float32 else a for a in args]
        return to(self, *args, **{k: torch.float64 if v is torch.float32 else v
                                  for k, v in kwargs.items()})  # fmt: skip

    monkeypatch.setattr(torch.Tensor, "to", in_float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def draw_config(name, rng, **fixed):
    heads, patch = int(rng.choice([1, 2, 3])), int(rng.choice([2, 3, 5]))
    config = dict(
        image_size=patch * int(rng.choice([2, 3, 4])), patch_size=patch,
        num_channels=int(rng.choice([1, 2, 3])), hidden_size=heads * 4,
        num_attention_heads=heads, num_hidden_layers=int(rng.choice([1, 2])),
        mlp_ratio=int(rng.choice([2, 3])), hidden_act=str(rng.choice(ACTIVATIONS)),
        layer_norm_eps=float(rng.choice([1e-6, 1e-2])), qkv_bias=bool(rng.random() < 0.6),
        layerscale_value=float(rng.choice([1.0, 0.3])), use_swiglu_ffn=bool(rng.random() < 0.5),
        num_labels=LABELS, attn_implementation="eager",
    )  # fmt: skip
    if "Registers" in name:
        config["num_register_tokens"] = int(rng.choice([0, 1, 4]))
    family = "Dinov2WithRegisters" if "Registers" in name else "Dinov2"
    return getattr(transformers, family + "Config")(**{**config, **fixed})


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, opened(peer, folder)


def inputs_of(name, rng, config, height=None, width=None):
    size = (height or config.image_size, width or config.image_size)
    inputs = {"pixel_values": rng.normal(size=(BATCH, config.num_channels, *size))}
    if name.endswith("ImageClassification"):
        inputs["labels"] = rng.integers(0, LABELS, BATCH)
    return inputs


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(5))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    config = draw_config(name, rng, use_swiglu_ffn=seed % 2 == 1)
    peer, ours = pair(name, config, seed, tmp_path)
    inputs = inputs_of(name, rng, config)
    compared = compare(peer, ours, inputs, output_attentions=True, output_hidden_states=True)
    assert compared >= 20


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("rows, columns", [(3, 3), (2, 5), (5, 1), (1, 4), (2, 2)])
def test_other_sizes(name, rows, columns, tmp_path):
    """Positions are interpolated; pixels beyond the last patch are ignored."""
    rng = np.random.default_rng(rows)
    config = draw_config(name, rng, image_size=8, patch_size=4)
    peer, ours = pair(name, config, 7, tmp_path)
    compare(peer, ours, inputs_of(name, rng, config, 4 * rows + 1, 4 * columns))


def test_oblong_configuration(tmp_path):
    """The peer takes 16 positions as a grid of 4 by 4 even if the images have 2 by 8 patches."""
    rng = np.random.default_rng(1)
    config = draw_config("Dinov2Model", rng, image_size=(4, 16), patch_size=(2, 2))
    peer, ours = pair("Dinov2Model", config, 1, tmp_path)
    compare(peer, ours, {"pixel_values": rng.normal(size=(BATCH, config.num_channels, 4, 16))})


@pytest.mark.parametrize("name", ["Dinov2Model", "Dinov2WithRegistersModel"])
def test_masked_patches(name, tmp_path):
    rng = np.random.default_rng(2)
    config = draw_config(name, rng, image_size=9, patch_size=3)
    peer, ours = pair(name, config, 2, tmp_path)
    inputs = {**inputs_of(name, rng, config), "bool_masked_pos": rng.random((BATCH, 9)) < 0.5}
    compare(peer, ours, inputs)


@pytest.mark.parametrize("name", ["Dinov2Model", "Dinov2WithRegistersForImageClassification"])
def test_padding(name, tmp_path):
    rng = np.random.default_rng(3)
    more = {"num_register_tokens": 1} if "Registers" in name else {}
    config = draw_config(name, rng, image_size=6, patch_size=3, **more)
    peer, ours = pair(name, config, 3, tmp_path)
    tokens = 5 + len(more)
    mask = (np.arange(tokens) < np.array([[tokens], [3], [2]])).astype("int64")
    compare(peer, ours, {**inputs_of(name, rng, config), "attention_mask": mask},
            output_attentions=True)  # fmt: skip


@pytest.mark.parametrize(
    "rate", ["hidden_dropout_prob", "attention_probs_dropout_prob", "drop_path_rate"]
)
def test_where_dropout_stands(rate, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    rng = np.random.default_rng(8)
    config = draw_config("Dinov2Model", rng, **{rate: 1.0})
    peer, ours = pair("Dinov2Model", config, 8, tmp_path)
    if rate == "drop_path_rate":  # the peer divides by 0
        tokens = ours.train()(mt.tensor(inputs_of("", rng, config)["pixel_values"]),
                              output_hidden_states=True).hidden_states  # fmt: skip
        assert all((x == tokens[0]).all() for x in tokens)
        return
    compare(peer.train(), ours.train(), inputs_of("Dinov2Model", rng, config))


@pytest.mark.parametrize("kind", ["regression", "multi_label_classification"])
def test_problem_types(kind, tmp_path):
    rng = np.random.default_rng(5)
    count = 1 if kind == "regression" else LABELS
    name = "Dinov2ForImageClassification"
    peer, ours = pair(name, draw_config(name, rng, num_labels=count, problem_type=kind), 5,
                      tmp_path)  # fmt: skip
    target = rng.normal(size=BATCH) if count == 1 else (rng.random((BATCH, LABELS)) < 0.5) * 1.0
    compare(peer, ours, {**inputs_of(name, rng, peer.config), "labels": target})


def test_without_a_mask_token(tmp_path):
    rng = np.random.default_rng(6)
    config = draw_config("Dinov2Model", rng, use_mask_token=False)
    peer, ours = pair("Dinov2Model", config, 6, tmp_path)
    compare(peer, ours, inputs_of("Dinov2Model", rng, config))


@pytest.mark.parametrize("swiglu", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_a_folder_is_written_with_the_names_it_was_read_with(name, swiglu, tmp_path):
    rng = np.random.default_rng(2)
    config = draw_config(name, rng, use_swiglu_ffn=swiglu)
    peer, ours = pair(name, config, 2, tmp_path)
    _, written = read_safetensors(tmp_path / "model.safetensors")
    assert any("attention.attention.query" in key for key in written)
    for layout in (written, {k: p.detach().numpy() for k, p in peer.state_dict().items()}):
        write_safetensors(tmp_path / "model.safetensors", layout)
        mt.models.from_pretrained(tmp_path).save_pretrained(tmp_path / "again")
        check_same_tensors(tmp_path, tmp_path / "again")


@pytest.mark.parametrize("name", CLASSES)
def test_the_peer_reads_what_a_new_model_writes(name, tmp_path):
    rng = np.random.default_rng(4)
    config = draw_config(name, rng, use_swiglu_ffn=True)
    mt.manual_seed(4)
    ours = getattr(mt.models.pretrained, name)(config.to_dict()).double().eval()
    ours.save_pretrained(tmp_path)
    cls = getattr(transformers, name)
    peer, report = cls.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    compare(peer.double().eval(), ours, inputs_of(name, rng, config))


@pytest.mark.parametrize(
    "size, width, layers, heads",
    [("s", 384, 12, 6), ("b", 768, 12, 12), ("l", 1024, 24, 16), ("g", 1536, 40, 24)],
)
def test_published_sizes(size, width, layers, heads):
    """The peer has a mask token besides."""
    with torch.device("meta"):
        config = transformers.Dinov2Config(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            image_size=518, use_swiglu_ffn=size == "g",
        )  # fmt: skip
        peer = transformers.Dinov2Model(config)
    with mt.nn.init.skip_init():
        ours = getattr(dinov2, f"dinov2_{size}_14")()
    expected = sum(p.numel() for p in peer.parameters()) - width
    assert sum(p.numel() for p in ours.parameters()) == expected
