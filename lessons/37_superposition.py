# %% [markdown]
# # Superposition: more features than dimensions
#
# A layer with 5 dimensions has room for 5 directions at right angles. Can it store 11 features?
# When is storing them worth the interference, what does a ReLU have to do with it, and why do five
# features in two dimensions form a pentagon?
#
# *Prerequisites:* linear layers and the ReLU between them (lesson 14). The COMP541 deck mentions
# the idea ("Feature Superposition (Polysemanticity)"); `docs/decks.md` lists the decks. The
# experiments are those of Elhage et al. 2022, "Toy Models of Superposition", arXiv:2209.10652v1,
# sections 1 to 4.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.superposition import (
    ToyModels,
    feature_dimensionality,
    importance_loss,
    interference,
    phase,
    phase_losses,
    polygon,
    sample_features,
)
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## A model that must compress
#
# Real networks seem to know far more things ("this text is French", "this patch shows a wheel")
# than they have neurons. A toy model shows how they can store so many. An example has $n$
# *features*. Each is 0 with probability $S$, the *sparsity*, and otherwise uniform between 0 and 1.
# A matrix $W$ with $m < n$ rows compresses the example, and its transpose reads the features out
# again:
#
# $$h = W x, \qquad x' = \mathrm{ReLU}(W^T h + b)$$
#
# Column $i$ of $W$ is the direction in which feature $i$ is stored. The loss is the squared error,
# in which each feature $i$ is weighted by its importance $I_i$: $\sum_i I_i (x_i - x'_i)^2$.

# %%
x = sample_features(4, 6, density=0.2)
print("four examples of six features with sparsity 0.8:")
print(x.numpy().round(2))

# %% [markdown] tags=["your-turn"]
# ## Your turn: the toy model
#
# Write `reconstruct(x, W, b)`. `x` has shape (batch, feature), `W` (hidden, feature) and `b`
# (feature,). Return $x'$ of shape (batch, feature).
#
# *Hint:* The rows of `x` are the examples, so the product $W x$ of one example becomes `x @ W.T`
# for all of them. What must you multiply the result by to get back to (batch, feature)?


# %% tags=["answer"]
def reconstruct(x, W, b):
    """Return the reconstructed features, of shape (batch, feature)."""
    hidden = x @ W.T  # (batch, hidden)
    return mt.relu(hidden @ W + b)


# %% tags=["check"]
check(
    reconstruct,
    cases=[
        (mt.randn(7, 5), mt.randn(2, 5), mt.randn(5)),
        (mt.randn(1, 3), mt.randn(3, 3), mt.randn(3)),
        (mt.zeros(2, 5), mt.randn(3, 5), mt.randn(5)),
    ],
    expected=lambda x, W, b: mt.clamp(mt.einsum("bi,hi,hj->bj", x, W, W) + b, min=0),
    properties={"no output is negative": lambda y, x, W, b: (y >= 0).all()},
)

# %% [markdown]
# ## Two features in one dimension
#
# Start with the smallest case: $W = [1, -1]$ stores two features in one dimension, in opposite
# directions. What comes out?

# %%
W = mt.tensor([[1.0, -1.0]])
examples = mt.tensor([[0.0, 0.0], [0.7, 0.0], [0.0, 0.7], [0.7, 0.6]])
outputs = mt.relu(examples @ W.T @ W)
hidden = examples @ W.T
for before, h, after in zip(examples.numpy(), hidden.numpy(), outputs.numpy(), strict=True):
    print(f"x = {before}   h = {h[0]:5.2f}   x' = {after.round(2)}")
assert (outputs[:3] - examples[:3]).abs().max() < 1e-6
assert (outputs[3] - examples[3]).abs().max() > 0.5

# %% [markdown]
# The output is exact as long as only one feature is present. This feature pushes the output of the
# other feature below 0, and the ReLU sets that output to 0. The two features cancel each other only
# if both are present. If each feature is present with probability $p = 1 - S$, both are present
# with probability $p^2$. A feature that is not stored causes an error whenever it is present, with
# probability $p$. For small $p$, $p^2$ is much smaller.

# %% [markdown] tags=["your-turn"]
# ## Your turn: drop it or share?
#
# Feature 1 has importance 1 and feature 2 has importance `r`. Write `two_losses(p, r)`, which
# returns the expected loss if feature 2 is dropped ($W = [1, 0]$ and the best constant as output
# for feature 2), and the expected loss of $W = [1, -1]$ with $b = 0$, stacked on the last axis.
# `p` and `r` are tensors of shape (case,), and the result has shape (case, 2).
#
# *Hint:* A present feature has mean 1/2 and mean square 1/3, so $E[x] = p/2$ and $E[x^2] = p/3$.
# With the best constant, the expected loss is the variance. If both features are present, both
# outputs are wrong by $\min(x_1, x_2)$, whose mean square is 1/6.


