# %% [markdown]
# # Data parallel training and the ring all-reduce
#
# Four processes have the same model. Each has computed the gradient for its quarter of the batch,
# and all of them need the average. How can $N$ processes sum their gradients if none of them may
# send more than about twice the bytes of one gradient, no matter how large $N$ is?
#
# *Prerequisites:* the backward pass (lesson 3), training a GPT (lesson 17).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.course.lesson import fails, show, where
from minitorch_attn.course.rank_messages import print_messages
from minitorch_attn.course.ranks import run_ranks
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz import messages_figure
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## The gradient of a batch is an average
#
# The loss of a batch is the mean of the examples' losses, $L = \frac1n \sum_i l_i$. Differentiation
# is linear, so the gradient of $L$ is the mean of the examples' gradients. It does not matter which
# process computes which gradient. In **data parallel** training, each process, or **rank**, has a
# copy of the model and computes the gradient $g_k$ for its own rows of the batch. With equal parts,
# the gradient of the whole batch is $\frac1N \sum_k g_k$.


# %%
def build():
    mt.manual_seed(1)
    layers = mt.nn.Linear(8, 16), mt.nn.Tanh(), mt.nn.Dropout(0.2), mt.nn.Linear(16, 1)
    return mt.nn.Sequential(*layers).double()


def gradient(model, rows):
    model.zero_grad()
    model(rows).square().mean().backward()
    return mt.cat([p.grad.reshape(-1) for p in model.parameters()])


model, batch = build().eval(), mt.randn(12, 8).double()
whole = gradient(model, batch)
parts = [gradient(model, rows) for rows in batch.chunk(4)]
print("whole batch      ", whole[:5])
print("average of 4     ", (sum(parts) / 4)[:5])
assert (sum(parts) / 4 - whole).abs().max() < 1e-12

# %% [markdown]
# What if the parts are not equal? The last part of a data set often has fewer rows.

# %% [markdown] tags=["your-turn"]
# ## Your turn: average the gradients of unequal parts
#
# Write `batch_gradient(gradients, rows)`. `gradients` has shape (rank, parameter): for each rank,
# the gradient of the mean loss over its own rows. `rows` has shape (rank,): how many rows each rank
# has, as floating-point numbers. Return the gradient of the mean loss over all rows, of shape
# (parameter,).
#
# *Hint:* Which factor turns a rank's mean into the sum over its rows? Add up the sums, and divide
# once.


# %% tags=["answer"]
def batch_gradient(gradients, rows):
    """Return the gradient of the mean over all rows, shape (parameter,)."""
    sums = gradients * rows.unsqueeze(1)
    return sums.sum(0) / rows.sum()


# %% tags=["check"]
check(
    batch_gradient,
    cases=[
        (mt.randn(3, 5), mt.tensor([4.0, 4.0, 3.0])),
        (mt.randn(2, 7), mt.tensor([5.0, 5.0])),
        (mt.randn(1, 2), mt.tensor([3.0])),
        (mt.randn(3, 3), mt.tensor([2.0, 0.0, 1.0])),  # a rank without rows
    ],
    expected=lambda gradients, rows: (rows / rows.sum()) @ gradients,
    properties={
        "equal gradients stay as they are": lambda g, gradients, rows: np.allclose(
            batch_gradient(gradients[:1].expand(*gradients.shape), rows).numpy(), gradients[0]
        )
    },
)

# %% [markdown]
# ## The naive way: all ranks send to rank 0
#
# From here on, the ranks are real: `run_ranks(4, function, ...)` starts four processes, which call
# the function and exchange messages through MPI. Each rank knows its number `dist.get_rank()` and
# the number of ranks, `dist.get_world_size()`. The result has one entry for each rank, and its
# attribute `messages` lists all messages.
#
# So that we can see which ranks have contributed to a sum, rank $k$ has the numbers $10^k, 2 \cdot
# 10^k, 3 \cdot 10^k$ and $4 \cdot 10^k$. In a sum, each digit shows which of the four numbers was
# added, and the position of the digit shows which rank the number came from. For example, 3033 is
# the sum of the third numbers of ranks 0, 1 and 3.


# %%
def digits():
    return mt.tensor([1.0, 2.0, 3.0, 4.0]) * 10 ** dist.get_rank()


