# %% [markdown]
# # LayerNorm, residuals, pre-norm and post-norm
#
# Every sub-layer of a Transformer is combined with a residual sum and a norm ("Add & Norm"). What
# does each of the two do, does their order matter, and where does the small number eps belong?
#
# *Prerequisites:* backward passes (lesson 2), multi-head attention (lesson 11). This lesson uses a
# feed-forward network and the positions of lesson 12 only as building blocks.

# %%
import functools
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## LayerNorm, step by step
#
# Each token is normalized separately, over its features:
#
# $$y = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \cdot w + b, \qquad
# \mu = \frac1d \sum_i x_i, \quad \sigma^2 = \frac1d \sum_i (x_i - \mu)^2.$$


# %%
def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)  # (token, 1)
    deviation = x - mean  # (token, features)
    variance = (deviation**2).mean(-1, keepdim=True)  # (token, 1), divided by d, not by d - 1
    return deviation / (variance + eps).sqrt() * weight + bias


x = mt.tensor([[1.0, 2.0, 3.0, 6.0], [10.0, 20.0, 30.0, 60.0], [5.0, 5.0, 5.0, 5.0]])
weight, bias = mt.ones(4), mt.zeros(4)
y = layer_norm(x, weight, bias)
print("y, a row for each token\n", y.numpy())
assert (y - mt.nn.LayerNorm(4)(x)).abs().max() < 1e-6
assert (y[0] - y[1]).abs().max() < 1e-4  # ten times the token: the same result
assert (y[2] == 0).all()  # a constant token equals its mean

changed = x.clone()
changed[1] = -7.0
assert (layer_norm(changed, weight, bias)[0] == y[0]).all()  # tokens do not affect each other

# %% [markdown]
# The KROL deck, "Residual pathways and layer normalization", says "Mean 0 and variance 1"
# (`docs/decks.md` lists the decks). This is true only before the learned $w$ and $b$ are applied,
# and only where the variance of the token is much larger than eps. The next cell prints the
# variance of $y$ for tokens with smaller and smaller entries:

# %%
print("std of x    variance of y")
for size in (1.0, 1e-1, 1e-2, 1e-3):
    small = mt.randn(1, 512, dtype="float64") * size
    y = layer_norm(small, 1.0, 0.0)
    variance = ((y - y.mean()) ** 2).mean().item()
    print(f"{size:8.0e}{variance:14.3f}")
assert variance < 0.2

# %% [markdown] tags=["your-turn"]
# ## Your turn: RMSNorm
#
# T5 and Llama use a simpler norm. RMSNorm does not subtract the mean and has no bias. It divides
# each token by its root mean square:
#
# $$y = \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \epsilon}} \cdot w.$$
#
# Write `rms_norm(x, weight, eps)` for x of shape (..., features).
#
# *Hint:* Start from `layer_norm` above. What is left of `variance` if the mean is not subtracted?
# Over which axis is the mean taken, and what is `keepdim` for?


# %% tags=["answer"]
def rms_norm(x, weight, eps):
    """Divide x by its root mean square over the features, then multiply by weight."""
    mean_square = (x**2).mean(-1, keepdim=True)  # (..., 1)
    root = (mean_square + eps).sqrt()
    return x / root * weight


