# %% [markdown]
# # Masks: look-ahead, padding, and fully masked rows
#
# Queries must not see some keys, namely future tokens and padding. How do you remove them so that
# no information about them gets through? And why is it wrong to multiply by a mask of $-\infty$, as
# a lecture suggests?
#
# *Prerequisites:* softmax (lesson 5), query, key, value (lesson 8).

# %%
import numpy as np
from matplotlib import colormaps

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.viz.style import new_figure

np.set_printoptions(precision=3, suppress=True)
mt.manual_seed(0)
INF = float("inf")


def softmax(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)


# %% [markdown]
# ## Remove keys before the softmax
#
# A key gets no weight if its score is $-\infty$, because $e^{-\infty} = 0$. The other keys share
# the total weight of 1. So the mask is **added** to the scores. It is 0 where the query may look
# and $-\infty$ where it may not. For a decoder the mask is a triangle. The weights printed below
# for equal scores are those of the deck KROL, "Masked Multi-Head attention" (`docs/decks.md` lists
# the decks).

# %%
n = 8
look_ahead = np.triu(np.full((n, n), -INF), 1)  # row: query, column: key; -inf above the diagonal
print("the mask of four tokens", look_ahead[:4, :4], sep="\n")
weights = softmax(np.zeros((n, n)) + look_ahead)
print("weights for equal scores", weights, sep="\n")
assert np.allclose(weights, np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None])

# %% [markdown]
# ## Two tests of a mask
#
# Zeros in a picture of the weights prove little. A better test is to change the last token: **no
# earlier output may change**, not even in its last digit. A second test computes the gradient of
# every earlier output with respect to that token: it must be 0.


# %%
def attention(x, mask):
    """Compute self-attention step by step, with query = key = value = x (token, dim)."""
    scores = x @ x.T / x.shape[-1] ** 0.5 + mask  # (query, key)
    return mt.softmax(scores, -1) @ x


def leak(run, x):
    """Return how far the outputs before the last one move when the last token changes."""
    changed = x.clone()
    changed[-1] = 5.0
    return (run(x) - run(changed))[:-1].abs().max().item()


def gradient_from_the_past(run, x):
    x = x.clone().requires_grad_()
    run(x)[:-1].sum().backward()
    return abs(x.grad.numpy()[-1]).max()


x = mt.randn(6, 8, dtype=mt.float64)
causal = mt.tensor(np.triu(np.full((6, 6), -INF), 1))
for name, run in (
    ("no mask", lambda x: attention(x, mt.zeros(6, 6, dtype=mt.float64))),
    ("look-ahead mask", lambda x: attention(x, causal)),
):
    moved, slope = leak(run, x), gradient_from_the_past(run, x)
    print(f"{name:16} earlier outputs move by {moved:.3f}, their gradient is {slope:.3f}")
    assert (moved == 0 and slope == 0) == (name == "look-ahead mask")

# %% [markdown]
# ## Padding
#
# Sentences in a batch differ in length, so short ones are padded. No query may see the padded keys.
# The test is that a padded sentence must give **the same result as the sentence alone**.
#
# Each sentence needs its own mask. The masks have shape (batch, 1, key) and are repeated for all
# queries. Rows whose query is padding are computed and ignored.

# %%
lengths = [3, 5]
batch = mt.randn(2, 5, 8, dtype=mt.float64)  # (sentence, token, dim); sentence 0 has 2 pads
attend = mt.arange(5) < mt.tensor(lengths).reshape(2, 1)  # True where there is a token
print(attend)
bias = mt.tensor(np.where(attend.numpy(), 0.0, -INF)[:, None, :])  # (2, 1, 5)

scores = batch @ batch.swapaxes(-1, -2) / 8**0.5  # (sentence, query, key)
padded = mt.softmax(scores + bias, -1) @ batch
alone = attention(batch[0, :3], mt.zeros(3, 3, dtype=mt.float64))
without = mt.softmax(scores, -1) @ batch
gap, gap_without = ((t[0, :3] - alone).abs().max().item() for t in (padded, without))
print(f"padded and alone differ by {gap:.1e} with the mask, by {gap_without:.2f} without")
assert gap < 1e-12 and gap_without > 0.1

