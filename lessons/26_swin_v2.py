# %% [markdown]
# # Swin V2: what has to change for larger models
#
# Three small changes turn Swin into Swin V2: where the norm is applied, how scores are computed,
# and where the position bias comes from. Which failure does each one fix, and can you measure it?
#
# *Prerequisites:* the division of scores by sqrt(d) (lesson 9), pre- and post-norm (lesson 13),
# Swin (lesson 25).

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.swin import Block
from minitorch_attn.models.swinv2 import ContinuousPositionBias, PostNormBlock

F = mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## 1. Activations that grow with depth
#
# Swin (V1) is pre-norm: $x \leftarrow x + f(LN(x))$. Nothing bounds the output of $f$, and training
# makes the weights of $f$ grow. V2 applies the norm to the output of $f$ instead:
# $x \leftarrow x + LN(f(x))$. This is called res-post-norm.
#
# We build a deep stack of each kind of block. The weights of a layer with $n$ inputs are drawn with
# variance $g^2/n$. The gain $g$ represents how much training has enlarged the weights.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# With gain 1, the standard deviation of the map grows from 1 to between 3 and 8 in both stacks. Now
# make all weights four times as large. By what factor does the standard deviation after the last
# block grow in V1 (pre-norm), and by what factor in V2 (res-post-norm)? Write down two numbers,
# then run the next cell.

# %%
depth, width = pick(24, 16), 32


def stack(block_class, gain):
    mt.manual_seed(1)
    blocks = []
    for i in range(depth):
        block = block_class(width, 4, (4, 4), (2 * (i % 2), 2 * (i % 2)), 2 * width)
        for module in block.modules():
            if isinstance(module, mt.nn.Linear):
                mt.nn.init.normal_(module.weight, std=gain / math.sqrt(module.weight.shape[1]))
            if isinstance(module, mt.nn.LayerNorm):
                mt.nn.init.ones_(module.weight)  # V2 initializes it to 0
        blocks.append(block)
    return blocks


def amplitudes(blocks):
    """Return the map's standard deviation before the first block and after each block."""
    mt.manual_seed(2)
    x = mt.randn(2, 8, 8, width)
    found = [x.std().item()]
    with mt.no_grad():
        for block in blocks:
            x = block(x)
            found.append(x.std().item())
    return found


growth = {}
print(f"standard deviation after {depth} blocks (it starts at 1)")
print("gain      V1 pre-norm    V2 res-post-norm")
for gain in (1, 2, 4):
    for name, block_class in (("V1", Block), ("V2", PostNormBlock)):
        growth[name, gain] = amplitudes(stack(block_class, gain))
    print(f"{gain:4} {growth['V1', gain][-1]:16.1f} {growth['V2', gain][-1]:19.1f}")
assert growth["V1", 4][-1] > 8 * growth["V1", 1][-1]  # grows with the weights
assert abs(growth["V2", 4][-1] / growth["V2", 1][-1] - 1) < 0.3  # independent of the weights

# %% [markdown]
# The weights are four times as large, but V1's standard deviation grows by a far larger factor,
# because each branch multiplies its input by several matrices in a row. V2 hardly changes: its
# branch ends in a norm, so the branch adds a vector of fixed length, whatever its weights are.

# %% tags=["plot"]
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, colour in (("V1", "#D55E00"), ("V2", "#0072B2")):
    for gain, style in ((1, "-"), (2, "--"), (4, ":")):
        label = f"{name}, gain {gain}"
        axis.semilogy(growth[name, gain], style, color=colour, label=label, linewidth=1.8)
axis.set(xlabel="block", ylabel="standard deviation of the map")
axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
axis.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "The three blue curves (res-post-norm) nearly coincide; the orange ones (pre-norm) spread with "
    "the gain.",
)

# %% [markdown]
# In V2 each block has two branches that add a vector of variance 1, so the variance grows by about
# 2 per block and no faster. The standard deviation after $L$ blocks is about $\sqrt{1 + 2L}$.

