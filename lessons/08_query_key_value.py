# %% [markdown]
# # Query, key, value: a worked example, number by number
#
# Four words look at each other. Attention gives each word a weighted mean of all words. Which
# numbers does it compute on the way? A lecture shows a similar example. Which of its numbers follow
# from the formula, and which do not?
#
# *Prerequisites:* softmax (lesson 5), matrix products. The lecture is the GRID deck, "Self
# attention details" and "Look ahead Mask"; `docs/decks.md` lists the decks.

# %%
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

np.set_printoptions(precision=3, suppress=True)
mt.manual_seed(0)
rng = np.random.default_rng(0)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# %% [markdown]
# ## A soft dictionary
#
# A dictionary compares a **query** with its **keys** and returns the **value** of the matching key.
# Attention compares the query with each key by a dot product. It returns the mean of all values,
# weighted by how well their keys match. If the scores are multiplied by a large number, attention
# behaves like a dictionary.

# %%
keys = np.eye(3)  # (key 3, features 3): three orthogonal keys
values = np.array([[10.0], [20.0], [90.0]])  # (key 3, features 1)
query = np.array([[0.0, 1.0, 0.0]])  # (query 1, features 3): equal to the second key
for sharpness in (0, 1, 3, 10, 30):
    weights = softmax(sharpness * query @ keys.T)  # (query 1, key 3)
    result = (weights @ values).item()
    print(f"scores times {sharpness:2}: weights {weights[0]}  result {result:.3f}")
assert abs(result - 20) < 1e-9

# %% [markdown]
# ## Four words: queries, keys and values
#
# In self-attention, every word has a query, a key and a value. Three matrices compute them from the
# word's vector. A model learns these matrices. Here they are chosen by hand, with small numbers, so
# that you can follow each step on paper. The first three numbers of a word say whether it is an
# adjective, a noun or a verb. The fourth says how dark it is.
#
# $$Q = X W_q, \qquad K = X W_k, \qquad V = X W_v$$
#
# A query and a key have the same number of entries, $d_k$; here $d_k = 4$.
#
# * $W_q$ (its entries in brackets) defines what a word looks for. A noun looks for adjectives (4)
#   and, to a lesser extent, for verbs (1). A verb looks for nouns (4) and dark words (1), and a
#   dark word looks for nouns (1).
# * $W_k$ defines how a word can be found: by its own features. The feature "verb" counts twice.
# * $W_v$ defines what a word passes on: its darkness, and 1 for a noun or -1 for a verb.

# %%
WORDS = ["black", "cat", "eats", "fish"]
X = np.array([[1.0, 0, 0, 2], [0, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, -1]])  # (word, feature)
W_q = np.array([[0.0, 0, 0, 0], [4, 0, 1, 0], [0, 4, 0, 1], [0, 1, 0, 0]])  # (feature, d_k)
W_k = np.diag([1.0, 1, 2, 1])  # (feature, d_k)
W_v = np.array([[0.0, 0], [0, 1], [0, -1], [1, 0]])  # (feature, 2)
Q, K, V = X @ W_q, X @ W_k, X @ W_v  # (word 4, d_k 4), (word 4, d_k 4), (word 4, 2)

print(f"{'':7}{'word':20}{'query':20}{'key':20}value")
for word, *rows in zip(WORDS, X, Q, K, V, strict=True):
    print(f"{word:7}" + "".join(f"{row.astype(int)!s:20}" for row in rows))
assert (Q[1] == [4, 1, 1, 0]).all() and (K[1] == [0, 1, 0, 1]).all() and (V[1] == [1, 1]).all()

# %% [markdown]
# ## Scores, scale, softmax, context
#
# 1. **Scores**, $S = Q K^\top$: each row belongs to a query, each column to a key. For example, the
#    query of "eats" is (0, 4, 0, 1) and the key of "cat" is (0, 1, 0, 1), so their score is
#    $4 \cdot 1 + 1 \cdot 1 = 5$.
# 2. **Scale**: divide by $\sqrt{d_k} = \sqrt 4 = 2$. (Lesson 9 explains why.)
# 3. **Softmax** along each row: each query distributes one unit of weight over all keys.
# 4. **Context**: the mean of the values, with these weights.


