# %% [markdown]
# # T5: everything is text
#
# Other models have a separate head for each task, such as classification or counting. T5 has one
# encoder-decoder, one vocabulary and one loss, and the text itself says what to do. How does such a
# model learn from plain text, know which task is meant, and represent positions?
#
# *Prerequisites:* the encoder-decoder (lesson 15), BERT's masks (lesson 18), relative positions
# (lesson 12). The decks TAPASWI ("Enc-Dec T5") and COMP541 ("Pre-training in NLP") show T5;
# `docs/decks.md` lists the decks.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.text_tasks import TextTasks
from minitorch_attn.models.t5 import relative_position_bucket, shift_right
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Spans and sentinels
#
# Pre-training masks **spans** of words. Each span is replaced by one token, a sentinel. The target
# lists the words that each sentinel replaces. The input gets shorter, and it does not show how many
# words are missing.


# %%
def corrupt(words, spans):
    """Hide the spans, which are sorted pairs (start, end). Return source and target."""
    source, target, at = [], [], 0
    for number, (start, end) in enumerate(spans):
        sentinel = f"<{number}>"
        source += [*words[at:start], sentinel]
        target += [sentinel, *words[start:end]]
        at = end
    return source + words[at:], target + ["</s>"]


def restore(source, target):
    hidden, name = {}, None
    for word in target[:-1]:
        if word.startswith("<"):
            name, hidden[word] = word, []
        else:
            hidden[name].append(word)
    return [word for token in source for word in hidden.get(token, [token])]


words = "the small dog of my neighbor barks at every car that passes".split()
source, target = corrupt(words, [(1, 3), (7, 10)])
print("text  ", " ".join(words))
print("source", " ".join(source))
print("target", " ".join(target))
bert = [word if i not in (1, 2, 7, 8, 9) else "[MASK]" for i, word in enumerate(words)]
print("BERT  ", " ".join(bert))
assert restore(source, target) == words  # the text can be restored
assert len(source) < len(words) == len(bert)

# %% [markdown] tags=["your-turn"]
# ## Your turn: replace spans without a loop
#
# A training program works with ids, and with a random boolean mask in place of pairs (start, end).
# Write `replace_spans(ids, hidden, first)` with NumPy. `ids` and `hidden` have shape (token,), and
# `hidden` is True where a token is hidden. Replace each run of hidden tokens by **one** sentinel.
# The ids of the sentinels are `first`, `first + 1`, and so on.
#
# For the ids 5, 6, 7, 8, 9 with 6, 7 and 9 hidden, and `first = 90`, the result is 5, 90, 8, 91.
#
# *Hint:* A span starts where a token is hidden and the token before it is not. `np.cumsum` counts
# the starts. Put a sentinel at each start, then keep the starts and all visible tokens.


# %% tags=["answer"]
def replace_spans(ids, hidden, first):
    """Return the ids with every run of hidden tokens replaced by one sentinel."""
    before = np.concatenate([[False], hidden[:-1]])  # whether the token before is hidden
    starts = hidden & ~before
    sentinels = first + np.cumsum(starts) - 1  # the number of the current span
    return np.where(starts, sentinels, ids)[starts | ~hidden]


# %% tags=["check"]
check(
    replace_spans,
    cases=[
        (np.arange(5, 10), np.array([0, 1, 1, 0, 1]) > 0, 90),
        (np.arange(11), np.array([1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0]) > 0, 50),
        (np.arange(7), np.zeros(7) > 0, 50),
    ],
    expected=lambda ids, hidden, first: np.array(
        [
            first + sum(np.diff(hidden[:i].astype(int), prepend=0) > 0) if hidden[i] else ids[i]
            for i in range(len(ids))
            if not (hidden[i] and hidden[:i][-1:].any())
        ]
    ),
    properties={
        "the visible tokens stay, in order": lambda result, ids, hidden, first: np.array_equal(
            result[result < first], ids[~hidden]
        ),
        "with ~hidden, the hidden tokens stay": lambda result, ids, hidden, first: np.array_equal(
            (other := replace_spans(ids, ~hidden, first))[other < first], ids[hidden]
        ),
    },
)

# %% [markdown]
# The property "with ~hidden, the hidden tokens stay" in the check shows a trick of T5's published
# code: called with `~hidden`, `replace_spans` gives the target, in which each run of *visible*
# tokens becomes a sentinel and the hidden tokens stay.
#
# T5 masks 15 percent of the tokens, in spans of 3 tokens on average. How many tokens of text fit
# into an encoder input of 512 tokens, and how long is the target? If the text has $n$ tokens,
# $0.15n$ of them are masked, in $0.05n$ spans:

# %%
for n in (128, 568):
    hidden = round(0.15 * n)
    spans = round(hidden / 3)
    encoder, decoder = n - hidden + spans + 1, hidden + spans + 1  # both end with </s>
    print(f"{n} tokens of text: source {encoder}, target {decoder}")
assert (encoder, decoder) == (512, 114)  # the lengths that the published model was trained with

# %% [markdown]
# ## Every task is text
#
# Here are four tasks on a sequence of three letters. The first word of the source names the task.
# For two tasks the answer is a text, for one it is "yes" or "no" (a classification), and for one it
# is a number. None of them needs a separate head: the classes are words of the vocabulary.

# %%
LETTERS = "abcdef"
TASKS = {
    "copy:": lambda letters: letters,
    "next:": lambda letters: [LETTERS[(LETTERS.index(x) + 1) % 6] for x in letters],
    "any-a:": lambda letters: ["yes" if "a" in letters else "no"],
    "count-a:": lambda letters: [str(letters.count("a"))],
}
VOCABULARY = ["<pad>", "</s>", *TASKS, "yes", "no", *"012345", *LETTERS]
ID = {word: i for i, word in enumerate(VOCABULARY)}
PAD, END = 0, 1


def example(generator, task=None):
    task = task or list(TASKS)[generator.integers(4)]
    letters = [LETTERS[i] for i in generator.integers(6, size=3)]
    return [task, *letters], TASKS[task](letters)


def batch(examples, prefix=True):
    """Return source ids (batch, 5) and labels (batch, 4). Labels after an answer's end are -100."""
    sources, labels = [], np.full((len(examples), 4), -100)
    for row, (source, answer) in zip(labels, examples, strict=True):
        ids = [ID[word] for word in source]
        sources.append([ids[0] if prefix else PAD, *ids[1:], END])
        row[: len(answer) + 1] = [*(ID[word] for word in answer), END]
    return mt.tensor(sources), mt.tensor(labels)


generator = np.random.default_rng(1)
for task in TASKS:
    source, answer = example(generator, task)
    print(f"{' '.join(source):<20} -> {' '.join(answer)}")
_, labels = batch([example(generator, "any-a:")])
print("labels          ", labels[0].numpy())
print("decoder reads   ", shift_right(labels)[0].numpy(), "(<pad> starts every answer)")

# %% [markdown] tags=["your-turn"]
# ## Your turn: what the decoder reads
#
# Write `decoder_reads(labels, start)`. The labels have shape (example, token). The decoder reads
# them shifted by one place to the right: `start` at the first place, and the previous label at
# every other place. But -100 is not the id of a word: wherever the previous label is -100, the
# decoder reads `start`, too.
#
# *Hint:* `mt.cat` joins a column of `start` (`mt.full`, `dtype="int64"`) with all labels but the
# last. `masked_fill` replaces the remaining -100.


# %% tags=["answer"]
def decoder_reads(labels, start):
    """Return the decoder's input, same shape as labels."""
    first = mt.full((len(labels), 1), start, dtype="int64")
    shifted = mt.cat([first, labels[:, :-1]], 1)
    return shifted.masked_fill(shifted == -100, start)


# %% tags=["check"]
check(
    decoder_reads,
    cases=[
        (mt.tensor([[6, 1, -100, -100], [12, 13, 14, 1], [7, 1, -100, -100]]), 0),
        (mt.tensor([[5, 8]]), 3),
        (mt.tensor([[1], [-100]]), 0),
    ],
    expected=lambda labels, start: shift_right(labels, start, start),
    properties={
        "no label is read at its own place": lambda ids, labels, start: (
            (ids[:, 1:] == labels[:, :-1]) | (labels[:, :-1] == -100)
        ).all(),
    },
)

# %%
steps, warmup, top = pick(600, 400), 30, 5e-3


def train(prefix=True):
    mt.manual_seed(1)
    model = mt.models.T5(
        len(VOCABULARY), embed_dim=48, num_heads=4, num_layers=2, head_dim=12, ff_dim=96,
        dropout=0.0,
    )  # fmt: skip
    generator, losses = np.random.default_rng(0), []
    optimizer = mt.optim.Adam(model.parameters(), lr=top)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = top * min(step / warmup, 1.05 - step / steps)
        ids, labels = batch([example(generator) for _ in range(48)], prefix)
        logits = model(ids, shift_right(labels))  # (batch, answer, vocabulary)
        loss = mt.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=-100
        )
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


# %% [markdown]
# To generate an answer, we run the encoder once. The decoder starts from `<pad>` and repeatedly
# appends its most likely token.


