# %% [markdown]
# # Softmax, log-softmax, cross-entropy by hand
#
# How do scores become probabilities without overflow, how does a probability become a loss without
# a logarithm of 0, and why is the gradient of the loss simply $p - \mathrm{onehot}$?
#
# *Prerequisites:* broadcasting and gradients (lessons 1 and 2). The exercise at the end also needs
# lessons 3 and 4.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## Softmax: exponentials, divided by their sum
#
# $$p_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# The exponential makes every weight positive, and dividing by the sum makes the weights add up
# to 1. Only **differences** of scores matter: adding $c$ to all scores multiplies the numerator
# and the denominator by $e^c$.


# %%
def softmax_naive(x):
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))  # the largest exponent is 0
    return e / e.sum(axis=-1, keepdims=True)


scores = np.array([1.0, 2.0, 3.0], np.float32)
print("scores       ", scores, " probabilities", softmax_naive(scores).round(3))
print("plus 10      ", scores + 10, "             ", softmax_naive(scores + 10).round(3))
p = softmax(scores)
print("ratio p3 / p1", (p[2] / p[0]).round(3), "= e^2", np.exp(2).round(3))
assert np.allclose(softmax_naive(scores), softmax_naive(scores + 10))

# %% [markdown]
# ## Overflow
#
# In float32 the exponential overflows above a score of 88.7, in float16 above 11.1. The quotient is
# then $\infty / \infty$, which is NaN. Subtracting the largest score does not change the result,
# but it prevents the overflow, because no exponent is above 0 and the sum is at least 1.

# %%
for dtype in (np.float16, np.float32):
    limit = np.log(float(np.finfo(dtype).max))
    print(f"{dtype.__name__}: exp(x) is infinite above x = {limit:.1f}")
print("             largest score     naive                 shifted")
with np.errstate(over="ignore", invalid="ignore"):
    for dtype, top in [(np.float16, 10), (np.float16, 12), (np.float32, 88), (np.float32, 100)]:
        row = np.array([top, top - 1, 0], dtype)
        naive, shifted = softmax_naive(row), softmax(row)
        print(f"{row.dtype!s:8} {top:17}     {naive.round(3)!s:20}  {shifted.round(3)}")
        assert np.isfinite(shifted).all() and np.isnan(naive).any() == (top in (12, 100))

# %% [markdown] tags=["your-turn"]
# ## Your turn: the logarithm of the sum
#
# The loss below needs the logarithm of the denominator, $\log \sum_j e^{x_j}$. Write
# `log_sum_exp(scores)` for a tensor `scores` of shape (row, class). It returns one number for each
# row, a tensor of shape (row,). It must be exact for scores of 1000 and of -1000, where the naive
# formula gives $\infty$ and $-\infty$. Tensors have the methods `exp`, `log` and `sum(-1)`, and
# `scores.max(-1, keepdim=True).values` is the largest score of each row, of shape (row, 1).
#
# *Hint:* Let $m$ be the largest score of a row. $e^{x_j} = e^m\,e^{x_j - m}$. What happens to the
# common factor $e^m$ under the sum and the logarithm?


# %% tags=["answer"]
def log_sum_exp(scores):
    """Return log(sum(exp(scores))) over the last axis, shape (row,)."""
    largest = scores.max(-1, keepdim=True).values  # (row, 1)
    total = (scores - largest).exp().sum(-1)  # (row,)
    return total.log() + largest.squeeze(-1)


# %% tags=["check"]
check(
    log_sum_exp,
    cases=[
        mt.randn(3, 5),
        mt.tensor([[1000.0, 999.0, -1000.0], [-1000.0, -1001.0, -1002.0]]),
        mt.tensor([[-7.0]]),
    ],
    expected=lambda scores: mt.logsumexp(scores, -1),
    properties={
        "the result is at least the largest score": lambda y, x: (y >= x.max(-1).values).all(),
        "adding 3 to all scores adds 3 to the result": lambda y, x: np.allclose(
            log_sum_exp(x + 3), y + 3
        ),
    },
)

