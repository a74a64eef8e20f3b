# %% [markdown]
# # Detection as a set: DETR
#
# A detector outputs a list of boxes, but the objects of an image have no order. How can a network
# predict all objects at once, without anchors and without removing duplicates afterwards? And how
# do you compare its predictions with the targets if neither of the two is sorted?
#
# *Prerequisites:* encoder and decoder (lesson 15) and ViT (lesson 21). The FLOW deck shows the
# model ("DETR – DETECTION TRANSFORMER"); `docs/decks.md` lists the decks.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data import digits_split
from minitorch_attn.data.detection_scenes import draw_detection_scenes
from minitorch_attn.models import boxes as box
from minitorch_attn.models import detr, matching, set_loss
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Scenes and targets
#
# Our scenes have one to four handwritten digits among fragments of other digits. A target is a
# class and a box. DETR (Carion et al. 2020, arXiv:2005.12872v3) describes a box by its center,
# width and height, relative to the size of the image.

# %%
digits, digit_labels, _, _ = digits_split()
scenes = draw_detection_scenes(12, digits, digit_labels, np.random.default_rng(4))
SIDE = scenes.images.shape[-1]
targets = [
    {
        "class_labels": mt.tensor(labels),
        "boxes": box.corners_to_center_format(mt.tensor(boxes)) / SIDE,
    }
    for labels, boxes in zip(scenes.labels, scenes.boxes, strict=True)
]
print("objects in each scene:", *[len(labels) for labels in scenes.labels])
for label, center in zip(targets[0]["class_labels"], targets[0]["boxes"], strict=True):
    print(f"scene 0: digit {label.item()} at", center.numpy().round(2))
assert max(len(labels) for labels in scenes.labels) == 4

# %% [markdown]
# ## How well do two boxes agree?
#
# The usual measure is the intersection over union (IoU): the area that two boxes share, divided by
# the area that they cover together. For this, corners (left, top, right, bottom) are more
# convenient than centers.

# %% [markdown] tags=["your-turn"]
# ## Your turn: intersection over union
#
# Write `iou(a, b)`. Both arguments have shape (pair, 4) and contain corners. Return the IoU of each
# pair, of shape (pair,). It is 0 for boxes that do not overlap.
#
# *Hint:* The intersection starts at the larger of the two left edges. What are its width and height
# if the boxes do not overlap, and what is their product?


# %% tags=["answer"]
def iou(a, b):
    """Return the intersection over union of each pair of boxes, shape (pair,)."""
    first = mt.maximum(a[:, :2], b[:, :2])
    last = mt.minimum(a[:, 2:], b[:, 2:])
    shared = mt.clamp(last - first, min=0).prod(-1)
    areas = (a[:, 2:] - a[:, :2]).prod(-1) + (b[:, 2:] - b[:, :2]).prod(-1)
    return shared / (areas - shared)


# %% tags=["check"]
check(
    iou,
    cases=[
        (
            mt.tensor([[0.0, 0, 3, 2], [1, 1, 4, 6], [0, 0, 2, 2]]),
            mt.tensor([[1.0, -1, 5, 1.5], [2, 0.5, 3, 7], [0.5, 0.7, 1, 1.5]]),
        ),
        (
            mt.tensor([[0.0, 0, 2, 3], [0, 0, 1, 1]]), mt.tensor([[3.0, 5, 4, 7], [3, 0.5, 4, 2]]),
        ),
    ],
    expected=lambda a, b: mt.cat(
        [box.box_iou(a[n : n + 1], b[n : n + 1])[0] for n in range(len(a))]
    ),
    properties={
        "a box has an IoU of 1 with itself": lambda y, a, b: abs(iou(a, a) - 1).max() < 1e-9,
        "the order of the boxes does not matter": lambda y, a, b: abs(y - iou(b, a)).max() < 1e-9,
    },
)  # fmt: skip

# %% [markdown]
# As a loss, the IoU has a flaw: boxes that do not overlap have an IoU of 0, no matter how far apart
# they are, so there is no gradient. The generalized IoU (Rezatofighi et al. 2019,
# arXiv:1902.09630v2) has a second term. With the smallest box $C$ that encloses $A$ and $B$,
#
# $$\mathrm{GIoU} = \mathrm{IoU} - \frac{|C| - |A \cup B|}{|C|}.$$

