# %% [markdown]
# # Additive attention: learning and plotting an alignment
#
# At each step, the decoder must choose which encoder states to look at. How can a choice be learned
# by gradient descent, and can you see what was chosen?
#
# *Prerequisites:* softmax (lesson 5), the bottleneck of a single context vector (lesson 6).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.digit_task import digit_batch, train_on_digits
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import new_figure

rng = np.random.default_rng(0)

# %% [markdown]
# ## A soft choice: scores, softmax, weighted mean
#
# A hard choice does not have a useful derivative. So attention uses all states $h_i$, each with a
# weight, and the model learns the weights (Bahdanau et al. 2014, arXiv:1409.0473; deck COMP541,
# "Sequence to Sequence with RNNs + Attention"; the decks are listed in `docs/decks.md`). Here
# $s_{t-1}$ is the state of the decoder before it writes digit $t$:
#
# $$e_{t,i} = v^\top \tanh(W s_{t-1} + U h_i), \qquad
# a_{t,i} = \frac{\exp e_{t,i}}{\sum_k \exp e_{t,k}}, \qquad
# c_t = \sum_i a_{t,i}\, h_i .$$
#
# The score is computed by a small network with one hidden layer. This network **adds** the two
# projected vectors, hence the name additive attention.


# %%
def additive_attention(s, h, W, U, v, nonlinear=mt.tanh):
    """Return context and weights for s (batch, hidden) and h (batch, source, features)."""
    summed = (s @ W.T).unsqueeze(1) + h @ U.T  # (batch, 1, hidden) + (batch, source, hidden)
    scores = nonlinear(summed) @ v  # (batch, source, hidden) @ (hidden,) -> (batch, source)
    weights = mt.softmax(scores, -1)
    context = (weights.unsqueeze(1) @ h).squeeze(1)  # (batch, 1, source) @ (batch, source, feat.)
    return context, weights


mt.manual_seed(0)
s, h = mt.randn(1, 4), mt.randn(1, 5, 6)
layer = nn.AdditiveAttention(query_dim=4, key_dim=6, hidden_dim=3)
context, weights = additive_attention(
    s, h, layer.W_q.weight, layer.W_k.weight, layer.v.weight.reshape(-1)
)
library_context, library_weights = layer(s.unsqueeze(1), h, h)
print("weights of five states", weights[0].detach().numpy().round(3), " sum", weights.sum().item())
print("by nn.AdditiveAttention", library_weights[0, 0].detach().numpy().round(3))
assert np.allclose(context.detach().numpy(), library_context[:, 0].detach().numpy(), atol=1e-6)

# %% [markdown] tags=["your-turn"]
# ## Your turn: all decoder states at once
#
# The function above computes the weights for one decoder state. Write
# `alignment(queries, keys, W, U, v)`, which computes the weights for all decoder states without a
# loop. Return the weights $a_{t,i}$, a tensor of shape (batch, target, source). The arguments are:
#
# * `queries`, the decoder states, of shape (batch, target, query features);
# * `keys`, the encoder states, of shape (batch, source, key features);
# * `W` of shape (hidden, query features), `U` of shape (hidden, key features) and `v` of shape
#   (hidden,).
#
# *Hint:* Every query is added to every key. Give the projected queries the shape (batch, target, 1,
# hidden) with `unsqueeze`. Which shape must the projected keys have, so that broadcasting
# (lesson 1) forms all pairs?


# %% tags=["answer"]
def alignment(queries, keys, W, U, v):
    """Return the weights of additive attention, shape (batch, target, source)."""
    q = (queries @ W.T).unsqueeze(2)  # (batch, target, 1, hidden)
    k = (keys @ U.T).unsqueeze(1)  # (batch, 1, source, hidden)
    scores = mt.tanh(q + k) @ v  # (batch, target, source, hidden) @ (hidden,)
    return mt.softmax(scores, -1)


