# %% [markdown]
# # Attention in linear memory
#
# The scores of $N$ tokens are $N^2$ numbers, but the result has only $N$ rows. Can you compute the
# result exactly without ever storing all scores?
#
# *Prerequisites:* softmax (lesson 5), queries, keys and values (lesson 8).

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check

F = mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## The difficulty: softmax needs the whole row
#
# Row $i$ of the result is $o_i = \sum_j e^{s_{ij} - m_i} v_j \,/\, \sum_j e^{s_{ij} - m_i}$ with
# the scores $s_{ij}$ and $m_i = \max_j s_{ij}$. Subtracting the maximum prevents $e^{s}$ from
# overflowing, but you know the maximum only after the last key. So it seems necessary to store the
# whole row of scores and read it twice.
#
# But one pass is enough if the sums can be *corrected*. Suppose the keys so far gave a maximum $m$,
# a sum of exponentials $l$ and a weighted sum of values $o$. Both sums were computed with $m$. The
# next keys have a larger maximum $m'$. With $m'$ every old term would have been
# $e^{s - m'} = e^{s - m}\,e^{m - m'}$, so
#
# $$l' = e^{m - m'}\, l + \sum_{j\ new} e^{s_j - m'}, \qquad
#   o' = e^{m - m'}\, o + \sum_{j\ new} e^{s_j - m'} v_j .$$
#
# Here is a numerical example with one query, which reads one key at a time.

# %%
scores = [1.0, 3.0, 2.0, 5.0]
values = [10.0, 20.0, 30.0, 40.0]
top, total, o = -math.inf, 0.0, 0.0
print("  s      v |  max  rescale old by    sum l   weighted o      o / l")
for s, v in zip(scores, values, strict=True):
    new_top = max(top, s)
    rescale = math.exp(top - new_top)  # exp(-inf) = 0 at the first key
    total = rescale * total + math.exp(s - new_top)
    o = rescale * o + math.exp(s - new_top) * v
    top = new_top
    print(
        f"{s:3.0f} {v:6.0f} | {top:4.0f} {rescale:15.4f} {total:8.4f} {o:12.4f} {o / total:10.4f}"
    )
weights = np.exp(scores) / np.exp(scores).sum()
print(f"softmax of the whole row, times values: {weights @ values:30.4f}")
assert abs(o / total - weights @ values) < 1e-12

# %% [markdown]
# At every step the last column is the exact attention over the keys seen *so far*. The rescaling
# factor is 1 where the maximum does not change (third row), and small where a much larger score
# arrives (fourth row).

# %% [markdown] tags=["your-turn"]
# ## Your turn: join two parts
#
# Two machines have read different keys for the same queries. Each machine has three results: its
# own maximum `top` and the sum of exponentials `total`, both of shape (query, 1), and the weighted
# sum of values `o`, of shape (query, dim). Both sums are computed with this maximum. Write
# `join_parts(top1, total1, o1, top2, total2, o2)`, which returns `top, total, o` for all keys
# together. The result must not depend on which machine comes first. With this function, a long
# context can be spread over several GPUs (lesson 53).
#
# *Hint:* The new maximum is the larger of the two maxima. The sums of each machine must be
# corrected by that machine's own factor, as in the formula above.


# %% tags=["answer"]
def join_parts(top1, total1, o1, top2, total2, o2):
    """Return the maximum, the sum and the weighted sum of values over the keys of both parts."""
    top = mt.maximum(top1, top2)
    scale1, scale2 = (top1 - top).exp(), (top2 - top).exp()  # each (query, 1)
    total = scale1 * total1 + scale2 * total2
    o = scale1 * o1 + scale2 * o2
    return top, total, o


