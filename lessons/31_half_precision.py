# %% [markdown]
# # Why half precision needs a scale
#
# GPUs multiply two-byte numbers several times as fast as four-byte numbers. But with large batches,
# many gradients are too small for float16, a two-byte format. Which numbers in a training step are
# lost, and why is it enough to multiply the loss by one number?
#
# *Prerequisites:* the chain rule (lesson 3), softmax and cross-entropy (lesson 5), GPT (lesson 17).

# %%
import copy
import math
import warnings

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

F = mt.nn.functional
mt.manual_seed(0)
warnings.filterwarnings("ignore", message="overflow")  # this lesson overflows on purpose

# %% [markdown]
# ## What fits into 16 bits
#
# A float16 number has a sign bit, 5 bits for the exponent and 10 for the digits after the binary
# point: $\pm\, 1.b_1 \dots b_{10} \times 2^e$ with $e$ from -14 to 15. At $e = -14$ the leading 1
# may be a 0. These are the *subnormal* numbers: they have fewer digits, down to a single bit in
# $2^{-24}$. Float32 has 8 bits for the exponent and 23 for the digits.

# %%
print("                         float16      float32")
half, single = mt.finfo(mt.float16), mt.finfo(mt.float32)
for name, attribute in (
    ("largest number", "max"),
    ("smallest normal number", "tiny"),
    ("smallest number", "smallest_subnormal"),
    ("spacing next to 1", "eps"),
):
    values = [float(getattr(info, attribute)) for info in (half, single)]
    print(f"{name:22} {values[0]:9.2g} {values[1]:12.2g}")

x = mt.tensor([65504.0, 65520.0, 6e-8, 2e-8, 1.0004, 2049.0], dtype=mt.float64)
for before, after in zip(x.tolist(), x.half().tolist(), strict=True):
    print(f"{before:10.6g} becomes {after:.6g}")
assert x.half().tolist()[1] == math.inf and x.half().tolist()[3] == 0.0

# %% [markdown] tags=["your-turn"]
# ## Your turn: the spacing of float16
#
# Write `spacing(x)` with NumPy, for an array of positive numbers below 65,504: the distance from
# `x` to the next larger float16 number. From $2^e$ up to, but not including, $2^{e+1}$, there are
# $2^{10}$ evenly spaced float16 numbers. Below $2^{-14}$ the distance does not shrink any further.
#
# *Hint:* First find the exponent $e$ of each number: round the base-2 logarithm down. Which
# value must it not fall below?


# %% tags=["answer"]
def spacing(x):
    """Return the distance to the next larger float16 number, same shape as x."""
    exponent = np.floor(np.log2(x))
    exponent = np.maximum(exponent, -14)
    return 2.0 ** (exponent - 10)


# %% tags=["check"]
check(
    spacing,
    cases=[
        np.array([1.0, 1.5, 2.0, 3.0, 1000.0, 60000.0]),
        np.array([1e-3, 6.2e-5, 6.0e-5, 1e-6, 6e-8]),
        np.geomspace(1e-7, 6e4, 23).astype("float16").astype("float64"),
    ],
    expected=lambda x: np.spacing(x.astype("float16")).astype("float64"),
    properties={
        "the spacing is at least 2^-24": lambda found, x: np.all(found >= 2.0**-24),
    },
)

# %% tags=["plot"]
figure = new_figure(6.5, 3.4)
axes = figure.subplots()
for dtype, colour in (("float16", COLOURS[1]), ("float32", COLOURS[0])):
    x = np.geomspace(2.0**-30, 65000, 2000).astype(dtype)
    x = x[x > 0]
    axes.loglog(x, np.spacing(x) / x, color=colour, base=2)
axes.text(2.0**-2, 2.0**-9, "float16", color=COLOURS[1])
axes.text(2.0**-2, 2.0**-22, "float32", color=COLOURS[0])
axes.axvspan(2.0**-30, 2.0**-25, color="0.85", lw=0)
axes.text(2.0**-29.5, 2.0**-14, "0 in\nfloat16", color="0.3")
axes.set(xlabel="number", ylabel="spacing / number", xlim=(2.0**-30, 2.0**16.5))
show(
    figure,
    "From 2^-14 to 65,504, float16 has a relative spacing of about 0.001. To the left, digits are "
    "lost one by one, and in the gray area all numbers become 0.",
)

