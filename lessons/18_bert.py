# %% [markdown]
# # BERT: predict hidden words
#
# A decoder must not look ahead, because it would see the answer. BERT looks in both directions.
# What can it predict if it sees every word, why does it hide words in three ways, and which
# positions contribute to the loss?
#
# *Prerequisites:* log-probabilities (lesson 5), attention masks (lesson 10), next-token prediction
# (lesson 17).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.training.recipes import masked_stream
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## A small language with known rules
#
# The sentences are like "two dogs bark in the yard". The number (singular or plural) and the animal
# determine the verb, and the animal determines the place. The first word is one of three words if
# the sentence is singular, and one of three others if it is plural. So we know exactly what a model
# can predict.

# %%
ONE, MANY = ("a", "one", "this"), ("two", "many", "these")
ANIMALS = {
    "dog": ("bark", "yard"),
    "cat": ("purr", "house"),
    "bird": ("sing", "tree"),
    "cow": ("moo", "field"),
    "bee": ("hum", "garden"),
    "frog": ("croak", "pond"),
}


def sentence(generator):
    animal = list(ANIMALS)[generator.integers(len(ANIMALS))]
    verb, place = ANIMALS[animal]
    if generator.integers(2):
        return [ONE[generator.integers(3)], animal, verb + "s", "in", "the", place]
    return [MANY[generator.integers(3)], animal + "s", verb, "in", "the", place]


PAD, CLS, SEP, MASK = range(4)
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *ONE, *MANY, "in", "the"]
for animal, (verb, place) in ANIMALS.items():
    WORDS += [animal, animal + "s", verb, verb + "s", place]
ID = {word: i for i, word in enumerate(WORDS)}


def sentences(count, generator):
    rows = [[CLS, *(ID[word] for word in sentence(generator)), SEP] for _ in range(count)]
    return np.array(rows)  # (sentence, token 8)


for ids in sentences(3, np.random.default_rng(0)):
    print(" ".join(WORDS[i] for i in ids))
print(len(WORDS), "different words")

# %% [markdown]
# ## Hide 15 percent of the words, in three ways
#
# BERT chooses 15 % of the words at random: 80 % of them become `[MASK]`, 10 % become another word,
# and 10 % stay unchanged. The label is the original word. Everywhere else the label is -100, which
# cross-entropy ignores (`ignore_index`). `[CLS]` and `[SEP]` are never chosen.

# %% [markdown] tags=["your-turn"]
# ## Your turn: choose and hide
#
# Write `choose_and_hide(ids, lottery, fate, other)` with NumPy. All four arrays have shape
# (sentence, token). `lottery` and `fate` hold random numbers that are uniform between 0 and 1:
#
# * A word is chosen if its `lottery` number is below 0.15. The ids of the special tokens are 0 to
#   `MASK`; they are never chosen.
# * A chosen word becomes `MASK` if its `fate` is below 0.8. From 0.8 to 0.9 it becomes the word in
#   `other`, and from 0.9 on it stays unchanged.
#
# Return what the model reads, and the labels: the original id of every chosen word, and -100
# everywhere else.
#
# *Hint:* `np.where(condition, a, b)` returns the entries of `a` where the condition is true, and
# those of `b` elsewhere. First compute which words are chosen, then what a chosen word turns into,
# then combine the two.


# %% tags=["answer"]
def choose_and_hide(ids, lottery, fate, other):
    """Return the model's input ids and the labels. Both have the shape (sentence, token)."""
    chosen = (lottery < 0.15) & (ids > MASK)
    changed = np.where(fate < 0.8, MASK, np.where(fate < 0.9, other, ids))
    return np.where(chosen, changed, ids), np.where(chosen, ids, -100)


# %% tags=["check"]
check(
    choose_and_hide,
    cases=[
        (
            sentences(count, np.random.default_rng(count)),
            *np.random.default_rng(count).random((2, count, 8)),
            np.random.default_rng(count).integers(MASK + 1, len(WORDS), (count, 8)),
        )
        for count in (29, 53)
    ],
    expected=lambda ids, lottery, fate, other: (
        np.select(
            [(lottery >= 0.15) | (ids <= MASK), fate < 0.8, fate < 0.9],
            [ids, np.full_like(ids, MASK), other],
            ids,
        ),
        np.select([(lottery < 0.15) & (ids > MASK)], [ids], -100),
    ),
    properties={
        "special tokens are never chosen": lambda found, ids, *others: (
            found[1][ids <= MASK] == -100
        ).all(),
        "words that are not chosen stay visible": lambda found, ids, *others: (
            found[0][found[1] == -100] == ids[found[1] == -100]
        ).all(),
    },
)


