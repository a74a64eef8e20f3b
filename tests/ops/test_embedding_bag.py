"""Embedding bags: values against a loop, gradients, offsets and padding."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck

IDS = [2, 4, 2, 0, 1, 4, 3]
BAGS = [([0, 3, 3, 5], [[2, 4, 2], [], [0, 1], [4, 3]]), ([0], [IDS]), ([0, 7], [IDS, []])]


def reference(bags, table, mode, padding_idx=None):
    rows = []
    for bag in bags:
        chosen = table[[i for i in bag if i != padding_idx]]
        empty = np.zeros(table.shape[1])
        rows.append(getattr(chosen, mode)(0) if len(chosen) else empty)
    return np.array(rows)


@pytest.mark.parametrize("padding_idx", [None, 4, -1])
@pytest.mark.parametrize(("offsets", "bags"), BAGS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_different_lengths(mode, offsets, bags, padding_idx, make, device):
    table, ids = make(5, 3), mt.tensor(IDS, device=device)
    offsets = mt.tensor(offsets, device=device)

    def bag(table):
        return mt.embedding_bag(ids, table, offsets, mode=mode, padding_idx=padding_idx)

    padding = None if padding_idx is None else 4
    expected = reference(bags, table.detach().numpy(), mode, padding)
    np.testing.assert_allclose(bag(table).detach().numpy(), expected, atol=1e-12)
    assert gradcheck(bag, table)
    assert gradgradcheck(bag, table)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_length(mode, make, device):
    table, ids = make(5, 3), mt.tensor([[2, 4], [0, 0]], device=device)
    got = mt.embedding_bag(ids, table, mode=mode)
    expected = reference(ids.tolist(), table.detach().numpy(), mode)
    np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_ids_and_no_bags(mode, device):
    table = mt.ones(5, 3, device=device)
    none = mt.zeros(0, dtype=mt.int64, device=device)
    assert mt.embedding_bag(none, table, mt.tensor([0, 0], device=device), mode=mode).tolist() == [
        [0.0] * 3,
        [0.0] * 3,
    ]
    assert mt.embedding_bag(none, table, none, mode=mode).shape == (0, 3)
    assert mt.embedding_bag(none.reshape(0, 2), table, mode=mode).shape == (0, 3)


def test_weights_for_each_id_and_the_last_offset(make, device):
    table, weights = make(5, 3), make(7)
    ids, offsets = mt.tensor(IDS, device=device), mt.tensor([0, 3, 7], device=device)

    def bag(table, weights):
        return mt.embedding_bag(
            ids, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )

    rows = table.detach().numpy()[IDS] * weights.detach().numpy()[:, None]
    expected = [rows[:3].sum(0), rows[3:].sum(0)]
    np.testing.assert_allclose(bag(table, weights).detach().numpy(), expected, atol=1e-12)
    assert gradcheck(bag, (table, weights))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "min"}, ArgumentError, "mode is not supported"),
        ({"offsets": None}, ShapeError, "input must have 2 axes"),
        ({"offsets": mt.tensor([1, 2])}, ArgumentError, "must start with 0"),
        ({"offsets": mt.tensor([0, 3, 2])}, ArgumentError, "not decrease"),
        ({"offsets": mt.tensor([0, 8])}, ArgumentError, "not exceed"),
        ({"per_sample_weights": mt.ones(7)}, ArgumentError, "per_sample_.*requires mode='sum'"),
        ({"per_sample_weights": mt.ones(6), "mode": "sum"}, ArgumentError, "shape of input"),
    ],
)
def test_wrong_arguments(options, error, message):
    options = {"offsets": mt.tensor([0, 3])} | options
    with pytest.raises(error, match=message):
        mt.embedding_bag(mt.tensor(IDS), mt.ones(5, 3), **options)


def test_the_gradient_is_divided_by_the_number_of_uses(device):
    table = mt.ones(5, 1, device=device).requires_grad_()
    ids, offsets = mt.tensor([0, 1, 1, 2, 2, 2, 2], device=device), mt.tensor([0, 5], device=device)
    mt.embedding_bag(ids, table, offsets, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert table.grad.numpy().ravel().tolist() == [1, 1, 1, 0, 0]
