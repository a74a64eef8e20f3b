# %% [markdown]
# # GPT: predict the next token
#
# GPT is one stack of decoder blocks that learns one task: predicting the next token. How do you get
# training examples from plain text, which loss is good, and which loss is too good to be true?
#
# *Prerequisites:* causal masks (lesson 10), blocks (lesson 13). Lessons 14 and 16 say more about
# the feed-forward network and about sampling.

# %%
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## The targets are the inputs, shifted by one
#
# A window of $T + 1$ characters gives $T$ examples: each position must predict the character after
# it. Nobody has to label the targets: they are the same text, shifted by one position.

# %%
text = mt.data.default_text()  # Python's help topics
tokenizer = mt.data.CharTokenizer.from_text(text)
training, validation = mt.data.split_text(text, 64)
training_ids, validation_ids = tokenizer.encode(training), tokenizer.encode(validation)
print(f"{len(text):,} characters, {len(tokenizer)} different; the last tenth is the validation set")

window = training_ids[1000:1009]
inputs, targets = window[:-1], window[1:]
print("inputs ", inputs)
print("targets", targets)
for t in range(4):
    print(
        f"after {tokenizer.decode(inputs[: t + 1])!r:<8} comes {tokenizer.decode([targets[t]])!r}"
    )
assert (inputs[1:] == targets[:-1]).all()

# %% [markdown] tags=["your-turn"]
# ## Your turn: cut a text into windows
#
# To measure the loss on a whole text, cut it into windows of `context` tokens such that **every**
# token except the first one is a target exactly once. Write `windows_of(ids, context)` for a
# NumPy array of ids. It returns (inputs, targets), both of shape (window, context). Tokens at the
# end that do not fill a window are an exception: leave them out.
#
# For the text 0, 1, 2, 3, 4, 5, 6, 7 and a context of 3, the inputs are 0, 1, 2 and 3, 4, 5, and
# the targets are 1, 2, 3 and 4, 5, 6.
#
# *Hint:* How many windows are there? The last target is the token after the last input. Then each
# result is a slice of `ids`, reshaped.


# %% tags=["answer"]
def windows_of(ids, context):
    """Return inputs and targets, arrays of shape (window, context)."""
    count = (len(ids) - 1) // context
    inputs = ids[: count * context].reshape(count, context)
    targets = ids[1 : count * context + 1].reshape(count, context)
    return inputs, targets


# %% tags=["check"]
check(
    windows_of,
    cases=[(np.arange(8), 3), (np.arange(7) ** 2, 3), (np.arange(2), 1), (np.arange(29) % 11, 7)],
    expected=lambda ids, context: tuple(
        np.array([ids[i + s : i + s + context] for i in range(0, len(ids) - context, context)])
        for s in (0, 1)
    ),
    properties={
        "no target is left out between two windows": lambda found, ids, context: np.array_equal(
            found[1].flatten(), ids[1 : found[1].size + 1]
        ),
    },
)

# %% [markdown]
# One forward pass computes all $T$ predictions. This is valid only because of the causal mask: the
# prediction at position $t$ must not change when a later character changes.

# %%
CONTEXT = 64


def make_gpt():
    mt.manual_seed(1)
    return mt.models.GPT(len(tokenizer), CONTEXT, embed_dim=64, num_heads=4, num_layers=2)


model = make_gpt()
ids = mt.tensor(training_ids[None, :8])
changed = ids.clone()
changed[0, 5] = (changed[0, 5] + 1) % len(tokenizer)
with mt.no_grad():
    difference = (model(ids) - model(changed)).abs().amax(-1)[0].numpy()
print("character 5 changes; the logits at positions 0 to 7 change by")
print("  ", *(f"{d:.1e}" for d in difference))
assert (difference[:5] < 1e-6).all()
assert (difference[5:] > 1e-4).all()

# %% [markdown]
# ## Baselines for the loss
#
# The loss is the mean of $-\log p(\text{next})$. Before training, it should be close to $\log V$
# for a vocabulary of $V$ characters, the loss of uniform guessing. An initial loss far from this
# value points to a bug. The exponential of a loss is the **perplexity**: a uniform guess among that
# many characters would have the same loss. Counting gives two baselines: the unigram model knows
# how often each character occurs, and the bigram model knows how often each character follows a
# given one.


