"""Messages of ProcessSplit: what arrives equals what was sent, and nothing is unpickled."""

from collections import OrderedDict, namedtuple
from multiprocessing import Pipe
from typing import NamedTuple

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError
from minitorch_attn.nn.masks import Mask, causal
from minitorch_attn.training.split_messages import receive, send


def sent(value):
    here, there = Pipe()
    send(here, value)
    return receive(there)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 0, 3), (5, 7)])
def test_tensors(dtype, shape, rng):
    array = (10 * rng.normal(size=shape)).astype(dtype)
    for strided in (array, array.T, np.repeat(array[..., None], 2, -1)[..., 0]):
        found = sent(mt.tensor(strided)) if strided is array else sent(mt.from_numpy(strided))
        assert isinstance(found, mt.Tensor) and found.numpy().dtype == dtype
        np.testing.assert_array_equal(found.numpy(), strided)
    found.numpy()[...] = 1  # its memory can be written to


def test_nested_values():
    value = {"a": [1, (2.5, None), [], ()], 3: "text", (1, True): {"b": float("inf")}}
    assert sent(value) == value
    assert np.isnan(sent(float("nan")))
    tensors = sent((mt.ones(2), [mt.zeros(3), {"x": mt.ones(1)}]))
    assert tensors[0].shape == (2,) and tensors[1][1]["x"].item() == 1


class Pair(NamedTuple):
    first: object
    second: object


def test_named_tuples():
    found = sent([Pair(mt.ones(2), Pair(1, None))])
    assert type(found[0]) is Pair and found[0].second == Pair(1, None)
    assert found[0].first.shape == (2,)


def test_masks():
    for mask in (causal(3), Mask(mt.tensor([[True, False]]))):
        found = sent(mask)
        assert type(found) is Mask and found.is_causal == mask.is_causal
        assert (found.attend == mask.attend).all()


def local():
    return namedtuple("Local", "a b")(1, 2)


@pytest.mark.parametrize(
    "value", [{1}, object(), b"bytes", np.ones(2), 1j, [{"a": range(2)}], local(), OrderedDict()]
)
def test_other_values_are_refused_before_anything_is_sent(value):
    here, there = Pipe()
    with pytest.raises(DTypeError, match="cannot be sent"):
        send(here, [mt.ones(2), value])
    assert not there.poll()


def test_the_end_of_the_other_process_is_an_error():
    here, there = Pipe()
    here.close()
    with pytest.raises(EOFError):
        receive(there)
