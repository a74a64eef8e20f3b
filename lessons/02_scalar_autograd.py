# %% [markdown]
# # A scalar autograd in 90 lines, and why it is not enough
#
# How little code does automatic differentiation need? And why can an array library not simply run
# the same code in a loop?
#
# *Prerequisites:* the chain rule for functions of several variables.

# %%
import inspect
import math
import random
import sys
import time
import tracemalloc

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

random.seed(0)

# %% [markdown]
# ## Value: a number that remembers how it was computed
#
# Each operation creates a new `Value`, which stores its result and one **slope** for each input of
# the operation: how fast the result changes when this input changes. For $c = a \cdot b$ the slopes
# are $\partial c/\partial a = b$ and $\partial c/\partial b = a$. Both are plain numbers that are
# known as soon as $c$ is computed.


# %%
class Value:
    def __init__(self, data, edges=()):
        self.data = data
        self.edges = edges  # pairs (input Value, slope with respect to it)
        self.grad = 0.0

    def __add__(self, other):
        other = as_value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = as_value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    def __pow__(self, power):
        return Value(self.data**power, ((self, power * self.data ** (power - 1)),))

    def exp(self):
        y = math.exp(self.data)
        return Value(y, ((self, y),))

    def tanh(self):
        y = math.tanh(self.data)
        return Value(y, ((self, 1.0 - y * y),))

    # The other operations are built from these five.

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -as_value(other)

    def __truediv__(self, other):
        return self * as_value(other) ** -1

    __radd__, __rmul__ = __add__, __mul__


def as_value(x):
    return x if isinstance(x, Value) else Value(x)


# %% [markdown]
# The next function lets the library compute a result and its slope with respect to each input, so
# that you can compare. The library has a single operation for division, whereas `Value` computes
# $a / b$ as $a \cdot b^{-1}$, a power and a product. The result and the slopes are the same.


# %%
def library_slopes(f, *numbers):
    """Return f(*numbers) and its slope with respect to each number."""
    inputs = [mt.tensor(x, dtype=mt.float64, requires_grad=True) for x in numbers]
    y = f(*inputs)
    return y.item(), *(slope.item() for slope in mt.autograd.grad(y, inputs))


print("3 * -2: the product and its two slopes", library_slopes(lambda a, b: a * b, 3.0, -2.0))

# %% [markdown] tags=["your-turn"]
# ## Your turn: a division and its two slopes
#
# Write `divide(a, b)` for two numbers. It returns three numbers: $y = a / b$,
# $\partial y/\partial a$ and $\partial y/\partial b$.
#
# *Hint:* $a / b = a \cdot b^{-1}$. What is the derivative of $b^{-1}$? You can express the second
# slope in terms of $y$.


# %% tags=["answer"]
def divide(a, b):
    """Return a / b, and the slopes of a / b with respect to a and b."""
    y = a / b
    slope_a = 1 / b
    slope_b = -y / b
    return y, slope_a, slope_b


# %% tags=["check"]
check(
    divide,
    cases=[(3.0, -2.0), (0.0, 5.0), (-7.0, 0.1)],
    expected=lambda a, b: library_slopes(lambda a, b: a / b, a, b),
    properties={
        "increasing both numbers by one percent does not change the quotient": (
            lambda results, a, b: abs(results[1] * a + results[2] * b) < 1e-12
        ),
    },
)

# %% [markdown]
# ## Backward: multiply along each path, add over all paths
#
# $$\frac{\partial L}{\partial a} = \sum_{c \text{ made from } a}
# \frac{\partial L}{\partial c}\,\frac{\partial c}{\partial a} .$$
#
# This is the chain rule. Here $c$ runs over all results that were computed directly from $a$.
# Applied again and again, the rule becomes a sum over all paths that lead from $L$ back to $a$.
# Each path contributes the product of the slopes along it. The next cell computes a small example
# by hand.

