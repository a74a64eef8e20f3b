# %% [markdown]
# # Ring attention: one sequence on several machines
#
# A sequence is so long that its keys and values do not fit on any one machine. Each machine holds a
# part of them. Every query must still attend to every key. How is this possible if no machine ever
# holds all keys?
#
# *Prerequisites:* masks (lesson 10), the online softmax (lesson 28), a ring of ranks (lesson 50).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.rank_messages import print_messages
from minitorch_attn.course.ranks import run_ranks
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.messages import messages_figure
from minitorch_attn.viz.style import COLOURS, new_figure

dist = mt.distributed
mt.manual_seed(0)

# %% [markdown]
# ## What does not fit
#
# In a model with embedding size 4096, a token has 4096 numbers in its key and another 4096 in its
# value. In float16, that is 16 KiB for each token and each layer. Training keeps the keys and
# values of all layers for the backward pass.

# %%
for tokens in (8_192, 131_072, 1_048_576):
    layer = tokens * 2 * 4096 * 2
    print(
        f"{tokens:9,} tokens: 1 layer {layer / 2**30:7.3f} GiB, 32 layers {layer / 2**25:5.0f} GiB"
    )

# %% [markdown]
# A large GPU has 80 GB. So we split the sequence: each of $N$ ranks holds $c = T / N$ tokens, with
# their queries, keys and values. In a Transformer, every layer except attention acts on each token
# separately. So only attention needs messages.
#
# ## Merging two partial results
#
# The online softmax of lesson 28 reads the keys block by block. For each query it keeps three
# things: the maximum $m$ of the scores, the sum $l$ of their exponentials, and the sum $o$ of the
# values, weighted by these exponentials:
#
# $$m = \max_j s_j, \qquad l = \sum_j e^{s_j - m}, \qquad o = \sum_j e^{s_j - m}\, v_j,$$
#
# where $j$ runs over the keys so far. Suppose two disjoint sets of keys gave $(m_1, l_1, o_1)$ and
# $(m_2, l_2, o_2)$. The maximum of both sets is $m = \max(m_1, m_2)$. The terms of the first set
# were computed with $m_1$ in place of $m$. Because $e^{s_j - m} = e^{m_1 - m}\, e^{s_j - m_1}$, all
# of them are corrected by the same factor. Hence
#
# $$l = e^{m_1 - m}\, l_1 + e^{m_2 - m}\, l_2, \qquad
#   o = e^{m_1 - m}\, o_1 + e^{m_2 - m}\, o_2.$$
#
# Sums and maxima do not depend on the order of their terms. So **each rank can read the blocks in a
# different order**, and the result is the same. This is why the ranks can pass the blocks around a
# ring.
#
# Keeping both $m$ and $l$ for each query is more than necessary. Let $L = m + \log l$. Then
# $e^L = \sum_j e^{s_j}$ is the total weight of the keys, and the context $o / l$ is the mean of the
# values with these weights.

# %% [markdown] tags=["your-turn"]
# ## Your turn: merge two contexts
#
# Write `merge(context1, log1, context2, log2)`, which merges the results for two disjoint sets of
# keys. Each context $o / l$ has shape (query, dim), and each $L = m + \log l$ has shape (query, 1).
# Return the context and $L$ over the keys of both sets. The function must also work where $e^L$
# overflows, and where a query sees no key of one set: then $L$ of this set is $-\infty$.
#
# *Hint:* The merged context is a mean of the two contexts, with the weights $e^{L_1}$ and
# $e^{L_2}$. To avoid overflow, subtract the larger of $L_1$ and $L_2$ from both before you compute
# the exponentials.


# %% tags=["answer"]
def merge(context1, log1, context2, log2):
    """Return the context (query, dim) and L (query, 1) over the keys of both sets."""
    top = mt.maximum(log1, log2)
    weight1, weight2 = (log1 - top).exp(), (log2 - top).exp()
    total = weight1 + weight2
    return (weight1 * context1 + weight2 * context2) / total, top + total.log()


