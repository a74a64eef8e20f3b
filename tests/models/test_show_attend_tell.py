"""Show, attend and tell: loops, state between calls, captions, and the expectation of REINFORCE."""

import itertools

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck, gradcheck_module
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.generation import translate
from minitorch_attn.models import ShowAttendTell, SoftAttention
from minitorch_attn.models.show_attend_tell import (
    caption_log_p,
    caption_loss,
    hard_attention,
    reinforce_loss,
    update_baseline,
)
from minitorch_attn.nn import collect_attention, masks

TIGHT = dict(rtol=1e-11, atol=1e-13)


def randomised(model, rng, device):
    for p in model.parameters():
        p.data = mt.tensor(rng.uniform(-1.2, 1.2, p.shape))
    return model.double().to(device)


def captioner(rng, device, hard=False):
    return randomised(ShowAttendTell(7, 5, 2, 3, 4, hard), rng, device)


def on(device, ids):
    return mt.tensor(np.asarray(ids), device=device)


def host(x):
    return x.detach().numpy()


def look(attention, annotations, hidden, blocked=None):
    """Soft attention in NumPy, image by image."""
    p = {name: host(value) for name, value in attention.named_parameters()}
    contexts, alphas = [], []
    for n, (a, h) in enumerate(zip(annotations, hidden, strict=True)):
        inner = np.tanh(a @ p["W_a.weight"].T + h @ p["W_h.weight"].T + p["W_h.bias"])
        e = np.exp((inner @ p["v.weight"].T)[:, 0])
        if blocked is not None:
            e = e * ~blocked[n]
        alphas.append(e / e.sum() if e.sum() else e)
        beta = 1 / (1 + np.exp(-(h @ p["f_beta.weight"].T + p["f_beta.bias"])))
        contexts.append(beta * (alphas[-1] @ a))
    shape = annotations.shape
    return np.reshape(contexts, (shape[0], shape[2])), np.reshape(alphas, shape[:2])


def test_parameters():
    """The names, and which layers have a bias, are part of the interface."""
    shapes = {name: p.shape for name, p in ShowAttendTell(7, 5, 2, 3, 4).named_parameters()}
    assert shapes == {
        "embedding.weight": (7, 2),
        "attention.W_a.weight": (4, 5), "attention.W_h.weight": (4, 3), "attention.W_h.bias": (4,),
        "attention.v.weight": (1, 4),
        "attention.f_beta.weight": (1, 3), "attention.f_beta.bias": (1,),
        "init_h.weight": (3, 5), "init_h.bias": (3,), "init_c.weight": (3, 5), "init_c.bias": (3,),
        "cell.weight_ih": (12, 7), "cell.weight_hh": (12, 3),
        "cell.bias_ih": (12,), "cell.bias_hh": (12,),
        "L_h.weight": (2, 3), "L_z.weight": (2, 5), "L_o.weight": (7, 2),
    }  # fmt: skip


@pytest.mark.parametrize(("batch", "size"), [(3, 7), (2, 1), (1, 2), (2, 0), (0, 5)])
def test_soft_attention_equals_the_loop(batch, size, make, rng, device):
    attention = randomised(SoftAttention(5, 3, 4), rng, device)
    annotations, hidden = make(batch, size, 5), make(batch, 3)
    context, alpha = attention(annotations, hidden)
    expected = look(attention, host(annotations), host(hidden))
    np.testing.assert_allclose(host(context), expected[0], **TIGHT)
    np.testing.assert_allclose(host(alpha), expected[1], **TIGHT)
    assert gradcheck_module(attention, annotations, hidden)


def test_blocked_positions(make, rng, device):
    attention = randomised(SoftAttention(5, 3, 4), rng, device)
    annotations, hidden = make(3, 4, 5), make(3, 3)
    blocked = np.array([[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]], bool)
    context, alpha = attention(annotations, hidden, on(device, blocked))
    expected = look(attention, host(annotations), host(hidden), blocked)
    np.testing.assert_allclose(host(context), expected[0], **TIGHT)
    np.testing.assert_allclose(host(alpha), expected[1], **TIGHT)
    mask = masks.from_blocked(on(device, blocked[:, None, None]))
    np.testing.assert_array_equal(host(attention(annotations, hidden, mask)[1]), host(alpha))
    assert gradcheck(lambda a, h: attention(a, h, mask), (annotations, hidden))
    context.sum().backward()
    assert not annotations.grad.numpy()[blocked].any() and not hidden.grad.numpy()[1].any()