# %% tags=["check"]
check(
    join_parts,
    cases=[
        (
            mt.randn(3, 1), 1 + mt.rand(3, 1), mt.randn(3, 5),
            mt.randn(3, 1), 1 + mt.rand(3, 1), mt.randn(3, 5),
        ),
        (
            1000 + mt.randn(2, 1), 1 + mt.rand(2, 1), mt.randn(2, 7),
            mt.randn(2, 1), 1 + mt.rand(2, 1), mt.randn(2, 7),
        ),
        (  # the second machine has not seen any key yet
            mt.randn(1, 1), 1 + mt.rand(1, 1), mt.randn(1, 2),
            mt.full((1, 1), -math.inf), mt.zeros(1, 1), mt.zeros(1, 2),
        ),
    ],
    expected=lambda top1, total1, o1, top2, total2, o2: (
        m := mt.where(top1 > top2, top1, top2),
        total1 * (top1 - m).exp() + total2 * (top2 - m).exp(),
        o1 * (top1 - m).exp() + o2 * (top2 - m).exp(),
    ),
    properties={
        "the order of the parts does not matter": lambda found, a, b, c, d, e, f: all(
            np.allclose(x.numpy(), y.numpy())
            for x, y in zip(found, join_parts(d, e, f, a, b, c), strict=True)
        )
    },
)  # fmt: skip

# %% [markdown]
# ## Blocks of keys for all queries
#
# Processing one key at a time is slow. So we process a block of keys for all queries at once.


# %%
def online_attention(query, key, value, block=128):
    # query (query, dim)   key (key, dim)   value (key, dim)
    scale = query.shape[-1] ** -0.5
    top = mt.full((len(query), 1), -math.inf, dtype=query.dtype)
    total = mt.zeros(len(query), 1, dtype=query.dtype)
    o = mt.zeros(len(query), value.shape[-1], dtype=query.dtype)
    for start in range(0, len(key), block):
        k, v = key[start : start + block], value[start : start + block]
        s = query @ k.transpose(0, 1) * scale  # (query, block): the only scores in memory
        new_top = mt.maximum(top, s.max(-1, keepdim=True).values)
        p = (s - new_top).exp()
        rescale = (top - new_top).exp()
        total = rescale * total + p.sum(-1, keepdim=True)
        o = rescale * o + p @ v
        top = new_top
    return o / total


def full_attention(query, key, value):
    scores = query @ key.transpose(0, 1) * query.shape[-1] ** -0.5  # (query, key)
    return mt.softmax(scores, -1) @ value


# %%
tokens = pick(1000, 500)
query, key, value = (3 * mt.randn(tokens, 64, dtype=mt.float64) for _ in range(3))
expected = full_attention(query, key, value)
print("largest difference from full attention:")
for dtype in (mt.float64, mt.float32):
    for block in (1, 37, 128, tokens):
        parts = (x.to(dtype=dtype) for x in (query, key, value))
        difference = (online_attention(*parts, block=block) - expected).abs().max().item()
        print(f"  {dtype!s:8} blocks of {block:4} keys  {difference:.1e}")
        assert difference < (1e-12 if dtype == mt.float64 else 1e-4)

# %% [markdown]
# The block size changes only the order of the additions, so the result is not an approximation.
# Does the method also work if the scores are so large that $e^{s}$ overflows?

# %%
huge = 40 * query
with np.errstate(over="ignore", invalid="ignore"):
    raw = (huge @ key.transpose(0, 1) * 64**-0.5).to(dtype=mt.float32)
    naive = raw.exp() / raw.exp().sum(-1, keepdim=True)
print(f"largest score {raw.max().item():.0f}; softmax without a maximum gives "
      f"{int(np.isnan(naive.numpy()).sum())} NaN")  # fmt: skip
safe = online_attention(huge, key, value)
assert np.isnan(naive.numpy()).any() and not np.isnan(safe.numpy()).any()
assert (safe - full_attention(huge, key, value)).abs().max().item() < 1e-10

# %% [markdown] tags=["your-turn"]
# ## Your turn: the loss of a large vocabulary
#
# The same idea saves memory in the loss of a language model. With 8,192 tokens and a vocabulary of
# 128,000, the logits alone take about 4 GiB. But the loss of a token needs only two numbers: the
# logarithm of a sum over the vocabulary, and the logit of the target. Write
# `loss_in_blocks(x, weight, target, block)`: the mean cross-entropy of the logits `x @ weight.T`,
# computed from `block` rows of `weight` at a time. `x` has shape (token, dim), `weight`
# (vocabulary, dim), `target` (token,).
#
# *Hint:* The loss of a token is $m + \log l$ minus the logit of its target. Compute $m$ and $l$ as
# in `online_attention` (there `top` and `total`), but leave out the weighted sum of values. The
# logit of the target is a dot product of two rows.


