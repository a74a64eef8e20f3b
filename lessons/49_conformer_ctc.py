# %% [markdown]
# # Conformer and CTC: summing over all alignments
#
# A recording has a hundred frames and four words, but no labels that say which frame belongs to
# which word. How can a network learn from such a pair? CTC (connectionist temporal classification,
# Graves et al. 2006) adds up the probabilities of all alignments. There are billions of them. Why
# are two passes over the frames enough?
#
# *Prerequisites:* cross-entropy (lesson 5), and sound as frames (lesson 47).

# %%
from itertools import groupby, product
from math import comb

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data import audio
from minitorch_attn.data.spoken_digits import DIGIT_WORDS, draw_speakers, draw_utterances
from minitorch_attn.models.conformer import ConformerBlock, ConformerEncoder
from minitorch_attn.models.relative_attention import RelativeAttention, relative_shift
from minitorch_attn.models.speech_recognition import CTCRecognizer
from minitorch_attn.nn import functional as F
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## Alignments
#
# CTC gives every frame one label or a **blank**, which stands for "nothing new". To read an
# alignment, first merge repeated labels, then drop the blanks. With `-` for the blank, `aa-ab-` and
# `-a-abb` both become `aab`. A blank between two equal labels keeps them apart.

# %% [markdown] tags=["your-turn"]
# ## Your turn: read an alignment
#
# Write `collapse(path)`. `path` is an int64 tensor of shape (frame,) with one class for each frame.
# Class 0 is the blank. Return the labels, an int64 tensor of shape (label,).
#
# *Hint:* A frame starts a new run if its class differs from that of the previous frame. Compare
# `path[1:]` with `path[:-1]`. Which of these frames do you keep?


# %% tags=["answer"]
def collapse(path):
    """Return the labels of an alignment, shape (label,)."""
    first = mt.cat([mt.ones(1, dtype="bool"), path[1:] != path[:-1]])  # first frame of a run
    return path[first & (path != 0)]


# %% tags=["check"]
check(
    collapse,
    cases=[
        mt.tensor([1, 1, 0, 1, 2, 0]),
        mt.tensor([0, 1, 0, 1, 2, 2]),
        mt.tensor([3]),
        mt.tensor([0, 0]),
    ],
    expected=lambda path: mt.tensor(
        [k for i, k in enumerate(path.tolist()) if k and (not i or k != path[i - 1].item())],
        dtype="int64",
    ),
    properties={"no blank is left": lambda labels, path: (labels != 0).all()},
)

# %% [markdown]
# How many alignments of $T$ frames collapse to a target of $L$ labels without repeats? We count
# them for small sizes and compare the count with a formula, $\binom{T + L}{2L}$.


# %%
def read(path):
    return [label for label, _ in groupby(path) if label != 0]


for frames, target in ((4, [1, 2]), (5, [1, 2]), (6, [2, 1, 3])):
    count = sum(read(path) == target for path in product(range(4), repeat=frames))
    print(f"{frames} frames, {len(target)} labels: {count} alignments")
    assert count == comb(frames + len(target), 2 * len(target))
print(f"100 frames, 4 labels: {comb(104, 8):,} alignments")

# %% [markdown]
# The network treats the frames as independent: the probability of an alignment is the product of
# its classes' probabilities, $p(\pi \mid x) = \prod_t y_t(\pi_t)$. The probability of a target $l$
# is the sum over all alignments that collapse to $l$.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# In each of two frames, the blank has probability 0.6 and the label `a` has 0.4. Which output is
# more probable, the empty one or `a`? Write down your answer, then run the next cell.

# %%
two_frames = mt.tensor([[[0.6, 0.4]], [[0.6, 0.4]]]).log()  # (frame, batch, class)
for width in (None, 4):
    [(labels, score)] = mt.ctc_decode(two_frames, beam_width=width)
    print("best alignment" if width is None else "best sum      ", labels.tolist(), np.exp(score))
assert mt.ctc_decode(two_frames)[0][0].tolist() == []
assert mt.ctc_decode(two_frames, beam_width=4)[0][0].tolist() == [1]

