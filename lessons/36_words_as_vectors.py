# %% [markdown]
# # Words as vectors: word2vec, ELMo, BERT
#
# A bat can fly, and a bat can hit a ball. How does a model learn from text alone that "bat" is like
# "owl" and like "racket"? Why can word2vec not tell which of the two meanings a sentence uses, what
# does ELMo do about it, and what does BERT change?
#
# *Prerequisites:* log-probabilities (lesson 5), recurrent networks (lesson 6), next-word prediction
# (lesson 17) and masked words (lesson 18). The papers are Mikolov et al. 2013, arXiv:1310.4546v1
# (word2vec), Peters et al. 2018, arXiv:1802.05365v2 (ELMo) and Devlin et al. 2018,
# arXiv:1810.04805v2 (BERT).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.elmo import BiLM, ELMo, ScalarMix, bilm_loss, character_ids
from minitorch_attn.models.word2vec import SkipGram, negative_sampling_loss, noise_distribution
from minitorch_attn.models.word2vec_samples import draw_negatives, skip_gram_pairs

mt.manual_seed(0)
F = mt.nn.functional

# %% [markdown]
# ## A small language with one ambiguous word
#
# All sentences have the same form: "the ADJECTIVE NOUN was near the PLACE". The noun is an animal
# or a piece of sports equipment, and "bat" can be either. The adjective fits only the intended
# meaning ("furry") or both meanings ("old"). So does the place ("cave" or "road"). At least one of
# the two words fits only the intended meaning, so a reader can always tell what "bat" means,
# sometimes only from the word before it and sometimes only from a word after it.

# %%
NOUNS = (("owl", "mouse", "fox", "bat"), ("club", "racket", "paddle", "bat"))
ADJECTIVES = (("furry", "hungry", "sleeping"), ("wooden", "broken", "heavy"), ("old", "new", "red"))
PLACES = (("cave", "forest", "nest"), ("stadium", "gym", "court"), ("road", "house", "door"))
FRAME = "the was near"
GROUPS = (*NOUNS, *ADJECTIVES, *PLACES, FRAME.split())
WORDS = list(dict.fromkeys(word for group in GROUPS for word in group))
ID = {word: number for number, word in enumerate(WORDS)}
BAT, PLACE_OF_NOUN = ID["bat"], 2


def sentences(count, generator, only_bat=False, kind=None):
    """Return sentences, meanings, and clue places: 0 before the noun, 1 after, 2 on both sides."""
    rows, meanings, kinds = [], [], []
    for number in range(count):
        meaning = number % 2
        clue = int(generator.integers(3)) if kind is None else kind
        noun = "bat" if only_bat else generator.choice(NOUNS[meaning])
        adjective = generator.choice(ADJECTIVES[2 if clue == 1 else meaning])
        place = generator.choice(PLACES[2 if clue == 0 else meaning])
        rows.append(f"the {adjective} {noun} was near the {place}".split())
        meanings.append(meaning)
        kinds.append(clue)
    return rows, np.array(meanings), np.array(kinds)


def ids_of(rows):
    return mt.tensor([[ID[word] for word in row] for row in rows])


for row, meaning in zip(*sentences(5, np.random.default_rng(0), only_bat=True)[:2], strict=True):
    print(f"{' '.join(row):<42} ({('animal', 'sports')[meaning]})")

# %% [markdown]
# ## word2vec: a word is known by its neighbors
#
# Skip-gram gives each word a vector $v$, and trains it to predict the words around it.

# %% [markdown] tags=["your-turn"]
# ## Your turn: pairs of neighbors
#
# Write `neighbor_pairs(ids, window)` for a list of word ids. Return a list of pairs (word,
# neighbor) with all neighbors at a distance of at most `window`: first those of the first word,
# from left to right, then those of the second word, and so on. A word is not its own neighbor.
#
# *Hint:* The neighbors of word `i` are at positions `i - window` to `i + window`. Which of these
# exist at the beginning and at the end of the list?