# %% [markdown]
# ## A small GPT, trained in float32
#
# Which of these limits does a training step run into? We train a small character-level model in
# float32, and then look at its gradients.

# %%
text = mt.data.default_text()  # Python's help topics
tokenizer = mt.data.CharTokenizer.from_text(text)
ids = tokenizer.encode(text)
CONTEXT, BATCH = 32, 8
random = np.random.default_rng(0)


def batch():
    """Return random inputs and targets, tensors of shape (batch, token)."""
    starts = random.integers(0, len(ids) - CONTEXT - 1, BATCH)
    windows = np.stack([ids[start : start + CONTEXT + 1] for start in starts])
    return mt.tensor(windows[:, :-1]), mt.tensor(windows[:, 1:])


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


model = mt.models.GPT(len(tokenizer), CONTEXT, 32, 4, 2)
optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(pick(300, 60)):
    loss = loss_of(model, *batch())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step:3}  loss {loss.item():.3f}")

# %%
inputs, targets = batch()


def gradients():
    """Return the gradients of the logits and of all parameters, in float32, as NumPy arrays."""
    model.zero_grad()
    logits = model(inputs)
    logits.retain_grad()
    F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    weights = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
    return logits.grad.numpy().ravel().copy(), weights


of_logits, of_weights = gradients()
for name, found in (("logits", of_logits), ("weights", of_weights)):
    size = np.abs(found[found != 0])
    print(f"gradients of the {name:8} median {np.median(size):.0e}, largest {size.max():.0e}")

# %% [markdown]
# The gradient of a logit is $(p - y) / N$, where $p$ is the probability, $y$ the target (0 or 1)
# and $N$ the number of tokens (lesson 5). A trained model gives most characters a tiny probability
# $p$, and $N$ is large: here 256, in GPT-3 up to 3.2 million (Brown et al. 2020,
# arXiv:2005.14165v4, table 2.1).

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the losses
#
# Write `lost(gradient, scale)` with NumPy. It multiplies the float32 array `gradient` by `scale`,
# converts the product to float16, and returns two fractions of the elements that are not 0 in
# `gradient`: the fraction that became 0, and the fraction that became infinite.
#
# *Hint:* Select the elements that are not 0 first. `np.isinf` finds infinities.


# %% tags=["answer"]
def lost(gradient, scale):
    """Return the fraction of elements that become 0, and the fraction that become infinite."""
    elements = gradient[gradient != 0]
    converted = (elements * scale).astype("float16")
    return np.mean(converted == 0), np.mean(np.isinf(converted))


# %% tags=["check"]
check(
    lost,
    cases=[
        (np.array([0.0, 1e-9, 1e-5, 1.0, 3e4], "float32"), 1.0),
        (np.array([0.0, 1e-9, 1e-5, 1.0, 3e4], "float32"), 1024.0),
        (-np.geomspace(1e-12, 10, 53).astype("float32"), 65536.0),
    ],
    expected=lambda gradient, scale: (
        np.sum((np.abs(gradient * np.float32(scale)) <= 2.0**-25) & (gradient != 0))
        / np.count_nonzero(gradient),
        np.sum(np.abs(gradient * np.float32(scale)) >= 65520) / np.count_nonzero(gradient),
    ),
    properties={
        "both lie between 0 and 1": lambda found, *_: all(0 <= share <= 1 for share in found),
    },
)

# %% [markdown]
# ## One scale shifts all gradients
#
# The backward pass is linear: if the loss is multiplied by a scale, every gradient is multiplied by
# it. A power of 2 changes only the exponents, so nothing is rounded. The figure shows the exponents
# of the gradients of the logits for a batch that is 1,024 times as large as ours. We do not compute
# such a batch, but divide our gradients by 1,024, which gives numbers of about the same size.

