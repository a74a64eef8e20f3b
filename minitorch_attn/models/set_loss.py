"""DETR's set loss: match predictions with targets, then compute class and box losses.

Carion et al. 2020, arXiv:2005.12872v3, section 3.1 and appendix A.2. An unmatched prediction should
predict the class "no object". The loss compares two sets, so it does not depend on the order of the
targets or of the queries.
"""

from .. import ops
from ..autograd.modes import no_grad
from ..backend import as_device, module_for
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..nn.functional import cross_entropy
from ..tensor import tensor
from .boxes import center_to_corners_format, paired_generalized_iou
from .matching import match

__all__ = [
    "auxiliary_losses", "box_losses", "cardinality_error", "class_loss", "hungarian_loss",
    "matched_losses", "total_loss",
]  # fmt: skip

xp = module_for(as_device("cpu"))  # indices are computed on the CPU


def class_loss(logits, labels, eos_coef=0.1):
    """Compute the mean cross-entropy over all predictions, with a smaller weight for "no object".

    Parameters
    ----------
    logits : Tensor of shape (batch, query, classes + 1)
    labels : int64 Tensor of shape (batch, query)
        Class of the matched target, or `classes` for an unmatched prediction.
    eos_coef : float, default 0.1
        Weight of the unmatched predictions, which are the majority.

    Returns
    -------
    Tensor of shape ()

    Notes
    -----
    arXiv:2005.12872v3, section 3.1: the weight of "no object" is reduced by a factor of 10. The
    mean is also weighted: the sum is divided by the sum of the weights.
    """
    weight = xp.ones(logits.shape[-1])
    weight[-1] = eos_coef
    weight = tensor(weight, dtype=logits.dtype, device=logits.device)
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), weight)


def box_losses(boxes, target_boxes, num_boxes):
    """Compute the L1 loss and the generalized IoU loss of matched boxes.

    Parameters
    ----------
    boxes, target_boxes : Tensor of shape (pair, 4)
        Boxes in center format.
    num_boxes : int
        Number of targets in the batch. The sums of the losses are divided by this number.

    Returns
    -------
    loss_bbox, loss_giou : Tensor of shape ()

    Notes
    -----
    arXiv:2005.12872v3, Eq. 9 and appendix A.2. At the same relative error, a large box has a
    larger L1 loss than a small one. The generalized IoU does not depend on the scale.
    """
    distance = (boxes - target_boxes).abs().sum()
    overlap = paired_generalized_iou(*map(center_to_corners_format, (boxes, target_boxes)))
    return distance / num_boxes, (1 - overlap).sum() / num_boxes


def cardinality_error(logits, targets):
    """Return the mean absolute error of the predicted number of objects.

    This number is only reported. It is not part of the loss and does not have a gradient.

    Parameters
    ----------
    logits : Tensor of shape (batch, query, classes + 1)
    targets : list of dict
        See `hungarian_loss`. Only `class_labels` is used.

    Returns
    -------
    Tensor of shape ()
    """
    with no_grad():
        found = (logits.argmax(-1) != logits.shape[-1] - 1).sum(1)  # (batch,)
        counts = [len(target["class_labels"]) for target in targets]
        counts = tensor(counts, dtype="int64", device=logits.device)
        return (found - counts).abs().to(logits.dtype).mean()


@names_arguments
def hungarian_loss(
    logits, pred_boxes, targets, num_classes, eos_coef=0.1, class_cost=1, bbox_cost=1, giou_cost=1
):
    r"""Match predictions with targets, and compute the losses of DETR.

    Parameters
    ----------
    logits : Tensor of shape (batch, query, num_classes + 1)
        The last class means "no object".
    pred_boxes : Tensor of shape (batch, query, 4)
        Boxes in center format, relative to the size of the image.
    targets : list of dict
        For each image, `class_labels`, an int64 tensor (target,), and `boxes`, a tensor
        (target, 4).
    num_classes : int
        Number of classes, not counting "no object".
    eos_coef : float, default 0.1
        Weight of "no object" in the class loss.
    class_cost, bbox_cost, giou_cost : float, default 1
        Weights of the matching cost; see `matching_cost`.

    Returns
    -------
    dict of Tensor of shape ()
        The unweighted `loss_ce`, `loss_bbox` and `loss_giou`, and `cardinality_error`, which
        does not have a gradient. `total_loss` computes the weighted sum of the losses.

    Notes
    -----
    Let c_i and b_i be the classes and boxes of the targets, padded with "no object" to the number
    of predictions. With the matching sigma of Eq. 1, the loss is Eq. 2 of Carion et al. 2020 [1]_:
        L = sum_i [ -log p_sigma(i)(c_i) + 1{c_i is an object} L_box(b_i, b_sigma(i)) ]
    The gradient treats the matching as a constant.

    References
    ----------
    .. [1] Carion et al. 2020, arXiv:2005.12872v3, section 3.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> targets = [{"class_labels": mt.tensor([1]), "boxes": mt.tensor([[0.5, 0.5, 0.2, 0.4]])}]
    >>> boxes = mt.tensor([[[0.1, 0.1, 0.1, 0.1], [0.5, 0.5, 0.2, 0.3]]])
    >>> losses = hungarian_loss(mt.zeros(1, 2, 3), boxes, targets, num_classes=2)
    >>> round(losses["loss_bbox"].item(), 3), round(losses["loss_giou"].item(), 3)
    (0.1, 0.25)
    """
    _check_classes("hungarian_loss", logits, num_classes)
    pairs = match(logits, pred_boxes, targets, class_cost, bbox_cost, giou_cost)
    return matched_losses(logits, pred_boxes, targets, pairs, eos_coef)


