# %% [markdown]
# # Greedy, beam search, sampling, and the KV cache
#
# A language model gives a distribution over the next token. How do you turn it into text, and which
# method suits which task? Why can the model generate token 1000 without processing the first 999
# tokens again?
#
# *Prerequisites:* log-probabilities (lesson 5), masks (lesson 10), the encoder-decoder (lesson 15).

# %%
import itertools
import math
import time
from collections import Counter, defaultdict

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Greedy search can miss the most likely text
#
# The probability of a text is a product, $p(y_1)\,p(y_2 \mid y_1) \cdots$. Greedy search takes the
# most likely token at each step. In the next example, only unlikely words can follow the most
# likely first word:

# %%
LANGUAGE = {
    "<": {"nice": 0.5, "dog": 0.4, "car": 0.1},
    "nice": {"woman": 0.4, "house": 0.3, "guy": 0.3},
    "dog": {"barks": 0.9, "runs": 0.05, "and": 0.05},
    "car": {"drives": 0.5, "is": 0.3, "turns": 0.2},
}


def probability(text):
    return math.prod(LANGUAGE[a][b] for a, b in itertools.pairwise(["<", *text]))


def greedy(length):
    text = ["<"]
    for _ in range(length):
        following = LANGUAGE[text[-1]]
        text.append(max(following, key=following.get))
    return text[1:]


def beam_search(length, beams):
    kept = [["<"]]
    for _ in range(length):
        longer = [[*text, word] for text in kept for word in LANGUAGE[text[-1]]]
        longer.sort(key=lambda text: -probability(text[1:]))
        kept = longer[:beams]  # keep only the most likely prefixes
    return kept[0][1:]


everything = [[a, b] for a in LANGUAGE["<"] for b in LANGUAGE[a]]
best = max(everything, key=probability)
for name, text in (
    ("greedy", greedy(2)),
    ("beam search, 1 beam", beam_search(2, 1)),
    ("beam search, 2 beams", beam_search(2, 2)),
    ("best of all 9 texts", best),
):
    print(f"{name:<22}{' '.join(text):<12} p = {probability(text):.2f}")
assert beam_search(2, 1) == greedy(2)
assert beam_search(2, 2) == best
assert probability(greedy(2)) < probability(best)

# %% [markdown]
# Beam search keeps the most likely prefixes at each step, but it may still miss the best text. With
# enough beams to keep all texts, it is an exhaustive search. For a Transformer, beam search works
# in the same way, but with sums of log-probabilities: a product of a thousand probabilities would
# underflow to 0 in floating point.

# %% [markdown] tags=["your-turn"]
# ## Your turn: how likely is a text?
#
# A model reads a text and returns logits for every position. The logits at position $t$ belong to
# the **next** token, the one at position $t + 1$. Write `log_probability(logits, ids)`, the
# log-probability of each text given its first token:
#
# $$\sum_{t \ge 1} \log p(y_t \mid y_0, \dots, y_{t-1}).$$
#
# The logits have shape (text, token, vocabulary), the ids (text, token).
#
# *Hint:* The last logits predict a token after the end of the text, and no logits predict the first
# token. So which logits belong to `ids[:, 1:]`? `log_p.gather(-1, ids.unsqueeze(-1))` picks the
# entry at each id.


# %% tags=["answer"]
def log_probability(logits, ids):
    """Return the log-probability of each text given its first token, shape (text,)."""
    log_p = logits[:, :-1].log_softmax(-1)  # (text, token - 1, vocabulary)
    picked = log_p.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)  # (text, token - 1)
    return picked.sum(-1)


# %% tags=["check"]
check(
    log_probability,
    cases=[
        (mt.randn(2, 5, 7), mt.tensor([[1, 6, 3, 0, 2], [4, 4, 5, 2, 6]])),
        (9 * mt.randn(3, 2, 11), mt.tensor([[0, 7], [10, 3], [5, 5]])),
    ],
    expected=lambda logits, ids: (
        -mt.nn.functional.cross_entropy(
            logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none"
        ).sum(-1)
    ),
    properties={
        "the last logits do not matter": lambda result, logits, ids: np.allclose(
            log_probability(mt.cat([logits[:, :-1], 0 * logits[:, -1:]], 1), ids).numpy(),
            result.numpy(),
        ),
        "all second tokens together have probability 1": lambda result, logits, ids: np.isclose(
            sum(
                log_probability(logits[:1, :2], mt.tensor([[ids[0, 0].item(), token]])).exp().item()
                for token in range(logits.shape[-1])
            ),
            1,
        ),
    },
)

