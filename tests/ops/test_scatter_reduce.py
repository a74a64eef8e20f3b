"""scatter_reduce, against a loop over the elements."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, GraphError, ShapeError

INDEX = np.array([[1, 0, 1], [2, 2, 2], [0, 0, 1], [1, 1, 1]])
COMBINE = {"sum": sum, "prod": np.prod, "mean": lambda v: sum(v) / len(v), "amax": max, "amin": min}


def reference(x, src, index, dim, reduce, include_self):
    """One list of elements for each position, then one number for each list."""
    y, lists = x.copy(), {}
    for place in np.ndindex(*index.shape):
        target = list(place)
        target[dim] = int(index[place])
        lists.setdefault(tuple(target), []).append(src[place])
    for target, values in lists.items():
        y[target] = COMBINE[reduce](([x[target]] if include_self else []) + values)
    return y


def case(reduce, include_self, dim=0, x=(3, 5), src=(4, 3), index=INDEX):
    def call(x, src, index):
        return mt.scatter_reduce(x, dim, index, src, reduce, include_self=include_self)

    def loop(x, src, index):
        return reference(x, src, index, dim, reduce, include_self)

    return Case(f"{reduce}, {include_self}, {dim}", call, loop, x, src, index)


CASES = [case(reduce, include) for reduce in COMBINE for include in (True, False)] + [
    case("amax", True, 1, (4, 3), (5, 7), INDEX),
    case("mean", False, -1, (4, 3), (5, 7), INDEX),
    case("amin", True, 0, (3,), (2,), np.array([2, 2])),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


FACTORS = [(0, 2, 3), (0, 0, 3), (5, 0, 0), (0, 0, 0), (5, 2, 3), (5, 0, 3)]


@pytest.mark.parametrize("factors", FACTORS)
def test_the_gradient_of_a_product_with_zeros(factors, device):
    """Each factor receives the product of the others, also where a factor is 0."""
    values = [float(v) for v in factors]
    x = mt.tensor(values[:1], device=device, requires_grad=True)
    src = mt.tensor(values[1:], device=device, requires_grad=True)
    index = mt.tensor([0, 0], device=device)
    y = mt.scatter_reduce(x, 0, index, src, "prod")
    assert y.tolist() == [np.prod(factors)]
    grads = mt.autograd.grad(y.sum(), (x, src))
    others = [np.prod(np.delete(factors, i)) for i in range(3)]
    assert [*grads[0].tolist(), *grads[1].tolist()] == others
    if 0 in factors:
        y = mt.scatter_reduce(x, 0, index, src, "prod")
        with pytest.raises(GraphError, match="requires nonzero factors"):
            mt.autograd.grad(y.sum(), src, create_graph=True)


@pytest.mark.parametrize("reduce", COMBINE)
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_integers(reduce, dtype, device):
    x, src = np.array([7, 2, 3], dtype), np.array([4, 4, 1, 9], dtype)
    index = np.array([1, 1, 0, 0])
    for include in (True, False):
        got = mt.scatter_reduce(
            *(mt.tensor(a, device=device) if not isinstance(a, int) else a
              for a in (x, 0, index, src)), reduce, include_self=include,
        )  # fmt: skip
        want = np.floor(reference(x.astype(float), src, index, 0, reduce, include))
        assert got.dtype == dtype and got.tolist() == want.tolist()


def test_equal_elements_share_the_gradient(device):
    x = mt.tensor([2.0, 5.0], device=device, requires_grad=True)
    src = mt.tensor([2.0, 1.0, 2.0], device=device, requires_grad=True)
    index = mt.tensor([0, 0, 0], device=device)
    mt.scatter_reduce(x, 0, index, src, "amax").backward(mt.tensor([3.0, 7.0], device=device))
    assert x.grad.tolist() == [1, 7] and src.grad.tolist() == [1, 0, 1]


def test_nan_and_infinity(device):
    x = mt.tensor([1.0, 2.0], device=device)
    index = mt.tensor([0, 1], device=device)
    y = mt.scatter_reduce(x, 0, index, mt.tensor([np.nan, -np.inf], device=device), "amax")
    assert np.isnan(y.numpy()[0]) and y.numpy()[1] == 2


def test_the_method_in_place_and_nothing_to_do(device):
    x = mt.tensor([1.0, 2.0], device=device)
    index, src = mt.tensor([1, 1], device=device), mt.tensor([5.0, 7.0], device=device)
    assert x.scatter_reduce(0, index, src, reduce="sum").tolist() == [1, 14]
    assert x.scatter_reduce_(0, index, src, "mean", include_self=False).tolist() == [1, 6]
    assert mt.scatter_reduce(x, 0, index[:0], src, "amax").tolist() == x.tolist()


def test_wrong_calls(make, device):
    x, index = make(3), mt.tensor([0, 1], device=device)
    for call, error in (
        (lambda: mt.scatter_reduce(x, 0, index, make(2), "product"), ArgumentError),
        (lambda: mt.scatter_reduce(x, 0, index, make(1), "amax"), ShapeError),
        (lambda: mt.scatter_reduce(x, 0, index, make(2, dtype="float32"), "amax"), DTypeError),
        (lambda: mt.scatter_reduce(x, 1, index, make(2), "amax"), IndexError),
        (lambda: mt.scatter_reduce(x, 0, index, 2.0, "sum"), DTypeError),
        (lambda: mt.scatter_reduce(x, 0, index + 2, make(2), "amin").tolist(), IndexError),
    ):
        with pytest.raises(error):
            call()
