# %% [markdown]
# # Hard attention: a gradient through a choice
#
# Hard attention looks at a single place, which is drawn at random. A random choice has no
# derivative. How can the model learn where to look anyway, why is the gradient so noisy, and why
# does a baseline help?
#
# *Prerequisites:* softmax (lesson 5), soft attention on images (lesson 34).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.hard_attention import hard_attention, reinforce_loss, update_baseline
from minitorch_attn.models.show_attend_tell import ShowAttendTell, caption_log_p
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## One choice
#
# Five places have the scores $e$ and the probabilities $\alpha = \mathrm{softmax}(e)$. We draw one
# place $s$, look only there, and get a *reward* $R_s$: the log probability of the correct word
# given this look, $\log p(y \mid s)$. The third place is the best one. The expected reward is a
# sum over all places (Eq. 10 of Show, attend and tell, arXiv:1502.03044):
#
# $$L = \sum_s \alpha_s R_s$$

# %%
scores = mt.tensor([0.5, 0.0, -0.5, 0.3, 0.1], dtype=mt.float64, requires_grad=True)
rewards = mt.tensor([-6.0, -5.0, -1.0, -4.0, -7.0], dtype=mt.float64)
alpha = mt.softmax(scores, -1)
(alpha * rewards).sum().backward()
exact = scores.grad
print("probabilities ", alpha.detach().numpy().round(3))
print("exact gradient", exact.numpy().round(3))
assert exact.argmax() == rewards.argmax()

# %% [markdown]
# With five places we can compute the sum exactly. With 196 places and 20 words there are $196^{20}$
# sequences of looks, so we have to sample. But then backpropagation finds no path from the reward
# of a sample back to the scores:

# %%
samples = mt.multinomial(alpha.detach(), 3, True).unsqueeze(-1)  # (sample, batch)
looked, log_p_s, _ = hard_attention(rewards.reshape(1, 5, 1), alpha.unsqueeze(0), samples)
print("sampled places", samples.flatten().tolist(), " rewards", looked.flatten().tolist())
print("does the reward depend on the scores?", looked.requires_grad)
assert not looked.requires_grad and log_p_s.requires_grad

# %% [markdown]
# ## The log-derivative trick
#
# One identity, $d\alpha_s = \alpha_s \, d\log\alpha_s$, turns the gradient of the expected reward
# into a sum that we can estimate from samples:
#
# $$dL = \sum_s R_s \, d\alpha_s = \sum_s \alpha_s \, R_s \, d\log\alpha_s$$
#
# Now the sum has the form of an expectation again: draw $s$ from $\alpha$, and take
# $R_s \, d\log\alpha_s$. This is REINFORCE (Williams 1992; Eqs. 11 and 12 of the paper). And since
# $\sum_s \alpha_s \, d\log\alpha_s = d\sum_s \alpha_s = d1 = 0$, we may subtract any constant $b$,
# a *baseline*, from the reward without changing the expectation.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the estimate of each sample
#
# Write `estimates(scores, rewards, samples, baseline)` for scores and rewards of shape (place,) and
# sampled places of shape (sample,). Return the gradient estimate of each sample with respect to the
# scores, $(R_s - b) \, d\log\alpha_s / de$, of shape (sample, place). Do not call `backward`.
#
# *Hint:* $\log \alpha_s = e_s - \log\sum_j \exp e_j$. Its derivative with respect to $e_j$ is
# $[j = s] - \alpha_j$. `nn.functional.one_hot(samples, n)` gives the first part, as integers.


# %% tags=["answer"]
def estimates(scores, rewards, samples, baseline):
    """Return one gradient estimate per sample, of shape (sample, place)."""
    chosen = nn.functional.one_hot(samples, len(scores))  # (sample, place)
    gain = rewards[samples] - baseline
    return gain.unsqueeze(-1) * (chosen - mt.softmax(scores, -1))


# %% tags=["check"]
check(
    estimates,
    cases=[
        (mt.randn(5), mt.randn(5), mt.tensor([4, 0, 2, 2, 1, 3, 0]), -0.7),
        (mt.randn(2), mt.randn(2), mt.tensor([1]), 3.0),
        (mt.randn(3), mt.randn(3), mt.tensor([0, 2]), 0.0),
    ],
    expected=lambda scores, rewards, samples, baseline: mt.ops.stack(
        [
            (rewards[s] - baseline)
            * (mt.eye(len(scores), dtype=scores.dtype)[s] - scores.exp() / scores.exp().sum())
            for s in samples.tolist()
        ]
    ),
    properties={
        "each estimate sums to 0 over the places": lambda g, *_: abs(g.sum(-1)).max() < 1e-5
    },
)