# %% [markdown]
# **What does True mean?** PyTorch uses both conventions. In `key_padding_mask` True means *blocked*
# (the deck FLOW, "PADDING", warns of this). In the boolean `attn_mask` of
# `scaled_dot_product_attention` True means *may attend*. Confusing the two raises no error: here
# all attention would go to the padding. The library's `Mask` avoids the confusion, because its
# functions have names such as `from_attend` and `from_key_padding`.

# %%
sdpa = mt.nn.functional.scaled_dot_product_attention
right = sdpa(batch, batch, batch, attend.unsqueeze(1))
inverted = sdpa(batch, batch, batch, ~attend.unsqueeze(1))
heads = batch.unsqueeze(1)  # a Mask is (batch, head, query, key): here one head
as_mask = sdpa(heads, heads, heads, mt.masks.padding(lengths))
only_padding = (batch[0, 3:]).numpy()
for name, result in (("True = attend", right), ("inverted", inverted)):
    difference = (result[0, :3] - alone).abs().max().item()
    print(f"{name:14} differs from alone by {difference:.1e}")
print(mt.masks.causal(5) & mt.masks.padding(lengths))
assert np.allclose(right.numpy(), as_mask[:, 0].numpy())
assert np.allclose(right[0, :3].numpy(), alone.numpy())
assert (inverted[0].numpy() <= only_padding.max(axis=0) + 1e-9).all()  # a mean of padding

# %%
figure = mt.viz.masks_figure(
    {
        "look-ahead": mt.masks.causal(5),
        "padding, 3 of 5": mt.masks.padding([3], max_len=5).attend.expand(1, 1, 5, 5),
        "both": mt.masks.causal(5) & mt.masks.padding([3], max_len=5),
    },
    labels=["I", "am", "fine", "_", "_"],
    title="Which key each query may see",
)
show(
    figure,
    "look-ahead depends on the position, padding on the sentence; both masks must allow a key",
)

# %% [markdown]
# ## What goes wrong with masks: four mistakes
#
# **1. Multiplying instead of adding.** The deck FLOW ("MASKING") makes a triangle of $-\infty$ and
# says to *multiply* the scores by it, element by element. The next cell shows this for a positive
# score, a score of 0 and a negative one:

# %%
score = np.array([3.0, 0.0, -2.0])
with np.errstate(invalid="ignore"):
    print("score            ", score)
    print("score + -inf     ", score + -INF)
    print("score * -inf     ", score * -INF)
    print("score * 0        ", abs(score * 0.0), "  (an allowed key, where the mask is 0)")
    assert np.array_equal(score * -INF, [-INF, np.nan, INF], equal_nan=True)

# %% [markdown]
# * A positive score becomes $-\infty$, so its key is masked, as intended.
# * A **negative** score becomes $+\infty$: the forbidden key wins, and $\infty - \infty$ in the
#   softmax makes the row NaN.
# * A score of 0 becomes NaN.
# * For allowed keys, a factor of 0 sets all scores to 0. (So the factor must be 1 there.)
#
# As long as all scores are positive, masking seems to work. Real scores have both signs.

# %%
scores = np.array([[0.9, 0.4, 0.3], [0.2, 0.8, 0.5], [0.1, 0.6, 0.7]])
signed = np.array([[0.9, -0.4, 0.3], [0.2, 0.8, -0.5], [0.1, 0.6, 0.7]])
triangle = np.triu(np.full((3, 3), -INF), 1)
factors = np.where(triangle == 0, 1.0, -INF)  # the deck's triangle, with 1 for allowed keys
for name, grid in (("all scores positive", scores), ("both signs", signed)):
    added, multiplied = softmax(grid + triangle), softmax(grid * factors)
    print(f"{name}: added, multiplied")
    for rows in zip(added, multiplied, strict=True):
        print("   {!s:24} {}".format(*rows))
    same = np.array_equal(added, multiplied)
    assert same == (name == "all scores positive")
assert np.isnan(multiplied[:2]).all() and np.isfinite(multiplied[2]).all()

# %% [markdown]
# NaN is the better case, because you notice it. A large finite number in place of $-\infty$ gives
# no NaN, but attention goes **to the future**, with a weight of 1.