# %% tags=["answer"]
def neighbor_pairs(ids, window):
    """Return all pairs (word, neighbor) as a list."""
    pairs = []
    for i in range(len(ids)):
        for j in range(max(i - window, 0), min(i + window + 1, len(ids))):
            if j != i:
                pairs.append((ids[i], ids[j]))
    return pairs


# %% tags=["check"]
check(
    neighbor_pairs,
    cases=[([5, 3, 8, 8, 2], 2), ([1, 2, 3], 1), ([7, 4], 5), ([3, 1, 4, 1, 5, 9, 2], 3)],
    expected=lambda ids, window: list(
        zip(*(part.tolist() for part in skip_gram_pairs(mt.tensor(ids), window)), strict=True)
    ),
    properties={
        "every pair also occurs in reverse": lambda pairs, ids, window: (
            sorted(map(tuple, pairs)) == sorted((b, a) for a, b in pairs)
        )
    },
)

# %% [markdown]
# A softmax over all words would be expensive for a large vocabulary. *Negative sampling* asks an
# easier question: is this pair from the text, or was the second word drawn at random? Each word has
# a second vector $v'$ for its role as a neighbor. With a neighbor $o$ and random words
# $n_1, \dots, n_k$, Eq. 4 of the paper maximizes
#
# $$\log \sigma(v'_o \cdot v) + \sum_{i=1}^{k} \log \sigma(-v'_{n_i} \cdot v)$$

# %% [markdown] tags=["your-turn"]
# ## Your turn: negative sampling
#
# Write `pair_loss(v, positive, negative)`, which returns minus the mean of Eq. 4 over a batch. `v`
# has shape (batch, embed), `positive` (batch, embed) holds the vectors $v'_o$, and `negative`
# (batch, k, embed) the vectors $v'_{n_i}$. It must not overflow for scores of 1000.
#
# *Hint:* $\log \sigma$ is `mt.nn.functional.logsigmoid`. The scores of the negatives have shape
# (batch, k): which shape must `v` have, so that you can multiply it by `negative`?


# %% tags=["answer"]
def pair_loss(v, positive, negative):
    """Return the loss, a scalar: the negative mean of Eq. 4 over the batch."""
    score = (positive * v).sum(-1)  # (batch,)
    scores = (negative * v.unsqueeze(1)).sum(-1)  # (batch, k)
    return -(F.logsigmoid(score) + F.logsigmoid(-scores).sum(-1)).mean()


# %% tags=["check"]
check(
    pair_loss,
    cases=[
        (mt.randn(7, 3), mt.randn(7, 3), mt.randn(7, 5, 3)),
        (mt.randn(2, 5), mt.randn(2, 5), mt.randn(2, 1, 5)),
        (mt.full((1, 2), 30.0), mt.full((1, 2), -20.0), mt.full((1, 3, 2), 20.0)),
    ],
    expected=lambda v, positive, negative: (
        -(
            -mt.log1p((-mt.einsum("be,be->b", positive, v).abs()).exp())
            + mt.clamp(mt.einsum("be,be->b", positive, v), max=0)
            - F.softplus(mt.einsum("bke,be->bk", negative, v)).sum(-1)
        ).mean()
    ),
    properties={
        "vectors of zeros give (1 + k) log 2": lambda loss, v, positive, negative: np.isclose(
            pair_loss(0 * v, positive, negative).item(), (1 + negative.shape[1]) * np.log(2)
        )
    },
)

# %%
generator = np.random.default_rng(1)
text = sentences(2000, generator)[0]
counts = np.bincount(ids_of(text).numpy().ravel(), minlength=len(WORDS)).tolist()
found = [pair for row in ids_of(text).tolist() for pair in np.transpose(
    [part.numpy() for part in skip_gram_pairs(mt.tensor(row), 4)])]  # fmt: skip
