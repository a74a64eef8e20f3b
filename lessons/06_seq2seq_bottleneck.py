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
from minitorch_attn.course.digit_task import digit_batch, train_on_digits
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

# %% [markdown]
# ## The task: write the digits in reverse
#
# This task requires only memory: the model must reproduce every digit of the source. In training,
# the decoder is given the correct previous digit (teacher forcing), and a start token at the first
# step.

# %%
LENGTHS = list(range(2, 13))
parts = digit_batch(np.random.default_rng(0), 6)
for name, ids in zip(["source", "given", "target"], parts, strict=True):
    print(f"{name:7} {ids[0].tolist()}")

# %% [markdown]
# ## Encoder and decoder
#
# The encoder is a recurrence, $h_t = f(x_t, h_{t-1})$. Its last state is the **context** $c$. The
# decoder starts from $c$ and also receives it at every step: $s_t = g(y_{t-1}, s_{t-1}, c)$. (Deck
# COMP541, "Sequence to Sequence with RNNs", shows the same model; the decks are listed in
# `docs/decks.md`.) For $f$ and $g$ we use gated recurrent units. One step computes the **gates**
# $r$ and $z$, a **candidate** $\tilde h$ for the new state, and the new state $h'$. Here $\sigma$
# is the sigmoid:
#
# $$r = \sigma(W_r x + U_r h), \quad z = \sigma(W_z x + U_z h), \quad
# \tilde h = \tanh(W_h x + r \odot U_h h), \quad h' = (1 - z) \odot \tilde h + z \odot h .$$


# %% [markdown] tags=["your-turn"]
# ## Your turn: one step of a gated recurrent unit
#
# Write `gru_step(x, h, W, U)`, which returns the next states $h'$ of a batch, computed by the
# formulas above. The arguments are:
#
# * `x`, the tokens, of shape (batch, input);
# * `h`, the states, of shape (batch, hidden);
# * `W`, the matrices $W_r, W_z, W_h$ stacked in this order, of shape (3 * hidden, input);
# * `U`, the matrices $U_r, U_z, U_h$ stacked in this order, of shape (3 * hidden, hidden).
#
# You can use `mt.sigmoid` and `mt.tanh`. (The product $\odot$ is `*`. Note that $r$ multiplies
# $U_h h$, not $h$.)
#
# *Hint:* The rows of `x` are the vectors, so $W x$ becomes `x @ W.T`, of shape
# (batch, 3 * hidden). `.chunk(3, -1)` splits it into three parts.


# %% tags=["answer"]
def gru_step(x, h, W, U):
    """Return the next state of a gated recurrent unit, shape (batch, hidden)."""
    xr, xz, xh = (x @ W.T).chunk(3, -1)  # each (batch, hidden)
    hr, hz, hh = (h @ U.T).chunk(3, -1)
    r, z = mt.sigmoid(xr + hr), mt.sigmoid(xz + hz)
    candidate = mt.tanh(xh + r * hh)
    return (1 - z) * candidate + z * h


# %% tags=["check"]
check(
    gru_step,
    cases=[
        (mt.randn(2, 5), mt.rand(2, 3), mt.randn(9, 5), mt.randn(9, 3)),
        (mt.randn(1, 2), mt.zeros(1, 7), mt.randn(21, 2), mt.randn(21, 7)),
    ],
    expected=mt.gru_cell,
    properties={
        "a state between -1 and 1 stays there": lambda after, *_: (after.abs() <= 1).all(),
        "zero weights halve the state": lambda after, x, h, W, U: np.allclose(
            gru_step(x, h, 0 * W, 0 * U), h / 2
        ),
    },
)

# %%
mt.manual_seed(0)
layer, x = nn.GRU(4, 3, batch_first=True), mt.randn(2, 5, 4)  # x (batch, token, input)
h = mt.zeros(2, 3)
for t in range(5):
    h = mt.gru_cell(x[:, t], h, *layer.parameters())  # one step of the library, with biases
print("last state, step by step ", h[0].numpy().round(4))
print("last state of nn.GRU     ", layer(x)[0][0, -1].numpy().round(4))
assert np.allclose(h.numpy(), layer(x)[0][:, -1].numpy(), atol=1e-6)

# %% [markdown]
# The class below has one switch, `own_context`. If it is true, step $t$ does not receive the common
# context $c$. It receives the encoder's state at the digit that it has to write, $c_t = h_{n+1-t}$
# for a source of $n$ digits. This is cheating, because we tell the model which digit each step
# needs. But it shows how much a separate context for each step would help. Lesson 7 finds this
# context without cheating.


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
        c = last[0]  # (batch, hidden): the common context
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
    return train_on_digits(Seq2Seq(hidden, own_context), steps, rate, LENGTHS)