# %% [markdown]
# The best single alignment is two blanks, with probability 0.36. But `a` has three alignments,
# `a-`, `-a` and `aa`, and their probabilities add up to 0.64. Summing over alignments is not the
# same as taking the best alignment, neither in training nor in decoding.
#
# ## The forward pass over the frames
#
# Put a blank before, between and after the labels. The result $l'$ has $2L + 1$ **states**,
# numbered from 1. An alignment walks through them from left to right. In each frame it stays in its
# state, moves to the next one, or skips a blank. Only a blank between two *different* labels may be
# skipped.
#
# Let $\alpha_t(s)$ be the probability of all walks that are in state $s$ after frame $t$. The last
# step of such a walk came from one of three states, so
#
# $$\alpha_t(s) = \big(\alpha_{t-1}(s) + \alpha_{t-1}(s-1) +
# \text{skip}(s)\,\alpha_{t-1}(s-2)\big)\; y_t(l'_s).$$
#
# A walk starts in the first blank or the first label and ends in the last label or the last blank:
# $p(l \mid x) = \alpha_T(2L) + \alpha_T(2L + 1)$. This takes $T (2L + 1)$ sums of three terms
# instead of billions of products.

# %% [markdown] tags=["your-turn"]
# ## Your turn: one frame of the forward pass
#
# Write `forward_step(alpha, y, skip)`. `alpha` of shape (state,) belongs to the previous frame, and
# `y` of shape (state,) has this frame's probability of each state's class. `skip` of shape (state,)
# is 1 where a walk may come from two states back, and 0 elsewhere. Return `alpha` for this frame.
#
# *Hint:* Put two zeros in front of `alpha`. Then three slices of it are the three states from which
# a walk can come.


# %% tags=["answer"]
def forward_step(alpha, y, skip):
    """Return the forward variables of the next frame, shape (state,)."""
    padded = mt.cat([mt.zeros(2, dtype=alpha.dtype), alpha])
    return (padded[2:] + padded[1:-1] + skip * padded[:-2]) * y


# %% tags=["check"]
check(
    forward_step,
    cases=[
        (mt.rand(7), mt.rand(7), mt.tensor([0.0, 0, 0, 1, 0, 0, 0])),
        (mt.rand(3), mt.rand(3), mt.zeros(3)),
        (mt.rand(1), mt.rand(1), mt.zeros(1)),
    ],
    expected=lambda alpha, y, skip: mt.stack(
        [
            y[s]
            * sum((skip[s] if s - r == 2 else 1) * alpha[r] for r in range(max(0, s - 2), s + 1))
            for s in range(len(alpha))
        ]
    ),
    properties={"a sum of three probabilities stays below 3": lambda new, *_: new.max() < 3},
)


# %%
def lattice(target):
    """Return the class of each state, and a matrix (s, r): 1 if a walk can go from state s to r."""
    states = mt.zeros(2 * len(target) + 1, dtype="int64")
    states[1::2] = mt.tensor(target)
    step = mt.arange(len(states)) - mt.arange(len(states)).unsqueeze(1)  # r - s
    skips = (states != 0) & (states != states.unsqueeze(1))  # between different labels
    leads = (step == 0) | (step == 1) | ((step == 2) & skips)
    return states, leads.double()


def forward_variables(y, target):
    """Return alpha, shape (frame, state), from probabilities y of shape (frame, class)."""
    states, leads = lattice(target)
    alpha = [y[0, states] * (mt.arange(len(states)) < 2)]
    for frame in y[1:]:
        alpha.append((alpha[-1] @ leads) * frame[states])  # a step for all states at once
    return mt.stack(alpha)


y = mt.softmax(mt.randn(6, 4, dtype="float64"), -1)  # (frame, class)
target = [2, 2, 1]
fitting = [path for path in product(range(4), repeat=6) if read(path) == target]
brute = sum(y[mt.arange(6), mt.tensor(path)].prod() for path in fitting)
alpha = forward_variables(y, target)
print(f"{len(fitting)} of {4**6:,} alignments {brute:.12f}")
print(f"one pass                {alpha[-1, -2:].sum():.12f}")
assert abs(alpha[-1, -2:].sum() - brute) < 1e-15

