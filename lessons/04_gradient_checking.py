# %% [markdown]
# # Gradient checking
#
# Without trusting another library, how can you check that a hand-written backward pass is correct?
# And which mistakes can such a check never find?
#
# *Prerequisites:* Function and context (lesson 3), the sum over broadcast axes (lesson 1). The
# example is attention, which you do not need to know yet.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## Central differences: change an input a little and compare
#
# The derivative is a limit. For a small step $h$ the **central difference** approximates it:
#
# $$f'(x) \approx \frac{f(x + h) - f(x - h)}{2h},
# \qquad \text{error} \approx \frac{h^2}{6} |f'''| + \frac{u\,|f|}{h} .$$
#
# The first term is the truncation error, which shrinks with the step. The second is the rounding
# error, which grows as the step shrinks. The two values of $f$ then agree in most of their digits,
# and these digits cancel in the difference. (Here $u$ is the relative rounding error of one
# number.) So the best step is in between.


# %%
def slope_error(f, exact, x, h, dtype, sided="central"):
    """Return the relative error of a difference quotient, with all arithmetic in `dtype`."""
    x, h = dtype(x), dtype(h)
    if sided == "central":
        found = (f(x + h) - f(x - h)) / (2 * h)
    else:
        found = (f(x + h) - f(x)) / h
    return abs(float(found) - exact) / abs(exact)


def wavy(x):
    return np.exp(x) * np.sin(3 * x)


at = 0.7
exact = np.exp(at) * (np.sin(3 * at) + 3 * np.cos(3 * at))
steps = 10.0 ** np.arange(-12, 0)
print("rounding u: {:.0e} in float64, {:.0e} in float32".format(*(np.finfo(t).eps for t in "df")))
print("step     float64 central  float64 one-sided  float32 central")
curves = {
    "float64, central": [slope_error(wavy, exact, at, h, np.float64) for h in steps],
    "float64, one-sided": [slope_error(wavy, exact, at, h, np.float64, "one") for h in steps],
    "float32, central": [slope_error(wavy, exact, at, h, np.float32) for h in steps],
}
for h, *row in zip(steps, *curves.values(), strict=True):
    print(f"{h:.0e}  " + "  ".join(f"{error:15.1e}" for error in row))

# %% [markdown]
# Look at the column "float64 central". From 1e-01 to 1e-04, whenever the step becomes ten times
# smaller, the error becomes a hundred times smaller: this is the $h^2$ in the formula. Then
# rounding takes over. The next function uses the library to compute gradients, so that you can
# check your own results.


# %%
def library_gradients(f, *inputs):
    """Return the library's gradients of the number f(*inputs), one array for each input."""
    tensors = [mt.tensor(x, dtype=mt.float64, requires_grad=True) for x in inputs]
    return [gradient.numpy() for gradient in mt.autograd.grad(f(*tensors), tensors)]


# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of an array by central differences
#
# Write `numeric_gradient(f, x, h)`. `x` is a NumPy array of any shape, and `f(x)` is one number.
# Return an array of the shape of `x`. Each entry is the central difference with step `h` when
# only the corresponding entry of `x` changes.
#
# *Hint:* `np.ndindex(x.shape)` iterates over all indices. Change a copy of `x`, not `x` itself.


# %% tags=["answer"]
def numeric_gradient(f, x, h):
    """Return the gradient of the number f(x). The gradient has the shape of x."""
    gradient = np.empty_like(x)
    for place in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[place] += h
        below[place] -= h
        gradient[place] = (f(above) - f(below)) / (2 * h)
    return gradient


