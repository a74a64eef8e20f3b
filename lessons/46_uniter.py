# %% [markdown]
# # One stream: UNITER, alignment as transport
#
# A model answers questions about images, so it has to read words and the objects of an image
# together. No label tells it which word belongs to which object. How do words and image regions
# become one sequence, and how can a sentence and an image be aligned without labels for the pairs?
#
# *Prerequisites:* cross-entropy (lesson 5), BERT (lesson 18). The COMP541 deck mentions UNITER;
# `docs/decks.md` lists the decks. This lesson needs scikit-learn.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.digits import digits_split
from minitorch_attn.data.scene_questions import MASK, WORDS, draw_captions, draw_region_scenes
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import uniter
from minitorch_attn.models.transport import cosine_cost, transport_plan, word_region_alignment
from minitorch_attn.viz import transport_figure
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Words and regions
#
# A scene has up to four handwritten digits. A detector has found them, so the image is a set of
# *regions*. Each region has a vector of features (here the 64 pixels of its crop) and a box. A
# caption says where one digit is, or where two digits are relative to each other, or both.

# %%
*training, images, labels = digits_split()
test = draw_region_scenes(300, images, labels, np.random.default_rng(1), fewest=2)
captions, named = draw_captions(test, np.random.default_rng(2))


def text(ids):
    return " ".join(WORDS[i] for i in ids if i > MASK)


for n in range(4):
    print("digits", test.digits[n][test.digits[n] >= 0], " caption:", text(captions[n]))

# %% [markdown]
# UNITER (Chen et al. 2020, arXiv:1909.11740, section 3.1) puts words and regions into one sequence.
# A word's embedding is the sum of vectors for the word, its position and a segment, as in BERT. A
# region's embedding is the sum of its projected features, its projected box and a second segment.
# The box is seven numbers: left, top, right, bottom, width, height and area. From there on, the
# model is a plain BERT. Every word attends to every region, and every region to every word.

# %%
model = uniter.UNITER(len(WORDS), feature_dim=64, embed_dim=32, num_heads=2, num_layers=2)
ids = mt.tensor(captions)
features, boxes = mt.tensor(test.crops), uniter.box_features(mt.tensor(test.boxes), 32, 32)
absent, padding = mt.tensor(test.digits < 0), ids == 0
hidden = model.eval()(ids, features, boxes, padding, absent)
print("words", ids.shape, " regions", features.shape, " one stream", hidden.shape)
with nn.collect_attention(model) as found:
    model(ids[:1], features[:1], boxes[:1], padding[:1], absent[:1])
weights = found[0][1][0].mean(0).numpy()  # (query, key), mean over heads
print(f"a word gives {weights[1, 9:].sum():.2f} of its attention to regions, before any training")
assert abs(weights.sum(1) - 1).max() < 1e-5

# %% [markdown]
# ## What can be hidden?
#
# BERT hides words. UNITER hides words *or* regions, but never both in the same example. It predicts
# a hidden word with the help of all regions, and a hidden region with the help of all words. A
# hidden word has one correct answer. A hidden region has no such answer, only features, so the
# paper uses three losses. The model predicts the features (squared distance), the class that the
# detector found (cross-entropy), or the detector's distribution $c$ over the classes. The loss of a
# predicted distribution $p$ is the Kullback-Leibler divergence
#
# $$\mathrm{KL}(c \,\|\, p) = \sum_k c_k \log \frac{c_k}{p_k}$$

# %% [markdown] tags=["your-turn"]
# ## Your turn: the divergence of hidden regions
#
# Write `hidden_kl(logits, c, masked)`. `logits` and the distributions `c` have shape (batch,
# region, class), `masked` is bool (batch, region). Return the mean of the divergence over the
# masked regions. All entries of `c` are positive.
#
# *Hint:* `logits[masked]` selects the masked regions: shape (masked, class). Use `mt.log_softmax`.