# %% [markdown]
# An estimator that draws samples cannot be checked with finite differences, because every run is
# different. But in a small case its *expectation* can be computed exactly, as the sum over all
# choices, weighted by their probabilities. It must be the exact gradient, for any baseline. The
# library's tests check `reinforce_loss` in the same way, with all sequences of three looks.


# %%
def all_estimates(scores, rewards, baseline):
    """Return the gradient estimate (place, place) for each sampled place, and the probabilities."""
    alpha = mt.softmax(scores.detach(), -1)
    chosen = mt.eye(len(alpha), dtype=mt.float64)
    return (rewards - baseline).unsqueeze(-1) * (chosen - alpha), alpha


for baseline in (0.0, -4.0, 100.0):
    each, p = all_estimates(scores, rewards, baseline)
    expectation = p @ each
    print(f"baseline {baseline:6}: expectation {expectation.numpy().round(3)}")
    assert (expectation - exact).abs().max().item() < 1e-12

# %% [markdown]
# ## The variance
#
# A baseline changes the noise, although it does not change the expectation. We measure the noise by
# the total variance $\mathrm{E}\,|g|^2 - |\mathrm{E}\,g|^2$, where $g$ is the estimate of one
# sample. The standard error of a mean falls only with the square root of the number of samples: to
# halve it, we need four times as many samples. So a smaller variance saves many samples.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the exact variance
#
# Write `total_variance(each, p)`. `each` has shape (choice, size), and its row $s$ is the estimate
# if $s$ is drawn. `p` holds the probabilities of the choices. Return the expected squared length of
# the estimate, minus the squared length of the expected estimate.
#
# *Hint:* `p @ each` is the expectation of the vector. The expectation of the squared length is a
# second sum over the choices.


# %% tags=["answer"]
def total_variance(each, p):
    """Return E |g|^2 - |E g|^2, a number."""
    mean = p @ each
    return (p * (each**2).sum(-1)).sum() - (mean**2).sum()


# %% tags=["check"]
check(
    total_variance,
    cases=[
        (mt.randn(5, 3), mt.tensor([0.125, 0.25, 0.125, 0.0, 0.5])),
        (mt.randn(2, 7), mt.tensor([0.25, 0.75])),
        (mt.randn(1, 2), mt.tensor([1.0])),
    ],
    expected=lambda each, p: (
        (p.unsqueeze(-1) * (each - (p.unsqueeze(-1) * each).sum(0)) ** 2).sum().detach()
    ),
    properties={
        "equal estimates have no variance": lambda v, each, p: (
            abs(total_variance(each * 0 + 1, p)) < 1e-6
        )
    },
)  # fmt: skip


# %%
def variance(rewards, baseline):
    each, p = all_estimates(scores, rewards, baseline)
    return ((p * (each**2).sum(-1)).sum() - ((p @ each) ** 2).sum()).item()


average = (alpha.detach() * rewards).sum().item()
length = (mt.eye(5, dtype=mt.float64) - alpha.detach()).square().sum(-1)  # |d log alpha_s|^2
weight = alpha.detach() * length
best = ((weight * rewards).sum() / weight.sum()).item()
for name, baseline in (("none", 0.0), ("mean reward", average), ("best", best)):
    print(f"baseline {name:12} {baseline:6.2f}: variance {variance(rewards, baseline):6.2f}")
assert variance(rewards, best) <= variance(rewards, average) < variance(rewards, 0.0) / 2
assert variance(rewards, best) < min(variance(rewards, best - 0.1), variance(rewards, best + 0.1))

# %% [markdown]
# The variance is a parabola in $b$. It is smallest where $b$ is the mean of the rewards, weighted
# by $\alpha_s |d\log\alpha_s|^2$. The plain mean is close to this value and easier to compute.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The caption gets ten more words. Each has a log probability of -2, wherever the model looks, so
# every reward falls by 20. What happens to the expected gradient, to the variance without a
# baseline, and to the variance with the mean reward as baseline? Write down three answers, then run
# the next cell.

# %%
for name, shift in (("as before", 0.0), ("all rewards 20 lower", -20.0)):
    lower = rewards + shift
    each, p = all_estimates(scores, lower, 0.0)
    error = (p @ each - exact).abs().max().item()
    print(f"{name:21} error of the expectation {error:.0e}, variance "
          f"{variance(lower, 0.0):6.1f} (no baseline), "
          f"{variance(lower, average + shift):5.2f} (mean reward)")  # fmt: skip