# %% [markdown]
# The check also compared the gradient, which autograd computed through your formula. This gradient
# is the softmax itself: $\partial \log \sum_j e^{x_j} / \partial x_i = e^{x_i} / \sum_j e^{x_j}
# = p_i$.
#
# ## The backward of softmax
#
# Every output depends on every input of its row. Differentiating the quotient gives
#
# $$\frac{\partial p_i}{\partial x_j} = p_i\,(\delta_{ij} - p_j),
# \qquad J = \mathrm{diag}(p) - p\,p^\top ,$$
#
# where $\delta_{ij}$ is 1 if $i = j$ and 0 otherwise.
#
# With $g = \partial L/\partial p$ the gradient is $J g$, but we do not need to build $J$:
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i\,p_i(\delta_{ij} - p_j)
# = p_j\Big(g_j - \sum_i p_i g_i\Big).$$
#
# In words, an entry's gradient is its weight times the difference between its $g_j$ and the
# $p$-weighted mean of all $g_i$.


# %%
def through_jacobian(p, grad_p):
    """Return J grad_p for each row of p (..., class). This builds the full Jacobian matrices J."""
    jacobian = np.eye(p.shape[-1]) * p[..., None] - p[..., :, None] * p[..., None, :]
    return (jacobian @ grad_p[..., None])[..., 0]


x = mt.tensor([[1.0, 2.0, 3.0, 0.5]], dtype=mt.float64, requires_grad=True)  # (row 1, class 4)
p = softmax(x.numpy())[0]
g = np.array([0.3, -1.0, 0.5, 2.0])
jacobian = np.diag(p) - np.outer(p, p)
by_matrix = through_jacobian(p, g)

mt.softmax(x, -1).backward(mt.tensor(g[None]))
print("p        ", p.round(4))
print("jacobian", jacobian.round(4), sep="\n")
print("J g      ", by_matrix.round(4))
print("library  ", x.grad.numpy()[0].round(4))
assert np.allclose(by_matrix, jacobian @ g) and np.allclose(by_matrix, x.grad.numpy()[0])
assert np.allclose(jacobian.sum(axis=0), 0)  # adding one number to all scores does not change p
print(f"a row of 1024 weights: J has {1024**2:,} entries, p has {1024:,}")

# %% [markdown] tags=["your-turn"]
# ## Your turn: the backward of softmax without the Jacobian
#
# Write `softmax_backward(p, grad_p)` with the last formula. `p` is the result of a softmax along
# the last axis, and `grad_p` is $\partial L/\partial p$. Both are NumPy arrays of the same shape,
# for example (row, class) or (batch, row, class). Return $\partial L/\partial x$, an array of this
# shape, without building any matrix $J$.
#
# *Hint:* The mean $\sum_i p_i g_i$ is one number for each row. `keepdims=True` keeps its axis, so
# that it broadcasts over the row.


# %% tags=["answer"]
def softmax_backward(p, grad_p):
    """Return dL/dx for p = softmax(x) along the last axis. The gradient has the shape of p."""
    weighted = p * grad_p
    mean = weighted.sum(axis=-1, keepdims=True)  # (..., 1)
    return p * (grad_p - mean)


# %% tags=["check"]
check(
    softmax_backward,
    cases=[
        (softmax(rng.normal(size=(3, 3))), rng.normal(size=(3, 3))),
        (softmax(rng.normal(size=(2, 5, 7))), rng.normal(size=(2, 5, 7))),
        (np.array([[1.0, 0.0, 0.0]]), rng.normal(size=(1, 3))),
    ],
    expected=through_jacobian,
    properties={
        "each row of the gradient sums to 0": lambda grad, p, g: np.allclose(grad.sum(-1), 0),
    },
)

# %% [markdown]
# The last case of the check is a row with the weights 1, 0, 0. Its gradient is 0 for every
# `grad_p`: a softmax that is certain can no longer learn. This will matter below, and in lesson 9.
#
# ## Cross-entropy: minus the log-probability of the correct class
#
# $$L = -\log p_t = -x_t + \log \sum_j e^{x_j}$$
#
# Here $t$ is the label and $x$ are the scores, which are also called **logits**. If all $C$ classes
# get the same score, the loss is $\log C$. An untrained classifier should start near this value.
# The right-hand side is minus the **log-softmax** of the label, $x_t - \log\sum_j e^{x_j}$. It does
# not contain $p$, so a probability that underflows to 0 cannot make the loss infinite. Subtract the
# largest score from all scores before you compute the exponentials.


