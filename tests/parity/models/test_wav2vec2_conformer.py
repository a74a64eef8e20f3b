"""Wav2Vec2-Conformer against transformers: random configurations, every class, masks, adapters."""

import numpy as np
import pytest
import torch
from parity.models.peers import check_same_tensors, compare, opened, randomise

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.serialization import read_safetensors, write_safetensors

transformers = pytest.importorskip("transformers", reason="needs the parity extra")
peers = pytest.importorskip("transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer")

NAME = "Wav2Vec2Conformer"
CLASSES = ["Model", "ForCTC", "ForSequenceClassification", "ForAudioFrameClassification"]
BATCH, SAMPLES, LABELS = 3, 107, 5


@pytest.fixture(autouse=True)
def float64(monkeypatch):
    """The peer computes positions and the CTC loss in float32; here it stays in float64."""
    softmax = torch.nn.functional.log_softmax
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(
        torch.nn.functional, "log_softmax", lambda x, dim, dtype=None: softmax(x, dim)
    )
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def draw_config(rng, **fixed):
    heads, layers = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2, 3]))
    groups = int(rng.choice([1, 2]))
    config = dict(
        vocab_size=7, hidden_size=heads * 4, num_attention_heads=heads, num_labels=LABELS,
        num_hidden_layers=int(rng.choice([1, 2])), intermediate_size=int(rng.choice([5, 11])),
        conv_dim=[int(n) for n in rng.choice([3, 4, 7], layers)],
        conv_kernel=[5, 3, 2][:layers], conv_stride=[3, 2, 1][:layers],
        conv_bias=bool(rng.random() < 0.5), feat_extract_norm=str(rng.choice(["group", "layer"])),
        feat_extract_activation=str(rng.choice(["gelu", "relu"])),
        hidden_act=str(rng.choice(["gelu", "swish", "relu"])),
        layer_norm_eps=float(rng.choice([1e-5, 1e-2])),
        conv_depthwise_kernel_size=int(rng.choice([1, 3, 7])),
        num_conv_pos_embeddings=int(rng.choice([3, 4])), num_conv_pos_embedding_groups=groups,
        position_embeddings_type=[None, "relative", "rotary"][int(rng.integers(3))],
        rotary_embedding_base=int(rng.choice([100, 10000])), max_source_positions=8,
        layerdrop=0.0, apply_spec_augment=bool(rng.random() < 0.5),
        mask_time_prob=float(rng.choice([0.0, 0.5])), classifier_proj_size=6,
        ctc_loss_reduction=str(rng.choice(["sum", "mean"])), attn_implementation="eager",
    )  # fmt: skip
    return transformers.Wav2Vec2ConformerConfig(**{**config, **fixed})


def pair(name, config, seed, folder):
    """Running statistics at random too, because BatchNorm's defaults hide mistakes."""
    peer = randomise(getattr(transformers, NAME + name)(config), seed)
    generator = torch.Generator().manual_seed(seed)
    for key, buffer in peer.named_buffers():
        if "running" in key:
            noise = torch.rand(buffer.shape, generator=generator, dtype=torch.float64)
            buffer.copy_(noise + (0.5 if "var" in key else -0.5))
    return peer, opened(peer, folder)


def inputs_of(name, rng, config, padded=True):
    inputs = {"input_values": rng.normal(size=(BATCH, SAMPLES))}
    if padded:
        lengths = np.array([[SAMPLES], [61], [43]])
        inputs["attention_mask"] = (np.arange(SAMPLES) < lengths).astype("int64")
    if name == "ForCTC":
        inputs["labels"] = np.array([[1, 1, 4], [6, -100, -100], [2, 0, 5]])
    elif name == "ForSequenceClassification":
        inputs["labels"] = rng.integers(0, LABELS, BATCH)
    return inputs


def without_input_gradient(model, input_values, **more):
    """In training, the peer refuses an input that needs a gradient."""
    return model(input_values.detach(), **more)


@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
@pytest.mark.parametrize("name", CLASSES)
def test_every_class(name, positions, tmp_path):
    for seed in range(2):
        rng = np.random.default_rng([seed, CLASSES.index(name)])
        config = draw_config(rng, position_embeddings_type=positions)
        if name in CLASSES[2:]:
            config.use_weighted_layer_sum = seed == 1
        peer, ours = pair(name, config, seed, tmp_path / str(seed))
        inputs = inputs_of(name, rng, config, padded=seed == 0)
        assert compare(peer, ours, inputs, output_attentions=True, output_hidden_states=True) > 40