# %% [markdown]
# ## The backward pass over the frames: the gradient
#
# Let $\beta_t(s)$ be the probability of all ways to complete a walk that is in state $s$ after
# frame $t$. The same recursion computes $\beta$, from the last frame to the first. The product
# $\alpha_t(s)\,\beta_t(s)$ is then the probability of all alignments that pass through state $s$ in
# frame $t$. Each alignment is in exactly one state at a time, so for **every** $t$
#
# $$\sum_s \alpha_t(s)\,\beta_t(s) = p(l \mid x).$$
#
# Now we compute the derivative. $p$ is a sum of products, one for each alignment, and $y_t(k)$ is a
# factor of the alignments that have class $k$ in frame $t$. Adding a small $\varepsilon$ to $\log
# y_t(k)$ multiplies this factor by about $1 + \varepsilon$, and so adds $\varepsilon$ times each
# product that contains it. So $\partial p / \partial \log y_t(k)$ is the sum of exactly these
# products. With $\mathrm{d}(-\log p) = -\mathrm{d}p / p$, this gives
#
# $$\frac{\partial(-\log p)}{\partial \log y_t(k)} = -\frac{1}{p} \sum_{s:\, l'_s = k} \alpha_t(s)\,
# \beta_t(s).$$
#
# The sum divided by $p$ is the **posterior** probability that frame $t$ has class $k$, given the
# target.

# %%
states, leads = lattice(target)
beta = [(mt.arange(len(states)) >= len(states) - 2).double()]  # of the last frame
for frame in y.flip(0)[:-1]:
    beta.append(leads @ (frame[states] * beta[-1]))
beta = mt.stack(beta).flip(0)
print("sum over s in each frame:", (alpha * beta).sum(1).numpy())
assert ((alpha * beta).sum(1) - brute).abs().max() < 1e-15

# %% [markdown] tags=["your-turn"]
# ## Your turn: the posterior of the classes
#
# Write `posterior(alpha, beta, states, classes)`. `alpha` and `beta` have shape (frame, state), and
# `states`, of shape (state,), contains the class of each state. Return the posterior probabilities,
# of shape (frame, class). Several states have the same class: the blanks, and repeated labels.
#
# *Hint:* Normalize $\alpha\beta$ in each frame. Multiply by a matrix of shape (state, class) that
# has a 1 at the class of each state. This adds up the states of each class.
# `mt.eye(classes)[states]` is that matrix.


# %% tags=["answer"]
def posterior(alpha, beta, states, classes):
    """Return the posterior probability of each class, shape (frame, class)."""
    product = alpha * beta
    of_states = product / product.sum(1, keepdim=True)  # (frame, state)
    return of_states @ mt.eye(classes, dtype=alpha.dtype)[states]


# %% tags=["check"]
check(
    posterior,
    cases=[
        (mt.rand(5, 7) + 0.1, mt.rand(5, 7) + 0.1, mt.tensor([0, 2, 0, 2, 0, 1, 0]), 4),
        (mt.rand(2, 3) + 0.1, mt.rand(2, 3) + 0.1, mt.tensor([0, 1, 0]), 2),
    ],
    expected=lambda alpha, beta, states, classes: mt.stack(
        [
            (alpha * beta * (states == k).to(alpha.dtype)).sum(1) / (alpha * beta).sum(1)
            for k in range(classes)
        ],
        1,
    ),
    properties={"each frame sums to 1": lambda p, *_: abs(p.sum(1) - 1).max() < 1e-9},
)

# %%
log_y = y.log().detach().requires_grad_()
F.ctc_loss(log_y, mt.tensor(target), (6,), (3,), reduction="sum").backward()
share = alpha * beta / brute  # (frame, state)
classes = mt.stack([share[:, states == k].sum(1) for k in range(4)], 1)  # (frame, class)
difference = (log_y.grad + classes).abs().max()
print(f"gradient of the library's ctc_loss + posterior: at most {difference.item():.1e}")
assert difference < 1e-14

# %% [markdown]
# The network computes $y$ with a softmax, so the chain rule needs one more step (lesson 5): the
# gradient of the logits is $y_t(k) - \text{posterior}_t(k)$. The gradient of cross-entropy has the
# same form, with a one-hot target instead of the posterior. CTC computes this soft target itself,
# from the network's current probabilities.
#
# ## What goes wrong with plain probabilities
#
# Every frame multiplies $\alpha$ by numbers below 1. After a few seconds of sound, $\alpha$ is
# smaller than the smallest float32 number. The library therefore stores logarithms, and adds with
# log-sum-exp.