# %% tags=["check"]
check(
    rms_norm,
    cases=[
        (mt.randn(5, 3), mt.randn(3), 1e-5),
        (mt.randn(2, 3, 7) + 5, mt.ones(7), 0.0),
        (0.001 * mt.randn(1, 11), mt.randn(11), 1e-5),  # eps is larger than the mean square
    ],
    expected=lambda x, weight, eps: mt.ops.rms_norm(x, weight.shape, weight, eps),
    properties={
        "for weight 1 and eps 0 the mean square is 1": lambda y, x, weight, eps: np.allclose(
            (rms_norm(x, 1.0, 0.0) ** 2).mean(-1).numpy(), 1
        ),
        "10 x with 100 eps gives the same result": lambda y, x, weight, eps: np.allclose(
            rms_norm(10 * x, weight, 100 * eps).numpy(), y.numpy()
        ),
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: make w and b disappear
#
# With pre-norm, LayerNorm is followed by a linear layer: the one that computes the queries, for
# example. Let $n$ be the normalized token, before $w$ and $b$. The linear layer with the matrix $A$
# and the bias $c$ then computes
#
# $$A\,(n \cdot w + b) + c,$$
#
# where $n \cdot w$ multiplies feature by feature. Write `fold(weight, bias, matrix, offset)`: given
# $w$, $b$, $A$ and $c$, it returns the matrix and the bias of a linear layer that computes the same
# result directly from $n$. $A$ has shape (out, in); the other three are vectors.
#
# *Hint:* Expand the product. Which entries of $A$ are multiplied by $w_i$: row $i$ or column $i$?


# %% tags=["answer"]
def fold(weight, bias, matrix, offset):
    """Fold weight and bias into the linear layer. Return a new matrix and a new offset."""
    new_matrix = matrix * weight  # column i times w_i
    new_offset = matrix @ bias + offset
    return new_matrix, new_offset


# %% tags=["check"]
check(
    fold,
    cases=[
        (mt.randn(3), mt.randn(3), mt.randn(5, 3), mt.randn(5)),
        (mt.randn(7), mt.randn(7), mt.randn(7, 7), mt.randn(7)),
        (mt.ones(2), mt.zeros(2), mt.randn(1, 2), mt.randn(1)),
    ],
    expected=lambda w, b, a, c: (mt.einsum("oi,i->oi", a, w), mt.einsum("oi,i->o", a, b) + c),
    properties={
        "both layers give the same result": lambda new, w, b, a, c: np.allclose(
            mt.nn.functional.linear(mt.ones(2, len(w)).double(), *new).numpy(),
            mt.nn.functional.linear(mt.ones(2, len(w)).double() * w + b, a, c).numpy(),
        ),
    },
)

# %% [markdown]
# So if a linear layer follows a norm, the norm's $w$ and $b$ do not let the model compute anything
# new. They only change how it learns, and programs that run a trained model can fold them into the
# linear layer.
#
# ## LayerNorm's eps: inside or outside the square root
#
# The COMP541 deck, "Encoder-Decoder Sublayers (3)", computes `(x - mean) / (std + eps)`. Here eps
# is outside the square root, and `std` divides by $d - 1$. For tokens of typical size and
# $d = 512$, this formula and the one with eps inside differ by only 0.1 %.


# %%
def eps_outside(x, eps=1e-6):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


def eps_inside(x, eps=1e-6):
    return layer_norm(x, 1.0, 0.0, eps)


token = mt.randn(1, 512, dtype="float64")
ratio = (eps_outside(token) / eps_inside(token))[0, 0].item()
print(f"ordinary token, d = 512: outside / inside = {ratio:.4f}")
print(f"the same ratio for d = 4: sqrt(3/4)    = {math.sqrt(3 / 4):.4f}")
assert abs(ratio - math.sqrt(511 / 512)) < 1e-5  # only d - 1 instead of d makes a difference

# %% [markdown]
# The position of eps matters for tokens whose features are nearly constant, such as the embedding
# of padding. The derivative of the square root at 0 is infinite, and only an eps inside the root
# keeps its argument away from 0. Let $x$ be a token with standard deviation $s$, $y$ the normalized
# token, and $g$ a random vector. For several $s$, the next cell prints the largest absolute entry
# of the gradient of $y \cdot g$ with respect to $x$:

# %%
direction = mt.randn(1, 512, dtype="float64")
sizes = [10.0**-k for k in range(10)]
steepest = {"inside": [], "outside": []}
for size in sizes:
    for name, norm in (("inside", eps_inside), ("outside", eps_outside)):
        x = (token * size).requires_grad_()
        (norm(x) * direction).sum().backward()
        steepest[name].append(x.grad.abs().max().item())

print("s           inside    outside")
for size, inside, outside in zip(sizes, *steepest.values(), strict=True):
    print(f"{size:7.0e}{inside:11.1e}{outside:11.1e}")

constant = {}
for name, norm in (("inside", eps_inside), ("outside", eps_outside)):
    x = mt.ones(1, 4).requires_grad_()
    (norm(x) * mt.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    constant[name] = x.grad.numpy()[0]
    print(f"gradient of a constant token, eps {name:<8}{constant[name]}")
assert max(steepest["inside"]) < 1e4 < 1e5 < max(steepest["outside"])
assert not np.abs(constant["outside"]).max() < 100 * np.abs(constant["inside"]).max()  # or NaN

# %% tags=["plot"]
figure = new_figure(7, 3.6)
axes = figure.add_subplot()
for colour, marker, name in zip(COLOURS, "os", steepest, strict=False):
    axes.loglog(sizes, steepest[name], marker + "-", color=colour, label=f"eps {name} the root")
axes.set(xlabel="standard deviation of the token", ylabel="largest gradient")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "For ordinary tokens, on the right, the curves are the same. For nearly constant tokens, on "
    "the left, the curve with eps inside stops at a few times 1/sqrt(eps) = 1000, the other one at "
    "a few times 1/eps = 10^6.",
)

# %% [markdown]
# ## The residual path
#
# A sub-layer $f$ (attention or feed-forward) can be wrapped in three ways:
#
# | way | formula | where |
# | --- | --- | --- |
# | no residual | $\mathrm{norm}(f(x))$ | not used in practice; shown for comparison |
# | post-norm | $\mathrm{norm}(x + f(x))$ | the first Transformer, BERT |
# | pre-norm | $x + f(\mathrm{norm}(x))$, with one more norm at the end | GPT-2, ViT, T5, Llama |

# %% [markdown] tags=["your-turn"]
# ## Your turn: a stack of sub-layers
#
# Write `stack(x, sublayers, norm, pre)`. It applies a list of sub-layers one after the other, each
# with its residual path: as pre-norm if `pre` is True, otherwise as post-norm. The sub-layers and
# the norm are functions of a tensor of shape (batch, token, features).
#
# *Hint:* Write a loop with one line for pre-norm and one line for post-norm. The table says what
# pre-norm needs once, after the last sub-layer.


# %% tags=["answer"]
def stack(x, sublayers, norm, pre):
    """Return the output of all sub-layers with pre-norm or post-norm, same shape as x."""
    for f in sublayers:
        if pre:
            x = x + f(norm(x))
        else:
            x = norm(x + f(x))
    return norm(x) if pre else x


# %% tags=["check"]
check(
    stack,
    cases=[
        (mt.randn(2, 3, 5), [mt.tanh, mt.sin, mt.exp], lambda x: layer_norm(x, 1.0, 0.0), True),
        (mt.randn(2, 3, 5), [mt.tanh, mt.sin, mt.exp], lambda x: layer_norm(x, 1.0, 0.0), False),
        (mt.randn(1, 1, 7), [], lambda x: layer_norm(x, 1.0, 0.0), True),  # only the last norm
    ],
    expected=lambda x, sublayers, norm, pre: (norm if pre else mt.nn.Identity())(
        functools.reduce(lambda x, f: x + f(norm(x)) if pre else norm(x + f(x)), sublayers, x)
    ),
    properties={
        "each token has mean 0": lambda y, *arguments: np.allclose(y.mean(-1).numpy(), 0),
    },
)

# %%
WAYS, WIDTH = ("no residual", "post-norm", "pre-norm"), 32


class Block(mt.nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way = way
        self.attention, self.norm1 = mt.nn.Attention(WIDTH, 2), mt.nn.LayerNorm(WIDTH)
        self.feed_forward = mt.nn.FeedForward(WIDTH, 2 * WIDTH, "relu")
        self.norm2 = mt.nn.LayerNorm(WIDTH)

    def forward(self, x):  # (batch, token, features)
        for f, norm in ((self.attention, self.norm1), (self.feed_forward, self.norm2)):
            if self.way == "no residual":
                x = norm(f(x))
            elif self.way == "post-norm":
                x = norm(x + f(x))
            else:
                x = x + f(norm(x))
        return x


LETTERS, TOKENS = 8, 12


class Model(mt.nn.Module):
    def __init__(self, way, depth):
        super().__init__()
        self.letters = mt.nn.Embedding(LETTERS, WIDTH)
        self.places = mt.nn.LearnedPositionalEmbedding(TOKENS, WIDTH, std=1.0)
        self.blocks = mt.nn.ModuleList([Block(way) for _ in range(depth)])
        self.norm = mt.nn.LayerNorm(WIDTH) if way == "pre-norm" else mt.nn.Identity()
        self.head = mt.nn.Linear(WIDTH, LETTERS)
        for module in self.modules():
            if isinstance(module, mt.nn.Linear):
                mt.nn.init.xavier_uniform_(module.weight)
                mt.nn.init.zeros_(module.bias)

    def forward(self, ids, keep=None):
        x = self.places(self.letters(ids))  # (batch, token, features)
        for block in self.blocks:
            x = block(x)
            if keep is not None:
                keep.append(x)
        return self.head(self.norm(x))  # (batch, token, letter)


# %% [markdown]
# We now compare three models: without residuals, with post-norm and with pre-norm. Their task is to
# predict, for every letter of a sequence, the letter to its left (for the first letter, the last
# one).


# %%
def examples(generator, count=16):
    ids = generator.integers(LETTERS, size=(count, TOKENS))
    return mt.tensor(ids), mt.tensor(np.roll(ids, 1, axis=1))


def loss_of(model, ids, wanted, keep=None):
    logits = model(ids, keep)
    return mt.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())


# %% [markdown]
# ## Before training: how gradients and token similarity depend on depth
#
# We make two measurements on untrained models. The first is the gradient of the loss with respect
# to one matrix in each block (the second weight matrix of its feed-forward network). This gradient
# shows how far a first step would move the block's weights. The second is the mean cosine between
# the tokens of a text. The cosine shows how different the block's output vectors still are: 1 means
# that all tokens have the same direction.


# %%
def measure(way, depth):
    seeds = pick(3, 2)
    gradients, alike = np.zeros(depth), np.zeros(depth)
    for seed in range(seeds):
        mt.manual_seed(seed)
        model, kept = Model(way, depth), []
        loss = loss_of(model, *examples(np.random.default_rng(seed)), keep=kept)
        matrices = [block.feed_forward.linear2.weight for block in model.blocks]
        gradients += [g.norm().item() for g in mt.autograd.grad(loss, matrices)]
        for i, x in enumerate(kept):  # x: (batch, token, features)
            unit = x / x.norm(dim=-1, keepdim=True)
            cosines = unit @ unit.transpose(1, 2)  # (batch, token, token)
            others = (cosines.sum((1, 2)) - TOKENS) / (TOKENS * (TOKENS - 1))
            alike[i] += others.mean().item()
    return gradients / seeds, alike / seeds


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# A model has 24 blocks; block 24 is next to the loss. Is the gradient before training larger in
# block 1 or in block 24? Write down your answer for post-norm and for pre-norm, then run the next
# cell.

# %%
DEPTH = 24
gradients, alike = {}, {}
for way in WAYS:
    gradients[way], alike[way] = measure(way, DEPTH)
shown = (1, 4, 8, 16, 24)
print("block                    ", *(f"{block:7}" for block in shown))
for title, table in (("gradient", gradients), ("cosine", alike)):
    for way in WAYS:
        values = (f"{table[way][block - 1]:7.3f}" for block in shown)
        print(f"{title:<10}{way:<15}", *values)

assert alike["no residual"][7] > 0.999  # after eight blocks all tokens are the same
assert alike["pre-norm"][-1] < 0.9
assert gradients["post-norm"][-1] > 2 * gradients["pre-norm"][-1]
assert gradients["pre-norm"][-1] < gradients["pre-norm"][0]

# %% [markdown]
# Which block has the largest gradient depends on the architecture: with post-norm it is near the
# loss, with pre-norm it is the first block. In block 24, the two models' gradients differ by a
# factor of about four. The cosines show what residuals do: without them, the tokens are equal after
# a few blocks.

# %% tags=["plot"]
figure = new_figure(9, 3.7)
left, right = figure.subplots(1, 2)
for colour, marker, way in zip(COLOURS, "osD", WAYS, strict=False):
    style = dict(color=colour, marker=marker, markersize=4, label=way)
    left.plot(range(1, DEPTH + 1), gradients[way], **style)
    right.plot(range(1, DEPTH + 1), alike[way], **style)
left.set(xlabel="block (24 is next to the loss)", title="gradient of a matrix", ylim=(0, None))
right.set(xlabel="block", title="cosine between tokens", ylim=(0, 1.05))
right.legend(frameon=False, loc="lower right")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Left: the gradient rises toward the loss with post-norm and falls with pre-norm. Right: "
    "attention averages the tokens. They become equal after a few blocks without residuals, after "
    "many blocks with post-norm, but not within 24 blocks with pre-norm.",
)

# %% [markdown]
# Why is the gradient in the last block larger with post-norm than with pre-norm? With pre-norm, $x$
# is a sum of more and more terms, and the last norm divides everything by the size of that sum. So
# the deeper the model, the less each block contributes. With post-norm, nothing like this happens:
# whatever the depth, the last block is directly before the output layer.

# %%
print("depth of the model               ", *(f"{depth:6}" for depth in (2, 8, 32)))
last = {}
for way in ("post-norm", "pre-norm"):
    last[way] = [measure(way, depth)[0][-1] for depth in (2, 8, 32)]
    print(f"gradient of its last block, {way:<9}", *(f"{value:5.2f}" for value in last[way]))
assert last["pre-norm"][-1] < 0.75 * last["pre-norm"][0]
assert last["post-norm"][-1] > last["post-norm"][0]

# %% [markdown]
# ## Training: why warm-up is needed
#
# We train eight-block models with Adam at a learning rate of 0.003. Warm-up raises the rate from 0
# over the first 100 steps.


# %%
def train(way, warmup, steps, depth=8, rate=3e-3):
    mt.manual_seed(1)
    model, generator, losses = Model(way, depth), np.random.default_rng(0), []
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / max(warmup, 1))
        loss = loss_of(model, *examples(generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


runs = {}
for name, way, warmup, steps in (
    ("pre-norm", "pre-norm", 0, pick(360, 200)),
    ("post-norm", "post-norm", 0, pick(360, 320)),
    ("post-norm, warm-up", "post-norm", 100, pick(360, 320)),
):
    runs[name] = train(way, warmup, steps)
print(f"loss (guessing: {math.log(LETTERS):.2f})   step 100   step 200   at the end")
for name, losses in runs.items():
    ends = [np.mean(losses[at - 20 : at]) for at in (100, 200, len(losses))]
    print(f"{name:<22}", *(f"{end:10.2f}" for end in ends))

final = {name: np.mean(losses[-10:]) for name, losses in runs.items()}
assert final["pre-norm"] < 0.1
assert final["post-norm"] > 1.0
assert final["post-norm, warm-up"] < 0.5

# %% tags=["plot"]
figure = new_figure(7, 3.6)
axes = figure.add_subplot()
for colour, style, (name, losses) in zip(COLOURS, ("-", "--", "-."), runs.items(), strict=False):
    smooth = np.convolve(losses, np.ones(10) / 10, mode="valid")
    axes.plot(smooth, style, color=colour, label=name, linewidth=2)
axes.axhline(math.log(LETTERS), color="0.5", linewidth=1)
axes.text(0.42, 2.12, "guessing", transform=axes.get_yaxis_transform(), color="0.35")
axes.set(xlabel="step", ylabel="cross-entropy", ylim=(0, 2.6))
axes.legend(frameon=False, loc="center", bbox_to_anchor=(0.45, 0.4))
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Pre-norm learns at once. Post-norm without warm-up hardly improves on guessing; with warm-up "
    "it learns, after a long plateau.",
)

# %% [markdown]
# ## What goes wrong without residuals
#
# Without residual paths, later blocks lose all information that a block does not copy to its
# output, and the tokens become equal after a few blocks. If all vectors are equal, the output layer
# cannot tell the tokens apart, whatever it learns.

# %%
alone = train("no residual", 100, pick(360, 80))
end = np.mean(alone[-10:])
print(f"no residual, with warm-up: {end:.2f} at the end (guessing: {math.log(LETTERS):.2f})")
assert end > 1.6

# %% [markdown]
# ## In the library

# %%
where(mt.nn.LayerNorm, mt.ops.layer_norm, mt.nn.RMSNorm)
where(mt.models.encoder_decoder.Residual, mt.models.gpt.Block, mt.models.bert.EncoderLayer)

# %% [markdown]
# ## Exercise
#
# LayerNorm does two things: it subtracts the mean, and it divides by the standard deviation. Which
# of the two does training need? Replace both norms of `Block` by `mt.nn.RMSNorm(WIDTH)`, which only
# divides, and then by a module of your own that only subtracts the mean of each token. Train the
# pre-norm model with both. You are done when one of the two losses ends below 0.1 and the other one
# above 1.5, and when you can say why T5 and Llama leave out one of the two steps.
#
# Then practice:
#
# ```sh
# mta exercise start 07
# mta exercise start 15
# mta exercise start 30
# mta exercise start 38
# ```
#
# ## Three questions
#
# 1. One token is multiplied by 1000, another by 0.000001. What does LayerNorm do to each of them,
#    and why is the second answer different?
# 2. Someone moves eps out of the square root, and for a day training is as good as before. Then a
#    batch with a constant token arrives. What happens?
# 3. Post-norm without warm-up fails, and the same model learns with warm-up. Which measurement
#    before training shows that the first steps should be small, and that this matters more in deep
#    models?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Multiplying by 1000 does not change the result: in the first example, one token is ten times
#    another, and their outputs are equal. After multiplying by 0.000001 the variance is far below
#    eps, so eps dominates: the table of variances shows that the variance of the output is then far
#    below 1.
# 2. The gradient with respect to that token explodes. See the two printed gradients of a constant
#    token. See also the table for tokens with a small standard deviation: with eps inside, the
#    largest gradient stays at a few times 1/sqrt(eps) = 1000; with eps outside, it grows to a
#    few times 1/eps = 10^6.
# 3. In the last blocks, the gradient is several times as large with post-norm as with pre-norm
#    (left panel). The table for models of depth 2, 8 and 32 shows that the last block's gradient
#    shrinks with depth for pre-norm but not for post-norm. Warm-up keeps the first steps small
#    until the blocks have adapted.