def through_rank_0():
    x, ranks = digits(), dist.get_world_size()
    if dist.get_rank() > 0:
        dist.send(x, dst=0)
        dist.recv(x, src=0)
        return x
    for other in range(1, ranks):
        received = mt.empty(4)
        dist.recv(received, src=other)
        x += received
    for other in range(1, ranks):
        dist.send(x, dst=other)
    return x


naive = run_ranks(4, through_rank_0, uses=[digits])
print_messages(naive.messages)
print("every rank has", naive[3].tolist())
assert all(x.tolist() == [1111, 2222, 3333, 4444] for x in naive)
from_rank_0 = sum(m.values.nbytes for m in naive.messages if m.source == 0)
to_rank_0 = sum(m.values.nbytes for m in naive.messages if m.target == 0)
assert from_rank_0 == to_rank_0 == 3 * 16  # (N - 1) times the bytes of the tensor

# %% [markdown]
# Rank 0 receives $N - 1$ gradients and sends $N - 1$ sums, while the others wait. With 64 ranks,
# rank 0 receives 63 tensors and sends 63. Every other rank sends one and receives one.
#
# ## The ring
#
# Cut the tensor into $N$ parts, one for each rank. Every rank sends only to the next one, and rank
# $N - 1$ sends to rank 0.
#
# 1. **Reduce-scatter.** In step $s = 0, 1, \dots, N - 2$, rank $r$ sends part $r - 1 - s$ (modulo
#    $N$) to the next rank, which adds its own values of this part. So part $p$ starts at rank $p +
#    1$ and travels around the ring. Every rank on the way adds its values, and the sum is complete
#    when it arrives at rank $p$.
# 2. **All-gather.** The complete part $p$ starts at rank $p$ and travels around the ring once more.
#    Every rank on the way stores a copy.
#
# Each half has $N - 1$ rounds. In each round, all ranks send one part at the same time.


# %%
def ring():
    x = digits()
    with mt.trace(title=f"Ring all-reduce on rank {dist.get_rank()}") as t:
        dist.ring_all_reduce(x)
    return {"x": x, "table": t.table()}


ringed = run_ranks(4, ring, uses=[digits])
print_messages(ringed.messages)
assert all(result["x"].tolist() == [1111, 2222, 3333, 4444] for result in ringed)
complete = [m for m in ringed.messages if m.round == 4]  # the first round of the all-gather
assert all(m.values == 1111 * (m.source + 1) for m in complete)

# %% [markdown]
# Follow the threes: in round 1, rank 3 sends 3000 to rank 0. Rank 0 adds its 3 and sends 3003, rank
# 1 sends 3033, and rank 2 has the complete sum 3333 after round 3. In round 4, rank 2 is the first
# to pass this sum on.

# %% tags=["plot"]
figure = messages_figure(
    ringed.messages, 4, label=lambda m: f"{int(m.values[0]):04d}", title="Ring all-reduce"
)
show(
    figure,
    "Rounds 1 to 3 collect the sums, rounds 4 to 6 copy them. In each round every rank sends one "
    "number, a quarter of its tensor, and all connections are in use.",
)

# %% [markdown]
# The ranks recorded their operations, too. Here are the operations of rank 2. It cut its tensor
# into parts, and three times it added a part that it had received.

# %%
print(ringed[2]["table"])

# %% [markdown]
# To step through this recording, call `t.save_html("ring.html")` after the `with` block of `ring`.
# This call saves the recording as a web page. Use a different file name for each rank.


# %%
def all_steps(function, held):
    for step in range(len(held) - 1):
        held = function(held, step)
    return held


# %% [markdown] tags=["your-turn"]
# ## Your turn: a step of the reduce-scatter
#
# Write `reduce_step(held, step)` with NumPy. `held` contains the parts of all ranks before this
# step, and has the shape (rank, part, number). Return the parts of all ranks after the step, in an
# array of the same shape. All ranks send at the same time, and a rank keeps a copy of the part that
# it sends. `held` must not change.
#
# *Hint:* Rank $r$ sends part $(r - 1 - s) \bmod N$ to rank $(r + 1) \bmod N$. Read from the old
# array, and add to a copy.


# %% tags=["answer"]
def reduce_step(held, step):
    """Return the parts of all ranks after a step, in an array (rank, part, number)."""
    ranks, after = len(held), held.copy()
    for rank in range(ranks):
        part = (rank - 1 - step) % ranks
        after[(rank + 1) % ranks, part] += held[rank, part]
    return after


