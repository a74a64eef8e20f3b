"""Broadcasting: expand, broadcast_to, broadcast_tensors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError

CASES = [
    Case("expand", lambda x: x.expand(5, 2, 3), lambda x: np.broadcast_to(x, (5, 2, 3)), (2, 1)),
    Case("expand with -1", lambda x: x.expand(-1, 3), lambda x: np.broadcast_to(x, (2, 3)), (2, 1)),
    Case("expand to nothing", lambda x: x.expand(0, 3), lambda x: np.broadcast_to(x, (0, 3)),
         (1, 3)),
    Case("expand_as", lambda x, y: x.expand_as(y), lambda x, y: np.broadcast_to(x, (2, 3)), (3,),
         (2, 3)),
    Case("broadcast_to", lambda x: mt.broadcast_to(x, (2, 3)), lambda x: np.broadcast_to(x, (2, 3)),
         ()),
    Case("broadcast_tensors", mt.broadcast_tensors, np.broadcast_arrays, (3, 1), (2, 1, 5), ()),
    Case("expand to the same shape", lambda x: x.expand(2, 3), lambda x: x, (2, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_expansions_share_memory_and_version(make):
    x = make(2, 1, requires_grad=False)
    views = x.expand(2, 3), x.expand(2, 1), x.expand(5, 2, 1), mt.broadcast_tensors(x, x.T)[0]
    x[0, 0] = 100.0
    assert all(view.numpy().reshape(-1)[0] == 100 for view in views)
    assert all(view._version is x._version for view in views)


BAD = [
    (lambda x: x.expand(2, 4), ShapeError, "does not broadcast to size", "size (2, 4)"),
    (lambda x: x.expand(-1, 2, 3), ShapeError, "does not broadcast to size", "size (-1, 2, 3)"),
    (lambda x: x.expand(3), ShapeError, "does not broadcast to size", "size (3,)"),
    (lambda x: mt.broadcast_tensors(x, x.T), ShapeError, "do not broadcast", "on axis -2"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), shape=SHAPES)
def test_expanding_any_shape(data, shape, device):
    lead = data.draw(st.lists(st.integers(0, 3), max_size=2))
    target = [*lead, *[data.draw(st.integers(0, 3)) if n == 1 else n for n in shape]]
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device, requires_grad=True)
    y = mt.expand(x, target)
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(array, target))
    y.backward(mt.ones(*target, dtype=mt.float64, device=device))
    uses = y.numpy().size // max(array.size, 1)
    np.testing.assert_array_equal(x.grad.numpy(), np.full(shape, float(uses)))
