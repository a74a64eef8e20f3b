# %% [markdown]
# # Function, context, topological order
#
# What must an operation on arrays remember so that its gradient can be computed later? And in which
# order must the gradients be computed?
#
# *Prerequisites:* slopes along the edges of a graph (lesson 2), broadcasting and its gradient
# (lesson 1).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## A Function: the forward and backward pass of one operation
#
# A scalar operation stores one slope per input. An operation on arrays stores a *function*. Its
# `backward` receives $g = \partial L/\partial y$, which has the shape of the output. It returns
# $\partial L/\partial x$, which has the shape of the input. It never builds the full matrix of
# slopes, the Jacobian.
#
# `ctx`, the **context**, belongs to one call of the Function. Forward stores in it what backward
# will need.


# %%
class Tanh(mt.autograd.Function):
    """y = tanh x with dy/dx = 1 - y^2, so saving the output is enough."""

    @staticmethod
    def forward(ctx, x):
        y = np.tanh(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * (1 - y * y)


class Multiply(mt.autograd.Function):
    """y = a b with dy/da = b and dy/db = a, so each gradient needs the other input."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad_y):
        a, b = ctx.saved
        return grad_y * b, grad_y * a


# %% [markdown]
# `apply` runs forward on the arrays inside the tensors and records the context as a node of the
# graph. A gradient check changes each input a little, measures how much the result of forward
# changes, and compares this change with the gradient from backward. (Lesson 4 explains how the
# check works. Here it just tells you whether backward is correct.)

# %%
x, w = (mt.randn(5, dtype=mt.float64, requires_grad=True) for _ in range(2))
print("Tanh    ", mt.autograd.gradcheck(Tanh.apply, (x,)))
print("Multiply", mt.autograd.gradcheck(Multiply.apply, (x, w)))


def library_gradients(f, grad_y, *arrays):
    """Return the library's gradient of each array, given the gradient grad_y of f's result."""
    inputs = [mt.tensor(array, requires_grad=True) for array in arrays]
    grads = mt.autograd.grad(f(*inputs), inputs, mt.tensor(grad_y))
    return tuple(grad.numpy() for grad in grads)


# %% [markdown] tags=["your-turn"]
# ## Your turn: the backward pass of a matrix product
#
# Let $y = a\,b$ with $a$ of shape $(n, k)$ and $b$ of shape $(k, m)$, so
# $y_{ij} = \sum_l a_{il} b_{lj}$. Write `matmul_backward(grad_y, a, b)`. It takes NumPy arrays and
# returns the pair $\partial L/\partial a$, $\partial L/\partial b$. It must also work for arrays
# with additional leading axes, such as (batch, n, k) and (batch, k, m): use `swapaxes(-1, -2)` to
# transpose.
#
# *Hint:* $g = \partial L/\partial y$ has the shape $(n, m)$. Which product of $g$ and $b$ has the
# shape of $a$? Which product of $a$ and $g$ has the shape of $b$? There is only one of each.


# %% tags=["answer"]
def matmul_backward(grad_y, a, b):
    """Return dL/da and dL/db for y = a @ b. The gradients have the shapes of a and b."""
    grad_a = grad_y @ b.swapaxes(-1, -2)
    grad_b = a.swapaxes(-1, -2) @ grad_y
    return grad_a, grad_b


# %% tags=["check"]
check(
    matmul_backward,
    cases=[
        (rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))),
        (rng.normal(size=(2, 5)), rng.normal(size=(2, 3)), rng.normal(size=(3, 5))),
        (rng.normal(size=(7, 1, 5)), rng.normal(size=(7, 1, 2)), rng.normal(size=(7, 2, 5))),
    ],
    expected=lambda grad_y, a, b: library_gradients(lambda a, b: a @ b, grad_y, a, b),
    properties={
        "sum(a * grad_a) equals sum(b * grad_b)": lambda grads, grad_y, a, b: np.isclose(
            (a * grads[0]).sum(), (b * grads[1]).sum()
        ),
    },
)

# %% [markdown]
# Both gradients are again matrix products. So the backward pass of a linear layer costs about twice
# as much as its forward pass.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the backward pass of a table lookup
#
# An embedding looks up rows of a table: $y_t = \mathrm{table}_{\mathrm{ids}_t}$, or
# `y = table[ids]` in NumPy. The same row can be read several times. Write
# `embedding_backward(grad_y, ids, rows)`. `grad_y` has the shape (token, features), `ids` is an
# array of row numbers of shape (token,), and `rows` is the number of rows of the table. Return
# $\partial L/\partial\,\mathrm{table}$, an array of shape (rows, features).
#
# *Hint:* A row that is read twice gets two contributions. Try it with two equal ids: does
# `grad[ids] += grad_y` add both?


# %% tags=["answer"]
def embedding_backward(grad_y, ids, rows):
    """Return the gradient of the table, shape (rows, features)."""
    grad_table = np.zeros((rows, grad_y.shape[-1]))
    for row, grad in zip(ids, grad_y, strict=True):
        grad_table[row] += grad
    return grad_table


# %% tags=["check"]
check(
    embedding_backward,
    cases=[
        (rng.normal(size=(3, 2)), np.array([0, 4, 1]), 5),
        (rng.normal(size=(7, 3)), np.array([1, 0, 1, 1, 4, 0, 1]), 5),
        (rng.normal(size=(1, 2)), np.array([2]), 3),
    ],
    expected=lambda grad_y, ids, rows: library_gradients(
        lambda table: table[ids], grad_y, np.zeros((rows, grad_y.shape[-1]))
    )[0],
    properties={
        "the sum over all rows is that of grad_y": lambda grad, grad_y, *_: np.allclose(
            grad.sum(axis=0), grad_y.sum(axis=0)
        ),
        "rows that are not read get 0": lambda grad, grad_y, ids, rows: (
            not grad[np.setdiff1d(range(rows), ids)].any()
        ),
    },
)

# %% [markdown]
# NumPy's `grad[ids] += grad_y` keeps only the last contribution to each row, without an error. This
# is the mistake of lesson 2 in another form: `=` instead of `+=`. (`np.add.at` adds all
# contributions.)
#
# ## The graph: which operation created which tensor
#
# $$h = x\,w, \qquad a = \tanh h, \qquad z = h\,a, \qquad L = \sum_i (h_i + z_i)$$
#
# Note that $h$ is used **three times**: in the tanh, in the product and in the sum.

# %%
h = Multiply.apply(x, w)  # (5,)
a = Tanh.apply(h)
z = Multiply.apply(h, a)
s = h + z
loss = s.sum()

names = {x._edge[0]: "x", w._edge[0]: "w"}  # `_edge` is (node, index of the node's output)
names |= {t.grad_fn: name for name, t in dict(h=h, a=a, z=z, s=s, L=loss).items()}


def nodes_from(end):
    """Return every node that `end` depends on, in breadth-first order."""
    found = [end]
    for node in found:
        found += [e[0] for e in node.edges if e is not None and e[0] not in found]
    return found


print("node  operation  inputs     saves")
for node in sorted(nodes_from(loss.grad_fn), key=lambda node: node.number):
    if node.edges:
        sources = ", ".join(names[edge[0]] for edge in node.edges)
        kept = [array.shape for array in node.saved]
        print(f"{names[node]:5} {node.function.__name__:10} {sources:10} {kept or 'nothing'}")
    else:
        print(f"{names[node]:5} a leaf: its gradient is stored in .grad")

# %% [markdown]
# ## The backward pass in a dozen lines
#
# The backward pass starts with $\partial L/\partial L = 1$ and processes the nodes one at a time.
# The order is a parameter of our function, so that we can also try a wrong order. The correct order
# is **topological, from the end**: a node comes after everything that was computed from it. Nodes
# are numbered in the order in which they are created, so inputs have smaller numbers than outputs.
# Therefore "newest first" is a correct order, and it does not require sorting.


# %%
def backward(end, order):
    """Return dL/d(node) for every node, processing the nodes in `order`."""
    grads = {end: np.ones(())}
    for node in order:
        if not node.edges:  # a leaf
            continue
        results = node.function.backward(node, grads[node])
        results = results if isinstance(results, tuple) else (results,)
        for edge, result in zip(node.edges, results, strict=True):
            source = edge[0]
            grads[source] = grads.get(source, 0.0) + result
    return grads


youngest_first = sorted(nodes_from(loss.grad_fn), key=lambda node: -node.number)
grads = backward(loss.grad_fn, youngest_first)
print("order   ", " ".join(names[node] for node in youngest_first))
print("dL/dx   ", grads[x._edge[0]].round(4))

loss.backward(retain_graph=True)
print("library ", x.grad.numpy().round(4))
for leaf in (x, w):
    assert np.allclose(grads[leaf._edge[0]], leaf.grad.numpy(), rtol=1e-14)

# %% tags=["plot"]
POSITIONS = {"x": (0, 1.4), "w": (0, 0.6), "h": (1, 1), "a": (2, 1.6), "z": (3, 1.6)}
POSITIONS |= {"s": (4, 1), "L": (5, 1)}


def draw_graph(axes, order, title):
    """Draw the graph. Label each node with its position in `order`, counted from 1."""
    turn = {names[node]: number for number, node in enumerate(order, 1)}
    for node in order:
        for edge in node.edges:
            start, end = POSITIONS[names[edge[0]]], POSITIONS[names[node]]
            arrow = dict(arrowstyle="->", color="0.45", shrinkA=13, shrinkB=13)
            axes.annotate("", end, start, arrowprops=arrow)
    for name, (across, up) in POSITIONS.items():
        colour = COLOURS[1] if name == "h" else COLOURS[0]
        axes.plot(across, up, "o", color=colour, markersize=22)
        axes.text(across, up, name, ha="center", va="center", color="white", fontsize=13)
        aside = 0.3 if name in "az" else -0.3
        axes.text(across, up + aside, f"turn {turn[name]}", ha="center", va="center", fontsize=9)
    axes.set(xlim=(-0.5, 5.5), ylim=(0.2, 2.1), title=title)
    axes.axis("off")


breadth_first = nodes_from(loss.grad_fn)
figure = new_figure(7, 5)
upper, lower = figure.subplots(2, 1)
draw_graph(upper, youngest_first, "newest first: h is processed after s, z and a")
draw_graph(lower, breadth_first, "breadth first: h is processed when only s has contributed")
show(
    figure,
    "compare the position of h: above, s, z and a come before h; below, only s comes before it",
)

# %% [markdown]
# ## What goes wrong without a topological order or a context
#
# A breadth-first search from $L$ visits the nodes in the order that the lower picture shows. It
# reaches $h$ through $s$, before it has visited $z$ and $a$.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The correct gradient is $\partial L/\partial x = w\,\partial L/\partial h$ with
# $\partial L/\partial h = 1 + a + h\,(1 - a^2)$: one term for each use of $h$: in $s$, in $z$ and
# in $a$. In the lower picture, $h$ is processed right after $s$. Does this raise an error? If not,
# which formula does $\partial L/\partial x$ now follow, and is the gradient at $h$ itself correct
# in the end? Write down your answers, then run the next cell.

# %%
wrong = backward(loss.grad_fn, breadth_first)
node_x = x._edge[0]
print("order        ", " ".join(names[node] for node in breadth_first))
print("breadth first", wrong[node_x].round(4))
print("correct      ", grads[node_x].round(4))
print("w            ", w.detach().numpy().round(4))
assert np.allclose(wrong[node_x], w.detach().numpy())  # only dL/ds * ds/dh * dh/dx = 1 * 1 * w
assert not np.allclose(wrong[node_x], grads[node_x], atol=0.01)
# The gradient at h is complete in the end, but too late for x.
assert np.allclose(wrong[h.grad_fn], grads[h.grad_fn])

# %% [markdown]
# **A wrong order gives a wrong gradient, without an error.** The printed gradient is exactly $w$:
# when $h$ was processed, it had only the 1 from $s$, and it passed on $w \cdot 1$. The
# contributions from $z$ and $a$ arrived later. They make the gradient at $h$ complete, but they are
# never passed on.
#
# **Without an order, the correct gradient costs too much.** Each node could pass on every
# contribution separately, as soon as it arrives. The gradient is then correct, but the backward
# function of a node runs once for each *path* from the end. Each residual block $x + \tanh x$
# doubles the number of paths.


# %%
def backward_by_paths(node, grad, grads):
    """Add up the gradients in `grads`, path by path. Return the number of backward calls."""
    grads[node] = grads.get(node, 0.0) + grad
    if not node.edges:
        return 0
    results = node.function.backward(node, grad)
    results = results if isinstance(results, tuple) else (results,)
    pairs = zip(node.edges, results, strict=True)
    return 1 + sum(backward_by_paths(edge[0], result, grads) for edge, result in pairs)


blocks, calls_in_order, calls_by_paths = list(range(1, pick(14, 10))), [], []
for count in blocks:
    out = x
    for _ in range(count):
        out = out + Tanh.apply(out)
    end, by_paths = out.sum().grad_fn, {}
    order = sorted(nodes_from(end), key=lambda node: -node.number)
    in_order = backward(end, order)
    calls_in_order.append(sum(bool(node.edges) for node in order))
    calls_by_paths.append(backward_by_paths(end, np.ones(()), by_paths))
    assert np.allclose(in_order[node_x], by_paths[node_x])

print("blocks  calls in order  calls by paths")
for row in zip(blocks, calls_in_order, calls_by_paths, strict=True):
    print("{:6} {:15} {:15,}".format(*row))
assert calls_in_order[-1] == 2 * blocks[-1] + 1
assert calls_by_paths[-1] == 2 ** (blocks[-1] + 1) - 1  # each block doubles the count and adds one

# %% tags=["plot"]
figure = new_figure(7, 3.2)
axes = figure.add_subplot()
axes.semilogy(blocks, calls_by_paths, "s--", color=COLOURS[1], label="one path after the other")
axes.semilogy(blocks, calls_in_order, "o-", color=COLOURS[0], label="each node once, in order")
axes.set(xlabel="residual blocks", ylabel="calls of backward")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
show(figure, "each block doubles the calls on the dashed curve, and adds only two on the solid one")

# %% [markdown]
# How many paths are there? The next cell describes a graph by a list, `inputs`. Its entry
# `inputs[i]` lists the indices of the nodes that node `i` reads. Inputs come before outputs, so
# the last node is the end. `visits_by_walking` follows every path from the end and counts how often
# it reaches each node.


# %%
def residual_graph(count):
    """Return the graph of `count` residual blocks: x, then tanh and sum for each block."""
    inputs = [[]]
    for _ in range(count):
        last = len(inputs) - 1
        inputs += [[last], [last, last + 1]]  # tanh reads the last sum; the sum reads both
    return inputs


def visits_by_walking(inputs):
    visits, stack = [0] * len(inputs), [len(inputs) - 1]
    while stack:
        node = stack.pop()
        visits[node] += 1
        stack += inputs[node]
    return visits


print("one block, three nodes:", residual_graph(1), " visits", visits_by_walking(residual_graph(1)))

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the paths without following them
#
# Write `count_paths(inputs)`. It returns the same list as `visits_by_walking(inputs)`: for each
# node, the number of paths from the last node to it. But it processes each node only once. Count
# one path from the last node to itself.
#
# *Hint:* In which order must you process the nodes? If 5 paths lead to a node, how many paths
# does this add to the count of each node that it reads?


# %% tags=["answer"]
def count_paths(inputs):
    """Return, for each node, the number of paths from the last node to it."""
    paths = [0] * len(inputs)
    paths[-1] = 1
    for node in reversed(range(len(inputs))):
        for source in inputs[node]:
            paths[source] += paths[node]
    return paths


# %% tags=["check"]
check(
    count_paths,
    cases=[[[], [], [0, 1, 0], [2, 2]], residual_graph(1), residual_graph(7), [[]]],
    expected=visits_by_walking,
    properties={"the last node has one path": lambda paths, inputs: paths[-1] == 1},
)

# %% [markdown]
# `count_paths` is a backward pass in which every slope is 1. For 50 blocks there are $2^{50}$ paths
# from the end to $x$, about $10^{15}$. Try `count_paths(residual_graph(50))[0]`: a pass in
# topological order counts them all in 101 steps.
#
# **Why store arrays in a context, and not in the Function itself?** The same Function is called
# many times. The class below remembers only its latest call, so backward uses the wrong numbers for
# every earlier call.


# %%
class ForgetfulTanh(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ForgetfulTanh.y = np.tanh(x)
        return ForgetfulTanh.y

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * (1 - ForgetfulTanh.y**2)


for function in (Tanh, ForgetfulTanh):
    once = mt.autograd.gradcheck_report(function.apply, (x,), localize=False).ok
    twice = mt.autograd.gradcheck_report(
        lambda x, f=function: f.apply(2 * f.apply(x)), (x,), localize=False
    ).ok
    print(f"{function.__name__:14} applied once: {once!s:6} applied twice: {twice}")
    assert once and twice == (function is Tanh)

# %% [markdown]
# ## Errors: a wrong shape, and a saved array that was changed or freed
#
# An operation that broadcasts must sum its gradients itself (lesson 1). If it does not, the library
# raises an error that names the wrong shape. But the library cannot know whether a gradient of the
# correct shape has correct values: that needs a gradient check.


# %%
class ForgetfulAdd(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b  # x (3, 5), b (5,)

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, grad_y


class OneRowAdd(ForgetfulAdd):
    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, grad_y[0]  # the correct shape, but not the sum over the rows


rows = mt.randn(3, 5, dtype=mt.float64, requires_grad=True)
with fails(mt.errors.ShapeError):
    ForgetfulAdd.apply(rows, w).sum().backward()

report = mt.autograd.gradcheck_report(OneRowAdd.apply, (rows, w))
print(f"OneRowAdd, 3 rows: gradient of x {report.items[0].ok}, of b {report.items[1].ok}")
assert [item.ok for item in report.items] == [True, False]

# %% [markdown]
# Saved arrays are not copied: the context and your tensor share memory. After `backward` has used
# them, the context frees them. So two things must raise an error: changing this memory before
# `backward` uses it, and calling `backward` again after the saved arrays were freed.

# %%
y = Tanh.apply(x)
y *= 2.0  # overwrites, in place, the y that backward needs
with fails(mt.errors.GraphError):
    y.sum().backward()

y = Tanh.apply(x).sum()
y.backward()  # the saved arrays are freed here
with fails(mt.errors.GraphError):
    y.backward()

# %% [markdown]
# `Tanh.backward` uses only arithmetic operators, so it also runs on tensors. Recording these
# operations gives a graph of the backward pass. Differentiating that graph gives the second
# derivative, $\tanh'' = -2 y (1 - y^2)$.

# %%
y = Tanh.apply(x)
(first,) = mt.autograd.grad(y.sum(), x, create_graph=True)
(second,) = mt.autograd.grad(first.sum(), x)
y = y.detach()
print("second derivative", second.numpy().round(4))
assert np.allclose(second.numpy(), (-2 * y * (1 - y * y)).numpy())

# %% [markdown]
# ## In the library

# %%
where(
    mt.autograd.Function.apply,
    mt.autograd.Context,
    mt.autograd.engine.run_backward,
    mt.ops.arithmetic.Mul,
)

# %% [markdown]
# ## Exercise
#
# Write `Silu`, $y = x\,\sigma(x)$ with $\sigma(x) = 1/(1 + e^{-x})$, as a Function that saves only
# `x`. You are done when `mt.autograd.gradcheck(Silu.apply, (x,))` is true and the output equals
# `mt.nn.functional.silu(x)`. Then save both `x` and `y` and compute the derivative as
# $\sigma + y(1 - \sigma)$. What does this version gain, and what does it cost?
#
# Then practice:
#
# ```sh
# mta exercise start 01
# mta exercise start 08
# ```
#
# ## Three questions
#
# 1. In the breadth-first pass the gradient at $h$ itself is correct at the end, and the gradient at
#    $x$ is wrong. How can that be?
# 2. How many backward calls do 20 residual blocks need in topological order, and how many if each
#    path is followed separately?
# 3. `ForgetfulTanh` passes the check when it is called once. Only the check with two calls covers a
#    situation that is common in real networks. What is this situation?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. $h$ was processed, and passed its gradient to $x$ and $w$, when only the contribution from $s$
#    had arrived. The contributions from $z$ and $a$ were added to $h$ later and never passed on.
#    The printed wrong gradient is just $w$, the contribution through $s$ alone.
# 2. In topological order there are 41 calls, two for each block and one for the sum. If each path
#    is followed separately, a block doubles the number of calls and adds one, which gives
#    $2^{21} - 1$ for 20 blocks, about two million.
# 3. The same operation is used in two places, so two sets of saved arrays must exist at the same
#    time. A network applies the same tanh, softmax or matmul many times.
