# %% [markdown]
# # Attention on pixels
#
# Why cut an image into patches at all, instead of letting every pixel attend to every pixel? A
# memory calculation gives the answer. Patches are one way to save memory. Another is *local*
# attention: each pixel attends only to its neighborhood. How do you implement local attention, and
# what goes wrong at the border of the image?
#
# *Prerequisites:* queries, keys and values (lesson 8), masks (lesson 10), ViT (lesson 21).

# %%
import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.ops.windows import window_partition

F = mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## The memory calculation
#
# An image of $R \times R$ pixels has $R^2$ tokens, and one attention matrix has
# $R^2 \times R^2 = R^4$ entries of 4 bytes. The model in the COMP541 deck, "Idea #3: Standard
# Transformer on Pixels" (`docs/decks.md` lists the decks), has 48 layers with 16 heads each, and
# training keeps the attention weights of every head for the backward pass.


# %%
def size(entries):
    """Return the memory for `entries` numbers of 4 bytes, as text in a suitable unit."""
    value = 4 * entries
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} PiB"


matrices = 48 * 16
print("one token per       tokens   one matrix   48 layers of 16 heads")
for name, tokens in (
    ("pixel, R = 32", 32**2), ("pixel, R = 64", 64**2), ("pixel, R = 128", 128**2),
    ("pixel, R = 224", 224**2), ("16 x 16, R = 224", 14**2), ("14 x 14, R = 224", 16**2),
):  # fmt: skip
    print(f"{name:17} {tokens:8,} {size(tokens**2):>12} {size(matrices * tokens**2):>23}")
assert matrices * 128**4 * 4 == 768 * 2**30  # the 768 GB of the deck
assert 14**4 == 38_416 and size(14**4) == "150.1 KiB" and size(matrices * 14**4) == "112.5 MiB"
assert 224**4 == 16**4 * 14**4 and 16**4 == 65_536  # pixels have 65,536 times the entries
assert 1.010 < (197 / 196) ** 2 < 1.011  # with the class token
assert size(16**4) == "256 KiB" and size(matrices * 16**4) == "192 MiB"

# %% [markdown]
# These numbers agree with the COMP541 deck: 768 GB for 128 x 128 pixels, and 112 MB for patches of
# 16 x 16 pixels ("Vision Transformer (ViT)"). With the class token there are 197 tokens instead of
# 196, and the memory grows by one percent. Patches of $p \times p$ divide the number of tokens by
# $p^2$ and the size of the matrix by $p^4$, which is 65,536 for $p = 16$.
#
# Does a program really need memory proportional to $R^4$? We measure the memory of one head,
# without recording a graph for the backward pass.


# %%
def full_attention(query, key, value):
    # each (token, dim)
    scores = query @ key.transpose(0, 1) / query.shape[-1] ** 0.5  # (token, token)
    return mt.softmax(scores, -1) @ value


def peak(function, *inputs):
    with mt.no_grad(), mt.memory.track() as memory:
        function(*inputs)
    return memory.peak


sides = pick((8, 16, 32, 64), (8, 16, 32))
full_peaks = []
for side in sides:
    x = [mt.randn(side * side, 16) for _ in range(3)]
    full_peaks.append(peak(full_attention, *x))
    print(f"{side:2} x {side:2} pixels: peak {full_peaks[-1] / 2**20:8.2f} MiB")
growth = full_peaks[-1] / full_peaks[-2]
print(f"twice the side: {growth:.1f} times the memory")
assert 12 < growth < 16.5

# %% [markdown]
# ## Local attention
#
# In local attention each pixel is a query, and only the $k \times k$ pixels around it are its keys
# and values (deck COMP541, "Idea #2: Replace Convolution with Local Attention"). Like a
# convolution, it slides over the image. Unlike a convolution, it computes its weights from the
# content instead of learning them as parameters. `unfold` collects the neighborhood of every pixel.