assert variance(rewards - 20, 0.0) > 20 * variance(rewards, 0.0)
assert abs(variance(rewards - 20, average - 20) - variance(rewards, average)) < 1e-9

# %% [markdown]
# The expectation does not change, but without a baseline the variance is many times larger: the
# estimates of single samples are large, and nearly cancel in the mean. With a baseline nothing
# changes at all. The paper uses a moving average of the rewards as its baseline, which costs almost
# nothing:

# %%
baseline = 0.0
for k in range(5):
    baseline = update_baseline(baseline, rewards)
    print(f"after batch {k + 1}: baseline {baseline:.2f}")
assert abs(update_baseline(-2.0, rewards) - (0.9 * -2.0 + 0.1 * -4.6)) < 1e-12

# %% tags=["plot"]
figure = new_figure(6, 3)
axes = figure.subplots()
grid = np.linspace(-10, 2, 61)
axes.plot(grid, [variance(rewards, b) for b in grid], color="#0072B2")
for name, b, place in (
    ("none", 0.0, (-38, 2)),
    ("mean reward, best (green)", average, (-58, 14)),
):
    axes.plot(b, variance(rewards, b), "o", color="#D55E00")
    point = b, variance(rewards, b)
    axes.annotate(name, point, place, textcoords="offset points", fontsize=9)
axes.plot(best, variance(rewards, best), "o", color="#009E73")
axes.set_xlabel("baseline")
axes.set_ylabel("variance of one sample")
show(
    figure,
    "The variance is a parabola in the baseline. At 0, that is without a baseline, it is far above "
    "its minimum.",
)

# %% [markdown]
# ## A caption has many choices
#
# In a caption, the model looks before each word. The reward of the whole caption also includes the
# log probabilities of the words *before* a look. The look cannot change them, so they only add
# noise. The *reward to go* of a look is the log probability of the words after it.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the reward to go
#
# Write `to_go(log_p)` for log probabilities of shape (sample, word). Entry $t$ of the result is the
# sum of the entries $t, t + 1, \dots$ of its row. Do not loop over the words.
#
# *Hint:* `cumsum` adds from the left. Which method reverses an axis?


# %% tags=["answer"]
def to_go(log_p):
    """For each word, return the sum from this word to the last, shape (sample, word)."""
    backwards = log_p.flip(-1)
    return backwards.cumsum(-1).flip(-1)


# %% tags=["check"]
check(
    to_go,
    cases=[(mt.randn(3, 5),), (mt.randn(2, 1),), (mt.randn(1, 7),)],
    expected=lambda log_p: mt.ops.stack(
        [log_p[:, t:].sum(-1) for t in range(log_p.shape[1])], -1
    ),
    properties={
        "the first entry is the sum of all": lambda r, x: (r[:, 0] - x.sum(-1)).abs().max() < 1e-5
    },
)  # fmt: skip

# %% [markdown]
# We compare four estimators on the decoder of lesson 34: the reward of the whole caption and the
# reward to go, each without and with a baseline. There are three places and a caption of three
# words, so there are 27 sequences of looks. For each of them we compute the gradient estimate of
# the layer that scores the places, and then the exact expectation and variance over all sequences.

# %%
decoder = ShowAttendTell(7, 5, 4, 6, 4).double()
for parameter in decoder.parameters():
    nn.init.normal_(parameter, std=0.7)
annotations = mt.randn(1, 3, 5, dtype=mt.float64)
words, targets = mt.tensor([[1, 4, 2]]), mt.tensor([[4, 2, 0]])
sequences = mt.tensor(np.array(list(np.ndindex(3, 3, 3)))[:, None])  # (sequence, batch, word)


def estimates_of_all(reward_of, baseline):
    """For each sequence, return the gradient estimate of `W_h.weight` and the probability."""
    found = decoder.sample(annotations, words, samples=sequences)
    log_p_y = caption_log_p(found.logits, targets.expand(27, 1, 3))  # (sequence, batch, word)
    p = found.log_p_s.sum(-1).exp().flatten().detach()
    reward = reward_of(log_p_y.detach())
    mean = (p.reshape(27, 1, 1) * reward).sum(0) if baseline else 0.0
    gains = []
    for n in range(27):
        decoder.zero_grad()
        own = slice(n, n + 1)
        loss = 3 * reinforce_loss(
            log_p_y[own], found.log_p_s[own], found.entropy[own], mean, reward=reward[own]
        )  # three times the mean over three words
        loss.backward(retain_graph=True)
        gains.append(-decoder.attention.W_h.weight.grad.flatten())
    return mt.ops.stack(gains), p


