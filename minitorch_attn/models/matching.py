"""Hungarian matching: assign each target to one prediction, with the smallest total cost.

Carion et al. 2020, "End-to-End Object Detection with Transformers" (DETR), arXiv:2005.12872v3,
section 3.1. SciPy's `linear_sum_assignment` finds the assignment. If SciPy is not installed,
`assign_rows` finds it.
"""

from .. import ops
from ..autograd.modes import no_grad
from ..backend import as_device, module_for, to_host
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..nn.utils.rnn import pad_sequence
from ..tensor import Tensor, tensor
from .boxes import center_to_corners_format, paired_generalized_iou

__all__ = ["assign", "assign_rows", "check_targets", "hungarian_match", "matching_cost"]

xp = module_for(as_device("cpu"))  # the assignment runs on the host


def matching_cost(logits, boxes, labels, target_boxes, class_cost=1, bbox_cost=1, giou_cost=1):
    r"""Compute the cost of matching each prediction with each target of its image.

    Parameters
    ----------
    logits : Tensor of shape (..., query, classes + 1)
    boxes : Tensor of shape (..., query, 4)
        Boxes in center format.
    labels : int64 Tensor of shape (..., target)
    target_boxes : Tensor of shape (..., target, 4)
    class_cost, bbox_cost, giou_cost : float, default 1
        Weights of the three terms.

    Returns
    -------
    Tensor of shape (..., query, target)

    Notes
    -----
    arXiv:2005.12872v3, section 3.1 and appendix A.2: for prediction j and target i with class
    c_i and box b_i,
        cost_ji = - class_cost p_j(c_i) + bbox_cost |b_i - b_j|_1 - giou_cost GIoU(b_i, b_j)
    The cost uses the probability instead of its logarithm, so that the terms have similar ranges.

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
        NumPy array. NaN and infinity count as larger than every finite cost, so the assignment
        contains as few pairs with such a cost as possible.

    Returns
    -------
    prediction, target : int64 array of shape (min(prediction, target),)
        Indices of the matched pairs, with ascending `prediction`.

    Notes
    -----
    If SciPy is installed, its `linear_sum_assignment` finds the assignment; otherwise `assign_rows`
    does. Both find the same total cost, but SciPy is faster.

    Examples
    --------
    >>> import numpy as np
    >>> assign(np.array([[1.0, 2.0], [0.0, 4.0], [3.0, 3.0]]))
    (array([0, 1]), array([1, 0]))
    """
    cost = _finite(cost)
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        linear_sum_assignment = _assign_either
    prediction, target = linear_sum_assignment(cost)
    return prediction.astype(xp.int64), target.astype(xp.int64)


def _finite(cost):
    """Replace NaN and infinity with a cost so large that `assign` avoids it wherever possible."""
    known = cost[xp.isfinite(cost)].astype(xp.float64)
    span = xp.ptp(known) if known.size else 0.0
    largest = known.max(initial=0.0) + (span + 1) * min(cost.shape)
    return xp.where(xp.isfinite(cost), cost, largest)


def _assign_either(cost):
    """Assign rows to columns, or columns to rows if there are fewer columns."""
    if cost.shape[0] <= cost.shape[1]:
        return xp.arange(len(cost)), assign_rows(cost)
    row = assign_rows(cost.T)
    return xp.sort(row), xp.argsort(row)


def assign_rows(cost):
    """Assign each row a different column, with the smallest total cost.

    Parameters
    ----------
    cost : array of shape (row, column)
        Finite numbers, with at most as many rows as columns.

    Returns
    -------
    int64 array of shape (row,)
        Column of each row.

    Notes
    -----
    This is the Hungarian method (Kuhn 1955) with shortest augmenting paths (Crouse 2016, "On
    implementing 2D rectangular assignment algorithms"). The method adds one row at a time. A new
    row may take a column from another row, which then takes another column, and so on until a
    column is free. This chain of rows and columns is called an augmenting path. Its length is the
    sum of the reduced costs of its row-column pairs,
        cost[i, j] - row_price[i] - column_price[j] >= 0
    where each row and each column has a price. Dijkstra's algorithm finds the shortest path. The
    prices are then updated. All reduced costs remain nonnegative, and the reduced costs of the
    assigned pairs become 0. An assignment with such prices has the smallest total cost.

    Examples
    --------
    >>> import numpy as np
    >>> assign_rows(np.array([[1.0, 2.0, 9.0], [1.0, 4.0, 3.0]]))
    array([1, 0])
    """
    rows, columns = cost.shape
    row_price, column_price = xp.zeros(rows), xp.zeros(columns)
    row_of = xp.full(columns, -1)  # (column,): the row assigned to it, or -1 if it is free
    for new in range(rows):
        length = xp.full(columns, xp.inf)  # (column,): length of the shortest path to it
        before = xp.full(columns, -1)  # (column,): the column before it on this path
        reached = xp.zeros(columns, bool)  # (column,): whether this path is final
        row, column, here = new, -1, 0.0
        while row >= 0:
            through = here + cost[row] - row_price[row] - column_price
            shorter = ~reached & (through < length)
            length[shorter], before[shorter] = through[shorter], column
            column = xp.where(reached, xp.inf, length).argmin()
            reached[column], here, row = True, length[column], row_of[column]
        step = xp.where(reached, here - length, 0.0)
        column_price -= step
        row_price[new] += here
        taken = reached & (row_of >= 0)
        row_price[row_of[taken]] += step[taken]
        while column >= 0:  # the rows on the path move to the next column
            row_of[column] = new if before[column] < 0 else row_of[before[column]]
            column = before[column]
    taken = xp.flatnonzero(row_of >= 0)
    return taken[xp.argsort(row_of[taken])]


@names_arguments
def hungarian_match(logits, pred_boxes, targets, class_cost=1, bbox_cost=1, giou_cost=1):
    """Match the targets of each image one to one with predictions, at the smallest total cost.

    Parameters
    ----------
    logits : Tensor of shape (batch, query, classes + 1)
        The last class means "no object".
    pred_boxes : Tensor of shape (batch, query, 4)
        Boxes in center format, relative to the size of the image.
    targets : list of dict
        For each image, `class_labels`, an int64 tensor (target,), and `boxes`, a tensor
        (target, 4).
    class_cost, bbox_cost, giou_cost : float, default 1
        Weights of the terms of `matching_cost`. DETR uses 1, 5 and 2.

    Returns
    -------
    list of (int64 Tensor, int64 Tensor)
        For each image, the indices of the matched predictions in ascending order, and the index of
        the target that each of them is matched with.

    Raises
    ------
    ArgumentError
        If all weights are 0.

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
    """Match targets with predictions, as `hungarian_match` does, but return NumPy arrays.

    Predictions may have an additional first axis, (layer, batch, query, ...). The result is then
    one list: the matches of all images in the first layer, followed by the matches of all images in
    the second layer, and so on.
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
            f"{name}: the shapes of logits and pred_boxes do not match",
            got=f"logits {logits.shape}, pred_boxes {boxes.shape}",
            expected="(batch, query, classes + 1) and (batch, query, 4)",
        )
    images = logits.shape[-3]
    if len(targets) != images or not images:
        raise ArgumentError(
            f"{name}: targets must have one dict per image",
            got=f"{len(targets)} targets for {images} images",
            expected="one dict for each image, and at least one image",
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