# %% tags=["answer"]
def two_losses(p, r):
    """Return the expected loss of dropping feature 2, and of sharing. Shape: (case, 2)."""
    variance = p / 3 - (p / 2) ** 2
    dropped = r * variance
    shared = (1 + r) * p**2 / 6
    return mt.stack([dropped, shared], -1)


# %% tags=["check"]
check(
    two_losses,
    cases=[
        (mt.tensor([0.1, 0.5, 1.0]), mt.tensor([1.0, 0.3, 2.0])),
        (mt.rand(7), 3 * mt.rand(7)),
        (mt.tensor([0.0]), mt.tensor([1.0])),
    ],
    expected=lambda p, r: phase_losses(p, r)[..., :2],
    properties={
        "at p = 4/7 and r = 1, the two losses are equal": lambda found, p, r: np.isclose(
            *two_losses(mt.tensor([4 / 7]), mt.tensor([1.0]))[0].numpy()
        )
    },
)

# %% [markdown]
# ## A phase change
#
# Which solution is best depends on the density $p$ and on the importance of feature 2. The theory
# predicts three regions with sharp borders. Do trained models agree? We train several models for
# each point of a grid and keep the best one. All of them are trained at once, with batched matrix
# products.


# %%
def train(models, density, importance, steps, lr=0.03, batch=256):
    """Train ToyModels and return losses. density: (model,); importance: (model or 1, feature)."""
    optimizer = mt.optim.Adam(models.parameters(), lr=lr)
    scheduler = mt.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    density = density.reshape(-1, 1)  # (model, 1)
    total = 0.0
    for step in range(steps):
        u = mt.rand(batch, len(density), models.num_features)
        x = mt.where(u < density, u / density, 0.0)  # (batch, model, feature)
        losses = (importance * (x - models(x)).square()).sum(-1).mean(0)  # (model,)
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
        scheduler.step()
        if step >= 0.8 * steps:
            total = total + losses.detach().numpy()
    return total / (0.2 * steps)


def best_of(models, losses, count):
    """Return W of the best model in each group of `count`, shape (case, hidden, feature)."""
    W = models.W.detach().numpy()
    W = W.reshape(-1, count, *W.shape[1:])
    return W[np.arange(len(W)), losses.reshape(-1, count).argmin(1)]


restarts = 4
densities = np.geomspace(1, 0.02, pick(13, 7))
importances = np.geomspace(0.1, 10, pick(13, 7))
grid = [(p, r) for p in densities for r in importances for _ in range(restarts)]
p, r = (mt.tensor(np.array(column, dtype="float32")) for column in zip(*grid, strict=True))
models = ToyModels(len(grid), num_features=2, hidden_dim=1)
losses = train(models, p, mt.stack([mt.ones_like(r), r], -1), steps=pick(800, 400))
norms = np.abs(best_of(models, losses, restarts))[:, 0]  # (point, feature)
found = np.where(norms.min(1) > 0.5, 1, np.where(norms[:, 0] > norms[:, 1], 0, 2))
predicted = phase(p[::restarts], r[::restarts]).numpy()
agreement = (found == predicted).mean()
print(f"{len(found)} points of the grid; training and theory agree at {100 * agreement:.0f} %")
assert agreement > 0.8

# %% tags=["plot"]
figure = new_figure(9, 4)
for axes, phases, title in zip(
    figure.subplots(1, 2), (predicted, found), ("theory", "training"), strict=True
):
    colors = np.array([[0.0, 0.45, 0.7], [0.84, 0.37, 0.0], [0.0, 0.62, 0.45]])
    shape = (len(densities), len(importances))
    axes.pcolormesh(importances, densities, colors[phases.reshape(shape)], shading="nearest")
    axes.set(xscale="log", yscale="log", title=title, xlabel="importance of feature 2")
    axes.set_ylabel("density 1 - S")
for x, y, text in ((0.2, 0.85, "only\nfeature 1"), (1, 0.06, "both"), (5, 0.85, "only\nfeature 2")):
    for axes in figure.axes:
        axes.text(x, y, text, color="white", ha="center", va="top", fontsize=11, weight="bold")
show(
    figure,
    "Two features, one dimension. Below a density that depends on the importance, the model jumps "
    "from storing one feature to storing both. Compare the borders in theory and in training.",
)

# %% [markdown]
# ## Polygons
#
# Now we store five features in two dimensions. Each feature is a little less important than the one
# before.