# %%
def loss_of(model, inputs, targets):
    logits = model(inputs)  # (batch, token, vocabulary)
    return mt.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def validation_loss(model):
    pairs = mt.data.windows(validation_ids, 32, CONTEXT, limit=128)
    with mt.no_grad():
        return np.mean([loss_of(model, *pair).item() for pair in pairs])


baselines = mt.data.baselines(training_ids, validation_ids, len(tokenizer))
first = validation_loss(model)
for name, loss in baselines.items():
    print(f"{name:<15}{loss:6.3f}  perplexity {math.exp(loss):5.1f}")
print(f"before training{first:6.3f}")
assert abs(first - math.log(len(tokenizer))) < 0.2

# %% [markdown] tags=["your-turn"]
# ## Your turn: a bigram model
#
# A bigram model is a table: row $a$ holds the probabilities of the character after $a$. Write
# `bigram_table(ids, vocabulary)` with NumPy. It counts how often each pair of neighbors occurs in
# the text `ids`, adds one to every count so that no probability is 0, and divides each row by its
# sum. The result has shape (vocabulary, vocabulary).
#
# (The bigram baseline above adds less than one to each count, so its numbers differ a little.)
#
# *Hint:* The pairs are `ids[:-1]` and `ids[1:]`. Start from a table of ones. `np.add.at(table,
# (rows, columns), 1)` counts a pair each time it occurs, but `table[rows, columns] += 1` counts it
# only once.


# %% tags=["answer"]
def bigram_table(ids, vocabulary):
    """Return the probabilities (previous, next) of a bigram model with add-one smoothing."""
    counts = np.ones((vocabulary, vocabulary))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    return counts / counts.sum(1, keepdims=True)


# %% tags=["check"]
check(
    bigram_table,
    cases=[
        (np.array([0, 1, 0, 1, 0, 2]), 3),
        (np.zeros(7, int), 2),
        (training_ids[:5000], len(tokenizer)),
    ],
    expected=lambda ids, vocabulary: (
        (pairs := np.bincount(ids[:-1] * vocabulary + ids[1:], minlength=vocabulary**2) + 1.0)
        / pairs.reshape(vocabulary, vocabulary).sum(1).repeat(vocabulary)
    ).reshape(vocabulary, vocabulary),
    properties={
        "each row sums to 1": lambda table, ids, vocabulary: np.allclose(table.sum(1), 1),
        "any character may follow one that never occurs": lambda table, ids, vocabulary: (
            np.allclose(np.delete(table, ids, 0), 1 / vocabulary)
        ),
    },
)

# %%
steps, warmup, top = pick(600, 230), 30, 6e-3


def train(model, steps, shift=1):
    """Train the model and return the losses; with shift=0 the targets are the inputs themselves."""
    optimizer = mt.optim.AdamW(model.parameters(), lr=top, betas=(0.9, 0.95))
    losses = []
    for step, (inputs, targets) in enumerate(mt.data.TextBatches(training_ids, 12, CONTEXT), 1):
        optimizer.param_groups[0]["lr"] = top * min(step / warmup, 1.05 - step / steps)
        loss = loss_of(model, inputs, targets if shift else inputs)
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step == steps:
            return losses


losses = train(model, steps)
last = validation_loss(model)
print(f"after {steps} steps {last:6.3f}  perplexity {math.exp(last):5.1f}")
assert last < baselines["bigram"]

# %% [markdown]
# ## Generating text
#
# Take the logits of the last position, draw a character, append it, and repeat.

# %% [markdown] tags=["your-turn"]
# ## Your turn: draw from a distribution
#
# A computer generates random numbers $u$ that are uniformly distributed between 0 and 1. How do you
# turn such a number into a character? Cut the interval from 0 to 1 into pieces whose lengths are
# the probabilities, and take the piece that contains $u$. With the probabilities 0.2, 0.5 and 0.3,
# the pieces begin at 0, 0.2 and 0.7, so $u = 0.6$ gives character 1.
#
# Write `draw(logits, temperature, u)`. The logits have shape (text, vocabulary); divide them by the
# temperature first. The random numbers u have shape (text,). Return the ids, of shape (text,).
#
# *Hint:* `p.cumsum(-1)` gives the ends of the pieces. The character's id is the number of pieces
# that end at or before $u$.