# %%
def hide(ids, generator, share=0.15, ways=(0.8, 0.1, 0.1)):
    chosen = (generator.random(ids.shape) < share) & (ids > MASK)  # (sentence, token)
    fate = generator.random(ids.shape)
    other = generator.integers(MASK + 1, len(WORDS), size=ids.shape)
    shown = np.where(fate < ways[0], MASK, np.where(fate < ways[0] + ways[1], other, ids))
    return np.where(chosen, shown, ids), np.where(chosen, ids, -100)


def text(ids):
    return " ".join("-" if i == -100 else WORDS[i] for i in ids)


generator = np.random.default_rng(3)
ids = sentences(4000, generator)
read, labels = hide(ids, generator)
for i in np.flatnonzero((labels != -100).sum(1) > 1)[:3]:
    print(f"sentence {text(ids[i])}\n  read   {text(read[i])}\n  labels {text(labels[i])}")

words, chosen = ids > MASK, labels != -100
kinds = {
    "[MASK]": read == MASK,
    "another word": (read != MASK) & (read != ids),
    "the word itself": read == ids,
}
print(f"chosen: {100 * chosen.sum() / words.sum():.1f} % of the words; they are shown as")
for name, found in kinds.items():
    share = (found & chosen).sum() / chosen.sum()
    print(f"  {name:<16}{100 * share:5.1f} %")
assert abs(chosen.sum() / words.sum() - 0.15) < 0.01
assert abs((kinds["[MASK]"] & chosen).sum() / chosen.sum() - 0.8) < 0.02
assert not chosen[~words].any()

# %% [markdown]
# ## Training
#
# The model is an encoder of two layers, with a head that predicts the word at each position. Before
# training, the model's loss is above $\log V$, the loss of a uniform guess.


# %%
def make_bert():
    mt.manual_seed(1)
    bert = mt.models.BERT(
        len(WORDS), embed_dim=32, num_heads=2, num_layers=2, max_positions=8, dropout=0.0
    )
    model = mt.models.BERTMaskedLM(bert)
    for parameter in model.parameters():  # BERT's initialization suits wide models
        if parameter.ndim > 1:
            mt.nn.init.xavier_uniform_(parameter)
    return model


