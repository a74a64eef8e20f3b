# %% [markdown]
# # Why divide by sqrt(d)
#
# Attention divides its scores by the square root of the width of queries and keys. What happens
# without this division, and why do we divide by the square root and not by $d$ itself?
#
# *Prerequisites:* the softmax and its backward pass (lesson 5), queries, keys and values (lesson
# 8).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)
KEYS = 32


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# %% [markdown]
# ## The variance of a dot product
#
# Let the entries of a query $q$ and a key $k$ be independent, with mean 0 and variance 1. (Networks
# are initialized so that this holds before training.) The score is a sum of $d$ products, each with
# mean 0 and variance $1 \cdot 1 = 1$, and variances of independent terms add up:
#
# $$s = \sum_{i=1}^{d} q_i k_i, \qquad \mathrm{Var}(s) = d, \qquad
# \mathrm{Var}\Big(\frac{s}{\sqrt d}\Big) = 1 .$$

# %%
widths = [4, 16, 64, 256, 1024]
print("   d   std of the scores   sqrt(d)   divided by sqrt(d)   divided by d")
for d in widths:
    q, k = rng.normal(size=(2000, d)), rng.normal(size=(KEYS, d))
    scores = q @ k.T  # (query, d) @ (d, key) -> (query, key)
    row = scores.std(), np.sqrt(d), (scores / np.sqrt(d)).std(), (scores / d).std()
    print("{:4} {:19.2f} {:9.2f} {:20.2f} {:14.3f}".format(d, *row))
    assert abs(row[2] - 1) < 0.2 and abs(row[0] / row[1] - 1) < 0.2

# %% [markdown]
# ## Large scores make the softmax nearly one-hot
#
# The larger the scores, the closer the softmax is to a one-hot vector with its 1 at the largest
# score. We use three measures of a row of weights $p$ over 32 keys. The first is the largest
# weight. The second is the **effective number of keys**, $e^H$, where $H = -\sum p \log p$ is the
# entropy. This number is 32 if all weights are equal, and 1 if one key has all the weight. The
# third is $\lVert J \rVert$, the norm of the softmax's Jacobian $J = \mathrm{diag}(p) - pp^\top$
# (lesson 5): the square root of the sum of the squared entries of $J$. This norm shows how strongly
# the weights react to a small change of the scores.

# %%
case_rng = np.random.default_rng(1)


def draw(*shape):
    return case_rng.normal(size=shape)


def jacobian(p):
    """Return diag(p) - p p^T for each row of p (row, key), shape (row, key, key)."""
    return np.eye(p.shape[-1]) * p[:, None] - p[:, :, None] * p[:, None]


print("the Jacobian of the weights 0.9, 0.1, 0:", *jacobian(np.array([[0.9, 0.1, 0.0]])), sep="\n")

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many keys does a query look at?
#
# Write `effective_keys(weights)` for a NumPy array of shape (row, key), whose rows contain no
# negative numbers and sum to 1. Return $e^H$ with $H = -\sum_i p_i \log p_i$ for each row, an array
# of shape (row,). A weight of exactly 0 contributes 0 to the sum.
#
# *Hint:* `np.log(0)` is $-\infty$, and $0 \cdot \infty$ is NaN. `np.where(weights > 0, weights, 1)`
# replaces each 0 by a number whose logarithm does no harm.


# %% tags=["answer"]
def effective_keys(weights):
    """Return exp of the entropy of each row, shape (row,)."""
    logs = np.log(np.where(weights > 0, weights, 1))
    entropy = -(weights * logs).sum(axis=-1)
    return np.exp(entropy)