# %% tags=["check"]
check(
    merge,
    cases=[
        (mt.randn(3, 5), mt.randn(3, 1), mt.randn(3, 5), mt.randn(3, 1)),
        (mt.randn(2, 7), 1000 + mt.randn(2, 1), mt.randn(2, 7), 1000 + mt.randn(2, 1)),
        (mt.randn(1, 2), mt.randn(1, 1), mt.zeros(1, 2), mt.full((1, 1), -np.inf)),
    ],
    expected=lambda context1, log1, context2, log2: (
        (mt.softmax(mt.stack([log1, log2]), 0) * mt.stack([context1, context2])).sum(0),
        mt.logsumexp(mt.stack([log1, log2]), 0),
    ),
    properties={
        "no key is lost: L does not decrease": lambda found, context1, log1, context2, log2: (
            found[1] >= mt.maximum(log1, log2)
        ).all()
    },
)

# %% [markdown]
# ## The blocks travel around the ring
#
# Now the algorithm (Liu, Zaharia and Abbeel 2023, arXiv:2310.01889v4, algorithm 1). The queries
# stay where they are, and the keys and values travel. In each step, a rank updates $(m, l, o)$ of
# its queries with the block that it holds. Then it sends the block to the next rank, and receives
# another one from the previous rank. After $N$ steps, each block has been on every rank.
#
# A rank starts with its own block. Under a causal mask, a query always sees its own key, so $m$ is
# finite from the first step on, and a later block that is completely hidden does not change the
# result.


# %%
def pass_on(block):
    """Send a block to the next rank, and return the block of the previous rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    received = mt.empty(*block.shape, dtype=block.dtype)
    sending = dist.isend(block, (rank + 1) % size)
    dist.recv(received, (rank - 1) % size)
    sending.wait()
    return received


def fold(state, scores, value):
    """Update (m, l, o) with one more block of keys: scores (query, key) and value (key, dim)."""
    m, l, o = state
    new_m = mt.maximum(m, scores.max(-1, keepdim=True).values)
    p, rescale = (scores - new_m).exp(), (m - new_m).exp()
    return new_m, rescale * l + p.sum(-1, keepdim=True), rescale * o + p @ value


def ring_forward(query, key, value, positions, causal):
    """Return the context of the rank's own tokens; positions[r] are the tokens of rank r."""
    rank, size = dist.get_rank(), dist.get_world_size()
    own = positions[rank]
    q = query[own] * query.shape[-1] ** -0.5
    block = mt.stack([key[own], value[own]])  # (2, token, dim): one message
    state = mt.full((len(q), 1), -np.inf, dtype=q.dtype), 0.0, 0.0
    for step in range(size):
        source = (rank - step) % size  # the rank to which this block belongs
        scores = q @ block[0].T
        if causal:
            scores = scores.masked_fill(own[:, None] < positions[source], -np.inf)
        state = fold(state, scores, block[1])
        if step < size - 1:
            block = pass_on(block)
    _, l, o = state
    return o / l


# %% [markdown]
# `run_ranks` runs a function in several processes, which exchange messages through MPI. To make the
# messages readable, the keys of eight tokens are 0 to 7, and their values are 100 to 107. (For
# brevity, each process gets the whole arrays, but uses only its own rows.)

# %%
tokens, ranks = 8, 4
key = mt.arange(tokens).double().unsqueeze(1)  # (token, dim = 1)
query, value = mt.randn(tokens, 1, dtype="float64"), key + 100
contiguous = mt.arange(tokens).reshape(ranks, -1)  # rank r holds part r
parts = run_ranks(
    ranks, ring_forward, query, key, value, contiguous, False, uses=[pass_on, fold]
)  # fmt: skip
print_messages(parts.messages)
whole = mt.scaled_dot_product_attention(query, key, value)
assert (mt.cat(list(parts)) - whole).abs().max() < 1e-12

