# %% [markdown]
# # Tensors, strides, broadcasting
#
# Which operations copy numbers, and which only read the same numbers in another order? And what is
# the gradient of a number that is used several times?
#
# *Prerequisites:* NumPy arrays and their shapes.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, show, where
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

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


def row_major(shape):
    """Compute strides by hand: each is the product of the sizes to the right of its axis."""
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


print(x.numpy())
print("strides", strides(x), "   by hand", row_major((3, 4)))
print("element (2, 1) lies at 2 * 4 + 1 * 1 = 9:", memory[2 * 4 + 1 * 1])
assert strides(x) == row_major(x.shape) == (4, 1)
assert all(memory[i * 4 + j] == x[i, j].item() for i in range(3) for j in range(4))

# %% [markdown]
# ## Views: the same memory, another rule
#
# A transpose swaps two strides. A slice changes the offset or multiplies a stride. Repeating along
# an axis needs no extra memory, because the stride of that axis is **0**. An operation must copy
# only if its result cannot be described by an offset and strides.

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

# %%
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
show(figure, "four ways to read the same memory; the number and the color identify the memory cell")

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
# Write one shape below the other, **aligned on the right**. On each axis the sizes must be equal,
# unless one of them is 1 or missing. The tensor with the size 1, or without that axis, is repeated
# along the axis, with stride 0.


# %%
def broadcast(a, b):
    """Return the shape of a + b, or None if the shapes do not match."""
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

# %% [markdown]
# ## Backward: what was repeated is summed
#
# $y_{ij} = x_{ij} + b_j$ uses each $b_j$ in every row $i$. A small change of $b_j$ changes the
# whole column $j$ of $y$, so with $g = \partial L / \partial y$
#
# $$\frac{\partial L}{\partial b_j} = \sum_i g_{ij}\,\frac{\partial y_{ij}}{\partial b_j}
# = \sum_i g_{ij} .$$
#
# The gradient has the shape of $b$ because it is summed over exactly the axes that were repeated.

# %%
x = mt.randn(3, 4, dtype=mt.float64, requires_grad=True)
for shape in [(4,), (3, 1), (1, 1), ()]:
    b = mt.randn(shape, dtype=mt.float64, requires_grad=True)
    y = x + b  # (3, 4)
    g = mt.randn(3, 4, dtype=mt.float64)  # dL/dy for the loss L = sum(g * y)
    (g * y).sum().backward()
    summed = tuple(axis for axis in (0, 1) if b.ndim < 2 - axis or b.shape[axis - 2] == 1)
    by_hand = g.numpy().sum(axis=summed).reshape(shape)
    gradient = b.grad.numpy().round(2).tolist()
    print(f"b {shape!s:7} repeated along axes {summed!s:7} gradient {gradient}")
    assert b.grad.shape == shape and np.allclose(b.grad.numpy(), by_hand)

# %% [markdown]
# A custom operation has to undo the broadcasting itself. If it does not, the library raises an
# error that names the wrong shape. The library does not correct such a gradient. Taking one row,
# `grad_y[0]`, gives the correct shape but wrong values, which only a comparison with finite
# differences detects.


# %%
class ForgetfulAdd(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, grad_y


class OneRowAdd(ForgetfulAdd):
    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, grad_y[0]


b = mt.randn(4, dtype=mt.float64, requires_grad=True)
with fails(mt.errors.ShapeError):
    ForgetfulAdd.apply(x, b).sum().backward()

report = mt.autograd.gradcheck_report(OneRowAdd.apply, (x, b))
print(f"OneRowAdd, 3 rows: gradient of x {report.items[0].ok}, of b {report.items[1].ok}")
assert [item.ok for item in report.items] == [True, False]

# %% [markdown]
# ## What goes wrong when shapes broadcast by accident
#
# The broadcasting rule does not know what an axis means. If the predictions have the shape $(n, 1)$
# and the targets $(n,)$, their difference has the shape $(n, n)$: **every prediction is compared
# with every target**. No error is raised, and the loss decreases. But the fit with the smallest
# loss is now a constant, the mean of all targets.


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

# %%
figure = new_figure(7, 3.4)
axes = figure.add_subplot()
inputs = np.linspace(-1, 1, 20)
axes.plot(inputs, truth.numpy(), "o", color="0.35", label="targets")
for (name, slope, bias), colour, style in zip(fits, COLOURS, ["-", "--"], strict=False):
    axes.plot(inputs, slope * inputs + bias, style, color=colour, label=f"fitted with {name}")
axes.set(xlabel="input", ylabel="prediction")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
show(figure, "with the target of shape (20,) the fit is a constant, the mean of the targets")

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
# Using only NumPy, write a function `unbroadcast(grad, shape)` that sums `grad` to `shape` over the
# axes that broadcasting repeated. For each pair in `pairs` that can be added, draw a random `grad`
# of the broadcast shape. Your result must equal `mt.autograd.sum_to_shape(grad, shape)` for both
# shapes of the pair. Then use your function instead of `grad_y[0]` in `OneRowAdd` (in `backward`
# the shape of `b` is `ctx.shapes[1]`). You are done when `gradcheck_report` accepts both gradients,
# for `b` of shapes `(4,)`, `(3, 1)` and `(1, 1)`.
#
# ## Three questions
#
# 1. `x.T` and `x.reshape(2, 6)` hold the same twelve numbers. If you read them row by row, which of
#    the two visits the memory cells in order, and how do its strides show this?
# 2. `b` of shape `(3, 1)` is added to `x` of shape `(3, 4)`. How many numbers are summed for each
#    entry of its gradient, and along which axis?
# 3. The fit with the target of shape `(20,)` reaches a bias of 1. Why is this parameter correct
#    when the slope is not?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. `x.reshape(2, 6)` does. Its strides are (6, 1), the products of the sizes to the right, so
#    reading it row by row visits cells 0 to 11 in order. `x.T` has strides (1, 4), so each step
#    along a row moves by 4 cells.
# 2. Four numbers are summed, along axis 1. The printed line for `b (3, 1)` says "repeated along
#    axes (1,)", and that axis has size 4.
# 3. Every prediction is compared with all 20 targets, so the best constant is their mean. The mean
#    is 1, the true bias, because the inputs are centered at 0. The slope that the fit finds is 0.
