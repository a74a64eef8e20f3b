# %% [markdown]
# # Query, key, value: a worked example, number by number
#
# A lecture shows attention on the words "Hi how are you". It scales a grid of scores, applies a
# softmax and masks the result. Which of its numbers follow from the formula, and which do not?
#
# *Prerequisites:* softmax (lesson 5), attention as a weighted mean (lesson 7). The lecture is the
# deck GRID, "Self attention details" and "Look ahead Mask"; `docs/decks.md` lists the decks.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.viz.style import COLOURS, new_figure

np.set_printoptions(precision=3, suppress=True)
WORDS = ["Hi", "how", "are", "you"]


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# %% [markdown]
# ## A soft dictionary
#
# A dictionary compares a **query** with its **keys** and returns the **value** of the matching key.
# Attention compares by a dot product and returns the mean of all values, weighted by how well their
# keys match. If you sharpen the comparison, attention becomes a dictionary.

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
# ## Where queries, keys and values come from: two conventions
#
# Queries, keys and values are computed from the words by learned matrices. The deck GRID ("Self
# attention details") writes $Q = W^Q X$ and then $\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$. These
# two formulas belong to different conventions. In the first, the words are the **columns** of $X$.
# In the second, they are the rows.

# %%
rng = np.random.default_rng(0)
n, d_model, d_k = 4, 6, 3
X = rng.normal(size=(d_model, n))  # a column for each word
W_Q, W_K = rng.normal(size=(d_k, d_model)), rng.normal(size=(d_k, d_model))
Q, K = W_Q @ X, W_K @ X  # (d_k, n)
rows_Q, rows_K = X.T @ W_Q.T, X.T @ W_K.T  # (n, d_k): the convention of the paper and of code
print("columns: Q K^T ", (Q @ K.T).shape, " compares features with features")
print("columns: Q^T K ", (Q.T @ K).shape, " compares words with words")
print("rows:    Q K^T ", (rows_Q @ rows_K.T).shape, " the same numbers")
assert (Q @ K.T).shape == (d_k, d_k) and np.allclose(Q.T @ K, rows_Q @ rows_K.T)

# %% [markdown]
# ## The grid of scores
#
# This is the deck's grid of scores. Each row belongs to a query, each column to a key.

# %%
GRID = np.array([[98, 27, 10, 12], [27, 89, 31, 67], [10, 31, 91, 54], [12, 67, 54, 92.0]])
print("symmetric:", bool((GRID == GRID.T).all()))
print("with separate W_Q and W_K, as above,   symmetric:", np.allclose(Q.T @ K, (Q.T @ K).T))
print("with W_K = W_Q,                        symmetric:", np.allclose(Q.T @ Q, (Q.T @ Q).T))
assert (GRID == GRID.T).all() and not np.allclose(Q.T @ K, (Q.T @ K).T)

# %% [markdown]
# First finding: **the grid is symmetric.** The score of "Hi" for "you" equals that of "you" for
# "Hi". Two separately learned matrices would hardly produce such a grid, but $W^K = W^Q$ does. So
# it is an unfortunate example: it hides which axis belongs to the query, and a softmax along the
# wrong axis gives the same numbers, transposed.
#
# But the symmetry helps us. A symmetric matrix without negative eigenvalues equals $Q Q^\top$ for
# some $Q$, so we can find queries and keys with exactly these scores and compute the next steps.
# (We pad them with zeros to $d_k = 64$, the size of a head in the paper.)

# %%
eigenvalues, vectors = np.linalg.eigh(GRID)
print("eigenvalues", eigenvalues)
Q = np.zeros((4, 64))  # (word, d_k)
Q[:, :4] = vectors * np.sqrt(eigenvalues)
K = Q
assert eigenvalues.min() > 0 and np.allclose(Q @ K.T, GRID)

# %% [markdown]
# ## Divide by the square root of $d_k$, then apply the softmax
#
# The deck does not give $d_k$, and its grid of scaled scores is empty. With $d_k = 64$ we get:

# %%
DECK_WEIGHTS = np.array(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
)
scaled = GRID / np.sqrt(64)
weights = softmax(scaled)
print(f"{'':6}{'scaled scores':34}{'softmax':28}the deck's softmax")
for word, *rows in zip(WORDS, scaled, weights, DECK_WEIGHTS, strict=True):
    print(f"{word:6}{rows[0]!s:34}{rows[1]!s:28}{rows[2]}")

V = mt.tensor(np.eye(4))  # one-hot values: the context then equals the weights
context = mt.nn.functional.scaled_dot_product_attention(mt.tensor(Q), mt.tensor(K), V)
assert np.allclose(context.numpy(), weights)  # the library agrees with the steps

# %% [markdown]
# The weights in the deck are much more even. Is this due to a different $d_k$? A softmax keeps the
# **order**: in each row the larger score has the larger weight, whatever the scores are divided by.
# So look for pairs in the deck where the order is reversed.

# %%
violations = []
for i, word in enumerate(WORDS):
    for a in range(4):
        for b in range(4):
            if GRID[i, a] > GRID[i, b] and DECK_WEIGHTS[i, a] < DECK_WEIGHTS[i, b]:
                violations.append((word, WORDS[a], WORDS[b]))
                print(
                    f"row {word}: score {GRID[i, a]:.0f} ({WORDS[a]}) > {GRID[i, b]:.0f} "
                    f"({WORDS[b]}), but weight {DECK_WEIGHTS[i, a]} < {DECK_WEIGHTS[i, b]}"
                )
assert violations == [("how", "you", "are"), ("are", "you", "how")]

# %% [markdown]
# Second finding: **two rows of weights contradict their scores**, for every $d_k$. The next cell
# prints, for each row, the range of $d_k$ for which all four weights round to the deck's weights.

