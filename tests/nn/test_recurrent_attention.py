"""AdditiveAttention, LuongAttention and AttentionSeq2Seq equal loops and their equations."""

from functools import partial

import numpy as np
import pytest
from recurrence import gru_step, read

import minitorch_attn as mt
from minitorch_attn import masks, nn
from minitorch_attn.autograd import gradcheck_module, gradgradcheck
from minitorch_attn.errors import DTypeError, ShapeError

BLOCKED = np.array([[False, True, False, False, True], [False, False, False, True, True]])


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


def values_of(module):
    return {name: host(p) for name, p in module.named_parameters()}


def softmax(scores, blocked):
    """Of one row, with weight 0 where blocked."""
    free = [j for j in range(len(scores)) if not blocked[j]]
    weights = np.zeros(len(scores))
    if free:
        weights[free] = np.exp(scores[free]) / np.exp(scores[free]).sum()
    return weights


def additive(p, query, keys, values, blocked, prefix=""):
    """One query: its context and its weights."""
    w_q, w_k, v = (p[f"{prefix}{name}.weight"] for name in ("W_q", "W_k", "v"))
    scores = np.array([(v @ np.tanh(w_q @ query + w_k @ key)).item() for key in keys])
    weights = softmax(scores, blocked)
    return sum(w * value for w, value in zip(weights, values, strict=True)), weights


def luong(p, query, keys, blocked):
    weights = softmax(np.array([query @ p["W.weight"] @ key for key in keys]), blocked)
    both = np.concatenate([weights @ keys, query])
    return np.tanh(p["W_c.weight"] @ both + p["W_c.bias"]), weights


def masked(device, kind):
    """The same mask through each of its doors, and as the tests' own array."""
    if kind == "none":
        return None, np.zeros((2, 5), bool)
    if kind == "bare":
        return mt.tensor(BLOCKED, device=device), BLOCKED
    if kind == "all blocked":
        return mt.ones(2, 5, device=device) > 0, np.ones((2, 5), bool)
    if kind == "Mask":
        return masks.padding([5, 2], device=device), np.arange(5) >= np.array([[5], [2]])
    return masks.from_key_padding(mt.tensor(BLOCKED)), BLOCKED  # on the host: it is moved


KINDS = ["none", "bare", "all blocked", "Mask", "Mask elsewhere"]


@pytest.mark.parametrize("kind", KINDS)
def test_additive_attention(make, device, kind):
    attention = ready(nn.AdditiveAttention(2, 3, 7), device)
    query, key, value = make(2, 4, 2), make(2, 5, 3), make(2, 5, 6)
    mask, blocked = masked(device, kind)
    context, weights = attention(query, key, value, mask)
    assert context.shape == (2, 4, 6) and weights.shape == (2, 4, 5)
    p = values_of(attention)
    for b, q in np.ndindex(2, 4):
        wanted = additive(p, host(query)[b, q], host(key)[b], host(value)[b], blocked[b])
        np.testing.assert_allclose(host(context)[b, q], wanted[0], atol=1e-13)
        np.testing.assert_allclose(host(weights)[b, q], wanted[1], atol=1e-13)
    named = attention(query, key, value, key_padding_mask=mask)
    np.testing.assert_array_equal(host(named[0]), host(context))
    if kind != "all blocked":
        assert gradcheck_module(attention, query, key, value, mask)


@pytest.mark.parametrize("kind", KINDS)
def test_luong_attention(make, device, kind):
    attention = ready(nn.LuongAttention(2, 3), device)
    query, key = make(2, 4, 2), make(2, 5, 3)
    mask, blocked = masked(device, kind)
    attentional, weights = attention(query, key, mask)
    assert attentional.shape == (2, 4, 2) and weights.shape == (2, 4, 5)
    p = values_of(attention)
    for b, q in np.ndindex(2, 4):
        wanted = luong(p, host(query)[b, q], host(key)[b], blocked[b])
        np.testing.assert_allclose(host(attentional)[b, q], wanted[0], atol=1e-13)
        np.testing.assert_allclose(host(weights)[b, q], wanted[1], atol=1e-13)
    if kind != "all blocked":
        assert gradcheck_module(attention, query, key, mask)


