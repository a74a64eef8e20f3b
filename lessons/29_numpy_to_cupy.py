# %% [markdown]
# # From NumPy to CuPy
#
# CuPy provides NumPy's functions for arrays in a GPU's memory. Does NumPy code run there unchanged?
# What breaks, what becomes slow without an error, and how can you find out on a machine without a
# GPU?
#
# *Prerequisites:* queries, keys and values (lesson 8). This lesson does not need a GPU, but uses
# one if available.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn import backend
from minitorch_attn.backend import array_module, as_device, forbid_sync, from_host, to_host
from minitorch_attn.backend.sync import StrictError
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check

# %% [markdown]
# ## Which devices are available?
#
# * `cpu`: NumPy.
# * `cuda`: CuPy, if it is installed and finds a GPU.
# * `strict`: NumPy arrays that behave like arrays on a GPU. This device computes on the CPU, but it
#   raises an error for everything that CuPy does not allow, and also for operations that CuPy
#   allows at a hidden cost. Code that runs on this device will probably run on a GPU.

# %%
devices = ["cpu", "strict"] + ["cuda"] * mt.cuda.is_available()
print("this lesson runs on:", ", ".join(devices))
if "cuda" not in devices:
    try:
        mt.zeros(1, device="cuda")
    except mt.errors.DeviceError as error:
        print("no GPU here:", str(error).splitlines()[0])

# %% [markdown]
# ## The same code for all devices
#
# `array_module(x)` returns the module to which an array belongs, NumPy or CuPy. Assign this module
# to `xp`, call its functions as `xp.exp` and `xp.sum`, and never write `np.` for a computation.


# %%
def attention(query, key, value):
    xp = array_module(query)  # numpy, cupy, or the strict namespace
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])  # (query, key)
    scores = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True) @ value


generator = np.random.default_rng(0)
on_host = [generator.normal(size=(6, 4)).astype("float32") for _ in range(3)]
results = {}
for name in devices:
    arrays = [from_host(x, as_device(name)) for x in on_host]  # the only transfer to the device
    result = attention(*arrays)
    results[name] = to_host(result)  # the only transfer back
    print(
        f"{name:7} {type(result).__name__:14} {result.dtype}  first row {results[name][0].round(4)}"
    )
for name in devices:
    assert np.abs(results[name] - results["cpu"]).max() < 1e-6

# %% [markdown]
# `runs_everywhere` tests whether a function is written in this way. It calls the function with
# float32 arrays on every device and compares the results. The result must be float32, and the
# function must not wait for the device. The sections below explain why these two conditions matter.


# %%
def runs_everywhere(function, *inputs):
    """Return True if a function runs on all devices, keeps float32, and does not wait."""
    inputs = [x.astype("float32") if isinstance(x, np.ndarray) else x for x in inputs]
    expected = function(*inputs)
    for name in devices:
        arrays = [from_host(x, as_device(name)) if isinstance(x, np.ndarray) else x for x in inputs]
        try:
            with forbid_sync():
                result = function(*arrays)
        except StrictError as error:
            print(str(error).splitlines()[0])
            return False
        same_type = type(result) is type(arrays[0]) and result.dtype == "float32"
        if not same_type or not np.allclose(to_host(result), expected, atol=1e-6):
            print(f"on {name}: a {type(result).__name__} of {result.dtype}")
            return False
    return True


assert runs_everywhere(attention, *on_host)

# %% [markdown] tags=["your-turn"]
# ## Your turn: log-softmax for every device
#
# Write `log_softmax(scores)` for arrays on any device: the logarithm of the softmax along the last
# axis. It must not overflow for scores like 1000.
#
# *Hint:* The logarithm of a quotient is a difference:
# $\log \mathrm{softmax}(s)_j = s_j - m - \log \sum_k e^{s_k - m}$. Which of these operations are
# methods of the array, and which need `xp`?


# %% tags=["answer"]
def log_softmax(scores):
    """Return the logarithm of the softmax along the last axis, same shape and device as scores."""
    xp = array_module(scores)
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))


# %% tags=["check"]
check(
    log_softmax,
    cases=[
        generator.normal(size=(3, 5)), 1000 + 100 * generator.normal(size=(2, 7)),
        generator.normal(size=(2, 3, 1)),
    ],
    expected=lambda scores: mt.log_softmax(mt.tensor(scores), -1),
    properties={
        "it runs on every device": lambda y, scores: runs_everywhere(log_softmax, scores)
    },
)  # fmt: skip

