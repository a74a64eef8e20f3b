"""vector_norm: norms of different orders."""

import warnings

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.autograd import grad
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

INF = float("inf")


def reference(x, p, axis=None, keepdims=False):
    size = np.abs(x)
    if p == INF:
        return size.max(axis, keepdims=keepdims)
    if p == -INF:
        return size.min(axis, keepdims=keepdims)
    if p == 0:
        return (x != 0).astype(x.dtype).sum(axis, keepdims=keepdims)
    return ((size**p).sum(axis, keepdims=keepdims) ** (1 / p)).astype(x.dtype)


CASES = [
    *[Case(f"vector_norm {p}", lambda x, p=p: mt.linalg.vector_norm(x, p, 1),
           lambda x, p=p: reference(x, p, 1), (2, 5))
      for p in (0, 1, 2, 3, 4, 0.5, 1.5, 2.5, -1, INF, -INF)],
    Case("vector_norm", mt.linalg.vector_norm, lambda x: reference(x, 2), (2, 3)),
    Case("vector_norm of two", lambda x: mt.linalg.vector_norm(x, 3, (0, 2), keepdim=True),
         lambda x: reference(x, 3, (0, 2), True), (2, 3, 5)),
    Case("vector_norm of 0-d", mt.linalg.vector_norm, np.abs, ()),
    Case("vector_norm of nothing", mt.linalg.vector_norm, lambda x: x.sum(), (0, 3)),
    Case("norm", mt.norm, lambda x: reference(x, 2), (2, 3)),
    Case("norm 1", lambda x: x.norm(1, 0), lambda x: reference(x, 1, 0), (2, 3)),
    Case("norm fro", lambda x: x.norm("fro", 1, True), lambda x: reference(x, 2, 1, True), (2, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF])
def test_slope_at_0(p, device):
    x = mt.tensor([[0.0, 0.0], [3.0, 0.0]], device=device, requires_grad=True)
    mt.linalg.vector_norm(x, p, 1).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0], [p != 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("p", [1.5, 2, 3])
def test_both_derivatives_at_0_and_on_the_unit_sphere(p, device):
    x = mt.tensor([[0.0, 0.0], [1.0, 0.0]], device=device, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (slope,) = grad(mt.linalg.vector_norm(x, p, 1).sum(), x, create_graph=True)
        (second,) = grad((slope * slope).sum(), x)
    np.testing.assert_array_equal(slope.numpy(), [[0, 0], [1, 0]])
    np.testing.assert_array_equal(second.numpy(), [[0, 0], [0, 0]])


def test_dtypes_and_errors(make, device):
    assert mt.norm(make(3), dtype="float32").dtype == np.float32
    whole = mt.tensor([3, 4], device=device)
    with pytest.raises(DTypeError, match="vector_norm.*floating-point"):
        mt.linalg.vector_norm(whole)
    assert mt.linalg.vector_norm(whole, dtype="float64").item() == 5
    with pytest.raises(ArgumentError, match="nuclear"):
        mt.norm(make(2, 2), "nuc")
    with pytest.raises(DTypeError, match="ord is not a number"):
        mt.linalg.vector_norm(make(2), "2")
    for p in (INF, -INF, -1):
        with pytest.raises(ShapeError):
            mt.linalg.vector_norm(make(0, 2), p, 0)
