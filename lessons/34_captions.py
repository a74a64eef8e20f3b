# %% [markdown]
# # Captions: where the model looks
#
# A model describes an image: "seven above two, left of four". Before each word, it looks at the
# image again. How does it choose where to look, how do the vectors that represent the image encode
# positions, and does the place where it looks determine the word?
#
# *Prerequisites:* additive attention (lesson 7), ViT (lesson 21). The COMP541 deck shows the model
# ("Image Captioning with Visual Attention"); `docs/decks.md` lists the decks. This lesson needs
# scikit-learn.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.digit_scenes import draw_scenes, scene_words
from minitorch_attn.data.digits import digits_split
from minitorch_attn.models.show_attend_tell import ShowAttendTell, SoftAttention, caption_loss
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## A small world
#
# An image has nine cells. One to three of the cells hold one handwritten digit each. The caption
# names the digits in reading order, and says where the first one is relative to the others. The
# test images use handwriting that does not occur in training.

# %%
*training, images, labels = digits_split()
test = draw_scenes(300, images, labels, np.random.default_rng(9))
WORDS = ("<pad>", "<start>", "<end>", *scene_words())


def as_ids(captions):
    ids = np.zeros((len(captions), 9), np.int64)  # 0 is padding
    for row, caption in zip(ids, captions, strict=True):
        words = ["<start>", *caption, "<end>"]
        row[: len(words)] = [WORDS.index(word) for word in words]
    return mt.tensor(ids)


for caption in sorted(test.captions()[:12], key=len)[::3]:
    print(" ".join(caption).replace(" ,", ","))
ids = as_ids(test.captions())
print(len(WORDS), "words; the last of these captions, as ids:", as_ids([caption])[0].tolist())

# %% [markdown]
# Show, attend and tell (Xu et al. 2015, arXiv:1502.03044) has two parts. An *encoder* turns the
# image into $L$ vectors $a_1, \dots, a_L$, the *annotations*, one for each place in the image. A
# *decoder* writes the caption word by word, and computes a context $z_t$ from the annotations for
# each word.
#
# The encoder of the paper is a large convolutional network. Our places are the nine cells, and two
# layers are enough for them: a convolution that reads each cell of 10 x 10 pixels, and a linear
# layer. To the annotation of each cell, we add a learned position vector.


# %%
class Encoder(nn.Module):
    def __init__(self, places=True, dim=64):
        super().__init__()
        self.cells = nn.Conv2d(1, dim, 10, stride=10)
        self.mix = nn.Linear(dim, dim)
        self.places = nn.Parameter(0.3 * mt.randn(9, dim)) if places else 0.0

    def forward(self, images):
        x = self.cells(images[:, :, 1:31, 1:31])  # without the margin: (batch, dim, 3, 3)
        x = mt.relu(x).flatten(2).swapaxes(1, 2)  # (batch, position, dim)
        return self.mix(x) + self.places


annotations = Encoder()(mt.tensor(test.images))
print("annotations", annotations.shape)

# %% [markdown]
# ## Soft attention
#
# The decoder is an LSTM. Its state $h$ decides where to look: each annotation gets a score, the
# scores become weights, and the context is the weighted mean (Eqs. 4, 5 and 13 of the paper):
#
# $$e_i = v^\top \tanh(W_a a_i + W_h h), \qquad \alpha = \mathrm{softmax}(e), \qquad
#   z = \sum_i \alpha_i a_i$$
#
# These are the scores of lesson 7, with places in the image instead of source words. The weights
# are *soft*: they are positive everywhere and sum to 1, so the context is differentiable and
# ordinary backpropagation trains it.

# %% [markdown] tags=["your-turn"]
# ## Your turn: soft attention
#
# Write `look(a, h, W_a, W_h, v)`. The annotations `a` have shape (batch, position, size) and the
# states `h` have shape (batch, hidden). The matrices `W_a` (size, inner) and `W_h` (hidden, inner)
# multiply from the right, and `v` has shape (inner,). Return the context (batch, size) and the
# weights (batch, position).
#
# *Hint:* `h @ W_h` has no axis for the positions. Where must you insert this axis, so that the same
# state is added at each position? The softmax is over the positions.


