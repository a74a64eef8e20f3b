# %% [markdown]
# # Several scales: pooling attention, MViT and MViTv2
#
# A convolutional network starts with large maps of few channels and ends with small maps of many. A
# ViT keeps one size throughout. How can attention shrink a map, what does that cost compared with
# Swin's windows, and how does a score account for the distance between tokens of two different
# maps?
#
# *Prerequisites:* ViT (lesson 21) and Swin (lesson 25). The COMP541 deck shows both versions of
# MViT together with Swin V2 ("Other Hierarchical Vision Transformers"); `docs/decks.md` lists the
# decks.

# %%
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.mvit_stages import plan_blocks
from minitorch_attn.models.mvitv2 import RelativePoolingAttention, mvitv2_t, relative_distances
from minitorch_attn.models.pooling_attention import PoolingAttention, pool_tokens
from minitorch_attn.models.swin import swin_t
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Pool a map of tokens
#
# The tokens of an image form a map. MViT (Fan et al. 2021, arXiv:2104.11227v1, section 3.1) pools
# this map as a convolutional network does: a small window slides over the map with a fixed stride.
# The class token has no place in the map, so it is not pooled.

# %% [markdown] tags=["your-turn"]
# ## Your turn: pool the patches, keep the class token
#
# Write `pooled(tokens, height, width, m)`. `tokens` has shape (1 + height * width, dim): the class
# token, then the map row by row. Return the class token, followed by the means over blocks of
# $m \times m$ patches, row by row. The result has shape (1 + height * width / m^2, dim).
#
# *Hint:* Reshape the patches to (row, row in block, column, column in block, dim). Over which two
# axes do you take the mean?