# %% [markdown]
# Now we implement beam search for a small GPT with random weights and compare the results with the
# library's.

# %%
size = {"vocab_size": 20, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
mt.manual_seed(0)
small = mt.models.pretrained.GPT2LMHeadModel(size).eval()
for parameter in small.parameters():
    parameter.data = parameter.data * 5.0  # so that the distributions are not nearly uniform


def log_probabilities(ids):  # (beam, token) -> (beam, vocabulary), for the next token
    with mt.no_grad():
        return small(mt.tensor(ids)).logits[:, -1].log_softmax(-1).numpy()


def beams_of(prompt, length, beams):
    ids, scores = np.array([prompt]), np.zeros(1)
    for _ in range(length):
        total = scores[:, None] + log_probabilities(ids)  # (beam, vocabulary)
        order = np.argsort(-total, axis=None)[:beams]
        beam, token = np.unravel_index(order, total.shape)
        ids = np.concatenate([ids[beam], token[:, None]], 1)
        scores = total[beam, token]
    return ids[0].tolist(), scores[0]


prompt = [3, 1, 4]
print("beams   log p   text")
scores = {}
for beams in (1, 2, 4, 8):
    ids, scores[beams] = beams_of(prompt, 8, beams)
    print(f"{beams:5}{scores[beams]:8.2f}   {ids}")
    library = small.generate(mt.tensor([prompt]), max_new_tokens=8, num_beams=beams)
    assert library[0].tolist() == ids
assert max(scores.values()) > scores[1]

# %% [markdown]
# ## Sampling
#
# Instead of taking the most likely next token, draw one at random from the model's distribution.
# Three settings can change this distribution before the draw:
#
# * temperature $\tau$ divides the logits: $\mathrm{softmax}(z / \tau)$ is sharper for $\tau < 1$
#   and flatter for $\tau > 1$,
# * top-k keeps only the $k$ most likely tokens,
# * top-p keeps only the smallest set of tokens whose probabilities sum to at least $p$.


# %%
def temperature(p, tau):
    return (mt.tensor(np.log(p)) / tau).softmax(-1).numpy()


def top_k(p, k):
    kept = np.where(p >= np.sort(p)[-k], p, 0.0)
    return kept / kept.sum()


def top_p(p, share):
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]  # total probability of the more likely tokens
    kept = np.zeros_like(p)
    kept[order[before < share]] = p[order[before < share]]
    return kept / kept.sum()


p = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
ways = {
    "unchanged": p,
    "temperature 0.5": temperature(p, 0.5),
    "temperature 2": temperature(p, 2.0),
    "top-k, k = 2": top_k(p, 2),
    "top-p, p = 0.75": top_p(p, 0.75),
}
for name, q in ways.items():
    entropy = -sum(x * math.log(x) for x in q if x > 0)
    print(f"{name:<17}", *(f"{x:5.2f}" for x in q), f"  entropy {entropy:.2f}")
assert (temperature(p, 1e-2).round(6) == np.eye(6)[0]).all()  # close to greedy
assert (ways["top-p, p = 0.75"] > 0).sum() == 3  # 0.40 + 0.25 < 0.75

drawn = np.bincount(np.random.default_rng(0).choice(6, size=20_000, p=p), minlength=6) / 20_000
print("20,000 draws     ", *(f"{x:5.2f}" for x in drawn))
assert np.abs(drawn - p).max() < 0.015

# %% [markdown] tags=["your-turn"]
# ## Your turn: min-p sampling
#
# Top-k keeps $k$ tokens whether the model is certain or not. Min-p ("Turning Up the Heat: Min-p
# Sampling", arXiv:2407.01082) adapts to the model: it keeps the tokens that are at least `share`
# times as likely as the most likely one. It keeps few tokens if the model is certain, and many if
# it is not.
#
# Write `min_p(logits, share)`, which returns the distribution to draw from. The logits and the
# result have shape (text, vocabulary).
#
# *Hint:* Compute the probabilities, compare each with `share` times the largest probability in its
# row, and rescale the kept probabilities so that they sum to 1 again.


# %% tags=["answer"]
def min_p(logits, share):
    """Return the probabilities of the kept tokens and 0 for all others, same shape as logits."""
    p = logits.softmax(-1)
    kept = p * (p >= share * p.amax(-1, keepdim=True))
    return kept / kept.sum(-1, keepdim=True)