# %% [markdown]
# ## What goes wrong with NumPy functions on a GPU
#
# The same function written with `np.` is correct on the CPU. It fails on a GPU, whose memory
# NumPy cannot read.


# %%
def numpy_only(query, key, value):
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True) @ value


arrays = [from_host(x, as_device("strict")) for x in on_host]
assert (numpy_only(*on_host) == results["cpu"]).all()
with fails(StrictError):
    numpy_only(*arrays)

# %% [markdown]
# Here are five more lines that appear in NumPy programs. Each of them works on the CPU, but is a
# mistake if `x` is an array on a GPU.

# %%
x, host = arrays[0], on_host[0]
mistakes = {
    "np.asarray(x)": lambda: np.asarray(x),
    "x + host": lambda: x + host,
    "x / np.sqrt(4)": lambda: x / np.sqrt(4),
    "x[0] = [1, 2, 3, 4]": lambda: x.__setitem__(0, [1, 2, 3, 4]),
    "np.concatenate([x, x])": lambda: np.concatenate([x, x]),
}
errors = 0
for code, run in mistakes.items():
    try:
        run()
        print(f"{code:24} runs")
    except StrictError as error:
        errors += 1
        print(f"{code:24} {str(error).splitlines()[0]}")
assert errors == len(mistakes)

# %% [markdown]
# ## An accidental float64
#
# `x / np.sqrt(4)` deserves a closer look: it is a mistake on the CPU, too, although it does not
# raise an error.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Divide an array of float32 scores by `math.sqrt(64)` and by `np.sqrt(64)`. Both numbers are 8.0.
# What are the types of the two results? And which of these four are float32: `np.zeros(3)`,
# `np.arange(3) / 3`, `generator.normal(size=3)`, `mt.zeros(3)`? Write down six types, then run the
# next cell.

# %%
for code, scale in (("math.sqrt(64)", math.sqrt(64)), ("np.sqrt(64)", np.sqrt(64))):
    scores = np.ones((8, 8), dtype="float32") / scale
    print(f"float32 scores / {code:13} -> {scores.dtype}")
    assert scores.dtype == ("float32" if "math" in code else "float64")
sources = {
    "np.zeros(3)": np.zeros(3), "np.arange(3) / 3": np.arange(3) / 3,
    "generator.normal(size=3)": generator.normal(size=3), "mt.zeros(3)": mt.zeros(3),
}  # fmt: skip
for code, value in sources.items():
    print(f"{code:26} {value.dtype}")
assert sources["mt.zeros(3)"].dtype == np.dtype("float32")

# %% [markdown]
# `np.sqrt(64)` is not a Python number but a NumPy scalar of type float64, and since NumPy 2 such a
# scalar determines the type of the result. All NumPy functions in the list also create float64.
# Only `mt.zeros` returns float32, which is the default type of this library and of PyTorch.
#
# Float64 spreads from such a scalar: an operation with a float64 array returns a float64 array.
# The results become *more* accurate, so no accuracy test fails. But memory doubles, and many GPUs
# compute float64 many times slower than float32. Testing the `dtype` takes one line.


# %%
def scores_of(query, key, scale):
    return query @ key.T / scale


rows = pick(1024, 512)
query = np.ones((rows, 64), dtype="float32")
clean, dirty = scores_of(query, query, math.sqrt(64)), scores_of(query, query, np.sqrt(64))
print(
    f"scores of {rows} tokens: {clean.nbytes / 2**20:.0f} MiB with math.sqrt, "
    f"{dirty.nbytes / 2**20:.0f} MiB with np.sqrt"
)
assert dirty.nbytes == 2 * clean.nbytes and (clean == dirty).all()

# %% [markdown]
# This library's `Tensor` follows PyTorch's rules, which treat a NumPy scalar like a Python number:

# %%
for name in devices:
    tensor = mt.tensor(host, device=name) / np.sqrt(4)
    print(f"{name:7} Tensor / np.sqrt(4) -> {tensor.dtype}")
    assert tensor.dtype == np.dtype("float32")

