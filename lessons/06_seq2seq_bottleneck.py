# %% [markdown]
# # Sequence to sequence with an RNN: the bottleneck
#
# A recurrent encoder reads a sequence and passes one vector to the decoder. Up to what length is
# one vector enough, and what would the decoder need instead?
#
# *Prerequisites:* cross-entropy (lesson 5); recurrent networks, which carry a state from token to
# token.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.viz.style import COLOURS, new_figure

# %% [markdown]
# ## The task: write the digits in reverse
#
# This task requires only memory: the model must reproduce every digit of the source. In training,
# the decoder is given the correct previous digit (teacher forcing), and a start token at the first
# step.

# %%
START, LENGTHS = 10, list(range(2, 13))


def batch(rng, length, size=64):
    """Return sources, decoder inputs and targets, each of shape (size, length)."""
    source = rng.integers(0, 10, (size, length))
    target = source[:, ::-1].copy()
    given = np.concatenate([np.full((size, 1), START), target[:, :-1]], axis=1)
    return mt.tensor(source), mt.tensor(given), mt.tensor(target)


parts = batch(np.random.default_rng(0), 6)
for name, ids in zip(["source", "given", "target"], parts, strict=True):
    print(f"{name:7} {ids[0].tolist()}")

# %% [markdown]
# ## Encoder and decoder
#
# The encoder is a recurrence, $h_t = f(x_t, h_{t-1})$. Its last state is the **context** $c$. The
# decoder starts from $c$ and also receives it at every step: $s_t = g(y_{t-1}, s_{t-1}, c)$. (Deck
# COMP541, "Sequence to Sequence with RNNs", shows the same model; the decks are listed in
# `docs/decks.md`.) For $f$ and $g$ we use gated recurrent units. One step computes the following,
# where $\sigma$ is the sigmoid:
#
# $$r = \sigma(W_r x + U_r h), \quad z = \sigma(W_z x + U_z h), \quad
# \tilde h = \tanh(W_h x + r \odot U_h h), \quad h' = (1 - z) \odot \tilde h + z \odot h .$$


# %%
def gru_step(layer, x, h):
    """Compute one GRU step with biases, for x (batch, input) and h (batch, hidden)."""
    from_x = x @ layer.weight_ih_l0.T + layer.bias_ih_l0  # (batch, 3 * hidden)
    from_h = h @ layer.weight_hh_l0.T + layer.bias_hh_l0
    (xr, xz, xh), (hr, hz, hh) = from_x.chunk(3, -1), from_h.chunk(3, -1)
    r, z = mt.sigmoid(xr + hr), mt.sigmoid(xz + hz)
    return (1 - z) * mt.tanh(xh + r * hh) + z * h


mt.manual_seed(0)
layer, x = nn.GRU(4, 3, batch_first=True), mt.randn(2, 5, 4)  # x (batch, token, input)
h = mt.zeros(2, 3)
for t in range(5):
    h = gru_step(layer, x[:, t], h)
print("last state, step by step ", h[0].numpy().round(4))
print("last state of nn.GRU     ", layer(x)[0][0, -1].numpy().round(4))
assert np.allclose(h.numpy(), layer(x)[0][:, -1].numpy(), atol=1e-6)

# %% [markdown]
# The class below has one switch, `own_context`. If it is true, step $t$ does not receive the common
# $c$ but the encoder's state at the digit that step $t$ has to write: $c_t = h_{n+1-t}$ for a
# source of $n$ digits. That is cheating, because in this task we know which digit is needed. It
# shows how much a separate context for each step would help. Lesson 7 finds this context without
# cheating.