def test_nothing_to_attend_to_sends_back_nothing(make, device):
    attention = ready(nn.AdditiveAttention(2, 3, 7), device)
    query, key = make(2, 4, 2), make(2, 5, 3)
    blocked = BLOCKED.copy()
    blocked[0] = True
    context, weights = attention(query, key, key, mt.tensor(blocked, device=device))
    (context.sum() + (weights * weights).sum()).backward()
    assert not host(context)[0].any() and not host(weights)[0].any()
    assert not host(key.grad)[0].any() and host(key.grad)[1, :3].all()
    assert not host(key.grad)[1, 3:].any()


@pytest.mark.parametrize("kind", ["none", "bare", "all blocked", "Mask"])
def test_sequence_to_sequence(make, device, kind):
    model = ready(nn.AttentionSeq2Seq(2, 3, 4), device)
    x, y = make(2, 5, 2), make(2, 6, 3)
    mask, blocked = masked(device, kind)
    output, weights = model(x, y, key_padding_mask=mask)
    assert output.shape == (2, 6, 3) and weights.shape == (2, 6, 5)
    p = values_of(model)

    def gru_with(weights, x, h):
        return gru_step(x, h, *weights)

    def encoder(end):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [p[f"encoder.{name}_l0{end}"] for name in names]

    cell = [p[f"cell.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    for b in range(2):
        both, last = [], []
        for end in ("", "_reverse"):
            outputs, (h,) = read(
                partial(gru_with, encoder(end)), host(x)[b], (np.zeros(4),), end == "_reverse"
            )
            both.append(np.stack(outputs))
            last.append(h)
        memory = np.concatenate(both, -1)
        h = np.tanh(p["init.weight"] @ np.concatenate(last) + p["init.bias"])
        for t in range(6):
            context, w = additive(p, h, memory, memory, blocked[b], "attn.")
            (h,) = gru_step(np.concatenate([host(y)[b, t], context]), h, *cell)
            o = p["out.weight"] @ np.concatenate([h, context]) + p["out.bias"]
            np.testing.assert_allclose(host(output)[b, t], o, atol=1e-13)
            np.testing.assert_allclose(host(weights)[b, t], w, atol=1e-13)


def test_gradients_of_sequence_to_sequence(make, device):
    model = ready(nn.AttentionSeq2Seq(2, 3, 4), device)
    x, y, mask = make(2, 5, 2), make(2, 3, 3), mt.tensor(BLOCKED, device=device)
    assert gradcheck_module(model, x, y, mask, fast=True)
    small = ready(nn.AttentionSeq2Seq(1, 1, 2), device)
    assert gradgradcheck(lambda x, y: small(x, y)[0], (make(2, 3, 1), make(2, 2, 1)))


def test_second_derivatives(make, device):
    bahdanau = ready(nn.AdditiveAttention(2, 3, 2), device)
    global_ = ready(nn.LuongAttention(2, 3), device)
    query, key, mask = make(2, 1, 2), make(2, 5, 3), mt.tensor(BLOCKED, device=device)
    assert gradgradcheck(lambda q, k: bahdanau(q, k, k, mask), (query, key))
    assert gradgradcheck(lambda q, k: global_(q, k, mask), (query, key))


def test_one_step_at_a_time(make, device):
    """What a decoder does that reads its own outputs."""
    model = ready(nn.AttentionSeq2Seq(2, 3, 4), device)
    x, y, mask = make(2, 5, 2), make(2, 3, 3), mt.tensor(BLOCKED, device=device)
    memory, h = model.encode(x)
    projected = model.attn.W_k(memory)
    output, weights = model(x, y, mask)
    for t in range(3):
        o, h, w = model.step(y[:, t], h, memory, projected, mask)
        np.testing.assert_allclose(host(o), host(output)[:, t], atol=1e-14)
        np.testing.assert_allclose(host(w), host(weights)[:, t], atol=1e-14)


def test_without_a_batch(make, device):
    bahdanau = ready(nn.AdditiveAttention(2, 3, 7), device)
    luong_ = ready(nn.LuongAttention(2, 3), device)
    query, key = make(2, 4, 2), make(2, 5, 3)
    mask = mt.tensor(BLOCKED, device=device)
    for attention, inputs in ((bahdanau, (query, key, key)), (luong_, (query, key))):
        wanted = attention(*inputs, mask)
        for given in (mask[1], masks.from_key_padding(mask[1])):
            got = attention(*(x[1] for x in inputs), given)
            for have, want in zip(got, wanted, strict=True):
                np.testing.assert_allclose(host(have), host(want)[1], atol=1e-14)


def test_names_and_sizes():
    assert {k: v.shape for k, v in nn.AdditiveAttention(2, 3, 7).state_dict().items()} == {
        "W_q.weight": (7, 2), "W_k.weight": (7, 3), "v.weight": (1, 7),
    }  # fmt: skip
    assert {k: v.shape for k, v in nn.LuongAttention(2, 3).state_dict().items()} == {
        "W.weight": (2, 3), "W_c.weight": (2, 5), "W_c.bias": (2,),
    }  # fmt: skip
    model = nn.AttentionSeq2Seq(2, 3, 4)
    parts = [name for name, _ in model.named_children()]
    assert parts == ["encoder", "attn", "cell", "init", "out"]
    assert sum(p.numel() for p in nn.AttentionSeq2Seq(8, 4, 6).parameters()) == 1276
    assert repr(model.attn).startswith("AdditiveAttention(\n  query_dim=4, key_dim=8, hidden_dim=4")
    assert repr(nn.LuongAttention(2, 3)).startswith("LuongAttention(\n  query_dim=2, key_dim=3")


def test_wrong_inputs(device):
    zeros = lambda *shape: mt.zeros(*shape, device=device)  # noqa: E731
    bahdanau = nn.AdditiveAttention(2, 3, 7).to(device)
    luong_ = nn.LuongAttention(2, 3).to(device)
    query, key = zeros(2, 4, 2), zeros(2, 5, 3)
    for wrong in (zeros(2, 4, 3), zeros(2), zeros(1, 2, 4, 2)):
        with pytest.raises(ShapeError, match="query has the wrong shape"):
            bahdanau(wrong, key, key)
    for wrong in (zeros(2, 5, 2), zeros(3, 5, 3), zeros(5, 3)):
        with pytest.raises(ShapeError, match="key has the wrong shape"):
            luong_(query, wrong)
    with pytest.raises(ShapeError, match="same number of tokens"):
        bahdanau(query, key, zeros(2, 4, 3))
    with pytest.raises(ShapeError, match="value has the wrong shape"):
        bahdanau(query, key, zeros(5, 3))
    with pytest.raises(DTypeError, match="query is not a tensor"):
        luong_([[1.0, 2.0]], key)
    for attention, inputs in ((bahdanau, (query, key, key)), (luong_, (query, key))):
        with pytest.raises(DTypeError, match="True where a key is blocked"):
            attention(*inputs, zeros(2, 5))
        with pytest.raises(ShapeError, match="shape of key_padding_mask does not match"):
            attention(*inputs, zeros(2, 4) > 0)
        with pytest.raises(ShapeError):
            attention(*inputs, masks.padding([4, 4], device=device))
    model = nn.AttentionSeq2Seq(2, 3, 4).to(device)
    for x, y, name in [
        (zeros(2, 5, 3), zeros(2, 6, 3), ": x has"), (zeros(5, 2), zeros(6, 3), ": x has"),
        (zeros(2, 5, 2), zeros(3, 6, 3), ": y has"), (zeros(2, 5, 2), zeros(2, 0, 3), "one to"),
    ]:  # fmt: skip
        with pytest.raises(ShapeError, match=name):
            model(x, y)