# %% tags=["plot"]
large_batch = of_logits / 1024
size = np.abs(large_batch[large_batch != 0])
figure = new_figure(6.5, 4.4)
for axes, scale in zip(figure.subplots(2, sharex=True), (1, 2**16), strict=True):
    axes.hist(np.log2(size * scale), bins=np.arange(-50, 18), color=COLOURS[0], zorder=2)
    for left, right, gray in ((-50, -25, "0.85"), (-25, -14, "0.94"), (16, 18, "0.85")):
        axes.axvspan(left, right, color=gray, lw=0, zorder=0)
    share = np.mean(size * scale <= 2.0**-25)
    axes.set_title(f"scale {scale:,}: {share:.1%} become 0", loc="left", fontsize=9)
    axes.set(ylabel="gradients", xlim=(-50, 18))
axes.set_xlabel("exponent: logarithm of the size to base 2")
show(
    figure,
    "Dark gray: 0 or infinite in float16. Light gray: subnormal. The scale shifts the whole "
    "histogram to the right, out of the gray area, and does not change its shape.",
)

# %% [markdown]
# ## How wrong is the gradient?
#
# `mt.autocast` runs matrix products in float16. It runs sums, and functions whose results can be
# very large or very small, in float32: for example softmax and the loss. The parameters and their
# gradients remain float32. Now we compute the gradient of all parameters with autocast, for many
# scales, and compare it with the float32 gradient.


# %%
def error_with(scale):
    """Return the relative error of the gradient of all parameters under autocast."""
    model.zero_grad()
    with mt.autocast("cpu"):
        loss = loss_of(model, inputs, targets)
    (loss * scale).backward()  # the products of the backward pass run in float16, too
    found = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
    found = found.astype("float64") / scale
    return np.linalg.norm(found - of_weights) / np.linalg.norm(of_weights)


exponents = np.arange(-14, 24, pick(2, 4))
with np.errstate(invalid="ignore", over="ignore"):
    errors = np.array([error_with(2.0**k) for k in exponents])
for k, error in zip(exponents, errors, strict=True):
    print(f"scale 2^{k:<3}  relative error {error:.1g}")
middle = errors[(exponents >= 2) & (exponents <= 14)]
assert middle.max() < 5e-3  # the rounding of float16 itself
assert errors[0] > 100 * middle.max() and not np.isfinite(errors[-1])

# %% tags=["plot"]
figure = new_figure(6.5, 3.2)
axes = figure.subplots()
finite = np.isfinite(errors)
axes.semilogy(exponents[finite], errors[finite], "o-", color=COLOURS[0])
edge = exponents[~finite][0] - 1
axes.axvspan(edge, 26, color=COLOURS[1], alpha=0.2, lw=0)
axes.text(edge + 0.4, 0.03, "infinite\nor NaN", color=COLOURS[1])
axes.axvline(-10, color="0.6", lw=0.8, ls=":")
axes.text(-9.8, 0.7, "like a batch of 262,144 tokens", color="0.3")
axes.set(xlabel="logarithm of the scale to base 2", ylabel="relative error of the gradient")
axes.set_xlim(-15, 26)
show(
    figure,
    "On the left, gradients are lost, and the gradient of the parameters is wrong by 10 percent or "
    "more. In the wide middle, only rounding is left. On the right, some gradients are infinite.",
)

# %% [markdown]
# The flat middle of the curve is wide: any scale in it is good. But where this range begins and
# ends depends on the model, on the batch and on the progress of training. So a program has to find
# the scale while it trains. The right end of the range is easy to detect: beyond it, some gradients
# are infinite or NaN.

# %% [markdown] tags=["your-turn"]
# ## Your turn: find the scale
#
# Write `adapt(scale, good, infinite, interval)`, the rule by which `GradScaler` updates its scale
# after each step. `good` counts consecutive steps without an infinity, and `infinite` says whether
# this step produced one. After an infinity, the scale is halved and the count is reset to 0.
# Otherwise the count grows by 1; when it reaches `interval`, the scale is doubled and the count is
# reset to 0. Return the new scale and the new count.
#
# *Hint:* There are three cases, and each of them returns a pair.