# %% tags=["plot"]
owner = {0.0: 0, 2.0: 1, 4.0: 2, 6.0: 3}  # the first key of each block
show(
    messages_figure(
        parts.messages, ranks, title="Keys and values in a ring of 4 ranks",
        label=lambda message: f"K, V of {owner[message.values.flat[0]]}",
        color=lambda message: owner[message.values.flat[0]],
    ),
    "Every rank sends one block in every round. Follow one color: in three rounds, the block "
    "visits all other ranks.",
)  # fmt: skip

# %% [markdown]
# In $N - 1$ rounds, each rank sends $N - 1$ blocks with the keys and values of $c = T / N$ tokens.
# With $d$ numbers in a key and in a value, and $b$ bytes in a number, that is
#
# $$(N - 1) \cdot 2\, \frac{T}{N}\, d\, b \;\text{ bytes},$$
#
# less than $2Tdb$, the size of all keys and values, and close to it if there are many ranks.

# %%
for rank in range(ranks):
    sent = sum(message.values.nbytes for message in parts.messages if message.source == rank)
    assert sent == (ranks - 1) * 2 * tokens // ranks * 1 * 8
print(f"each of {ranks} ranks sends {sent} bytes; all keys and values have {2 * tokens * 8}")

# %% [markdown]
# ## A causal mask: which rank has the most work?
#
# A language model masks the future. Then a rank may skip a block if all keys of the block come
# after the rank's queries. If every rank holds a contiguous part of the sequence, rank 0 skips all
# blocks but its own, and the last rank does not skip any.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Eight ranks with contiguous parts skip the blocks that the mask hides, which are almost half of
# all blocks. How much faster is this than attention without a mask: about 2 times, about 1.5 times,
# or hardly at all? Write down your answer, then run the next cell. To measure the work, this cell
# cuts each part into two chunks and counts *squares*: a square contains the scores of the queries
# of one chunk with the keys of one chunk. Without a mask, each rank computes 4 squares in each of 8
# steps.


# %%
def work_table(chunks):
    """Return the number of squares of scores for each (rank, step). Rank r has chunks[r]."""
    size = len(chunks)
    return np.array([
        [
            sum(a >= b for a in chunks[rank] for b in chunks[(rank - step) % size])
            for step in range(size)
        ]
        for rank in range(size)
    ])  # fmt: skip


def orders(size):
    """Return {order: chunks of each rank} for both orders. The sequence has 2 * size chunks."""
    return {
        "contiguous": [(2 * r, 2 * r + 1) for r in range(size)],
        "zigzag": [(r, 2 * size - 1 - r) for r in range(size)],
    }


for name, chunks in orders(8).items():
    table = work_table(chunks)
    slowest = table.sum(1).max()
    print(f"{name:10}  squares of each rank {table.sum(1)}")
    print(f"            slowest {slowest} of {4 * 8}: {32 / slowest:.2f} times as fast")
assert work_table(orders(8)["contiguous"]).sum(1).tolist() == [4 * r + 3 for r in range(8)]
assert (work_table(orders(8)["zigzag"]).sum(1) == 2 * 8 + 1).all()

# %% [markdown]
# In contiguous order, almost nothing is gained. The last rank still computes 31 of its 32 squares,
# and the next layer cannot start without it. Half of the work is saved, but hardly any time.
#
# The solution is to cut the sequence into $2N$ chunks, and to give each rank an early and a late
# chunk. In **zigzag** order, rank $r$ holds the chunks $r$ and $2N - 1 - r$ (Llama 3,
# arXiv:2407.21783v3, section 3.3.2). The queries of chunk $a$ see chunks $0$ to $a$, that is,
# $a + 1$ chunks. So rank $r$ computes
#
# $$(r + 1) + (2N - 1 - r + 1) = 2N + 1$$
#
# squares, a number that does not depend on $r$. In contiguous order, rank $r$ computes
# $(2r + 1) + (2r + 2) = 4r + 3$ squares.

