"""Numbers of the lecture decks that follow from mathematics, computed by the library.

docs/decks.md lists the decks. If a deck rounds, truncates or errs, the test says by how much.
Measured figures (accuracies, BLEU, prices) do not follow from mathematics and are not tested.
"""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import models, nn
from minitorch_attn.backend.gemm import dry_run
from minitorch_attn.nn import functional as F
from minitorch_attn.nn.init import skip_init
from minitorch_attn.nn.summary import Summary

F64 = mt.float64
GRID = mt.tensor(
    [[98.0, 27, 10, 12], [27, 89, 31, 67], [10, 31, 91, 54], [12, 67, 54, 92]], dtype=F64
)
# Deck GRID calls this both "softmax of the scaled scores" and, one slide later, "scaled scores".
AFTER_SOFTMAX = np.array(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
)


def parameters_of(name):
    with skip_init():
        return sum(p.numel() for p in getattr(models, name)().parameters())


def softmax(x):
    return mt.softmax(mt.tensor(x, dtype=F64), -1).numpy()


class TestScoresOfFourWords:
    """Deck GRID: scores of the words Hi, how, are, you; scaled, through softmax, and masked."""

    def test_the_grid_is_that_of_equal_queries_and_keys(self):
        assert (GRID == GRID.T).all()
        # All eigenvalues positive: there are vectors x with x x^T = GRID, so Q = K is possible.
        values, vectors = np.linalg.eigh(GRID.numpy())
        assert values.min() > 0
        x = vectors * np.sqrt(values)
        np.testing.assert_allclose(x @ x.T, GRID.numpy(), atol=1e-12)

    def test_scaled_by_the_root_of_64_every_word_attends_to_itself_alone(self):
        weights = mt.softmax(GRID / math.sqrt(64), -1)
        np.testing.assert_allclose(weights.sum(-1).numpy(), 1.0, atol=1e-12)
        assert (weights.diagonal() > 0.93).all()  # the deck's largest weight is 0.7

    def test_no_scale_turns_the_grid_into_the_deck_s_table(self):
        rows = set()
        for scale in np.geomspace(0.1, 1e4, 3000):
            same = (softmax(GRID.numpy() / scale).round(1) == AFTER_SOFTMAX).all(1)
            rows |= set(np.flatnonzero(same))
        assert rows == {0}  # "Hi" fits, for scales about 40; no other row does for any scale
        # In the row of "you" the deck gives the scores 67, 54 and 92 one and the same weight.
        assert (GRID[3].numpy()[1:] == [67, 54, 92]).all()

    def test_one_row_of_the_table_does_not_sum_to_one(self):
        np.testing.assert_allclose(AFTER_SOFTMAX.sum(1), [1.0, 1.0, 1.1, 1.0], atol=1e-12)

    def test_the_masked_table_is_a_softmax_of_numbers_that_were_softmaxed_already(self):
        bias = np.triu(np.full((4, 4), -np.inf), 1)
        found = softmax(AFTER_SOFTMAX + bias)
        deck = [[1, 0, 0, 0], [0.37, 0.62, 0, 0], [0.26, 0.31, 0.43, 0], [0.21, 0.26, 0.26, 0.26]]
        np.testing.assert_allclose(found, deck, atol=0.0081)
        # 0.37 and 0.31 are cut off, not rounded.
        assert round(found[1, 0], 2) == 0.38 and math.floor(100 * found[1, 0]) == 37
        assert round(found[2, 1], 2) == 0.32 and math.floor(100 * found[2, 1]) == 31

    def test_softmax_twice_flattens(self):
        bias = np.triu(np.full((4, 4), -np.inf), 1)
        once = mt.softmax(GRID / math.sqrt(64) + mt.tensor(bias), -1).numpy()
        twice = softmax(once + bias)
        assert np.diag(once).min() > 0.93 and np.diag(twice)[1:].max() < 0.74