# %% tags=["check"]
check(
    alignment,
    cases=[
        (mt.randn(2, 3, 5), mt.randn(2, 7, 4), mt.randn(6, 5), mt.randn(6, 4), mt.randn(6)),
        (mt.randn(3, 2, 1), mt.randn(3, 1, 2), mt.randn(5, 1), mt.randn(5, 2), mt.randn(5)),
    ],
    expected=lambda queries, keys, W, U, v: mt.stack(
        [additive_attention(s, keys, W, U, v)[1] for s in queries.unbind(1)], 1
    ),
    properties={
        "each row sums to 1": lambda weights, *_: np.allclose(weights.sum(-1).numpy(), 1),
        "keys in reverse order give weights in reverse order": (
            lambda weights, queries, keys, *rest: np.allclose(
                alignment(queries, keys.flip(1), *rest), weights.flip(-1)
            )
        ),
    },
)

# %% [markdown]
# ## How a choice is learned
#
# Let $g = \partial L/\partial c$ be the gradient of the context: a step against $g$ lowers the
# loss. Which scores must rise to move the context in this direction? $c = \sum_i a_i h_i$ gives
# $\partial L/\partial a_i = g \cdot h_i$. The rest is the backward pass of the softmax (lesson 5).
# The next function lets the library compute the gradient of the scores.


# %%
def library_score_gradient(grad_context, weights, h):
    """Return dL/de for scores e with softmax(e) = weights, shape (batch, source)."""
    e = mt.tensor(np.log(weights), requires_grad=True)
    context = (mt.softmax(e, -1).unsqueeze(1) @ mt.tensor(h)).squeeze(1)
    return mt.autograd.grad(context, e, mt.tensor(grad_context))[0].numpy()


def draw(*shape):
    return rng.normal(size=shape)


def draw_weights(*shape):
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])  # positive, each row sums to 1


# %% [markdown] tags=["your-turn"]
# ## Your turn: which scores rise?
#
# Write `score_gradient(grad_context, weights, h)` for NumPy arrays. Return
# $\partial L/\partial e_i$, an array of shape (batch, source). The arguments are:
#
# * `grad_context`, the gradient $g$, of shape (batch, features);
# * `weights`, the weights $a_i$, of shape (batch, source);
# * `h`, the states $h_i$, of shape (batch, source, features).
#
# *Hint:* First compute all $g \cdot h_i$; `grad_context[:, None]` has the shape (batch, 1,
# features). Then subtract their mean, weighted by $a$, from each of them. Which factor is still
# missing?


# %% tags=["answer"]
def score_gradient(grad_context, weights, h):
    """Return the gradient of the scores, shape (batch, source)."""
    grad_weights = (grad_context[:, None] * h).sum(axis=-1)  # (batch, source)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)  # (batch, 1)
    return weights * (grad_weights - mean)


# %% tags=["check"]
check(
    score_gradient,
    cases=[
        (draw(2, 3), draw_weights(2, 5), draw(2, 5, 3)),
        (draw(7, 2), draw_weights(7, 3), draw(7, 3, 2)),
        (1e-3 * draw(1, 5), draw_weights(1, 2), 1e3 * draw(1, 2, 5)),
    ],
    expected=library_score_gradient,
    properties={
        "each row sums to 0": lambda grad, *_: np.allclose(grad.sum(axis=-1), 0),
        "moving all states by the same vector changes nothing": lambda grad, g, a, h: np.allclose(
            score_gradient(g, a, h + 5), grad
        ),
    },
)

# %% [markdown]
# The weighted mean of all products $g \cdot h_i$ is $g \cdot c$, so the gradient of a score is
# $a_i\, g \cdot (h_i - c)$. In words: gradient descent raises the score of state $i$ if moving the
# context toward $h_i$ lowers the loss, that is, if $h_i - c$ points against $g$. This is how a
# choice is learned. The factor $a_i$ means that the score of a state with a small weight changes
# slowly.
#
# ## The model
#
# The task is the same as in lesson 6, writing digits in reverse. The encoder reads in both
# directions, so that $h_i$ describes digit $i$ and its neighbors. The decoder uses its previous
# state as the query, then computes $s_t = g(y_{t-1}, s_{t-1}, c_t)$. The next digit is computed
# from $c_t$ alone, so each step writes what it looks at. (The two switches `out_sees_state` and
# `nonlinear` are used later.)


