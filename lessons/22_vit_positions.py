# %% [markdown]
# # Position embeddings in ViT: an ablation
#
# The blocks of a ViT treat their tokens as a set. How does the model know that one patch is above
# another, how much does this information help, and what happens to the positions when the image
# size changes?
#
# *Prerequisites:* positions (lesson 12), ViT (lesson 21).
#
# The digit images come with scikit-learn: `python -m pip install scikit-learn`.

# %%
import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models import VisionTransformer
from minitorch_attn.models.vit_positions import RelativeAttention, interpolate_positions

F = mt.nn.functional
images, labels, test_images, test_labels = mt.data.digits_split()
images, test_images = 2 * images - 1, 2 * test_images - 1  # (image, 1, 8, 8), from -1 to 1
print(f"{len(labels)} digits to train on, {len(test_labels)} to test, each a grid of 4 x 4 patches")

# %% [markdown]
# ## The four position embeddings of the ViT paper
#
# Appendix D.4 of arXiv:2010.11929 compares four variants (quoted in the TAPASWI deck, "D.4
# Positional Embedding"; `docs/decks.md` lists the decks). The table shows them for a grid of 4 x 4
# patches and width $D$:
#
# | variant | what is learned | how it is used |
# | --- | --- | --- |
# | none | nothing | not at all |
# | 1-D | one vector of length $D$ for each patch | added to the token |
# | 2-D | $D/2$ numbers for each row and $D/2$ for each column, concatenated | added to the token |
# | relative | one vector $r_{j-i}$ for each offset $j - i$ in reading order | in the scores |
#
# The 1-D and 2-D variants add vectors to the tokens.

# %% [markdown] tags=["your-turn"]
# ## Your turn: add 2-D positions
#
# Write `add_positions(tokens, rows, columns)`. `tokens` has shape (batch, R * C, D) and holds the
# patches of a grid of R rows and C columns in reading order. `rows` has shape (R, D/2), and
# `columns` has shape (C, D/2). To the token in row $r$ and column $c$, add the vector that consists
# of `rows[r]` followed by `columns[c]`.
#
# *Hint:* Make two tables of shape (R, C, D/2): one that repeats each row's vector in all columns,
# one that repeats each column's vector in all rows. `expand` does this. Then concatenate and
# reshape.


# %% tags=["answer"]
def add_positions(tokens, rows, columns):
    """Return the tokens plus their 2-D positions, shape (batch, patch, embed)."""
    height, width, half = len(rows), len(columns), rows.shape[-1]
    by_row = rows.unsqueeze(1).expand(height, width, half)
    by_column = columns.unsqueeze(0).expand(height, width, half)
    table = mt.cat([by_row, by_column], -1)  # (row, column, embed)
    return tokens + table.reshape(height * width, 2 * half)


# %% tags=["check"]
check(
    add_positions,
    cases=[
        (mt.randn(5, 6, 4), mt.randn(2, 2), mt.randn(3, 2)),
        (mt.zeros(1, 9, 14), mt.randn(3, 7), mt.randn(3, 7)),
        (mt.randn(2, 5, 6), mt.randn(1, 3), mt.randn(5, 3)),
    ],
    expected=lambda tokens, rows, columns: (
        tokens
        + mt.stack([mt.cat([row, column]) for row in rows for column in columns])  # reading order
    ),
    properties={
        "the patches of the first row share the first half of their vectors": (
            lambda y, tokens, rows, columns: np.allclose(
                (y - tokens)[:, : len(columns), : rows.shape[1]].numpy(), rows[0].numpy()
            )
        )
    },
)

# %% [markdown]
# The relative variant leaves the tokens unchanged. It changes the score of query $i$ and key $j$ to
# $q_i \cdot (k_j + r_{j-i})$. We compute these scores with loops and compare them with the
# library's:

