"""Average precision: by hand, against COCO's loop, ties, crowds, areas, limits and errors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models.average_precision import average_precision, match_by_score

BOX = [10.0, 10.0, 30.0, 26.0]
TARGET = {"class_labels": [3], "boxes": [BOX]}


def one(*boxes, scores=None, labels=None, targets=TARGET):
    scores = np.linspace(0.9, 0.1, len(boxes)) if scores is None else scores
    labels = [3] * len(boxes) if labels is None else labels
    boxes = np.reshape(np.array(boxes, float), (-1, 4))
    found = {"scores": scores, "labels": labels, "boxes": boxes}
    return average_precision([found], [targets])


def shifted(pixels):
    return [BOX[0] + pixels, BOX[1], BOX[2] + pixels, BOX[3]]


def test_one_target():
    assert one(BOX) == {"AP": 1, "AP50": 1, "AP75": 1, "APs": 1, "APm": -1, "APl": -1}
    assert one() == {"AP": 0, "AP50": 0, "AP75": 0, "APs": 0, "APm": -1, "APl": -1}
    assert one(BOX, labels=[4])["AP"] == 0
    assert one(shifted(5))["AP50"] == 1 and one(shifted(5))["AP75"] == 0  # IoU 0.6
    assert one(shifted(5))["AP"] == pytest.approx(0.3)
    assert one(shifted(20), BOX)["AP50"] == pytest.approx(0.5)  # a wrong box comes first
    assert one(BOX, shifted(20), BOX)["AP50"] == 1  # what follows full recall does not count


def test_no_targets_at_all():
    empty = {"class_labels": [], "boxes": np.zeros((0, 4))}
    assert set(one(BOX, targets=empty).values()) == {-1}
    assert set(average_precision([], []).values()) == {-1}


def test_a_class_without_predictions_counts():
    both = {"class_labels": [3, 5], "boxes": [BOX, BOX]}
    assert one(BOX, targets=both)["AP50"] == 0.5
    assert one(BOX, BOX, labels=[3, 9], targets=both)["AP50"] == 0.5  # class 9 has no targets


def test_scores_of_all_images_are_compared():
    far = {"scores": [0.95], "labels": [3], "boxes": [shifted(40)]}
    near = {"scores": [0.9], "labels": [3], "boxes": [BOX]}
    found = average_precision([far, near], [TARGET, TARGET])
    assert found["AP50"] == pytest.approx(51 / 101 * 0.5)


def test_crowds_and_other_sizes_are_ignored():
    crowd = {"class_labels": [3, 3], "boxes": [BOX, [0, 0, 60, 60]], "iscrowd": [0, 1]}
    inside = [40.0, 40, 50, 50]
    assert one(inside, inside, BOX, targets=crowd)["AP50"] == 1
    large = {"class_labels": [3, 3], "boxes": [BOX, [0, 0, 200, 200]]}
    found = one([0, 0, 200, 200], BOX, targets=large)
    assert found["APs"] == found["APl"] == 1 and found["APm"] == -1
    found = one([0, 0, 210, 210], [0, 0, 200, 200], targets=large)
    assert found["APs"] == 0 and found["APl"] == pytest.approx(0.95)  # 210 is wrong at 0.95
    assert one(BOX, targets={**TARGET, "area": [2000]})["APm"] == 1


def test_limits_of_the_sizes():
    square = [0.0, 0.0, 32.0, 32.0]  # small and medium
    found = one(square, targets={"class_labels": [3], "boxes": [square]})
    assert found["APs"] == found["APm"] == 1 and found["APl"] == -1
    found = one([x + 40 for x in square], BOX)  # the wrong prediction counts, as it is small too
    assert found["APs"] == pytest.approx(0.5)
    square = [0.0, 0.0, 96.0, 96.0]
    found = one(square, targets={"class_labels": [3], "boxes": [square]})
    assert found["APm"] == found["APl"] == 1 and found["APs"] == -1


def test_a_class_without_targets_of_a_size_does_not_count_there():
    both = {"class_labels": [3, 5], "boxes": [BOX, [0, 0, 200, 200]]}
    found = one(BOX, [0, 0, 200, 200], labels=[3, 5], targets=both)
    assert found["APs"] == found["APl"] == 1 and found["APm"] == -1


def test_the_smallest_threshold():
    found = one(shifted(6.5))  # IoU 0.51
    assert found["AP50"] == 1 and found["AP"] == pytest.approx(0.1)


def test_boxes_that_are_parts_of_the_image():
    target = {"class_labels": [3], "boxes": [[x / 100 for x in BOX]], "area": [400]}
    found = one([x / 100 for x in shifted(5)], targets=target)
    assert found["AP"] == pytest.approx(0.3)
    assert one([x / 100 for x in shifted(21)], targets=target)["AP50"] == 0


def test_a_hundred_predictions_count():
    boxes = [shifted(20)] * 100 + [BOX]
    scores = np.linspace(1, 0.5, 101)
    assert one(*boxes, scores=scores)["AP50"] == 0
    assert one(*boxes[1:], scores=scores[1:])["AP50"] == pytest.approx(0.01)


def match_by_loops(iou, crowd, ignored, threshold):
    """The loop of COCO's evaluation program, for one threshold."""
    order = np.argsort(ignored, kind="stable")
    taken, chosen = set(), []
    for row in iou:
        best, value = -1, min(threshold, 1 - 1e-10)
        for g in order:
            if g in taken and not crowd[g]:
                continue
            if best > -1 and not ignored[best] and ignored[g]:
                break
            if row[g] >= value:
                best, value = g, row[g]
        taken.add(best)
        chosen.append(best)
    return chosen


def test_matches_of_cocos_loop(rng):
    for _ in range(40):
        count, targets = rng.integers(0, 6, 2)
        iou = rng.integers(0, 6, (count, targets)) / 5  # with ties
        crowd = rng.random(targets) < 0.2
        ignored = crowd | (rng.random(targets) < 0.3)
        thresholds = np.array([0.2, 0.5, 0.6, 1.0])
        found = match_by_score(iou, crowd, ignored, thresholds)
        for t, threshold in enumerate(thresholds):
            assert found[:, t].tolist() == match_by_loops(iou, crowd, ignored, threshold)


def test_tensors(rng, device):
    found = {
        "scores": mt.tensor([0.5], device=device), "labels": mt.tensor([3], device=device),
        "boxes": mt.tensor([BOX], device=device),
    }  # fmt: skip
    assert average_precision([found], [TARGET])["AP"] == 1


def test_errors():
    with pytest.raises(ArgumentError, match="different lengths"):
        average_precision([], [TARGET])
    with pytest.raises(ShapeError, match="prediction arrays of image 0"):
        one(BOX, scores=[0.5, 0.4])
    with pytest.raises(ShapeError, match="target arrays of image 0"):
        one(BOX, targets={**TARGET, "iscrowd": [0, 1]})