whole = lambda log_p: log_p.sum(-1, keepdim=True).expand(*log_p.shape)  # noqa: E731
after = lambda log_p: log_p.flip(-1).cumsum(-1).flip(-1)  # noqa: E731
table = {}
for name, reward_of, baseline in (
    ("whole caption, no baseline", whole, False), ("whole caption, baseline", whole, True),
    ("reward to go, no baseline", after, False), ("reward to go, baseline per word", after, True),
):  # fmt: skip
    each, p = estimates_of_all(reward_of, baseline)
    spread = (p * (each**2).sum(-1)).sum() - ((p @ each) ** 2).sum()
    table[name] = spread.item(), p @ each
    print(f"{name:32} variance {table[name][0]:8.3f}")
means = [mean for _, mean in table.values()]
assert all((mean - means[0]).abs().max().item() < 1e-10 for mean in means)  # equal expectations
spreads = [spread for spread, _ in table.values()]
assert spreads[1] < spreads[0] / 10 and spreads[3] < spreads[2] / 10  # the baseline
assert spreads[2] < spreads[0] and spreads[3] < spreads[1]  # the reward to go

# %% [markdown]
# All four estimators have the same expectation, to ten digits. The baseline reduces the variance
# most: to less than a tenth, which is worth more than ten times as many samples. The reward to go
# reduces the variance only a little here, because a caption has only three words. In longer
# captions, the reward to go helps more.
#
# ## Does it matter for learning?
#
# Here is a small task: each of nine places holds one of six symbols, and one place is marked. The
# model must look at the marked place and name its symbol. At the start, it does not know where to
# look. The reward also includes the log probabilities of ten other words: -1 for each of them,
# whatever the model does.


# %%
SYMBOLS = nn.functional.one_hot(mt.arange(6), 8).float()  # symbol i sets feature i of 8
OTHER = -10.0  # log probability of the other words of the caption
MARK = nn.functional.one_hot(mt.tensor(7), 8).float()


