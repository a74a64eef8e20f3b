# %% [markdown]
# # Luong attention: scores, windows, input feeding
#
# Additive attention gave each step of a decoder its own context. Which parts of this mechanism are
# necessary? What happens if the score is a single product, if it ignores the keys, or if it covers
# only a window of them? And how does the decoder know where it looked before?
#
# *Prerequisites:* the bottleneck of a single context vector (lesson 6), additive attention
# (lesson 7).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course import digit_task
from minitorch_attn.course.digit_task import digit_batch, train_on_digits
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.seq2seq import RecurrentDecoder, RecurrentEncoder, Seq2Seq
from minitorch_attn.viz.style import COLOURS, new_figure

# %% [markdown]
# ## Attend after the step
#
# Bahdanau's decoder (lesson 7) attends with its previous state, and the context enters the next
# recurrent step. The COMP541 deck shows this decoder ("Sequence to Sequence with RNNs +
# Attention"); `docs/decks.md` lists the decks. In Luong et al. 2015 (arXiv:1508.04025), the decoder
# attends **after** the step, with the new state $h_t$. One layer combines state and context in the
# **attentional state** $\tilde h_t$ (Eq. 5):
#
# $$a_t = \mathrm{softmax}_s\, \mathrm{score}(h_t, \bar h_s), \qquad c_t = \sum_s a_t(s)\, \bar h_s,
# \qquad \tilde h_t = \tanh(W_c\, [c_t; h_t]) .$$
#
# The next word is computed from $\tilde h_t$. The recurrent steps do not depend on the attention,
# so all of them can run first. Attention for all targets is then a single matrix product. The paper
# compares four scores. Three of them use the key $\bar h_s$, and one does not:
#
# | score | formula | parameters |
# | --- | --- | --- |
# | dot | $h_t^\top \bar h_s$ | none |
# | general | $h_t^\top W_a \bar h_s$ | $W_a$ |
# | concat | $v_a^\top \tanh(W_a [h_t; \bar h_s])$ | $W_a$, $v_a$: lesson 7's score |
# | location | $(W_a h_t)_s$ | $W_a$, one row for each position |

# %%
mt.manual_seed(0)
query, key = mt.randn(1, 3, 4), mt.randn(1, 5, 6)  # (batch, target, 4), (batch, source, 6)
layer = nn.LuongAttention(query_dim=4, key_dim=6, score="general")
attentional, weights = layer(query, key)
print("weights of three steps\n", weights[0].detach().numpy().round(2))
print("attentional state", attentional.shape)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the attentional state
#
# Write `attentional_states(query, key, W, W_c)` with the score "general". `query` has the shape
# (batch, target, query features), `key` (batch, source, key features), `W` (query features,
# key features), `W_c` (query features, key features + query features), without a bias. Return
# $\tilde h_t$ for all targets, of shape (batch, target, query features).
#
# *Hint:* `query @ W` has the size of a key. `key.swapaxes(-1, -2)` has the shape (batch, key
# features, source). `mt.cat([a, b], -1)` concatenates vectors, and the context comes first.


# %% tags=["answer"]
def attentional_states(query, key, W, W_c):
    """Return the attentional states, shape (batch, target, query features)."""
    scores = query @ W @ key.swapaxes(-1, -2)  # (batch, target, source)
    context = mt.softmax(scores, -1) @ key  # (batch, target, key features)
    return mt.tanh(mt.cat([context, query], -1) @ W_c.T)


# %% tags=["check"]
check(
    attentional_states,
    cases=[
        (mt.randn(2, 3, 5), mt.randn(2, 7, 4), mt.randn(5, 4), mt.randn(5, 9)),
        (mt.randn(3, 1, 2), mt.randn(3, 2, 3), mt.randn(2, 3), mt.randn(2, 5)),
    ],
    expected=lambda query, key, W, W_c: mt.stack(
        [
            mt.tanh(mt.cat([mt.softmax(k @ (q @ W), 0) @ k, q]) @ W_c.T)
            for qs, k in zip(query, key, strict=True)
            for q in qs
        ]
    ).reshape(*query.shape),
    properties={
        "the order of the keys does not matter": lambda result, query, key, *rest: np.allclose(
            attentional_states(query, key.flip(1), *rest), result
        ),
        "all numbers lie between -1 and 1": lambda result, *_: (result.abs() <= 1).all(),
    },
)

