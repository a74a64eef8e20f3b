# %% [markdown]
# # The feed-forward block and what it costs
#
# Every block of a Transformer consists of attention and a small network of two layers, with the
# widths 512 -> 2048 -> 512 in the first Transformer. Diagrams usually focus on attention. What does
# the small network do, and which of the two costs more?
#
# *Prerequisites:* backward passes (lesson 3), multi-head attention (lesson 11), matrix products and
# their cost.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## The same small network for every token
#
# $$\mathrm{FFN}(x) = W_2\, f(W_1 x + b_1) + b_2, \qquad f = \mathrm{ReLU} \text{ or GELU}.$$
#
# The same network is applied to each token separately. Attention moves information between tokens.
# The feed-forward network processes the information that has arrived at one token. (Deck COMP541,
# "Encoder-Decoder Sublayers (2)", and deck KROL, "Feed forward = Old friend: MLP"; `docs/decks.md`
# lists the decks.)


# %%
def feed_forward(x, w1, b1, w2, b2):
    hidden = (x @ w1.T + b1).relu()  # (..., d) -> (..., 4 d)
    return hidden @ w2.T + b2  # (..., 4 d) -> (..., d)


d, tokens = 8, 5
network = mt.nn.FeedForward(d, 4 * d, "relu")
w1, b1 = network.linear1.weight, network.linear1.bias  # (4 d, d), (4 d,)
w2, b2 = network.linear2.weight, network.linear2.bias  # (d, 4 d), (d,)

x = mt.randn(tokens, d)
together = feed_forward(x, w1, b1, w2, b2)
one_by_one = mt.stack([feed_forward(token, w1, b1, w2, b2) for token in x])
print("all tokens at once, or one by one: difference", (together - one_by_one).abs().max().item())
assert (together - one_by_one).abs().max() < 1e-6
assert (together - network(x)).abs().max() < 1e-6

changed = x.clone()
changed[0] = 100.0
same = (network(changed)[1:] == network(x)[1:]).all().item()
print("token 0 changes; all other outputs stay the same:", same)
assert same

# %% [markdown] tags=["your-turn"]
# ## Your turn: one network on several devices
#
# The network of a large model may be too large for one device, but it can be split across several
# devices. Each device stores a part of the hidden features, that is, some rows of $W_1$ and $b_1$
# and the matching columns of $W_2$. The devices compute their parts independently, and the sum of
# their results is the output.
#
# Write `in_parts(x, w1, b1, w2, b2, parts)`, which computes the network in this way, one part after
# the other. The weights have the shapes above, and the hidden width is divisible by `parts`.
#
# *Hint:* `w1.chunk(parts, 0)` cuts a tensor along axis 0 into a tuple of parts. Why may you apply
# the ReLU to each part separately, and how many times must $b_2$ be added?


# %% tags=["answer"]
def in_parts(x, w1, b1, w2, b2, parts):
    """Return the output, shape (..., d). Compute the hidden features one part at a time."""
    output = b2  # once, not in every part
    pieces = zip(w1.chunk(parts, 0), b1.chunk(parts, 0), w2.chunk(parts, 1), strict=True)
    for rows, offset, columns in pieces:
        hidden = (x @ rows.T + offset).relu()  # (..., 4 d / parts)
        output = output + hidden @ columns.T
    return output