# %%
def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def cross_entropy(logits, labels):
    """Return the mean of -log p(label) over the rows."""
    return -log_softmax(logits)[np.arange(len(labels)), labels].mean()


logits, labels = np.zeros((4, 10)), np.array([3, 1, 4, 1])
loss = cross_entropy(logits, labels)
print(f"equal scores for 10 classes: loss {loss:.4f}, log 10 = {np.log(10):.4f}")
logits = np.random.default_rng(0).normal(size=(4, 10))
library = mt.nn.functional.cross_entropy(mt.tensor(logits), mt.tensor(labels)).item()
print(f"random scores: by hand {cross_entropy(logits, labels):.6f}, library {library:.6f}")
assert np.isclose(cross_entropy(logits, labels), library)

# %% [markdown]
# The gradient of cross-entropy has a short formula, because the derivative of the logarithm cancels
# the division by the sum:
#
# $$\frac{\partial L}{\partial x_i} = -\delta_{it} + \frac{e^{x_i}}{\sum_j e^{x_j}}
# = p_i - [i = t].$$
#
# Here $[i = t]$ is 1 if $i = t$, and 0 otherwise. For all classes $i$ together, these numbers form
# the **one-hot** vector of the label. The chain rule gives the same result: multiply
# $\partial L/\partial p_i = -[i = t]/p_t$ by softmax's Jacobian $J$, and $1/p_t$ cancels. This
# is true on paper, but not always in floating point (see below).

# %%
logits, label = np.array([[2.0, 1.0, -1.0, 0.0]]), 1
p = softmax(logits)[0]
onehot = np.eye(4)[label]


def library_gradient(logits, labels, padding=-100):
    """Return the gradient of the library's cross_entropy for NumPy arrays."""
    x = mt.tensor(logits, requires_grad=True)
    mt.nn.functional.cross_entropy(x, mt.tensor(labels), ignore_index=padding).backward()
    return x.grad.numpy()


g = -onehot / p  # dL/dp
print("p              ", p.round(4))
print("p - onehot     ", (p - onehot).round(4))
print("through softmax", (p * (g - (p * g).sum())).round(4))
found = library_gradient(logits, [label])[0]
print("library        ", found.round(4))
assert np.allclose(p - onehot, found) and np.isclose((p - onehot).sum(), 0)

# %% tags=["plot"]
figure = new_figure(8, 3.2)
left, right = figure.subplots(1, 2)
classes = np.arange(4)
left.bar(classes - 0.2, p, 0.4, color=COLOURS[0], label="p")
left.bar(classes + 0.2, onehot, 0.4, color="0.75", label="onehot")
colours = [COLOURS[1] if v < 0 else COLOURS[0] for v in p - onehot]
right.bar(classes, p - onehot, 0.5, color=colours)
right.axhline(0, color="0.3", linewidth=0.8)
left.set(title="prediction and label", xlabel="class", xticks=classes)
right.set(title="gradient of the scores: p - onehot", xlabel="class", xticks=classes)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)
show(figure, "a descent step raises the score of class 1 and lowers the others in proportion to p")

# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of a whole batch, with padding
#
# Sentences of different lengths are padded to the same length. A padded token has no correct class:
# its label is -1, and it must not contribute to the loss. The loss is the mean of $-\log p_t$ over
# the **other** rows.
#
# Write `cross_entropy_backward(logits, labels)` for NumPy arrays: `logits` of shape (row, class)
# and `labels`, integers of shape (row,). Return the gradient of the loss with respect to `logits`.
# Rows with the label -1 get the gradient 0. You may use `softmax` from above.
#
# *Hint:* Start with `p = softmax(logits)`. From which entries must 1 be subtracted? By what number
# does the mean divide, and which rows are set to 0?


# %% tags=["answer"]
def cross_entropy_backward(logits, labels):
    """Return the gradient of the mean loss over rows with a label >= 0, shape (row, class)."""
    grad = softmax(logits)
    counted = np.flatnonzero(labels >= 0)
    grad[counted, labels[counted]] -= 1
    grad[labels < 0] = 0
    return grad / len(counted)