# %% [markdown]
# ## Content versus location
#
# The score "location" does not read the keys. So its weights stay the same, whatever the source
# contains:

# %%
other = mt.randn(1, 5, 6)
for score in ("general", "location"):
    layer = nn.LuongAttention(4, 6, score=score, max_length=8)
    before, after = (layer(query, keys)[1].detach().numpy() for keys in (key, other))
    print(f"{score:9} change of the weights with other keys: {abs(before - after).max():.2f}")
    assert (abs(before - after).max() == 0) == (score == "location")

# %% [markdown]
# How much does that matter? The task is to write digits in reverse, as in lessons 6 and 7, but now
# the source contains as many **blanks** as digits, at random positions. The content of the keys
# helps here: a key can encode "I am the third digit from the end". The location score has only the
# decoder's state, so the position of every digit must be in this single vector.
#
# We use the library's `RecurrentEncoder` with GRUs in both directions, and its `RecurrentDecoder`
# with different attention layers.

# %%
parts = digit_batch(np.random.default_rng(0), 5, size=1, blanks=5)
for name, ids in zip(["source", "given", "target"], parts, strict=True):
    print(f"{name:7}", "".join("0123456789>."[i] for i in ids[0].tolist()))

# %%
LONGEST, WINDOW, HIDDEN = 12, 6, 32
CHOICES = {
    "no attention": None,
    "dot": {"score": "dot"},
    "general": {"score": "general"},
    "concat": {"score": "concat"},
    "location": {"score": "location", "max_length": 2 * LONGEST},
    "local-m": {"score": "general", "local": "monotonic", "window": WINDOW},
    "local-p": {"score": "general", "local": "predictive", "window": WINDOW},
}


def build(choice):
    """Return a model for ids 0 to 11: ten digits, the start token and the blank."""
    attention, side = None, HIDDEN // 2 if choice == "dot" else HIDDEN  # "dot" needs equal sizes
    if CHOICES[choice] is not None:
        attention = nn.LuongAttention(HIDDEN, 2 * side, **CHOICES[choice])
    encoder = RecurrentEncoder(12, 16, side, cell="gru", bidirectional=True)
    return Seq2Seq(encoder, RecurrentDecoder(12, 16, HIDDEN, attention, cell="gru"))


def train(choice, steps):
    mt.manual_seed(0)
    return train_on_digits(build(choice), steps, 0.01, range(2, LONGEST + 1), blanks=True)


def right_digits(model, length, size=300):
    """Return the share of correct digits for new sources. Half of a source's entries are blanks."""
    rng = np.random.default_rng(1)
    source, given, target = digit_batch(rng, length, size, blanks=length)
    with mt.no_grad():
        return (model(source, given).argmax(-1) == target).numpy().mean()


# %%
LENGTHS, GLOBAL = (2, 4, 8, 12), ("no attention", "dot", "general", "concat", "location")
models = {choice: train(choice, pick(450, 220)) for choice in GLOBAL}
right = {choice: [right_digits(m, n) for n in LENGTHS] for choice, m in models.items()}
print("correct, by number of digits   " + "".join(f"{n:7}" for n in LENGTHS))
for choice, row in right.items():
    print(f"{choice:31}" + "".join(f"{100 * share:6.0f}%" for share in row))

# %% [markdown]
# All three scores that read the keys solve the task, even the plain dot product, which has no
# parameters. For twelve digits, the score "location" is better than no attention, but clearly worse
# than the other three: as without attention, the positions of the blanks must pass through one
# vector, the bottleneck of lesson 6.

# %%
longest = {choice: row[-1] for choice, row in right.items()}
assert min(longest[choice] for choice in ("dot", "general", "concat")) > 0.9
assert longest["no attention"] < longest["location"] < 0.88
assert min(row[0] for row in right.values()) > 0.95  # two digits fit into one vector