# %% tags=["answer"]
def loss_in_blocks(x, weight, target, block):
    """Return the mean cross-entropy of the logits x @ weight.T, a scalar."""
    top, total = mt.full((len(x), 1), -math.inf, dtype=x.dtype), 0.0
    for start in range(0, len(weight), block):
        logits = x @ weight[start : start + block].transpose(0, 1)  # (token, block)
        new_top = mt.maximum(top, logits.max(-1, keepdim=True).values)
        total = (top - new_top).exp() * total + (logits - new_top).exp().sum(-1, keepdim=True)
        top = new_top
    logit_of_target = (x * weight[target]).sum(-1, keepdim=True)
    return (top + total.log() - logit_of_target).mean()


# %% tags=["check"]
check(
    loss_in_blocks,
    cases=[
        (mt.randn(3, 5), mt.randn(11, 5), mt.tensor([10, 0, 4]), 4),
        (30 * mt.randn(2, 7), 30 * mt.randn(13, 7), mt.tensor([3, 3]), 1),
        (mt.randn(1, 2), mt.randn(3, 2), mt.tensor([2]), 5),
    ],
    expected=lambda x, weight, target, block: F.cross_entropy(x @ weight.T, target),
    properties={
        "the size of the blocks does not matter": lambda loss, x, weight, target, block: np.isclose(
            loss_in_blocks(x, weight, target, 2 * block + 1).item(), loss.item()
        )
    },
)

# %% [markdown]
# ## Memory, measured
#
# `mt.memory.track` records the memory of all tensors over time. If the number of tokens doubles,
# does the memory double, or does it grow by a factor of four?


# %%
def peak(function, tokens):
    x = [mt.randn(tokens, 64) for _ in range(3)]
    with mt.no_grad(), mt.memory.track() as memory:
        function(*x)
    return memory.peak / 2**20


sizes = pick([512, 1024, 2048, 4096], [256, 512, 1024, 2048])
peaks = {function: [] for function in (full_attention, online_attention)}
print("tokens   full attention   in blocks of 128")
for size in sizes:
    for function in peaks:
        peaks[function].append(peak(function, size))
    full, online = (found[-1] for found in peaks.values())
    print(f"{size:6} {full:11.1f} MiB {online:14.1f} MiB")
growth = {name: found[-1] / found[-2] for name, found in peaks.items()}
print(
    f"from {size // 2} to {size} tokens: full attention needs {growth[full_attention]:.2f} times "
    f"the memory, blocks {growth[online_attention]:.2f} times"
)
assert growth[full_attention] > 3.3 and growth[online_attention] < 2.2

# %% tags=["plot"]
figure, axis = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
axis.loglog(sizes, peaks[full_attention], "o-", color="#D55E00", base=2)
axis.loglog(sizes, peaks[online_attention], "s-", color="#0072B2", base=2)
axis.text(sizes[1], 1.3 * peaks[full_attention][1], "full: slope 2  ", color="#D55E00", ha="right")
axis.text(sizes[2], 0.5 * peaks[online_attention][2], "  blocks: slope 1", color="#0072B2")
axis.set(xlabel="tokens", ylabel="peak, MiB", xticks=sizes, xticklabels=sizes)
axis.spines[["top", "right"]].set_visible(False)
axis.minorticks_off()
show(
    figure,
    "Both axes are logarithmic: the slope of the orange line is twice that of the blue one, "
    "because its memory grows with the square of the number of tokens.",
)

# %% [markdown]
# ## The backward pass recomputes the weights
#
# If the backward pass needed stored weights, using blocks would not save memory in training. But it
# does not need them. The number $L_i = m_i + \log l_i$ of each row is enough to recompute any tile
# (a rectangular block) of the weights, $p_{ij} = e^{s_{ij} - L_i}$. The library's operation does
# exactly this: it computes the tiles a second time and never stores them. (The measured memory does
# not include temporary memory inside an operation, here one tile of 256 x 512 scores, 0.5 MiB.)


