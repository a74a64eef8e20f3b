"""Transformer classes: formulas, names, counts, masks and copies."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import masks, nn
from minitorch_attn.autograd import gradcheck_module

SIZES = {"d_model": 6, "nhead": 3, "dim_feedforward": 11, "dropout": 0.0}
BATCH, SOURCE, TARGET = 2, 7, 5


def host(tensor):
    return tensor.detach().numpy()


def ready(module, device):
    """In float64 on the device under test, no parameter at a special value."""
    module = module.double().to(device)
    rng = np.random.default_rng(8)
    for p in module.parameters():
        with mt.no_grad():
            p.add_(mt.tensor(rng.uniform(-0.3, 0.3, p.shape), device=device))
    return module


def encoder_layer(device, **options):
    return ready(nn.TransformerEncoderLayer(**SIZES, batch_first=True, **options), device)


def decoder_layer(device, **options):
    return ready(nn.TransformerDecoderLayer(**SIZES, batch_first=True, **options), device)


def branches(layer):
    """attention(x, memory) and feed_forward(x), spelled out from the layer's parts."""

    def attention(part, x, memory, **masks_):
        return part(x, memory, memory, need_weights=False, **masks_)[0]

    def feed_forward(x):
        return layer.linear2(layer.activation(layer.linear1(x)))

    return attention, feed_forward


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_post_norm_encoder_layer(make, device, activation):
    layer, x = encoder_layer(device, activation=activation), make(BATCH, SOURCE, 6)
    attention, feed_forward = branches(layer)
    y = layer.norm1(x + attention(layer.self_attn, x, x))
    y = layer.norm2(y + feed_forward(y))
    np.testing.assert_allclose(host(layer(x)), host(y), atol=1e-12)


def test_pre_norm_encoder_layer(make, device):
    layer, x = encoder_layer(device, norm_first=True), make(BATCH, SOURCE, 6)
    attention, feed_forward = branches(layer)
    normed = layer.norm1(x)
    y = x + attention(layer.self_attn, normed, normed)
    y = y + feed_forward(layer.norm2(y))
    np.testing.assert_allclose(host(layer(x)), host(y), atol=1e-12)


@pytest.mark.parametrize("norm_first", [True, False])
def test_decoder_layer(make, device, norm_first):
    layer = decoder_layer(device, norm_first=norm_first)
    x, memory = make(BATCH, TARGET, 6), make(BATCH, SOURCE, 6)
    attention, feed_forward = branches(layer)
    if norm_first:
        normed = layer.norm1(x)
        y = x + attention(layer.self_attn, normed, normed)
        y = y + attention(layer.multihead_attn, layer.norm2(y), memory)
        y = y + feed_forward(layer.norm3(y))
    else:
        y = layer.norm1(x + attention(layer.self_attn, x, x))
        y = layer.norm2(y + attention(layer.multihead_attn, y, memory))
        y = layer.norm3(y + feed_forward(y))
    np.testing.assert_allclose(host(layer(x, memory)), host(y), atol=1e-12)


@pytest.mark.parametrize("norm_first", [True, False])
def test_gradients(make, device, norm_first):
    options = {"norm_first": norm_first, "activation": "gelu"}
    assert gradcheck_module(encoder_layer(device, **options), make(BATCH, 3, 6), fast=True)
    decoder = decoder_layer(device, **options)
    assert gradcheck_module(decoder, make(BATCH, 3, 6), make(BATCH, 5, 6), fast=True)


ATTENTION = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
ENCODER_LAYER = [
    *[f"self_attn.{name}" for name in ATTENTION],
    "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
    "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias",
]  # fmt: skip
DECODER_LAYER = [
    *[f"self_attn.{name}" for name in ATTENTION],
    *[f"multihead_attn.{name}" for name in ATTENTION],
    *ENCODER_LAYER[4:], "norm3.weight", "norm3.bias",
]  # fmt: skip


def test_state_dict_names_are_pytorchs():
    model = nn.Transformer(6, 3, 1, 2, 11)
    expected = [f"encoder.layers.0.{name}" for name in ENCODER_LAYER]
    expected += ["encoder.norm.weight", "encoder.norm.bias"]
    expected += [f"decoder.layers.{i}.{name}" for i in range(2) for name in DECODER_LAYER]
    expected += ["decoder.norm.weight", "decoder.norm.bias"]
    assert list(model.state_dict()) == expected


