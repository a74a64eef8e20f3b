# %% [markdown]
# # Multi-head attention: several heads
#
# One row of softmax weights gives one weighted mean. What if a token needs to know two things at
# once, from two different places? And how can one matrix produce eight heads at no extra cost?
#
# *Prerequisites:* queries, keys, values and the scale (lesson 8), masks (lesson 10).

# %%
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## A single weighted mean loses which token was at which position
#
# Suppose a token needs to know the token one place before it and the token three places before it.
# With one head, it has a single row of weights, for example $(\tfrac12, \tfrac12)$ on these two
# tokens. Swapping the two values then does not change the context, so no later layer can tell the
# two cases apart.

# %%
red, blue = mt.tensor([1.0, 0.0]), mt.tensor([0.0, 1.0])
weights = mt.tensor([[0.5, 0.5]])  # (query, key)

red_first = weights @ mt.stack([red, blue])  # (1, 2) @ (2, features) -> (1, features)
blue_first = weights @ mt.stack([blue, red])
print("one head   red, blue ->", red_first.numpy(), "  blue, red ->", blue_first.numpy())
assert (red_first == blue_first).all()

first, second = mt.tensor([[1.0, 0.0]]), mt.tensor([[0.0, 1.0]])  # two rows of weights


def two_heads(values):
    return mt.cat([first @ values, second @ values], -1)  # (1, 2 * features)


red_first, blue_first = two_heads(mt.stack([red, blue])), two_heads(mt.stack([blue, red]))
print("two heads  red, blue ->", red_first.numpy(), "  blue, red ->", blue_first.numpy())
assert not (red_first == blue_first).all()

# %% [markdown]
# ## Splitting: reshape, then transpose
#
# A head does not get a full copy of the vectors of width $d$. Instead, each vector is split into
# $h$ pieces of width $d/h$, one for each head, and each head has its own scores and its own softmax
# (deck COMP541, "Learning Multi-Head Attention"; `docs/decks.md` lists the decks):
#
# $$\mathrm{MultiHead}(X) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\,W^O,
# \qquad \mathrm{head}_i = \mathrm{Attention}(XW^Q_i, XW^K_i, XW^V_i).$$
#
# In the example below, each number encodes its token and its feature: 21 is feature 1 of token 2.
# Every head must contain a piece of every token.


# %%
def split(x, heads):
    batch, tokens, width = x.shape
    x = x.reshape(batch, tokens, heads, width // heads)  # cuts each vector into pieces
    return x.transpose(1, 2)  # (batch, heads, token, width / heads): heads become a batch axis


def merge(x):
    batch, heads, tokens, piece = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, heads * piece)


x = (10 * mt.arange(4).unsqueeze(1) + mt.arange(6)).unsqueeze(0)  # (1, token 4, feature 6)
print("x, a row for each token\n", x[0].numpy())
print("head 0\n", split(x, 2)[0, 0].numpy())
print("head 1\n", split(x, 2)[0, 1].numpy())
assert (merge(split(x, 2)) == x).all()
assert (split(x, 2)[0, 0] == x[0, :, :3]).all()  # head 0: all tokens, the first three features

# %% [markdown] tags=["your-turn"]
# ## Your turn: split query, key and value at once
#
# GPT-2 computes query, key and value with a single matrix. Its output has shape
# (batch, token, 3 · width): the first third of each vector is the query, the second the key, the
# last the value.
#
# Write `split_three(projected, heads)`. It returns the tuple (query, key, value), each of shape
# (batch, heads, token, width / heads), with the features divided among the heads as in `split`
# above.
#
# *Hint:* One `reshape` gives each vector three axes: one for query, key and value, one for the
# head, and one for the feature. In what order do these three axes appear in memory? Then `permute`
# moves the axis for query, key and value to the front, and `tuple(...)` splits a tensor along its
# first axis.