# %% tags=["check"]
check(
    min_p,
    cases=[
        (mt.tensor([[0.1], [1.0], [9.0]]) * mt.randn(3, 7), 0.3),  # flat to peaked
        (5 * mt.randn(2, 11), 0.05),
        (mt.randn(1, 5), 0.01),
    ],
    expected=lambda logits, share: mt.ops.masked_softmax(
        logits, logits >= logits.amax(-1, keepdim=True) + math.log(share)
    ),
    properties={
        "each row sums to 1": lambda p, logits, share: np.allclose(p.sum(-1).numpy(), 1),
        "adding 100 to all logits changes nothing": lambda p, logits, share: np.allclose(
            min_p(logits + 100, share).numpy(), p.numpy()
        ),
    },
)

# %% [markdown]
# ## Greedy decoding: always taking the most likely token
#
# The model in the next cell only counts which character follows each sequence of five characters in
# Python's help topics. We let it generate 300 characters in three ways. `different` is the share of
# distinct pieces among all 12-character pieces of a text: the less a text repeats itself, the
# larger this share is.

# %%
CONTEXT = 5
text = " ".join(mt.data.default_text().split())
counts = defaultdict(Counter)
for i in range(len(text) - CONTEXT):
    counts[text[i : i + CONTEXT]][text[i + CONTEXT]] += 1


def distribution(written):
    found = counts[written[-CONTEXT:]]
    total = sum(found.values())
    return list(found), np.array([count / total for count in found.values()])


def write(start, length, choose):
    written, chances = start, []
    for _ in range(length):
        letters, p = distribution(written)
        place = choose(p)
        written, chances = written + letters[place], [*chances, p[place]]
    return written, np.array(chances)


generator = np.random.default_rng(1)
ways = {
    "greedy": lambda p: int(np.argmax(p)),
    "sampled": lambda p: int(generator.choice(len(p), p=p)),
    "sampled, temperature 0.7": lambda p: int(generator.choice(len(p), p=temperature(p, 0.7))),
}


def different(written, width=12):
    windows = [written[i : i + width] for i in range(len(written) - width)]
    return len(set(windows)) / len(windows)


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The model computes the log-probability per character of two texts: its own greedy text, and 300
# characters of the help topics, written by people. Which one does it find more likely? And what is
# the share of distinct 12-character pieces in its greedy text? Write down your answers, then run
# the next cell.

# %%
results = {name: write("The f", 300, choose) for name, choose in ways.items()}
for name, (written, chances) in results.items():
    share, log_p = different(written), np.log(chances).mean()
    print(f"{name}: log p = {log_p:.2f} per character, {100 * share:.0f} % different pieces")
    print("   ", repr(written[:150]))
real = [distribution(text[i : i + CONTEXT]) for i in range(3000, 3300)]
real = np.array([p[f.index(text[3000 + i + CONTEXT])] for i, (f, p) in enumerate(real)])
print(f"300 characters of the text itself: log p = {np.log(real).mean():.2f} per character")

greedy_text, greedy_chances = results["greedy"]
assert different(greedy_text) < 0.5  # the text repeats itself
assert different(results["sampled"][0]) > 0.9
assert np.log(greedy_chances).mean() > np.log(real).mean()  # more likely than human text

# %% [markdown]
# The greedy text is more likely (log p is about -0.5 per character) than the human text (about
# -0.8), and yet it is useless: it repeats the same phrase, and most of its 12-character pieces are
# copies of other pieces. The sampled text has about the same log p as the human text, and no
# repetitions. People do not always write the most likely character.

# %% tags=["plot"]
figure = new_figure(8, 4.2)
panels = figure.subplots(2, 1, sharex=True, sharey=True)
rows = (("greedy", greedy_chances), ("the text itself", real))
for axes, colour, (name, chances) in zip(panels, COLOURS, rows, strict=False):
    smooth = np.convolve(chances, np.ones(5) / 5, mode="valid")
    axes.plot(smooth, color=colour, linewidth=1.8)
    axes.set(title=name, ylabel="probability", ylim=(0, 1.02))
    axes.spines[["top", "right"]].set_visible(False)
panels[1].set_xlabel("character")
show(
    figure,
    "Probability of each character (running mean over 5 characters). The curve of the greedy text "
    "repeats again and again. The curve of the human text does not repeat, and it falls wherever a "
    "letter is unlikely.",
)

# %% [markdown]
# So use beam search if there is one correct answer (translation), and sampling if there are many.

