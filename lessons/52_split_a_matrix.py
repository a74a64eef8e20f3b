# %% [markdown]
# # Tensor parallelism: split a matrix, split the heads
#
# A model does not fit into the memory of one machine, so even a single layer has to be computed by
# several machines. Each machine has a part of every matrix. How must a layer be cut so that the
# machines send as few messages as possible, and still compute the same numbers as a single machine,
# forward and backward?
#
# *Prerequisites:* multi-head attention (lesson 11), the feed-forward block (lesson 14), GPT
# (lesson 17), ranks and the all-reduce (lesson 50).

# %%
import numpy as np
from matplotlib.patches import Rectangle

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.ranks import run_ranks
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

F = mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## Columns, then rows
#
# A feed-forward block multiplies by two matrices, with a GELU in between:
# $Y = \mathrm{GELU}(X A)\, B$. All ranks have $X$ (token, embed). There are two ways to give each
# of $N$ ranks a part of a matrix:
#
# * **By columns**, $X\,[A_1\; A_2] = [X A_1\;\; X A_2]$. Each rank computes some columns of the
#   result. This does not need a message.
# * **By rows**, $[X_1\; X_2] \begin{bmatrix} A_1 \\ A_2 \end{bmatrix} = X_1 A_1 + X_2 A_2$. Each
#   rank needs only some columns of the input, and computes one term of the sum.
#
# Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053v4, section 3) cuts $A$ by columns and $B$ by
# rows. A rank's part of the first product is exactly what it needs for its part of the second:
#
# $$Y = \mathrm{GELU}(X\,[A_1 \dots A_N]) \begin{bmatrix} B_1 \\ \vdots \\ B_N \end{bmatrix}
# = \sum_k \mathrm{GELU}(X A_k)\, B_k .$$
#
# The only message is one sum at the end, an all-reduce. This works because the GELU acts element by
# element, so each rank can apply it to its own columns.

# %%
x, a, b = mt.randn(5, 6).double(), mt.randn(6, 8).double(), mt.randn(8, 6).double()
whole = F.gelu(x @ a) @ b
terms = [F.gelu(x @ a_k) @ b_k for a_k, b_k in zip(a.chunk(4, 1), b.chunk(4, 0), strict=True)]
print(f"one process and the sum of 4 terms: {(sum(terms) - whole).abs().max().item():.0e}")
assert (sum(terms) - whole).abs().max() < 1e-13

# %% tags=["plot"]
figure = new_figure(9, 2.2)
axes = figure.subplots()


def draw(left, width, height, label, colors, stacked=False):
    """Draw a matrix cut into one part for each color: into columns, or into rows if `stacked`."""
    w, h = (width, height / len(colors)) if stacked else (width / len(colors), height)
    for k, color in enumerate(colors):
        place = (left, height / 2 - (k + 1) * h) if stacked else (left + k * w, -height / 2)
        axes.add_patch(Rectangle(place, w, h, facecolor=color, edgecolor="white", linewidth=2))
    axes.text(left + width / 2, height / 2 + 0.15, label, ha="center")


both, gray = COLOURS[:2], ["0.8"]
draw(0.0, 1.2, 1, "$X$", gray)
draw(1.5, 1.6, 1.2, "$A$", both)
draw(4.1, 1.6, 1, "$\\mathrm{GELU}(X A)$", both)
draw(6.0, 1.2, 1.6, "$B$", both, stacked=True)
draw(7.9, 1.2, 1, "term 0", both[:1])
draw(9.8, 1.2, 1, "term 1", both[1:])
draw(11.7, 1.2, 1, "$Y$", gray)
for place, sign in ((3.6, "$\\rightarrow$"), (7.55, "="), (9.45, "+"), (11.35, "=")):
    axes.text(place, 0, sign, ha="center", va="center", fontsize=13)
