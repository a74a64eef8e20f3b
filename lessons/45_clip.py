# %% [markdown]
# # Two towers: CLIP
#
# An image and the sentence that describes it should have similar vectors. What keeps all vectors
# from becoming equal, why is the loss of a batch a matrix, and what does the temperature do? And
# how can such a model classify digits if it was trained without labels?
#
# *Prerequisites:* softmax and cross-entropy (lesson 5), GPT (lesson 17), ViT (lesson 21). This
# lesson needs scikit-learn.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.digit_scenes import DIGIT_WORDS, draw_scenes
from minitorch_attn.data.digit_sentences import LONGEST, WORDS, as_ids, draw_sentences, prompts
from minitorch_attn.data.digits import digits_split
from minitorch_attn.models.clip import CLIP, ImageTower, TextTower, contrastive_loss
from minitorch_attn.models.relevance import patch_relevance
from minitorch_attn.nn import functional as F
from minitorch_attn.viz import caption_figure
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Scenes and sentences
#
# A scene has nine cells, and two or three of them hold a handwritten digit. A sentence names the
# digits in any order. It does not say where they are. There are no labels, and no scene or sentence
# has only one digit. The test scenes use handwriting that does not occur in training.

# %%
*training, test_images, test_labels = digits_split()
test = draw_scenes(600, test_images, test_labels, np.random.default_rng(1), least=2)
sentences = draw_sentences(test, np.random.default_rng(2))
for words in sentences[:3]:
    print(" ".join(words))


def pixels(scenes):
    """Return the images without their margin: each cell is a patch of 10 x 10 pixels."""
    return mt.tensor(scenes.images[..., 1:31, 1:31])


print(pixels(test).shape, as_ids(sentences).shape)

# %% [markdown]
# CLIP (Radford et al. 2021, arXiv:2103.00020v1) has two towers. The *image tower* is a ViT, and the
# output of its class token represents the image. The *text tower* is built from GPT's causal
# blocks. The output of its end token represents the text, because only the end token has read the
# whole text. In each tower, a linear layer without bias projects this output to a common width. The
# result is divided by its length:
#
# $$u_i = \frac{W_u f(\mathrm{image}_i)}{|W_u f(\mathrm{image}_i)|}, \qquad
# v_j = \frac{W_v g(\mathrm{text}_j)}{|W_v g(\mathrm{text}_j)|}$$
#
# A tower never sees the tokens of the other tower. An image and a text are compared only through
# one number, the cosine $u_i^T v_j$.


# %%
def new_model():
    sizes = {"output_dim": 64, "activation": "gelu"}
    return CLIP(
        ImageTower(30, 10, 64, 2, 4, 128, in_channels=1, **sizes),
        TextTower(len(WORDS), LONGEST, 64, 1, 4, 128, **sizes),
    )


model = new_model()
with mt.no_grad():
    cosines = model(pixels(test)[:4], mt.tensor(as_ids(sentences[:4]))) * 0.07
print("cosines of four scenes (rows) and four sentences (columns), before training:")
print(cosines.numpy().round(2))

# %% [markdown]
# ## Why the loss is a matrix
#
# It is not enough to ask for a large cosine for each pair. If all scenes and all sentences have the
# same vector, every cosine is 1. So the pairs of a batch are compared with each other. In the
# matrix of logits $z_{ij} = u_i^T v_j / \tau$, where $\tau$ is a *temperature*, row $i$ asks which
# sentence belongs to scene $i$. This is a classification with one class for each sentence of the
# batch, and class $i$ is correct.
# Column $j$ asks which scene belongs to sentence $j$. The loss is the mean of both cross-entropies
# (Figure 3 of the paper).

# %% [markdown] tags=["your-turn"]
# ## Your turn: the loss of a batch
#
# Write `pair_loss(logits)` for logits of shape (pair, pair), where pair $i$ is in row $i$ and
# column $i$. Return a scalar, the mean of the cross-entropies over the rows and over the columns.
# It must also work for logits of 1,000.
#
# *Hint:* Apply `mt.log_softmax(x, axis)` along each of the two axes. `.diagonal()` returns the
# entries of the diagonal.


# %% tags=["answer"]
def pair_loss(logits):
    """Return the mean of two cross-entropies: one over the rows, one over the columns."""
    rows = mt.log_softmax(logits, 1).diagonal()
    columns = mt.log_softmax(logits, 0).diagonal()
    return -(rows.mean() + columns.mean()) / 2