# %%
def peak_of_training(attention, tokens):
    x = [mt.randn(1, 1, tokens, 64, requires_grad=True) for _ in range(3)]
    with mt.memory.track() as memory:
        attention(*x).sum().backward()
    return memory.peak / 2**20, [tensor.grad for tensor in x]


def composed(query, key, value):
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return mt.softmax(scores, -1) @ value


tokens = 2048
mt.manual_seed(1)
plain, gradients = peak_of_training(composed, tokens)
mt.manual_seed(1)
tiled, tiled_gradients = peak_of_training(F.scaled_dot_product_attention, tokens)
differences = [(a - b).abs().max().item() for a, b in zip(gradients, tiled_gradients, strict=True)]
print(f"forward and backward of one head, {tokens} tokens:")
print(f"  step by step        {plain:7.1f} MiB")
print(f"  library, in tiles   {tiled:7.1f} MiB")
print(f"largest difference of the gradients {max(differences):.1e}")
assert tiled < plain / 5 and max(differences) < 1e-4


# %%
def example(queries, keys, dim):
    """Return random query, key and value, the output, L, and a random output gradient."""
    random = np.random.default_rng(queries)
    query, grad = random.normal(size=(2, queries, dim))
    key, value = random.normal(size=(2, keys, dim))
    exp = np.exp(query @ key.T / math.sqrt(dim))
    total = exp.sum(-1, keepdims=True)
    return query, key, value, exp @ value / total, np.log(total), grad


# %% [markdown] tags=["your-turn"]
# ## Your turn: one tile of the backward pass
#
# Write `tile_gradient(query, key, value, o, log_sum, grad, start, stop)` with NumPy. Return the
# gradient of the *scores* $s_{ij} = q_i \cdot k_j / \sqrt{dim}$ for the keys `start` to `stop - 1`,
# an array of shape (query, stop - start). Do not use any other keys or values. Besides `query`,
# `key` and `value`, the function receives:
#
# * `o`, the result of attention, of shape (query, dim);
# * `log_sum`, the numbers $L_i$, of shape (query, 1);
# * `grad`, the gradient $g$ of the result, of shape (query, dim).
#
# Lesson 5 has the backward pass of softmax: $ds_{ij} = p_{ij}\,(dp_{ij} - \sum_k p_{ik}\,dp_{ik})$,
# here with $dp_{ij} = g_i \cdot v_j$. But the sum runs over *all* keys, not only those of the tile.
#
# *Hint:* $\sum_k p_{ik}\,(g_i \cdot v_k) = g_i \cdot \sum_k p_{ik} v_k$. Which known vector is the
# last sum?


# %% tags=["answer"]
def tile_gradient(query, key, value, o, log_sum, grad, start, stop):
    """Return the gradient of one tile of scores, shape (query, stop - start)."""
    scores = query @ key[start:stop].T / math.sqrt(query.shape[-1])
    p = np.exp(scores - log_sum)  # (query, tile): recomputed, never stored
    grad_p = grad @ value[start:stop].T
    sum_over_all_keys = (grad * o).sum(-1, keepdims=True)  # (query, 1)
    return p * (grad_p - sum_over_all_keys)


# %% tags=["check"]
check(
    tile_gradient,
    cases=[(*example(5, 11, 3), 4, 8), (*example(3, 2, 7), 0, 2), (*example(1, 13, 2), 12, 13)],
    expected=lambda query, key, value, o, log_sum, grad, start, stop: mt.autograd.grad(
        mt.softmax(
            s := mt.tensor(query @ key.T / math.sqrt(query.shape[-1]), requires_grad=True), 1
        )
        @ mt.tensor(value),
        s,
        mt.tensor(grad),
    )[0][:, start:stop],
    properties={
        "over all keys, the gradient of each row sums to 0": lambda found, query, key, *rest: (
            np.allclose(tile_gradient(query, key, *rest[:-2], 0, len(key)).sum(-1), 0)
        )
    },
)

