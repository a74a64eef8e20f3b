"""ELMo: published sizes, loops over characters and words, masks, losses, gradients."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck, gradcheck_module
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.models import BiLM, ELMo, ScalarMix
from minitorch_attn.models.elmo import (
    CharacterEncoder,
    Highway,
    bilm_loss,
    character_ids,
    losses_by_direction,
)


def randomised(model, rng, device="cpu"):
    for parameter in model.parameters():
        parameter.data = mt.tensor(0.5 * rng.normal(size=parameter.shape))
    return model.double().to(device)


def small(rng, device, **changes):
    settings = dict(
        num_characters=11, char_dim=3, filters=[(1, 2), (3, 5)], num_highway=1, embed_dim=3,
        hidden_dim=5,
    )  # fmt: skip
    return randomised(ELMo(**{**settings, **changes}), rng, device)


def characters(rng, device, *shape, low=0):
    return mt.tensor(rng.integers(low, 11, shape), device=device)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_words(state, ids, prefix="encoder."):
    """The vector of each word (word, embed), one character window at a time; ids (word, char)."""
    get = {name.removeprefix(prefix): value for name, value in state.items()}
    words = []
    for word in ids:
        x = get["embedding.weight"][word]  # (char, char_dim)
        found = []
        for index in (0, 1):
            kernel = get[f"convolutions.{index}.weight"]  # (count, char_dim, width)
            bias, width = get[f"convolutions.{index}.bias"], kernel.shape[2]
            places = [
                (kernel * x[i : i + width].T).sum((1, 2)) + bias
                for i in range(len(x) - width + 1)
            ]  # fmt: skip
            found.append(np.max(places, 0))
        y = np.concatenate(found).clip(0)
        transform = get["highway.transforms.0.weight"] @ y + get["highway.transforms.0.bias"]
        t = sigmoid(get["highway.gates.0.weight"] @ y + get["highway.gates.0.bias"])
        y = t * transform.clip(0) + (1 - t) * y
        words.append(get["projection.weight"] @ y + get["projection.bias"])
    return np.array(words)


def plain_lstm(state, name, words):
    """The projected outputs (word, embed) of one LSTM layer; gates i, f, g, o."""
    w = {key: state[f"{name}.{key}_l0"] for key in ("weight_ih", "weight_hh", "weight_hr")}
    bias = state[f"{name}.bias_ih_l0"] + state[f"{name}.bias_hh_l0"]
    h, c, outputs = np.zeros(len(w["weight_hr"])), 0.0, []
    for x in words:
        i, f, g, o = np.split(w["weight_ih"] @ x + w["weight_hh"] @ h + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = w["weight_hr"] @ (sigmoid(o) * np.tanh(c))
        outputs.append(h)
    return np.array(outputs)


def plain_layers(state, words, num_layers=2):
    """All layers (layer, word, 2 * embed) of one sentence, each direction on its own."""
    sides = []
    for side, step in (("forward", 1), ("backward", -1)):
        x = words[::step]
        outputs = [words]
        for layer in range(num_layers):
            y = plain_lstm(state, f"{side}_layers.{layer}", x)
            x = y + x if layer else y
            outputs.append(x[::step])
        sides.append(outputs)
    return np.stack([np.concatenate(pair, 1) for pair in zip(*sides, strict=True)])


@pytest.mark.parametrize(
    ("hidden", "embed", "highway", "published"),
    [(4096, 512, 2, 93.6), (2048, 256, 1, 28.0), (1024, 128, 1, 13.6)],
)
def test_published_sizes(hidden, embed, highway, published):
    """Millions of parameters of the published models; their LSTMs have one bias, ours have two."""
    with nn.init.skip_init():
        model = ELMo(embed_dim=embed, hidden_dim=hidden, num_highway=highway)
    counts = {name: p.numel() for name, p in model.named_parameters() if "bias_hh" not in name}
    assert round(sum(counts.values()) / 1e6, 1) == published
    if hidden == 4096:
        assert sum(counts.values()) == 93_600_864


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_layers_equal_the_loop(num_layers, rng, device):
    """Three sentences of different lengths: padding must not reach a word, from either side."""
    model = small(rng, device, num_layers=num_layers)
    ids = characters(rng, device, 3, 5, 7)
    lengths = [5, 2, 1]
    blocked = mt.tensor(np.arange(5) >= np.array(lengths)[:, None], device=device)
    got = model(ids, blocked).detach().numpy()
    assert got.shape == (num_layers + 1, 3, 5, 6)
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    for row, length in enumerate(lengths):
        words = plain_words(state, ids.numpy()[row, :length])
        expected = plain_layers(state, words, num_layers)
        np.testing.assert_allclose(got[:, row, :length], expected, rtol=1e-10, atol=1e-13)
    whole = model(ids).detach().numpy()
    np.testing.assert_allclose(whole[:, 0], got[:, 0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("shape", "num_layers"), [((1, 3, 3), 2), ((2, 2, 5), 1)])
def test_gradients(shape, num_layers, rng, device):
    """Without padding, whose vector never gets a gradient."""
    sizes = dict(char_dim=2, filters=[(1, 2), (3, 1)], embed_dim=2, hidden_dim=3)
    model = small(rng, device, num_layers=num_layers, **sizes)
    assert gradcheck_module(model, characters(rng, device, *shape, low=1))


def test_short_words_are_padded(rng, device):
    model = small(rng, device)
    ids = characters(rng, device, 1, 2, 1)
    longer = nn.functional.pad(ids, (0, 2))
    np.testing.assert_array_equal(model(ids).detach().numpy(), model(longer).detach().numpy())


def test_padding_characters_get_no_gradient(rng, device):
    table = ELMo(filters=[(1, 2)], embed_dim=2, hidden_dim=3).encoder.embedding.weight
    assert not table[0].detach().numpy().any() and table[1].detach().numpy().all()
    model = small(rng, device)
    model(mt.tensor([[[0, 1, 0, 2]]], device=device)).sum().backward()
    gradient = model.encoder.embedding.weight.grad.numpy()
    assert not gradient[0].any() and gradient[1].any()


def test_no_word_knows_the_other_side(rng, device):
    """In the left-to-right half, a word depends on words up to it; in the other, from it on."""
    model = small(rng, device)
    ids = characters(rng, device, 1, 5, 7)
    changed = ids.clone()
    changed[0, 2] = (ids[0, 2] + 1) % 11
    before, after = (model(x).detach().numpy()[1:, 0] for x in (ids, changed))
    same = before == after  # (layer, word, 2 * embed)
    assert same[..., :3].all((0, 2)).tolist() == [True, True, False, False, False]
    assert same[..., 3:].all((0, 2)).tolist() == [False, False, False, True, True]


def test_bilm_reads_the_top_layer(rng, device):
    model = randomised(BiLM(7, small(rng, device)), rng, device)
    ids = characters(rng, device, 2, 3, 5)
    to_right, to_left = model(ids)
    top = model.elmo(ids)[-1].detach().numpy()
    weight, bias = model.output.weight.detach().numpy(), model.output.bias.detach().numpy()
    for got, half in ((to_right, top[..., :3]), (to_left, top[..., 3:])):
        expected = half @ weight.T + bias
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-11, atol=1e-13)
    loss = bilm_loss(to_right, to_left, mt.tensor([[1, 2, 3], [4, 5, 6]], device=device))
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_dropout_of_each_layer(rng, device):
    model = small(rng, device, dropout=0.5)
    ids = characters(rng, device, 2, 3, 5)
    model.train()
    assert not np.array_equal(model(ids)[1].detach().numpy(), model(ids)[1].detach().numpy())
    model.eval()
    np.testing.assert_array_equal(model(ids).detach().numpy(), model(ids).detach().numpy())


@pytest.mark.parametrize("shape", [(2, 3, 5), (2,), (2, 0), (2, 1, 1)])
def test_scalar_mix(shape, make, rng, device):
    mix = randomised(ScalarMix(2), rng, device)
    layers = make(*shape)
    e = np.exp(mix.weight.detach().numpy())
    shares, values = e / e.sum(), layers.detach().numpy()
    expected = mix.gamma.item() * (shares[0] * values[0] + shares[1] * values[1])
    np.testing.assert_allclose(mix(layers).detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(mix([layers[0], layers[1]]).numpy(), mix(layers).numpy())
    assert gradcheck_module(mix, layers)
    assert sorted(mix.state_dict()) == ["gamma", "weight"]


def test_a_new_mix_is_the_mean(make):
    layers = make(5, 3)
    got = ScalarMix(5).double().to(layers.device)(layers).detach().numpy()
    np.testing.assert_allclose(got, layers.detach().numpy().mean(0), rtol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_bilm_loss_equals_the_loop(masked, make, rng, device):
    """Padding at the end, and in the middle: both places of a prediction must be words."""
    to_right, to_left = make(3, 5, 7), make(3, 5, 7)
    ids = mt.tensor(rng.integers(0, 7, (3, 5)), device=device)
    blocked = np.zeros((3, 5), bool)
    if masked:
        blocked[0, 3:], blocked[1, 1:], blocked[2, 2] = True, True, True
    total = 0.0
    for logits, step in ((to_right, 1), (to_left, -1)):
        values, losses = logits.detach().numpy(), []
        for row, k in np.ndindex(3, 5):
            if 0 <= k + step < 5 and not blocked[row, k] and not blocked[row, k + step]:
                p = np.exp(values[row, k]) / np.exp(values[row, k]).sum()
                losses.append(-np.log(p[ids.numpy()[row, k + step]]))
        total += np.mean(losses)
    mask = mt.tensor(blocked, device=device) if masked else None
    np.testing.assert_allclose(bilm_loss(to_right, to_left, ids, mask).item(), total, rtol=1e-12)
    assert gradcheck(lambda a, b: bilm_loss(a, b, ids, mask), (to_right, to_left))


def test_highway_starts_close_to_the_identity(rng, device):
    mt.manual_seed(3)
    highway = Highway(5, 2).double().to(device)
    x = mt.tensor(rng.uniform(0, 1, (7, 5)), device=device)
    assert (highway(x) - x).abs().max().item() < 0.4
    assert [gate.bias.detach().tolist() for gate in highway.gates] == [[-2.0] * 5] * 2
    assert gradcheck_module(highway, x)


def test_character_ids():
    got = character_ids([["é", "<S>", "</S>"], ["abcdef"]], max_characters=5)
    assert got.dtype == mt.int64
    assert got.tolist() == [
        [[259, 0xC3 + 1, 0xA9 + 1, 260, 261], [259, 257, 260, 261, 261],
         [259, 258, 260, 261, 261]],
        [[259, 98, 99, 100, 260], [0] * 5, [0] * 5],
    ]  # fmt: skip
    assert character_ids([]).shape == (0, 0, 50)
    assert character_ids([["word"] * 3]).shape == (1, 3, 50)


def test_errors(rng):
    with pytest.raises(ShapeError, match="3 axes"):
        small(rng, "cpu")(mt.tensor([[1, 2]]))
    with pytest.raises(ShapeError, match="number of layers"):
        ScalarMix(3)(mt.zeros(2, 5))
    with pytest.raises(DTypeError, match="not an ELMo model"):
        BiLM(7, nn.Linear(2, 3))
    with pytest.raises(ArgumentError, match="at least 3"):
        character_ids([["a"]], 2)
    for filters in ([], 3, [(1, 2, 3)]):
        with pytest.raises(ArgumentError, match="pairs of a width and a count"):
            CharacterEncoder(11, 3, filters, 1, 5)


def test_sizes_are_checked_before_anything_is_built():
    wrong = {
        "Highway: num_layers": lambda: Highway(3, -1),
        "ELMo: num_layers": lambda: ELMo(embed_dim=2, hidden_dim=3, num_layers=-1),
        "ScalarMix: num_layers": lambda: ScalarMix(-1),
        "CharacterEncoder: width": lambda: CharacterEncoder(5, 2, [(-1, 3)], 1, 2),
        "CharacterEncoder: count": lambda: CharacterEncoder(5, 2, [(1, -3)], 1, 2),
    }  # fmt: skip
    for message, build in wrong.items():
        with pytest.raises(ArgumentError, match=f"{message} must be a non-negative integer"):
            build()
    assert repr(ScalarMix(4)) == "ScalarMix(4)"


def test_three_characters_are_room_for_one_letter():
    assert character_ids([["ab"]], max_characters=3).tolist() == [[[259, 98, 260]]]


def test_each_direction_has_its_own_loss():
    """Perfect logits for the next id leave the loss of the other direction at log 5."""
    ids = mt.tensor([[1, 3, 4, 0], [2, 4, 1, 3]])
    padding = mt.tensor([[False, False, False, True], [False] * 4])
    certain = 50 * mt.eye(5)
    nothing = mt.zeros(2, 4, 5)
    to_next, other = losses_by_direction(certain[ids.roll(-1, 1)], nothing, ids, padding)
    assert to_next.item() < 1e-6 and other.item() == pytest.approx(np.log(5))
    other, to_previous = losses_by_direction(nothing, certain[ids.roll(1, 1)], ids, padding)
    assert to_previous.item() < 1e-6 and other.item() == pytest.approx(np.log(5))
