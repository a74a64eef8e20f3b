# %% [markdown]
# # All tokens at once: Mask-Predict, and the cost of independence
#
# A decoder that writes token by token needs as many steps as there are tokens. Can a decoder write
# all tokens at once? Which mistakes does it make, and how many passes does it need to correct them?
#
# *Prerequisites:* the encoder-decoder (lesson 15), decoding (lesson 16), masked tokens (lesson 18).

# %%
import time

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.generation import mask_predict, num_masks, translate, translate_in_parallel
from minitorch_attn.models import ConditionalMaskedLM, Transformer
from minitorch_attn.models.mask_predict import cmlm_loss, mask_target
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## A product of marginals cannot represent a choice
#
# An autoregressive model factorizes $p(y \mid x) = \prod_t p(y_t \mid y_{<t}, x)$, which is exact
# for every distribution. A model that writes all tokens at once uses $\prod_t p(y_t \mid x)$: given
# the source, it treats the tokens as independent.
#
# "Thank you" has several German translations. Gu et al. 2018, arXiv:1711.02281, use them to explain
# the *multimodality problem*. Here are three of these translations, with invented probabilities. We
# compute the marginals and take the most probable word at each position.

# %%
FIRST, SECOND = ("danke", "vielen"), ("schön", "sehr", "dank")
joint = np.array([[0.30, 0.25, 0.0], [0.0, 0.0, 0.45]])  # (first word, second word)
first, second = joint.sum(1), joint.sum(0)
for words, p in ((FIRST, first), (SECOND, second)):
    print({word: round(float(q), 2) for word, q in zip(words, p, strict=True)})
at_once = int(first.argmax()), int(second.argmax())
best = np.unravel_index(joint.argmax(), joint.shape)
for name, (i, j) in (("all at once", at_once), ("most probable", best)):
    print(f"{name:14} {FIRST[i]} {SECOND[j]:6} p = {joint[i, j]:.2f}")
assert joint[at_once] == 0

# %% [markdown]
# "danke dank" takes the first word from one translation and the second word from another. The
# marginals are exact, so a better model or more data would not help.
#
# The Kullback-Leibler divergence of $p$ from the product of the marginals measures how much
# information the product loses:
#
# $$C = \sum_y p(y) \log \frac{p(y)}{\prod_t p(y_t)}.$$
#
# This divergence is called *total correlation*. No model that treats the tokens as independent can
# have a cross-entropy below $H(p) + C$, where $H(p)$ is the entropy of $p$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the cost of independence
#
# Write `total_correlation(joint)` for two tokens: `joint` has shape (first, second) and sums to 1.
# Return $C$ in nats, a tensor of shape (). Some entries are 0. Count the term of such an entry as
# 0, which is its limit.
#
# *Hint:* `joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)` is the product of the marginals.
# Where `joint` is 0, replace the ratio by 1 with `mt.where`: the logarithm is then 0.


# %% tags=["answer"]
def total_correlation(joint):
    """Return the divergence of `joint` from the product of its marginals, in nats."""
    product = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)  # (first, second)
    occurs = joint > 0
    ratio = mt.where(occurs, joint, 1.0) / mt.where(occurs, product, 1.0)
    return (joint * ratio.log()).sum()


# %% tags=["check"]
check(
    total_correlation,
    cases=[
        mt.tensor(joint), mt.tensor([[0.5, 0.0], [0.0, 0.5]]),
        mt.tensor([[0.06, 0.24], [0.14, 0.56]]), mt.softmax(mt.randn(35), 0).reshape(5, 7),
    ],
    expected=lambda joint: mt.tensor(
        sum(
            p * np.log(p / (joint[i].sum().item() * joint[:, j].sum().item()))
            for i, row in enumerate(joint.tolist())
            for j, p in enumerate(row)
            if p > 0
        ),
        dtype=joint.dtype,
    ),
    properties={"the result is never negative": lambda cost, joint: cost.item() > -1e-6},
)  # fmt: skip