# %% tags=["check"]
check(
    cross_entropy_backward,
    cases=[
        (rng.normal(size=(3, 5)), np.array([0, 4, 2])),
        (rng.normal(size=(5, 7)), np.array([6, -1, 2, -1, 2])),
        (np.array([[1000.0, 0.0], [0.0, 1000.0]]), np.array([1, -1])),
    ],
    expected=lambda logits, labels: library_gradient(logits, labels, padding=-1),
    properties={
        "each row sums to 0": lambda grad, *_: np.allclose(grad.sum(-1), 0),
        "padding has no influence": lambda grad, logits, labels: not grad[labels < 0].any(),
    },
)

# %% [markdown]
# ## What goes wrong with a careless softmax or loss
#
# **Softmax first, then the logarithm.** In float32, $p_t = e^{-120}$ underflows to 0. Its logarithm
# is $-\infty$, and in the gradient $-1/p_t = -\infty$ is multiplied by $p_t = 0$: NaN. One
# such row makes the mean loss infinite, and the next step turns every weight of the model into NaN.

# %%
logits = mt.tensor([[0.0, 120.0]], requires_grad=True)  # sure of class 1, but the label is 0
fused = mt.nn.functional.cross_entropy(logits, mt.tensor([0]))
fused.backward()
good = logits.grad.numpy()[0].copy()

logits.grad = None
with np.errstate(all="ignore"):
    two_steps = -mt.log(mt.softmax(logits, -1))[0, 0]
    two_steps.backward()
bad = logits.grad.numpy()[0]
print(f"log_softmax      loss {fused.item():6.1f}   gradient {good}")
print(f"log(softmax(x))  loss {two_steps.item():6.1f}   gradient {bad}")
assert fused.item() == 120.0 and np.allclose(good, [-1, 1])
assert np.isinf(two_steps.item()) and np.isnan(bad).any()

# %% [markdown]
# **Softmax twice.** `cross_entropy` expects *scores*. If you pass probabilities instead, no error
# is raised, the loss goes down, and the accuracy may even look fine. But probabilities are between
# 0 and 1, so their largest difference is 1. Even for a perfect prediction the loss cannot go below
# $\log(e + C - 1) - 1$, and for a label with a low score the gradient is almost 0.

# %%
classes = 10
floor = np.log(np.e + classes - 1) - 1
print(f"{'':18}   loss                    gradient of the label's score")
print("score of the label   scores   softmaxed       scores   softmaxed   <- given to the loss")
for top in (-10.0, 0.0, 2.0, 5.0, 10.0, 20.0):
    row = []
    for twice in (False, True):
        x = mt.zeros(1, classes, dtype=mt.float64)
        x[0, 0] = top
        x.requires_grad_()
        loss = mt.nn.functional.cross_entropy(mt.softmax(x, -1) if twice else x, mt.tensor([0]))
        loss.backward()
        row += [loss.item(), x.grad[0, 0].item()]
    print(f"{top:18.0f} {row[0]:8.4f} {row[2]:11.4f} {row[1]:12.1e} {row[3]:11.1e}")
    assert top > -10 or (row[1] < -0.99 and row[3] > -1e-4)
print(f"the floor: log(e + {classes - 1}) - 1 = {floor:.4f}")
assert row[0] < 1e-6 and row[2] >= floor - 1e-9 and np.isclose(row[2], floor, atol=1e-4)

# %% [markdown]
# **Squared error on the probabilities.** Why not use $(1 - p_t)^2$ as the loss? It is 0 for a
# perfect prediction and 1 for the worst. The next cell compares it with cross-entropy for two
# classes, as a function of the score of the correct class minus the other score.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The model is **confident and wrong**: the score of the correct class is 12 below the other one.
# How large is the slope of cross-entropy there, and how large is the slope of the squared error?
# Write down two numbers, then run the next cell.

# %%
margins = np.linspace(-12, 12, 97)  # score of the correct class minus the other score
p = 1 / (1 + np.exp(-margins))  # probability of the correct class
slope_ce = abs(p - 1)
slope_mse = abs(2 * (p - 1) * p * (1 - p))  # slope of (1 - p)^2, with the factor p (1 - p)
print(f"at a margin of -12: cross-entropy {slope_ce[0]:.6f}, squared error {slope_mse[0]:.1e}")
assert slope_ce[0] > 0.99 and slope_mse[0] < 1e-4