@pytest.mark.parametrize("name", ["Model", "ForCTC"])
@pytest.mark.parametrize("width", [None, 9])
def test_adapter(name, width, tmp_path):
    rng = np.random.default_rng(3)
    config = draw_config(
        rng, add_adapter=True, num_adapter_layers=2, adapter_stride=2, output_hidden_size=width
    )
    peer, ours = pair(name, config, 3, tmp_path)
    inputs = inputs_of(name, rng, config)
    if name == "ForCTC":  # a sequence that is too short for its labels would be infinite
        inputs["labels"][:, 1:] = -100
    compare(peer, ours, inputs)


def test_in_training(tmp_path):
    """BatchNorm takes the statistics of the batch, and updates the running ones."""
    rng = np.random.default_rng(4)
    rates = dict.fromkeys(
        ["hidden_dropout", "activation_dropout", "attention_dropout", "feat_proj_dropout",
         "conformer_conv_dropout", "mask_time_prob"], 0.0,
    )  # fmt: skip
    peer, ours = pair("Model", draw_config(rng, **rates), 4, tmp_path)
    compare(peer.train(), ours.train(), inputs_of("Model", rng, peer.config),
            call=without_input_gradient)  # fmt: skip
    state = ours.peer_state()
    for key, buffer in peer.named_buffers():
        if key.endswith(("running_mean", "running_var", "num_batches_tracked")):
            np.testing.assert_allclose(state[key], buffer.numpy(), rtol=1e-9, err_msg=key)


@pytest.mark.parametrize("rate", [
    "hidden_dropout", "activation_dropout", "attention_dropout", "feat_proj_dropout",
    "conformer_conv_dropout",
])  # fmt: skip
def test_where_dropout_stands(rate, tmp_path):
    """In training, with a probability of 1, which leaves nothing to chance."""
    rng = np.random.default_rng(8)
    names = ["hidden_dropout", "activation_dropout", "attention_dropout", "feat_proj_dropout",
             "conformer_conv_dropout", "mask_time_prob"]  # fmt: skip
    # With equal frames, the gradient of u is 0 or, after cancellation, only rounding errors.
    kind = None if rate in ("hidden_dropout", "feat_proj_dropout") else "relative"
    rates = {**dict.fromkeys(names, 0.0), rate: 1.0}
    config = draw_config(rng, **rates, position_embeddings_type=kind, conv_depthwise_kernel_size=7)
    peer, ours = pair("Model", config, 8, tmp_path)
    compare(peer.train(), ours.train(), inputs_of("Model", rng, config),
            call=without_input_gradient)  # fmt: skip


def test_masked_frames(tmp_path):
    rng = np.random.default_rng(5)
    config = draw_config(rng, mask_time_prob=0.5, apply_spec_augment=True)
    peer, ours = pair("Model", config, 5, tmp_path)
    inputs = inputs_of("Model", rng, config)
    frames = ours.output_lengths(SAMPLES)
    inputs["mask_time_indices"] = rng.random((BATCH, frames)) < 0.3
    compare(peer, ours, inputs)


def test_layer_alone(tmp_path):
    """With a mask of four axes, and positions for each row."""
    rng = np.random.default_rng(6)
    for kind in ("relative", "rotary"):
        config = draw_config(rng, position_embeddings_type=kind, hidden_size=12,
                             num_attention_heads=3)  # fmt: skip
        peer = randomise(peers.Wav2Vec2ConformerEncoderLayer(config), 6)
        fields = {**config.to_dict(), "architectures": [NAME + "EncoderLayer"]}
        ours = mt.models.pretrained.Wav2Vec2ConformerEncoderLayer.from_arrays(
            fields, {k: v.detach().numpy() for k, v in peer.state_dict().items()}
        )
        positions = rng.normal(size=(BATCH, 13, 12))
        if kind == "rotary":
            angles = np.tile(rng.normal(size=(7, 1, 1, 2)), 2)
            positions = np.stack([np.cos(angles), np.sin(angles)])
        x = rng.normal(size=(BATCH, 7, 12))
        mask = np.where(np.arange(7) < np.array([[7], [4], [2]]), 0.0, -np.inf)[:, None, None]
        outputs = []
        for model, tensor in ((peer, torch.tensor), (ours, mt.tensor)):
            args = [tensor(a) for a in (x, mask, positions)]
            output = model(args[0], attention_mask=args[1], relative_position_embeddings=args[2])
            outputs.append(output.detach().numpy())
        np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-11)