# %%
bound = math.sqrt(1 + 2 * depth)
print(
    f"sqrt(1 + 2 * {depth}) = {bound:.1f}; measured {growth['V2', 1][-1]:.1f} (gain 1)"
    f" and {growth['V2', 4][-1]:.1f} (gain 4)"
)
assert 0.6 * bound < growth["V2", 4][-1] < 1.5 * bound

# %% [markdown]
# ## 2. Cosine attention keeps large scores bounded
#
# A dot product grows with the lengths of query and key. Large activations produce large scores, the
# softmax saturates, and a few pairs get all the weight. V2 uses the *angle*:
# $s_{ij} = \cos(q_i, k_j)/\tau + B_{ij}$. Each head learns its own $\tau$, which is at least 0.01.

# %%
query, key = mt.randn(16, 8), mt.randn(16, 8)
tau = 0.1


def dot_weights(query, key):
    return mt.softmax(query @ key.transpose(0, 1) / math.sqrt(8), -1)


def cosine_weights(query, key):
    query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    return mt.softmax(query @ key.transpose(0, 1) / tau, -1)


print("activation factor    mean of the largest weight: dot product    cosine")
peaks = {}
for factor in (1, 3, 10, 30):
    pair = query * factor, key * factor
    peaks[factor] = [
        weights(*pair).max(-1).values.mean().item() for weights in (dot_weights, cosine_weights)
    ]
    print(f"{factor:17} {peaks[factor][0]:42.3f} {peaks[factor][1]:9.3f}")
assert peaks[30][0] > 0.99 and peaks[1][0] < 0.5
assert abs(peaks[30][1] - peaks[1][1]) < 1e-4

# %% [markdown] tags=["your-turn"]
# ## Your turn: cosine attention with several heads
#
# Write `cosine_attention(query, key, value, tau, bias)`, as V2 computes it: query, key and value
# have shape (heads, token, dim). Each head has its own temperature in `tau`, of shape (heads,).
# Temperatures below 0.01 count as 0.01. `bias` has shape (heads, query, key) and is added to the
# scores. Return the context of shape (heads, token, dim).
#
# *Hint:* `F.normalize(x, dim=-1)` divides each vector by its length. Give `tau` two more axes, so
# that it lines up with (heads, query, key). `clamp(min=...)` bounds it.


# %% tags=["answer"]
def cosine_attention(query, key, value, tau, bias):
    """Return scaled cosine attention, shape (heads, token, dim)."""
    query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    cosines = query @ key.transpose(1, 2)  # (heads, query, key)
    scores = cosines / tau.clamp(min=0.01).reshape(-1, 1, 1) + bias
    return mt.softmax(scores, -1) @ value


# %% tags=["check"]
check(
    cosine_attention,
    cases=[
        (*(mt.randn(2, 5, 3) for _ in range(3)), mt.tensor([0.1, 0.7]), mt.randn(2, 5, 5)),
        (
            *(1 + 0.1 * mt.randn(3, 2, 7) for _ in range(3)),  # so similar that the bound matters
            mt.tensor([1.0, 0.001, 0.3]), mt.randn(3, 2, 2),
        ),
        (*(100 * mt.randn(1, 3, 2) for _ in range(3)), mt.tensor([0.2]), mt.zeros(1, 3, 3)),
    ],
    expected=lambda query, key, value, tau, bias: mt.stack([
        mt.softmax(
            (q @ k.T) / q.norm(dim=1, keepdim=True) / k.norm(dim=1) / t.clamp(min=0.01) + b, 1
        ) @ v
        for q, k, v, t, b in zip(query, key, value, tau, bias, strict=True)
    ]),
    properties={
        "the lengths of queries and keys do not matter": (
            lambda y, query, key, *rest: np.allclose(
                cosine_attention(30 * query, 0.5 * key, *rest).numpy(), y.numpy()
            )
        )
    },
)  # fmt: skip

# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient does not change the length
#
# If the length of a query does not influence the loss, the gradient of the query must be
# perpendicular to the query. To show this, write the backward pass of $y = x / |x|$ by hand.
# `normalize_gradient(x, grad)` gets NumPy arrays of shape (token, dim), where `grad` is
# $\partial L / \partial y$, and returns $\partial L / \partial x$ for each row. The check tests
# that each row of the result is perpendicular to the same row of $x$.
#
# *Hint:* The result is $(g - c\,y)/|x|$ with one number $c$ for each row. Subtracting $c\,y$
# removes from $g$ the part along $y$. Which dot product is $c$?


# %% tags=["answer"]
def normalize_gradient(x, grad):
    """Return dL/dx, shape (token, dim), where y = x / |x| in each row and grad = dL/dy."""
    length = np.sqrt((x * x).sum(-1, keepdims=True))  # (token, 1)
    y = x / length
    along = (grad * y).sum(-1, keepdims=True)  # (token, 1)
    return (grad - along * y) / length


# %% tags=["check"]
check(
    normalize_gradient,
    cases=[
        (mt.randn(3, 5).numpy(), mt.randn(3, 5).numpy()),
        (100 * mt.randn(7, 2).numpy(), mt.randn(7, 2).numpy()),
        (mt.randn(2, 1).numpy(), mt.randn(2, 1).numpy()),
    ],
    expected=lambda x, grad: mt.autograd.grad(
        F.normalize(leaf := mt.tensor(x, requires_grad=True), dim=-1), leaf, mt.tensor(grad)
    )[0],
    properties={
        "the gradient of each row is perpendicular to the row": lambda slope, x, grad: np.allclose(
            (slope * x).sum(-1), 0
        )
    },
)

# %% [markdown]
# Cosine attention has a disadvantage, too: cosines are between -1 and 1, so *without* a temperature
# no key could get a large weight. The next cell computes the largest possible weight for 16 keys:

# %%
most = math.e / (math.e + 15 * math.exp(-1))
coolest = math.exp(10) / (math.exp(10) + 15 * math.exp(-10))
print(f"tau = 1: {most:.3f} (one key at cosine 1, 15 at -1);  tau = 0.1: {coolest:.6f}")
assert most < 0.34 and coolest > 0.999

# %% [markdown]
# ## 3. A new window size: computing the position bias
#
# V1 learns one bias per offset. A window of 16 x 16 has offsets up to 15, but a table trained
# with windows of 8 x 8 ends at 7. V2 learns a small *function* of the offset, so that every offset
# has a value: $B(\Delta y, \Delta x) = 16\,\sigma(MLP(\widehat{\Delta y}, \widehat{\Delta x}))$.
# Its inputs are coordinates on a log scale: apart from two constants, they are
# $\widehat{\Delta} = sign(\Delta)\,\log_2(1 + |\Delta|)$. (As in the authors' code, the largest
# trained offset is first scaled to 8, and the result is divided by $\log_2 8 = 3$.)
#
# To see why V2 uses the logarithm, compute how far the function must extrapolate:

# %%
linear = (15 - 7) / 7
logarithmic = (math.log2(1 + 15) - math.log2(1 + 7)) / math.log2(1 + 7)
print(
    f"windows of 8 -> 16 extrapolate by {linear:.2f} times the trained range"
    f" with linear offsets, {logarithmic:.2f} with log offsets"
)
assert round(linear, 2) == 1.14 and round(logarithmic, 2) == 0.33

# %% [markdown] tags=["your-turn"]
# ## Your turn: log-spaced coordinates
#
# Write `log_coordinates(size, trained)` with NumPy: the coordinates along one axis of a window of
# `size` tokens, for a model that was trained with windows of `trained` tokens. There is one
# coordinate for each offset from `1 - size` to `size - 1`. First scale the offsets so that the
# largest *trained* offset, `trained - 1`, becomes 8. Then apply
# $sign(\Delta)\,\log_2(1 + |\Delta|)$ and divide by 3.
#
# *Hint:* A model trained with windows of 8 has seen the scaled offsets from -8 to 8. In windows of
# 16, the largest scaled offset must be above 8: do not squeeze the offsets into the same range.