pairs = np.array([pair for pair in found if max(pair) < ID["the"]])  # without the, was, near
noise = noise_distribution(counts)
word2vec = SkipGram(len(WORDS), 16)
optimizer = mt.optim.Adam(word2vec.parameters(), lr=0.02)
for _ in range(pick(1000, 500)):
    center, context = mt.tensor(pairs[generator.integers(len(pairs), size=256)].T)
    negatives = draw_negatives(noise, 256, 5)
    loss = negative_sampling_loss(word2vec(center), word2vec.output, context, negatives)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

vectors = word2vec.input.weight.detach().numpy()
unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def likeness(a, b):
    return float(unit[ID[a]] @ unit[ID[b]])


print("cosine    owl  mouse   fox   club  racket  paddle")
for word in ("owl", "club", "bat"):
    row = [likeness(word, other) for other in ("owl", "mouse", "fox", "club", "racket", "paddle")]
    print(f"{word:6}" + "".join(f"{value:7.2f}" for value in row))
assert likeness("owl", "fox") > likeness("owl", "club") + 0.3
assert abs(likeness("bat", "owl") - likeness("bat", "club")) < 0.5
assert min(likeness("bat", "owl"), likeness("bat", "club")) > likeness("owl", "club")

# %% tags=["plot"]
show(
    mt.viz.word_map_figure(
        {word: vectors[ID[word]] for word in WORDS},
        {
            "owl": ["mouse", "fox"], "club": ["racket", "paddle"], "bat": ["owl", "club"],
            "furry": ["hungry", "sleeping"], "wooden": ["broken", "heavy"],
        },
        "One vector for each word",
    ),
    "Animals, sports equipment and their adjectives form groups, without any label. Where is the "
    "bat?",
)  # fmt: skip

# %% [markdown]
# The word "bat" lies between the groups and is close to neither. Its vector is the best compromise
# between two meanings, and it is the same in every sentence.
#
# ## ELMo: read the sentence in both directions
#
# ELMo trains a language model from left to right and another one from right to left. A word gets
# one vector from each layer. The first layer computes its vector from the characters of the word
# alone. The vectors of the other layers are the outputs of the LSTMs, so they depend on the
# sentence.

# %%
elmo = ELMo(
    filters=[(1, 8), (2, 16), (3, 16)], num_highway=1, embed_dim=16, hidden_dim=48, num_layers=2
)  # fmt: skip
bilm = BiLM(len(WORDS), elmo)
optimizer = mt.optim.Adam(bilm.parameters(), lr=0.01)
steps = pick(500, 250)
for step in range(steps):
    optimizer.param_groups[0]["lr"] = 0.01 * min(1, 2 * (1 - step / steps))
    rows = sentences(32, generator)[0]
    loss = bilm_loss(*bilm(character_ids(rows, 10)), ids_of(rows))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss per word, mean of both directions: {loss.item() / 2:.2f}; "
      f"loss of a uniform guess: {np.log(len(WORDS)):.2f}")  # fmt: skip
assert loss.item() / 2 < 0.5 * np.log(len(WORDS))

# %% [markdown] tags=["your-turn"]
# ## Your turn: mix the layers
#
# A model that uses ELMo for a task learns which layers it needs. Write
# `mix_layers(layers, weight, gamma)`: $\gamma \sum_j s_j h_j$ with
# $s = \mathrm{softmax}(\text{weight})$. `layers` has shape (layer, batch, token, embed), `weight`
# (layer,), and `gamma` is a scalar tensor. The result has shape (batch, token, embed).
#
# *Hint:* The shares $s_j$ must be broadcast along the last three axes of `layers`.


# %% tags=["answer"]
def mix_layers(layers, weight, gamma):
    """Return the mixture of the layers, of shape (batch, token, embed)."""
    shares = mt.softmax(weight, 0).reshape(-1, 1, 1, 1)
    return gamma * (shares * layers).sum(0)


