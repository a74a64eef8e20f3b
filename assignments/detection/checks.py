"""Checks of the detection assignment: the library computes the expected values."""

import numpy as np

from minitorch_attn.grader.build.checking import call_check, check, gradient_check

CORNERS = "minitorch_attn.models.boxes:center_to_corners_format"
OVERLAP = "minitorch_attn.models.boxes:_overlap"
GIOU = "minitorch_attn.models.boxes:paired_generalized_iou"
COST = "minitorch_attn.models.matching:matching_cost"
CLASS = "minitorch_attn.models.set_loss:class_loss"
BOX = "minitorch_attn.models.set_loss:box_losses"

# Boxes (left, top, right, bottom), named by their position relative to FIRST.
FIRST = [0.0, 0.0, 3.0, 2.0]
APART = {
    "to the right": [4.0, 0.5, 6.0, 1.5],
    "below": [1.0, 3.0, 2.0, 7.0],
    "to the right and below": [4.0, 3.0, 5.0, 5.0],
    "touching edges": [3.0, 0.5, 4.0, 1.5],
    "touching corners": [3.0, 2.0, 5.0, 3.0],
    "inside": [1.0, 0.5, 2.0, 1.0],
}
FAR = [0.2, 0.1, 0.2, 0.1], [0.8, 0.9, 0.1, 0.2]  # two boxes in center format, far from each other


def centers(rng, *shape):
    """Draw random boxes in center format. Most pairs overlap."""
    return np.concatenate([rng.random((*shape, 2)), 0.3 + 0.7 * rng.random((*shape, 2))], axis=-1)


def corners(rng, *shape):
    """Draw random boxes in corner format. About one in three pairs does not overlap."""
    first = rng.random((*shape, 2))
    return np.concatenate([first, first + 0.2 + rng.random((*shape, 2))], axis=-1)


def close(rng, *shape):
    """Draw two arrays of boxes in corner format. Boxes at the same index overlap."""
    first = corners(rng, *shape)
    return first, first + 0.08 * rng.random((*shape, 4))


def pairs_check(name, function, boxes1, boxes2, dtype="float64", **options):
    """Create a check of a function that compares the boxes at the same index."""
    arrays = {"boxes1": np.asarray(boxes1, dtype), "boxes2": np.asarray(boxes2, dtype)}
    return call_check(name, function, arrays, **options)


def to_corners(rng):
    return [
        call_check("a list of boxes", CORNERS, {"boxes": centers(rng, 5)}),
        call_check("boxes of several images", CORNERS, {"boxes": centers(rng, 2, 3)}),
        call_check("one box", CORNERS, {"boxes": centers(rng)}),
    ]


def overlap(rng):
    return [
        pairs_check("boxes that overlap", OVERLAP, *close(rng, 5)),
        pairs_check("one inside the other", OVERLAP, [FIRST], [APART["inside"]]),
        pairs_check("equal boxes", OVERLAP, [FIRST], [FIRST]),
    ]


def overlap_none(rng):
    named = [pairs_check(name, OVERLAP, [FIRST], [box]) for name, box in APART.items()]
    return [*named, pairs_check("random boxes", OVERLAP, corners(rng, 40), corners(rng, 40))]


def giou(rng):
    return [
        pairs_check("boxes that overlap", GIOU, *close(rng, 5)),
        pairs_check("boxes that do not overlap", GIOU, [FIRST], [APART["to the right"]]),
        pairs_check("every pair", GIOU, corners(rng, 3, 1), corners(rng, 4)),
    ]


def giou_gradients(rng):
    near = pairs_check("boxes that overlap", GIOU, *close(rng, 5))
    far = pairs_check("boxes that do not overlap", GIOU, [FIRST], [APART["to the right and below"]])
    return [gradient_check(near, rng), gradient_check(far, rng)]


