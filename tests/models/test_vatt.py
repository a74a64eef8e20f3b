"""VATT: both losses, DropToken, the tokens of each sense, separate and shared Transformers."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck, gradcheck_module
from minitorch_attn.models import VATT, vatt, vatt_bbs, vatt_lbs, vatt_ma_medium, vatt_mbs
from minitorch_attn.models.vatt_losses import mil_nce_loss, nce_loss
from minitorch_attn.models.vatt_tokens import AudioTokens, TextTokens, VideoTokens, drop_token
from minitorch_attn.nn.init import skip_init


def drawn(module, device="cpu", seed=3):
    rng = np.random.default_rng(seed)
    for p in module.double().eval().parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return module.to(device)


def small(device="cpu", **changes):
    settings = dict(
        video_size=(2, 4, 6), video_patch=(1, 2, 2), audio_length=10, audio_patch=2,
        vocab_size=11, text_length=7, embed_dim=6, num_layers=1, num_heads=2, mlp_dim=5,
        in_channels=2, common_dim=5, text_common_dim=3,
    )  # fmt: skip
    return drawn(VATT(**{**settings, **changes}), device)


@pytest.fixture
def clip(rng, device):
    """Video, audio, words and padding of three clips."""
    ids = rng.integers(1, 11, (3, 4))
    ids[1, 2:] = 0
    video, audio = rng.normal(size=(3, 2, 2, 4, 6)), rng.normal(size=(3, 10))
    return [mt.tensor(x, device=device) for x in (video, audio, ids, ids == 0)]


def plain_nce(a, b, temperature):
    terms = []
    for i in range(len(a)):
        scores = np.exp([a[i] @ b[j] / temperature for j in range(len(b))])
        terms.append(-np.log(scores[i] / scores.sum()))
    return np.mean(terms)


def plain_mil_nce(video, text, temperature, valid):
    terms = []
    for i in range(len(video)):
        scores = np.exp(np.einsum("jpd,d->jp", text, video[i]) / temperature) * valid
        if valid[i].any():
            terms.append(-np.log(scores[i].sum() / scores.sum()))
    return np.mean(terms)


class TestLosses:
    @pytest.mark.parametrize("batch, temperature", [(1, 0.3), (2, 0.07), (5, 0.7)])
    def test_nce(self, batch, temperature, rng, device):
        a, b = rng.normal(size=(2, batch, 3)) / 3
        x, y = mt.tensor(a, device=device), mt.tensor(b, device=device)
        forth, back = plain_nce(a, b, temperature), plain_nce(b, a, temperature)
        np.testing.assert_allclose(nce_loss(x, y, temperature).item(), forth, rtol=1e-10)
        both = nce_loss(x, y, temperature, symmetric=True).item()
        np.testing.assert_allclose(both, (forth + back) / 2, rtol=1e-10)

    def test_default_temperature(self, make):
        a, b = make(3, 5), make(3, 1, 5)
        assert nce_loss(a, b[:, 0]).item() == nce_loss(a, b[:, 0], 0.07).item()
        assert mil_nce_loss(a, b).item() == mil_nce_loss(a, b, 0.07).item()

    @pytest.mark.parametrize("batch, sentences", [(1, 1), (2, 3), (5, 2)])
    def test_mil_nce(self, batch, sentences, rng, device):
        video, text = rng.normal(size=(batch, 3)), rng.normal(size=(batch, sentences, 3))
        x, y = mt.tensor(video, device=device), mt.tensor(text, device=device)
        every = np.ones((batch, sentences), bool)
        expected = plain_mil_nce(video, text, 0.7, every)
        for valid in (None, mt.tensor(every, device=device)):
            np.testing.assert_allclose(mil_nce_loss(x, y, 0.7, valid).item(), expected, rtol=1e-10)

    def test_sentences_that_do_not_exist(self, rng, device):
        video, text = rng.normal(size=(4, 3)), rng.normal(size=(4, 2, 3))
        valid = np.array([[True, False], [False, False], [True, True], [False, True]])
        x, y, exists = (mt.tensor(a, device=device) for a in (video, text, valid))
        got = mil_nce_loss(x, y, 0.7, exists).item()
        np.testing.assert_allclose(got, plain_mil_nce(video, text, 0.7, valid), rtol=1e-10)
        # What a sentence is that does not exist changes nothing.
        y = mt.tensor(np.where(valid[..., None], text, 9.0), device=device)
        assert mil_nce_loss(x, y, 0.7, exists).item() == pytest.approx(got, abs=1e-12)

    def test_no_sentence_at_all(self, make, device):
        video, text = make(2, 3), make(2, 2, 3)
        loss = mil_nce_loss(video, text, 0.7, mt.zeros(2, 2, dtype="bool", device=device))
        loss.backward()
        assert loss.item() == 0
        assert not video.grad.numpy().any() and not text.grad.numpy().any()

    def test_gradients(self, make, device):
        a, b, text = make(3, 2), make(3, 2), make(3, 2, 2)
        valid = mt.tensor([[True, False], [False, False], [True, True]], device=device)
        assert gradcheck(lambda a, b: nce_loss(a, b, 0.7, symmetric=True), (a, b))
        assert gradcheck(lambda a, b: mil_nce_loss(a, b, 0.7), (a, text))
        assert gradcheck(lambda a, b: mil_nce_loss(a, b, 0.7, valid), (a, text))

    def test_one_sentence_is_nce(self, make):
        a, b = make(4, 3), make(4, 3)
        got = mil_nce_loss(a, b.unsqueeze(1), 0.7).item()
        np.testing.assert_allclose(got, nce_loss(a, b, 0.7).item(), rtol=1e-12)

    def test_large_products(self, device):
        """exp(900 / 0.07) overflows; the loss does not."""
        x = mt.tensor([[30.0, 0.0], [0.0, 30.0]], device=device)
        assert nce_loss(x, x).item() == 0
        assert nce_loss(x, x.flip(0)).item() == pytest.approx(900 / 0.07, rel=1e-6)
        assert mil_nce_loss(x, x.unsqueeze(1)).item() == 0

    def test_refused(self, make):
        with pytest.raises(ShapeError, match="nce_loss"):
            nce_loss(make(3, 2), make(2, 2))
        for text in (make(3, 2), make(2, 2, 2), make(3, 2, 5), make(3, 0, 2)):
            with pytest.raises(ShapeError, match="mil_nce_loss"):
                mil_nce_loss(make(3, 2), text)
        with pytest.raises(ShapeError, match="valid"):
            mil_nce_loss(make(3, 2), make(3, 2, 2), valid=make(3, 1) > 0)
        for loss, text in ((nce_loss, make(3, 2)), (mil_nce_loss, make(3, 2, 2))):
            with pytest.raises(ArgumentError, match="temperature must be positive"):
                loss(make(3, 2), text, 0.0)


class TestDropToken:
    @pytest.mark.parametrize(
        "length, rate", [(1, 0.9), (2, 0.5), (7, 0.5), (7, 0), (5, 1), (9, 0.3)]
    )
    def test_against_a_loop(self, length, rate, rng, device):
        tokens, noise = rng.normal(size=(3, length, 2)), rng.integers(0, 3, (3, length)) / 2
        count = max(1, int(length * (1 - rate)))
        kept, index = drop_token(
            mt.tensor(tokens, device=device), mt.tensor(noise, device=device), rate
        )
        for row in range(3):  # of equal noise, the earlier token stays
            expected = sorted(sorted(range(length), key=lambda i: (noise[row, i], i))[:count])
            assert index[row].tolist() == expected
            np.testing.assert_array_equal(kept[row].numpy(), tokens[row, expected])
        assert index.dtype == mt.int64

    def test_gradient_of_the_kept_alone(self, make, device):
        tokens, noise = make(2, 5, 3), make(2, 5)
        kept, index = drop_token(tokens, noise, 0.5)
        kept.sum().backward()
        ones = np.zeros((2, 5))
        np.put_along_axis(ones, index.numpy(), 1, 1)
        np.testing.assert_array_equal(tokens.grad.numpy(), np.repeat(ones[..., None], 3, 2))
        assert noise.grad is None

    def test_refused(self, make):
        for rate in (-0.1, 1.1, "half", float("nan")):
            with pytest.raises(ArgumentError, match="rate must be"):
                drop_token(make(2, 5, 3), make(2, 5), rate)
        for noise in (make(2, 4), make(5)):
            with pytest.raises(ShapeError, match="drop_token"):
                drop_token(make(2, 5, 3), noise, 0.5)


class TestTokens:
    def test_video_by_hand(self, rng, device):
        """A patch is projected and gets one vector each for its time, its row and its column."""
        tokens = drawn(VideoTokens((4, 6, 6), (2, 2, 3), 5, 3), device)
        video = rng.normal(size=(2, 3, 4, 6, 6))
        got = tokens(mt.tensor(video, device=device)).numpy()
        assert got.shape == (2, 1 + 2 * 3 * 2, 5)
        weight, bias = tokens.projection.weight.numpy(), tokens.projection.bias.numpy()
        tables = [
            table.weight.numpy()
            for table in (tokens.time_positions, tokens.row_positions, tokens.column_positions)
        ]
        for number, (t, i, j) in enumerate(np.ndindex(2, 3, 2)):
            cube = video[:, :, 2 * t : 2 * t + 2, 2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
            expected = np.einsum("nctij,dctij->nd", cube, weight) + bias
            expected = expected + tables[0][t] + tables[1][i] + tables[2][j]
            np.testing.assert_allclose(got[:, 1 + number], expected, atol=1e-12)
        first = tokens.aggregation.numpy()[0, 0]
        np.testing.assert_allclose(got[:, 0], [first, first], atol=1e-12)

    def test_audio_by_hand(self, rng, device):
        for channels in (1, 3):
            tokens = drawn(AudioTokens(10, 2, 7, channels), device)
            audio = rng.normal(size=(2, 10, channels))
            got = tokens(mt.tensor(audio, device=device)).numpy()
            weight, bias = tokens.projection.weight.numpy(), tokens.projection.bias.numpy()
            for i in range(5):
                segment = audio[:, 2 * i : 2 * i + 2].reshape(2, -1)
                expected = segment @ weight.T + bias + tokens.positions.weight.numpy()[i]
                np.testing.assert_allclose(got[:, 1 + i], expected, atol=1e-12)
        wave = mt.tensor(audio[:, :, 0], device=device)
        mono = drawn(AudioTokens(10, 2, 7), device)
        np.testing.assert_array_equal(mono(wave).numpy(), mono(wave.unsqueeze(-1)).numpy())

    @pytest.mark.parametrize("relative", [True, False])
    def test_text_by_hand(self, relative, rng, device):
        tokens = drawn(TextTokens(11, 5, 6, 2, relative), device)
        ids = rng.integers(0, 11, (2, 4))
        expected = tokens.embedding.weight.numpy()[ids]
        if not relative:
            expected = expected + tokens.positions.weight.numpy()[:4]
        got = tokens(mt.tensor(ids, device=device)).numpy()
        np.testing.assert_allclose(got[:, 1:], expected, atol=1e-12)

    @pytest.mark.parametrize("relative", [True, False])
    def test_mask_of_text(self, relative, device):
        tokens = drawn(TextTokens(11, 5, 6, 2, relative), device)
        ids = mt.tensor([[1, 2, 3], [4, 0, 0]], device=device)
        free, masked = tokens.mask(ids), tokens.mask(ids, ids == 0)
        attend = np.array([[True] * 4, [True, True, False, False]])[:, None, None]
        if not relative:
            assert free is None
            np.testing.assert_array_equal(masked.numpy(), attend)
            return
        # Distances 0, 1, 2, 3 backward are buckets 0 to 3; forward they are 16 more.
        buckets = np.array([[0, 17, 18, 19], [1, 0, 17, 18], [2, 1, 0, 17], [3, 2, 1, 0]])
        bias = tokens.bias.embedding.weight.numpy()[buckets].transpose(2, 0, 1)[None]
        np.testing.assert_array_equal(free.numpy(), bias)
        np.testing.assert_array_equal(masked.numpy(), np.where(attend, bias, -np.inf))

    def test_gradients(self, make, device):
        assert gradcheck_module(
            drawn(VideoTokens((2, 2, 4), (1, 2, 2), 3, 2), device), make(2, 2, 2, 2, 4)
        )
        assert gradcheck_module(drawn(AudioTokens(4, 2, 3, 2), device), make(2, 4, 2))

    def test_refused(self):
        for size, patch in (((4, 6, 6), (3, 2, 2)), ((6, 6), (2, 2))):
            with pytest.raises(ArgumentError, match="not divisible"):
                VideoTokens(size, patch, 3)
        with pytest.raises(ArgumentError, match="not divisible"):
            AudioTokens(10, 3, 4)
        with pytest.raises(ShapeError, match=r"video.transpose\(1, 2\)"):
            VideoTokens((4, 2, 2), (2, 2, 2), 3)(mt.zeros(1, 4, 3, 2, 2))
        for shape in ((2, 9), (2, 10, 2), (10,)):
            with pytest.raises(ShapeError, match="AudioTokens"):
                AudioTokens(10, 2, 4)(mt.zeros(*shape))
        with pytest.raises(ShapeError, match="at most 3 words"):
            TextTokens(11, 3, 4, 2)(mt.zeros(2, 4, dtype="int64"))


class TestModel:
    @pytest.mark.parametrize("shared", [False, True])
    def test_by_hand(self, shared, clip, device):
        """Tokens, Transformer, output at the aggregation token, projections, length 1."""
        model = small(device, shared=shared)
        assert len(model.transformers) == (1 if shared else 3)
        *inputs, padding = clip
        outputs = {}
        for number, (sense, x) in enumerate(zip(("video", "audio", "text"), inputs, strict=True)):
            transformer = model.transformers[0 if shared else number]
            hidden, tokens = model.tokens[sense](x), model.tokens[sense]
            mask = tokens.mask(x, padding) if sense == "text" else None
            for block in transformer.blocks:
                hidden = block(hidden, mask)
            outputs[sense] = transformer.norm(hidden)[:, 0]
        project = model.projections
        video = project["video"](outputs["video"])
        expected = [
            video, project["audio"](outputs["audio"]), project["video_text"](video),
            project["text"](outputs["text"]),
        ]  # fmt: skip
        for got, x in zip(model(*clip), (x.numpy() for x in expected), strict=True):
            lengths = np.linalg.norm(x, axis=-1, keepdims=True)
            np.testing.assert_allclose(got.numpy(), x / lengths, atol=1e-12)

    def test_projections_by_hand(self, rng, device):
        model = small(device)
        x = rng.normal(size=(3, 6))
        first, norm1, _, second, norm2 = model.projections["video"]
        for norm in (norm1, norm2):
            norm.running_mean.data = mt.tensor(rng.normal(size=5), device=device)
            norm.running_var.data = mt.tensor(rng.uniform(1, 2, 5), device=device)

        def normed(norm, x):
            names = ("running_mean", "running_var", "weight", "bias")
            mean, variance, weight, bias = (getattr(norm, name).numpy() for name in names)
            return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias

        hidden = np.maximum(normed(norm1, x @ first.weight.numpy().T), 0)
        expected = normed(norm2, hidden @ second.weight.numpy().T)
        got = model.projections["video"](mt.tensor(x, device=device)).numpy()
        np.testing.assert_allclose(got, expected, atol=1e-12)
        assert first.bias is None and second.bias is None

    def test_loss(self, clip):
        model = small(clip[0].device.type, temperature=0.3, text_weight=0.25)
        found = model(*clip)
        video_audio, audio, video_text, text = (x.numpy() for x in found)
        both = plain_nce(video_audio, audio, 0.3) + plain_nce(audio, video_audio, 0.3)
        expected = both / 2 + 0.25 * plain_nce(video_text, text, 0.3)
        np.testing.assert_allclose(model.loss(found).item(), expected, rtol=1e-10)

    def test_several_sentences(self, clip, rng, device):
        model = small(device)
        video, audio, _, _ = clip
        ids = rng.integers(0, 11, (3, 2, 4))
        words, padding = mt.tensor(ids, device=device), mt.tensor(ids == 0, device=device)
        found = model(video, audio, words, padding)
        assert found.text.shape == (3, 2, 3)
        one = model(text=words[:, 1], padding=padding[:, 1])
        np.testing.assert_allclose(found.text[:, 1].numpy(), one.text.numpy(), atol=1e-12)
        assert one.video_audio is one.audio is one.video_text is None
        valid = np.array([[True, True], [True, False], [False, False]])
        by_text = plain_mil_nce(found.video_text.numpy(), found.text.numpy(), 0.07, valid)
        by_sound = nce_loss(found.video_audio, found.audio, symmetric=True).item()
        loss = model.loss(found, mt.tensor(valid, device=device)).item()
        np.testing.assert_allclose(loss, by_sound + by_text, rtol=1e-10)

    def test_padding_has_no_influence(self, clip):
        model = small(clip[0].device.type)
        for shared in (False, True):
            model = small(clip[0].device.type, shared=shared)
            _, _, ids, padding = clip
            other = ids.numpy().copy()
            other[1, 2:] = 7
            other = mt.tensor(other, device=ids.device)
            before = model.encode("text", ids, padding).numpy()
            np.testing.assert_array_equal(model.encode("text", other, padding).numpy(), before)
            assert (model.encode("text", other).numpy() != before)[1].all()

    def test_tokens_are_dropped_in_training_alone(self, clip):
        model, lengths = small(clip[0].device.type, drop_rate=0.5), []
        for transformer in model.transformers:
            transformer.register_forward_pre_hook(
                lambda module, inputs: lengths.append(inputs[0].shape[1])
            )
        model(*clip)
        model.train()(*clip)
        assert lengths == [13, 6, 5, 7, 3, 5]  # 12 patches, 5 segments, 4 words, and one more each
        model.drop_rate = 0.0
        model(*clip)
        assert lengths[6:] == [13, 6, 5]

    def test_dropped_tokens_differ_between_rows_and_calls(self):
        tokens = VideoTokens((1, 1, 64), (1, 1, 1), 3, 1)
        for p in tokens.parameters():
            p.data = mt.zeros(*p.shape)
        tokens.column_positions.weight.data = mt.arange(64.0).reshape(64, 1).expand(64, 3)
        first, second = (tokens(mt.zeros(2, 1, 1, 1, 64), 0.5)[:, 1:, 0].tolist() for _ in "ab")
        assert first[0] != first[1] and first[0] != second[0]
        assert first[0] == sorted(first[0]) and len(first[0]) == 32

    @pytest.mark.parametrize("shared", [False, True])
    def test_gradients(self, shared, clip):
        """Of all embeddings; `TestLosses` checks the losses."""
        model = small(
            clip[0].device.type, shared=shared, video_size=(1, 2, 4), in_channels=1, embed_dim=4,
            mlp_dim=3, common_dim=3, text_common_dim=2, vocab_size=3, text_length=2,
            audio_length=4,
        )  # fmt: skip
        for place in (1, 4):  # the inputs of both ReLU are not near 0
            bias = model.projections["video"][place].bias
            bias.data = mt.tensor([9.0, 7.0, -9.0], dtype="float64", device=bias.device)
        video, audio, ids, _ = clip
        ids = ids[:, :2] % 3

        class All(mt.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, video, audio):
                return mt.cat([x.flatten() for x in self.model(video, audio, ids, ids == 0)])

        inputs = video[:, :1, :1, :2, :4], audio[:, :4]
        leaves = [mt.tensor(x.numpy(), device=x.device, requires_grad=True) for x in inputs]
        assert gradcheck_module(All().eval(), *leaves, fast=True)

    def test_state_dict_round_trip(self, clip, tmp_path):
        device = clip[0].device.type
        for shared in (False, True):
            model = small(device, shared=shared)
            mt.save(model.state_dict(), tmp_path / "vatt.safetensors")
            other = VATT(
                (2, 4, 6), (1, 2, 2), 10, 2, 11, 7, 6, 1, 2, 5, in_channels=2, common_dim=5,
                text_common_dim=3, shared=shared,
            )  # fmt: skip
            other.double().to(device).load_state_dict(mt.load(tmp_path / "vatt.safetensors"))
            for a, b in zip(model(*clip), other.eval()(*clip), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())

    def test_refused(self):
        with pytest.raises(ArgumentError, match="embed_dim must be one number"):
            small(embed_dim=(4, 4))
        with pytest.raises(ArgumentError, match="num_layers must be one number"):
            small(num_layers=(1, 2, 1), shared=True)
        with pytest.raises(ArgumentError, match="unknown modality"):
            small().encode("smell", mt.zeros(2, 3))


def count(module):
    return sum(p.numel() for p in module.parameters())


class TestPublishedSizes:
    """The paper's appendix lists layers, widths and parameters of four sizes.

    It prints 20.9, 87.9, 155.0 and 306.1 million and does not say which projections are counted.
    Patches, positions, aggregation token and Transformer of video alone are 0.2 to 2 % fewer.
    """

    @pytest.mark.parametrize(
        "name, parameters, printed",
        [
            ("small", 20_507_648, 20.9), ("base", 87_444_480, 87.9),
            ("medium", 154_341_376, 155.0), ("large", 305_496_064, 306.1),
        ],
    )  # fmt: skip
    def test_video(self, name, parameters, printed):
        width, depth, heads, hidden = vatt.SIZES[name]
        with skip_init():
            model = VATT(
                vocab_size=2, embed_dim=width, num_layers=depth, num_heads=heads, mlp_dim=hidden
            )
        assert width // heads == 64 and hidden == 4 * width
        block = 12 * width**2 + 13 * width
        cubes = 4 * 16 * 16 * 3 * width + width  # the patches' projection
        positions = (8 + 14 + 14) * width
        total = depth * block + 2 * width + cubes + positions + width
        got = count(model.tokens["video"]) + count(model.transformers[0])
        assert got == total == parameters
        assert 0.98 < got / (printed * 1e6) < 1

    def test_configurations(self):
        with skip_init():
            found = [count(make()) for make in (vatt_bbs, vatt_mbs, vatt_lbs, vatt_ma_medium)]
        assert found == [227_306_496, 294_334_464, 445_489_152, 224_536_832]
        with skip_init():
            model = vatt_bbs()
        assert [tokens.grid for tokens in [model.tokens["video"]]] == [(8, 14, 14)]
        assert model.tokens["audio"].positions.weight.shape == (1200, 768)
        assert count(model.tokens["text"].embedding) == 2**16 * 512  # word vectors