# %% tags=["answer"]
def draw(logits, temperature, u):
    """Draw one id for each uniform number in u, shape (text,)."""
    p = (logits / temperature).softmax(-1)
    ends = p.cumsum(-1)  # (text, vocabulary)
    return (ends <= u.unsqueeze(-1)).sum(-1)


# %% tags=["check"]
check(
    draw,
    cases=[
        (mt.tensor([[0.2, 0.5, 0.3]] * 5).log(), 1.0, mt.tensor([0.0, 0.1, 0.6, 0.75, 0.99])),
        (mt.randn(7, 11), 0.7, mt.rand(7)),
        (mt.randn(3, 5), 1.5, mt.rand(3)),
    ],
    expected=lambda logits, temperature, u: mt.tensor(
        [
            np.searchsorted(np.cumsum(row), number, side="right")
            for row, number in zip(
                (logits / temperature).softmax(-1).numpy(), u.numpy(), strict=True
            )
        ]
    ),
    properties={
        "the smallest u gives the first character": lambda ids, logits, temperature, u: (
            draw(logits, temperature, 0 * u) == 0
        ).all(),
        "near temperature 0 it draws the most likely id": lambda ids, logits, temperature, u: (
            draw(logits, 1e-4, u * 0.98 + 0.01) == logits.argmax(-1)
        ).all(),
    },
)


# %%
def write(model, start, length, temperature, seed=0):
    generator = np.random.default_rng(seed)
    ids = tokenizer.encode(start).tolist()
    for _ in range(length):
        with mt.no_grad():
            logits = model(mt.tensor([ids[-CONTEXT:]]))[0, -1]  # (vocabulary,)
        p = (logits / temperature).softmax(-1).numpy().astype(np.float64)
        ids.append(int(generator.choice(len(p), p=p / p.sum())))
    return tokenizer.decode(ids)


for temperature in (0.2, 0.7, 1.5):
    print(f"temperature {temperature}: {write(model, 'The ', 90, temperature)!r}")

# %% [markdown]
# ## The parameter table
#
# A block has $12d^2 + 13d$ parameters: $4d^2 + 4d$ in attention, $8d^2 + 5d$ in the feed-forward
# network, and $4d$ in two norms. The model also has the embeddings of $V$ tokens and $C$ positions,
# and the last norm. The output layer reuses the embedding matrix, so it is not counted twice. The
# numbers in the last column come from the GRID deck, "GPT - Variants" (`docs/decks.md` lists the
# decks). Table 2 of the GPT-2 paper has the same numbers.


# %%
def parameters(layers, d, vocabulary=50257, context=1024, last_norm=True):
    blocks = layers * (12 * d * d + 13 * d)
    return blocks + (vocabulary + context) * d + 2 * d * last_norm


published = {  # layers, d, millions of parameters quoted in the GRID deck
    "GPT-2 small": (12, 768, 117),
    "GPT-2 medium": (24, 1024, 345),
    "GPT-2 large": (36, 1280, 762),
    "GPT-2 XL": (48, 1600, 1542),
}
print("model          layers     d       parameters   12 L d^2   often quoted")
for name, (layers, d, quoted) in published.items():
    count = parameters(layers, d)
    rough = 12 * layers * d * d
    print(f"{name:<15}{layers:6}{d:6}{count:17,}{rough / 1e6:9.0f} M{quoted:12} M")
    assert count > 1.005 * quoted * 1e6  # all quoted numbers are too small

gpt1 = parameters(12, 768, vocabulary=40478, context=512, last_norm=False)
gpt3 = parameters(96, 12288, context=2048)
print(f"{'GPT (2018)':<15}{12:6}{768:6}{gpt1:17,}")
print(f"{'GPT-3 175B':<15}{96:6}{12288:6}{gpt3:17,}")
assert round(gpt1 / 1e6) == 117  # the "117 M" of GPT-2 small is the size of the first GPT
assert round(gpt3 / 1e9) == 175

