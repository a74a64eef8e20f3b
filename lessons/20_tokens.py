# %% [markdown]
# # Tokens: characters, byte pairs, patches
#
# A Transformer reads a sequence of tokens. What does one token stand for, what does that choice
# cost, and how can an image become such a sequence?
#
# *Prerequisites:* cross-entropy (lesson 5), embeddings (lesson 6), the cost of attention (lesson
# 14). The decks KROL ("Tokens") and COMP541 ("Tokenizing the input data") introduce tokens;
# `docs/decks.md` lists the decks.

# %%
import math
import os
import tempfile
from collections import Counter
from itertools import pairwise

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.errors import DataError
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Three ways to split a text
#
# A token can be a character, a byte or a word:

# %%
text = mt.data.default_text()  # Python's help topics
sample = "naïve tokens: 3 × 7"
characters = mt.data.CharTokenizer.from_text(text + sample)
print("characters", list(sample), len(sample))
print("bytes     ", list(sample.encode()), len(sample.encode()))
print("words     ", sample.split(), len(sample.split()))
assert characters.decode(characters.encode(sample)) == sample
assert bytes(list(sample.encode())).decode() == sample
assert len(sample.encode()) == len(sample) + 2  # ï and × are two bytes each

# %% [markdown]
# Characters and words have the same problem: a character or word that does not occur in the
# training text does not have an id. Bytes avoid it: every text consists of bytes, and there are 256
# of them.

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
# Byte-pair encoding (BPE) is a compromise between bytes and words. It starts with single letters
# and repeatedly joins the most frequent pair of neighbors into a new token. Take four words and
# their counts:

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
    # break ties by taking the alphabetically last pair, so that the result is unique
    pair = max(found, key=lambda pair: (found[pair], pair))
    merges.append(pair)
    cut = {word: join(tokens, pair) for word, tokens in cut.items()}
    print(f"{step}. {pair[0]} + {pair[1]}, {found[pair]} times:", *map("·".join, cut.values()))

# %% [markdown]
# The library learns the same merges. It works on bytes, and it uses a heap, so that it does not
# have to count all pairs again at each step:

# %%
tokens, _ = mt.data.tokenizers.bpe_training.learn_merges(
    {word.encode(): count for word, count in COUNTS.items()}, 256 + 6
)
print("library:", [token.decode() for token in tokens[256:]])
assert [token.decode() for token in tokens[256:]] == [a + b for a, b in merges]

# %% [markdown]
# A new word is split by the same merges, **in the order in which they were learned**. Unknown words
# often contain parts of known ones:


# %%
def encode(word, merges):
    tokens = list(word)
    for pair in merges:
        tokens = join(tokens, pair)
    return tokens


for word in ("lowest", "newer", "zoo"):
    print(f"{word:<8}{'·'.join(encode(word, merges))}")
assert encode("lowest", merges) == ["low", "est"]  # "lowest" is not a training word
assert "".join(encode("zoo", merges)) == "zoo"

# %% [markdown] tags=["your-turn"]
# ## Your turn: split a word without trying all merges
#
# `encode` tries every merge on every word. GPT-2 has 50,000 merges, and most words have fewer than
# ten letters. So tokenizers start from the word instead. They look at all pairs of neighbors in the
# *word*, and join the pair whose merge was learned first. They repeat this until no pair of
# neighbors is a merge.
#
# Write `token_lengths(word, merges)` in this way. `merges` is a list of pairs in the order in which
# they were learned. Return the lengths of the tokens as an array: `[3, 3]` for `low·est`. You may
# use `join` and `pairwise`.
#
# *Hint:* Make a dictionary that maps each pair to its index in `merges`. Then `min(..., key=...)`
# finds the pair to join next.


