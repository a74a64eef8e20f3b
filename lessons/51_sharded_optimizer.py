# %% [markdown]
# # Sharding the optimizer: ZeRO
#
# Data parallel training copies everything to every rank: the weights, the gradients and the
# optimizer's state. Adam's state alone is twice as large as the weights. Must every rank keep all
# of it? And why do the ranks send no additional bytes if each keeps only its share?
#
# *Prerequisites:* training a GPT (lesson 17), half precision (lesson 31), the ring all-reduce
# (lesson 50).

# %%
from collections import Counter

import numpy as np

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.ranks import run_ranks
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz import messages_figure
from minitorch_attn.viz.style import COLOURS, new_figure

F = mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## Where the memory goes
#
# `mt.memory.track` records what is in memory during a training step of a small GPT in float32. We
# divide the number of bytes by the number of parameters of the model.

# %%
model = mt.models.GPT(65, 32, embed_dim=96, num_heads=4, num_layers=pick(4, 2))
optimizer = mt.optim.AdamW(model.parameters(), lr=1e-3)
data = mt.randint(0, 65, (8, 33))


def step():
    optimizer.zero_grad()
    logits = model(data[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, data[:, 1:].flatten()).backward()
    optimizer.step()


step()
with mt.memory.track(model, optimizer) as memory:
    step()
kinds = Counter()
for block in memory.at_peak():
    kinds[block.kind_at(memory.peak_moment)] += block.nbytes
kinds["gradient"] = sum(p.grad.array.nbytes for p in model.parameters())  # after backward()
parameters = sum(p.numel() for p in model.parameters())
print(f"{parameters:,} parameters")
for kind in ("parameter", "gradient", "optimizer state", "saved for backward"):
    print(f"  {kind:18} {kinds[kind]:10,} bytes, {kinds[kind] / parameters:5.2f} per parameter")
assert kinds["parameter"] == kinds["gradient"] == 4 * parameters
assert 0 <= kinds["optimizer state"] - 8 * parameters < 1000  # the rest counts the steps

# %% [markdown]
# The tensors saved for the backward pass (the *activations*) grow with the batch. They can also be
# computed again instead of being saved. The parameters, the gradients and the optimizer's state do
# not depend on the batch: together they take 16 bytes for each parameter, of which Adam's two
# averages take 8.
#
# With half precision (lesson 31), a parameter also takes 16 bytes: 2 for the weight, 2 for the
# gradient, and 12 for the optimizer, which keeps the two averages and a float32 copy of the
# weight. This is the starting point of Rajbhandari et al. (2020, arXiv:1910.02054v3, section 3.1).
# A GPT-2 with 1.5 billion parameters has weights of 3 GB, but training needs 24 GB even without any
# activations.
#
# ## Three stages
#
# In data parallel training, every rank holds these 16 bytes for each parameter. **ZeRO** ("zero
# redundancy") divides them in three stages. Each stage divides one more of the three kinds, so that
# each of $N$ ranks holds only $1/N$ of it:
#
# * stage 1 divides the optimizer's state,
# * stage 2 also divides the gradients,
# * stage 3 also divides the weights.

# %% [markdown] tags=["your-turn"]
# ## Your turn: bytes per parameter
#
# Write `bytes_per_parameter(stage, ranks)`: the bytes that each rank holds for each parameter of
# the model in half precision, with 2 for the weights, 2 for the gradients and 12 for the optimizer.
# Stage 0 is plain data parallel training.
#
# *Hint:* Start with the three numbers. Each stage divides one more of them.


# %% tags=["answer"]
def bytes_per_parameter(stage, ranks):
    """Return how many bytes each rank stores for each parameter."""
    whole = [12, 2, 2]  # optimizer, gradients, weights, in the order of the stages
    shared, copied = whole[:stage], whole[stage:]
    return sum(shared) / ranks + sum(copied)


# %% tags=["check"]
check(
    bytes_per_parameter,
    cases=[(0, 64), (1, 64), (2, 64), (3, 64), (2, 3), (1, 1)],
    expected=lambda stage, ranks: (
        (2 / ranks if stage > 2 else 2)
        + (2 / ranks if stage > 1 else 2)
        + (12 / ranks if stage > 0 else 12)
    ),
    properties={
        "one rank needs 16 bytes in every stage": lambda found, stage, ranks: (
            bytes_per_parameter(stage, 1) == 16
        )
    },
)

# %% [markdown]
# Figure 1 of the paper gives the memory per GPU for a model with 7.5 billion parameters on 64 GPUs.
# Do we get the same numbers?

# %%
parts = {"weights": 2, "gradients": 2, "optimizer": 12}  # bytes per parameter
stages = np.array([list(parts.values())] * 4, dtype=float)
for stage, kinds_shared in ((1, [2]), (2, [1, 2]), (3, [0, 1, 2])):
    stages[stage, kinds_shared] /= 64
gigabytes = 7.5 * stages  # 7.5 billion parameters
print("stage   weights  gradients  optimizer     all, in GB")
for stage, row in enumerate(gigabytes):
    print(f"{stage:5} {row[0]:9.2f} {row[1]:10.2f} {row[2]:10.2f} {row.sum():12.1f}")
assert np.allclose(gigabytes.sum(1), [120, 31.4, 16.6, 1.9], atol=0.05)

# %% tags=["plot"]
figure = new_figure(6.5, 2.8)
axes = figure.subplots()
left = np.zeros(4)
for (name, _), amounts, color in zip(parts.items(), gigabytes.T, COLOURS, strict=False):
    axes.barh(range(4), amounts, left=left, color=color, label=name)
    left += amounts
for stage, amount in enumerate(left):
    axes.text(amount + 1.5, stage, f"{amount:.1f} GB", va="center")
axes.set_yticks(range(4), ["data parallel", "stage 1", "stage 2", "stage 3"])
axes.invert_yaxis()
axes.set(xlabel="GB on each of 64 GPUs", xlim=(0, 140))
axes.legend(loc="lower right", frameon=False)
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "A model with 7.5 billion parameters. Stage 1 removes nearly all of the largest part, and "
    "stage 3 leaves a 64th of everything.",
)