# %% tags=["answer"]
def split_three(projected, heads):
    """Return query, key and value, each of shape (batch, heads, token, width / heads)."""
    batch, tokens, width = projected.shape  # width: that of all three together
    pieces = projected.reshape(batch, tokens, 3, heads, width // (3 * heads))
    return tuple(pieces.permute(2, 0, 3, 1, 4))  # (3, batch, heads, token, piece)


# %% tags=["check"]
check(
    split_three,
    cases=[(mt.randn(2, 5, 3 * 6), 2), (mt.randn(1, 7, 3 * 3), 3), (mt.randn(2, 3, 3 * 5), 1)],
    expected=lambda projected, heads: tuple(split(x, heads) for x in projected.chunk(3, -1)),
    properties={
        "merging the queries gives the first third": lambda result, projected, heads: (
            merge(result[0]) == projected.chunk(3, -1)[0]
        ).all(),
    },
)

# %% [markdown]
# ## What heads cost
#
# The matrices for query, key, value and output have the same size for every $h$: with their biases,
# they have $4(d^2 + d)$ numbers. For $T$ tokens, the scores take $2T^2 d/h$ operations for each of
# the $h$ heads, so $2T^2d$ in total. Only the number of attention weights grows with $h$: it is
# $hT^2$.

# %%
d, tokens = 64, 128
print("heads  head width  parameters  operations for the scores  attention weights")
for heads in (1, 2, 4, 8, 16):
    attention = mt.nn.Attention(d, heads)
    parameters = sum(p.numel() for p in attention.parameters())
    operations = heads * 2 * tokens * tokens * (d // heads)
    stored = heads * tokens * tokens
    print(f"{heads:5}{d // heads:12}{parameters:12,}{operations:27,}{stored:19,}")
    assert parameters == 4 * (d * d + d)

# %% [markdown]
# The scores are multiplied by $1/\sqrt{d/h}$, not by $1/\sqrt{d}$, because the query of a head has
# only $d/h$ features. We compare a minimal implementation with the library's layer, using the same
# matrices:


# %%
def several_heads(attention, x):
    heads = attention.num_heads
    query, key, value = (
        split(projection(x), heads)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )  # (batch, heads, token, d / heads)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (batch, heads, T, T)
    context = scores.softmax(-1) @ value  # (batch, heads, token, d / heads)
    return attention.out_proj(merge(context))  # (batch, token, d)


attention, x = mt.nn.Attention(d, 4), mt.randn(2, 10, d)
difference = (several_heads(attention, x) - attention(x)).abs().max().item()
print(f"largest difference from nn.Attention: {difference:.1e}")
assert difference < 1e-5

# %% [markdown] tags=["your-turn"]
# ## Your turn: several queries, one key
#
# Many large models have fewer key heads than query heads, so that they store fewer keys. Then
# several query heads **share** a key head (grouped-query attention). With 6 query heads and 2 key
# heads, query heads 0, 1 and 2 use key head 0, and query heads 3, 4 and 5 use key head 1.
#
# Write `grouped_weights(query, key)`, which returns the attention weights of all query heads. The
# query has shape (batch, heads, query, piece) and the key (batch, groups, key, piece), where
# `groups` is the number of key heads, `heads` is a multiple of `groups`, and `piece` is the width
# of one head.
#
# *Hint:* Give each query head its own copy of its key head. `mt.tensor([7, 8]).repeat(3)` is 7, 8,
# 7, 8, 7, 8, and `mt.tensor([7, 8]).repeat_interleave(3)` is 7, 7, 7, 8, 8, 8. Which of the two do
# you need? (The one that you need has an argument `dim=`.)


# %% tags=["answer"]
def grouped_weights(query, key):
    """Return the weights of all query heads, shape (batch, heads, query, key)."""
    share = query.shape[1] // key.shape[1]  # query heads for each key head
    key = key.repeat_interleave(share, dim=1)  # (batch, heads, key, piece)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(-1)


# %% tags=["check"]
check(
    grouped_weights,
    cases=[
        (mt.randn(2, 6, 5, 3), mt.randn(2, 2, 7, 3)),
        (mt.randn(1, 3, 1, 2), mt.randn(1, 1, 5, 2)),
    ],
    expected=lambda query, key: mt.ops.scaled_dot_product_attention(
        query, key, mt.eye(key.shape[2]).double().expand(*key.shape[:3], -1), enable_gqa=True
    ),  # values of 0 and 1 give the weights
    properties={
        "each row sums to 1": lambda weights, query, key: np.allclose(weights.sum(-1).numpy(), 1),
        "equal queries that share a key head have equal weights": lambda weights, query, key: (
            same := grouped_weights(query[:, :1].expand(query.shape), key)
        )[:, 0].allclose(same[:, query.shape[1] // key.shape[1] - 1]),
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: what does each head add to the output?
#
# The heads are concatenated and multiplied by $W^O$. This looks like the step that mixes the heads,
# but the product is a **sum** with one term for each head:
#
# $$\mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\,W^O = \sum_i \mathrm{head}_i\,W^O_i.$$
#
# Write `contributions(context, weight)`, which returns the $h$ terms of this sum separately. The
# context has shape (batch, heads, token, piece), where `piece` is the width of one head. The weight
# has shape (width, width), as in `nn.Linear`, so the output is `merge(context) @ weight.T` (without
# a bias).
#
# *Hint:* Which rows of `weight.T` are multiplied by the features of head 0? Split `weight.T` into
# one block of rows for each head. One batched product with the context does the rest.


# %% tags=["answer"]
def contributions(context, weight):
    """Return what each head adds to the output, shape (batch, heads, token, width)."""
    heads, piece = context.shape[1], context.shape[3]
    blocks = weight.T.reshape(heads, piece, heads * piece)  # the rows of each head
    return context @ blocks  # (batch, heads, token, piece) @ (heads, piece, width)


# %% tags=["check"]
check(
    contributions,
    cases=[(mt.randn(2, 3, 5, 7), mt.randn(21, 21)), (mt.randn(1, 2, 1, 3), mt.randn(6, 6))],
    expected=lambda context, weight: mt.stack(
        [
            context[:, h] @ weight[:, h * context.shape[3] : (h + 1) * context.shape[3]].T
            for h in range(context.shape[1])
        ],
        1,
    ),
    properties={
        "a context of zeros adds nothing": lambda terms, context, weight: (
            not (
                contributions(
                    context * (mt.arange(context.shape[1]) > 0).reshape(-1, 1, 1), weight
                )[:, 0]
            ).any()
        ),
        "the heads add up to the output": lambda terms, context, weight: np.allclose(
            terms.sum(1).numpy(), (merge(context) @ weight.T).numpy()
        ),
    },
)

# %% [markdown]
# So the heads do not mix: each one adds its own vector to the output of the layer. This is why you
# can remove a single head from a trained model, and measure what it contributed.
#
# ## Two heads learn to look at two places
#
# The task is to name, at every position, the token one place before **and** the token three places
# before. The model is one attention layer and a linear map for each answer. It has no feed-forward
# network and no residual path that could help. It has the same number of parameters with one head
# as with two.

# %%
LETTERS, LENGTH, WIDTH, BACK = 16, 12, 32, (1, 3)


class Reader(mt.nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.letters = mt.nn.Embedding(LETTERS, WIDTH)
        self.places = mt.nn.LearnedPositionalEmbedding(LENGTH, WIDTH, std=0.3)
        self.attention = mt.nn.Attention(WIDTH, heads)
        self.answers = mt.nn.Linear(WIDTH, len(BACK) * LETTERS)

    def forward(self, ids):
        x = self.places(self.letters(ids))  # (batch, token, width)
        x = self.attention(x, is_causal=True)
        return self.answers(x).reshape(*ids.shape, len(BACK), LETTERS)


def examples(count, generator):
    ids = generator.integers(LETTERS, size=(count, LENGTH))
    first = max(BACK)  # from here on both answers exist
    wanted = np.stack([ids[:, first - back : LENGTH - back] for back in BACK], -1)
    return mt.tensor(ids), mt.tensor(wanted)  # (count, LENGTH), (count, LENGTH - first, 2)


def train(heads, steps):
    mt.manual_seed(1)
    model, generator = Reader(heads), np.random.default_rng(0)
    optimizer = mt.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids, wanted = examples(64, generator)
        logits = model(ids)[:, max(BACK) :]  # (batch, token, answer, letter)
        loss = mt.nn.functional.cross_entropy(logits.flatten(0, 2), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Both models have the same number of parameters, and both see all letters. Guessing is correct in 6
# percent of the cases. Consider the model with **one** head after training. What percentage of its
# answers about the token one place before is correct, and what percentage of its answers about the
# token three places before? Write down two numbers, then run the next cell.

# %%
ids, wanted = examples(500, np.random.default_rng(9))
models, right = {}, {}
print("           parameters  one place before  three places before")
for heads in (1, 2):
    model = models[heads] = train(heads, pick(500, 350))
    with mt.no_grad():
        found = model(ids)[:, max(BACK) :].argmax(-1)  # (text, token, answer)
    right[heads] = (found == wanted).float().mean((0, 1)).numpy()  # (answer,)
    size = sum(p.numel() for p in model.parameters())
    label = "1 head" if heads == 1 else f"{heads} heads"
    print(f"{label:9}{size:12,}", *(f"{100 * share:14.1f} %" for share in right[heads]))
print(f"guessing             {100 / LETTERS:14.1f} % {100 / LETTERS:14.1f} %")
assert right[2].min() > 0.95
assert right[1].min() < 0.5 < right[1].max()

# %% [markdown]
# The single head does not do equally badly on both answers: one answer is nearly always correct,
# and the other is mostly wrong. With two heads both are correct.
#
# Where did the heads look? For each head, we print the weight on the token itself (0 places back)
# and on the four tokens before it (1 to 4 places back). The weights are averaged over 500 texts and
# over all positions that have four tokens before them.

# %%
maps = {}
for heads, model in models.items():
    with mt.no_grad(), mt.nn.collect_attention(model.attention) as found:
        model(ids)
    maps[heads] = found[0][1].numpy().mean(0)  # (heads, query, key)


def weight_back(weights, back):
    return np.mean([weights[t, t - back] for t in range(4, LENGTH)])


print("places back            0     1     2     3     4")
rows = {"one head": maps[1][0], "two heads, head 0": maps[2][0], "two heads, head 1": maps[2][1]}
for name, weights in rows.items():
    print(f"{name:<18}", *(f"{weight_back(weights, back):5.2f}" for back in range(5)))
looks_at = {max(range(5), key=lambda back: weight_back(weights, back)) for weights in maps[2]}
print("the two heads look", sorted(looks_at), "places back")
assert looks_at == set(BACK)  # they attend differently, each to one of the two
assert min(weight_back(maps[1][0], back) for back in BACK) > 0.2  # one head: both at once
known, other = (BACK[i] for i in np.argsort(-right[1]))  # the place it gets right, the other one
assert weight_back(maps[1][0], known) > weight_back(maps[1][0], other)

# %% [markdown]
# The single head has learned a workaround: it gives one of the two places a little more weight. The
# letter from this place then has the largest share in the weighted mean, so this answer is correct.
# The other letter is in the mean, too, but a linear map usually cannot tell which letter has the
# second largest share. Two heads, with their two rows of weights, do not need this workaround.

# %% tags=["plot"]
figure = new_figure(9.5, 3.1)
panels = figure.subplots(1, 4, sharey=True)
rows["mean of the two heads"] = maps[2].mean(0)
for panel, (name, weights) in zip(panels, rows.items(), strict=True):
    image = panel.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    panel.set_title(name, fontsize=10)
    panel.set(xlabel="key position", xticks=range(0, LENGTH, 3), yticks=range(0, LENGTH, 3))
panels[0].set_ylabel("query position")
figure.colorbar(image, ax=panels, shrink=0.8, label="weight")
show(
    figure,
    "One head spreads over both places; two heads take one place each. The mean of the two heads "
    "looks like the single head: a picture of the mean over all heads hides the difference.",
)

# %% [markdown]
# ## What goes wrong without the transpose
#
# `reshape` alone also gives the shape (batch, heads, token, width / heads), so forgetting the
# `transpose` raises no error. But a reshape keeps the numbers in order: token 0 fills the first
# rows of head 0, and the second half of the text ends up in head 1.


# %%
def wrong_split(x, heads):
    batch, tokens, width = x.shape
    return x.reshape(batch, heads, tokens, width // heads)  # correct shape, wrong numbers


def wrong_merge(x):
    batch, heads, tokens, piece = x.shape
    return x.reshape(batch, tokens, heads * piece)


x = (10 * mt.arange(4).unsqueeze(1) + mt.arange(6)).unsqueeze(0)
print("head 0 of the wrong split\n", wrong_split(x, 2)[0, 0].numpy())
assert wrong_split(x, 2).shape == split(x, 2).shape
assert not (wrong_split(x, 2) == split(x, 2)).all()
assert (wrong_merge(wrong_split(x, 2)) == x).all()  # the round trip does not detect it

# %% [markdown]
# The gradient reveals such mistakes: output $t$ depends on input $s$ if and only if $\partial\,
# \mathrm{output}_t / \partial\, \mathrm{input}_s$ is not 0. The attention is causal, so this
# derivative must be 0 for all $s > t$ and nonzero for all $s \le t$.


# %%
def depends(split, merge, tokens=8, heads=2, width=8):
    """Return a bool array (output, input): True where the output token depends on the input."""
    mt.manual_seed(0)
    x = mt.randn(1, tokens, width, requires_grad=True)
    pieces = split(x, heads)  # the same pieces serve as query, key and value
    scores = pieces @ pieces.transpose(-2, -1) / math.sqrt(width // heads)
    later = ~mt.masks.causal(tokens).attend  # (token, token)
    context = scores.masked_fill(later, -math.inf).softmax(-1) @ pieces
    output = merge(context)  # (1, token, width)
    found = np.zeros((tokens, tokens), dtype=bool)
    for t in range(tokens):
        (gradient,) = mt.autograd.grad(output[0, t].sum(), x, retain_graph=True)
        found[t] = (gradient[0].abs().sum(-1) > 1e-9).numpy()
    return found


ways = {
    "correct": depends(split, merge),
    "split wrong": depends(wrong_split, merge),
    "split and merge wrong": depends(wrong_split, wrong_merge),
}
print("way                      sees the future   sees all of the past")
for name, found in ways.items():
    future = np.triu(found, 1).any()
    past = found[np.tril_indices(8)].all()
    print(f"{name:<24} {future!s:<17} {past}")

assert (ways["correct"] == np.tril(np.ones((8, 8), bool))).all()
assert np.triu(ways["split wrong"], 1).any()  # the model reads what it must predict
assert not ways["split and merge wrong"][4:, :4].any()  # the two halves are separate

# %% tags=["plot"]
figure = new_figure(9, 3.9)
panels = figure.subplots(1, 3, sharey=True)
for panel, (name, found) in zip(panels, ways.items(), strict=True):
    shade = found + 2 * np.triu(found, 1)  # 1: past or present, 3: the future
    panel.imshow(shade, cmap="Blues", vmin=0, vmax=4)
    for t, s in zip(*np.nonzero(np.triu(found, 1)), strict=True):
        panel.text(s, t, "!", ha="center", va="center", color="white", fontweight="bold")
    panel.set(title=name, xlabel="input token")
    panel.title.set_color(COLOURS[0] if name == "correct" else COLOURS[1])
panels[0].set_ylabel("output token")
show(
    figure,
    "Which inputs each output of a causal attention depends on. Left: the triangle, as it should "
    "be. Middle: cells with ! are in the future. Right: tokens 4 to 7 do not depend on 0 to 3.",
)

# %% [markdown]
# Both wrong versions (middle and right panels) run without errors, and training lowers their loss.
# If only the split is wrong (middle), the loss even falls below what is possible without seeing the
# future. The gradient test above finds both mistakes in a second.
#
# ## In the library

# %%
where(mt.nn.Attention, mt.nn.Attention._split, mt.nn.MultiheadAttention)
where(mt.ops.scaled_dot_product_attention, mt.viz.attention_figure)

# %% [markdown]
# ## Exercise
#
# Set `BACK = (1, 3, 5)` and `WIDTH = 48`, and train with 1, 2, 3 and 4 heads. You are done when
# accuracy is over 0.95 with three heads and below that with one, and when, for each of the three
# places, some head puts most of its weight there. (To measure this, change `weight_back` to start
# at `t = 6`, and call it with each `back` in `range(6)`.) What does the fourth head look at?
#
# Then practice:
#
# ```sh
# mta exercise start 11
# mta exercise start 23
# ```
#
# ## Three questions
#
# 1. One head of width 64 or eight heads of width 8: which layer has more parameters, and which
#    number in the table grows with the number of heads?
# 2. The single head is nearly always correct about one of its two answers, and mostly wrong about
#    the other. How do its weights explain that?
# 3. A colleague's split of the heads has the correct shape, and merging gives the input back. Why
#    does this prove nothing, and how do you find the mistake?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Neither: the number of parameters is the same in every row of the table, and so is the number
#    of operations for the scores. Only the number of attention weights grows, because each head has
#    its own 128 x 128 map.
# 2. The table "places back" shows weight on both places, one back and three back, with a little
#    more on one of them. The mean contains both letters, just as the printed mean of red and blue
#    contains both colors. Only the small difference shows which letter was where, and it helps with
#    only one answer.
# 3. The assertion above shows that the wrong split and the wrong merge cancel each other out. To
#    find the mistake, take the gradient of each output with respect to each input: the wrong
#    versions see the future, or do not see all of the past.