# %% [markdown]
# ## The KV cache
#
# To generate token $t+1$, a decoder needs the keys and values of all earlier tokens, in every
# layer. With a causal mask, these keys and values do not depend on later tokens, so they never
# change. The decoder computes them once and keeps them. Only the new token needs a query.

# %%
model = mt.models.GPT(vocab_size=50, context_length=512, embed_dim=64, num_heads=4, num_layers=3)
model.eval()
ids = mt.tensor(np.random.default_rng(0).integers(50, size=(1, 40)))
with mt.no_grad():
    at_once = model(ids)  # (1, 40, vocabulary)
    cache, one_by_one = mt.nn.KVCache(), []
    for t in range(40):
        one_by_one.append(model(ids[:, t : t + 1], cache=cache))  # one token at a time
    one_by_one = mt.cat(one_by_one, 1)
difference = (at_once - one_by_one).abs().max().item()
key, value = cache[0]
print(f"logits of all 40 positions: largest difference {difference:.1e}")
print(
    "layer 0 of the cache: keys", key.shape, "values", value.shape, "(batch, heads, token, d / h)"
)
assert difference < 1e-5

with mt.no_grad():
    changed = ids.clone()
    changed[0, 39] = (changed[0, 39] + 1) % 50
    other = mt.nn.KVCache()
    model(changed, cache=other)
for layer in range(3):
    close = (cache[layer][0][:, :, :39] - other[layer][0][:, :, :39]).abs().max().item()
    assert close < 1e-5
print("with another last token, the keys of the 39 before it are the same in every layer")

# %% [markdown] tags=["your-turn"]
# ## Your turn: one step with a cache
#
# Write one step of a single head, `next_context(x, keys, values, wq, wk, wv)`. The new token x has
# shape (batch, 1, d). The cached keys and values of the earlier tokens have shape
# (batch, token, width); for the first token they are empty. The matrices have shape (width, d), as
# in `nn.Linear`.
#
# Return three tensors: the context of the new token, of shape (batch, 1, width), and the keys and
# the values including the new ones. These keys and values are the cache for the next step.
#
# *Hint:* `mt.cat([...], 1)` first, then attention with a single query. Which mask does the query
# need? (Which tokens come after it?)


# %% tags=["answer"]
def next_context(x, keys, values, wq, wk, wv):
    """Append the new key and value. Return the context (batch, 1, width), keys and values."""
    keys = mt.cat([keys, x @ wk.T], 1)  # (batch, token + 1, width)
    values = mt.cat([values, x @ wv.T], 1)
    scores = x @ wq.T @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5  # (batch, 1, token + 1)
    return scores.softmax(-1) @ values, keys, values


# %% tags=["check"]
check(
    next_context,
    cases=[
        tuple(mt.randn(*s) for s in ((2, 1, 5), (2, 7, 3), (2, 7, 3), (3, 5), (3, 5), (3, 5))),
        tuple(mt.randn(*s) for s in ((3, 1, 2), (3, 1, 7), (3, 1, 7), (7, 2), (7, 2), (7, 2))),
    ],
    expected=lambda x, keys, values, wq, wk, wv: (
        mt.ops.scaled_dot_product_attention(
            x @ wq.T,
            longer := mt.cat([keys, x @ wk.T], 1),
            longer_values := mt.cat([values, x @ wv.T], 1),
        ),
        longer,
        longer_values,
    ),
    properties={
        "the cached keys stay as they are": lambda found, x, keys, *others: (
            found[1][:, : keys.shape[1]] == keys
        ).all(),
    },
)

# %% [markdown]
# No mask is needed: all cached tokens come before the new one.
#
# How much does the cache save? Without a cache, step $t$ processes $t$ tokens. We count the
# operations of individual steps, and measure how long each of them takes.

# %%
lengths = pick((32, 64, 128, 256, 480), (32, 128, 480))
operations, seconds = {"without": [], "with": []}, {"without": [], "with": []}


