"""Hungarian matching: assign each target to one prediction so that the total cost is smallest.

Carion et al. 2020, "End-to-End Object Detection with Transformers" (DETR), arXiv:2005.12872v3,
section 3.1. The assignment itself is SciPy's `linear_sum_assignment`.
"""

from .. import ops
from ..autograd.modes import no_grad
from ..backend import as_device, module_for, to_host
from ..errors import ArgumentError, DataError, ShapeError
from ..named_errors import names_arguments
from ..nn.utils.rnn import pad_sequence
from ..tensor import Tensor, tensor
from .boxes import center_to_corners_format, paired_generalized_iou

__all__ = ["assign", "check_targets", "hungarian_match", "matching_cost"]

xp = module_for(as_device("cpu"))  # the assignment runs on the host


def matching_cost(logits, boxes, labels, target_boxes, class_cost=1, bbox_cost=1, giou_cost=1):
    r"""Compute the cost of matching each prediction with each target of its image.

    Parameters
    ----------
    logits : Tensor of shape (..., query, classes + 1)
    boxes : Tensor of shape (..., query, 4)
        Boxes as centers.
    labels : int64 Tensor of shape (..., target)
    target_boxes : Tensor of shape (..., target, 4)
    class_cost, bbox_cost, giou_cost : float, default 1
        Weights of the three terms.

    Returns
    -------
    Tensor of shape (..., query, target)

    Notes
    -----
    arXiv:2005.12872v3, section 3.1 and appendix A.2: with the class c_i and the box b_i of target i
    and the prediction j,
        cost_ji = - class_cost p_j(c_i) + bbox_cost |b_i - b_j|_1 - giou_cost GIoU(b_i, b_j)
    The cost uses the probability and not its logarithm, so that the terms have similar ranges.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> boxes = mt.tensor([[0.5, 0.5, 0.2, 0.4], [0.5, 0.6, 0.2, 0.4]])
    >>> matching_cost(mt.zeros(2, 4), boxes, mt.tensor([1]), boxes[:1], giou_cost=0)
    tensor([[-0.25],
            [-0.15]])
    """
    probability = ops.softmax(logits, -1)  # (..., query, classes + 1)
    index = labels.unsqueeze(-2).expand(*logits.shape[:-1], labels.shape[-1])
    probability = probability.gather(-1, index)  # (..., query, target)
    boxes, target_boxes = boxes.unsqueeze(-2), target_boxes.unsqueeze(-3)
    distance = (boxes - target_boxes).abs().sum(-1)  # (..., query, target)
    corners = center_to_corners_format(boxes), center_to_corners_format(target_boxes)
    overlap = paired_generalized_iou(*corners)
    return bbox_cost * distance - class_cost * probability - giou_cost * overlap


def assign(cost):
    """Find the assignment with the smallest total cost.

    Parameters
    ----------
    cost : array of shape (prediction, target)
        NumPy array. NaN and infinities count as the largest number, so that these pairs are matched
        only if no others are left.

    Returns
    -------
    prediction, target : int64 array of shape (min(prediction, target),)
        Indices of the matched pairs, with ascending `prediction`.

    Raises
    ------
    DataError
        If SciPy is not installed.

    Notes
    -----
    Kuhn 1955, "The Hungarian method for the assignment problem". SciPy uses a later algorithm
    (Crouse 2016) with the same result, in O(n^3) for n predictions.

    Examples
    --------
    >>> import numpy as np
    >>> assign(np.array([[1.0, 2.0], [0.0, 4.0], [3.0, 3.0]]))
    (array([0, 1]), array([1, 0]))
    """
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise DataError(
            "assign: SciPy, which computes the Hungarian matching, is not installed",
            hint="python -m pip install scipy, or the extra `detection`",
        ) from None
    largest = xp.finfo(cost.dtype).max
    finite = xp.nan_to_num(cost, nan=largest, posinf=largest, neginf=largest)
    prediction, target = linear_sum_assignment(finite)
    return prediction.astype(xp.int64), target.astype(xp.int64)