# %% [markdown]
# ## Who updates what?
#
# In stage 1, every parameter has an owner, the rank that keeps its optimizer state and updates it.
# To give all ranks about the same work, the library assigns whole parameters, starting with the
# largest. Each one goes to the rank that has the fewest numbers so far. This function defines the
# owner:


# %%
def owner_of(i, sizes, ranks):
    """Return the owner of parameter i. Slow: it also computes the owners of larger parameters."""
    before = [j for j in range(len(sizes)) if (-sizes[j], j) < (-sizes[i], i)]
    owners = np.array([owner_of(j, sizes, ranks) for j in before], dtype=int)
    loads = np.bincount(owners, [sizes[j] for j in before], minlength=ranks)
    return int(loads.argmin())


print([owner_of(i, [5, 3, 4], 2) for i in range(3)])

# %% [markdown] tags=["your-turn"]
# ## Your turn: assign the parameters
#
# Write `assign(sizes, ranks)`, which computes all owners in one pass over the parameters, without
# calling `owner_of`. `sizes` is a list with the size of each parameter. Return the list of owners.
# If two parameters have the same size, the earlier one comes first. If two ranks have the same
# load, the lower rank gets the next parameter.
#
# *Hint:* `sorted` keeps the order of equal entries. Sort the parameters' *indices* by negative
# size, and keep a list with the load of each rank.


# %% tags=["answer"]
def assign(sizes, ranks):
    """Return the owner of each parameter, a list of ranks."""
    owners, loads = [0] * len(sizes), [0] * ranks
    for number in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owner = loads.index(min(loads))
        owners[number] = owner
        loads[owner] += sizes[number]
    return owners


# %% tags=["check"]
check(
    assign,
    cases=[
        ([3, 11, 5, 7, 2], 2),
        ([5, 5, 5, 5], 3),
        ([2, 3], 5),  # more ranks than parameters
        ([7, 1, 1, 1, 1, 1, 1, 1], 2),
    ],
    expected=lambda sizes, ranks: [owner_of(i, sizes, ranks) for i in range(len(sizes))],
    properties={
        "loads differ by at most the largest parameter": lambda owners, sizes, ranks: (
            np.ptp(np.bincount(owners, sizes, minlength=ranks)) <= max(sizes)
        )
    },
)

# %% [markdown]
# ## A step of stage 1
#
# In plain data parallel training, an all-reduce gives every rank the average gradient. Lesson 50
# built the all-reduce from two halves. Stage 1 updates the weights between these two halves:
#
# 1. **Reduce-scatter** of the gradients: each rank has the average of *its part*.
# 2. Adam updates this part of the weights, with the state of this part. Adam treats each number
#    separately, so it does not need the others.
# 3. **All-gather** of the weights: each rank sends its new part to all the others.
#
# Here are four real ranks, with a flat vector of weights that is cut into four equal parts.