# %%
mt.manual_seed(0)
attention = RelativeAttention(embed_dim=8, num_heads=1, max_tokens=5)
x = mt.randn(1, 5, 8)
query, key = attention.q_proj(x)[0], attention.k_proj(x)[0]  # (token, dim)
scores = np.zeros((5, 5))
for i in range(5):
    for j in range(5):
        distance = attention.distances[j - i + 4]  # 9 distances from -4 to 4
        scores[i, j] = (query[i] * (key[j] + distance)).sum().item() / 8**0.5
by_library = (query / 8**0.5) @ key.transpose(0, 1)
by_library = by_library + attention.relative_scores(query.reshape(1, 1, 5, 8))[0, 0]
difference = np.abs(scores - by_library.detach().numpy()).max()
print(f"{len(attention.distances)} distances for 5 tokens")
print(f"loops and library differ by {difference:.0e}")
assert difference < 1e-6

# %% [markdown] tags=["your-turn"]
# ## Your turn: relative scores without loops
#
# For $N$ tokens, the loops above take $N^2$ steps in Python. Write
# `relative_scores(query, key, distances)` without a loop, and for several heads. `query` and `key`
# have shape (heads, token, dim). All heads share `distances`, of shape (2 * token - 1, dim). Its
# rows are the vectors $r_{j-i}$: row 0 is for the offset $j - i = -(N - 1)$, row 1 for the next
# offset, and so on. Return the scaled scores $q_i \cdot (k_j + r_{j-i}) / \sqrt{dim}$, of shape
# (heads, query, key).
#
# *Hint:* Build the table of indices $j - i + N - 1$ of shape (query, key) from two `mt.arange`.
# Indexing `distances` with it gives a vector for each pair. The rest is a product and a sum over
# the last axis.


# %% tags=["answer"]
def relative_scores(query, key, distances):
    """Return the scores with relative positions, shape (heads, query, key)."""
    tokens, dim = query.shape[1:]
    places = mt.arange(tokens)
    offsets = places.unsqueeze(0) - places.unsqueeze(1) + tokens - 1  # (query, key)
    by_position = (query.unsqueeze(2) * distances[offsets]).sum(-1)  # (heads, query, key)
    return (query @ key.transpose(1, 2) + by_position) / dim**0.5