# %% tags=["answer"]
def hidden_kl(logits, c, masked):
    """Return the mean KL(c, softmax(logits)) of the masked regions."""
    c, log_p = c[masked], mt.log_softmax(logits[masked], -1)
    return (c * (c.log() - log_p)).sum(-1).mean()


# %% tags=["check"]
check(
    hidden_kl,
    cases=[
        (mt.randn(2, 3, 5), mt.softmax(mt.randn(2, 3, 5), -1),
         mt.tensor([[True, False, True], [False, False, True]])),
        (mt.randn(1, 2, 4), mt.softmax(mt.randn(1, 2, 4), -1), mt.tensor([[False, True]])),
    ],
    expected=uniter.region_kl_loss,
    properties={
        "the divergence of c from itself is 0": lambda found, logits, c, masked: (
            abs(hidden_kl(c.log(), c, masked)) < 1e-6
        )
    },
)  # fmt: skip

# %% [markdown]
# ## Who belongs to whom?
#
# The vector of the word "seven" should be close to the vector of the region with the seven. UNITER
# uses one minus the cosine as the cost of a pair. If we knew the pairs, we could make their costs
# small. But we only know that the sentence and the image belong together.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the cost
#
# Write `cost(words, regions)` for vectors of shapes (batch, word, embed) and (batch, region,
# embed). Return one minus the cosine of each pair, of shape (batch, word, region).
#
# *Hint:* Divide each vector by its norm first. Then one product gives all cosines.


# %% tags=["answer"]
def cost(words, regions):
    """Return 1 - cos of each word with each region."""
    words, regions = (x / x.norm(dim=-1, keepdim=True) for x in (words, regions))
    return 1 - words @ regions.transpose(1, 2)


# %% tags=["check"]
check(
    cost,
    cases=[(mt.randn(2, 3, 5), mt.randn(2, 7, 5)), (mt.randn(1, 1, 2), mt.randn(1, 2, 2))],
    expected=cosine_cost,
    properties={
        "the cost of a vector with itself is 0": lambda found, words, regions: (
            abs(mt.diagonal(cost(words, words), 0, 1, 2)).max() < 1e-5
        )
    },
)

# %% [markdown]
# We could let each word choose its nearest region. But then two words can choose the same region,
# and some regions are not chosen at all. *Optimal transport* looks for one plan for all words and
# regions. Each of the $m$ words has the mass $1/m$, each of the $n$ regions receives $1/n$, and
# $T_{ij}$ is the mass that goes from word $i$ to region $j$. The distance is the cost of the
# cheapest plan:
#
# $$D = \min_T \sum_{ij} T_{ij}\, c_{ij}, \qquad \sum_j T_{ij} = \tfrac1m, \quad
#   \sum_i T_{ij} = \tfrac1n$$
#
# This is a linear program. IPOT (Xie et al. 2018, arXiv:1802.04307) solves it with products and
# divisions only, so a whole batch runs at once. With $A = e^{-c/\beta}$ for a fixed number $\beta$,
# it repeats
#
# $$Q = A \odot T, \qquad \delta_j = \frac{1}{n\,(Q^\top \sigma)_j}, \qquad
#   \sigma_i = \frac{1}{m\,(Q \delta)_i}, \qquad T = \mathrm{diag}(\sigma)\, Q\,
#   \mathrm{diag}(\delta)$$
#
# starting with $T = 1$ and $\sigma = 1/m$. The factors $\delta$ and $\sigma$ scale the columns and
# rows to the required sums.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the plan
#
# Write `plan_of(c, beta, iterations)` for the costs of one sentence and one image, of shape (word,
# region). Return the plan after `iterations` steps, of the same shape as `c`, without a gradient
# (`T.detach()`).
#
# *Hint:* `Q.T @ sigma` is $Q^\top \sigma$. $\mathrm{diag}(\sigma)\,Q$ multiplies row $i$ by
# $\sigma_i$: add an axis to `sigma` and use broadcasting.


