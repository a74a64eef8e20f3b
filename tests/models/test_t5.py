"""T5: the published parameter counts, a NumPy reference, buckets of distances, the cache."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import t5


def small(device="cpu", **changes):
    settings = dict(vocab_size=13, embed_dim=6, num_heads=3, num_layers=2, head_dim=5, ff_dim=7)
    mt.manual_seed(5)
    buckets = {"num_buckets": 8, "max_distance": 11}
    model = t5.T5(**{**settings, **buckets, "dropout": 0.0, **changes})
    return model.double().to(device)


def randomise(model, rng, size=0.6):
    for parameter in model.parameters():
        values = rng.uniform(-size, size, parameter.shape)
        parameter.data = mt.tensor(values, device=parameter.device)
    return model


def count(model):
    return sum(p.numel() for p in model.parameters())


PUBLISHED = {
    "small": (60_506_624, 6), "base": (222_903_552, 12), "large": (737_668_096, 24),
    "3b": (2_851_598_336, 24), "11b": (11_307_321_344, 24), "v1_1_small": (76_961_152, 8),
    "v1_1_base": (247_577_856, 12), "v1_1_large": (783_150_080, 24),
    "v1_1_xl": (2_849_757_184, 24), "v1_1_xxl": (11_135_332_352, 24),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts(name):
    """From two shallow models: the count is linear in the layers and in the vocabulary."""
    expected, layers = PUBLISHED[name]
    build = getattr(mt.models, f"t5_{name}")
    with mt.nn.init.skip_init():  # memory that nobody writes to costs nothing
        one = count(build(num_layers=1, vocab_size=2))
        per_layer = count(build(num_layers=2, vocab_size=2)) - one
        per_token = count(build(num_layers=1, vocab_size=3)) - one
    assert one + (layers - 1) * per_layer + 32126 * per_token == expected


def test_layers_of_a_published_size():
    with mt.nn.init.skip_init():
        model = mt.models.t5_small(vocab_size=2)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (6, 6)


def test_near_distances_have_their_own_bucket_and_far_ones_share():
    def bucket(distance, **settings):
        return t5.relative_position_bucket(mt.tensor([distance]), **settings).item()

    assert [bucket(-d) for d in range(9)] == list(range(8)) + [8]
    assert [bucket(d) for d in range(1, 9)] == list(range(17, 25))
    assert bucket(-127) == bucket(-10_000) == 15 and bucket(127) == bucket(10_000) == 31
    one_way = {"bidirectional": False}
    assert [bucket(-d, **one_way) for d in range(16)] == list(range(16))
    assert bucket(5, **one_way) == 0 and bucket(-128, **one_way) == 31


def plain_bucket(distance, bidirectional, buckets, farthest):
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(farthest / exact)
    return first + min(buckets - 1, exact + int(share * (buckets - exact)))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(8, 11), (14, 29), (32, 101)])
def test_buckets_against_a_plain_twin(device, bidirectional, buckets, farthest):
    positions = np.arange(-150, 151).reshape(7, 43)
    found = t5.relative_position_bucket(
        mt.tensor(positions, device=device), bidirectional, buckets, farthest
    )
    assert found.dtype == mt.int64 and found.shape == (7, 43)
    expected = [
        [plain_bucket(d, bidirectional, buckets, farthest) for d in row] for row in positions
    ]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_too_few_buckets():
    with pytest.raises(ArgumentError, match="at least 4 buckets"):
        t5.relative_position_bucket(mt.tensor([1]), num_buckets=2)
    with pytest.raises(ArgumentError, match="max_distance > 8"):
        t5.relative_position_bucket(mt.tensor([1]), max_distance=8)


class Plain:
    """The model once more, for one text and one answer, in loops."""

    def __init__(self, model, gated):
        self.w = {name: value.numpy() for name, value in model.state_dict().items()}
        self.gated = gated

    def norm(self, x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * self.w[name + ".weight"]

    def attend(self, x, memory, name, table, causal):
        query, key, value = (
            y @ self.w[f"{name}.{n}_proj.weight"].T
            for y, n in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        context = np.zeros_like(query)
        for h in range(3):
            part = slice(5 * h, 5 * h + 5)
            for i in range(len(x)):
                seen = range(i + 1) if causal else range(len(memory))
                scores = np.array([query[i, part] @ key[j, part] for j in seen])
                if table is not None:
                    scores += [table[plain_bucket(j - i, not causal, 8, 11), h] for j in seen]
                weights = np.exp(scores) / np.exp(scores).sum()
                context[i, part] = weights @ value[list(seen), part]
        return context @ self.w[name + ".out_proj.weight"].T

    def feed_forward(self, x, name):
        w = self.w
        if not self.gated:
            hidden = np.maximum(x @ w[name + ".linear1.weight"].T, 0)
            return hidden @ w[name + ".linear2.weight"].T
        u = x @ w[name + ".gate.weight"].T
        u = 0.5 * u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        return (u * (x @ w[name + ".up.weight"].T)) @ w[name + ".down.weight"].T

    def stack(self, x, name, memory=None):
        table = self.w[f"{name}.position_bias.embedding.weight"]
        for i in range(2):
            p = f"{name}.layers.{i}."
            y = self.norm(x, p + "norm1")
            x = x + self.attend(y, y, p + "attention", table, memory is not None)
            last = "norm2"
            if memory is not None:
                y = self.norm(x, p + "norm2")
                x = x + self.attend(y, memory, p + "cross_attention", None, False)
                last = "norm3"
            x = x + self.feed_forward(self.norm(x, p + last), p + "feed_forward")
        return self.norm(x, name + ".norm")

    def __call__(self, ids, decoder_ids):
        embed = self.w["token_embedding.weight"]
        memory = self.stack(embed[ids], "encoder")
        hidden = self.stack(embed[decoder_ids], "decoder", memory)
        scale = 1.0 if self.gated else 6**-0.5
        return (hidden * scale) @ self.w["head.weight"].T


@pytest.mark.parametrize("gated", [False, True])
def test_against_a_plain_twin(device, rng, gated):
    version_1_1 = {"gated": True, "activation": "gelu_tanh", "tie_weights": False}
    model = randomise(small(device, **(version_1_1 if gated else {})), rng)
    ids, decoder_ids = rng.integers(13, size=(2, 7)), rng.integers(13, size=(2, 5))
    lengths = [7, 4]
    found = model(
        mt.tensor(ids, device=device), mt.tensor(decoder_ids, device=device),
        mt.masks.padding(lengths, device=device),
    ).numpy()  # fmt: skip
    plain = Plain(model, gated)
    for i, length in enumerate(lengths):
        expected = plain(ids[i, :length], decoder_ids[i])
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-11)


def test_cached_equals_uncached(device, rng):
    model = randomise(small(device), rng)
    ids = mt.tensor(rng.integers(13, size=(2, 7)), device=device)
    answer = mt.tensor(rng.integers(13, size=(2, 6)), device=device)
    memory, cache, parts = model.encode(ids), mt.nn.KVCache(), []
    for start, stop in ((0, 1), (1, 4), (4, 6)):
        parts.append(model.decode(answer[:, start:stop], memory, cache=cache))
    whole = model(ids, answer).numpy()
    np.testing.assert_allclose(mt.cat(parts, 1).numpy(), whole, rtol=1e-10, atol=1e-12)


def test_gradients(device, rng):
    sizes = dict(vocab_size=5, num_layers=1, num_heads=2, head_dim=2, ff_dim=3, num_buckets=4)
    model = randomise(small(device, **sizes, embed_dim=3), rng)
    ids = mt.tensor(rng.integers(5, size=(2, 5)), device=device)
    assert gradcheck_module(model, ids, ids[:, :3])


def test_all_layers_share_one_table_of_distances():
    names = [name for name, _ in small().named_parameters() if "position" in name]
    assert names == [f"{stack}.position_bias.embedding.weight" for stack in ("encoder", "decoder")]


def test_tied_and_untied_heads():
    tied, free = small(), small(tie_weights=False)
    assert tied.head.weight is tied.token_embedding.weight and tied.scale == 6**-0.5
    assert free.head.weight is not free.token_embedding.weight and free.scale == 1.0


def test_the_start_of_the_published_code():
    mt.manual_seed(0)
    model = t5.T5(300, 64, 4, 2, head_dim=32, ff_dim=200)
    layer = model.decoder.layers[1]
    stds = {
        1.0: model.token_embedding.weight,
        (64 * 32) ** -0.5: layer.attention.q_proj.weight,
        64**-0.5: layer.cross_attention.k_proj.weight,
        128**-0.5: layer.attention.out_proj.weight,
        200**-0.5: layer.feed_forward.linear2.weight,
    }
    for std, weight in stds.items():
        assert weight.numpy().std() == pytest.approx(std, rel=0.05)
    assert (layer.norm3.weight.numpy() == 1).all()


def test_shifting(device):
    labels = mt.tensor([[7, 8, -100], [5, 6, 1]], device=device)
    shifted = t5.shift_right(labels, start_id=2, padding_id=3)
    assert shifted.tolist() == [[2, 7, 8], [2, 5, 6]]
    assert t5.shift_right(mt.tensor([[-100, 4]], device=device), 2, 3).tolist() == [[2, 3]]


def test_dropout_only_while_training(device):
    model = small(device, dropout=0.5)
    ids = mt.tensor([[1, 2, 3]], device=device)
    assert (model(ids, ids).numpy() != model(ids, ids).numpy()).any()
    model.eval()
    assert (model(ids, ids).numpy() == model(ids, ids).numpy()).all()