# %% tags=["check"]
check(
    reduce_step,
    cases=[
        (np.arange(50.0).reshape(5, 5, 2), 0),
        (np.arange(27.0).reshape(3, 3, 3), 1),
        (np.arange(10.0).reshape(2, 1, 5).repeat(2, 1), 0),
    ],
    expected=lambda held, step: (
        held + np.roll(held, 1, 0) * np.roll(np.eye(len(held)), -2 - step, 1)[:, :, None]
    ),
    properties={
        "each rank changes one part": lambda after, held, step: (
            (after != held).any(-1).sum(1) == 1
        ).all(),
        "after N - 1 steps, rank r has the sum of part r": lambda after, held, step: np.allclose(
            np.einsum("rrn->rn", all_steps(reduce_step, held)), held.sum(0)
        ),
    },
)

# %% [markdown]
# ## How many bytes, exactly?
#
# A rank sends one part in each of $2 (N - 1)$ rounds. If all parts have the same size, that is
#
# $$2\, \frac{N - 1}{N}$$
#
# times the bytes of the tensor. If the tensor cannot be divided evenly, the sizes of the parts
# differ by one number. In the reduce-scatter, rank $r$ sends all parts except part $r$, whose sum
# ends at this rank. In the all-gather, rank $r$ sends all parts except part $r + 1$, because the
# next rank already had this part when the all-gather started.

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the bytes
#
# Write `bytes_sent(numbers, ranks, rank)`: the number of bytes that a rank sends in a ring
# all-reduce of `numbers` float32 numbers, as an integer. The parts are as equal as possible, and
# the larger ones come first: 11 numbers make parts of 3, 3, 3 and 2 for four ranks.
#
# *Hint:* Use `divmod` to find the sizes of the parts. If a rank sent every part in both halves, it
# would send the tensor twice. Which two parts does it not send?


# %% tags=["answer"]
def bytes_sent(numbers, ranks, rank):
    """Return the bytes that a rank sends, an integer."""
    size, rest = divmod(numbers, ranks)
    parts = [size + (part < rest) for part in range(ranks)]
    return 4 * (2 * numbers - parts[rank] - parts[(rank + 1) % ranks])


# %% tags=["check"]
check(
    bytes_sent,
    cases=[(12, 4, 0), (11, 4, 2), (11, 4, 3), (2, 3, 1), (7, 1, 0)],
    expected=lambda numbers, ranks, rank: sum(
        4 * len(np.array_split(np.arange(numbers), ranks)[part % ranks])
        for step in range(ranks - 1)
        for part in (rank - 1 - step, rank - step)
    ),
    properties={
        "all ranks together send each number 2 (N - 1) times": lambda found, numbers, ranks, rank: (
            sum(bytes_sent(numbers, ranks, r) for r in range(ranks)) == 8 * numbers * (ranks - 1)
        )
    },
)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# A gradient has 1,000,000 bytes. How many bytes does each rank of the ring send with 2, 3 and 4
# ranks, and with 1,000 ranks? Write down your answers, then run the next cell.


# %%
def count(numbers):
    found = {}
    for size in (2, 3, 4):
        group = dist.new_group(list(range(size)))  # every rank must call this
        if dist.get_rank() < size:
            with dist.count_messages() as traffic:
                dist.ring_all_reduce(mt.ones(numbers), group=group)
            found[size] = traffic.bytes
    return found


counted = run_ranks(4, count, 250_000)
for size, sent in counted[0].items():
    print(f"{size:5} ranks: rank 0 sends {sent:9,} bytes (counted)")
print(f" 1000 ranks: each rank sends {2 * 999 / 1000 * 1_000_000:9,.0f} bytes (by the formula)")
for size, sent in counted[0].items():
    assert abs(sent - 2 * (size - 1) / size * 1_000_000) <= 8  # parts differ by one number