# %% [markdown] tags=["your-turn"]
# ## Your turn: the second term of the generalized IoU
#
# Write `empty_share(a, b)`, the share of the enclosing box $C$ that neither $A$ nor $B$ covers:
# $(|C| - |A \cup B|) / |C|$. `a` and `b` are corners of shape (pair, 4). Return a tensor of shape
# (pair,).
#
# *Hint:* The union is the sum of both areas minus the intersection. The corners of $C$ have the
# same formulas as those of the intersection, with minimum and maximum swapped.


# %% tags=["answer"]
def empty_share(a, b):
    """Return the share of the enclosing box that neither box covers, shape (pair,)."""
    inner = mt.minimum(a[:, 2:], b[:, 2:]) - mt.maximum(a[:, :2], b[:, :2])
    outer = mt.maximum(a[:, 2:], b[:, 2:]) - mt.minimum(a[:, :2], b[:, :2])
    areas = (a[:, 2:] - a[:, :2]).prod(-1) + (b[:, 2:] - b[:, :2]).prod(-1)
    union = areas - mt.clamp(inner, min=0).prod(-1)
    return (outer.prod(-1) - union) / outer.prod(-1)


# %% tags=["check"]
check(
    empty_share,
    cases=[
        (
            mt.tensor([[0.0, 0, 3, 2], [1, 1, 4, 6], [0, 0, 2, 2]]),
            mt.tensor([[1.0, -1, 5, 1.5], [2, 0.5, 3, 7], [0.5, 0.7, 1, 1.5]]),
        ),
        (
            mt.tensor([[0.0, 0, 2, 3], [0, 0, 1, 1]]), mt.tensor([[3.0, 5, 4, 7], [3, 0.5, 4, 2]]),
        ),
    ],
    expected=lambda a, b: mt.cat([
        (box.box_iou(x, y) - box.generalized_box_iou(x, y))[0]
        for x, y in zip(a.unsqueeze(1), b.unsqueeze(1), strict=True)
    ]),
    properties={
        "two identical boxes give 0": lambda y, a, b: abs(empty_share(a, a)).max() < 1e-9,
    },
)  # fmt: skip

# %% [markdown]
# Start with two identical boxes of width 1, and move one of them to the right. They overlap as long
# as the shift is less than 1.

# %%
shifts = np.arange(0.025, 3, 0.05)
moved = np.stack([shifts, 0 * shifts, shifts + 1, 0 * shifts + 1], -1)  # (shift, 4)
measures = {}
for name, measure in (("IoU", box.box_iou), ("GIoU", box.generalized_box_iou)):
    corners = mt.tensor(moved, requires_grad=True)
    values = measure(mt.tensor([[0.0, 0, 1, 1]], dtype="float64"), corners)[0]
    values.sum().backward()
    slope = (corners.grad[:, 0] + corners.grad[:, 2]).numpy()  # both edges move
    measures[name] = values.detach().numpy(), slope
    print(f"{name:4} at a shift of 2.475: {values[49].item():6.3f}, slope {slope[49]:6.3f}")
apart = shifts > 1
assert (measures["IoU"][1][apart] == 0).all() and (measures["GIoU"][1][apart] < -0.1).all()

# %% tags=["plot"]
figure = new_figure(7.5, 3)
panels = figure.subplots(1, 2)
for number, (name, curves) in enumerate(measures.items()):
    for axes, curve in zip(panels, curves, strict=True):
        axes.plot(shifts, curve, "-" if number else "--", color=COLOURS[number], label=name)
for axes, title in zip(panels, ("value", "slope"), strict=True):
    axes.axvline(1, color="0.8", zorder=0)
    axes.set(xlabel="shift of the second box", title=title)
panels[0].legend()
show(
    figure,
    "IoU and GIoU of two equal squares, and their slopes. Beyond a shift of 1 the IoU is 0 and its "
    "slope is 0. The GIoU still falls, so its gradient pulls the boxes together.",
)