# %%
class Seq2Seq(nn.Module):
    def __init__(self, hidden=32, out_sees_state=False, nonlinear=mt.tanh):
        super().__init__()
        self.out_sees_state, self.nonlinear = out_sees_state, nonlinear
        self.embed = nn.Embedding(11, 16)
        self.encoder = nn.GRU(16, hidden, batch_first=True, bidirectional=True)
        self.start = nn.Linear(hidden, hidden)
        self.W = nn.Linear(hidden, hidden, bias=False)
        self.U = nn.Linear(2 * hidden, hidden, bias=False)
        self.v = nn.Parameter(mt.randn(hidden) / hidden**0.5)
        self.cell = nn.GRUCell(16 + 2 * hidden, hidden)
        self.out = nn.Linear((3 if out_sees_state else 2) * hidden, 10)

    def encode(self, source):
        h, last = self.encoder(self.embed(source))  # h (batch, source, 2 * hidden)
        return h, mt.tanh(self.start(last[1]))  # from the backward state at the first digit

    def decode(self, h, s, given):
        seen, weights = [], []
        for y in self.embed(given).unbind(1):  # y (batch, 16): the digit written before
            c, a = additive_attention(s, h, self.W.weight, self.U.weight, self.v, self.nonlinear)
            s = self.cell(mt.cat([y, c], -1), s)
            seen.append(mt.cat([s, c], -1) if self.out_sees_state else c)
            weights.append(a)
        return self.out(mt.stack(seen, 1)), mt.stack(weights, 1)  # (batch, target, 10), alignment

    def forward(self, source, given):
        return self.decode(*self.encode(source), given)


# %%
LONGEST = 10


def train(steps, rate=0.01, **settings):
    mt.manual_seed(0)
    return train_on_digits(Seq2Seq(**settings), steps, rate, range(2, LONGEST + 1))


def test(model, length, size=200):
    """Return the share of correct digits and the mean weights (target, source)."""
    source, given, target = digit_batch(np.random.default_rng(1), length, size)
    with mt.no_grad():
        scores, weights = model(source, given)
    right = (scores.argmax(-1) == target).numpy().mean()
    return right, weights.numpy().mean(axis=0)


# %% [markdown]
# ## Training the model and inspecting its attention weights
#
# Nobody tells the model where to look: the only training signal is the loss on the digits. Once the
# model has learned the task, the step that writes digit $t$ looks at digit $n + 1 - t$ of a source
# of $n$ digits, so the large weights are on the **anti-diagonal**.

# %%
model = train(pick(600, 350))


def on_antidiagonal(weights):
    """Return the mean weight on the anti-diagonal, and the share of rows with the maximum on it."""
    flipped = weights[:, ::-1]
    hits = flipped.argmax(axis=1) == np.arange(len(weights))
    return np.trace(flipped) / len(weights), hits.mean()


print("length  correct digits  weight on anti-diagonal  rows with their largest weight there")
for length in (2, 4, 6, 8, 10, 16):
    right, weights = test(model, length)
    weight, hits = on_antidiagonal(weights)
    note = "  not in the training data" if length > LONGEST else ""
    print(f"{length:6} {100 * right:14.0f}% {weight:24.2f} {100 * hits:24.0f}%{note}")
    if length <= LONGEST:
        assert right > 0.9 and weight > 0.5 and hits > 0.8
    else:
        assert right < 0.85

# %% [markdown]
# The table shows two things. The drop in accuracy from lesson 6 is gone: the model reverses the
# longest training sources about as well as the shortest. But attention does not solve everything:
# the recurrent states determine where to look, and for a length that was not in the training data
# the model often looks at the wrong position.