# %% tags=["check"]
check(
    effective_keys,
    cases=[
        softmax(draw(3, 7)),
        np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]),
        np.ones((2, 1)),
    ],
    expected=lambda weights: [np.prod([p**-p for p in row]) for row in weights],
    properties={
        "the result is between 1 and the number of keys": lambda count, weights: (
            (count >= 1 - 1e-9).all() and (count <= weights.shape[-1] + 1e-9).all()
        ),
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the norm of a matrix that you do not build
#
# For 2000 rows of weights over 32 keys, `jacobian(p)` builds 2000 matrices of 32 x 32. The norms of
# these matrices can be computed without building them. Write `jacobian_norm(p)` for `p` of shape
# (row, key). Use only sums over the keys. Return an array of shape (row,) with the norm for each
# row:
#
# $$\lVert J \rVert = \sqrt{\sum_{ij} (\delta_{ij}\,p_i - p_i p_j)^2} .$$
#
# Here $\delta_{ij}$ is 1 if $i = j$, and 0 otherwise.
#
# *Hint:* Expand the square into three sums. Where $\delta_{ij}$ occurs, only the terms with $i = j$
# remain. And $\sum_{ij} p_i^2 p_j^2$ is a product of two equal sums.


# %% tags=["answer"]
def jacobian_norm(p):
    """Return the norm of diag(p) - p p^T for each row, shape (row,)."""
    squares = (p**2).sum(axis=-1)
    cubes = (p**3).sum(axis=-1)
    return np.sqrt(squares - 2 * cubes + squares**2)


# %% tags=["check"]
check(
    jacobian_norm,
    cases=[softmax(draw(3, 7)), softmax(2 * draw(5, 2)), np.full((1, 11), 1 / 11)],
    expected=lambda p: np.linalg.norm(jacobian(p), axis=(-2, -1)),
    properties={
        "the order of the keys does not matter": lambda norm, p: np.allclose(
            jacobian_norm(p[:, ::-1]), norm
        ),
    },
)

# %% [markdown]
# The next cell computes the three measures (largest weight, effective number of keys, norm of the
# Jacobian) for random queries and keys, with three divisors.


# %%
def measures(p):
    """Return mean largest weight, mean effective number of keys, and median Jacobian norm."""
    entropy = -(p * np.log(p + 1e-300)).sum(axis=-1)
    # |diag(p) - p p^T|^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2, without building the matrix
    squares = (p**2).sum(axis=-1)
    slopes = np.sqrt(np.maximum(squares - 2 * (p**3).sum(axis=-1) + squares**2, 0))
    return p.max(axis=-1).mean(), np.exp(entropy).mean(), np.median(slopes)


DIVISORS = {"1": lambda d: 1.0, "sqrt(d)": lambda d: d**0.5, "d": lambda d: float(d)}
table = {name: [] for name in DIVISORS}
print("          largest weight          effective keys          norm of Jacobian")
print("   d  " + "".join(f"{head:>8}" for head in ["/1", "/sqrt d", "/d"] * 3))
for d in widths:
    q, k = rng.normal(size=(2000, d)), rng.normal(size=(KEYS, d))
    for name, divisor in DIVISORS.items():
        table[name].append(measures(softmax(q @ k.T / divisor(d))))
    cells = [table[name][-1][m] for m in range(3) for name in DIVISORS]
    print(f"{d:4}  " + "".join(f"{c:8.2f}" if i < 6 else f"{c:8.0e}" for i, c in enumerate(cells)))

unscaled, rooted, by_d = (np.array(table[name]) for name in DIVISORS)
assert unscaled[-1, 0] > 0.9 and unscaled[-1, 2] < 1e-3  # saturated
assert rooted[:, 2].max() / rooted[:, 2].min() < 1.3  # the same at every width
assert by_d[-1, 1] > 31  # uniform for every query

# %% tags=["plot"]
figure = new_figure(8, 3.5)
left, right = figure.subplots(1, 2)
styles = zip("so^", (COLOURS[1], COLOURS[0], COLOURS[2]), strict=True)
for (name, rows), (mark, colour) in zip(table.items(), styles, strict=True):
    left.semilogx(widths, [row[1] for row in rows], mark + "-", color=colour, label=f"/ {name}")
    right.loglog(widths, [max(row[2], 1e-9) for row in rows], mark + "-", color=colour)
left.set(title=f"effective number of keys, of {KEYS}", xlabel="width d", ylim=(0, 34))
right.set(title="norm of the Jacobian of the softmax", xlabel="width d")
for axes in (left, right):
    axes.set_xticks(widths, widths)
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False, title="scores divided by", loc="center right", bbox_to_anchor=(1, 0.42))
show(
    figure,
    "look for the horizontal lines: only the square root gives the same softmax at every width",
)

# %% [markdown]
# Read the curves from left to right. **Without a divisor**, one key takes all the weight as $d$
# grows, and it is a random key, because nothing has been learned yet. The slopes of the softmax
# vanish. **With the divisor $d$**, all keys get the same weight as $d$ grows, and the query has no
# influence. **With the divisor $\sqrt d$**, the softmax behaves the same for $d = 4$ and
# $d = 1024$: it is neither one-hot nor uniform.
#
# ## The gradient of a query is multiplied by the slopes of the softmax
#
# The gradient of a query contains $J$. Let $p = \mathrm{softmax}(K q / \text{divisor})$ be the
# weights, $c = V^\top p$ the context, and $g = \partial L/\partial c$. Then
#
# $$\frac{\partial L}{\partial p} = V g, \qquad
# \frac{\partial L}{\partial q} = \frac{1}{\text{divisor}}\, K^\top J\,
# \frac{\partial L}{\partial p} .$$
#
# Where $J$ is 0, the gradient is 0.


# %%
def library_query_gradient(query, key, value, grad_context, divisor):
    """Return the library's gradient of the queries for NumPy arrays."""
    q = mt.tensor(query, requires_grad=True)
    context = mt.softmax(q @ mt.tensor(key).T / divisor, -1) @ mt.tensor(value)
    return mt.autograd.grad(context, q, mt.tensor(grad_context))[0].numpy()


# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of the queries by hand
#
# Write `query_gradient(query, key, value, grad_context, divisor)` for NumPy arrays and a number
# `divisor`. Return $\partial L/\partial q$ for all queries, an array of shape (query, d). The
# arrays are:
#
# * `query` of shape (query, d) and `key` of shape (key, d);
# * `value` of shape (key, features);
# * `grad_context`, the gradient $g$ of each query's context, of shape (query, features).
#
# Do not build $J$. You may use `softmax`.
#
# *Hint:* Go back step by step: from the context to the weights, through the softmax (lesson 5:
# subtract the weighted mean, then multiply by the weights), from the scores to the query.


# %% tags=["answer"]
def query_gradient(query, key, value, grad_context, divisor):
    """Return dL/dquery of attention whose scores are divided by divisor, shape (query, d)."""
    weights = softmax(query @ key.T / divisor)  # (query, key)
    grad_weights = grad_context @ value.T
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)  # (query, 1)
    grad_scores = weights * (grad_weights - mean)
    return grad_scores @ key / divisor


# %% tags=["check"]
check(
    query_gradient,
    cases=[
        (draw(3, 5), draw(7, 5), draw(7, 2), draw(3, 2), 5**0.5),
        (draw(2, 11), draw(3, 11), draw(3, 5), draw(2, 5), 11.0),
        (draw(1, 3), draw(2, 3), draw(2, 1), draw(1, 1), 1.0),
    ],
    expected=library_query_gradient,
    properties={
        "equal values give the gradient 0": lambda _, query, key, value, g, divisor: np.allclose(
            query_gradient(query, key, 0 * value + 3, g, divisor), 0
        ),
    },
)

# %% [markdown]
# How large are these gradients for each divisor? The next cell lets autograd compute them for 1000
# random queries.

# %%
d = 1024
q, k = mt.randn(1000, d, dtype=mt.float64), mt.randn(KEYS, d, dtype=mt.float64)
v, cotangent = mt.randn(KEYS, 8, dtype=mt.float64), mt.randn(1000, 8, dtype=mt.float64)
spreads = {}
print(f"|dL/dq| of 1000 queries, d = {d}: the 10 %, 50 % and 90 % quantiles")
for name, divisor in DIVISORS.items():
    q = q.detach().requires_grad_()
    context = mt.softmax(q @ k.T / divisor(d), -1) @ v  # (query, key) @ (key, 8) -> (query, 8)
    (cotangent * context).sum().backward()
    low, half, high = np.quantile(np.linalg.norm(q.grad.numpy(), axis=1), [0.1, 0.5, 0.9])
    spreads[name] = high / low
    print(f"  / {name:8} {low:8.1e}  {half:8.1e}  {high:8.1e}   ratio {high / low:.0e}")
assert spreads["1"] > 1e6 and spreads["sqrt(d)"] < 10

# %% [markdown]
# Without a divisor, some queries get a huge gradient and many get almost none, so no single
# learning rate suits all of them.
#
# ## What goes wrong without dividing by $\sqrt d$
#
# In the following task, each of 64 queries must find one given key among 32 fixed keys. Only the
# queries are trained, each one separately, by gradient descent on the squared error of the
# attention weights. To be fair to every divisor, we try several learning rates for each one and
# report the best result.


# %%
def found(d, divisor, rate, optimizer=mt.optim.SGD, steps=200, queries=64):
    """Return a bool array (query,): True where the target has the largest weight in the end."""
    draw = np.random.default_rng(1)
    keys = mt.tensor(draw.normal(size=(KEYS, d)), dtype=mt.float32)
    query = mt.tensor(draw.normal(size=(queries, d)), dtype=mt.float32, requires_grad=True)
    target = draw.integers(0, KEYS, queries)
    onehot = mt.tensor(np.eye(KEYS)[target], dtype=mt.float32)
    stepper = optimizer([query], lr=rate)
    for _ in range(steps):
        error = mt.softmax(query @ keys.T / divisor(d), -1) - onehot  # (query, key)
        loss = (error * error).sum()
        stepper.zero_grad()
        loss.backward()
        stepper.step()
    return (query.detach().numpy() @ keys.numpy().T).argmax(axis=1) == target


rates = pick([0.1, 1, 10, 100], [1, 10])
shares = {}
print("queries that find their key, by learning rate (gradient descent)")
print("   d  divided by  " + "".join(f"{rate:>7}" for rate in rates) + "    best")
for d in pick([16, 64, 256], [16, 256]):
    for name, divisor in DIVISORS.items():
        row = [found(d, divisor, rate).mean() for rate in rates]
        shares[d, name] = max(row)
        print(f"{d:4}  {name:10}  " + "".join(f"{s:7.0%}" for s in row) + f"{max(row):8.0%}")
