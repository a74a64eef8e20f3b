"""CLIP against transformers: random configurations, every class, the rules of the end token."""

import json

import numpy as np
import pytest
import torch
from parity.models.peers import check_same_tensors, compare, opened, randomise

import minitorch_attn as mt
from minitorch_attn.models import clip_sizes
from minitorch_attn.serialization import read_safetensors

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

TEXT = ["CLIPTextModel", "CLIPTextModelWithProjection"]
VISION = ["CLIPVisionModel", "CLIPVisionModelWithProjection", "CLIPForImageClassification"]
CLASSES = [*TEXT, *VISION, "CLIPModel"]
ACTIVATIONS = ["quick_gelu", "gelu", "relu", "gelu_pytorch_tanh"]
BATCH, LABELS, TOKENS = 3, 5, 7


@pytest.fixture(autouse=True)
def float64(monkeypatch):
    """The peer computes the softmax in float32; here it stays in float64."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim)
    )


def draw_text(rng, **fixed):
    heads, vocab = int(rng.choice([1, 2, 3])), int(rng.choice([11, 31]))
    config = dict(
        vocab_size=vocab, hidden_size=4 * heads, intermediate_size=int(rng.choice([5, 13])),
        projection_dim=int(rng.choice([3, 7])), num_hidden_layers=int(rng.choice([1, 2])),
        num_attention_heads=heads, max_position_embeddings=int(rng.choice([7, 9])),
        hidden_act=str(rng.choice(ACTIVATIONS)), layer_norm_eps=float(rng.choice([1e-5, 1e-2])),
        eos_token_id=int(rng.choice([2, 5, vocab - 1])),
    )  # fmt: skip
    return {**config, **fixed}


def draw_vision(rng, **fixed):
    heads, patch = int(rng.choice([1, 2, 3])), int(rng.choice([2, 3, 5]))
    config = dict(
        hidden_size=4 * heads, intermediate_size=int(rng.choice([5, 13])),
        projection_dim=int(rng.choice([3, 7])), num_hidden_layers=int(rng.choice([1, 2])),
        num_attention_heads=heads, num_channels=int(rng.choice([1, 2, 3])), patch_size=patch,
        image_size=patch * int(rng.choice([1, 2, 3])) + int(rng.choice([0, 1])),
        hidden_act=str(rng.choice(ACTIVATIONS)), layer_norm_eps=float(rng.choice([1e-5, 1e-2])),
    )  # fmt: skip
    return {**config, **fixed}


def draw_config(name, rng, text=None, vision=None, **fixed):
    text, vision = draw_text(rng, **(text or {})), draw_vision(rng, **(vision or {}))
    eager = {"attn_implementation": "eager"}
    if name in TEXT:
        return transformers.CLIPTextConfig(**text, **eager)
    if name in VISION[:2]:
        return transformers.CLIPVisionConfig(**vision, **eager)
    return transformers.CLIPConfig(
        text_config=text, vision_config=vision, projection_dim=11, num_labels=LABELS,
        logit_scale_init_value=1.3, **eager, **fixed,
    )  # fmt: skip


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, opened(peer, folder)


def inputs_of(name, rng, config, height=None, width=None):
    inputs = {}
    if name in TEXT or name == "CLIPModel":
        text = getattr(config, "text_config", config)
        inputs["input_ids"] = ids_of(rng, text)
        lengths = np.array([TOKENS, TOKENS - 2, 3])
        inputs["attention_mask"] = (np.arange(TOKENS) < lengths[:, None]).astype("int64")
    if name not in TEXT:
        vision = getattr(config, "vision_config", config)
        size = (height or vision.image_size, width or vision.image_size)
        inputs["pixel_values"] = rng.normal(size=(BATCH, vision.num_channels, *size))
    if name == "CLIPForImageClassification":
        inputs["labels"] = rng.integers(0, LABELS, BATCH)
    return inputs


def ids_of(rng, text):
    """The end token occurs twice in the first row, and not at all in the last one."""
    end = text.eos_token_id
    if end == 2:  # the largest id, which must not occur twice: argmax would then be ambiguous
        ids = rng.integers(0, text.vocab_size - 1, (BATCH, TOKENS))
        ids[np.arange(BATCH), [4, 2, 6]] = text.vocab_size - 1
        return ids
    ids = rng.integers(0, text.vocab_size - 1, (BATCH, TOKENS))
    ids[ids == end] = 1
    ids[0, [3, 5]] = ids[1, 4] = end
    return ids


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    config = draw_config(name, rng, text={"eos_token_id": [2, 5, 10][seed % 3]})
    peer, ours = pair(name, config, seed, tmp_path)
    flags = {"return_loss": seed % 2 == 0} if name == "CLIPModel" else {}
    inputs = inputs_of(name, rng, config)
    flags |= dict(output_attentions=True, output_hidden_states=True)
    assert compare(peer, ours, inputs, **flags) >= 18
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")


@pytest.mark.parametrize("part", ["text_model_output", "vision_model_output"])
def test_outputs_of_the_towers(part, tmp_path):
    rng = np.random.default_rng(3)
    config = draw_config("CLIPModel", rng)
    peer, ours = pair("CLIPModel", config, 3, tmp_path)
    compare(
        peer, ours, inputs_of("CLIPModel", rng, config), output_attentions=True,
        output_hidden_states=True, call=lambda model, **kwargs: model(**kwargs)[part],
    )  # fmt: skip


@pytest.mark.parametrize("part", ["text", "image"])
def test_features(part, tmp_path):
    rng = np.random.default_rng(4)
    config = draw_config("CLIPModel", rng)
    peer, ours = pair("CLIPModel", config, 4, tmp_path)
    inputs = inputs_of("CLIPModel", rng, config)
    inputs = {k: v for k, v in inputs.items() if (k == "pixel_values") == (part == "image")}
    compare(
        peer, ours, inputs, output_hidden_states=True,
        call=lambda model, **kwargs: getattr(model, f"get_{part}_features")(**kwargs),
    )  # fmt: skip


def test_more_texts_than_images(tmp_path):
    rng = np.random.default_rng(5)
    config = draw_config("CLIPModel", rng)
    peer, ours = pair("CLIPModel", config, 5, tmp_path)
    inputs = inputs_of("CLIPModel", rng, config)
    inputs["pixel_values"] = inputs["pixel_values"][:2]
    compare(peer, ours, inputs)


def test_positions_and_four_axes(tmp_path):
    """A mask with four axes replaces the causal mask."""
    rng = np.random.default_rng(6)
    config = draw_config("CLIPTextModel", rng)
    peer, ours = pair("CLIPTextModel", config, 6, tmp_path)
    inputs = inputs_of("CLIPTextModel", rng, config)
    inputs["position_ids"] = rng.integers(0, 7, (BATCH, TOKENS))
    compare(peer, ours, inputs)
    allowed = (rng.random((BATCH, 1, TOKENS, TOKENS)) < 0.5) | np.eye(TOKENS, dtype=bool)
    inputs["attention_mask"] = np.where(allowed, 0.0, -np.inf)
    compare(peer, ours, inputs)
    del inputs["attention_mask"], inputs["position_ids"]
    compare(peer, ours, inputs)


@pytest.mark.parametrize("rows, columns", [(3, 3), (2, 5), (1, 4)])
def test_other_sizes(rows, columns, tmp_path):
    rng = np.random.default_rng(rows)
    name = VISION[columns % 3]
    config = draw_config(name, rng, vision={"image_size": 8, "patch_size": 4})
    peer, ours = pair(name, config, 7, tmp_path)
    inputs = inputs_of(name, rng, config, 4 * rows + 1, 4 * columns)
    compare(peer, ours, inputs, interpolate_pos_encoding=True)
    with pytest.raises(mt.errors.ShapeError, match="image_size"):
        ours(mt.tensor(inputs["pixel_values"]))


@pytest.mark.parametrize("name", ["CLIPTextModel", "CLIPVisionModel", "CLIPModel"])
def test_where_dropout_stands(name, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    rng = np.random.default_rng(8)
    rate = {"attention_dropout": 1.0}
    config = draw_config(name, rng, text=rate, vision=rate)
    peer, ours = pair(name, config, 8, tmp_path)
    compare(peer.train(), ours.train(), inputs_of(name, rng, config))


@pytest.mark.parametrize("name", [*TEXT, *VISION[:2]])
def test_a_tower_reads_a_folder_of_the_whole(name, tmp_path):
    """It is then written with the prefix, as transformers does."""
    rng = np.random.default_rng(9)
    config = draw_config("CLIPModel", rng, {"projection_dim": 11}, {"projection_dim": 11})
    whole = randomise(transformers.CLIPModel(config), 9)
    whole.save_pretrained(tmp_path)
    cls = getattr(transformers, name)
    peer = cls.from_pretrained(tmp_path, attn_implementation="eager").double().eval()
    ours = getattr(mt.models.pretrained, name).from_pretrained(tmp_path)
    part = peer.config
    compare(peer, ours, inputs_of(name, rng, part))
    peer.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    check_same_tensors(tmp_path / "theirs", tmp_path / "ours")
    again = mt.models.from_pretrained(tmp_path / "ours")
    assert again.config.hidden_size == part.hidden_size


def test_the_second_copy_of_an_old_configuration(tmp_path):
    """`text_config_dict` replaces fields of `text_config`, with its defaults."""
    rng = np.random.default_rng(10)
    fields = draw_text(rng, layer_norm_eps=1e-5, hidden_act="quick_gelu")
    config = draw_config("CLIPModel", rng)
    config.text_config = transformers.CLIPTextConfig(**fields)
    peer = randomise(transformers.CLIPModel(config), 10)
    peer.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    written = json.loads(path.read_text())
    written["text_config_dict"] = {
        k: v for k, v in fields.items() if k not in ("layer_norm_eps", "hidden_act")
    }
    written["text_config"].update(hidden_act="relu", layer_norm_eps=0.5)
    path.write_text(json.dumps(written))
    again = transformers.CLIPModel.from_pretrained(tmp_path, attn_implementation="eager")
    ours = mt.models.from_pretrained(tmp_path)
    compare(again.double().eval(), ours, inputs_of("CLIPModel", rng, again.config))


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
    compare(peer.double().eval(), ours, inputs_of(name, rng, config))


@pytest.mark.parametrize("field, value", [("hidden_size", 1 << 40), ("num_hidden_layers", 10**6)])
def test_a_damaged_size_is_refused(field, value, tmp_path):
    config = draw_config("CLIPModel", np.random.default_rng(1))
    peer, _ = pair("CLIPModel", config, 1, tmp_path)
    path = tmp_path / "config.json"
    for part in ("text_config", "vision_config"):
        fields = json.loads(path.read_text())
        fields[part][field] = value
        (tmp_path / "config.json").write_text(json.dumps(fields))
        with pytest.raises(mt.errors.CheckpointError, match=field):
            mt.models.from_pretrained(tmp_path)
        del fields[part][field]
        fields[part]["hidden_act"] = 3
        (tmp_path / "config.json").write_text(json.dumps(fields))
        with pytest.raises(mt.errors.CheckpointError, match="hidden_act"):
            mt.models.from_pretrained(tmp_path)
        peer.save_pretrained(tmp_path)


def test_refused_end_tokens():
    with pytest.raises(mt.errors.ArgumentError, match="eos_token_id"):
        mt.models.pretrained.CLIPTextModel({"eos_token_id": [1, 2], "num_hidden_layers": 0})


def test_a_file_with_position_ids(tmp_path):
    """Old files contain them; they are not written again."""
    config = draw_config("CLIPModel", np.random.default_rng(2))
    peer, ours = pair("CLIPModel", config, 2, tmp_path)
    _, arrays = read_safetensors(tmp_path / "model.safetensors")
    old = {**arrays, "text_model.embeddings.position_ids": np.arange(9)[None]}
    cls, fields = type(ours), ours.config.to_dict()
    assert set(cls.from_arrays(fields, old).peer_state()) == set(arrays)


@pytest.mark.parametrize(
    "size, width, layers, patch, text, image",
    [
        ("b_32", 768, 12, 32, 512, 224), ("b_16", 768, 12, 16, 512, 224),
        ("l_14", 1024, 24, 14, 768, 224), ("l_14", 1024, 24, 14, 768, 336),
    ],
)  # fmt: skip
def test_published_sizes(size, width, layers, patch, text, image):
    with torch.device("meta"):
        config = transformers.CLIPConfig(
            text_config=dict(hidden_size=text, intermediate_size=4 * text,
                             num_attention_heads=text // 64),
            vision_config=dict(hidden_size=width, intermediate_size=4 * width, patch_size=patch,
                               num_hidden_layers=layers, num_attention_heads=width // 64,
                               image_size=image),
            projection_dim=text,
        )  # fmt: skip
        peer = transformers.CLIPModel(config)
    with mt.nn.init.skip_init():
        ours = getattr(clip_sizes, f"clip_{size}")(image)
    found = {"b_32": 151_277_313, "b_16": 149_620_737, "l_14": 427_616_513}[size]
    count = sum(p.numel() for p in ours.parameters())
    assert count == sum(p.numel() for p in peer.parameters())
    assert count == (found if image == 224 else 427_944_193)
    assert ours.vision.blocks[0].attention.head_dim == ours.text.blocks[0].attention.head_dim == 64