def giou_hard(rng):
    named = [pairs_check(name, GIOU, [FIRST], [box]) for name, box in APART.items()]
    single = [corners(rng, 6) for _ in range(2)]
    pixels = [600 * corners(rng, 6) for _ in range(2)]
    return [
        *named,
        pairs_check("float32", GIOU, *single, dtype="float32", rtol=1e-5),
        pairs_check("boxes in pixels", GIOU, *pixels),
        pairs_check("no boxes", GIOU, np.zeros((0, 4)), np.zeros((0, 4))),
    ]


def costs(name, rng, lead=(), sizes=(5, 3), classes=4, scale=1.0, dtype="float64", rtol=1e-7,
          **weights):  # fmt: skip
    """Create a check of the matching cost for random predictions and targets."""
    queries, targets = sizes
    arrays = {
        "logits": (scale * rng.normal(size=(*lead, queries, classes + 1))).astype(dtype),
        "boxes": centers(rng, *lead, queries).astype(dtype),
        "labels": rng.integers(0, classes, (*lead, targets)),
        "target_boxes": centers(rng, *lead, targets).astype(dtype),
    }
    return call_check(name, COST, arrays, weights, rtol=rtol)


def cost(rng):
    return [costs("one image", rng), costs("a batch", rng, lead=(2,))]


def cost_weights(rng):
    zero = {"class_cost": 0, "bbox_cost": 0, "giou_cost": 0}
    alone = [costs(f"{name} alone", rng, **{**zero, name: 2.0}) for name in zero]
    return [*alone, costs("DETR's weights", rng, class_cost=1, bbox_cost=5, giou_cost=2)]


def cost_hard(rng):
    return [
        costs("more targets than queries", rng, sizes=(2, 7)),
        costs("layers and images", rng, lead=(3, 2)),
        costs("an image without targets", rng, lead=(2,), sizes=(4, 0)),
        costs("large logits", rng, scale=2000.0),
        costs("float32", rng, dtype="float32", rtol=1e-5),
    ]


def assigned(inputs, settings):
    """Run `assign_rows` on a matrix of costs."""
    import numpy as np

    from minitorch_attn.models.matching import assign_rows

    cost = inputs["cost"].copy()
    return {"column": np.asarray(assign_rows(cost)), "cost afterwards": cost}


def assignment_check(name, cost, **options):
    return check(name, assigned, {"cost": cost}, **options)


def chain(rng, size):
    """Return costs for which most rows prefer a column that another row needs more."""
    cost = np.outer(rng.permutation(size) + 1.0, rng.permutation(size) + 1.0)
    return cost + 1e-3 * rng.random((size, size))


def cycle(rng, size):
    """Return costs whose total is smallest if each row takes the next column instead of its own.

    Swapping the columns of only two rows increases the total cost.
    """
    cost = np.full((size, size), 9.0)
    rows = np.arange(size)
    cost[rows, rows], cost[rows, (rows + 1) % size] = 2.0, 1.0
    return cost + 1e-3 * rng.random((size, size))


def assign_rows(rng):
    return [
        assignment_check("greedy is not optimal", np.array([[1.0, 2.0, 9.0], [1.0, 4.0, 3.5]])),
        assignment_check("5 rows, each of which moves another row", chain(rng, 5)),
        assignment_check("all rows move at once", cycle(rng, 3)),
        assignment_check("as many columns as rows", rng.random((7, 7))),
        assignment_check("7 rows, each of which moves another row", chain(rng, 7)),
        assignment_check("more columns than rows", rng.normal(size=(5, 7))),
        assignment_check("one row", rng.normal(size=(1, 5))),
    ]


def assign_rows_large(rng):
    return [
        assignment_check("30 of 100 columns", rng.random((30, 100)), limit_s=1.0),
        assignment_check("60 of 60 columns", rng.normal(size=(60, 60)), limit_s=1.0),
        assignment_check("40 rows, each of which moves another row", chain(rng, 40), limit_s=1.0),
    ]


def assign_rows_hard(rng):
    return [
        assignment_check("no rows", np.zeros((0, 4))),
        assignment_check("negative costs", cycle(rng, 6) - 20.0),
        assignment_check("large costs", 1e8 * rng.normal(size=(6, 6))),
        assignment_check("float32", chain(rng, 6).astype("float32")),
    ]


