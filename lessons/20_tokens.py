# %% [markdown]
# # Tokens: characters, byte pairs, patches
#
# A Transformer reads a sequence of numbers. Who decides what one number stands for, what does the
# choice cost, and how can an image be such a sequence?
#
# *Know before:* embeddings, the cost of attention (lesson 14).

# %%
import os
import tempfile
from collections import Counter
from itertools import pairwise

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.errors import DataError
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Three ways to cut a text
#
# One token for each character, for each byte, or for each word:

# %%
text = mt.data.default_text()  # the help topics of Python
sample = "naïve tokens: 3 × 7"
characters = mt.data.CharTokenizer.from_text(text + sample)
print("characters", list(sample), len(sample))
print("bytes     ", list(sample.encode()), len(sample.encode()))
print("words     ", sample.split(), len(sample.split()))
assert characters.decode(characters.encode(sample)) == sample
assert bytes(list(sample.encode())).decode() == sample
assert len(sample.encode()) == len(sample) + 2  # ï and × are two bytes each

# %% [markdown]
# Characters and words have the same trouble: what was not in the training text has no number.
# Bytes do not: there are 256 of them, and every text is made of them.

# %%
known = mt.data.CharTokenizer.from_text("only these letters")
with fails(DataError):
    known.encode("zebra")
words = mt.data.WordTokenizer.from_text("the cat sat", special_tokens=["[UNK]"], unknown="[UNK]")
print("words:", repr(words.decode(words.encode("the dog sat"))))
print("bytes:", list(b"zebra"))

# %% [markdown]
# ## Byte-pair encoding, by hand
#
# Between bytes and words lies BPE: begin with single letters, and join the most frequent pair of
# neighbours into a new token, again and again. Five words, with how often each occurs:

# %%
COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def pairs_of(cut):
    found = Counter()
    for word, count in COUNTS.items():
        for pair in pairwise(cut[word]):
            found[pair] += count
    return found


def join(tokens, pair):
    joined = []
    for token in tokens:
        if joined and (joined[-1], token) == pair:
            joined[-1] += token
        else:
            joined.append(token)
    return joined


cut = {word: list(word) for word in COUNTS}
merges = []
for step in range(1, 7):
    found = pairs_of(cut)
    # of equally frequent pairs the last one in the alphabet, so that the result is one and the same
    pair = max(found, key=lambda pair: (found[pair], pair))
    merges.append(pair)
    cut = {word: join(tokens, pair) for word, tokens in cut.items()}
    print(f"{step}. {pair[0]} + {pair[1]}, {found[pair]} times:", *map("·".join, cut.values()))

# %% [markdown]
# The library learns the same merges (on bytes, with a heap instead of a full count at each step):

# %%
tokens, _ = mt.data.tokenizers.bpe_training.learn_merges(
    {word.encode(): count for word, count in COUNTS.items()}, 256 + 6
)
print("library:", [token.decode() for token in tokens[256:]])
assert [token.decode() for token in tokens[256:]] == [a + b for a, b in merges]

# %% [markdown]
# A new word is cut by the same merges, **in the order in which they were learned**. Parts of known
# words are found again in unknown ones:


# %%
def encode(word, merges):
    tokens = list(word)
    for pair in merges:
        tokens = join(tokens, pair)
    return tokens


for word in ("lowest", "newer", "zoo"):
    print(f"{word:<8}{'·'.join(encode(word, merges))}")
assert encode("lowest", merges) == ["low", "est"]  # "lowest" was never seen
assert "".join(encode("zoo", merges)) == "zoo"

# %% [markdown]
# ## What a vocabulary buys
#
# We learn merges from the first part of the help topics, and look at the rest. A larger vocabulary
# makes texts shorter, so attention cheaper; its embeddings get larger.

# %%
cutting = pick(200_000, 60_000)
unseen = text[400_000:420_000]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "text.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:cutting])
    sizes = (256, 512, 1024, 2048, 4096)
    tokenizers = {size: mt.data.ByteBPE.train(path, size) for size in sizes}

