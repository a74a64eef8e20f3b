# %% [markdown]
# # Tensors, strides, broadcasting
#
# Which operations copy numbers, and which only read the same numbers in a different order? And what
# is the gradient of a number that is used several times?
#
# *Prerequisites:* NumPy arrays and their shapes; partial derivatives.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## A tensor is a line of numbers and a rule for reading it
#
# Memory does not have rows and columns. It is one long line of cells. A tensor adds a **shape**, an
# **offset** (the position of its first element) and one **stride** for each axis. A stride is the
# step in memory when the index on that axis increases by one. The element at index $(i, j)$ is at
# position
#
# $$\mathrm{offset} + i \cdot \mathrm{stride}_0 + j \cdot \mathrm{stride}_1 .$$

# %%
x = mt.tensor(np.arange(12.0)).reshape(3, 4)
memory = x.numpy().ravel()  # the same twelve numbers as one line


def strides(tensor):
    """Return the strides in elements; NumPy counts them in bytes."""
    return tuple(step // tensor.dtype.itemsize for step in tensor.numpy().strides)


print(x.numpy())
print("strides", strides(x))
print("element (2, 1) is at 2 * 4 + 1 * 1 = 9:", memory[2 * 4 + 1 * 1])
assert strides(x) == (4, 1)
assert all(memory[i * 4 + j] == x[i, j].item() for i in range(3) for j in range(4))

# %% [markdown] tags=["your-turn"]
# ## Your turn: the strides of any shape
#
# A new tensor is stored in **row-major** order: the elements along the last axis are adjacent in
# memory, so the first row is followed by the second, and so on. For the shape (3, 4) the strides
# are (4, 1).
#
# Write `row_major(shape)`. It takes the shape, a tuple of sizes, and returns the strides, a tuple
# with one number for each axis.
#
# *Hint:* How many elements do you pass when the index on one axis increases by one? Start with the
# last axis.


# %% tags=["answer"]
def row_major(shape):
    """Return the strides, in elements, of a new tensor: one for each axis of shape."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


# %% tags=["check"]
check(
    row_major,
    cases=[((3, 4),), ((2, 3, 5, 7),), ((11,),)],
    expected=lambda shape: strides(mt.zeros(shape)),
    properties={
        "neighbors on the last axis are neighbors in memory": lambda found, shape: found[-1] == 1,
    },
)

# %% [markdown]
# ## Views: the same memory, a different rule
#
# A transpose swaps two strides. A slice changes the offset or multiplies a stride. Repeating along
# an axis needs no extra memory, because the stride of that axis is **0**. An operation has to copy
# the numbers only if its result cannot be described by an offset and strides.

# %%
results = {
    "x": x,
    "x.T": x.T,
    "x[1]": x[1],
    "x[:, ::2]": x[:, ::2],
    "x.reshape(2, 6)": x.reshape(2, 6),
    "x[:1].expand(5, 4)": x[:1].expand(5, 4),
    "x.T.reshape(12)": x.T.reshape(12),
    "x[[0, 2]]": x[[0, 2]],
    "x + 0": x + 0,
}
print(f"{'':20} {'shape':9} {'strides':9} {'offset':>6}   memory")
for name, result in results.items():
    shares = np.shares_memory(result.numpy(), x.numpy())
    offset = (result.data_ptr() - x.data_ptr()) // x.dtype.itemsize if shares else "-"
    kind = "view of x" if shares else "a copy"
    print(f"{name:20} {result.shape!s:9} {strides(result)!s:9} {offset!s:>6}   {kind}")
    assert shares == (name not in ("x.T.reshape(12)", "x[[0, 2]]", "x + 0"))

assert strides(x.T) == (1, 4) and strides(x[:1].expand(5, 4)) == (0, 1)

# %% [markdown]
# Why must `x.T.reshape(12)` copy? It needs the memory cells 0, 4, 8, 1, 5, 9, ... in this order.
# The steps between them are +4, +4, -7, +4, ..., but an axis has only one stride. (PyTorch's `view`
# raises an error here and its `reshape` copies. `contiguous` copies into row-major order.)

# %%
order = x.T.reshape(12).numpy().astype(int)
steps = np.diff(order)
print("cells in the required order:", order)
print("steps between them:         ", steps)
assert len(set(steps.tolist())) > 1  # no single stride
with fails(mt.errors.ShapeError):
    x.T.view(12)

# %% tags=["plot"]
figure = new_figure(8, 3.1)
panels = {"x  strides (4, 1)": x, "x.T  strides (1, 4)": x.T}
panels["x[:, ::2]  strides (4, 2)"] = x[:, ::2]
panels["x[:1].expand(5, 4)  strides (0, 1)"] = x[:1].expand(5, 4)
grid = figure.subplots(1, 4, width_ratios=[4, 3, 2, 4])
for axes, (title, view) in zip(grid, panels.items(), strict=True):
    cells = view.numpy()
    axes.imshow(cells, cmap="viridis", vmin=0, vmax=11)
    for (i, j), cell in np.ndenumerate(cells):
        ink = "white" if cell < 7 else "black"
        axes.text(j, i, int(cell), ha="center", va="center", color=ink, fontsize=11)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title.replace("  ", "\n"), fontsize=10)
show(
    figure,
    "each number is a position in memory; each view reads them in its own order, without a copy",
)

# %% [markdown]
# A view is not a snapshot. Writing through a view changes every tensor that shares its memory.

# %%
column = x.T[0]  # a view of a view: the first column of x
snapshot = column.clone()
x[2, 0] = 100.0
print("the view    ", column.numpy())
print("the snapshot", snapshot.numpy())
assert column[2].item() == 100.0 and snapshot[2].item() == 8.0
x[2, 0] = 8.0

# %% [markdown]
# ## Broadcasting: repeat an axis with stride 0
#
# Write one shape below the other, **aligned on the right**. On each axis the two sizes must be
# equal, or one of them must be 1 or missing. Where the size of a tensor is 1 or missing, the tensor
# is repeated along this axis, with stride 0.


# %%
def broadcast(a, b):
    """Return the shape to which the shapes a and b broadcast, or None if they do not match."""
    width = max(len(a), len(b))
    a, b = (1,) * (width - len(a)) + a, (1,) * (width - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        return None
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


pairs = [((3, 4), (4,)), ((3, 4), (3, 1)), ((5, 1), (1, 3)), ((5, 1), (5,)), ((3, 4), (3,))]
for a, b in pairs:
    print(f"{a!s:7} + {b!s:7} -> {broadcast(a, b) or 'error'}")
    if broadcast(a, b):
        assert (mt.zeros(a) + mt.zeros(b)).shape == broadcast(a, b)

with fails(mt.errors.ShapeError):
    mt.zeros(3, 4) + mt.zeros(3)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the strides of a repeated tensor
#
# `x.expand(new_shape)` repeats a tensor without a copy. Write `expanded_strides(x, new_shape)`. It
# returns the strides of the result, a tuple with one number for each axis of `new_shape`. You may
# use `x.shape` and `strides(x)`, and assume that `x` can be repeated to `new_shape`.
#
# For example, $x$ of shape (3, 1) with strides (1, 1) is repeated to (2, 3, 4) with strides
# (0, 1, 0).
#
# *Hint:* Align the shapes on the right. There are three kinds of axes in `new_shape`: those that
# `x` does not have, those that are repeated, and those that stay as they are.


# %% tags=["answer"]
def expanded_strides(x, new_shape):
    """Return strides that repeat x without a copy, one stride for each axis of new_shape."""
    missing = len(new_shape) - x.ndim
    result = [0] * missing
    for size, step, new_size in zip(x.shape, strides(x), new_shape[missing:], strict=True):
        result.append(step if size == new_size else 0)
    return tuple(result)


# %% tags=["check"]
check(
    expanded_strides,
    cases=[
        (mt.zeros(3, 1), (3, 4)),
        (mt.zeros(4), (3, 4)),
        (mt.zeros(5, 1, 2), (7, 5, 3, 2)),
        (mt.zeros(2, 3), (2, 3)),
    ],
    expected=lambda x, new_shape: strides(x.expand(new_shape)),
    properties={
        "there is one stride per axis": lambda found, x, new_shape: len(found) == len(new_shape),
    },
)

# %% [markdown]
# ## Backward: what was repeated is summed
#
# Models are trained with derivatives. Let $L$ be one number that is computed from a tensor $b$,
# such as a loss. The **gradient** of $b$ has the shape of $b$. Its entry $\partial L/\partial b_j$
# says how fast $L$ changes if $b_j$ alone changes a little. `L.backward()` computes this
# gradient and stores it in `b.grad` (lessons 2 and 3 explain how).
#
# What is the gradient of a tensor that is repeated? $y_{ij} = x_{ij} + b_j$ uses each $b_j$ in
# every row $i$. A small change of $b_j$ changes the whole column $j$ of $y$. By the chain rule,
# with $g = \partial L / \partial y$,
#
# $$\frac{\partial L}{\partial b_j} = \sum_i g_{ij}\,\frac{\partial y_{ij}}{\partial b_j}
# = \sum_i g_{ij} .$$
#
# The gradient has the shape of $b$ because it is summed over exactly the axes that were repeated.
# The next cell checks the sum in two ways: with `backward`, and by changing one entry of $b$ a
# little. It also shows a common mistake: one row of $g$ instead of the sum over all rows.

# %%
x, g = mt.randn(3, 4, dtype=mt.float64), mt.randn(3, 4, dtype=mt.float64)


def loss(b):
    return (g * (x + b)).sum()  # so that dL/dy = g


for shape, repeated in {(4,): (0,), (3, 1): (1,), (1, 1): (0, 1), (): (0, 1)}.items():
    b = mt.randn(shape, dtype=mt.float64, requires_grad=True)
    loss(b).backward()
    by_hand = g.numpy().sum(axis=repeated).reshape(shape)
    small = np.zeros(shape)
    small.flat[0] = 1e-6  # change the first entry of b by this much
    slope = (loss(b + mt.tensor(small)) - loss(b)).item() / 1e-6
    print(f"b {shape!s:7} repeated along axes {repeated!s:7} gradient {by_hand.round(2).tolist()}")
    print(f"{'':38} first entry, by a small change: {slope:.2f}")
    assert b.grad.shape == shape and np.allclose(b.grad.numpy(), by_hand)
    assert abs(slope - by_hand.flat[0]) < 1e-6

wrong = g.numpy()[0]
print("one row of g instead of the sum has the shape (4,), too, but wrong values:", wrong.round(2))
assert wrong.shape == (4,) and not np.allclose(wrong, g.numpy().sum(axis=0))

# %% [markdown] tags=["your-turn"]
# ## Your turn: sum a gradient to the shape of a repeated tensor
#
# The cell above lists the repeated axes by hand. Write `unbroadcast(grad, shape)`, which finds them
# itself. `grad` is a NumPy array, the gradient of a broadcast result such as $x + b$, and `shape`
# is the shape of $b$. Return the gradient of $b$, an array of this shape.
#
# *Hint:* Which axes of `grad` does `shape` not have, and on which axes is its size 1? Sum over all
# of them, then use `reshape(shape)`.


# %% tags=["answer"]
def unbroadcast(grad, shape):
    """Sum grad over the axes that broadcasting repeated. Return an array with the given shape."""
    missing = grad.ndim - len(shape)
    repeated = list(range(missing))
    for axis, size in enumerate(shape):
        if size == 1:
            repeated.append(missing + axis)
    return grad.sum(axis=tuple(repeated)).reshape(shape)


# %% tags=["check"]
check(
    unbroadcast,
    cases=[
        (rng.normal(size=(3, 3)), (3, 1)),
        (rng.normal(size=(3, 5)), (5,)),
        (rng.normal(size=(2, 3, 5)), (3, 1)),
        (rng.normal(size=(2, 7)), ()),
        (rng.normal(size=(2, 7)), (2, 7)),
    ],
    expected=mt.autograd.sum_to_shape,
    properties={
        "the sum of all entries does not change": lambda b, g, _: np.isclose(b.sum(), g.sum()),
    },
)

# %% [markdown]
# ## What goes wrong when shapes broadcast by accident
#
# The broadcasting rule does not know what an axis means. The next cell fits a straight line to 20
# points that all lie on the same line. Each step of **gradient descent** moves the slope and the
# bias a little against their gradients, so that the loss decreases. The function is called twice:
# first with targets of shape (20, 1), which is the shape of the predictions, then with the same
# targets in the shape (20,).


# %%
def fit(target):
    """Fit y = slope * x + bias by gradient descent; return slope, bias, last loss, error shape."""
    inputs = mt.linspace(-1, 1, 20).reshape(20, 1)
    slope, bias = mt.zeros(1, requires_grad=True), mt.zeros(1, requires_grad=True)
    for _ in range(300):
        error = slope * inputs + bias - target  # inputs (20, 1)
        loss = (error * error).mean()
        slope.grad = bias.grad = None
        loss.backward()
        with mt.no_grad():
            slope -= 0.3 * slope.grad
            bias -= 0.3 * bias.grad
    return slope.item(), bias.item(), loss.item(), error.shape


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The true slope is 2, and the true bias is 1. In the second fit the predictions have the shape
# (20, 1) and the targets (20,). Does `error = ... - target` raise an error? If not, which slope and
# which bias does the fit find? Write down two numbers, then run the next cell.

# %%
fits = []
truth = 2.0 * mt.linspace(-1, 1, 20) + 1.0  # (20,)
print("truth: slope 2, bias 1")
for name, target in [("target (20, 1)", truth.reshape(20, 1)), ("target (20,)", truth)]:
    slope, bias, loss, shape = fit(target)
    fits.append((name, slope, bias))
    print(f"{name:15} error {shape!s:9} slope {slope:5.2f}  bias {bias:5.2f}  loss {loss:.4f}")
    correct = abs(slope - 2) < 1e-2
    assert abs(bias - 1) < 1e-2 and correct == (name == "target (20, 1)")
assert abs(slope) < 1e-3 and loss > 1  # the broken fit is a flat line through the mean

# %% [markdown]
# No error is raised, and the loss decreases. But subtracting targets of shape (20,) from
# predictions of shape (20, 1) gives a difference of shape (20, 20): **every prediction is compared
# with every target**. The best single prediction for all 20 targets is their mean, whatever the
# input is. So the slope is 0, and the bias is the mean of the targets, 1.

# %% tags=["plot"]
figure = new_figure(7, 3.4)
axes = figure.add_subplot()
inputs = np.linspace(-1, 1, 20)
axes.plot(inputs, truth.numpy(), "o", color="0.35", label="targets")
for (name, slope, bias), colour, style in zip(fits, COLOURS, ["-", "--"], strict=False):
    axes.plot(inputs, slope * inputs + bias, style, color=colour, label=f"fitted with {name}")
axes.set(xlabel="input", ylabel="prediction")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
show(
    figure,
    "the dashed line ignores the input: targets of shape (20,) give a constant",
)

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.ops.reshape import Transpose

where(
    mt.autograd.sum_to_shape,
    mt.autograd.broadcast_shapes,
    mt.ops.arithmetic.Add,
    Transpose,
    mt.Tensor,
)

# %% [markdown]
# ## Exercise
#
# `np.lib.stride_tricks.as_strided(memory[offset:], shape, strides)` reads `memory` with any offset,
# shape and strides. It expects the strides in **bytes** and does not check them. Take `memory`, the
# numbers 0, 1, ..., 11, and make four views without a copy:
#
# * the numbers in reverse order;
# * every second number;
# * the diagonal of `memory[:9].reshape(3, 3)`;
# * all eight windows of five neighbors, (0, 1, 2, 3, 4), (1, 2, 3, 4, 5), ..., as a view of shape
#   (8, 5).
#
# You are done when each view equals the result of NumPy's indexing and `np.shares_memory` is true
# for each. How many numbers does the last view show, and how many bytes does `memory` occupy?
#
# ## Three questions
#
# 1. `x.T` and `x.reshape(2, 6)` contain the same twelve numbers. Which of the two, read row by row,
#    visits the memory cells in order? How do its strides show this?
# 2. `b` of shape `(3, 1)` is added to `x` of shape `(3, 4)`. How many numbers are summed for each
#    entry of the gradient of `b`, and along which axis?
# 3. The fit with the target of shape `(20,)` finds the correct bias, 1, but a wrong slope. Why is
#    the bias correct?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. `x.reshape(2, 6)` does. Its strides are (6, 1): the next row starts 6 cells later, right after
#    the 6 cells of this row, and the next column is 1 cell later. So reading it row by row visits
#    cells 0 to 11 in order. `x.T` has strides (1, 4), so each step along a row moves by 4 cells.
# 2. Four numbers are summed, along axis 1. The printed line for `b (3, 1)` says "repeated along
#    axes (1,)", and that axis has size 4.
# 3. Every prediction is compared with all 20 targets, so the best prediction is the same for every
#    input: the mean of the targets. Therefore the fit finds the slope 0, and its bias is this mean.
#    The mean is 1, the true bias, because the inputs are centered at 0.