# %% tags=["answer"]
def adapt(scale, good, infinite, interval):
    """Return the next scale and the number of successive steps without an infinity."""
    if infinite:
        return scale / 2, 0
    if good + 1 == interval:
        return scale * 2, 0
    return scale, good + 1


# %% tags=["check"]
check(
    adapt,
    cases=[
        (1024.0, 0, False, 3), (1024.0, 2, False, 3), (1024.0, 2, True, 3), (1.0, 0, True, 1),
        (8.0, 0, False, 1),
    ],
    expected=lambda scale, good, infinite, interval: (
        scale * (0.5 if infinite else 2.0 if good == interval - 1 else 1.0),
        0 if infinite else (good + 1) % interval,
    ),
    properties={
        "the scale changes by a factor of 2 at most": lambda found, scale, *_: (
            found[0] in (scale / 2, scale, 2 * scale)
        )
    },
)  # fmt: skip

# %% [markdown]
# ## Training with a scale
#
# Four lines of the training loop change. `scaler.step` divides the gradients by the scale, in
# float32, and calls the optimizer only if all of them are finite. PyTorch doubles the scale after
# 2,000 good steps. Here we use 10 steps, so that you can see the changes, and the initial scale
# is much too large.

# %%
student = copy.deepcopy(model)
optimizer = mt.optim.AdamW(student.parameters(), lr=1e-3)
scaler = mt.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=10)
scales, skipped = [], []
for step in range(pick(100, 40)):
    with mt.autocast("cpu"):
        loss = loss_of(student, *batch())
    optimizer.zero_grad()
    scales.append(scaler.get_scale())
    with np.errstate(invalid="ignore", over="ignore"):
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() < scales[-1]:
        skipped.append(step)
print(f"loss {loss.item():.3f}, scale 2^{math.log2(scaler.get_scale()):.0f}, skipped {skipped}")
assert 0 in skipped and np.isfinite(loss.item()) and len(skipped) < len(scales) / 2
assert {p.dtype for p in student.parameters()} == {mt.float32}

# %% tags=["plot"]
figure = new_figure(6.5, 3.0)
axes = figure.subplots()
axes.step(range(len(scales)), np.log2(scales), where="mid", color=COLOURS[0])
axes.plot(skipped, np.log2(np.array(scales)[skipped]), "x", color=COLOURS[1], label="skipped step")
axes.set(xlabel="step", ylabel="logarithm of the scale to base 2")
axes.legend(frameon=False)
show(
    figure,
    "The scale falls until the gradients are finite. Then it is doubled every 10 steps. Each "
    "time that it becomes too large, one step is skipped.",
)

# %% [markdown]
# ## Sums
#
# Why does autocast not run everything in float16? Small gradients are one difficulty, and sums are
# another.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Starting from 0 in float16, we add 1 and repeat this 4,096 times. Starting from a weight of 1 in
# float16, we subtract 0.0001 and repeat this 1,000 times. What are the two results? Write down your
# answers, then run the next cell.

# %%
total, weight, master = np.float16(0), np.float16(1), np.float32(1)
for _ in range(4096):
    total += np.float16(1)
for _ in range(1000):
    weight -= np.float16(1e-4)
    master -= np.float32(1e-4)
print(f"4,096 ones        {total}")
print(f"1 - 1,000 * 1e-4  {weight} in float16, {master:.4f} in float32")
ones = mt.ones(4096, dtype=mt.float16)
print(f"ones.sum()        {ones.sum().item()}: the library adds in float32 and rounds once")
assert total == 2048 and weight == 1 and ones.sum().item() == 4096

# %% [markdown]
# From 2,048 on, the spacing is 2. So 2,048 + 1 lies halfway between two float16 numbers, 2,048 and
# 2,050. Such a sum is rounded to the number whose last bit is 0, here 2,048. Just below 1 the
# spacing is 0.0005, so the float16 number nearest to 0.9999 is 1. An update that is smaller than
# half the spacing is lost, however often it is repeated. A learning rate of 0.0001 causes such
# updates.
#
# ## What goes wrong without master weights
#
# So far the parameters were float32, and autocast converted copies of them to float16 for the
# matrix products. Float32 parameters that the optimizer updates, while the products use float16
# copies, are called *master weights*. What if the model itself is converted, to save memory?
# We repeat 20 steps with the same small gradient and see how far the weights move.


