"""Show what the learner's model can do after a step: its loss, the baselines, and a sample."""

import textwrap

import numpy as np

from ... import nn
from ...data.baselines import COUNTING
from ...optim import AdamW
from ...tensor import tensor
from ..lesson import pick
from .text import batches, mean_loss, tour_text
from .trees import flat

__all__ = ["SHOWN"]

_WIDTH, _CONTEXT, _BATCH, _SAMPLE = 32, 32, 16, 240
_FAST = 20  # training steps if MTA_FAST is 1


def _neuron(m):
    """Step 1: train a neuron with two inputs to compute OR."""
    w, v, b = m.Value(0.0), m.Value(0.0), m.Value(0.0)
    rows = [(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0)]
    for step in range(201):
        p = [(1.0 + (-(w * x + v * y + b)).exp()) ** -1 for x, y, _ in rows]  # logistic function
        loss = m.Value(0.0)
        for q, (_, _, target) in zip(p, rows, strict=True):
            loss = loss - (q if target else 1.0 + -q).log() * 0.25
        if step in (0, 200):
            print(f"loss after {step:3} steps  {loss.data:.3f}")
        for value in (w, v, b):
            value.grad = 0.0
        loss.backward()
        for value in (w, v, b):
            value.data -= 2.0 * value.grad
    print("guessing        0.693  log(2)")
    for q, (x, y, _) in zip(p, rows, strict=True):
        print(f"  {x:.0f} or {y:.0f}: {float(q.data):.2f}")


def _line(m):
    """Step 2: fit a line to noisy points by gradient descent."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(20, 1))
    y = m.Tensor(2.0 * x + 1.0 + 0.1 * rng.normal(size=(20, 1)))
    slope, bias = m.Tensor(np.zeros((1, 1))), m.Tensor(np.zeros(1))
    for _ in range(200):
        error = m.Tensor(x) @ slope + bias - y  # (20, 1)
        loss = (error * error).sum() * (1.0 / 20)
        slope.grad = bias.grad = 0.0
        loss.backward()
        slope.data, bias.data = slope.data - 0.3 * slope.grad, bias.data - 0.3 * bias.grad
    print(f"y = {slope.data.item():.2f} x + {bias.data.item():.2f}    (drawn from 2 x + 1)")
    print(f"loss      {float(loss.data):.3f}\nbaseline  {y.data.var():.3f}  always guess the mean")


def _unigram(m):
    """Step 3: learn one score per character, the same at all positions of the text."""
    text = tour_text()
    scores = m.Tensor(np.zeros(len(text.characters), dtype=np.float32))
    zeros = np.zeros((512, 1), dtype=np.float32)
    pairs = batches(text.training, 512, 1)
    _fit(m, [scores], lambda ids, targets: m.cross_entropy(scores + zeros, targets[:, 0]), pairs,
         150, 0.1)  # fmt: skip
    targets = text.validation[1:]
    loss = float(m.cross_entropy(scores + np.zeros((len(targets), 1), np.float32), targets).data)
    _losses(text, loss, "unigram")
    p = m.softmax(m.Tensor(scores.data.astype(np.float64))).data
    ids = np.random.default_rng(1).choice(len(p), p=p, size=_SAMPLE)
    _text("".join(text.characters[i] for i in ids))


def _language_model(model, p, steps, lr=1e-2, note=""):
    """Return a function that trains a language model and shows its loss and a sample.

    `p(m, vocab_size, rng)` creates the parameters, and `model(m, ids, parameters)` returns the
    logits. Here m is the module of the learner's file.
    """

    def show(m):
        text, count = tour_text(), pick(steps, _FAST)
        made = p(m, len(text.characters), np.random.default_rng(1))
        leaves = [leaf for _, leaf in flat(made)]
        pairs = batches(text.training, _BATCH, _CONTEXT)
        before = mean_loss(m, lambda ids: model(m, ids, made), text.validation, _CONTEXT, 96)
        _fit(m, leaves, lambda ids, t: m.cross_entropy(model(m, ids, made), t), pairs, count, lr)
        loss = mean_loss(m, lambda ids: model(m, ids, made), text.validation, _CONTEXT, 96)
        print(f"{count} steps, {sum(leaf.data.size for leaf in leaves):,} parameters", end="")
        print(f": validation loss {before:.2f} -> {loss:.2f}")
        _losses(text, loss, "bigram")
        start = m.encode("The ", text.characters)
        ids = m.sample(lambda ids: model(m, ids, made), start, _SAMPLE, _CONTEXT,
                       np.random.default_rng(1))  # fmt: skip
        _text(m.decode(ids, text.characters))
        if note:
            print(note)

    return show


def _losses(text, loss, until):
    rows = []
    for name, baseline in text.baselines.items():
        rows.append(f"  {baseline:.3f}  {name:<10}  {COUNTING[name]}")
        if name == until:
            break
    print("\n".join(["validation loss", *rows, f"  {loss:.3f}  this model"]))


def _text(text):
    print("\nit writes:")
    for line in text.splitlines():
        print(textwrap.fill(line, 72, initial_indent="  ", subsequent_indent="  "))


def _fit(m, leaves, loss_of, pairs, steps, lr):
    """Train with the library's AdamW, because the learner writes an optimizer only in step 8."""
    parameters = [nn.Parameter(tensor(leaf.data)) for leaf in leaves]
    optimizer = AdamW(parameters, lr=lr, weight_decay=0.0)
    for _ in range(steps):
        for leaf in leaves:
            leaf.grad = 0.0
        loss_of(*next(pairs)).backward()
        for parameter, leaf in zip(parameters, leaves, strict=True):
            parameter.grad = tensor(leaf.grad + np.zeros_like(leaf.data))
        optimizer.step()
        for parameter, leaf in zip(parameters, leaves, strict=True):
            leaf.data[...] = parameter.detach().numpy()