def shortest(function, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


print("step    operations without / with cache    milliseconds without / with")
for T in lengths:
    ids = mt.tensor(np.random.default_rng(0).integers(50, size=(1, T)))
    with mt.no_grad():
        cache = mt.nn.StaticKVCache(T + 20)
        model(ids[:, :-1], cache=cache)
        operations["without"].append(mt.nn.Summary(model, ids).flops)
        seconds["without"].append(shortest(lambda ids=ids: model(ids)))
        one = ids[:, -1:]
        operations["with"].append(mt.nn.Summary(model, one, cache=cache).flops)
        seconds["with"].append(shortest(lambda one=one, cache=cache: model(one, cache=cache)))
    row = [operations[name][-1] for name in ("without", "with")]
    times = [1000 * seconds[name][-1] for name in ("without", "with")]
    print(f"{T:4}{row[0]:17,} /{row[1]:11,}{times[0]:19.2f} /{times[1]:6.2f}")

ratio = operations["without"][-1] / operations["with"][-1]
print(f"at step {lengths[-1]} the cache saves a factor of {ratio:.0f} in operations")
assert ratio > lengths[-1] / 2
assert operations["with"][-1] < 3 * operations["with"][0]

# %% [markdown]
# The cache costs memory: it stores two vectors of width $d$ for each token and layer.

# %%
print("model          layers      d   cache for 1,024 tokens")
for name, layers, d in (("GPT-2", 12, 768), ("GPT-2 XL", 48, 1600)):
    held = 2 * layers * 1024 * d * 4
    print(f"{name:<13}{layers:8}{d:7}{held / 2**20:12,.0f} MiB")

# %% [markdown]
# ## What goes wrong with a KV cache: wrong positions, and keys that depend on later tokens
#
# Here are two mistakes with caches that do not raise an error. The first mistake is a wrong
# **position**. The new token is alone in the input, but it is not at position 0. So the model must
# be told the token's position, and the next cell does not do this.

# %%
ids = mt.tensor(np.random.default_rng(0).integers(50, size=(1, 40)))
with mt.no_grad():
    cache = mt.nn.KVCache()
    model(ids[:, :39], cache=cache)
    x = model.embed(ids[:, 39:], start=0)  # wrong: the token is at position 39
    wrong = model.head(model.decode(x, cache=cache))
    right = at_once[:, 39:]
print(f"position forgotten: logits differ by {(wrong - right).abs().max().item():.2f}")
assert (wrong - right).abs().max() > 0.05

# %% [markdown]
# The second mistake is to cache keys that depend on later tokens. In an encoder, the keys do depend
# on later tokens, from the second layer on. So each new token would make an encoder's cached keys
# invalid.

# %%
layer = mt.models.encoder_decoder.EncoderLayer(64, 4, 128, dropout=0.0).eval()
x = mt.randn(1, 40, 64)
with mt.no_grad():
    before, after = layer(x[:, :39]), layer(x)[:, :39]  # layer 2 computes its keys from these
change = (before - after).abs().max().item()
print(f"encoder: one more token changes the outputs of the 39 before it by {change:.3f}")
assert change > 1e-3

# %% [markdown]
# ## In the library

# %%
where(mt.generation.generate, mt.generation.translate)
where(
    mt.generation.greedy_and_sampling.search,
    mt.generation.beam.BeamSearch,
    mt.generation.sampling.Draw,
)
where(mt.generation.TemperatureLogitsWarper, mt.generation.TopPLogitsWarper)
where(mt.nn.KVCache, mt.nn.StaticKVCache, mt.nn.Attention.forward)

# %% [markdown]
# ## Exercise
#
# Write a version of `beams_of` for the counting model: keep `beams` pairs, each consisting of a
# text and the sum of its log-probabilities, and start from "The f". You are done when your function
# returns the greedy text with 1 beam, and when the log p per character of its text with 20 beams is
# not lower than that of the greedy text. Is the more likely text better, according to `different`?
#
# ## Three questions
#
# 1. In the small language, greedy search finds a text with p = 0.20. Which decision was wrong, and
#    could greedy search have avoided it?
# 2. Greedy text is more likely per character than text written by people. Why is that not a
#    sign of quality?
# 3. Why can a decoder, unlike an encoder, keep the keys of token 5 while it writes the whole text?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Choosing "nice" instead of "dog" was wrong. "nice" is the more likely first word (0.5 against
#    0.4). Greedy search sees the words after "dog" only one step later, when it has already dropped
#    "dog". Beam search with two beams still keeps it.
# 2. Greedy text repeats itself: it has far fewer distinct 12-character pieces than the sampled
#    text, and the curve of its probabilities in the figure's upper panel repeats, too. Repetition
#    is an easy way to reach a high probability.
# 3. The causal mask makes this possible: the printed comparison shows that changing the last token
#    does not change any earlier key. In the encoder, one more token changes the outputs of all
#    others, and the next layer computes its keys from these outputs.