@pytest.mark.parametrize("name", CLASSES)
def test_folders_in_and_out(name, tmp_path):
    """A folder of the peer is written back equally; the peer reads what a new model writes."""
    rng = np.random.default_rng(2)
    config = draw_config(rng, position_embeddings_type="rotary", mask_time_prob=0.5)
    _, ours = pair(name, config, 2, tmp_path)
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")
    new = getattr(mt.models.pretrained, NAME + name)(config.to_dict()).double().eval()
    new.save_pretrained(tmp_path / "new")
    peer, report = getattr(transformers, NAME + name).from_pretrained(
        tmp_path / "new", attn_implementation="eager", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    compare(peer.double().eval(), new, inputs_of(name, rng, config))


def test_old_names_of_weight_norm(tmp_path):
    """Files written before PyTorch's parametrizations have weight_g and weight_v."""
    rng = np.random.default_rng(1)
    _, ours = pair("ForCTC", draw_config(rng), 1, tmp_path)
    _, state = read_safetensors(tmp_path / "model.safetensors")
    new = "conv.parametrizations.weight.original"
    old = {k.replace(new + "0", "conv.weight_g").replace(new + "1", "conv.weight_v"): v
           for k, v in state.items()}  # fmt: skip
    assert set(old) != set(state)
    write_safetensors(tmp_path / "model.safetensors", old)
    mt.models.from_pretrained(tmp_path).save_pretrained(tmp_path / "again")
    _, again = read_safetensors(tmp_path / "again" / "model.safetensors")
    assert set(again) == set(state)
    assert all(np.array_equal(again[k], state[k]) for k in state)


def test_published_sizes():
    """facebook/wav2vec2-conformer-rel-pos-large and -rope-large, with and without a CTC head."""
    large = dict(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        conv_bias=True, feat_extract_norm="layer", hidden_act="swish", vocab_size=32,
    )  # fmt: skip
    for kind, name in (("relative", "Model"), ("rotary", "Model"), ("relative", "ForCTC")):
        config = transformers.Wav2Vec2ConformerConfig(**large, position_embeddings_type=kind)
        with torch.device("meta"):
            peer = getattr(transformers, NAME + name)(config)
        with mt.nn.init.skip_init():
            ours = getattr(mt.models.pretrained, NAME + name)(config.to_dict())
        assert ours.num_parameters() == sum(p.numel() for p in peer.parameters())


def test_spans_have_the_peers_law():
    """The same number of spans in each row, and never a place beyond a row's length."""
    from minitorch_attn.models.pretrained.spans import draw_spans

    mt.manual_seed(0)
    for lengths, share, span, least in (([23, 11, 3], 0.4, 3, 2), ([17, 17], 0.0, 5, 1)):
        size = lengths[0]
        mask = (np.arange(size) < np.array(lengths)[:, None]).astype(int)
        theirs = [
            peers._compute_mask_indices(
                (len(lengths), size), share, span, torch.tensor(mask), least
            ).sum(1)
            for _ in range(300)
        ]
        ours = [draw_spans(lengths, size, share, span, least, "cpu").numpy() for _ in range(300)]
        assert not (np.array(ours) & (mask == 0)).any()
        got, expected = np.array(ours).sum(2).mean(0), np.mean(theirs, 0)
        rows = np.array(lengths) > span + 2  # the peer also masks a place after short rows
        np.testing.assert_allclose(got[rows], expected[rows], rtol=0.1)


def test_what_is_refused():
    fields = draw_config(np.random.default_rng(1)).to_dict()
    classes = mt.models.pretrained
    for change, message in (
        ({"position_embeddings_type": "sinusoidal"}, "kind of positions"),
        ({"feat_extract_norm": "batch"}, "kind of norm"),
        ({"conv_stride": [1]}, "same length"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"conv_depthwise_kernel_size": 4}, "must be odd"),
    ):
        changed = {**fields, "conv_dim": [3, 3], "conv_kernel": [3, 3], "conv_stride": [2, 2],
                   "num_feat_extract_layers": 2, **change}  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            classes.Wav2Vec2ConformerForCTC(changed)
    with pytest.raises(ArgumentError, match="add_adapter is not supported"):
        classes.Wav2Vec2ConformerForSequenceClassification({**fields, "add_adapter": True})
