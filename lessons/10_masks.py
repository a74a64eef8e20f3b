# %% [markdown]
# # Masks: look-ahead, padding, and fully masked rows
#
# Some keys must be hidden from the queries: future tokens and padding. How do you remove them so
# that no information about them gets through? And why is it wrong to multiply by a mask of
# $-\infty$, as a lecture suggests?
#
# *Prerequisites:* softmax (lesson 5), queries, keys and values (lesson 8).

# %%
import numpy as np
from matplotlib import colormaps

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
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
# and $-\infty$ where it may not. For a model that writes one word after another (a decoder), the
# mask is a triangle. The weights printed below, for equal scores, agree with those in the deck
# KROL, "Masked Multi-Head attention" (`docs/decks.md` lists the decks).

# %%
n = 8
look_ahead = np.triu(np.full((n, n), -INF), 1)  # row: query, column: key; -inf above the diagonal
print("the mask of four tokens", look_ahead[:4, :4], sep="\n")
weights = softmax(np.zeros((n, n)) + look_ahead)
print("weights for equal scores", weights, sep="\n")
assert np.allclose(weights, np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None])

# %% [markdown] tags=["your-turn"]
# ## Your turn: a mask for the last tokens only
#
# A decoder that writes text token by token does not need all rows of the triangle. It has `keys`
# tokens so far, and only the last `queries` of them are new and serve as queries. Query 0 is then
# the token at position `keys - queries`, not the token at position 0.
#
# Write `visible(queries, keys)`. It returns a boolean tensor of shape (query, key) that is True
# where the query may look: at every token up to and including itself. `visible(4, 4)` is the
# triangle above, with True for 0 and False for $-\infty$.
#
# *Hint:* Make a column with the positions of the queries (`mt.arange` and `unsqueeze(1)`) and a row
# with the positions of the keys. If you compare the two, they broadcast to the full grid.


# %% tags=["answer"]
def visible(queries, keys):
    """Return a boolean mask for the last `queries` of `keys` tokens, shape (query, key)."""
    query = mt.arange(keys - queries, keys).unsqueeze(1)  # (query, 1)
    key = mt.arange(keys)  # (key,)
    return key <= query


# %% tags=["check"]
check(
    visible,
    cases=[(4, 4), (3, 7), (1, 5)],
    expected=lambda queries, keys: mt.ones(keys, keys).tril()[keys - queries :] > 0,
    properties={
        "the last query sees every key": lambda mask, queries, keys: mask[-1].all(),
        "every query sees itself": lambda mask, queries, keys: all(
            mask[i, keys - queries + i].item() for i in range(queries)
        ),
    },
)

# %% [markdown]
# ## Two tests of a mask
#
# Zeros in a plot of the weights prove little. A better test is to change the last token: **no
# earlier output may change**, not even in its last digit. A second test sums all earlier outputs
# and computes the gradient of the sum with respect to the last token. This gradient must be 0.


# %%
def attention(x, mask):
    """Compute self-attention step by step, with query = key = value = x (token, dim)."""
    scores = x @ x.T / x.shape[-1] ** 0.5 + mask  # (query, key)
    return mt.softmax(scores, -1) @ x


def leak(run, x):
    """Change the last token. Return the largest change of the outputs at earlier tokens."""
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
# To test the mask, check that a padded sentence gives **the same result as the sentence alone**.
#
# Each sentence needs its own mask. The masks have shape (batch, 1, key), so each mask applies to
# all queries of its sentence. Rows whose query is padding are computed, too, but their results are
# ignored.

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

# %% [markdown] tags=["your-turn"]
# ## Your turn: both masks at once
#
# A decoder reads a batch of padded sentences, so it needs the look-ahead mask *and* the padding
# mask: a query may look at a key only if both allow it.
#
# Write `decoder_attention(x, lengths)`: self-attention with query = key = value = x, where x has
# shape (batch, token, dim) and `lengths` is a list with the number of tokens in each sentence. The
# padding is at the end, and every sentence has at least one token.
#
# *Hint:* The look-ahead mask has shape (query, key), the padding mask (batch, 1, key). Combine two
# boolean masks with `&`, and use `scores.masked_fill(hidden, -INF)` with a mask that is True where
# a key is hidden.