# %%
finite = np.where(triangle == 0, 1.0, -1e9)
quiet = softmax(signed * finite)
print("multiplied by -1e9, both signs", quiet, sep="\n")
assert quiet[0, 1] == 1.0 and quiet[1, 2] == 1.0  # exactly the masked keys with a negative score

# %%
panels = {
    "added -inf: correct": softmax(signed + triangle),
    "times -inf": multiplied,
    "times -1e9": quiet,
    "zeroed after softmax": np.tril(softmax(signed)),
}
figure = new_figure(8, 2.5)
for axes, (title, rows) in zip(figure.subplots(1, 4), panels.items(), strict=True):
    colours = colormaps["Blues"].with_extremes(bad="#f3d3bd")
    axes.imshow(rows, cmap=colours, vmin=0, vmax=1)
    for (i, j), weight in np.ndenumerate(rows):
        text = "NaN" if np.isnan(weight) else f"{weight:.2f}"
        ink = "white" if weight > 0.6 else "black"
        axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=10)
    axes.plot([0.5, 0.5, 1.5, 1.5, 2.5], [-0.5, 0.5, 0.5, 1.5, 1.5], color="#D55E00", linewidth=2)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=10)
show(figure, "weights for one grid of scores; the future is above the red line")

# %% [markdown]
# **2. Masking after the softmax.** Setting weights to 0 after the softmax leaves rows that sum to
# less than 1. Worse, the denominator contains the masked scores, so the future affects the result.


# %%
def masked_afterwards(x):
    weights = mt.softmax(x @ x.T / x.shape[-1] ** 0.5, -1)
    return (weights * mt.tensor(np.tril(np.ones((6, 6))))) @ x


rows = softmax((x @ x.T / 8**0.5).numpy()) * np.tril(np.ones((6, 6)))
print("rows sum to", rows.sum(axis=1))
moved, slope = leak(masked_afterwards, x), gradient_from_the_past(masked_afterwards, x)
print(f"earlier outputs move by {moved:.3f}, their gradient is {slope:.3f}")
assert rows.sum(axis=1)[0] < 0.9 and moved > 0.01 and slope > 0.01

# %% [markdown]
# Can you repair this by dividing each row by its sum? Yes, unless a masked score is so large that
# the sum of the remaining weights is 0.

# %%
keep = np.array([1.0, 1.0, 0.0])
for row in ([0.2, 0.8, 3.0], [0.2, 0.8, 1000.0]):
    afterwards = softmax(np.array(row)) * keep
    with np.errstate(invalid="ignore"):
        repaired = afterwards / afterwards.sum()
    before = softmax(np.where(keep == 1, row, -INF))
    print(f"scores {row!s:18} masked before {before}   after, divided again {repaired}")
    assert np.allclose(repaired, before) == (row[2] < 1000)

# %% [markdown]
# **3. A row without any key left.** If all keys of a query are masked, the softmax is undefined.
# Left padding combined with a look-ahead mask produces such rows, and so does an empty sentence.
# Here are three ways to treat a query whose three keys are all masked:

# %%
scores = mt.tensor([[1.0, 2.0, -1.0]], dtype=mt.float64, requires_grad=True)
nothing = mt.tensor([[False, False, False]])
ways = {
    "scores + -inf": lambda s: mt.softmax(s + mt.tensor([[-INF] * 3], dtype=mt.float64), -1),
    "set to -1e9": lambda s: mt.softmax(s.masked_fill(~nothing, -1e9), -1),
    "masked_softmax": lambda s: mt.ops.masked_softmax(s, nothing),
}
cotangent = mt.tensor([[1.0, 0.0, 0.0]], dtype=mt.float64)
results = {}
for name, way in ways.items():
    scores.grad = None
    with np.errstate(invalid="ignore"):
        weights = way(scores)
        weights.backward(cotangent)
    results[name] = weights.detach().numpy()[0]
    print(f"{name:15} weights {results[name]!s:22} gradient {scores.grad.numpy()[0]}")
    assert np.isnan(scores.grad.numpy()).all() == (name == "scores + -inf")
assert np.isnan(results["scores + -inf"]).all()
assert np.allclose(results["set to -1e9"], 1 / 3)  # attends to everything it must not see
assert (results["masked_softmax"] == 0).all()

