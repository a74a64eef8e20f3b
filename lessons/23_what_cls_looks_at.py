# %% [markdown]
# # What [CLS] looks at
#
# The class token collects information about the whole image, and you can plot its attention as a
# map over the image. Does such a map show what the prediction depends on, and how can you test
# this?
#
# *Prerequisites:* residuals (lesson 13), ViT (lesson 21) and its positions (lesson 22). The deck
# TAPASWI ("Dino, some beautiful properties!") shows such attention maps; `docs/decks.md` lists the
# decks.
#
# The digit images come with scikit-learn: `python -m pip install scikit-learn`.

# %%
import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models import VisionTransformer

F = mt.nn.functional
digits, labels, test_digits, test_labels = mt.data.digits_split()

# %% [markdown]
# ## A task that depends on where the model looks
#
# We put the image of a digit, 8 x 8 pixels, at a random position in a gray, noisy picture of
# 16 x 16 pixels. Patches of 4 x 4 pixels form a grid of 4 x 4 tokens. We know where the digit is.
# During training, the model is told only which digit it is.


# %%
def pictures_of(digits, generator):
    """Return pictures (image, 1, 16, 16), with and without noise."""
    noise = 0.2 * generator.random((len(digits), 1, 16, 16), dtype=np.float32)
    ink = np.zeros_like(noise)
    corners = 2 * generator.integers(0, 5, (len(digits), 2))
    for i, (row, column) in enumerate(corners):
        ink[i, :, row : row + 8, column : column + 8] = digits[i]
    return np.maximum(noise, ink), ink


def patches(pictures):
    """Cut pictures (image, 1, 16, 16) into patches (image, patch, 4, 4)."""
    return pictures.reshape(-1, 4, 4, 4, 4).swapaxes(2, 3).reshape(-1, 16, 4, 4)


def joined(patches):
    """Join patches into pictures: the inverse of `patches`."""
    return patches.reshape(-1, 4, 4, 4, 4).swapaxes(2, 3).reshape(-1, 1, 16, 16)


def new_model(seed):
    mt.manual_seed(seed)
    return VisionTransformer(
        image_size=16, patch_size=4, num_classes=10, embed_dim=32, num_layers=2, num_heads=4,
        mlp_dim=64, in_channels=1, positions="2d",
    )  # fmt: skip


test_pictures, test_ink = pictures_of(test_digits, np.random.default_rng(1))
has_ink = patches(test_ink).mean((2, 3)) > 0.02  # (image, patch)
print(f"{has_ink.sum(1).mean():.1f} of 16 patches carry ink, or {100 * has_ink.mean():.0f} %")

