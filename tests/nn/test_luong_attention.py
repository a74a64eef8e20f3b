"""LuongAttention and InputFeedingDecoder equal loops over the equations of the paper."""

import itertools

import numpy as np
import pytest
from recurrence import lstm_step

import minitorch_attn as mt
from minitorch_attn import masks, nn
from minitorch_attn.autograd import gradcheck_module, gradgradcheck
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.nn import collect_attention

SCORES, LOCAL = ("dot", "general", "concat", "location"), (None, "monotonic", "predictive")
BLOCKED = np.arange(7) >= np.array([[7], [4]])  # padding behind the second source


def ready(module, device):
    """In float64 on the device under test, with the same values on every call."""
    module = module.double().to(device)
    rng = np.random.default_rng(3)
    for p in module.parameters():
        with mt.no_grad():
            p.copy_(mt.tensor(rng.uniform(-0.8, 0.8, p.shape), device=device))
    return module


def host(tensor):
    return tensor.detach().numpy()


def score(kind, p, query, key, s):
    """Of one query with the key at position s."""
    if kind == "dot":
        return query @ key
    if kind == "general":
        return query @ p["W.weight"] @ key
    if kind == "concat":
        return (p["v.weight"] @ np.tanh(p["W.weight"] @ np.concatenate([query, key]))).item()
    return (p["W.weight"] @ query)[s]


def luong(attention, query, keys, blocked, t=0):
    """One query at position t: its attentional state, weights and distance from a window's end."""
    p = {name: host(value) for name, value in attention.named_parameters()}
    local, window, known = attention.local, attention.window, attention.max_length
    center = t if local == "monotonic" else None
    if local == "predictive":
        inner = (p["v_p.weight"] @ np.tanh(p["W_p.weight"] @ query)).item()
        center = (~blocked).sum() / (1 + np.exp(-inner))
    exps = np.zeros(len(keys))
    for s, key in enumerate(keys):
        outside = center is not None and abs(s - center) > window
        if not blocked[s] and not outside and (known is None or s < known):
            exps[s] = np.exp(score(attention.score, p, query, key, s))
    weights = exps / max(exps.sum(), 1e-300)
    if local == "predictive":
        weights *= np.exp(-((np.arange(len(keys)) - center) ** 2) / (2 * (window / 2) ** 2))
    both = np.concatenate([weights @ keys, query])
    margin = 1.0
    if local == "predictive":
        margin = np.abs(np.abs(np.arange(len(keys)) - center) - window).min(initial=1.0)
    return np.tanh(p["W_c.weight"] @ both + p["W_c.bias"]), weights, margin


def build(device, kind, local, query_dim=3, key_dim=3, **more):
    more = {"window": 2, **more} if local else more
    if kind == "location":
        more = {"max_length": 5, **more}
    if kind == "concat":
        more = {"hidden_dim": 2, **more}
    return ready(nn.LuongAttention(query_dim, key_dim, score=kind, local=local, **more), device)


def check(attention, query, key, mask, blocked, start=0):
    got, weights = attention(query, key, mask, start)
    batch, queries, keys = len(query), query.shape[1], key.shape[1]
    assert got.shape == query.shape and weights.shape == (batch, queries, keys)
    for b, i in np.ndindex(batch, queries):
        wanted = luong(attention, host(query)[b, i], host(key)[b], blocked[b], start + i)
        assert wanted[2] > 1e-3  # finite differences must not move a key out of its window
        np.testing.assert_allclose(host(got)[b, i], wanted[0], atol=1e-13)
        np.testing.assert_allclose(host(weights)[b, i], wanted[1], atol=1e-13)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("kind", SCORES)
def test_every_score_with_every_window(make, device, kind, local):
    attention, query, key = build(device, kind, local), make(2, 5, 3), make(2, 7, 3)
    nothing = np.zeros((2, 7), bool)
    check(attention, query, key, None, nothing)
    assert gradcheck_module(attention, query, key)
    for mask in (mt.tensor(BLOCKED, device=device), masks.padding([7, 4], device=device)):
        check(attention, query, key, mask, BLOCKED)
        assert gradcheck_module(attention, query, key, mask)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("kind", SCORES)