def right_digits(model, length, size=400):
    """Test the model on new sources. Return a (size, length) array: True for correct digits."""
    source, given, target = digit_batch(np.random.default_rng(1), length, size)
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

# %% tags=["plot"]
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
show(figure, "with one vector, accuracy falls with length; a wider vector only delays this")

# %% [markdown]
# The assertions below check what the table shows. With one vector, accuracy falls as the sequence
# gets longer. A wider vector delays the fall. With a separate context for each step, accuracy stays
# high, even at the small width.

# %%
narrow, wide, own = (np.array(row) for row in accuracy.values())
assert narrow[0] > 0.95 and narrow[-1] < 0.7
assert narrow[-1] + 0.1 < wide[-1] < 0.95
assert own.min() > 0.97
assert (np.diff(narrow) < 0.02).all()  # accuracy does not rise with the length

# %% [markdown]
# ## What goes wrong when one vector holds the whole source
#
# A translation must be correct as a whole. So count the **sequences** of twelve digits in which all
# digits are correct.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Look at the last column of the table above, the share of correct digits at length 12. In what
# share of the sequences are all twelve correct, for each of the three models? Write down three
# numbers, then run the next cell.

# %%
print("12 digits         correct digits   correct sequences")
whole = []
for name, model in models.items():
    right = right_digits(model, 12)
    whole.append(right.all(axis=1).mean())
    print(f"{name:18} {100 * right.mean():12.0f}% {100 * whole[-1]:18.1f}%")
assert whole[0] < 0.05 and whole[2] > 0.8

# %% [markdown]
# The share of correct digits hides the size of the problem. If each digit is correct with
# probability $p$, independently, then all twelve are correct with probability $p^{12}$. That is 1 %
# for $p = 0.7$ and still only 28 % for $p = 0.9$.
#
# What is lost? Replace one digit of the source with another one and see how far the context $c$
# moves. If $c$ does not move, no decoder can know which digit it was.


# %%
def change_of_context(model, position, length=12, size=400):
    """Return the mean distance that c moves when the digit at `position` is replaced."""
    source = np.random.default_rng(2).integers(0, 10, (size, length))
    other = source.copy()
    other[:, position] = (other[:, position] + np.random.default_rng(3).integers(1, 10, size)) % 10
    with mt.no_grad():
        c, moved = (model.encoder(model.embed(mt.tensor(s)))[1][0] for s in (source, other))
    return np.linalg.norm((c - moved).numpy(), axis=1).mean()


model = models["one vector of 16"]
moves = np.array([change_of_context(model, position) for position in range(12)])
right = right_digits(model, 12).mean(axis=0)[::-1]  # by the place of the digit in the source
print("position in source  " + "".join(f"{p + 1:6}" for p in range(12)))
print("change of c         " + "".join(f"{m:6.2f}" for m in moves))
print("correctly written   " + "".join(f"{100 * r:5.0f}%" for r in right))
assert moves[-3:].mean() > 2 * moves[:3].mean()
assert right[-3:].mean() > right[:3].mean() + 0.3
assert moves.argmax() == right.argmax() == 11  # the last digit read is remembered best

# %% tags=["plot"]
figure = new_figure(7, 3.6)
upper, lower = figure.subplots(2, 1, sharex=True)
upper.bar(range(1, 13), moves, color=COLOURS[0])
upper.set(ylabel="change of c")
lower.bar(range(1, 13), right, color=COLOURS[1])
lower.axhline(0.1, color="0.3", linestyle=":", linewidth=1)
lower.set(ylabel="correct", xlabel="place of the digit in the source", xticks=range(1, 13))
for axes in (upper, lower):
    axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "the digits read first hardly change c, and few are written correctly (dotted: guessing)",
)

# %% [markdown]
# Why are early digits forgotten? The formula $h' = (1 - z) \odot \tilde h + z \odot h$ shows it.
# Consider a single number of the state. Each step computes a weighted mean of the new candidate
# $\tilde h$ and the old state, with the weights $1 - z$ and $z$. So the last state is a sum of all
# candidates, each with its own weight. The next function applies the formula to given gates and
# candidates.


# %%
def last_state(z, candidates):
    """Start at 0. Return the last state for gates z (token,) and candidates (token, features)."""
    h = 0 * candidates[0]
    for gate, candidate in zip(z.unbind(0), candidates.unbind(0), strict=True):
        h = (1 - gate) * candidate + gate * h
    return h


