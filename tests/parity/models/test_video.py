"""TimeSformer and VideoMAE against transformers: random configurations, every class, sizes."""

import numpy as np
import pytest
import torch
from parity.models.peers import check_same_tensors, compare, opened, randomise

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import timesformer_b, video_mae_b
from minitorch_attn.nn.init import skip_init

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

TIMESFORMER = ["TimesformerModel", "TimesformerForVideoClassification"]
VIDEO_MAE = ["VideoMAEModel", "VideoMAEForPreTraining", "VideoMAEForVideoClassification"]
CLASSES = TIMESFORMER + VIDEO_MAE
KINDS = ["divided_space_time", "joint_space_time", "space_only"]
BATCH = 2


def draw_config(name, rng, **fixed):
    heads, patch, tubelet = (
        int(rng.integers(1, 4)),
        int(rng.integers(2, 4)),
        int(rng.integers(1, 4)),
    )
    config = dict(
        image_size=patch * int(rng.integers(2, 4)), patch_size=patch,
        num_channels=int(rng.choice([1, 3])), hidden_size=heads * 4, num_attention_heads=heads,
        num_frames=tubelet * int(rng.integers(1, 4)), num_hidden_layers=int(rng.integers(1, 3)),
        intermediate_size=int(rng.choice([7, 11])), hidden_act=str(rng.choice(["gelu", "relu"])),
        layer_norm_eps=float(rng.choice([1e-12, 1e-2])), num_labels=5,
        attn_implementation="eager",
    )  # fmt: skip
    if name.startswith("Timesformer"):
        config.update(attention_type=KINDS[int(rng.integers(3))], qkv_bias=bool(rng.random() < 0.6))
        return transformers.TimesformerConfig(**{**config, **fixed})
    config.update(
        tubelet_size=tubelet, qv_bias=bool(rng.random() < 0.6), decoder_num_attention_heads=2,
        decoder_hidden_size=12, decoder_num_hidden_layers=2, decoder_intermediate_size=13,
        use_mean_pooling=bool(rng.random() < 0.6),
        norm_pix_loss=config["num_channels"] == 1 or bool(rng.random() < 0.5),
    )  # fmt: skip
    return transformers.VideoMAEConfig(**{**config, **fixed})


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, opened(peer, folder)


def inputs_of(name, rng, config, frames=None, height=None, width=None):
    size = (frames or config.num_frames, config.num_channels)
    size += (height or config.image_size, width or config.image_size)
    inputs = {"pixel_values": rng.normal(size=(BATCH, *size))}
    if name in VIDEO_MAE[:2]:
        steps, side = size[0] // config.tubelet_size, config.image_size // config.patch_size
        order = rng.random((BATCH, steps * side**2)).argsort(1)
        inputs["bool_masked_pos"] = order < steps * side**2 // 2
    return inputs


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(3))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    config = draw_config(name, rng)
    peer, ours = pair(name, config, seed, tmp_path)
    inputs = inputs_of(name, rng, config)
    if name.endswith("Classification") and getattr(config, "attention_type", "") != "space_only":
        inputs["labels"] = rng.integers(0, 5, BATCH)
    compare(peer, ours, inputs, output_attentions=True, output_hidden_states=True)


@pytest.mark.parametrize("kind", KINDS)
def test_timesformer_on_other_sizes(kind, tmp_path):
    """The nearest positions; the peer's divided blocks need the configured number of frames."""
    rng = np.random.default_rng(3)
    config = draw_config(
        TIMESFORMER[0], rng, image_size=6, patch_size=3, num_frames=4, attention_type=kind
    )
    peer, ours = pair(TIMESFORMER[0], config, 3, tmp_path)
    frames = 4 if kind == "divided_space_time" else 6
    for size in ((6, 12), (9, 6)):
        inputs = inputs_of(TIMESFORMER[0], rng, config, frames, *size)
        compare(peer, ours, inputs, output_hidden_states=True)


@pytest.mark.parametrize("name", ["TimesformerModel", "VideoMAEForPreTraining"])
@pytest.mark.parametrize("rate", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_where_dropout_stands(name, rate, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    rng = np.random.default_rng(8)
    config = draw_config(name, rng, **{rate: 1.0})
    if name == "TimesformerModel":
        config.attention_type = "divided_space_time"
    peer, ours = pair(name, config, 8, tmp_path)
    compare(peer.train(), ours.train(), inputs_of(name, rng, config))


@pytest.mark.parametrize("name", CLASSES)
def test_folders_in_and_out(name, tmp_path):
    """A folder of the peer is written back equally; the peer reads what a new model writes."""
    rng = np.random.default_rng(2)
    config = draw_config(name, rng)
    _, ours = pair(name, config, 2, tmp_path)
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")
    new = getattr(mt.models.pretrained, name)(config.to_dict()).double().eval()
    new.save_pretrained(tmp_path / "new")
    peer, report = getattr(transformers, name).from_pretrained(
        tmp_path / "new", attn_implementation="eager", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    compare(peer.double().eval(), new, inputs_of(name, rng, config))


def test_old_names_of_biases(tmp_path):
    """Published VideoMAE files contain q_bias and v_bias."""
    rng = np.random.default_rng(5)
    config = draw_config(VIDEO_MAE[0], rng, qv_bias=True)
    _, ours = pair(VIDEO_MAE[0], config, 5, tmp_path)
    state = {
        name.replace("query.bias", "q_bias").replace("value.bias", "v_bias"): array
        for name, array in ours.peer_state().items()
    }
    assert any(name.endswith("q_bias") for name in state)
    again = type(ours).from_arrays(config.to_dict(), state)
    for name, array in ours.peer_state().items():
        np.testing.assert_array_equal(again.peer_state()[name], array)


def count(cls, **fields):
    with torch.device("meta"):
        peer = getattr(transformers, cls)(
            getattr(transformers, cls[: cls.index("For")] + "Config")(**fields)
        )
    return sum(p.numel() for p in peer.parameters())


def test_published_sizes():
    """TimeSformer-B for Kinetics-400, and the pretraining model VideoMAE-B."""
    cases = [
        (timesformer_b, "TimesformerForVideoClassification", {"num_labels": 400}),
        (video_mae_b, "VideoMAEForPreTraining", {"use_mean_pooling": False}),
    ]
    for builder, cls, fields in cases:
        with skip_init():
            ours = sum(p.array.size for p in builder().parameters())
        assert ours == count(cls, **fields), cls


def test_what_the_peer_refuses(tmp_path):
    rng = np.random.default_rng(1)
    config = draw_config(VIDEO_MAE[1], rng, num_channels=1, norm_pix_loss=False)
    peer, ours = pair(VIDEO_MAE[1], config, 1, tmp_path)
    inputs = inputs_of(VIDEO_MAE[1], rng, config)
    with pytest.raises(ValueError, match="non-RGB"):
        peer(**{name: torch.tensor(value) for name, value in inputs.items()})
    with pytest.raises(ArgumentError, match="requires three channels"):
        ours(**{name: mt.tensor(value) for name, value in inputs.items()})
    with pytest.raises(ArgumentError, match="attention_type is not supported"):
        mt.models.pretrained.TimesformerModel({"attention_type": "time_only"})