# %% [markdown]
# ## Which prediction belongs to which target?
#
# DETR always makes the same number of predictions, here 6, more than any scene has objects. Each
# target is matched with one prediction, and the others should have the class "no object". A good
# pair has the right class and a similar box. Target $i$ has the class $c_i$ and the box $b_i$.
# Prediction $j$ has the class probabilities $\hat p_j$ and the box $\hat b_j$. The cost of matching
# the two is (section 3.1 and appendix A.2)
#
# $$-\hat p_j(c_i) + 5\,\lVert b_i - \hat b_j\rVert_1 - 2\,\mathrm{GIoU}(b_i, \hat b_j).$$

# %% [markdown] tags=["your-turn"]
# ## Your turn: the matching cost
#
# Write `pair_costs(logits, boxes, labels, target_boxes)` for one image. `logits` has shape (query,
# classes + 1), `boxes` (query, 4), `labels` (target,) and `target_boxes` (target, 4). All boxes are
# given as center, width and height. Return the costs, of shape (query, target).
#
# *Hint:* `box.center_to_corners_format` converts centers, and `box.generalized_box_iou` compares
# all pairs. Note that the cost uses the probability, not its logarithm.


# %% tags=["answer"]
def pair_costs(logits, boxes, labels, target_boxes):
    """Return the cost of matching each prediction with each target, shape (query, target)."""
    probability = mt.softmax(logits, -1)[:, labels]
    distance = (boxes.unsqueeze(1) - target_boxes).abs().sum(-1)
    corners = box.center_to_corners_format(boxes)
    overlap = box.generalized_box_iou(corners, box.center_to_corners_format(target_boxes))
    return 5 * distance - probability - 2 * overlap


# %% tags=["check"]
check(
    pair_costs,
    cases=[
        (mt.randn(5, 4), mt.rand(5, 4), mt.tensor([2, 0, 2]), mt.rand(3, 4)),
        (mt.randn(2, 3), mt.rand(2, 4), mt.tensor([1]), mt.rand(1, 4)),
    ],
    expected=lambda logits, boxes, labels, target_boxes: matching.matching_cost(
        logits, boxes, labels, target_boxes, 1, 5, 2
    ),
    properties={
        "no cost is below -3": lambda y, *arguments: y.min() >= -3,
    },
)  # fmt: skip

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Two predictions (rows) and two targets (columns) have the costs
#
# $$\begin{pmatrix} 1 & 2 \\ 2 & 10 \end{pmatrix}.$$
#
# A greedy matching takes the cheapest pair first, then the cheapest of the remaining pairs. Which
# pairs does it take, and what do they cost in total? Is there a cheaper matching? Write down both
# totals, then run the next cell.

# %%
cost = np.array([[1.0, 2.0], [2.0, 10.0]])
left, greedy = cost.copy(), 0.0
for _ in range(2):
    row, column = np.unravel_index(left.argmin(), left.shape)
    greedy += cost[row, column]
    print(f"greedy: prediction {row} and target {column}, cost {cost[row, column]:.0f}")
    left[row], left[:, column] = np.inf, np.inf
best = cost[matching.assign(cost)].sum()
print(f"greedy matching {greedy:.0f}, optimal matching {best:.0f}")
assert greedy == 11 and best == 4

# %% [markdown]
# The greedy matching first takes the pair with cost 1, and is then left with the pair with cost 10.
# The optimal matching does not contain the cheapest pair. The Hungarian method (Kuhn 1955) finds
# the optimal matching of $n$ pairs in a time proportional to $n^3$, although there are $n!$
# matchings.
#
# Here are made-up predictions for one scene. They are the four targets in a different order, each
# moved at random, plus two boxes that belong to no target.

# %%
generator = np.random.default_rng(2)
number = next(n for n, labels in enumerate(scenes.labels) if len(labels) == 4)
truth = targets[number]
order = generator.permutation(4)
guess = truth["boxes"].numpy()[order] + generator.uniform(-0.05, 0.05, (4, 4))
extra = np.array([[0.55, 0.8, 0.2, 0.15], [0.85, 0.65, 0.15, 0.2]])
boxes = mt.tensor(np.concatenate([guess, extra]).astype(np.float32))
logits = mt.zeros(6, 11)
for query, target in enumerate(order):
    logits[query, truth["class_labels"][int(target)].item()] = 4.0