# %% [markdown]
# Two equally probable targets that differ in all of their $N$ tokens have $C = (N - 1) \log 2$: the
# first token determines all others, but the product of the marginals draws the token at each
# position separately. If there is only one correct target, $C = 0$, and independence costs nothing.
#
# ## Mask-Predict: write all tokens, then mask the least probable ones again
#
# Mask-Predict (Ghazvininejad et al. 2019, arXiv:1904.09324, section 3) also predicts tokens in
# parallel, but in several passes. Each later pass sees tokens from the passes before it, so its
# predictions depend on them. The decoder is a masked language model like BERT: it sees the tokens
# that are already written, before *and* after a masked one. For a text of $N$ tokens, it takes $T$
# passes:
#
# 1. First pass, $t = 0$: all $N$ tokens are masked, and all are predicted.
# 2. Later passes, $t = 1, \dots, T - 1$: mask the $n = \lfloor N (T - t) / T \rfloor$ tokens with
#    the smallest probability, and predict them again, given the other tokens. The other
#    tokens keep their probabilities.

# %% [markdown] tags=["your-turn"]
# ## Your turn: which tokens are masked again?
#
# Write `mask_again(log_probs, counts)`. `log_probs` has shape (text, token), and `counts`, int64 of
# shape (text,), says how many tokens of each text to mask. Return a bool tensor (text, token) that
# is True at the `counts[i]` least probable tokens of text i. No two entries of a row are equal.
#
# *Hint:* `x.argsort(1)` lists the positions from the least to the most probable. `argsort` of
# *that* gives each position its rank.


# %% tags=["answer"]
def mask_again(log_probs, counts):
    """Return a bool tensor (text, token) that is True where a token is masked."""
    rank = log_probs.argsort(1).argsort(1)  # (text, token): 0 for the least probable
    return rank < counts.unsqueeze(1)


# %% tags=["check"]
check(
    mask_again,
    cases=[
        (mt.tensor([[-0.1, -2.0, -0.5, -1.0], [-3.0, -0.2, -0.3, -0.1]]), mt.tensor([2, 1])),
        (mt.rand(5, 7).log(), mt.tensor([0, 7, 3, 1, 6])), (mt.rand(1, 2).log(), mt.tensor([1])),
    ],
    expected=lambda log_probs, counts: mt.tensor(
        [
            [value in sorted(row)[:count] for value in row]
            for row, count in zip(log_probs.tolist(), counts.tolist(), strict=True)
        ]
    ),
    properties={
        "each text has the given number of masked tokens": lambda masked, log_probs, counts: (
            masked.sum(1).tolist() == counts.tolist()
        )
    },
)  # fmt: skip

# %% [markdown]
# Now we decode "thank you" with a perfect model. From the table, it computes
# $p(y_t \mid Y_{obs})$, where $Y_{obs}$ are the words that are not masked. The library's
# `mask_predict` calls the model once per pass. The word ids are positions in a list of all words.

# %%
MASK, WORDS = 0, ("[MASK]", *FIRST, *SECOND)
table = np.zeros((6, 6))
table[1:3, 3:6] = joint


def perfect(ids):
    """Return the logits of both words, given the words that are not masked."""
    logits = []
    for i, j in ids.tolist():
        p = table[:, j] if j != MASK else table.sum(1)
        q = table[i] if i != MASK else table.sum(0)
        logits.append(np.log(np.stack([p, q]) + 1e-30))
    return mt.tensor(np.stack(logits))


for passes in (1, 2):
    ids, log_probs = mask_predict(perfect, [2], MASK, iterations=passes)
    words = [WORDS[i] for i in ids[0].tolist()]
    print(f"passes: {passes}  ", *words, "  p =", log_probs[0].exp().numpy().round(2))
assert words == ["danke", "schön"]

# %% [markdown]
# In the first pass, "danke" (0.55) is more probable than "dank" (0.45), so "dank" is masked. Given
# "danke", the model writes "schön".
#
# ## How many passes?
#
# The first of $T$ passes keeps $k = N - \lfloor N (T - 1) / T \rfloor = \lceil N / T \rceil$
# tokens, and these were written independently. Suppose that there are two equally probable targets
# that differ in every token, such as the same word in uppercase and in lowercase letters. The $k$
# kept tokens *agree* if they all belong to the same target. The probability of this is $2^{1 - k}$.
# If they do not agree, later passes may still repair the mixture: they mask the tokens of one
# target and predict them again from the tokens of the other.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# There are two equally probable targets of 8 tokens, which differ in every token. The model is
# perfect, except that we break ties by adding small random numbers to its logits. What fraction of
# the generated texts equals one of the two targets, rather than a mixture of both, after 1, 2, 4
# and 8 passes? Write down four numbers, then run the next cell.