def classified(name, rng, batch=3, queries=4, classes=5, matched=0.5, dtype="float64", rtol=1e-7,
               **keywords):  # fmt: skip
    """Create a check of the class loss. A fraction `matched` of the predictions has a target."""
    labels = rng.integers(0, classes, (batch, queries))
    labels[rng.random((batch, queries)) >= matched] = classes
    labels[0, :2] = (0, classes) if 0 < matched < 1 else labels[0, :2]
    logits = rng.normal(size=(batch, queries, classes + 1)).astype(dtype)
    return call_check(name, CLASS, {"logits": logits, "labels": labels}, keywords, rtol=rtol)


def class_loss(rng):
    return [
        classified("the default weight", rng),
        classified("another weight", rng, eos_coef=0.35),
        classified("equal weights", rng, eos_coef=1.0),
    ]


def class_loss_hard(rng):
    return [
        classified("no targets", rng, matched=0.0),
        classified("a target for each query", rng, matched=1.0),
        classified("float32", rng, dtype="float32", rtol=1e-5),
        gradient_check(classified("some targets", rng, eos_coef=0.2), rng),
    ]


def far_and_near(rng, pairs):
    """Draw pairs of boxes in center format. The boxes of the first pair are far from each other."""
    arrays = {"boxes": centers(rng, pairs), "target_boxes": centers(rng, pairs)}
    arrays["boxes"][:1], arrays["target_boxes"][:1] = FAR
    return arrays


def box_pairs(name, rng, pairs=4, num_boxes=4, dtype="float64", **options):
    """Create a check of the box losses."""
    arrays = {key: boxes.astype(dtype) for key, boxes in far_and_near(rng, pairs).items()}
    return call_check(name, BOX, arrays, {"num_boxes": num_boxes}, **options)


def box_losses(rng):
    return [
        box_pairs("each target is matched", rng),
        box_pairs("more targets than pairs", rng, num_boxes=7),
    ]


def box_gradients(inputs, settings):
    """Return the gradients of the two box losses, each with respect to the predicted boxes."""
    import minitorch_attn as mt
    from minitorch_attn.models.set_loss import box_losses

    found = {}
    for i, name in enumerate(("L1", "GIoU")):
        boxes = mt.tensor(inputs["boxes"], requires_grad=True)
        box_losses(boxes, mt.tensor(inputs["target_boxes"]), settings["num_boxes"])[i].backward()
        if boxes.grad is None:
            raise ValueError(f"the gradient of the {name} loss is missing")
        found[f"grad_boxes of {name}"] = boxes.grad.numpy()
    return found


def box_losses_gradients(rng):
    return [check("5 pairs", box_gradients, far_and_near(rng, 5), {"num_boxes": 6})]


def box_losses_hard(rng):
    return [
        box_pairs("no pairs", rng, pairs=0, num_boxes=1),
        box_pairs("float32", rng, dtype="float32", rtol=1e-5),
    ]


def losses(inputs, settings):
    """Compute the losses of a batch for a given matching, and the gradients of their sum."""
    import numpy as np

    import minitorch_attn as mt
    from minitorch_attn.models.set_loss import matched_losses

    images = range(settings["images"])
    targets = [
        {"class_labels": mt.tensor(inputs[f"labels {i}"]), "boxes": mt.tensor(inputs[f"boxes {i}"])}
        for i in images
    ]
    pairs = [(inputs[f"prediction {i}"], inputs[f"target {i}"]) for i in images]
    logits = mt.tensor(inputs["logits"], requires_grad=True)
    boxes = mt.tensor(inputs["boxes"], requires_grad=True)
    losses = matched_losses(logits, boxes, targets, pairs, settings["eos_coef"])
    found = {name: np.asarray(loss.detach().numpy()) for name, loss in losses.items()}
    (losses["loss_ce"] + 5.0 * losses["loss_bbox"] + 2.0 * losses["loss_giou"]).backward()
    for name, x in (("logits", logits), ("boxes", boxes)):
        if x.grad is None:
            raise ValueError(f"the gradient of the {name} is missing")
        found[f"grad_{name}"] = x.grad.numpy()
    return found


