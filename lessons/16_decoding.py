# %% [markdown]
# # Greedy, beam search, sampling, and the KV cache
#
# A language model gives a distribution over the next token. How does that become a text, which
# way is best for what, and why does writing token 1000 not mean reading 999 tokens again?
#
# *Know before:* log-probabilities (lesson 5), masks (lesson 10), the encoder-decoder (lesson 15).

# %%
import itertools
import math
import time
from collections import Counter, defaultdict

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Greedy is short-sighted
#
# The probability of a text is a product, $p(y_1)\,p(y_2 \mid y_1) \cdots$. Greedy takes the
# likeliest token at each step. In this small language a good first step leads into a bad place:

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
        kept = longer[:beams]  # the best few beginnings; all others are forgotten
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
# Beam search looks a little further, and may still miss the best text: with enough beams to keep
# everything it would be an exhaustive search. On a Transformer it is the same, with sums of
# log-probabilities. We write it for a small GPT with random weights, and compare with the library.

# %%
size = {"vocab_size": 20, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
small = mt.models.pretrained.GPT2LMHeadModel(size).eval()
for parameter in small.parameters():
    parameter.data = parameter.data * 5.0  # so that the distributions are not nearly uniform


def log_probabilities(ids):  # (beam, token) -> (beam, vocabulary), of the next token
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
# Instead of the likeliest token, draw one. Three knobs reshape the distribution first:
#
# * temperature $\tau$: $\mathrm{softmax}(z / \tau)$; below 1 sharper, above 1 flatter,
# * top-k: only the $k$ likeliest,
# * top-p: only the smallest set of tokens that has probability $p$ together.


# %%
def temperature(p, tau):
    return (mt.tensor(np.log(p)) / tau).softmax(-1).numpy()


def top_k(p, k):
    kept = np.where(p >= np.sort(p)[-k], p, 0.0)
    return kept / kept.sum()


def top_p(p, share):
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]  # what the likelier ones have together
    kept = np.zeros_like(p)
    kept[order[before < share]] = p[order[before < share]]
    return kept / kept.sum()


p = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
ways = {
    "as it is": p,
    "temperature 0.5": temperature(p, 0.5),
    "temperature 2": temperature(p, 2.0),
    "top-k, k = 2": top_k(p, 2),
    "top-p, p = 0.75": top_p(p, 0.75),
}
for name, q in ways.items():
    entropy = -sum(x * math.log(x) for x in q if x > 0)
    print(f"{name:<17}", *(f"{x:5.2f}" for x in q), f"  entropy {entropy:.2f}")
assert (temperature(p, 1e-2).round(6) == np.eye(6)[0]).all()  # temperature to 0: greedy
assert (ways["top-p, p = 0.75"] > 0).sum() == 3  # 0.40 + 0.25 is not yet 0.75

drawn = np.bincount(np.random.default_rng(0).choice(6, size=20_000, p=p), minlength=6) / 20_000
print("20,000 draws     ", *(f"{x:5.2f}" for x in drawn))
assert np.abs(drawn - p).max() < 0.015

# %% [markdown]
# ## The likeliest text is a dull text
#
# A model that only counts: which character follows which five, in Python's help topics. We let it
# write 300 characters in three ways.

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


results = {name: write("The f", 300, choose) for name, choose in ways.items()}
for name, (written, chances) in results.items():
    share, log_p = different(written), np.log(chances).mean()
    print(f"{name}: log p = {log_p:.2f} per character, {100 * share:.0f} % different pieces")
    print("   ", repr(written[:150]))
real = [distribution(text[i : i + CONTEXT]) for i in range(3000, 3300)]
real = np.array([p[f.index(text[3000 + i + CONTEXT])] for i, (f, p) in enumerate(real)])
print(f"300 characters of the text itself: log p = {np.log(real).mean():.2f} per character")

greedy_text, greedy_chances = results["greedy"]
assert different(greedy_text) < 0.5  # it runs in circles
assert different(results["sampled"][0]) > 0.9
assert np.log(greedy_chances).mean() > np.log(real).mean()  # likelier than what people wrote