# %% tags=["check"]
check(
    mix_layers,
    cases=[
        (mt.randn(3, 2, 5, 7), mt.randn(3), mt.tensor(1.5)),
        (mt.randn(2, 1, 1, 3), mt.tensor([0.0, 20.0]), mt.tensor(-1.0)),
        (mt.randn(1, 2, 3, 5), mt.randn(1), mt.tensor(0.5)),
    ],
    expected=lambda layers, weight, gamma: mt.einsum(
        "l,lbte->bte", gamma * weight.exp() / weight.exp().sum(), layers
    ),
    properties={
        "equal weights and gamma 1 give the mean": lambda y, layers, weight, gamma: np.allclose(
            mix_layers(layers, 0 * weight, gamma / gamma).numpy(), layers.numpy().mean(0)
        )
    },
)

# %% [markdown]
# ## BERT: both directions in every layer
#
# BERT hides words and predicts them from all other words at once, with attention in both
# directions. We train a small one on the same sentences. Training hides the noun, the adjective and
# the place, each with a probability of 30 %.

# %%
MASK = len(WORDS)
body = mt.models.BERT(MASK + 1, embed_dim=32, num_heads=2, num_layers=2, max_positions=8, dropout=0)
bert = mt.models.BERTMaskedLM(body)
for parameter in bert.parameters():  # BERT's initialization suits wide models
    if parameter.ndim > 1:
        mt.nn.init.xavier_uniform_(parameter)
optimizer = mt.optim.Adam(bert.parameters(), lr=4e-3)
for step in range(steps):
    optimizer.param_groups[0]["lr"] = 4e-3 * min(1, (step + 1) / 30, 2 * (1 - step / steps))
    ids = ids_of(sentences(64, generator)[0])
    is_hidden = mt.tensor(generator.random((64, 7)) < 0.3 * np.array([0, 1, 1, 0, 0, 0, 1]))
    logits = bert(mt.where(is_hidden, MASK, ids))
    labels = mt.where(is_hidden, ids, -100)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss of a hidden word: {loss.item():.2f}")
assert loss.item() < 2.5

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We take the vectors of "bat" in new sentences, and classify each one by the nearer of two
# centroids: the mean vectors of the two meanings in other sentences. The clue is before the noun
# ("the furry bat was near the road") or after it ("the old bat was near the cave"). Guess the
# accuracies of word2vec, of ELMo's left-to-right LSTM alone, of its right-to-left LSTM alone, and
# of BERT, for both kinds of sentences. Write down eight numbers, then run the next cell.


# %%
def vectors_of_bat(rows):
    """Return {model: vectors of the word "bat", one for each sentence}."""
    with mt.no_grad():
        layers = elmo(character_ids(rows, 10))  # (layer, sentence, token, 2 * embed)
        mixed = ScalarMix(3)(layers)[:, PLACE_OF_NOUN].numpy()
        top = bert.bert(ids_of(rows))[:, PLACE_OF_NOUN].numpy()
    return {
        "word2vec": np.repeat(vectors[[BAT]], len(rows), 0),
        "ELMo, left to right": mixed[:, :16],
        "ELMo, right to left": mixed[:, 16:],
        "ELMo, both": mixed,
        "BERT": top,
    }


def accuracy(known, meanings, new, answers):
    """Return the accuracy of the nearest centroid on new vectors; a tie counts as meaning 0."""
    near = [((new - known[meanings == m].mean(0)) ** 2).sum(1) for m in (0, 1)]
    return float(((near[0] - near[1] > 1e-6) == answers).mean())


results = {}
for kind, name in enumerate(("clue before", "clue after")):
    rows, meanings, _ = sentences(400, generator, only_bat=True, kind=kind)
    is_new = np.arange(400) >= 200
    for model, found in vectors_of_bat(rows).items():
        known, new = found[~is_new], found[is_new]
        results[model, name] = accuracy(known, meanings[~is_new], new, meanings[is_new])
print(f"{'':22} clue before   clue after")
for model in vectors_of_bat(rows):
    row = [100 * results[model, name] for name in ("clue before", "clue after")]
    print(f"{model:22} {row[0]:9.0f} %  {row[1]:9.0f} %")