# %%
def print_rows(title, rows):
    print(title)
    for word, row in zip(WORDS, rows, strict=True):
        print(f"  {word:7}{row}")


scores = Q @ K.T  # (word, d_k) @ (d_k, word) -> (query 4, key 4)
scaled = scores / math.sqrt(K.shape[-1])
weights = softmax(scaled)
context = weights @ V  # (query 4, key 4) @ (key 4, 2) -> (query 4, 2)
print_rows("scores: black, cat, eats, fish", scores)
print_rows("divided by 2", scaled)
print_rows("weights", weights)
print_rows("context", context)

assert (scores == [[0, 2, 0, 2], [4, 1, 2, 1], [2, 5, 0, 3], [4, -1, 2, -1]]).all()
assert np.allclose(weights[2], np.exp([1, 2.5, 0, 1.5]) / np.exp([1, 2.5, 0, 1.5]).sum())
library = mt.nn.functional.scaled_dot_product_attention(*map(mt.tensor, (Q, K, V)))
assert np.allclose(library.numpy(), context)

# %% [markdown]
# Read the row of "eats". Its scaled scores are 1, 2.5, 0 and 1.5. Their exponentials 2.72, 12.18, 1
# and 4.48 sum to 20.38, so "cat" gets the weight $12.18/20.38 = 0.598$. The context of "eats" is
# $0.133\,(2, 0) + 0.598\,(1, 1) + 0.049\,(0, -1) + 0.220\,(-1, 1)$. And "cat" looks mainly at
# "black", so the context of "cat" is darker than its value. The scores are not symmetric: the query
# of "cat" gives "black" the score 4, but the query of "black" gives "cat" only 2, because queries
# and keys have their own matrices.


# %% tags=["plot"]
def draw_grid(axes, grid, top, words, form):
    """Draw a grid of numbers, dark at the value `top`; rows are queries, columns are keys."""
    axes.imshow(grid, cmap="Blues", vmin=0, vmax=top)
    for (i, j), number in np.ndenumerate(grid):
        ink = "white" if number > 0.6 * top else "black"
        axes.text(j, i, form.format(number), ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(4), words)
    axes.set_yticks(range(4), words)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


