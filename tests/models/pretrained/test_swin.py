"""Swin and Swin V2 with the Hugging Face interface: names, outputs, masks, errors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError, ShapeError
from minitorch_attn.models import pretrained
from minitorch_attn.serialization import read_safetensors, write_safetensors

FAMILIES = ["Swin", "Swinv2"]
SIZES = {
    "image_size": 10, "patch_size": 2, "embed_dim": 6, "depths": [1, 2], "num_heads": [2, 3],
    "window_size": 3, "mlp_ratio": 2.0, "num_channels": 2, "encoder_stride": 4,
    "id2label": {str(i): f"LABEL_{i}" for i in range(5)},
}  # fmt: skip


def make_model(name, device="cpu", **changes):
    mt.manual_seed(4)
    model = getattr(pretrained, name)({**SIZES, **changes}).double().eval()
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.3)
    return model.to(device)


@pytest.fixture
def pixels(rng, device):
    return mt.tensor(rng.normal(size=(2, 2, 10, 10)), device=device)


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_of_the_base_model(family, pixels, device):
    model = make_model(family + "Model", device)
    out = model(pixels, output_hidden_states=True, output_attentions=True)
    assert [x.shape for x in out.hidden_states] == [(2, 25, 6), (2, 9, 12), (2, 9, 12)]
    maps = [(2, 6, 5, 5), (2, 12, 3, 3), (2, 12, 3, 3)]
    assert [x.shape for x in out.reshaped_hidden_states] == maps
    # Swin V2 halves the grid of 5 to 2, and makes its windows for that; the map has 3 x 3 tokens.
    last = {"Swin": (2, 3, 9, 9), "Swinv2": (8, 3, 4, 4)}[family]
    assert [x.shape for x in out.attentions] == [(8, 2, 9, 9), last]
    assert list(out) == [
        "last_hidden_state", "pooler_output", "hidden_states", "attentions",
        "reshaped_hidden_states",
    ]  # fmt: skip
    for flat, square in zip(out.hidden_states, out.reshaped_hidden_states, strict=True):
        np.testing.assert_array_equal(
            flat.numpy().swapaxes(1, 2), square.numpy().reshape(2, flat.shape[2], -1)
        )
    np.testing.assert_allclose(out.pooler_output.numpy(), out[0].numpy().mean(1), atol=1e-12)
    assert list(model(pixels)) == ["last_hidden_state", "pooler_output"]
    bare = getattr(pretrained, family + "Model")(SIZES, add_pooling_layer=False)
    assert list(bare.double().to(device)(pixels)) == ["last_hidden_state"]
    model.config.output_hidden_states = True
    assert "hidden_states" in model(pixels)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "head", ["Model", "ForImageClassification", "ForMaskedImageModeling", "Backbone"]
)
def test_folders_in_and_out(family, head, pixels, device, tmp_path):
    model = make_model(family + head, device)
    model.save_pretrained(tmp_path)
    again = mt.models.from_pretrained(tmp_path, device=device)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again(pixels)[0][0].numpy(), model(pixels)[0][0].numpy())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_base_model_reads_a_folder_with_a_head(family, pixels, tmp_path, device):
    model = make_model(family + "ForMaskedImageModeling", device)
    model.save_pretrained(tmp_path)
    base = getattr(pretrained, family + "Model").from_pretrained(tmp_path, device=device)
    hidden = model(pixels, output_hidden_states=True).hidden_states[-1]
    got = base(pixels, output_hidden_states=True).hidden_states[-1]
    np.testing.assert_array_equal(got.numpy(), hidden.numpy())


def test_names_in_hugging_face():
    """One name of each kind, with its shape; the merging belongs to the stage before it."""
    state = make_model("SwinForImageClassification").peer_state()
    block = "swin.encoder.layers.1.blocks.1."
    for name, shape in {
        "swin.embeddings.patch_embeddings.projection.weight": (6, 2, 2, 2),
        "swin.embeddings.norm.bias": (6,),
        "swin.encoder.layers.0.downsample.reduction.weight": (12, 24),
        "swin.encoder.layers.0.downsample.norm.weight": (24,),
        block + "attention.relative_position_bias.relative_position_bias_table": (25, 3),
        block + "attention.o_proj.weight": (12, 12),
        block + "mlp.fc1.weight": (24, 12),
        "swin.layernorm.weight": (12,),
        "classifier.weight": (5, 12),
    }.items():
        assert state[name].shape == shape, name
    assert not any("stages" in name or name.startswith("model.") for name in state)
    names = make_model("Swinv2Model").peer_state()
    assert names["encoder.layers.0.downsample.norm.weight"].shape == (12,)
    first = "encoder.layers.0.blocks.0.attention.self."
    assert names[first + "logit_scale"].shape == (2, 1, 1)
    assert names[first + "continuous_position_bias_mlp.2.weight"].shape == (2, 512)
    assert first + "key.bias" not in names


def test_files_with_the_names_of_older_versions(pixels, tmp_path, device):
    model = make_model("SwinForImageClassification", device)
    model.save_pretrained(tmp_path)
    arrays = read_safetensors(tmp_path / "model.safetensors")[1]
    renamed = {}
    for name, array in arrays.items():
        for new, old in {
            "q_proj": "self.query", "k_proj": "self.key", "v_proj": "self.value",
            "o_proj": "output.dense", "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense",
            "relative_position_bias.relative": "self.relative",
        }.items():  # fmt: skip
            name = name.replace(new, old)
        renamed[name] = array
    block = "swin.encoder.layers.0.blocks.0.attention.self."
    renamed[block + "relative_position_index"] = np.zeros((9, 9), "int64")
    write_safetensors(tmp_path / "model.safetensors", renamed)
    again = mt.models.from_pretrained(tmp_path, device=device)
    np.testing.assert_array_equal(again(pixels).logits.numpy(), model(pixels).logits.numpy())
    again.save_pretrained(tmp_path / "again")  # under the names it came with
    written = read_safetensors(tmp_path / "again" / "model.safetensors")[1]
    assert set(written) == set(renamed) - {block + "relative_position_index"}


@pytest.mark.parametrize("family", FAMILIES)
def test_masked_patches(family, pixels, device):
    """Masked pixels do not count on the way in; the loss is their mean difference."""
    model = make_model(family + "ForMaskedImageModeling", device, image_size=16)
    rng = np.random.default_rng(2)
    images = rng.normal(size=(2, 2, 16, 16))
    mask = rng.random((2, 64)) < 0.4
    put = lambda x: mt.tensor(x, device=device)  # noqa: E731
    out = model(put(images), put(mask))
    assert out.reconstruction.shape == (2, 2, 16, 16)
    high = mask.reshape(2, 1, 8, 8).repeat(2, 2).repeat(2, 3)
    other = np.where(high, 7.0, images)
    again = model(put(other), put(mask.astype("int64")))
    np.testing.assert_allclose(again.reconstruction.numpy(), out.reconstruction.numpy(), 1e-9)
    error = abs(images - out.reconstruction.numpy()) * high
    expected = error.sum() / (high.sum() + 1e-5) / 2
    np.testing.assert_allclose(out.loss.item(), expected, 1e-9)
    assert "loss" not in model(put(images))


def test_positions_fit_other_images_by_interpolation(rng, device):
    model = make_model("SwinModel", device, use_absolute_embeddings=True)
    larger = mt.tensor(rng.normal(size=(1, 2, 14, 18)), device=device)
    with pytest.raises(ShapeError, match="does not match the position embeddings"):
        model(larger)
    assert model(larger, interpolate_pos_encoding=True)[0].shape == (1, 20, 12)


def test_small_maps(rng, device):
    """Swin raises for a map below its window, as Hugging Face does; Swin V2 shrinks the window."""
    with pytest.raises(ShapeError, match="smaller than the window"):
        make_model("SwinModel", device, window_size=4)(
            mt.tensor(rng.normal(size=(1, 2, 10, 10)), device=device)
        )
    model = make_model("Swinv2Model", device, window_size=4)
    windows = [(s.blocks[-1].window_size, s.blocks[-1].shift_size) for s in model.model.stages]
    assert windows == [((4, 4), (0, 0)), ((2, 2), (0, 0))]


def test_a_map_that_one_window_covers_is_not_shifted(rng, device):
    model = make_model("SwinModel", device, window_size=3)
    shifts = []
    for size in ((2, 20), (12, 20), (10, 10)):
        x = mt.tensor(rng.normal(size=(1, 2, 5 * size[0], size[1])), device=device)
        model(x)
        shifts.append([stage.blocks[-1].shift_size for stage in model.model.stages])
    # Only the second stage has a second block; its maps are 3 x 5, 15 x 5 and 13 x 3.
    assert [last for _, last in shifts] == [(0, 0), (1, 1), (0, 0)]


def test_blocked_scores_in_hugging_face():
    """Swin V2 adds its mask of -100 twice, which shows where scores are large."""
    for family, score in zip(FAMILIES, (-100.0, -200.0), strict=True):
        blocks = make_model(family + "Model").model.stages[1].blocks
        assert [block.attention.blocked_score for block in blocks] == [score] * 2


def test_backbones(pixels, device):
    for family in FAMILIES:
        model = make_model(family + "Backbone", device, out_features=["stem", "stage1"])
        assert [x.shape for x in model(pixels).feature_maps] == [(2, 6, 5, 5)] * 2
    with pytest.raises(ArgumentError, match="stages"):
        make_model("SwinBackbone", out_features=["stage3"])


def test_what_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="activation function"):
        make_model("SwinModel", hidden_act="gelu_of_tomorrow")
    with pytest.raises(ArgumentError, match="use_absolute_embeddings"):
        make_model("Swinv2Model", use_absolute_embeddings=True)
    with pytest.raises(ArgumentError, match="pixel_values"):
        make_model("SwinModel")()
    make_model("SwinModel").save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="missing      classifier.weight"):
        pretrained.SwinForImageClassification.from_pretrained(tmp_path)