# %%
roots = np.linspace(1, 400, 40_000)  # sqrt(d_k), up to d_k = 160,000
for i, word in enumerate(WORDS):
    rounded = softmax(GRID[i] / roots[:, None]).round(1)  # (root, key)
    fits = roots[(rounded == DECK_WEIGHTS[i]).all(axis=1)]
    found = f"{fits.min() ** 2:,.0f} to {fits.max() ** 2:,.0f}" if len(fits) else "none"
    print(f"row {word:4} the deck's weights sum to {DECK_WEIGHTS[i].sum():.1f}   d_k: {found}")
    assert (len(fits) > 0) == (word == "Hi")

# %%
figure = new_figure(8, 4.2)
left, right = figure.subplots(1, 2, sharey=True)
roots = np.geomspace(2, 200, 200)
for axes, i in ((left, 0), (right, 1)):
    curves = softmax(GRID[i] / roots[:, None])
    for j, (colour, style) in enumerate(zip(COLOURS, ["-", "--", "-.", ":"], strict=False)):
        label = f"{WORDS[j]}: score {GRID[i, j]:.0f}, deck {DECK_WEIGHTS[i, j]}"
        axes.semilogx(roots, curves[:, j], style, color=colour, label=label)
        axes.plot(230, DECK_WEIGHTS[i, j] + 0.012 * (j - 1.5), "D", color=colour, ms=6)
    axes.set(xlabel="divided by", title=f'row "{WORDS[i]}"')
    axes.axvline(8, color="0.7", linewidth=1)
    ticks = [2, 8, 20, 50, 100, 230]
    axes.set_xticks(ticks, [*ticks[:-1], "deck"])
    axes.minorticks_off()
    legend = dict(frameon=False, fontsize=8, handlelength=1.8, columnspacing=1, ncol=2)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), **legend)
    axes.spines[["top", "right"]].set_visible(False)
left.set_ylabel("weight")
show(figure, 'the curves never cross, so no divisor gives the diamonds (the deck) in the row "how"')

# %% [markdown]
# ## The look-ahead mask
#
# The deck continues with a decoder that may not look ahead ("Look ahead Mask"): it adds a mask of 0
# and $-\infty$ to its "scaled scores" and applies a second softmax. Look at these "scaled scores":
# they are the **weights** of the table above, the output of the first softmax. (The rows are now
# labeled `<start> I am fine`, but the numbers are still those of "Hi how are you".)

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
# So these numbers follow from the formula, but the formula was applied to the wrong input. Two of
# them, 0.37 and 0.31, are truncated, while the others are rounded (rounded, these two are 0.38 and
# 0.32), so the second row sums to 0.99.
#
# ## What goes wrong when the softmax is applied twice
#
# Third finding: **the deck takes a softmax of a softmax**. Weights are between 0 and 1, so the
# largest difference in the second softmax is 1. With $n$ keys no weight can exceed
#
# $$\frac{e^1}{e^1 + (n - 1)\,e^0} = \frac{e}{e + n - 1},$$
#
# however strongly the query prefers its key. Attention can no longer select one key.

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
# ## The corrected example
#
# Now we divide the scores by $\sqrt{d_k}$, mask them, apply **one** softmax and then average the
# values. The grid is the same, and $d_k$ is again 64.

# %%
right = softmax(scaled + mask)
print(f"{'':6}{'one softmax, after the mask':34}the deck's way")
for word, once, deck in zip(WORDS, right, twice, strict=True):
    print(f"{word:6}{once!s:34}{deck}")
context = mt.nn.functional.scaled_dot_product_attention(
    mt.tensor(Q), mt.tensor(K), V, is_causal=True
)
assert np.allclose(context.numpy(), right)
assert right[1, 1] > 0.99 and twice[1, 1] < 0.63

# %%
figure = new_figure(8, 5.6)
grids = {
    "scores": (GRID, 98),
    "divided by 8": (scaled, 98 / 8),
    "softmax": (weights, 1),
    "the deck's softmax": (DECK_WEIGHTS, 1),
    "masked, one softmax": (right, 1),
    "the deck's second softmax": (twice, 1),
}
panels = figure.subplots(2, 3).T.reshape(-1)
for axes, (title, (grid, top)) in zip(panels, grids.items(), strict=True):
    axes.imshow(grid, cmap="Blues", vmin=0, vmax=top)
    for (i, j), number in np.ndenumerate(grid):
        text = f"{number:.0f}" if top == 98 else f"{number:.2f}"
        ink = "white" if number > 0.6 * top else "black"
        axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(4), WORDS)
    axes.set_yticks(range(4), WORDS)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=10)
show(figure, "left: scores; middle and right: the formula above, the deck below (rows are queries)")

# %% [markdown]
# Finally, the **values**. The weights say how much each word contributes, the values say what it
# contributes. Keys and values belong to the same words but need not be similar.

# %%
V = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])  # (word 4, features 2)
context = right @ V  # (query 4, key 4) @ (key 4, features 2)
for i, word in enumerate(WORDS):
    terms = " + ".join(f"{right[i, j]:.3f} v({WORDS[j]})" for j in range(i + 1))
    print(f"{word:4} = {terms} = {context[i]}")
assert (np.abs(context).sum(axis=1) <= 1 + 1e-9).all()  # inside the convex hull of the values

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
# `mt.nn.functional.scaled_dot_product_attention(...)` to six digits, your grid is not symmetric,
# and a softmax along the wrong axis gives other contexts. (What does a softmax along the wrong axis
# give for the deck's grid?)
#
# Then practice:
#
# ```sh
# mta exercise start 09
# mta exercise start 13
# mta exercise start 14
# mta exercise start 32
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