# %% tags=["answer"]
def pooled(tokens, height, width, m):
    """Return the class token and the means of m x m patches."""
    dim = tokens.shape[-1]
    blocks = tokens[1:].reshape(height // m, m, width // m, m, dim)
    means = blocks.mean((1, 3)).reshape(-1, dim)  # (block, dim)
    return mt.cat([tokens[:1], means])


# %% tags=["check"]
check(
    pooled,
    cases=[
        (mt.randn(1 + 24, 5), 4, 6, 2), (mt.randn(1 + 27, 2), 9, 3, 3),
        (mt.randn(1 + 5, 3), 1, 5, 1),
    ],
    expected=lambda tokens, height, width, m: pool_tokens(
        tokens.unsqueeze(0), (height, width), mt.nn.AvgPool2d(m), 1
    )[0][0],
    properties={
        "the class token stays as it is": lambda y, tokens, height, width, m: (
            y[0] == tokens[0]
        ).all()
    },
)  # fmt: skip

# %% [markdown]
# ## Pooling attention
#
# A layer of MViT projects its input $X$ to queries, keys and values, and pools each of the three
# with its own pooling $P$ (Eqs. 1 and 2):
#
# $$\mathrm{softmax}\Big(\frac{P_Q(XW_Q)\, P_K(XW_K)^\top}{\sqrt d}\Big) P_V(XW_V).$$
#
# Pooled *keys and values* make the layer cheaper without changing the size of its output. Pooled
# *queries* make the output smaller: one row for each pooled query. MViTv2 (Li et al. 2022,
# arXiv:2112.01526v2, Eq. 6) adds the pooled queries to the output ("residual pooling").

# %% [markdown] tags=["your-turn"]
# ## Your turn: pooling attention with residual pooling
#
# Write `pooling_attention(query, key, value, pool_q, pool_kv)` for one head. The three inputs have
# shape (token, dim). `pool_q` and `pool_kv` are functions that pool such tokens. Let the pooled
# queries attend to the pooled keys and values. Return the sum of the result and the pooled queries.
#
# *Hint:* Call `pool_kv` for the keys and for the values. The scores are divided by $\sqrt d$, where
# $d$ is the width of a token.


# %% tags=["answer"]
def pooling_attention(query, key, value, pool_q, pool_kv):
    """Return pooled attention plus the pooled queries, (pooled token, dim)."""
    query, key, value = pool_q(query), pool_kv(key), pool_kv(value)
    weights = mt.softmax(query @ key.T / query.shape[-1] ** 0.5, -1)
    return weights @ value + query


# %% tags=["check"]
check(
    pooling_attention,
    cases=[
        (mt.randn(12, 5), mt.randn(12, 5), mt.randn(12, 5), lambda x: x[::2], lambda x: x[1::3]),
        (mt.randn(7, 3), mt.randn(7, 3), mt.randn(7, 3), lambda x: x[:1], lambda x: x * 2),
        (mt.randn(5, 2), mt.randn(5, 2), mt.randn(5, 2), lambda x: x, lambda x: x[:1]),
    ],
    expected=lambda query, key, value, pool_q, pool_kv: (
        mt.nn.functional.scaled_dot_product_attention(pool_q(query), pool_kv(key), pool_kv(value))
        + pool_q(query)
    ),
    properties={
        "values of 0 give the pooled queries": lambda y, q, k, v, pool_q, pool_kv: (
            abs(pooling_attention(q, k, v * 0, pool_q, pool_kv) - pool_q(q)).max() < 1e-9
        )
    },
)

# %% [markdown]
# Why add the queries? Early in training all scores are near 0, so each query gets nearly the same
# mean of the values: attention alone makes all tokens nearly equal. We compare a new layer with and
# without residual pooling.

# %%
x = mt.randn(1, 64, 32)
options = {"kernel_q": (3, 3), "kernel_kv": (3, 3), "stride_kv": (2, 2), "class_token": False}
spread = {}
for residual in (False, True):
    mt.manual_seed(1)
    layer = RelativePoolingAttention(32, 1, (8, 8), residual_pooling=residual, **options)
    for linear in (layer.qkv, layer.proj):
        mt.nn.init.trunc_normal_(linear.weight, std=0.02)  # as in a new model
    output = layer(x, (8, 8))[0][0].detach()
    spread[residual] = (output.std(0).mean() / output.std()).item()
    share = f"{spread[residual]:.2f}"
    print(f"residual pooling {residual!s:5}: std over the tokens / std of all numbers: {share}")
assert spread[False] < 0.7 * spread[True]

# %% [markdown]
# ## Stages
#
# MViTv2-T has four stages. The first block of each stage from 2 to 4 pools its queries with a
# stride of 2: the map then has a quarter of the tokens, and the numbers of channels and heads
# double. The stride of the keys and values starts at 4 and halves from stage to stage until it is
# 1, so most blocks have the same number of keys, 196. Each of these first blocks still reads the
# larger map, so it has four times as many keys as the blocks after it. Here is MViTv2-T for images
# of 224 x 224 pixels.

# %%
SIZES = {"kernel": (3, 3), "stride_q": (2, 2), "stride_kv": (4, 4)}


def layers_of(depths, side):
    """Return (queries, keys, width) of every block of MViTv2 for a map of side x side patches."""
    plan = plan_blocks(
        depths, 96, 1, (side, side), widens_early=True, pools_every_query=True, **SIZES
    )  # fmt: skip
    found = []
    for block in (block for stage in plan for block in stage):
        queries = math.prod(n // s for n, s in zip(block["size"], block["stride_q"], strict=True))
        keys = math.prod(n // s for n, s in zip(block["size"], block["stride_kv"], strict=True))
        found.append((queries, keys, block["output_dim"]))
    return found


tiny = layers_of((1, 2, 5, 2), 56)
print("block  queries  keys  width    scores")
for number, (queries, keys, width) in enumerate(tiny):
    print(f"{number:5} {queries:8,} {keys:5} {width:6} {queries * keys:9,}")
assert [q for q, _, _ in tiny] == [3136] + [784] * 2 + [196] * 5 + [49] * 2

# %% tags=["plot"]
figure = new_figure(7.5, 3)
left, right = figure.subplots(1, 2)
blocks = np.arange(10)
for axes, index, title in ((left, 0, "tokens"), (right, 2, "channels")):
    axes.step(blocks, [layer[index] for layer in tiny], where="mid", label="MViTv2-T")
    axes.step(blocks, [196 if index == 0 else 384] * 10, "--", where="mid", label="ViT-S/16")
    axes.set(xlabel="block", title=title, yscale="log")
    axes.set_yticks([], minor=True)
    values = sorted({layer[index] for layer in tiny})
    axes.set_yticks(values, [f"{value:,}" for value in values])
left.step(blocks, [keys for _, keys, _ in tiny], ":", where="mid", label="MViTv2-T, keys")
left.legend()
show(
    figure,
    "The map shrinks from 3,136 to 49 tokens while the channels grow from 96 to 768. A ViT keeps "
    "one size. MViT has 196 keys in most blocks. The first block of stages 2 to 4 has four "
    "times as many keys as the blocks after it.",
)

# %% [markdown]
# ## MViT or Swin?
#
# MViT and Swin both reduce the number of scores for a large map. Swin lets a token attend to the 49
# tokens of its window. MViT lets it attend to the *whole* map at a coarser resolution. What does
# that cost? The library counts operations (`mt.profile`) and memory (`mt.memory.track`) while both
# models read an image.


# %%
def costs(model):
    """Return parameters in 10^6, FLOPs in 10^9, attention FLOPs in 10^9, and memory in MiB."""
    model.eval()
    image = mt.zeros(1, 3, 224, 224)
    with mt.no_grad(), mt.profile() as profile:
        model(image)
    with mt.memory.track(model) as memory:  # with a graph, as in training
        output = model(image)
    flops = sum(event.flops for event in profile.events) / 1e9
    scores = sum(e.flops for e in profile.events if "Attention" in e.name) / 1e9
    size = sum(parameter.array.nbytes for parameter in model.parameters())
    assert output.shape == (1, 1000)
    return size / 4e6, flops, scores, (memory.peak - size) / 2**20


found = {"MViTv2-T": costs(mvitv2_t()), "Swin-T": costs(swin_t())}
print("           parameters     FLOPs   of attention   memory without parameters")
for name, (count, flops, scores, memory) in found.items():
    print(f"{name:10} {count:8.1f} M {flops:7.2f} G {scores:11.2f} G {memory:12.0f} MiB")
assert 0.9 < found["MViTv2-T"][1] / found["Swin-T"][1] < 1.2
assert found["MViTv2-T"][2] > 3 * found["Swin-T"][2]

# %% [markdown]
# The papers report half as many FLOPs, because they count a multiply-add as one operation, and the
# library counts it as two. Overall, the two models cost about the same. MViT spends several times
# as much on attention, keeps more tensors for the backward pass, and has fewer parameters.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Now take an image of twice the height and width, with the same patch size and strides. By what
# factor does the number of scores grow in the first block of MViT, and in the first block of Swin?
# Write down two numbers, then run the next cell.

# %%
print("  map         MViT, first block   Swin, first block   MViT / Swin")
counts = {}
for side in (56, 112, 224):
    queries, keys, _ = layers_of((1, 2, 5, 2), side)[0]
    counts[side] = queries * keys, side * side * 49
    ratio = counts[side][0] / counts[side][1]
    print(f"{side:4} x {side:3} {counts[side][0]:20,} {counts[side][1]:19,} {ratio:13.0f}")
assert counts[112][0] == 16 * counts[56][0] and counts[112][1] == 4 * counts[56][1]

# %% [markdown]
# The number of scores grows by a factor of 16 in MViT and by a factor of 4 in Swin. Pooling with a
# fixed stride divides the number of pairs by a constant, but the growth stays quadratic. Swin is
# linear in the number of tokens. For large images (object detection), MViTv2 therefore also uses
# windows (its section 4.2, "Hybrid window attention").
#
# ## Relative positions, axis by axis
#
# Swin has one number for each offset. MViTv2 has a *vector* $R$ for each offset, and adds its
# product with the query to the score (Eq. 3). Offsets on a map of $H \times W$ would need
# $(2H - 1)(2W - 1)$ vectors. MViTv2 decomposes them (Eq. 4). If token $i$ is in row $h(i)$ and
# column $w(i)$, the score is
#
# $$s_{ij} = \frac{q_i \cdot k_j}{\sqrt d} +
#   q_i \cdot R^h_{h(i) - h(j)} + q_i \cdot R^w_{w(i) - w(j)}.$$

# %%
for side in (14, 56):
    joint, decomposed = (2 * side - 1) ** 2, 2 * (2 * side - 1)
    print(f"{side} x {side}: {joint:6,} vectors for all offsets, {decomposed:4} decomposed")

# %% [markdown] tags=["your-turn"]
# ## Your turn: decomposed relative scores
#
# Write `relative_scores(query, rows, columns)` for a map of queries of shape (H, W, dim). `rows`
# has shape (2H - 1, dim): its first vector is for the offset $-(H - 1)$ (query minus key), its last
# one for $H - 1$. `columns`, of shape (2W - 1, dim), is the table for the other axis. Return the
# sum of the score's two relative terms, $q_i \cdot R^h_{h(i) - h(j)} + q_i \cdot R^w_{w(i) - w(j)}$
# (Eq. 4), of shape (H, W, H, W): query row, query column, key row, key column.
#
# *Hint:* `mt.arange(n)` as a column, minus `mt.arange(n)` as a row, gives all offsets of one axis.
# Index the table with these offsets, and let `mt.einsum` form the products for one axis.


# %% tags=["answer"]
def relative_scores(query, rows, columns):
    """Return the relative scores, shape (query row, query column, key row, key column)."""
    down, right = (mt.arange(n) for n in query.shape[:2])
    table_h = rows[down.unsqueeze(1) - down + len(down) - 1]  # (query row, key row, dim)
    table_w = columns[right.unsqueeze(1) - right + len(right) - 1]
    scores_h = mt.einsum("hwd,hkd->hwk", query, table_h)
    scores_w = mt.einsum("hwd,wkd->hwk", query, table_w)
    return scores_h.unsqueeze(3) + scores_w.unsqueeze(2)


# %% tags=["check"]
check(
    relative_scores,
    cases=[
        (mt.randn(2, 3, 5), mt.randn(3, 5), mt.randn(5, 5)),
        (mt.randn(5, 2, 3), mt.randn(9, 3), mt.randn(3, 3)),
        (mt.randn(1, 1, 2), mt.randn(1, 2), mt.randn(1, 2)),
    ],
    expected=lambda query, rows, columns: (
        mt.einsum("hwd,hkd->hwk", query, rows[relative_distances(*query.shape[:1] * 2)])[..., None]
        + mt.einsum("hwd,wkd->hwk", query, columns[relative_distances(*query.shape[1:2] * 2)])[
            :, :, None
        ]
    ),
    properties={
        "tables of 0 give scores of 0": lambda s, query, rows, columns: (
            relative_scores(query, rows * 0, columns * 0) == 0
        ).all()
    },
)

# %% tags=["plot"]
offsets = np.arange(-6, 7)
rows, columns = np.exp(-(offsets**2) / 2.0), np.exp(-((offsets - 2) ** 2) / 2.0)
places = [(1, 1), (3, 3), (5, 4)]
maps = []
for row, column in places:
    one = rows[row - np.arange(7) + 6][:, None] + columns[column - np.arange(7) + 6]
    one = one / 2
    one[row, column] = np.nan
    maps.append(one)
show(
    mt.viz.image_rows_figure(
        [maps], [""], "Relative scores of one query (blue)",
        [[f"row {row}, column {column}" for row, column in places]],
    ),
    "The sum of a row term and a column term forms a cross that moves with the query. Here, keys "
    "in the same row have high scores, and so do keys two columns to the left.",
)  # fmt: skip

# %% [markdown]
# ## What goes wrong if each map counts in its own steps
#
# Queries and keys are pooled with different strides. Take one axis with 8 queries and 2 keys: key 1
# covers positions 4 to 7, so it starts at position 4. If you simply subtract the indices, query 4
# and key 1 seem to be three steps apart, and only the first queries are near any key. The coarser
# map must count in steps of the finer one.

# %%
naive = np.arange(8)[:, None] - np.arange(2)
correct = relative_distances(8, 2).numpy() - 4  # the library adds 4: its distances start at 0
print("query                       ", np.arange(8))
print("distance to key 1, naive    ", naive[:, 1])
print("distance to key 1, correct  ", correct[:, 1])
assert (correct == np.arange(8)[:, None] - 4 * np.arange(2)).all()
assert naive[4, 1] == 3 and correct[4, 1] == 0

# %% [markdown]
# With this mistake, shapes and gradients are still correct, and the table even has enough rows. Two
# other mistakes are just as hard to notice: indexing the table by key minus query, and pooling the
# class token together with the patches. You will meet both in the exercises below.
#
# ## In the library

# %%
from minitorch_attn.models import mvit, mvitv2

where(
    PoolingAttention, pool_tokens, plan_blocks, mvit.MultiscaleBlock,
    RelativePoolingAttention.with_positions, mvitv2.relative_distances,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Give `layers_of` a different plan: a model with ten blocks of width 96 that keeps its 56 x 56 map
# throughout and pools its keys with a stride of 4. How many scores does it have in total, compared
# with MViTv2-T? How much of the difference is due to pooled queries? Then train an MViT on clips:
# `mta train mvit`.
#
# Then practice:
#
# ```sh
# mta exercise start 50
# mta exercise start 51
# ```
#
# ## Three questions
#
# 1. Which of queries, keys and values must be pooled in the same way, and why?
# 2. In Swin, a token attends to 49 fine tokens; in MViT, to 196 coarse ones. What can a token of
#    each model see that a token of the other cannot?
# 3. Decomposed tables have far fewer vectors. Which patterns of offsets can they not express?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Keys and values must be pooled in the same way: each weight belongs to one key and multiplies
#    its value. The queries can be pooled differently, because each query gives one row of the
#    output.
# 2. Swin sees the details of its window, but nothing beyond it before the windows shift. MViT sees
#    the whole image in its first block, but has only one key for each block of 4 x 4 positions.
# 3. Decomposed tables cannot express patterns that, for one query, are not the sum of a row term
#    and a column term. An example is a high score for a single offset, with low scores for the rest
#    of its row and column.
