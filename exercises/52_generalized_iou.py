"""Generalized IoU of two boxes.

The IoU of two boxes that do not overlap is 0, whatever the distance between them. The generalized
IoU also measures how much of the smallest enclosing box C is empty:

    GIoU(A, B) = IoU(A, B) - (area(C) - area(A u B)) / area(C)

A detector is trained with the loss 1 - GIoU. The gradient check passes. But boxes that do not
overlap move away from each other. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def area(box):
    """Return the area of each box (left, top, right, bottom), 0 if right < left or bottom < top."""
    size = (box[:, 2:] - box[:, :2]).relu()
    return size[:, 0] * size[:, 1]


def generalized_iou(a, b):
    """Return the generalized IoU of each box in `a` with the box at the same index in `b`."""
    # a, b: (pair, 4)
    overlap = area(mt.cat([mt.maximum(a[:, :2], b[:, :2]), mt.minimum(a[:, 2:], b[:, 2:])], 1))
    hull = area(mt.cat([mt.minimum(a[:, :2], b[:, :2]), mt.maximum(a[:, 2:], b[:, 2:])], 1))
    union = area(a) + area(b) - overlap
    return overlap / union + (hull - union) / hull


if __name__ == "__main__":
    place = mt.rand(5, 2, dtype=mt.float64)
    a = mt.cat([place, place + 0.5], 1).requires_grad_()
    b = mt.cat([place + 0.3, place + 0.9], 1).requires_grad_()
    print(gradcheck_report(generalized_iou, (a, b)).facts())
    print("\ntwo boxes of width 1, with a gap between them:")
    box = mt.tensor([[0.0, 0.0, 1.0, 1.0]])
    for gap in (0.0, 1.0, 4.0):
        shift = mt.tensor([1 + gap, 0.0, 1 + gap, 0.0])
        print(f"gap {gap}: {generalized_iou(box, box + shift).item():.3f}")
