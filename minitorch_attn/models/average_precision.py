"""Average precision of object detections, as defined by the COCO evaluation.

Lin et al. 2014, "Microsoft COCO: Common Objects in Context", arXiv:1405.0312v3. COCO's evaluation
program (cocodataset.org/#detection-eval) defines the exact computation. This module uses NumPy,
because it does not need gradients.
"""

from ..backend import as_device, module_for, to_host
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor

__all__ = ["average_precision", "match_by_score", "precision_at_recalls"]

xp = module_for(as_device("cpu"))  # sorting and counting run on the host

THRESHOLDS = xp.linspace(0.5, 0.95, 10)  # minimum IoU of a match
RECALLS = xp.linspace(0.0, 1.0, 101)
MOST = 100  # largest number of predictions per image and class
AREAS = {"": (0, xp.inf), "s": (0, 32**2), "m": (32**2, 96**2), "l": (96**2, xp.inf)}  # in pixels


@names_arguments
def average_precision(predictions, targets):
    r"""Compute COCO's six average precisions from a detector's predictions.

    Parameters
    ----------
    predictions : list of dict
        For each image, `scores` (prediction,), `labels` (prediction,) and `boxes` (prediction, 4),
        as arrays or tensors. Boxes are in corner format, in pixels.
    targets : list of dict
        For each image, `class_labels` (target,) and `boxes` (target, 4). Two fields are optional:
        `iscrowd` (target,) marks boxes around groups of objects, and `area` (target,) is by default
        the area of the box.

    Returns
    -------
    dict of float
        `AP` is the mean over the thresholds 0.5, 0.55, ..., 0.95 of the IoU (intersection over
        union). `AP50` and `AP75` use the thresholds 0.5 and 0.75. `APs`, `APm` and `APl` are like
        `AP`, but for targets with an area below 32^2 pixels, from 32^2 to 96^2, and above. A value
        is -1 if there are no targets for it.

    Notes
    -----
    For each class and threshold, the predictions of all images are sorted by score. A prediction is
    correct if it is matched with a target (see `match_by_score`). The precision after the first k
    predictions is the fraction of them that are correct. The recall is the number of correct
    predictions divided by the number of targets. The average precision is the mean of the
    precisions at the 101 recall levels 0, 0.01, ..., 1. The precision at a level is the maximum
    precision at this recall or above, or 0 if this recall is never reached.

    Targets that are crowds or outside the size range are ignored: they are not counted as targets,
    and predictions matched with them are neither correct nor wrong. Unmatched predictions outside
    the size range are also ignored.

    Examples
    --------
    >>> targets = [{"class_labels": [1, 1], "boxes": [[0, 0, 8, 8], [20, 0, 28, 8]]}]
    >>> predictions = [{"scores": [0.9, 0.3], "labels": [1, 1],
    ...                 "boxes": [[0, 0, 8, 8], [9, 9, 12, 12]]}]  # one target is found
    >>> found = average_precision(predictions, targets)
    >>> round(found["AP50"], 4), found["APl"]  # precision 1 at 51 of the 101 levels
    (0.505, -1.0)
    """
    if len(predictions) != len(targets):
        raise ArgumentError(
            "average_precision: predictions and targets have different lengths",
            got=f"{len(predictions)} predictions and {len(targets)} targets",
            expected="one dict of predictions and one of targets for each image",
        )
    found = [_arrays(p, ("scores", "labels"), i, "prediction") for i, p in enumerate(predictions)]
    wanted = [_arrays(t, ("class_labels",), i, "target") for i, t in enumerate(targets)]
    classes = xp.unique(xp.concatenate([xp.zeros(0, int), *[t["class_labels"] for t in wanted]]))
    table = {area: [] for area in AREAS}  # (class, threshold, recall)
    for label in classes:
        images = [_of_class(p, t, label) for p, t in zip(found, wanted, strict=True)]
        images = [image for image in images if len(image["scores"]) or len(image["crowd"])]
        for area, limits in AREAS.items():
            table[area].append(_precision(images, *limits))
    mean = {area: _mean(xp.array(rows)) for area, rows in table.items()}
    every = xp.array(table[""]).reshape(-1, len(THRESHOLDS), len(RECALLS))
    return {
        "AP": mean[""], "AP50": _mean(every[:, 0]), "AP75": _mean(every[:, 5]),
        "APs": mean["s"], "APm": mean["m"], "APl": mean["l"],
    }  # fmt: skip


def match_by_score(iou, crowd, ignored, thresholds=THRESHOLDS):
    """Match the predictions of one image with its targets, starting with the highest score.

    Parameters
    ----------
    iou : array of shape (prediction, target)
        IoU of each prediction with each target. The predictions are sorted by descending score.
    crowd, ignored : bool array of shape (target,)
        `crowd` marks targets that can be matched any number of times, and `ignored` marks
        targets that do not count.
    thresholds : array of shape (threshold,)
        Minimum IoU of a match.

    Returns
    -------
    int64 array of shape (prediction, threshold)
        Index of the target matched with each prediction, or -1 if it is unmatched.

    Notes
    -----
    A target is available to a prediction if their IoU reaches the threshold, and if the target is
    not matched yet or is a crowd. The available target with the largest IoU is chosen.
    Targets that count take precedence over ignored ones. If several targets have the same IoU, the
    last one is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> none = np.array([False])
    >>> match_by_score(np.array([[0.6], [0.9]]), none, none, np.array([0.5, 0.7])).tolist()
    [[0, -1], [-1, 0]]
    """
    count, targets = iou.shape
    chosen = xp.full((count, len(thresholds)), -1)
    taken = xp.zeros((len(thresholds), targets), bool)
    lowest = xp.minimum(thresholds, 1 - 1e-10)[:, None]
    for i in range(count if targets else 0):
        possible = (iou[i] >= lowest) & (~taken | crowd)  # (threshold, target)
        counting = possible & ~ignored
        possible = xp.where(counting.any(1, keepdims=True), counting, possible)
        value = xp.where(possible, iou[i], -1.0)
        last = targets - 1 - value[:, ::-1].argmax(1)  # the last of the best targets
        chosen[i] = xp.where(possible.any(1), last, -1)
        rows = xp.flatnonzero(chosen[i] >= 0)
        taken[rows, chosen[i, rows]] = True
    return chosen


