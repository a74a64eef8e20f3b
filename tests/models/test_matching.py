"""Hungarian matching: the smallest cost of all assignments, sizes, order, NaN, and errors."""

import itertools
import sys

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models.boxes import box_iou, center_to_corners_format, generalized_box_iou
from minitorch_attn.models.matching import assign, assign_rows, hungarian_match, matching_cost


@pytest.fixture(params=["scipy", "our own"])
def solver(request, monkeypatch):
    """With SciPy, and as if it were not installed."""
    if request.param == "scipy":
        pytest.importorskip("scipy", reason="needs the extra detection")
    else:
        monkeypatch.setitem(sys.modules, "scipy.optimize", None)


def draw(rng, queries=5, counts=(3, 0, 2), classes=7, device="cpu"):
    def tensor(x):
        return mt.tensor(x, device=device)

    logits = tensor(rng.normal(size=(len(counts), queries, classes + 1)))
    boxes = tensor(rng.uniform(0.2, 0.6, (len(counts), queries, 4)))
    targets = [
        {"class_labels": tensor(rng.integers(0, classes, n)),
         "boxes": tensor(rng.uniform(0.2, 0.6, (n, 4)))}
        for n in counts
    ]  # fmt: skip
    return logits, boxes, targets


def cost_by_hand(logits, boxes, target, weights):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    labels, truth = (target[key].numpy() for key in ("class_labels", "boxes"))
    corners = [center_to_corners_format(mt.tensor(x)) for x in (boxes, truth)]
    overlap = generalized_box_iou(*corners).numpy()
    cost = np.zeros((len(boxes), len(truth)))
    for j, i in np.ndindex(*cost.shape):
        terms = -p[j, labels[i]], abs(boxes[j] - truth[i]).sum(), -overlap[j, i]
        cost[j, i] = np.dot(weights, terms)
    return cost


@pytest.mark.parametrize("weights", [(1, 5, 2), (1, 0, 0), (0, 1, 0), (0, 0, 3)])
def test_cost(weights, rng, device):
    logits, boxes, targets = draw(rng, device=device)
    found = matching_cost(
        logits[0], boxes[0], targets[0]["class_labels"], targets[0]["boxes"], *weights
    )
    expected = cost_by_hand(logits[0].numpy(), boxes[0].numpy(), targets[0], weights)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("queries, counts", [(5, (3, 0, 2)), (3, (5,)), (4, (4, 1)), (2, (0,))])
def test_no_assignment_is_cheaper(queries, counts, rng, device, solver):
    logits, boxes, targets = draw(rng, queries, counts, device=device)
    pairs = hungarian_match(logits, boxes, targets, 1, 5, 2)
    for i, (prediction, target) in enumerate(pairs):
        assert prediction.dtype == target.dtype == mt.int64
        prediction, target = prediction.numpy(), target.numpy()
        size = min(queries, counts[i])
        assert len(prediction) == len(set(prediction)) == len(set(target)) == size
        assert (np.diff(prediction) > 0).all()
        cost = cost_by_hand(logits[i].numpy(), boxes[i].numpy(), targets[i], (1, 5, 2))
        if counts[i] > queries:
            cost, prediction, target = cost.T, target, prediction
        rows = range(cost.shape[1])
        least = min(
            sum(cost[list(rows_of), list(rows)])
            for rows_of in itertools.permutations(range(cost.shape[0]), len(rows))
        )
        np.testing.assert_allclose(cost[prediction, target].sum(), least, rtol=1e-12)


def test_the_order_of_the_targets_does_not_matter(rng):
    logits, boxes, targets = draw(rng, 7, (5,))
    order = rng.permutation(5)
    moved = [{key: x[mt.tensor(order)] for key, x in targets[0].items()}]
    (a,), (b,) = (hungarian_match(logits, boxes, t, 1, 5, 2) for t in (targets, moved))
    np.testing.assert_array_equal(a[0].numpy(), b[0].numpy())
    np.testing.assert_array_equal(a[1].numpy(), order[b[1].numpy()])


