"""Bounding boxes: center and corner formats, intersection over union, and generalized IoU.

A box is four numbers on the last axis. The center format is (center x, center y, width, height),
and the corner format is (left, top, right, bottom), with y growing downwards.
"""

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments

__all__ = [
    "box_area", "box_iou", "center_to_corners_format", "corners_to_center_format",
    "generalized_box_iou", "paired_generalized_iou",
]  # fmt: skip


@names_arguments
def center_to_corners_format(boxes):
    """Convert boxes from center format to corner format.

    Parameters
    ----------
    boxes : Tensor of shape (..., 4)
        Center x, center y, width and height.

    Returns
    -------
    Tensor of shape (..., 4)
        Left, top, right and bottom.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> center_to_corners_format(mt.tensor([5.0, 3.0, 4.0, 2.0]))
    tensor([3., 2., 7., 4.])
    """
    _check_boxes("center_to_corners_format", boxes)
    center, half = boxes[..., :2], boxes[..., 2:] / 2
    return ops.cat([center - half, center + half], -1)


@names_arguments
def corners_to_center_format(boxes):
    """Convert boxes from corner format to center format.

    This is the inverse of `center_to_corners_format`.

    Parameters
    ----------
    boxes : Tensor of shape (..., 4)

    Returns
    -------
    Tensor of shape (..., 4)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> corners_to_center_format(mt.tensor([3.0, 2.0, 7.0, 4.0]))
    tensor([5., 3., 4., 2.])
    """
    _check_boxes("corners_to_center_format", boxes)
    first, last = boxes[..., :2], boxes[..., 2:]
    return ops.cat([(first + last) / 2, last - first], -1)


@names_arguments
def box_area(boxes):
    """Compute the area of boxes in corner format: (..., 4) -> (...).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> box_area(mt.tensor([3.0, 2.0, 7.0, 4.0]))
    tensor(8.)
    """
    _check_boxes("box_area", boxes)
    size = boxes[..., 2:] - boxes[..., :2]
    return size[..., 0] * size[..., 1]


@names_arguments
def box_iou(boxes1, boxes2):
    """Compute the intersection over union (IoU) of each pair of boxes.

    Parameters
    ----------
    boxes1 : Tensor of shape (n, 4)
    boxes2 : Tensor of shape (m, 4)
        Boxes in corner format.

    Returns
    -------
    Tensor of shape (n, m)
        Values between 0 (no overlap) and 1 (equal boxes).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> box_iou(mt.tensor([[0.0, 0.0, 2.0, 2.0]]), mt.tensor([[1.0, 0.0, 3.0, 2.0]]))
    tensor([[0.3333]])
    """
    _check_lists("box_iou", boxes1, boxes2)
    intersection, union = _overlap(boxes1[:, None], boxes2)
    return intersection / union


@names_arguments
def generalized_box_iou(boxes1, boxes2):
    r"""Compute the generalized IoU of each pair of boxes.

    Parameters
    ----------
    boxes1 : Tensor of shape (n, 4)
    boxes2 : Tensor of shape (m, 4)
        Boxes in corner format.

    Returns
    -------
    Tensor of shape (n, m)
        Values between -1 (far apart) and 1 (equal boxes).

    Raises
    ------
    ArgumentError
        If a box has right < left or bottom < top, or contains NaN.

    Notes
    -----
    For boxes A and B, and the smallest box C that encloses both [1]_,
        GIoU = IoU - (area(C) - area(A u B)) / area(C)                 Algorithm 1
    If two boxes do not overlap, their IoU is 0 at any distance, and so is its gradient. The second
    term grows with the distance, so its gradient moves the boxes towards each other.

    References
    ----------
    .. [1] Rezatofighi et al. 2019, "Generalized Intersection over Union", arXiv:1902.09630v2,
       section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> a = mt.tensor([[0.0, 0.0, 1.0, 1.0]])
    >>> generalized_box_iou(a, mt.tensor([[0.0, 0.0, 1.0, 1.0], [3.0, 0.0, 4.0, 1.0]]))
    tensor([[ 1. , -0.5]])
    """
    _check_lists("generalized_box_iou", boxes1, boxes2)
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        if not (boxes[:, 2:] >= boxes[:, :2]).all():
            raise ArgumentError(
                f"generalized_box_iou: {name} must be in corner format",
                got="a box with right < left or bottom < top, or with NaN",
                expected="left <= right and top <= bottom",
                hint="convert centers with center_to_corners_format(boxes)",
            )
    return paired_generalized_iou(boxes1[:, None], boxes2)


def paired_generalized_iou(boxes1, boxes2):
    """Compute the generalized IoU of boxes at the same index; see `generalized_box_iou`.

    Parameters
    ----------
    boxes1, boxes2 : Tensor of shape (..., 4)
        Boxes in corner format. Their shapes broadcast.

    Returns
    -------
    Tensor of shape (...)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> paired_generalized_iou(mt.tensor([0.0, 0.0, 1.0, 1.0]), mt.tensor([3.0, 0.0, 4.0, 1.0]))
    tensor(-0.5)
    """
    intersection, union = _overlap(boxes1, boxes2)
    first = ops.minimum(boxes1[..., :2], boxes2[..., :2])
    last = ops.maximum(boxes1[..., 2:], boxes2[..., 2:])
    size = ops.clamp(last - first, min=0)
    hull = size[..., 0] * size[..., 1]  # area of the enclosing box
    return intersection / union - (hull - union) / hull


def _overlap(boxes1, boxes2):
    """Return the areas of the intersection and of the union of boxes whose shapes broadcast."""
    first = ops.maximum(boxes1[..., :2], boxes2[..., :2])
    last = ops.minimum(boxes1[..., 2:], boxes2[..., 2:])
    size = ops.clamp(last - first, min=0)  # 0 where the boxes do not overlap
    intersection = size[..., 0] * size[..., 1]
    return intersection, box_area(boxes1) + box_area(boxes2) - intersection


def _check_boxes(name, boxes):
    if boxes.ndim == 0 or boxes.shape[-1] != 4:
        raise ShapeError(
            f"{name}: the last axis of boxes must have size 4",
            got=f"boxes {boxes.shape}", expected="(..., 4)",
        )  # fmt: skip


def _check_lists(name, boxes1, boxes2):
    for boxes in (boxes1, boxes2):
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise ShapeError(
                f"{name}: boxes must have two axes, the last of size 4",
                got=f"boxes1 {boxes1.shape}, boxes2 {boxes2.shape}",
                expected="(n, 4) and (m, 4)",
                hint="use boxes.unsqueeze(0) for one box",
            )