# %%
def two_targets(ids, noise):
    """Return logits of [MASK], UPPERCASE, lowercase. The majority style is most likely."""
    seen = mt.stack([(ids == k).float().sum(1, keepdim=True) for k in (1, 2)], -1)
    known = 9 * mt.sign(seen[..., :1] - seen[..., 1:])  # (text, 1, 1)
    both = mt.cat([known, -known], -1) + 0.01 * noise  # (text, token, 2)
    return mt.cat([mt.full((*ids.shape, 1), -99.0), both], -1)


def share_of_targets(length, passes, texts=2000):
    ids, _ = mask_predict(
        lambda ids: two_targets(ids, mt.randn(texts, length, 2)), [length] * texts, MASK, -1, passes
    )
    return (ids == ids[:, :1]).all(1).float().mean().item()


shares = {passes: share_of_targets(8, passes) for passes in (1, 2, 4, 8)}
for passes, share in shares.items():
    kept = 8 - num_masks(8, 1, passes) if passes > 1 else 8
    expected = 2.0 ** (1 - kept)
    print(f"passes: {passes}   one target: {share:.3f}   {kept} kept tokens agree: {expected:.3f}")
    assert expected - 0.04 < share < expected + 0.15
assert shares[1] < 0.03 and shares[2] < 0.25 and shares[8] == 1

# %% [markdown]
# One pass almost never writes one of the targets. With two passes, $k = 4$ tokens are written
# independently and kept, so about one text in eight is one of the targets. With four passes, $k$ is
# 2, and the share is larger than $2^{1 - k} = 1/2$, because later passes repair some mixtures. The
# tokens from the first pass have a probability of only one half, so they are the first to be masked
# again. The model then predicts for them the target to which most of the other tokens belong.

# %% tags=["plot"]
figure = new_figure(6, 3.4)
axes = figure.subplots()
for colour, length in zip(COLOURS, (4, 8, 16), strict=False):
    counts = np.arange(1, min(length, 10) + 1)
    decoded = [share_of_targets(length, int(t), 500) for t in counts]
    axes.plot(counts, decoded, "-o", color=colour, label=f"{length} tokens")
    axes.plot(counts, 2.0 ** (1 - np.ceil(length / counts)), ":", color=colour)
axes.set_xlabel("passes")
axes.set_ylabel("share that is one target")
axes.legend(title="dotted: $2^{1-k}$")
show(
    figure,
    "Two equally probable targets. One or two passes mix the targets, and more often in long "
    "texts. With five passes or more, masking again repairs most mixtures. The curves dip where "
    "the number of kept tokens is even, because they may then have no majority.",
)

# %% [markdown]
# In translation, too, a few passes repair most mixtures (section 5.1 of the paper): repeated words,
# which are a sign of mixed translations, become rare.
#
# ## A trained model
#
# In the next task, every source is like "thank you": it has three correct answers. The source
# consists of 8 letters. A target repeats them in two styles, one for each half:
#
# | probability | first half | second half | example for "fhcabgde" |
# | --- | --- | --- | --- |
# | 0.30 | lowercase | UPPERCASE | fhcaBGDE |
# | 0.25 | lowercase | digits | fhca2745 |
# | 0.45 | UPPERCASE | lowercase | FHCAbgde |
#
# We train two models of the same size: a `Transformer` that writes token by token, and a
# `ConditionalMaskedLM`, trained with a random number of masked tokens (section 2.2). The masked
# model needs more training steps, because it has to learn to predict each token from any set of
# other tokens.

# %%
STYLES = ("abcdefgh", "ABCDEFGH", "12345678")
CHARACTERS = "_?" + "".join(STYLES)  # padding, and the mask or the start token
TARGETS, CHANCES = ((0, 1), (0, 2), (1, 0)), (0.30, 0.25, 0.45)
PAD, START, HALF = 0, 1, 4
rng = np.random.default_rng(0)


