"""Matrix products of every rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, ShapeError


def product(a, b):
    """a @ b by a plain loop over rows, columns and the leading axes."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, lead + a.shape[-2:])
    b = np.broadcast_to(b, lead + b.shape[-2:])
    c = np.zeros((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    for at in np.ndindex(*lead):
        for i in range(a.shape[-2]):
            for j in range(b.shape[-1]):
                c[(*at, i, j)] = sum(x * y for x, y in zip(a[at][i], b[at][:, j], strict=True))
    return c


MATMUL = [
    Case("two matrices", mt.matmul, product, (2, 3), (3, 5)),
    Case("a batch and a matrix", mt.matmul, product, (7, 2, 3), (3, 5)),
    Case("two batch axes and a matrix", mt.matmul, product, (2, 3, 4, 5), (5, 2)),
    Case("a matrix and a batch", mt.matmul, product, (2, 3), (7, 3, 5)),
    Case("two batches", mt.matmul, product, (7, 2, 3), (7, 3, 5)),
    Case("batches that broadcast", mt.matmul, product, (2, 1, 2, 3), (3, 3, 5)),
    Case("a batch of one and a batch", mt.matmul, product, (1, 2, 3), (5, 3, 2)),
    Case("transposed operands", lambda a, b: a.T @ b.T, lambda a, b: product(a.T, b.T), (3, 2),
         (5, 3)),
    Case("swapped axes of a batch", lambda a, b: a @ b.transpose(-1, -2),
         lambda a, b: product(a, b.swapaxes(-1, -2)), (2, 7, 3), (2, 5, 3)),
    Case("must be vectors", mt.matmul, np.dot, (3,), (3,)),
    Case("a vector and a matrix", mt.matmul, np.matmul, (3,), (3, 5)),
    Case("a matrix and a vector", mt.matmul, np.matmul, (2, 3), (3,)),
    Case("a vector and a batch", mt.matmul, np.matmul, (3,), (2, 7, 3, 5)),
    Case("a batch and a vector", mt.matmul, np.matmul, (7, 2, 3), (3,)),
    Case("a sum over nothing", mt.matmul, product, (2, 0), (0, 5)),
    Case("no rows", mt.matmul, product, (0, 3), (3, 5)),
    Case("no batch", mt.matmul, product, (0, 2, 3), (3, 5)),
    Case("one with itself", lambda a: a @ a, lambda a: product(a, a), (3, 3)),
]  # fmt: skip
NAMED = [
    Case("mm", lambda a, b: a.mm(b), product, (2, 3), (3, 5)),
    Case("bmm", lambda a, b: a.bmm(b), product, (7, 2, 3), (7, 3, 5)),
    Case("bmm of no pairs", mt.bmm, product, (0, 2, 3), (0, 3, 5)),
    Case("mv", lambda a, b: a.mv(b), np.dot, (2, 3), (3,)),
    Case("dot", lambda a, b: a.dot(b), np.dot, (3,), (3,)),
    Case("dot of nothing", mt.dot, np.dot, (0,), (0,)),
    Case("vdot", mt.vdot, np.dot, (3,), (3,)),
    Case("inner", mt.inner, np.inner, (2, 3), (5, 7, 3)),
    Case("inner of vectors", mt.inner, np.inner, (3,), (3,)),
    Case("inner with 0-d", mt.inner, np.inner, (), (2, 3)),
    Case("outer", lambda a, b: a.outer(b), np.outer, (2,), (3,)),
    Case("tensordot", mt.tensordot, np.tensordot, (2, 3, 5), (3, 5, 7)),
    Case("tensordot over named axes", lambda a, b: mt.tensordot(a, b, ((0, -1), (2, 0))),
         lambda a, b: np.tensordot(a, b, ((0, 2), (2, 0))), (2, 3, 5), (5, 7, 2)),
    Case("tensordot over none", lambda a, b: mt.tensordot(a, b, 0),
         lambda a, b: np.tensordot(a, b, 0), (2,), (3,)),
]  # fmt: skip
test_forward, test_gradient, test_second_gradient = checks(MATMUL + NAMED)


def test_integers_multiply_too(device):
    a, b = mt.tensor([[1, 2]], device=device), mt.tensor([[3], [4]], device=device)
    assert (a @ b).tolist() == [[11]]
    assert (a @ b).dtype == mt.int64


BAD = [
    (lambda m: m(2, 3) @ m(2, 3), ShapeError, "inner sizes do not match", "b.swapaxes(-1, -2)"),
    (lambda m: m(3, 2) @ m(3, 5), ShapeError, "inner sizes do not match", "a.swapaxes(-1, -2)"),
    (lambda m: m(3) @ m(2), ShapeError, "inner sizes do not match", "a (3,) and b (2,)"),
    (lambda m: m(2, 2, 3) @ m(5, 3, 2), ShapeError, "do not broadcast", "a (2,) and b (5,)"),
    (lambda m: m() @ m(2), ShapeError, "at least one axis", "use `*`"),
    (lambda m: m(2, 3) @ m(3, 2, dtype="float32"), DTypeError, "dtypes do not", "b.to(a.dtype)"),
    (lambda m: m(2, 3) @ 2.0, DTypeError, "b is not a tensor", "float"),
    (lambda m: m(2, 3).mm(m(3)), ShapeError, "number of axes does not match", "2 and 2 axes"),
    (lambda m: m(2, 3).mm(m(2, 3)), ShapeError, "inner sizes do not match", "(n, k) and (k, m)"),
    (lambda m: m(5, 2, 3).bmm(m(4, 3, 2)), ShapeError, "inner sizes do not match", "(batch, n, k)"),
    (lambda m: m(2).dot(m(3)), ShapeError, "inner sizes do not match", "tensor (3,)"),
    (lambda m: m(2, 3).outer(m(3)), ShapeError, "must be vectors", "input (2, 3)"),
    (lambda m: mt.inner(m(2, 3), m(3, 2)), ShapeError, "inner sizes do not match", "last axes"),
    (lambda m: mt.tensordot(m(2, 3), m(2, 3), 1), ShapeError, "inner sizes do not", "axes (1,)"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make)
    assert detail in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(
    shapes=mutually_broadcastable_shapes(signature="(n,k),(k,m)->(n,m)", max_side=4, min_side=0),
    seed=st.integers(0, 99),
)
def test_products_of_any_shapes(shapes, seed, device):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape) for shape in shapes.input_shapes)
    x = mt.tensor(a, device=device, requires_grad=True)
    y = mt.tensor(b, device=device, requires_grad=True)
    z = x @ y
    np.testing.assert_allclose(z.numpy(), np.matmul(a, b), atol=1e-12)
    weights = rng.standard_normal(z.shape)
    z.backward(mt.tensor(weights, device=device))
    # sum(w * (a @ b)) is linear in a and in b, so <dL/da, a> = <dL/db, b> = L.
    loss = (weights * np.matmul(a, b)).sum()
    assert x.grad.shape == a.shape and y.grad.shape == b.shape
    np.testing.assert_allclose((x.grad.numpy() * a).sum(), loss, atol=1e-9)
    np.testing.assert_allclose((y.grad.numpy() * b).sum(), loss, atol=1e-9)