# %% tags=["check"]
check(
    pair_loss,
    cases=[(mt.randn(5, 5),), (mt.randn(1, 1),), (1000 * mt.randn(3, 3),)],
    expected=lambda z: (
        F.cross_entropy(z, mt.arange(len(z))) + F.cross_entropy(z.T, mt.arange(len(z)))
    )
    / 2,
    properties={"images and texts can be swapped": lambda y, z: abs(y - pair_loss(z.T)) < 1e-4},
)  # fmt: skip

# %% [markdown]
# An untrained model has a loss of about $\log n$ for $n$ pairs, because it guesses among $n$
# classes. With a larger batch, the task is harder.

# %%
for n in (2, 16, 128):
    loss = contrastive_loss(mt.zeros(n, n)).item()
    print(f"{n:4} pairs: loss of a guess {loss:.3f} = log {n}")
    assert abs(loss - np.log(n)) < 1e-5

# %% [markdown]
# ## What goes wrong with one direction
#
# If the loss uses only the rows, two scenes are never compared with each other. Scene 0 below has
# large logits for every sentence. The softmax of its row does not change, because a number added to
# a whole row cancels. But if you search for the scene that belongs to a sentence, you always find
# scene 0.

# %%
logits = mt.tensor([[19.0, 9.0, 9.0], [0.0, 8.0, 0.0], [0.0, 0.0, 8.0]])
rows = F.cross_entropy(logits, mt.arange(3)).item()
columns = F.cross_entropy(logits.T, mt.arange(3)).item()
print(f"loss of the rows {rows:.4f}, of the columns {columns:.4f}")
print("sentence of each scene:", logits.argmax(1).tolist())
print("scene of each sentence:", logits.argmax(0).tolist())
assert rows < 0.001 and columns > 0.5
assert logits.argmax(1).tolist() == [0, 1, 2] and logits.argmax(0).tolist() == [0, 0, 0]

# %% [markdown]
# ## The gradient of each pair
#
# The gradient of a cross-entropy is $p - \mathrm{onehot}$ (lesson 5). Here the gradient is a
# matrix, like the logits. The entries on the diagonal are negative: a step makes these pairs more
# similar. All other entries are positive: a step makes these wrong pairs less similar. The more
# similar a wrong pair is, the larger its entry.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of the logits
#
# Write `logit_gradient(logits)`, the gradient of `pair_loss(logits)` with respect to the logits, of
# shape (pair, pair). Do not call `backward`.
#
# *Hint:* For the rows alone, the gradient is the softmax of each row, minus 1 on the diagonal,
# divided by the number of rows. For the columns alone, it is the same with the softmax of each
# column. `pair_loss` is the mean of the two. `mt.eye(n, dtype=logits.dtype)` is the identity.


# %% tags=["answer"]
def logit_gradient(logits):
    """Return dL/dz, of shape (pair, pair)."""
    n = len(logits)
    identity = mt.eye(n, dtype=logits.dtype)
    both = mt.softmax(logits, 1) + mt.softmax(logits, 0)
    return (both - 2 * identity) / (2 * n)


# %% tags=["check"]
check(
    logit_gradient,
    cases=[(mt.randn(5, 5),), (mt.randn(1, 1),), (mt.randn(2, 2),)],
    expected=lambda z: mt.autograd.grad(
        contrastive_loss(leaf := z.detach().requires_grad_()), [leaf]
    )[0],
    properties={"the entries sum to 0": lambda g, z: abs(g.sum()) < 1e-5},
)

# %% [markdown]
# ## What the temperature does
#
# Cosines lie between -1 and 1. Suppose that the towers are perfect: the cosine of every matching
# pair is 1, and the cosine of a scene and another scene's sentence is 0. With a temperature of 1,
# the softmax of 128 logits can hardly prefer the correct one, because $e^1$ is small compared with
# $127 e^0$.

# %%
perfect = mt.eye(128)
for temperature in (1.0, 0.3, 0.07, 0.01):
    loss = contrastive_loss(perfect / temperature)
    p = mt.softmax(perfect / temperature, 1)[0, 0]
    print(f"temperature {temperature:4}: loss {loss.item():.4f}, correct with p = {p.item():.4f}")
assert contrastive_loss(perfect).item() > 3.8 and contrastive_loss(perfect / 0.07).item() < 1e-3

# %% [markdown]
# The temperature is learned with the weights. The parameter is $s = \log(1/\tau)$, called
# `logit_scale`. It starts at $\log(1/0.07) = 2.66$. The factor $e^s$ is positive for every $s$, and
# a step of 0.01 changes it by 1 %, whether the factor is 2 or 100. The paper limits the factor to
# 100. A small temperature has a disadvantage: the gradient then comes only from the few most
# similar wrong pairs. Such a pair may count as wrong only because two scenes of the batch happen to
# show the same digits.

