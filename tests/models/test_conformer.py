"""Conformer: references in loops, padding, sizes, gradients, errors, and the recognizers."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck, gradcheck_module
from minitorch_attn.models.conformer import (
    ConformerBlock,
    ConformerEncoder,
    ConvolutionModule,
    ConvSubsampling,
)
from minitorch_attn.models.relative_attention import (
    RelativeAttention,
    relative_positions,
    relative_shift,
)
from minitorch_attn.models.speech_recognition import CTCRecognizer, LSTMEncoder, SpeechSeq2Seq


def drawn(module, device="cpu", seed=3):
    """The module in float64 in eval mode, with every parameter and statistic at random."""
    rng = np.random.default_rng(seed)
    for p in module.double().eval().parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d):
            size = part.running_mean.shape
            part.running_mean = mt.tensor(rng.normal(size=size))
            part.running_var = mt.tensor(rng.uniform(0.5, 2, size=size))
    return module.to(device)


def weights_of(module):
    return {name: value.numpy() for name, value in module.state_dict().items()}


def part_of(w, prefix):
    return {k.removeprefix(prefix): v for k, v in w.items() if k.startswith(prefix)}


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)


def normed(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return x * w[name + ".weight"] + w[name + ".bias"]


def swish(x):
    return x / (1 + np.exp(-x))


def plain_attention(x, w, heads, real):
    """One pair of query and key at a time; `real` is the number of frames that are not padding."""
    width = x.shape[1]
    dim = width // heads
    q, k, v = (linear(x, w, f"{name}_proj") for name in "qkv")
    context = np.zeros_like(x)
    for h in range(heads):
        at = slice(h * dim, (h + 1) * dim)
        for i in range(len(x)):
            scores = np.full(real, -np.inf)
            for j in range(real):
                frequency = 10000.0 ** (-2 * np.arange(width // 2) / width)
                angle = (i - j) * frequency
                r = np.concatenate([np.sin(angle), np.cos(angle)]) @ w["position_proj.weight"].T
                content = (q[i, at] + w["u"][h]) @ k[j, at]
                scores[j] = (content + (q[i, at] + w["v"][h]) @ r[at]) / math.sqrt(dim)
            p = np.exp(scores - scores.max())
            context[i, at] = p / p.sum() @ v[:real, at]
    return linear(context, w, "out_proj")


def plain_convolution(x, w, kernel, real):
    x = normed(x, w, "norm") @ w["pointwise1.weight"][:, :, 0].T + w["pointwise1.bias"]
    half = x.shape[1] // 2
    x = x[:, :half] / (1 + np.exp(-x[:, half:]))
    x[real:] = 0
    out = np.tile(w["depthwise.bias"], (len(x), 1))
    for t in range(len(x)):
        for i in range(kernel):
            if 0 <= t + i - kernel // 2 < len(x):
                out[t] += x[t + i - kernel // 2] * w["depthwise.weight"][:, 0, i]
    out = (out - w["batch_norm.running_mean"]) / np.sqrt(w["batch_norm.running_var"] + 1e-5)
    out = swish(out * w["batch_norm.weight"] + w["batch_norm.bias"])
    return out @ w["pointwise2.weight"][:, :, 0].T + w["pointwise2.bias"]


def plain_block(x, w, heads, kernel, real):
    def feed_forward(x, name):
        own = part_of(w, name + ".")
        return linear(swish(linear(normed(x, own, "norm"), own, "linear1")), own, "linear2")

    x = x + feed_forward(x, "feed_forward1") / 2
    n = normed(x, w, "attention_norm")
    x = x + plain_attention(n, part_of(w, "attention."), heads, real)
    x = x + plain_convolution(x, part_of(w, "convolution."), kernel, real)
    x = x + feed_forward(x, "feed_forward2") / 2
    return normed(x, w, "norm")


def padding(lengths, size, device):
    return mt.tensor(np.arange(size) >= np.array(lengths)[:, None], device=device)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_relative_positions(length):
    for interleaved in (False, True):
        table = relative_positions(length, 6, interleaved=interleaved, dtype="float64").numpy()
        assert table.shape == (1, 2 * length - 1, 6)
        for row, p in zip(table[0], range(length - 1, -length, -1), strict=True):
            for k in range(3):
                angle = p * 10000 ** (-2 * k / 6)
                places = (2 * k, 2 * k + 1) if interleaved else (k, 3 + k)
                assert row[places[0]] == pytest.approx(math.sin(angle), abs=1e-12)
                assert row[places[1]] == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
def test_relative_shift(length, rng, device):
    scores = rng.normal(size=(2, 3, length, max(2 * length - 1, 0)))
    shifted = relative_shift(mt.tensor(scores, device=device)).numpy()
    assert shifted.shape == (2, 3, length, length)
    for i in range(length):
        for j in range(length):
            np.testing.assert_array_equal(shifted[..., i, j], scores[..., i, length - 1 - (i - j)])


def test_relative_shift_gradient_and_refusal():
    assert gradcheck(relative_shift, mt.randn(2, 3, 5, dtype=mt.float64, requires_grad=True))
    with pytest.raises(ShapeError, match="number of distances"):
        relative_shift(mt.zeros(3, 4))


@pytest.mark.parametrize("heads, lengths", [(1, [7, 7]), (3, [7, 4]), (2, [1, 7])])
def test_relative_attention(heads, lengths, rng, device):
    attention = drawn(RelativeAttention(6, heads), device)
    x = rng.normal(size=(2, 7, 6))
    pad = None if heads == 1 else padding(lengths, 7, device)
    got = attention(mt.tensor(x, device=device), pad).numpy()
    for n, real in enumerate(lengths):
        expected = plain_attention(x[n], weights_of(attention), heads, real)
        np.testing.assert_allclose(got[n], expected, atol=1e-12)


def test_given_positions_are_used(rng):
    attention = drawn(RelativeAttention(6, 2))
    x = mt.tensor(rng.normal(size=(2, 5, 6)))
    table = relative_positions(5, 6, dtype="float64")
    assert (attention(x, positions=table) == attention(x)).all()
    assert not (attention(x, positions=table.flip(1)) == attention(x)).all()


def test_attention_weights_can_be_collected(rng):
    attention = drawn(RelativeAttention(6, 2))
    x = mt.tensor(rng.normal(size=(2, 5, 6)))
    with nn.collect_attention(attention) as found:
        watched = attention(x)
    ((_, weights),) = found
    assert weights.shape == (2, 2, 5, 5)
    np.testing.assert_allclose(weights.numpy().sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(watched.numpy(), attention(x).numpy(), atol=1e-12)


@pytest.mark.parametrize("kernel, lengths", [(1, [5, 5]), (3, [5, 2]), (7, [5, 4])])
def test_block(kernel, lengths, rng, device):
    block = drawn(ConformerBlock(6, 2, kernel, expansion=1.5), device)
    assert block.feed_forward1.linear1.weight.shape == (9, 6)
    x = rng.normal(size=(2, 5, 6))
    pad = None if kernel == 1 else padding(lengths, 5, device)
    got = block(mt.tensor(x, device=device), pad).numpy()
    for n, real in enumerate(lengths):
        expected = plain_block(x[n], weights_of(block), 2, kernel, real)
        np.testing.assert_allclose(got[n, :real], expected[:real], atol=1e-12)


def test_default_sizes():
    block = ConformerBlock(8, 2)
    assert block.convolution.depthwise.weight.shape == (8, 1, 31)
    assert block.feed_forward2.linear1.weight.shape == (32, 8)
    rates = {m.p for m in block.modules() if isinstance(m, nn.Dropout)}
    assert rates == {0.1} and sum(isinstance(m, nn.Dropout) for m in block.modules()) == 6


def test_batch_norm_takes_all_frames(rng):
    module = ConvolutionModule(3, kernel_size=1, dropout=0.0).double()
    for name in ("pointwise1", "depthwise"):
        getattr(module, name).bias.data = mt.tensor(rng.normal(size=6 if "1" in name else 3))
    x = mt.tensor(rng.normal(size=(2, 5, 3)))
    module(x, padding([5, 2], 5, "cpu"))
    n = normed(x.numpy(), weights_of(module), "norm")
    w = weights_of(module)
    n = n @ w["pointwise1.weight"][:, :, 0].T + w["pointwise1.bias"]
    n = n[..., :3] / (1 + np.exp(-n[..., 3:]))
    n[1, 2:] = 0
    n = n * w["depthwise.weight"][:, 0, 0] + w["depthwise.bias"]
    np.testing.assert_allclose(w["batch_norm.running_mean"], 0.1 * n.mean((0, 1)), atol=1e-12)
    np.testing.assert_allclose(
        w["batch_norm.running_var"], 0.9 + 0.1 * n.reshape(-1, 3).var(0, ddof=1), atol=1e-12
    )


@pytest.mark.parametrize("time, channels", [(7, None), (8, 2), (19, 5)])
def test_subsampling(time, channels, rng, device):
    layer = drawn(ConvSubsampling(11, 3, channels), device)
    x = rng.normal(size=(2, time, 11))
    w = weights_of(layer)
    maps = x[:, None]
    for name in ("conv1", "conv2"):
        rows, columns = ((n - 1) // 2 for n in maps.shape[2:])
        out = np.tile(w[name + ".bias"][:, None, None], (2, 1, rows, columns))
        for i in range(3):
            for j in range(3):
                part = maps[:, :, i : i + 2 * rows - 1 : 2, j : j + 2 * columns - 1 : 2]
                out += np.einsum("ncij,dc->ndij", part, w[name + ".weight"][:, :, i, j])
        maps = np.maximum(out, 0)
    frames = maps.transpose(0, 2, 1, 3).reshape(2, maps.shape[2], -1)  # channel, then frequency
    got = layer(mt.tensor(x, device=device)).numpy()
    np.testing.assert_allclose(got, linear(frames, w, "linear"), atol=1e-12)
    assert layer.output_lengths(time) == got.shape[1]


def test_output_lengths():
    layer = ConvSubsampling(7, 2)
    assert [layer.output_lengths(n) for n in range(13)] == [0] * 7 + [1] * 4 + [2] * 2
    lengths = layer.output_lengths(mt.arange(13))
    assert lengths.tolist() == [layer.output_lengths(n) for n in range(13)]


@pytest.mark.parametrize("kind", ["conformer", "lstm"])
def test_padding_changes_nothing(kind, rng, device):
    """A sequence alone, and the same sequence beside a longer one, with any padding."""
    encoder = drawn(encoder_of(kind), device)
    x = rng.normal(size=(2, 31, 9))
    lengths = mt.tensor([19, 31], device=device)
    alone, _ = encoder(mt.tensor(x[:1, :19], device=device))
    frames, pad = encoder(mt.tensor(x, device=device), lengths)
    assert pad.sum(1).tolist() == [3, 0]
    np.testing.assert_allclose(frames.numpy()[0, :4], alone.numpy()[0], atol=1e-12)
    x[0, 19:] = 7.0
    again, _ = encoder(mt.tensor(x, device=device), lengths)
    np.testing.assert_array_equal(again.numpy()[0, :4], frames.numpy()[0, :4])


def encoder_of(kind):
    if kind == "lstm":
        return LSTMEncoder(9, 6, hidden_dim=5, num_layers=2, channels=2)
    return ConformerEncoder(9, 6, 2, num_layers=2, kernel_size=3, channels=2)


def test_parameter_counts():
    """Counted from the layers' sizes, beside the paper's Table 1 with its decoders."""
    counts = {
        "conformer_s": (144, 16, 8_690_112), "conformer_m": (256, 16, 27_261_952),
        "conformer_l": (512, 17, 114_849_280),
    }  # fmt: skip
    with nn.init.skip_init():
        for name, (d, layers, count) in counts.items():
            feed_forward = 2 * d + 4 * d * d + 4 * d + 4 * d * d + d
            attention = 2 * d + 4 * (d * d + d) + d * d + 2 * d
            convolution = 2 * d + 2 * (d * d + d) + 31 * d + d + 2 * d + d * d + d
            block = 2 * feed_forward + attention + convolution + 2 * d
            subsampling = 9 * d + d + 9 * d * d + d + 19 * d * d + d
            assert layers * block + subsampling == count, name
            model = getattr(mt.models, name)()
            assert sum(p.array.size for p in model.parameters()) == count, name


@pytest.mark.slow
def test_gradients():
    mt.manual_seed(3)
    for training in (False, True):
        block = ConformerBlock(4, 2, kernel_size=3, expansion=1, dropout=0.0).double()
        block.train(training)
        x = mt.randn(2, 3, 4, dtype=mt.float64, requires_grad=True)
        assert gradcheck_module(block, x)
        assert gradcheck_module(block, x, padding([3, 2], 3, "cpu"))
    layer = ConvSubsampling(7, 2).double()
    assert gradcheck_module(layer, mt.randn(2, 8, 7, dtype=mt.float64, requires_grad=True))


def test_ctc_recognizer(rng, device):
    model = drawn(CTCRecognizer(encoder_of("conformer"), 5), device)
    x = mt.tensor(rng.normal(size=(2, 31, 9)), device=device)
    lengths = mt.tensor([31, 19], device=device)
    log_probs, frames = model(x, lengths)
    assert log_probs.shape == (7, 2, 5) and frames.tolist() == [7, 4]
    np.testing.assert_allclose(np.exp(log_probs.numpy()).sum(-1), 1, atol=1e-12)
    targets, sizes = mt.tensor([[1, 1, 4], [2, 0, 0]]), mt.tensor([3, 1])
    loss = model.loss(x, lengths, targets.to(device), sizes.to(device))
    parts = nn.functional.ctc_loss(
        log_probs.cpu(), targets, (7, 4), (3, 1), reduction="none"
    ).tolist()
    assert loss.item() == pytest.approx((parts[0] / 3 + parts[1]) / 2)
    best = log_probs.numpy()[:4, 1].argmax(1)
    merged = [b for a, b in zip([0, *best], best, strict=False) if a != b and b]
    assert mt.ctc_decode(*model(x, lengths))[1][0].tolist() == merged
    assert model(x)[1] is None


def test_seq2seq_reads_earlier_labels_only(rng, device):
    model = drawn(SpeechSeq2Seq(encoder_of("conformer"), 11, 1, 2, 8), device)
    x = mt.tensor(rng.normal(size=(2, 31, 9)), device=device)
    lengths = mt.tensor([31, 19], device=device)
    target = np.array([[1, 4, 9, 3], [1, 5, 2, 2]])
    first = model(x, mt.tensor(target, device=device), lengths).numpy()
    target[:, 2:] = 7
    second = model(x, mt.tensor(target, device=device), lengths).numpy()
    np.testing.assert_array_equal(first[:, :2], second[:, :2])
    assert (first[:, 2:] != second[:, 2:]).any()


def test_translate_equals_teacher_forcing(rng, device):
    """Greedy labels with a cache are those of the whole model, sequence by sequence."""
    model = drawn(SpeechSeq2Seq(encoder_of("conformer"), 11, 2, 2, 8), device)
    x = mt.tensor(rng.normal(size=(2, 31, 9)), device=device)
    lengths = mt.tensor([31, 19], device=device)
    ids = mt.generation.translate(
        model, x, start_id=1, end_id=2, max_new_tokens=5, source_mask=model.source_mask(x, lengths)
    )
    written = [[1], [1]]
    for _ in range(ids.shape[1]):
        logits = model(x, mt.tensor(written, device=device), lengths)[:, -1].numpy()
        for row, best in zip(written, logits.argmax(1), strict=True):
            row.append(2 if 2 in row else int(best))
    assert [row[1:] for row in written] == ids.tolist()


def test_what_is_refused():
    with pytest.raises(ArgumentError, match="must be odd"):
        ConvolutionModule(4, kernel_size=4)
    with pytest.raises(ArgumentError, match="input_dim must be at least 7"):
        ConvSubsampling(6, 4)
    layer = ConvSubsampling(8, 4)
    with pytest.raises(ShapeError, match="at least 7 frames"):
        layer(mt.zeros(2, 6, 8))
    for shape in ((2, 9, 7), (9, 8)):
        with pytest.raises(ShapeError, match="does not match the layer"):
            layer(mt.zeros(*shape))


def test_float32_stays_float32():
    model = CTCRecognizer(encoder_of("conformer"), 5)
    assert model(mt.zeros(2, 31, 9), mt.tensor([31, 19]))[0].dtype == mt.float32