# %% tags=["answer"]
def token_lengths(word, merges):
    """Return the lengths of a word's tokens, an array of shape (token,)."""
    tokens = list(word)
    rank = {pair: number for number, pair in enumerate(merges)}
    while True:
        candidates = [pair for pair in pairwise(tokens) if pair in rank]
        if not candidates:
            return np.array([len(token) for token in tokens])
        tokens = join(tokens, min(candidates, key=rank.get))


# %% tags=["check"]
check(
    token_lengths,
    cases=[
        ("lowest", merges), ("newestlow", merges), ("zoo", merges), ("w", merges),
        ("abcab", [("b", "c"), ("a", "b")]), ("banana", [("a", "n"), ("n", "a"), ("an", "a")]),
    ],
    expected=lambda word, merges: np.array([len(token) for token in encode(word, merges)]),
    properties={
        "the lengths add up to the word's length": lambda y, word, merges: y.sum() == len(word)
    },
)  # fmt: skip

# %% [markdown]
# ## Benefits and costs of a larger vocabulary
#
# We learn merges from the first part of Python's help topics, and test on a later part. A larger
# vocabulary makes texts shorter, and therefore attention cheaper. But it needs more embeddings.

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
    assert tokenizer.decode(ids) == unseen  # decoding restores the text
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
used = Counter(tokenizer.encode(unseen))

# %% tags=["plot"]
figure = new_figure(8, 3.4)
left, right = figure.subplots(1, 2)
left.plot(sizes, [len(unseen) / lengths[size] for size in sizes], "o-", color=COLOURS[0])
left.set(xscale="log", xlabel="vocabulary", ylabel="characters per token", ylim=(0, None))
left.set_xticks(sizes, map(str, sizes))
left.minorticks_off()
right.loglog(sorted(used.values(), reverse=True), color=COLOURS[1])
right.set(xlabel="rank of the token", ylabel="times in the unseen text", title="4,096 tokens")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Left: each further doubling of the vocabulary lengthens the tokens less. Right: a few tokens "
    "are very frequent, most are rare; the embedding of a rare token is hardly ever trained.",
)

# %% [markdown]
# ## Comparing models with different tokenizers
#
# A loss "per token" depends on what a token is. For a fair comparison, divide the loss by something
# that does not depend on the tokenizer: sum it over the whole text, and divide by the number of
# characters (or bytes) of the text.

# %% [markdown] tags=["your-turn"]
# ## Your turn: bits per byte
#
# Papers that compare language models report *bits per byte*, because a byte is the same unit in
# every language. Write `bits_per_byte(logits, targets, text)`: the cross-entropy summed over all
# tokens of a text, in bits, divided by the number of bytes of the text. `logits` has shape (token,
# vocabulary), `targets` (token,) holds the correct ids, and `text` is a string. A bit is
# $\ln 2 = 0.693$ nats.
#
# *Hint:* `mt.log_softmax(logits, -1)` gives the logarithms of all probabilities. Indexing it with
# `mt.arange(n)` and the targets picks one of them in each row. And how many bytes does "ï" have?


# %% tags=["answer"]
def bits_per_byte(logits, targets, text):
    """Return the cross-entropy of the targets in bits per byte of text, a scalar."""
    log_p = mt.log_softmax(logits, -1)  # (token, vocabulary)
    nats = -log_p[mt.arange(len(targets)), targets].sum()
    return nats / math.log(2) / len(text.encode())


# %% tags=["check"]
check(
    bits_per_byte,
    cases=[
        (mt.randn(3, 7), mt.tensor([6, 0, 2]), "naïve"),
        (mt.randn(5, 11), mt.tensor([1, 1, 10, 4, 0]), "hello there"),
        (mt.zeros(2, 256), mt.tensor([104, 105]), "hi"),
    ],
    expected=lambda logits, targets, text: (
        mt.nn.functional.cross_entropy(logits, targets, reduction="sum")
        / (len(text.encode()) * math.log(2))
    ),
    properties={"the result is positive": lambda bits, logits, targets, text: bits.item() > 0},
)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# The next model is as simple as possible: it knows only how often each token occurs in the training
# text. If tokens are bytes (a vocabulary of 256), its loss is 3.25 nats per token, and there is
# about one character per token. With a vocabulary of 4,096, a token stands for more than two
# characters. Will the loss per *token* be smaller, about equal or larger? And the loss per
# *character*? Estimate both in nats: write down two numbers, then run the next cell.

