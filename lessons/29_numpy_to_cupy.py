# %% [markdown]
# # From NumPy to CuPy
#
# CuPy has NumPy's functions for arrays that live on a GPU. So does NumPy code run there as it is?
# What breaks, what becomes slow without breaking, and how can one find out on a machine without a
# GPU?
#
# *Know before:* query, key, value (lesson 8). This lesson needs no GPU; where there is one, it is
# used too.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn import backend
from minitorch_attn.backend import array_module, as_device, forbid_sync, from_host, to_host
from minitorch_attn.backend.sync import StrictError
from minitorch_attn.course.lesson import fails, pick, show, where

# %% [markdown]
# ## Where can we run?
#
# * `cpu`: NumPy.
# * `cuda`: CuPy, if it is installed and finds a GPU.
# * `strict`: NumPy dressed up as a GPU. It computes on the CPU but refuses what CuPy refuses, and
#   also what CuPy does silently at a price. Code that runs on it has a good chance on a GPU.

# %%
devices = ["cpu", "strict"] + ["cuda"] * mt.cuda.is_available()
print("this lesson runs on:", ", ".join(devices))
if "cuda" not in devices:
    try:
        mt.zeros(1, device="cuda")
    except mt.errors.DeviceError as error:
        print("no GPU here:", str(error).splitlines()[0])

# %% [markdown]
# ## One code
#
# The trick is small: ask the array for its module, and never write `np.` for a computation.


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
    arrays = [from_host(x, as_device(name)) for x in on_host]  # the one transfer to the device
    result = attention(*arrays)
    results[name] = to_host(result)  # the one transfer back
    print(
        f"{name:7} {type(result).__name__:14} {result.dtype}  first row {results[name][0].round(4)}"
    )
for name in devices:
    assert np.abs(results[name] - results["cpu"]).max() < 1e-6

# %% [markdown]
# ## What goes wrong without it
#
# The same function with `np.` in it is right on the CPU. On a device it stops: NumPy would have to
# look into memory that is not its own.


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
# Five more lines that every NumPy program has. Each is fine on the CPU; none may reach a GPU.

# %%
x, host = arrays[0], on_host[0]
mistakes = {
    "np.asarray(x)": lambda: np.asarray(x),
    "x + host": lambda: x + host,
    "x / np.sqrt(4)": lambda: x / np.sqrt(4),
    "x[0] = [1, 2, 3, 4]": lambda: x.__setitem__(0, [1, 2, 3, 4]),
    "np.concatenate([x, x])": lambda: np.concatenate([x, x]),
}
refused = 0
for code, run in mistakes.items():
    try:
        run()
        print(f"{code:24} runs")
    except StrictError as error:
        refused += 1
        print(f"{code:24} {str(error).splitlines()[0]}")
assert refused == len(mistakes)

# %% [markdown]
# ## float64 sneaks in
#
# `x / np.sqrt(4)` deserves a closer look: it is wrong on the CPU too, without a word. `np.sqrt(4)`
# is not a Python number but a NumPy scalar of type float64, and since NumPy 2 such a scalar decides
# the type of the result.

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
# From there it spreads: whatever touches a float64 array becomes one. The results look *better*, so
# no test of accuracy complains; memory doubles, and a GPU for graphics or inference computes
# float64 many times slower than float32. A test of `dtype` costs one line.


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
# A `Tensor` of this library follows PyTorch's rules, by which a NumPy scalar is a number like any
# other:

# %%
for name in devices:
    tensor = mt.tensor(host, device=name) / np.sqrt(4)
    print(f"{name:7} Tensor / np.sqrt(4) -> {tensor.dtype}")
    assert tensor.dtype == np.dtype("float32")

# %% [markdown]
# ## Slow without an error: waiting
#
# A GPU works while Python goes on; calls only queue up work. But `x.item()`, `float(x)`, `if x >
# 0`, `print(x)` need the number *now*: the host waits until everything before is done. One such
# line in the loop, and the queue is always empty. The strict device counts them.


# %%
def train(device, steps=12, look_every=1):
    """Learn a matrix; look at the loss now and then. Returns the losses and how often it waited."""
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
            losses.append(loss.item())  # here the host waits
    return losses, backend.sync_count() - waits


counts = {}
for every in (1, 4, 12):
    losses, counts[every] = train("strict", look_every=every)
    print(f"loss read every {every:2} steps: waits of the host in 12 steps: {counts[every]:2}")
assert counts[1] == 12 and counts[12] == 1  # and not once for anything else

# %%
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
axis.set(
    xlabel="time, in units of one step on the device (a sketch, times made up)", xlim=(0, None)
)
axis.spines[["top", "right"]].set_visible(False)
show(figure, "Blue: the device works. Orange: the host waits for a number. White: nobody works.")

# %% [markdown]
# `forbid_sync` turns a hidden wait into an error at its line:

# %%
losses = mt.tensor([0.5, 0.25], device="strict")
with fails(StrictError), forbid_sync():
    total = losses.sum()  # fine: stays on the device
    if total.item() > 0:  # waits
        pass

# %% [markdown]
# ## A whole model, unchanged
#
# The library is written in this way throughout, so a device is one word. The losses of the loop
# above agree on every device that there is:

# %%
runs = {name: train(name)[0] for name in devices}
for name, losses in runs.items():
    print(f"{name:7} losses", *[f"{loss:.4f}" for loss in losses[:6]], "...")
    assert np.allclose(losses, runs["cpu"], rtol=1e-4)
before = backend.transfer_count()
mt.nn.MultiheadAttention(8, 2).to("strict")
print("transfers to move one attention layer:", backend.transfer_count() - before)

# %% [markdown]
# What the strict device cannot find: wrong results of CuPy's own functions, the other order of
# additions on a GPU (the last digits differ), and anything about speed. For these there is no way
# round a GPU.
#
# ## Where it lives

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
# Here is a layer norm as NumPy people write it. Make it run on all `devices`, with equal results to
# `1e-6`, float32 in and out, and not one wait under `forbid_sync()`:
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
# 1. `numpy_only` gives the right result on the CPU. Why does it fail on the strict device, and what
#    is the change of one line?
# 2. A training run needs twice the memory after a colleague replaced `math.sqrt` by `np.sqrt`. The
#    losses are the same. What happened?
# 3. Reading the loss at every step is one line and no computation. What does it cost, and which
#    number printed above counts it?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. `np.exp` is NumPy's and cannot read an array of a device; the error says so. It has to be
#    `xp.exp`, with `xp = array_module(query)`.
# 2. `np.sqrt(64)` is a float64 scalar, which makes float32 scores float64: the dtypes are printed,
#    and so are the MiB, twice as many, with equal values.
# 3. The host waits until the device is done, and the device then waits for new work: 12 waits in 12
#    steps, against 1 when the loss is read once in 12 steps; the sketch shows the gaps.