figure = new_figure(8, 3.2)
panels = {"scores": (scores, 5), "divided by 2": (scaled, 2.5), "weights": (weights, 1)}
for axes, (title, (grid, top)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
    draw_grid(axes, grid, top, WORDS, "{:.2f}" if top == 1 else "{:g}")
    axes.set_title(title, fontsize=10)
show(figure, "the darkest cell in each row marks the word that the query looks for")

# %% [markdown] tags=["your-turn"]
# ## Your turn: attention
#
# Write `attention(query, key, value)` for tensors: scores, scale, softmax, context. A model
# processes many sentences and many heads at once, so the tensors may have additional leading axes:
# `query` has the shape (..., query, d_k), `key` has the shape (..., key, d_k), and `value` has the
# shape (..., key, features). Return the context, of shape (..., query, features).
# `mt.softmax(scores, -1)` is the softmax along the last axis.
#
# *Hint:* `key.transpose(-1, -2)` swaps the last two axes, whatever the leading axes are. Which
# axis is $d_k$?


# %% tags=["answer"]
def attention(query, key, value):
    """Return softmax(query key^T / sqrt(d_k)) value, shape (..., query, features)."""
    scores = query @ key.transpose(-1, -2)  # (..., query, key)
    scaled = scores / math.sqrt(query.shape[-1])
    weights = mt.softmax(scaled, -1)
    return weights @ value


# %% tags=["check"]
check(
    attention,
    cases=[
        (mt.randn(3, 5), mt.randn(7, 5), mt.randn(7, 2)),
        (mt.randn(2, 3, 5, 4), mt.randn(2, 3, 5, 4), mt.randn(2, 3, 5, 7)),
        (100 * mt.randn(1, 2), 100 * mt.randn(3, 2), mt.randn(3, 5)),
    ],
    expected=mt.nn.functional.scaled_dot_product_attention,
    properties={
        "equal values are returned as they are": lambda context, q, k, v: np.allclose(
            attention(q, k, 0 * v + 7), 7
        ),
        "the order of the keys does not matter": lambda context, q, k, v: np.allclose(
            attention(q, k.flip(-2), v.flip(-2)), context
        ),
    },
)

# %% [markdown]
# ## The causal mask: no word looks ahead
#
# A model that writes a sentence word by word must not look at words that are not written yet. Set
# their scores to $-\infty$ before the softmax: $e^{-\infty} = 0$, so they get no weight. The rest
# of the row is a softmax over fewer keys. (Lesson 10 is about masks.)


# %%
def causal_softmax(scores):
    """Return the softmax of a tensor along the last axis, with later keys masked."""
    future = mt.ones(scores.shape[-2:]).triu(1) == 1  # True above the diagonal
    return mt.softmax(scores.masked_fill(future, -math.inf), -1)


causal = causal_softmax(mt.tensor(scaled)).numpy()
print_rows("weights with the causal mask", causal)
print_rows("context with the causal mask", causal @ V)
eats = np.exp([1, 2.5, 0])  # "eats" sees black, cat and itself
assert np.allclose(causal[2], [*eats / eats.sum(), 0]) and (causal[0] == [1, 0, 0, 0]).all()
library = mt.nn.functional.scaled_dot_product_attention(*map(mt.tensor, (Q, K, V)), is_causal=True)
assert np.allclose(library.numpy(), causal @ V)

# %% [markdown] tags=["your-turn"]
# ## Your turn: mask after the softmax?
#
# Can the future be removed from the weights of an **unmasked** softmax? Write
# `hide_future(weights)`. `weights` is a tensor of shape (..., word, word) with positive entries,
# and each row sums to 1. Return weights of the same shape: those above the diagonal are 0, and each
# row sums to 1 again. Within a row, the remaining weights must keep their ratios.
#
# *Hint:* `weights.tril()` sets everything above the diagonal to 0. What does each row sum to then?


# %% tags=["answer"]
def hide_future(weights):
    """Set the weights of later words to 0, and make each row sum to 1. Shape: (..., word, word)."""
    visible = weights.tril()
    total = visible.sum(-1, keepdim=True)  # (..., word, 1)
    return visible / total


# %% tags=["check"]
check(
    hide_future,
    cases=[
        mt.softmax(mt.randn(5, 5), -1),
        mt.softmax(mt.randn(2, 3, 3), -1),
        mt.ones(1, 1),
    ],
    expected=lambda weights: causal_softmax(weights.log()),  # the mask before the softmax
    properties={
        "each row sums to 1": lambda found, weights: np.allclose(found.sum(-1), 1),
        "the first word sees only itself": lambda found, weights: (found[..., 0, 0] == 1).all(),
    },
)

# %% [markdown]
# Surprisingly, `hide_future` gives the same weights as the mask before the softmax. The softmax
# divides the exponentials of a row by their sum. `hide_future` then divides the remaining weights
# by their own sum, and the first sum cancels. What is left are the remaining exponentials, divided
# by the sum of the remaining exponentials. In practice, the mask still comes first: if nearly all
# the weight of a row is on the future, removing it after the softmax leaves little more than
# rounding errors.
#
# Now suppose that you are given attention as a **black box**. You can call it, but you cannot look
# inside.


# %%
class BlackBox:
    def __init__(self, softmax):
        self._softmax = softmax

    def _weights(self, query, key):
        return self._softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]))

    def __call__(self, query, key, value):
        return self._weights(query, key) @ value


boxes = BlackBox(lambda scores: mt.softmax(scores, -1)), BlackBox(causal_softmax)