@pytest.mark.parametrize("hard", [False, True])
def test_the_decoder_equals_the_loop(make, rng, device, hard):
    """The equations, word by word; `tests/parity` compares with PyTorch's LSTM."""
    model, annotations = captioner(rng, device, hard), make(3, 6, 5)
    words = rng.integers(0, 7, (3, 4))
    logits, alphas = model(annotations, on(device, words))
    p, a = {name: host(value) for name, value in model.named_parameters()}, host(annotations)
    layer = lambda name, x: x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0)  # noqa: E731
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    h, c = (np.tanh(layer(name, a.mean(1))) for name in ("init_h", "init_c"))
    for t in range(4):
        z, alpha = look(model.attention, a, h)
        np.testing.assert_allclose(host(alphas)[:, t], alpha, **TIGHT)
        if hard:
            z = sigmoid(layer("attention.f_beta", h)) * a[np.arange(3), alpha.argmax(1)]
        e_y = p["embedding.weight"][words[:, t]]
        gates = np.concatenate([e_y, z], 1) @ p["cell.weight_ih"].T + p["cell.bias_ih"]
        gates += h @ p["cell.weight_hh"].T + p["cell.bias_hh"]
        i, f, g, o = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        expected = layer("L_o", e_y + layer("L_h", h) + layer("L_z", z))
        np.testing.assert_allclose(host(logits)[:, t], expected, **TIGHT)


def test_one_word_at_a_time(make, rng, device):
    for hard in (False, True):
        model, annotations = captioner(rng, device, hard), make(4, 6, 5)
        words = on(device, rng.integers(0, 7, (4, 5)))
        whole = host(model(annotations, words)[0])
        memory, past = model.encode(annotations), model.new_cache()
        for t in range(5):
            assert past.length == t
            logits = host(model.decode(words[:, t : t + 1], memory, cache=past))
            np.testing.assert_allclose(logits[:, 0], whole[:, t], **TIGHT)
        rows = on(device, [2, 0, 0])
        past.reorder(rows)
        chosen = {name: value[rows] for name, value in memory.items()}
        again = host(model.decode(words[:3, :1], chosen, cache=past))[:, 0]
        longer = mt.cat([words[rows], words[:3, :1]], 1)
        np.testing.assert_allclose(again, host(model(annotations[rows], longer)[0])[:, -1], **TIGHT)


def test_hard_attention_looks_at_the_most_probable_position(make, rng, device):
    model, annotations = captioner(rng, device, hard=True), make(2, 6, 5)
    words = on(device, rng.integers(0, 7, (2, 3)))
    logits, alphas = model(annotations, words)
    best = alphas.argmax(-1).unsqueeze(0)
    sampled = model.sample(annotations, words, samples=best)
    np.testing.assert_allclose(host(logits), host(sampled.logits)[0], **TIGHT)
    model.hard = False
    assert np.abs(host(model(annotations, words)[0]) - host(logits)).max() > 0.01


def test_gradients_of_the_model(make, rng, device):
    model, annotations = captioner(rng, device), make(2, 3, 5)
    words = on(device, [[1, 2], [1, 6]])
    assert gradcheck_module(model, annotations, words, fast=True)
    samples = on(device, [[[0, 2], [1, 1]], [[2, 2], [0, 1]]])

    def parts(annotations):
        found = model.sample(annotations, words, samples=samples)
        return found.logits, found.alphas, found.log_p_s, found.entropy

    assert gradcheck(parts, (annotations,))


def test_every_number_of_words_and_images(make, rng, device):
    model = captioner(rng, device)
    for batch, size, words in itertools.product((0, 1, 2), (1, 2, 5), (1, 2, 3)):
        ids = on(device, np.ones((batch, words), int))
        logits, alphas = model(make(batch, size, 5), ids)
        assert logits.shape == (batch, words, 7) and alphas.shape == (batch, words, size)
        np.testing.assert_allclose(host(alphas).sum(-1), 1.0)
        assert model.sample(make(batch, size, 5), ids).samples.shape == (1, batch, words)
        for count in (1, 2, 3):
            found = model.sample(make(batch, size, 5), ids, count)
            assert found.logits.shape == (count, batch, words, 7)
            assert found.alphas.shape == (count, batch, words, size)
            assert found.samples.dtype == mt.int64
            for part in (found.log_p_s, found.entropy, found.samples):
                assert part.shape == (count, batch, words)