def draw_pairs(count):
    letters = rng.integers(0, 8, (count, 2 * HALF))
    style = np.array(TARGETS)[rng.choice(3, count, p=CHANCES)]  # (pair, half)
    source, target = 2 + letters, 2 + letters + 8 * style.repeat(HALF, 1)
    return mt.tensor(source), mt.tensor(target)


def as_text(row):
    return "".join(CHARACTERS[i] for i in row)


def styles_of(target, source):
    """Return the style of each token, shape (pair, token). The style of a wrong letter is -1."""
    offset = target.numpy() - source.numpy()
    return np.where((offset >= 0) & (offset % 8 == 0), offset // 8, -1)


for row in zip(*draw_pairs(4), strict=True):
    print(*(as_text(ids.tolist()) for ids in row))

# %%
SIZES = dict(
    embed_dim=32, num_heads=4, ff_dim=64, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0,
    norm_first=True, pad_id=PAD, max_len=16,
)  # fmt: skip
one_by_one = Transformer(len(CHARACTERS), **SIZES)
in_parallel = ConditionalMaskedLM(len(CHARACTERS), mask_id=START, max_target_len=12, **SIZES)
Transformer.reset_parameters(in_parallel)  # the default std of 0.02 is too small here


def next_token_loss(source, target):
    start = mt.full((len(target), 1), START, dtype=mt.int64)
    logits = one_by_one(source, mt.cat([start, target[:, :-1]], 1))
    return mt.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def masked_loss(source, target):
    read, masked = mask_target(target, mt.rand(*target.shape), mt.rand(len(target)), START, PAD)
    logits, length_logits = in_parallel(source, read)
    return cmlm_loss(logits, target, masked, length_logits, PAD)


def train(model, loss_of, steps):
    optimizer = mt.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = mt.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        loss = loss_of(*draw_pairs(64))
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % (steps // 4) == 0 or step == steps - 1:
            print(f"  step {step:4}  loss {loss.item():.3f}")


print("token by token")
train(one_by_one, next_token_loss, pick(480, 240))
print("masked")
train(in_parallel, masked_loss, pick(800, 500))

# %% [markdown]
# ## What goes wrong in one pass
#
# On new sources, we count the answers that equal one of the three targets.

# %%
sources, _ = draw_pairs(200)


def share_correct(answers):
    styles = styles_of(answers, sources)
    allowed = np.array(TARGETS).repeat(HALF, 1)  # (target, token)
    return (styles[:, None] == allowed).all(-1).any(-1).mean()


found = {
    passes: translate_in_parallel(in_parallel, sources, passes, 1)[:, : 2 * HALF]
    for passes in (1, 2, 4, 8)
}
found["token by token"] = translate(one_by_one, sources, START, PAD, 2 * HALF)
correct = {name: share_correct(answers) for name, answers in found.items()}
print("source", as_text(sources[0].tolist()))
for name, answers in found.items():
    name_of = f"passes: {name}" if isinstance(name, int) else name
    print(f"{name_of:15} {as_text(answers[0].tolist())}   correct: {100 * correct[name]:.0f} %")
letters_right = (styles_of(found[1], sources) >= 0).mean()
print(f"letters that one pass gets right, in any style: {100 * letters_right:.0f} %")
assert correct[1] < 0.2 and letters_right > 0.95
assert correct[1] < correct[2] < correct[4] and correct[4] > 0.8 < correct["token by token"]

# %% [markdown]
# One pass gets the letters right, and yet almost no answer is correct. Each position chooses its
# style independently. In both halves, lowercase is the most probable style (0.55 in the first half,
# 0.45 in the second), but no target is lowercase in both halves. So the trained model mixes two
# targets, as in "danke dank". Two passes repair some answers, and four passes repair most.


# %%
def passes_of(model, source, count):
    """For each pass, return the text, a mask of the predicted tokens, and all probabilities."""
    steps, text, chances = [], None, None
    with mt.no_grad():
        memory, _ = model.encode(source)

        def predict(ids):
            nonlocal text, chances
            logits = model.decode(ids, memory)
            p, best = (x[0].numpy() for x in logits.softmax(-1).max(-1))
            masked = ids[0].numpy() == START
            text = best if text is None else np.where(masked, best, text)
            chances = p if chances is None else np.where(masked, p, chances)
            steps.append((list(as_text(text)), masked, chances))
            return logits

        mask_predict(predict, [2 * HALF], START, PAD, count)
    return steps


in_parallel.eval()
steps = passes_of(in_parallel, sources[:1], 4)
assert [int(masked.sum()) for _, masked, _ in steps] == [8, 6, 4, 2]

# %% tags=["plot"]
show(
    mt.viz.passes_figure([("4 passes", steps)], f"Source: {as_text(sources[0].tolist())}"),
    "Follow the second half from pass to pass. In the first pass, these tokens have the smallest "
    "probabilities. The second pass writes them again, given two letters of the first half.",
)

# %% [markdown]
# A second mistake cannot be repaired: **the length**. The model predicts it before the first token,
# and no pass changes it. We ask for one token fewer or more than the source has.

# %%
with mt.no_grad():
    memory, length_logits = in_parallel.encode(sources)
    for length in (7, 8, 9):
        ids, log_probs = mask_predict(
            lambda ids: in_parallel.decode(ids, memory), [length] * len(sources), START, PAD, 4
        )
        mean = log_probs.mean(1).exp().mean().item()
        print(f"length {length}: {as_text(ids[0].tolist()):10} mean probability {mean:.2f}")
assert (length_logits.argmax(1) == 8).all()

# %% [markdown]
# This is why Mask-Predict decodes texts of several lengths and keeps the one with the best mean
# log-probability (section 3.3). Here the length is always 8, so the model is certain about it.
#
# ## What the passes cost
#
# A decoder that writes token by token, with a cache, takes $N$ steps of one position for $N$
# tokens. Mask-Predict takes $T$ passes of $N$ positions. It does *more* work in fewer steps. It is
# faster only if a step on $N$ positions takes about as long as a step on one.

# %%
print("texts at once    8 steps with a cache    4 passes")
for texts in (1, 16, 200):
    times = []
    for decode in (
        lambda ids: translate(one_by_one, ids, START, PAD, 8),
        lambda ids: translate_in_parallel(in_parallel, ids, 4, 1),
    ):
        trials = []
        for _ in range(5):
            started = time.perf_counter()
            decode(sources[:texts])
            trials.append(time.perf_counter() - started)
        times.append(1000 * min(trials))
    print(f"{texts:13} {times[0]:19.1f} ms {times[1]:10.1f} ms")

# %% [markdown]
# With one text at a time, each step is mostly overhead, so 4 passes are faster than 8 steps. With
# 200 texts at once, the number of positions determines the time. `mta train mask-predict` measures
# these times for texts of 36 characters.
#
# ## In the library

# %%
where(
    mask_predict, num_masks, translate_in_parallel, ConditionalMaskedLM.forward, mask_target,
    cmlm_loss,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Change the probabilities of the three targets to 0.60, 0.10 and 0.30. First compute the marginals
# of both halves and the total correlation of the two styles with `total_correlation`. What does one
# pass write, and how often is it correct? Then train `in_parallel` again and compare. You are done
# when your prediction agrees with the output, and you can say why one pass may be correct although
# the total correlation is not 0.
#
# ## Three questions
#
# 1. Two equally probable targets differ in all of their 20 tokens. How large is the total
#    correlation, and what share of the generated texts equals one of the targets after 10 passes of
#    a perfect model?
# 2. Why does the decoder of Mask-Predict have no causal mask?
# 3. Would one pass of a *perfect* model write dates such as "1987-07-03" correctly, if the source
#    is "3 July 1987"?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. $19 \log 2$, about 13.2 nats. The first of 10 passes keeps 2 of 20 tokens. In half of the
#    texts, both belong to the same target. Later passes repair some of the other texts, so the
#    share is larger than one half.
# 2. All tokens are written at once, and a masked token must also see the tokens that are already
#    written at later positions. A causal mask would hide them.
# 3. Yes. There is one correct target, so each character is certain given the source, and the
#    product of the marginals equals the joint distribution.