# %%
long = mt.softmax(mt.randn(200, 11).double(), -1)  # 2 seconds of frames, 10 digits and the blank
alpha32 = forward_variables(long, [3, 1, 4, 1]).float()
first = int((alpha32.max(1).values == 0).float().argmax())
loss = F.ctc_loss(long.log(), mt.tensor([3, 1, 4, 1]), (200,), (4,), reduction="sum")
print(f"float32 probabilities are 0 from frame {first} on; with logarithms, the loss is {loss:.1f}")
assert 0 < first < 100 and 200 < loss < 1000

# %% [markdown]
# Something else can go wrong. The target `[5, 5]` needs three frames, because a blank has to keep
# the two labels apart. In two frames it has no alignment: $p = 0$, and the loss is infinite. One
# such example destroys the gradient of the whole batch, so speech recognizers are trained with
# `zero_infinity=True`.

# %%
pair = mt.log_softmax(mt.randn(3, 11), -1)
for frames in (2, 3):
    loss = F.ctc_loss(pair, mt.tensor([5, 5]), (frames,), (2,), reduction="sum")
    print(f"'five five' in {frames} frames: loss {loss:.2f}")
assert F.ctc_loss(pair, mt.tensor([5, 5]), (2,), (2,), reduction="sum") == np.inf

# %% [markdown]
# ## The Conformer
#
# Which network reads the frames? The **Conformer** (Gulati et al. 2020, arXiv:2005.08100v1) puts a
# convolution into each Transformer block: attention relates distant frames, and the convolution
# sees how neighboring frames change. Both are placed between two feed-forward networks (FFN), whose
# results are halved (Eq. 1, where MHSA is multi-head self-attention):
#
# $$x' = x + \tfrac12 \text{FFN}(x), \quad x'' = x' + \text{MHSA}(x'), \quad
# x''' = x'' + \text{Conv}(x''), \quad y = \text{LayerNorm}(x''' + \tfrac12 \text{FFN}(x''')).$$

# %%
block = ConformerBlock(48, 4, kernel_size=15)
for name, part in block.named_children():
    print(f"{name:16} {sum(p.numel() for p in part.parameters()):7,} parameters")

# %% [markdown]
# The Conformer's attention uses **relative positions**: a score depends on the distance $i - j$
# between query and key (Dai et al. 2019, arXiv:1901.02860v3). Each distance is encoded as a vector.
# The products of all queries with all these vectors form a table with one row for each query. In
# each row, the distances run from $T - 1$ down to $-(T - 1)$. The product for query $i$ and key $j$
# is in column $T - 1 - i + j$, but it belongs in column $j$. So row $i$ has to move to the left by
# $T - 1 - i$ columns, one more than the row below it. `relative_shift` does this with one padding
# and two reshapes. To test it, we fill the table with the distances themselves. The result must be
# $i - j$:

# %%
distances = mt.arange(3, -4, -1).expand(4, 7)
print(relative_shift(distances))
assert (relative_shift(distances) == mt.arange(4).unsqueeze(1) - mt.arange(4)).all()
with fails(mt.errors.ShapeError):
    relative_shift(distances[:, 1:])  # six distances for four queries

# %% [markdown]
# ## A small recognizer
#
# Each recording contains three spoken digits. There are 8 speakers. The only labels are the words.
# Strided convolutions merge every four frames into one, which covers 40 ms.


# %%
def batch_of(utterances):
    """Return normalized log-mel features, their lengths, and the labels (digit + 1)."""
    features = [audio.log_mel_spectrogram(u.waveform, 8000, 20, 200, 80) for u in utterances]
    lengths = mt.tensor([len(f) for f in features])
    whole = mt.zeros(len(features), max(map(len, features)), 20)
    for row, f in zip(whole, features, strict=True):
        row[: len(f)] = mt.tensor((f - f.mean()) / f.std())
    labels = mt.tensor(np.stack([u.digits for u in utterances]) + 1)
    return whole, lengths, labels


def errors(model, batch):
    """Return the share of utterances with a wrong digit."""
    features, lengths, labels = batch
    with mt.no_grad():
        log_probs, frames = model.eval()(features, lengths)
    read = [found.tolist() for found, _ in mt.ctc_decode(log_probs, frames)]
    return np.mean([a != b for a, b in zip(read, labels.tolist(), strict=True)])