def batch(rng, counts, queries, classes=4, dtype="float64"):
    """Draw predictions, and targets of images with the given numbers of objects.

    The targets of an image have different classes, unless there are more targets than classes.
    """
    inputs = {
        "logits": rng.normal(size=(len(counts), queries, classes + 1)),
        "boxes": centers(rng, len(counts), queries),
    }
    for i, count in enumerate(counts):
        inputs[f"boxes {i}"] = centers(rng, count)
        inputs[f"labels {i}"] = rng.permutation(max(count, classes))[:count] % classes
    return {key: a if a.dtype.kind == "i" else a.astype(dtype) for key, a in inputs.items()}


def matched(name, rng, counts=(2, 3, 1), queries=5, wanted=("loss_ce", "loss_bbox", "loss_giou",
            "cardinality_error"), dtype="float64", rtol=1e-7, eos_coef=0.1):  # fmt: skip
    """Create a check of the losses of a batch with a random matching."""
    inputs = batch(rng, counts, queries, dtype=dtype)
    for i, count in enumerate(counts):
        size = min(count, queries)
        inputs[f"prediction {i}"] = np.sort(rng.permutation(queries)[:size])
        inputs[f"target {i}"] = np.roll(np.arange(count), 1)[:size]
        inputs["boxes"][i, inputs[f"prediction {i}"][:1]] = FAR[0]
        inputs[f"boxes {i}"][inputs[f"target {i}"][:1]] = FAR[1]
    settings = {"images": len(counts), "eos_coef": eos_coef}
    return check(name, losses, inputs, settings, wanted=list(wanted), rtol=rtol)


def matched_losses(rng):
    return [
        matched("several images", rng),
        matched("one image", rng, counts=(3,), queries=7),
        matched("a different weight for no object", rng, eos_coef=0.5),
    ]


def matched_losses_gradients(rng):
    return [matched("several images", rng, wanted=("grad_logits", "grad_boxes"))]


def matched_losses_hard(rng):
    return [
        matched("images without targets", rng, counts=(0, 2, 0)),
        matched("no targets in the batch", rng, counts=(0, 0)),
        matched("more targets than queries", rng, counts=(6, 1), queries=3),
        matched("float32", rng, dtype="float32", rtol=1e-5),
    ]


def reordered(inputs, settings):
    """Compute a batch's loss twice, the second time with targets, queries and images reordered."""
    import numpy as np

    import minitorch_attn as mt
    from minitorch_attn.models.set_loss import hungarian_loss

    images = range(settings["images"])
    orders = [np.arange(len(inputs[f"labels {i}"])) for i in images]
    queries = np.arange(inputs["logits"].shape[1])
    found = {}
    for word in ("given", "other"):
        if word == "other":
            orders = [inputs[f"order {i}"] for i in images]
            queries, images = inputs["order"], list(images)[::-1]
        targets = [
            {"class_labels": mt.tensor(inputs[f"labels {i}"][orders[i]]),
             "boxes": mt.tensor(inputs[f"boxes {i}"][orders[i]])}
            for i in images
        ]  # fmt: skip
        logits, boxes = (
            mt.tensor(inputs[k][list(images)][:, queries]) for k in ("logits", "boxes")
        )
        losses = hungarian_loss(
            logits, boxes, targets, logits.shape[-1] - 1, bbox_cost=5, giou_cost=2
        )
        found |= {f"{name}, {word} order": np.asarray(x.numpy()) for name, x in losses.items()}
    return found


def ordered(name, rng, counts, queries):
    inputs = batch(rng, counts, queries) | {"order": rng.permutation(queries)}
    inputs |= {f"order {i}": rng.permutation(count) for i, count in enumerate(counts)}
    return check(name, reordered, inputs, {"images": len(counts)})


def order(rng):
    return [
        ordered("several images", rng, (7, 4, 6), 8),
        ordered("an image without targets", rng, (7, 0), 7),
        ordered("more targets than queries", rng, (3, 8), 5),
    ]