def test_small_and_empty_sizes(make, device, kind, local):
    for batch, queries, keys in itertools.product((0, 1, 2), repeat=3):
        attention = build(
            device, kind, local, window=1.3, max_length=1 if kind == "location" else None
        )
        query, key = make(batch, queries, 3), make(batch, keys, 3)
        check(attention, query, key, None, np.zeros((batch, keys), bool))
        sum(x.sum() for x in attention(query, key)).backward()
        assert query.grad.shape == query.shape and np.isfinite(host(key.grad)).all()


def test_strided_inputs_of_different_sizes(make, device):
    for kind in SCORES[1:]:
        attention = build(device, kind, "predictive", query_dim=2)
        query, key = make(2, 5, 2), make(2, 7, 3)
        strided = query.swapaxes(0, 1).contiguous().swapaxes(0, 1)
        for a, b in zip(attention(strided, key), attention(query, key), strict=True):
            np.testing.assert_array_equal(host(a), host(b))
        check(attention, query, key, None, np.zeros((2, 7), bool))


@pytest.mark.parametrize("start", [-1, 2, 6, 40])
def test_the_first_position_of_monotonic_windows(make, device, start):
    attention = build(device, "general", "monotonic", window=1)
    query, key = make(2, 3, 3), make(2, 7, 3)
    check(attention, query, key, mt.tensor(BLOCKED, device=device), BLOCKED, start)
    whole = attention(query, key, start=start)[1]
    for i in range(3):  # one query at a time, as a decoder asks
        one = attention(query[:, i : i + 1], key, start=start + i)[1]
        np.testing.assert_allclose(host(one), host(whole)[:, i : i + 1], atol=1e-15)


@pytest.mark.parametrize("local", LOCAL)
def test_no_key_left(make, device, local):
    attention, query, key = build(device, "general", local), make(2, 5, 3), make(2, 7, 3)
    blocked = BLOCKED.copy()
    blocked[0] = True
    attentional, weights = attention(query, key, mt.tensor(blocked, device=device))
    (attentional.sum() + (weights * weights).sum()).backward()
    assert not host(weights)[0].any() and not host(key.grad)[0].any()
    p = {name: host(value) for name, value in attention.named_parameters()}
    wanted = np.tanh(host(query)[0] @ p["W_c.weight"][:, 3:].T + p["W_c.bias"])
    np.testing.assert_allclose(host(attentional)[0], wanted, atol=1e-14)
    assert np.isfinite(host(query.grad)).all() and host(key.grad)[1].any()


def test_the_window_counts_keys_without_padding(make, device):
    """A mask for each query, or with one column for all keys, gives its own number of keys."""
    attention, query, key = build(device, "dot", "predictive"), make(2, 5, 3), make(2, 7, 3)
    counts = np.array([7, 5, 6, 4, 7])
    attend = np.arange(7) < counts[:, None]  # (query, key)
    own = masks.from_attend(mt.tensor(attend[None, None], device=device))
    weights = host(attention(query, key, own)[1])
    for b, i in np.ndindex(2, 5):
        wanted = luong(attention, host(query)[b, i], host(key)[b], ~attend[i])[1]
        np.testing.assert_allclose(weights[b, i], wanted, atol=1e-13)
    column = masks.from_attend(mt.ones(2, 1, 1, 1, dtype="bool", device=device))
    np.testing.assert_array_equal(
        host(attention(query, key, column)[1]), host(attention(query, key)[1])
    )


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("kind", SCORES)
def test_without_a_batch_and_with_known_projections(make, device, kind, local):
    attention, query, key = build(device, kind, local), make(2, 5, 3), make(2, 7, 3)
    mask = mt.tensor(BLOCKED, device=device)
    wanted = attention(query, key, mask, 1)
    single = attention(query[1], key[1], mask[1], 1)
    projected = attention.attend(query, attention.project(key), key, mask, 1)
    for a, b, whole in zip(single, projected, wanted, strict=True):
        np.testing.assert_allclose(host(a), host(whole)[1], atol=1e-14)
        np.testing.assert_array_equal(host(b), host(whole))