def test_single_precision(make, rng, device):
    model, annotations = captioner(rng, device), make(2, 3, 5)
    words, targets = on(device, [[1, 2], [1, 6]]), on(device, [[2, 3], [6, 0]])
    logits, alphas = model(annotations, words)
    wanted = caption_loss(logits, targets, alphas).item()
    logits, alphas = model.float()(annotations.float(), words)
    loss = caption_loss(logits, targets, alphas)
    assert loss.dtype == logits.dtype == alphas.dtype == mt.float32
    assert abs(loss.item() - wanted) < 1e-5 * abs(wanted)


@pytest.mark.parametrize("hard", [False, True])
def test_captions(make, rng, device, hard):
    """Greedy search equals the loop; 49 beams find the best of all captions of three words."""
    model, annotations = captioner(rng, device, hard).eval(), make(3, 6, 5)
    greedy = translate(model, annotations, 1, 2, max_new_tokens=4).numpy()
    wide = translate(model, annotations, 1, 2, max_new_tokens=3, num_beams=49).numpy()
    for n, (row, found) in enumerate(zip(greedy, wide, strict=True)):
        words, image = [1], annotations[n : n + 1]
        while len(words) < 5 and words[-1] != 2:
            words.append(int(host(model(image, on(device, [words]))[0])[0, -1].argmax()))
        assert row.tolist() == words[1:] + [2] * (len(row) - len(words) + 1)
        scores = {}
        for caption in itertools.product(range(7), repeat=3):
            length = caption.index(2) + 1 if 2 in caption else 3
            scores[caption[:length]] = 0
        for length in (1, 2, 3):
            captions = [caption for caption in scores if len(caption) == length]
            ids = on(device, [(1, *caption) for caption in captions])
            logits = model(image.expand(len(ids), 6, 5), ids[:, :-1])[0]
            totals = caption_log_p(logits, ids[:, 1:]).sum(-1) / length
            scores.update(zip(captions, host(totals), strict=True))
        best = max(scores, key=scores.get)
        assert found.tolist() == [*best, *[2] * (len(found) - len(best))]


def test_collected_weights(make, rng, device):
    model, annotations = captioner(rng, device), make(2, 6, 5)
    with collect_attention(model) as found:
        _, alphas = model(annotations, on(device, [[1, 2, 3]] * 2))
    assert [w.shape for _, w in found] == [(2, 1, 1, 6)] * 3
    weights = np.concatenate([host(w)[:, 0] for _, w in found], 1)
    np.testing.assert_array_equal(weights, host(alphas))


@pytest.mark.parametrize(("batch", "words"), [(3, 5), (1, 1), (2, 0)])
def test_caption_loss_equals_the_loop(batch, words, make, rng, device):
    logits, alphas = make(batch, words, 7), make(batch, words, 4)
    targets = rng.integers(0, 7, (batch, words))
    if words > 1:
        targets[0, 3:] = targets[1, 1:2] = 6
    total = 0
    for x, y, alpha in zip(host(logits), targets, host(alphas), strict=True):
        kept = [t for t in range(words) if y[t] != 6]
        total -= sum(x[t, y[t]] - np.log(np.exp(x[t]).sum()) for t in kept)
        total += 0.3 * ((1 - sum((alpha[t] for t in kept), np.zeros(4))) ** 2).sum()
    ids = on(device, targets)
    got = caption_loss(logits, ids, alphas, penalty=0.3, ignore_index=6)
    np.testing.assert_allclose(got.item(), total / batch, **TIGHT)
    assert gradcheck(lambda x, a: caption_loss(x, ids, a, 0.3, 6), (logits, alphas))


def test_defaults(make, device):
    """As in PyTorch, -100 is ignored; the penalty has the weight 1; attention is soft."""
    logits, alphas, targets = make(1, 3, 7), make(1, 3, 4), on(device, [[6, 0, -100]])
    wanted = caption_loss(logits[:, :2], targets[:, :2], alphas[:, :2], 1.0, 5).item()
    assert caption_loss(logits, targets, alphas).item() == pytest.approx(wanted, rel=1e-12)
    each = caption_log_p(logits, targets)
    assert each[0, 2].item() == 0 and each[0, 1].item() < 0
    assert ShowAttendTell(7, 5, 2, 3, 4).hard is False


@pytest.mark.parametrize("shape", [(3, 2, 5), (1, 1, 1), (0, 2, 3), (2, 0, 3)])
def test_hard_attention_equals_the_loop(shape, make, rng, device):
    count, batch, size = shape
    annotations = make(batch, size, 3)
    alpha = make(batch, size, low=0.1, high=0.9)
    samples = rng.integers(0, size, (count, batch))
    context, log_p_s, entropy = hard_attention(annotations, alpha, on(device, samples))
    assert context.shape == (count, batch, 3) and log_p_s.shape == (count, batch)
    for n, b in np.ndindex(count, batch):
        s = samples[n, b]
        np.testing.assert_array_equal(host(context)[n, b], host(annotations)[b, s])
        np.testing.assert_allclose(host(log_p_s)[n, b], np.log(host(alpha)[b, s]), **TIGHT)
    a = host(alpha)
    np.testing.assert_allclose(host(entropy), -(a * np.log(a)).sum(1), **TIGHT)
    call = lambda x, p: hard_attention(x, p, on(device, samples))  # noqa: E731
    assert gradcheck(call, (annotations, alpha))


