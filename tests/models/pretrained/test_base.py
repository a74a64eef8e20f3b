"""Loading and saving folders with a small test family, and every error of a folder."""

import json
import pickle

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.models.pretrained import registry
from minitorch_attn.models.pretrained.base import PretrainedModel
from minitorch_attn.models.pretrained.config import Config
from minitorch_attn.models.pretrained.names import Ignored, NameTable, Same, Stacked, Transposed
from minitorch_attn.models.pretrained.output import Output
from minitorch_attn.serialization import read_safetensors, write_safetensors

WIDTH, VOCABULARY, LAYERS = 6, 11, 2
PEER = {
    "body.wte.weight": (VOCABULARY, WIDTH),
    **{
        f"body.h.{i}.{name}": shape
        for i in range(LAYERS)
        for name, shape in {
            "qkv.weight": (WIDTH, 3 * WIDTH),
            "qkv.bias": (3 * WIDTH,),
            "o.weight": (WIDTH, WIDTH),
            "o.bias": (WIDTH,),
        }.items()
    },
    "score.weight": (3, WIDTH),
}


class Body(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList([nn.Attention(width, 2) for _ in range(layers)])

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = x + block(x)
        return x


class Small(PretrainedModel):
    """A base model."""

    model_type = "small"
    defaults = {"width": 768, "layers": LAYERS, "classes": 3}
    aliases = {"hidden_size": "width"}
    base_prefix, is_base = "body", True
    old_names = {"wte.table": "wte.weight"}

    def build(self, config):
        self.body = Body(config.width, config.layers)

    def names(self):
        projections = [f"body.blocks.{{}}.{name}_proj" for name in "qkv"]
        start = "" if self.is_base else "body."
        return NameTable(
            Same(start + "wte", "body.tokens"),
            Stacked(start + "h.{}.qkv", projections, transposed=True),
            Transposed(start + "h.{}.o", "body.blocks.{}.out_proj"),
            Ignored("*.mask"),
        )

    def forward(self, ids):
        return Output(hidden=self.body(ids))


class SmallWithScore(Small):
    """The same with a head."""

    is_base = False

    def build(self, config):
        super().build(config)
        self.score = nn.Linear(config.width, config.classes, bias=False)
        self.tied_embedding = self.body.tokens


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(registry, "find_class", lambda name: globals()[name])


@pytest.fixture
def folder(tmp_path):
    """A folder as Hugging Face writes it."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype("float32") for name, shape in PEER.items()}
    write_safetensors(tmp_path / "model.safetensors", arrays)
    fields = {"architectures": ["SmallWithScore"], "hidden_size": WIDTH, "unknown_field": [1]}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    return tmp_path


def arrays_in(folder):
    return read_safetensors(folder / "model.safetensors")[1]


def changed(folder, change):
    """Change the arrays of a folder."""
    arrays = arrays_in(folder)
    change(arrays)
    write_safetensors(folder / "model.safetensors", arrays)


def test_every_tensor_goes_where_it_belongs(folder):
    model, arrays = mt.models.from_pretrained(folder), arrays_in(folder)
    assert type(model) is SmallWithScore and not model.training
    block = model.body.blocks[1]
    stacked = arrays["body.h.1.qkv.weight"].T
    np.testing.assert_array_equal(block.k_proj.weight.numpy(), stacked[WIDTH : 2 * WIDTH])
    np.testing.assert_array_equal(
        block.v_proj.bias.numpy(), arrays["body.h.1.qkv.bias"][2 * WIDTH :]
    )
    np.testing.assert_array_equal(block.out_proj.weight.numpy(), arrays["body.h.1.o.weight"].T)


@pytest.mark.parametrize("max_shard_size", ["50GB", 500, "0.001MB"])
def test_what_is_saved_is_what_was_loaded(folder, tmp_path, max_shard_size):
    model = mt.models.from_pretrained(folder)
    model.save_pretrained(tmp_path / "out", max_shard_size=max_shard_size)
    again = mt.models.from_pretrained(tmp_path / "out")
    for name, array in arrays_in(folder).items():
        np.testing.assert_array_equal(again.peer_state()[name], array)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["width"] == WIDTH and config["unknown_field"] == [1]
    assert config["dtype"] == "float32" and config["architectures"] == ["SmallWithScore"]
    sharded = (tmp_path / "out" / "model.safetensors.index.json").exists()
    assert sharded == (max_shard_size != "50GB")


def test_saving_again_leaves_no_old_shards(folder, tmp_path):
    model, out = mt.models.from_pretrained(folder), tmp_path / "out"
    model.save_pretrained(out, max_shard_size=300)
    with mt.no_grad():
        model.score.weight.fill_(7)
    model.save_pretrained(out)
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model.safetensors"]
    model.save_pretrained(out, max_shard_size=300)
    assert not (out / "model.safetensors").exists()
    assert (mt.models.from_pretrained(out).score.weight.numpy() == 7).all()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtype(folder, dtype):
    model = mt.models.from_pretrained(folder, dtype=dtype)
    assert {p.dtype.name for p in model.parameters()} == {dtype}
    assert mt.models.from_pretrained(folder).score.weight.dtype == mt.float32


def test_device(folder, device):
    model = mt.models.from_pretrained(folder, device=device)
    assert {str(p.device) for p in model.parameters()} == {
        str(mt.tensor(0.0, device=device).device)
    }


def test_parameters_learn_after_loading(folder):
    model = mt.models.from_pretrained(folder, dtype=mt.float64)
    model(mt.tensor([[1, 2, 3]]))["hidden"].sum().backward()
    grad = model.body.blocks[0].q_proj.weight.grad
    assert grad.dtype == mt.float64 and grad.abs().max().item() > 0


def test_a_base_model_from_a_folder_with_a_head_and_back(folder, tmp_path):
    base = Small.from_pretrained(folder)
    assert "wte.weight" in base.peer_state() and "score.weight" not in base.peer_state()
    base.save_pretrained(tmp_path / "base")
    with pytest.raises(CheckpointError, match="missing      score.weight"):
        SmallWithScore.from_pretrained(tmp_path / "base")
    with pytest.warns(UserWarning, match="score.weight"):
        model = SmallWithScore.from_pretrained(tmp_path / "base", strict=False)
    expected = arrays_in(folder)["body.wte.weight"]
    np.testing.assert_array_equal(model.peer_state()["body.wte.weight"], expected)


def test_buffers_of_real_files_and_old_names(folder):
    def change(arrays):
        arrays["body.h.0.mask"] = np.ones((3, 3), bool)
        arrays["body.wte.table"] = arrays.pop("body.wte.weight")

    changed(folder, change)
    mt.models.from_pretrained(folder)


def test_all_that_is_wrong_is_told_at_once(folder):
    def change(arrays):
        del arrays["score.weight"]
        arrays["body.h.0.o.bias"] = np.zeros(5, "float32")
        arrays["body.h.2.o.bias"] = np.zeros(WIDTH, "float32")

    changed(folder, change)
    with pytest.raises(CheckpointError) as caught:
        mt.models.from_pretrained(folder)
    text = str(caught.value)
    assert "missing      score.weight" in text
    assert "extra        body.h.2.o.bias" in text
    assert f"wrong shape  body.h.0.o.bias: (5,), expected ({WIDTH},)" in text


def test_a_file_that_is_cut_off(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match="damaged"):
        mt.models.from_pretrained(folder)


def test_shards_that_do_not_fit_their_index(folder, tmp_path):
    out = tmp_path / "out"
    mt.models.from_pretrained(folder).save_pretrained(out, max_shard_size=600)
    index = json.loads((out / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    (out / files[0]).unlink()
    moved = next(name for name, file in index["weight_map"].items() if file == files[2])
    index["weight_map"][moved] = files[1]
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError) as caught:
        mt.models.from_pretrained(out)
    assert files[0] in str(caught.value) and f"{moved} is not in {files[1]}" in str(caught.value)


def test_an_index_may_not_name_files_elsewhere(folder):
    index = {"weight_map": {"body.wte.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="not the name of a file in the folder"):
        mt.models.from_pretrained(folder)


def test_a_pickle_is_refused_with_the_way_to_convert_it(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(CheckpointError, match="pytorch_model.bin(.|\n)*save_file"):
        mt.models.from_pretrained(folder)


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "config.json could not be read"),
        ("{", "is not valid JSON"),
        ("[1]", "must contain a JSON object"),
        ("{}", "the architecture is missing"),
        ('{"architectures": []}', "exactly one class name"),
        ('{"architecture": "resnet50d"}', "architecture 'resnet50d' is not supported"),
    ],
)
def test_configurations_that_make_no_sense(folder, text, message):
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_text(text)
    with pytest.raises((CheckpointError, ArgumentError), match=message):
        mt.models.from_pretrained(folder)


def test_no_folder_and_no_weights(folder, tmp_path):
    with pytest.raises(CheckpointError, match="is not a folder"):
        mt.models.from_pretrained(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model.safetensors is missing"):
        mt.models.from_pretrained(folder)


def test_generation_config_is_kept(folder, tmp_path):
    (folder / "generation_config.json").write_text('{"eos_token_id": 5}')
    model = mt.models.from_pretrained(folder)
    assert model.generation_config == {"eos_token_id": 5}
    model.save_pretrained(tmp_path / "out")
    assert mt.models.from_pretrained(tmp_path / "out").generation_config == {"eos_token_id": 5}


@pytest.mark.parametrize("size", ["much", 0, -5, "5XB"])
def test_sizes_that_are_none(folder, tmp_path, size):
    model = mt.models.from_pretrained(folder)
    with pytest.raises(ArgumentError, match="max_shard_size"):
        model.save_pretrained(tmp_path / "out", max_shard_size=size)


def test_unknown_classes_name_the_known_ones(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(ArgumentError, match="GPT2"):
        registry.find_class("ResNetModel")


def test_config():
    config = Config({"hidden_size": 5, "id2label": {"0": "a", "1": "b", "2": "c"}}, Small.defaults,
                    Small.aliases)  # fmt: skip
    assert config.width == config.hidden_size == 5 and config.layers == LAYERS
    assert config.num_labels == 3 and Config({}).num_labels == 2
    config.hidden_size = 7
    assert config.to_dict()["width"] == 7 and "layers" not in config.to_dict()
    assert "layers" in config and "depth" not in config and config.get("depth", 9) == 9
    with pytest.raises(AttributeError, match="depth"):
        _ = config.depth
    with pytest.raises(ArgumentError, match="layers=2"):
        config.refuse("Small", width=7, layers=4)


def test_a_wrong_table_is_noticed():
    twice = NameTable(Same("a", "first"), Same("a", "second"))
    with pytest.raises(ArgumentError, match="second"):
        twice.bind(["first.weight", "second.weight"])
    part = NameTable(Stacked("qkv", ["q", "k"]))
    with pytest.raises(ArgumentError, match="k.weight"):
        part.bind(["q.weight"])


def test_output():
    output = Output(loss=None, logits="logits", states=(1, 2))
    assert output["logits"] == output.logits == output[0] == "logits"
    assert output.loss is None and "loss" not in output and output[1:] == ((1, 2),)
    with pytest.raises(KeyError):
        _ = output["loss"]


def test_a_class_that_is_not_there_is_a_missing_attribute_and_says_which_are():
    pretrained = mt.models.pretrained
    assert not hasattr(pretrained, "GPT2Nonsense") and hasattr(pretrained, "GPT2LMHeadModel")
    with pytest.raises(AttributeError, match="one of .*GPT2LMHeadModel"):
        pretrained.GPT2Nonsense  # noqa: B018


IMAGE = dict(
    image_size=4, patch_size=2, num_channels=2, hidden_size=6, num_hidden_layers=1,
    num_attention_heads=2, intermediate_size=7,
)  # fmt: skip
SWIN = dict(
    image_size=8, patch_size=2, num_channels=2, embed_dim=6, depths=[1], num_heads=[2],
    window_size=2,
)  # fmt: skip
VIDEO = {**IMAGE, "num_frames": 2}
DECODER = dict(
    decoder_hidden_size=6, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
    decoder_intermediate_size=7,
)  # fmt: skip
WAVE = dict(
    hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=5, conv_dim=[4],
    conv_kernel=[3], conv_stride=[2], num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
)  # fmt: skip


@pytest.mark.parametrize(
    "name, config, missing, hint",
    [
        ("ViTModel", IMAGE, "pixel_values", "ImageProcessor"),
        ("SwinModel", SWIN, "pixel_values", "ImageProcessor"),
        ("TimesformerModel", VIDEO, "pixel_values", "frame, channel, height, width"),
        ("VideoMAEModel", VIDEO, "pixel_values", "frame, channel, height, width"),
        ("VideoMAEForPreTraining", {**VIDEO, **DECODER}, "bool_masked_pos", "tube_masking"),
        ("Wav2Vec2ConformerModel", WAVE, "input_values", "waveforms"),
    ],
)
def test_a_call_without_the_input(name, config, missing, hint):
    model = getattr(mt.models.pretrained, name)(config)
    with pytest.raises(ArgumentError, match=f"{name}: {missing} is missing") as info:
        model(None)
    assert hint in info.value.hint