# %%
steps, rate, generator = pick(600, 350), 4e-3, np.random.default_rng(0)
model = new_model(0)
optimizer = mt.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
for step in range(steps):
    warm_up, cosine = min(1, (step + 1) / 30), 0.5 * (1 + np.cos(np.pi * step / steps))
    optimizer.param_groups[0]["lr"] = rate * warm_up * cosine
    chosen = generator.integers(0, len(labels), 64)
    pictures, _ = pictures_of(digits[chosen], generator)
    loss = F.cross_entropy(model(mt.tensor(pictures)), mt.tensor(labels[chosen]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def accuracy(pictures):
    with mt.no_grad():
        return 100 * (model(mt.tensor(pictures)).argmax(1).numpy() == test_labels).mean()


whole = accuracy(test_pictures)
print(f"{steps} steps: {whole:.1f} % of the test pictures read correctly (guessing: 10 %)")
rng = np.random.default_rng(4)  # for examples

# %% [markdown]
# ## Two maps
#
# Every layer has attention weights of shape (heads, query, key). The row of query 0 contains the
# class token's weights for all tokens.
#
# * **Last layer**: average the class token's row of the last layer over the heads.
# * **Rollout** (Abnar and Zuidema 2020): after the first layer, a token contains information from
#   other patches as well as its own. So rollout combines the weights of all layers. In each layer,
#   the residual path keeps a token's own information. Rollout counts this path as half of the
#   layer: $A_l = \frac12 I + \frac12 \bar W_l$, with the weights $\bar W_l$ averaged over the
#   heads. Along a path through the layers, the entries of the $A_l$ are multiplied, and the product
#   $R = A_L \cdots A_2 A_1$ sums over all paths. Row 0 of $R$ is the map over the *input* patches.

# %% [markdown] tags=["your-turn"]
# ## Your turn: rollout
#
# Write `follow_paths(weights)` with NumPy. `weights` holds the attention weights of all layers for
# one image, from the first layer to the last, with shape (layer, heads, token, token). Return $R$
# of shape (token, token).
#
# *Hint:* Start with the identity: before the first layer, each token contains information only from
# its own patch. Matrix products do not commute. On which side must you multiply the product so far
# by the matrix of the next layer?


# %% tags=["answer"]
def follow_paths(weights):
    """Return the rollout through all layers, shape (token, token)."""
    identity = np.eye(weights.shape[-1])
    paths = identity
    for layer in weights:
        mixed = 0.5 * identity + 0.5 * layer.mean(0)  # (token, token)
        paths = mixed @ paths
    return paths


# %% tags=["check"]
check(
    follow_paths,
    cases=[
        rng.dirichlet(np.ones(5), (2, 3, 5)),  # (layer, heads, token, token): rows sum to 1
        rng.dirichlet(np.ones(7), (5, 1, 7)),
        rng.dirichlet(np.ones(3), (1, 2, 3)),
    ],
    expected=lambda weights: mt.viz.attention_rollout(list(weights)),
    properties={"each row sums to 1": lambda paths, weights: np.allclose(paths.sum(-1), 1)},
)

# %% [markdown]
# Now compute both maps for all test pictures. The library computes the rollout:


# %%
def weights_of(model, pictures):
    """Return each layer's attention weights, a list of arrays (image, heads, query, key)."""
    found = []
    watch = mt.nn.watch_attention(model, lambda layer, weights: found.append(weights.numpy()))
    with watch, mt.no_grad():
        model(mt.tensor(pictures))
    return found


def last_layer(weights):
    return weights[-1].mean(1)[:, 0, 1:]  # (image, patch): without the class token itself


def rollout(weights):
    images = zip(*weights, strict=True)  # for each image, a list of layers (heads, query, key)
    return np.stack([mt.viz.attention_rollout(layers)[0, 1:] for layers in images])


weights = weights_of(model, test_pictures)
print(
    "weights of a layer",
    weights[0].shape,
    "  a row sums to",
    weights[0][0, 0, 0].sum().round(5),
)
maps = {"rollout": rollout(weights), "last layer": last_layer(weights)}
assert all(values.shape == has_ink.shape for values in maps.values())
shown = int(np.flatnonzero((test_labels == 3) & (has_ink.sum(1) < 6))[0])

# %% tags=["plot"]
figure = mt.viz.class_attention_figure(
    test_pictures[shown], [layer[shown] for layer in weights], (4, 4), "Where [CLS] looks: a 3"
)
show(
    figure,
    "Does the bright area of a map cover the digit? Rollout (the last panel) covers it "
    "better than the heads of the last layer.",
)

# %% [markdown]
# Such pictures are easy to over-interpret. So we measure what share of the map's weight is on
# patches with ink.

# %%
share = {}
for name, values in maps.items():
    share[name] = 100 * (values * has_ink).sum() / values.sum()
    print(f"{name:11} {share[name]:.0f} % of the weight is on ink")
print(f"{'chance':11} {100 * has_ink.mean():.0f} %")
assert share["rollout"] > 100 * has_ink.mean() + 20

# %% [markdown]
# ## Erase the patches with the largest weights
#
# A map makes a causal claim: *these patches determine the prediction*. To test this claim, erase
# the $k$ patches with the largest values (replace them with noise) and classify again. If the map
# is correct, accuracy falls faster than when you erase other patches. The controls are:
#
# * random patches among all 16;
# * random patches *among those with ink*: is the map better than just knowing where the ink is?
# * the patches with the *least* weight: erasing them should hardly change the accuracy.

# %% [markdown] tags=["your-turn"]
# ## Your turn: erase what a map ranks first
#
# Write `erase(parts, values, count, noise)` with NumPy, for all images at once. `parts` and `noise`
# have shape (image, patch, side, side), and `values` has shape (image, patch). In each image, find
# the `count` patches that have the largest values, and replace them with the patches of `noise` at
# the same positions. Return a new array.
#
# *Hint:* `np.argsort(-values, axis=1)` lists each image's patches, the largest value first. To
# index each image with its own list of patches, use a column of image numbers, of shape (image, 1),
# as the first index.


# %% tags=["answer"]
def erase(parts, values, count, noise):
    """In each image, put noise into the `count` patches that have the largest values."""
    order = np.argsort(-values, axis=1)[:, :count]  # (image, count)
    images = np.arange(len(parts))[:, None]  # (image, 1)
    result = parts.copy()
    result[images, order] = noise[images, order]
    return result


# %% tags=["check"]
check(
    erase,
    cases=[
        (rng.random((3, 5, 2, 2)), rng.random((3, 5)), 2, np.zeros((3, 5, 2, 2))),
        (rng.random((2, 7, 3, 3)), rng.random((2, 7)), 6, -np.ones((2, 7, 3, 3))),
        (rng.random((5, 3, 1, 1)), rng.random((5, 3)), 0, np.zeros((5, 3, 1, 1))),
    ],
    expected=lambda parts, values, count, noise: np.stack(
        [
            np.stack(
                [
                    noise[i, j] if (values[i] > values[i, j]).sum() < count else parts[i, j]
                    for j in range(parts.shape[1])
                ]
            )
            for i in range(len(parts))
        ]
    ),
    properties={
        "each image loses `count` patches": lambda result, parts, values, count, noise: (
            (result != parts).any((2, 3)).sum(1) == count
        ).all()
    },
)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The model classifies most test pictures correctly, and about a third of the patches carry ink.
# Erase two of the 16 patches, chosen by (a) rollout, (b) the map of the last layer, (c) chance
# among the patches with ink, (d) chance. Rank the four: after which choice does the model classify
# the fewest pictures correctly? The last layer's map shows the weights that the class token uses
# just before the classification. Does this make choice (b) lower the accuracy more than choice (c)?
# Write down your ranking, then run the next cell.


# %%
def erased(order, count):
    """Return the pictures, with the patches order[i, :count] of picture i replaced by noise."""
    parts, generator = patches(test_pictures).copy(), np.random.default_rng(2)
    for i in range(len(parts)):
        parts[i, order[i, :count]] = 0.2 * generator.random((count, 4, 4))
    return joined(parts)


def curve(values):
    order = np.argsort(-values, axis=1)  # largest first
    return [accuracy(erased(order, count)) for count in counts]


counts = [0, 1, 2, 3, 4, 6]
chance = np.random.default_rng(3).random(has_ink.shape)
orders = {
    "rollout": maps["rollout"], "last layer": maps["last layer"],
    "random, with ink": chance + has_ink, "random": chance, "least by rollout": -maps["rollout"],
}  # fmt: skip
print("test pictures read correctly, %, when patches are erased:")
print(" " * 18 + "".join(f"{count:7}" for count in counts))
curves = {}
for name, values in orders.items():
    curves[name] = curve(values)
    print(f"{name:18}" + "".join(f"{value:7.1f}" for value in curves[name]))
two = counts.index(2)
assert curves["rollout"][two] < curves["random, with ink"][two] - 5
assert curves["random, with ink"][two] < curves["random"][two] - 5
assert curves["rollout"][two] < curves["random"][two] - 20
assert curves["rollout"][two] < curves["last layer"][two] - 5
assert curves["last layer"][two] > curves["random, with ink"][two] - 5  # no better
assert curves["least by rollout"][two] > whole - 5

# %% [markdown]
# Rollout passes the test: erasing the two patches that it ranks first makes most pictures
# unreadable. The raw map of the last layer does no better than random patches with ink. At that
# depth the token at position $j$ already contains information from other patches, so a large weight
# on it does not mean that the model looks at patch $j$.

# %% tags=["plot"]
looks = {
    "rollout": ("#D55E00", "o-"), "last layer": ("#CC79A7", "s-"),
    "random, with ink": ("#0072B2", "^--"), "random": ("#56B4E9", "v--"),
    "least by rollout": ("#009E73", "D:"), "untrained model": ("#999999", "x-."),
}  # fmt: skip


def draw(curves):
    figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for name, values in curves.items():
        colour, style = looks[name]
        axis.plot(counts, values, style, color=colour, label=name)
    axis.axhline(10, color="0.6", linewidth=1)
    axis.set(xlabel="patches erased, of 16", ylabel="read correctly, %", ylim=(0, 100))
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title="erased first")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


show(draw(curves), "The lower a curve is, the better its order finds the patches that matter.")

# %% [markdown]
# A map of what a prediction depends on does not have to come from attention. The derivative of a
# logit shows directly how much the prediction depends on each pixel, at least for small changes.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a map from gradients
#
# Write `saliency(score, pictures)`, which computes a map without attention. `pictures` has shape
# (image, 1, height, width). `score` is a function that returns one number for each image, of shape
# (image,): for example, a logit of the model. Compute the gradient of each image's score with
# respect to its pixels. Return the mean absolute value of this gradient in each patch of 4 x 4
# pixels, of shape (image, patch).
#
# *Hint:* The score of an image depends only on that image, so the gradient of the *sum* of all
# scores contains the gradients of all images at once. Start from a detached copy of the pictures
# with `requires_grad_()`. `F.avg_pool2d` averages over patches.


# %% tags=["answer"]
def saliency(score, pictures):
    """Return the mean absolute gradient of the score in each patch, shape (image, patch)."""
    pixels = pictures.detach().clone().requires_grad_()
    score(pixels).sum().backward()
    slopes = pixels.grad.abs()  # (image, 1, height, width)
    return F.avg_pool2d(slopes, 4).flatten(1)


# %% tags=["check"]
check(
    saliency,
    cases=[
        (lambda x: (x**2).sum((1, 2, 3)), mt.randn(3, 1, 8, 12)),
        (lambda x: -x[:, 0, 1, 5] * x[:, 0, 3, 0], mt.randn(2, 1, 4, 8)),
        (lambda x: x.mean((1, 2, 3)).tanh(), mt.randn(1, 1, 4, 4)),
    ],
    expected=lambda score, pictures: F.avg_pool2d(
        mt.autograd.grad(score(x := pictures.detach().requires_grad_()).sum(), x)[0].abs(), 4
    ).flatten(1),
    properties={
        "the negative score has the same map": lambda result, score, pictures: np.allclose(
            saliency(lambda x: -score(x), pictures).numpy(), result.numpy()
        )
    },
)

# %% [markdown]
# Does this map beat rollout? Try it: `curve(saliency(score, mt.tensor(test_pictures)).numpy())`
# computes another row for the table above, if `score` returns the largest logit of each image.
#
# ## What goes wrong if you only look at the map
#
# A network with random weights has attention maps, too: their rows sum to 1, and the pictures look
# just as meaningful. Only the erasing test tells such maps from those of a trained network.

# %%
untrained = weights_of(new_model(7), test_pictures)
random_map = rollout(untrained)
curves["untrained model"] = curve(random_map)
on_ink = 100 * (random_map * has_ink).sum() / random_map.sum()
print("a row sums to", untrained[0][0, 0, 0].sum().round(5))
print(f"share on ink: {on_ink:.0f} % (trained {share['rollout']:.0f} %)")
print(f"two patches erased: {curves['untrained model'][two]:.1f} % read correctly", end="")
print(f" with this map, {curves['rollout'][two]:.1f} % with that of the trained model")
assert curves["untrained model"][two] > curves["rollout"][two] + 15

# %% tags=["plot"]
stretched = [maps["rollout"][shown], random_map[shown]]
figure, axes = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
axes[0].imshow(test_pictures[shown, 0], cmap="gray")
axes[0].set_title("image", fontsize=10)
for axis, values, name in zip(axes[1:], stretched, ("trained", "random weights"), strict=True):
    axis.imshow(test_pictures[shown, 0], cmap="gray")
    axis.imshow(
        values.reshape(4, 4), cmap="magma", alpha=0.75, extent=(-0.5, 15.5, 15.5, -0.5),
    )  # fmt: skip
    axis.set_title(f"rollout, {name}", fontsize=10)
for axis in axes:
    axis.set(xticks=[], yticks=[])
show(figure, "Could you tell which map is from the trained network? Both have bright spots.")
show(
    draw(curves),
    "The gray crosses (the map of random weights) are close to the light blue triangles (chance) "
    "and far from the trained model's rollout.",
)

# %% [markdown]
# Keep two more cautions in mind. First, a map shows where the class token takes values *from*, but
# not what it does with them, so it does not explain the prediction. Second, a map that merely
# follows the ink would do better than random patches. That is why you also need the control with
# random patches among those with ink.
#
# ## In the library

# %%
where(mt.nn.watch_attention, mt.viz.attention_rollout, mt.viz.class_attention_figure)

# %% [markdown]
# ## Exercise
#
# Weight the last layer's map by the values: multiply the weight of token $j$ by the norm of its
# value vector (`v_proj` of `model.blocks[-1].attention`, on the normalized tokens). Plot its curve
# with the others. Use the same test as above: the map is better than the plain last layer if fewer
# pictures are read correctly with two patches erased. You are done when your table has a row for
# this map and shows whether it is better. (It may not be.)
#
# ## Three questions
#
# 1. Two maps look equally convincing. Which experiment shows which one is better, and what was its
#    result for the trained and the untrained model?
# 2. Why is "random patches" alone too easy a control here?
# 3. Why can rollout be a better map of the input than the last layer, although the classifier reads
#    the class token only after the last layer?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Erase the patches that a map ranks first and let the trained model classify again. Erasing the
#    two patches that the trained model's rollout ranks first lowers the accuracy far more than
#    erasing the two that the untrained model's rollout ranks first. Both numbers are printed side
#    by side.
# 2. Most patches contain no ink (see the first printed line), so random patches are mostly empty
#    and any map that finds ink beats them. The control among patches with ink is harder: with two
#    patches erased, its accuracy is between those of rollout and of random patches.
# 3. In the last layer each token contains a mixture of patches. Rollout follows the mixing in all
#    layers back to the input: more of its weight is on ink, and its curve falls faster.
