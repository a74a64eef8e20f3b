# %% [markdown]
# # What a launch costs, and how a kernel saves it
#
# On a GPU, a training step of a small GPT takes as long with 100 texts as with one, and a GPU that
# is twice as fast does not help. What takes the time? How do three operations become one kernel,
# and how do the threads of a kernel compute a softmax together?
#
# *Prerequisites:* attention in linear memory (lesson 28), from NumPy to CuPy (lesson 29). This
# lesson does not need a GPU.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.kernels import feed_forward, gelu, softmax
from minitorch_attn.models.gpt import GPT

generator = np.random.default_rng(0)

# %% [markdown]
# ## What a launch costs
#
# Each function of CuPy *launches* at least one *kernel*, a program that runs on the GPU. When
# Python launches a kernel, the host (the CPU) needs 5 to 10 microseconds, whatever the kernel does.
# Is that a lot? Compare it with the work of one training step of a small GPT, the one that `mta
# tour` trains. `mt.profile` counts the step's operations and bytes on any device. For the GPU, we
# take two numbers from the data sheet of an NVIDIA H100 SXM: 67 TFLOP/s in float32 and 3.35 TB/s.

# %%
PEAK, BANDWIDTH, LAUNCH = 67e12, 3.35e12, 7.5e-6  # FLOP/s, bytes/s, seconds


def work_of_step(batch):
    """Return FLOPs and bytes of a step. AdamW reads 4 and writes 3 numbers per parameter."""
    model = GPT(vocab_size=65, context_length=64, embed_dim=128, num_heads=4, num_layers=4)
    ids = mt.zeros(batch, 64, dtype=mt.int64)
    with mt.profile() as profile:
        mt.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    events = [event for event in profile.events if event.phase != "module"]
    update = 7 * 4 * sum(p.numel() for p in model.parameters())
    return sum(e.flops for e in events), sum(e.nbytes for e in events) + update


flops, nbytes = work_of_step(12)
print(f"a step on 12 texts: {flops / 1e9:.1f} GFLOP and {nbytes / 1e6:.0f} MB, which take")
print(f"  arithmetic   {1e6 * flops / PEAK:5.0f} us")
print(f"  memory       {1e6 * nbytes / BANDWIDTH:5.0f} us")
for calls in (948, 158):
    print(f"  {calls} launches {1e6 * calls * LAUNCH:5.0f} us")
assert 158 * LAUNCH > 10 * max(flops / PEAK, nbytes / BANDWIDTH)

# %% [markdown]
# A step takes 948 launches (including matrix products and copies) if a GPU runs this library's
# operations as they are written for the CPU. With the library's CUDA kernels, a step has 158
# launches. `python -m benchmarks device-calls` counts them; `docs/devices.md` has the table. The
# times are estimates from a data sheet, not measurements, but the conclusion does not depend on
# their accuracy: the launches take more than ten times as long as the work.
#
# The number of launches does not depend on the batch size, but the work does. The figure also shows
# a line for a step with a single launch. A *CUDA graph* records all launches of a step and repeats
# them with one call, so it comes close to this line.

# %% tags=["plot"]
small = work_of_step(1)
slopes = [(many - one) / 11 for many, one in zip((flops, nbytes), small, strict=True)]
batches = np.geomspace(1, 4096, 97)
work = [one + slope * (batches - 1) for one, slope in zip(small, slopes, strict=True)]
on_device = np.maximum(work[0] / PEAK, work[1] / BANDWIDTH)  # at least
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
for calls, color in ((948, "#D55E00"), (158, "#0072B2"), (1, "#009E73")):
    milliseconds = 1e3 * np.maximum(calls * LAUNCH, on_device)
    axis.loglog(batches, milliseconds, color=color, base=2)
    if calls > 1:
        axis.text(1, 1.15 * milliseconds[0], f"{calls} launches", color=color)