# %% [markdown]
# ## What goes wrong without rescaling the accumulator
#
# The most common mistake is forgetting to rescale the accumulator $o$: the sum $l$ is corrected,
# but $o$ is not.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We run a version with this mistake on 256 random queries and keys, once with blocks of 64 keys and
# once with a single block of 256. How large are the two errors, compared with round-off? Write down
# your answers, then run the next cell.


# %%
def forgetful_attention(query, key, value, block=128):
    scale = query.shape[-1] ** -0.5
    top = mt.full((len(query), 1), -math.inf, dtype=query.dtype)
    total = mt.zeros(len(query), 1, dtype=query.dtype)
    o = mt.zeros(len(query), value.shape[-1], dtype=query.dtype)
    for start in range(0, len(key), block):
        k, v = key[start : start + block], value[start : start + block]
        s = query @ k.transpose(0, 1) * scale
        new_top = mt.maximum(top, s.max(-1, keepdim=True).values)
        p = (s - new_top).exp()
        total = (top - new_top).exp() * total + p.sum(-1, keepdim=True)
        o = o + p @ v  # should be rescale * o + p @ v
        top = new_top
    return o / total


query, key, value = (mt.randn(256, 64, dtype=mt.float64) for _ in range(3))
expected = full_attention(query, key, value)
ones = mt.ones(256, 1, dtype=mt.float64)
print("                          error      sum of weights, smallest and largest")
errors = {}
for name, function, block in (
    ("correct, blocks of 64", online_attention, 64),
    ("forgetful, one block", forgetful_attention, 256),
    ("forgetful, blocks of 64", forgetful_attention, 64),
):
    errors[name] = (function(query, key, value, block) - expected).abs().max().item()
    sums = function(query, key, ones, block)  # values of 1: each result is a sum of weights
    print(f"{name:24}  {errors[name]:.1e}   {sums.min().item():.3f} to {sums.max().item():.3f}")
assert errors["correct, blocks of 64"] < 1e-12
assert errors["forgetful, one block"] < 1e-12  # one block hides the mistake
assert errors["forgetful, blocks of 64"] > 1e-2

# %% [markdown]
# If all keys are in one block, there is nothing to rescale, and the mistake is invisible. So test
# with several blocks. You can also test cheaply without a reference: if all values are 1, all
# results must be 1.
#
# ## In the library

# %%
from minitorch_attn.ops.attention.tiled import TiledAttention, tiles_pay

where(TiledAttention, TiledAttention.forward, TiledAttention.backward, tiles_pay, mt.memory.track)

# %% [markdown]
# ## Exercise
#
# Add `is_causal=True` to `online_attention`: query $i$ sees keys up to $i$. Mask the scores of a
# block with `-inf` and skip blocks that are entirely in the future. You are done when its result
# equals `F.scaled_dot_product_attention(..., is_causal=True)` to `1e-12` in float64, for blocks of
# 1, 37 and 128 keys. Then process the blocks from the last to the first: a row that has not seen
# any key yet gives NaN. Which expression becomes `-inf - (-inf)`, and what should its value be?
#
# Then practice:
#
# ```sh
# mta exercise start 33
# mta exercise start 41
# ```
#
# ## Three questions
#
# 1. In the table with four keys, why is the old sum multiplied by 1 in the third row and by a small
#    number in the fourth?
# 2. Is attention in blocks an approximation? Which printed numbers answer this question?
# 3. A version that forgets to rescale passes its test with 256 keys in one block. Which two tests
#    printed above would have found the mistake?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The third score, 2, is below the maximum 3, so the old terms do not change. The fourth score,
#    5, raises the maximum by 2, so all old terms are too large by a factor of $e^2$. They are
#    multiplied by $e^{-2}$, which the table shows as 0.1353.
# 2. No. The difference from full attention is round-off, less than 1e-12 in float64, for every
#    block size, including one key at a time.
# 3. The first is the comparison with full attention, but with blocks of 64 keys: there, the error
#    is much larger than round-off. The second uses values of 1, for which every result must be 1.
#    Without the rescaling, some results are not.
