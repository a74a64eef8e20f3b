# %% [markdown]
# # DINO: learning without labels
#
# A student network learns to predict the output of a teacher network for another view of the same
# image. The teacher is an average of the student's earlier weights. There are no labels. Why do the
# two networks not end up with the same output for every image, and what does the class token attend
# to after training?
#
# *Prerequisites:* ViT (lesson 21), what the class token looks at (lesson 23). The TAPASWI deck
# shows DINO's attention maps ("Dino, some beautiful properties!"); `docs/decks.md` lists the decks.
# This lesson needs scikit-learn.

# %%
from functools import reduce

import numpy as np

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.cluttered_digits import draw_cluttered
from minitorch_attn.data.digits import digits_split
from minitorch_attn.data.multi_crop import random_views
from minitorch_attn.models.dino import (
    DINO,
    DINOHead,
    cosine_schedule,
    dino_loss,
    update_center,
    update_teacher,
)
from minitorch_attn.models.dino_transformer import DINOTransformer
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Two views of the same thing
#
# An image shows one handwritten digit among fragments of others. From each image we draw *views*:
# large crops that show most of it, and small ones that show a part. Both networks see the large
# views, and only the student sees the small ones. So the student, which may see only a small part,
# must predict what the teacher outputs for most of the image.

# %%
*training, images, labels = digits_split()
scenes = draw_cluttered(64, *training, np.random.default_rng(0))


def draw_views(pictures, generator):
    """Return two large and three small views of each image, with standardized pixels."""
    sizes = [((24, 32), 24)] * 2 + [((12, 22), 12)] * 3
    views = [random_views(pictures, *size, generator, 0.3, 0.02) for size in sizes]
    return [mt.tensor((view - 0.1) / 0.25) for view in views]


views = draw_views(scenes.images, np.random.default_rng(1))
print("images", scenes.images.shape, "  views", [view.shape for view in views])

# %% tags=["plot"]
rows = [scenes.images[:8, 0], *(0.25 * view[:8, 0].numpy() + 0.1 for view in views)]
show(
    mt.viz.image_rows_figure(
        [np.clip(row, 0, 1) for row in rows],
        ["image", "large view", "large view", *["small view"] * 3],
        "Views of eight images",
    ),
    "Each column shows an image and five views of it. The networks see only the views.",
)

# %% [markdown]
# ## The loss
#
# Each network has $K$ outputs: $s$ for the student, $t$ for the teacher. The outputs have no
# assigned meaning. A softmax turns them into probabilities. The student's probabilities $q$ should
# match the teacher's $p$ (Caron et al. 2021, arXiv:2104.14294v2, Eqs. 1 to 3):
#
# $$\mathcal{L} = -\sum_k p_k \log q_k, \qquad p = \mathrm{softmax}\Big(\frac{t - c}{T_t}\Big),
#   \qquad q = \mathrm{softmax}\Big(\frac{s}{T_s}\Big)$$
#
# *Centering* subtracts $c$, a running mean of the teacher's outputs. *Sharpening* means that the
# teacher's temperature $T_t$ is smaller than the student's $T_s$, so its distribution has a sharper
# peak. Only the student gets a gradient.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the loss of one pair of views
#
# Write `pair_loss(s, t, c, T_s, T_t)` for outputs (batch, K) and a center (K,). Return the mean
# over the batch. No gradient may reach the teacher's output `t`.
#
# *Hint:* `.detach()` makes a constant. `mt.log_softmax` is safer than the logarithm of a softmax.


# %% tags=["answer"]
def pair_loss(s, t, c, T_s, T_t):
    """Return the mean cross-entropy, a scalar tensor."""
    p = mt.softmax((t.detach() - c) / T_t, -1)
    log_q = mt.log_softmax(s / T_s, -1)
    return -(p * log_q).sum(-1).mean()


# %% tags=["check"]
check(
    pair_loss,
    cases=[
        (mt.randn(3, 5), mt.randn(3, 5), mt.randn(5), 0.7, 0.3),
        (mt.randn(1, 2), 50 * mt.randn(1, 2), mt.zeros(2), 0.1, 0.04),
    ],
    expected=lambda s, t, c, T_s, T_t: dino_loss(
        mt.ops.stack([s * 0, s]), t.unsqueeze(0), c, T_s, T_t
    ),
    properties={
        "an equal shift of teacher and center changes nothing": lambda loss, s, t, c, T_s, T_t: (
            abs(pair_loss(s, t + 1, c + 1, T_s, T_t) - loss) < 1e-4 * abs(loss) + 1e-6
        ),
        "no gradient reaches the teacher": lambda loss, s, t, c, T_s, T_t: (
            not pair_loss(s, t.requires_grad_(), c, T_s, T_t).requires_grad
        ),
    },
)

