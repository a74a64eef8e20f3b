# %% [markdown]
# # Non-local blocks and local relations
#
# A convolution multiplies a small window by fixed weights. What can it not compute? Attention can
# help as a block between convolutions, or as a layer that replaces them. What do these two ideas
# cost, and why did Swin replace both?
#
# *Prerequisites:* attention (lesson 9), ViT (lesson 21) and Swin (lesson 25). The COMP541 deck
# shows both ideas ("Idea #1: Add attention to existing CNNs", "Idea #2: Replace Convolution with
# Local Attention"); `docs/decks.md` lists the decks.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.shape_pairs import draw_shape_pairs
from minitorch_attn.models import NonLocalBlock, ResNet, add_non_local
from minitorch_attn.models.local_relation import LocalRelation
from minitorch_attn.models.resnet import BasicBlock
from minitorch_attn.ops.attention.sliding_window import sliding_window_weights

mt.manual_seed(0)

# %% [markdown]
# ## Same or different?
#
# Each image shows two shapes. Are they the same? The shapes are far apart, so no window of a small
# network contains both.

# %% tags=["plot"]
pairs = draw_shape_pairs(8, np.random.default_rng(12))
show(
    mt.viz.image_rows_figure(
        [np.clip(pairs.images[:, 0], 0, 1)], [""], "Two shapes",
        [["same" if same else "different" for same in pairs.same]],
    ),
    "Each image has two of six shapes, with at least 9 empty pixels between them.",
)  # fmt: skip

# %% [markdown]
# A convolution with a 3 x 3 window reads pixels at a distance of up to 1, so $L$ layers reach a
# distance of $L$. Change one pixel, and see how far the change spreads.

# %%
layers = [mt.nn.Conv2d(1, 1, 3, padding=1, bias=False) for _ in range(4)]
for layer in layers:
    layer.weight.data = mt.ones(1, 1, 3, 3)
x = mt.zeros(1, 1, 15, 15)
x[0, 0, 7, 7] = 1.0
for depth, layer in enumerate(layers, 1):
    x = layer(x).detach()
    width = int((x[0, 0, 7] != 0).sum().item())
    print(f"after {depth} convolutions, the pixel reaches {width} x {width} positions")
    assert width == 2 * depth + 1

# %% [markdown]
# ## Idea 1: a block that looks everywhere
#
# A non-local operation computes each output from *all* positions (Wang et al. 2018,
# arXiv:1711.07971v3, Eq. 1):
#
# $$y_i = \frac{1}{C_i} \sum_j f(x_i, x_j)\, g(x_j), \qquad z_i = W_z y_i + x_i.$$
#
# The function $f$ compares two positions, $g(x_j)$ is the value of position $j$, and $C_i$
# normalizes the sum. The matrix $W_z$ gives the result as many channels as $x_i$. With
# $f = \exp(x_i \cdot x_j)$ and $C_i = \sum_j f(x_i, x_j)$, the weights $f / C$ are a softmax.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the Gaussian non-local mean
#
# Write `non_local_mean(x, g)` for a map `x` of shape (channel, row, column) and a map `g` of shape
# (inner channel, row, column). Return $y$, which has the shape of `g`. Here
# $f = \exp(x_i \cdot x_j)$, and $C$ is the sum of $f$ over all positions.
#
# *Hint:* Flatten rows and columns to one axis. Which matrix product gives all $x_i \cdot x_j$?


# %% tags=["answer"]
def non_local_mean(x, g):
    """Return the mean of g over all positions, weighted by the similarity of x."""
    x_flat, g_flat = x.flatten(1), g.flatten(1)  # (channel, position)
    weights = mt.softmax(x_flat.T @ x_flat, -1)  # (query position, key position)
    return (g_flat @ weights.T).reshape(g.shape)


# %% tags=["check"]
check(
    non_local_mean,
    cases=[
        (mt.randn(3, 4, 5), mt.randn(2, 4, 5)), (mt.randn(2, 1, 7), mt.randn(5, 1, 7)),
        (mt.randn(5, 3, 2), mt.randn(1, 3, 2)),
    ],
    expected=lambda x, g: mt.nn.functional.scaled_dot_product_attention(
        x.flatten(1).T, x.flatten(1).T, g.flatten(1).T, scale=1.0
    ).T.reshape(g.shape),
    properties={
        "the mean of a constant g is g": lambda y, x, g: np.allclose(
            non_local_mean(x, mt.ones(*g.shape, dtype=g.dtype)).numpy(), 1.0, atol=1e-5
        )
    },
)  # fmt: skip