@names_arguments
def hungarian_match(logits, pred_boxes, targets, class_cost=1, bbox_cost=1, giou_cost=1):
    """Match the targets of each image one to one with predictions, at the smallest total cost.

    Parameters
    ----------
    logits : Tensor of shape (batch, query, classes + 1)
        The last class means "no object".
    pred_boxes : Tensor of shape (batch, query, 4)
        Boxes as centers, relative to the size of the image.
    targets : list of dict
        For each image, `class_labels`, an int64 tensor (target,), and `boxes`, a tensor
        (target, 4).
    class_cost, bbox_cost, giou_cost : float, default 1
        Weights of the terms of `matching_cost`. DETR uses 1, 5 and 2.

    Returns
    -------
    list of (int64 Tensor, int64 Tensor)
        For each image, indices of predictions, in ascending order, and of their targets.

    Raises
    ------
    ArgumentError
        If all weights are 0.
    DataError
        If SciPy is not installed.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> targets = [{"class_labels": mt.tensor([1]), "boxes": mt.tensor([[0.5, 0.5, 0.2, 0.4]])}]
    >>> boxes = mt.tensor([[[0.1, 0.1, 0.1, 0.1], [0.5, 0.6, 0.2, 0.4]]])
    >>> hungarian_match(mt.zeros(1, 2, 3), boxes, targets)
    [(tensor([1]), tensor([0]))]
    """
    pairs = match(logits, pred_boxes, targets, class_cost, bbox_cost, giou_cost)
    device = logits.device
    return [(tensor(i, device=device), tensor(j, device=device)) for i, j in pairs]


def match(logits, pred_boxes, targets, class_cost=1, bbox_cost=1, giou_cost=1):
    """Return what `hungarian_match` returns, as NumPy arrays.

    Predictions may have an additional first axis, (layer, batch, query, ...). The result is then
    one list for all layers, the images of the first layer first.
    """
    if class_cost == 0 and bbox_cost == 0 and giou_cost == 0:
        raise ArgumentError("hungarian_match: all weights of the matching cost are 0")
    check_targets("hungarian_match", logits, pred_boxes, targets)
    counts = [len(target["boxes"]) for target in targets]
    with no_grad():
        labels = pad_sequence([target["class_labels"].to("int64") for target in targets], True)
        boxes = pad_sequence([target["boxes"].to(pred_boxes.dtype) for target in targets], True)
        labels = labels.expand(*logits.shape[:-3], *labels.shape)
        cost = matching_cost(logits, pred_boxes, labels, boxes, class_cost, bbox_cost, giou_cost)
    cost = to_host(cost.array)
    costs = [cost] if cost.ndim == 3 else cost  # one array (batch, query, target) per layer
    return [assign(c[:, :n]) for layer in costs for c, n in zip(layer, counts, strict=True)]


def check_targets(name, logits, boxes, targets):
    """Raise an error if the shapes of predictions and targets do not match."""
    if logits.ndim not in (3, 4) or boxes.shape != (*logits.shape[:-1], 4):
        raise ShapeError(
            f"{name}: logits and pred_boxes do not match",
            got=f"logits {logits.shape}, pred_boxes {boxes.shape}",
            expected="(batch, query, classes + 1) and (batch, query, 4)",
        )
    images = logits.shape[-3]
    if len(targets) != images or not images:
        raise ArgumentError(
            f"{name}: targets must have one dict per image",
            got=f"{len(targets)} targets for {images} images",
            expected="at least one image",
        )
    for i, target in enumerate(targets):
        labels, boxes = (target.get(key) for key in ("class_labels", "boxes"))
        if not (
            isinstance(labels, Tensor)
            and isinstance(boxes, Tensor)
            and labels.ndim == 1
            and labels.dtype.kind == "i"
            and boxes.shape == (len(labels), 4)
        ):
            raise ShapeError(
                f"{name}: target {i} is invalid",
                got=f"class_labels {_shown(labels)}, boxes {_shown(boxes)}",
                expected="class_labels, an int64 tensor (target,), and boxes, a tensor (target, 4)",
            )


def _shown(value):
    return f"{value.dtype} {value.shape}" if isinstance(value, Tensor) else type(value).__name__