def train(ways=(0.8, 0.1, 0.1), share=0.15, mask=None, count="hidden"):
    """Train a model. The loss includes the hidden positions or, with count="all", all positions."""
    model, generator, losses = make_bert(), np.random.default_rng(0), []
    steps = pick(500, 200)
    optimizer = mt.optim.Adam(model.parameters(), lr=8e-3)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 8e-3 * min((step + 1) / 30, 1.05 - step / steps)
        ids = sentences(64, generator)
        read, labels = hide(ids, generator, share, ways)
        labels = ids if count == "all" else labels
        logits = model(mt.tensor(read), mask=mask)  # (sentence, token, word)
        loss = mt.nn.functional.cross_entropy(
            logits.flatten(0, 1), mt.tensor(labels).flatten(), ignore_index=-100
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


model, losses = train()
print(f"loss at first {losses[0]:.2f} (log V = {np.log(len(WORDS)):.2f}), ", end="")
print(f"at the end {np.mean(losses[-50:]):.2f}")
assert abs(losses[0] - np.log(len(WORDS))) < 1.0


# %%
def fill_in(model, words, mask=None, best=4):
    ids = mt.tensor([[CLS, *(ID[word] for word in words.split()), SEP]])
    place = words.split().index("[MASK]") + 1
    with mt.no_grad():
        chances = model(ids, mask=mask)[0, place].softmax(-1).numpy()
    order = np.argsort(-chances)[:best]
    return chances, ", ".join(f"{WORDS[i]} {100 * chances[i]:.0f} %" for i in order)


for words in (
    "two dogs [MASK] in the yard",
    "two [MASK] hum in the garden",
    "[MASK] bird sings in the tree",
    "[MASK] birds sing in the tree",
):
    print(f"{words:<32} {fill_in(model, words)[1]}")

chances, _ = fill_in(model, "[MASK] birds sing in the tree")
plural = sum(chances[ID[word]] for word in MANY)
print(f"a plural before 'birds': {100 * plural:.1f} %")
assert plural > 0.9

# %% [markdown] tags=["your-turn"]
# ## Your turn: how likely is a sentence?
#
# A GPT computes the probability of a sentence word by word (lesson 16). BERT cannot do that,
# because it would see the answer. But you can hide each word in turn and compute its probability,
# given all other words. The sum of these log-probabilities is the pseudo-log-likelihood of the
# sentence ("Masked Language Model Scoring", arXiv:1910.14659).
#
# Write `pseudo_log_likelihood(predict, ids)`. The ids of one sentence have shape (token,). The
# function `predict(rows)` returns logits of shape (row, token, word) for ids of shape (row, token).
# Call it once, with one row per word, in which only this word is replaced by `MASK`. The first and
# the last token are `[CLS]` and `[SEP]`. They are not words, and stay visible.
#
# *Hint:* For `places = mt.arange(1, len(ids) - 1)`, comparing `places.unsqueeze(1)` with all
# positions gives a boolean tensor of shape (row, token) for `mt.where`. From the result you need
# one entry of each row: `log_p[rows, places, ids[places]]`, where `rows` counts from 0.


# %% tags=["answer"]
def pseudo_log_likelihood(predict, ids):
    """Hide each word in turn. Return the sum of the log-probabilities of the hidden words."""
    places = mt.arange(1, len(ids) - 1)  # not [CLS] and [SEP]
    hidden = places.unsqueeze(1) == mt.arange(len(ids))  # (row, token)
    log_p = predict(mt.where(hidden, MASK, ids)).log_softmax(-1)  # (row, token, word)
    return log_p[mt.arange(len(places)), places, ids[places]].sum()


# %% tags=["check"]
check(
    pseudo_log_likelihood,
    cases=[  # logits that depend on the sum of all ids and on the id itself
        (lambda ids: (ids.sum(1, keepdim=True) + 2 * ids).unsqueeze(-1) * mt.arange(11) % 5.0, ids)
        for ids in (mt.tensor([CLS, 5, 10, 4, 6, SEP]), mt.tensor([CLS, 7, SEP]))
    ],
    expected=lambda predict, ids: sum(
        predict(mt.cat([ids[:i], mt.tensor([MASK]), ids[i + 1 :]]).unsqueeze(0)).log_softmax(-1)[
            0, i, ids[i].item()
        ]
        for i in range(1, len(ids) - 1)
    ),
    properties={
        "a sum of log-probabilities is at most 0": lambda result, predict, ids: result.item() <= 0,
    },
)

# %% [markdown]
# ## Both directions
#
# The first word of a sentence (such as "two") can be predicted only from what comes **after** it.
# Now we train the same model with the causal mask of a GPT in all layers. We hide one word at a
# time and print each position's accuracy:

# %%
causal = mt.masks.causal(8)
one_way, _ = train(mask=causal)


def right_at_each_place(model, mask=None):
    ids = sentences(300, np.random.default_rng(9))
    shares = []
    for place in range(1, 7):
        read = ids.copy()
        read[:, place] = MASK
        with mt.no_grad():
            found = model(mt.tensor(read), mask=mask)[:, place].argmax(-1).numpy()
        shares.append((found == ids[:, place]).mean())
    return np.array(shares)


both, one = right_at_each_place(model), right_at_each_place(one_way, causal)
names = ["number", "animal", "verb", "in", "the", "place"]
print("hidden word    ", *(f"{name:>8}" for name in names))
for name, shares in (("both directions", both), ("left only", one)):
    print(f"{name:<15}", *(f"{100 * share:6.0f} %" for share in shares))
assert both[1:].min() > 0.95
assert both[0] > 0.25  # a guess among the three words that match the number
assert one[0] < 0.3  # a guess among all six words
assert one[1] < 0.4  # the animal cannot be known yet

# %% tags=["plot"]
figure = new_figure(8, 3.6)
axes = figure.add_subplot()
places = np.arange(6)
axes.bar(places - 0.2, 100 * both, 0.4, color=COLOURS[0], label="both directions")
axes.bar(places + 0.2, 100 * one, 0.4, color=COLOURS[1], hatch="//", label="left only")
axes.axhline(100 / 3, color="0.5", linewidth=1, linestyle="--")
axes.text(-0.65, 42, "one of three", color="0.25", fontsize=9)
axes.set(ylabel="correct, %", ylim=(0, 119))
example = "two dogs bark in the yard".split()
axes.set_xticks(places, [f"{names[i]}\n({example[i]})" for i in places])
axes.legend(frameon=False, loc="upper left", ncols=2)
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "The models differ only at the first two words, which a model that reads only from the left "
    "must guess. At the first word, the model that reads in both directions reaches the dashed "
    "line, the best possible accuracy.",
)

# %% [markdown]
# ## Why not replace every chosen word with [MASK]?
#
# After pre-training, the input no longer contains `[MASK]`. A model that was trained to answer only
# at `[MASK]` has no reason to know which word belongs at the other positions. We put one wrong word
# into each sentence, without marking it, and ask which word should be there.