# %% [markdown] tags=["your-turn"]
# ## Your turn: a causal softmax that stays in float32
#
# Write `causal_softmax(scores)` for arrays of shape (..., token, token) on any device: the softmax
# along the last axis, where query $i$ gives weight 0 to all keys $j > i$. The result must have the
# type of the scores. A common way to mask, `scores + np.triu(np.full((n, n), -np.inf), 1)`, returns
# float64 and does not work on a GPU.
#
# *Hint:* Compare two `xp.arange` arrays, one for the queries and one for the keys, to find the keys
# in the future. `xp.where(condition, -math.inf, scores)` takes its type from the array, because
# `-math.inf` is a Python number.


# %% tags=["answer"]
def causal_softmax(scores):
    """Return the attention weights under a causal mask: same shape, type and device as scores."""
    xp = array_module(scores)
    places = xp.arange(scores.shape[-1])
    is_future = places[None, :] > places[:, None]  # (query, key)
    scores = xp.where(is_future, -math.inf, scores)
    exponentials = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


# %% tags=["check"]
check(
    causal_softmax,
    cases=[
        generator.normal(size=(5, 5)), 100 * generator.normal(size=(2, 3, 7, 7)), np.ones((1, 1)),
    ],
    expected=lambda scores: mt.softmax(
        mt.tensor(np.where(np.tri(scores.shape[-1]) > 0, scores, -np.inf)), -1
    ),
    properties={
        "each row sums to 1": lambda weights, scores: np.allclose(weights.sum(-1), 1),
        "it runs on every device and keeps float32": lambda weights, scores: runs_everywhere(
            causal_softmax, scores
        ),
    },
)  # fmt: skip

# %% [markdown]
# ## Slow without an error: waiting for the GPU
#
# A GPU works while Python continues: calls only queue work. But `x.item()`, `float(x)`, `if x > 0`
# and `print(x)` need the number *now*, so the host (the CPU, which runs Python) waits until all
# earlier work is done. If a training loop contains one such line, the queue never fills up. The
# strict device counts these waits.