# %% tags=["answer"]
def look(a, h, W_a, W_h, v):
    """Return the context (batch, size) and the weights (batch, position)."""
    inner = mt.tanh(a @ W_a + (h @ W_h).unsqueeze(1))  # (batch, position, inner)
    alpha = mt.softmax(inner @ v, -1)
    return (alpha.unsqueeze(-1) * a).sum(1), alpha


# %% tags=["check"]
check(
    look,
    cases=[
        (mt.randn(2, 7, 5), mt.randn(2, 3), mt.randn(5, 11), mt.randn(3, 11), mt.randn(11)),
        (mt.randn(1, 1, 2), mt.randn(1, 3), mt.randn(2, 5), mt.randn(3, 5), mt.randn(5)),
    ],
    expected=lambda a, h, W_a, W_h, v: mt.ops.stack(
        [
            mt.cat(
                [
                    mt.softmax(mt.tanh(x @ W_a + s @ W_h) @ v, 0) @ x,
                    mt.softmax(mt.tanh(x @ W_a + s @ W_h) @ v, 0),
                ]
            )
            for x, s in zip(a.unbind(0), h.unbind(0), strict=True)
        ]
    ).split([a.shape[2], a.shape[1]], 1),
    properties={
        "the weights of each image sum to 1": lambda found, *_: (
            abs(found[1].sum(1) - 1).max() < 1e-6
        )
    },
)

# %% [markdown]
# The library's `SoftAttention` adds one thing: a gate $\beta = \sigma(f_\beta(h))$, with a linear
# layer $f_\beta$. The gate multiplies the context, so that the decoder can ignore the image.

# %%
attention = SoftAttention(annotation_dim=64, hidden_dim=5, attention_dim=7)
h = mt.randn(300, 5)
context, alpha = attention(annotations, h)
mean = (alpha.unsqueeze(-1) * annotations).sum(1)
beta = mt.sigmoid(attention.f_beta(h))
print("context", context.shape, " weights", alpha.shape, " gate", beta.shape)
assert (context - beta * mean).abs().max().item() < 1e-5

# %% [markdown]
# ## Look at everything once
#
# The weights of one step sum to 1 over the places. The paper adds a second condition: the weights
# of one *place* should sum to about 1 over the steps, so that the caption covers the whole image.
# With a weight $\lambda$, the loss of a caption with the words $y_t$ is (Eq. 14)
#
# $$-\sum_t \log p(y_t) + \lambda \sum_i \Big(1 - \sum_t \alpha_{ti}\Big)^2$$

# %% [markdown] tags=["your-turn"]
# ## Your turn: the doubly stochastic penalty
#
# Write `penalty(alphas, targets)` for weights (batch, word, position) and target ids (batch, word).
# Steps whose target is 0 (padding) do not count. Return $\sum_i (1 - \sum_t \alpha_{ti})^2$,
# averaged over the captions.
#
# *Hint:* Set the weights of the padded steps to 0 before you add them up. `targets != 0` needs
# another axis.


# %% tags=["answer"]
def penalty(alphas, targets):
    """Return the mean over captions of sum_i (1 - sum_t alpha_ti)^2."""
    counted = mt.where((targets != 0).unsqueeze(-1), alphas, 0.0)
    return ((1 - counted.sum(1)) ** 2).sum(-1).mean()


# %% tags=["check"]
check(
    penalty,
    cases=[
        (mt.rand(2, 5, 3), mt.tensor([[4, 7, 2, 0, 0], [3, 9, 4, 1, 2]])),
        (mt.rand(1, 2, 7), mt.tensor([[5, 2]])),
        (mt.rand(3, 2, 2), mt.tensor([[5, 0], [0, 0], [1, 2]])),
    ],
    expected=lambda alphas, targets: caption_loss(
        mt.zeros(*targets.shape, 1), targets * 0, alphas * (targets != 0).unsqueeze(-1)
    ),
    properties={
        "a caption that is only padding costs 1 per place": lambda loss, alphas, targets: (
            abs(penalty(alphas, targets * 0) - alphas.shape[-1]) < 1e-6
        )
    },
)