def test_names_without_bias():
    names = list(nn.TransformerEncoderLayer(6, 3, 11, bias=False).state_dict())
    assert names == [name for name in ENCODER_LAYER if "bias" not in name]


def test_number_of_parameters_of_the_base_model():
    """Table 3 of Vaswani et al. counts 65 M with the embeddings: 37000 tokens times 512 more."""
    model = nn.Transformer()
    assert sum(p.numel() for p in model.parameters()) == 44_140_544


def test_a_stack_copies_its_layer(make, device):
    layer = encoder_layer(device)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(6, dtype=mt.float64, device=device))
    first, second = stack.layers
    np.testing.assert_array_equal(host(first.linear1.weight), host(second.linear1.weight))
    assert first.linear1.weight is not second.linear1.weight
    x = make(BATCH, SOURCE, 6)
    np.testing.assert_allclose(host(stack(x)), host(stack.norm(second(first(x)))), atol=1e-12)


def transformer(device, **options):
    sizes = {**SIZES, "num_encoder_layers": 1, "num_decoder_layers": 1, "batch_first": True}
    return ready(nn.Transformer(**sizes, **options), device)


def test_the_whole_is_its_parts(make, device):
    model, src, tgt = transformer(device), make(BATCH, SOURCE, 6), make(BATCH, TARGET, 6)
    expected = model.decoder(tgt, model.encoder(src))
    np.testing.assert_allclose(host(model(src, tgt)), host(expected), atol=1e-12)
    bound = 0.3 + (6 / 12) ** 0.5  # of `ready` and of Xavier's matrices
    parameters = {name: p for name, p in model.named_parameters() if "norm" not in name}
    assert all(abs(host(p)).max() < bound for p in parameters.values())


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_causal_decoder_does_not_look_ahead(make, device, norm_first):
    model = transformer(device, norm_first=norm_first)
    src, tgt = make(BATCH, SOURCE, 6), make(BATCH, TARGET, 6)
    changed = mt.tensor(host(tgt), device=device)
    with mt.no_grad():
        changed[:, 3, 0] += 1.0  # not a constant: LayerNorm would take that away
    for how in (
        {"tgt_mask": masks.causal(TARGET)},
        {"tgt_is_causal": True},
        {"tgt_mask": model.generate_square_subsequent_mask(TARGET, device=device)},
    ):
        before, after = host(model(src, tgt, **how)), host(model(src, changed, **how))
        np.testing.assert_allclose(before[:, :3], after[:, :3], atol=1e-12)
        assert (abs(before - after)[:, 3:].max(-1) > 1e-6).all()


def test_padding_has_no_influence(make, device):
    model, src, tgt = transformer(device), make(BATCH, SOURCE, 6), make(BATCH, TARGET, 6)
    padding = masks.padding([SOURCE - 2, SOURCE - 2], SOURCE, device=device)
    tail = model(src, tgt, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    short = model(src[:, :-2], tgt)
    np.testing.assert_allclose(host(tail), host(short), atol=1e-12)


def test_square_subsequent_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    inf = float("inf")
    assert mask.tolist() == [[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]
    assert mask.dtype == mt.float32


def test_a_layout_with_the_batch_second(make, device):
    model, src, tgt = transformer(device), make(BATCH, SOURCE, 6), make(BATCH, TARGET, 6)
    expected = host(model(src, tgt))
    twin = ready(nn.Transformer(**SIZES, num_encoder_layers=1, num_decoder_layers=1), device)
    twin.load_state_dict(model.state_dict())
    output = twin(src.transpose(0, 1), tgt.transpose(0, 1))
    np.testing.assert_allclose(host(output).swapaxes(0, 1), expected, atol=1e-12)


def test_dropout_is_silent_in_eval(make, device):
    layer = nn.TransformerEncoderLayer(**{**SIZES, "dropout": 0.5}, batch_first=True)
    layer, x = ready(layer, device), make(BATCH, SOURCE, 6)
    assert not np.array_equal(host(layer(x)), host(layer(x)))
    layer.eval()
    np.testing.assert_array_equal(host(layer(x)), host(layer(x)))
