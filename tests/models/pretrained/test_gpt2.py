"""GPT-2 with the Hugging Face interface: names in real files, configurations, arguments."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError, ShapeError
from minitorch_attn.models import GPT
from minitorch_attn.models.pretrained import (
    GPT2DoubleHeadsModel,
    GPT2ForQuestionAnswering,
    GPT2ForSequenceClassification,
    GPT2ForTokenClassification,
    GPT2LMHeadModel,
    GPT2Model,
)
from minitorch_attn.serialization import read_safetensors, write_safetensors

WIDTH, FF = 6, 24
FIELDS = {
    "vocab_size": 11, "n_positions": 7, "n_embd": WIDTH, "n_layer": 2, "n_head": 3,
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "eos_token_id": 10,
}  # fmt: skip


def published(rng):
    """Arrays under the names of the files on the hub: no prefix, and masks among them."""
    shapes = {"wte.weight": (11, WIDTH), "wpe.weight": (7, WIDTH)}
    for i in range(2):
        shapes |= {
            f"h.{i}.attn.c_attn.weight": (WIDTH, 3 * WIDTH),
            f"h.{i}.attn.c_attn.bias": (3 * WIDTH,),
            f"h.{i}.attn.c_proj.weight": (WIDTH, WIDTH), f"h.{i}.attn.c_proj.bias": (WIDTH,),
            f"h.{i}.mlp.c_fc.weight": (WIDTH, FF), f"h.{i}.mlp.c_fc.bias": (FF,),
            f"h.{i}.mlp.c_proj.weight": (FF, WIDTH), f"h.{i}.mlp.c_proj.bias": (WIDTH,),
        }  # fmt: skip
        shapes |= {f"h.{i}.ln_{k}.{w}": (WIDTH,) for k in (1, 2) for w in ("weight", "bias")}
    shapes |= {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    arrays = {name: rng.uniform(-0.7, 0.7, shape) for name, shape in shapes.items()}
    masks = {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, 7, 7))) for i in range(2)}
    return arrays | masks | {"h.1.attn.masked_bias": np.array(-1e4)}


def write(folder, arrays, **changes):
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", arrays)
    (folder / "config.json").write_text(json.dumps({**FIELDS, **changes}))
    return folder


def by_hand(arrays):
    """The paper's model with the published arrays in their places."""
    model = GPT(11, 7, WIDTH, 3, 2).double().eval()

    def put(parameter, array):
        parameter.data = mt.tensor(np.ascontiguousarray(array))

    put(model.token_embedding.weight, arrays["wte.weight"])
    put(model.position_embedding.weight, arrays["wpe.weight"])
    for i, block in enumerate(model.blocks):
        h = {k.removeprefix(f"h.{i}."): a for k, a in arrays.items() if k.startswith(f"h.{i}.")}
        for k, name in enumerate("qkv"):
            part = slice(k * WIDTH, (k + 1) * WIDTH)
            projection = getattr(block.attention, f"{name}_proj")
            put(projection.weight, h["attn.c_attn.weight"][:, part].T)
            put(projection.bias, h["attn.c_attn.bias"][part])
        linears = {
            "attn.c_proj": block.attention.out_proj,
            "mlp.c_fc": block.feed_forward.linear1,
            "mlp.c_proj": block.feed_forward.linear2,
        }
        for name, linear in linears.items():
            put(linear.weight, h[f"{name}.weight"].T)
            put(linear.bias, h[f"{name}.bias"])
        for name, norm in (("ln_1", block.norm1), ("ln_2", block.norm2)):
            put(norm.weight, h[f"{name}.weight"])
            put(norm.bias, h[f"{name}.bias"])
    put(model.norm.weight, arrays["ln_f.weight"])
    put(model.norm.bias, arrays["ln_f.bias"])
    return model


@pytest.fixture
def arrays(rng):
    return published(rng)


@pytest.fixture
def model(arrays, tmp_path, device):
    return mt.models.from_pretrained(write(tmp_path / "hub", arrays), device=device)


@pytest.fixture
def ids(rng, device):
    return mt.tensor(rng.integers(0, 10, (3, 5)), device=device)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_folder_of_the_hub(arrays, model, ids):
    assert type(model) is GPT2LMHeadModel and not model.training
    close(model(ids).logits.numpy(), by_hand(arrays)(ids.to("cpu")).numpy())