# %%
sparsities = (0.0, 0.8, 0.9)
density = mt.tensor(np.repeat(1 - np.array(sparsities, dtype="float32"), restarts))
models = ToyModels(len(density), num_features=5, hidden_dim=2)
losses = train(models, density, 0.9 ** mt.arange(5), steps=pick(3000, 1500), lr=0.02)
plane = best_of(models, losses, restarts)
stored = (np.linalg.norm(plane, axis=1) > 0.7).sum(1)
for S, W, count in zip(sparsities, plane, stored, strict=True):
    print(f"sparsity {S}: {count} features, norms {np.linalg.norm(W, axis=0).round(2)}")
assert stored.tolist() == [2, 4, 5]

# %% tags=["plot"]
show(
    mt.viz.feature_directions_figure(
        plane, [f"sparsity {S:g}" for S in sparsities], "Five features in two dimensions"
    ),
    "Count the features: first two at a right angle, then two opposite pairs, then a pentagon. "
    "Nothing in the loss mentions polygons.",
)

# %% [markdown]
# The polygons keep the directions as far apart as possible. At 72 degrees two directions have a dot
# product of 0.31, so a neighbor in the pentagon raises a feature's output by 0.31. The bias becomes
# negative and, with the ReLU, removes most of that.

# %% [markdown] tags=["your-turn"]
# ## Your turn: how much of a dimension does a feature have?
#
# The *dimensionality* of feature $i$ is $D_i = \|W_i\|^2 / \sum_j (u_i \cdot W_j)^2$, where $W_j$
# are the columns of $W$ and $u_i = W_i / \|W_i\|$. Write `dimensionality(W)` for a `W` of shape
# (hidden, feature) in which no column is 0. Return a tensor of shape (feature,).
#
# *Hint:* All the products $W_i \cdot W_j$ together are the matrix $W^T W$. Its diagonal holds the
# squared norms. Divide row $i$ by the norm of $W_i$ before you square.


# %% tags=["answer"]
def dimensionality(W):
    """Return the dimensionality of each feature, of shape (feature,)."""
    squared_norm = (W**2).sum(0)  # (feature,)
    overlaps = (W / squared_norm.sqrt()).T @ W  # (feature, feature)
    return squared_norm / (overlaps**2).sum(1)


# %% tags=["check"]
check(
    dimensionality,
    cases=[(mt.randn(3, 7),), (mt.randn(5, 2),), (polygon(5),), (mt.tensor([[2.0, -2.0, 1.0]]),)],
    expected=feature_dimensionality,
    properties={
        "their sum is at most the number of dimensions": lambda d, W: d.sum() <= len(W) + 1e-9,
        "two opposite features have 1/2 each": lambda d, W: np.allclose(
            dimensionality(mt.tensor([[3.0, -3.0]])).numpy(), 0.5
        ),
    },
)

# %%
for corners in (3, 4, 5, 8):
    share = feature_dimensionality(polygon(corners))[0].item()
    print(f"polygon with {corners} corners: dimensionality {share:.3f} = 2 / {corners}")
    assert abs(share - 2 / corners) < 1e-6
print("learned pentagon:", feature_dimensionality(mt.tensor(plane[2])).numpy().round(2))
assert abs(feature_dimensionality(mt.tensor(plane[2])) - 0.4).max() < 0.05

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The paper's first experiment stores 20 features in 5 dimensions. Feature $i$ has importance
# $0.7^i$. How many features does the model store at the sparsities 0, 0.9 and 0.99? Count a feature
# if its column has a squared norm above 1/2. Write down three numbers, then run the next cell.

# %%
sparsities = (0.0, 0.7, 0.9, 0.97, 0.99)
importance = 0.7 ** mt.arange(20)
density = mt.tensor(np.repeat(1 - np.array(sparsities, dtype="float32"), 2))
models = ToyModels(len(density), num_features=20, hidden_dim=5)
losses = train(models, density, importance, steps=pick(3000, 1200), lr=0.01)
matrices = best_of(models, losses, 2)
counts = ((matrices**2).sum(1) > 0.5).sum(1)
for S, count in zip(sparsities, counts, strict=True):
    print(f"sparsity {S:4}: {count:2} of 20 features in 5 dimensions")
assert counts[0] == 5 and counts[2] > 7 and counts[4] > 8

# %% [markdown]
# Dense features get one dimension each, so the 5 most important ones are stored. As the sparsity
# grows, pairs appear, as they did in one dimension: with $S = 0.9$, four or five of the dimensions
# hold a pair. At higher sparsities, groups of features share two or more dimensions, as in the
# pentagon.