@pytest.mark.parametrize("kind", SCORES)
def test_second_derivatives(make, device, kind):
    attention = build(device, kind, "predictive", query_dim=2, key_dim=2)
    query, key = make(1, 2, 2), make(1, 5, 2)
    assert gradgradcheck(attention, (query, key))


def test_single_precision(make, device):
    for kind, local in itertools.product(SCORES, LOCAL):
        attention, query, key = build(device, kind, local), make(2, 5, 3), make(2, 7, 3)
        wanted = [host(x) for x in attention(query, key)]
        for have, want in zip(attention.float()(query.float(), key.float()), wanted, strict=True):
            assert have.dtype == "float32"
            np.testing.assert_allclose(host(have), want, rtol=2e-5, atol=2e-6)


def test_names_sizes_and_hooks(make, device):
    def shapes(**more):
        layer = nn.LuongAttention(2, 3, **more)
        return {name.replace(".weight", ""): p.shape for name, p in layer.named_parameters()}

    last = {"W_c": (2, 5), "W_c.bias": (2,)}
    assert shapes() == {"W": (2, 3), **last}
    assert shapes(score="concat") == {"W": (2, 5), "v": (1, 2), **last}
    assert shapes(score="concat", hidden_dim=7) == {"W": (7, 5), "v": (1, 7), **last}
    assert shapes(score="location", max_length=11) == {"W": (11, 2), **last}
    assert shapes(local="monotonic") == {"W": (2, 3), **last}
    assert shapes(local="predictive") == {"W": (2, 3), **last, "W_p": (2, 2), "v_p": (1, 2)}
    assert "W" not in dict(nn.LuongAttention(3, 3, score="dot").named_children())
    text = repr(nn.LuongAttention(2, 3, score="location", max_length=5, local="monotonic"))
    assert "score='location', local='monotonic', window=10, max_length=5" in text
    attention = build(device, "dot", "predictive")
    with collect_attention(attention) as found:
        _, weights = attention(make(2, 5, 3), make(2, 7, 3))
    np.testing.assert_array_equal(host(found[0][1])[:, 0], host(weights))


@pytest.mark.parametrize("known", [6, 7, 8, 11])
def test_location_with_fewer_keys_than_positions(make, device, known):
    attention = build(device, "location", None, max_length=known)
    query, key = make(2, 5, 3), make(2, 7, 3)
    check(attention, query, key, None, np.zeros((2, 7), bool))
    check(attention, query, key[:, :2], None, np.zeros((2, 2), bool))


@pytest.mark.parametrize(
    ("local", "window"), [("monotonic", 0), ("monotonic", 0.5), ("predictive", 0.9)]
)
def test_narrow_windows(make, device, local, window):
    attention = build(device, "general", local, window=window)
    weights = attention(make(2, 5, 3), make(2, 7, 3))[1]
    assert weights.shape == (2, 5, 7) and (host(weights) > 0).sum(-1).max() <= 2