axes.set(xlim=(-0.1, 13), ylim=(-0.9, 1.2), aspect="equal")
axes.axis("off")
show(
    figure,
    "Blue is on rank 0, orange on rank 1, gray on both. The columns that a rank has computed are "
    "multiplied by the rows that the same rank holds. Only the two terms have to be added across "
    "ranks.",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the term of one rank
#
# Write `rank_term(x, a, b, rank, ranks)`. It takes the full matrices `x` (token, embed), `a`
# (embed, hidden) and `b` (hidden, out), and returns the term of one rank, of shape (token, out),
# computed from its columns of `a` and its rows of `b` only. `ranks` divides `hidden`.
#
# *Hint:* The columns of rank $k$ are those from $k\,n$ to $(k + 1)\,n - 1$, with $n$ columns for
# each rank. Which rows of `b` have the same indices?


# %% tags=["answer"]
def rank_term(x, a, b, rank, ranks):
    """Return one rank's term of GELU(x @ a) @ b, shape (token, out)."""
    n = a.shape[1] // ranks
    own = slice(rank * n, (rank + 1) * n)
    return F.gelu(x @ a[:, own]) @ b[own]


# %% tags=["check"]
check(
    rank_term,
    cases=[
        (mt.randn(2, 3), mt.randn(3, 10), mt.randn(10, 7), 1, 2),
        (mt.randn(5, 2), mt.randn(2, 9), mt.randn(9, 3), 2, 3),
        (mt.randn(3, 2), mt.randn(2, 5), mt.randn(5, 1), 0, 1),
    ],
    expected=lambda x, a, b, rank, ranks: (
        F.gelu(x @ a.unflatten(1, (ranks, -1))[:, rank]) @ b.unflatten(0, (ranks, -1))[rank]
    ),
    properties={
        "the terms add up to the block": lambda term, x, a, b, rank, ranks: np.allclose(
            sum(rank_term(x, a, b, k, ranks) for k in range(ranks)).numpy(),
            (F.gelu(x @ a) @ b).numpy(),
        )
    },
)

# %% [markdown]
# ## The backward pass: f and g
#
# Every rank has the same $Y$ and computes the same loss $L$ from it, so it knows $G = dL/dY$. With
# $H_k = X A_k$, the chain rule gives each rank the gradients of its own matrices. No message is
# needed:
#
# $$\frac{dL}{dB_k} = \mathrm{GELU}(H_k)^T G, \qquad
# \frac{dL}{dH_k} = (G B_k^T) \odot \mathrm{GELU}'(H_k), \qquad
# \frac{dL}{dA_k} = X^T \frac{dL}{dH_k}.$$
#
# But $X$ is used $N$ times, once on each rank. The gradient of a value that is used several times
# is the sum of the gradients from all uses:
#
# $$\frac{dL}{dX} = \sum_k \frac{dL}{dH_k}\, A_k^T.$$
#
# So the backward pass needs one all-reduce, too, at the place where $X$ enters the block. Two small
# operations describe this:
#
# | | forward | backward |
# | --- | --- | --- |
# | $f$, where $X$ enters: `copy_to_ranks` | identity | sum over the ranks |
# | $g$, where the terms meet: `reduce_from_ranks` | sum over the ranks | identity |
#
# $f$ and $g$ are **conjugate**: the backward pass of one is the forward pass of the other.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a rank's share of the gradient of X
#
# Write `input_gradient(x, a_k, b_k, grad_y)`: the term $\frac{dL}{dH_k} A_k^T$ of one rank, of
# shape (token, embed). Here the activation is tanh, whose derivative is $1 - \tanh^2$. `x` has
# shape (token, embed), `a_k` (embed, columns), `b_k` (columns, out) and `grad_y` (token, out). Use
# the formulas above, not `backward`.
#
# *Hint:* First go back through `b_k`, then through tanh, then through `a_k`. The shapes show which
# matrix has to be transposed.


# %% tags=["answer"]
def input_gradient(x, a_k, b_k, grad_y):
    """Return the rank's term of the gradient of x, shape (token, embed)."""
    grad_activation = grad_y @ b_k.T
    grad_hidden = grad_activation * (1 - (x @ a_k).tanh() ** 2)
    return grad_hidden @ a_k.T


# %% tags=["check"]
check(
    input_gradient,
    cases=[
        (mt.randn(2, 3), mt.randn(3, 5), mt.randn(5, 7), mt.randn(2, 7)),
        (mt.randn(1, 2), mt.randn(2, 2), mt.randn(2, 3), mt.randn(1, 3)),
        (mt.randn(3, 5), mt.randn(5, 1), mt.randn(1, 2), mt.randn(3, 2)),
    ],
    expected=lambda x, a_k, b_k, grad_y: mt.autograd.grad(((x @ a_k).tanh() @ b_k), x, grad_y)[0],
    properties={
        "the result is proportional to grad_y": lambda grad_x, x, a_k, b_k, grad_y: np.allclose(
            input_gradient(x, a_k, b_k, 3 * grad_y).numpy(), 3 * grad_x.numpy()
        )
    },
)

# %% [markdown]
# Now we run the block on four real ranks. The arguments `into` and `out_of` name the operations
# that serve as $f$ and $g$. Later sections replace these operations with others.


# %%
def split_block(x, a, b, into, out_of):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    operators = {
        "f": dist.functional.copy_to_ranks,
        "g": dist.functional.reduce_from_ranks,
        "all_reduce": dist.functional.all_reduce,
        "nothing": lambda x: x,
    }
    x = x.clone().requires_grad_()
    a_k = a.chunk(ranks, 1)[rank].clone().requires_grad_()
    b_k = b.chunk(ranks, 0)[rank].clone().requires_grad_()
    with dist.count_messages() as forward:
        hidden = mt.nn.functional.gelu(operators[into](x) @ a_k)
        y = operators[out_of](hidden @ b_k)
    with dist.count_messages() as backward:
        y.square().mean().backward()
    calls = [forward["all_reduce"].calls, backward["all_reduce"].calls]
    return {"y": y, "x": x.grad, "a": a_k.grad, "b": b_k.grad, "calls": calls}


def compare(results):
    """Return pairs (from the ranks, from one process) of y and of the three gradients, by name."""
    leaves = [t.clone().requires_grad_() for t in (x, a, b)]
    y = F.gelu(leaves[0] @ leaves[1]) @ leaves[2]
    y.square().mean().backward()
    found = {
        "y": results[0]["y"],
        "gradient of X": results[0]["x"],
        "gradient of A": mt.cat([result["a"] for result in results], 1),
        "gradient of B": mt.cat([result["b"] for result in results], 0),
    }
    correct = [y.detach(), *[t.grad for t in leaves]]
    return dict(zip(found, zip(found.values(), correct, strict=True), strict=True))


results = run_ranks(4, split_block, x, a, b, "f", "g")
for name, (found, correct) in compare(results).items():
    print(f"{name:14} differs from one process by at most {(found - correct).abs().max():.0e}")
    assert (found - correct).abs().max() < 1e-12
print("all-reduces forward and backward:", results[0]["calls"])
assert all(result["calls"] == [1, 1] for result in results)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The library has a second differentiable sum over ranks, `dist.functional.all_reduce`. Its backward
# pass also sums the gradients of $Y$ over the ranks. This is correct if every rank has its own loss
# and the total loss is the sum of these losses. Here we use this function in place of $g$, on 4
# ranks. The values of $Y$ stay the same. What happens to the gradients of $A$ and $X$? Write down
# your answer, then run the next cell.

# %%
results = run_ranks(4, split_block, x, a, b, "f", "all_reduce")
for name, (found, correct) in compare(results).items():
    ratios = found / correct
    print(f"{name:14} is {ratios.mean():.3f} times that of one process")
    assert (ratios - (1 if name == "y" else 4)).abs().max() < 1e-9

# %% [markdown]
# All gradients are four times too large: the same loss is counted once for each rank. With two such
# blocks in a row, the gradients of the first are 16 times too large. Yet you can hardly see this
# mistake in training, because Adam divides by the size of the gradient.
#
# ## Attention is already split into heads
#
# Attention can be cut by columns and rows, too. Each column of the query, key and value matrices
# belongs to one head, and each head is computed independently of the others. The output projection
# is linear in the concatenated contexts $c_h$ of the heads:
#
# $$[c_1 \dots c_H]\, O = \sum_h c_h\, O_h .$$
#
# A rank with some of the heads computes the terms of these heads. So the matrices are again cut by
# columns, then by rows, with softmax attention in place of the GELU.

# %%
attention = mt.nn.Attention(12, 4).double()  # 4 heads of 3 numbers
tokens = mt.randn(2, 5, 12).double()


def some_heads(x, heads):
    """Return the sum of the terms of some heads."""
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    q, k, v = (p(x).unflatten(-1, (4, 3)).transpose(1, 2)[:, heads] for p in projections)
    context = F.scaled_dot_product_attention(q, k, v)  # (batch, some heads, token, 3)
    rows = attention.out_proj.weight.unflatten(1, (4, 3))[:, heads].flatten(1)
    return context.transpose(1, 2).flatten(2) @ rows.T


two_ranks = some_heads(tokens, slice(0, 2)) + some_heads(tokens, slice(2, 4))
difference = two_ranks + attention.out_proj.bias - attention(tokens)
print(f"heads 0 and 1 plus heads 2 and 3, and the layer: {difference.abs().max().item():.0e}")
assert difference.abs().max() < 1e-12

# %% [markdown] tags=["your-turn"]
# ## Your turn: the heads of a rank in a joint matrix
#
# Many models store query, key and value projections as one matrix of shape (3 * embed, in). The
# first rows compute all queries (head 0, head 1, ...), the next rows all keys, and the last rows
# all values. Write `qkv_part(weight, rank, ranks)`: the matrix of shape (3 * embed / ranks, in)
# that computes the queries, keys and values of this rank's heads, in the same order. The number of
# heads is a multiple of `ranks`.
#
# *Hint:* With 3 ranks, the part of rank 0 is not the first third of the rows. Give the matrix an
# axis for query, key and value, and one for the ranks.


# %% tags=["answer"]
def qkv_part(weight, rank, ranks):
    """Return the rows of this rank's heads, shape (3 * embed / ranks, in)."""
    kinds = weight.unflatten(0, (3, ranks, -1))  # (3, ranks, rows, in)
    return kinds[:, rank].flatten(0, 1)


# %% tags=["check"]
check(
    qkv_part,
    cases=[(mt.randn(30, 2), 1, 5), (mt.randn(18, 5), 0, 3), (mt.randn(6, 3), 0, 1)],
    expected=lambda weight, rank, ranks: mt.cat(
        [third.chunk(ranks, 0)[rank] for third in weight.chunk(3, 0)]
    ),
    properties={
        "together, the ranks have all rows": lambda part, weight, rank, ranks: np.isclose(
            sum(qkv_part(weight, k, ranks).sum().item() for k in range(ranks)),
            weight.sum().item(),
        )
    },
)

# %% [markdown]
# ## A whole GPT
#
# `tensor_parallel(model)` replaces the attention layers and feed-forward blocks of a model. Each
# has one $f$ and one $g$. A Transformer block consists of one attention layer and one feed-forward
# block, so it has **four all-reduces** in a training step, two forward and two backward. Each one
# carries a tensor of shape (batch, token, embed), which is $B\,T\,E$ numbers. Embeddings, layer
# norms and the output layer are not split: every rank computes all of them.


# %%
def train_gpt(split):
    mt.manual_seed(0)
    model = mt.models.GPT(65, 32, embed_dim=48, num_heads=4, num_layers=3, dropout=0.1).double()
    data = mt.randint(0, 65, (4, 33))
    if split:
        model = mt.nn.parallel.tensor_parallel(model)
    optimizer = mt.optim.AdamW(model.parameters(), lr=1e-2)
    mt.manual_seed(1)  # the same dropout masks
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        with dist.count_messages() as traffic:
            logits = model(data[:, :-1]).flatten(0, 1)
            loss = mt.nn.functional.cross_entropy(logits, data[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    sent = traffic["all_reduce"]
    of_blocks = sum(p.numel() for p in model.blocks.parameters())
    return {"losses": losses, "calls": sent.calls, "bytes": sent.payload, "blocks": of_blocks}


found = {1: train_gpt(False)}
for ranks in (2, 4):
    found[ranks] = run_ranks(ranks, train_gpt, True)[0]
print("ranks   losses                       parameters of blocks   all-reduces      bytes in them")
for ranks, row in found.items():
    losses = "  ".join(f"{loss:.5f}" for loss in row["losses"])
    print(f"{ranks:5}   {losses}   {row['blocks']:20,} {row['calls']:13} {row['bytes']:18,}")
    assert np.allclose(row["losses"], found[1]["losses"], rtol=0, atol=1e-10)
    if ranks > 1:
        assert row["calls"] == 4 * 3  # 4 for each of 3 blocks
        assert row["bytes"] == 12 * (4 * 32 * 48) * 8  # B T E numbers of 8 bytes

# %% [markdown]
# The losses equal those of a single process, even with dropout: each rank uses exactly those
# entries of the single process's dropout masks that belong to the rank's heads and columns. Each
# rank holds a little more than $1/N$ of the blocks' parameters, because the layer norms and the
# biases of the row-split matrices are on every rank.
#
# ## When is it worth it?
#
# Data parallel training (lesson 50) also needs an all-reduce: one over all gradients, $12\,E^2$
# numbers for a block. Tensor parallelism needs $4\,B\,T\,E$ numbers. The ratio is $B\,T / (3 E)$:
# with more than $3 E$ tokens in a batch, tensor parallelism sends more. Its messages also cannot be
# hidden behind other work, because the next layer needs the sum. So tensor parallelism is used
# within one machine, whose GPUs have fast connections, and only for models that do not fit on one
# GPU.

# %% tags=["plot"]
figure = new_figure(6.5, 3.2)
axes = figure.subplots()
embed, tokens_of_batch = 4096, 2.0 ** np.arange(10, 20)
gradients, activations = 12 * embed**2, 4 * tokens_of_batch * embed
axes.loglog(tokens_of_batch, 0 * tokens_of_batch + gradients, color=COLOURS[0], base=2)
axes.loglog(tokens_of_batch, activations, color=COLOURS[1], base=2)
axes.axvline(3 * embed, color="0.7", linestyle=":")
axes.text(3 * embed, 2.0**33, " 3 E = 12,288 tokens", color="0.4", va="top")
axes.text(2**19, gradients / 1.4, "data parallel: $12 E^2$", color=COLOURS[0], ha="right", va="top")
axes.text(2**17, 2.0**32, "split matrices: $4 B T E$  ", color=COLOURS[1], ha="right", va="top")
axes.set(xlabel="tokens in a batch, $B\\,T$", ylabel="numbers to sum per block")
axes.minorticks_off()
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "The number of gradients does not grow with the batch, but the number of activations does. "
    "Here the embedding size is 4096.",
)

# %% [markdown]
# ## What goes wrong with rows first, or without f
#
# Suppose we cut $A$ by rows and $B$ by columns. Each rank then has a term of $X A$. If it applies
# the GELU to its own term, nothing raises an error, and all shapes are correct. But the GELU is not
# linear: $\mathrm{GELU}(u + v) \ne \mathrm{GELU}(u) + \mathrm{GELU}(v)$. For a correct result, an
# all-reduce would have to sum the hidden features before the GELU. A Transformer has four times as
# many hidden features as outputs, so this all-reduce would send four times as many bytes as the one
# above, which sums the outputs.

# %%
print("GELU(1 - 1) is", F.gelu(mt.tensor(0.0)).item())
print(f"GELU(1) + GELU(-1) is {F.gelu(mt.tensor([1.0, -1.0])).sum().item():.3f}")
halves = [x_k @ a_k for x_k, a_k in zip(x.chunk(2, 1), a.chunk(2, 0), strict=True)]
too_early, in_time = sum(F.gelu(h) for h in halves) @ b, F.gelu(sum(halves)) @ b
for name, y in (("GELU, then sum", too_early), ("sum, then GELU", in_time)):
    print(f"{name}: {((y - whole).norm() / whole.norm()).item():.0%} relative error")
assert (in_time - whole).abs().max() < 1e-12 and (too_early - whole).norm() > 0.1 * whole.norm()

# %% [markdown]
# The second mistake is harder to notice: $f$ does nothing in the forward pass, so it is easily left
# out.

# %%
results = run_ranks(4, split_block, x, a, b, "nothing", "g")
for name, (values, correct) in compare(results).items():
    error = ((values - correct).norm() / correct.norm()).item()
    print(f"{name:14} on rank 0 has a relative error of {error:.0%}")
    assert (error > 0.1) == (name == "gradient of X")
apart = (results[0]["x"] - results[1]["x"]).norm() / results[0]["x"].norm()
print(f"the gradients of X on ranks 0 and 1 differ by {apart.item():.0%}")
total = sum(result["x"] for result in results)
assert apart > 0.1 and (total - compare(results)["gradient of X"][1]).abs().max() < 1e-12

# %% [markdown]
# The output and the gradients of this block are correct. Only the gradient for earlier layers is
# wrong: each rank passes on its own term instead of the sum. The parameters of embeddings and layer
# norms should be equal on all ranks, but they receive different gradients, and the copies drift
# apart. A test that checks only the weights of one block does not find this.
#
# ## In the library

# %%
from minitorch_attn.nn.parallel import ColumnParallelLinear, RowParallelLinear, tensor_parallel

where(
    ColumnParallelLinear, RowParallelLinear, mt.nn.parallel.SplitHeadsAttention, tensor_parallel,
    dist.functional.copy_to_ranks, dist.functional.reduce_from_ranks,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# The output layer of a GPT computes a logit for each token of the vocabulary. Split it so that each
# rank computes the logits of a part of the vocabulary. Then compute the cross-entropy without
# collecting the logits: for each position, all-reduce the maximum (`dist.ReduceOp.MAX`), the sum of
# the exponentials, and the logit of the target, which only one rank has. How many numbers does this
# send, compared with sending all logits? Test it with `run_ranks` against `F.cross_entropy`, to
# 1e-12.
#
# ## Three questions
#
# 1. Two column-split layers follow each other, with a GELU in between. What has to be sent?
# 2. Why is the bias of the second matrix added after the sum, and not by each rank?
# 3. A model has 12 heads. Across how many ranks can its attention be split, and why not across 8?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The columns of the first result have to be gathered on all ranks before the second product, and
#    the second result is still split. If the first matrix is cut by columns and the second by rows,
#    a single sum is enough.
# 2. Each of the $N$ ranks would add the bias, so the sum would contain it $N$ times.
# 3. Across 1, 2, 3, 4, 6 or 12 ranks. With 8 ranks, a head would have to be cut, and its softmax
#    needs the whole dot product of query and key.