# %% tags=["plot"]
figure = new_figure(7.4, 3.3)
for axes, (name, chunks) in zip(figure.subplots(1, 2), orders(4).items(), strict=True):
    table = work_table(chunks)
    axes.imshow(table, cmap="Blues", vmin=0, vmax=6)
    for rank, step in np.ndindex(*table.shape):
        axes.text(step, rank, table[rank, step], ha="center", va="center")
    slowest = table[table.sum(1).argmax()]
    axes.set_title(f"{name}: {' + '.join(map(str, slowest))} = {slowest.sum()}", fontsize=11)
    axes.set(xticks=range(4), yticks=range(4), xlabel="step")
    axes.set_yticklabels([f"rank {r}" for r in range(4)])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
show(
    figure,
    "The number of squares (of 4) that each rank computes in each step. Each title adds up the "
    "squares of the slowest rank over the steps. In zigzag order, all ranks have the same work in "
    "every step.",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the zigzag order
#
# Write `zigzag(tokens, ranks)`. It returns an int64 tensor of shape (ranks, tokens / ranks): row r
# has the positions of the tokens of rank r, in increasing order. `tokens` is a multiple of
# `2 * ranks`.
#
# *Hint:* Put the positions into a tensor with one row for each of the 2N chunks. Which rows belong
# to rank r? `x.flip(0)` reverses the order of the rows, so that its row r is the late chunk that
# belongs to the same rank as row r of `x`.


# %% tags=["answer"]
def zigzag(tokens, ranks):
    """Return the positions of each rank's tokens, shape (ranks, tokens / ranks)."""
    chunks = mt.arange(tokens).reshape(2 * ranks, -1)
    return mt.cat([chunks[:ranks], chunks.flip(0)[:ranks]], 1)


# %% tags=["check"]
check(
    zigzag,
    cases=[(12, 2), (30, 5), (6, 3), (4, 1)],
    expected=lambda tokens, ranks: mt.stack(
        [
            mt.cat([mt.arange(s.start, s.stop) for s in dist.sequence_slices(tokens, r, ranks)])
            for r in range(ranks)
        ]
    ),
    properties={
        "all ranks see the same number of keys": lambda found, tokens, ranks: (
            (found + 1).sum(1) == tokens * (tokens + 1) // 2 // ranks
        ).all()
    },
)

# %% [markdown]
# Does the order change the result? Four ranks compute attention in both orders, with and without a
# mask, and we compare the results with those of one process. The library's `split_sequence` selects
# a rank's tokens. (Our `ring_forward` only masks the hidden squares. The library skips them.)

# %%
length = pick(512, 128)
query, key, value = (3 * mt.randn(length, 16, dtype="float64") for _ in range(3))


def all_ways(query, key, value, ways):
    """Return the rank's context for each pair (positions, causal) in `ways`."""
    return [ring_forward(query, key, value, *way) for way in ways]


positions = {
    order: mt.stack(
        [dist.split_sequence(mt.arange(length), r, 4, dim=0, order=order) for r in range(4)]
    )
    for order in ("contiguous", "zigzag")
}
ways = [(positions[order], causal) for order in positions for causal in (False, True)]
parts = run_ranks(4, all_ways, query, key, value, ways, uses=[pass_on, fold, ring_forward])
for number, (order, causal) in enumerate((o, c) for o in positions for c in (False, True)):
    found = mt.empty(length, 16, dtype="float64")
    for rank in range(4):
        found[positions[order][rank]] = parts[rank][number]
    whole = mt.scaled_dot_product_attention(query, key, value, is_causal=causal)
    difference = (found - whole).abs().max().item()
    print(f"{order:10}  causal {causal!s:5}  largest difference from one process {difference:.1e}")
    assert difference < 1e-12

# %% [markdown]
# ## The backward pass: gradients travel with their block
#
# Let $g_i$ be the gradient of the context of query $i$. Lesson 28 gives the gradient of a score,
# with $p_{ij} = e^{s_{ij} - L_i}$ and $a_i = g_i \cdot o_i$ (here $o_i$ is the context):
#
# $$ds_{ij} = p_{ij}\, (g_i \cdot v_j - a_i).$$
#
# $L_i$, $a_i$ and $g_i$ belong to query $i$, and are on the same rank as the query. So while a rank
# holds key and value $j$, it can compute $ds_{ij}$ for its own queries. Let $q_i$ already include
# the scale, so that $s_{ij} = q_i \cdot k_j$. The gradient of a query is
#
# $$dq_i = \sum_j ds_{ij}\, k_j.$$
#
# This sum runs over all keys, and every key visits the rank. The gradients of keys and values are
# sums over *queries*, which are on all ranks:
#
# $$dk_j = \sum_r \sum_{i \text{ on } r} ds_{ij}\, q_i, \qquad
#   dv_j = \sum_r \sum_{i \text{ on } r} p_{ij}\, g_i.$$
#
# Rank $r$ can compute term $r$ of these sums while it holds the block. It adds the term to the sum
# that arrives with the block, and sends the new sum to the next rank. After $N$ visits, the sum is
# complete. At that time, the sum is on the rank *before* the block's owner, so one more message is
# necessary. The blocks need $N - 1$ messages, as before, and their gradients need $N$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: one visit
#
# Write `visit(q, log_sum, g, a, block, carried)`. The rank's queries `q` (query, dim) already
# include the scale. `log_sum` and `a`, both of shape (query, 1), are $L_i$ and $a_i$, and `g`
# (query, dim) is the gradient of the context. `block` (2, key, dim) contains the keys and the
# values. `carried`, of the same shape, contains the sums $dk$ and $dv$ over the queries of the
# previous ranks. Return both sums after this visit.
#
# *Hint:* Compute the tile $p$ of shape (query, key) first, then $ds$. Both formulas above are
# products with a transposed tile. `mt.stack` joins two tensors along a new axis.


# %% tags=["answer"]
def visit(q, log_sum, g, a, block, carried):
    """Add this rank's terms to the gradients of keys and values, shape (2, key, dim)."""
    key, value = block[0], block[1]
    p = (q @ key.T - log_sum).exp()  # (query, key): recomputed, never stored
    ds = p * (g @ value.T - a)
    return carried + mt.stack([ds.T @ q, p.T @ g])


# %% tags=["check"]
check(
    visit,
    cases=[
        (mt.randn(3, 5), 2 + mt.rand(3, 1), mt.randn(3, 5), mt.randn(3, 1), mt.randn(2, 7, 5),
         mt.randn(2, 7, 5)),
        (mt.randn(4, 2), mt.randn(4, 1), mt.randn(4, 2), mt.randn(4, 1), mt.randn(2, 1, 2),
         mt.zeros(2, 1, 2)),
    ],
    expected=lambda q, log_sum, g, a, block, carried: carried + mt.stack([
        (mt.exp(mt.einsum("id,jd->ij", q, block[0]) - log_sum).unsqueeze(-1)
         * (mt.einsum("id,jd->ij", g, block[1]) - a).unsqueeze(-1) * q.unsqueeze(1)).sum(0),
        (mt.exp(mt.einsum("id,jd->ij", q, block[0]) - log_sum).unsqueeze(-1)
         * g.unsqueeze(1)).sum(0),
    ]),
    properties={
        "the order of the ranks does not matter": lambda found, q, log_sum, g, a, block, carried: (
            np.allclose(
                found - carried,
                visit(q.flip(0), log_sum.flip(0), g.flip(0), a.flip(0), block, 0 * carried),
            )
        )
    },
)  # fmt: skip

# %% [markdown]
# The library's `ring_attention` has this backward pass. Three ranks compute attention with a causal
# mask, forward and backward, in zigzag order.


# %%
def forward_and_backward(query, key, value, grad):
    """Return the rank's context, and the gradients of its queries, keys and values."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [dist.split_sequence(x, rank, size, dim=-2) for x in (query, key, value, grad)]
    inputs = [part.detach().requires_grad_() for part in parts[:3]]
    context = dist.ring_attention(*inputs, is_causal=True)
    context.backward(parts[3])
    return [context, *(x.grad for x in inputs)]


query, key, value, grad = (mt.randn(2, 12, 5, dtype="float64") for _ in range(4))  # 2 heads
parts = run_ranks(3, forward_and_backward, query, key, value, grad)
inputs = [x.detach().requires_grad_() for x in (query, key, value)]
whole = mt.scaled_dot_product_attention(*inputs, is_causal=True)
whole.backward(grad)
for number, x in enumerate([whole, *(x.grad for x in inputs)]):
    found = dist.join_sequence([part[number] for part in parts], dim=-2)
    difference = (found - x).abs().max().item()
    print(f"{['context', 'dq', 'dk', 'dv'][number]:8} largest difference {difference:.1e}")
    assert difference < 1e-12
sent = [sum(m.values.nbytes for m in parts.messages if m.source == rank) for rank in range(3)]
block_bytes = 2 * 2 * (12 // 3) * 5 * 8  # keys and values, 2 heads, 4 tokens, 5 numbers
print(f"bytes sent by each rank: {sent}, blocks: {[s // block_bytes for s in sent]}")
assert sent == [(2 + 2 + 3) * block_bytes] * 3  # forward N - 1, backward N - 1 and N

# %% tags=["plot"]
# Rounds 1 and 2 are the messages of the forward pass. The figure leaves them out, and counts the
# rounds of the backward pass from 1:
backward = [m for m in parts.messages if m.round > 2]
for message in backward:
    message.round -= 2
step_of = {1: ("K, V", 0), 2: ("dK, dV", 0), 3: ("K, V", 1), 4: ("dK, dV", 1), 5: ("dK, dV", 2)}


def block_of(message):
    return (message.source - step_of[message.round][1]) % 3


show(
    messages_figure(
        backward, 3, title="Backward pass on 3 ranks", color=block_of,
        label=lambda m: f"{step_of[m.round][0]} of {block_of(m)}",
    ),
    "The gradients dK, dV follow their block around the ring, and round 5 returns them to the "
    "owner of the block.",
)  # fmt: skip

# %% [markdown]
# ## Memory of a rank
#
# Long sequences need memory mainly for activations. `SequenceParallel` gives each rank $T / N$
# tokens of every layer of a GPT. `mt.memory.track` measures the memory of the tensors that are
# saved for the backward pass. The sum of the gradients over the ranks must equal the gradient that
# a single process computes.


# %%
def gpt_step(tokens):
    """Return loss, parameter bytes, saved bytes, and the gradient of the embedding."""
    mt.manual_seed(0)
    model = mt.models.GPT(65, tokens, embed_dim=32, num_heads=4, num_layers=2).double()
    data = mt.randint(0, 65, (2, tokens + 1))
    model = mt.nn.parallel.SequenceParallel(model)
    with mt.memory.track(model) as memory:
        loss = model.loss(data[:, :-1], data[:, 1:])
        held = {kind: sizes[-1] for kind, sizes in memory.by_kind().items()}
    loss.backward()
    model.sum_gradients()
    gradient = next(model.parameters()).grad
    return loss.item(), held["parameter"], held["saved for backward"], gradient


runs = {ranks: run_ranks(ranks, gpt_step, length) for ranks in (1, 2, 4)}
print(f"GPT, 2 sequences of {length} tokens: memory of each rank")
print("ranks   saved activations   parameters   loss")
for ranks, run in runs.items():
    loss, parameters, saved, gradient = run[-1]
    print(f"{ranks:5} {saved / 2**20:15.2f} MiB {parameters / 2**20:8.2f} MiB   {loss:.12f}")
    assert abs(saved * ranks / runs[1][0][2] - 1) < 0.01 and parameters == runs[1][0][1]
    assert abs(loss - runs[1][0][0]) < 1e-12
    assert all((result[3] - runs[1][0][3]).abs().max() < 1e-12 for result in run)

# %% [markdown]
# The activations shrink in proportion to $1/N$, but the parameters do not. Lessons 52 and 54 split
# the parameters. During attention itself, a rank needs six arrays of $c$ tokens: its queries, its
# results, the keys and the values that it holds, and the keys and the values that are arriving
# (section 3 of the paper). The scores are computed in tiles, as in lesson 28.
#
# ## When do the messages take no extra time?
#
# A rank can compute with one block while it sends this block to the next rank and receives another
# one. To make this possible, the library starts sending before it computes. The messages take no
# extra time if computing takes longer than sending. For $c$ queries and $c$ keys with $d$ numbers
# each, the products $q k^T$ and $p v$ take $2 c^2 d$ operations each. The block has $2 c d$ numbers
# of $b$ bytes. If a rank computes $F$ operations and sends $B$ bytes per second, the condition is
#
# $$\frac{4 c^2 d}{F} \ge \frac{2 c d\, b}{B} \quad\Longleftrightarrow\quad
#   c \ge \frac{b}{2} \cdot \frac{F}{B}.$$
#
# The work grows with $c^2$, and the message grows with $c$. So if the blocks are long enough, every
# connection is fast enough. The width $d$ cancels. So does the number of heads, which would
# multiply both sides. For float16, $b = 2$, so the condition is $c \ge F / B$, as in section 3 of
# the paper. A causal mask in zigzag order halves the work of a step, so the blocks must be twice as
# long. If 4 query heads share one key head and one value head (lesson 11), a block has only a
# quarter of the numbers, so a quarter of the length $c$ is enough.

# %%
flops = 312e12  # an A100's peak in float16, from its data sheet
print("A100, float16: smallest number of tokens per rank that hides the messages")
print("                              no mask   causal, zigzag   causal, 4 heads share keys")
for network, bandwidth in (("NVLink, 300 GB/s", 300e9), ("InfiniBand, 25 GB/s", 25e9)):
    least = flops / bandwidth
    print(f"{network:28} {least:8,.0f} {2 * least:16,.0f} {2 * least / 4:18,.0f}")
assert flops / 300e9 == 1040

# %% tags=["plot"]
c = np.geomspace(100, 100_000, 50)
figure = new_figure(6.4, 3.5)
axes = figure.subplots()
axes.loglog(c, 4 * c**2 * 128 / flops * 1e6, color="0.3", label="compute with a block")
for name, bandwidth, color in (
    ("InfiniBand, 25 GB/s", 25e9, COLOURS[1]),
    ("NVLink, 300 GB/s", 300e9, COLOURS[0]),
):
    axes.loglog(c, 4 * c * 128 / bandwidth * 1e6, color=color, label=f"send it: {name}")
    least = flops / bandwidth
    crossing = 4 * least * 128 / bandwidth * 1e6
    axes.plot([least, least], [1e-2, crossing], color=color, linewidth=1, linestyle=":")
axes.set(xlabel="tokens in a block, c", ylabel="microseconds")
axes.set_ylim(bottom=1e-2)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "One head with 128 numbers. The dotted lines are at c = F / B: to the right of them, computing "
    "takes longer than sending.",
)

# %% [markdown]
# ## What goes wrong without rescaling
#
# Each block of keys could also give its own $(m, l, o)$, and these could be combined at the end. It
# is tempting to add $l$ and $o$ without rescaling, or to average the contexts. We try these two
# mistakes in a single process, with several blocks.


# %%
def partial(query, key, value):
    """Return (m, l, o) of one block of keys."""
    scores = query @ key.T * query.shape[-1] ** -0.5
    return fold((mt.full((len(query), 1), -np.inf, dtype="float64"), 0.0, 0.0), scores, value)


def added(states, factors):
    """Return (sum of factor * o) / (sum of factor * l) over the blocks."""
    total = sum(f * l for f, (_, l, _) in zip(factors, states, strict=True))
    return sum(f * o for f, (_, _, o) in zip(factors, states, strict=True)) / total


query, key, value = (mt.randn(64, 16, dtype="float64") for _ in range(3))
whole = mt.scaled_dot_product_attention(query, key, value)
errors = {}
print("largest error     rescaled   not rescaled   mean of the contexts")
for blocks in (1, 2, 4, 8):
    states = [partial(query, *x) for x in zip(key.chunk(blocks), value.chunk(blocks), strict=True)]
    top = mt.stack([m for m, _, _ in states]).max(0).values
    ways = (
        added(states, [(m - top).exp() for m, _, _ in states]),
        added(states, [1.0] * blocks),
        sum(o / l for _, l, o in states) / blocks,
    )
    errors[blocks] = [(way - whole).abs().max().item() for way in ways]
    print(f"{blocks} blocks {errors[blocks][0]:17.1e} {errors[blocks][1]:14.1e} "
          f"{errors[blocks][2]:15.1e}")  # fmt: skip
    assert errors[blocks][0] < 1e-12
assert max(errors[1]) < 1e-12  # one block hides both mistakes
assert min(min(errors[blocks][1:]) for blocks in (2, 4, 8)) > 0.05

# %% [markdown]
# Both mistakes give plausible numbers, because the result is still a mean of the values, but with
# wrong weights. Without rescaling, the weights are correct only if all blocks have the same maximum
# $m$. The mean of the contexts is correct only if all blocks have the same $L$. With a single
# block, both results are correct. So always test with several ranks, and with random keys.
#
# Another mistake does raise an error: the length of a sequence is not divisible by the number of
# chunks. Some ranks would then have fewer tokens, and the blocks would not have the same shape.

# %%
with fails(mt.errors.ShapeError):
    dist.sequence_slices(1002, rank=0, size=4)

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.distributed.passing import Ring
from minitorch_attn.distributed.ring_attention import RingAttention

where(dist.ring_attention, RingAttention.forward, RingAttention.backward, Ring.visit)
where(dist.sequence_slices, mt.nn.parallel.SequenceParallel)

# %% [markdown]
# ## Exercise
#
# Many models let a query see only a window: its own key and the $w - 1$ keys before it. Then most
# blocks are hidden in contiguous order, and the ring can stop early. Add a parameter `window` to
# `ring_forward`, and stop sending a block when no other rank needs it. You are done when the result
# equals `scaled_dot_product_attention` with the corresponding mask to 1e-12, and `parts.messages`
# has exactly one round if $2 \le w \le c + 1$, and none if $w = 1$. How many rounds does a window
# of $w$ keys need? And how many would it need in zigzag order?
#
# ## Three questions
#
# 1. An all-gather of the keys and values in a ring sends exactly as many bytes as ring attention's
#    forward pass. What is the advantage of ring attention?
# 2. Twice as many ranks work on a sequence of the same length. What happens to the number of bytes
#    that a rank sends, and to its computing time? Is it easier or harder to hide the messages
#    behind the computation?
# 3. Rank 2 reads the blocks in the order 2, 1, 0, 3, and rank 0 in the order 0, 3, 2, 1. Why do
#    both get the same result as one process?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Ring attention saves memory and time. After an all-gather, every rank would hold all keys and
#    values, which do not fit. In the ring, a rank holds two blocks. It also computes while a block
#    travels, whereas attention after an all-gather can start only when all blocks have arrived.
# 2. The bytes stay nearly the same, $2 T d b (N - 1) / N$. The work of a rank is halved. So the
#    messages are harder to hide: $c = T / N$ is half as long, and it must be at least $F / B$.
# 3. The maximum and the sums over the keys do not depend on the order, because each term is
#    rescaled to the common maximum. Only rounding differs, by about 1e-16.