axis.text(40, 0.1, "1 launch", color=color)
axis.plot([12, 12], [1e-2, 20], ":", color="0.5")
axis.text(12.7, 1.05e-2, "batch of 12", color="0.4")
axis.set_yscale("log", base=10)
axis.set(xlabel="texts in a batch", ylabel="ms for a step (estimate)", ylim=(8e-3, 60))
axis.set_xticks(4 ** np.arange(7), 4 ** np.arange(7))
axis.minorticks_off()
axis.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Each line is flat up to the batch size at which the work takes longer than the launches. In "
    "the flat part, a larger batch takes no more time, and a faster GPU would not help.",
)

# %% [markdown]
# The host launches kernels while the device works. So the figure plots the longer of two times:
# that of the launches and that of the work. This is a lower bound on the time of a step. The exact
# time depends on the order of the kernels: during a long kernel, the host can queue many short
# ones, which the device then runs without waiting. If short kernels follow without a long one, the
# device waits for each launch.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the time of a step
#
# Write `step_time(durations, launch)`. The host launches one kernel after the other, and needs
# `launch` seconds for each. The device runs the kernels in this order, and needs `durations[k]`
# seconds for kernel `k`. The device starts a kernel when the launch of this kernel is complete
# *and* the previous kernel has finished. Return the time at which the last kernel has finished.
#
# *Hint:* Go through the kernels with two clocks: when has the host finished this launch, and when
# does the device finish this kernel?


# %% tags=["answer"]
def step_time(durations, launch):
    """Return the time at which the last kernel has finished, a number."""
    host = device = 0.0
    for duration in durations:
        host = host + launch
        device = max(host, device) + duration
    return device


# %% tags=["check"]
check(
    step_time,
    cases=[
        (generator.uniform(size=7), 0.5), (np.array([5.0, 0.1, 0.1, 0.1, 3.0]), 1.0),
        (np.array([0.1, 0.1, 5.0]), 1.0), (np.array([2.0]), 0.25),
    ],
    expected=lambda durations, launch: max(
        (k + 1) * launch + durations[k:].sum() for k in range(len(durations))
    ),
    properties={
        "takes at least as long as all launches and all kernels": lambda t, durations, launch: (
            t >= max(launch * len(durations), durations.sum())
        )
    },
)  # fmt: skip

# %% [markdown]
# ## How three operations become one kernel
#
# The hidden layer of a feed-forward network needs three operations after its matrix product
# $u = x W_1^\top$: add the bias, apply GELU, and compute the slope of GELU for the backward pass.
# First, we run them as three kernels. A kernel is a function that one *thread* runs, and a launch
# runs it in many threads. `Memory` counts how many numbers the threads read from the GPU's memory
# and write to it.


# %%
class Memory:
    """An array in the GPU's memory. The class counts the reads and writes of all arrays."""

    reads = writes = 0

    def __init__(self, array):
        self.numbers = array.ravel().copy()

    def __getitem__(self, i):
        Memory.reads += 1
        return self.numbers[i]

    def __setitem__(self, i, number):
        Memory.writes += 1
        self.numbers[i] = number


def activate(x):
    """Return GELU (tanh formula) and its slope. A thread computes both in registers."""
    h = (1 + math.tanh(x * math.sqrt(2 / math.pi) * (1 + 0.044715 * x * x))) / 2
    slope = h + x * h * (1 - h) * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return x * h, slope


def add_bias(i, u, bias, v, n):
    v[i] = u[i] + bias[i % n]


def apply_gelu(i, v, h):
    h[i] = activate(v[i])[0]


def compute_slope(i, v, slope):
    slope[i] = activate(v[i])[1]


def launch(kernel, threads, *arguments):
    """Run the kernel once for each thread. A GPU runs thousands of threads at the same time."""
    for thread in range(threads):
        kernel(thread, *arguments)