def test_entropy_of_a_certain_choice(device):
    alpha = mt.tensor([[0.0, 1.0, 0.0]], requires_grad=True, device=device)
    _, log_p_s, entropy = hard_attention(mt.ones(1, 3, 2, device=device), alpha, on(device, [[1]]))
    (entropy.sum() + log_p_s.sum()).backward()
    assert entropy.item() == 0
    assert alpha.grad.tolist() == [
        [0.0, 0.0, 0.0]
    ]  # -1 of the entropy and 1 of log p; 0 where alpha is 0


def all_choices(model, annotations, words, targets):
    """Every sequence of positions, with its log p(y|s) and log p(s), each (choice, 1, word)."""
    size, length = annotations.shape[1], words.shape[1]
    samples = np.array(list(itertools.product(range(size), repeat=length)))[:, None]
    found = model.sample(annotations, words, samples=on(words.device, samples))
    same = targets.expand(len(samples), *targets.shape)
    return caption_log_p(found.logits, same), found.log_p_s, found.entropy


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {n: np.zeros(p.shape) if p.grad is None else p.grad.numpy()
            for n, p in model.named_parameters()}  # fmt: skip


@pytest.mark.parametrize("baseline", [0.0, -2.5, 40.0])
@pytest.mark.parametrize("to_go", [False, True])
def test_the_expectation_of_reinforce_is_the_gradient(make, rng, device, baseline, to_go):
    """Eq. 11 exactly: 27 sequences of three looks at three positions, each with its probability.

    The reward of a look may be what comes after it. Summing the probabilities makes the bound of
    Eq. 10 an ordinary function, whose gradient autograd knows without the REINFORCE rule.
    """
    model, annotations = captioner(rng, device), make(1, 3, 5)
    words, targets = on(device, [[1, 4, 2]]), on(device, [[4, 2, 0]])
    log_p_y, log_p_s, entropy = all_choices(model, annotations, words, targets)
    p_s = log_p_s.sum(-1).exp()  # (27, 1)
    np.testing.assert_allclose(p_s.sum().item(), 1, rtol=1e-12)
    bound = (p_s * log_p_y.sum(-1)).sum()
    assert bound.item() < (p_s * log_p_y.sum(-1).exp()).sum().log().item()  # Eq. 10
    exact = gradients(model, -bound)

    log_p_y, log_p_s, entropy = all_choices(model, annotations, words, targets)
    expected = 0
    for n, weight in enumerate(host(p_s)[:, 0]):
        y, s, h = (x[n : n + 1] for x in (log_p_y, log_p_s, entropy))
        if to_go:
            reward = y.detach().flip(-1).cumsum(-1).flip(-1)
            loss = 3 * reinforce_loss(y, s, h, baseline, reward=reward)  # the mean over 3 words
        else:
            loss = reinforce_loss(y.sum(-1), s.sum(-1), h.sum(-1), baseline)
        expected = expected + loss * weight
    estimated = gradients(model, expected)
    moved = [name for name, g in exact.items() if np.abs(g).max() > 1e-3]
    assert {"attention.v.weight", "attention.W_h.bias", "cell.weight_ih", "L_o.weight"} <= {*moved}
    for name, value in exact.items():
        np.testing.assert_allclose(estimated[name], value, rtol=1e-10, atol=1e-12, err_msg=name)


def test_the_weights_of_reinforce(make, device):
    log_p_y, log_p_s, entropy = make(3, 2), make(3, 2), make(2)
    got = reinforce_loss(log_p_y, log_p_s, entropy, -0.7, reward_weight=0.3, entropy_weight=0.2)
    y, s, h = host(log_p_y), host(log_p_s), host(entropy)
    np.testing.assert_allclose(
        got.item(), -(y + 0.3 * (y + 0.7) * s + 0.2 * h[None]).mean(), **TIGHT
    )
    got.backward()
    np.testing.assert_allclose(log_p_y.grad.numpy(), np.full((3, 2), -1 / 6), **TIGHT)
    np.testing.assert_allclose(log_p_s.grad.numpy(), -0.3 * (y + 0.7) / 6, **TIGHT)
    np.testing.assert_allclose(entropy.grad.numpy(), np.full(2, -0.2 / 2), **TIGHT)
    reward, baseline = make(3, 2), make(2)
    got = reinforce_loss(log_p_y, log_p_s, entropy, baseline, reward=reward)
    np.testing.assert_allclose(
        got.item(), -(y + (host(reward) - host(baseline)) * s).mean(), **TIGHT
    )
    got.backward()
    assert reward.grad is None and baseline.grad is None