# %% [markdown]
# ## The teacher is a moving average
#
# After each step, every parameter of the teacher moves a little toward the student's:
# $\theta_t \leftarrow \lambda \theta_t + (1 - \lambda) \theta_s$. So the teacher is an average of
# many past students, and is better than any of them (section 5.2 of the paper). The center is
# updated in the same way (Eq. 4): $c \leftarrow m\,c + (1 - m)\,\mathrm{mean}(t)$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a moving average
#
# Write `moved(old, new, momentum, steps)`: the value of a moving average that starts at `old` and
# moves `steps` times toward the same `new`. Do not use a loop.
#
# *Hint:* After one step, the distance to `new` is `momentum` times as large. After two steps?


# %% tags=["answer"]
def moved(old, new, momentum, steps):
    """Return the moving average after a number of steps."""
    rest = momentum**steps
    return rest * old + (1 - rest) * new


# %% tags=["check"]
check(
    moved,
    cases=[(mt.randn(3, 5), mt.randn(3, 5), 0.9, 3), (mt.randn(2), mt.randn(2), 0.5, 0)],
    expected=lambda old, new, momentum, steps: reduce(
        lambda average, _: momentum * average + (1 - momentum) * new, range(steps), old
    ),
    properties={
        "a momentum of 1 changes nothing": lambda found, old, new, momentum, steps: (
            moved(old, new, 1.0, steps) == old
        ).all()
    },
)

# %%
teacher, student = nn.Linear(3, 2), nn.Linear(3, 2)
before = teacher.weight.detach().clone()
update_teacher(teacher, student, momentum=0.9)
assert (teacher.weight - (0.9 * before + 0.1 * student.weight)).abs().max() < 1e-6
print("momentum over 1,000 steps:", [
    round(cosine_schedule(step, 1000, 0.98, 1.0), 4) for step in (0, 250, 500, 750, 1000)
])  # fmt: skip

# %% [markdown]
# ## Two numbers to watch
#
# Does the network still tell images apart? The loss does not show this. We compute two entropies of
# the teacher's targets $p$ instead: the mean of the targets' entropies, and the entropy of the mean
# target. If all images get the same target, the two entropies are equal. Their difference shows how
# much information a target contains about its image.

# %% [markdown] tags=["your-turn"]
# ## Your turn: two entropies
#
# Write `entropies(p)` for targets (image, K): the mean of the entropies of the rows, and the
# entropy of the mean row, in nats. Some entries of `p` are 0. Their term $-p \log p$ counts as 0.
#
# *Hint:* The logarithm of 0 is infinite. `p.clip(min=1e-30)` avoids it, and 0 times a large number
# is 0.


# %% tags=["answer"]
def entropies(p):
    """Return (mean entropy of the rows, entropy of the mean row)."""
    of_each = -(p * p.clip(min=1e-30).log()).sum(-1).mean()
    mean = p.mean(0)
    return of_each, -(mean * mean.clip(min=1e-30).log()).sum()


# %% tags=["check"]
check(
    entropies,
    cases=[(mt.softmax(mt.randn(3, 5), -1),), (mt.tensor([[1.0, 0.0], [0.5, 0.5]]),)],
    expected=lambda p: tuple(
        mt.tensor([-sum(v * np.log(v) for v in row if v > 0) for row in rows.tolist()]).mean()
        for rows in (p.detach(), p.detach().mean(0, keepdim=True))
    ),
    properties={"the entropy of the mean row is at least the mean entropy": lambda found, p: (
        found[1] >= found[0] - 1e-6
    )},
)  # fmt: skip

# %% [markdown]
# ## A small DINO
#
# To be able to train many times, we start small: a network of a few linear layers, 8 x 8 digits
# without clutter, and views that show almost the whole image, with some noise. The class `DINO`
# holds the student, the teacher and the center.

# %%
K = 32


def small_network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.GELU(), DINOHead(64, K, 64, 16))