# %% [markdown]
# ## Training
#
# The paper's encoder has learned to recognize 1,000 kinds of objects before it sees a caption. Our
# encoder first learns to read the digit in each cell. Without this step, training would take many
# times as long, because a caption says only indirectly which cell holds which digit. Then encoder
# and decoder learn captions together.


# %%
class Captioner(nn.Module):
    def __init__(self, places=True):
        super().__init__()
        self.encoder = Encoder(places)
        self.decoder = ShowAttendTell(len(WORDS), 64, 32, 64, 32)

    def forward(self, images, words):
        return self.decoder(self.encoder(mt.tensor(images)), words)


def cells(scenes):
    """Return the digit in each of the nine cells, or 10 for an empty cell."""
    found = np.full((len(scenes.digits), 9), 10)
    for n, k in zip(*np.nonzero(scenes.digits >= 0), strict=True):
        row, column = (scenes.corners[n, k] - 1) // 10
        found[n, 3 * row + column] = scenes.digits[n, k]
    return mt.tensor(found)


def train(parameters, loss_of, steps, seed, most):
    optimizer = mt.optim.AdamW(parameters, lr=4e-3)
    for step in range(steps):
        generator = np.random.default_rng([seed, step])
        scenes = draw_scenes(64, *training, generator, noise=0.05, most=most)
        optimizer.param_groups[0]["lr"] = 4e-3 * min((step + 1) / 30, 1) * (1 - step / steps)
        optimizer.zero_grad()
        loss_of(scenes).backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()


def train_captioner(model, steps):
    reader = nn.Linear(64, 11)

    def digit_loss(scenes):
        logits = reader(model.encoder(mt.tensor(scenes.images)))  # (batch, position, 11)
        return nn.functional.cross_entropy(logits.flatten(0, 1), cells(scenes).flatten())

    def loss(scenes):
        words = as_ids(scenes.captions())
        logits, alphas = model(scenes.images, words[:, :-1])
        return caption_loss(logits, words[:, 1:], alphas, penalty=0.1, ignore_index=0)

    train([*model.encoder.parameters(), *reader.parameters()], digit_loss, pick(400, 250), 1, 9)
    train([*model.parameters()], loss, steps, 2, 3)
    return model.eval().requires_grad_(False)


# %%
def exact(model):
    """Return the share of captions without a mistake, and the attention weights for each word."""
    logits, alphas = model(test.images, ids[:, :-1])
    correct = (logits.argmax(-1) == ids[:, 1:]) | (ids[:, 1:] == 0)
    return correct.numpy().all(1).mean(), alphas


model = train_captioner(Captioner(), pick(800, 450))
share, alphas = exact(model)
print(f"captions of new handwriting without a mistake: {100 * share:.0f} %")
assert share > pick(0.7, 0.4)

# %% [markdown]
# (A caption counts as correct if each word is the most probable one, given the correct words before
# it.)
#
# ## Where does the model look?

# %% [markdown] tags=["your-turn"]
# ## Your turn: the focus
#
# Write `focus(alphas, named)`: the mean attention weight of the named digit, divided by the weight
# that uniform attention would give to it. `alphas` are weights (batch, word, position). `named` are
# integers (batch, word): the position of the digit that the word names, or -1 for words that do not
# name a digit. Average over the words that name a digit. Uniform attention must give 1.
#
# *Hint:* `mt.nonzero(named >= 0, as_tuple=True)` gives the batch and word indices of the words that
# name a digit.


# %% tags=["answer"]
def focus(alphas, named):
    """Return the mean weight of the named positions, times the number of positions."""
    n, t = mt.nonzero(named >= 0, as_tuple=True)
    return alphas[n, t, named[n, t]].mean() * alphas.shape[-1]