# %%
def plain_steps(weights, gradients):
    """Take AdamW steps with the ranks' mean gradient. `gradients`: (step, rank, parameter)."""
    weights = mt.nn.Parameter(weights.clone())
    optimizer = mt.optim.AdamW([weights], lr=0.1)
    for of_ranks in gradients:
        weights.grad = of_ranks.mean(0)
        optimizer.step()
    return weights.detach()


def sharded_steps(weights, gradients):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = mt.nn.Parameter(weights.chunk(ranks)[rank].clone())
    optimizer = mt.optim.AdamW([own], lr=0.1)
    weights = weights.clone()
    with dist.count_messages() as traffic:
        for of_ranks in gradients:
            own.grad = mt.empty(*own.shape, dtype=own.dtype)
            dist.ring_reduce_scatter(own.grad, of_ranks[rank], dist.ReduceOp.AVG)
            optimizer.step()
            dist.ring_all_gather(weights, own.detach())
    state = sum(v.numel() for s in optimizer.state.values() for v in s.values() if v.ndim)
    return {"weights": weights, "bytes": traffic.bytes, "state": state}


weights, gradients = mt.randn(24).double(), mt.randn(3, 4, 24).double()
sharded = run_ranks(4, sharded_steps, weights, gradients)
expected = plain_steps(weights, gradients)
difference = max((result["weights"] - expected).abs().max().item() for result in sharded)
print(f"3 steps of AdamW on shares and on the whole vector differ by at most {difference:.0e}")
print(f"numbers of state on each rank: {sharded[0]['state']}, in one process {2 * 24}")
assert difference < 1e-12 and all(result["state"] == 2 * 24 / 4 for result in sharded)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# These ranks have sent gradients *and* weights. In plain data parallel training, they send only
# gradients. Does sharding send more bytes, fewer bytes, or the same number? Write down your answer,
# then run the next cell.

# %%
tensor_bytes = 24 * 8
for result in sharded:
    times = result["bytes"] / 3 / tensor_bytes
    print(f"bytes sent per step / bytes of the tensor: {times:.2f}; all-reduce: {2 * 3 / 4:.2f}")
    assert times == 2 * (4 - 1) / 4

# %% tags=["plot"]
first = [message for message in sharded.messages if message.round <= 6]
figure = messages_figure(
    first, 4, label=lambda m: "gradient" if m.round <= 3 else "weights", title="A step of stage 1"
)
show(
    figure,
    "The messages have the same number and size as those of lesson 50. Only the contents of the "
    "second half are different: the updated weights.",
)

# %% [markdown]
# It is the same number: an all-reduce *is* a reduce-scatter and an all-gather. Data parallel
# training copies the average gradient, so that each rank can compute the same update. Stage 1
# copies the result of the update instead. With four ranks, each keeps a quarter of the state, and
# sends no additional bytes.
#
# | stage | bytes sent per step, relative to the size of the model | in words |
# | --- | --- | --- |
# | 0 | $2 (N - 1) / N$ | all-reduce of the gradients |
# | 1, 2 | $2 (N - 1) / N$ | reduce-scatter of the gradients, all-gather of the weights |
# | 3 | $3 (N - 1) / N$ | the weights twice, forward and backward, and the gradients |
#
# In stage 2, a rank sends each bucket of gradients to the rank that owns them, and then frees them.
# In stage 3, a rank does not have all weights either. It collects the weights of a layer just
# before it needs them, in the forward pass and once more in the backward pass, so it sends 1.5
# times as many bytes as in stages 1 and 2.
#
# ## The library's optimizer
#
# `ZeroRedundancyOptimizer` wraps any optimizer that updates each parameter independently of the
# others. Before saving a checkpoint, all ranks call `consolidate_state_dict`, which collects the
# state on one rank. The checkpoint then has the same format as with a plain AdamW, and any number
# of ranks can continue from it.


# %%
def build():
    mt.manual_seed(1)
    layers = mt.nn.Linear(8, 24), mt.nn.Tanh(), mt.nn.Dropout(0.1), mt.nn.Linear(24, 1)
    return mt.nn.Sequential(*layers).double()