# %% tags=["plot"]
show(
    mt.viz.superposition_figure(
        matrices, [interference(mt.tensor(W)).numpy() for W in matrices],
        [f"sparsity {S:g}\n{count} of 20" for S, count in zip(sparsities, counts, strict=True)],
        "20 features in 5 dimensions",
    ),
    "In the upper row, the off-diagonal entries are the interference, in red where two features "
    "are opposite. In the lower row, find the first sparsity at which a feature shares its "
    "direction.",
)  # fmt: skip

# %% [markdown]
# ## What goes wrong for dense features, and without the ReLU
#
# Superposition is not always better. We store five dense features in a pentagon that we set by
# hand, with the best bias we can find. The loss is larger than if we store only two of the five
# features, each in its own dimension.

# %%
pentagon, alone = polygon(5), mt.eye(2, 5)


def loss_of(W, density, bias, relu=True, count=20000):
    x = sample_features(count, 5, density, generator=mt.Generator().manual_seed(1))
    output = x @ W.T @ W + bias
    return importance_loss(mt.relu(output) if relu else output, x, mt.ones(5)).item()


def best_loss(W, density, relu=True):
    """Return the lowest loss over several biases. Unstored features get their mean as the bias."""
    is_stored = (W**2).sum(0) > 0.5
    tried = [mt.where(is_stored, b, density / 2) for b in np.linspace(-1, 0.5, 31)]
    return min(loss_of(W, density, b, relu, 4000) for b in tried)


print("density   two features alone   pentagon   pentagon without the ReLU")
rows = {}
for density in (1.0, 0.1, 0.02):
    rows[density] = (
        best_loss(alone, density), best_loss(pentagon, density), best_loss(pentagon, density, False)
    )  # fmt: skip
    print(f"{density:7}   {rows[density][0]:18.4f}   {rows[density][1]:8.4f}   "
          f"{rows[density][2]:8.4f}")  # fmt: skip
assert rows[1.0][0] < rows[1.0][1]  # dense: the pentagon is worse
assert all(rows[density][1] < rows[density][0] for density in (0.1, 0.02))  # sparse: better
assert all(row[0] < row[2] for row in rows.values())  # without the ReLU: always worse

# %% [markdown]
# Without the ReLU, the pentagon has the larger loss at every density, because nothing removes the
# interference. A linear model therefore never learns superposition, however sparse the features
# are:

# %%
density = mt.tensor([1.0, 0.1, 0.01])
linear = ToyModels(3, num_features=20, hidden_dim=5, relu=False)
train(linear, density, importance, steps=pick(3000, 1200), lr=0.01)
norms = np.linalg.norm(linear.W.detach().numpy(), axis=1)
print("linear model, features stored at sparsity 0, 0.9, 0.99:", (norms**2 > 0.5).sum(1))
assert ((norms**2 > 0.5).sum(1) == 5).all()

# %% [markdown]
# It keeps the five most important features, like principal component analysis.
#
# ## In the library

# %%
from minitorch_attn.models import ToyModel

where(ToyModel, ToyModels, feature_dimensionality, interference, phase_losses)

# %% [markdown]
# `mta train superposition` repeats the experiments with seven sparsities. It also measures the
# number of dimensions per stored feature, for many features of the same importance.
#
# ## Exercise
#
# Put the features into groups: features 0 and 1 are always present together, and so are 2 and 3.
# Train four such features in two dimensions at a sparsity of 0.9, and plot them with
# `mt.viz.feature_directions_figure`. Before you run it, write down which features you expect at
# right angles, and which ones opposite each other. You are done when you can explain the picture
# with the table of `W = [1, -1]` above.
#
# ## Three questions
#
# 1. In one dimension with equal importance, at which density does sharing become better than
#    dropping a feature?
# 2. A pentagon stores five features in two dimensions. Why does the model not store six or seven
#    at a sparsity of 0.9?
# 3. The direction of a feature lies at 45 degrees to the axes of two neurons, so both neurons
#    respond to it. What does superposition mean for someone who wants to explain a network neuron
#    by neuron?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Below $p = 4/7$. At this density, dropping and sharing have the same loss,
#    $p/3 - p^2/4 = p^2/3$. At lower densities, sharing has the smaller loss.
# 2. This model has only five features. With more features, each new corner moves the others closer
#    together, so the interference grows, and the bias must remove more of each feature's own value.
#    Sparser features allow more corners.
# 3. A neuron then responds to several unrelated features, and a feature is spread over several
#    neurons. The features are still directions, but these are no longer the axes. Finding these
#    directions needs other tools, such as sparse autoencoders.