# %% [markdown] tags=["your-turn"]
# ## Your turn: read the weights of a black box
#
# Write `weights_of(attend, query, key)`. `attend(query, key, value)` returns the context, and you
# may call it once, with values of your choice. `query` has the shape (..., query, d_k) and `key`
# (..., key, d_k). Return the weights that `attend` uses inside, of shape (..., query, key). (Do not
# use `attend._weights`.)
#
# *Hint:* The context is $\sum_j w_j v_j$. For which vectors $v_j$ can you read all the $w_j$ from
# this sum? `mt.eye(n, dtype=key.dtype)` is the identity matrix, and `expand` repeats it along the
# leading axes.


# %% tags=["answer"]
def weights_of(attend, query, key):
    """Return the weights that the function attend computes, shape (..., query, key)."""
    keys = key.shape[-2]
    one_hot = mt.eye(keys, dtype=key.dtype)  # key j has the value (0, ..., 1, ..., 0)
    values = one_hot.expand(*key.shape[:-1], keys)
    return attend(query, key, values)


# %% tags=["check"]
check(
    weights_of,
    cases=[
        (boxes[0], mt.randn(3, 5), mt.randn(7, 5)),
        (boxes[1], mt.randn(2, 5, 3), mt.randn(2, 5, 3)),
        (boxes[0], mt.randn(2, 1), mt.randn(1, 1)),
    ],
    expected=lambda attend, query, key: attend._weights(query, key),
    properties={
        "each row sums to 1": lambda weights, *_: np.allclose(weights.sum(-1), 1),
    },
)

# %% [markdown]
# ## Detective work: a lecture's example
#
# The GRID deck ("Self attention details", "Look ahead Mask") shows the same computation for the
# words "Hi how are you": a grid of scores, its softmax, and the result with a mask. Do its numbers
# follow from the formula? We check three things: the shapes, the order of the scores (a softmax
# keeps it), and the ratios of the weights.
#
# **The formula.** The deck writes $Q = W^Q X$ and then $\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$.
# These two formulas belong to different conventions. In the first, the words are the **columns** of
# $X$. In the second, they are the rows, as in our example.

# %%
rows_q, rows_k = X @ W_q, X @ W_k  # words as rows: (word, d_k)
columns_q, columns_k = W_q.T @ X.T, W_k.T @ X.T  # words as columns: (d_k, word)
print("columns: Q K^T compares features with features, for example", (columns_q @ columns_k.T)[0])
print("columns: Q^T K compares words with words                   ", (columns_q.T @ columns_k)[0])
print("rows:    Q K^T, the same scores                            ", (rows_q @ rows_k.T)[0])
assert (columns_q.T @ columns_k == scores).all() and (rows_q @ rows_k.T == scores).all()
assert not np.allclose(columns_q @ columns_k.T, scores)

# %% [markdown]
# **The scores.** This is the deck's grid. Each row belongs to a query, each column to a key.

# %%
DECK_WORDS = ["Hi", "how", "are", "you"]
GRID = np.array([[98, 27, 10, 12], [27, 89, 31, 67], [10, 31, 91, 54], [12, 67, 54, 92.0]])
print("symmetric:", bool((GRID == GRID.T).all()))
print("our example, with separate W_q and W_k:  symmetric:", np.allclose(scores, scores.T))
print("our example, with W_q instead of W_k:    symmetric:", np.allclose(Q @ Q.T, (Q @ Q.T).T))
assert (GRID == GRID.T).all() and not np.allclose(scores, scores.T)

# %% [markdown]
# First finding: **the grid is symmetric.** The score of "Hi" for "you" equals that of "you" for
# "Hi". Two separately learned matrices would hardly produce such a grid, but equal matrices,
# $W^K = W^Q$, always do. So it is an unfortunate example: it hides which axis belongs to the query,
# and a softmax along the wrong axis gives the same numbers, transposed.
#
# **The softmax.** The deck does not give $d_k$, and its grid of scaled scores is empty. With
# $d_k = 64$, the size of a head in "Attention Is All You Need" (arXiv:1706.03762v7, section 3.2.2),
# we get:

# %%
DECK_WEIGHTS = np.array(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
)
scaled_grid = GRID / np.sqrt(64)
deck_softmax = softmax(scaled_grid)
print(f"{'':6}{'scaled scores':34}{'softmax':28}the deck's softmax")
for word, *rows in zip(DECK_WORDS, scaled_grid, deck_softmax, DECK_WEIGHTS, strict=True):
    print(f"{word:6}{rows[0]!s:34}{rows[1]!s:28}{rows[2]}")
assert np.diag(deck_softmax).min() > 0.93  # the deck's largest weight is 0.7

# %% [markdown] tags=["your-turn"]
# ## Your turn: find the divisor
#
# The weights in the deck are much closer to uniform than those that we get for $d_k = 64$. Did the
# author divide by a different number? You can compute the divisor from the scores and the weights,
# without knowing $d_k$.
#
# Write `divisor(scores, weights)` for NumPy arrays of shape (row, key). Each row of `weights` is
# $\mathrm{softmax}(s / c)$, where $s$ is the corresponding row of `scores` and $c > 0$ is the
# divisor of this row. Return the divisors, an array of shape (row,). In each row, at least two
# scores are different.
#
# *Hint:* Take two keys of a row. What is the quotient of their weights, and what is its logarithm?
# The largest score has the largest weight, and the smallest score the smallest.


# %% tags=["answer"]
def divisor(scores, weights):
    """Return the number c of each row for which weights = softmax(scores / c), shape (row,)."""
    spread = scores.max(axis=-1) - scores.min(axis=-1)
    ratio = weights.max(axis=-1) / weights.min(axis=-1)
    return spread / np.log(ratio)


# %% tags=["check"]
check(
    divisor,
    cases=[
        (rows, softmax(rows / c))
        for rows, c in ((rng.normal(size=(2, 3)), 1), (rng.normal(size=(5, 7)), 0.2), (GRID, 8))
    ],
    expected=lambda scores, weights: [
        np.polyfit(np.log(w), s, deg=1)[0] for s, w in zip(scores, weights, strict=True)
    ],
    properties={
        "softmax(scores / divisor) gives the weights": lambda c, scores, weights: np.allclose(
            softmax(scores / c[:, None]), weights
        ),
    },
)

# %% [markdown]
# Each **pair** of keys gives the divisor: $c = (s_a - s_b) / \log(w_a / w_b)$. If the weights come
# from the scores, all pairs of a row give the same $c$, up to rounding. The next cell uses up to
# four pairs from each row of the deck.

# %%
suspects = []
for i, word in enumerate(DECK_WORDS):
    for a, b in ((0, 1), (1, 2), (1, 3), (2, 3)):
        if DECK_WEIGHTS[i, a] == DECK_WEIGHTS[i, b]:
            continue  # equal weights after rounding: no information
        c = (GRID[i, a] - GRID[i, b]) / np.log(DECK_WEIGHTS[i, a] / DECK_WEIGHTS[i, b])
        pair = f"{DECK_WORDS[a]} and {DECK_WORDS[b]}"
        note = "  negative: the larger score has the smaller weight" if c < 0 else ""
        print(f"row {word:4} {pair:12} divisor {c:6.1f}{note}")
        suspects += [(word, pair)] if c < 0 else []
assert suspects == [("how", "are and you"), ("are", "how and you")]

# %% [markdown]
# Second finding: **two rows of weights contradict their scores**, for every $d_k$, because division
# by a positive number and the softmax both keep the order of the scores. But the deck's weights are
# rounded. To be fair, the next cell prints, for each row, the range of $d_k$ for which all four
# weights round to the deck's weights.

# %%
roots = np.linspace(1, 400, 40_000)  # sqrt(d_k), up to d_k = 160,000
for i, word in enumerate(DECK_WORDS):
    rounded = softmax(GRID[i] / roots[:, None]).round(1)  # (root, key)
    fits = roots[(rounded == DECK_WEIGHTS[i]).all(axis=1)]
    found = f"{fits.min() ** 2:,.0f} to {fits.max() ** 2:,.0f}" if len(fits) else "none"
    print(f"row {word:4} the deck's weights sum to {DECK_WEIGHTS[i].sum():.1f}   d_k: {found}")
    assert (len(fits) > 0) == (word == "Hi")