# %% tags=["answer"]
def plan_of(c, beta, iterations):
    """Return the transport plan, shape (word, region)."""
    m, n = c.shape
    A, T, sigma = (-c / beta).exp(), mt.ones_like(c), mt.ones_like(c[:, 0]) / m
    for _ in range(iterations):
        Q = A * T
        delta = 1 / (n * (Q.T @ sigma))
        sigma = 1 / (m * (Q @ delta))
        T = sigma.unsqueeze(1) * Q * delta
    return T.detach()


# %% tags=["check"]
check(
    plan_of,
    cases=[(mt.rand(3, 5), 0.5, 1), (mt.rand(4, 2), 0.3, 7), (mt.rand(1, 3), 0.5, 2)],
    expected=lambda c, beta, iterations: transport_plan(c[None], beta=beta, iterations=iterations)[
        0
    ],
    properties={
        "the rows sum to 1/m": lambda found, c, beta, iterations: (
            abs(found.sum(1) - 1 / len(c)).max() < 1e-6
        )
    },
)

# %% [markdown]
# An example with three words and three regions shows how the plan differs from a separate choice
# for each word. Region 1 is the cheapest region for both word 1 and word 2. If each word chooses
# for itself, both choose region 1. The plan gives region 1 to the word for which another region
# would cost much more.

# %%
example = mt.tensor([[0.1, 0.3, 0.9], [0.2, 0.9, 0.8], [0.6, 0.5, 0.1]])
plan = transport_plan(example[None], beta=0.1, iterations=500)[0]
print("cheapest region of each word:", (example.argmin(1) + 1).tolist())
print("plan times 3:\n", (3 * plan).numpy().round(3))
assert (plan.argmax(1) == mt.tensor([1, 0, 2])).all()

# %% [markdown]
# ## The gradient
#
# The loss is $D$, and its gradient reaches the vectors through the costs. The plan depends on the
# costs, too. Must we backpropagate through all the iterations that compute it? No: a small change
# in the costs also changes the plan a little, but the plan is optimal, so this change in the plan
# does not change $D$ to first order. What remains is $\partial D / \partial c_{ij} = T_{ij}$,
# so we can treat the plan as a constant. We check this with finite differences of $D$. For these,
# we compute a new plan at each of the two points.

# %%
rng = np.random.default_rng(3)
a, b = (mt.tensor(rng.normal(size=(1, n, 6)), requires_grad=True) for n in (3, 4))
options = dict(beta=0.05, iterations=500)
word_region_alignment(a, b, **options)[0].sum().backward()
eps, moved = 1e-5, np.zeros((1, 3, 6))
moved[0, 1, 2] = eps
ends = [word_region_alignment(a.detach() + sign * mt.tensor(moved), b.detach(), **options)[0].item()
        for sign in (1, -1)]  # fmt: skip
slope = (ends[0] - ends[1]) / (2 * eps)
print(f"gradient {a.grad[0, 1, 2].item():.6f}, difference {slope:.6f}")
assert abs(a.grad[0, 1, 2].item() - slope) < 1e-4

# %% [markdown]
# ## Learning to align
#
# Now for the experiment: can a network learn which word belongs to which region, if it only knows
# which caption belongs to which scene? To see only the effect of the transport, we leave out the
# Transformer. A word is one learned vector, and a region's vector comes from a small network that
# reads its pixels. The distance from a scene to its own caption must be smaller than the distance
# to another scene's caption.


# %%
class Vectors(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), dim)
        self.regions = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, ids, crops, absent):
        """Return distances (batch,) and plans (batch, word, region) of sentences and scenes."""
        vectors = self.words(ids), self.regions(crops)
        return word_region_alignment(*vectors, ~is_digit(ids), absent, beta=0.2, iterations=20)


def is_digit(ids):
    return (ids >= WORDS.index("zero")) & (ids <= WORDS.index("nine"))


