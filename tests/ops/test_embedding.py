"""Embedding and one_hot."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.autograd import grad
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

IDS = np.array([[1, 0, 4], [4, 4, 2]])


def embed(**options):
    return lambda weight, ids: mt.embedding(ids, weight, **options)


def without_padding(weight, ids):
    """The gradient check cannot move the padding row, so the reference may."""
    return weight[ids]


CASES = [
    Case("embedding", embed(), lambda w, i: w[i], (5, 3), IDS),
    Case("one id", embed(), lambda w, i: w[i], (5, 3), np.array(2)),
    Case("no ids", embed(), lambda w, i: w[i], (5, 3), np.zeros((2, 0), "int64")),
    Case("int32 ids", embed(), lambda w, i: w[i], (5, 3), IDS.astype("int32")),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


def uses(ids, rows):
    return np.bincount(ids.reshape(-1), minlength=rows).reshape(-1, 1)


def slope(weight, ids, **options):
    y = mt.embedding(mt.tensor(ids, device=weight.device), weight, **options)
    return grad(y.sum(), weight)[0].numpy()


def test_the_gradient_of_a_row_counts_its_uses(make):
    weight = make(6, 3)
    np.testing.assert_array_equal(slope(weight, IDS), uses(IDS, 6) * np.ones(3))


@pytest.mark.parametrize("padding", [4, -2])
def test_the_padding_row_gets_no_gradient(padding, make):
    weight = make(6, 3)
    expected = uses(IDS, 6) * np.ones(3)
    expected[4] = 0
    np.testing.assert_array_equal(slope(weight, IDS, padding_idx=padding), expected)
    ids = mt.tensor(IDS, device=weight.device)
    y = mt.embedding(ids, weight, padding_idx=4)
    np.testing.assert_array_equal(y.numpy(), weight.numpy()[IDS])


def test_the_gradient_can_be_divided_by_frequency(make):
    weight = make(6, 3)
    expected = (uses(IDS, 6) > 0) * np.ones(3)
    np.testing.assert_array_equal(slope(weight, IDS, scale_grad_by_freq=True), expected)


@pytest.mark.parametrize("options", [{"padding_idx": 4}, {"scale_grad_by_freq": True}])
def test_second_derivatives_with_options(options, make, device):
    """The gradient is linear in the incoming gradient: its derivative is the adjoint, exactly."""
    weight, ids = make(5, 3), mt.tensor(IDS, device=device)
    first = make(2, 3, 3)
    second = make(5, 3, requires_grad=False)
    y = mt.embedding(ids, weight, **options)
    (slope_weight,) = grad(y, weight, first, create_graph=True)
    (back,) = grad(slope_weight, first, second, create_graph=True)
    factor = np.ones((5, 1))
    if "padding_idx" in options:
        factor[4] = 0
    else:
        factor /= np.maximum(uses(IDS, 5), 1)
    np.testing.assert_allclose(back.numpy(), (second.numpy() * factor)[IDS])
    assert second.numpy().all()  # read, not written to
    probe = make(2, 3, 3, requires_grad=False)
    third = make(5, 3)
    y = mt.embedding(ids, weight, **options)
    (slope_weight,) = grad(y, weight, first, create_graph=True)
    (back,) = grad(slope_weight, first, third, create_graph=True)
    (again,) = grad(back, third, probe)
    expected = np.zeros((5, 3))
    np.add.at(expected, IDS, probe.numpy())
    np.testing.assert_allclose(again.numpy(), expected * factor)


@pytest.mark.parametrize("p", [2.0, 1.0, float("inf")])
def test_long_rows_are_scaled_down(p, device):
    table = np.array([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]])
    weight = mt.tensor(table, device=device, requires_grad=True)
    ids = mt.tensor([0, 1, 0], device=device)
    mt.embedding(ids, weight, max_norm=1.0, norm_type=p)
    norms = np.linalg.norm(weight.numpy(), p, axis=1)
    np.testing.assert_allclose(norms[0], 1.0, rtol=1e-6)
    np.testing.assert_array_equal(weight.numpy()[1:], table[1:])


@pytest.mark.parametrize("worst", [6, -1, 50257])
def test_an_id_out_of_range_is_an_error(worst, make, device):
    ids = mt.tensor([[0, 5], [worst, 2]], device=device)
    with pytest.raises(IndexRangeError, match="embedding: input holds an index out of range") as e:
        mt.embedding(ids, make(6, 3)).numpy()
    assert f"got       {worst}" in str(e.value)
    assert "from 0 to 5" in str(e.value)
    if device == "cpu":
        assert "at position (1, 0)" in str(e.value)


def test_a_step_needs_no_synchronisation(make, device):
    weight, ids = make(6, 3), mt.tensor(IDS, device=device)
    with forbid_sync():
        mt.embedding(ids, weight, padding_idx=0).sum().backward()
    assert weight.grad.numpy()[4].tolist() == [3, 3, 3]


def test_errors_say_what_was_seen(make, device):
    ids, weight = mt.tensor([0, 1], device=device), make(6, 3)
    with pytest.raises(ShapeError, match="weight must have 2 axes"):
        mt.embedding(ids, weight[0])
    with pytest.raises(ArgumentError, match="padding_idx is out of range"):
        mt.embedding(ids, weight, padding_idx=6)
    with pytest.raises(DTypeError, match="input must hold integers"):
        mt.embedding(ids.double(), weight)


def test_one_hot(device):
    x = mt.tensor([[0, 2], [1, 1]], device=device)
    assert mt.one_hot(x).tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]]]
    assert mt.one_hot(x, 4).shape == (2, 2, 4)
    assert mt.one_hot(x).dtype == mt.int64
    assert mt.one_hot(x[0, 1], 3).tolist() == [0, 0, 1]
    assert mt.one_hot(x[:0], 3).shape == (0, 2, 3)
    with pytest.raises(IndexRangeError, match="one_hot: tensor holds an index out of range"):
        mt.one_hot(x, 2).numpy()
    with pytest.raises(ArgumentError, match="num_classes is missing"):
        mt.one_hot(x[:0])
    with pytest.raises(DTypeError, match="must hold integers"):
        mt.one_hot(x.float())
