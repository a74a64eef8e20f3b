# %% [markdown]
# # Image GPT: pixels as words
#
# A slide asks: "Pixels as a sequence? Problem?" A GPT can read an image the way it reads text, one
# pixel after the other. What does it learn from images without labels, and how much computation
# does it need?
#
# *Prerequisites:* GPT (lesson 17), BERT (lesson 18). The slide is in the TAPASWI deck ("Vision
# Transformers: pixels as a sequence?"); `docs/decks.md` lists the decks. This lesson needs
# scikit-learn.

# %%
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.color_clusters import ColorClusters
from minitorch_attn.data.digits import digits_split
from minitorch_attn.data.linear_probe import probe_accuracy
from minitorch_attn.data.pixel_tables import NEIGHBORHOODS, pixel_table_bits
from minitorch_attn.generation import sample
from minitorch_attn.models.image_gpt import ImageGPT
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## The words: colors
#
# A GPT needs a vocabulary. A pixel with three channels of 256 levels can have 16 million colors,
# which is far too many. Image GPT (Chen et al. 2020, "Generative Pretraining from Pixels") selects
# 512 colors with k-means, and replaces each pixel with the nearest of them (section 3.2). For a
# sunset, eight colors are enough:

# %%
row, column = np.mgrid[0:48, 0:64] / 48
sky = np.stack([0.2 + 0.8 * row, 0.3 + 0.3 * row, 0.7 - 0.5 * row], -1)
sun = (row - 0.6) ** 2 + (column - 0.7) ** 2 < 0.04
picture = (255 * np.where(sun[..., None], [1.0, 0.9, 0.5], sky)).astype(np.uint8)[None]
palette = ColorClusters.fit(picture, num_clusters=8)
words = palette.encode(picture)
print("the picture as words:", words.shape, words[0, :8], "...")
error = np.abs(palette.decode(words, 48, 64).astype(int) - picture).mean()
print(f"mean error with 8 colors: {error:.1f} of 255 levels")
assert words.max() < 8 and error < 25

# %% tags=["plot"]
figure = new_figure(7, 2.2)
axes = figure.subplots(1, 3)
shown = [picture[0], *(
    ColorClusters.fit(picture, k).decode(ColorClusters.fit(picture, k).encode(picture), 48, 64)[0]
    for k in (8, 3)
)]  # fmt: skip
for axis, image, title in zip(axes, shown, ("all colors", "8 words", "3 words"), strict=True):
    axis.imshow(image)
    axis.set_title(title, fontsize=10)
    axis.set_axis_off()
show(figure, "The picture, with a vocabulary of 8 colors and with one of 3.")

# %% [markdown]
# ## The sentence: raster order
#
# The model reads the pixels row by row, like a page. It computes the probability of an image as a
# product of the probabilities of its pixels, each given all earlier pixels (Eq. 1), exactly as in
# lesson 17:
#
# $$p(x) = \prod_{i=1}^{n} p(x_i \mid x_1, \dots, x_{i-1})$$
#
# Our images are scikit-learn's handwritten digits. Each image has 8 x 8 pixels, here with 16 gray
# levels.

# %%
images, labels, test_images, test_labels = digits_split()
LEVELS = 16


def as_words(images):
    return np.rint(images.reshape(len(images), 64) * (LEVELS - 1)).astype(np.int64)


training, test = as_words(images), as_words(test_images)
print("a digit as a sentence:", *test[0, :24], "...")

# %% [markdown] tags=["your-turn"]
# ## Your turn: the inputs
#
# At position $i$, the model must predict pixel $i$ from the pixels before it. Write
# `inputs_of(pixels, start)` for ids (batch, pixel). It returns the ids that the model reads, of the
# same shape. The first one is the id `start`, because nothing comes before the first pixel.
#
# *Hint:* Pixel $i$ is read at position $i + 1$. Which pixel is never read?


# %% tags=["answer"]
def inputs_of(pixels, start):
    """Return the start token and all pixels but the last, of shape (batch, pixel)."""
    first = mt.full_like(pixels[:, :1], start)
    return mt.cat([first, pixels[:, :-1]], 1)


