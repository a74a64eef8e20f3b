# %% [markdown]
# # What [CLS] looks at
#
# The class token collects what the image is about, and its attention can be drawn as a map over the
# image. Does such a map say anything true, and how would one find out?
#
# *Know before:* ViT (lesson 21) and its positions (lesson 22).
#
# The digits come with scikit-learn: `python -m pip install scikit-learn`.

# %%
import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.models import VisionTransformer

F = mt.nn.functional
digits, labels, test_digits, test_labels = mt.data.digits_split()

# %% [markdown]
# ## A task in which looking matters
#
# A digit of 8 x 8 pixels is put at a random place of a grey, noisy picture of 16 x 16. Patches of
# 4 x 4 make a grid of 4 x 4 words. We know where the digit is; the model is told only which one.


# %%
def pictures_of(digits, generator):
    """Pictures (image, 1, 16, 16) and the same with the ink alone."""
    noise = 0.2 * generator.random((len(digits), 1, 16, 16), dtype=np.float32)
    ink = np.zeros_like(noise)
    corners = 2 * generator.integers(0, 5, (len(digits), 2))
    for i, (row, column) in enumerate(corners):
        ink[i, :, row : row + 8, column : column + 8] = digits[i]
    return np.maximum(noise, ink), ink


def patches(pictures):
    """(image, 1, 16, 16) -> (image, patch, 4, 4)"""
    return pictures.reshape(-1, 4, 4, 4, 4).swapaxes(2, 3).reshape(-1, 16, 4, 4)


def joined(patches):
    """`patches` backwards"""
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
print(f"{steps} steps: {whole:.1f} % of the test pictures read rightly (guessing: 10 %)")

# %% [markdown]
# ## Two maps
#
# Every layer has attention weights of shape (heads, query, key). The row of query 0 says what the
# class token takes from each token.
#
# * **Last layer**: that row, averaged over the heads.
# * **Rollout** (Abnar and Zuidema 2020): after the first layer a token is no longer its patch
#   alone. Count half of each layer as the residual path, $A_l = \frac12 I + \frac12 \bar W_l$, and
#   follow all paths: $R = A_L \cdots A_2 A_1$. Row 0 of $R$ is the map over the *input* patches.


# %%
def weights_of(model, pictures):
    """The weights of each layer: a list of arrays (image, heads, query, key)."""
    found = []
    watch = mt.nn.watch_attention(model, lambda layer, weights: found.append(weights.numpy()))
    with watch, mt.no_grad():
        model(mt.tensor(pictures))
    return found


def last_layer(weights):
    return weights[-1].mean(1)[:, 0, 1:]  # (image, patch): without the class token itself


def rollout(weights):
    paths = np.eye(17)
    for layer in weights:
        paths = (0.5 * np.eye(17) + 0.5 * layer.mean(1)) @ paths  # (image, token, token)
    return paths[:, 0, 1:]


weights = weights_of(model, test_pictures)
print(
    "weights of a layer",
    weights[0].shape,
    "  a row sums to",
    weights[0][0, 0, 0].sum().round(5),
)
by_library = mt.viz.attention_rollout([layer[0] for layer in weights])[0, 1:]
assert np.abs(by_library - rollout(weights)[0]).max() < 1e-6

# %%
shown = int(np.flatnonzero((test_labels == 3) & (has_ink.sum(1) < 6))[0])
figure = mt.viz.class_attention_figure(
    test_pictures[shown], [layer[shown] for layer in weights], (4, 4), "Where [CLS] looks: a 3"
)
show(figure, "Four heads of the last layer, and rollout through both layers. Bright: much weight.")

# %% [markdown]
# Pictures persuade too easily. Ask for numbers: which share of the map lies on patches with ink?

# %%
maps = {"rollout": rollout(weights), "last layer": last_layer(weights)}
share = {}
for name, values in maps.items():
    share[name] = 100 * (values * has_ink).sum() / values.sum()
    print(f"{name:11} {share[name]:.0f} % of the weight is on ink")
print(f"{'chance':11} {100 * has_ink.mean():.0f} %")
assert share["rollout"] > 100 * has_ink.mean() + 20