# %% [markdown]
# To see what the weights do, let the feature of each position be the 5 x 5 patch around it. This
# needs no training, because equal shapes have equal patches.

# %%
images = mt.tensor(pairs.images[pairs.same == 1][:3])
corners = pairs.corners[pairs.same == 1][:3]
patches = mt.nn.functional.unfold(images, 5, padding=2).unflatten(2, (24, 24))
block = NonLocalBlock(25, mode="gaussian")
weights = block.attention(patches).detach().numpy().reshape(3, 24, 24, 24, 24)
centers = corners[:, 0] + 2  # centers of the first shapes
maps = [weights[i, row, column] for i, (row, column) in enumerate(centers)]
for one, (row, column) in zip(maps, corners[:, 1] + 2, strict=True):
    print(f"weight of the center of the other shape: {one[row, column]:.2f}")
    assert one[row, column] > 0.1  # among 576 positions

# %% tags=["plot"]
shown = np.clip(images.numpy()[:, 0], 0, 1)
for image, (row, column) in zip(shown, centers, strict=True):
    image[row, column] = np.nan
show(
    mt.viz.image_rows_figure(
        [shown, [one / one.max() for one in maps]], ["image", "weights"],
        "Attention from one position (blue)",
    ),
    "From the blue position, the block looks at itself and at the same place of the other shape.",
)  # fmt: skip

# %% [markdown]
# ## A block that starts as the identity
#
# $W_z$ starts at zero, so a new block returns its input. It can be inserted into a trained network
# without changing what the network computes; training then moves $W_z$ away from zero.

# %%
network = ResNet(BasicBlock, (1, 2), 5, channels=(4, 6), stem_channels=4, in_channels=1).eval()
before = network(images).detach()
add_non_local(network, {"layer2": [0]})
print([name for name, _ in network.layer2.named_children()])
assert (network(images) == before).all()

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# In a ResNet, the feature map after the stage "res3" has 28 x 28 positions. A non-local block
# computes a weight for each pair of positions. With `subsample=True`, it max-pools the keys and
# values by 2 along both axes.
# How many weights does it compute without and with subsampling? How many times as many weights
# would a map of 56 x 56 need? Write down three numbers, then run the next cell.