# %% tags=["answer"]
def decoder_attention(x, lengths):
    """Return causal self-attention of padded sentences, shape (batch, token, dim)."""
    tokens, dim = x.shape[1:]
    place = mt.arange(tokens)
    past = place <= place.unsqueeze(1)  # (query, key)
    real = place < mt.tensor(lengths).reshape(-1, 1, 1)  # (batch, 1, key)
    scores = x @ x.swapaxes(-1, -2) / dim**0.5  # (batch, query, key)
    return mt.softmax(scores.masked_fill(~(past & real), -INF), -1) @ x


# %% tags=["check"]
check(
    decoder_attention,
    cases=[(mt.randn(2, 5, 3), [3, 5]), (mt.randn(3, 7, 2), [1, 4, 7])],
    expected=lambda x, lengths: mt.nn.functional.scaled_dot_product_attention(
        *[x.unsqueeze(1)] * 3, mt.masks.causal(x.shape[1]) & mt.masks.padding(lengths)
    )[:, 0],
    properties={
        "the first token sees only itself": lambda y, x, lengths: np.allclose(
            y[:, 0].numpy(), x[:, 0].numpy()
        ),
        "a sentence alone gives the same result": lambda y, x, lengths: all(
            np.allclose(
                decoder_attention(x[i : i + 1, :length], [length])[0].numpy(), y[i, :length].numpy()
            )
            for i, length in enumerate(lengths)
        ),
    },
)

# %% [markdown]
# For real tokens the padding mask changes nothing here: padding at the end is in the future of
# every real token, so the look-ahead mask already hides it. The padding mask is needed in an
# encoder, which has no look-ahead mask, and for padding on the left.
#
# ## What does True mean? PyTorch uses both conventions
#
# A boolean mask has **opposite meanings** in two functions that you will use side by side:
#
# | mask | True means |
# | --- | --- |
# | `attn_mask` of `scaled_dot_product_attention` | visible: the query may attend to the key |
# | `attn_mask` and `key_padding_mask` of `nn.MultiheadAttention` | hidden |
#
# Both conventions in the table are PyTorch's, and the library follows them. (The FLOW deck,
# "PADDING", warns of the second one.) The next cell passes the same triangular mask to both
# functions. All tokens are zero vectors, so all scores are equal, and the weights show directly
# which keys are visible.

# %%
sdpa = mt.nn.functional.scaled_dot_product_attention
multihead = mt.nn.MultiheadAttention(4, num_heads=1, batch_first=True)
zeros, lower = mt.zeros(1, 3, 4), mt.ones(3, 3).tril() > 0
as_visible = sdpa(zeros, zeros, mt.eye(3).unsqueeze(0), attn_mask=lower)  # the weights times 1
with np.errstate(invalid="ignore"):
    _, as_hidden = multihead(zeros, zeros, zeros, attn_mask=lower)
_, negated = multihead(zeros, zeros, zeros, attn_mask=~lower)
print("the mask", lower.numpy(), sep="\n")
print("weights of scaled_dot_product_attention, True = visible", as_visible[0].numpy(), sep="\n")
print("weights of nn.MultiheadAttention, True = hidden", as_hidden[0].detach().numpy(), sep="\n")
assert as_hidden[0, 0, 0] == 0 and as_hidden[0, 0, 1:].sum() == 1  # only the future
assert np.isnan(as_hidden[0, 2].detach().numpy()).all()  # the last query has no key left
assert np.allclose(negated.detach().numpy(), as_visible.numpy())

# %% [markdown]
# With a look-ahead mask in the wrong convention, each query sees *only* the future. The last
# query has no key left, and its NaN is a lucky warning. A padding mask gives no warning at all:
# if it is inverted, all attention goes to the padding.
#
# The library's `Mask` avoids the confusion. Functions such as `from_attend` and `from_key_padding`
# say in their names what True means, and every layer accepts the result.

# %%
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

# %% tags=["plot"]
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
    "The rows of the look-ahead mask differ, those of the padding mask are all the same. With both "
    "masks, the rows of I, am and fine are the same as with the look-ahead mask alone.",
)

# %% [markdown]
# ## What goes wrong with masks: four mistakes
#
# **1. Multiplying instead of adding.** The FLOW deck ("MASKING") makes a triangle of $-\infty$ and
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
# * At allowed keys the deck's mask is 0, and multiplying by 0 sets their scores to 0. (A
#   multiplicative mask would have to be 1 there.)
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

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# To get rid of the NaN, someone puts $-10^9$ in place of $-\infty$ and still multiplies. The scores
# of the first query are 0.9, -0.4 and 0.3, and it may look only at key 0. Which three weights does
# it get? Write them down, then run the next cell.