def precision_at_recalls(scores, right, ignored, num_targets):
    """Compute the precision at 101 recall levels from the predictions of all images.

    Parameters
    ----------
    scores : array of shape (prediction,)
    right, ignored : bool array of shape (prediction,)
        `right` marks predictions that are matched with a target that counts, and `ignored`
        marks predictions that do not count.
    num_targets : int
        Number of targets that count, at least 1.

    Returns
    -------
    array of shape (101,)

    Examples
    --------
    >>> import numpy as np
    >>> right = np.array([True, False, True])
    >>> curve = precision_at_recalls(np.array([0.9, 0.8, 0.7]), right, ~right & False, 4)
    >>> curve[[0, 25, 26, 50, 51]].round(2).tolist()
    [1.0, 1.0, 0.67, 0.67, 0.0]
    """
    order = xp.argsort(-scores, kind="stable")
    order = order[~ignored[order]]
    correct = xp.cumsum(right[order])  # after 1, 2, ... predictions
    recall = correct / num_targets
    precision = correct / xp.arange(1, len(order) + 1)
    highest = xp.maximum.accumulate(precision[::-1])[::-1]  # at this or any higher recall
    place = xp.searchsorted(recall, RECALLS, side="left")
    return xp.append(highest, 0.0)[place]


def _precision(images, smallest, largest):
    """Return an array (threshold, recall) of a class's precisions for a range of target areas.

    A target does not count if it is a crowd or its area is outside this range. If no target counts,
    all precisions are -1.
    """
    scores, right, ignored, count = [], [], [], 0
    for image in images:
        area = image["target_area"]
        outside = image["crowd"] | (area < smallest) | (area > largest)
        chosen = match_by_score(image["iou"], image["crowd"], outside)
        hit = chosen >= 0  # (prediction, threshold)
        does_not_count = xp.append(outside, False)[chosen]
        area = image["area"][:, None]
        unmatched = ~hit & ((area < smallest) | (area > largest))
        scores.append(image["scores"])
        right.append(hit & ~does_not_count)
        ignored.append(does_not_count & hit | unmatched)
        count += int((~outside).sum())
    if count == 0:
        return xp.full((len(THRESHOLDS), len(RECALLS)), -1.0)
    scores, right, ignored = map(xp.concatenate, (scores, right, ignored))
    return xp.array([precision_at_recalls(scores, right[:, t], ignored[:, t], count)
                     for t in range(len(THRESHOLDS))])  # fmt: skip


def _of_class(found, wanted, label):
    """Select the predictions and targets of one class in an image, and compute their IoUs.

    Only the `MOST` predictions with the highest scores are included.
    """
    mine = xp.flatnonzero(found["labels"] == label)
    best = mine[xp.argsort(-found["scores"][mine], kind="stable")[:MOST]]
    theirs = xp.flatnonzero(wanted["class_labels"] == label)
    boxes, targets = found["boxes"][best], wanted["boxes"][theirs]
    size = xp.minimum(boxes[:, None, 2:], targets[:, 2:])
    size = (size - xp.maximum(boxes[:, None, :2], targets[:, :2])).clip(min=0)
    common = size[..., 0] * size[..., 1]  # (prediction, target)
    area, crowd = _area(boxes), wanted["iscrowd"][theirs]
    union = xp.where(crowd, area[:, None], area[:, None] + _area(targets) - common)
    iou = xp.divide(common, union, out=xp.zeros_like(common), where=union > 0)
    return {
        "scores": found["scores"][best], "area": area, "iou": iou, "crowd": crowd,
        "target_area": wanted["area"][theirs],
    }  # fmt: skip


def _area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _mean(precision):
    known = precision[precision > -1]
    return float(known.mean()) if known.size else -1.0


def _arrays(fields, names, i, kind):
    """Convert the predictions or targets of image `i` to NumPy arrays. Check their shapes."""
    arrays = {name: _array(fields[name]) for name in names}
    boxes = _array(fields["boxes"]).astype(xp.float64)
    boxes = boxes.reshape(0, 4) if boxes.size == 0 else boxes
    arrays["boxes"], count = boxes, len(boxes)
    if kind == "target":
        crowd = fields.get("iscrowd")
        area = fields.get("area")
        arrays["iscrowd"] = xp.zeros(count, bool) if crowd is None else _array(crowd) != 0
        arrays["area"] = _area(boxes) if area is None else _array(area)
    wrong = [name for name, a in arrays.items() if name != "boxes" and a.shape != (count,)]
    if boxes.shape != (count, 4) or wrong:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ShapeError(
            f"average_precision: the shapes of the {kind} arrays of image {i} do not match",
            got=shapes, expected=f"boxes ({kind}, 4), and one number per box in the other arrays",
        )  # fmt: skip
    return arrays


def _array(value):
    return xp.asarray(to_host(value.array) if isinstance(value, Tensor) else value)