# %%
sizes = {}
for side, subsample in ((28, False), (28, True), (56, False)):
    keys = (side // 2) ** 2 if subsample else side**2
    sizes[side, subsample] = side**2 * keys
    print(f"{side} x {side}, subsample={subsample!s:5}: {sizes[side, subsample]:9,} weights")
small = NonLocalBlock(2, subsample=True).attention(mt.zeros(1, 2, 28, 28))
assert small.array.size == sizes[28, True] == 784 * 196

# %% [markdown]
# 784 x 784 = 614,656 weights become 784 x 196 = 153,664, a quarter. A map of 56 x 56 needs 16 times
# as many. This is why non-local blocks are placed late in a network, where the maps are small.
#
# ## Idea 2: attention in place of a convolution
#
# A local relation layer keeps the window of a convolution, but computes the weights from the input,
# while a convolution learns fixed ones (Hu et al. 2019, arXiv:1904.11491v2, section 3). The score
# of a position in the window is the sum of two terms: the product of this position's key and the
# query of the window's center (appearance), and a number for the position's offset from the center
# (geometry). A softmax over the window turns the scores into weights.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the weights of a window
#
# Write `window_weights(query, key, geometry)` for $n$ positions in a line. `query` and `key` have
# shape $(n,)$. `geometry` has shape $(k,)$, where the window size $k$ is odd. Return the weights of
# shape $(n, k)$: `weights[i]` is the softmax of $\mathrm{query}_i\, \mathrm{key}_{i+d} +
# \mathrm{geometry}_d$ over the offsets $d = -\lfloor k/2 \rfloor, \ldots, \lfloor k/2 \rfloor$.
# Positions outside the line get weight 0.
#
# *Hint:* Pad the keys with `mt.pad`. Then `mt.sliding_windows(x, 0, k, 1)` returns the $n$ windows
# of the padded keys `x`. To give the positions outside the weight 0, pad $n$ zeros with `-inf`, and
# add the windows of this padded tensor to the scores.


# %% tags=["answer"]
def window_weights(query, key, geometry):
    """Return the attention weights within each window of a row, shape (n, k)."""
    k = len(geometry)
    padding = (k // 2, k // 2)
    keys = mt.sliding_windows(mt.pad(key, padding), 0, k, 1)  # (n, k)
    outside = mt.pad(mt.zeros_like(key), padding, value=float("-inf"))
    scores = query.unsqueeze(1) * keys + geometry + mt.sliding_windows(outside, 0, k, 1)
    return mt.softmax(scores, -1)


# %% tags=["check"]
check(
    window_weights,
    cases=[
        (mt.randn(7), mt.randn(7), mt.randn(3)), (mt.randn(4), mt.randn(4), mt.randn(5)),
        (mt.randn(1), mt.randn(1), mt.randn(1)),
    ],
    expected=lambda query, key, geometry: sliding_window_weights(
        query.reshape(1, 1, 1, 1, -1), key.reshape(1, 1, 1, 1, -1), key.reshape(1, 1, 1, 1, -1),
        len(geometry),
        mt.stack([geometry * (row == len(geometry) // 2) for row in range(len(geometry))]).reshape(
            1, -1
        ),
        mask_padding=True,
    )[1].reshape(len(geometry), len(geometry), -1)[len(geometry) // 2].T,
    properties={
        "the weights of a window sum to 1": lambda weights, query, key, geometry: np.allclose(
            weights.sum(-1).numpy(), 1.0, atol=1e-5
        )
    },
)  # fmt: skip

# %% [markdown]
# The weights depend on the image. Here the key is the pixel's value minus 0.5, the query is 4 times
# that, and the geometry is zero.

# %%
layer = LocalRelation(1, 5, 1)
for name, value in (("query", 4.0), ("key", 1.0)):
    getattr(layer, name).weight.data = mt.full((1, 1, 1, 1), value)
    getattr(layer, name).bias.data = mt.full((1,), -0.5 * value)
for p in (layer.geometry2.weight, layer.geometry2.bias):
    p.data = mt.zeros(*p.shape)
found = layer.window_weights(images[:1]).detach().numpy()[0, 0].reshape(5, 5, 24, 24)
row, column = centers[0]
places = {"center": (row, column), "corner": (row - 2, column - 2), "left": (row, column - 3)}
windows = [found[:, :, r, c] for r, c in places.values()]
print("sums of the weights:", [round(float(w.sum()), 3) for w in windows])
assert all(abs(w.sum() - 1) < 1e-4 for w in windows)
assert abs(windows[0] - windows[1]).max() > 0.01  # a convolution would have equal weights

# %% tags=["plot"]
padded = np.pad(np.clip(images.numpy()[0, 0], 0, 1), 2)
cuts = [padded[r : r + 5, c : c + 5] for r, c in places.values()]
show(
    mt.viz.image_rows_figure(
        [cuts, [w / w.max() for w in windows]], ["window", "weights"],
        "Weights of a local relation layer", [[""] * 3, list(places)],
    ),
    "The weights follow the shape: ink attends to ink, background to background.",
)  # fmt: skip

# %% [markdown]
# ## What do they cost?
#
# We count the multiply-adds per position for $C$ channels. A 3 x 3 convolution needs $9C^2$. A
# local relation layer has windows of $k \times k$, and each group of $m$ channels shares its
# attention weights. It needs $2C^2/m$ for query and key, $k^2 C/m$ for the scores, $k^2 C$ for the
# weighted sums and $C^2$ for its last 1 x 1 convolution.


# %%
def relation_cost(channels, k, m):
    return 2 * channels**2 // m + k * k * channels // m + k * k * channels + channels**2


print("channels   3 x 3 convolution   7 x 7 convolution   7 x 7 relation   windows, copied")
for channels in (64, 256):
    costs = 9 * channels**2, 49 * channels**2, relation_cost(channels, 7, 8)
    print(f"{channels:8} {costs[0]:19,} {costs[1]:19,} {costs[2]:16,} {49 * channels:17,}")
    assert costs[2] < costs[0] < costs[1]

# %% [markdown]
# The arithmetic is cheap, but the windows overlap, and each position has its own weights, so the
# layer is not one large matrix product. PyTorch users write it with `unfold`, which copies all
# windows. For windows of 7 x 7, the copies take 49 times the memory of the map. The library reads
# the windows in place (see below). Swin's windows do not overlap, so all positions of a window
# share their keys, and attention is a matrix product again.
#
# | | weights of a position | positions that it reads | cost |
# | --- | --- | --- | --- |
# | convolution | fixed | window around it | matrix product |
# | 1: non-local block | computed | everywhere | quadratic in the positions |
# | 2: local relation | computed | window around it | linear, but no matrix product |
# | 3: Transformer on pixels | computed | everywhere | quadratic, on the largest map |
# | 4: ViT | computed | all patches | quadratic, on few patches |
# | 5: Swin | computed | windows that do not overlap | linear, as matrix products |
#
# ## What goes wrong without looking at the other shape
#
# A network without the block computes a feature for each shape, takes the mean over all positions
# and applies a linear classifier. So its score for the shapes $A$ and $B$ is $g_A + g_B$, with one
# number $g$ per shape. How many pairs can such a sum classify correctly? We try many choices of
# $g$, each with its best threshold.

# %%
generator = np.random.default_rng(3)
same = [(a, a) for a in range(6) for _ in range(5)]  # 30 pairs, the same number as below
different = [(a, b) for a in range(6) for b in range(6) if a != b]
shapes, labels = np.array(same + different), np.repeat([1, 0], 30)
best = 0.0
for g in generator.normal(size=(2000, 6)):
    scores = g[shapes].sum(1)
    for threshold in np.sort(scores) + 1e-9:
        accuracy = ((scores > threshold) == labels).mean()
        best = max(best, accuracy, 1 - accuracy)
compared = (np.abs(np.eye(6)[shapes[:, 0]] - np.eye(6)[shapes[:, 1]]).sum(1) == 0) == labels
print(f"best of 2,000 sums: {100 * best:.0f} %   comparing shapes: {100 * compared.mean():.0f} %")
assert best < 0.7 and compared.all()

# %% [markdown]
# Training cannot help: the mean of $g_A + g_B$ over all pairs of equal shapes is the same as over
# all pairs of different shapes, so no threshold can separate the two groups. `mta train nonlocal`
# trains a network with the block and one without it, which have the same number of parameters. It
# also trains a third network, with a local relation layer.
#
# ## In the library

# %%
from minitorch_attn.models import non_local
from minitorch_attn.ops.attention.sliding_window import SlidingWindowAttention
from minitorch_attn.ops.plumbing.window_runs import WindowRuns

where(NonLocalBlock, non_local.add_non_local, LocalRelation, SlidingWindowAttention, WindowRuns)

# %% [markdown]
# ## Exercise
#
# The dot-product form uses $f = \theta_i \cdot \phi_j$ and $C = N$, the number of positions. Write
# `dot_product_mean(theta, phi, g)` without computing the $N \times N$ weights. You are done when it
# agrees with the product of the weights and $g$. For which $N$ is this cheaper than computing the
# weights?
#
# Then train the networks that compare two shapes, with and without the block: `mta train nonlocal`.
#
# ## Three questions
#
# 1. Why can a non-local block be inserted into a trained network, and which parameter makes this
#    possible?
# 2. In a local relation layer, the query and the key are each one number per group of channels.
#    Attention in a Transformer compares vectors. Why are single numbers enough here?
# 3. The layer with 7 x 7 windows needs fewer multiply-adds than a 3 x 3 convolution. Why can it
#    still be slower?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. $W_z$ starts at zero, so $z = x$ at first. The residual connection passes the input on.
# 2. The layer compares only the positions of one window. It has many groups, and each group
#    compares one feature. The geometry term accounts for the offset.
# 3. Each position has its own weights, so the weighted sums cannot be computed as one matrix
#    product. The layer reads all the overlapping windows, so its time depends more on memory
#    traffic than on arithmetic.