# %%
a, b = Value(3.0), Value(-2.0)
c = a * b
loss = c + a * a  # a is used three times
by_hand = {(loss, a): b.data + 2 * a.data, (loss, b): a.data, (loss, c): 1.0}
by_hand |= {(c, a): b.data, (a, a): 1.0, (b, a): 0.0}  # no path leads from b to a
print(f"loss = a b + a a = {loss.data}   d loss/d a = b + 2 a = {by_hand[loss, a]}")

# %% [markdown] tags=["your-turn"]
# ## Your turn: add over all paths
#
# Write `slope_by_paths(end, source)`. Both arguments are Values. It returns the number
# $\partial\,\mathrm{end} / \partial\,\mathrm{source}$: 1 if they are the same Value, and
# otherwise the sum over all paths from `end` to `source`, where each path contributes the product
# of its slopes. `end.edges` contains pairs (input, slope). If no path leads to `source`, the
# result is 0.
#
# *Hint:* Let the function call itself. If you know the result for each input of `end`, what is the
# result for `end`?


# %% tags=["answer"]
def slope_by_paths(end, source):
    """Return the derivative of the Value `end` with respect to the Value `source`, as a number."""
    if end is source:
        return 1.0
    total = 0.0
    for value, slope in end.edges:
        total += slope * slope_by_paths(value, source)
    return total


# %% tags=["check"]
check(
    slope_by_paths,
    cases=list(by_hand),
    expected=lambda end, source: by_hand[end, source],
    properties={
        "a value has slope 1 with respect to itself": (
            lambda slope, end, source: end is not source or slope == 1
        ),
    },
)

# %% [markdown]
# Following each path is correct but slow, because the number of paths can double with each
# operation. Visiting each `Value` only **once** is enough. It can pass on its gradient as soon as
# all results computed from it have added their contributions. So we sort the Values such that each
# one comes after its inputs, and process the list from the end.


# %%
def in_order(end):
    """Return every Value that `end` depends on, each after its inputs."""
    order, seen, stack = [], set(), [(end, False)]
    while stack:
        value, inputs_done = stack.pop()
        if inputs_done:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack.extend((source, False) for source, _ in value.edges)
    return order


def backward(loss):
    loss.grad = 1.0
    for value in reversed(in_order(loss)):
        for source, slope in value.edges:
            source.grad += slope * value.grad


# %%
backward(loss)
print(f"loss {loss.data}   d/da {a.grad} = b + 2 a   d/db {b.grad} = a")
assert (a.grad, b.grad) == (-2.0 + 2 * 3.0, 3.0)

# %% [markdown]
# ## Train a small network with scalar Values
#
# Exclusive or (XOR) is a very small task that a linear model cannot solve.


# %%
class Network:
    """A network with one hidden tanh layer and one output."""

    def __init__(self, inputs, hidden):
        def draw(n):
            return [Value(random.gauss(0, 1)) for _ in range(n)]

        self.hidden = [draw(inputs + 1) for _ in range(hidden)]  # the last one is the bias
        self.out = draw(hidden + 1)

    def parameters(self):
        return [p for row in [*self.hidden, self.out] for p in row]

    def __call__(self, x):
        states = [weighted_sum(row, x).tanh() for row in self.hidden]
        return weighted_sum(self.out, states)


def weighted_sum(row, x):
    total = row[-1]
    for weight, value in zip(row, x, strict=False):
        total = total + weight * value
    return total


def train_step(network, examples, rate):
    loss = sum(((network(x) - y) ** 2 for x, y in examples), Value(0.0)) * (1 / len(examples))
    for p in network.parameters():
        p.grad = 0.0
    backward(loss)
    for p in network.parameters():
        p.data -= rate * p.grad
    return loss.data


# %% [markdown]
# That is all of the code. The next cell counts its non-empty lines.


# %%
def code_lines(thing):
    """Count the nonempty lines of a function, or of a class (its `class` line and its methods)."""
    is_class = inspect.isclass(thing)
    functions = set(filter(inspect.isfunction, vars(thing).values())) if is_class else {thing}
    lines = [line for function in functions for line in inspect.getsourcelines(function)[0]]
    return is_class + sum(bool(line.strip()) for line in lines)