# %%
finite = np.where(triangle == 0, 1.0, -1e9)
quiet = softmax(signed * finite)
print("multiplied by -1e9, both signs", quiet, sep="\n")
assert quiet[0, 1] == 1.0 and quiet[1, 2] == 1.0  # exactly the masked keys with a negative score

# %% [markdown]
# The weights are 0, 1 and 0: all attention goes **to the future**. $-0.4 \cdot -10^9$ is a large
# positive score, so the masked key wins. NaN was better, because you notice it. Here nothing looks
# wrong: each row sums to 1.

# %% tags=["plot"]
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
show(
    figure,
    "The cells above the orange line are the future. Only in the first panel are they empty while "
    "the rows sum to 1. The third panel puts a weight of 1 on the future; the rows of the fourth "
    "sum to less than 1.",
)

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
    print(f"scores {row!s:18} masked before {before}   after, rescaled {repaired}")
    assert np.allclose(repaired, before) == (row[2] < 1000)

# %% [markdown]
# **3. A row with no keys left.** If all keys of a query are masked, the softmax is undefined.
# Left padding combined with a look-ahead mask produces such rows, and so does an empty sentence.
# The next cell compares three ways to treat a query whose three keys are all masked:

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

# %% [markdown] tags=["your-turn"]
# ## Your turn: a softmax that survives empty rows
#
# Many models pass their mask as numbers to add: 0 where a key is visible and $-\infty$ where it is
# hidden. Write `safe_softmax(scores, bias)`, which returns the softmax of `scores + bias`, but
# weights of 0 in a row where every key is hidden. Neither the weights nor the gradient may contain
# NaN. Both arguments have shape (query, key).
#
# Replacing the NaN by 0 after the softmax is not enough: then the weights are correct, but the
# gradient still contains NaN, as above.
#
# *Hint:* `(bias == 0).any(-1, keepdim=True)` is True for the rows that have a key. Give an empty
# row harmless scores **before** the softmax, for example by not masking it at all, and remove its
# weights **afterwards**.


# %% tags=["answer"]
def safe_softmax(scores, bias):
    """Return the weights (query, key) of visible keys. Rows without visible keys are 0."""
    has_key = (bias == 0).any(-1, keepdim=True)  # (query, 1)
    bias = bias.masked_fill(~has_key, 0.0)  # an empty row is not masked
    return mt.softmax(scores + bias, -1) * has_key


# %% tags=["check"]
check(
    safe_softmax,
    cases=[
        (mt.randn(2, 3), mt.tensor([[0.0, 0.0, -INF], [-INF] * 3])),
        (mt.randn(3, 5), mt.tensor([[-INF] * 5, [0.0] * 5, [-INF, 0.0, 0.0, -INF, 0.0]])),
        (1000 * mt.randn(1, 7), mt.full((1, 7), -INF)),
    ],
    expected=lambda scores, bias: mt.ops.masked_softmax(scores, bias == 0),
    properties={
        "hidden keys have weight 0": lambda weights, scores, bias: (weights[bias < 0] == 0).all(),
        "a row sums to 1, or to 0 if it is empty": lambda weights, scores, bias: np.allclose(
            weights.sum(-1).numpy(), (bias == 0).any(-1).numpy()
        ),
    },
)

# %% [markdown]
# **4. A fill value of the wrong size.** In float16, $-10^9$ is out of range and becomes $-\infty$,
# so a fully masked row is NaN again. Some code uses $-100$, which hides a key only while the scores
# of the visible keys are much higher than $-100$.

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
#    writes nonsense. What went wrong?
# 2. Is it correct to mask the weights after the softmax and then to divide each row by its sum?
#    (Compare with what the softmax does with $-\infty$.)
# 3. The lesson compares three ways to treat a row with no keys left. Which one stops the training
#    at once, and which one goes unnoticed? Which printed numbers tell you?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The negative score of a masked key becomes $+10^9$ times its absolute value, so this key takes
#    all the weight (the printed 1s above the diagonal). In training the model reads the answer from
#    future tokens. When it generates text, these tokens do not exist yet.
# 2. On paper, yes. The common denominator cancels, which leaves the exponentials of the allowed
#    scores divided by their sum, as with $-\infty$. The first printed row confirms this. In
#    floating point the second row is 0 / 0, because the masked score of 1000 took all the weight
#    before it was removed.
# 3. Adding $-\infty$ gives NaN weights and a NaN gradient, so the loss is NaN in the next step at
#    the latest. Setting the scores to $-10^9$ gives 0.333 three times, without any warning.