# %% [markdown]
# ## A window of keys
#
# Local attention reads only the keys at most $D$ positions away from a center $p_t$, so a long
# source costs no more than a short one. Where is the center? "local-m" assumes that source and
# target are in the same order, position by position, and sets $p_t = t$. "local-p" predicts the
# center from the state, and multiplies the weights by a Gaussian around the center (Eqs. 9 and 10;
# $S$ is the length of the source):
#
# $$p_t = S\, \sigma(v_p^\top \tanh(W_p h_t)), \qquad
# a_t(s) \leftarrow a_t(s)\, \exp\!\Big(\!-\frac{(s - p_t)^2}{2 (D/2)^2}\Big) .$$
#
# Without the Gaussian, $p_t$ would get no gradient: the edges of the window move in whole steps.


# %%
def library_window(scores, center, D):
    """Return the weights of local-p attention, computed for one target at a time."""
    rows = []
    for row, p in zip(scores, center, strict=True):
        s = [i for i in range(len(row)) if abs(i - p.item()) <= D]
        e = row[s].exp()
        window = e / e.sum() * mt.exp(-2 * (mt.tensor(s) - p) ** 2 / D**2)
        rows.append(mt.cat([row[: s[0]] * 0, window, row[s[-1] + 1 :] * 0]))
    return mt.stack(rows)


# %% [markdown] tags=["your-turn"]
# ## Your turn: a window with a Gaussian
#
# Write `window_weights(scores, center, D)`. `scores` has the shape (target, source), and `center`
# has the shape (target,). Positions are counted from 0. Return the weights of local-p, of shape
# (target, source): the softmax over the keys $s$ with $|s - p_t| \le D$, times the Gaussian. They
# do not sum to 1.
#
# *Hint:* `mt.arange(n) - center.unsqueeze(1)` has the shape (target, source). `masked_fill` with
# `float("-inf")` removes scores from a softmax.


# %% tags=["answer"]
def window_weights(scores, center, D):
    """Return the weights of local-p attention, shape (target, source)."""
    offset = mt.arange(scores.shape[1]) - center.unsqueeze(1)  # s - p_t, (target, source)
    inside = scores.masked_fill(offset.abs() > D, float("-inf"))
    return mt.softmax(inside, -1) * mt.exp(-(offset**2) / (2 * (D / 2) ** 2))


# %% tags=["check"]
check(
    window_weights,
    cases=[
        (mt.randn(4, 11), mt.tensor([0.3, 9.6, 4.0, 5.7]), 3.0),
        (mt.randn(3, 5), mt.tensor([1.2, 2.7, 0.1]), 10.0),
    ],
    expected=library_window,
    properties={
        "keys outside the window have no weight": lambda weights, scores, center, D: (
            weights[(mt.arange(scores.shape[1]) - center.unsqueeze(1)).abs() > D] == 0
        ).all(),
        "no row sums to more than 1": lambda weights, *_: (weights.sum(-1) < 1).all(),
    },
)

# %%
models |= {choice: train(choice, pick(450, 220)) for choice in ("local-m", "local-p")}
right |= {choice: [right_digits(models[choice], n) for n in LENGTHS] for choice in models}
for choice in ("no attention", "local-m", "local-p", "general"):
    print(f"{choice:31}" + "".join(f"{100 * share:6.0f}%" for share in right[choice]))
assert right["local-p"][-1] > 0.9
assert abs(right["local-m"][-1] - right["no attention"][-1]) < 0.15

# %% [markdown]
# The window that local-p predicts ends up in the right place, although its center is computed from
# the state alone. The state only needs to know roughly where to look, and the scores of the keys in
# the window do the rest. The window of local-m, which moves with the target, is hardly better than
# no attention: a reversed digit is close to position $t$ only in the middle of the source. (Where
# source and target are in the same order, as sound and text are in speech, a window that moves with
# the target is a good choice.)

# %% tags=["plot"]
source, given, target = digit_batch(np.random.default_rng(8), 8, size=1, blanks=8)
labels = ["·" if i == 11 else str(i) for i in source[0].tolist()]
maps, names = [], ("general", "location", "local-m", "local-p")
for choice in names:
    with mt.no_grad(), nn.collect_attention(models[choice].decoder) as found:
        written = models[choice](source, given).argmax(-1)
    maps.append((found[0][1][0, 0].numpy(), labels, [str(i) for i in written[0].tolist()]))