class Looker(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.read = nn.Linear(8, 1), nn.Linear(8, 6)

    def forward(self, places):
        """Return place probabilities, and the log probability of each symbol at each place."""
        return (
            mt.softmax(self.score(places).squeeze(-1), -1),
            mt.log_softmax(self.read(places), -1),
        )


def draw(generator, batch=16):
    symbols = mt.tensor(generator.integers(0, 6, (batch, 9)))
    marked = mt.tensor(generator.integers(0, 9, batch))
    mark = nn.functional.one_hot(marked, 9).unsqueeze(-1) * MARK
    return SYMBOLS[symbols] + mark, symbols[mt.arange(batch), marked]


# %%
def learn(way, seed, steps):
    """Train with one way to estimate the gradient; return the expected reward at each step."""
    mt.manual_seed(seed)
    generator, model = np.random.default_rng(seed), Looker()
    optimizer = mt.optim.SGD(model.parameters(), lr=0.3)
    baseline, curve, row = 0.0, [], mt.arange(16)
    for _ in range(steps):
        places, symbol = draw(generator)
        alpha, log_p = model(places)
        rewards = log_p[row, :, symbol]  # (batch, place): the reward of each place
        curve.append((alpha * rewards).sum(-1).mean().item())
        if way == "all places":
            loss = -(alpha * rewards).sum(-1).mean()  # Eq. 10, no sampling
        else:
            s = mt.multinomial(alpha.detach(), 1).T
            reward, log_p_s, entropy = hard_attention(rewards.unsqueeze(-1), alpha, s)
            reward = reward.squeeze(-1) + OTHER  # (sample, batch)
            if way == "no detach":
                loss = -(reward + (reward - baseline) * log_p_s).mean()
            else:
                loss = reinforce_loss(reward, log_p_s, entropy, baseline)
            if way != "no baseline":
                baseline = update_baseline(baseline, reward)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return curve


# %%
# Without a baseline, a rounding error can decide whether a run succeeds, so we average many runs.
curves = {way: np.mean([learn(way, seed, 400) for seed in range(12)], 0)
          for way in ("all places", "baseline", "no baseline")}  # fmt: skip
for way, curve in curves.items():
    late = curve[300:400].mean()
    print(f"{way:12} expected log probability of the symbol, steps 300 to 400: {late:.2f}")
late = {way: curve[300:400].mean() for way, curve in curves.items()}
assert min(late["all places"], late["baseline"]) > late["no baseline"] + 0.2

# %% tags=["plot"]
figure = new_figure(6.5, 3.2)
axes = figure.subplots()
for (way, curve), color in zip(curves.items(), ("#009E73", "#0072B2", "#D55E00"), strict=True):
    axes.plot(np.convolve(curve, np.ones(15) / 15, "valid"), label=way, color=color)
axes.set_xlabel("step")
axes.set_ylabel("expected log probability")
axes.legend()
show(
    figure,
    'Mean over 12 runs. "All places" uses the exact gradient, which can be computed only for '
    "a small task. Sampling with a baseline stays close to it. Sampling without a baseline takes "
    "large, noisy steps: the reward rises early, but then falls behind.",
)

# %% [markdown]
# ## What goes wrong without the detach
#
# The layers that read the symbol get the gradient $d\log p(y \mid s)$, the first term of Eq. 12.
# REINFORCE adds the second term, in which the loss must treat the reward as a constant. If it does
# not, the product rule adds $\log p(s)\, d\log p(y \mid s)$, where $p(s) = \alpha_s$. The gradient
# of these layers is then $(1 + \log p(s))\, d\log p(y \mid s)$. Among nine equally likely places,
# $1 + \log\frac19 = -1.2$: the *sign* is wrong, and the model learns to make the correct symbol
# less likely, wherever it looks.

# %%
mt.manual_seed(0)
model = Looker()
places, symbol = draw(np.random.default_rng(0))


def gradient_of_reader(loss):
    model.zero_grad()
    loss.backward()
    return model.read.weight.grad.flatten()


def expected_loss(detached):
    """Return the loss averaged over the places, weighted by detached probabilities."""
    alpha, log_p = model(places)
    rewards = log_p[mt.arange(16), :, symbol]
    bracket = rewards.detach() if detached else rewards
    return -(alpha.detach() * (rewards + bracket * alpha.log())).sum(-1).mean()


alpha, log_p = model(places)
right = gradient_of_reader(-(alpha * log_p[mt.arange(16), :, symbol]).sum(-1).mean())
for name, detached in (("detached", True), ("not detached", False)):
    found = gradient_of_reader(expected_loss(detached))
    cosine = (found @ right / (found.norm() * right.norm())).item()
    print(f"{name:13} cosine between the expected estimate and the gradient: {cosine:+.2f}")
    assert cosine > 0.999 if detached else cosine < -0.9
worse = learn("no detach", 0, 60)
print(f"training without the detach: log probability {worse[0]:.2f}, then {worse[-1]:.2f}")
assert worse[-1] < worse[0] - 1

# %% [markdown]
# The detach does not change the *value* of the loss. Without the detach, even a gradient check
# passes, because it compares the gradient with numerical differences of the same loss. Only the
# expected gradient over all choices shows the mistake.
#
# ## In the library

# %%
where(hard_attention, reinforce_loss, update_baseline, ShowAttendTell.sample)

# %% [markdown]
# `mta train captions` trains hard attention on images of digits, starting from trained soft
# attention, and compares the captions of the two.
#
# ## Exercise
#
# Draw several samples per image, and give each sample the mean reward of the *other* samples as its
# baseline ("leave one out"). Change `learn` so that it draws two samples, then eight. Compare each
# variant with the moving-average baseline, after the same total number of samples. Why must a
# sample's own reward not be in its baseline?
#
# Then practice:
#
# ```sh
# mta exercise start 46
# mta exercise start 47
# ```
#
# ## Three questions
#
# 1. Rewards are log probabilities, so without a baseline they are all negative. What does a
#    training step then do to the probability of the place that was drawn, even if this place is the
#    best one?
# 2. Soft attention needs neither samples nor a baseline. What does it cost instead, for a large
#    image?
# 3. An entropy term is often added to the objective. The model looks where it expects a reward, and
#    learns only about the places where it looks. What can go wrong without the entropy term?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The step lowers the probability of the place that was drawn. Good places win only because the
#    probability of bad places is lowered more when they are drawn, so the signal is a difference
#    between large numbers. With a baseline, $R_s - b$ is positive for a good place, so the step
#    raises its probability.
# 2. Soft attention computes with all places at every step, and its context is a mixture of them.
#    Hard attention reads one place.
# 3. The model can become certain too early that one place is the best, merely because it was lucky
#    there. Then it never draws another place, the gradient vanishes, and the model never finds out
#    that another place is better. The entropy term keeps the choice open.