# %%
print("vocabulary   nats per token   nats per character")
per_token, per_character = {}, {}
for size, tokenizer in tokenizers.items():
    seen = np.bincount(tokenizer.encode(text[:cutting]), minlength=size) + 1.0
    total = -np.log(seen / seen.sum())[tokenizer.encode(unseen)].sum()
    per_token[size], per_character[size] = total / lengths[size], total / len(unseen)
    print(f"{size:10,}{per_token[size]:17.2f}{per_character[size]:21.2f}")
assert per_token[4096] > per_token[256]  # it looks worse
assert per_character[4096] < per_character[256]  # but it is better

# %% [markdown]
# The two columns rank the tokenizers in opposite order. The loss per token doubles, because it is
# harder to guess one token of 4,096 than one of 256. But each token now stands for several
# characters, and the loss per character falls by more than a third. Per-token losses of different
# tokenizers are not comparable.
#
# ## Patches: an image as a sequence of tokens
#
# A vision transformer cuts the image into squares. Each patch, flattened to one row of pixels, is a
# "word". A text model looks up a word's vector in a table. A vision transformer computes a patch's
# vector with a matrix.


# %%
def patches_of(image, side):
    """Cut an image (channel, height, width) into patches (patch, channel * side * side)."""
    channels, height, width = image.shape
    x = image.reshape(channels, height // side, side, width // side, side)
    x = x.permute(1, 3, 0, 2, 4)  # (row, column, channel, side, side)
    return x.reshape((height // side) * (width // side), channels * side * side)


image = mt.randn(3, 224, 224)
patches = patches_of(image, 16)
print("image", image.shape, "-> tokens", patches.shape)
assert patches.shape == (196, 768)
assert (patches[15].reshape(3, 16, 16) == image[:, 16:32, 16:32]).all()  # row 1, column 1

# %% [markdown] tags=["your-turn"]
# ## Your turn: from patches back to the image
#
# A model that predicts patches (lesson 27) must turn them into an image again. Write
# `image_of(patches, side, height, width)`, the inverse of `patches_of`. It turns patches
# of shape (patch, channel * side * side) into an image of shape (channel, height, width). Height
# and width may differ.
#
# *Hint:* Undo the three lines of `patches_of` from the last to the first. The reshape before the
# `permute` needs five axes: row, column, channel, side, side. In what order must `permute` put
# them?


# %% tags=["answer"]
def image_of(patches, side, height, width):
    """Return the image (channel, height, width) that was cut into patches (patch, pixel)."""
    rows, columns = height // side, width // side
    x = patches.reshape(rows, columns, -1, side, side)
    x = x.permute(2, 0, 3, 1, 4)  # (channel, row, side, column, side)
    return x.reshape(-1, height, width)


# %% tags=["check"]
check(
    image_of,
    cases=[(mt.randn(6, 12), 2, 4, 6), (mt.randn(5, 27), 3, 15, 3), (mt.randn(1, 49), 7, 7, 7)],
    expected=lambda patches, side, height, width: mt.nn.functional.fold(
        patches.T.unsqueeze(0), (height, width), side, stride=side
    )[0],
    properties={
        "cutting the image gives the patches": lambda image, patches, side, height, width: (
            patches_of(image, side) == patches
        ).all()
    },
)

# %% [markdown]
# The matrix that turns patches into vectors can also be written as a convolution:

# %%
matrix = mt.randn(10, 768) * 768**-0.5
by_matrix = patches @ matrix.T  # (patch, 10)
by_convolution = mt.nn.functional.conv2d(  # kernel size and stride equal the patch size
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
# ## What goes wrong when text and images are split into tokens carelessly
#
# Here are three mistakes, of which only the second one can raise an error. **Merges of another
# tokenizer, or in the wrong order**: they split the same text into different tokens, which the
# model has never seen in this context.

# %%
right_ids = encode("lowest", merges)
wrong_ids = encode("lowest", [("w", "e"), *merges])  # a merge of another tokenizer comes first
print("lowest:", "·".join(right_ids), "  with another first merge:", "·".join(wrong_ids))
assert wrong_ids != right_ids
backwards = encode("newest", merges[::-1])
print("newest:", "·".join(encode("newest", merges)), "  merges backwards:", "·".join(backwards))
assert backwards != encode("newest", merges)

# %% [markdown]
# **Cutting bytes in the middle of a character**: half a character is not valid text. A strict
# decoder raises an error, and with `errors="replace"` it writes a replacement character.

# %%
data = "naïve".encode()
print(repr(data[:3].decode(errors="replace")), "instead of", repr(data[:4].decode()))
with fails(UnicodeDecodeError):
    data[:3].decode()

# %% [markdown]
# **Reshaping the image without the `permute`**: as in lesson 11, the shape is correct, but each
# "patch" is a strip across a few rows of pixels instead of a square.

# %%
wrong = image.reshape(196, 768)
rows = mt.arange(224).reshape(1, 224, 1).expand(3, 224, 224)
columns = mt.arange(224).reshape(1, 1, 224).expand(3, 224, 224)


def extent(tokens):
    """Return the largest distance between two pixels of the same token, over all tokens."""
    return (tokens.amax(1) - tokens.amin(1)).max().item()


extents = {}
print("way          largest row distance   largest column distance")
for name, cut_up in (
    ("patches", lambda x: patches_of(x, 16)),
    ("reshape", lambda x: x.reshape(196, 768)),
):
    extents[name] = extent(cut_up(rows)), extent(cut_up(columns))
    print(f"{name:<10}{extents[name][0]:23}{extents[name][1]:26}")
assert wrong.shape == patches.shape
assert extents == {"patches": (15, 15), "reshape": (223, 223)}

# %% [markdown]
# ## In the library

# %%
where(mt.data.CharTokenizer, mt.data.WordTokenizer, mt.data.ByteBPE)
where(mt.data.tokenizers.bpe_training.learn_merges, mt.data.tokenizers.merging.merge_tokens)
where(mt.models.VisionTransformer)

# %% [markdown]
# ## Exercise
#
# Find the seventh and eighth merges by hand, on paper, starting from the last printed line. Then
# let the loop run for 8 steps. You are done when the loop and `learn_merges(..., 264)` find the
# same two merges. Which word do they turn into one token?
#
# Then practice:
#
# ```sh
# mta exercise start 28
# mta exercise start 36
# ```
#
# ## Three questions
#
# 1. "lowest" is not a training word. Why is it split into two tokens instead of six letters?
# 2. Model A has a vocabulary of 256 tokens and a loss of 3.5 nats per token. Model B has a
#    vocabulary of 4,096 and a loss of 4.5. Which is better?
# 3. Why does nobody use each pixel of a 224 x 224 image as a token?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Its parts were frequent in other words: "low" occurs in low and lower, "est" in newest and
#    widest. The merges build both parts, so "lowest" is split into them.
# 2. These two losses alone do not answer the question. Divide each by the characters per token in
#    the first table: a token of A is about one character, and a token of B is more than two. So B
#    has the smaller loss per character, although its loss per token is larger. The table of losses
#    shows the same for its vocabularies of 256 and 4,096.
# 3. The last column of the patch table shows the cost: attention has a score for each pair of
#    tokens, and pixels give 65,536 times as many scores as patches of 16 x 16.