print("vocabulary   tokens   characters per token   scores of attention   embeddings, d = 768")
lengths = {}
for size, tokenizer in tokenizers.items():
    ids = tokenizer.encode(unseen)
    assert tokenizer.decode(ids) == unseen  # nothing is lost
    lengths[size] = len(ids)
    relative = (len(ids) / lengths[256]) ** 2
    each = len(unseen) / len(ids)
    print(f"{size:10,}{len(ids):9,}{each:23.2f}{100 * relative:19.0f} %{size * 768:22,}")
assert lengths[4096] < lengths[1024] < lengths[256]
assert lengths[4096] < 0.45 * lengths[256]

tokenizer = tokenizers[4096]
for part in ("The function returns", "thefunctionreturns", "Donaudampfschiff", "12345"):
    ids = tokenizer.encode(part)
    pieces = [tokenizer.vocab[i].decode(errors="replace") for i in ids]
    print(f"{part!r:<24}{len(ids):3} tokens  {'|'.join(pieces)}")

# %%
figure = new_figure(8, 3.4)
left, right = figure.subplots(1, 2)
left.plot(sizes, [len(unseen) / lengths[size] for size in sizes], "o-", color=COLOURS[0])
left.set(xscale="log", xlabel="vocabulary", ylabel="characters per token", ylim=(0, None))
left.set_xticks(sizes, map(str, sizes))
left.minorticks_off()
used = Counter(tokenizer.encode(unseen))
right.loglog(sorted(used.values(), reverse=True), color=COLOURS[1])
right.set(xlabel="rank of the token", ylabel="times in the unseen text", title="4,096 tokens")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Left: each doubling of the vocabulary buys less. Right: a few tokens are very frequent, most "
    "are rare; a rare token's embedding is hardly ever trained.",
)

# %% [markdown]
# ## Losses of different tokens cannot be compared
#
# A loss "per token" depends on what a token is. The fair unit is per character (or byte): the sum
# over the text divided by its characters. A model that knows only how often each token occurs:

# %%
print("vocabulary   nats per token   nats per character")
per_token, per_character = {}, {}
for size, tokenizer in tokenizers.items():
    seen = np.bincount(tokenizer.encode(text[:cutting]), minlength=size) + 1.0
    total = -np.log(seen / seen.sum())[tokenizer.encode(unseen)].sum()
    per_token[size], per_character[size] = total / lengths[size], total / len(unseen)
    print(f"{size:10,}{per_token[size]:17.2f}{per_character[size]:21.2f}")
assert per_token[4096] > per_token[256]  # looks worse
assert per_character[4096] < per_character[256]  # is better

# %% [markdown]
# ## Patches: an image is a text, too
#
# A vision transformer cuts the image into squares. Each patch, its pixels in a row, is a "word"; a
# matrix turns it into a vector, where a text looks one up.