# %%
rows, n = 70, 37
product, bias_values = generator.normal(size=(rows, n)), generator.normal(size=n)
u, bias, v, h, slope = map(Memory, (product, bias_values, product, product, product))
launch(add_bias, rows * n, u, bias, v, n)
launch(apply_gelu, rows * n, v, h)
launch(compute_slope, rows * n, v, slope)
three = Memory.reads, Memory.writes
print(f"3 launches: {three[0]} reads and {three[1]} writes for {rows * n} numbers")
assert np.allclose(h.numbers, mt.gelu(mt.tensor((product + bias_values).ravel()), "tanh").numpy())

# %% [markdown]
# The first kernel writes `v` to memory, and the other two read it again. A kernel that computes all
# three results keeps `v` in a *register*, a variable of the thread. Here is the source of the fused
# kernel that this library runs on a GPU, in CUDA C++:


# %%
def source_of(code, name):
    """Return the source of one function or struct in CUDA code, with the comment above it."""
    at = code.index(f" {name}(") if f" {name}(" in code else code.index(f"struct {name}")
    start = code.rindex("\n\n", 0, at) + 2
    ends = (code.find(end, at) for end in ("\n}\n", "\n};\n"))
    return code[start : min(end for end in ends if end > 0) + 3].rstrip()


for name in ("Tile", "bias_and_activation"):
    print(source_of(feed_forward.SOURCE.code, name), end="\n\n")

# %% [markdown]
# A launch consists of *blocks* of threads. Each thread knows the index of its block (`blockIdx.x`)
# and its place in the block (`threadIdx`), here one of 32 x 8 places. A block handles a tile of 32
# columns and 64 rows of the matrix, and each of its threads handles one column and up to eight
# rows. Here is the same kernel in Python, line by line:


# %%
def bias_and_activation(block, x, y, u, bias, slope, rows, n):
    """Do the work of thread (x, y) of a block. Return the indices of the thread's elements."""
    across = -(-n // 32)
    row, j = block // across * 64, block % across * 32 + x
    if j >= n:
        return []
    b = bias[j]  # read once, kept in a register
    elements = []
    for row_of_thread in range(row + y, min(row + 64, rows), 8):
        i = row_of_thread * n + j
        u[i], slope[i] = activate(u[i] + b)  # the sum never leaves the registers
        elements.append(i)
    return elements


Memory.reads = Memory.writes = 0
u, slope_at_once = Memory(product), Memory(product)
blocks = -(-rows // 64) * -(-n // 32)
done = {
    (block, x, y): bias_and_activation(block, x, y, u, bias, slope_at_once, rows, n)
    for block in range(blocks) for y in range(8) for x in range(32)
}  # fmt: skip
for thread in ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 4, 0), (1, 5, 0), (2, 0, 6)):
    print("block {}, thread ({}, {}) computes elements".format(*thread), done[thread])
print(f"1 launch: {Memory.reads} reads and {Memory.writes} writes for {rows * n} numbers")
assert sorted(sum(done.values(), [])) == list(range(rows * n))  # each element exactly once
assert (u.numbers == h.numbers).all() and (slope_at_once.numbers == slope.numbers).all()
assert Memory.reads + Memory.writes < 0.55 * sum(three)

# %% [markdown]
# Threads (0, 0) and (1, 0) of block 0 have elements 0 and 1: neighboring threads have neighboring
# elements, so 32 threads read one contiguous piece of memory at once. Threads beyond the last
# column or row, such as (5, 0) of block 1, have nothing to do.
#
# Three launches became one, and more than half of the reads and writes disappeared. How much time
# does this save for the hidden layer of the GPT above?

# %%
elements = 12 * 64 * 512  # texts, tokens, hidden width
for launches, arrays in ((3, 6), (1, 3)):  # arrays read or written; the bias is small
    nbytes = 4 * arrays * elements
    print(f"launches: {launches}, {1e6 * launches * LAUNCH:4.1f} us; "
          f"memory: {1e-6 * nbytes:3.1f} MB, {1e6 * nbytes / BANDWIDTH:.1f} us")  # fmt: skip