parts = [Value, as_value, in_order, backward, Network, weighted_sum, train_step]
for part in parts:
    print(f"{code_lines(part):4}  {part.__name__}")
total = sum(map(code_lines, parts)) + 1  # the line of __radd__ and __rmul__
print(f"{total:4}  lines")
assert total <= 90

# %%
examples = [((-1.0, -1.0), -1.0), ((-1.0, 1.0), 1.0), ((1.0, -1.0), 1.0), ((1.0, 1.0), -1.0)]
network = Network(inputs=2, hidden=4)
losses = [train_step(network, examples, rate=0.1) for _ in range(200)]
print(f"{len(network.parameters())} parameters, loss {losses[0]:.3f} -> {losses[-1]:.5f}")
for x, y in examples:
    print(f"  {x[0]:+.0f} xor {x[1]:+.0f}: {network(x).data:+.3f}, target {y:+.0f}")
    assert abs(network(x).data - y) < 0.1

# %% [markdown]
# Are the gradients correct? The next cell compares them with the library's gradients for the same
# weights.

# %%
train_step(network, examples, rate=0.0)  # the rate 0 changes no weight
mine = [p.grad for p in network.parameters()]

hidden = mt.tensor(np.array([[p.data for p in row] for row in network.hidden]), requires_grad=True)
out = mt.tensor(np.array([p.data for p in network.out]), requires_grad=True)
x = mt.tensor(np.array([[*x, 1.0] for x, _ in examples]))  # (example 4, input 3): 1 for the bias
y = mt.tensor(np.array([y for _, y in examples]))
states = mt.tanh(x @ hidden.T)  # (example 4, input 3) @ (input 3, hidden 4)
((states @ out[:-1] + out[-1] - y) ** 2).mean().backward()
library = np.concatenate([hidden.grad.numpy().ravel(), out.grad.numpy()])
print(f"largest difference in {len(mine)} gradients: {np.abs(mine - library).max():.1e}")
assert np.allclose(mine, library, rtol=1e-9, atol=1e-12)

# %% [markdown]
# ## Forward mode: slopes from the other direction
#
# A backward pass starts at one result and gives its slope with respect to **every** input. You can
# also start at one input and compute the slope of every value with respect to it. This is called
# **forward mode**. For comparison, the next function computes one such slope with a full backward
# pass.


# %%
def slope_by_backward(end, source):
    """Return the derivative of end with respect to source, computed backward from `end`."""
    for value in [source, *in_order(end)]:
        value.grad = 0.0
    backward(end)
    return source.grad


x = y = Value(0.5)
for _ in range(7):
    y = y + y.tanh()  # the number of paths from y to x doubles
chain = in_order(y)
print(f"{len(chain)} values, dy/dx = {slope_by_backward(y, x):.4f}")

# %% [markdown] tags=["your-turn"]
# ## Your turn: forward mode
#
# Write `forward_slopes(order, source)`. `order` is a list as returned by `in_order`, in which each
# Value comes after its inputs. `source` is one of these Values. Return a list of numbers: the
# derivative of each Value of `order` with respect to `source`. Visit each Value only once, from the
# first to the last. A Value that does not depend on `source` has the slope 0.
#
# *Hint:* Keep the slopes that you know in a dictionary; Values can be its keys. When you reach a
# Value, the slopes of all its inputs are known.


# %% tags=["answer"]
def forward_slopes(order, source):
    """Return a list with the derivative of each Value in `order` with respect to `source`."""
    slopes = {}
    for value in order:
        total = 0.0
        for before, slope in value.edges:
            total += slope * slopes[before]
        slopes[value] = 1.0 if value is source else total
    return [slopes[value] for value in order]


# %% tags=["check"]
check(
    forward_slopes,
    cases=[(in_order(loss), a), (in_order(loss), b), (in_order(loss), loss), (chain, x)],
    expected=lambda order, source: [slope_by_backward(value, source) for value in order],
    properties={
        "the source has the slope 1": lambda slopes, order, source: (
            slopes[order.index(source)] == 1
        ),
    },
)