assert shares[256, "sqrt(d)"] > 0.95 and shares[256, "1"] < 0.2
assert shares[16, "1"] > 0.5  # the problem grows with d: a small width still works

# %% [markdown]
# Adam divides each step by the size of the gradient. Does that help? It does not help where the
# slopes of the softmax are 0, or where the gradient is smaller than `eps`, the constant that Adam
# adds to its divisor.

# %%
adam = {}
for name, divisor in DIVISORS.items():
    best = max(found(256, divisor, rate, mt.optim.Adam).mean() for rate in (0.01, 0.1))
    adam[name] = best
    print(f"Adam, d = 256, divided by {name:8} {best:4.0%} find their key")
assert adam["1"] < 0.3 and adam["sqrt(d)"] > 0.95

# %% [markdown]
# Dividing by $d$ does not fail here: the gradients are small, not zero, and a larger learning rate
# compensates for that. But this rate depends on $d$, and an untrained model attends to all keys
# almost equally. Dividing by the square root avoids both problems.
#
# ## Scaling does not prevent sharp attention
#
# The argument for dividing by the square root holds only for queries and keys that are independent
# of each other. After training they are not.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Take 32 random keys and a query that is **equal** to one of them, $q = k$. The scores are divided
# by $\sqrt d$. How much weight does this key get for $d$ = 16, 64 and 256: about the same, less and
# less, or more and more? Write down three numbers, then run the next cell.

# %%
for d in (16, 64, 256):
    k = rng.normal(size=(KEYS, d))
    weights = softmax(k[:1] @ k.T / np.sqrt(d))[0]  # the query is key 0
    print(f"d {d:3}: score of its own key {k[0] @ k[0] / d**0.5:5.1f}, weight {weights[0]:.3f}")
assert weights[0] > 0.999

# %% [markdown]
# The query's own key has the score $\lVert k \rVert^2 / \sqrt d \approx \sqrt d$, while the other
# scores are of size 1. So even when the scores are divided by $\sqrt d$, a wide head can be as
# sharp as it needs to be: at $d = 256$ one key of 32 gets all the weight. The division determines
# where learning starts, not where it ends.
#
# The width $d$ in the formula is the width of the vectors in the dot product. With several heads it
# is the width of **one head**: a model of width 512 with 8 heads divides by $\sqrt{64}$.

# %%
q, k = rng.normal(size=(2, 2000, 8, 64))  # (query, head, head width): 8 * 64 = 512
scores = (q * k).sum(axis=-1)
for width in (64, 512):
    print(f"divided by sqrt({width}): std {(scores / width**0.5).std():.2f}")
assert abs((scores / 64**0.5).std() - 1) < 0.05

# %% [markdown]
# ## In the library

# %%
where(
    mt.nn.functional.scaled_dot_product_attention,
    mt.ops.attention.definition.attention_definition,
    mt.ops.attention.arguments.prepared,
    mt.nn.MultiheadAttention,
)

# %% [markdown]
# ## Exercise
#
# In real attention, a query is computed from a token, $q = W^Q x$, and all queries share $W^Q$.
# Replace the independent queries of `found` by `x @ W`, with fixed random `x` of shape (64, 32) and
# a trained `W` of shape (32, d), whose initial entries have variance 1/32. Predict whether the
# shared `W` helps at $d = 256$ without a divisor. Then print two rows of the table "queries that
# find their key" for $d = 256$, one without a divisor and one for the square root, with learning
# rates from 0.001 to 100. You are done when you can explain both rows by the spread of the
# gradients above: what happens to `W`, whose gradient is a sum over 64 queries, if the terms of a
# few queries are huge and most others are almost 0?
#
# Then practice:
#
# ```sh
# mta exercise start 10
# mta exercise start 12
# mta exercise start 21
# mta exercise start 22
# ```
#
# ## Three questions
#
# 1. At $d = 1024$, without the divisor, the largest weight is close to 1. A trained head may well
#    have such weights. Why is such a weight bad before training?
# 2. Why does dividing by $d$ make every untrained model look at all keys equally?
# 3. At $d = 16$, most queries find their key even without the divisor. Which two columns of the
#    table of the three measures explain that?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. A random key has this weight, because nothing has been learned yet. The slopes are almost 0, so
#    training cannot correct the choice. A trained head learned its choice while the slopes were
#    larger.
# 2. The scores then have the standard deviation $1/\sqrt d$ (last column of the first table), which
#    goes to 0. All scores are nearly equal, and the effective number of keys is nearly 32.
# 3. The columns headed /1 under "effective keys" and "norm of Jacobian" explain it. At $d = 16$ the
#    weight is spread over several keys even without a divisor, and the median norm of the Jacobian
#    is no smaller than with the square root. At $d = 256$ both numbers have collapsed.