# %% tags=["plot"]
figure = new_figure(6.5, 3.2)
axes = figure.subplots()
sizes = np.array([2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
axes.loglog(sizes, sizes - 1, "o-", color=COLOURS[1], base=2)
axes.loglog(sizes, 2 * (sizes - 1) / sizes, "s-", color=COLOURS[0], base=2)
axes.text(64, 100, "rank 0 collects and distributes  ", color=COLOURS[1], ha="right")
axes.text(64, 2.7, "ring", color=COLOURS[0])
axes.set(xlabel="ranks", ylabel="tensors that the busiest rank sends", xticks=sizes)
axes.set(xticklabels=sizes, yticks=[1, 2, 16, 128, 1024], yticklabels=[1, 2, 16, 128, 1024])
axes.minorticks_off()
axes.spines[["top", "right"]].set_visible(False)
show(figure, "The busiest rank of the ring never sends more than twice the bytes of the tensor.")

# %% [markdown]
# With more ranks, there are more rounds, but the parts are smaller, and the two effects nearly
# cancel. No algorithm sends less (Patarasuk and Yuan 2009). Whatever the order, each number must be
# sent $N - 1$ times to be added up and $N - 1$ times to be copied, and the ring shares this work
# equally.
#
# But the number of rounds, $2 (N - 1)$, grows with $N$. If a message takes a fixed time $\alpha$
# and each byte the time $\beta$, the ring takes $2 (N - 1)\,\alpha + 2 \frac{N - 1}{N} B \beta$ for
# $B$ bytes. For small tensors, $\alpha$ dominates. This is why frameworks do not send the gradient
# of each parameter separately.
#
# ## Buckets: sending during the backward pass
#
# `DistributedDataParallel` collects gradients in **buckets**, and starts an all-reduce as soon as a
# bucket is full. The backward pass begins with the last layer, whose gradients are complete first.
# Their messages travel while the processor differentiates the earlier layers. A hook on each layer
# records how many all-reduces have started when the layer's backward pass ends.


# %%
def overlap():
    mt.manual_seed(1)
    layers = mt.nn.Sequential(*[mt.nn.Linear(64, 64) for _ in range(6)])
    model = mt.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.02)
    events = []
    with dist.count_messages() as traffic:
        for number, layer in enumerate(layers):
            layer.register_full_backward_hook(
                lambda *_, n=number: events.append([f"layer {n}", traffic["all_reduce"].calls])
            )
        model(mt.ones(3, 64)).sum().backward()
        events.append(["end", traffic["all_reduce"].calls])
    return events


(events, _) = run_ranks(2, overlap)
for name, started in events:
    print(f"{name}: {started} all-reduces have started")
assert [started for _, started in events] == sorted(started for _, started in events)
assert events[0][0] == "layer 5" and 0 < events[2][1] < events[-1][1]

# %% tags=["plot"]
figure = new_figure(7, 2.2)
axes = figure.subplots()
for place, (name, _) in enumerate(events[:-1]):
    axes.barh(0, 0.94, left=place, color="0.85")
    axes.text(place + 0.47, 0, name, ha="center", va="center", fontsize=9)
counts = [started for _, started in events]
for bucket in range(counts[-1]):
    place = next(i for i, started in enumerate(counts) if started > bucket)
    start = min(place + 1, len(events) - 1)  # it started before this layer's hook ran
    axes.barh(bucket + 1, 1.6, left=start, height=0.5, color=COLOURS[bucket])
axes.set_yticks(range(4), ["backward pass", "bucket 0", "bucket 1", "bucket 2"])
axes.set(xticks=[], xlabel="order of events", ylim=(3.6, -0.6))
axes.spines[:].set_visible(False)
show(
    figure,
    "The bar of a bucket starts where its all-reduce starts. The length of the bars is not "
    "measured, because it depends on the network. Only the all-reduce of the last bucket does not "
    "overlap with any computation.",
)

# %% [markdown]
# The gradients of one of these layers have 16,640 bytes. A bucket of 0.02 MiB, or 20,971 bytes, is
# therefore full only when it has the gradients of two layers. `backward()` waits for the messages
# only at its very end, when all buckets are on their way. PyTorch's buckets hold 25 MiB (Li et al.
# 2020, arXiv:2006.15704v1, section 3.2).
#
# ## The same training as one process
#
# The result must not depend on the number of ranks. This includes dropout: if all ranks have the
# same seed, each rank draws for its own rows the masks that these rows would get in a single
# process with the full batch.


# %%
def train(batch, parallel):
    model = build()
    if parallel:
        batch = batch.chunk(dist.get_world_size())[dist.get_rank()]
        model = mt.nn.parallel.DistributedDataParallel(model)
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
    mt.manual_seed(2)
    for _ in range(5):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return mt.cat([p.detach().reshape(-1) for p in model.parameters()])


alone = train(batch, False)
with_four = run_ranks(4, train, batch, True, uses=[build])
difference = max((weights - alone).abs().max().item() for weights in with_four)
print(f"5 steps of AdamW, 4 ranks and 1 process: weights differ by at most {difference:.0e}")
assert difference < 1e-12
assert (alone - train(batch[:3], False)).abs().max() > 1e-3  # a part of the batch is not enough

# %% [markdown]
# ## What goes wrong without equal weights, or without the average
#
# You can average the gradients yourself in one line of code, but two mistakes are common. In the
# first, the ranks start with different weights. In the second, they add up the gradients and forget
# to divide by $N$.


# %%
def by_hand(batch, seeds, average):
    model = build()
    mt.manual_seed(1 + seeds * dist.get_rank())
    for p in model.parameters():
        p.data = mt.randn(*p.shape).double() * 0.3
    before = mt.cat([p.detach().reshape(-1) for p in model.parameters()])
    model.eval()(batch.chunk(dist.get_world_size())[dist.get_rank()]).square().mean().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG if average else dist.ReduceOp.SUM)
        p.data = p.data - 0.1 * p.grad
    return before, mt.cat([p.detach().reshape(-1) for p in model.parameters()])