# %%
maps = []  # for each source: weights (target, source), digits read, digits written
for length, seed in ((6, 6), (10, 7)):
    source, given, target = digit_batch(np.random.default_rng(seed), length, 1)
    with mt.no_grad():
        scores, weights = model(source, given)
    written = [str(digit) for digit in scores.argmax(-1)[0].tolist()]
    maps.append((weights[0].numpy(), [str(d) for d in source[0].tolist()], written))
    print("read", "".join(maps[-1][1]), " wrote", "".join(written))

# %% tags=["plot"]
show(
    mt.viz.cross_attention_figure(maps, "Where the model looked for each digit it wrote"),
    "each row looks at the source digit that it writes, from the last source digit to the first",
)

# %% [markdown]
# ## What goes wrong without the tanh, and when you trust the attention picture
#
# **Without the tanh.** Leave it out and train again. The score is then linear:
#
# $$e_{t,i} = v^\top W s_{t-1} + v^\top U h_i .$$

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The decoder state $s_{t-1}$ is still part of the score, and the model is trained to write ten
# digits in reverse. What will it write? How will its weights differ between the first step and the
# last? Write down your answers, then run the next cell.

# %%
linear = train(pick(200, 100), nonlinear=lambda x: x)
right_linear, weights_linear = test(linear, LONGEST)
source, given, _ = digit_batch(np.random.default_rng(1), LONGEST, 1)
with mt.no_grad():
    scores, rows = linear(source, given)
print("without tanh, weights of the first step", rows[0, 0].numpy().round(3))
print("                           of the last ", rows[0, -1].numpy().round(3))
digits = ("".join(map(str, ids[0].tolist())) for ids in (source, scores.argmax(-1)))
print("read {}  wrote {}".format(*digits))
print(f"correct digits at length {LONGEST}: {100 * right_linear:.0f}%")
assert np.allclose(rows[0, 0].numpy(), rows[0, -1].numpy(), atol=1e-6)
assert len(set(scores[0].argmax(-1).tolist())) == 1  # one digit, ten times
assert right_linear < 0.4 < test(model, LONGEST)[0]

# %% [markdown]
# The model without tanh writes one digit ten times. Its score contains the decoder state only in
# the term $v^\top W s_{t-1}$. This term is the same for all $i$, and a softmax does not change when
# the same number is added to all scores. So the weights do not depend on the decoder, and **every
# step looks at the same positions**. The digit is computed from $c_t$, so every step writes the
# same digit. The best choice is then the most frequent digit of the source.
#
# **Reading too much into the attention weights.** Now let the output see both $s_t$ and $c_t$, as
# Bahdanau et al. do. The model is just as good, but its attention weights differ: most of the
# weight is **beside** the anti-diagonal, much of it on the digit that was just written.

# %%
ahead = train(pick(450, 300), out_sees_state=True)
weights_ahead = test(ahead, LONGEST)[1]
weights = test(model, LONGEST)[1]
for name, net, rows in (("c_t", model, weights), ("s_t and c_t", ahead, weights_ahead)):
    right, weight = test(net, LONGEST)[0], on_antidiagonal(rows)[0]
    print(f"output sees {name:12} correct digits {right:4.0%}   on the anti-diagonal {weight:.2f}")
assert right > 0.85 and weight < 0.5

# %% [markdown]
# Does every state with a large weight affect the output? To test this, encode the source twice, the
# second time with a different digit at position 5. Then decode the states of the original source,
# but **patch** one of them: replace $h_j$ with the $h_j$ of the changed source. Count how often the
# patch changes the digit that the model writes for position 5.


# %%
def share_changed(model, place=5, size=300):
    """For each j, return the share of sources where patching h_j changes the digit for `place`."""
    source, given, _ = digit_batch(np.random.default_rng(4), LONGEST, size)
    other = source.clone()
    other[:, place - 1] = (other[:, place - 1] + 3) % 10
    step, shares = LONGEST - place, []
    with mt.no_grad():
        (h, s), (h_other, _) = model.encode(source), model.encode(other)
        before = model.decode(h, s, given)[0][:, step].argmax(-1)
        for j in range(LONGEST):
            patched = h.clone()
            patched[:, j] = h_other[:, j]
            after = model.decode(patched, s, given)[0][:, step].argmax(-1)
            shares.append((before != after).numpy().mean())
    return np.array(shares)