def train_small(centering=True, sharpening=True, steps=300):
    """Train. Return the two entropies at every tenth step, and the loss of the last step."""
    mt.manual_seed(3)
    model = DINO(small_network, K)
    parameters = [p for p in model.student.parameters() if p.requires_grad]
    optimizer, generator = mt.optim.AdamW(parameters, lr=5e-4), np.random.default_rng(4)
    temperature = 0.02 if sharpening else model.student_temperature
    history = []
    for step in range(steps):
        chosen = training[0][generator.integers(len(training[0]), size=64)]
        views = [
            mt.tensor(2 * random_views(chosen, (6.5, 8), 8, generator, noise=0.1) - 1)
            for _ in range(2)
        ]
        optimizer.zero_grad()
        loss = model(views, temperature=temperature)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            p = mt.softmax((model.outputs - model.center) / temperature, -1).reshape(-1, K)
            rows = p, p.mean(0, keepdim=True)
            history.append([-(x * x.clip(min=1e-30).log()).sum(-1).mean().item() for x in rows])
        model.update(momentum=0.99)
        if not centering:
            model.center = 0 * model.center
    return np.array(history), loss.item()


both, final_loss = train_small(steps=pick(300, 200))
print(f"entropy of a target {both[-1, 0]:.2f}, of the mean target {both[-1, 1]:.2f}, "
      f"loss {final_loss:.2f}, log K = {np.log(K):.2f}")  # fmt: skip
assert both[-1, 1] - both[-1, 0] > 1

# %% [markdown]
# Each target has a clear peak, but different images have their peaks at different outputs, so the
# mean target is broad. The network has sorted the digits into groups, without any labels.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Now we leave out one of the two operations: either centering (the center then stays 0), or
# sharpening (the teacher then has the student's temperature). What will the targets look like in
# each case, and will the loss be larger or smaller than with both operations? Write down your
# answer, then run the next cell.

# %%
runs = {"both": both}
losses = {"both": final_loss}
for name, options in (
    ("no centering", {"centering": False}), ("no sharpening", {"sharpening": False}),
):  # fmt: skip
    runs[name], losses[name] = train_small(**options, steps=pick(300, 200))
for name, run in runs.items():
    print(f"{name:14} entropy of a target {run[-1, 0]:.2f}, of the mean target {run[-1, 1]:.2f}, "
          f"loss {losses[name]:.2f}")  # fmt: skip
assert runs["no centering"][-1, 1] < 0.1 and losses["no centering"] < 0.1
assert runs["no sharpening"][-1, 0] > 0.9 * np.log(K)

# %% [markdown]
# Without centering, the target of every image puts all its probability on the same output: both
# entropies are 0. The loss is also 0, the smallest possible value. Without sharpening, every image
# gets the uniform distribution: both entropies are $\log K$. The two operations pull in opposite
# directions. With both, the targets can depend on the image (Figure 7 of the paper). A loss that
# falls to 0 is a failure here.

# %% tags=["plot"]
figure = new_figure(8.5, 2.7)
for axes, (name, run) in zip(figure.subplots(1, 3, sharey=True), runs.items(), strict=True):
    steps = 10 * np.arange(len(run))
    axes.plot(steps, run[:, 1], color="#0072B2", label="mean target")
    axes.plot(steps, run[:, 0], color="#D55E00", label="each target")
    axes.axhline(np.log(K), ls=":", color="0.5")
    axes.set_title(name, fontsize=10)
    axes.set_xlabel("step")
axes.legend(fontsize=8)
figure.axes[0].set_ylabel("entropy (nats)")
show(
    figure,
    "The gap between the two curves shows how much information a target contains about its image. "
    "It closes at 0 without centering, and at log K (dotted) without sharpening.",
)

# %% [markdown]
# ## What the class token looks at
#
# The paper's surprising finding is what a ViT attends to after this training: the class token
# attends to the objects (Figure 1), and a patch on an object attends to this object (Figure 8,
# which the TAPASWI deck shows). We train a small ViT on the cluttered digits, for a much shorter
# time than in the paper.


# %%
def make_vit():
    backbone = DINOTransformer(32, 4, 64, 3, 8, 128, in_channels=1)
    return nn.Sequential(backbone, DINOHead(64, 64, 256, 64, batch_norm=True))