def test_what_is_saved_has_hugging_face_names(arrays, model, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    saved = read_safetensors(tmp_path / "saved" / "model.safetensors")[1]
    expected = {k: a for k, a in arrays.items() if not k.endswith((".attn.bias", ".masked_bias"))}
    assert set(saved) == {f"transformer.{name}" for name in expected}
    for name, array in expected.items():
        assert (saved[f"transformer.{name}"] == array).all(), name


def test_an_output_matrix_of_its_own(arrays, tmp_path, rng, ids):
    own = rng.uniform(-1, 1, (11, WIDTH))
    folder = write(tmp_path / "own", arrays | {"lm_head.weight": own}, tie_word_embeddings=False)
    model = mt.models.from_pretrained(folder).to(ids.device)
    hidden = model(ids, output_hidden_states=True).hidden_states[-1].numpy()
    close(model(ids).logits.numpy(), hidden @ own.T)
    assert "lm_head.weight" in model.peer_state()
    with pytest.raises(CheckpointError, match="missing +lm_head.weight"):
        mt.models.from_pretrained(write(tmp_path / "none", arrays, tie_word_embeddings=False))


def test_a_tied_matrix_may_be_stored_twice(arrays, tmp_path, ids):
    folder = write(tmp_path / "twice", arrays | {"lm_head.weight": arrays["wte.weight"]})
    model = mt.models.from_pretrained(folder)
    assert model.body.head.weight is model.body.token_embedding.weight


def test_from_one_head_to_another(model, tmp_path, ids):
    folder = tmp_path / "saved"
    model.save_pretrained(folder)
    base = GPT2Model.from_pretrained(folder, device=ids.device)
    hidden = model(ids, output_hidden_states=True).hidden_states[-1]
    close(base(ids).last_hidden_state.numpy(), hidden.numpy())
    with pytest.warns(UserWarning, match="score.weight"):
        other = GPT2ForSequenceClassification.from_pretrained(folder, strict=False)
    assert other.score.weight.shape == (2, WIDTH)
    assert other.score.weight.numpy().std() == pytest.approx(0.02, rel=0.8)


def test_what_the_configuration_says():
    model = GPT2LMHeadModel(
        {
            **FIELDS, "attn_pdrop": 0.2, "embd_pdrop": 0.3, "resid_pdrop": 0.4, "n_inner": 5,
            "layer_norm_epsilon": 0.5, "scale_attn_weights": False,
            "scale_attn_by_inverse_layer_idx": True, "initializer_range": 3.0,
        }
    )  # fmt: skip
    first, second = model.body.blocks
    assert (first.attention.scale, second.attention.scale) == (1.0, 0.5)
    assert (first.attention.dropout, model.body.dropout.p, first.dropout.p) == (0.2, 0.3, 0.4)
    assert first.feed_forward.linear1.weight.shape == (5, WIDTH)
    assert first.norm1.eps == second.norm2.eps == model.body.norm.eps == 0.5
    assert model.body.token_embedding.weight.numpy().std() == pytest.approx(3, rel=0.3)
    assert second.attention.out_proj.weight.numpy().std() == pytest.approx(1.5, rel=0.5)


@pytest.mark.parametrize(
    "cls, changes, message",
    [
        (GPT2LMHeadModel, {"add_cross_attention": True}, "add_cross_attention"),
        (GPT2LMHeadModel, {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        (GPT2Model, {"activation_function": "nonsense"}, "nonsense"),
        (GPT2DoubleHeadsModel, {"summary_type": "attn"}, "summary_type"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(cls, changes, message):
    with pytest.raises(ArgumentError, match=message):
        cls({**FIELDS, **changes})


def test_scores_of_half_precision_models_are_float32(model, ids, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reorder_and_upcast_attn": True}))
    half = mt.models.from_pretrained(path.parent, dtype="float16").to(ids.device)
    with mt.autograd.op_log() as steps:
        logits = half(ids).logits
    scores = [s for s in steps if s.op == "Attention"]
    assert len(scores) == 2 and all(str(s.outputs[0].dtype) == "float32" for s in scores)
    assert logits.dtype == mt.float16
    np.testing.assert_allclose(logits.numpy(), model(ids).logits.numpy(), atol=0.02)
    full = mt.models.from_pretrained(path.parent).to(ids.device)
    close(full(ids).logits.numpy(), model(ids).logits.numpy())


# Arguments and results


def test_caches_go_in_as_objects_and_as_tuples(model, ids):
    whole = model(ids).logits.numpy()
    first = model(ids[:, :3])
    as_tuples = tuple(first.past_key_values)
    assert as_tuples[1][0].shape == (3, 3, 3, 2)  # (batch, heads, token, head_dim)
    for past in (as_tuples, first.past_key_values):
        close(model(ids[:, 3:], past_key_values=past).logits.numpy(), whole[:, 3:])
    assert model(ids, use_cache=False).past_key_values is None
    assert "past_key_values" not in GPT2LMHeadModel({**FIELDS, "use_cache": False})(ids.to("cpu"))


def test_flags_in_the_call_and_in_the_configuration(model, ids):
    plain = model(ids)
    assert plain.attentions is None and plain.hidden_states is None
    model.config.output_attentions = True
    output = model(ids, output_hidden_states=True)
    assert [w.shape for w in output.attentions] == [(3, 3, 5, 5)] * 2
    assert [x.shape for x in output.hidden_states] == [(3, 5, WIDTH)] * 3
    assert model(ids, output_attentions=False).attentions is None
    pair = model(ids, labels=ids, use_cache=False, output_attentions=False, return_dict=False)
    assert len(pair) == 2 and pair[0].shape == () and pair[1].shape == (3, 5, 11)


def test_padding_in_front_changes_nothing(model, ids, device):
    padding = mt.tensor(np.full((3, 2), 4), device=device)
    mask = mt.tensor([[0, 0, 1, 1, 1, 1, 1]] * 3, device=device)
    positions = mt.tensor([[0, 0, 0, 1, 2, 3, 4]] * 3, device=device)
    padded = model(mt.cat((padding, ids), 1), attention_mask=mask, position_ids=positions)
    close(padded.logits.numpy()[:, 2:], model(ids).logits.numpy())


def test_logits_to_keep(model, ids, device):
    whole = model(ids).logits.numpy()
    rows = np.arange(3)[:, None]
    close(model(ids, logits_to_keep=2).logits.numpy(), whole[:, -2:])
    for places in ([0, 3], [[0, 3], [1, 1], [4, 2]]):
        found = model(ids, logits_to_keep=mt.tensor(places, device=device)).logits.numpy()
        close(found, whole[rows, np.broadcast_to(places, (3, 2))])
    chosen = np.arange(15).reshape(3, 5) % 4 == 1
    found = model(ids, logits_to_keep=mt.tensor(chosen, device=device)).logits.numpy()
    close(found, whole[chosen])


def test_labels(model, ids):
    logits = model(ids).logits.numpy()[:, :-1]
    likely = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    right = np.take_along_axis(likely, ids.numpy()[:, 1:, None], -1)
    assert model(ids, labels=ids).loss.item() == pytest.approx(-right.mean())


def test_a_class_for_each_text_is_read_at_its_last_token(ids, device):
    fields = {**FIELDS, "pad_token_id": 0, "id2label": {"0": "a", "1": "b", "2": "c"}}
    model = GPT2ForSequenceClassification(fields).eval().to(device)
    texts = np.array([[3, 0, 4, 0, 0], [5, 6, 7, 8, 9], [1, 0, 0, 0, 0]])
    logits = model(mt.tensor(texts, device=device)).logits.numpy()
    for row, last in enumerate((2, 4, 0)):
        alone = model(mt.tensor(texts[row : row + 1, : last + 1], device=device)).logits.numpy()
        np.testing.assert_allclose(logits[row], alone[0], rtol=1e-4, atol=1e-6)
    model.config.pad_token_id = None
    with pytest.raises(ArgumentError, match="pad_token_id must be set"):
        model(ids)


def test_the_other_heads(ids, device):
    shapes = {
        GPT2ForTokenClassification: {"logits": (3, 5, 2)},
        GPT2ForQuestionAnswering: {"start_logits": (3, 5), "end_logits": (3, 5)},
    }
    for cls, expected in shapes.items():
        output = cls(FIELDS).eval().to(device)(ids)
        assert {name: value.shape for name, value in output.items()} == expected
    output = GPT2DoubleHeadsModel(FIELDS).eval().to(device)(ids.reshape(1, 3, 5))
    assert output.logits.shape == (1, 3, 5, 11) and output.mc_logits.shape == (1, 3)


def test_wrong_calls(model, ids, device):
    with pytest.raises(ArgumentError, match="got +neither"):
        model()
    with pytest.raises(ArgumentError, match="got +both"):
        model(ids, inputs_embeds=mt.zeros(3, 5, WIDTH, device=device))
    with pytest.raises(ShapeError, match=r"\(3, 5\)"):
        model(ids, attention_mask=ids[:, :4])
    with pytest.raises(ShapeError, match="position_ids"):
        model(ids, position_ids=ids[:, :4])
    with pytest.raises(ArgumentError, match="encoder"):
        model(ids, encoder_hidden_states=ids)


def test_generating_with_and_without_a_cache(model, ids):
    cached = model.generate(ids[:, :2], max_new_tokens=4, min_new_tokens=4)
    again = model.generate(ids[:, :2], max_new_tokens=4, min_new_tokens=4, use_cache=False)
    assert cached.shape == (3, 6) and (cached.numpy() == again.numpy()).all()