def test_invalid_arguments(device):
    for sizes, name in [((-1, 3), "query_dim"), ((2, 0.5), "key_dim")]:
        with pytest.raises(ArgumentError, match=name):
            nn.LuongAttention(*sizes)
    for more, message in [
        (dict(score="cosine"), "score must be one of"), (dict(local="both"), "local must be one"),
        (dict(score="dot"), "must be equal"), (dict(score="location"), "requires max_length"),
        (dict(local="predictive", window=0), "must be positive"),
        (dict(local="monotonic", window=-1), "must not be negative"),
        (dict(window=float("nan")), "must not be negative"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            nn.LuongAttention(2, 3, **more)
    attention = nn.LuongAttention(2, 3, local="monotonic").to(device)
    zeros = lambda *shape: mt.zeros(*shape, device=device)  # noqa: E731
    with pytest.raises(ShapeError, match="key has the wrong shape"):
        attention(zeros(2, 5, 2), zeros(3, 7, 3))
    with pytest.raises(ShapeError, match="query has the wrong shape"):
        attention(zeros(2, 5, 3), zeros(2, 7, 3))
    for wrong in (zeros(2, 7, 2), zeros(3)):
        with pytest.raises(ShapeError, match="key has the wrong shape"):
            attention.project(wrong)
    with pytest.raises(DTypeError, match="True where a key is blocked"):
        attention(zeros(2, 5, 2), zeros(2, 7, 3), zeros(2, 7))


def test_input_feeding(make, device):
    decoder = ready(nn.InputFeedingDecoder(2, 3, 4), device)
    x, memory = make(2, 5, 2), make(2, 7, 4)
    blocked = mt.tensor(BLOCKED, device=device)
    got, weights, state = decoder(x, memory, key_padding_mask=blocked)
    cell = [host(p) for p in decoder.cell.parameters()]
    for b in range(2):
        last = h = c = np.zeros(3)
        for t in range(5):
            h, c = lstm_step(np.concatenate([host(x)[b, t], last]), h, c, *cell)
            last, w, _ = luong(decoder.attention, h, host(memory)[b], BLOCKED[b])
            np.testing.assert_allclose(host(got)[b, t], last, atol=1e-13)
            np.testing.assert_allclose(host(weights)[b, t], w, atol=1e-13)
        for have, want in zip(state, (last, h, c), strict=True):
            np.testing.assert_allclose(host(have)[b], want, atol=1e-13)


def test_gradients_of_input_feeding(make, device):
    decoder = ready(nn.InputFeedingDecoder(2, 3, 4), device)
    x, memory, blocked = make(2, 3, 2), make(2, 7, 4), mt.tensor(BLOCKED, device=device)
    state = (make(2, 3), make(2, 3), make(2, 3))

    def run(x, memory, *state):
        attentional, weights, after = decoder(x, memory, state, blocked)
        return attentional, weights, *after

    assert mt.autograd.gradcheck(run, (x, memory, *state))
    assert gradcheck_module(decoder, x, memory, None, blocked)


def test_input_feeding_in_parts(make, device):
    """A decoder that reads its own outputs continues from the state."""
    decoder = ready(nn.InputFeedingDecoder(2, 3, 4), device)
    for batch, target, source in ((2, 5, 7), (1, 1, 1), (2, 2, 1)):
        x, memory = make(batch, target, 2), make(batch, source, 4)
        whole, weights, last = decoder(x, memory)
        state = None
        for t in range(target):
            out, w, state = decoder(x[:, t : t + 1], memory, state)
            np.testing.assert_allclose(host(out)[:, 0], host(whole)[:, t], atol=1e-14)
            np.testing.assert_allclose(host(w)[:, 0], host(weights)[:, t], atol=1e-14)
        for have, want in zip(state, last, strict=True):
            np.testing.assert_allclose(host(have), host(want), atol=1e-14)


def test_invalid_input_feeding(device):
    decoder = nn.InputFeedingDecoder(2, 3, 4).to(device)
    zeros = lambda *shape: mt.zeros(*shape, device=device)  # noqa: E731
    with pytest.raises(ShapeError, match="at least one token"):
        decoder(zeros(2, 0, 2), zeros(2, 7, 4))
    with pytest.raises(ShapeError, match="memory has the wrong shape"):
        decoder(zeros(2, 5, 2), zeros(2, 7, 3))
    for wrong in ((zeros(5, 3), zeros(2, 7, 4)), (zeros(5, 2), zeros(7, 4))):
        with pytest.raises(ShapeError, match="x has the wrong shape"):
            decoder(*wrong)
    with pytest.raises(ShapeError, match="memory has the wrong shape"):
        decoder(zeros(2, 5, 2), zeros(7, 4))
    for state in (zeros(2, 3), zeros(3, 2, 3), (zeros(2, 3),) * 2):
        with pytest.raises(DTypeError, match="tuple of three tensors"):
            decoder(zeros(2, 5, 2), zeros(2, 7, 4), state)
    assert repr(decoder).startswith("InputFeedingDecoder(\n  input_dim=2, hidden_dim=3, key_dim=4")
    with pytest.raises(ArgumentError, match="hidden_dim"):
        nn.InputFeedingDecoder(2, -3, 4)