# %% tags=["check"]
check(
    relative_scores,
    cases=[
        (mt.randn(2, 5, 3), mt.randn(2, 5, 3), mt.randn(9, 3)),
        (mt.randn(3, 1, 7), mt.randn(3, 1, 7), mt.randn(1, 7)),
        (mt.randn(1, 11, 2), mt.zeros(1, 11, 2), mt.randn(21, 2)),
    ],
    expected=lambda query, key, distances: mt.stack([
        (query[:, i : i + 1] * (key + distances[len(distances) // 2 - i :][: key.shape[1]])).sum(-1)
        for i in range(query.shape[1])
    ], 1) / query.shape[-1] ** 0.5,
    properties={
        "without distances these are the usual scores": lambda scores, query, key, distances: (
            np.allclose(
                relative_scores(query, key, 0 * distances).numpy(),
                (query @ key.transpose(1, 2)).numpy() / query.shape[-1] ** 0.5,
            )
        )
    },
)  # fmt: skip

# %% [markdown]
# ## Without positions, the patches are a set
#
# Without positions, the model is not merely less accurate: if you shuffle the patches of any image,
# its prediction does not change *at all*.


# %%
def model_with(positions, seed=0):
    mt.manual_seed(seed)
    model = VisionTransformer(
        image_size=8, patch_size=2, num_classes=10, embed_dim=32, num_layers=2, num_heads=4,
        mlp_dim=64, in_channels=1, positions=positions,
    )  # fmt: skip
    mt.nn.init.normal_(model.head.weight, std=0.1)  # its default is zero
    return model


def shuffled(images, order):
    """Return the images with their 16 patches in the given order."""
    parts = images.reshape(-1, 4, 2, 4, 2).swapaxes(2, 3).reshape(-1, 16, 2, 2)[:, order]
    return parts.reshape(-1, 4, 4, 2, 2).swapaxes(2, 3).reshape(-1, 1, 8, 8)


order = np.random.default_rng(0).permutation(16)
mixed = shuffled(test_images, order)
changes = {}
for positions in ("none", "1d", "2d", "relative"):
    model = model_with(positions)
    if positions == "1d":
        mt.nn.init.normal_(model.positions.weight, std=0.5)
    with mt.no_grad():
        change = (model(mt.tensor(mixed)) - model(mt.tensor(test_images))).abs().max().item()
    changes[positions] = change
    print(f"{positions:9} largest change of a logit when the patches are shuffled: {change:.1e}")
assert changes["none"] < 1e-5 < 1e-3 < min(changes[p] for p in ("1d", "2d", "relative"))

# %% tags=["plot"]
figure, axes = plt.subplots(1, 6, figsize=(8.5, 1.9), layout="constrained")
for column, digit in enumerate((0, 4, 7)):
    i = int(np.flatnonzero(test_labels == digit)[0])
    for axis, picture, name in zip(
        axes[2 * column :], (test_images, mixed), ("digit", "shuffled"), strict=False
    ):
        axis.imshow(picture[i, 0], cmap="gray_r", vmin=-1, vmax=1)
        axis.set(xticks=[], yticks=[])
        axis.set_title(f"{name} {digit}", fontsize=10)
show(
    figure,
    "Try to read the shuffled digits: for a ViT without positions, both pictures of a pair are the "
    "same input.",
)

# %% [markdown]
# ## Train all four variants
#
# All four variants use the same seed, data and steps. We train the 1-D model with a second seed as
# well: a difference between two variants means something only if it is larger than the difference
# between two seeds.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# A ViT without positions sees each digit as a bag of 16 patches of 2 x 2 pixels. It cannot tell a
# digit from its shuffled version in the figure above. What percentage of the test digits will it
# read correctly (guessing gives 10 %), and what percentage will the variants with positions read?
# Write down two numbers, then run the next cell.

# %%
steps, batch, rate = pick(300, 200), pick(64, 32), 4e-3


def accuracy(model, pictures=test_images):
    with mt.no_grad():
        answers = model(mt.tensor(pictures)).argmax(1).numpy()
    return 100 * (answers == test_labels).mean()


def trained(positions, seed=0):
    model = model_with(positions, seed)
    optimizer = mt.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    generator = np.random.default_rng(seed)
    for step in range(steps):
        warm_up, cosine = min(1, (step + 1) / 30), 0.5 * (1 + np.cos(np.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate * warm_up * cosine
        chosen = generator.integers(0, len(labels), batch)
        loss = F.cross_entropy(model(mt.tensor(images[chosen])), mt.tensor(labels[chosen]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


runs = [("none", 0), ("1d", 0), ("1d", 1), ("2d", 0), ("relative", 0)]
models = {run: trained(*run) for run in runs}
results = {run: accuracy(model) for run, model in models.items()}
print(f"{steps} steps of {batch} digits; test digits read correctly:")
for (positions, seed), result in results.items():
    print(f"  {positions:9} seed {seed}   {result:5.1f} %")
others = [result for (positions, _), result in results.items() if positions != "none"]
assert results["none", 0] < min(others) - 5
assert results["relative", 0] == min(others)

# %% [markdown]
# The set of patches alone is enough to recognize more than half of the digits, because the strokes
# in the patches are a strong hint. Positions add about twenty percentage points. The ViT paper
# finds the same at a much larger scale: accuracy is clearly lower without positions, and differs
# little between the other variants. After a run as short as this one, the relative variant is still
# behind: its position vectors start near 0 and act only through the attention scores.

# %% tags=["plot"]
figure, axis = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
names = [f"{positions} (seed {seed})" for positions, seed in runs]
colours = ["#999999" if positions == "none" else "#0072B2" for positions, _ in runs]
bars = axis.barh(names, results.values(), color=colours)
axis.bar_label(bars, fmt="%.1f", padding=3)
axis.invert_yaxis()
axis.set(xlabel="test digits read correctly, %", xlim=(0, 105))
axis.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Compare the gray bar with guessing (10 %): most digits are read correctly even without "
    "positions. The kind of positions matters less.",
)

# %% [markdown]
# ## Does the 1-D variant ignore the second dimension?
#
# No. The table of the 1-D variant has one freely learned vector for each patch. This vector
# *labels* the patch's position in the grid, regardless of its index in the sequence. Numbering the
# positions in a different order gives an equivalent model.

# %%
learned = models["1d", 0]
renamed = model_with("1d")
renamed.load_state_dict(learned.state_dict())
table = learned.positions.weight.detach()  # (1 + patch, embed): the class token first
renamed.positions.weight = mt.nn.Parameter(mt.cat([table[:1], table[1:][mt.tensor(order)]]))
with mt.no_grad():
    before = learned(mt.tensor(test_images))
    after = renamed(mt.tensor(shuffled(test_images, order)))
print(f"positions renumbered: largest change of a logit {(before - after).abs().max().item():.1e}")
assert (before - after).abs().max().item() < 1e-4

# %% [markdown]
# The *relative* variant does depend on the reading order. All it knows about two positions is their
# difference $j - i$. That difference is 1 for two neighbors in a row, but also for the last patch
# of one row and the first patch of the next:


# %%
def place(patch):
    return patch // 4, patch % 4


for i, j in ((5, 6), (7, 8), (5, 9)):
    (row, column), (row2, column2) = place(i), place(j)
    print(
        f"patches {i} and {j}: distance in reading order {j - i}, rows {row2 - row:+}, "
        f"columns {column2 - column:+}"
    )
assert place(6)[0] == place(5)[0] and place(8)[0] != place(7)[0]

# %% [markdown]
# That is why Swin uses separate offsets for rows and columns (lesson 25).
#
# ## What the learned position embeddings look like
#
# Each panel belongs to one patch. It shows the cosine similarity between this patch's position
# vector and that of every other patch, as in Figure 7 of the ViT paper.

# %%
two = models["2d", 0].positions
half = two.row_weight.shape[1]
rows = two.row_weight.detach().reshape(4, 1, half).expand(4, 4, half)
columns = two.column_weight.detach().reshape(1, 4, half).expand(4, 4, half)
both = mt.cat([rows, columns], -1).reshape(16, 2 * half)

# %% tags=["plot"]
show(
    mt.viz.position_similarity_figure(table[1:], (4, 4), "1-D positions, learned"),
    "1-D: a position is similar only to itself (yellow); rows and columns do not stand out.",
)
show(
    mt.viz.position_similarity_figure(both, (4, 4), "2-D positions, learned"),
    "2-D: crosses, because patches in the same row or column share half of their vectors.",
)

# %% [markdown]
# Be careful with such pictures. To see whether the crosses are learned, look at an untrained table.


# %%
def similarity(table):
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    return unit @ unit.T


line = np.arange(16) // 4, np.arange(16) % 4
same_row, same_column = (a[:, None] == a[None, :] for a in line)
crossing = same_row ^ same_column  # same row or column, but not the same patch
apart = ~same_row & ~same_column
generator = np.random.default_rng(0)
free = generator.normal(size=(16, 32))
by_rows, by_columns = generator.normal(size=(4, 16)), generator.normal(size=(4, 16))
halves = np.concatenate([by_rows[line[0]], by_columns[line[1]]], 1)
print("mean similarity of patches  same line   other lines")
found = {}
for name, values in (
    ("1-D untrained", free), ("2-D untrained", halves),
    ("1-D learned", table[1:].numpy()), ("2-D learned", both.numpy()),
):  # fmt: skip
    alike = similarity(values)
    found[name] = alike[crossing].mean(), alike[apart].mean()
    print(f"  {name:24} {found[name][0]:10.2f} {found[name][1]:13.2f}")
assert found["2-D untrained"][0] > found["2-D untrained"][1] + 0.3
assert abs(found["1-D untrained"][0] - found["1-D untrained"][1]) < 0.1

# %% [markdown]
# The cross in the 2-D table exists before the first training step: it comes from the construction,
# not from learning. The 1-D table starts without any pattern, so its pattern was learned. With a
# grid of 4 x 4 and 1437 images, the model learned little more than to distinguish positions. The
# smooth neighborhoods in the ViT paper's figure require finer grids and millions of images.
#
# ## Larger images: interpolate the position embeddings like an image
#
# An image of 12 x 12 pixels has 6 x 6 patches, but the table has only 16 rows, one for each patch
# of the old 4 x 4 grid. So treat the position embeddings as a 4 x 4 image with $D$ channels and
# enlarge it. (The position of the class token is not part of this image.)

# %% [markdown] tags=["your-turn"]
# ## Your turn: resize a position table
#
# Write `resize_positions(table, old, new)`. `table` has shape (1 + patch, embed): the position of
# the class token comes first, then those of a grid of `old = (rows, columns)` patches in reading
# order. Return the table for a grid of `new = (rows, columns)` patches. Use
# `F.interpolate(..., mode="bicubic")`, which takes images (batch, channel, row, column).
#
# *Hint:* Set the first row aside. Reshape the others to (row, column, embed), and move the
# embedding axis to the front, where an image has its channels. Afterwards, move it back.


# %% tags=["answer"]
def resize_positions(table, old, new):
    """Return the position table for a grid of a different size, shape (1 + patch, embed)."""
    embed = table.shape[1]
    picture = table[1:].reshape(1, *old, embed).permute(0, 3, 1, 2)  # (1, embed, row, column)
    picture = F.interpolate(picture, size=new, mode="bicubic")
    patches = picture[0].permute(1, 2, 0).reshape(-1, embed)  # (patch, embed)
    return mt.cat([table[:1], patches])


# %% tags=["check"]
check(
    resize_positions,
    cases=[
        (mt.randn(7, 5), (2, 3), (4, 7)),
        (mt.randn(10, 2), (3, 3), (2, 2)),
        (mt.randn(6, 3), (5, 1), (5, 1)),
    ],
    expected=lambda table, old, new: mt.cat(
        [table[:1], interpolate_positions(table[1:], old, new)]
    ),
    properties={
        "the class token keeps its position": lambda y, table, old, new: (y[0] == table[0]).all()
    },
)

# %% [markdown]
# Now enlarge the trained model's table in this way, and let it read digits of 12 x 12 pixels:

# %%
larger = F.interpolate(mt.tensor(test_images), size=(12, 12), mode="bicubic").numpy()
patches, first = table[1:], table[:1]


def with_positions(rows):
    """Return the accuracy at 12 x 12 pixels of the trained model with the position table `rows`."""
    model = model_with("1d")
    model.load_state_dict(learned.state_dict())
    model.resize(12)
    model.positions.weight = mt.nn.Parameter(mt.cat([first, rows]))
    return accuracy(model, larger)


resized = with_positions(interpolate_positions(patches, (4, 4), (6, 6)))
print("12 x 12 digits read correctly by the model that was trained on 8 x 8:")
print(f"  the table enlarged like an image            {resized:5.1f} %")

# %% [markdown]
# Each patch now contains a smaller piece of the digit, so the model is expected to be less
# accurate. In practice you continue training for a while at the new size.
#
# ## What goes wrong when the position table is resized incorrectly
#
# Two mistakes do not raise an error: interpolating the table along the *sequence* of patches, and
# setting the position embeddings of the patches to zero.

# %%
as_sequence = F.interpolate(patches.transpose(0, 1).unsqueeze(0), size=36, mode="linear")
along, reset = with_positions(as_sequence[0].transpose(0, 1)), with_positions(mt.zeros(36, 32))
print(f"  the table stretched along the sequence      {along:5.1f} %")
print(f"  positions reset to zero                     {reset:5.1f} %")
assert resized > along + 10 and resized > reset + 10

# %% tags=["plot"]
# Which of the 4 x 4 positions does each of the 6 x 6 new patches read?
rows, columns = np.divmod(np.arange(36), 6)
right = np.stack([(rows + 0.5) * 4 / 6 - 0.5, (columns + 0.5) * 4 / 6 - 0.5])
along_the_line = ((np.arange(36) + 0.5) * 16 / 36 - 0.5).clip(0)  # an index into the 16
wrong = np.stack([along_the_line // 4, along_the_line % 4])
ways = {"enlarged like an image": right, "stretched along the sequence": wrong}
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained", sharey=True)
for axis, (name, (y, x)) in zip(axes, ways.items(), strict=True):
    axis.scatter(*np.meshgrid(range(4), range(4)), s=380, color="#cfe6f5")
    for patch in range(36):
        row = patch // 6 + 1
        axis.text(x[patch], y[patch], row, ha="center", va="center", fontsize=9)
    axis.set_title(name, fontsize=10)
    axis.set(xlim=(-0.6, 4), ylim=(3.6, -0.6), xlabel="column of the old grid", xticks=range(4))
axes[0].set(ylabel="row of the old grid", yticks=range(4))
show(
    figure,
    "The disks are the old positions, and the numbers are the rows of the new patches. Left: each "
    "new row stays on one line. Right: the rows 1, 2, 3, ... wrap around and mix.",
)

# %% [markdown]
# If the table is stretched along the sequence, the 36 new patches share 16 old positions, so a row
# of six new patches covers only 6 x 16 / 36 = 2.7 old ones. But an old row has four. So the second
# new row already begins within the first old row, and the rows are no longer aligned.
#
# ## In the library

# %%
where(
    mt.nn.LearnedPositionalEmbedding, mt.nn.LearnedPositionalEmbedding2d, RelativeAttention,
    interpolate_positions, VisionTransformer.resize, mt.viz.position_similarity_figure,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Give the model the fixed sines and cosines of `sincos_positions((4, 4), 32)` (in
# `minitorch_attn.models.vit_positions`) with a row of zeros for the class token: set
# `model.positions.weight` to a `Parameter` with `requires_grad=False`, then train as above. You are
# done when its accuracy exceeds that of the model without positions by more than five percentage
# points and the table is the same before and after training. Why must the picture of the
# similarities between the rows of this table (drawn with `mt.viz.position_similarity_figure`, as
# above) be smooth?
#
# ## Three questions
#
# 1. A ViT without positions still reads most digits. What can it not do, and which printed number
#    shows this?
# 2. A friend shows the crosses of a trained 2-D table as proof that the network discovered rows and
#    columns. What do you answer?
# 3. So that a model can read images of 12 x 12 pixels, its table of 16 positions was stretched to
#    36 by linear interpolation along the sequence. The code runs. Why does the model fail?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. It cannot tell an image from the same patches in a different order: the largest change of a
#    logit after shuffling is round-off, while with positions it is thousands of times larger.
# 2. An untrained 2-D table has such crosses, too. The table of mean similarities shows a much
#    higher value for patches in the same row or column than for other patches, as they share half
#    of their vectors.
# 3. The new patches get positions from the wrong parts of the table: the last figure shows that the
#    rows of the new image no longer line up with the rows of the old grid. The printed accuracy is
#    far below the one for the table that was enlarged like an image.