# %% tags=["check"]
check(
    inputs_of,
    cases=[(mt.tensor([[3, 1, 4], [1, 5, 9]]), 16), (mt.tensor([[7]]), 10)],
    expected=lambda pixels, start: mt.tensor(
        [[start, *row[:-1]] for row in pixels.numpy().tolist()]
    ),
    properties={
        "the last pixel is not read": lambda found, pixels, start: (
            (found[:, 1:] == pixels[:, :-1]).all() and (found[:, 0] == start).all()
        )
    },
)

# %% [markdown]
# ## How many bits does a good model need?
#
# A model that gives pixel $x_i$ the probability $p_i$ needs $-\log_2 p_i$ bits to store it. Sixteen
# equally likely levels cost 4 bits. With probabilities from a table that counts how often each
# level follows each combination of neighboring pixels, fewer bits are enough. Such a table is to
# images what an n-gram model is to text.

# %% [markdown] tags=["your-turn"]
# ## Your turn: bits per pixel
#
# Write `bits_per_pixel(logits, pixels)`: the mean of $-\log_2 p_i$ over all pixels of all images,
# for logits (batch, pixel, level) and ids (batch, pixel).
#
# *Hint:* `mt.log_softmax` gives natural logarithms. `gather` along the last axis needs an index
# with three axes.


# %% tags=["answer"]
def bits_per_pixel(logits, pixels):
    """Return the mean number of bits, a scalar tensor."""
    log_p = mt.log_softmax(logits, -1).gather(-1, pixels.unsqueeze(-1))
    return -log_p.mean() / math.log(2)


# %% tags=["check"]
check(
    bits_per_pixel,
    cases=[
        (mt.randn(2, 3, 5), mt.tensor([[0, 4, 2], [1, 1, 3]])),
        (100 * mt.randn(1, 2, 7), mt.tensor([[6, 0]])),
    ],
    expected=lambda logits, pixels: (
        nn.functional.cross_entropy(logits.flatten(0, 1), pixels.flatten()) / math.log(2)
    ),
    properties={
        "equally likely levels cost the logarithm of their number": lambda found, logits, pixels: (
            abs(bits_per_pixel(0 * logits, pixels) - math.log2(logits.shape[-1])) < 1e-5
        )
    },
)

# %%
grids = training.reshape(-1, 8, 8), test.reshape(-1, 8, 8)
tables = {"equally likely": 4.0}
for name in ("left", "left, above", "left, above, above left"):
    tables[name] = pixel_table_bits(*grids, LEVELS, NEIGHBORHOODS[name])
tables["left, above, and position"] = pixel_table_bits(
    *grids, LEVELS, NEIGHBORHOODS["left, above"], position=True
)
for name, bits in tables.items():
    print(f"{bits:.2f} bits per pixel   {name}")

# %% [markdown]
# ## Training
#
# `ImageGPT` is the GPT of lesson 17 with three changes: its norms do not subtract the mean, its
# output layer is not tied to the embedding, and the start token is never predicted. The labels are
# not used.


# %%
def train(model, steps, loss_of, lr=4e-3):
    optimizer = mt.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.05)
    generator = np.random.default_rng(1)
    model.train()
    for step in range(steps):
        batch = mt.tensor(training[generator.integers(len(training), size=32)])
        for group in optimizer.param_groups:
            group["lr"] = lr * min((step + 1) / 50, 1) * (1 - step / steps)
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def new_model(causal=True):
    return ImageGPT(LEVELS, 64, embed_dim=48, num_heads=4, num_layers=3, mlp_ratio=2, causal=causal)


untrained = new_model().eval()
model = train(new_model(), pick(600, 110), lambda model, batch: model.next_pixel_loss(batch))
with mt.no_grad():
    losses = model.next_pixel_loss(mt.tensor(test), reduction="none").numpy() / math.log(2)
print(f"Image GPT: {losses.mean():.2f} bits per pixel")
assert losses.mean() < tables["left, above" if pick(1, 0) else "left"]

# %% [markdown]
# The table uses two or three neighbors, and each additional neighbor multiplies the size of the
# table by 17 (16 levels, and the outside of the image). The model reads all pixels above, so it
# knows to which stroke the next pixel belongs. The model can also generate images: we give it the
# upper half of a digit and sample the rest.

# %% tags=["plot"]
chosen = [int(np.flatnonzero(test_labels == digit)[0]) for digit in range(10)]
half = test_images[chosen, 0].copy()
half[:, 4:] = np.nan