def learn(model, steps, weight_of_others=1.0):
    optimizer = mt.optim.Adam(model.parameters(), lr=5e-3)
    for n in range(steps):
        generator = np.random.default_rng([7, n])
        scenes = draw_region_scenes(64, *training, generator, noise=0.1)
        ids = mt.tensor(draw_captions(scenes, generator)[0])
        crops, absent = mt.tensor(scenes.crops), mt.tensor(scenes.digits < 0)
        own, _ = model(ids, crops, absent)
        other, _ = model(ids.roll(1, 0), crops, absent)
        if weight_of_others:
            loss = nn.functional.softplus(5 * (own - weight_of_others * other)).mean()
        else:
            loss = own.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def aligned(model):
    """Return the share of digit words that send most mass to their own region, and all plans."""
    with mt.no_grad():
        _, plans = model(ids, features, absent)
    n, k = np.nonzero(is_digit(ids).numpy())
    return (plans.numpy()[n, k].argmax(1) == named[n, k]).mean(), plans.numpy()


trained = learn(Vectors(), pick(500, 110))
chance = np.mean(1 / (test.digits >= 0).sum(1))
share, plans = aligned(trained)
before, _ = aligned(Vectors())
print(f"digit words aligned with their own region: {100 * share:.0f} %, "
      f"before training {100 * before:.0f} %, by chance {100 * chance:.0f} %")  # fmt: skip
assert share > pick(0.8, 0.6) and before < 0.6

# %% tags=["plot"]
pictures, scenes = test.images(), []
different = np.array(
    [len(set(row[row >= 0])) for row in np.where(is_digit(ids).numpy(), named, -1)]
)
for n in np.flatnonzero((different == 3) & (test.digits >= 0).all(1))[:3]:
    k = np.flatnonzero(is_digit(ids).numpy()[n])
    words = [WORDS[i] for i in captions[n, k]]
    scenes.append((pictures[n], test.boxes[n], words, plans[n, k]))
show(
    transport_figure(scenes, "Which word goes to which region"),
    "No label says which crop is a seven. The word still sends its mass there, because the scene "
    "contains a seven whenever the caption says so.",
)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Take captions that name exactly two digits, for scenes with four digits. Each digit word has the
# mass 1/2. Suppose that the vectors are perfect: the cost of the word "seven" is 0 for the region
# of the seven, and 1 for every other region. What share of its mass does "seven" send to the seven:
# all of it, a half, or a quarter? Write down your answer, then run the next cell.

