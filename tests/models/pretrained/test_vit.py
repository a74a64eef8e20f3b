"""ViT, DeiT and ViTMAE with the Hugging Face interface: old and new names, heads, errors."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError, ShapeError
from minitorch_attn.models import pretrained
from minitorch_attn.models.mae import patchify, unpatchify
from minitorch_attn.serialization import read_safetensors

BATCH, LABELS = 3, 5
CONFIG = dict(
    image_size=6, patch_size=2, num_channels=2, hidden_size=8, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=11, encoder_stride=2,
    id2label={str(i): f"label {i}" for i in range(LABELS)}, decoder_hidden_size=4,
    decoder_num_hidden_layers=1, decoder_num_attention_heads=1, decoder_intermediate_size=7,
)  # fmt: skip
CLASSES = [
    "ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling", "DeiTModel",
    "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher",
    "DeiTForMaskedImageModeling", "ViTMAEModel", "ViTMAEForPreTraining",
]  # fmt: skip
# A block's tensors in published files and in the classes of transformers 5.
OLD_AND_NEW = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
    "layernorm_before": "layernorm_before",
    "layernorm_after": "layernorm_after",
}


def made(name, **changes):
    mt.manual_seed(5)
    model = getattr(pretrained, name)({**CONFIG, **changes}).double().eval()
    rng = np.random.default_rng(7)
    for p in model.parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return model


def pixels(rng, height=6, width=6):
    return mt.tensor(rng.normal(size=(BATCH, 2, height, width)))


def opened(model, folder):
    model.save_pretrained(folder)
    return mt.models.from_pretrained(folder)


def names_in(folder):
    return set(read_safetensors(folder / "model.safetensors")[1])


@pytest.mark.parametrize("name", CLASSES)
def test_a_folder_and_back(name, tmp_path, rng):
    model, x = made(name), pixels(rng)
    again = opened(model, tmp_path)
    assert type(again) is type(model) and not again.training
    options = {"noise": mt.tensor(rng.random((BATCH, 9)))} if "MAE" in name else {}
    one, other = (m(x, **options)[0].numpy() for m in (model, again))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("start, name", [("vit.", CLASSES[1]), ("deit.", CLASSES[4])])
def test_both_sets_of_names(start, name, tmp_path, rng):
    model, x = made(name), pixels(rng)
    model.save_pretrained(tmp_path / "old")
    ends = (".weight", ".bias")
    blocks = {
        layout: {f"{start}{stack}.{i}.{part}{end}" for i in range(2) for part in parts
                 for end in ends}
        for layout, stack, parts in (("old", "encoder.layer", OLD_AND_NEW),
                                     ("new", "layers", OLD_AND_NEW.values()))
    }  # fmt: skip
    others = names_in(tmp_path / "old") - blocks["old"]
    assert names_in(tmp_path / "old") == blocks["old"] | others
    model.stacks = None
    model.save_pretrained(tmp_path / "new")
    assert names_in(tmp_path / "new") == blocks["new"] | others
    for layout in ("old", "new"):  # and each folder is written as it was read
        again = mt.models.from_pretrained(tmp_path / layout)
        np.testing.assert_array_equal(again(x).logits.numpy(), model(x).logits.numpy())
        again.save_pretrained(tmp_path / "again" / layout)
        assert names_in(tmp_path / "again" / layout) == blocks[layout] | others


@pytest.mark.parametrize("stack", ["decoder_layers", "decoder_encoder.layer"])
def test_names_of_the_decoder(stack, tmp_path):
    model = made("ViTMAEForPreTraining")
    model.stacks = {**model.stacks, "decoder.decoder_layers": f"decoder.{stack}"}
    model.save_pretrained(tmp_path)
    query = f"decoder.{stack}.0.attention.attention.query.weight"
    assert query in names_in(tmp_path)
    again = mt.models.from_pretrained(tmp_path)
    again.save_pretrained(tmp_path / "again")
    assert names_in(tmp_path / "again") == names_in(tmp_path)
    before, after = (
        read_safetensors(folder / "model.safetensors")[1][query]
        for folder in (tmp_path, tmp_path / "again")
    )
    np.testing.assert_array_equal(before, after)


def test_the_base_model_of_a_headed_folder(tmp_path, rng):
    model, x = made("ViTForImageClassification"), pixels(rng)
    model.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"missing +pooler\.dense\.weight"):
        pretrained.ViTModel.from_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="pooler.dense.weight"):
        base = pretrained.ViTModel.from_pretrained(tmp_path, strict=False)
    hidden = base(x).last_hidden_state.numpy()
    expected = model(x, output_hidden_states=True)
    head = model.classifier
    np.testing.assert_allclose(
        hidden[:, 0] @ head.weight.numpy().T + head.bias.numpy(), expected.logits.numpy()
    )
    assert len(expected.hidden_states) == 3


def test_a_head_on_the_base_model_takes_no_pooler(tmp_path):
    made("ViTModel").save_pretrained(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        pretrained.ViTForImageClassification.from_pretrained(tmp_path)
    text = str(caught.value)
    assert text.count("missing  ") == 2 and "classifier.bias" in text
    assert "pooler" not in text and "extra  " not in text


def test_configurations(tmp_path):
    model = made("ViTForImageClassification")
    assert model.config.num_labels == LABELS and model.config.layer_norm_eps == 1e-12
    again = opened(model, tmp_path / "five")
    written = json.loads((tmp_path / "five" / "config.json").read_text())
    assert written["architectures"] == ["ViTForImageClassification"]
    assert written["model_type"] == "vit" and written["dtype"] == "float64"
    assert again.config.num_labels == LABELS
    bare = opened(made("ViTForImageClassification", id2label={}), tmp_path / "none")
    assert bare.config.num_labels == 0 and isinstance(bare.classifier, mt.nn.Identity)
    norm = made("ViTModel", layer_norm_eps=0.01, hidden_act="relu", qkv_bias=False).vision.norm
    assert norm.eps == 0.01
    with pytest.raises(ArgumentError, match="head_dim"):
        made("ViTModel", head_dim=3)
    with pytest.raises(ArgumentError, match="activation"):
        made("ViTModel", hidden_act="step")


def test_the_deviation_of_new_weights():
    config = dict(hidden_size=64, intermediate_size=128, initializer_range=0.3)
    model = pretrained.ViTModel({**CONFIG, **config})
    weight = model.vision.blocks[0].feed_forward.linear1.weight.numpy()
    assert weight.std() == pytest.approx(0.3, rel=0.05)
    patch = pretrained.ViTMAEModel({**CONFIG, **config}).vision.patch_embedding.projection
    assert patch.weight.numpy().std() == pytest.approx((2 / (64 + 8)) ** 0.5, rel=0.1)


def test_masked_patches_do_not_matter(rng):
    model, x = made("ViTForMaskedImageModeling"), pixels(rng)
    mask = rng.random((BATCH, 9)) < 0.5
    patches = patchify(x, 2).numpy().copy()
    painted = model(x, bool_masked_pos=mt.tensor(mask))
    patches[mask] = 7.0
    changed = unpatchify(mt.tensor(patches), 2, (3, 3))
    again = model(changed, bool_masked_pos=mt.tensor(mask))
    np.testing.assert_array_equal(painted.reconstruction.numpy(), again.reconstruction.numpy())
    error = abs(patchify(x - painted.reconstruction, 2).numpy())[mask]
    assert painted.loss.item() == pytest.approx(error.sum() / (4 * mask.sum() + 1e-5) / 2)


def test_tuples_and_flags(rng):
    model, x = made("ViTForImageClassification"), pixels(rng)
    logits = model(x).logits.numpy()
    (alone,) = model(x, return_dict=False)
    np.testing.assert_array_equal(alone.numpy(), logits)
    out = model(x, output_attentions=True, labels=mt.tensor(np.array([0, 1, 2])))
    assert list(out) == ["loss", "logits", "attentions"]
    assert [a.shape for a in out.attentions] == [(BATCH, 2, 10, 10)] * 2
    model.config.output_hidden_states = True
    assert "hidden_states" in model(x)


def test_errors(rng):
    model, x = made("ViTModel"), pixels(rng)
    with pytest.raises(ShapeError, match="interpolate_pos_encoding=True"):
        model(pixels(rng, 8, 6))
    assert model(pixels(rng, 8, 4), interpolate_pos_encoding=True)[0].shape == (BATCH, 9, 8)
    with pytest.raises(ArgumentError, match="pixel_values"):
        model()
    with pytest.raises(ArgumentError, match="without a mask token"):
        model(x, bool_masked_pos=mt.tensor(np.zeros((BATCH, 9), bool)))
    with pytest.raises(ShapeError, match="must have one number per token"):
        model(x, attention_mask=mt.ones(BATCH, 1, 10))
    painter = made("ViTForMaskedImageModeling", encoder_stride=3)
    with pytest.raises(ArgumentError, match="encoder_stride"):
        painter(x, bool_masked_pos=mt.tensor(np.zeros((BATCH, 9), bool)))
    with pytest.raises(ShapeError, match="not square"):
        made("ViTMAEForPreTraining").patchify(pixels(rng, 8, 6))
