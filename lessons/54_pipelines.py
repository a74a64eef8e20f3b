# %% [markdown]
# # Pipelines: the layers of one model on several machines
#
# A model does not fit on one machine, so each machine gets some of its layers. But a layer needs
# the output of the layer before it and, in the backward pass, the gradient from the layer after it.
# So the machines wait for each other. How much of the time do they wait, and how can they wait
# less?
#
# *Prerequisites:* the order of a backward pass (lesson 3), GPT (lesson 17), data parallel training
# (lesson 50), tensor parallelism (lesson 52), and sequence parallelism (lesson 53).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.rank_messages import print_messages
from minitorch_attn.course.ranks import run_ranks
from minitorch_attn.course.your_turn import check
from minitorch_attn.nn.parallel import GPipe, bubble_fraction, gpipe_schedule, pipeline_layers
from minitorch_attn.viz import messages_figure, pipeline_figure
from minitorch_attn.viz.style import COLOURS, new_figure

dist, F = mt.distributed, mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## One batch, one machine at a time
#
# Cut the layers into $N$ **stages**, and put each stage on its own rank. Stage $s$ sends its output
# to stage $s + 1$, and later receives the gradient of this output in return. Suppose that each
# forward and each backward pass of a stage takes one time slot. Then only one stage works at a
# time:

# %% tags=["plot"]
naive = gpipe_schedule(stages=4, micro_batches=1)
show(
    pipeline_figure(naive, "One batch, 4 stages"),
    "The batch moves down through the stages, and its gradient moves up. In every slot, only one "
    "of the four stages works.",
)

# %% [markdown]
# Each stage works in 2 of $2N$ slots and is idle for $(N - 1)/N$ of the time. Four machines
# together are only as fast as one. The only advantage is that the model fits into memory.
#
# ## Micro-batches
#
# GPipe (Huang et al. 2018, arXiv:1811.06965v5) cuts the batch into $M$ **micro-batches**. As soon
# as stage 0 has sent micro-batch 0 to stage 1, it starts on micro-batch 1.

# %% [markdown] tags=["your-turn"]
# ## Your turn: who works when?
#
# Write `forward_slots(stages, micro_batches)`: the schedule of the forward passes. It returns an
# int64 tensor of shape (stage, slot) with the number of the micro-batch that a stage computes in a
# slot, or -1 if the stage is idle. Every stage starts as early as possible, and the last slot is
# the one in which the last stage computes the last micro-batch.
#
# *Hint:* When does micro-batch $m$ arrive at stage $s$? Solve for $m$. A column of stages and a row
# of slots give the whole table at once. Which entries are not micro-batches?


# %% tags=["answer"]
def forward_slots(stages, micro_batches):
    """Return the micro-batch in each slot, shape (stage, slot); -1 if the stage is idle."""
    slots = mt.arange(micro_batches + stages - 1)
    m = slots - mt.arange(stages)[:, None]  # stage s computes m in slot s + m
    return mt.where((m >= 0) & (m < micro_batches), m, -1)