# %% tags=["plot"]
noisy = mt.eye(128) * 0.5 + 0.15 * mt.randn(128, 128)  # similar, but not perfect
figure = new_figure(7, 3)
left, right = figure.subplots(1, 2)
temperatures = np.geomspace(0.01, 1, 25)
for name, cosines in (("perfect", perfect), ("noisy", noisy)):
    losses = [contrastive_loss(cosines / t).item() for t in temperatures]
    left.plot(temperatures, losses, label=name)
left.axhline(np.log(128), color="gray", linestyle=":")
left.set_xscale("log")
left.set_xlabel("temperature")
left.set_ylabel("loss")
left.legend()
for temperature in (1.0, 0.1, 0.02):
    leaf = noisy.clone().requires_grad_()
    contrastive_loss(leaf / temperature).backward()
    push = np.sort(leaf.grad.numpy()[~np.eye(128, dtype=bool)])[::-1]
    right.plot(np.linspace(0, 100, len(push)), np.cumsum(push) / push.sum(), label=temperature)
right.set_xlabel("wrong pairs, the most similar first (%)")
right.set_ylabel("share of the gradient")
right.legend(title="temperature")
show(
    figure,
    "Left: with noisy cosines, the loss has its minimum at a medium temperature. The dotted line "
    "is the loss of a guess. Right: at a small temperature, a few wrong pairs get almost all of "
    "the gradient.",
)

# %% [markdown]
# ## Training
#
# The recipe `mta train clip` trains these towers for 1,000 steps. Here we train for fewer steps.
# Our function can also train with sentences that name the place of each digit, such as "seven
# top-left". We will need these sentences later.