with mt.nn.init.skip_init():  # only the sizes matter
    for make, layers, d in ((mt.models.gpt2, 12, 768), (mt.models.gpt2_medium, 24, 1024)):
        assert sum(p.numel() for p in make().parameters()) == parameters(layers, d)
embedding = 100 * 50257 * 768 / parameters(12, 768)
print(f"the token embeddings are {embedding:.0f} % of GPT-2 small", end=", ")
print(f"{100 * 50257 * 12288 / gpt3:.1f} % of GPT-3")

# %% [markdown]
# ## What goes wrong without the shift
#
# Suppose we forget the shift, so the target is the input itself. The code still runs without an
# error.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We train a model without the shift for a fifth of the steps. What is its training loss at the end?
# What does it write after "The f"? And what is its loss on the real task, the next character? (The
# baselines are printed above.) Write down your answers, then run the next cell.

# %%
cheat = make_gpt()
cheat_losses = train(cheat, pick(120, 60), shift=0)
print(f"loss of the model without a shift: {cheat_losses[-1]:.4f}")
print("it writes ", repr(write(cheat, "The f", 40, 0.7)))
honest = validation_loss(cheat)
print(f"its loss on the next character: {honest:.2f}; guessing gives {baselines['uniform']:.2f}")
assert cheat_losses[-1] < 0.2
assert set(write(cheat, "The f", 40, 0.2)[5:]) == {"f"}
assert honest > baselines["uniform"]

# %% [markdown]
# The loss falls to nearly 0, far below anything possible for English text. The causal mask lets a
# position see itself, so the model only has to learn to copy. It repeats the last letter forever,
# and on the next character it is worse than guessing: it is certain that every letter is repeated.

# %% tags=["plot"]
figure = new_figure(8, 4)
axes = figure.add_subplot()
axes.plot(losses, color=COLOURS[0], linewidth=1.5, label="target: the next character")
axes.plot(cheat_losses, "--", color=COLOURS[1], linewidth=2, label="target: the input itself")
counting = mt.data.baselines(training_ids, training_ids, len(tokenizer))
for name, loss in counting.items():
    axes.axhline(loss, color="0.6", linewidth=1)
    axes.text(1.01, loss, name, va="center", color="0.35", transform=axes.get_yaxis_transform())
axes.set(xlabel="step", ylabel="training loss, nats per character", ylim=(0, 5))
axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.2))
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "With the correct target, the loss falls below the three baselines one after the other. The "
    "baselines and the curves are all measured on the training text. A loss that drops to 0 at "
    "once shows a leak: no model of English text can be that good.",
)

# %% [markdown]
# ## In the library

# %%
where(mt.models.GPT, mt.models.gpt.Block, mt.models.gpt2)
where(mt.data.TextBatches, mt.data.baselines, mt.data.split_text)
where(mt.nn.functional.cross_entropy, mt.generation.generate)

# %% [markdown]
# ## Exercise
#
# At which positions is the model uncertain? Compute the loss at each of the 64 positions
# (`reduction="none"`, then the mean over the windows of `mt.data.windows`). You are done when three
# things are true. The mean of the 64 losses equals `validation_loss(model)`. The loss at position 0
# is not below the bigram baseline (there the model sees only one character, as a bigram model
# does). The mean loss at positions 32 to 63 is below this baseline. Beyond which position does more
# context no longer help this model?
#
# ## Three questions
#
# 1. How many examples does a window of 65 characters give, and which line of the output shows that
#    none of them sees its own answer?
# 2. A fellow student reports a loss of 0.05 nats per character after 80 steps. What do you ask
#    first, and which two observations would settle the question?
# 3. The GRID deck ("GPT - Variants") says that GPT-2 small has 117 million parameters. How many do
#    you count, and where might the quoted number come from?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. It gives 64 examples, one for each position but the last. Changing character 5 does not change
#    the logits at positions 0 to 4, so position 4, which must predict character 5, does not see it.
# 2. First ask whether the targets are shifted. Then let the model generate text: a model that
#    learned to copy its input repeats one letter. Also measure the loss on the next character: here
#    it is far worse than that of the counting baselines.
# 3. The formula and the library both give the number in the table, 124 million. 117 million is the
#    size of the first GPT, which has a smaller vocabulary and a shorter context (see the row "GPT
#    (2018)").