# %% tags=["check"]
check(
    numeric_gradient,
    cases=[
        (lambda x: (x * x).sum(), rng.normal(size=5), 1e-3),
        (lambda x: (x @ x).sum(), rng.normal(size=(3, 3)), 1e-3),
        (lambda x: (x.sum(-1) * x[:, 0]).sum(), rng.normal(size=(2, 7)), 1e-3),
    ],
    expected=lambda f, x, h: library_gradients(f, x)[0],
    properties={
        "sum(x * gradient) is 2 f(x), because f is quadratic": (
            lambda gradient, f, x, h: np.isclose((x * gradient).sum(), 2 * f(x))
        ),
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: one good slope from two bad ones
#
# Let $D(h)$ be the central difference with step $h$. Without rounding, its error is $c\,h^2$ plus
# terms of order $h^4$, where $c$ is unknown:
#
# $$D(h) = f'(x) + c\,h^2 + O(h^4), \qquad D(h/2) = f'(x) + c\,\frac{h^2}{4} + O(h^4) .$$
#
# Write `extrapolated_slope(f, x, h)` for a function `f` of one number. It computes $D(h)$ and
# $D(h/2)$ and combines them so that the unknown $c\,h^2$ cancels. For polynomials up to degree 4
# the result must be exact, even with a step as large as $h = 0.5$.
#
# *Hint:* Multiply the second equation by 4 and subtract the first.


# %% tags=["answer"]
def extrapolated_slope(f, x, h):
    """Return the slope of f at x, computed from central differences with steps h and h / 2."""
    wide = (f(x + h) - f(x - h)) / (2 * h)
    narrow = (f(x + h / 2) - f(x - h / 2)) / h
    return (4 * narrow - wide) / 3


# %% tags=["check"]
check(
    extrapolated_slope,
    cases=[
        (lambda x: x**4 - 5 * x**3, 1.5, 0.5),
        (lambda x: 2 * x**3 + x, -0.3, 1.0),
        (lambda x: 7 * x**2, 2.0, 0.1),
    ],
    expected=lambda f, x, h: library_gradients(f, x)[0],
    properties={
        "a constant added to f changes nothing": lambda slope, f, x, h: np.isclose(
            slope, extrapolated_slope(lambda t: f(t) + 100, x, h)
        ),
    },
)

# %% [markdown]
# This trick is called Richardson extrapolation. Gradient checks do not need it: in float64 the
# plain central difference is accurate enough.
#
# ## A checker for tensors
#
# A layer has many inputs and many outputs. Multiply the outputs by a fixed random tensor $c$, the
# **cotangent**, and sum. This gives one number, $L = \sum_i c_i y_i$. Then compare
# $\partial L/\partial x$ from backward with finite differences of $L$, entry by entry. The error of
# a whole tensor is $\lVert g - n \rVert / \lVert n \rVert$, where $g$ comes from backward and $n$
# from finite differences.


# %%
def tensor_gradient(fn, inputs, which, cotangent, h):
    """Return central differences of sum(cotangent * fn(*inputs)) with respect to inputs[which]."""
    entries = inputs[which].numpy().reshape(-1)  # shares memory with the tensor
    found = np.empty_like(entries)
    for i, start in enumerate(entries.copy()):
        entries[i] = start + h
        above = (cotangent * fn(*inputs).numpy()).sum()
        entries[i] = start - h
        below = (cotangent * fn(*inputs).numpy()).sum()
        entries[i] = start
        found[i] = (above - below) / (2 * h)
    return found.reshape(inputs[which].shape)


def gradient_errors(fn, inputs, h=1e-5, plain_sum=False):
    """Return the relative error of the gradient for each input."""
    y = fn(*inputs)
    drawn = np.random.default_rng(0).normal(size=y.shape).astype(y.dtype)
    cotangent = np.ones_like(drawn) if plain_sum else drawn
    derived = mt.autograd.grad(y, inputs, mt.tensor(cotangent))
    errors = []
    with mt.no_grad():
        for i, g in enumerate(derived):
            n = tensor_gradient(fn, inputs, i, cotangent, h)
            size = max(np.linalg.norm(n), 1e-2)  # do not divide by 0 if the gradient is 0
            errors.append(np.linalg.norm(g.numpy() - n) / size)
    return errors


# %% [markdown] tags=["your-turn"]
# ## Your turn: all inputs at once
#
# The checker evaluates the function twice for every single number of its inputs. For a model with
# millions of parameters this takes too long. A cheaper check moves **all** numbers at once, each
# input $x_k$ along a random direction $d_k$ of the same shape. With the gradients $g_k$, the slope
# along this direction must be $\sum_k \sum (g_k \odot d_k)$. Here $\odot$ multiplies entry by
# entry, and the inner sum runs over all entries.
#
# Write `slope_along(f, inputs, directions, h)`. `inputs` and `directions` are two lists of NumPy
# arrays, and `f(*inputs)` is one number. Return the central difference of `f` when every input
# moves by `h` times its direction. Your function may call `f` only twice.
#
# *Hint:* Use the formula for one number, $(f(x + h) - f(x - h)) / 2h$, with lists in place of
# $x + h$ and $x - h$.


# %% tags=["answer"]
def slope_along(f, inputs, directions, h):
    """Return the slope of the number f(*inputs) when each input moves along its direction."""
    above = [x + h * d for x, d in zip(inputs, directions, strict=True)]
    below = [x - h * d for x, d in zip(inputs, directions, strict=True)]
    return (f(*above) - f(*below)) / (2 * h)


# %% tags=["check"]
check(
    slope_along,
    cases=[
        (lambda x: (x * x).sum(), [rng.normal(size=5)], [rng.normal(size=5)], 1e-3),
        (
            lambda a, b: (a @ b).sum() + (b * b).sum(),
            [rng.normal(size=(2, 3)), rng.normal(size=(3, 5))],
            [rng.normal(size=(2, 3)), rng.normal(size=(3, 5))],
            1e-3,
        ),
    ],
    expected=lambda f, inputs, directions, h: sum(
        (g * d).sum() for g, d in zip(library_gradients(f, *inputs), directions, strict=True)
    ),
    properties={
        "the opposite direction has the opposite slope": lambda slope, f, inputs, directions, h: (
            np.isclose(slope, -slope_along(f, inputs, [-d for d in directions], h))
        ),
    },
)

# %% [markdown]
# If one entry of a gradient is wrong, the check along a random direction almost always detects it,
# but it does not show which entry is wrong. For small layers the entry-by-entry check is better.
#
# Now we check the library's attention with inputs of shape (batch 2, token 5, dim 4) and a range of
# step sizes. You do not need to know attention yet (lessons 7 and 8): for the checker it is just a
# function of three tensors.

# %%
drawn = np.random.default_rng(1).normal(size=(3, 2, 5, 4))  # query, key, value
attention = mt.nn.functional.scaled_dot_product_attention


def attention_error(dtype, h):
    inputs = [mt.tensor(part.astype(dtype), requires_grad=True) for part in drawn]
    return max(gradient_errors(attention, inputs, dtype(h)))


block_steps = 10.0 ** np.arange(-8, 0)
block_64 = [attention_error(np.float64, h) for h in block_steps]
block_32 = [attention_error(np.float32, h) for h in block_steps]
print("step     float64  float32")
for h, double, single in zip(block_steps, block_64, block_32, strict=True):
    print(f"{h:.0e}  {double:7.0e}  {single:7.0e}")
best_64, best_32 = block_steps[np.argmin(block_64)], block_steps[np.argmin(block_32)]
print(f"best step {best_64:.0e} in float64, {best_32:.0e} in float32")
assert 1e-6 <= best_64 <= 1e-4 and min(block_64) < 1e-8
assert 1e-3 <= best_32 <= 1e-1 and min(block_32) > 1e-6  # even with correct code

# %% tags=["plot"]
figure = new_figure(8, 3.6)
left, right = figure.subplots(1, 2, sharey=True)
for (name, errors), mark, colour in zip(curves.items(), "os^", COLOURS, strict=False):
    left.loglog(steps, np.maximum(errors, 1e-13), mark + "-", color=colour, label=name, ms=4)
right.loglog(block_steps, block_64, "o-", color=COLOURS[0], label="float64, central", ms=4)
right.loglog(block_steps, block_32, "^-", color=COLOURS[2], label="float32, central", ms=4)
right.axhline(1e-6, color="0.5", linestyle=":")
right.text(2e-5, 1.6e-6, "passes below", color="0.35", fontsize=9, ha="center")
left.set(title="one function of one number", xlabel="step h", ylabel="relative error")
right.set(title="attention", xlabel="step h")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
show(
    figure,
    "each curve shows rounding error left of its lowest point, and truncation error right of it",
)

# %% [markdown]
# The result is a rule: **use float64, central differences and a step of 1e-5, and accept an error
# below 1e-6.** In float32 even correct code does not pass. Train in float32, but check gradients in
# float64.
#
# ## An attention block with deliberate mistakes
#
# The block is attention with a bias on its queries and a gain on its output. It rolls the tokens by
# one position before the attention and rolls them back afterwards, as Swin does (lesson 25).
# Lessons 5 and 8 derive its formulas, so you need not follow each line now. Here it only matters
# whether backward is the derivative of forward. Each value of `bug` selects one common mistake. Two
# of these mistakes are in the *forward* pass. For these two, the backward pass is the correct
# derivative of the wrong forward pass.


# %%
def softmax(s, axis):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def swap(x):
    return x.swapaxes(-1, -2)


class Block(mt.autograd.Function):
    """y = unroll(gain * softmax((roll(x) + bias) key^T / sqrt(dim)) value)."""

    bug = "none"

    @classmethod
    def inside(cls, x, bias, key, value):
        # x, key, value (batch, token, dim)   bias, gain (dim,)
        axis = -2 if cls.bug == "forward: softmax over queries" else -1
        scale = 1.0 if cls.bug == "forward: no scale" else key.shape[-1] ** -0.5
        query = np.roll(x, -1, axis=1) + bias
        weights = softmax(scale * query @ swap(key), axis)  # (batch, query, key)
        return query, weights, weights @ value, axis, scale

    @classmethod
    def forward(cls, ctx, x, bias, key, value, gain):
        ctx.save(x, bias, key, value, gain)
        return np.roll(gain * cls.inside(x, bias, key, value)[2], 1, axis=1)

    @classmethod
    def backward(cls, ctx, grad_y):
        x, bias, key, value, gain = ctx.saved
        query, weights, context, axis, scale = cls.inside(x, bias, key, value)
        if cls.bug != "roll not undone":
            grad_y = np.roll(grad_y, -1, axis=1)
        grad_gain = (grad_y * context).sum(axis=(0, 1))
        grad_context = grad_y if cls.bug == "gain forgotten" else grad_y * gain
        grad_value = swap(weights) @ grad_context
        grad_weights = grad_context @ swap(value)
        mean = (grad_weights * weights).sum(axis=axis, keepdims=True)
        grad_scores = weights * (grad_weights - mean) * scale
        grad_query, grad_key = grad_scores @ key, swap(grad_scores) @ query
        of_items = grad_query.sum(axis=1)  # (batch, dim)
        grad_bias = of_items[0] if cls.bug == "bias of item 0 only" else of_items.sum(axis=0)
        return np.roll(grad_query, 1, axis=1), grad_bias, grad_key, grad_value, grad_gain


def block_with(bug):
    return type("Block", (Block,), {"bug": bug}).apply


# %% [markdown]
# ## Test each planted mistake with each setup of the gradient check
#
# The careful setup follows the rule above. It also uses a batch of 2, a random cotangent and a
# random gain. Each of the other setups is careless in one respect.

# %%
BUGS = ["none", "bias of item 0 only", "roll not undone", "gain forgotten"]
BUGS += ["forward: no scale", "forward: softmax over queries"]
SETUPS = ["careful", "batch of 1", "plain sum", "gain of 1", "float32"]


def error_of(bug, setup):
    rng = np.random.default_rng(2)
    batch = 1 if setup == "batch of 1" else 2
    shapes = [(batch, 5, 4), (4,), (batch, 5, 4), (batch, 5, 4), (4,)]
    values = [rng.normal(size=shape) for shape in shapes]
    values[4] = np.ones(4) if setup == "gain of 1" else rng.uniform(0.5, 1.5, 4)
    dtype = np.float32 if setup == "float32" else np.float64
    inputs = [mt.tensor(value.astype(dtype), requires_grad=True) for value in values]
    plain_sum = setup == "plain sum"
    return max(gradient_errors(block_with(bug), inputs, dtype(1e-5), plain_sum=plain_sum))


errors = np.array([[error_of(bug, setup) for setup in SETUPS] for bug in BUGS])
passes = errors < 1e-6
print(f"{'largest relative error':30}" + "".join(f"{setup:>12}" for setup in SETUPS))
for bug, row in zip(BUGS, errors, strict=True):
    print(f"{bug:30}" + "".join(f"{error:12.0e}" for error in row))

# %% tags=["plot"]
from matplotlib.colors import ListedColormap

figure = new_figure(8, 3.6)
axes = figure.add_subplot()
axes.imshow(passes, cmap=ListedColormap(["#f3d3bd", "#cfe3f1"]), vmin=0, vmax=1, aspect="auto")
for (i, j), error in np.ndenumerate(errors):
    verdict = "passes" if passes[i, j] else "fails"
    axes.text(j, i, f"{verdict}\n{error:.0e}", ha="center", va="center", fontsize=9)
axes.set_xticks(range(len(SETUPS)), SETUPS)
axes.set_yticks(range(len(BUGS)), BUGS)
axes.xaxis.tick_top()
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
show(
    figure,
    "below the first row, each blue cell is a mistake that the setup of its column does not find",
)

# %% [markdown]
# ## What goes wrong with a careless setup of the gradient check
#
# Each column of the table is a setup. **A batch of 1** hides the missing sum over the batch,
# because there is nothing to sum. **A plain sum** as the loss hides that the roll was not undone:
# it gives every output the gradient 1, and a tensor of ones does not change when it is rolled.
# **A gain of 1**, the initial value in every layer norm, hides that the gain was forgotten. In
# **float32** everything fails, even the correct code.

# %%
verdicts = dict(zip(BUGS, passes.tolist(), strict=True))
assert verdicts["none"] == [True, True, True, True, False]
assert verdicts["bias of item 0 only"] == [False, True, False, False, False]
assert verdicts["roll not undone"] == [False, False, True, False, False]
assert verdicts["gain forgotten"] == [False, False, False, True, False]
for bug in BUGS[4:]:
    assert verdicts[bug] == verdicts["none"]  # a wrong forward with a matching backward

# %% [markdown]
# How bad can a plain sum be? The next class is a softmax: it turns each row of scores into positive
# numbers that sum to 1 (lesson 5). Its backward always returns zeros.


# %%
class ZeroSoftmax(mt.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        return softmax(scores, -1)

    @staticmethod
    def backward(ctx, grad_y):
        return 0.0 * grad_y


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The next cell uses two losses: first the plain sum of the softmax outputs, then their sum weighted
# by a random cotangent. For each loss it computes the slopes with respect to the scores by finite
# differences and prints the largest one. `ZeroSoftmax.backward` returns 0 for all these slopes. For
# which of the two losses does the check accept these zeros? Write down your answer and a reason,
# then run the next cell.

# %%
scores = mt.randn(2, 5, dtype=mt.float64, requires_grad=True)
for plain_sum in (True, False):
    y = ZeroSoftmax.apply(scores)
    cotangent = np.ones(y.shape) if plain_sum else np.random.default_rng(0).normal(size=y.shape)
    with mt.no_grad():
        slopes = tensor_gradient(ZeroSoftmax.apply, [scores], 0, cotangent, 1e-5)
    name = "plain sum" if plain_sum else "random cotangent"
    print(f"{name:17} largest slope {abs(slopes).max():.0e}, backward returns 0")
    assert (abs(slopes).max() < 1e-9) == plain_sum

# %% [markdown]
# With the plain sum, the zeros pass. Each row of a softmax sums to 1 for any scores, so the sum of
# all outputs never changes, and its slopes really are 0. The random cotangent gives the outputs
# different weights, so the check detects that the zeros are wrong.
#
# ## What no gradient check can find
#
# The last two rows of the table are the mistakes in the forward pass. No gradient check finds them:
# in every setup in which the correct code passes, these two blocks pass as well. The check tests
# whether backward is the derivative of forward, not whether forward computes attention. To test the
# forward pass, you need **properties** and one small case **worked out by hand**:
#
# * If all value vectors are the same, the output must be this vector, because the weights sum to 1.
# * For the query (2, 0, 0, 0) and the keys (log 3, 0, 0, 0) and (0, 0, 0, 0), the scores are
#   $2 \log 3/\sqrt 4 = \log 3$ and $0$, so the weights are $3/4$ and $1/4$.

# %%
zero, one = mt.zeros(4, dtype=mt.float64), mt.ones(4, dtype=mt.float64)
for bug in BUGS:
    fn = block_with(bug)
    x, key = mt.randn(1, 5, 4, dtype=mt.float64), mt.randn(1, 5, 4, dtype=mt.float64)
    constant = fn(x, zero, key, mt.full((1, 5, 4), 7.0, dtype=mt.float64), one)
    stays = bool(np.allclose(constant.numpy(), 7.0))

    x = mt.tensor([[[2.0, 0, 0, 0], [2.0, 0, 0, 0]]], dtype=mt.float64)  # (1, 2 queries, 4)
    key = mt.tensor([[[np.log(3.0), 0, 0, 0], [0, 0, 0, 0]]], dtype=mt.float64)
    value = mt.tensor([[[1.0, 0, 0, 0], [0, 0, 0, 0]]], dtype=mt.float64)
    weight = fn(x, zero, key, value, one)[0, 0, 0].item()
    print(f"{bug:30} keeps a constant: {stays!s:5}   first weight {weight:.3f} (by hand 0.750)")
    assert stays == (bug != "forward: softmax over queries")
    assert np.isclose(weight, 0.75) == (not bug.startswith("forward"))

# %% [markdown]
# ## The library's checker
#
# The library's checker also compares entry by entry, in float64 with a step of 1e-5, a random
# cotangent and a limit of 1e-6. (You choose the inputs, so you must choose a batch of 2 and a
# random gain yourself.) It reports which input and which entry are wrong, and suggests what may be
# missing.

# %%
x = mt.randn(2, 5, 4, dtype=mt.float64, requires_grad=True)
bias = mt.randn(4, dtype=mt.float64, requires_grad=True)
key, value = mt.randn(2, 5, 4, dtype=mt.float64), mt.randn(2, 5, 4, dtype=mt.float64)
wrong_block = block_with("bias of item 0 only")


def layer(x, bias):
    return wrong_block(x, bias, key, value, one)


report = mt.autograd.gradcheck_report(layer, (x, bias))
print(report)
assert [item.ok for item in report.items] == [True, False]

# %% [markdown]
# ## In the library

# %%
where(
    mt.autograd.gradcheck,
    mt.gradcheck.numeric.slopes,
    mt.gradcheck.presets.attention_case,
    mt.ops.attention.fused.Attention.backward,
)

# %% [markdown]
# ## Exercise
#
# Plant another mistake in `Block.backward` (for example, leave out `mean`, leave out `swap` before
# `@ query`, or swap `grad_query` and `grad_key`) and add it to `BUGS`. First write down which of
# the five columns will detect it, then run the table. You are done when you can explain each of the
# five cells of your new row.
#
# ## Three questions
#
# 1. A student checks in float32 with a step of 1e-5, sees an error of 4e-2, and spends hours
#    looking for a mistake in backward. Which two printed numbers would have saved her that time?
# 2. Why does a step smaller than 1e-5 make the float64 check worse?
# 3. "The gradient check passes, so my attention is correct." Which rows of the table refute this,
#    and what found the mistakes in the end?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. One is in the row `none` of the table: the correct code fails in the column float32. The other
#    is in the row 1e-05 of the attention table: in float64 the gradient agrees with the finite
#    differences to ten digits, in float32 only to one.
# 2. The two values of the function agree in more and more digits, so their difference consists
#    mostly of rounding errors. In the figure, the curves rise toward smaller steps.
# 3. "forward: no scale" and "forward: softmax over queries" pass in every column in which the
#    correct code passes. The test with equal values and the weight worked out by hand found them.