# %% tags=["check"]
check(
    focus,
    cases=[
        (mt.softmax(mt.randn(2, 3, 7), -1), mt.tensor([[4, -1, 6], [0, 2, -1]])),
        (mt.softmax(mt.randn(1, 2, 5), -1), mt.tensor([[-1, 0]])),
    ],
    expected=lambda alphas, named: (
        (alphas * (mt.arange(alphas.shape[-1]) == named.unsqueeze(-1))).sum()
        / (named >= 0).sum() * alphas.shape[-1]
    ),
    properties={
        "uniform attention has a focus of 1": lambda found, alphas, named: (
            abs(focus(alphas * 0 + 1 / alphas.shape[-1], named) - 1) < 1e-6
        )
    },
)  # fmt: skip

# %%
corner = (test.corners - 1) // 10
place = 3 * corner[..., 0] + corner[..., 1]  # (image, digit)
targets = ids[:, 1:].numpy()
is_digit = (targets >= 3) & (targets < 13)
named = np.full(targets.shape, -1)
named[is_digit] = place[test.digits >= 0]  # both sides list the digits in caption order
weights = alphas.numpy()
on_digit = weights[is_digit, named[is_digit]].mean()
largest = weights.max(-1)
print(f"weight on the named digit: {on_digit:.2f} (uniform attention: 0.11)")
kinds = {
    "a digit": is_digit,
    "a relation": (targets == WORDS.index("above")) | (targets == WORDS.index("left of")),
    "the end": targets == WORDS.index("<end>"),
}
for kind, which in kinds.items():
    print(f"largest weight before {kind:10}: {largest[which].mean():.2f}")
assert on_digit > 2 / 9
assert largest[is_digit].mean() > largest[kinds["the end"]].mean()

# %% tags=["plot"]
three = np.flatnonzero((test.digits >= 0).sum(1) == 3)
scenes = [
    (test.images[n, 0, 1:31, 1:31], test.captions()[n], weights[n, :6].reshape(6, 3, 3))
    for n in three[1:5]
]
show(
    mt.viz.caption_figure(scenes, "Where the model looks before each word", smooth=False),
    "Before the model names a digit, almost all weight is on this digit. Before a relation, the "
    "weight is spread over several cells: the decoder has to find out where the next digit is.",
)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Attention weights can look convincing without having any effect. So we intervene. In images with
# three digits, we stop just before the *second* digit is named: the model has read "seven above".
# Now we set the attention weights by hand: the cell of the *third* digit gets all the weight. What
# will the model write most often: the second digit, because of the words that it has read, or the
# third one, because it looks there? How often? Write down your answer, then run the next cell.

# %%
chosen = three[test.digits[three, 1] != test.digits[three, 2]]
features = model.encoder(mt.tensor(test.images[chosen]))
answers = {}
for name, digit in (("second", 1), ("third", 2)):
    forced = weights[chosen].argmax(-1)  # where the model itself looks most
    forced[:, 2] = place[chosen, digit]
    found = model.decoder.sample(features, ids[chosen, :-1], samples=mt.tensor(forced[None]))
    written = found.logits[0, :, 2].argmax(-1).numpy() - 3
    answers[name] = [(written == test.digits[chosen, k]).mean() for k in (1, 2)]
    print(f"all weight on the {name:6} digit: the model writes the second one in "
          f"{100 * answers[name][0]:.0f} % and the third one in "
          f"{100 * answers[name][1]:.0f} %")  # fmt: skip
assert answers["second"][0] > answers["second"][1]
assert answers["third"][1] > answers["third"][0]

# %% [markdown]
# The attention weights decide. The previous words say *that* a digit comes next, and the place
# where the model looks says *which* one. In this model the weights are an explanation, because the
# decoder has no other way to find out which digit it is. In a deep Transformer, a position carries
# information from many others, and weights alone explain less (lesson 23).
#
# ## What goes wrong without places
#
# The weighted mean does not know where its terms come from. Suppose that the annotations do not
# tell which cell they come from. Then two images with the same digits in different cells look the
# same to the decoder at every step, whatever it has learned. But their captions differ.