# %% [markdown]
# Adding $-\infty$ shows the problem, but the NaN spreads: ignoring the row later does not help,
# because $0 \cdot \mathrm{NaN}$ is NaN. Using $-10^9$ hides the problem and gives a wrong result,
# the mean of all forbidden values. The library's attention returns weights of zero, with a zero
# gradient. (`softmax` itself gives NaN, as PyTorch's does.)

# %%
kept_rows = mt.tensor([[1.0], [0.0]], dtype=mt.float64)  # keep row 0, ignore row 1
allowed = mt.tensor([[True, True, False], [False, False, False]])
for name in ("softmax of -inf", "masked_softmax"):
    scores = mt.randn(2, 3, dtype=mt.float64, requires_grad=True)
    with np.errstate(invalid="ignore"):
        if name == "masked_softmax":
            weights = mt.ops.masked_softmax(scores, allowed)
        else:
            weights = mt.softmax(scores + mt.tensor(np.where(allowed.numpy(), 0, -INF)), -1)
        loss = (weights * kept_rows * mt.tensor([[1.0, 2.0, 3.0]], dtype=mt.float64)).sum()
        loss.backward()
    poisoned = np.isnan(scores.grad.numpy()).any()
    print(f"{name:16} loss {loss.item():6.3f}   NaN in the gradient: {poisoned}")
    assert np.isnan(loss.item()) == (name == "softmax of -inf")

# %% [markdown]
# **4. A fill value that is not negative enough.** $-10^9$ is out of range for float16 and becomes
# $-\infty$. Some code uses $-100$, which is enough only while scores stay small.

# %%
with np.errstate(over="ignore"):
    half = np.array(-1e9).astype(np.float16)
print("-1e9 in float16:", half)
assert np.isinf(half)
for fill in (-100.0, -1e9):
    for allowed_score in (0.0, -120.0):
        row = softmax(np.array([allowed_score, fill]))
        print(f"fill {fill:6.0e}, allowed score {allowed_score:5.0f}: masked key gets {row[1]:.3f}")
        assert (row[1] > 0.5) == (fill == -100 and allowed_score == -120)

# %% [markdown]
# ## In the library

# %%
np.set_printoptions(precision=8, suppress=False)  # NumPy's default
where(
    mt.masks.Mask,
    mt.masks.causal,
    mt.masks.padding,
    mt.masks.from_key_padding,
    mt.ops.masked_softmax,
    mt.ops.attention.mask.causal_bias,
)

# %% [markdown]
# ## Exercise
#
# Build the mask for a batch of two sentences that are padded on the **left** (lengths 3 and 5,
# padded to 5) and decoded from left to right. Which rows have no key left? Compute attention with
# `mt.ops.masked_softmax`, and with a softmax over scores filled with `-1e9`. You are done when the
# rows of real tokens equal those of the sentence alone in both cases, when the rows without a key
# are 0 in the first case, and when you can say what values they have in the second case and what
# harm these values could do.
#
# Then practice:
#
# ```sh
# mta exercise start 16
# mta exercise start 17
# mta exercise start 24
# ```
#
# ## Three questions
#
# 1. A model is trained with a look-ahead mask that multiplies the scores by a triangle of 1 and
#    -1e9. The loss falls far below that of a correct model, no NaN appears, but the trained model
#    writes nonsense. What happens?
# 2. Is it correct to mask the weights after the softmax and then to divide each row by its sum?
#    (Compare with what the softmax does with $-\infty$.)
# 3. One of the three treatments of a row without any key left stops the training at once, and one
#    is never noticed. Which ones, and which printed numbers show it?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. A masked key with a negative score ends up with $+10^9$ times its absolute value, so it takes
#    all the weight (the printed 1s above the diagonal). In training the model reads the answer from
#    future tokens. When it generates text, these tokens do not exist yet.
# 2. On paper, yes. The common denominator cancels, which leaves the exponentials of the allowed
#    scores divided by their sum, as with $-\infty$. The first printed row confirms this. In
#    floating point the second row is 0 / 0, because the masked score of 1000 took all the weight
#    before it was removed.
# 3. Adding $-\infty$ gives NaN weights and a NaN gradient, so the loss is NaN in the next step.
#    Setting the scores to $-10^9$ gives 0.333 three times, without any warning.
