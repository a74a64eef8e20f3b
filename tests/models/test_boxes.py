"""Boxes: both formats, overlap and generalized IoU against loops, gradients, and invalid boxes."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.models.boxes import (
    box_area,
    box_iou,
    center_to_corners_format,
    corners_to_center_format,
    generalized_box_iou,
    paired_generalized_iou,
)


def corners(rng, *shape):
    first = rng.uniform(0, 5, (*shape, 2))
    return np.concatenate([first, first + rng.uniform(0.5, 4, (*shape, 2))], -1)


def iou_by_hand(a, b, generalized):
    width, height = (max(0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    hull = np.prod([max(a[i + 2], b[i + 2]) - min(a[i], b[i]) for i in (0, 1)])
    return width * height / union - generalized * (hull - union) / hull


def test_formats(rng, device):
    boxes = corners(rng, 3, 5)
    x = mt.tensor(boxes, device=device)
    centers = corners_to_center_format(x)
    expected = np.stack(
        [boxes[..., [0, 2]].mean(-1), boxes[..., [1, 3]].mean(-1),
         boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]], -1,
    )  # fmt: skip
    np.testing.assert_allclose(centers.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(center_to_corners_format(centers).numpy(), boxes, rtol=1e-12)
    np.testing.assert_allclose(box_area(x).numpy(), expected[..., 2] * expected[..., 3])


@pytest.mark.parametrize("counts", [(5, 3), (1, 2), (0, 3), (2, 0)])
@pytest.mark.parametrize("generalized", [False, True])
def test_overlap_against_loops(counts, generalized, rng, device):
    a, b = corners(rng, counts[0]), corners(rng, counts[1])
    function = generalized_box_iou if generalized else box_iou
    found = function(mt.tensor(a, device=device), mt.tensor(b, device=device))
    expected = np.zeros(counts)
    for i, j in np.ndindex(counts):
        expected[i, j] = iou_by_hand(a[i], b[j], generalized)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert found.shape == counts


def test_values_at_the_ends(device):
    a = mt.tensor([[0.0, 0.0, 2.0, 1.0]], device=device)
    far = mt.tensor([[1e4, 0.0, 1e4 + 1, 1e-4]], device=device)
    assert generalized_box_iou(a, a).item() == box_iou(a, a).item() == 1
    assert box_iou(a, far).item() == 0 and -1 < generalized_box_iou(a, far).item() < -0.999


def test_gradients(rng):
    a, b = (mt.tensor(corners(rng, n), requires_grad=True) for n in (5, 3))
    assert gradcheck(box_iou, (a, b)) and gradcheck(generalized_box_iou, (a, b))
    assert gradcheck(paired_generalized_iou, (a[:3].detach().requires_grad_(), b))
    assert gradcheck(center_to_corners_format, (a,)) and gradcheck(corners_to_center_format, (a,))


def test_only_the_generalized_overlap_pulls_distant_boxes_together():
    a = mt.tensor([[0.0, 0.0, 1.0, 1.0]], requires_grad=True)
    b = mt.tensor([[3.0, 0.0, 4.0, 1.0]])
    box_iou(a, b).sum().backward()
    assert not a.grad.numpy().any()
    generalized_box_iou(a, b).sum().backward()
    assert (a.grad.numpy()[0, [2]] > 0).all()  # a larger right side comes closer


def test_pairs_broadcast(rng):
    a, b = corners(rng, 3, 1), corners(rng, 5)
    found = paired_generalized_iou(mt.tensor(a), mt.tensor(b)).numpy()
    expected = generalized_box_iou(mt.tensor(a[:, 0]), mt.tensor(b)).numpy()
    np.testing.assert_array_equal(found, expected)


def test_overlap_does_not_depend_on_the_scale(rng):
    """Boxes of a detector are parts of the image, so their sizes are less than 1."""
    a, b = (mt.tensor(corners(rng, n)) for n in (5, 3))
    for function in (box_iou, generalized_box_iou):
        found = function(a * 0.01, b * 0.01).numpy()
        np.testing.assert_allclose(found, function(a, b).numpy(), rtol=1e-12, atol=1e-12)


def test_float32(rng):
    a = mt.tensor(corners(rng, 5).astype("float32"))
    assert generalized_box_iou(a, a).dtype == mt.float32


@pytest.mark.parametrize("bad", [[3.0, 0.0, 1.0, 1.0], [0.0, 2.0, 1.0, 1.0], [np.nan, 0, 1, 1]])
def test_corners_are_checked(bad):
    good = mt.tensor([[0.0, 0.0, 1.0, 1.0]])
    for pair in ((good, mt.tensor([bad])), (mt.tensor([bad]), good)):
        with pytest.raises(ArgumentError, match="must be in corner format"):
            generalized_box_iou(*pair)


def test_shapes_are_checked():
    for function in (center_to_corners_format, corners_to_center_format):
        for shape in ((2, 3), ()):
            with pytest.raises(ShapeError, match="must have size 4"):
                function(mt.zeros(*shape))
    for function in (box_iou, generalized_box_iou):
        for shapes in (((4,), (2, 4)), ((2, 4), (2, 3)), ((1, 2, 4), (2, 4))):
            with pytest.raises(ShapeError, match="two axes"):
                function(*[mt.zeros(*shape) for shape in shapes])