costs = matching.matching_cost(logits, boxes, truth["class_labels"], truth["boxes"], 1, 5, 2)
print(costs.numpy().round(1))
pairs = matching.assign(costs.numpy())
print("prediction", pairs[0], "with target", pairs[1])
assert (pairs[0] == np.arange(4)).all() and (pairs[1] == order).all()

# %% tags=["plot"]
figure = new_figure(4.5, 4.6)
axes = figure.subplots()
axes.imshow(1 - scenes.images[number, 0], cmap="gray", vmin=-1, vmax=1, extent=(0, SIDE, SIDE, 0))


def draw(centers, color, style, names):
    """Draw boxes with names. Each box is given as (center x, center y, width, height)."""
    for (x, y, width, height), name in zip(centers * SIDE, names, strict=True):
        x0, x1, y0, y1 = x - width / 2, x + width / 2, y - height / 2, y + height / 2
        axes.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], style, color=color)
        at = (x0, y0 - 1, "bottom") if style == "-" else (x1, y1 + 1, "top")
        axes.text(*at[:2], name, color=color, va=at[2], ha="left" if style == "-" else "right")


places, found = truth["boxes"].numpy(), boxes.numpy()
draw(places, COLOURS[0], "-", [f"target {n}" for n in range(4)])
draw(found[:4], COLOURS[1], "--", [f"prediction {n}" for n in range(4)])
draw(found[4:], "0.45", ":", ["no object"] * 2)
for query, target in zip(*pairs, strict=True):
    line = np.stack([found[query, :2], places[target, :2]]) * SIDE
    axes.plot(*line.T, "o-", color="black", markersize=3)
axes.set(xticks=[], yticks=[])
show(
    figure,
    "Targets (solid, blue) and predictions (dashed, orange). Black lines join the centers of the "
    "matched pairs. The two other predictions (dotted, gray) should have the class \"no object\".",
)  # fmt: skip

# %% [markdown]
# ## A loss for sets
#
# Given the matching, the loss is simple (Eq. 2): the cross-entropy of all predictions, with the
# class "no object" where there is no target, plus 5 times the L1 distance and 2 times
# $1 - \mathrm{GIoU}$ of the matched boxes. Most predictions have no target, so "no object" gets
# only a tenth of the weight. If you shuffle the targets or the predictions, the matching follows,
# so the loss stays the same.


# %%
def set_loss_of(logits, boxes, target):
    """Return the loss of DETR for one image."""
    losses = set_loss.hungarian_loss(
        logits.unsqueeze(0), boxes.unsqueeze(0), [target], 10, 0.1, 1, 5, 2
    )
    return set_loss.total_loss(losses).item()


def by_order_of(logits, boxes, target):
    """Return the loss for one image if target n is matched with prediction n."""
    pairs = [(np.arange(len(target["boxes"])),) * 2]
    losses = set_loss.matched_losses(logits.unsqueeze(0), boxes.unsqueeze(0), [target], pairs)
    return set_loss.total_loss(losses).item()


swapped = {key: value[mt.tensor([2, 0, 3, 1])] for key, value in truth.items()}
turned = mt.tensor([5, 3, 0, 4, 1, 2])
found = {}
for name, loss in (("Hungarian", set_loss_of), ("by order", by_order_of)):
    found[name] = (
        loss(logits, boxes, truth), loss(logits, boxes, swapped),
        loss(logits[turned], boxes[turned], truth),
    )  # fmt: skip
    print(f"{name:9}", "  targets shuffled, predictions shuffled:", np.round(found[name], 3))
assert np.ptp(found["Hungarian"]) < 1e-5 < 0.1 < np.ptp(found["by order"])

# %% [markdown]
# ## Object queries
#
# The encoder reads the feature map of the image, as a ViT does. The decoder starts from $N$ learned
# vectors, the *object queries*. There is no causal mask: the queries attend to each other and to
# the image, and each query becomes one prediction. Like the targets, the queries are a set: if you
# permute them, the predictions are permuted in the same way.