# %% [markdown]
# ## Erase what it looks at
#
# The claim of a map is causal: *these patches decide*. So take them away. Erase the $k$ patches
# with the largest values (fresh noise in their place) and read again. If the map is right, the
# reading breaks down sooner than when other patches are erased. Controls:
#
# * any patches, at random;
# * random patches *among those with ink*: does the map know more than where the ink is?
# * the patches with the *least* weight: their loss should not matter.


# %%
def erased(order, count):
    """The pictures without the first `count` patches in the order of each picture."""
    parts, generator = patches(test_pictures).copy(), np.random.default_rng(2)
    for i in range(len(parts)):
        parts[i, order[i, :count]] = 0.2 * generator.random((count, 4, 4))
    return joined(parts)


def curve(values):
    order = np.argsort(-values, axis=1)  # the largest first
    return [accuracy(erased(order, count)) for count in counts]


counts = [0, 1, 2, 3, 4, 6]
chance = np.random.default_rng(3).random(has_ink.shape)
orders = {
    "rollout": maps["rollout"], "last layer": maps["last layer"],
    "random, with ink": chance + has_ink, "random": chance, "least by rollout": -maps["rollout"],
}  # fmt: skip
print("test pictures read rightly, %, when patches are erased:")
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

# %%
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
    axis.set(xlabel="patches erased, of 16", ylabel="read rightly, %", ylim=(0, 100))
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title="erased first")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


show(draw(curves), "The lower the curve, the better the order finds the patches that decide.")

# %% [markdown]
# Rollout passes. The raw map of the last layer does no better than random patches with ink: at that
# depth the token at place $j$ has already mixed with others, so a large weight on it is not a look
# at patch $j$.
#
# ## What goes wrong without it
#
# Without what? Without training. A network with random weights has attention too; its rows sum to 1
# and it can be drawn just as well. Only the check tells the maps apart.

# %%
untrained = weights_of(new_model(7), test_pictures)
random_map = rollout(untrained)
curves["untrained model"] = curve(random_map)
on_ink = 100 * (random_map * has_ink).sum() / random_map.sum()
print("a row sums to", untrained[0][0, 0, 0].sum().round(5))
print(f"share on ink: {on_ink:.0f} % (trained {share['rollout']:.0f} %)")
print(f"two patches erased: read rightly {curves['untrained model'][two]:.1f} %", end="")
print(f" by this map, {curves['rollout'][two]:.1f} % by that of the trained model")
assert curves["untrained model"][two] > curves["rollout"][two] + 15

# %%
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
show(figure, "Each map on a scale of its own, as is often done: both look like something.")
show(draw(curves), "The map of random weights (grey crosses) finds little more than chance does.")

# %% [markdown]
# Two more cautions. A map shows where the class token takes values *from*, and not what it does
# with them: it is not an explanation of the answer. And a map that merely follows the ink would
# have passed "it looks at the digit"; that is why the control among patches with ink is needed.
#
# ## Where it lives

# %%
where(mt.nn.watch_attention, mt.viz.attention_rollout, mt.viz.class_attention_figure)

# %% [markdown]
# ## Exercise
#
# Weigh the last layer's map with the values: replace the weight of token $j$ by weight times the
# length of its value vector (`v_proj` of `model.blocks[-1].attention`, on the normed tokens). Draw
# its curve beside the others. The check is the same as above: it is a better map than the plain
# last layer if, with two patches erased, fewer pictures are read rightly. It is done when your
# table has the row and says whether that is so; it need not be.
#
# ## Three questions
#
# 1. Two maps look equally convincing. Which experiment decides between them, and what was its
#    result for the trained and the untrained model?
# 2. Why is "random patches" alone too easy a control here?
# 3. Why can rollout be a better map of the input than the last layer, although the head reads the
#    class token after the last layer only?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Erase the patches that a map ranks first and read again. With two patches gone the trained
#    model's rollout order costs far more right answers than the order of the untrained one; both
#    numbers are printed side by side.
# 2. Most patches carry no ink (the first line printed says how few do), so random patches are
#    mostly empty and any map that finds ink beats them. The control among patches with ink is
#    harder: with two patches erased its number lies between those of rollout and of any patches.
# 3. In the last layer a token holds a mixture of patches. Rollout follows the mixing of all layers
#    back to the input: more of its weight is on ink, and its curve falls faster.