class TestMasks:
    def test_averages_of_the_past(self):
        scores = mt.zeros(8, 8, dtype=F64).masked_fill(mt.ones(8, 8).tril() == 0, -math.inf)
        weights = mt.softmax(scores, -1).numpy()
        deck = ["1.0000", "0.5000", "0.3333", "0.2500", "0.2000", "0.1667", "0.1429", "0.1250"]
        for row, text in enumerate(deck):
            assert [f"{w:.4f}" for w in weights[row]] == [text] * (row + 1) + ["0.0000"] * (7 - row)

    def test_multiplying_by_a_mask_of_minus_infinity_is_wrong(self):
        # Deck FLOW multiplies the scores, element by element, by a matrix with -inf above the
        # diagonal and 0 elsewhere (as a sum needs it), or 1.
        scores = np.array([[0.7, -0.3, 0.2], [0.1, 0.6, -0.5], [0.0, 0.4, 0.9]])
        above = np.triu(np.ones((3, 3)), 1) == 1
        with np.errstate(invalid="ignore"):
            ones = scores * np.where(above, -np.inf, 1.0)
            zeros = scores * np.where(above, -np.inf, 0.0)
        assert ones[0, 1] == math.inf  # a negative score becomes +inf: the future wins everything
        with np.errstate(invalid="ignore"):
            assert np.isnan(softmax(ones)[0]).any()
        assert (zeros[~above] == 0).all()  # with 0 elsewhere all scores are lost
        added = softmax(scores + np.where(above, -np.inf, 0.0))
        assert (added[above] == 0).all()
        np.testing.assert_allclose(added.sum(1), 1.0)

    def test_a_score_of_zero_times_minus_infinity_is_no_number(self):
        with np.errstate(invalid="ignore"):
            assert np.isnan(0.0 * -np.inf)

    def test_minus_a_billion_is_minus_infinity_but_for_empty_rows(self):
        scores = np.array([[0.3, -1e9, 0.1], [-1e9, -1e9, -1e9]])
        weights = softmax(scores)
        assert weights[0, 1] == 0.0  # "softmax(-1e9) = 0" holds exactly
        np.testing.assert_allclose(weights[1], 1 / 3)  # where all is masked, it spreads evenly
        attend = mt.tensor([[True, False, True], [False, False, False]])
        context = F.scaled_dot_product_attention(
            mt.ones(2, 4), mt.ones(3, 4), mt.ones(3, 4), attn_mask=attend
        )
        assert (context[1] == 0).all()  # the library: nothing to attend to, nothing comes out

    def test_padding_is_true_where_there_is_padding(self):
        deck = [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]]
        lengths = mt.tensor([4, 6, 3, 5])
        padding = mt.arange(6) >= lengths.unsqueeze(1)
        assert (padding.numpy() == np.array(deck, bool)).all()


def test_targets_are_the_inputs_one_later():
    inputs = [
        [24, 43, 58, 5, 57, 1, 46, 43], [44, 53, 56, 1, 58, 46, 39, 58],
        [52, 58, 1, 58, 46, 39, 58, 1], [25, 17, 27, 10, 0, 21, 1, 54],
    ]  # fmt: skip
    targets = [
        [43, 58, 5, 57, 1, 46, 43, 39], [53, 56, 1, 58, 46, 39, 58, 1],
        [58, 1, 58, 46, 39, 58, 1, 46], [17, 27, 10, 0, 21, 1, 54, 39],
    ]  # fmt: skip
    for row, target in zip(inputs, targets, strict=True):
        assert row[1:] == target[:-1]
    pairs = [(tuple(inputs[0][: t + 1]), targets[0][t]) for t in range(8)]
    assert pairs[0] == ((24,), 43) and pairs[7] == (tuple(inputs[0]), 39)
    # Under the causal mask the model makes all eight predictions of a row at once, and none of
    # them changes when the later inputs do.
    mt.manual_seed(0)
    model = models.GPT(59, 8, embed_dim=8, num_heads=2, num_layers=1).eval()
    whole = model(mt.tensor(inputs))
    for t in (1, 4):
        np.testing.assert_allclose(
            model(mt.tensor(inputs)[:, :t]).detach().numpy(),
            whole[:, :t].detach().numpy(),
            atol=1e-5,
        )