# %%
def answers(model, examples, prefix=True):
    ids, _ = batch(examples, prefix)
    with mt.no_grad():
        memory = model.encode(ids)
        written = mt.zeros(len(examples), 1, dtype="int64")  # <pad>
        for _ in range(4):
            token = model.decode(written, memory)[:, -1:].argmax(-1)
            written = mt.cat([written, token], 1)
    texts = []
    for row in written[:, 1:].tolist():
        row = row[: row.index(END)] if END in row else row
        texts.append([VOCABULARY[i] for i in row])
    return texts


def right(model, prefix=True):
    generator, shares = np.random.default_rng(9), {}
    for task in TASKS:
        examples = [example(generator, task) for _ in range(100)]
        found = answers(model, examples, prefix)
        shares[task] = np.mean([a == b for a, (_, b) in zip(found, examples, strict=True)])
    return shares


model, losses = train()
shares = right(model)
print(f"one model, loss {np.mean(losses[:5]):.2f} -> {np.mean(losses[-20:]):.3f}; correct answers:")
print("  ".join(f"{task} {100 * share:.0f} %" for task, share in shares.items()))
assert min(shares.values()) > 0.8

# %% [markdown]
# We give the model the same letters with four prefixes. Nothing else tells it what to do:

# %%
letters = "a c a".split()
found = answers(model, [([task, *letters], []) for task in TASKS])
for task, answer in zip(TASKS, found, strict=True):
    print(f"{task:<9}{' '.join(letters)} -> {' '.join(answer)}")
assert len({tuple(answer) for answer in found}) == 4

# %% [markdown]
# ## Positions: buckets of distances
#
# T5 does not add positions to the tokens. Each head has a small table with one number for each
# bucket of distances. In all layers, this number is added to the score of every query and key whose
# distance is in the bucket. Each short distance has its own bucket. Longer distances share buckets,
# which get wider with the distance (equally wide on a logarithmic scale). All distances of at least
# 128 are in the last bucket.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the decoder's buckets
#
# The decoder has 32 buckets for the past. A key that is $n$ places before its query is in the
# bucket
#
# $$n \text{ if } n < 16, \qquad
# \min\left(31,\; 16 + \left\lfloor 16\,\frac{\log(n / 16)}{\log(128 / 16)} \right\rfloor\right)
# \text{ otherwise.}$$
#
# Write `decoder_bucket(distance)` for an integer tensor of distances $n \ge 0$ of any shape. The
# result is an integer tensor of the same shape.
#
# *Hint:* Compute both branches for all distances and choose with `mt.where`. The second branch must
# not fail even where it is not chosen: how does `distance.clamp(min=16)` avoid $\log(0)$? `floor()`
# gives floats, and `long()` makes them integers.


# %% tags=["answer"]
def decoder_bucket(distance):
    """Return the bucket (0 to 31) of each distance, same shape as distance."""
    far = distance.clamp(min=16)  # no logarithm of 0
    steps = (16 * (far / 16).log() / np.log(128 / 16)).floor().long()
    return mt.where(distance < 16, distance, (16 + steps).clamp(max=31))


# %% tags=["check"]
check(
    decoder_bucket,
    cases=[mt.arange(151), mt.tensor([[0, 15, 16], [17, 127, 128]]), mt.tensor([1000])],
    expected=lambda distance: relative_position_bucket(-distance, bidirectional=False),
    properties={
        "one place farther, the bucket is not lower": lambda bucket, distance: (
            decoder_bucket(distance + 1) >= bucket
        ).all(),
    },
)

# %%
distances = mt.arange(-150, 151)  # key position minus query position
encoder = relative_position_bucket(distances)
decoder = relative_position_bucket(distances, bidirectional=False)
for d in (-150, -128, -127, -20, -8, -7, -1, 0, 1, 20):
    i = d + 150
    print(f"distance {d:5}: bucket {encoder[i].item():3} (encoder) {decoder[i].item():3} (decoder)")
assert set(range(32)) - set(encoder.tolist()) == {16}  # bucket 16 stays empty: 0 is in bucket 0
assert set(decoder.tolist()) == set(range(32))
assert [encoder[150 - d].item() for d in range(8)] == list(range(8))  # one bucket each
assert encoder[150 - 128].item() == encoder[0].item()  # same bucket at -128 and -150
assert (decoder[151:] == 0).all()  # a decoder's key is never after its query

# %% tags=["plot"]
figure = new_figure(8, 3.6)
axes = figure.add_subplot()
axes.plot(distances.numpy(), encoder.numpy(), ".", color=COLOURS[0], markersize=4, label="encoder")
axes.plot(distances.numpy(), decoder.numpy(), "x", color=COLOURS[1], markersize=3, label="decoder")
axes.axvline(0, color="0.6", linewidth=1)
axes.set(xlabel="distance: position of the key - position of the query", ylabel="bucket")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "Near 0 each distance has its own bucket; farther away the buckets get wider. The encoder has "
    "16 buckets for each direction, the decoder all 32 for the past.",
)