# %%
perfect = mt.tensor([[0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
plan = transport_plan(perfect[None], beta=0.1, iterations=200)[0].numpy()
print("perfect vectors:", (plan[0] / plan[0].sum()).round(2))
two = np.flatnonzero((is_digit(ids).numpy().sum(1) == 2) & (test.digits >= 0).all(1))
rows = [(n, k) for n in two for k in np.flatnonzero(is_digit(ids).numpy()[n])]
own = np.mean([plans[n, k, named[n, k]] / plans[n, k].sum() for n, k in rows])
print(f"trained vectors: {own:.2f} of a word's mass goes to its own region")
assert abs(plan[0, 0] / plan[0].sum() - 0.5) < 1e-3 and own < 0.51

# %% [markdown]
# It sends half of its mass. A region receives only $1/n = 1/4$, and a word sends $1/m = 1/2$. The
# rest has to go to regions that the caption does not mention, at a cost of 1. So the distance of a
# caption from its own scene is not 0 even with perfect vectors, and only the *largest* entry of a
# row shows which region belongs to the word. *Unbalanced* transport would allow mass to be left
# over.
#
# ## What goes wrong without other captions
#
# Why not just make the distance of each scene to its own caption small? Because this can be
# achieved without aligning anything: give all words and all regions the same vector. Then every
# plan costs nothing.

# %%
collapsed = learn(Vectors(), pick(1500, 600), weight_of_others=0.0)


def distances(vectors):
    """Return the mean distance from scenes to their own captions, and to other captions."""
    with mt.no_grad():
        own, other = (vectors(x, features, absent)[0] for x in (ids, ids.roll(1, 0)))
    return own.mean().item(), other.mean().item()


for name, vectors in (("with other captions", trained), ("without", collapsed)):
    own, other = distances(vectors)
    print(f"{name:20} own caption {own:.4f}, another caption {other:.4f}, difference "
          f"{other - own:.4f}")  # fmt: skip
assert distances(trained)[1] - distances(trained)[0] > 0.2
assert distances(collapsed)[1] < 0.05

# %% [markdown]
# Without other captions, all vectors become nearly equal. For a while, the remaining small
# differences between the vectors still align words and regions, but these differences shrink with
# every step.
#
# In UNITER, other tasks work against this collapse: a vector that predicts its hidden word cannot
# be the same for all words. But the distance can still become small without an alignment. In the
# last layer, each word has already read all regions, so its vector can contain whatever makes the
# cosines large. In a first version of the recipe `uniter`, the alignment stayed near chance: only
# 31 % of the digit words were aligned with their own region. The alignment became useful when the
# head for words also predicted the classes of regions. The word "seven" and the region of the seven
# then have to predict the same class. A small loss does not show that words and regions are
# aligned, so measure the alignment itself.

# %% tags=["plot"]
figure = new_figure(6, 2.8)
axes = figure.subplots()
pairs = (("with other captions", trained), ("without", collapsed))
for offset, (name, vectors) in enumerate(pairs):
    axes.bar(
        np.arange(2) + 0.4 * offset, distances(vectors), 0.38, label=name,
        color=("#0072B2", "#E69F00")[offset],
    )  # fmt: skip
axes.set_xticks(np.arange(2) + 0.2, ["own caption", "another caption"])
axes.set_ylabel("transport distance")
axes.legend()
show(figure, "Without other captions, all distances become 0, for correct and for wrong pairs.")

# %% [markdown]
# ## In the library

# %%
where(uniter.UNITER, uniter.UNITERPreTraining, uniter.region_kl_loss, transport_plan,
      word_region_alignment, draw_captions)  # fmt: skip
with fails(ArgumentError):
    transport_plan(example[None], beta=0.0)

# %% [markdown]
# `mta train uniter` pretrains UNITER on scenes and their captions. Then the model learns from few
# labels to answer questions such as "what is left of the seven?", and is compared with the same
# network without pretraining.
#
# ## Exercise
#
# The paper's detector finds 10 to 100 regions, and the caption does not mention most of them.
# Change `learn` so that all words of a caption take part, not only its digit words, and measure
# `aligned` again. How much mass do the words "left of" send, and to which regions? Then try
# `fewest=4` for training: why does the model learn more from a scene with few digits than from one
# with many?
#
# ## Three questions
#
# 1. UNITER hides words or regions, never both at once. What could go wrong if the word "seven" and
#    the region of the seven were hidden together?
# 2. IPOT keeps the previous plan in $Q = A \odot T$. What is computed if $Q = A$ in every step, and
#    how does the result depend on $\beta$?
# 3. Training makes a scene's distance to its own caption smaller than its distance to another
#    caption. Why does this teach *which* region is the seven, although no label says so?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. If both are hidden, nothing in the input shows which digit is there, and the prediction can
#    only be the average over all digits. The network would be trained on an impossible task, and
#    the alignment of the word with its region would not help.
# 2. With $Q = A$ in every step, this is Sinkhorn's algorithm. It minimizes the cost minus $\beta$
#    times the entropy of the plan, so a larger $\beta$ blurs the plan more. With the previous plan
#    in $Q$, the entropy term vanishes at convergence, and the plan is exact for any $\beta$.
# 3. A caption with "seven" always comes with a scene that has a seven. The other regions of these
#    scenes change from scene to scene. So the only vector that makes the distance small in all of
#    these scenes is the vector of the seven.
