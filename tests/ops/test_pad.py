"""pad: add elements at the edges of a tensor, or remove them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError

CASES = [
    Case("zeros", lambda x: mt.pad(x, (1, 2)), lambda x: np.pad(x, ((0, 0), (1, 2))), (2, 3)),
    Case("a value on two axes", lambda x: mt.pad(x, (1, 0, 0, 2), value=7.5),
         lambda x: np.pad(x, ((0, 2), (1, 0)), constant_values=7.5), (2, 3)),
    Case("cut off", lambda x: mt.pad(x, (-1, -2)), lambda x: x[:, 1:-2], (2, 5)),
    Case("cut off and added", lambda x: mt.pad(x, (-1, 2, 1, -1)),
         lambda x: np.pad(x[:-1, 1:], ((1, 0), (0, 2))), (3, 5)),
    Case("nothing", lambda x: mt.pad(x, ()), lambda x: x, (2, 3)),
    Case("around nothing", lambda x: mt.pad(x, (1, 1)), lambda x: np.zeros((2, 2), x.dtype),
         (2, 0)),
    Case("reflect", lambda x: mt.pad(x, (2, 1), "reflect"),
         lambda x: np.pad(x, ((0, 0), (2, 1)), "reflect"), (2, 3)),
    Case("reflect two axes", lambda x: mt.pad(x, (2, 1, 1, 0), mode="reflect"),
         lambda x: np.pad(x, ((0, 0), (1, 0), (2, 1)), "reflect"), (2, 3, 5)),
    Case("reflect and cut off", lambda x: mt.pad(x, (-1, 2), "reflect"),
         lambda x: np.pad(x, ((0, 0), (0, 2)), "reflect")[:, 1:], (2, 5)),
    Case("replicate", lambda x: mt.pad(x, (2, 4), "replicate"),
         lambda x: np.pad(x, ((0, 0), (2, 4)), "edge"), (2, 3)),
    Case("circular", lambda x: mt.pad(x, (3, 1), "circular"),
         lambda x: np.pad(x, ((0, 0), (3, 1)), "wrap"), (2, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_integers_and_booleans_are_padded_too(device):
    x = mt.tensor([[True, False]], device=device)
    assert mt.pad(x, (0, 1), value=True).numpy().tolist() == [[True, False, True]]
    assert mt.pad(x.long(), (1, 0), value=-1).numpy().tolist() == [[-1, 1, 0]]


BAD = [
    (lambda x: mt.pad(x, (1,)), ArgumentError, "pad must hold", "pad=(1,)"),
    (lambda x: mt.pad(x, (1, 1) * 3), ArgumentError, "at most one pair per axis", "input (2, 3)"),
    (lambda x: mt.pad(x, (-2, -2)), ShapeError, "crops more entries than", "pad=(-2, -2)"),
    (lambda x: mt.pad(x, (3, 0), "reflect"), ShapeError, "is too large", "at most 2"),
    (lambda x: mt.pad(x, (0, 4), "circular"), ShapeError, "is too large", "at most 3"),
    (lambda x: mt.pad(x[:, :0], (1, 0), "replicate"), ShapeError, "is too large", "at most 0"),
    (lambda x: mt.pad(x, (1, 1), "mirror"), ArgumentError, "mode is not supported", "'reflect'"),
    (lambda x: mt.pad(x, (1, 1), "reflect", 2.0), ArgumentError, "requires mode=", "2.0"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    data=st.data(),
    mode=st.sampled_from([("constant", "constant"), ("replicate", "edge"), ("circular", "wrap")]),
)
def test_any_pads_of_any_shape(shape, data, mode, device):
    ours, numpys = mode
    pairs = [(data.draw(st.integers(0, n)), data.draw(st.integers(0, n))) for n in shape]
    array = np.random.default_rng(0).standard_normal(shape)
    flat = [n for pair in reversed(pairs) for n in pair]
    padded = mt.pad(mt.tensor(array, device=device), flat, ours)
    np.testing.assert_array_equal(padded.numpy(), np.pad(array, pairs, numpys))
    back = mt.pad(padded, [-n for n in flat])
    np.testing.assert_array_equal(back.numpy(), array)