# %% tags=["answer"]
def log_coordinates(size, trained):
    """Return the log-spaced coordinates of all offsets, shape (2 * size - 1,)."""
    offsets = np.arange(-size + 1, size)
    scaled = 8 * offsets / (trained - 1)
    return np.sign(scaled) * np.log2(1 + np.abs(scaled)) / 3


# %% tags=["check"]
check(
    log_coordinates,
    cases=[(8, 8), (16, 8), (3, 7), (1, 2)],
    expected=lambda size, trained: np.array([
        math.copysign(math.log(1 + abs(8 * d / (trained - 1)), 8), d)
        for d in range(-size + 1, size)
    ]),
    properties={
        "an offset keeps its coordinate in a larger window": lambda y, size, trained: np.allclose(
            log_coordinates(size + 5, trained)[5:-5], y
        )
    },
)  # fmt: skip

# %%
bias = ContinuousPositionBias((8, 8), 2)
spaced = bias.coordinates().numpy().reshape(15, 15, 2)[7, :, 1]  # along a row
print("offset    ", *[f"{value:6}" for value in range(8)])
print("coordinate", *[f"{value:6.2f}" for value in spaced[7:]])
assert np.abs(np.diff(spaced[7:])).argmax() == 0  # the largest step is between offsets 0 and 1
print("bias for a window of 8 x 8:", bias().shape)

# %% [markdown]
# ## Transferring the position bias to a larger window
#
# Suppose that a model with windows of 8 x 8 has learned a bias that decreases with the distance in
# *tokens*. A table stores this bias exactly, and we fit V2's network to it. Then we use both the
# table and the network with windows of 16 x 16: we evaluate the network at the new offsets, and
# enlarge the table by bicubic interpolation, as V1 does.


# %%
def truth(size):
    """Return a bias from 0 to 16 for each offset in a window. Nearer tokens get a larger bias."""
    offsets = np.arange(-size + 1, size)
    distance = np.hypot(offsets[:, None], offsets[None, :])
    return 16 / (1 + np.exp(0.6 * (distance - 4)))


def of_function(bias):
    """Return the bias of all offsets in a window of M x M, shape (2M - 1, 2M - 1)."""
    table = bias.linear2(F.relu(bias.linear1(bias.coordinates())))
    side = 2 * bias.window_size[0] - 1
    return (16 * mt.sigmoid(table))[:, 0].reshape(side, side)


