"""Matrix norms and linalg.norm, against NumPy's."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, GraphError, ShapeError
from minitorch_attn.gradcheck import gradcheck

INF = float("inf")
BY_ELEMENTS, BY_VALUES = ["fro", 1, -1, INF, -INF], ["nuc", 2, -2]


def reference(x, ord, axis=None, keepdims=False):
    return np.linalg.norm(x, ord, axis, keepdims)


CASES = [
    *[Case(f"norm {ord}", lambda x, ord=ord: mt.linalg.norm(x, ord),
           lambda x, ord=ord: reference(x, ord), (3, 5), second=ord in BY_ELEMENTS)
      for ord in BY_ELEMENTS + BY_VALUES],
    *[Case(f"matrix_norm {ord} of many", lambda x, ord=ord: mt.linalg.matrix_norm(x, ord, (2, 0)),
           lambda x, ord=ord: reference(x, ord, (2, 0)), (3, 2, 5), second=ord in BY_ELEMENTS)
      for ord in BY_ELEMENTS + BY_VALUES],
    *[Case(f"norm {ord} kept", lambda x, ord=ord: mt.linalg.norm(x, ord, (-1, 1), keepdim=True),
           lambda x, ord=ord: reference(x, ord, (-1, 1), True), (2, 3, 5),
           second=ord in BY_ELEMENTS)
      for ord in ("fro", "nuc", 1, INF)],
    Case("norm of all", mt.linalg.norm, lambda x: np.sqrt((x * x).sum()), (2, 3, 5)),
    Case("norm of a vector", lambda x: mt.linalg.norm(x, 3), lambda x: reference(x, 3), (5,)),
    Case("norm of rows", lambda x: mt.linalg.norm(x, 1, 1), lambda x: reference(x, 1, 1), (2, 5)),
    Case("norm of rows, without ord", lambda x: mt.linalg.norm(x, dim=-1, keepdim=True),
         lambda x: reference(x, 2, -1, True), (2, 5)),
    Case("norm of axes, without ord", lambda x: mt.linalg.norm(x, dim=(0, 1)),
         lambda x: np.sqrt((x * x).sum((0, 1))), (2, 5, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (4, 4)])
def test_small_matrices(shape, make):
    x = make(*shape)
    for ord in BY_VALUES:
        want = reference(x.detach().numpy(), ord)
        np.testing.assert_allclose(mt.linalg.norm(x, ord).item(), want, rtol=1e-12)
        assert gradcheck(lambda x, ord=ord: mt.linalg.norm(x, ord), [x])


def test_half_precision(make):
    x = make(3, 5, dtype="float16", requires_grad=False)
    got = mt.linalg.norm(x, "nuc")
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.item(), reference(x.numpy().astype("f4"), "nuc"), rtol=2e-3)


def test_the_second_derivative_of_singular_values_is_refused(make):
    x = make(3, 5)
    with pytest.raises(GraphError, match="second derivative"):
        mt.autograd.grad(mt.linalg.norm(x, "nuc"), x, create_graph=True)


def test_dtypes_and_wrong_calls(make, device):
    whole = mt.tensor([[3, 0], [0, 4]], device=device)
    assert mt.linalg.norm(whole, "nuc", dtype="float64").item() == 7
    for call, error in (
        (lambda: mt.linalg.norm(whole, "nuc"), DTypeError),
        (lambda: mt.linalg.norm(make(2, 3, 5), 2), ShapeError),
        (lambda: mt.linalg.norm(make(2, 3), 3), ArgumentError),
        (lambda: mt.linalg.norm(make(2, 3), "two"), ArgumentError),
        (lambda: mt.linalg.matrix_norm(make(2)), IndexError),
        (lambda: mt.linalg.matrix_norm(make(2, 3), dim=1), ShapeError),
        (lambda: mt.linalg.matrix_norm(make(2, 3), dim=(1, 1)), ArgumentError),
        (lambda: mt.linalg.norm(make(2, 3), 1, dim=(0, 2)), IndexError),
        (lambda: mt.linalg.norm(make(5), "fro"), DTypeError),
    ):
        with pytest.raises(error):
            call()