def mistakes(batch):
    kinds = {"correct": (0, True), "different weights": (1, True), "no average": (0, False)}
    return {name: by_hand(batch, *settings) for name, settings in kinds.items()}


first, second = run_ranks(2, mistakes, batch, uses=[by_hand, build])
for name in first:
    apart = [(a - b).abs().max().item() for a, b in zip(first[name], second[name], strict=True)]
    step = (first[name][1] - first[name][0]).norm().item()
    print(f"{name:18} ranks differ by {apart[0]:.3f}, after a step by {apart[1]:.3f}; "
          f"norm of the step {step:.3f}")  # fmt: skip
    if name == "different weights":
        assert abs(apart[0] - apart[1]) < 1e-12 and apart[0] > 0.1
    else:
        assert apart[1] == 0
right, wrong = (first[name][1] - first[name][0] for name in ("correct", "no average"))
assert (wrong - 2 * right).abs().max() < 1e-12

# %% [markdown]
# Different weights never become equal: all ranks subtract the same gradient, so the difference does
# not change. And the averaged gradient is not the gradient of any of the models. The library copies
# the weights of rank 0 at the start. Without the average, the step is $N$ times as large, which has
# the same effect as a learning rate that is $N$ times as large. The loss may still fall, and
# nothing raises an error.
#
# With a third mistake, the program does not finish at all: one rank skips an all-reduce, for
# example because it has run out of batches, and the others wait for it.


# %%
def one_batch_less():
    for _ in range(2 - dist.get_rank()):  # rank 1 has one batch fewer
        dist.all_reduce(mt.ones(3))


with fails(mt.errors.CommunicationError):
    run_ranks(2, one_batch_less, limit=4)

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.nn.parallel.gradient_reducer import GradientReducer

where(
    dist.ring_all_reduce, dist.all_reduce, dist.count_messages, GradientReducer,
    mt.nn.parallel.DistributedDataParallel,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# For small tensors, the number of rounds determines the time. Write `doubling()`, an all-reduce for
# 4 ranks with two rounds instead of six: in round $k$, rank $r$ exchanges its whole tensor with the
# rank whose number differs only in bit $k$ (`dist.get_rank() ^ 2**k`), and both add what they
# receive. Start a `dist.isend` of a copy before `dist.recv`, and `wait()` for it afterwards. Run it
# with `run_ranks` on the tensors of `digits()`, and plot its messages. How many bytes does a rank
# send? How many numbers must a tensor have for the ring to be faster, if a message takes 10
# microseconds and a byte takes a nanosecond?
#
# ## Three questions
#
# 1. Eight ranks have batches of 4 rows each. With which learning rate does one process with batches
#    of 32 rows compute the same updates?
# 2. Why does the reduce-scatter of the ring not give the same last digits as a sum in the order of
#    the ranks?
# 3. Which layer's gradients can be sent only after the whole backward pass is complete?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. With the same learning rate: the average of eight means over 4 rows is the mean over 32 rows.
# 2. Part $p$ is summed in the order $p + 1, p + 2, \dots, p$, a different order for each part, and
#    floating-point addition depends on the order. All ranks still have equal results, because the
#    complete part is copied.
# 3. The gradients of the first layer: the backward pass computes them last.