mt.manual_seed(3)
learned = ContinuousPositionBias((8, 8), 1, hidden_dim=128)
target = mt.tensor(truth(8), dtype=mt.float32)
optimizer = mt.optim.Adam(learned.parameters(), lr=0.01)
for _ in range(pick(600, 400)):
    loss = ((of_function(learned) - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"fitted at windows of 8: mean error {loss.item() ** 0.5:.2f} (the bias goes from 0 to 16)")


def at_16(pretrained):
    """Return the fitted network's bias in windows of 16, given the pretrained window size."""
    larger = ContinuousPositionBias((16, 16), 1, (pretrained, pretrained), hidden_dim=128)
    larger.load_state_dict(learned.state_dict())
    with mt.no_grad():
        return of_function(larger).numpy()


table = mt.tensor(truth(8), dtype=mt.float32).reshape(1, 1, 15, 15)
stretched = F.interpolate(table, size=(31, 31), mode="bicubic").numpy()[0, 0]
candidates = {"computed, log-spaced": at_16(8), "table, interpolated": stretched}
errors = {name: np.sqrt(((values - truth(16)) ** 2).mean()) for name, values in candidates.items()}
for name, error in errors.items():
    print(f"windows of 16, {name:22} mean error {error:.2f}")
assert errors["computed, log-spaced"] < errors["table, interpolated"] / 2

# %% [markdown]
# ## What goes wrong without the pretrained window size
#
# The network alone is not enough: it must know the size of the window it was trained with
# (`pretrained_window_size`). Without this size, offsets are measured relative to the *new* window,
# and a neighbor at distance 2 gets the bias learned for distance 1.

# %%
candidates["computed, size forgotten"] = at_16(0)
errors["forgotten"] = np.sqrt(((candidates["computed, size forgotten"] - truth(16)) ** 2).mean())
print(f"windows of 16, size forgotten:        mean error {errors['forgotten']:.2f}")
assert errors["forgotten"] > 2 * errors["computed, log-spaced"]
print("offset along a row            ", *[f"{d:5}" for d in (0, 1, 2, 4, 6, 8)])
for name, values in {"as learned, windows of 8": truth(16), **candidates}.items():
    row = values[15, 15:]
    print(f"{name:30}", *[f"{row[d]:5.1f}" for d in (0, 1, 2, 4, 6, 8)])

# %% tags=["plot"]
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
styles = {
    "computed, log-spaced": ("#0072B2", "-"), "table, interpolated": ("#D55E00", "--"),
    "computed, size forgotten": ("#CC79A7", ":"),
}  # fmt: skip
axis.plot(truth(16)[15, 15:], "o", color="black", markersize=4, label="learned bias")
for name, (colour, style) in styles.items():
    axis.plot(candidates[name][15, 15:], style, color=colour, label=name, linewidth=2)
axis.axvspan(7, 15, color="0.93", zorder=0)
axis.text(7.2, 15, "never trained", fontsize=9)
axis.set(xlabel="offset along a row, in tokens", ylabel="bias in windows of 16", xlim=(0, 15))
axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
axis.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Only the blue curve follows the dots, even in the gray range that was never trained; the "
    "other two reach each value at twice the distance.",
)

# %% [markdown]
# (Should a distance be measured in tokens or relative to the window? The answer depends on what has
# changed. Here the images have more pixels and the patches keep their size, so distances in tokens
# keep their meaning.)
#
# ## In the library

# %%
from minitorch_attn.models.swinv2 import CosineWindowAttention

where(
    PostNormBlock, CosineWindowAttention.attend, ContinuousPositionBias,
    ContinuousPositionBias.coordinates, mt.models.SwinV2,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Repeat the transfer with *linear* coordinates: subclass `ContinuousPositionBias` and give it a
# `coordinates` method that returns the offsets divided by the trained size minus one, without the
# logarithm. Train it in the same way. You are done when its error in windows of 8 is as small as
# the original's and you have compared the errors in windows of 16 over several seeds. The network
# with log-spaced coordinates does not have to extrapolate as far. Does it have the smaller error in
# windows of 16? Look at the values at offset 15: the bias is nearly 0 there, and a sigmoid
# approaches 0 by itself. For which kind of bias would the logarithm matter more?
#
# ## Three questions
#
# 1. Why does V2's curve not depend on the gain of the weights?
# 2. How do activations that are 30 times as large change dot-product attention, and why do they not
#    change cosine attention?
# 3. A model trained with windows of 8 is used with windows of 16, but without setting
#    `pretrained_window_size`. Which bias does a neighbor at distance 2 get?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The norm comes after the branch, so the added vector has variance 1, whatever the weights are.
#    Two such branches per block give a standard deviation of about $\sqrt{1 + 2L}$, which is
#    printed next to the measured values.
# 2. Dot-product attention becomes nearly one-hot: the printed mean of the largest weight is more
#    than 0.99. A cosine divides by both lengths, so the factor cancels.
# 3. The neighbor gets about the bias of distance 1. In the last table, the values in the row "size
#    forgotten" at offsets 2, 4 and 8 are close to those in the row "log-spaced" at 1, 2 and 4: the
#    bias is stretched by a factor of 2.