print("the step that writes digit 5: position" + "".join(f"{j:5}" for j in range(1, LONGEST + 1)))
for name, net, rows in (("c_t", model, weights), ("s_t and c_t", ahead, weights_ahead)):
    shares, looks = share_changed(net), rows[LONGEST - 5]
    print(f"output sees {name:12} mean weight   " + "".join(f"{w:5.2f}" for w in looks))
    print(f"{'':24} changed by patch" + "".join(f"{share:5.0%}" for share in shares)[1:])
    assert shares.argmax() == 4  # place 5 decides in both models
assert looks[4] < 0.5 < shares[4]

# %% [markdown]
# In both models, the state at position 5 determines which digit is written for position 5. In the
# second model, the weight of this state is less than one half, and often not even the largest.
# (Training with a different seed changes the attention weights, but hardly changes the effects of
# the patches.) The weights correctly show what was averaged. But a large weight does not imply a
# large influence: that depends on what the model does with the average.

# %% tags=["plot"]
figure = new_figure(8, 3.3)
panels = {"output sees $c_t$": weights, "output sees $s_t$ and $c_t$": weights_ahead}
panels["no tanh"] = weights_linear
grid = figure.subplots(1, 3, sharey=True)
for axes, (title, rows) in zip(grid, panels.items(), strict=True):
    image = axes.imshow(rows, cmap="Blues", vmin=0, vmax=1)
    axes.plot(range(LONGEST - 1, -1, -1), range(LONGEST), color="#D55E00", linewidth=1)
    ticks = range(0, LONGEST, 3)
    axes.set_xticks(ticks, [place + 1 for place in ticks])
    axes.set_yticks(ticks, [place + 1 for place in ticks])
    axes.set(title=title, xlabel="position in the source")
grid[0].set_ylabel("digit written")
figure.colorbar(image, ax=grid, shrink=0.8, label="mean weight").outline.set_visible(False)
show(
    figure,
    "the first model looks along the line, the second beside it; without tanh all rows are equal",
)

# %% [markdown]
# ## In the library

# %%
where(nn.AdditiveAttention, nn.AdditiveAttention.attend, mt.models.seq2seq.RecurrentDecoder)

# %% [markdown]
# ## Exercise
#
# Replace the score by a product, $e_{t,i} = (W s_{t-1})^\top (U h_i)$, with the same $W$ and $U$
# and without $v$ and tanh. (Why do the weights now depend on the decoder even without a tanh?)
# Train with the same settings. You are done when the second value that `on_antidiagonal` returns is
# 1 at length 10. Then count: how many multiplications does each of the two scores need for a source
# of $n$ digits and a target of $m$ digits, once `h @ U.T` is computed?
#
# Then practice:
#
# ```sh
# mta exercise start 42
# ```
#
# ## Three questions
#
# 1. Why do the weights of the variant without tanh not depend on the step, although $W s_{t-1}$
#    does?
# 2. In a colleague's alignment plot, most of the weight is beside the diagonal. The colleague
#    concludes that the model writes the wrong digits. Is the conclusion justified?
# 3. Which printed row shows that attention removes the single-vector bottleneck, but does not make
#    the model work for every length?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Without tanh, the term $v^\top W s_{t-1}$ adds the same number to the scores of all source
#    positions, which does not change the softmax. The printed weights of the first and the last
#    step agree.
# 2. No. The model whose output sees $s_t$ has such a plot, but writes nearly all digits correctly.
#    Patching shows that the state at the correct position determines the digit, although it has
#    less than half of the weight. The plot alone does not show a mistake.
# 3. The row of length 16, which was not in the training data, has a much lower accuracy. The rows
#    up to length 10 are all near 100 %.