assert results["BERT", "clue before"] > 0.9 and results["BERT", "clue after"] > 0.9
assert results["ELMo, both", "clue before"] > 0.9 and results["ELMo, both", "clue after"] > 0.9

# %% [markdown]
# word2vec is correct half of the time, because its vector is always the same. Each of ELMo's LSTMs
# reads only one side of the sentence, so it is correct if the clue is on that side. ELMo
# concatenates the vectors of the two LSTMs. BERT reads both sides in every layer.

# %% tags=["plot"]
rows, meanings, kinds = sentences(80, np.random.default_rng(5), only_bat=True)
found = vectors_of_bat(rows)
show(
    mt.viz.meanings_figure(
        {
            model: (found[model], meanings == 1, [f"{row[1]} bat ... {row[6]}" for row in rows])
            for model in ("ELMo, left to right", "ELMo, right to left", "ELMo, both", "BERT")
        },
        ("animal", "sports"),
        'Vectors of "bat" in 80 sentences',
    ),
    "Where the colors mix, the clue is on the side of the sentence that the model does not read.",
)

# %% [markdown]
# ## What goes wrong with one vector, and with one direction
#
# If a vector is the same in every sentence, neither more training nor more dimensions will help. A
# classifier that must tell the meaning of "bat" from this vector always gives the same answer. The
# two meanings are equally frequent, so it is correct half of the time. A model that reads in one
# direction has the same problem if the clue is on the other side: its vector cannot depend on words
# that the model has not read. We change only the last word of a sentence. A change of less than
# 1e-5 is a rounding error:

# %%
pair = ["the old bat was near the cave".split(), "the old bat was near the gym".split()]
for model, found in vectors_of_bat(pair).items():
    change = np.abs(found[0] - found[1]).max()
    print(f'{model:22} the vector of "bat" changes by {change:.1e}')
    if model in ("word2vec", "ELMo, left to right"):
        assert change < 1e-5
    else:
        assert change > 1e-3
assert results["word2vec", "clue before"] == results["word2vec", "clue after"] == 0.5
assert results["ELMo, left to right", "clue after"] < 0.7
assert results["ELMo, right to left", "clue before"] < 0.7

# %% [markdown]
# A GPT reads in one direction, too. The vector of a word in a GPT contains nothing about the words
# that follow.
#
# ## In the library

# %%
where(SkipGram, negative_sampling_loss, ELMo, BiLM, ScalarMix, mt.models.BERTMaskedLM)

# %% [markdown]
# `mta train words` trains word2vec and ELMo on real text, in which "class" and "import" occur both
# as Python keywords and as English words.
#
# ## Exercise
#
# Add a third meaning: "bat" as a verb, in sentences such as "the tired players bat near the fence",
# with adjectives, nouns and places of their own. Train word2vec again, and write down where the
# vector of "bat" lies. Then use CBOW (`minitorch_attn.models.CBOW`) instead of skip-gram: the mean
# of the vectors of the neighbors predicts the word. You are done when you can say whether this mean
# tells the meanings apart, and why it is not a vector of the word itself.
#
# Then practice:
#
# ```sh
# mta exercise start 44
# ```
#
# ## Three questions
#
# 1. Why does "owl" get a vector close to that of "fox", although the two never occur in the same
#    sentence?
# 2. The left-to-right LSTM predicts the word after "bat", which is always "was". Why does its state
#    still remember what kind of bat it is?
# 3. ELMo's two directions are trained separately and combined at the end. What can BERT compute in
#    its second layer that ELMo cannot?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Both words have the same neighbors: the same adjectives and places. Words with the same
#    neighbors must make the same predictions, so their vectors become similar.
# 2. Because the LSTM must also predict the place at the end of the sentence. If the adjective fits
#    only one meaning, the place often fits only this meaning, too. The LSTM can predict such a
#    place only if it remembers the adjective.
# 3. BERT can compute anything that depends on the left and the right context together, such as
#    whether the two contexts agree. ELMo combines its two directions only at the end, in a linear
#    mixture.