# %% tags=["check"]
check(
    in_parts,
    cases=[
        (mt.randn(5, 3), mt.randn(6, 3), mt.randn(6), mt.randn(3, 6), mt.randn(3), 3),
        (mt.randn(2, 3, 2), mt.randn(7, 2), mt.randn(7), mt.randn(2, 7), mt.randn(2), 7),
        (mt.randn(1, 3), mt.randn(5, 3), mt.randn(5), mt.randn(3, 5), mt.randn(3), 1),
    ],
    expected=lambda x, w1, b1, w2, b2, parts: feed_forward(x, w1, b1, w2, b2),
    properties={
        "one feature at a time gives the same result": lambda y, x, w1, b1, w2, b2, parts: (
            np.allclose(in_parts(x, w1, b1, w2, b2, len(b1)).numpy(), y.numpy())
        ),
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the backward pass of the first layer
#
# Write the backward pass with NumPy: `first_layer_gradients(x, w1, b1, w2, gradient)` is given the
# gradient of the output, shape (token, d), and returns the gradients of $W_1$ and $b_1$. x has
# shape (token, d).
#
# *Hint:* Go backward step by step: through $W_2$, then through the ReLU, then through $W_1$. The
# ReLU passes the gradient on where its input is positive, and blocks it elsewhere. To find the last
# product, use the shapes: the gradient of $W_1$ has the shape of $W_1$ and sums over the tokens.


# %% tags=["answer"]
def first_layer_gradients(x, w1, b1, w2, gradient):
    """Return the gradients of w1, shape (4 d, d), and b1, shape (4 d,)."""
    active = x @ w1.T + b1 > 0  # (token, 4 d)
    slope = (gradient @ w2) * active  # (token, 4 d), at the input of the ReLU
    return slope.T @ x, slope.sum(0)


# %% tags=["check"]
check(
    first_layer_gradients,
    cases=[
        tuple(mt.randn(*shape).numpy() for shape in ((5, 2), (7, 2), (7,), (2, 7), (5, 2))),
        tuple(mt.randn(*shape).numpy() for shape in ((1, 3), (11, 3), (11,), (3, 11), (1, 3))),
    ],
    expected=lambda x, w1, b1, w2, gradient: mt.autograd.grad(
        feed_forward(
            mt.tensor(x),
            first := mt.tensor(w1, requires_grad=True),
            offset := mt.tensor(b1, requires_grad=True),
            mt.tensor(w2),
            0.0,
        ),
        (first, offset),
        mt.tensor(gradient),
    ),
    properties={
        "a feature that is 0 for all tokens gets no gradient": lambda found, x, w1, b1, *others: (
            not found[0][(x @ w1.T + b1 <= 0).all(0)].any()
        ),
    },
)

# %% [markdown]
# The check tests that a hidden feature that is 0 for every token gets no gradient. Such a feature
# is called dead, because its weights no longer learn. GELU helps, because its slope is not 0 for
# small negative inputs.
#
# ## The feed-forward network has two thirds of the parameters
#
# Attention has four matrices of $d \times d$. The feed-forward network has two matrices of
# $4d \times d$, which is twice as many numbers. With biases, attention has $4d^2 + 4d$ parameters
# and the network $8d^2 + 5d$.

# %%
print("model            d   attention  feed-forward   share of the block")
sizes = {
    "Transformer base": (512, 8),
    "GPT-2, BERT, ViT-B": (768, 12),
    "GPT-2 XL": (1600, 25),
}
with mt.nn.init.skip_init():  # sizes only: values are left undefined
    for name, (d, heads) in sizes.items():
        block = mt.models.gpt.Block(d, heads, 4 * d)
        parts = (block.attention, block.feed_forward)
        attention, network = (sum(p.numel() for p in part.parameters()) for part in parts)
        share = network / (attention + network)
        print(f"{name:<18}{d:5}{attention:12,}{network:14,}{100 * share:18.1f} %")
        assert attention == 4 * d * d + 4 * d
        assert network == 8 * d * d + 5 * d
        assert abs(share - 2 / 3) < 0.001

# %% [markdown]
# ## The network's share of the operations depends on the sequence length
#
# The table lists the operations for $T$ tokens, with two operations for each multiply-add:
#
# | part | operations |
# | --- | --- |
# | feed-forward | $16\,T d^2$ |
# | attention, its four matrices | $8\,T d^2$ |
# | attention, scores and weighted sum | $4\,T^2 d$ |
#
# Attention as a whole needs as many operations as the network if $8d^2 + 4Td = 16d^2$, that is, if
# $T = 2d$. We let the library count the operations of an encoder block of BERT's size (`Summary`
# observes a forward pass) and compare.

# %%
d, heads = 768, 12
with mt.nn.init.skip_init():
    block = mt.models.encoder_decoder.EncoderLayer(d, heads, 4 * d)
lengths = [2**k for k in range(6, 15)]
shares = {"feed-forward": [], "attention's matrices": [], "scores and sums": []}
print("tokens   feed-forward   attention's matrices   scores and sums")
for T in lengths:
    parts = (16 * T * d * d, 8 * T * d * d, 4 * T * T * d)
    if T <= 1024:  # the formulas are exact, so longer texts need no check
        counted = {row.name: row.flops for row in mt.nn.Summary(block, (1, T, d)).rows}
        assert counted["feed_forward"] == parts[0]
        assert counted["attention"] == parts[1] + parts[2]
    for share, part in zip(shares.values(), parts, strict=True):
        share.append(100 * part / sum(parts))
    print(f"{T:6}" + "".join(f"{share[-1]:15.1f} %" for share in shares.values()))

assert shares["feed-forward"][0] > 60  # for short texts the network dominates
assert shares["feed-forward"][-1] < 25  # for long texts the scores dominate
at = lengths.index(1024)
assert shares["scores and sums"][at] < shares["feed-forward"][at]

# %% tags=["plot"]
figure = new_figure(7.5, 3.8)
axes = figure.add_subplot()
axes.stackplot(lengths, *shares.values(), colors=COLOURS, edgecolor="white", linewidth=2)
for height, name in ((30, "feed-forward"), (75, "attention's matrices")):
    axes.text(70, height, name, color="white", fontweight="bold")
axes.text(5200, 75, "scores\nand sums", color="white", fontweight="bold")
axes.axvline(2 * d, color="black", linestyle="--")
axes.text(2 * d * 1.07, 4, "T = 2 d", color="white", fontweight="bold")
axes.set_xscale("log", base=2)
axes.set(xlabel="tokens T", ylabel="share of the operations, %", ylim=(0, 100))
axes.margins(x=0)
show(
    figure,
    "Operations of a block of width 768. Up to T = 2 d (dashed) the feed-forward network needs "
    "more than attention as a whole. For longer texts the scores, which grow with the square of T, "
    "dominate.",
)

# %% [markdown]
# ## What goes wrong without the nonlinearity or the network
#
# First, we remove the nonlinearity. Two linear maps without a nonlinearity between them are
# equivalent to one linear map, so the extra width is useless.

# %%
d = 16
w1, w2 = mt.randn(4 * d, d, dtype="float64"), mt.randn(d, 4 * d, dtype="float64")
x = mt.randn(3, d, dtype="float64")
product = w2 @ w1  # (d, d)
difference = ((x @ w1.T) @ w2.T - x @ product.T).abs().max().item()
print(f"two matrices, {w1.numel() + w2.numel()} numbers; their product, {product.numel()} numbers")
print(f"difference of the results: {difference:.1e}")
assert difference < 1e-10

# %% [markdown]
# Second, we remove the whole feed-forward network. The vector of a token holds two numbers, $a$ and
# $b$, between -1 and 1. Do they have the same sign, $ab > 0$? A linear map cannot answer this
# question (it is XOR). We train a block with a ReLU network, one with a linear network, and one
# with attention alone.


# %%
class Block(mt.nn.Module):
    def __init__(self, kind, width=16):
        super().__init__()
        self.read = mt.nn.Linear(2, width)
        self.attention = mt.nn.Attention(width, 2)
        activation = {"ReLU": "relu", "linear": lambda x: x}.get(kind)
        self.network = mt.nn.FeedForward(width, 4 * width, activation) if activation else None
        self.answer = mt.nn.Linear(width, 2)

    def forward(self, x):  # (batch, token, 2)
        x = self.read(x)  # (batch, token, width)
        x = x + self.attention(x)
        if self.network is not None:
            x = x + self.network(x)
        return self.answer(x)  # (batch, token, class)


def examples(generator, tokens, count=64):
    x = generator.uniform(-1, 1, size=(count, tokens, 2)).astype(np.float32)
    return mt.tensor(x), mt.tensor((x.prod(-1) > 0).astype(np.int64))


def train(kind, tokens, steps):
    mt.manual_seed(0)
    model, generator = Block(kind), np.random.default_rng(0)
    optimizer = mt.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        x, same_sign = examples(generator, tokens)
        logits = model(x)
        loss = mt.nn.functional.cross_entropy(logits.flatten(0, 1), same_sign.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, same_sign = examples(np.random.default_rng(9), tokens, 1000)
    with mt.no_grad():
        return model, (model(x).argmax(-1) == same_sign).float().mean().item()


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The third block has no network at all, only attention. How often is it correct if the text
# consists of a single token? And how often if the text also has three other tokens with random
# numbers, which have nothing to do with the answer? Guessing is correct half of the time. Write
# down two numbers, then run the next cell.

# %%
alone, among = {}, {}
models = {}
print("feed-forward  single token    with three others")
for kind in ("ReLU", "linear", "none"):
    models[kind], alone[kind] = train(kind, 1, pick(500, 300))
    among[kind] = train(kind, 4, pick(500, 300))[1]
    print(f"{kind:<12}{100 * alone[kind]:12.1f} %{100 * among[kind]:18.1f} %")

assert alone["ReLU"] > 0.93
assert alone["linear"] < 0.6
assert alone["none"] < 0.6
assert among["ReLU"] > max(among["linear"], among["none"])
assert among["none"] > alone["none"] + 0.1  # with other tokens, attention alone computes a little

# %% [markdown]
# For a single token the softmax of its only score is 1, so attention is a linear map and the model
# can only guess. With other tokens, the weights depend on the content, so attention is not linear.
# The model uses this nonlinearity: it is correct about nine times in ten, although the other tokens
# contain no information about the answer. Only the block with the ReLU network answers correctly in
# both cases, for a single token and with three others.

# %% tags=["plot"]
steps = np.linspace(-1, 1, 41, dtype=np.float32)
plane = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 1, 2)  # (point, token, 2)
figure = new_figure(9, 3.4)
panels = figure.subplots(1, 3, sharey=True)
for panel, (kind, model) in zip(panels, models.items(), strict=True):
    with mt.no_grad():
        chance = model(mt.tensor(plane)).softmax(-1)[:, 0, 1].numpy().reshape(41, 41)
    image = panel.imshow(
        chance, extent=(-1, 1, -1, 1), origin="lower", cmap="RdBu_r", vmin=0, vmax=1
    )
    panel.axhline(0, color="black", linewidth=0.8)
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set(title=f"feed-forward: {kind}", xlabel="a", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
panels[0].set_ylabel("b")
figure.colorbar(image, ax=panels, shrink=0.8, label="predicted: same sign")
show(
    figure,
    "Prediction of each block for every (a, b) of a single token. Only the block with a nonlinear "
    "network finds the four quadrants; the others predict one half everywhere.",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: solve the task without training
#
# You can find weights for this task by hand. The number
#
# $$|a + b| - |a - b|$$
#
# is positive if $a$ and $b$ have the same sign, and negative otherwise. (Try it with 2 and 3, then
# with 2 and -3.) Write `sign_score(x)`, which computes this number for each token $(a, b)$ as a
# feed-forward network does: a matrix $W_1$ of shape (4, 2), a ReLU, and a vector $w_2$ of 4
# numbers.
#
# *Hint:* $|t| = \mathrm{relu}(t) + \mathrm{relu}(-t)$. So which four numbers should the hidden
# layer compute from $a$ and $b$? Give your weights the dtype of x: `mt.tensor([...],
# dtype=x.dtype)`.


# %% tags=["answer"]
def sign_score(x):
    """Compute |a + b| - |a - b| for tokens (a, b) with one ReLU layer. Shape: (..., token)."""
    w1 = mt.tensor([[1, 1], [-1, -1], [1, -1], [-1, 1]], dtype=x.dtype)  # (4, 2)
    w2 = mt.tensor([1, 1, -1, -1], dtype=x.dtype)  # (4,)
    return (x @ w1.T).relu() @ w2


# %% tags=["check"]
check(
    sign_score,
    cases=[mt.randn(7, 2), mt.randn(2, 3, 2), mt.tensor([[2.0, 3.0], [2.0, -3.0], [-5.0, -0.1]])],
    expected=lambda x: x.sum(-1).abs() - (x[..., 0] - x[..., 1]).abs(),
    properties={
        "positive if and only if the signs agree": lambda y, x: ((y > 0) == (x.prod(-1) > 0)).all(),
    },
)

# %% [markdown]
# Four hidden features and a ReLU solve the task exactly. Without the ReLU, no width is enough.
#
# ## In the library

# %%
where(mt.nn.FeedForward, mt.nn.GatedFeedForward, mt.nn.Summary)
where(mt.models.gpt.Block.forward, mt.ops.relu, mt.ops.gelu)

# %% [markdown]
# ## Exercise
#
# Llama's network is gated. It computes $W_{down}(f(W_{gate}x) \cdot W_{up}x)$ with three matrices
# and a hidden width of $\tfrac{8}{3} d$. Replace the network of `Block` by
# `mt.nn.GatedFeedForward(width)`. You are done when the number of parameters of this layer is
# within 5 percent of that of `mt.nn.FeedForward(width, bias=False)` for `width = 768`, and when
# the accuracy for single tokens is above 90 percent. Then set the layer's activation to
# `lambda x: x`. Why does the block still solve the task, although a block with a linear network did
# not?
#
# Then practice:
#
# ```sh
# mta exercise start 06
# mta exercise start 27
# mta exercise start 35
# ```
#
# ## Three questions
#
# 1. A model of width 768 reads texts of 512 tokens. Someone makes its attention twice as fast. By
#    what fraction can the time per block decrease at most?
# 2. Does the feed-forward network move information from one token to another?
# 3. For a single token, attention alone is correct half of the time. With three other tokens it is
#    correct more often. Where does the difference come from?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The table's row for 512 tokens gives two shares for attention: one for its matrices, and one
#    for the scores and weighted sums. Add the two shares: 40 % of the operations. If the time is
#    proportional to the operations, attention takes 40 % of the time, and halving this saves 20 %.
#    The feed-forward network, with the other 60 %, does not become faster.
# 2. No. The lines printed by the first cell show that processing tokens one by one gives the same
#    result, and that changing token 0 does not affect the other outputs. Only attention moves
#    information between tokens.
# 3. The difference comes from the softmax. With a single token there is one score and its weight is
#    1, so everything is linear. With other tokens the weights depend on the content, which makes
#    the result nonlinear.