# %%
def neighborhoods(x, k):
    """Return each pixel's neighborhood (pixel, k * k, channel), with zeros outside the image."""
    channels = x.shape[0]
    columns = F.unfold(x.unsqueeze(0), k, padding=k // 2)[0]  # (channel * k * k, pixel)
    return columns.reshape(channels, k * k, -1).permute(2, 1, 0)


def local_attention(query, key, value, k, masked=True):
    # query, key, value: (channel, row, column)
    channels, height, width = query.shape
    q = query.reshape(channels, -1).transpose(0, 1).unsqueeze(1)  # (pixel, 1, channel)
    keys, values = neighborhoods(key, k), neighborhoods(value, k)  # (pixel, k * k, channel)
    scores = (q * keys).sum(-1) / channels**0.5  # (pixel, k * k)
    if masked:  # positions outside the image are not keys
        inside = neighborhoods(mt.ones(1, height, width), k)[..., 0] > 0
        scores = mt.where(inside, scores, float("-inf"))
    weights = mt.softmax(scores, -1).unsqueeze(-1)  # (pixel, k * k, 1)
    return (weights * values).sum(1).transpose(0, 1).reshape(channels, height, width)


# %% [markdown]
# The result of `local_attention` must equal full attention with a mask that allows only the
# neighborhood. This test is reliable: if `local_attention` gathered the wrong neighbors, full
# attention would not repeat this mistake, because it knows the positions of the pixels only through
# the mask.


# %%
def near(height, width, k):
    """Return a bool array (pixel, pixel): True if row and column distance are at most k // 2."""
    row, column = np.divmod(np.arange(height * width), width)
    apart = [np.abs(a[:, None] - a[None, :]) <= k // 2 for a in (row, column)]
    return apart[0] & apart[1]


def masked_full(query, key, value, k):
    channels, height, width = query.shape
    q, kk, v = (x.reshape(channels, -1).transpose(0, 1) for x in (query, key, value))
    mask = mt.tensor(near(height, width, k))
    return F.scaled_dot_product_attention(q, kk, v, mask).transpose(0, 1).reshape(query.shape)


query, key, value = (mt.randn(4, 7, 9) for _ in range(3))
for k in (1, 3, 5):
    same = (local_attention(query, key, value, k) - masked_full(query, key, value, k)).abs()
    print(f"k = {k}: largest difference from masked full attention {same.max().item():.1e}")
    assert same.max().item() < 1e-5
assert (local_attention(query, key, value, 1) - value).abs().max().item() < 1e-6
print("k = 1 returns the values: each pixel sees only itself")

# %% [markdown] tags=["your-turn"]
# ## Your turn: a mask with gaps
#
# A wide neighborhood requires many scores. A *dilated* neighborhood is wide but has few keys: it
# takes only every `step`-th row and column. With $k = 3$ and `step = 4`, a pixel sees itself and 8
# pixels at a distance of 4.
#
# Write `dilated_mask(height, width, k, step)` with NumPy. Return a bool array of shape
# (pixel, pixel): True where the row distance and the column distance are both multiples of `step`
# and at most `step * (k // 2)`. With `step = 1`, the result is `near(height, width, k)`.
#
# *Hint:* Start as in `near`. Compute the rows and columns of all pixels, then two tables with the
# row distance and the column distance of each pair. `%` tells you which distances are multiples.


# %% tags=["answer"]
def dilated_mask(height, width, k, step):
    """Return a bool array (pixel, pixel) that is True where the first pixel sees the second."""
    row, column = np.divmod(np.arange(height * width), width)
    rows = np.abs(row[:, None] - row[None, :])  # (pixel, pixel)
    columns = np.abs(column[:, None] - column[None, :])
    is_near = (rows <= step * (k // 2)) & (columns <= step * (k // 2))
    return is_near & (rows % step == 0) & (columns % step == 0)


# %% tags=["check"]
check(
    dilated_mask,
    cases=[(5, 7, 3, 2), (7, 5, 5, 3), (3, 4, 5, 1), (1, 11, 3, 4)],
    expected=lambda height, width, k, step: np.array(
        [
            [
                abs(i // width - j // width) in range(0, step * (k // 2) + 1, step)
                and abs(i % width - j % width) in range(0, step * (k // 2) + 1, step)
                for j in range(height * width)
            ]
            for i in range(height * width)
        ]
    ),
    properties={
        "every pixel sees itself": lambda mask, *sizes: mask.diagonal().all(),
        "no pixel sees more than k * k pixels": lambda mask, height, width, k, step: (
            mask.sum(1).max() <= k * k
        ),
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: a sliding window for text
#
# Language models use local attention, too; Mistral 7B, for example, has a sliding window
# (arXiv:2310.06825v1, section 2). Write `window_attention(query, key, value, w)` for one head, with
# inputs of shape (token, dim): token $i$ sees the last $w$ tokens, $i - w + 1$ to $i$. Do not
# compute the full (token, token) matrix: gather the $w$ keys and values of each token, with shape
# (token, w, dim), as in `local_attention`. Positions before the first token are not keys.
#
# *Hint:* The positions of the keys, `places` of shape (token, w), are the sum of two `mt.arange`s,
# one with shape (token, 1) and one with shape (w,). Some positions are negative. Gather with
# `places.clamp(min=0)`, and set the scores of the negative positions to `-inf`.


# %% tags=["answer"]
def window_attention(query, key, value, w):
    """Return causal attention over the last w tokens, shape (token, dim)."""
    tokens, dim = query.shape
    places = mt.arange(tokens).unsqueeze(1) + mt.arange(-w + 1, 1)  # (token, w)
    keys, values = key[places.clamp(min=0)], value[places.clamp(min=0)]  # (token, w, dim)
    scores = (query.unsqueeze(1) * keys).sum(-1) / dim**0.5  # (token, w)
    weights = mt.softmax(mt.where(places >= 0, scores, float("-inf")), -1)
    return (weights.unsqueeze(-1) * values).sum(1)


# %% tags=["check"]
check(
    window_attention,
    cases=[
        (mt.randn(7, 3), mt.randn(7, 3), mt.randn(7, 3), 3),
        (mt.randn(11, 2), mt.randn(11, 2), mt.randn(11, 2), 1),
        (mt.randn(3, 5), mt.randn(3, 5), mt.randn(3, 5), 5),
    ],
    expected=lambda query, key, value, w: F.scaled_dot_product_attention(
        query, key, value,
        mt.tensor(np.tril(np.triu(np.ones((len(query), len(query)), bool), -w + 1))),
    ),
    properties={
        "the first token sees only itself": lambda y, query, key, value, w: np.allclose(
            y[0].numpy(), value[0].numpy()
        ),
        "values of 1 give 1": lambda y, query, key, value, w: np.allclose(
            window_attention(query, key, 0 * value + 1, w).numpy(), 1
        ),
    },
)  # fmt: skip

# %% [markdown]
# ## What local attention saves, and what it costs
#
# Local attention has $k^2 R^2$ scores instead of $R^4$, so their number is linear in the number of
# pixels. But `unfold` copies every key and value $k^2$ times. That is why local attention is slow
# on real machines, and why Swin uses windows that do not overlap (lesson 25).

# %%
k, local_peaks = 7, []
print("          scores: full     local 7 x 7   measured peak: full      local")
for side, full_peak in zip(sides, full_peaks, strict=True):
    x = [mt.randn(16, side, side) for _ in range(3)]
    local_peaks.append(peak(lambda q, kk, v: local_attention(q, kk, v, k), *x))
    megabytes = full_peak / 2**20, local_peaks[-1] / 2**20
    print(f"{side:3} x {side:3} {side**4:11,} {k * k * side**2:15,}", end="")
    print(f" {megabytes[0]:17.2f} MiB {megabytes[1]:6.2f} MiB")
growth = local_peaks[-1] / local_peaks[-2]
print(f"local, twice the side: {growth:.1f} times the memory")
assert 3 < growth < 5

# %% tags=["plot"]
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
all_sides = np.array([8, 16, 32, 64, 128, 224, 512])
curves = {
    "every pixel with every pixel": (all_sides**4, "#D55E00", "o-"),
    "every pixel with 7 x 7": (49 * all_sides**2, "#0072B2", "s-"),
    "patches of 16, all with all": ((all_sides / 16) ** 4, "#009E73", "^-"),
}
for name, (entries, colour, style) in curves.items():
    entries = np.where(entries >= 1, entries, np.nan)
    axis.loglog(all_sides, 4.0 * matrices * entries, style, color=colour, label=name)
axis.axhline(80 * 2**30, color="black", linestyle=":")
axis.text(8, 1.5 * 80 * 2**30, "memory of a large GPU (80 GiB)", fontsize=9)
axis.set_yticks([2**20, 2**30, 2**40], ["1 MiB", "1 GiB", "1 TiB"])
axis.set_xticks(all_sides, all_sides)
axis.minorticks_off()
axis.set(xlabel="side of the image, pixels", ylabel="weights of 48 layers, 16 heads")
axis.legend(frameon=False, fontsize=9)
axis.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Compare the slopes: patches (green) need far less memory than pixels (orange), but the two "
    "curves are equally steep. Only the curve of local attention (blue) is flatter.",
)

# %% [markdown]
# In the plot, using patches lowers the curve but does not change its slope; only local attention
# does. At 128 px, full attention on pixels already exceeds the memory of a GPU.
#
# ## How far does local attention see?
#
# One layer with $k = 5$ sees two pixels in each direction. The gradient shows how far several
# layers see: on which input pixels does the output in the middle depend?


# %%
def seen(layers, k=5, side=15):
    x = mt.randn(4, side, side, dtype=mt.float64, requires_grad=True)
    y = x
    for _ in range(layers):
        y = local_attention(y, y, y, k)
    y[:, side // 2, side // 2].sum().backward()
    return np.abs(x.grad.numpy()).max(0) > 0


fields = {layers: seen(layers) for layers in (1, 2, 3)}
for layers, field in fields.items():
    across = int(field.any(0).sum())
    print(f"{layers} layers of 5 x 5: the middle depends on {across} x {across} pixels")
    assert field.sum() == across**2 == (1 + 4 * layers) ** 2
print(f"layers to cross an image of 224 pixels: {223 / 2:.0f} with local, 1 with full attention")

# %% [markdown]
# ## What goes wrong without the mask at the border
#
# Suppose we leave out the mask at the border, so the zeros that `unfold` puts outside the image are
# keys and values like any others. In a convolution, such zeros are harmless.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Take values that are all 1, random queries and keys, and neighborhoods of 5 x 5. With the mask,
# every result is a weighted mean of ones, which is 1. What does `local_attention` without the mask
# return in the middle of the image, and in a corner, where 16 of the 25 positions are outside?
# Write down two numbers, then run the next cell.

# %%
right = local_attention(query, key, value, 5)
wrong = local_attention(query, key, value, 5, masked=False)
error = (right - wrong).abs().max(0).values  # (row, column)
print("difference at the middle", error[3, 4].item(), "  at a corner", round(error[0, 0].item(), 3))
ones = mt.ones(4, 7, 9)
print("values of 1 must give 1. Without the mask, row by row:")
sums = local_attention(query, key, ones, 5, masked=False)[0]
for row in sums.numpy():
    print("  ", *[f"{value:.2f}" for value in row])
assert error[2:-2, 2:-2].max().item() < 1e-6  # all neighbors are inside
assert error[0].min().item() > 0.01 and sums[0, 0].item() < 0.8

# %% [markdown]
# A key of zeros gets the score 0, and $e^0 = 1$ is a weight like any other. So border pixels give
# part of their attention to padding. If all scores were 0, a corner pixel would give only
# 9/25 = 0.36 of its attention to real pixels. In the middle nothing changes.

# %% tags=["plot"]
figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.9), layout="constrained")
titles = ("without the mask: error", "without the mask: sum of the weights inside")
for axis, values, title, limits in zip(
    axes, (error.numpy(), sums.numpy()), titles, ((0, None), (0, 1)), strict=True
):
    shown = axis.imshow(values, cmap="viridis", vmin=limits[0], vmax=limits[1])
    figure.colorbar(shown, ax=axis, shrink=0.8)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=10)
show(
    figure,
    "Look at the dark middle on the left and the bright middle on the right: only pixels near the "
    "border are wrong, so a test in the middle of an image finds nothing.",
)

# %% [markdown]
# ## In the library

# %%
where(F.unfold, F.scaled_dot_product_attention, window_partition, mt.memory.track)

# %% [markdown]
# ## Exercise
#
# Add a learned bias for each of the neighborhood's $k^2$ positions to the scores in
# `local_attention`, as Ramachandran et al. 2019 do with relative positions. You are done when you
# have shown two things. (1) With zero queries and keys, local attention is a convolution whose
# weights are the softmax of the bias (inner pixels agree with `F.conv2d` to within `1e-6`). (2)
# Rolling the image rolls the results of the inner pixels by the same amount.
#
# ## Three questions
#
# 1. By what factor does one attention matrix grow at 224 px if you use patches of 8 x 8 instead of
#    16 x 16 pixels?
# 2. Zero padding is correct for a convolution. Why is it wrong for attention, and which printed
#    numbers show where it is wrong?
# 3. Local attention of 5 x 5 is cheap. But how many layers does a model need to connect distant
#    pixels, and why do models with windows or patches need fewer?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The number of tokens grows by a factor of 4 and the matrix by a factor of 16: its size is
#    proportional to $1/p^4$, as in the memory calculation.
# 2. In a convolution, a weight times zero adds nothing, but in attention a zero key has the score 0
#    and takes weight from the other keys. The printed sums are 1 inside and less than 1 near the
#    border, with the minimum in a corner.
# 3. It needs many: each layer adds only 4 pixels to the width of the region that a pixel sees (5,
#    9, 13), so crossing an image takes more than a hundred layers. With patches, each token covers
#    16 x 16 pixels. With full attention, a token reaches every other token in a single layer; with
#    windows, it reaches every other token of its window.