# %% [markdown]
# One forward pass gives the slopes with respect to **one** input. Training needs the slopes of one
# loss with respect to all parameters: 17 forward passes for this small network, but only one
# backward pass. This is why deep learning computes gradients backward.
#
# ## Why scalars are not enough: time and memory
#
# The product of two $n \times n$ matrices takes $n^3$ multiplications and about as many additions.
# In our scalar code, each of these multiplications and additions creates a Python object.


# %%
def scalar_product(n):
    """Run the forward and backward pass of sum(A B). Return the number of forward operations."""
    A = [[Value(random.random()) for _ in range(n)] for _ in range(n)]
    B = [[Value(random.random()) for _ in range(n)] for _ in range(n)]
    total = Value(0.0)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                total = total + A[i][k] * B[k][j]
    backward(total)
    return 2 * n**3


def array_product(n):
    A, B = mt.rand(n, n, requires_grad=True), mt.rand(n, n, requires_grad=True)
    (A @ B).sum().backward()
    return 2 * n**3


def speed(product, n, repeats):
    """Time both passes of a product. Return forward operations per second of the fastest run."""
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        operations = product(n)
        best = min(best, time.perf_counter() - start)
    return operations / best


scalar = speed(scalar_product, 16, 5)
arrays = {n: speed(array_product, n, 10) for n in (1, 16, 64, 256)}
print(f"scalars,   16 x 16:  {scalar:15,.0f} operations per second")
for n, rate in arrays.items():
    print(f"arrays,  {n:3} x {n:3}:  {rate:15,.0f}   {rate / scalar:12,.2f} times the scalars")
assert arrays[256] > 300 * scalar  # an array operation pays its overhead once
assert arrays[1] < scalar  # because of this overhead, scalars are faster on single numbers

# %% [markdown]
# A `Value` is a Python object with a slope for each input. The next cell measures how much memory
# it takes. An array needs only four bytes per number.

# %%
tracemalloc.start()
keep = Value(1.0)
before, _ = tracemalloc.get_traced_memory()
for _ in range(10_000):
    keep = keep * 1.0000001  # one multiplication
per_operation = (tracemalloc.get_traced_memory()[0] - before) / 10_000
tracemalloc.stop()
del keep
print(f"{per_operation:.0f} bytes for each multiplication; a float32 takes 4")
assert per_operation > 100

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# A small GPT has 0.8 million weights. In one training step, each weight is used once for each of
# the 12 x 64 characters of a batch, with one multiplication and one addition. (Count only these
# operations of the forward pass. The speeds above are forward operations divided by the time of
# **both** passes, so the time of the backward pass is already included.) How long does **one**
# training step take with Values: a second, a minute, an hour? How much memory does it need? Write
# down both, then run the next cell.

# %%
operations = 2 * 814_720 * 12 * 64
hours = operations / scalar / 3600
print(f"one training step:  {operations / 1e9:.1f} billion operations")
print(f"  with Values       {hours:.1f} hours, {operations * per_operation / 1e9:,.0f} GB")
print(f"  with arrays       {operations / arrays[256]:.2f} s")
assert hours > 0.1 and operations * per_operation > 64e9

# %% [markdown]
# One step takes half an hour or more. It needs hundreds of gigabytes, because every Value stays in
# memory until the backward pass. Training takes thousands of steps. With arrays, one step takes a
# fraction of a second on the same processor. The calculations are the same. The difference is the
# work that Python does around each number.

# %% tags=["plot"]
figure = new_figure(7, 3.4)
axes = figure.add_subplot()
sizes = list(arrays)
axes.loglog(sizes, list(arrays.values()), "o-", color=COLOURS[0], label="arrays (this library)")
axes.axhline(scalar, color=COLOURS[1], linestyle="--", label="scalars (this lesson)")
axes.set(xlabel="size n of the matrices", ylabel="operations per second", xticks=sizes)
axes.set_xticks(sizes, sizes)
axes.minorticks_off()
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
show(figure, "at n = 1 scalars are faster; for large n, arrays are over a thousand times as fast")