@pytest.mark.parametrize("gumbel", [False, True])
def test_samples_follow_alpha(make, rng, device, gumbel):
    model, annotations = captioner(rng, device), make(1, 3, 5)
    words = on(device, [[1, 4]])
    noise = mt.tensor(rng.gumbel(size=(6000, 1, 2, 3)), device=device) if gumbel else None
    found = model.sample(annotations, words, 6000, noise=noise)
    again = model.sample(annotations, words, samples=found.samples)
    np.testing.assert_allclose(host(found.log_p_s), host(again.log_p_s), **TIGHT)
    alphas, samples = host(found.alphas)[:, 0], host(found.samples)[:, 0]
    for t in range(2):
        chosen = alphas[np.arange(6000), t, samples[:, t]]
        np.testing.assert_allclose(host(found.log_p_s)[:, 0, t], np.log(chosen), **TIGHT)
        share = np.eye(3)[samples[:, t]].mean(0)
        assert np.abs(share - alphas[:, t].mean(0)).max() < 4 * 0.5 / 6000**0.5  # 4 deviations
    entropy = -(alphas * np.log(alphas)).sum(-1)
    np.testing.assert_allclose(host(found.entropy)[:, 0], entropy, **TIGHT)
    a, b = (model.sample(annotations, words, 9, generator=mt.Generator().manual_seed(3)).samples
            for _ in range(2))  # fmt: skip
    np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_moving_average(device):
    rewards = mt.tensor([[-2.0, -4.0]], device=device, requires_grad=True)
    assert update_baseline(-1.0, rewards, decay=0.75) == -1.5
    baseline = -3.0
    for _ in range(400):
        baseline = update_baseline(baseline, rewards + 1)
    assert baseline == pytest.approx(-2, rel=1e-12)


def test_invalid_arguments(make, device):
    attention, model = SoftAttention(5, 3, 4).to(device), ShowAttendTell(7, 5, 2, 3, 4).to(device)
    with pytest.raises(ArgumentError, match="attention_dim"):
        SoftAttention(5, 3, -4)
    for wrong, hidden in ((make(2, 6, 4), make(2, 3)), (make(6, 5), make(6, 3))):
        with pytest.raises(ShapeError, match="annotations has the wrong shape"):
            attention(wrong, hidden)
    with pytest.raises(ShapeError, match="ShowAttendTell: annotations has the wrong shape"):
        model(make(2, 6, 4, dtype="float32"), on(device, [[1], [1]]))
    for hidden in (make(3, 3), make(2, 4), make(2, 1, 3)):
        with pytest.raises(ShapeError, match="hidden has the wrong shape"):
            attention(make(2, 6, 5), hidden)
    with pytest.raises(ShapeError, match="at least one position"):
        model(make(2, 0, 5, dtype="float32"), on(device, [[1], [1]]))
    for words in ([[1]], [[], []], [1, 1]):
        with pytest.raises(ShapeError, match="one row per image, and at least one word"):
            model(make(2, 6, 5, dtype="float32"), on(device, np.array(words, int)))
    with pytest.raises(DTypeError, match="must be int64"):
        hard_attention(make(2, 6, 5), make(2, 6), make(1, 2))
    for samples in ([0, 1], [[0, 1, 2]]):
        with pytest.raises(ShapeError, match="the shapes do not match"):
            hard_attention(make(2, 6, 5), make(2, 6), on(device, samples))
    with pytest.raises(ShapeError, match="the shapes do not match"):
        hard_attention(make(2, 6, 5), make(2, 5), on(device, [[0, 1]]))
    with pytest.raises(ShapeError, match="must have the same shape"):
        reinforce_loss(make(2, 3), make(3), make(3))
    with pytest.raises(ShapeError, match="the shapes do not match"):
        caption_loss(make(2, 3, 7), on(device, [[1, 2]]), make(2, 3, 4))
    with pytest.raises(ShapeError, match="the shapes do not match"):
        caption_loss(make(1, 2, 7), on(device, [[1, 2]]), make(1, 3, 4))