# %%
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
    "How likely each character was (mean of 5). Greedy writing draws the same curve again and "
    "again: it runs in a circle. What people write does not repeat, and dares unlikely letters. "
    "So: beam search where there is one right answer (translation), sampling where there are many.",
)

# %% [markdown]
# ## The KV cache
#
# To write token $t+1$ a decoder needs the keys and values of all tokens before, in every layer.
# Behind a causal mask these do not depend on anything later, so they never change: compute them
# once, and keep them. Only the new token asks a query.

# %%
model = mt.models.GPT(vocab_size=50, context_length=512, embed_dim=64, num_heads=4, num_layers=3)
model.eval()
ids = mt.tensor(np.random.default_rng(0).integers(50, size=(1, 40)))
with mt.no_grad():
    at_once = model(ids)  # (1, 40, vocabulary)
    cache, one_by_one = mt.nn.KVCache(), []
    for t in range(40):
        one_by_one.append(model(ids[:, t : t + 1], cache=cache))  # one token in
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
print("another last token: keys of the 39 before it are the same in every layer")

# %% [markdown]
# What it saves: without a cache, step $t$ reads $t$ tokens. We count the operations of one step,
# and take the time of a few.

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
# The price is memory: two vectors of width $d$ for each token and layer.

# %%
print("model          layers      d   cache for 1,024 tokens")
for name, layers, d in (("GPT-2", 12, 768), ("GPT-2 XL", 48, 1600)):
    held = 2 * layers * 1024 * d * 4
    print(f"{name:<13}{layers:8}{d:7}{held / 2**20:12,.0f} MiB")

# %% [markdown]
# ## What goes wrong without it
#
# Two mistakes with caches that raise no error. The new token must be told **where** it stands: it
# is alone in the input, but not at position 0.

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
# And the keys must not depend on later tokens. In an encoder they do, from the second layer on:
# a cache of an encoder's keys is out of date with every new token.

# %%
layer = mt.models.encoder_decoder.EncoderLayer(64, 4, 128, dropout=0.0).eval()
x = mt.randn(1, 40, 64)
with mt.no_grad():
    before, after = layer(x[:, :39]), layer(x)[:, :39]  # what layer 2 would make its keys of
change = (before - after).abs().max().item()
print(f"encoder: one more token changes the outputs of the 39 before it by {change:.3f}")
assert change > 1e-3

# %% [markdown]
# ## Where it lives

# %%
where(mt.generation.generate, mt.generation.translate)
where(mt.generation.greedy.search, mt.generation.beam.BeamSearch, mt.generation.sampling.draw)
where(mt.generation.TemperatureLogitsWarper, mt.generation.TopPLogitsWarper)
where(mt.nn.KVCache, mt.nn.StaticKVCache, mt.nn.Attention.forward)

# %% [markdown]
# ## Exercise
#
# Beam search on the counting model: write `beams_of` for it (keep `beams` pairs of text and sum of
# log-probabilities, starting from "The f"). When it is done: with 1 beam it writes the greedy text,
# with 20 beams its log p per character is not lower, and `different` tells whether the likelier
# text is a better one.
#
# ## Three questions
#
# 1. In the small language greedy finds a text of p = 0.20. Which decision was wrong, and could
#    greedy have known?
# 2. Greedy text is likelier per character than the text that people wrote. Why is that no praise?
# 3. Why may the keys of token 5 be kept for the whole text in a decoder, and not in an encoder?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. "nice" instead of "dog". It is the likelier first word, 0.5 against 0.4; what follows "dog" is
#    only seen one step later, when greedy has forgotten it. Two beams still have it.
# 2. It repeats itself: the share of different pieces is far below that of the sampled text, and the
#    upper panel of the figure repeats its curve. Being likely is easy for who says the same again.
# 3. The causal mask: the printed comparison says that another last token changes no key before it.
#    In the encoder one more token changes the outputs of all others, of which keys are made.