# %%
class Seq2Seq(nn.Module):
    def __init__(self, hidden, own_context):
        super().__init__()
        self.own_context = own_context
        self.embed = nn.Embedding(11, 16)
        self.encoder = nn.GRU(16, hidden, batch_first=True)
        self.start = nn.Linear(hidden, hidden)
        self.decoder = nn.GRU(16 + hidden, hidden, batch_first=True)
        self.out = nn.Linear(2 * hidden, 10)

    def forward(self, source, given):
        states, last = self.encoder(self.embed(source))  # (batch, token, hidden)
        c = last[0]  # (batch, hidden): all that the decoder gets from the source
        if self.own_context:
            context = states.flip(1)  # step t: the state at digit n + 1 - t
        else:
            context = c.unsqueeze(1).expand(*states.shape)  # the same at every step
        s0 = mt.tanh(self.start(c)).unsqueeze(0)
        s, _ = self.decoder(mt.cat([self.embed(given), context], -1), s0)
        return self.out(mt.cat([s, context], -1))  # (batch, token, 10) scores


# %%
def train(hidden, own_context, steps, rate=5e-3):
    mt.manual_seed(0)
    rng, model = np.random.default_rng(0), Seq2Seq(hidden, own_context)
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, 3 * (1 - step / steps))
        source, given, target = batch(rng, int(rng.choice(LENGTHS)))
        scores = model(source, given)
        loss = nn.functional.cross_entropy(scores.reshape(-1, 10), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def right_digits(model, length, size=400):
    """Return a (size, length) array, True where a digit of a new source is written correctly."""
    source, given, target = batch(np.random.default_rng(1), length, size)
    with mt.no_grad():
        return (model(source, given).argmax(-1) == target).numpy()


# %%
steps = pick(500, 250)
models = {
    "one vector of 16": train(16, own_context=False, steps=steps),
    "one vector of 64": train(64, own_context=False, steps=steps),
    "own context, 16": train(16, own_context=True, steps=steps),
}
accuracy = {
    name: [right_digits(model, n).mean() for n in LENGTHS] for name, model in models.items()
}
print("correct digits, by the length of the source")
print(f"{'':18}" + "".join(f"{n:6}" for n in LENGTHS))
for name, row in accuracy.items():
    print(f"{name:18}" + "".join(f"{100 * share:5.0f}%" for share in row))

# %%
figure = new_figure(7, 3.6)
axes = figure.add_subplot()
colours = (COLOURS[1], COLOURS[0], COLOURS[2])
for (name, row), mark, colour in zip(accuracy.items(), "os^", colours, strict=True):
    axes.plot(LENGTHS, row, mark + "-", color=colour, label=name, ms=5)
axes.axhline(0.1, color="0.5", linestyle=":", linewidth=1)
axes.text(LENGTHS[0], 0.12, "guessing", color="0.35", fontsize=9)
axes.set(xlabel="digits in the source", ylabel="correct digits", ylim=(0, 1.05))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="center left")
show(figure, "with one vector accuracy falls with the length; a wider vector only delays the fall")

# %% [markdown]
# The assertions state the claim. With one vector, accuracy falls with length. A wider vector delays
# the fall. With a separate context for each step accuracy stays high, even at the small width.

# %%
narrow, wide, own = (np.array(row) for row in accuracy.values())
assert narrow[0] > 0.95 and narrow[-1] < 0.7
assert narrow[-1] + 0.1 < wide[-1] < 0.95
assert own.min() > 0.97
assert (np.diff(narrow) < 0.02).all()  # accuracy only decreases

# %% [markdown]
# ## What goes wrong when one vector holds the whole source
#
# The fraction of correct digits hides the size of the problem, because a translation must be
# correct as a whole.

# %%
print("12 digits         correct digits   correct sequences")
whole = []
for name, model in models.items():
    right = right_digits(model, 12)
    whole.append(right.all(axis=1).mean())
    print(f"{name:18} {100 * right.mean():12.0f}% {100 * whole[-1]:18.1f}%")
assert whole[0] < 0.05 and whole[2] > 0.8

# %% [markdown]
# What is lost? Replace one digit of the source with another one and see how far $c$ moves. If $c$
# does not move, no decoder can know which digit it was.


