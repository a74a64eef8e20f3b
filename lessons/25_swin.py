# %% [markdown]
# # Swin: windows, the shift, the mask, the relative bias
#
# Attention within small windows costs little, but then no information can cross a window border.
# How do shifted windows solve this problem, why does the shift need a mask, and how are positions
# represented?
#
# *Prerequisites:* masks (lesson 10), ViT (lesson 21) and its positions (lesson 22). The deck
# COMP541 shows Swin ("Swin Transformer: Window Attention", "Shifted Window Attention");
# `docs/decks.md` lists the decks.

# %%
import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.swin import Block

mt.manual_seed(0)

# %% [markdown]
# ## Windows reduce the number of attention scores
#
# We cut a map of $H \times W$ tokens into windows of $M \times M$. This takes two reshapes and one
# transpose. In the next cell, each entry of the map is the number of its own position, so the
# output shows where each entry has moved.


# %%
def partition(x, m):
    # x: (height, width, embed) -> (window, token, embed)
    height, width, embed = x.shape
    x = x.reshape(height // m, m, width // m, m, embed)  # (window row, row, window column, column)
    return x.transpose(1, 2).reshape(-1, m * m, embed)


def merge(windows, m, height, width):
    x = windows.reshape(height // m, width // m, m, m, -1)
    return x.transpose(1, 2).reshape(height, width, -1)


places = mt.arange(64).reshape(8, 8, 1)
windows = partition(places, 4)
print("windows", windows.shape, "  the first one holds the positions")
print(windows[0, :, 0].reshape(4, 4).numpy())
assert (merge(windows, 4, 8, 8) == places).all()

# %% [markdown]
# Each window has its own small attention matrix of $M^2 \times M^2$. There are $HW / M^2$ windows,
# so together they have $M^2 HW$ scores: linear in the size of the image for a fixed $M$. The deck
# COMP541 takes Swin's first stage as its example: it has 56 x 56 tokens and $M = 7$. Eqs. 1 and 2
# of arXiv:2103.14030 give the number of multiply-adds for $h \times w$ tokens with $C$ channels:
# $4hwC^2$ for the projections, plus $2(hw)^2C$ for full attention or $2M^2hwC$ for attention in
# windows.

# %%
print("  tokens   scores: full   in windows   multiply-adds, C = 96: full   in windows")
for side in (28, 56, 112):
    tokens = side * side
    full, local = tokens**2, 49 * tokens
    projections = 4 * tokens * 96**2
    costs = [(projections + 2 * scores * 96) / 1e9 for scores in (full, local)]
    print(f"{side:3} x {side:3} {full:14,} {local:12,} {costs[0]:26.2f} G {costs[1]:10.2f} G")
assert 56**4 == 9_834_496 and 49 * 56 * 56 == 153_664
assert partition(mt.zeros(56, 56, 1), 7).shape == (64, 49, 1)

# %% [markdown] tags=["your-turn"]
# ## Your turn: attention in windows
#
# Write `window_attention(query, key, value, m)` for one head, without a shift. The three maps have
# shape (height, width, dim). A token attends to the tokens of its own window of $m \times m$, and
# the result has the shape of `query`. You may use `partition`, `merge` and
# `mt.nn.functional.scaled_dot_product_attention`, which treats all leading axes as batch axes. The
# result must equal full attention with a mask that allows only pairs from the same window.
#
# *Hint:* The windows can be a batch: attention in each window needs no information from the others.
# So three steps are enough: partition, attend, merge.


# %% tags=["answer"]
def window_attention(query, key, value, m):
    """Return attention within windows of m x m, shape (height, width, dim)."""
    height, width, dim = query.shape
    windows = (partition(x, m) for x in (query, key, value))  # each (window, token, dim)
    context = mt.nn.functional.scaled_dot_product_attention(*windows)
    return merge(context, m, height, width)


# %% tags=["check"]
check(
    window_attention,
    cases=[
        (mt.randn(4, 6, 3), mt.randn(4, 6, 3), mt.randn(4, 6, 3), 2),
        (mt.randn(3, 9, 5), mt.randn(3, 9, 5), mt.randn(3, 9, 5), 3),
        (mt.randn(5, 5, 2), mt.randn(5, 5, 2), mt.randn(5, 5, 2), 1),
    ],
    expected=lambda query, key, value, m: mt.nn.functional.scaled_dot_product_attention(
        *(x.flatten(0, 1) for x in (query, key, value)),
        mt.tensor(
            [
                [
                    (i // query.shape[1] // m, i % query.shape[1] // m)
                    == (j // query.shape[1] // m, j % query.shape[1] // m)
                    for j in range(query.shape[0] * query.shape[1])
                ]
                for i in range(query.shape[0] * query.shape[1])
            ]
        ),
    ).reshape(query.shape),
    properties={
        "windows of 1 x 1 return the values": lambda y, query, key, value, m: np.allclose(
            window_attention(query, key, value, 1).numpy(), value.numpy()
        )
    },
)

# %% [markdown]
# ## The shift
#
# Without a shift, nothing crosses a border between windows, however many blocks follow. So every
# other block moves the windows by $s = M/2$. Moved windows would be cut off at the borders of the
# map. To keep all windows the same size, Swin *rolls* the map by $s$ up and to the left. Tokens
# that leave on one side come back on the other.

# %%
rolled = mt.roll(places, [-2, -2], [0, 1])
print("rolled by -2: row 0 is", rolled[0, :, 0].numpy(), "  row 6 is", rolled[6, :, 0].numpy())
assert rolled[0, 0, 0].item() == 2 * 8 + 2  # the token from row 2, column 2 is now in the corner

# %% tags=["plot"]
show(
    mt.viz.windows_figure(8, 8, 4, 2, "A map of 8 x 8, windows of 4 x 4, shift 2"),
    "Look at the lower right window after the roll: its four parts come from the four corners of "
    "the map. A mask must keep them separate.",
)

# %% [markdown]
# The lower right window contains four regions that are not neighbors in the image.

# %% [markdown] tags=["your-turn"]
# ## Your turn: which pairs may attend?
#
# After the roll, two tokens of the same window may attend to each other only if they were close in
# the original map: their rows must differ by less than $m$, and so must their columns. Using this
# rule, write `allowed_pairs(size, m, s)` for a map of `size` x `size` tokens that is rolled by $s$.
# Return a bool array (window, query, key). You may use `mt.roll` and `partition`.
#
# *Hint:* Make a map in which each entry is the number of its own position, like `places`. Roll and
# partition this map: now every window lists the original positions of its tokens. `np.divmod` gives
# their rows and columns.


# %% tags=["answer"]
def allowed_pairs(size, m, s):
    """Return a bool array (window, query, key): True for pairs that may attend."""
    positions = mt.arange(size * size).reshape(size, size, 1)
    positions = partition(mt.roll(positions, [-s, -s], [0, 1]), m)  # (window, token, 1)
    row, column = np.divmod(positions[..., 0].numpy(), size)  # each (window, token)
    is_near_in_rows = np.abs(row[:, :, None] - row[:, None, :]) < m
    is_near_in_columns = np.abs(column[:, :, None] - column[:, None, :]) < m
    return is_near_in_rows & is_near_in_columns


# %% tags=["check"]
check(
    allowed_pairs,
    cases=[(8, 4, 2), (6, 3, 1), (10, 5, 3), (4, 2, 0)],
    expected=lambda size, m, s: mt.ops.windows.shifted_window_mask(size, size, (m, m), (s, s)),
    properties={
        "without a shift, all pairs may attend": lambda mask, size, m, s: allowed_pairs(
            size, m, 0
        ).all(),
        "the first window has no forbidden pair": lambda mask, size, m, s: mask[0].all(),
    },
)

# %% [markdown]
# Swin's authors compute the same mask without positions. They give each token a region id. Two
# tokens of a window may attend to each other if their ids are equal. The id combines two numbers,
# one for each axis: 0 for tokens before the last window, 1 for tokens in the last window that did
# not wrap around, and 2 for tokens that did.


# %%
def region_ids(size, m, s):
    axis = np.zeros(size, dtype=int)
    axis[size - m :] += 1  # the last window
    axis[size - s :] += 1  # tokens that wrapped around
    return 3 * axis[:, None] + axis[None, :]  # (row, column)


def window_mask(size, m, s):
    ids = partition(mt.tensor(region_ids(size, m, s)[..., None]), m)[..., 0].numpy()
    return ids[:, :, None] == ids[:, None, :]  # (window, query, key): True within a region


print(region_ids(8, 4, 2))
mask = window_mask(8, 4, 2)
print("pairs that may attend, in each window:", mask.sum((1, 2)), "of", 16 * 16)
library = mt.ops.windows.shifted_window_mask(8, 8, (4, 4), (2, 2)).numpy()
assert (mask == library).all()

# %% [markdown]
# ## The relative bias
#
# Within a window the scores get a bias that depends only on the offset between query and key:
# $A = \mathrm{softmax}(QK^T/\sqrt d + B)V$ with $B_{ij} = \mathrm{table}[\Delta y, \Delta x]$.
# Offsets range from $-(M-1)$ to $M-1$ along each axis, so each head's $M^4$ pairs share $(2M-1)^2$
# numbers.


# %%
def bias_index(m):
    row, column = np.divmod(np.arange(m * m), m)
    dy = row[:, None] - row[None, :] + m - 1  # from 0 to 2m - 2
    dx = column[:, None] - column[None, :] + m - 1
    return dy * (2 * m - 1) + dx


for m in (2, 4, 7):
    index = bias_index(m)
    print(f"M = {m}: {index.size:5} pairs use {len(np.unique(index)):4} numbers")
    assert len(np.unique(index)) == (2 * m - 1) ** 2
    assert (index == mt.ops.windows.relative_position_index((m, m)).numpy()).all()

# %% tags=["plot"]
show(
    mt.viz.relative_index_figure(3, "Relative positions of a window of 3 x 3"),
    "Follow a number along its diagonal: pairs with the same offset use the same table entry.",
)

# %% [markdown]
# A common mistake is to multiply the row offset by $2M$ or $M$ instead of $2M - 1$. With $M$,
# different offsets get the same index:

# %%
row, column = np.divmod(np.arange(16), 4)
mistaken = (row[:, None] - row + 3) * 4 + (column[:, None] - column + 3)
print(f"M = 4, rows multiplied by M: {len(np.unique(mistaken))} different numbers for 49 offsets")
assert len(np.unique(mistaken)) < 49

# %% [markdown] tags=["your-turn"]
# ## Your turn: the bias of a rectangular window
#
# Some models, such as audio models, use windows that are wider than they are high. Write
# `window_bias(table, height, width)` for windows of `height` x `width` tokens. Return the bias, of
# shape (heads, query, key).
#
# Row offsets (query minus key) range from `1 - height` to `height - 1`, and column offsets from
# `1 - width` to `width - 1`. `table` has shape (pair of offsets, heads). Its first rows are for the
# row offset `1 - height` and all column offsets. Then come all column offsets for the next row
# offset, and so on.
#
# *Hint:* Generalize `bias_index`. One row offset has as many entries as there are column offsets.
# How many column offsets are there?


# %% tags=["answer"]
def window_bias(table, height, width):
    """Return the bias of all pairs of tokens, shape (heads, query, key)."""
    row, column = np.divmod(np.arange(height * width), width)
    dy = row[:, None] - row[None, :] + height - 1
    dx = column[:, None] - column[None, :] + width - 1
    index = mt.tensor(dy * (2 * width - 1) + dx)  # (query, key)
    return table[index].permute(2, 0, 1)


# %% tags=["check"]
check(
    window_bias,
    cases=[
        (mt.randn(3 * 5, 2), 2, 3), (mt.randn(9 * 3, 5), 5, 2), (mt.randn(1 * 13, 3), 1, 7),
        (mt.randn(1, 2), 1, 1),
    ],
    expected=lambda table, height, width: table[
        mt.ops.windows.relative_position_index((height, width))
    ].permute(2, 0, 1),
    properties={
        "all tokens have the same bias for themselves": lambda bias, table, height, width: (
            np.ptp(np.diagonal(bias.numpy(), 0, 1, 2), axis=-1).max() == 0
        )
    },
)  # fmt: skip

# %% [markdown]
# ## All steps together
#
# We roll, partition, compute scores, add the bias, mask, apply softmax, merge and roll back. With
# the weights of the library's block, the result equals the block's.


# %%
def attend(x, block, m=4, s=2, masked=True, roll=-1):
    height, width, embed = x.shape
    layer = block.attention
    heads = layer.num_heads
    x = mt.roll(x, [roll * s, roll * s], [0, 1])  # up and to the left
    windows = partition(x, m)  # (window, token, embed)
    projected = (p(windows) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    query, key, value = (p.unflatten(-1, (heads, -1)).transpose(1, 2) for p in projected)
    scores = query @ key.transpose(-1, -2) / (embed / heads) ** 0.5  # (window, heads, token, token)
    table = layer.position_bias.table  # (offset, heads)
    scores = scores + table[mt.tensor(bias_index(m))].permute(2, 0, 1)
    if masked and s:
        mask = mt.tensor(window_mask(height, m, s)).unsqueeze(1)  # (window, 1, token, token)
        scores = mt.where(mask, scores, float("-inf"))
    context = (mt.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
    x = merge(layer.out_proj(context), m, height, width)
    return mt.roll(x, [-roll * s, -roll * s], [0, 1])  # roll back


def new_block(shift):
    block = Block(12, 2, (4, 4), (shift, shift), 24)
    for parameter in block.parameters():  # large values make mistakes visible
        if parameter.ndim == 2:
            mt.nn.init.normal_(parameter, std=0.3)
    return block


block = new_block(2)
x = mt.randn(8, 8, 12)
mine, library = attend(x, block), block.attend(x.unsqueeze(0))[0]
print(f"largest difference from the library {(mine - library).abs().max().item():.1e}")
assert (mine - library).abs().max().item() < 1e-5

# %% [markdown]
# ## Which tokens affect which?
#
# Change one token, and see which outputs change. Compare two pairs of blocks: two blocks without a
# shift (printed as W W), and one without a shift followed by one with a shift (W SW). The map of
# 12 x 12 tokens is divided into 9 windows of 4 x 4.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The windows have 4 x 4 tokens. We change the token in row 5, column 6 of the 12 x 12 map. How many
# of the 144 output tokens change after two blocks with plain windows (W W), after a plain and a
# shifted block (W SW), and after two such pairs (W SW W SW)? Write down three numbers, then run the
# next cell. (A sketch of the windows helps.)


# %%
def influence(blocks, at, size=12):
    """Return how much each output token changes when the token at `at` changes."""
    x = mt.randn(1, size, size, 12, dtype=mt.float64)
    changed = x.numpy().copy()
    changed[0, at[0], at[1], 0] += 1  # not all channels: LayerNorm would remove the change
    with mt.no_grad():
        outputs = []
        for start in (x, mt.tensor(changed)):
            for block in blocks:
                start = block.to(dtype=mt.float64)(start)
            outputs.append(start.numpy()[0])
    return np.abs(outputs[0] - outputs[1]).max(-1)


at = (5, 6)
plain = influence([new_block(0), new_block(0)], at)
shifted = influence([new_block(0), new_block(2)], at)
twice = influence([new_block(0), new_block(2)] * 2, at)
reached = {name: int((m > 1e-12).sum()) for name, m in
         (("W W", plain), ("W SW", shifted), ("W SW W SW", twice))}  # fmt: skip
for name, count in reached.items():
    print(f"{name:10} the change of one token reaches {count:3} of 144 tokens")
assert reached["W W"] == 16 and reached["W SW"] == 64 and reached["W SW W SW"] == 144

# %% [markdown]
# Without a shift the change never leaves its window of 16 tokens. The first block spreads it over
# that window, and each quarter of the window lies in a different shifted window: 4 x 16 = 64
# tokens. A second pair of blocks reaches all 144.

# %% tags=["plot"]
figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
titles = ("two blocks, no shift", "plain, shifted", "plain, shifted, twice")
for axis, reach, title in zip(axes, (plain, shifted, twice), titles, strict=True):
    axis.imshow(reach > 1e-12, cmap="Blues", vmin=0, vmax=1.6)
    axis.plot(at[1], at[0], "x", color="#D55E00", markersize=9, markeredgewidth=2.5)
    for edge in (3.5, 7.5):
        axis.axhline(edge, color="black", linewidth=1)
        axis.axvline(edge, color="black", linewidth=1)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=10)
show(
    figure,
    "The blue area shows which tokens a change at the cross affects. Without a shift it stops at "
    "the window borders (the lines); with a shift it crosses them.",
)

# %% [markdown]
# ## What goes wrong without the mask, or with the wrong roll
#
# **Without the mask** the code runs, but tokens at one border attend to the opposite border. Change
# the lower right corner of an 8 x 8 map and look at the upper left corner.

# %%
changed = x.numpy().copy()
changed[7, 7] += 1
changed = mt.tensor(changed)


def corner_moves(**how):
    with mt.no_grad():
        moved = (attend(x, block, **how) - attend(changed, block, **how)).abs()
    return moved[0, 0].max().item(), moved[6, 6].max().item()


print("change at (7, 7):     output at (0, 0)   output at (6, 6)")
cases = {
    "masked, rolled by -2": corner_moves(),
    "no mask": corner_moves(masked=False),
    "masked, rolled by +2": corner_moves(roll=1),
}
for name, (far, near) in cases.items():
    print(f"  {name:20} {far:12.1e} {near:18.1e}")
assert cases["masked, rolled by -2"][0] == 0 and cases["masked, rolled by -2"][1] > 1e-3
assert cases["no mask"][0] > 1e-3  # information leaks between opposite corners

# %% [markdown]
# **The direction of the roll** matters, because the mask was made for one direction. After a roll
# by $+s$, the tokens from the other side are in the *first* rows, but the mask still expects them
# in the last ones. The mask then separates real neighbors and lets distant tokens attend to each
# other.


# %%
def mask_mistakes(roll):
    """Return two counts: distant pairs that may attend, and near pairs that may not."""
    row, column = np.divmod(mt.roll(places, [roll * 2] * 2, [0, 1]).numpy(), 8)
    row, column = (partition(mt.tensor(a), 4)[..., 0].numpy() for a in (row, column))
    near = (abs(row[:, :, None] - row[:, None]) < 4) & (
        abs(column[:, :, None] - column[:, None]) < 4
    )
    return int((mask & ~near).sum()), int((~mask & near).sum())


for roll in (-1, 1):
    distant, separated = mask_mistakes(roll)
    print(
        f"rolled by {2 * roll:+}: {distant:4} distant pairs may attend, "
        f"{separated:4} pairs of neighbors may not"
    )
assert mask_mistakes(-1) == (0, 0)
assert mask_mistakes(1)[0] > 0 and mask_mistakes(1)[1] > 0

# %% [markdown]
# In all of these cases the shapes are correct, and even the gradient check passes. Only a test that
# takes the geometry into account finds the mistakes.
#
# ## In the library

# %%
from minitorch_attn.models.window_attention import RelativePositionBias, WindowAttention
from minitorch_attn.ops import windows as ops_windows

where(
    ops_windows.window_partition, ops_windows.window_regions, ops_windows.shifted_window_mask,
    RelativePositionBias, WindowAttention, Block.attend,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Implement Swin without rolling: write `padded_attend(x, block)`, which pads the map by `m - s` at
# the top and left and by `s` at the bottom and right, cuts it into windows, masks the padding, and
# removes the padding again. You are done when it agrees with `attend(x, block)` to `1e-5` on the
# 8 x 8 map. How many windows does it need, compared with 4 for the roll?
#
# Then practice:
#
# ```sh
# mta exercise start 18
# mta exercise start 19
# mta exercise start 20
# mta exercise start 31
# mta exercise start 39
# ```
#
# ## Three questions
#
# 1. A map of 56 x 56 tokens becomes one of 112 x 112. By what factor does the number of scores grow
#    with full attention, and with windows of 7 x 7?
# 2. After a plain and a shifted block, a change reaches more tokens than the 16 of one window. Why
#    does it not reach all 144, and what does the third picture show about depth?
# 3. Without the mask, all shape tests pass. Which token did we change, and which output showed the
#    mistake?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. With full attention the number of scores grows by a factor of 16, as the table shows: it is the
#    square of the number of tokens, which grows by a factor of 4. With windows the number of scores
#    grows by a factor of 4.
# 2. The shifted windows connect the changed token's window only with the windows next to it, and
#    reach half a window into them, which makes 64 tokens. A second pair of blocks carries the
#    change to the whole map of 12 x 12.
# 3. The token at (7, 7) was changed, and the output at the opposite corner (0, 0) changed. With the
#    mask, the change there is exactly 0.