def test_layer_norm_with_eps_outside_the_root():
    # Deck COMP541 computes (x - mean) / (std + eps), and its std divides by n - 1.
    x = mt.randn(3, 512, dtype=F64)
    outside = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
    inside = F.layer_norm(x, (512,), eps=1e-6)
    ratio = (outside / inside).numpy()
    np.testing.assert_allclose(ratio, math.sqrt(511 / 512), rtol=2e-6)
    small = x * 1e-6  # where the spread is of the order of eps the two part
    outside = (small - small.mean(-1, keepdim=True)) / (small.std(-1, keepdim=True) + 1e-6)
    assert (F.layer_norm(small, (512,), eps=1e-6).abs() < outside.abs() / 100).all()


def test_mean_zero_and_variance_one_hold_before_the_weights_only():
    layer = nn.LayerNorm(64)
    y = layer(mt.randn(5, 64)).detach().numpy()
    np.testing.assert_allclose(y.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(y.var(1), 1, atol=1e-4)
    with mt.no_grad():
        layer.weight.fill_(3.0)
        layer.bias.fill_(2.0)
    y = layer(mt.randn(5, 64)).detach().numpy()
    assert abs(y.mean(1) - 2).max() < 1e-5 and abs(y.var(1) - 9).max() < 1e-2


class TestSizesOfTheTransformer:
    def test_512_features_are_8_heads_of_64(self):
        attention = nn.Attention(512, 8)
        assert attention.head_dim == 64 == 512 // 8
        with nn.collect_attention(attention) as found:
            attention(mt.zeros(1, 9, 512))  # nine tokens
        assert found[0][1].shape == (1, 8, 9, 9)

    def test_feed_forward_goes_from_512_to_2048_and_back(self):
        layer = nn.FeedForward(512, 2048)
        assert layer.linear1.weight.shape == (2048, 512) and 2048 == 4 * 512
        assert layer.linear2.weight.shape == (512, 2048)

    def test_all_heads_together_cost_as_much_as_one_of_full_width(self):
        def flops(heads):
            return Summary(nn.Attention(512, heads), (1, 30, 512)).flops

        assert flops(8) == flops(1)

    def test_positions_are_rotations(self):
        # PE(i, 2l) = sin(i / 10000^(2l/d)), PE(i, 2l + 1) = cos(the same)
        table = nn.sinusoidal_positions(120, 16).numpy()
        i, l = np.arange(120)[:, None], np.arange(8)
        angle = i / 10000 ** (2 * l / 16)
        np.testing.assert_allclose(table[:, 0::2], np.sin(angle), atol=2e-6)
        np.testing.assert_allclose(table[:, 1::2], np.cos(angle), atol=2e-6)
        # the form with exp and log in the code of deck COMP541
        other = np.exp(np.arange(0, 16, 2) * -(math.log(10000.0) / 16))
        np.testing.assert_allclose(other, 10000 ** (-2 * l / 16.0), rtol=1e-12)


class Recurrent(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.rnn = nn.RNN(d, d)

    def forward(self, x):
        return self.rnn(x)[0]


class OnlyAttention(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


class InWindows(nn.Module):
    def __init__(self, r):
        super().__init__()
        self.r = r

    def forward(self, x):  # (token, feature)
        windows = x.reshape(-1, self.r, x.shape[-1])
        return F.scaled_dot_product_attention(windows, windows, windows).reshape(x.shape)


class TestTheComplexityTable:
    """Operations of a layer as n tokens, d features, kernel k and window r grow."""

    N, D, K, R = 64, 24, 3, 8

    def flops(self, name, n=N, d=D, k=K, r=R):
        with skip_init():
            layer, shape = {
                "attention": lambda: (OnlyAttention(), (n, d)),
                "recurrent": lambda: (Recurrent(d), (n, d)),
                "convolution": lambda: (nn.Conv1d(d, d, k, padding=k // 2), (1, d, n)),
                "windows": lambda: (InWindows(r), (n, d)),
            }[name]()
        return Summary(layer, shape).flops

    @pytest.mark.parametrize(
        ("name", "powers"),
        [
            ("attention", dict(n=2, d=1)),
            ("recurrent", dict(n=1, d=2)),
            ("convolution", dict(n=1, d=2, k=1)),
            ("windows", dict(n=1, d=1, r=1)),
        ],
    )
    def test_complexity_per_layer(self, name, powers):
        first = self.flops(name)
        sizes = dict(n=self.N, d=self.D, k=self.K, r=self.R)
        for letter in sizes:
            factor = 3 if letter == "k" else 2  # a kernel has an odd width
            ratio = self.flops(name, **{letter: factor * sizes[letter]}) / first
            assert ratio == pytest.approx(factor ** powers.get(letter, 0), rel=1e-12), letter

    def test_attention_is_cheaper_than_recurrence_while_n_is_less_than_d(self):
        assert self.flops("attention", n=100, d=512) < self.flops("recurrent", n=100, d=512)
        assert self.flops("attention", n=2000, d=512) > self.flops("recurrent", n=2000, d=512)

    @staticmethod
    def sees(layers, n, d=4):
        """Whether the last output depends on the first input."""
        x = mt.randn(1, d, n, dtype=F64, requires_grad=True)
        y = x
        for layer in layers:
            y = layer(y)
        y[..., -1].sum().backward()
        return bool((x.grad[..., 0] != 0).any())

    def test_path_lengths(self):
        n, k, r = 27, 3, 9

        def attention(x):
            return OnlyAttention()(x.transpose(1, 2)).transpose(1, 2)

        def windows(x, start=r):
            edges = [0, *range(start, n, r), n]
            pieces = [x[..., a:b] for a, b in zip(edges, edges[1:], strict=False)]
            return mt.cat([attention(piece) for piece in pieces], 2)

        def shifted(x):  # the windows begin half a window earlier
            return windows(x, r // 2)

        def dilated(level):
            dilation = k**level
            pad = dilation * (k - 1)  # sees k places, each `dilation` apart, up to its own
            layer = nn.Conv1d(4, 4, k, dilation=dilation).double()
            return lambda x: layer(F.pad(x, (pad, 0)))

        assert self.sees([attention], n)  # O(1)
        depth = round(math.log(n, k))  # O(log_k n)
        assert self.sees([dilated(level) for level in range(depth)], n)
        assert not self.sees([dilated(level) for level in range(depth - 1)], n)
        assert self.sees([windows, shifted] * (n // r), n)  # O(n / r)
        assert not self.sees([windows, shifted, windows], n)
        assert not self.sees([windows] * n, n)  # without the shift, never


def test_a_gated_state_is_a_weighted_sum_of_all_candidates():
    # h_t = u_t h_{t-1} + (1 - u_t) c_t, unrolled: h_t = sum_i (prod_{j > i} u_j) (1 - u_i) c_i
    # Deck COMP541 has a product over k <= i - 1 of (1 - u_k); it should be the factor 1 - u_i.
    rng = np.random.default_rng(0)
    u, c = rng.uniform(0.2, 0.9, (6, 3)), rng.normal(size=(6, 3))
    h = np.zeros(3)
    for t in range(6):
        h = u[t] * h + (1 - u[t]) * c[t]
    terms = [np.prod(u[i + 1 :], axis=0) * (1 - u[i]) * c[i] for i in range(6)]
    np.testing.assert_allclose(h, sum(terms), atol=1e-14)
    as_printed = [np.prod(u[i + 1 :], axis=0) * np.prod(1 - u[:i], axis=0) * c[i] for i in range(6)]
    assert abs(h - sum(as_printed)).max() > 0.1


class TestViT:
    # name: width, depth, MLP, heads, millions of parameters, GFLOPs at 224^2 and 384^2
    SIZES = {
        "s/28": (256, 6, 1024, 8, "5.4", 0.7, 2.0),
        "s/16": (256, 6, 1024, 8, "5.0", 2.2, 7.8),
        "S/32": (384, 12, 1536, 6, "22", 2.3, 6.9),
        "Ti/16": (192, 12, 768, 3, "5.5", 2.5, 9.5),
        "B/32": (768, 12, 3072, 12, "87", 8.7, 26.0),
        "S/16": (384, 12, 1536, 6, "22", 9.2, 31.2),
        "B/28": (768, 12, 3072, 12, "87", 11.3, 30.5),
        "B/16": (768, 12, 3072, 12, "86", 35.1, 111.3),
        "L/16": (1024, 24, 4096, 16, "303", 122.9, 382.8),
        "g/14": (1408, 40, 6144, 16, "1011", 533.1, 1596.4),
        "G/14": (1664, 48, 8192, 16, "1843", 965.3, 2859.9),
    }

    @staticmethod
    def counted(name, image, classes=1000):
        width, depth, mlp, heads, *_ = TestViT.SIZES[name]
        patch = int(name.split("/")[1])
        side = image // patch * patch  # 384 is no multiple of 28 or 14: what is left is cut off
        with skip_init():
            model = models.VisionTransformer(side, patch, classes, width, depth, heads, mlp)
        return Summary(model, (1, 3, side, side))

    @pytest.mark.parametrize("name", SIZES)
    @pytest.mark.slow
    def test_sizes_and_flops(self, name):
        width, *_, parameters, at_224, at_384 = self.SIZES[name]
        found = self.counted(name, 224)
        without_head = (found.parameters - 1001 * width) / 1e6
        decimals = 1 if "." in parameters else 0
        assert f"{without_head:.{decimals}f}" == parameters  # all eleven, to the last digit
        # Two operations for each multiply-add. The table's counts include some of the work that
        # is no matrix product: up to 1.5 %, and rounding where it gives one digit.
        for flops, deck in ((found.flops, at_224), (self.counted(name, 384).flops, at_384)):
            assert flops / 1e9 == pytest.approx(deck, rel=0.016, abs=0.05)

    def test_base_large_and_huge(self):
        assert parameters_of("vit_b_16") // 10**6 == 86
        assert parameters_of("vit_h_14") // 10**6 == 632
        # The paper's table and deck GRID say 307; the architecture that they describe has 304.
        assert parameters_of("vit_l_16") // 10**6 == 304

    def test_an_image_is_197_tokens_of_768(self):
        assert 224 // 16 == 14 and 14 * 14 == 196 and 3 * 16 * 16 == 768 and 16 * 14 == 224
        with skip_init():
            model = models.vit_b_16()
        patches = model.patch_embedding(mt.zeros(1, 3, 224, 224))
        assert patches.shape == (1, 196, 768)
        assert model.class_token.shape == (1, 1, 768)
        assert model.embed(mt.zeros(1, 3, 224, 224)).shape == (1, 197, 768)
        assert model.head.weight.shape == (1000, 768) and len(model.blocks) == 12

    def test_the_patch_layer_is_a_convolution(self):
        # "Not quite" without convolutions: Conv2d(p x p, 3 -> D, stride p) is unfold and matmul.
        layer = models.vit.PatchEmbedding(4, 3, 5).double()
        images = mt.randn(2, 3, 8, 12, dtype=F64)
        columns = F.unfold(images, 4, stride=4).transpose(1, 2)  # (batch, patch, 3 * 4 * 4)
        kernel = layer.projection
        found = columns @ kernel.weight.reshape(5, -1).T + kernel.bias
        np.testing.assert_allclose(
            found.detach().numpy(), layer(images).detach().numpy(), atol=1e-12
        )

    def test_blocks_keep_768_x_14_x_14_where_a_cnn_and_swin_do_not(self):
        assert 768 * 14 * 14 == 196 * 768
        with skip_init(), dry_run():
            model = models.swin_t()
            with nn.collect_outputs(model.stages) as found:
                model(mt.zeros(1, 3, 224, 224))
        # C x H/4 x W/4, 2C x H/8 x W/8, 4C x H/16 x W/16, 8C x H/32 x W/32 with C = 96
        blocks = [stage.blocks[0].norm1.weight.shape[0] for stage in model.stages]
        assert blocks == [96, 192, 384, 768]
        assert [output.shape[1:] for _, output in found][-1] == (7, 7, 768)


class TestMemoryOfAttentionMatrices:
    def test_pixels(self):
        assert 224 * 224 == 50176  # "50k"
        assert (128 * 128) ** 2 == 128**4
        total = 128**4 * 48 * 16 * 4  # layers, heads, bytes of a float32
        assert total == 768 * 2**30

    def test_patches(self):
        assert 14**4 == 38416 and 16**4 == 65536
        assert 38416 * 4 / 2**10 == pytest.approx(150, abs=0.1)
        assert 65536 * 4 == 256 * 2**10
        # 112.5 MiB, which deck COMP541 truncates to 112; and 192 MiB exactly.
        assert 38416 * 4 * 48 * 16 / 2**20 == pytest.approx(112.55, abs=0.01)
        assert 65536 * 4 * 48 * 16 == 192 * 2**20

    def test_windows(self):
        assert 56**4 == 9834496  # "9.8M"
        # M^4 (H / M)(W / M) = M^2 H W
        assert 7**4 * (56 // 7) ** 2 == 7**2 * 56 * 56 == 153664
        for side in (224, 448):  # 56 x 56 and 112 x 112 tokens
            with skip_init(), dry_run():
                model = models.swin_t(image_size=side).eval()
                with nn.collect_attention(model) as found, mt.no_grad():
                    model(mt.zeros(1, 3, side, side))
            first = math.prod(found[0][1].shape)  # of the first block, which has 3 heads
            assert first == 3 * 7**2 * (side // 4) ** 2  # four times the area, four times as many


class TestGPT:
    def test_the_sizes_of_gpt2(self):
        # Deck GRID repeats the paper's first counts: 117M, 345M, 762M, 1542M. The released models,
        # and the architecture, have 124, 355, 774 and 1,558 million.
        deck = {768: 117, 1024: 345, 1280: 762, 1600: 1542}
        names = ("gpt2", "gpt2_medium", "gpt2_large", "gpt2_xl")
        counts = dict(zip(deck, map(parameters_of, names), strict=True))
        assert counts == {
            768: 124_439_808, 1024: 354_823_168, 1280: 774_030_080, 1600: 1_557_611_200
        }  # fmt: skip
        assert [round(counts[width] / 1e6) - said for width, said in deck.items()] == [
            7,
            10,
            12,
            16,
        ]

    def test_gpt3_has_175_billion(self):
        # 96 layers of width 12,288; 12 d^2 for each: 4 d^2 of attention, 8 d^2 of feed-forward.
        layers, width, vocabulary, context = 96, 12288, 50257, 2048
        each = Summary(_GPTBlock(64), (1, 2, 64)).parameters
        assert each == 12 * 64**2 + 13 * 64  # the rule, on a block small enough to be built
        total = layers * (12 * width**2 + 13 * width) + (vocabulary + context + 2) * width
        assert round(total / 1e9) == 175


class _GPTBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.block = models.GPT(3, 2, embed_dim=width, num_heads=1, num_layers=1).blocks[0]

    def forward(self, x):
        return self.block(x)


class TestCNNs:
    def test_resnet_50_has_25_5_million_parameters(self):
        assert parameters_of("resnet50") == 25_557_032  # the deck cuts off, and does not round

    def test_lr_net_50_has_23_3_million_parameters(self):
        assert parameters_of("lr_net_50") == 23_367_725

    def test_both_need_equally_many_operations(self):
        # Deck COMP541 says 4.3 billion for both, as the paper does, of one multiply-add each.
        # Without normalization, pooling and additions there are 5 % and 6 % fewer.
        with skip_init():
            found = [
                Summary(getattr(models, name)(), (1, 3, 224, 224)).flops / 2e9
                for name in ("resnet50", "lr_net_50")
            ]
        assert [round(flops / 4.3, 2) for flops in found] == [0.95, 0.94]

    def test_a_hierarchy_halves_the_resolution_and_doubles_the_channels(self):
        with skip_init(), dry_run():
            model = models.resnet34()
            images = mt.zeros(1, 3, 224, 224)
            shapes = [tuple(x.shape[1:]) for x in model.feature_maps(images)]
            lr_net = models.lr_net_50().feature_maps(images)
        assert shapes[:3] == [(64, 56, 56), (128, 28, 28), (256, 14, 14)]
        assert [tuple(x.shape[1:]) for x in lr_net] == [
            (256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)
        ]  # fmt: skip


class TestDETR:
    """Deck FLOW: the table of results."""

    @pytest.mark.parametrize(
        ("layers", "millions"), [(50, 41), (101, 60)], ids=["ResNet-50", "ResNet-101"]
    )
    def test_parameters(self, layers, millions):
        plain, dilated = (parameters_of(f"detr_resnet{layers}{end}") for end in ("", "_dc5"))
        assert plain == dilated  # a dilated stage has the same weights
        # The deck leaves out the frozen normalization of the backbone, and cuts off.
        assert plain // 10**6 == millions

    def test_a_query_predicts_one_of_100_boxes(self):
        with skip_init():
            model = models.detr_resnet50()
        assert model.query_positions.weight.shape[0] == 100

    def test_dilation_costs_four_times_as_many_tokens(self):
        sizes = []
        for name in ("detr_resnet50", "detr_resnet50_dc5"):
            with skip_init(), dry_run():
                model = getattr(models, name)()
                features = model.backbone(mt.zeros(1, 3, 512, 512))
            sizes.append(math.prod(features.shape[2:]))
        assert sizes == [16 * 16, 32 * 32]


def test_57_tokens_stand_for_252_characters():
    # Deck KROL: a text in a tokenizer's page, and its token IDs.
    ids = [
        8607, 4339, 2472, 311, 832, 4037, 11, 719, 1063, 1541, 956, 25, 3687, 23936, 382, 35020,
        5885, 1093, 100166, 1253, 387, 6859, 1139, 1690, 11460, 8649, 279, 16940, 5943, 25, 11410,
        97, 248, 9468, 237, 122, 271, 1542, 45045, 315, 5885, 17037, 1766, 1828, 311, 1855, 1023,
        1253, 387, 41141, 3871, 25, 220, 4513, 10961, 16474, 15,
    ]  # fmt: skip
    assert len(ids) == 57
    assert max(ids) > 50257  # so it is not the vocabulary of GPT-2 and GPT-3
    # The emoji takes six of the tokens (11410 to 122), for its eight bytes. The page counts its
    # characters as JavaScript does, in pairs of bytes: it has four, and the text 252.
    text = (
        "Many words map to one token, but some don't: indivisible.\n\nUnicode characters like "
        "emojis may be split into many tokens containing the underlying bytes: \U0001f91a\U0001f3fe"
        "\n\nSequences of characters commonly found next to each other may be grouped together: "
        "1234567890"
    )
    assert len(text) == 250 and len(text.encode("utf-16-le")) // 2 == 252
    assert len("\U0001f91a\U0001f3fe".encode()) == 8
    assert ids[30:36] == [11410, 97, 248, 9468, 237, 122]


def test_the_cost_of_training_is_processors_times_hours():
    # Table 2 of Vaswani et al.: 8 P100 with 9.5 TFLOPS each, for 12 hours and for 3.5 days.
    each_second = 8 * 9.5e12
    assert f"{12 * 3600 * each_second:.1e}" == "3.3e+18"
    assert f"{3.5 * 86400 * each_second:.1e}" == "2.3e+19"


def test_37_000_words_times_512_features():
    with skip_init():
        assert nn.Embedding(37_000, 512).weight.numel() == 18_944_000


def test_the_window_of_the_subsequent_mask():
    # Deck COMP541: target i sees the targets 0 to i.
    visible = mt.ones(20, 20, dtype=mt.bool).tril()
    assert visible.sum(1).tolist() == list(range(1, 21))
    assert (mt.nn.masks.causal(20).attend == visible).all()