# %%
def train(model, steps, places=False, batch=128):
    optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    generator = np.random.default_rng(3)
    for step in range(steps):
        scenes = draw_scenes(batch, *training, generator, noise=0.05, least=2)
        ids = mt.tensor(as_ids(draw_sentences(scenes, generator, places)))
        rate = min((step + 1) / 50, 1) * (1 + np.cos(np.pi * step / steps)) / 2
        optimizer.param_groups[0]["lr"] = 3e-3 * rate
        loss = contrastive_loss(model(pixels(scenes), ids))
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.limit_scale()
        if step % (steps // 5) == 0 or step == steps - 1:
            print(f"step {step:4}: loss {loss.item():.3f}")
    return model.eval()


train(model, pick(800, 130))
print(f"learned temperature: {1 / model.logit_scale.exp().item():.3f}")


def retrieval(model, sentences, count=100):
    """Rank 100 candidates. Return two shares: correct sentence first, and correct scene first."""
    kinds = {tuple(sorted(digits)): i for i, digits in enumerate(test.digits)}
    chosen = sorted(kinds.values())[:count]  # no two have the same digits
    ids = mt.tensor(as_ids([sentences[i] for i in chosen]))
    with mt.no_grad():
        logits = model(pixels(test)[chosen], ids)
    correct = mt.arange(len(chosen))
    return [(logits.argmax(axis) == correct).float().mean().item() for axis in (1, 0)]


found = retrieval(model, sentences)
print("correct sentence first: {:.0%}, correct scene first: {:.0%}".format(*found))
assert min(found) > pick(0.8, 0.08)

# %% [markdown]
# ## Zero-shot: a class is a sentence
#
# The model has never classified anything. But "image of seven" is a text, so it has a vector, and a
# scene with one seven should be similar to it. Several sentences name the same class. The paper
# takes the mean of their unit vectors (section 3.1.4), and normalizes it again.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a classifier without training
#
# Write `class_of(image_vectors, prompt_vectors)` for unit vectors of shape (image, width) and
# (class, prompt, width). Return the cosine of every image with every class, of shape (image,
# class).
#
# *Hint:* The mean of different unit vectors has a length below 1. `F.normalize(x, dim=-1)` divides
# by the length.


# %% tags=["answer"]
def class_of(image_vectors, prompt_vectors):
    """Return the cosine of each image with each class, of shape (image, class)."""
    classes = F.normalize(prompt_vectors.mean(1), dim=-1)
    return image_vectors @ classes.T


# %% tags=["check"]
check(
    class_of,
    cases=[
        (F.normalize(mt.randn(3, 7), dim=-1), F.normalize(mt.randn(5, 2, 7), dim=-1)),
        (F.normalize(mt.randn(1, 2), dim=-1), F.normalize(mt.randn(3, 1, 2), dim=-1)),
        (F.normalize(mt.randn(2, 5), dim=-1), F.normalize(mt.randn(1, 3, 5), dim=-1)),
    ],
    expected=lambda u, v: mt.einsum("iw,cw->ic", u, v.sum(1) / v.sum(1).norm(dim=-1, keepdim=True)),
    properties={"cosines are at most 1": lambda y, u, v: y.abs().max() < 1 + 1e-5},
)

# %%
single = draw_scenes(500, test_images, test_labels, np.random.default_rng(4), most=1)


def zero_shot(model, places=False):
    """Return the share of scenes with one digit that the prompts classify correctly."""
    ids = np.stack([as_ids(texts) for texts in prompts(places)])  # (class, prompt, token)
    with mt.no_grad():
        logits = model.classify(pixels(single), model.class_vectors(mt.tensor(ids)))
    return float((logits.argmax(1).numpy() == single.digits[:, 0]).mean())


print("prompts for seven:", [" ".join(words) for words in prompts()[7]])
accuracy = zero_shot(model)
print(f"zero-shot accuracy on new handwriting: {accuracy:.0%} (chance: 10 %)")
assert accuracy > pick(0.85, 0.2)

# %% [markdown]
# The towers have learned the ten digits from the differences between sentences alone. A word that
# occurs together with a shape in many scenes, and is missing where the shape is missing, can only
# mean this shape.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We train new towers with sentences that also name the places: "seven top-left and two center".
# Each sentence now says more. After 140 steps, how often does the correct sentence rank first among
# 100? How many digits are classified correctly by prompts? Write down two numbers, then run the
# next cell.

# %%
other = train(new_model(), pick(140, 80), places=True)
with_places = draw_sentences(test, np.random.default_rng(2), places=True)
found = retrieval(other, with_places)
print("correct sentence first: {:.0%}, correct scene first: {:.0%}".format(*found))
print(f"zero-shot accuracy: {zero_shot(other, places=True):.0%}")
assert min(found) > 0.3 and zero_shot(other, places=True) < 0.4

# %% [markdown]
# Retrieval is good, but the classification of digits is at chance level. A model can see where the
# ink is without recognizing the digits. The 100 scenes have so many different layouts that even a
# model that recognizes only the layout, and guesses the digits, finds about 60 % of the sentences.
# A model first learns the features that are easiest to see. With more steps, these towers learn the
# digits, too. So a high retrieval accuracy does not show which features a model has learned. Always
# ask what else could distinguish the pairs.
#
# ## The evidence for a word
#
# The class token attends to the same cells, whatever the sentence says. But the gradient of the
# similarity with one word shows which of these attention weights would have to grow to increase
# this similarity. The positive products of weights and gradients form a map for each word (Chefer
# et al. 2021, arXiv:2103.15679v1, Eq. 5).

# %% tags=["plot"]
with mt.no_grad():
    ids = np.stack([as_ids(texts) for texts in prompts()])
    vectors = model.class_vectors(mt.tensor(ids))
rows = []
for i in range(3):
    digits = test.digits[i][test.digits[i] >= 0]
    image = pixels(test)[i : i + 1]
    maps = [patch_relevance(model, image, vectors[int(d)].unsqueeze(0))[0].numpy() for d in digits]
    rows.append((image[0, 0].numpy(), [DIGIT_WORDS[d] for d in digits], np.stack(maps)))
show(
    caption_figure(rows, "The evidence for each word", smooth=False),
    "Each word finds its digit, although no digit was ever labeled or located.",
)

# %% [markdown]
# ## In the library

# %%
where(CLIP, TextTower, contrastive_loss, patch_relevance)

# %% [markdown]
# ## Exercise
#
# Train new towers with batches of 16 pairs for eight times as many steps, so that they see the same
# number of scenes. Before you start the training, write down whether they classify digits better or
# worse, and why.
#
# Then practice:
#
# ```sh
# mta exercise start 54
# mta exercise start 55
# ```
#
# ## Three questions
#
# 1. All vectors are equal. What is the loss of a batch of $n$ pairs?
# 2. Two scenes of a batch show the same digits. What does the loss do with them?
# 3. Why are the towers separate? A Transformer that reads image and sentence together could compare
#    them more closely.

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The loss is $\log n$, the loss of a uniform guess. The softmax sees only differences, so equal
#    vectors do not help.
# 2. The loss pushes each scene away from the other's sentence, although this sentence is true. The
#    loss then cannot reach 0. With a very small temperature, such pairs get most of the gradient.
# 3. To search a million images, you encode each image once, and each search then costs one matrix
#    product. A joint Transformer must run once for every pair of sentence and image.