def completed(seed):
    pixels = [sample(model, [LEVELS, *test[i, :32]], 32, seed=seed)[1:] for i in chosen]
    return [np.reshape(p, (8, 8)) / (LEVELS - 1) for p in pixels]


show(
    mt.viz.image_rows_figure(
        [half, completed(0), completed(1), test_images[chosen, 0], (losses[chosen] / 6)
         .clip(0, 1).reshape(-1, 8, 8)],
        ["given", "completed", "completed", "original", "bits"],
        "Half a digit, completed twice",
    ),
    "The completions continue the strokes. The last row shows how many bits the model needs for "
    "each pixel of the original: many at the edges of strokes, almost none in the background.",
)  # fmt: skip

# %% [markdown]
# ## What 4,096 tokens cost
#
# Why not photographs at full size? Attention compares every pixel with every other one. For $n$
# tokens, a layer computes $n^2$ scores for each head, and each generated pixel needs its own
# forward pass.

# %% [markdown] tags=["your-turn"]
# ## Your turn: operations of a layer
#
# Write `layer_cost(tokens, dim)` for a forward pass of one layer. Return two numbers: the
# multiplications with weight matrices (query, key, value and output projections, and a feed-forward
# network of hidden size $4 \cdot$ `dim`), and those of attention (the scores and the weighted sums
# of the values). Count the masked half of the scores, too.
#
# *Hint:* The product of matrices (a, b) and (b, c) takes $a b c$ multiplications. The number of
# heads does not matter.


# %% tags=["answer"]
def layer_cost(tokens, dim):
    """Return (multiplications with weights, multiplications of attention)."""
    weights = (4 + 2 * 4) * tokens * dim * dim
    attention = 2 * tokens * tokens * dim
    return weights, attention


# %% tags=["check"]
check(
    layer_cost,
    cases=[(7, 5), (4096, 512), (1, 3)],
    expected=lambda tokens, dim: (
        sum(tokens * p.numel() for p in ImageGPT(2, 1, dim, 1, 1).blocks[0].parameters()
            if p.ndim == 2),
        sum(tokens * dim * tokens for _ in ("scores", "values")),
    ),
    properties={
        "for 6 * dim tokens, both numbers are equal": lambda found, tokens, dim: (
            len(set(layer_cost(6 * dim, dim))) == 1
        )
    },
)  # fmt: skip

# %%
dim, heads = 512, 8  # iGPT-S
print("image       tokens   scores of a layer   attention / weights")
for side in (8, 32, 64, 224):
    tokens = side * side
    weights = 12 * tokens * dim**2
    ratio = 2 * tokens**2 * dim / weights
    memory = 4 * heads * tokens**2 / 2**20
    print(f"{side:3} x {side:3} {tokens:9,} {memory:14,.1f} MiB {ratio:15.2f}")
print(f"a patch of 16 x 16 as one token, as in ViT: {(224 // 16) ** 2} tokens for 224 x 224")
assert 2 * 4096**2 * dim > 12 * 4096 * dim**2

# %% [markdown]
# The table uses the width and the heads of iGPT-S, the paper's smallest model. With 4,096 tokens,
# attention already needs more multiplications than the weight matrices, and the scores of one layer
# fill half a gigabyte. A photograph of 224 x 224 pixels would need 75 GiB. So Image GPT works at
# 32 x 32, and ViT (lesson 21) turns a whole patch into one token.
#
# ## What does a probe find?
#
# The model was never told which digit an image shows. But knowing the digit may help it to predict
# pixels. A *linear probe* tests this: freeze the model, average a layer's vectors over the pixels,
# and train a linear classifier on them (section 2.3).

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We probe the raw pixels, and each layer of the model before and after training. Which is best: the
# raw pixels, the first layers, the middle, or the last layer? And how much better is the trained
# model than the untrained one? Write down your answer, then run the next cell.


# %%
def probe(model):
    found = zip(model.features(mt.tensor(training)), model.features(mt.tensor(test)), strict=True)
    return [probe_accuracy(a.numpy(), labels, b.numpy(), test_labels) for a, b in found]