# Models and their parameters


def _normal(m, rng, *shape):
    return m.Tensor((0.1 * rng.standard_normal(shape)).astype(np.float32))


def _layer(m, rng, n_out, n_in):
    return {"weight": _normal(m, rng, n_out, n_in), "bias": m.Tensor(np.zeros(n_out, np.float32))}


def _attention_parameters(m, count, rng):
    projections = ("q_proj", "k_proj", "v_proj", "out_proj")
    return {
        "token_embedding": _normal(m, rng, count, _WIDTH),
        "position_embedding": _normal(m, rng, _CONTEXT, _WIDTH),
        "attention": {name: _layer(m, rng, _WIDTH, _WIDTH) for name in projections},
        "head": _layer(m, rng, count, _WIDTH),
    }


def _embedded(m, ids, p):
    positions = m.embedding(p["position_embedding"], np.arange(ids.shape[1]))
    return m.embedding(p["token_embedding"], ids) + positions


def _one_head(m, ids, p):
    x, layers = _embedded(m, ids, p), p["attention"]
    query, key, value = (m.linear(x, layers[name]) for name in ("q_proj", "k_proj", "v_proj"))
    context = m.linear(m.attention(query, key, value), layers["out_proj"])
    return m.linear(x + context, p["head"])


def _several_heads(m, ids, p):
    x = _embedded(m, ids, p)
    return m.linear(x + m.multi_head(x, p["attention"], 4), p["head"])


def _gpt_parameters(m, count, rng):
    return m.initialize(count, _CONTEXT, _WIDTH, 2, rng)


def _own_training(m):
    """Step 8: train the GPT with the learner's own loop and optimizer."""
    text = tour_text()
    p = _gpt_parameters(m, len(text.characters), np.random.default_rng(1))
    pairs = batches(text.training, _BATCH, _CONTEXT)
    losses = list(m.train(p, 4, pairs, pick(1200, _FAST)))
    loss = mean_loss(m, lambda ids: m.gpt(ids, p, 4), text.validation, _CONTEXT, 96)
    print(f"your Adam, {len(losses):,} steps: mean training loss", end=" ")
    print(f"{np.mean(losses[:50]):.2f} of the first 50, {np.mean(losses[-50:]):.2f} of the last 50")
    _losses(text, loss, "bigram")
    start = m.encode("The ", text.characters)
    ids = m.sample(lambda ids: m.gpt(ids, p, 4), start, _SAMPLE, _CONTEXT, np.random.default_rng(1))
    _text(m.decode(ids, text.characters))


_CHEATS = """
This loss is impossibly low for a model that does not know the next character,
and yet it writes nonsense. Without a mask, each position attends to the next
position and reads the answer there. When the model writes, there is no next
character yet."""

SHOWN = {
    1: _neuron,
    2: _line,
    3: _unigram,
    4: _language_model(
        lambda m, ids, p: m.embedding(p, ids),
        lambda m, count, rng: m.Tensor(np.zeros((count, count), np.float32)), 1000, 5e-2,
    ),
    5: _language_model(_one_head, _attention_parameters, 300, note=_CHEATS),
    6: _language_model(_several_heads, _attention_parameters, 300),
    7: _language_model(lambda m, ids, p: m.gpt(ids, p, 4), _gpt_parameters, 600, 5e-3),
    8: _own_training,
}  # fmt: skip