# %% tags=["check"]
check(
    forward_slots,
    cases=[(3, 5), (4, 2), (1, 3), (2, 1)],
    expected=lambda stages, micro_batches: mt.tensor(
        [
            [-1 if slot is None else slot[1] for slot in row[: len(row) // 2]]
            for row in gpipe_schedule(stages, micro_batches)
        ]
    ),
    properties={
        "every stage computes every micro-batch once": lambda found, stages, micro_batches: all(
            (found == m).sum() == stages for m in range(micro_batches)
        )
    },
)

# %% [markdown]
# Stage $s$ can compute micro-batch $m$ in slot $s + m$, so the forward passes end after
# $(N - 1) + (M - 1) + 1 = M + N - 1$ slots. The backward passes are the same in reverse: they start
# at the last stage. A stage works in $2M$ of $2(M + N - 1)$ slots. The rest is the **bubble**:
#
# $$1 - \frac{2M}{2 (M + N - 1)} = \frac{N - 1}{M + N - 1}.$$

# %%
print("micro-batches   idle time of 4 stages")
for micro_batches in (1, 2, 4, 8, 16, 32):
    bubble = (4 - 1) / (micro_batches + 4 - 1)
    print(f"{micro_batches:13}   {bubble:4.0%}")
    assert abs(bubble - bubble_fraction(gpipe_schedule(4, micro_batches))) < 1e-12

# %% tags=["plot"]
show(
    pipeline_figure(gpipe_schedule(4, 6), "GPipe: 4 stages, 6 micro-batches"),
    "Stages are idle while the pipeline fills and while it empties. The number of these slots does "
    "not depend on the number of micro-batches.",
)

# %% [markdown]
# The paper calls the bubble negligible if $M \ge 4N$ (section 2.3). But more micro-batches are not
# free: products of small matrices are slower per row, and each micro-batch is one more message.
#
# ## A real run
#
# The loss is a mean over the batch, $L = \frac1M \sum_m L_m$ for equal micro-batches. So the
# gradient is the mean of the micro-batches' gradients. The last stage backpropagates $L_m / M$, and
# in each stage `backward()` adds up the gradients of the micro-batches, as it always does. Here are
# three stages on three ranks. Each stage has one layer of two features. There are two micro-batches
# of one example each.


# %%
def three_layers():
    """Return three small layers, which are equal on all ranks."""
    mt.manual_seed(0)
    return [mt.nn.Sequential(mt.nn.Linear(2, 2), mt.nn.Tanh()).double() for _ in range(3)]


def pipeline_step(x, targets, micro_batches):
    """Return the loss and the gradients of the rank's own stage."""
    pipeline = mt.nn.parallel.GPipe(three_layers(), micro_batches)
    loss = pipeline.step(x, targets, mt.nn.functional.mse_loss)
    return loss, [p.grad for p in pipeline.parameters()]


x, targets = mt.randn(2, 2, dtype="float64"), mt.randn(2, 2, dtype="float64")
run = run_ranks(3, pipeline_step, x, targets, 2, uses=[three_layers])
print_messages(run.messages)

# %% [markdown]
# The first message of a stage contains the shape and the dtype of the activations. Then the
# activations of two micro-batches go forward (to a higher rank), and their two gradients come back
# (to a lower rank). No message contains parameters or their gradients.

# %% tags=["plot"]
names = {}  # id of a message -> its label
for source in range(3):
    sent = [m for m in run.messages if m.source == source]
    forward = [m for m in sent if m.target > source and m.values.dtype == "float64"]
    backward = [m for m in sent if m.target < source]
    names |= {id(m): f"output of {k}" for k, m in enumerate(forward)}
    names |= {id(m): f"gradient of {1 - k}" for k, m in enumerate(backward)}
show(
    messages_figure(
        run.messages, 3, label=lambda m: names.get(id(m), "shape"),
        title="GPipe: 3 stages, 2 micro-batches",
    ),
    "Outputs go to the next stage, first those of micro-batch 0, then those of micro-batch 1. "
    "Gradients come back in the reverse order.",
)  # fmt: skip

# %% [markdown]
# A single process must get the same loss and the same gradients, whether it computes the
# micro-batches one after the other or the whole batch at once.

# %%
x, targets = mt.randn(12, 2, dtype="float64"), mt.randn(12, 2, dtype="float64")
run = run_ranks(3, pipeline_step, x, targets, 4, uses=[three_layers])
for micro_batches in (4, 1):
    alone, losses = mt.nn.Sequential(*three_layers()), []
    for part, target in zip(x.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
        loss = F.mse_loss(alone(part), target) / micro_batches
        loss.backward()  # adds to the gradients of the micro-batches before
        losses.append(loss.item())
    found = [gradient for _, gradients in run for gradient in gradients]
    pairs = zip(found, alone.parameters(), strict=True)
    difference = max((gradient - p.grad).abs().max().item() for gradient, p in pairs)
    print(f"3 ranks against one process with {micro_batches} micro-batches: loss {run[0][0]:.12f} "
          f"and {sum(losses):.12f}, gradients differ by {difference:.1e}")  # fmt: skip
    assert abs(run[0][0] - sum(losses)) < 1e-12 and difference < 1e-12

# %% [markdown]
# ## Memory: how long does a stage keep its activations?
#
# A stage can free the activations of a micro-batch after the micro-batch's backward pass. In GPipe,
# the first backward pass comes after the last forward pass, so a stage keeps the activations of all
# $M$ micro-batches. We measure this memory with micro-batches of four examples.


# %%
def saved_bytes(counts):
    """Return the largest number of bytes saved for backward, for each number of micro-batches."""
    found = []
    for count in counts:
        layers = [mt.nn.Sequential(mt.nn.Linear(64, 64), mt.nn.Tanh()) for _ in range(3)]
        pipeline = mt.nn.parallel.GPipe(layers, count)
        x = mt.ones(4 * count, 64)
        with mt.memory.track(pipeline) as memory:
            pipeline.step(x, x, mt.nn.functional.mse_loss)
        found.append(max(memory.by_kind()["saved for backward"]))
    return found


counts = [1, 2, 4, 8]
run = run_ranks(3, saved_bytes, counts)
print("activations that a stage keeps, in KiB")
print("micro-batches  " + "  ".join(f"{count:6}" for count in counts))
for stage, found in enumerate(run):
    print(f"stage {stage}        " + "  ".join(f"{size / 1024:6.1f}" for size in found))
for found in run:
    growth = np.diff(found) / np.diff(counts)  # bytes for each further micro-batch
    assert growth.min() == growth.max() > 0

# %% [markdown]
# Each additional micro-batch needs the same amount of memory. (The last stage also keeps the
# tensors that the loss needs.) PipeDream (Narayanan et al. 2019, arXiv:1806.03377) computes the
# passes in a different order, so that a stage keeps the activations of fewer micro-batches: **one
# forward, one backward** (1F1B). A stage starts a backward pass as soon as it can. The last stage
# alternates from the start: forward $m$ in slot $N - 1 + 2m$, backward $m$ in the slot after it.
# The gradient then reaches the previous stage in the next slot, and so on. So stage $s$ computes
# the backward pass of micro-batch $m$ in slot
#
# $$\text{backward}(s, m) = N + 2m + (N - 1 - s) = 2N - 1 - s + 2m.$$
#
# Suppose that stage $s$ keeps at most $N - s$ micro-batches. If $m \ge N - s$, the stage then
# has to finish the backward pass of micro-batch $m - (N - s)$, and free its activations, before the
# forward pass of micro-batch $m$. By the formula above, this backward pass is in slot
# $2N - 1 - s + 2 (m - N + s) = 2m + s - 1$. Hence
#
# $$\text{forward}(s, m) = \begin{cases} s + m & \text{if } m < N - s, \\
#   2m + s & \text{otherwise.} \end{cases}$$
#
# Stage $s - 1$ computes micro-batch $m$ at least one slot earlier, so the input has arrived by
# then. (PipeDream itself does not wait for all micro-batches before an update, so different
# micro-batches use different versions of the weights. The schedule below is the variant that
# updates after $M$ micro-batches, as Megatron-LM does: Narayanan et al. 2021, arXiv:2104.04473,
# section 2.2.1.)


# %%
def one_forward_one_backward(stages, micro_batches):
    """Return the 1F1B schedule, in the format of gpipe_schedule."""
    rows = [[None] * (2 * (micro_batches + stages - 1)) for _ in range(stages)]
    for stage, row in enumerate(rows):
        for m in range(micro_batches):
            forward = stage + m if m < stages - stage else 2 * m + stage
            backward = 2 * stages - 1 - stage + 2 * m
            assert row[forward] is None and row[backward] is None  # one task per slot
            row[forward], row[backward] = ("forward", m), ("backward", m)
    return rows


for sizes in ((4, 6), (4, 2), (3, 9), (5, 5)):
    assert bubble_fraction(one_forward_one_backward(*sizes)) == bubble_fraction(
        gpipe_schedule(*sizes)
    )

# %% tags=["plot"]
show(
    pipeline_figure(one_forward_one_backward(4, 6), "1F1B: 4 stages, 6 micro-batches"),
    "The bubble is as large as in GPipe. But the last stage keeps the activations of one "
    "micro-batch at a time, and stage 0 those of at most four.",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: what a stage keeps
#
# Write `most_kept(row)`. `row` is one row of a schedule: a list of `("forward", m)`, `("backward",
# m)` and None. Return the largest number of micro-batches whose activations the stage keeps at the
# same time, as an integer. The stage keeps the activations of a micro-batch from its forward pass
# to its backward pass.
#
# *Hint:* Walk through the slots with a counter. What does each kind of slot do to it, and when is
# it largest?


# %% tags=["answer"]
def most_kept(row):
    """Return the largest number of micro-batches that wait for their backward pass."""
    kept = most = 0
    for slot in row:
        if slot is not None:
            kept += 1 if slot[0] == "forward" else -1
            most = max(most, kept)
    return most


# %% tags=["check"]
check(
    most_kept,
    cases=[
        *[(row,) for row in gpipe_schedule(3, 5)],
        *[(row,) for row in one_forward_one_backward(4, 7)],
        (one_forward_one_backward(4, 2)[0],),
        ([None, ("forward", 0), None, ("backward", 0)],),
    ],
    expected=lambda row: int(
        np.cumsum([0 if slot is None else 1 if slot[0] == "forward" else -1 for slot in row]).max()
    ),
    properties={
        "a stage keeps at least one micro-batch, and at most all": lambda most, row: (
            1 <= most <= sum(slot is not None for slot in row) // 2
        )
    },
)

# %%
print("micro-batches that a stage keeps, 4 stages")
print("micro-batches    GPipe   1F1B: stage 0   1   2   3")
for micro_batches in (1, 2, 4, 8, 32):
    rows = one_forward_one_backward(4, micro_batches)
    started = [row[: row.index(("backward", 0))] for row in rows]  # before the first backward pass
    kept = [sum(slot is not None for slot in slots) for slots in started]
    assert kept == [min(4 - stage, micro_batches) for stage in range(4)]
    print(f"{micro_batches:8} {micro_batches:12} {kept[0]:15} {kept[1]:3} {kept[2]:3} {kept[3]:3}")

# %% [markdown]
# With 1F1B, memory no longer limits the number of micro-batches, and the bubble can be made small.
# GPipe's own remedy is to keep only the input of a stage and to compute its activations a second
# time (section 2.3 of the paper), at the cost of about a third more computation.
#
# ## Unequal layers
#
# So far, all stages took the same time. Now suppose that a forward pass of stage $s$ takes time
# $t_s$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: when is it finished?
#
# Write `finish_times(times, micro_batches)`. `times` has shape (stage,): the time that each stage
# takes for one micro-batch. Return a tensor of shape (stage, micro-batch) with the time at which
# each stage finishes each micro-batch. The first micro-batch starts at time 0, and messages take no
# time.
#
# *Hint:* A stage starts a micro-batch when two things have happened: the previous stage has
# finished it, and the stage itself has finished the previous micro-batch. Fill a list of rows, row
# by row.


# %% tags=["answer"]
def finish_times(times, micro_batches):
    """Return when each stage finishes each micro-batch, shape (stage, micro-batch)."""
    zero = times[0] * 0
    rows, before = [], [zero] * micro_batches  # before: arrival times of the micro-batches
    for duration in times:
        row = [zero]
        for arrival in before:
            row.append(mt.maximum(row[-1], arrival) + duration)
        before = row[1:]
        rows.append(mt.stack(before))
    return mt.stack(rows)


# %% tags=["check"]
check(
    finish_times,
    cases=[
        (mt.tensor([2.0, 5.0, 3.0]), 4),
        (mt.tensor([7.0, 1.5]), 3),
        (mt.tensor([1.0, 2.5, 1.2, 4.0, 0.5]), 2),
        (mt.tensor([3.0]), 5),
    ],
    expected=lambda times, micro_batches: mt.stack(
        [
            mt.stack(
                [
                    times[: stage + 1].sum() + m * times[: stage + 1].max()
                    for m in range(micro_batches)
                ]
            )
            for stage in range(len(times))
        ]
    ),
    properties={
        "doubling all times doubles the result": lambda found, times, micro_batches: np.allclose(
            finish_times(2 * times, micro_batches), 2 * found
        )
    },
)

# %% [markdown]
# The check uses a formula. The first micro-batch passes through all stages without waiting and
# takes $\sum_s t_s$. From then on, the last stage gets a new micro-batch whenever the slowest stage
# has finished one, so the forward passes take
#
# $$\sum_s t_s + (M - 1) \max_s t_s.$$

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Four equal stages compute 32 micro-batches. Then one of them becomes twice as slow, so the total
# work grows by a quarter. How much longer do the forward passes take, and does it matter which
# stage is slow? Write down your answers, then run the next cell.

# %%
equal = 4 + 31 * 1
for slow in range(4):
    times = [2 if stage == slow else 1 for stage in range(4)]
    total = sum(times) + 31 * max(times)
    idle = 1 - 32 * sum(times) / (4 * total)
    print(f"stage {slow} slow: time {total} instead of {equal}, {total / equal:.2f} times as long; "
          f"the stages are idle {idle:.0%} of the time")  # fmt: skip
    assert total == 67

# %% [markdown]
# They take nearly twice as long, wherever the slow stage is. All other stages wait for the slowest
# stage in every slot. This happens in a GPT, because its output layer takes much longer than a
# block. In GPT-2, the output layer multiplies each token by $768 \times 50257 = 39$ million
# weights, and a block has $12 \cdot 768^2 = 7$ million. The stage with the output layer should
# therefore have five fewer blocks than the others. The library's `GPipe` gives the stages the same
# number of layers, give or take one, however long each layer takes.
#
# ## What goes wrong with a mean of means
#
# $L = \frac1M \sum_m L_m$ holds only if every $L_m$ is a mean of the same number of terms. In
# language models, padding has the target -100 and does not count. Equal numbers of *rows* can then
# have very different numbers of *tokens*.

# %%
logits = mt.randn(8, 6, 11, dtype="float64")  # (row, token, class)
targets = mt.randint(0, 11, (8, 6))
for row, length in enumerate([6, 6, 6, 6, 2, 1, 2, 1]):  # short texts at the end
    targets[row, length:] = -100


def mean_loss(z, y):
    return F.cross_entropy(z.reshape(-1, 11), y.reshape(-1), ignore_index=-100)


def gradient(loss_of_part):
    """Return the loss and the gradient of the logits, summed over 4 micro-batches."""
    z, total = logits.clone().requires_grad_(), 0.0
    for part, target in zip(z.chunk(4), targets.chunk(4), strict=True):
        loss = loss_of_part(part, target)
        loss.backward()
        total += loss.item()
    return total, z.grad


def share_of_tokens(z, y):
    tokens, all_tokens = ((labels != -100).sum().item() for labels in (y, targets))
    return mean_loss(z, y) * (tokens / all_tokens)


z = logits.clone().requires_grad_()
whole = mean_loss(z, targets)
whole.backward()
wrong, wrong_gradient = gradient(lambda z, y: mean_loss(z, y) / 4)
right, right_gradient = gradient(share_of_tokens)
factors = [(wrong_gradient[row, 0] / z.grad[row, 0]).mean().item() for row in (0, 7)]
print(f"whole batch {whole.item():.6f}, mean of means {wrong:.6f}, by tokens {right:.6f}")
print(f"gradient of a token in a long text: {factors[0]:.2f} times the correct one")
print(f"gradient of a token in a short text: {factors[1]:.2f} times the correct one")
assert abs(right - whole.item()) < 1e-12 and (right_gradient - z.grad).abs().max() < 1e-12
assert abs(wrong - whole.item()) > 1e-3
assert np.allclose(factors, [30 / 12 / 4, 30 / 3 / 4])

# %% [markdown]
# Tokens of short texts count four times as much as those of long texts. The loss looks normal, and
# the model learns, but it minimizes a different loss. Each micro-batch has to be weighted by its
# share of the tokens.
#
# Layers that combine several examples cannot be fixed so easily. `BatchNorm` normalizes with the
# statistics of the current micro-batch, so its output depends on how the batch is cut:

# %%
norm = mt.nn.BatchNorm1d(3)
x = mt.randn(8, 3)
cut = mt.cat([norm(part) for part in x.chunk(4)])
print(f"BatchNorm: whole and cut batch differ by up to {(norm(x) - cut).abs().max().item():.2f}")
assert (norm(x) - cut).abs().max() > 0.1

# %% [markdown]
# If a batch cannot be cut into equal parts, the rank that cuts it raises an error:

# %%
with fails(mt.errors.CommunicationError):
    x = mt.ones(10, 2, dtype="float64")
    run_ranks(3, pipeline_step, x, x, 4, uses=[three_layers])

# %% [markdown]
# ## Five ways to split the work
#
# Lessons 50 to 54 have split the batch, the state of the optimizer, the matrices, the sequence and
# the layers. Finally, we train the same GPT in each of the five ways for two steps on four ranks,
# with `count_messages` around the second step. The loss must be the same for all of them.


# %%
def token_loss(logits, targets):
    return mt.nn.functional.cross_entropy(logits.reshape(-1, 65), targets.reshape(-1))


def split_model(way, model):
    """Return the split model and its optimizer."""
    parallel, AdamW = mt.nn.parallel, mt.optim.AdamW
    if way in ("data", "sharded"):
        model = parallel.DistributedDataParallel(model)
    elif way == "tensor":
        model = parallel.tensor_parallel(model)
    elif way == "sequence":
        model = parallel.SequenceParallel(model)
    else:
        model = parallel.GPipe(parallel.pipeline_layers(model), micro_batches=4)
    if way == "sharded":
        return model, mt.optim.ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=0.01)
    return model, AdamW(model.parameters(), lr=0.01)


def one_step(way, model, ids, targets):
    """Compute the gradients of one batch, and return the loss of this rank."""
    if way == "pipeline":
        return model.step(ids, targets, token_loss)
    if way == "sequence":
        loss = model.loss(ids, targets)
    else:
        if way in ("data", "sharded"):  # each rank has its own rows
            ids, targets = (x.chunk(dist.get_world_size())[dist.get_rank()] for x in (ids, targets))
        loss = token_loss(model(ids), targets)
    loss.backward()
    if way == "sequence":
        model.sum_gradients()
    return loss.item()


# %%
def compare(ways, num_layers):
    """For each way, return this rank's loss, messages, bytes, parameters, state and saved bytes."""
    rows = []
    for way in ways:
        mt.manual_seed(0)
        model = mt.models.GPT(65, 64, embed_dim=32, num_heads=4, num_layers=num_layers)
        data = mt.randint(0, 65, (8, 65))
        model, optimizer = split_model(way, model)
        for _ in range(2):  # the second loss depends on the gradients of the first step
            optimizer.zero_grad()
            with dist.count_messages() as traffic, mt.memory.track(model) as memory:
                loss = one_step(way, model, data[:, :-1], data[:, 1:])
                optimizer.step()
        saved = max(memory.by_kind()["saved for backward"])
        parameters = sum(p.numel() for p in model.parameters())
        state = sum(x.numel() for own in optimizer.state.values() for x in own.values()
                    if isinstance(x, mt.Tensor) and x.ndim)  # fmt: skip
        rows.append([loss, traffic.messages, traffic.bytes, parameters, state, saved])
    return rows


ways = {"data": "batch", "sharded": "batch, optimizer", "tensor": "heads, features",
        "sequence": "tokens", "pipeline": "layers"}  # fmt: skip
layers = pick(6, 4)
run = run_ranks(4, compare, list(ways), layers, uses=[token_loss, split_model, one_step])
tables = np.array(run)  # (rank, way, column)
print(f"GPT with {layers} blocks, 4 ranks, 8 sequences of 64 tokens: the maximum over the ranks")
print("         what is split     messages  bytes sent  parameters    state  activations (bytes)")
for way, (name, what) in enumerate(ways.items()):
    loss, most = tables[:, way, 0].mean(), tables[:, way, 1:].max(0)
    widths = (8, 11, 11, 8, 20)
    numbers = [f"{number:{width},.0f}" for number, width in zip(most, widths, strict=True)]
    print(f"{name:8} {what:17}", *numbers)
    assert abs(loss - tables[:, 2, 0].mean()) < 1e-4, (name, loss)  # float32 rounding
print("losses of the second step", tables[:, :, 0].mean(0).round(5))

# %% [markdown]
# Each way divides something different. Sharding divides the state of the optimizer. Tensor
# parallelism and the pipeline divide the parameters, too. Sequence parallelism divides neither, but
# it is the only one that divides the activations of a *single* sequence by tokens. (In data
# parallelism, a rank has a quarter of the activations here because it has a quarter of the batch.)
#
# The numbers of bytes follow from the sizes of the model and the batch. With $P$ parameters, $L$
# blocks, $B$ sequences of $T$ tokens, embedding size $E$ and 4 bytes per number, a rank sends
#
# * data: the gradients, $2 \frac{N-1}{N} P$ numbers,
# * sharded: the same for the gradients, and half as many numbers for the updated parameters,
# * tensor: $4L$ all-reduces of $BTE$ numbers, each $2 \frac{N-1}{N} BTE$,
# * sequence: $L (3N - 2)$ messages of $2BTE / N$ numbers, because attention in each of the $L$
#   blocks of the model needs $N - 1$ messages in the forward pass and $(N - 1) + N$ in the backward
#   pass (lesson 53); the gradients as in data parallelism,
# * pipeline: $BTE$ to the next stage and $BTE$ back, **whatever the number of layers**. A rank also
#   sends the shape of the activations and the loss, which are a few bytes. The first and the last
#   stage also add up their gradients of the tied embedding.

# %%
P, L, N, BTE = int(tables[0, 0, 3]), layers, 4, 8 * 64 * 32
gradients = 2 * (N - 1) / N * P * 4
data, sharded, tensor, sequence, pipeline = tables[1, :, 2]  # rank 1, a stage in the middle
assert data == gradients and abs(sharded / (1.5 * gradients) - 1) < 0.001
assert tensor == 4 * L * 2 * (N - 1) / N * BTE * 4
assert abs(sequence - L * (3 * N - 2) * 2 * BTE / N * 4 - gradients) <= 8  # 8 bytes: the loss
assert pipeline == 2 * BTE * 4 + 9 * 8 + 8  # a shape message of 9 numbers, and the loss

# %% tags=["plot"]
figure = new_figure(6.4, 2.6)
axes = figure.subplots()
most = tables[:, :, 2].max(0) / 1000
bars = axes.barh(list(ways), most, color=COLOURS[0])
axes.bar_label(bars, [f"{size:,.0f} kB" for size in most], padding=3)
axes.invert_yaxis()
axes.set(xlabel="kB that a rank sends in one step", xlim=(0, 1.2 * max(most)))
axes.spines[["top", "right"]].set_visible(False)
axes.tick_params(axis="y", length=0)
show(
    figure,
    "A pipeline sends the fewest bytes. Its disadvantage is the idle time, which the figure does "
    "not show.",
)

# %% [markdown]
# None of the five ways is best in all cases. Data parallelism needs the whole model on each rank.
# Tensor parallelism sends messages most often, and the ranks wait for each one, so its ranks should
# be within one machine. A pipeline sends little and tolerates slow networks, but it has the bubble.
# Large models are trained with a combination: tensor parallelism within a machine, a pipeline
# across machines, and data parallelism around both.
#
# ## In the library

# %%
where(GPipe, GPipe.step, gpipe_schedule, bubble_fraction, pipeline_layers, pipeline_figure)

# %% [markdown]
# ## Exercise
#
# Write `best_cuts(times, stages)`: cut a list of layer times into consecutive stages such that the
# slowest stage is as fast as possible. Use it for GPT-2: 12 blocks that take 7 units of time each
# and an output layer that takes 39, with 2 to 5 stages. You are done when your slowest stage is as
# fast as with a brute-force search over all cuts, for 100 random lists of up to 8 layers. Why does
# the fourth stage help so little, and the fifth not at all? Which lesson's method would help?
#
# ## Three questions
#
# 1. Eight stages train with 8 micro-batches. You may double the number of micro-batches or halve
#    the number of stages. Which of the two makes the bubble smaller?
# 2. Why does 1F1B not have a smaller bubble than GPipe, and why do people use it anyway?
# 3. With 6 blocks, tensor parallelism sends 18 times as many bytes as the pipeline. What in the
#    formulas makes the difference grow with the depth of the model?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Halving the number of stages: the bubble is then $3/11 = 27\,\%$ instead of $7/15 = 47\,\%$.
#    Doubling the micro-batches gives $7/23 = 30\,\%$. But with half the stages, each rank has to
#    hold twice as many layers.
# 2. The first forward pass still has to go through all stages, and the last backward pass has to
#    come back through all of them. The number of idle slots is the same. But a stage keeps at most
#    $N - s$ micro-batches instead of $M$, so $M$ can be large, and a large $M$ makes the bubble
#    small.
# 3. Tensor parallelism has 4 all-reduces in each block, so its bytes grow with $L$. A pipeline
#    sends only at the boundaries between stages, and each rank has at most two boundaries.