# %% tags=["plot"]
figure = new_figure(8, 4.2)
left, right = figure.subplots(1, 2, sharey=True)
roots = np.geomspace(2, 200, 200)
for axes, i in ((left, 0), (right, 1)):
    curves = softmax(GRID[i] / roots[:, None])
    for j, (colour, style) in enumerate(zip(COLOURS, ["-", "--", "-.", ":"], strict=False)):
        label = f"{DECK_WORDS[j]}: score {GRID[i, j]:.0f}, deck {DECK_WEIGHTS[i, j]}"
        axes.semilogx(roots, curves[:, j], style, color=colour, label=label)
        axes.plot(230, DECK_WEIGHTS[i, j] + 0.012 * (j - 1.5), "D", color=colour, ms=6)
    axes.set(xlabel="divided by", title=f'row "{DECK_WORDS[i]}"')
    axes.axvline(8, color="0.7", linewidth=1)
    ticks = [2, 8, 20, 50, 100, 230]
    axes.set_xticks(ticks, [*ticks[:-1], "deck"])
    axes.minorticks_off()
    legend = dict(frameon=False, fontsize=8, handlelength=1.8, columnspacing=1, ncol=2)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), **legend)
    axes.spines[["top", "right"]].set_visible(False)
left.set_ylabel("weight")
show(figure, "right: the curves keep the order of the scores, but the diamonds (the deck) do not")

# %% [markdown]
# **The look-ahead mask.** The deck continues with a decoder that may not look ahead ("Look ahead
# Mask"): it adds a mask of 0 and $-\infty$ to its "scaled scores" and applies a second softmax.
# Look at these "scaled scores": they are the **weights** of the table above, the output of the
# first softmax. (The rows are now labeled `<start> I am fine`, but the numbers are still those of
# "Hi how are you".)

# %%
DECK_RESULT = [[1], [0.37, 0.62], [0.26, 0.31, 0.43], [0.21, 0.26, 0.26, 0.26]]
mask = np.triu(np.full((4, 4), -np.inf), 1)  # -inf above the diagonal, 0 elsewhere
twice = softmax(DECK_WEIGHTS + mask)
print("deck          recomputed   rounded  truncated  the deck has")
verdicts = []
for i, row in enumerate(DECK_RESULT):
    for deck, ours in zip(row, twice[i], strict=False):
        cut, rounded = np.floor(ours * 100) / 100, round(ours, 2)
        verdict = "rounded" if deck == rounded else "truncated"
        verdicts.append(verdict)
        same = "" if cut != rounded else "  (both)"
        print(f"{deck:4.2f} {ours:19.4f} {rounded:9.2f} {cut:9.2f}   {verdict}{same}")
        assert deck in (cut, rounded)
    print(f"      the deck's row sums to {sum(row):.2f}")
assert verdicts.count("truncated") == 2

# %% [markdown]
# So the deck's masked weights follow from the formula, but the formula was applied to the wrong
# input. Two of these weights, 0.37 and 0.31, are truncated, while the others are rounded. (Rounded,
# these two would be 0.38 and 0.32.) Therefore the second row sums to 0.99.
#
# ## What goes wrong when the softmax is applied twice
#
# Third finding: **the deck takes a softmax of a softmax**. Is that bad? Each row still sums to 1,
# and the order of its weights does not change.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# A query has the score 50 for one of 100 keys and 0 for all others. After one softmax this key has
# the weight 1.000. What is its weight after a second softmax? Write down a number, then run the
# next cell.