# %% [markdown]
# There is a deeper reason as well. A scalar operation has one slope for each input, and `Value`
# stores it. An array operation with $m$ inputs and $n$ outputs has $m \cdot n$ slopes. For the
# product $C = AB$ of two $256 \times 256$ matrices that would be $256^4$ numbers for each factor,
# too many to store. An array library instead keeps a **function** that turns
# $\partial L/\partial C$ into $\partial L/\partial A$ directly. This is the subject of lesson 3.

# %%
slopes = 256**4
print(f"slopes of C with respect to A, 256 x 256: {slopes:,} numbers, {4 * slopes / 1e9:.0f} GB")
print(f"dL/dA = dL/dC @ B.T needs only B: {256**2:,} numbers")

# %% [markdown]
# ## What goes wrong with two simplifications of the backward pass
#
# Two parts of the backward pass look as if they could be simpler. The first is the `+=` in
# `backward`. With `=`, the contribution of the last path overwrites the others. This affects only
# numbers that are used more than once.


# %%
def backward_overwriting(loss):
    for value in in_order(loss):
        value.grad = 0.0
    loss.grad = 1.0
    for value in reversed(in_order(loss)):
        for source, slope in value.edges:
            source.grad = slope * value.grad


def example():
    a, b = Value(3.0), Value(-2.0)
    return a, b, a * b + a * a


for walk in (backward, backward_overwriting):
    a, b, loss = example()
    walk(loss)
    print(f"{walk.__name__:21} d/da {a.grad:5.1f}   d/db {b.grad:5.1f}")
assert b.grad == 3.0 and a.grad != 4.0  # b is used once, so its gradient is still correct

# %% [markdown]
# The second part is the stack in `in_order`. A recursive version of `in_order` would be shorter,
# but it exceeds Python's recursion limit on long chains of operations, such as a recurrent network
# unrolled over time.


# %%
def in_order_recursive(value, order, seen):
    if value not in seen:
        seen.add(value)
        for source, _ in value.edges:
            in_order_recursive(source, order, seen)
        order.append(value)
    return order


chain = Value(1.0)
for _ in range(pick(20_000, 5_000)):
    chain = chain + 0.001
print(f"with an explicit stack: sorted a chain of {len(in_order(chain)):,} values")
print(f"Python's limit: {sys.getrecursionlimit():,} nested calls")
with fails(RecursionError):
    in_order_recursive(chain, [], set())

# %% [markdown]
# ## In the library

# %%
where(mt.autograd.Function, mt.autograd.engine.run_backward, mt.Tensor.backward)

# %% [markdown]
# ## Exercise
#
# Add `log` and `max(self, other)` to `Value`, and use them to write `softmax(values)`. Subtract the
# largest value first. For `values` 1, 2, 3 compute `loss = -log(softmax(values)[0])` and its
# gradients. You are done when the loss and the gradients equal those of
# `mt.nn.functional.cross_entropy(mt.tensor([[1.0, 2.0, 3.0]]), mt.tensor([0]))` to six digits and
# the gradients sum to zero. (Why zero? Think about the loss when the same number is added to all
# three values.)
#
# ## Three questions
#
# 1. With `=` instead of `+=` in `backward`, the gradient of `b` is correct and the gradient of `a`
#    is wrong. What must a test contain to detect this mistake?
# 2. On a 1 x 1 matrix the array library is slower than our few lines. What does the library spend
#    its time on, and why does that not matter at 256 x 256?
# 3. If a `Value` needed only half the bytes, you could still not train the small GPT on a laptop.
#    Which printed number shows this?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The test must contain a number that is used at least twice. `b` is used once, so its printed
#    gradient is the same in both versions. Residual connections and shared weights use a number
#    twice.
# 2. The library spends its time on work that is done once for each operation: creating the tensor,
#    checking shapes, recording the graph. At 256 x 256 one operation performs $2 \cdot 256^3$
#    multiplications and additions, which NumPy does in one call. The last row of the table shows
#    the effect.
# 3. The gigabytes needed for one training step show it. Half of them is still far more than a
#    laptop has. The printed hours lead to the same conclusion for time.