# %% [markdown]
# At this size, the launches take most of the time. With much larger arrays, reading and writing
# memory does.
#
# An activation without a bias has its own kernel, which assigns the elements to its threads in a
# different way:

# %%
print(source_of(gelu.SOURCE.code, "activation_forward"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: read a kernel
#
# Write `elements_of(block, thread, threads, size)` for the kernel printed above. It returns a list
# of the indices `i` of the elements that one thread computes. `block` is `blockIdx.x`, `thread` is
# `threadIdx.x`, and `threads` is `blockDim.x`, the number of threads of a block. (`4LL` is the
# number 4 as a 64-bit integer.)
#
# *Hint:* Translate the kernel's two lines that contain `i` literally into Python. The loop ends
# after four steps, or at the end of the array.


# %% tags=["answer"]
def elements_of(block, thread, threads, size):
    """Return the list of the elements that one thread computes."""
    elements = []
    i = block * 4 * threads + thread
    for _ in range(4):
        if i < size:
            elements.append(i)
        i += threads
    return elements


# %% tags=["check"]
check(
    elements_of,
    cases=[(0, 3, 32, 1000), (2, 5, 32, 331), (1, 0, 64, 257), (1, 1, 64, 257)],
    expected=lambda block, thread, threads, size: [
        i for i in range(size)
        if i // (4 * threads) == block and i % threads == thread
    ],
    properties={
        "all threads together compute each element once": lambda found, block, thread, threads, n: (
            sorted(
                i for b in range(-(-n // (4 * threads))) for t in range(threads)
                for i in elements_of(b, t, threads, n)
            ) == list(range(n))
        )
    },
)  # fmt: skip

# %% [markdown]
# ## How 32 threads add their numbers
#
# GELU is computed for each number separately. A softmax needs the maximum and the sum of a whole
# row, so its threads must exchange numbers. 32 threads form a *warp*. The threads are the *lanes*
# of the warp, and all of them execute the same instruction at the same time. With a *shuffle*
# instruction, each lane can read a register of another lane. This is how the library's kernels add
# up one number from each lane:

# %%
code = softmax.SOURCE.code
print(source_of(code, "warp_sum"))

# %% [markdown]
# `__shfl_xor_sync(mask, value, step)` gives each lane the value of the lane whose number differs
# from its own in one bit: with step 16, lane 3 reads from lane 19, and lane 19 from lane 3. An
# array with one number for each lane is a good model of a warp, because all lanes execute the same
# instruction.
# After the first step, each sum covers 2 lanes, then 4, 8, 16 and 32:

# %%
lanes = np.arange(32)
values = generator.normal(size=32).astype("float32")
sums, covered = values, [{lane} for lane in lanes]
history = [sums]
for step in (16, 8, 4, 2, 1):
    sums = sums + sums[lanes ^ step]
    covered = [covered[lane] | covered[lane ^ step] for lane in lanes]
    history.append(sums)
    print(
        f"step {step:2}: lane 3 reads lane {3 ^ step:2}; its sum covers {len(covered[3]):2} lanes"
    )
assert all(len(found) == 32 for found in covered)
assert (sums == sums[0]).all() and abs(sums[0] - values.sum()) < 1e-5
print(f"5 steps instead of {len(values) - 1} additions in a row; all lanes have {sums[0]:.6f}")

# %% [markdown]
# Adding in pairs is also more accurate than adding one number after the other. When numbers are
# added one after the other, the first one takes part in all $n - 1$ additions, each of which
# rounds. When they are added in pairs, each number takes part in only $\log_2 n$ additions.


# %%
def in_a_row(numbers):
    return np.cumsum(numbers, dtype=numbers.dtype)[-1]


def in_pairs(numbers):
    while len(numbers) > 1:
        half = len(numbers) // 2
        numbers = numbers[:half] + numbers[half:]
    return numbers[0]


lengths = 2 ** np.arange(5, pick(21, 19), 2)
errors = {in_a_row: [], in_pairs: []}
for length in lengths:
    numbers = generator.uniform(size=(5, length)).astype("float32")
    exact = numbers.astype("float64").sum(1)
    for function, found in errors.items():
        sums = np.array([function(row) for row in numbers])
        found.append(np.abs(sums / exact - 1).mean())
for length, row, pairs in zip(lengths, *errors.values(), strict=True):
    print(f"{length:8} float32 numbers: error in a row {row:.0e}, in pairs {pairs:.0e}")
assert errors[in_a_row][-1] > 10 * errors[in_pairs][-1]

# %% tags=["plot"]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
used = {3}  # the lanes that the last sum of lane 3 depends on, from the last step to the first
for row, step in reversed(list(enumerate((16, 8, 4, 2, 1)))):
    for lane in lanes:
        color, width = ("#0072B2", 1.5) if lane in used else ("0.88", 0.6)
        for source in (lane, lane ^ step):
            left.plot([source, lane], [row, row + 1], color=color, linewidth=width,
                      zorder=2 if lane in used else 1)  # fmt: skip
    used |= {lane ^ step for lane in used}
left.invert_yaxis()
left.set(xlabel="lane", xticks=(0, 3, 8, 16, 24, 31), yticks=range(6))
left.set_yticklabels(["own number", "step 16", "step 8", "step 4", "step 2", "step 1"])
left.set_title("which sums reach lane 3", loc="left", fontsize="medium")
right.loglog(lengths, errors[in_a_row], "o-", color="#D55E00", base=2)
right.loglog(lengths, errors[in_pairs], "s-", color="#0072B2", base=2)
right.set_yscale("log", base=10)
right.text(lengths[-3], errors[in_a_row][-3] * 1.8, "in a row ", color="#D55E00", ha="right")
right.text(lengths[-3], 5e-9, "in pairs", color="#0072B2", ha="center")
right.set(xlabel="float32 numbers", ylim=(1e-9, 1e-4))
right.set_title("relative error of the sum", loc="left", fontsize="medium")
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
    axis.minorticks_off()
show(
    figure,
    "Left: in each step, every lane adds the sum of one other lane. The blue lines lead to lane 3: "
    "after five steps, all 32 numbers have reached it. Right: if the numbers are added in pairs, "
    "the error hardly grows.",
)

# %% [markdown]
# ## How a block combines its warps
#
# A block has up to 32 warps. A shuffle cannot read from another warp, so lane 0 of each warp writes
# the warp's sum to *shared memory*, a small and fast memory of the block. `__syncthreads()` is a
# *barrier*: each thread waits there until all threads of the block have arrived. Then each thread
# adds up the sums of all warps:

# %%
print(source_of(code, "block_sum"))


# %%
def block_reduce(values, combine):
    """Reduce values (thread,) like `block_sum` (combine=np.add) or `block_max` (np.maximum)."""
    of_warp = []  # the shared memory
    for warp in values.reshape(-1, 32):  # at the same time on a GPU
        for step in (16, 8, 4, 2, 1):
            warp = combine(warp, warp[lanes ^ step])
        of_warp.append(warp[0])
    total = of_warp[0]
    for other in of_warp[1:]:
        total = combine(total, other)
    return total


values = generator.normal(size=256).astype("float32")
print(f"256 threads: {block_reduce(values, np.add):.5f}, NumPy: {values.sum():.5f}")
assert abs(block_reduce(values, np.add) - values.sum()) < 1e-4
assert block_reduce(values, np.maximum) == values.max()

# %% [markdown]
# ## The softmax of a row, by one block
#
# Written with CuPy's functions, a softmax takes five launches: `max`, subtract, `exp`, `sum` and
# divide. Here is a kernel that does all of this in a single launch. With 64 threads, each thread
# reads every 64th element of the row. It keeps the largest element so far and the sum of
# exponentials, and corrects the sum when a larger element arrives (lesson 28). Then the block
# combines the numbers of its threads.

# %%
print(source_of(code, "max_and_sum"), end="\n\n")
print(source_of(code, "softmax_forward"))


# %%
def softmax_of_row(x, threads):
    """Compute the softmax of a row as one block does. Arrays of shape (thread,) are registers."""
    thread = np.arange(threads)
    m = np.full(threads, softmax.LOWEST["float32"], "float32")
    s = np.zeros(threads, "float32")
    for first in range(0, len(x), threads):
        active = first + thread < len(x)  # lanes without an element wait
        value, old_m = x[first : first + threads], m[active]
        m[active] = np.maximum(old_m, value)
        s[active] = s[active] * np.exp(old_m - m[active]) + np.exp(value - m[active])
    top = block_reduce(m, np.maximum)
    total = block_reduce(s * np.exp(m - top), np.add)
    return np.exp(x - top) / total


for length, threads in ((5, 32), (64, 64), (1000, 64), (1000, 256)):
    x = (3 * generator.normal(size=length)).astype("float32")
    found, expected = softmax_of_row(x, threads), mt.softmax(mt.tensor(x), -1).numpy()
    print(f"{length:4} numbers, {threads:3} threads: up to {-(-length // threads):2} numbers for a "
          f"thread, then 2 x (5 + {threads // 32}) steps; "
          f"error {abs(found - expected).max():.0e}")  # fmt: skip
    assert found.dtype == "float32" and np.allclose(found, expected, atol=1e-6)

# %% [markdown]
# The result agrees with the library's softmax. The kernel reads the row twice, the second time
# usually from a cache, and writes the result once. Together, the five launches read or write an
# array as long as the row eight times.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the maximum and the sum at once
#
# The kernel combines all maxima first and then all sums, in ten steps for a warp. Do both at once,
# in five steps. Lane $i$ of 32 lanes has seen some elements of the row: `m[i]` is the largest of
# them, and `s[i]` the sum of $e^{x - m_i}$ over them. Write `warp_max_and_sum(m, s)`, which returns
# the maximum and the sum for all elements together, both of shape (lane,) with the same number for
# every lane. Combine lanes with the steps 16, 8, 4, 2 and 1, as above, without `max` or `sum` over
# the lanes. A lane without an element has a large negative `m`, such as -1e30, and an `s` of 0.
#
# *Hint:* In each step, lane $i$ reads both numbers of lane `i ^ step` (for all lanes at once, for
# example: `m[lanes ^ step]`). The new maximum is the larger one, and both sums are corrected before
# they are added.


# %% tags=["answer"]
def warp_max_and_sum(m, s):
    """Combine all lanes. Return the maximum and the sum of exponentials, each of shape (32,)."""
    for step in (16, 8, 4, 2, 1):
        other_m, other_s = m[lanes ^ step], s[lanes ^ step]
        top = np.maximum(m, other_m)
        s = s * np.exp(m - top) + other_s * np.exp(other_m - top)
        m = top
    return m, s


# %% tags=["check"]
check(
    warp_max_and_sum,
    cases=[
        (generator.normal(size=32), generator.uniform(1, 2, size=32)),
        (1000 * generator.normal(size=32), generator.uniform(1, 2, size=32)),
        (np.where(lanes < 3, lanes, -1e30), np.where(lanes < 3, 1.0, 0.0)),
    ],
    expected=lambda m, s: (
        np.full(32, m.max()), np.full(32, (s * np.exp(m - m.max())).sum()),
    ),
    properties={
        "every lane has the same numbers": lambda found, m, s: all(np.ptp(x) == 0 for x in found)
    },
)  # fmt: skip

# %% [markdown]
# ## What goes wrong without a barrier
#
# Warps run independently of each other: at any moment, some are ahead. Suppose the second
# `__syncthreads()` of `block_sum` is forgotten. Then each warp writes its own sum and immediately
# reads the sums of all warps, whether they have been written or not. We simulate this with warps
# that arrive in a random order, one after the other. The shared memory contains zeros at first.


# %%
def block_sum_without_barrier(values, order):
    """Return each warp's result for values (thread,). The warps arrive in the given order."""
    of_warp = np.zeros(len(order), values.dtype)
    results = np.zeros(len(order), values.dtype)
    for warp in order:
        of_warp[warp] = block_reduce(values[32 * warp : 32 * warp + 32], np.add)
        results[warp] = of_warp.sum()  # should wait for the other warps
    return results


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The sum is computed with 32, 64 and 256 threads, that is, with 1, 2 and 8 warps. In each case, how
# many warps get the correct sum? Are they the same warps in every run? Write down your answers,
# then run the next cell.

# %%
correct = {}
for threads in (32, 64, 256):
    values = generator.uniform(size=threads)
    for run in range(3):
        order = generator.permutation(threads // 32)
        results = block_sum_without_barrier(values, order)
        right = np.isclose(results, values.sum())
        correct[threads, run] = right.sum()
        print(f"{threads:3} threads, order {order}: correct in warps {np.flatnonzero(right)}")
assert set(correct.values()) == {1}  # the last one to arrive

# %% [markdown]
# Only the warp that arrives last gets the correct sum. In a block of one warp, the sum is always
# correct, so tests with rows of up to 32 numbers do not find the mistake. On a GPU, the order
# differs from run to run, and the result is often correct by luck. A simulated GPU whose threads
# take turns does not show such a *race* either. The rule is simple: between a write to shared
# memory and a read by another thread, there must be a barrier.
#
# The first `__syncthreads()` in `block_sum` prevents a race between two calls. The cross-entropy
# kernel calls `block_sum` twice in a row. In the second call, a fast warp must not overwrite a sum
# of the first call that a slow warp has yet to read.
#
# ## In the library

# %%
where(
    mt.backend.kernel_table.kernel_for,
    feed_forward.bias_and_activation,
    softmax.SoftmaxKernel,
    gelu.GeluKernel,
    mt.profile,
)

# %% [markdown]
# ## Exercise
#
# Simulate the kernel `norm_forward` in `minitorch_attn/kernels/layer_norm.py`: one block normalizes
# one row. Print its source with `source_of`. Use a block of 64 threads: each thread reads every
# 64th element, and `block_reduce` adds up the results of the threads. You are done when the result
# agrees with `mt.nn.functional.layer_norm` to `1e-6` for rows of 5, 64 and 1000 numbers, in
# float32. Suppose that the layer norm is written with CuPy's functions instead. How many launches
# does it need, and how many times does it read or write the row?
#
# ## Three questions
#
# 1. A small model takes 7 ms for a step on a GPU, with a batch of 12 and also with one of 24. What
#    takes the time? Which changes help, and why would a GPU with twice the FLOP/s not help?
# 2. The fused kernel computes exactly the same numbers as the three kernels. Where does it save
#    time, and which of the savings matters for large arrays?
# 3. A kernel that sums rows passes its tests with rows of 7, 20 and 32 numbers, and fails with
#    rows of 100, but not in every run. What would you look for?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The launches: their number does not depend on the batch size, and 948 of them take about 7 ms.
#    Fewer launches help (kernels that do several operations, or a CUDA graph), and a larger batch
#    does more work with the same launches. The device is idle most of the time, so its speed does
#    not matter.
# 2. The fused kernel saves two launches, and it saves memory traffic: it reads or writes three
#    arrays instead of six. For large arrays, the memory traffic matters most. The arithmetic stays
#    the same.
# 3. Look for a missing barrier. Rows of up to 32 numbers need only one warp, and a single warp does
#    not need a barrier. With several warps, the result depends on the order in which they arrive.