# %%
def train(device, steps=12, look_every=1):
    """Fit a matrix by gradient descent. Return the losses read and the number of waits."""
    mt.manual_seed(0)
    x = mt.randn(64, 8).to(device)
    target = (mt.randn(64, 8) + 1).to(device)
    model = mt.nn.Linear(8, 8).to(device)
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.1)
    waits, losses = backend.sync_count(), []
    for step in range(steps):
        loss = ((model(x) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % look_every == 0:
            losses.append(loss.item())  # the host waits here
    return losses, backend.sync_count() - waits


counts = {}
for every in (1, 4, 12):
    losses, counts[every] = train("strict", look_every=every)
    print(f"loss read every {every:2} steps: the host waits {counts[every]:2} times in 12 steps")
assert counts[1] == 12 and counts[12] == 1  # no other line waits

# %% tags=["plot"]
figure, axis = plt.subplots(figsize=(8, 2.3), layout="constrained")
for row, (name, wait) in enumerate((("every step", 1), ("every 4th step", 4))):
    host_free = device_free = 0.0
    for step in range(8):
        host_free += 0.35  # the host queues one step
        start = max(host_free, device_free)
        device_free = start + 1.0  # the device works on it
        axis.barh(row, 0.96, left=start, color="#0072B2", height=0.5)
        if step % wait == 0:
            host_free = device_free + 0.3  # the number travels back, and Python wakes up
            axis.plot([device_free] * 2, [row - 0.42, row + 0.42], color="#D55E00", linewidth=2)
    print(
        f"sketch, loss read {name:15}: 8 steps take {device_free:.1f} units, the device works for 8"
    )
axis.set_yticks((0, 1), ("read every step", "read every 4th"))
axis.invert_yaxis()
axis.set(xlabel="time, in units of one step on the device (invented times)", xlim=(0, None))
axis.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "At each orange line, the host has received the number that it waited for. By then the queue "
    "is empty, so the device is idle for a while: these are the white gaps.",
)

# %% [markdown]
# `forbid_sync` turns a hidden wait into an error at the line that waits:

# %%
losses = mt.tensor([0.5, 0.25], device="strict")
with fails(StrictError), forbid_sync():
    total = losses.sum()  # this stays on the device
    if total.item() > 0:  # this waits
        pass

# %% [markdown] tags=["your-turn"]
# ## Your turn: clip a gradient without waiting
#
# Gradient clipping limits the norm of a gradient $g$ to at most $c$: if $|g| > c$, the gradient
# becomes $g \cdot c / |g|$, otherwise it stays as it is. If you write this with `if norm >
# max_norm`, the host waits in every step. Write `clip(gradient, max_norm)` without a wait, for an
# array of any shape on any device. Add 1e-6 to the norm before you divide by it, as PyTorch does,
# so that a gradient of zeros stays zero.
#
# *Hint:* The `if` chooses between two factors. Compute the factor on the device as the smaller of
# two numbers, and always multiply by it.


# %% tags=["answer"]
def clip(gradient, max_norm):
    """Return the gradient, scaled down if its norm exceeds max_norm, same shape and device."""
    xp = array_module(gradient)
    norm = xp.sqrt((gradient * gradient).sum())  # stays on the device
    factor = xp.minimum(max_norm / (norm + 1e-6), 1.0)
    return gradient * factor


# %% tags=["check"]
check(
    clip,
    cases=[
        (10 * generator.normal(size=(3, 5)), 1.0), (0.1 * generator.normal(size=7), 2.0),
        (np.zeros((2, 2)), 1.0),
    ],
    expected=lambda gradient, max_norm: (
        gradient * min(1.0, max_norm / (np.linalg.norm(gradient) + 1e-6))
    ),
    properties={
        "the norm is at most max_norm": lambda y, gradient, max_norm: (
            np.linalg.norm(y) <= max_norm * (1 + 1e-9)
        ),
        "it runs on every device and does not wait": lambda y, gradient, max_norm: runs_everywhere(
            clip, gradient, max_norm
        ),
    },
)  # fmt: skip

# %% [markdown]
# ## A whole model, unchanged
#
# The whole library is written in this way, so one argument selects the device. The losses of the
# training loop above agree on every available device:

# %%
runs = {name: train(name)[0] for name in devices}
for name, losses in runs.items():
    print(f"{name:7} losses", *[f"{loss:.4f}" for loss in losses[:6]], "...")
    assert np.allclose(losses, runs["cpu"], rtol=1e-4)
before = backend.transfer_count()
mt.nn.MultiheadAttention(8, 2).to("strict")
print("transfers to move one attention layer:", backend.transfer_count() - before)

# %% [markdown]
# The strict device cannot find everything. CuPy's own functions may return wrong results, and a GPU
# adds numbers in a different order, which changes the rounding. Both problems appear only on a real
# GPU, and only a real GPU can be timed. Lesson 32 estimates the times, and explains the kernels
# that make this library's steps faster.
#
# ## In the library

# %%
where(
    array_module,
    from_host,
    to_host,
    forbid_sync,
    backend.strict_array.StrictArray,
    backend.cuda.CudaPlatform,
)

# %% [markdown]
# ## Exercise
#
# Here is a layer norm as it is often written in NumPy. Rewrite it for arrays on any device. You are
# done when it runs on all `devices` with results that agree to `1e-6`, with float32 input and
# output, and without any wait under `forbid_sync()`:
#
# ```python
# def layer_norm(x, eps=1e-5):
#     mean = np.mean(x, axis=-1, keepdims=True)
#     deviation = np.sqrt(np.var(x, axis=-1, keepdims=True) + np.float64(eps))
#     if not np.isfinite(deviation).all():
#         raise ValueError("not finite")
#     return (x - mean) / deviation
# ```
#
# ## Three questions
#
# 1. `numpy_only` gives the correct result on the CPU. Why does it fail on the strict device, and
#    which line do you change?
# 2. A training run needs twice as much memory after a colleague has replaced `math.sqrt` by
#    `np.sqrt`. The losses are the same. What happened?
# 3. A line that reads the loss at every step does not compute anything. Why does it slow down
#    training on a GPU, and which number printed above shows this?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. `np.exp` belongs to NumPy and cannot read an array on the device, as the error says. Change
#    this line to use `xp.exp`, with `xp = array_module(query)`.
# 2. `np.sqrt(64)` is a float64 scalar, which turns float32 scores into float64. The printed dtypes
#    show this, and so does the memory: the same values take twice as much.
# 3. The host waits until the device is done, and the device then waits for new work. The host waits
#    12 times in 12 steps, but only once if the loss is read every 12 steps. In the figure, the
#    white gaps are the times at which the device has no work.