# %%
bias = model.encoder.position_bias(6, 6)  # (1, heads, query, key)
long = model.encoder.position_bias(300, 300)
print("bias of head 0\n", bias[0, 0].detach().numpy().round(2))
assert (bias[0, 0, 1, 3] == bias[0, 0, 3, 5]).item()  # the distances are equal
assert (long[:, :, :6, :6] == bias).all()  # a text of 300 needs no new parameters
numbers = sum(t.position_bias.embedding.weight.numel() for t in (model.encoder, model.decoder))
print(f"{numbers} parameters for positions, of {sum(p.numel() for p in model.parameters()):,}")

# %% [markdown]
# ## No division by sqrt(d)
#
# T5's scores are not scaled. This is not a mistake: T5 initializes its query matrices with values
# that are smaller than usual by a factor of $\sqrt{d_{head}}$. With the usual initialization and no
# scaling, the scores would grow with the head's width (lesson 9).

# %%
d, head = 256, 64
x = mt.randn(200, d)
key_matrix = mt.randn(d, head) * d**-0.5
print("scores without a scale, standard deviation:")
spread = {}
for name, std in (("T5's initialization", (d * head) ** -0.5), ("the usual one", d**-0.5)):
    scores = (x @ (mt.randn(d, head) * std)) @ (x @ key_matrix).T
    spread[name] = scores.std().item()
    print(f"  {name:<20}{spread[name]:5.2f}")
assert 0.7 < spread["T5's initialization"] < 1.4
assert spread["the usual one"] > 5

# %% [markdown]
# ## What goes wrong without the task prefix
#
# Without the prefix, the same source has four correct answers. We train the model on the same
# examples for the same number of steps, with `<pad>` in place of the first word.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# For each of the four tasks (copy, next, any-a, count-a), what percentage of the answers is
# correct? Can all four be above 50 percent? Write down four numbers, then run the next cell.

# %%
lost, lost_losses = train(prefix=False)
lost_shares = right(lost, prefix=False)
print(f"loss {np.mean(lost_losses[-20:]):.3f} instead of {np.mean(losses[-20:]):.3f}; correct:")
print("  ".join(f"{task} {100 * share:.0f} %" for task, share in lost_shares.items()))
assert sum(lost_shares.values()) / 4 < 0.5 < min(shares.values())
assert np.mean(lost_losses[-20:]) > 5 * np.mean(losses[-20:])

# %% [markdown]
# The four percentages cannot add up to much more than 100. Given the same letters, the model always
# writes the same text. This text is correct for at most one task, because no two tasks ever have
# the same answer. Even the first words of the four answers always differ, and all four tasks are
# equally likely. So the loss of the first word is at least $\log 4$ nats on average, however long
# the model trains.
#
# ## In the library

# %%
where(mt.models.T5, relative_position_bucket, shift_right)
where(mt.models.t5.RelativePositionBias, mt.models.t5_small)
where(TextTasks, mt.nn.RMSNorm, mt.generation.generate)

# %% [markdown]
# ## Exercise
#
# Add a fifth task, "undo:", that works like pre-training. Its source is three consecutive letters
# of the alphabet ("b c d"), with one of them replaced by the word "<0>". Its answer is "<0>" and
# the letter. (Extend `VOCABULARY` and handle the new task in `example`.) You are done when over 95
# percent of the new task's answers are correct and the other four tasks are not worse than before.
#
# ## Three questions
#
# 1. In the first example, five words are hidden. How many tokens do T5 and BERT read, and which of
#    the two knows how many words are missing?
# 2. "yes" is a class in one task. Which part of the model is the classifier?
# 3. The model was trained on sources of 5 tokens. Why can it read 300, and what does it not know
#    about two keys that are 130 and 150 positions before the query?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. T5's source has two sentinels in place of the five words, so it is three tokens shorter than
#    the text. BERT's input is as long as the text, and its five [MASK] tokens show how many words
#    are missing.
# 2. The model does not have a separate classifier: "yes" is a word of the vocabulary, generated by
#    the same decoder and trained with the same loss as any other word. Only the prefix tells the
#    model when to use it as an answer.
# 3. T5's positions are biases for distances, so the same table gives the biases for a text of any
#    length. An assertion shows this for 6 and 300 tokens: the first 6 rows and columns of the large
#    bias matrix equal the small one. All distances of at least 128 share one bucket, so the model
#    does not know which key is farther away.
