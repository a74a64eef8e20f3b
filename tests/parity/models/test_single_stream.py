"""VisualBERT and ViLT against transformers: random configurations, every class, sizes, masks."""

import numpy as np
import pytest
import torch
from parity.models.decoders import check_peer_opens
from parity.models.peers import check_same_tensors, compare, opened, randomise

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models import VisualBERT, vilt_b_32
from minitorch_attn.nn.init import skip_init

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

VISUAL_BERT = ["VisualBertModel", "VisualBertForPreTraining"]
VILT = ["ViltModel", "ViltForMaskedLM"]
CLASSES = VISUAL_BERT + VILT
BATCH, WORDS, REGIONS = 3, 5, 4


@pytest.fixture(autouse=True)
def in_raster_order(monkeypatch):
    """ViLT's peer draws the order of the patches; here it draws 0, 1, 2, ..."""
    monkeypatch.setattr(torch, "multinomial", lambda p, n, **_: torch.arange(int(n)) % len(p))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def draw_config(name, rng, **fixed):
    heads, patch = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    config = dict(
        vocab_size=31, hidden_size=heads * 4, num_attention_heads=heads,
        num_hidden_layers=int(rng.integers(1, 4)), intermediate_size=int(rng.choice([7, 11])),
        hidden_act=str(rng.choice(["gelu", "relu"])), max_position_embeddings=13,
        layer_norm_eps=float(rng.choice([1e-12, 1e-2])), type_vocab_size=int(rng.choice([2, 3])),
        pad_token_id=int(rng.choice([0, 1])), attn_implementation="eager",
    )  # fmt: skip
    if name in VISUAL_BERT:
        config.update(
            visual_embedding_dim=7, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        return transformers.VisualBertConfig(**{**config, **fixed})
    config.update(
        image_size=patch * int(rng.integers(2, 4)), patch_size=patch,
        num_channels=int(rng.choice([1, 3])), qkv_bias=bool(rng.random() < 0.6),
        modality_type_vocab_size=int(rng.choice([2, 3])),
    )  # fmt: skip
    return transformers.ViltConfig(**{**config, **fixed})


def pair(name, config, seed, folder):
    peer = randomise(getattr(transformers, name)(config), seed)
    return peer, opened(peer, folder)


def mask_of(*lengths, size):
    return (np.arange(size) < np.array(lengths)[:, None]).astype("int64")


def inputs_of(name, rng, config, size=None):
    inputs = {"input_ids": rng.integers(2, 31, (BATCH, WORDS))}
    if name in VISUAL_BERT:
        inputs["visual_embeds"] = rng.normal(size=(BATCH, REGIONS, 7))
        return inputs
    size = size or (config.image_size, config.image_size)
    inputs["pixel_values"] = rng.normal(size=(BATCH, config.num_channels, *size))
    return inputs


def with_masks(name, rng, config, inputs):
    more = {
        "attention_mask": mask_of(5, 3, 1, size=WORDS),
        "token_type_ids": rng.integers(0, config.type_vocab_size, (BATCH, WORDS)),
    }
    if name in VISUAL_BERT:
        more["visual_attention_mask"] = mask_of(2, 4, 3, size=REGIONS)
        more["visual_token_type_ids"] = rng.integers(0, config.type_vocab_size, (BATCH, REGIONS))
    return {**inputs, **more}


def with_labels(name, rng, inputs):
    if name == "VisualBertForPreTraining":
        labels = rng.integers(0, 31, (BATCH, WORDS + REGIONS))
        labels[:, 1::3] = -100
        return {**inputs, "labels": labels, "sentence_image_labels": np.array([1, 0, 1])}
    if name == "ViltForMaskedLM":
        labels = rng.integers(0, 31, (BATCH, WORDS))
        labels[:, 2] = -100
        return {**inputs, "labels": labels}
    return inputs


def every_output(peer, ours, inputs, **flags):
    compare(peer, ours, inputs, output_attentions=True, output_hidden_states=True, **flags)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    config = draw_config(name, rng)
    peer, ours = pair(name, config, seed, tmp_path)
    inputs = with_masks(name, rng, config, inputs_of(name, rng, config))
    every_output(peer, ours, with_labels(name, rng, inputs))


@pytest.mark.parametrize("name", CLASSES)
def test_only_what_is_required(name, tmp_path):
    rng = np.random.default_rng(11)
    config = draw_config(name, rng)
    peer, ours = pair(name, config, 11, tmp_path)
    inputs = inputs_of(name, rng, config)
    every_output(peer, ours, inputs)
    embeds = rng.normal(size=(BATCH, WORDS, config.hidden_size))
    del inputs["input_ids"]
    every_output(peer, ours, {**inputs, "inputs_embeds": embeds})


def test_visual_bert_without_regions_and_with_positions(tmp_path):
    rng = np.random.default_rng(12)
    config = draw_config("VisualBertModel", rng)
    peer, ours = pair("VisualBertModel", config, 12, tmp_path)
    ids = {"input_ids": rng.integers(2, 31, (BATCH, WORDS))}
    every_output(peer, ours, ids)
    every_output(peer, ours, {**ids, "attention_mask": mask_of(5, 2, 3, size=WORDS)})
    positions = np.array([[3, 2, 1, 0, 12]]).repeat(BATCH, 0)
    every_output(peer, ours, {**ids, "position_ids": positions})


@pytest.mark.parametrize("extra", [0, 2])
def test_visual_bert_with_an_alignment(extra, tmp_path):
    """Mean positions of the words of a region; the alignment may have more regions."""
    rng = np.random.default_rng(13)
    config = draw_config("VisualBertModel", rng)
    peer, ours = pair("VisualBertModel", config, 13, tmp_path)
    inputs = with_masks("VisualBertModel", rng, config, inputs_of("VisualBertModel", rng, config))
    alignment = rng.integers(-1, WORDS, (BATCH, REGIONS + extra, 3))
    alignment[1, 2] = -1
    every_output(peer, ours, {**inputs, "image_text_alignment": alignment})
    with pytest.raises(ShapeError, match="fewer regions"):
        ours(
            mt.tensor(inputs["input_ids"]), visual_embeds=mt.tensor(inputs["visual_embeds"]),
            image_text_alignment=mt.tensor(alignment[:, :2]),
        )  # fmt: skip


def test_visual_bert_masks_only_one_kind(tmp_path):
    rng = np.random.default_rng(14)
    config = draw_config("VisualBertModel", rng)
    peer, ours = pair("VisualBertModel", config, 14, tmp_path)
    inputs = inputs_of("VisualBertModel", rng, config)
    for mask in ({"attention_mask": mask_of(5, 2, 3, size=WORDS)},
                 {"visual_attention_mask": mask_of(1, 2, 4, size=REGIONS)}):  # fmt: skip
        every_output(peer, ours, {**inputs, **mask})


def test_visual_bert_loss_of_words_alone(tmp_path):
    rng = np.random.default_rng(15)
    name = "VisualBertForPreTraining"
    config = draw_config(name, rng, tie_word_embeddings=False)
    peer, ours = pair(name, config, 15, tmp_path)
    inputs = with_masks(name, rng, config, inputs_of(name, rng, config))
    inputs = with_labels(name, rng, inputs)
    del inputs["sentence_image_labels"]
    every_output(peer, ours, inputs)


def test_visual_bert_starts_regions_like_words():
    config = draw_config("VisualBertModel", np.random.default_rng(16)).to_dict()
    for same in (True, False):
        tables = mt.models.pretrained.VisualBertModel(
            {**config, "special_visual_initialize": same}
        ).bert.embeddings
        for part in ("segment", "position"):
            words = getattr(tables, f"{part}_embedding").weight.numpy()
            regions = getattr(tables, f"region_{part}_embedding").weight.numpy()
            assert np.array_equal(words, regions) == same
    with pytest.raises(ArgumentError, match="bypass_transformer"):
        mt.models.pretrained.VisualBertModel({**config, "bypass_transformer": True})


def pixel_mask_of(sizes, height, width):
    mask = np.zeros((len(sizes), height, width), "int64")
    for row, (h, w) in zip(mask, sizes, strict=True):
        row[:h, :w] = 1
    return mask


@pytest.mark.parametrize("name", VILT)
def test_vilt_with_images_of_different_sizes(name, tmp_path):
    """Interpolated positions, padding patches, and a grid other than the configured one."""
    rng = np.random.default_rng(17)
    config = draw_config(name, rng, image_size=9, patch_size=3)
    peer, ours = pair(name, config, 17, tmp_path)
    sizes = [(12, 7), (6, 15), (9, 9)]
    inputs = inputs_of(name, rng, config, (12, 15))
    inputs["pixel_mask"] = pixel_mask_of(sizes, 12, 15)
    every_output(peer, ours, with_labels(name, rng, inputs))
    del inputs["pixel_mask"]
    every_output(peer, ours, inputs)


@pytest.mark.parametrize("limit", [1, 3, 4, 40])
def test_vilt_keeps_at_most_some_patches(limit, tmp_path, monkeypatch):
    """The peer draws them; here ours gets the same draw, the first patches of the image."""
    rng = np.random.default_rng(18)
    config = draw_config("ViltModel", rng, image_size=6, patch_size=3, max_image_length=limit)
    peer, ours = pair("ViltModel", config, 18, tmp_path)

    def first(*shape, device=None):
        return mt.linspace(0, 0.9, shape[1]).expand(*shape)

    monkeypatch.setattr(mt.ops, "rand", first)
    inputs = inputs_of("ViltModel", rng, config, (6, 9))
    inputs["pixel_mask"] = pixel_mask_of([(6, 9), (3, 9), (6, 6)], 6, 9)
    every_output(peer, ours, inputs)


def test_vilt_draws_patches_of_the_image():
    """Without replacement, in raster order, and never padding while there are others."""
    mt.manual_seed(3)
    model = mt.models.ViLT(7, 8, 2, 6, 2, 1, 5, in_channels=1, max_patches=5)
    real = mt.tensor(np.array([[1] * 16, [1, 0] * 8, [1, 1, 1] + [0] * 13]))
    drawn = [model._chosen(real, 5).numpy() for _ in range(20)]
    assert all((np.diff(rows[:2], axis=1) > 0).all() for rows in drawn)
    assert all((rows[1] % 2 == 0).all() and set(rows[2]) >= {0, 1, 2} for rows in drawn)
    assert {i for rows in drawn for i in rows[0]} == set(range(16))


def test_vilt_with_embedded_images(tmp_path):
    rng = np.random.default_rng(19)
    config = draw_config("ViltModel", rng, modality_type_vocab_size=3)
    peer, ours = pair("ViltModel", config, 19, tmp_path)
    inputs = {
        "input_ids": rng.integers(2, 31, (BATCH, WORDS)),
        "image_embeds": rng.normal(size=(BATCH, 6, config.hidden_size)),
        "pixel_mask": mask_of(6, 2, 4, size=6).reshape(BATCH, 2, 3),
    }
    every_output(peer, ours, inputs, image_token_type_idx=2)
    with pytest.raises(ArgumentError, match="exactly one"):
        ours(mt.tensor(inputs["input_ids"]))
    with pytest.raises(ShapeError, match="masks"):
        ours(
            mt.tensor(inputs["input_ids"]), image_embeds=mt.tensor(inputs["image_embeds"]),
            pixel_mask=mt.ones(BATCH, 5, dtype="int64"),
        )  # fmt: skip


def test_vilt_refuses_empty_images():
    model = mt.models.ViLT(7, 8, 2, 6, 2, 1, 5, in_channels=1)
    ids, images = mt.ones(2, 3, dtype="int64"), mt.zeros(2, 1, 8, 8)
    with pytest.raises(ShapeError, match="must not be 0 everywhere"):
        model(ids, images, pixel_mask=mt.zeros(2, 8, 8, dtype="int64"))
    with pytest.raises(ShapeError, match="pixel_mask"):
        model(ids, images, pixel_mask=mt.zeros(1, 8, 8, dtype="int64"))


@pytest.mark.parametrize("name", ["VisualBertForPreTraining", "ViltForMaskedLM"])
@pytest.mark.parametrize("rate", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_where_dropout_stands(name, rate, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    rng = np.random.default_rng(20)
    config = draw_config(name, rng, **{rate: 1.0})
    peer, ours = pair(name, config, 20, tmp_path)
    compare(peer.train(), ours.train(), inputs_of(name, rng, config))


@pytest.mark.parametrize("name", CLASSES)
def test_folders_in_and_out(name, tmp_path):
    """A folder of the peer is written back equally; the peer reads what a new model writes."""
    rng = np.random.default_rng(21)
    config = draw_config(name, rng)
    peer, ours = pair(name, config, 21, tmp_path)
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")
    check_peer_opens(peer, ours, tmp_path / "shards")
    new = getattr(mt.models.pretrained, name)(config.to_dict()).double().eval()
    new.save_pretrained(tmp_path / "new")
    peer = getattr(transformers, name).from_pretrained(
        tmp_path / "new", attn_implementation="eager"
    )
    compare(peer.double().eval(), new, inputs_of(name, rng, config))


@pytest.mark.parametrize("name", ["VisualBertModel", "ViltModel"])
def test_without_a_pooler(name, tmp_path):
    rng = np.random.default_rng(22)
    config = draw_config(name, rng)
    peer = randomise(getattr(transformers, name)(config, add_pooling_layer=False), 22)
    peer.save_pretrained(tmp_path)
    ours = getattr(mt.models.pretrained, name)(config.to_dict(), add_pooling_layer=False)
    ours.double()._load(tmp_path, {k: v.numpy() for k, v in peer.state_dict().items()}, None, True)
    compare(peer, ours.eval(), inputs_of(name, rng, config))


def test_the_bias_of_old_vilt_files(tmp_path):
    rng = np.random.default_rng(23)
    config = draw_config("ViltForMaskedLM", rng)
    peer, ours = pair("ViltForMaskedLM", config, 23, tmp_path)
    arrays = ours.peer_state()
    arrays["mlm_score.bias"] = arrays.pop("mlm_score.decoder.bias")
    fields = {**config.to_dict(), "architectures": ["ViltForMaskedLM"]}
    again = mt.models.pretrained.ViltForMaskedLM.from_arrays(fields, arrays)
    compare(peer, again, inputs_of("ViltForMaskedLM", rng, config))


@pytest.mark.parametrize("tuple_of", CLASSES)
def test_tuples(tuple_of, tmp_path):
    rng = np.random.default_rng(24)
    config = draw_config(tuple_of, rng)
    peer, ours = pair(tuple_of, config, 24, tmp_path)
    inputs = inputs_of(tuple_of, rng, config)
    theirs = peer(**{k: torch.tensor(v) for k, v in inputs.items()}, return_dict=False)
    mine = ours(**{k: mt.tensor(v) for k, v in inputs.items()}, return_dict=False)
    assert isinstance(mine, tuple) and len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_published_sizes():
    """VisualBERT with the features of a Faster R-CNN (2048), and ViLT-B/32."""
    with torch.device("meta"):
        peers = [
            transformers.VisualBertModel(transformers.VisualBertConfig(visual_embedding_dim=2048)),
            transformers.ViltModel(transformers.ViltConfig()),
        ]
    with skip_init():
        ours = [VisualBERT(30522, 2048, 768, 12, 12), vilt_b_32()]
    for model, peer in zip(ours, peers, strict=True):
        count = sum(p.numel() for p in peer.parameters())
        assert sum(p.numel() for p in model.parameters()) == count