def train_vit(steps, lr=1.5e-3):
    mt.manual_seed(1)
    model = DINO(make_vit, 64)
    parameters = [p for p in model.student.parameters() if p.requires_grad]
    optimizer = mt.optim.AdamW(parameters, lr=lr, weight_decay=0.04)
    for step in range(steps):
        generator = np.random.default_rng([1, step])
        pictures = draw_cluttered(48, *training, generator).images
        views = draw_views(pictures, generator)
        for group in optimizer.param_groups:
            group["lr"] = cosine_schedule(step, steps, lr, 1e-5, steps // 10)
        optimizer.zero_grad()
        model(views[:2], views[2:], temperature=0.01).backward()
        nn.utils.clip_grad_norm_(parameters, 3.0)
        optimizer.step()
        model.update(cosine_schedule(step, steps, 0.98, 1.0))
    return model.eval().teacher[0]


vit = train_vit(pick(230, 10))
shown = draw_cluttered(300, images, labels, np.random.default_rng(9))
pixels = mt.tensor((shown.images - 0.1) / 0.25)
on_digit = shown.masks().reshape(300, 8, 4, 8, 4).mean((2, 4)).reshape(300, 64)  # by patch
weights = vit.last_attention(pixels).numpy()[:, :, 0, 1:]  # of the class token
share = (weights * on_digit[:, None]).sum(-1).mean(0) / weights.sum(-1).mean(0)
print("attention on the digit, in multiples of its area:", (share / on_digit.mean()).round(2))
assert share.max() > pick(1.5, 0) * on_digit.mean()

# %% tags=["plot"]
best = int(share.argmax())
points = [(int(y) + 6, int(x) + 6) for y, x in shown.corners[:6]]  # the middle of each digit
maps = [vit.reference_maps(pixels[i : i + 1], [points[i]])[0, 0, best].numpy() for i in range(6)]
show(
    mt.viz.image_rows_figure(
        [
            shown.images[:6, 0],
            [(w / w.max()).reshape(8, 8) for w in weights[:6, best]],
            [m / m.max() for m in maps],
        ],
        ["image", "class token", "reference point"],
        "Attention of one head in the last block",
    ),
    "What the class token attends to, and what the patch in the middle of the digit attends to. "
    "Dark patches have large weights.",
)

# %% [markdown]
# After a minute of training, the maps are still coarse. `mta train dino` trains longer and measures
# how much of the attention falls on the digit. Maps of real photographs need a ViT of the paper's
# size; `mt.models.from_pretrained` loads pretrained DINOv2 models from a folder.
#
# ## What goes wrong if the teacher gets a gradient
#
# The loss must treat the teacher's output as a constant. Otherwise training also changes the
# teacher, so that its output becomes easy to predict. The next cell prints the gradient that
# reaches the teacher's output, with this mistake and without it.

# %%
s, t = mt.randn(4, 5, requires_grad=True), mt.randn(4, 5, requires_grad=True)
log_q = mt.log_softmax(s / 0.1, -1)
leaky = -(mt.softmax(t / 0.04, -1) * log_q).sum(-1).mean()  # without detach
leaky.backward()
print("gradient that reaches the teacher:", t.grad.abs().max().item())
assert t.grad.abs().max() > 0
t.grad = None
dino_loss(mt.ops.stack([s, s]), t.unsqueeze(0), mt.zeros(5)).backward()
assert t.grad is None
print("with the library's loss:", t.grad)

# %% [markdown]
# ## In the library

# %%
where(DINO, DINOHead, dino_loss, update_center, update_teacher, DINOTransformer)

# %% [markdown]
# ## Exercise
#
# Train the small network with batch normalization in its head (`batch_norm=True`) and without
# centering. Does it still collapse? Compare the entropies with those in the figure under "Predict,
# then run". Which of the two operations, centering or sharpening, does batch normalization replace,
# and why can it not replace the other one?
#
# Then practice:
#
# ```sh
# mta exercise start 48
# mta exercise start 49
# ```
#
# ## Three questions
#
# 1. Without centering, the network is useless, but its loss is 0. Why does the optimizer not leave
#    this solution?
# 2. Why does only the student see the small views?
# 3. The loss leaves out the pairs of a view with itself. What would they teach?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The loss asks for agreement. Two networks that always give the same answer agree perfectly.
# 2. The teacher's output is the target. A target from a small view would contain no information
#    about the rest of the image, so the student would not have to infer the whole from a part.
# 3. These pairs would teach the student to copy the teacher on the same pixels. This needs no
#    knowledge of what stays the same between two views of an image.