def train(batch, steps, model, optimizer):
    for number in steps:
        mt.manual_seed(number)  # the dropout masks of this step
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def train_sharded(batch, steps, checkpoint):
    model = build()
    parallel = mt.nn.parallel.DistributedDataParallel(model)
    optimizer = mt.optim.ZeroRedundancyOptimizer(model.parameters(), mt.optim.AdamW, lr=0.01)
    if checkpoint:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    train(batch.chunk(dist.get_world_size())[dist.get_rank()], steps, parallel, optimizer)
    message = ""
    try:
        optimizer.state_dict()
    except mt.errors.CheckpointError as error:
        message = str(error)
    optimizer.consolidate_state_dict(to=0)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict() if dist.get_rank() == 0 else None,
        "owners": [optimizer.owners[p] for p in model.parameters()],
        "held": sum(v.array.nbytes for s in optimizer.optim.state.values() for v in s.values()),
        "share": list(optimizer.optim.state_dict()["state"]),
        "message": message,
    }


# %%
batch = mt.randn(12, 8).double()
alone = build()
plain = mt.optim.AdamW(alone.parameters(), lr=0.01)
train(batch, range(3), alone, plain)
ranks = run_ranks(3, train_sharded, batch, [0, 1, 2], None, uses=[build, train])
for name, correct in alone.state_dict().items():
    assert all((rank["model"][name] - correct).abs().max() < 1e-12 for rank in ranks)
whole_state = sum(v.array.nbytes for s in plain.state.values() for v in s.values())
print("owners of the parameters:", ranks[0]["owners"])
print("bytes of state on each rank:", [rank["held"] for rank in ranks], "one process:", whole_state)
assert sum(rank["held"] for rank in ranks) == whole_state
sizes = [p.numel() for p in alone.parameters()]
assert ranks[0]["owners"] == [owner_of(i, sizes, 3) for i in range(len(sizes))]

# %% [markdown]
# The resulting weights equal those of one process with AdamW. The shares are unequal: this small
# model has one matrix that is larger than all other parameters combined, and the library does not
# split a parameter. The paper splits the parameters at arbitrary points, so its shares are equal.
# A deep model has many matrices of equal size, so the imbalance is small.
#
# `DistributedDataParallel` averages *all* gradients on all ranks, and then each owner broadcasts
# its new weights. This is simpler than an update between two halves of an all-reduce, and works
# with any training loop. But a rank sends about 1.5 times as many bytes: $2 (N - 1) / N$ for the
# gradients and, on average, $(N - 1) / N$ for the weights.
#
# Now *two* ranks continue from this checkpoint, and we compare them with one process that was never
# interrupted.

# %%
train(batch, range(3, 6), alone, plain)
resumed = run_ranks(2, train_sharded, batch, [3, 4, 5], ranks[0], uses=[build, train])
for name, correct in alone.state_dict().items():
    difference = (resumed[1]["model"][name] - correct).abs().max().item()
    print(f"{name:10} 3 ranks, then 2 ranks, and 1 process differ by at most {difference:.0e}")
    assert difference < 1e-12

# %% [markdown]
# ## What goes wrong if one rank's share is used as the whole
#
# Many programs save the optimizer state of rank 0. With sharding, rank 0 has only its own share of
# the state. The library raises an error instead of returning this share:

# %%
print(ranks[0]["message"])
assert "has not been collected" in ranks[0]["message"]

# %% [markdown]
# What would happen without this error? We delete from the checkpoint the state that rank 0 does not
# own. For the optimizer, a parameter without state is a parameter that has not been updated yet, so
# loading does not fail.

# %%
state = ranks[0]["optimizer"]
mine = [number for number, owner in enumerate(ranks[0]["owners"]) if owner == 0]
broken = {**state, "state": {n: entry for n, entry in state["state"].items() if n in mine}}
print("parameters with state on rank 0:", mine, "of", list(state["state"]))
changes = {}
for name, saved in (("whole state", state), ("share of rank 0", broken)):
    continued = build()
    continued.load_state_dict(ranks[0]["model"])
    optimizer = mt.optim.AdamW(continued.parameters(), lr=0.01)
    optimizer.load_state_dict(saved)
    before = continued[0].bias.detach().clone()
    train(batch, [3], continued, optimizer)
    changes[name] = (continued[0].bias.detach() - before).abs()
    print(
        f"{name:16} the first step moves the bias by {changes[name].mean().item():.5f} on average"
    )
assert changes["share of rank 0"].min() > 0.0099 > 1.2 * changes["whole state"].mean()

# %% [markdown]
# Without its averages, Adam starts again from zero: its first step moves every number by the full
# learning rate, whatever the size of its gradient. So the loss jumps after a restart, and no error
# message explains why.
#
# The second mistake is about clipping. Clipping limits the norm of the *whole* gradient. If each
# rank clips its part by the norm of its part, the parts are scaled by different factors.