# %%
backbone = mt.nn.Conv2d(1, 5, kernel_size=8, stride=8)  # a map of 8 x 8
model = detr.DETR(backbone, 5, 10, 6, 32, 4, 64, num_encoder_layers=1, num_decoder_layers=2)
model.eval()
with mt.no_grad():
    before = model(mt.tensor(scenes.images[:2]))[1]
    queries = model.query_positions.weight
    queries.data = queries.data[turned]
    after = model(mt.tensor(scenes.images[:2]))[1]
    queries.data = mt.ones(6, 32)
    equal = model(mt.tensor(scenes.images[:2]))[1]
print("boxes (batch, query, 4):", before.shape)
difference = abs(after - before[:, turned]).max().item()
print(f"permuted queries: permuted boxes differ by at most {difference:.1e}")
print(f"equal queries: the 6 boxes differ by at most {np.ptp(equal.numpy(), 1).max():.1e}")
assert difference < 1e-5
assert np.ptp(equal.numpy(), 1).max() < 1e-6 < np.ptp(before.numpy(), 1).max()

# %% [markdown]
# If all queries have the same vector, they predict the same box six times: only their learned
# vectors distinguish them. Because the queries attend to each other, they can agree on which query
# predicts which object. This is why DETR does not need a step that removes duplicates.
#
# ## What goes wrong if targets are matched by order
#
# We train the decoder alone, in three runs. In place of an image, each of the 12 scenes has four
# learned vectors that the queries attend to. So the model can memorize the scenes, and the runs
# differ only in their loss. The first run matches the targets by order, the second one with the
# Hungarian method. An annotation has no order, so we shuffle the targets in every step. DETR also
# computes the loss for the output of every decoder layer, each with its own matching ("auxiliary
# decoding losses", section 3.2), and so do the first two runs. The third run uses the Hungarian
# method, but only the loss of the last layer.


# %%
class SceneDecoder(mt.nn.Module):
    """DETR's decoder, which attends to learned vectors instead of an image."""

    def __init__(self, scenes, dim=32):
        super().__init__()
        self.detr = detr.DETR(
            mt.nn.Identity(), 1, 10, 6, dim, 4, 64, 0, num_decoder_layers=3, dropout=0.0
        )
        self.memory = mt.nn.Parameter(mt.randn(scenes, 4, dim))

    def forward(self):
        """Return logits and boxes of all layers, (layer, scene, query, ...)."""
        return self.detr.predict(self.detr.decode(self.memory))


def loss_by_order(logits, boxes, targets):
    """Return the loss of all layers, with target n matched with prediction n."""
    pairs = [(np.arange(len(target["boxes"])),) * 2 for target in targets]
    layers = zip(logits, boxes, strict=True)
    losses = [set_loss.matched_losses(*layer, targets, pairs) for layer in layers]
    return sum(set_loss.total_loss(loss) for loss in losses)


def loss_by_matching(logits, boxes, targets):
    """Return the loss of all layers, each matched by the Hungarian method."""
    losses = set_loss.auxiliary_losses(logits, boxes, targets, 10, 0.1, 1, 5, 2)
    return set_loss.total_loss(losses)


def loss_of_last(logits, boxes, targets):
    """Return the loss of the last layer only, matched by the Hungarian method."""
    return loss_by_matching(logits[-1:], boxes[-1:], targets)


# %%
def precision(logits, boxes):
    """Return the average precision at an IoU of 0.5, in percent."""
    found = detr.detections(logits, boxes, [(SIDE, SIDE)] * len(targets))
    truth = [
        {"class_labels": labels, "boxes": corners}
        for labels, corners in zip(scenes.labels, scenes.boxes, strict=True)
    ]
    return 100 * detr.average_precision(found, truth)["AP50"]


def train(loss_of, steps):
    """Train a model. Return the last layer's loss at every step, and the AP50 of each layer."""
    mt.manual_seed(3)
    generator, model, curve = np.random.default_rng(5), SceneDecoder(len(targets)), []
    optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(steps):
        orders = [mt.tensor(generator.permutation(len(t["boxes"]))) for t in targets]
        shuffled = [
            {key: value[order] for key, value in target.items()}
            for target, order in zip(targets, orders, strict=True)
        ]
        logits, boxes = model()
        loss = loss_of(logits, boxes, shuffled)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with mt.no_grad():
            curve.append(loss_of(logits[-1:], boxes[-1:], shuffled).item())
    return curve, [precision(*layer) for layer in zip(*model(), strict=True)]