show(
    mt.viz.cross_attention_figure(maps, "Where each decoder looks while it writes", names),
    "With general and local-p, the attention moves from digit to digit and skips the blanks. With "
    "location, it is at about the right place. With local-m, it stays near position t, which "
    "helps only in the middle.",
)

# %% tags=["plot"]
figure = new_figure(7, 3.6)
axes = figure.add_subplot()
order = sorted(models, key=lambda choice: right[choice][-1])
colours = [COLOURS[0] if right[choice][-1] > 0.9 else COLOURS[1] for choice in order]
axes.barh(order, [right[choice][-1] for choice in order], color=colours)
for place, choice in enumerate(order):
    axes.text(right[choice][-1] + 0.01, place, f"{100 * right[choice][-1]:.0f} %", va="center")
axes.set(xlim=(0, 1.1), xlabel=f"correct digits of {LONGEST}, in a source with as many blanks")
axes.spines[["top", "right"]].set_visible(False)
show(figure, "Scores that read the keys (blue) solve the task, even in a predicted window.")

# %% [markdown]
# ## Input feeding: knowing where the decoder looked
#
# In lesson 7 the context entered the recurrent step, so the state knew what had been read. In
# Luong's decoder the state $h_t$ is computed before attention, from the words generated so far. The
# paper therefore feeds $\tilde h_{t-1}$ into the next step, together with the word (section 3.3).
#
# Input feeding is needed when the generated words do not show where the decoder looked. Consider a
# treasure hunt: each of six places holds one bit and the number of the next place. The decoder
# starts at place 0, writes its bit, goes on to the next place, and so on. A bit does not say which
# place it came from. Only the attention has seen the number of the next place.


# %%
PLACES = 6


def hunt(rng, size=64):
    """Return keys, input bits, target bits and tours. A key encodes place, next place and bit."""
    order = np.tile(np.arange(PLACES), (size, 1))
    order[:, 1:] = rng.permuted(order[:, 1:], axis=1)  # tours start at place 0
    bits, eye = rng.integers(0, 2, (size, PLACES)), np.eye(PLACES, dtype=np.float32)
    following = np.empty_like(order)
    np.put_along_axis(following, order, np.roll(order, -1, axis=1), axis=1)
    keys = [np.tile(eye, (size, 1, 1)), eye[following], bits[:, :, None].astype(np.float32)]
    target = np.take_along_axis(bits, order, axis=1)
    given = np.concatenate([np.full((size, 1), 2), target[:, :-1]], axis=1)
    return mt.tensor(np.concatenate(keys, axis=2)), mt.tensor(given), mt.tensor(target), order


class Hunter(nn.Module):
    def __init__(self, feeding, hidden=32):
        super().__init__()
        self.feeding, self.embed, self.out = feeding, nn.Embedding(3, 4), nn.Linear(hidden, 2)
        if feeding:
            self.decoder = nn.InputFeedingDecoder(4, hidden, 2 * PLACES + 1)
        else:
            self.lstm = nn.LSTM(4, hidden, batch_first=True)
            self.attention = nn.LuongAttention(hidden, 2 * PLACES + 1)

    def forward(self, keys, given):
        if self.feeding:
            attentional, weights, _ = self.decoder(self.embed(given), keys)
        else:
            attentional, weights = self.attention(self.lstm(self.embed(given))[0], keys)
        return self.out(attentional), weights  # (batch, target, 2), (batch, target, place)


# %%
def train_hunter(feeding, steps):
    mt.manual_seed(0)
    return digit_task.train(Hunter(feeding), steps, 0.01, lambda rng: hunt(rng)[:3])


def right_bits(model):
    """Return each step's share of correct bits on new tours, one tour, and that tour's weights."""
    keys, given, target, order = hunt(np.random.default_rng(5), 500)
    with mt.no_grad():
        scores, weights = model(keys, given)
    return (scores.argmax(-1) == target).numpy().mean(axis=0), order[0], weights[0].numpy()