# %% [markdown] tags=["your-turn"]
# ## Your turn: clip the shares
#
# Write `clip_shares(shares, max_norm)`. `shares` is a list of tensors of different lengths, each
# rank's part of the gradient. Return the list of the clipped parts: if the norm of all parts
# combined is larger than `max_norm`, all parts are scaled by the same factor, so that this norm
# becomes `max_norm`. Otherwise they stay as they are.
#
# *Hint:* Norms do not add up, but their squares do. So every rank has to send only a single number.


# %% tags=["answer"]
def clip_shares(shares, max_norm):
    """Return the clipped shares, a list of tensors."""
    norm = sum((share**2).sum() for share in shares).sqrt()
    factor = (max_norm / norm).clamp(max=1.0)
    return [factor * share for share in shares]


# %% tags=["check"]
check(
    clip_shares,
    cases=[
        ([mt.randn(5), mt.randn(3), mt.randn(2)], 0.7),
        ([0.1 * mt.randn(3), 0.1 * mt.randn(2)], 5.0),  # nothing to clip
        ([mt.tensor([3.0]), mt.tensor([4.0, 0.0])], 4.5),  # each part is below the limit
        ([mt.randn(7)], 1.0),
    ],
    expected=lambda shares, max_norm: [
        share / mt.maximum(mt.cat(shares).norm() / max_norm, mt.tensor(1.0).double())
        for share in shares
    ],
    properties={
        "the norm is at most max_norm": lambda found, shares, max_norm: (
            mt.cat(found).norm() < max_norm * (1 + 1e-9)
        )
    },
)

# %%
gradient = mt.cat([10 * mt.randn(6), 0.1 * mt.randn(6)])  # rank 0 has a layer with large gradients
alone_clipped = [part / part.norm().clamp(min=1.0) for part in gradient.chunk(2)]
together = gradient / gradient.norm().clamp(min=1.0)
for name, clipped in (("one norm", together), ("a norm per rank", mt.cat(alone_clipped))):
    cosine = (clipped @ gradient / clipped.norm() / gradient.norm()).item()
    ratio = (clipped[:6].norm() / clipped[6:].norm()).item()
    print(f"{name:16} rank 0's part is {ratio:6.1f} times rank 1's; cosine {cosine:.4f}")
    assert (cosine > 0.99999) == (name == "one norm")

# %% [markdown]
# Clipping each part by its own norm changes the direction of the step. The result then depends on
# how the parameters were assigned to ranks, and therefore on the number of ranks. `clip_grad_norm_`
# is safe with `ZeroRedundancyOptimizer`, which implements stage 1: every rank has all gradients at
# the time of clipping.
#
# ## In the library

# %%
where(
    mt.optim.ZeroRedundancyOptimizer, mt.optim.ZeroRedundancyOptimizer.consolidate_state_dict,
    dist.ring_reduce_scatter, dist.ring_all_gather, mt.nn.utils.clip_grad_norm_, mt.memory.track,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Turn `sharded_steps` into stage 3 for a model that multiplies by two matrices, one after the
# other. Each rank keeps a quarter of each matrix as a flat vector, collects a matrix with
# `dist.ring_all_gather` just before the multiplication, and frees it afterwards. In the backward
# pass, the rank collects the matrix again, and sends the matrix's gradient with
# `dist.ring_reduce_scatter`. Check that the updates equal those of a single process to within
# 1e-12. Count the bytes: are they 1.5 times those of stage 1?
#
# ## Three questions
#
# 1. Why can Adam's work be divided anywhere, but Adafactor's only between matrices? (Adafactor
#    keeps averages over the rows and columns of a matrix.)
# 2. How much memory does stage 1 save with plain SGD, without momentum?
# 3. A model needs 16 GB for weights, gradients and state, and 40 GB for activations. How much of
#    the 56 GB can ZeRO save?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Adam's update of a number depends on this number's gradients only. Adafactor's depends on the
#    whole row and column, so a rank with part of a matrix would need messages.
# 2. Stage 1 saves nothing: without momentum, SGD has no state to divide. With momentum, it has one
#    number for each parameter.
# 3. ZeRO can save at most the 16 GB, because it does not divide the activations. Smaller batches,
#    recomputation of the activations, or splitting the layers themselves (lesson 52) reduce the 40
#    GB.