def test_nothing_is_recorded(rng):
    logits, boxes, targets = draw(rng)
    cost = hungarian_match(logits.requires_grad_(), boxes, targets)
    assert not any(x.requires_grad for pair in cost for x in pair)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_assignments_are_those_of_scipy(dtype, rng):
    solve = pytest.importorskip("scipy.optimize").linear_sum_assignment
    for rows, columns in ((30, 70), (41, 41), (3, 100), (1, 1), (0, 5)):
        for cost in (rng.normal(size=(rows, columns)), rng.integers(-2, 4, (rows, columns))):
            cost = cost.astype(dtype)
            column = assign_rows(cost)
            assert column.shape == (rows,) and len(set(column)) == rows
            least = cost[solve(cost)].sum(dtype=float)
            found = cost[np.arange(rows), column].sum(dtype=float)
            np.testing.assert_allclose(found, least, rtol=1e-12, atol=1e-12)


def test_without_scipy_the_pairs_are_the_same(rng, monkeypatch):
    pytest.importorskip("scipy")
    costs = [rng.normal(size=shape) for shape in ((9, 4), (5, 11), (6, 6), (0, 3), (4, 0))]
    costs[0][2] = np.nan
    known = [assign(cost) for cost in costs]
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    for cost, pairs in zip(costs, known, strict=True):
        for a, b in zip(assign(cost), pairs, strict=True):
            assert a.dtype == b.dtype == np.int64
            np.testing.assert_array_equal(a, b)


def test_nan_and_infinity_are_matched_last(solver):
    cost = np.array([[np.nan, 1.0], [2.0, np.inf], [0.5, -np.inf]], np.float32)
    prediction, target = assign(cost)
    assert [*zip(prediction.tolist(), target.tolist(), strict=True)] == [(0, 1), (2, 0)]


@pytest.mark.parametrize("shift", [-1e6, 0.0, 1e6])
def test_a_pair_without_a_finite_cost_costs_more_than_all_others(solver, shift):
    cost = np.array([[np.nan, 1.0, 2.0], [1.0, np.inf, 9.0], [2.0, 9.0, 9.0]], np.float32)
    prediction, target = assign(cost + np.float32(shift))
    assert np.isfinite(cost[prediction, target]).all() and len(prediction) == 3


def test_costs_near_the_largest_number(solver):
    cost = np.array([[np.nan, np.inf], [3e38, -3e38]], np.float32)
    prediction, target = assign(cost)
    assert prediction.tolist() == [0, 1] and target.tolist() == [0, 1]


def test_cost_leaves_out_the_overlap_without_its_sign(rng):
    """The better of two boxes wins, whichever class it has."""
    boxes = mt.tensor([[[0.5, 0.5, 0.2, 0.2], [0.52, 0.5, 0.2, 0.2]]])
    targets = [{"class_labels": mt.tensor([0]), "boxes": boxes[0, :1]}]
    assert box_iou(*[center_to_corners_format(boxes[0])] * 2)[0, 1].item() > 0.5
    for weights in ((0, 1, 0), (0, 0, 1)):
        (pair,) = hungarian_match(mt.zeros(1, 2, 3), boxes, targets, *weights)
        assert pair[0].tolist() == [0]


def test_errors(rng):
    logits, boxes, targets = draw(rng)
    with pytest.raises(ArgumentError, match="all weights"):
        hungarian_match(logits, boxes, targets, 0, 0, 0)
    with pytest.raises(ArgumentError, match="one dict per image"):
        hungarian_match(logits, boxes, targets[:2])
    with pytest.raises(ShapeError, match="do not match"):
        hungarian_match(logits, boxes[:, :4], targets)
    for bad in ({"class_labels": mt.tensor([1])}, {**targets[0], "class_labels": mt.zeros(3)}):
        with pytest.raises(ShapeError, match="target 1 is invalid"):
            hungarian_match(logits, boxes, [targets[0], bad, targets[2]])