@names_arguments
def auxiliary_losses(
    logits, pred_boxes, targets, num_classes, eos_coef=0.1, class_cost=1, bbox_cost=1, giou_cost=1,
    sum_layers=False,
):  # fmt: skip
    """Compute the losses of every decoder layer; each layer has its own matching.

    Parameters
    ----------
    logits : Tensor of shape (layer, batch, query, num_classes + 1)
    pred_boxes : Tensor of shape (layer, batch, query, 4)
    targets, num_classes, eos_coef, class_cost, bbox_cost, giou_cost
        See `hungarian_loss`.
    sum_layers : bool, default False
        Whether to return only the sums of the losses over the layers. `total_loss` needs no more,
        and for three layers and small batches, the sums take half of the time.

    Returns
    -------
    dict of Tensor of shape ()
        The losses of the last layer, with the same names as in `hungarian_loss`, and the losses
        of the other layers, with names that end in the layer's number, such as "loss_ce_0". With
        `sum_layers`, the sums, with the names of `hungarian_loss`.

    Notes
    -----
    For the sums, the layers count as images of one larger batch. All layers have the same number of
    targets and of matched predictions, so each loss of this batch is the mean of the layers'
    losses, and the sum is the mean times the number of layers.

    References
    ----------
    .. [1] Carion et al. 2020, arXiv:2005.12872v3, section 3.2, "Auxiliary decoding losses".
    """
    _check_classes("auxiliary_losses", logits, num_classes)
    pairs = match(logits, pred_boxes, targets, class_cost, bbox_cost, giou_cost)
    layers, batch = logits.shape[:2]
    if sum_layers:
        images = logits.flatten(0, 1), pred_boxes.flatten(0, 1)  # (layer * batch, query, ...)
        means = matched_losses(*images, [*targets] * layers, pairs, eos_coef)
        return {name: mean * layers for name, mean in means.items()}
    found = {}
    for n in [layers - 1, *range(layers - 1)]:
        mine = pairs[n * batch : (n + 1) * batch]
        losses = matched_losses(logits[n], pred_boxes[n], targets, mine, eos_coef)
        end = "" if n == layers - 1 else f"_{n}"
        found.update({name + end: loss for name, loss in losses.items()})
    return found


def matched_losses(logits, pred_boxes, targets, pairs, eos_coef=0.1):
    """Compute the losses of `hungarian_loss` for a given matching.

    Parameters
    ----------
    logits, pred_boxes, targets, eos_coef
        See `hungarian_loss`.
    pairs : list of (int64 array, int64 array)
        For each image, the indices of the matched predictions, and the index of the target that
        each of them is matched with.

    Returns
    -------
    dict of Tensor of shape ()
    """
    image, prediction, target = _index_of(pairs, targets)
    device, (batch, queries, classes) = logits.device, logits.shape
    place = tensor(image * queries + prediction, device=device)  # index in (batch * query)
    target = tensor(target, device=device)  # index in the targets of all images
    every = {key: ops.cat([t[key] for t in targets])[target] for key in ("class_labels", "boxes")}
    labels = ops.full((batch * queries,), classes - 1, dtype="int64", device=device)
    labels = labels.index_put((place,), every["class_labels"].to("int64"))
    boxes = pred_boxes.flatten(0, 1)[place]  # (pair, 4)
    count = max(sum(len(t["class_labels"]) for t in targets), 1)
    loss_bbox, loss_giou = box_losses(boxes, every["boxes"].to(boxes.dtype), count)
    return {
        "loss_ce": class_loss(logits, labels.reshape(batch, queries), eos_coef),
        "cardinality_error": cardinality_error(logits, targets),
        "loss_bbox": loss_bbox,
        "loss_giou": loss_giou,
    }


def _index_of(pairs, targets):
    """Return three index arrays with one element for each pair: image, prediction and target.

    The index of a prediction starts at 0 in each image. The index of a target counts the targets of
    the whole batch.
    """
    counts = [len(target["class_labels"]) for target in targets]
    before = xp.cumsum([0, *counts[:-1]])
    image = xp.concatenate([xp.full(len(i), n) for n, (i, _) in enumerate(pairs)])
    prediction = xp.concatenate([i for i, _ in pairs])
    target = xp.concatenate([j + start for (_, j), start in zip(pairs, before, strict=True)])
    return image.astype(xp.int64), prediction, target.astype(xp.int64)


def _check_classes(name, logits, num_classes):
    if logits.shape[-1] != num_classes + 1:
        raise ShapeError(
            f"{name}: the last axis of logits must be num_classes + 1",
            got=f"logits {logits.shape} and num_classes={num_classes}",
        )


def total_loss(losses, bbox_weight=5.0, giou_weight=2.0):
    """Return the weighted sum of the losses of one or several decoder layers.

    Parameters
    ----------
    losses : dict of Tensor
        Result of `hungarian_loss`. Names may end with "_0", "_1" and so on, for auxiliary losses.
    bbox_weight, giou_weight : float
        Weights of the L1 loss and of the generalized IoU loss (appendix A.4). The class loss
        has weight 1.

    Returns
    -------
    Tensor of shape ()

    Examples
    --------
    >>> total_loss({"loss_ce": 1.0, "loss_bbox": 0.5, "loss_giou_0": 0.25, "cardinality_error": 3})
    4.0
    """
    weights = {"loss_ce": 1.0, "loss_bbox": bbox_weight, "loss_giou": giou_weight}
    terms = [(name.rstrip("0123456789").rstrip("_"), loss) for name, loss in losses.items()]
    return sum(weights[name] * loss for name, loss in terms if name in weights)