runs = {
    "by order": train(loss_by_order, pick(300, 90)),
    "Hungarian": train(loss_by_matching, pick(300, 90)),
    "Hungarian, last layer only": train(loss_of_last, pick(300, 90)),
}
print("run                          last loss    AP50 after decoder layer 1, 2, 3")
for name, (curve, found) in runs.items():
    print(f"{name:28} {np.mean(curve[-10:]):8.2f}", "      ", *[f"{ap:6.0f}" for ap in found])
assert runs["Hungarian"][1][2] > 2 * runs["by order"][1][2]
assert np.mean(runs["Hungarian"][0][-10:]) < 0.5 * np.mean(runs["by order"][0][-10:])

# %% tags=["plot"]
figure = new_figure(6, 3.2)
axes = figure.subplots()
styles = ("-", "--", ":")
for (name, (curve, _)), style, color in zip(runs.items(), styles, COLOURS, strict=False):
    axes.plot(np.arange(1, len(curve) + 1), curve, style, color=color, label=name)
axes.set(xlabel="step", ylabel="loss of the last layer", yscale="log")
axes.legend()
show(
    figure,
    "Loss of the last layer, computed with each run's own matching. With targets matched by "
    "order, the loss stays high. With the Hungarian matching it falls, with or without the losses "
    "of the other layers.",
)

# %% [markdown]
# If targets are matched by order, prediction 0 must find the digit 3 in one step and the digit 8 in
# the next. The best possible prediction is then an average over all objects of the scene: a box in
# the middle that fits none of the objects. More capacity or more time would not help, because the
# gradients contradict each other.
#
# The auxiliary losses hardly change the loss of the last layer here. But without them the first two
# layers predict nothing useful, because no loss depends on their predictions. In DETR with its six
# layers, the auxiliary losses help the model output the right number of objects of each class
# (section 3.2). They also make it possible to remove the last layers of a trained model.
#
# AP50, the average precision at an IoU of 0.5, is a common measure for detectors. Predictions are
# sorted by their score. A prediction is correct if it has the right class and an IoU of at least
# 0.5 with a target that no earlier prediction has taken. So AP50 matches greedily, in the order of
# the scores. The loss uses the Hungarian method, because it needs a prediction for every target, at
# the smallest total cost.
#
# ## In the library

# %%
from minitorch_attn.models.average_precision import average_precision

where(
    box.paired_generalized_iou, matching.matching_cost, matching.assign_rows,
    set_loss.hungarian_loss, set_loss.auxiliary_losses, detr.DETR, average_precision,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# A model can memorize any fixed order. Sort the targets of each scene from left to right before
# `loss_by_order`, and train again. How low does the loss get now, and what is the AP50? Then
# imagine images of two objects, one above the other, and let one of them move slowly to the right.
# At which moment does the sorted loss suddenly ask for different predictions, although the images
# hardly differ? Does the Hungarian loss do the same?
#
# Then train a detector on new scenes: `mta train detr`.
#
# Then practice:
#
# ```sh
# mta exercise start 52
# mta exercise start 53
# ```
#
# ## Three questions
#
# 1. Why does the matching need no gradient, although the loss depends on it?
# 2. What would happen if every target were simply matched with its cheapest prediction, so that two
#    targets could share a prediction? And if every prediction were matched with its cheapest
#    target?
# 3. Why does the loss have both the L1 distance and the generalized IoU?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The matching is a choice among finitely many assignments. A small change in the predictions
#    almost never changes it, so its derivative is 0 where it exists.
# 2. If two targets share a prediction, this prediction is pulled toward both, and one object is
#    missed. If every prediction is matched with a target, no prediction has the class "no object",
#    and each object is found several times, so duplicates must be removed afterwards.
# 3. With the same relative error, the L1 distance is larger for large boxes, so by itself it would
#    neglect small boxes. The generalized IoU does not depend on the size of the boxes.