# %%
def vector(tensors):
    return np.concatenate([x.detach().float().numpy().ravel() for x in tensors])


def movement(dtype, masters=False, steps=20):
    """Return the change of all parameters after `steps` SGD steps with the gradient of `model`."""
    student = copy.deepcopy(model).to(dtype)
    before = vector(student.parameters())
    optimizer = mt.optim.SGD(student.parameters(), lr=1e-3)
    if masters:
        optimizer = mt.amp.MasterWeights(optimizer)  # keeps float32 weights and state
    for p, q in zip(student.parameters(), model.parameters(), strict=True):
        p.grad = q.grad.to(dtype)
    for _ in range(steps):
        optimizer.step()
    return vector(student.parameters()) - before


gradients()
exact = movement(mt.float32)
print("20 steps                 weights that moved   error of the movement")
moved, error = {}, {}
for name, masters in (("float16", False), ("float16, master weights", True)):
    found = movement(mt.float16, masters)
    moved[name] = np.mean(found != 0)
    error[name] = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    print(f"{name:24} {moved[name]:14.0%} {error[name]:20.0%}")
assert moved["float16"] < 0.5 * moved["float16, master weights"]
assert error["float16, master weights"] < 0.5 * error["float16"]

# %% [markdown]
# Without master weights, the steps of most weights are lost. The gradient is not 0, so a scale
# cannot help here. With master weights, a float16 weight also stays the same at first. But once its
# master weight has moved far enough, the float16 weight moves to the next float16 number. So half
# precision needs three things: products in float16 and sums in float32, a scale for the gradients,
# and float32 weights for the updates (Micikevicius et al. 2018, arXiv:1710.03740v3, section 3).
#
# ## In the library

# %%
from minitorch_attn.amp import op_lists
from minitorch_attn.amp.unscale import unscale_all

where(mt.autocast, mt.amp.GradScaler, mt.amp.GradScaler.step, unscale_all, mt.amp.MasterWeights)
print("in float16:", " ".join(op_lists.OPERATIONS["float16"].split()[:9]), "...")
print("in float32:", " ".join(op_lists.OPERATIONS["float32"].split()[:9]), "...")

# %% [markdown]
# ## Exercise
#
# The figure in "How wrong is the gradient?" combines the gradients of all parameters. Compute the
# same curve for each parameter of the model separately: `model.named_parameters()` gives their
# names. You are done when you can name two parameters: the one whose gradients are lost first when
# the scale decreases, and the one whose gradients become infinite first when it increases. Then
# divide the loss by 1,024, and predict how the curves move before you run it. (This imitates a
# batch of 1,024 times as many tokens, because the mean loss divides by the number of tokens.)
#
# ## Three questions
#
# 1. Why is the scale a power of 2, and why must it be removed before the gradients are clipped?
# 2. Bfloat16 has 8 bits for the exponent, like float32, and 7 for the digits. The end of "What goes
#    wrong without master weights" lists three things that half precision needs. Which of them does
#    bfloat16 not need?
# 3. `GradScaler` skips a step if a gradient is infinite. Why does it not replace the infinite
#    elements by large numbers?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Multiplying by a power of 2 changes only the exponent, so no digit is rounded. The clipping
#    limit is meant for the gradient of the loss itself. With a scale of 65,536, for example, nearly
#    every gradient would be clipped. `scaler.unscale_(optimizer)` removes the scale first.
# 2. Bfloat16 does not need the scale: its exponent has as many bits as that of float32, so small
#    gradients do not become 0. But its spacing next to 1 is 0.008, so small updates, and small
#    terms of a sum, are lost even earlier.
# 3. An infinity says only that a number was too large, not how large it was. And a matrix product
#    combines the infinity with other numbers: infinity minus infinity is NaN, so the whole gradient
#    of a layer can be wrong.