# %%
print("keys   largest weight possible   scores of 50 and 0: once   twice")
for keys_count in (2, 4, 10, 100, 1000):
    limit = np.e / (np.e + keys_count - 1)
    sharp = np.zeros(keys_count)
    sharp[0] = 50.0  # a very clear preference
    once, again = softmax(sharp).max(), softmax(softmax(sharp)).max()
    print(f"{keys_count:4} {limit:25.3f} {once:26.3f} {again:7.3f}")
    assert once > 0.999 and again <= limit + 1e-9
    random_rows = softmax(rng.normal(0, 20, size=(1000, keys_count)))
    assert softmax(random_rows).max() <= limit + 1e-9

# %% [markdown]
# The query clearly prefers one of the 100 keys, but this key gets less than 3 % of the weight.
# Weights are between 0 and 1, so the largest difference in the second softmax is 1. With $n$ keys
# no weight can exceed
#
# $$\frac{e^1}{e^1 + (n - 1)\,e^0} = \frac{e}{e + n - 1},$$
#
# however strongly the query prefers its key. Attention can no longer select one key.
#
# ## The corrected example
#
# Now we divide the scores by $\sqrt{d_k}$, mask them, apply **one** softmax and then average the
# values. The grid is the same, and $d_k$ is again 64.

# %%
right = softmax(scaled_grid + mask)
print(f"{'':6}{'one softmax, after the mask':34}the deck's way")
for word, once, deck in zip(DECK_WORDS, right, twice, strict=True):
    print(f"{word:6}{once!s:34}{deck}")
assert np.allclose(right, causal_softmax(mt.tensor(scaled_grid)).numpy())
assert right[1, 1] > 0.99 and twice[1, 1] < 0.63

# %% tags=["plot"]
figure = new_figure(8, 5.6)
grids = {
    "scores": (GRID, 98),
    "divided by 8": (scaled_grid, 98 / 8),
    "softmax": (deck_softmax, 1),
    "the deck's softmax": (DECK_WEIGHTS, 1),
    "masked, one softmax": (right, 1),
    "the deck's second softmax": (twice, 1),
}
panels = figure.subplots(2, 3).T.reshape(-1)
for axes, (title, (grid, top)) in zip(panels, grids.items(), strict=True):
    draw_grid(axes, grid, top, DECK_WORDS, "{:.0f}" if top == 98 else "{:.2f}")
    axes.set_title(title, fontsize=10)
show(figure, "middle and right: the deck's weights (below) are more even than correct ones (above)")

# %% [markdown]
# ## In the library

# %%
np.set_printoptions(precision=8, suppress=False)  # NumPy's default
where(
    mt.nn.functional.scaled_dot_product_attention,
    mt.ops.attention.definition.attention_definition,
    mt.ops.attention.fused.Attention,
    mt.nn.MultiheadAttention,
)

# %% [markdown]
# ## Exercise
#
# Repeat the example with three separate matrices: draw $W^Q$, $W^K$ and $W^V$ (64 x 64, entries of
# variance 1/64) and four word vectors of 64 standard normal numbers. Compute scores, scaled scores,
# weights and contexts step by step, with words as rows. You are done when your contexts equal
# `mt.nn.functional.scaled_dot_product_attention(...)` to six digits, your grid of scores is not
# symmetric, and a softmax along the wrong axis gives different contexts. (What does a softmax along
# the wrong axis give for the deck's grid?)
#
# Then practice:
#
# ```sh
# mta exercise start 09
# mta exercise start 13
# mta exercise start 14
# mta exercise start 32
# mta exercise start 40
# ```
#
# ## Three questions
#
# 1. In the row "how" the deck gives "are" more weight than "you". Why can no $d_k$ give this
#    result?
# 2. With a second softmax over 100 keys, how large can the largest weight be? And over 4 keys?
# 3. In the masked result, the row "Hi" is 1, 0, 0, 0 both in the deck and in the corrected version.
#    Why does this row hide the mistake?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The score of "you" is 67, that of "are" is 31. Dividing both by the same positive number keeps
#    their order, and so does the softmax. In the figure the curves never cross.
# 2. The printed limits are 0.027 for 100 keys and 0.475 for 4.
# 3. Only one key is left after masking. The softmax of a single number is always 1, however often
#    it is applied.