# %%
only_masks, _ = train(ways=(1.0, 0.0, 0.0))


def repaired(model):
    generator = np.random.default_rng(9)
    ids = sentences(600, generator)
    place, rows = generator.integers(2, 7, size=600), np.arange(600)  # not the first word
    read = ids.copy()
    read[rows, place] = generator.integers(MASK + 1, len(WORDS), size=600)
    wrong = read[rows, place] != ids[rows, place]
    with mt.no_grad():
        found = model(mt.tensor(read)).argmax(-1).numpy()
    kept = np.delete(np.arange(8), [0, 1, 7])
    untouched = np.ones_like(ids, bool)
    untouched[rows, place] = False
    same = (found == ids)[:, kept][untouched[:, kept]].mean()
    return (found == ids)[rows, place][wrong].mean(), same


print("                wrong word repaired   correct words confirmed")
shares = {"80 / 10 / 10": repaired(model), "100 / 0 / 0": repaired(only_masks)}
for name, (fixed, same) in shares.items():
    print(f"{name:<16}{100 * fixed:17.1f} %{100 * same:23.1f} %")
assert shares["80 / 10 / 10"][0] > shares["100 / 0 / 0"][0]

# %% [markdown]
# ## What goes wrong when pre-training is too easy: two mistakes
#
# Here are two mistakes that make the task too easy. **Nothing hidden**: the loss includes all
# positions and every word is visible. The model reads in both directions, so each question contains
# its own answer. **Loss everywhere**: words are hidden, but the loss includes all positions. The
# many visible words make the loss small.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We train one model with nothing hidden and one with the loss everywhere, for the same number of
# steps as BERT, whose loss ended near 0.2. Then we hide one word at a time and count how often each
# model predicts it correctly. Which of the three has the smallest loss? And which ones can predict
# the hidden words? Write down your answers, then run the next cell.

# %%
nothing, nothing_losses = train(share=0.0, count="all")
everywhere, everywhere_losses = train(count="all")


def hidden_right(model):
    return right_at_each_place(model)[1:].mean()  # only words that can be known


rows = {
    "as BERT": (model, losses),
    "loss everywhere": (everywhere, everywhere_losses),
    "nothing hidden": (nothing, nothing_losses),
}
print("                   loss at the end   hidden words correct")
for name, (trained, history) in rows.items():
    print(f"{name:<18}{np.mean(history[-50:]):13.3f}{100 * hidden_right(trained):21.1f} %")
assert np.mean(nothing_losses[-50:]) < 0.05 < np.mean(losses[-50:])
assert hidden_right(nothing) < 0.8 < 0.95 < hidden_right(model)
assert np.mean(everywhere_losses[-50:]) < 0.5 * np.mean(losses[-50:])

# %% [markdown]
# The model with nothing hidden has the smallest loss and has learned the least: it copies what it
# sees, and when a word is hidden, it is correct only about half of the time. The model with hidden
# words and the loss everywhere reports a loss several times smaller than BERT's, but it does not
# predict hidden words better. Compare losses only on the same task.
#
# ## In the library

# %%
where(mt.models.BERT, mt.models.BERTMaskedLM, mt.models.bert.TokenPrediction)
where(masked_stream.hide_words)

# %% [markdown]
# ## Exercise
#
# Find a wrong word that is not marked: write `suspect(words)`, which hides each word of a sentence
# in turn, as `pseudo_log_likelihood` does, and returns the position of the least likely one. You
# are done when it finds the replaced word in more than 90 percent of 200 sentences (in each
# sentence, replace one word other than the first; `repaired` shows how). Then give it "two dogs
# purr in the house": which word does it report, and why is that reasonable?
#
# ## Three questions
#
# 1. "[MASK] birds sing": why can the causal model not know what the bidirectional one knows, and
#    what is the best accuracy that either model can reach at this position?
# 2. A colleague trains without hiding words and gets a loss a hundred times smaller than yours.
#    Which column of the table shows why the model is useless?
# 3. 10 % of the chosen words stay unchanged. Why can the model learn from "predicting" a visible
#    word?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The words that show whether the sentence is singular or plural are to the right, and the causal
#    mask hides them: the table shows an accuracy of less than one third for this model. The best
#    possible accuracy is one third, since the singular and the plural have three equally likely
#    words each.
# 2. The column "hidden words correct" shows it: the model has learned to copy, and it fails where a
#    word is missing.
# 3. The model does not know which words are unchanged and which were replaced. It has to check the
#    word at every position against its context. The experiment with wrong words measures exactly
#    that.