raw = probe_accuracy(
    images.reshape(-1, 64), labels, test_images.reshape(-1, 64), test_labels
)  # fmt: skip
before, after = probe(untrained), probe(model)
print(f"raw pixels: {100 * raw:.0f} %")
for layer, pair in enumerate(zip(before, after, strict=True)):
    print(f"layer {layer}:   untrained {100 * pair[0]:.0f} %   trained {100 * pair[1]:.0f} %")
assert raw > max(after)

# %% [markdown]
# The raw pixels are best: on centered digits of 8 x 8 pixels, a linear classifier needs nothing
# else. Layer 0 is a surprise: after training, it is as good as the deeper layers, although it has
# not compared any pixels yet. In layer 0, the vector of a pixel is only the sum of its level
# embedding and its position embedding. The mean of these sums would only show how often each level
# occurs. But each sum is normalized before the mean is taken: it is divided by its root mean
# square, which depends on the level and the position together. So what a level contributes to the
# mean depends on the position of its pixel. This is why the mean also shows where the ink is.
# Training strengthens this effect. Always report a probe's result together with baselines such as
# the raw pixels and the untrained model.
#
# On photographs, raw pixels are useless. There, Image GPT reaches 96 % on CIFAR-10 with a linear
# probe (Table 1 of the paper), and the best layer is in the middle: the last layers serve to
# predict the next pixel, not to describe the whole image (section 4.2).

# %% tags=["plot"]
figure = new_figure(5.5, 2.8)
axes = figure.subplots()
axes.plot([100 * x for x in after], marker="o", label="trained")
axes.plot([100 * x for x in before], marker="o", label="untrained", color="0.6")
axes.axhline(100 * raw, ls="--", color="#D55E00", label="raw pixels")
axes.set_xticks(range(len(after)))
axes.set_xlabel("layer")
axes.set_ylabel("test accuracy of\na linear probe (%)")
axes.legend()
show(figure, "Linear probes on every layer, compared with raw pixels and the untrained model.")

# %% [markdown]
# The paper's second objective is BERT's: hide 15 % of the pixels, and let a model without a causal
# mask predict them (Eq. 2). `ImageGPT(..., causal=False).masked_loss(pixels, masked)` computes it.
#
# ## What goes wrong without the shift
#
# A common mistake is to let the model read each pixel at the same position at which it predicts
# this pixel. The causal mask does not help, because a position may attend to itself.


# %%
def unshifted_loss(model, batch):
    logits = model(batch)
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch.flatten())


cheat = train(new_model(), pick(250, 70), unshifted_loss)
with mt.no_grad():
    seen = unshifted_loss(cheat, mt.tensor(test)).item() / math.log(2)
    honest = cheat.next_pixel_loss(mt.tensor(test)).item() / math.log(2)
print(f"bits per pixel of this model: {seen:.3f} without the shift, {honest:.1f} with it")
assert seen < pick(0.3, 1.0) and honest > tables["left"]

# %% [markdown]
# The loss falls to almost nothing within seconds, because the model has learned to copy. If this
# model is then given the correct inputs, shifted by one pixel, it needs more bits per pixel than
# the table that uses only the left neighbor of each pixel. If a loss is too good to be true, look
# for a leak from the targets to the inputs.
#
# ## In the library

# %%
where(ImageGPT, ImageGPT.masked_loss, ImageGPT.features, ColorClusters, pixel_table_bits)

# %% [markdown]
# `mta train igpt` trains a larger model until it needs 15 % fewer bits than the best table.
# `mt.models.from_pretrained` loads pretrained Image GPT models, such as a folder with the files of
# `openai/imagegpt-small`.
#
# ## Exercise
#
# Read the pixels in a different order: column by column, in a spiral from the center, or in a
# random but fixed order. Train with each and compare the bits per pixel. Which orders do you expect
# to be as good as raster order? Start with column order: you only have to transpose the images.
#
# ## Three questions
#
# 1. Why is the start token needed, and why does its embedding not carry information about the
#    image?
# 2. The bits per pixel of two models with different palettes cannot be compared. Why not?
# 3. Sampling 64 pixels takes 64 forward passes. What does a cache of keys and values save, and what
#    does it not save?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The first pixel needs a position at which it is predicted, and the model has to read something
#    there. The token is the same for every image.
# 2. With fewer colors there is less to predict: with a single color, every image costs 0 bits.
# 3. Each pixel is embedded and projected only once instead of once per step. The steps remain
#    sequential, and each one still attends to all earlier pixels.