# %%
fed, tour, walk = right_bits(train_hunter(True, pick(600, 330)))
print("with input feeding, by step", fed.round(2))
print("tour", tour, " place with the largest weight", walk.argmax(axis=1))
assert fed.min() > 0.97
assert (walk.argmax(axis=1) == tour)[:-1].all()

# %% [markdown]
# With input feeding the decoder follows the numbers: each step looks at the place whose number the
# previous step read.
#
# ## What goes wrong without input feeding
#
# Now we keep the decoder, the keys and the training, but do not feed $\tilde h_{t-1}$ into the next
# step.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The model without input feeding knows the bits that were written, and the keys of all places. It
# cannot know which place it was at before. Which of the six bits will it write correctly? (A random
# guess is right half of the time. One of the six results is easy to explain. Two others may
# surprise you.) Write down six accuracies, then run the next cell.

# %%
blind, _, blind_walk = right_bits(train_hunter(False, pick(600, 330)))
print("without input feeding, by step", blind.round(2))
assert blind[0] > 0.97 and blind[1:4].max() < 0.85
assert blind[4:].min() > 0.9

# %% [markdown]
# The first bit is easy: a tour starts at place 0. In the middle the model can only guess among the
# bits that are left, which is better than a random guess. And the end? The key of the **last**
# place says that its next place is 0, so the model finds this place by its content, without
# following the tour. At the second-to-last step, five of the six bits are then known: four are
# written, and the last one is found by its content. The keys show how many of the six bits are 1,
# so the model can work out the missing bit. So the decoder has not learned to follow the tour. It
# has learned shortcuts for the steps at which a shortcut exists.

# %% tags=["plot"]
figure = new_figure(8, 3.4)
panels = {"with input feeding": walk, "without": blind_walk}
for axes, (title, weights) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.plot(tour, range(PLACES), color=COLOURS[1], marker="o", markersize=5, linewidth=1)
    axes.set(title=title, xlabel="place", xticks=range(PLACES), yticks=range(PLACES))
    axes.set_yticklabels(range(1, PLACES + 1))
figure.axes[0].set_ylabel("step")
figure.colorbar(image, ax=figure.axes, shrink=0.8, label="weight").outline.set_visible(False)
show(figure, "Attention follows the tour (line) with input feeding, but not without it.")

# %% [markdown]
# ## In the library

# %%
where(
    nn.LuongAttention, nn.LuongAttention.attend, nn.InputFeedingDecoder, RecurrentDecoder, Seq2Seq
)

# %% [markdown]
# `mta train seq2seq` trains four recurrent models to convert dates, one without attention and three
# with different kinds of attention, and plots their alignments.
#
# ## Exercise
#
# Give the model without input feeding more information: at each step, its input is the number of
# the **place** that the tour visited in the previous step, instead of the bit that was written then
# (use a shifted `order` instead of `given`, with an embedding for each place and one for the
# start). Predict the six accuracies, then train. You are done when you can say why one look at the
# keys is not enough, and what input feeding tells the decoder that the number of the previous place
# does not.
#
# ## Three questions
#
# 1. Why can all steps of Luong's decoder without input feeding run in one call of an LSTM, while
#    Bahdanau's decoder has to go step by step?
# 2. A decoder with the score "location" was trained on sources of at most 24 positions. What
#    happens at position 25, and why do the other scores have no such limit?
# 3. The weights of local-p do not sum to 1. Which property in the check of `window_weights` shows
#    this, and what would be lost if the weights were divided by their sum?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The state $h_t$ depends only on the given words and the previous state, not on any context. In
#    Bahdanau's decoder the context of step $t$ is an input of the recurrent step $t$, and it
#    depends on the state of step $t - 1$.
# 2. $W_a h_t$ has one number for each known position, so keys after the last of these positions get
#    weight 0. The other scores compute a number for each key from the key itself.
# 3. The property "no row sums to more than 1" shows it. The Gaussian gives small weights to keys
#    far from the predicted center. If the model needs such keys, the gradient of the Gaussian moves
#    the center toward them. If the weights were divided by their sum, a window with a single key
#    would give the same context for every center, and $p_t$ would get no gradient.