speakers = draw_speakers(8, rng)
sounds = draw_utterances(pick(240, 24), speakers, rng, shortest=3, longest=3, snr=20)
test = batch_of(draw_utterances(60, speakers, rng, shortest=3, longest=3, snr=20))
encoder = ConformerEncoder(20, 48, num_heads=4, num_layers=2, kernel_size=7, channels=16)
model = CTCRecognizer(encoder, vocab_size=11)
optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
losses, steps = [], pick(180, 8)
for step in range(steps):
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * min(1, (step + 1) / 20, (steps - step) / 60)
    features, lengths, labels = batch_of([sounds[i] for i in rng.choice(len(sounds), 16, False)])
    loss = model.train().loss(features, lengths, labels, mt.full((16,), 3))
    optimizer.zero_grad()
    loss.backward()
    mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
wrong = errors(model, test)
print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}; {wrong:.0%} of new recordings have a wrong digit")
assert losses[-1] < losses[0]
assert wrong < 0.2 or steps < 100

# %% [markdown]
# What does the network output in each frame? We plot the network's probabilities for one recording,
# and the posterior probabilities, given the words. The gradient of CTC pulls the first toward the
# second.

# %%
features, lengths, labels = (part[:1] for part in test)
features = features[:, : lengths.item()]
with mt.no_grad():
    log_probs, _ = model.eval()(features)
y = log_probs[:, 0].exp().double()
target = labels[0].tolist()
log_y = y.log().detach().requires_grad_()
F.ctc_loss(log_y, labels[0], (len(y),), (3,), reduction="sum").backward()
posteriors = -log_y.grad
print("digits", [k - 1 for k in target], " frames", len(y))

# %% tags=["plot"]
figure = new_figure(9, 4.6)
upper, lower = figure.subplots(2, 1, sharex=True)
time = np.arange(len(y)) * 0.04
for axes, values, title in (
    (upper, y.numpy(), "probabilities of the network"),
    (lower, posteriors.numpy(), "posterior, given the words"),
):
    axes.fill_between(time, values[:, 0], color="0.9", label="blank")
    for number, k in enumerate(dict.fromkeys(target)):
        axes.plot(time, values[:, k], color=COLOURS[number], label=DIGIT_WORDS[k - 1])
    axes.set(title=title, ylim=(-0.02, 1.05))
upper.set_ylim(-0.02, 1.45)
upper.legend(loc="upper right", ncols=4, fontsize=8)
lower.set_xlabel("time in seconds")
show(
    figure,
    "The output of CTC consists of spikes: each word takes one or two frames, and all other "
    "frames are blank.",
)

# %% [markdown]
# The blank is the most probable class in nearly all frames. It is the only class that is allowed in
# every frame, so the network learns the blank first, and then places each word where the network is
# most certain. CTC finds out *which* words were said, but only roughly *when*.
#
# CTC has a second weakness: it treats the frames as independent given the sound. It cannot take
# into account which words it has already output. A decoder with attention (`SpeechSeq2Seq`) also
# reads the words that it has already output. The recipe `mta train speech` trains both kinds of
# models.
#
# ## In the library

# %%
where(F.ctc_loss, mt.ctc_decode, ConformerBlock, RelativeAttention, relative_shift, CTCRecognizer)

# %% [markdown]
# ## Exercise
#
# Write `backward_step`, which runs the recursion of `forward_step` from the last frame to the
# first, and compute $\beta$ with it. Then write both passes with logarithms and `mt.logsumexp`, and
# compute the loss of the 200 frames above. Where a blank may not be skipped, add $-\infty$ to the
# logarithm of the third term. What does your gradient become where all three terms are $-\infty$?
#
# Then practice:
#
# ```sh
# mta exercise start 57
# mta exercise start 58
# ```
#
# ## Three questions
#
# 1. How many states does the target `[5, 5, 2]` have, and where may a walk skip a blank?
# 2. The network is certain: $y_t(k)$ is 1 along one alignment of the target. What is the gradient
#    of the logits?
# 3. Subsampling merges four frames into one. Why can it not merge 40, if a spoken digit lasts 400
#    ms?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The target has seven states: `- 5 - 5 - 2 -`. A walk may skip only the blank between 5 and 2.
# 2. The gradient is 0: this alignment is the only one with a probability above 0, so the posterior
#    is 1 where $y_t(k)$ is 1, and their difference is 0.
# 3. One frame would then cover a whole word of 400 ms. A target needs at least one frame for each
#    word, and one more for each repeated word. Speech with shorter words would have too few frames
#    for an alignment.