# %% [markdown]
# The gradient of the squared error passes through $J$, and $J$ is almost 0 when the model is
# confident, whether it is right or **wrong**. So the worst prediction is hardly corrected.
# Cross-entropy has a slope of 1 there. Remember this for attention, whose weights are a softmax
# *inside* a network: nothing cancels $J$ there, and a confident softmax stops learning (lesson 9).

# %% tags=["plot"]
figure = new_figure(7, 3.4)
axes = figure.add_subplot()
axes.plot(margins, slope_ce, color=COLOURS[0], label="cross-entropy")
axes.plot(margins, slope_mse, "--", color=COLOURS[1], label="squared error on probabilities")
axes.set(xlabel="score of the correct class minus the other", ylabel="size of the gradient")
axes.annotate("confident and wrong", (-11.5, 0.06), fontsize=9, color="0.3")
axes.annotate("sure and correct", (6.7, 0.06), fontsize=9, color="0.3")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
show(
    figure,
    "on the left the model is confident and wrong: only cross-entropy still has a slope there",
)

# %% [markdown]
# **The wrong axis.** For scores of shape (batch, class) the softmax must run over the classes. A
# softmax over the batch also gives numbers between 0 and 1, but the rows no longer sum to 1.

# %%
scores = mt.randn(3, 5)
for dim in (-1, 0):
    sums = mt.softmax(scores, dim).sum(-1).numpy()
    print(f"softmax along axis {dim:2}: the rows sum to {sums.round(2)}")
    assert np.allclose(sums, 1, atol=1e-6) == (dim == -1)

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.ops.cross_entropy import CrossEntropy
from minitorch_attn.ops.softmax import LogSoftmax, Softmax

where(
    Softmax,
    LogSoftmax,
    CrossEntropy,
    mt.nn.functional.cross_entropy,
)

# %% [markdown]
# ## Exercise
#
# Write `CrossEntropy` as a Function (lesson 3): `forward(ctx, logits, labels)` returns the mean
# loss, `backward` returns `(gradient, None)`. You are done when `mt.autograd.gradcheck(lambda x:
# CrossEntropy.apply(x, labels), logits)` returns True for four rows of ten classes in float64, and
# when logits of 1000 give a finite loss. (Do not forget the mean. A test with only one row would
# not detect that it is missing.) Then use soft labels: give the correct class the weight $1 - e$,
# and spread $e$ evenly over all classes. The result must agree with
# `cross_entropy(..., label_smoothing=e)`.
#
# Then practice:
#
# ```sh
# mta exercise start 03
# mta exercise start 04
# mta exercise start 05
# mta exercise start 26
# mta exercise start 29
# mta exercise start 34
# mta exercise start 37
# mta exercise start 45
# ```
#
# ## Three questions
#
# 1. After subtracting the maximum, exponentials can still *underflow* to 0. Why does this do no
#    harm in softmax, and why does it do harm in `log(softmax(x))`?
# 2. A classifier for 10 classes reaches an accuracy of 95 %, and its loss never falls below 1.46.
#    Which mistake do you suspect?
# 3. The entries of $p - \mathrm{onehot}$ add up to 0, and so do the entries of each column of $J$.
#    Which property of softmax explains both?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. In softmax an entry far below the maximum becomes 0, which is correct up to rounding. The
#    logarithm of that 0 is $-\infty$; the correct value is about this score minus the largest one.
#    In the printed example the loss is inf where it should be 120.
# 2. Look for a softmax before `cross_entropy`. If `cross_entropy` is given the probabilities of 10
#    classes, the loss cannot fall below the printed limit of 1.46.
# 3. Adding the same number to all scores does not change the probabilities (first printed lines).
#    So the loss and each probability have the slope 0 in the direction (1, 1, ..., 1). The slope in
#    this direction is the sum of the entries of the gradient. The gradient of the loss is
#    $p - \mathrm{onehot}$. The gradient of a probability is a row of $J$, which is also a column,
#    because $J$ is symmetric.