# %%
def patches_of(image, side):
    """(channel, height, width) -> (patch, channel * side * side), row after row."""
    channels, height, width = image.shape
    x = image.reshape(channels, height // side, side, width // side, side)
    x = x.permute(1, 3, 0, 2, 4)  # (row, column, channel, side, side)
    return x.reshape((height // side) * (width // side), channels * side * side)


image = mt.randn(3, 224, 224)
patches = patches_of(image, 16)
print("image", image.shape, "-> tokens", patches.shape)
assert patches.shape == (196, 768)
assert (patches[15].reshape(3, 16, 16) == image[:, 16:32, 16:32]).all()  # row 1, column 1

matrix = mt.randn(10, 768) * 768**-0.5
by_matrix = patches @ matrix.T  # (patch, 10)
by_convolution = mt.nn.functional.conv2d(  # a kernel as large as the patch, a stride as large, too
    image.unsqueeze(0), matrix.reshape(10, 3, 16, 16), stride=16
)
by_convolution = by_convolution[0].flatten(1).T  # (10, 14, 14) -> (patch, 10)
difference = (by_matrix - by_convolution).abs().max().item()
print(f"matrix on patches and convolution with stride 16 differ by {difference:.1e}")
assert difference < 1e-4

print("what is a token        tokens    scores of one head")
for name, tokens in (("pixel", 224 * 224), ("patch of 16 x 16", 196), ("patch of 32 x 32", 49)):
    print(f"{name:<20}{tokens:9,}{tokens**2:22,}")
ratio = (224 * 224) ** 2 // 196**2
print(f"pixels instead of patches of 16 x 16: {ratio:,} times the scores")
assert ratio == 16**4

# %% [markdown]
# ## What goes wrong without it
#
# Three mistakes that raise no error. **Merges in the wrong order**: the same merges give other
# tokens, which the model has never seen in this place.

# %%
right_ids = encode("lowest", merges)
wrong_ids = encode("lowest", [("w", "e"), *merges])  # a merge of another tokenizer comes first
print("lowest:", "·".join(right_ids), "  with another first merge:", "·".join(wrong_ids))
assert wrong_ids != right_ids
backwards = encode("newest", merges[::-1])
print("newest:", "·".join(encode("newest", merges)), "  merges backwards:", "·".join(backwards))
assert backwards != encode("newest", merges)

# %% [markdown]
# **Cutting bytes where no character ends**: half a character is no text.

# %%
data = "naïve".encode()
print(repr(data[:3].decode(errors="replace")), "instead of", repr(data[:4].decode()))
with fails(UnicodeDecodeError):
    data[:3].decode()

# %% [markdown]
# **A reshape instead of patches**: without the `permute` (lesson 11 again) the shape is right, and
# each "patch" is a strip of pixels torn out of rows that do not belong together.

# %%
wrong = image.reshape(196, 768)
rows = mt.arange(224).reshape(1, 224, 1).expand(3, 224, 224)
columns = mt.arange(224).reshape(1, 1, 224).expand(3, 224, 224)


def extent(tokens):
    """The largest distance of two pixels within a token, over all tokens."""
    return (tokens.amax(1) - tokens.amin(1)).max().item()


extents = {}
print("way       rows of pixels apart   columns apart")
for name, cut_up in (
    ("patches", lambda x: patches_of(x, 16)),
    ("reshape", lambda x: x.reshape(196, 768)),
):
    extents[name] = extent(cut_up(rows)), extent(cut_up(columns))
    print(f"{name:<10}{extents[name][0]:20}{extents[name][1]:16}")
assert wrong.shape == patches.shape
assert extents == {"patches": (15, 15), "reshape": (223, 223)}

# %% [markdown]
# ## Where it lives

# %%
where(mt.data.CharTokenizer, mt.data.WordTokenizer, mt.data.ByteBPE)
where(mt.data.tokenizers.bpe_training.learn_merges, mt.data.tokenizers.merging.merge_tokens)
where(mt.models.VisionTransformer)

# %% [markdown]
# ## Exercise
#
# Learn a seventh and an eighth merge by hand, on paper, from the last line that was printed; then
# let the loop run to 8. When it is done: your two merges are the loop's, and those of
# `learn_merges(..., 264)`. Which word have they made one token?
#
# Then practise:
#
# ```sh
# mta exercise start 28
# ```
#
# ## Three questions
#
# 1. "lowest" was in no training word. Why is it cut into two tokens and not into six letters?
# 2. Model A reports 3.5 nats per token with 256 tokens, model B 4.5 with 4,096. Which is better?
# 3. Why does no one make a token of each pixel of a 224 x 224 image?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Its parts were frequent in other words: "low" in low and lower, "est" in newest and widest. The
#    list of merges contains both, so they are joined here, too.
# 2. Not by these numbers alone. Divide by the characters per token of the first table: a token of A
#    is one character, one of B is more than two, so B has the smaller loss per character, although
#    it has the larger one per token, as in the last table of losses.
# 3. The last column of the table of patches: attention has a score for each pair of tokens, and
#    pixels give 65,536 times as many as patches of 16 x 16.