# %%
def change_of_context(model, position, length=12, size=400):
    """Return how far c moves on average if the digit at `position` is replaced."""
    source = np.random.default_rng(2).integers(0, 10, (size, length))
    other = source.copy()
    other[:, position] = (other[:, position] + np.random.default_rng(3).integers(1, 10, size)) % 10
    with mt.no_grad():
        c, moved = (model.encoder(model.embed(mt.tensor(s)))[1][0] for s in (source, other))
    return np.linalg.norm((c - moved).numpy(), axis=1).mean()


model = models["one vector of 16"]
moves = np.array([change_of_context(model, position) for position in range(12)])
right = right_digits(model, 12).mean(axis=0)[::-1]  # by the place of the digit in the source
print("place in the source " + "".join(f"{p + 1:6}" for p in range(12)))
print("change of c         " + "".join(f"{m:6.2f}" for m in moves))
print("correctly written   " + "".join(f"{100 * r:5.0f}%" for r in right))
assert moves[-3:].mean() > 2 * moves[:3].mean()
assert right[-3:].mean() > right[:3].mean() + 0.3
assert moves.argmax() == right.argmax() == 11  # the last digit read is remembered best

# %%
figure = new_figure(7, 3.6)
upper, lower = figure.subplots(2, 1, sharex=True)
upper.bar(range(1, 13), moves, color=COLOURS[0])
upper.set(ylabel="change of c")
lower.bar(range(1, 13), right, color=COLOURS[1])
lower.axhline(0.1, color="0.3", linestyle=":", linewidth=1)
lower.set(ylabel="correct", xlabel="place of the digit in the source", xticks=range(1, 13))
for axes in (upper, lower):
    axes.spines[["top", "right"]].set_visible(False)
show(figure, "the digits read first hardly change the last state (dotted: guessing)")

# %% [markdown]
# Is the vector too small? Count the bits. The numbers in $c$ could store the source many times
# over. But every step of the recurrence overwrites the same sixteen numbers, and a network of this
# size does not learn to pack twelve digits into them and to unpack them again.

# %%
needed, available = 12 * np.log2(10), 16 * 32
print(f"12 digits are {needed:.0f} bits; 16 float32 are {available} bits")
assert available > 10 * needed

# %% [markdown]
# So the remedy is not a wider vector. The remedy is to **avoid passing everything through one
# vector**: keep all states of the encoder, and let the decoder choose among them at every step.
#
# ## In the library

# %%
where(nn.GRU, mt.ops.gru.GruSequence, nn.AttentionSeq2Seq)

# %% [markdown]
# ## Exercise
#
# In this task the digit that is read last is also written first. Which of the two explains why it
# is remembered best? Copying separates them: change the task to `target = source.copy()` (and, for
# `own_context`, `states.flip(1)` to `states`), predict the accuracy at each position, then train
# and print the table. You are done when you can say which digits a narrow state keeps. (Sutskever
# et al. 2014 reversed their source sentences, which turns copying into reversing. Compare your
# accuracy at length 12 with the one above: what did they gain?)
#
# ## Three questions
#
# 1. Which digit of a source of twelve digits does the narrow model write correctly most often, and
#    why this digit?
# 2. The model with a separate context for each step has the same 16 numbers per state as the narrow
#    one. Why is that enough?
# 3. A colleague says: "The vector is too small, use 64 numbers." How do the printed tables answer
#    this?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. It writes the last digit correctly most often. The change of $c$ is also largest for this
#    digit. The model remembers this digit best for two reasons: nothing is read afterwards that
#    could overwrite it, and it is written first, before the decoder's own steps can overwrite it.
#    (The exercise separates the two.)
# 2. Each state has to hold one digit, the one just read, for its own step, instead of all twelve at
#    once. Its row of the table is near 100 % for every length.
# 3. A wider vector helps, but it only delays the fall: with 64 numbers accuracy also drops, but for
#    longer sources. Storage is not the problem either, because 16 numbers have enough bits.