# %% [markdown] tags=["your-turn"]
# ## Your turn: what the last state remembers
#
# Write `memory_weights(z)`. `z` is a tensor of shape (token,) with the gates $z_1, \dots, z_n$,
# numbers between 0 and 1. Return the weights $w_1, \dots, w_n$, a tensor of shape (token,), for
# which the last state is $h_n = \sum_i w_i \tilde h_i$, if the first step starts from 0.
#
# *Hint:* The last candidate has the weight $1 - z_n$. The candidate before it enters with the
# weight $1 - z_{n-1}$, and the last step multiplies this weight by $z_n$. Continue toward the first
# candidate. `mt.stack` turns a list into a tensor.


# %% tags=["answer"]
def memory_weights(z):
    """Return the weight of each candidate in the last state, shape (token,)."""
    weights, kept = [], 1.0
    for gate in reversed(z.unbind(0)):
        weights.insert(0, (1 - gate) * kept)
        kept = kept * gate
    return mt.stack(weights)


# %% tags=["check"]
check(
    memory_weights,
    cases=[mt.rand(5), mt.rand(1), mt.tensor([0.5, 1.0, 0.0, 0.9])],
    expected=lambda z: last_state(z, mt.eye(len(z), dtype=z.dtype)),
    properties={
        "the weights and the product of all gates sum to 1": lambda weights, z: np.isclose(
            weights.sum().item() + z.prod().item(), 1
        ),
        "a gate of 1 gives its candidate no weight": lambda weights, z: (
            weights[z == 1] == 0
        ).all(),
    },
)

# %%
for gate in (0.5, 0.8, 0.95):
    weights = last_state(mt.full((12,), gate), mt.eye(12)).numpy()
    print(f"all gates {gate:4}: weights of digits 1 to 12", weights.round(3))
    assert weights.argmax() == 11 and weights[0] < weights[-1]

# %% [markdown]
# The last state is a **weighted mean of all candidates** (and of the start, 0). Each later step
# multiplies a candidate's weight by the gate $z$ of that step, so old candidates tend to have small
# weights. To keep an early digit in one number of the state, all its later gates $z$ must stay
# near 1. But then this number cannot store anything new. Attention, in lesson 7, also computes a
# weighted mean, but with new weights at each step of the decoder, so that an early digit can have a
# large weight when it is needed. (Deck COMP541, "Side-note: gated recurrent units to attention",
# follows the same path.)
#
# Is the vector too small? Count the bits. The numbers in $c$ could store the source many times
# over. But every step of the recurrence overwrites the same sixteen numbers, and a network of this
# size does not learn to pack twelve digits into them and to unpack them again.

# %%
needed, available = 12 * np.log2(10), 16 * 32
print(f"12 digits are {needed:.0f} bits; 16 float32 numbers have {available} bits")
assert available > 10 * needed

# %% [markdown]
# So the remedy is not a wider vector. The remedy is to **avoid passing everything through one
# vector**: keep all states of the encoder, and let the decoder choose among them at every step.
#
# ## In the library

# %%
where(nn.GRU, mt.ops.gru.GruSequence, mt.models.seq2seq.Seq2Seq, digit_batch, train_on_digits)

# %% [markdown]
# ## Exercise
#
# In this task the digit that is read last is also written first. Which of these two facts explains
# why it is remembered best? To separate the two, train a model that copies the source instead of
# reversing it. Pass `reverse=False` to `digit_batch` and to `train_on_digits` (and, for
# `own_context`, change `states.flip(1)` to `states`). Predict the accuracy at each position, then
# train and print the table. You are done when you can say which digits a narrow state keeps.
# (Sutskever et al. 2014 reversed the source sentences of a translation model, so that the first
# word of the source is read last, just before the first word of the translation is written. Compare
# your accuracy for copying at length 12 with the accuracy for reversing in the table above: how
# much does it help to reverse the source?)
#
# Then practice:
#
# ```sh
# mta exercise start 43
# ```
#
# ## Three questions
#
# 1. In a source of twelve digits, at which position is the narrow model correct most often? Why
#    there?
# 2. The model with a separate context for each step has the same 16 numbers per state as the narrow
#    one. Why is that enough?
# 3. A colleague says: "The vector is too small, use 64 numbers." What do the printed tables say
#    about this?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. It is correct most often at the last position. The change of $c$ is also largest for the last
#    digit. The model remembers this digit best for two reasons: nothing is read afterwards that
#    could overwrite it, and it is written first, before the decoder's own steps can overwrite it.
#    (The exercise separates these two reasons.)
# 2. Each state has to hold only one digit, the one just read, instead of all twelve. In the table,
#    this model's row is near 100 % for every length.
# 3. A wider vector helps, but it only delays the fall: with 64 numbers accuracy also drops, but for
#    longer sources. Storage is not the problem either, because 16 numbers have enough bits.