# %%
blind = train_captioner(Captioner(places=False), pick(500, 60))
n = three[0]
moved = test.images[n].copy()
inner = moved[:, 1:31, 1:31]
moved[:, 1:31, 1:31] = np.concatenate([inner[:, 20:], inner[:, 10:20], inner[:, :10]], 1)
pair = np.stack([test.images[n], moved])  # the rows of cells in reverse order
same = mt.cat([ids[n : n + 1], ids[n : n + 1]])[:, :-1]
for name, captioner in (("with places", model), ("without", blind)):
    logits, _ = captioner(pair, same)
    print(f"{name:12} largest difference of the logits {(logits[0] - logits[1]).abs().max():.1e}")
assert (blind(pair, same)[0][0] - blind(pair, same)[0][1]).abs().max() < 1e-3
assert (model(pair, same)[0][0] - model(pair, same)[0][1]).abs().max() > 0.1
print(f"captions without a mistake: {100 * exact(blind)[0]:.0f} % instead of {100 * share:.0f} %")
assert exact(blind)[0] < share - pick(0.2, 0.0)

# %% [markdown]
# The model without places (without a position vector for each cell) still names the digits of an
# image with one digit. With several digits, it guesses their order and the relations. A
# convolutional network with a large receptive field sees the borders of the image, so its features
# contain some information about positions, and the paper relies on this. For a small network, add
# position vectors.

# %% tags=["plot"]
figure = new_figure(6, 2.8)
axes = figure.subplots()
count = (test.digits >= 0).sum(1)
for offset, (name, captioner) in enumerate((("with places", model), ("without places", blind))):
    logits, _ = captioner(test.images, ids[:, :-1])
    correct = ((logits.argmax(-1) == ids[:, 1:]) | (ids[:, 1:] == 0)).numpy().all(1)
    heights = [100 * correct[count == k].mean() for k in (1, 2, 3)]
    axes.bar(
        np.arange(3) + 0.4 * offset, heights, 0.38, label=name, color=("#0072B2", "#E69F00")[offset]
    )
axes.set_xticks(np.arange(3) + 0.2, ["1 digit", "2 digits", "3 digits"])
axes.set_ylabel("captions without\na mistake (%)")
axes.legend()
show(
    figure,
    "Without places, the model reads a single digit well, but not the relations between several.",
)

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.models.captioner import ConvEncoder

where(SoftAttention, ShowAttendTell, caption_loss, ConvEncoder, draw_scenes)

# %% [markdown]
# `mta train captions` trains a model with 64 small image regions instead of nine cells, and plots
# where it looks before each word. Lesson 35 replaces the weighted mean with a single region.
#
# ## Exercise
#
# Train with `penalty=0` and with `penalty=3` instead of 0.1. Compare three numbers: the focus, the
# mean of the largest attention weight at the steps that write a digit (printed above as "largest
# weight before a digit"), and the share of captions without a mistake. A caption has at most 7
# words (counting the comma and `<end>`), an image has 9 places, and the words of a caption name at
# most 3 of these places. Which of the two penalties do you expect to make the captions worse, and
# why?
#
# ## Three questions
#
# 1. Why does the encoder stop before the last layers of a classifier, which discard the spatial
#    positions?
# 2. The softmax in `look` runs over the positions. What would happen if it ran over the batch, and
#    which property in the check of `look` would fail?
# 3. We put all the weight on one cell, although the model was trained with soft weights. Why does
#    it still write the correct digits?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. Attention needs one vector for each place. After global pooling there is only one vector, and
#    the decoder would be back at the bottleneck of lesson 6.
# 2. Each position would be normalized over images that have nothing to do with each other. The
#    weights of an image would no longer sum to 1, so the property that tests this sum would fail.
#    With a batch of one, all weights would be 1.
# 3. Before a digit, the trained weights are almost all on one cell, so the context is almost one
#    annotation. A single annotation is close to what the decoder knows from training.
