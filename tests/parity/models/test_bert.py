"""BERT against transformers: random configurations, every class, outputs and all gradients."""

import numpy as np
import pytest
import torch
from parity.models.peers import compare, opened, randomise

import minitorch_attn as mt

LABELS = {3: {"0": "a", "1": "b", "2": "c"}, 1: {"0": "a"}, 2: {"0": "a", "1": "b"}}
ACTIVATIONS = ["gelu", "relu", "gelu_new", "silu", "gelu_pytorch_tanh", "tanh", "quick_gelu"]


@pytest.fixture(autouse=True)
def no_float32_losses(monkeypatch):
    """The peer computes losses of a float64 decoder in float32; here it stays in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def drawn(seed, **changes):
    """A configuration with every size another prime where that is possible."""
    rng = np.random.default_rng(seed)
    heads = int(rng.choice([1, 2, 3]))
    config = dict(
        vocab_size=int(rng.choice([17, 23])), hidden_size=heads * int(rng.choice([4, 5])),
        num_hidden_layers=int(rng.choice([1, 2, 3])), num_attention_heads=heads,
        intermediate_size=int(rng.choice([7, 13])), max_position_embeddings=11,
        type_vocab_size=int(rng.choice([2, 3])), hidden_act=str(rng.choice(ACTIVATIONS)),
        layer_norm_eps=float(rng.choice([1e-12, 1e-5])),
        pad_token_id=[0, 5, None][int(rng.integers(3))], attn_implementation="eager",
    )  # fmt: skip
    return {**config, **changes}


def texts(seed, config, batch=3, tokens=7):
    """Ids, segments and a padding mask; every row keeps at least one token."""
    rng = np.random.default_rng(seed + 1000)
    mask = (np.arange(tokens) < rng.integers(1, tokens + 1, (batch, 1))).astype("int64")
    return {
        "input_ids": rng.integers(0, config["vocab_size"], (batch, tokens)),
        "attention_mask": mask,
        "token_type_ids": rng.integers(0, config["type_vocab_size"], (batch, tokens)),
    }


def pair(transformers, folder, name, seed, **changes):
    config = drawn(seed, **changes)
    peer = getattr(transformers, name)(transformers.BertConfig(**config))
    return config, *both(peer, folder, seed)


def both(peer, folder, seed):
    randomise(peer, seed)
    return peer, opened(peer, folder)


SEEN = {"output_hidden_states": True, "output_attentions": True}


@pytest.mark.parametrize("seed", range(8))
def test_the_base_model(transformers, tmp_path, seed):
    config, peer, ours = pair(transformers, tmp_path, "BertModel", seed)
    inputs = texts(seed, config)
    if seed % 3 == 1:
        inputs["position_ids"] = np.random.default_rng(seed).integers(0, 11, (3, 7))
    if seed % 3 == 2:
        del inputs["token_type_ids"]
        inputs["attention_mask"] = inputs["attention_mask"].astype(bool)
    if seed % 2:
        shape = (3, 7, config["hidden_size"])
        inputs["inputs_embeds"] = np.random.default_rng(seed).normal(size=shape)
        del inputs["input_ids"]
    assert compare(peer, ours, inputs, **SEEN) > 20


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
@pytest.mark.parametrize("seed", [1, 2])
def test_pre_training(transformers, tmp_path, name, tied, seed):
    config, peer, ours = pair(transformers, tmp_path, name, seed, tie_word_embeddings=tied)
    rng = np.random.default_rng(seed)
    inputs = texts(seed, config)
    inputs["labels"] = np.where(
        rng.random((3, 7)) < 0.4, rng.integers(0, config["vocab_size"], (3, 7)), -100
    )
    inputs["labels"][0, 0] = 3
    if name == "BertForPreTraining":
        inputs["next_sentence_label"] = rng.integers(0, 2, 3)
    compare(peer, ours, inputs, **SEEN)


@pytest.mark.parametrize(
    ("num_labels", "problem_type"),
    [(3, None), (1, None), (3, "regression"), (3, "multi_label_classification"),
     (2, "single_label_classification"), (1, "regression")],
)  # fmt: skip
@pytest.mark.parametrize("seed", [3, 4])
def test_sequence_classification(transformers, tmp_path, num_labels, problem_type, seed):
    changes = dict(id2label=LABELS[num_labels], problem_type=problem_type, classifier_dropout=0.2)
    name = "BertForSequenceClassification"
    config, peer, ours = pair(transformers, tmp_path, name, seed, **changes)
    inputs = texts(seed, config)
    labels = np.random.default_rng(seed).integers(0, num_labels, 3)
    if num_labels == 1:
        labels = labels + 0.3
    elif problem_type in ("regression", "multi_label_classification"):
        labels = np.random.default_rng(seed).integers(0, 2, (3, num_labels)).astype(float)
    compare(peer, ours, inputs, call=with_labels(labels))


def with_labels(labels):
    """A call whose labels are constants: the gradient of targets is not compared."""

    def call(model, **inputs):
        place = mt.tensor if isinstance(model, mt.nn.Module) else torch.tensor
        return model(**inputs, labels=place(labels))

    return call


@pytest.mark.parametrize("seed", [5, 6])
def test_other_heads(transformers, tmp_path, seed):
    rng = np.random.default_rng(seed)
    config, peer, ours = pair(
        transformers, tmp_path / "token", "BertForTokenClassification", seed, id2label=LABELS[3]
    )
    labels = rng.integers(-1, 3, (3, 7))
    labels[labels < 0] = -100
    labels[0, 0] = 2
    compare(peer, ours, {**texts(seed, config), "labels": labels}, **SEEN)

    config, peer, ours = pair(transformers, tmp_path / "qa", "BertForQuestionAnswering", seed)
    places = {"start_positions": np.array([[0], [3], [9]]), "end_positions": np.array([2, 9, 4])}
    compare(peer, ours, {**texts(seed, config), **places})

    name = "BertForNextSentencePrediction"
    config, peer, ours = pair(transformers, tmp_path / "nsp", name, seed)
    compare(peer, ours, {**texts(seed, config), "labels": rng.integers(0, 2, 3)}, **SEEN)


@pytest.mark.parametrize("embeds", [False, True])
def test_multiple_choice(transformers, tmp_path, embeds):
    config, peer, ours = pair(transformers, tmp_path, "BertForMultipleChoice", 7)
    inputs = {k: v.reshape(2, 3, 7) for k, v in texts(7, config, batch=6).items()}
    if embeds:
        shape = (*inputs.pop("input_ids").shape, config["hidden_size"])
        inputs["inputs_embeds"] = np.random.default_rng(7).normal(size=shape)
    compare(peer, ours, {**inputs, "labels": np.array([2, 0])}, **SEEN)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("seed", [8, 9])
def test_decoder(transformers, tmp_path, cross, seed):
    changes = dict(is_decoder=True, add_cross_attention=cross)
    config, peer, ours = pair(transformers, tmp_path, "BertLMHeadModel", seed, **changes)
    inputs = texts(seed, config)
    del inputs["attention_mask"]
    if cross:
        rng = np.random.default_rng(seed)
        inputs["encoder_hidden_states"] = rng.normal(size=(3, 5, config["hidden_size"]))
        inputs["encoder_attention_mask"] = np.array([[1, 1, 0, 1, 0], [1] * 5, [1, 0, 0, 0, 0]])
    compare(peer, ours, inputs, use_cache=False, **SEEN)
    labels = np.where(inputs["input_ids"] % 3, inputs["input_ids"], -100)
    compare(peer, ours, {**inputs, "labels": labels})
    compare(peer, ours, inputs, logits_to_keep=2)


@pytest.mark.parametrize("cross", [False, True])
def test_decoder_with_a_cache(transformers, tmp_path, cross):
    changes = dict(is_decoder=True, add_cross_attention=cross, pad_token_id=0)
    config, peer, ours = pair(transformers, tmp_path, "BertLMHeadModel", 10, **changes)
    inputs = texts(10, config)
    inputs["attention_mask"] = np.array([[0, 0, 1, 1, 1, 1, 1], [1] * 7, [0] + [1] * 6])
    if cross:
        shape = (3, 5, config["hidden_size"])
        inputs["encoder_hidden_states"] = np.random.default_rng(10).normal(size=shape)

    def in_chunks(model, **inputs):
        past, parts = None, []
        shared = {k: v for k, v in inputs.items() if k.startswith("encoder")}
        for start, stop in ((0, 3), (3, 4), (4, 7)):
            own = {k: inputs[k][:, start:stop] for k in ("input_ids", "token_type_ids")}
            mask = inputs["attention_mask"][:, :stop]
            output = model(
                **own, **shared, attention_mask=mask, past_key_values=past, use_cache=True
            )
            past = output["past_key_values"]
            keep = inputs["attention_mask"][:, start:stop, None]
            parts.append(output["logits"] * keep)  # a padding query is nobody's business
        return {f"logits{i}": part for i, part in enumerate(parts)}

    compare(peer, ours, inputs, call=in_chunks)


def test_a_folder_with_a_head_gives_the_base_and_the_other_way_round(transformers, tmp_path):
    config, peer, _ = pair(transformers, tmp_path / "head", "BertForPreTraining", 11)
    base = mt.models.pretrained.BertModel.from_pretrained(tmp_path / "head")
    inputs = texts(11, config)
    compare(peer.bert, base, inputs)
    ours = mt.models.pretrained.BertForMaskedLM.from_pretrained(tmp_path / "head")
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path / "head", dtype="float64")
    compare(theirs.eval(), ours, inputs)
    with pytest.warns(UserWarning, match="classifier.weight"):
        name = "BertForSequenceClassification"
        headed = getattr(mt.models.pretrained, name).from_pretrained(
            tmp_path / "head", strict=False
        )
    mine = headed(mt.tensor(inputs["input_ids"]), output_hidden_states=True).hidden_states
    also = base(mt.tensor(inputs["input_ids"]), output_hidden_states=True).hidden_states
    assert all((a.numpy() == b.numpy()).all() for a, b in zip(mine, also, strict=True))
